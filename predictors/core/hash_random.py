"""Random numbers that depend on nothing but (seed, number, purpose): no stream, so that no order of calls matters."""

import math

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled, lean


@lean
def mixed(seed: int, job_id: int, purpose: int) -> int:
    """Return 63 bits that look random and depend on nothing else (splitmix64 over the three numbers)."""
    z = np.uint64(0)
    for part in (seed, job_id, purpose):
        z = (z ^ np.uint64(part)) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return int(np.int64(z >> np.uint64(1)))


@lean
def unit(seed: int, number: int, purpose: int) -> float:
    """Return a number in [0, 1), uniform."""
    return float((mixed(seed, number, purpose) >> 10) / 9007199254740992.0)  # 53 bits


@lean
def normal(seed: int, number: int, purpose: int) -> float:
    """Return a standard normal number (Box and Muller's, from the two halves of one hash)."""
    bits = mixed(seed, number, purpose)
    radius = math.sqrt(-2.0 * math.log(((bits >> 32) + 0.5) / 2147483648.0))
    return float(radius * math.cos(2.0 * np.pi * (bits & 0xFFFFFFFF) / 4294967296.0))


@compiled
def uniform(seed: int, job_id: Ints, purpose: int, out: Floats) -> None:
    """Write a number in [0, 1) for each job id."""
    for i in range(len(job_id)):
        out[i] = (mixed(seed, job_id[i], purpose) >> 10) / 9007199254740992.0  # 53 bits
