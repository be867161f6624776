"""Gaussier et al.'s online regression (SC 2015).

A row's columns stand in the order of `predictors.models.online.gaussier.FEATURES`.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.events import ENDED, JOB, KIND, SUBMITTED, TIME
from predictors.core.jit import compiled
from predictors.core.params import NotNegative, Positive
from predictors.history import _layout as at
from predictors.models.online._nag import NORM, SEEN, descend, dot, quadratic, rescale, write_time
from predictors.models.online.base import Kernels, OnlinePredictor
from predictors.models.prediction import in_range_one, is_none, known_request

REQUESTED: Final = 0
FIRST_PAST: Final = 1  # from here on: run times of the past; where missing, the request stands in, and it bounds them
FIRST_AMOUNT: Final = 4  # from here on: amounts as they are; where missing, 0
PROCS: Final = 4
HOUR: Final = 11
WEEKDAY: Final = 12
N_INPUTS: Final = 1 + HOUR + 4
N_DENSE: Final = N_INPUTS + (N_INPUTS - 1) * N_INPUTS // 2

LONGEST: Final = 1e9  # estimates end here [s]


@compiled
def write_inputs(row: Floats, z: Floats) -> None:
    request = row[REQUESTED]
    request = min(known_request(request), LONGEST)
    z[0], z[1] = 1.0, request
    for c in range(FIRST_PAST, FIRST_AMOUNT):
        z[1 + c] = min(row[c], request) if row[c] == row[c] else request
    for c in range(FIRST_AMOUNT, HOUR):
        z[1 + c] = row[c] if row[c] == row[c] else 0.0
    write_time(row[HOUR], row[WEEKDAY], z, 1 + HOUR)


@compiled
def estimate(row: Floats, weights: Floats, sums: Floats) -> float:
    """Return seconds for one row; NaN before the first outcome."""
    if not sums[SEEN] > 0:
        return np.nan
    z, x = np.empty(N_INPUTS), np.empty(N_DENSE)
    write_inputs(row, z)
    quadratic(z, x)
    return min(abs(dot(x, weights)), LONGEST)


@compiled
def estimates(rows: Floats, weights: Floats, sums: Floats, out: Floats) -> None:
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
    for i in range(len(rows)):
        learn(rows[i], seconds[i], rate, ridge, weights, scales, squares, sums)


@compiled
def advance(
    events: Ints, seconds: Floats, rows: Floats, jobs: Ints, learns: bool, cap: bool,
    rate: float, ridge: float, weights: Floats, scales: Floats, squares: Floats, sums: Floats,
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
            ran = float(events[i, TIME] - jobs[job, at.START])
            learn(rows[job], ran, rate, ridge, weights, scales, squares, sums)
    return without


FEATURES: Final = (
    "requested_time",
    "last_run_time",
    "second_last_run_time",
    "last_two_mean",
    "procs",
    "ended_mean",
    "procs_held",
    "longest_running",
    "running_sum",
    "running_count",
    "think_time",
    "hour",
    "weekday",
)
"""Columns, in the order that the kernel knows."""


@dataclass(kw_only=True, eq=False, repr=False)
class Gaussier(OnlinePredictor):
    """Polynomial of degree two, learnt job by job under the E-Loss of Gaussier et al.

    The loss of predicting f for a job that ran p on q processors is log(p q) (f - p)² where f is above p and
    log(p q) (p - f) where it is below: long and wide jobs weigh more, and too short a prediction costs far less than
    too long a one. Expect it to underestimate most jobs and to have a large squared error: it is made for backfilling.
    The optimiser is the normalised adaptive gradient, with a ridge penalty on the weights.

    What the paper leaves open, and how it is settled here:

    * The step and the ridge: 5000 and 4·10⁹, as in the authors' published program (predictsim). Its gradient is that
      of ridge / 2 times the squared weights.
    * A value below 0 counts as its absolute value, as in that program; an area of at most 1 s weighs nothing.
    * What is missing: run times of the past are the request, where there are none, and count at most as much; all else
      is 0. An unknown request counts as an hour.
    * Its inputs are those of the paper's Table 2 that the history here knows. The run time of the last job but two, the
      mean of the last three and the mean of the user's processors are left out. Processors held and elapsed times
      are those of running jobs at the submission.
    * A job's outcome is learnt with the inputs that its prediction was made from.

    .. [1] E. Gaussier, D. Glesser, V. Reis, D. Trystram. Improving backfilling by using machine learning to predict
       running times. SC 2015. doi:10.1145/2807591.2807646
    .. [2] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> predicted, run_time = Gaussier().fit(log).predict(log), log.filled("run_time")
    >>> bool((predicted < run_time).mean() > 0.5)
    True
    """

    name = "gaussier"
    features = FEATURES

    rate: Positive = 5000.0  # length of the steps [s]
    ridge: NotNegative = 4e9  # weight of the penalty

    kernels = Kernels(estimate, estimates, learn_rows, advance, N_DENSE)

    @property
    def settings(self) -> tuple[float, ...]:
        return float(self.rate), float(self.ridge)
