"""What is an answer, and what range does it lie in? Seconds, and who told them.

* With `cap=True` predictions lie in [1 s, requested time]: jobs are killed at their request. A request that is unknown,
  or is not above 0, caps nothing.
* Where nothing has been learnt, or what the estimator needs is missing, the requested time is predicted, and the
  prediction is marked as a fallback. If that is unknown as well, `UNKNOWN_REQUEST` stands in for it. There is no NaN.
* With `cap=False` estimates stay as they are, but not below 0.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNKNOWN_REQUEST: Final = 3600.0
"""Predicted where neither anything learnt nor a requested time is at hand [s]."""
SHORTEST: Final = 1.0
"""Least capped prediction [s]."""
REQUESTED_TIME: Final = "requested_time"
REQUESTED: Final = "requested"
"""Who answers where nothing is known."""


class Prediction(NamedTuple):
    """The answer for one job."""

    seconds: float
    """Predicted run time [s]."""
    fallback: bool = False
    """Whether nothing learnt stands behind it: it is the requested time, or `UNKNOWN_REQUEST`."""
    answered_by: str = ""
    """Who told it: the predictor, one that `predictors.chain` asked after it, or `requested`."""
    lower: float | None = None
    upper: float | None = None
    model: str = ""
    version: str = ""


def in_range(estimates: Floats, requested: Floats, cap: bool) -> Floats:
    """Return predictions: estimates where there are any, else the requested time; within the range if `cap`.

    Examples
    --------
    >>> estimates, requested = np.array([50.0, 700.0, 0.0, np.nan, np.nan]), np.array([600.0] * 4 + [np.nan])
    >>> in_range(estimates, requested, cap=True).tolist()
    [50.0, 600.0, 1.0, 600.0, 3600.0]
    """
    limit = np.where(requested > 0, requested, np.inf)
    request = np.where(np.isinf(limit), UNKNOWN_REQUEST, limit)
    seconds = np.where(np.isnan(estimates), request, np.maximum(estimates, 0.0))
    return np.maximum(np.minimum(seconds, limit), SHORTEST) if cap else seconds
