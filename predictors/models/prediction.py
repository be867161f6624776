"""A prediction, and the rule of its range: between one second and the requested time, with a fallback.

* With `cap=True` predictions lie in [1 s, requested time]: jobs are killed at their request. A request that is unknown,
  or is not above 0, caps nothing.
* Where nothing has been learnt, what the estimator needs is missing, or its answer is no time (NaN, infinite, beyond
  `LONGEST`), the requested time is predicted, and the
  prediction is marked as a fallback. If that is unknown as well, `UNKNOWN_REQUEST` stands in for it. There is no NaN.
* With `cap=False` estimates stay as they are, but not below 0.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from predictors.core.arrays import Bools, Floats
from predictors.core.jit import compiled
from predictors.core.prediction_bounds import SHORTEST, UNKNOWN_REQUEST

REQUESTED: Final = "requested"  # named by a prediction as its source where nothing is known


class Prediction(NamedTuple):
    """The answer for one job."""

    seconds: float  # predicted run time [s]
    fallback: bool = False  # whether nothing learnt stands behind it: it is the requested time, or `UNKNOWN_REQUEST`
    answered_by: str = ""  # its source: the predictor, a link of `predictors.models.fallback`, or `requested`
    lower: float | None = None
    upper: float | None = None
    model: str = ""
    version: str = ""


LONGEST: Final = 2.0**53  # no run is longer [s]: an estimator's answer beyond it, or below its negative, is no estimate


def no_estimate(estimates: Floats) -> Bools:
    """Return which answers of an estimator are none.

    >>> no_estimate(np.array([600.0, np.nan, np.inf, 1e300])).tolist()
    [False, True, True, True]
    """
    return ~(np.abs(estimates) <= LONGEST)


@compiled
def is_none(estimate: float) -> bool:
    """Return whether one answer of an estimator is no estimate, as `no_estimate` says it of many."""
    return not abs(estimate) <= LONGEST


@compiled
def known_request(request: float) -> float:
    """Return the requested time, or `UNKNOWN_REQUEST` if it is unknown or not above 0."""
    return request if request > 0 else UNKNOWN_REQUEST


@compiled
def in_range_one(estimate: float, request: float, cap: bool) -> float:
    """Return the prediction for one estimate and requested time; see `in_range`."""
    if not abs(estimate) <= LONGEST:
        estimate = known_request(request)
    estimate = max(estimate, 0.0)
    if cap:
        if request > 0:
            estimate = min(estimate, request)
        estimate = max(estimate, SHORTEST)
    return estimate


@compiled
def _in_range(estimates: Floats, requested: Floats, cap: bool, out: Floats) -> None:
    for i in range(len(estimates)):
        out[i] = in_range_one(estimates[i], requested[i], cap)


def in_range(estimates: Floats, requested: Floats, cap: bool) -> Floats:
    """Return predictions: estimates where there are any, else the requested time; within the range if `cap`.

    >>> estimates, requested = np.array([50.0, 700.0, 0.0, np.nan, np.nan]), np.array([600.0] * 4 + [np.nan])
    >>> in_range(estimates, requested, cap=True).tolist()
    [50.0, 600.0, 1.0, 600.0, 3600.0]
    """
    out = np.empty(len(estimates))
    _in_range(
        np.ascontiguousarray(estimates, dtype=np.float64), np.ascontiguousarray(requested, dtype=np.float64), cap, out
    )
    return out


def is_in_range(seconds: float, request: float, cap: bool) -> bool:
    """Return whether a prediction is one that the rule gives: finite, and not moved by it.

    >>> is_in_range(600.0, 600.0, cap=True), is_in_range(601.0, 600.0, cap=True), is_in_range(601.0, 600.0, cap=False)
    (True, False, True)
    """
    return math.isfinite(seconds) and in_range_one(seconds, request, cap) == seconds
