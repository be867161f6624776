"""Random numbers that depend on nothing but (seed, number, purpose): no stream, so that no order of calls matters."""

import math

import numpy as np

from predictors.data.compiled import lean
from schedsim._kernels_orders import mixed


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
