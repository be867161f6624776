"""Kernels of SC'15's online regression: a row's inputs, its estimate, and what one outcome teaches.

A row's columns stand in the order of `predictors.gaussier.FEATURES`.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors._nag import NORM, SEEN, descend, dot, in_range_one, quadratic, rescale
from predictors.base import UNKNOWN_REQUEST
from predictors.data.compiled import compiled
from predictors.data.events import ENDED, JOB, KIND, SUBMITTED, TIME
from predictors.data.joblog import Ints

Floats = npt.NDArray[np.float64]

REQUESTED: Final = 0
FIRST_PAST: Final = 1
"""From here on: run times of the past; where missing, the request stands in, and it bounds them."""
FIRST_AMOUNT: Final = 4
"""From here on: amounts as they are; where missing, 0."""
PROCS: Final = 4
HOUR: Final = 11
WEEKDAY: Final = 12
N_INPUTS: Final = 1 + HOUR + 4
N_DENSE: Final = N_INPUTS + (N_INPUTS - 1) * N_INPUTS // 2

LONGEST: Final = 1e9
"""Estimates end here [s]."""
_HOURS: Final = 2.0 * math.pi / 24.0


@compiled
def write_inputs(row: Floats, z: Floats) -> None:
    """Write a row's inputs."""
    request = row[REQUESTED]
    request = min(request, LONGEST) if request > 0 else UNKNOWN_REQUEST
    z[0], z[1] = 1.0, request
    for c in range(FIRST_PAST, FIRST_AMOUNT):
        z[1 + c] = min(row[c], request) if row[c] == row[c] else request
    for c in range(FIRST_AMOUNT, HOUR):
        z[1 + c] = row[c] if row[c] == row[c] else 0.0
    z[1 + HOUR : N_INPUTS] = 0.0
    day, week = row[HOUR] * _HOURS, (row[HOUR] + 24.0 * row[WEEKDAY]) * _HOURS / 7.0
    if not np.isnan(day):
        z[1 + HOUR], z[2 + HOUR] = math.cos(day), math.sin(day)
    if not np.isnan(week):
        z[3 + HOUR], z[4 + HOUR] = math.cos(week), math.sin(week)


@compiled
def estimate(row: Floats, weights: Floats, sums: Floats) -> float:
    """Return seconds for one row; NaN before the first lesson."""
    if not sums[SEEN] > 0:
        return np.nan
    z, x = np.empty(N_INPUTS), np.empty(N_DENSE)
    write_inputs(row, z)
    quadratic(z, x)
    return min(abs(dot(x, weights)), LONGEST)


@compiled
def estimates(rows: Floats, weights: Floats, sums: Floats, out: Floats) -> None:
    """`estimate` of each row."""
    for i in range(len(rows)):
        out[i] = estimate(rows[i], weights, sums)


@compiled
def slope_of_loss(predicted: float, seconds: float, procs: float) -> float:
    """Slope of the loss by the prediction: squared above the run time, linear below, times log(area)."""
    area = seconds * procs if procs > 0 else seconds
    weight = math.log(area) if area > 1 else 0.0
    if predicted > seconds:
        return 2.0 * weight * (predicted - seconds)
    return -weight if predicted < seconds else 0.0


@compiled
def learn(
    row: Floats, seconds: float, rate: float, ridge: float,
    weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Learn from one job that ran for `seconds`; of 0 s, nothing."""
    if not seconds > 0:
        return
    z, x = np.empty(N_INPUTS), np.empty(N_DENSE)
    write_inputs(row, z)
    quadratic(z, x)
    sums[NORM] += rescale(x, weights, scales)
    sums[SEEN] += 1.0
    slope = slope_of_loss(dot(x, weights), seconds, row[PROCS])
    descend(x, slope, rate * math.sqrt(sums[SEEN] / sums[NORM]), ridge, weights, scales, squares)


@compiled
def learn_rows(
    rows: Floats, seconds: Floats, rate: float, ridge: float,
    weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """`learn` from each row in turn."""
    for i in range(len(rows)):
        learn(rows[i], seconds[i], rate, ridge, weights, scales, squares, sums)


@compiled
def advance(
    events: Ints, seconds: Floats, rows: Floats, jobs: Ints, learns: bool, cap: bool,
    rate: float, ridge: float, weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Go through events: write the prediction of each submitted job, and learn from each that ended."""
    for i in range(len(events)):
        job = events[i, JOB]
        if events[i, KIND] == SUBMITTED:
            seconds[job] = in_range_one(estimate(rows[job], weights, sums), rows[job, REQUESTED], cap)
        elif events[i, KIND] == ENDED and learns:
            ran = float(events[i, TIME] - jobs[job, at.START])
            learn(rows[job], ran, rate, ridge, weights, scales, squares, sums)
