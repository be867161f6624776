"""Kernels of the online linear predictor: a row's inputs, its estimate, one step of learning.

A row's columns stand in the order of `predictors.models.online.linear.FEATURES`. Inputs are the request; run times and
elapsed times of the past [s], none above the request; logarithms of amounts; the time of day and of the week; and all
products of two of these. In addition each known combination of categories (the user, the user with this request, …)
marks one weight of a table, found by a hash; two that meet share it.
"""

import math
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.events import ENDED, JOB, KIND, SUBMITTED, TIME
from predictors.core.jit import compiled
from predictors.history import _layout as at
from predictors.models.online._nag import (
    LONGEST,
    SEEN,
    descend,
    descend_marks,
    dot,
    quadratic,
    rescale,
    squared_loss_rate,
    write_time,
)
from predictors.models.prediction import in_range_one, is_none, known_request

REQUESTED: Final = 0
FIRST_PAST: Final = 1  # from here on: run times of the past; where missing, the request stands in
FIRST_RUNNING: Final = 5  # from here on: elapsed times; where missing, 0
FIRST_AMOUNT: Final = 7  # from here on: amounts, taken as log(1 + amount); where missing, 0
PROCS: Final = 7
HOUR: Final = 13
WEEKDAY: Final = 14
USER: Final = 15
GROUP: Final = 16
EXECUTABLE: Final = 17

N_INPUTS: Final = 1 + HOUR + 4 + 1
"""The constant, the columns before the hour, two circles of two coordinates, and the mark of a user without history."""
N_DENSE: Final = N_INPUTS + (N_INPUTS - 1) * N_INPUTS // 2
TABLE: Final = 1 << 16  # weights of marks; a power of two
N_MARKS: Final = 7

EXACT: Final = 2.0**53
"""Below, every whole number is a float64 of its own; the hashes that stand for names in the service lie there."""
LONGEST_REQUEST: Final = 30.0 * 86400.0
"""A longer request [s] counts as this long: it means that none was set, and would dominate the others."""
MARKS_STEP: Final = 2.0
"""Factor of the steps of marks, which are longer since each mark is there in few of the jobs only."""


@compiled
def write_inputs(row: Floats, z: Floats) -> float:
    """Write a row's inputs; return its request as the inputs see it [s]."""
    request = row[REQUESTED]
    request = min(known_request(request), LONGEST_REQUEST)
    z[0], z[1] = 1.0, request
    for c in range(FIRST_PAST, FIRST_AMOUNT):
        x = row[c]
        if np.isnan(x):
            x = request if c < FIRST_RUNNING else 0.0
        z[1 + c] = min(max(x, 0.0), request)
    for c in range(FIRST_AMOUNT, HOUR):
        z[1 + c] = math.log1p(max(row[c], 0.0)) if row[c] == row[c] else 0.0
    write_time(row[HOUR], row[WEEKDAY], z, 1 + HOUR)
    z[5 + HOUR] = 1.0 if np.isnan(row[FIRST_PAST]) else 0.0
    return request


@compiled
def place(salt: int, a: float, b: float, c: float) -> int:
    """Return the weight that a combination of categories marks; -1 if one is unknown."""
    if not (abs(a) < EXACT and abs(b) < EXACT and abs(c) < EXACT):
        return -1
    key = np.uint64(salt)
    for part in (a, b, c):
        key ^= np.uint64(np.int64(part))
        key *= np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    key *= np.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> np.uint64(32)
    return N_DENSE + int(np.int64(key & np.uint64(TABLE - 1)))


@compiled
def write_marks(row: Floats, marks: Ints) -> None:
    user, procs, request = row[USER], row[PROCS], row[REQUESTED]
    marks[0] = place(1, user, 0.0, 0.0)
    marks[1] = place(2, row[GROUP], 0.0, 0.0)
    marks[2] = place(3, row[EXECUTABLE], 0.0, 0.0)
    marks[3] = place(4, user, request, 0.0)
    marks[4] = place(5, user, procs, 0.0)
    marks[5] = place(6, user, procs, request)
    marks[6] = place(7, procs, request, 0.0)


@compiled
def answer(x: Floats, marks: Ints, request: float, weights: Floats) -> float:
    """Return the model's value for inputs and marks, in [0, request] [s]."""
    total = dot(x, weights)
    for k in marks:
        if k >= 0:
            total += weights[k]
    return min(max(total, 0.0), request)


@compiled
def estimate(row: Floats, weights: Floats, sums: Floats) -> float:
    """Return seconds for one row, none above the longest run time learnt from; NaN before the first."""
    if not sums[SEEN] > 0:
        return np.nan
    z, x, marks = np.empty(N_INPUTS), np.empty(N_DENSE), np.empty(N_MARKS, dtype=np.int64)
    request = write_inputs(row, z)
    quadratic(z, x)
    write_marks(row, marks)
    return min(answer(x, marks, request, weights), float(sums[LONGEST]))


@compiled
def estimates(rows: Floats, weights: Floats, sums: Floats, out: Floats) -> None:
    for i in range(len(rows)):
        out[i] = estimate(rows[i], weights, sums)


@compiled
def learn(
    row: Floats, seconds: float, rate: float, weights: Floats, scales: Floats, squares: Floats, sums: Floats
) -> None:
    """Learn from one job that ran for `seconds`; of 0 s, nothing."""
    if not seconds > 0:
        return
    z, x, marks = np.empty(N_INPUTS), np.empty(N_DENSE), np.empty(N_MARKS, dtype=np.int64)
    request = write_inputs(row, z)
    quadratic(z, x)
    write_marks(row, marks)
    norm = rescale(x, weights, scales)
    for k in marks:
        if k >= 0:
            norm += 1.0
    error = answer(x, marks, request, weights) - seconds
    step = squared_loss_rate(rate, error, norm, sums)
    sums[LONGEST] = max(sums[LONGEST], seconds)
    descend(x, error, step, 0.0, weights, scales, squares)
    descend_marks(marks, error, MARKS_STEP * step, weights, squares)


@compiled
def learn_rows(
    rows: Floats, seconds: Floats, rate: float, weights: Floats, scales: Floats, squares: Floats, sums: Floats
) -> None:
    for i in range(len(rows)):
        learn(rows[i], seconds[i], rate, weights, scales, squares, sums)


@compiled
def advance(
    events: Ints, seconds: Floats, rows: Floats, jobs: Ints, learns: bool, cap: bool,
    rate: float, weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> int:  # fmt: skip
    """Go through events: write the prediction of each submitted job, and learn from each that ended.

    Returns how many jobs had no estimate.
    """
    without = 0
    for i in range(len(events)):
        job = events[i, JOB]
        if events[i, KIND] == SUBMITTED:
            found = estimate(rows[job], weights, sums)
            without += is_none(found)
            seconds[job] = in_range_one(found, rows[job, REQUESTED], cap)
        elif events[i, KIND] == ENDED and learns:
            learn(rows[job], float(events[i, TIME] - jobs[job, at.START]), rate, weights, scales, squares, sums)
    return without
