"""How sure is a ratio of squared errors? Intervals by resampling users: one user can hold half of the error."""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.metrics import Floats

RESAMPLES: Final = 2000


def ratio_interval(
    users: npt.ArrayLike, squares: Floats, baseline: Floats, *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of Σ squares / Σ baseline over users drawn with replacement.

    Parameters
    ----------
    users : int array of shape (n_jobs,)
        Whose job it is; jobs of nobody count as one user's.
    squares, baseline : float64 arrays of shape (n_jobs,)
        Squared errors of the predictor and of the baseline [s²].
    level : float
        Share of the resamples that lies within.
    seed : int
        Equal seeds, equal intervals.

    Returns
    -------
    tuple of float
        Lower and upper end, the percentiles of 2,000 resamples; NaN if there is no job or the baseline has no error.

    Examples
    --------
    >>> ratio_interval([1, 1, 2], np.array([1.0, 1.0, 3.0]), np.array([2.0, 2.0, 6.0]))
    (0.5, 0.5)
    """
    names, which = np.unique(np.asarray(users), return_inverse=True)
    n_users = len(names)
    if not n_users:
        return float("nan"), float("nan")
    ours = np.bincount(which, weights=squares, minlength=n_users)
    theirs = np.bincount(which, weights=baseline, minlength=n_users)
    times = np.random.default_rng(seed).multinomial(n_users, np.full(n_users, 1 / n_users), size=RESAMPLES)
    below = times @ theirs
    ratios = (times @ ours)[below > 0] / below[below > 0]
    if not len(ratios):
        return float("nan"), float("nan")
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
