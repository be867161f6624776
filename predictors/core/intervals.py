"""Bootstrap and order-statistic intervals over users, seeds, logs and blocks.

Intervals by resampling: users (one of them can hold half of the error), seeds, logs.

Percentiles of few resampled values make an interval too narrow: with ten, a 95 % interval holds the truth nine times in
ten. So they are taken further out, as far as Student's t lies beyond the normal distribution [1]_.

.. [1] T. C. Hesterberg. What teachers should know about the bootstrap: resampling in the undergraduate statistics
   curriculum. The American Statistician 69(4), 2015. doi:10.1080/00031305.2015.1089789
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints

RESAMPLES: Final = 2000
FEWEST_BEYOND: Final = 10  # draws beyond a percentile, below which that says little
FEWEST_VALUES: Final = 5  # values, below which Student's t says nothing


def ratio_interval(
    users: npt.ArrayLike,  # shape (n_jobs,); the job's user; jobs without a user count as one user's
    squares: Floats,  # squares, baseline: shape (n_jobs,); squared errors of the predictor and of the baseline [s²]
    baseline: Floats,
    *,
    level: float = 0.95,  # share of the resamples that lies within
    seed: int = 0,  # equal seeds, equal intervals
) -> tuple[float, float]:
    """Return the bootstrap interval of Σ squares / Σ baseline over users drawn with replacement, 2,000 times.

    It is NaN of fewer than two users, who tell nothing about others, and where the baseline has no error.

    >>> ratio_interval([1, 1, 2], np.array([1.0, 1.0, 3.0]), np.array([2.0, 2.0, 6.0]))
    (0.5, 0.5)
    >>> ratio_interval([1, 1], np.array([1.0, 1.0]), np.array([2.0, 3.0]))
    (nan, nan)
    """
    users = np.asarray(users)
    if not len(users) or (users == users[0]).all():
        return float("nan"), float("nan")
    draws = drawn_ratios(users, squares, baseline, seed=seed)
    return percentiles(draws, level)


def drawn_ratios(
    users: npt.ArrayLike,  # shape (n,); user of each value
    ours: Floats,  # ours, theirs: shape (n,); what is summed
    theirs: Floats,
    *,
    seed: int = 0,  # equal seeds, equal draws: two ratios drawn by one seed are paired
) -> Floats:
    """Return Σ ours / Σ theirs of 2,000 resamples of the users, as one product of matrices; NaN where theirs is 0."""
    names, which = np.unique(np.asarray(users), return_inverse=True)
    n_users = len(names)
    if not n_users:
        return np.full(RESAMPLES, np.nan)
    times = drawn_times(n_users, seed=seed)
    above = times @ np.bincount(which, weights=ours, minlength=n_users)
    below = times @ np.bincount(which, weights=theirs, minlength=n_users)
    ratios: Floats = np.divide(above, below, out=np.full(RESAMPLES, np.nan), where=below > 0)
    return ratios


def drawn_medians(
    blocks: npt.ArrayLike,  # shape (n,); what is drawn with replacement, such as the user of each value
    values: Floats,  # shape (n,); the values; n is at least 1
    *,
    seed: int = 0,  # equal seeds, equal draws, paired with those of `drawn_ratios`
) -> Floats:
    """Return the medians of 2,000 resamples of blocks of values; of an even number of values the lower middle one.

    >>> drawn_medians([1, 1, 1], np.array([3.0, 1.0, 2.0]))[:3].tolist()
    [2.0, 2.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    names, which = np.unique(np.asarray(blocks), return_inverse=True)
    ordered, block = values[order], which[order]
    medians = np.empty(RESAMPLES)
    for i, times in enumerate(drawn_times(len(names), seed=seed)):
        reached = np.cumsum(times[block])
        medians[i] = ordered[np.searchsorted(reached, (reached[-1] + 1) // 2)]
    return medians


def drawn_times(n: int, *, seed: int = 0) -> Ints:
    """Return how often each of n things is drawn in each of 2,000 resamples, shape (2000, n).

    >>> drawn_times(3).sum(axis=1)[:2].tolist()
    [3, 3]
    """
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)


def percentiles(draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the ends between which a share `level` of the draws lies, NaN left out; NaN if none is left.

    >>> percentiles(np.array([0.0, 1.0, np.nan]), 0.5)
    (0.25, 0.75)
    """
    there = draws[~np.isnan(draws)]
    if not len(there):
        return float("nan"), float("nan")
    low, high = np.quantile(there, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def drawn_means(values: Floats, *, seed: int = 0) -> Floats:
    """Return the means of 2,000 resamples of some values.

    >>> drawn_means(np.array([2.0, 2.0]))[:3].tolist()
    [2.0, 2.0, 2.0]
    """
    which = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    means: Floats = values[which].mean(axis=1)  # scipy.stats.bootstrap draws the same, but refuses a single value
    return means


def mean_interval(values: Floats, *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean without NaN: the percentiles of 2,000 resamples.

    >>> mean_interval(np.array([2.0, np.nan, 2.0]))
    (2.0, 2.0)
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(drawn_means(known, seed=seed), [0.025, 0.975])
    return float(low), float(high)


def median_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the narrowest order statistics around the median with this confidence, else the outermost; without NaN.

    >>> median_interval(np.arange(10.0))
    (1.0, 8.0)
    >>> median_interval(np.array([3.0, np.nan, 1.0]))
    (1.0, 3.0)
    """
    from scipy.stats import binom

    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    if not n:
        return float("nan"), float("nan")
    first = max(int(binom.ppf((1 - level) / 2, n, 0.5)) - 1, 0)
    return float(ordered[first]), float(ordered[n - 1 - first])


def drawn_over(groups: Sequence[Floats]) -> Floats:
    """Return draws of the mean over groups, the groups themselves resampled; one group stays as it is.

    Which groups are drawn is independent of the groups' own draws: else a resample that has the third log more often
    would have the third seed more often, too, and intervals would be wide or narrow by it. `groups` are the draws of
    each group's own value, shape (2000,).
    """
    if len(groups) == 1:
        return groups[0]
    which = np.random.default_rng((0, 1)).integers(len(groups), size=(RESAMPLES, len(groups)))
    means: Floats = np.stack(groups)[which, np.arange(RESAMPLES)[:, None]].mean(axis=1)
    return means


def expanded(draws: Floats, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of draws that came from resampling n values, its percentiles taken further out for small n.

    Where these percentiles would have hardly a draw beyond them, because the level is high or the values are few,
    resampling cannot show how far out they lie: an end is then at least as far out as Student's t says by the spread of
    the draws. Of fewer than five values that would be as good as everything, and the outermost draws are taken: what
    is said is said of these values alone.

    >>> draws = np.arange(2000.0)
    >>> [tuple(round(end) for end in expanded(draws, n)) for n in (4, 10, 10_000)]
    [(0, 1999), (17, 1982), (50, 1949)]
    """
    from scipy.stats import norm, t

    if n < 2:
        return float("nan"), float("nan")
    far = np.sqrt(n / (n - 1)) * t.ppf((1 + level) / 2, n - 1)
    outside = float(norm.cdf(-far))
    low, high = np.quantile(draws, [outside, 1 - outside])
    if outside * len(draws) < FEWEST_BEYOND and n >= FEWEST_VALUES:
        middle, reach = draws.mean(), far * draws.std()
        low, high = min(low, middle - reach), max(high, middle + reach)
    return float(low), float(high)
