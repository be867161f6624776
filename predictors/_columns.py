"""Kernels for predictors that read their estimate off the row: no model, only the history's own columns."""

import math

import numpy as np
import numpy.typing as npt

from predictors._history import consume
from predictors.data.compiled import compiled
from predictors.data.events import JOB, KIND, SUBMITTED
from predictors.data.joblog import Ints

Floats = npt.NDArray[np.float64]


@compiled
def column_mean(row: Floats, first: int, whole: bool) -> float:
    """Mean of the row's columns from `first` on, rounded down if `whole`; NaN if one is missing."""
    total = 0.0
    for k in range(first, len(row)):
        total += row[k]
    mean = total / (len(row) - first)
    return math.floor(mean) if whole and not np.isnan(mean) else mean


@compiled
def column_means(rows: Floats, first: int, whole: bool, out: Floats) -> None:
    """`column_mean` of each row."""
    for i in range(len(rows)):
        out[i] = column_mean(rows[i], first, whole)


@compiled
def advance(
    events: Ints, seconds: Floats, rows: Floats, jobs: Ints, users: Ints, clock: Ints, recent: Floats, rule: Floats
) -> int:
    """Take in events, and write the capped column mean of each submitted job; column 0 is the requested time.

    `rule` holds the first column of the mean, whether to round it, whether to cap it, what stands in for an unknown
    request, and the least capped estimate: one array, since each argument of a compiled call costs time.

    Returns what `consume` does: -1, or the position of an event that cannot be.
    """
    bad = consume(events, rows, jobs, users, clock, recent)
    if bad >= 0:
        return bad
    first, whole, cap = int(rule[0]), rule[1] != 0, rule[2] != 0
    for i in range(len(events)):
        if events[i, KIND] == SUBMITTED:
            job = events[i, JOB]
            request = rows[job, 0]
            estimate = column_mean(rows[job], first, whole)
            if np.isnan(estimate):
                estimate = request if request > 0 else rule[3]
            if cap:
                if request > 0:
                    estimate = min(estimate, request)
                estimate = max(estimate, rule[4])
            seconds[job] = estimate
    return -1
