"""Moving estimates towards the request until jobs outrun them just as often as allowed: how far, and how it is learnt.

A *share* says how far: 0 is the prediction p itself, 1 the limit R (the request), -1 one second; in between the way is
geometric, p^(1 - share) R^share upwards and p^(1 + share) downwards. The share that would have been just enough for a
job is known when it has ended. Its quantile over past jobs is the start (split conformal prediction), and from then on
every outcome moves it a little: up by `step` (1 - budget) when the job ran longer than said, down by `step` budget when
not. In the long run the rate of the first is the budget, whatever the jobs and the predictor do, unless the limit
itself is outrun more often [1]_.

References
----------
.. [1] I. Gibbs, E. Candès. Adaptive conformal inference under distribution shift. NeurIPS 2021.
   doi:10.48550/arXiv.2106.00170
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.answers import SHORTEST, UNKNOWN_REQUEST

Floats = npt.NDArray[np.float64]

HELD_OUT: Final = 0.2
"""Share of the jobs of a fit, the newest, that calibrate what was learnt from the others."""
STEP: Final = 0.02
"""How much one outcome moves a share."""
FURTHEST: Final = 2.0
"""Where a share stops."""


def at_share(predicted: Floats, limit: Floats, share: float) -> Floats:
    """Return estimates [s] moved by a share, for predictions and limits of at least 1 s.

    Examples
    --------
    >>> at_share(np.array([100.0, 100.0]), np.array([10_000.0, 50.0]), 0.5).round(6).tolist()
    [1000.0, 100.0]
    >>> at_share(np.array([100.0]), np.array([10_000.0]), -0.5).round(6).tolist()
    [10.0]
    """
    if share == 0:
        return predicted
    if share < 0:
        return np.exp(np.log(predicted) * (1.0 + max(share, -1.0)))
    if share >= 1:
        return np.maximum(predicted, limit)
    moved: Floats = predicted * np.exp(np.log(np.maximum(limit / predicted, 1.0)) * share)
    return moved


def shares(seconds: Floats, predicted: Floats, limit: Floats) -> Floats:
    """Return the least share at which each estimate would have been long enough; 1 where the limit was too short.

    Examples
    --------
    >>> shares(np.array([1000.0, 10.0, 9e9]), np.full(3, 100.0), np.full(3, 10_000.0)).round(6).tolist()
    [0.5, -0.5, 1.0]
    """
    ran, floor = np.maximum(seconds, 1.0), np.maximum(predicted, 1.0 + 1e-9)
    room = np.log(np.maximum(limit / floor, 1.0 + 1e-9))
    up = np.log(np.maximum(ran / floor, 1.0)) / room
    down = np.log(ran) / np.log(floor) - 1.0
    return np.clip(np.where(ran > predicted, up, np.minimum(down, 0.0)), -1.0, 1.0)


def limits(requested: Floats) -> Floats:
    """Return what estimates move towards [s]: the request, or `UNKNOWN_REQUEST` where there is none."""
    return np.maximum(np.where(requested > 0, requested, UNKNOWN_REQUEST), SHORTEST)


def reachable(seconds: Floats, requested: Floats) -> Floats:
    """Return run times [s] as a prediction can reach them: a job that outran its request counts as long as that.

    Examples
    --------
    >>> reachable(np.array([70.0, 70.0, 70.0]), np.array([60.0, 600.0, np.nan])).tolist()
    [60.0, 70.0, 70.0]
    """
    return np.where(requested > 0, np.minimum(seconds, np.maximum(requested, SHORTEST)), seconds)


def ends_around(point: Floats, limit: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the ends of intervals around predictions [s], moved from them by shares.

    Examples
    --------
    >>> lower, upper = ends_around(np.array([100.0]), np.array([10_000.0]), -0.5, 0.5)
    >>> lower.round(6).tolist(), upper.round(6).tolist()
    ([10.0], [1000.0])
    >>> ends_around(np.array([100.0]), np.array([10_000.0]), 0.5, -0.5)[0].tolist()  # never beyond the prediction
    [100.0]
    """
    return at_share(point, limit, min(low, 0.0)), at_share(point, limit, max(high, 0.0))


def conformal_share(found: Floats, budget: float) -> float:
    """Return the share that all but `budget` of past jobs, and one more for safety, would have been content with.

    Examples
    --------
    >>> conformal_share(np.linspace(0, 1, 101), 0.1)
    0.91
    >>> conformal_share(np.empty(0), 0.1)
    0.0
    """
    if not len(found):
        return 0.0
    place = min(math.ceil((len(found) + 1) * (1.0 - budget)), len(found))
    return float(np.sort(found)[place - 1])


def moved(share: float, outran: bool, budget: float) -> float:
    """Return the share after one more outcome; it may go beyond what moves an estimate, or the rate would drift."""
    return min(max(share + STEP * ((1.0 if outran else 0.0) - budget), -FURTHEST), FURTHEST)
