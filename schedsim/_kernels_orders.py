"""Keys of the orders, smaller first, as int64 that sort like the real numbers they stand for.

This is the one place where keys are computed. Only IEEE basic operations and square roots (both exactly rounded) and
the C library's log10 and log2 of one number are used, in the order written, so that the same formula in plain
Python gives the same last bit; NumPy's vectorised logarithms and powers may differ there, and a tie more or less is
another schedule.
"""

import math
from typing import Final

import numpy as np

from predictors.data.compiled import lean

FCFS: Final = 0
SJF: Final = 1
LJF: Final = 2
SAF: Final = 3
LAF: Final = 4
F1: Final = 5
F2: Final = 6
F3: Final = 7
F4: Final = 8
WIDEST: Final = 9
RANDOM: Final = 10
WFP3: Final = 11  # from here on keys change with time
UNICEP: Final = 12
SCORE: Final = 13  # see `_kernels_score`
USER: Final = 14


@lean
def sortable(x: float) -> int:
    """Return an int64 that sorts like `x` among its equals; -0.0 counts as 0.0. Not for NaN."""
    bits = np.float64(x + 0.0).view(np.int64)
    return int(bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF)


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
def static_key(code: int, row: int, since: int, procs: int, estimate: int, seed: int, job_id: int) -> int:
    """Return the key of a job under a static order; `since` is max(1, submit - first submit) [s]."""
    if code == SJF:
        return estimate
    if code == LJF:
        return -estimate
    if code == SAF:
        return estimate * procs
    if code == LAF:
        return -estimate * procs
    if code == F1:
        return sortable(math.log10(estimate) * procs + 870.0 * math.log10(since))
    if code == F2:
        return sortable(math.sqrt(estimate) * procs + 25600.0 * math.log10(since))
    if code == F3:
        return sortable(float(estimate) * procs + 6860000.0 * math.log10(since))
    if code == F4:
        return sortable(estimate * math.sqrt(procs) + 530000.0 * math.log10(since))
    if code == WIDEST:
        return -procs
    if code == RANDOM:
        return mixed(seed, job_id, 0)
    return row


@lean
def dynamic_key(code: int, wait: int, procs: int, requested: int) -> int:
    """Return the key now of a job under WFP3 or UNICEP; `wait` and `requested` in seconds."""
    if code == WFP3:
        ratio = wait / requested
        return sortable(-(ratio * ratio * ratio * procs))
    return sortable(-(wait / (max(1.0, math.log2(procs)) * requested)))
