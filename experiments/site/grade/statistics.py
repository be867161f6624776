"""Figures of a twin's waits next to those of a log: agreement, ratio, error, weekly correlation, intervals by weeks.

Waits are arrays of shape (n_jobs,) [s], `wait` as logged and `twin` as simulated, from when a job was eligible.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.intervals import drawn_times, percentiles
from predictors.data.joblog import JobLog
from schedsim.results.metrics import width_class
from schedsim.sites.slurm.accounts import words_of

NOTICED: Final = 120  # waits up to this on both sides do not count [s]
TOLERATED: Final = 0.1  # part of the logged wait by which a twin's may differ, at least `NOTICED`
WEEK: Final = 604_800
LEVEL: Final = 0.9  # of all intervals
FEWEST_OF_GROUP: Final = 200  # counted jobs, or
LEAST_WORK: Final = 0.05  # share of the work, with which a group is one


@dataclass(frozen=True)
class Interval:
    """A figure and the ends of its 90 % interval."""

    value: float
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Return whether the whole interval lies within 1 ± a margin."""
        return 1 - margin <= self.low and self.high <= 1 + margin

    def over(self, divisor: float) -> "Interval":
        return Interval(self.value / divisor, self.low / divisor, self.high / divisor)


def counts(wait: Floats, *twins: Floats) -> Bools:
    """Return which jobs count: those that wait more than 120 s on some side.

    >>> counts(np.array([0.0, 500.0, 60.0]), np.array([120.0, 0.0, 130.0])).tolist()
    [False, True, True]
    """
    some: Bools = np.maximum.reduce([wait, *twins]) > NOTICED
    return some


def agrees(wait: Floats, twin: Floats) -> Bools:
    """Return where a twin's wait is within 120 s, or 10 %, of the logged one.

    >>> agrees(np.array([1000.0, 5000.0, 5000.0]), np.array([1120.0, 5500.0, 5501.0])).tolist()
    [True, True, False]
    """
    return np.abs(twin - wait) <= np.maximum(NOTICED, TOLERATED * wait)


def blocks_of(eligible: Ints, wait: Floats, begin: int, end: int) -> tuple[Ints, int]:
    """Return the block of whole weeks in which each job was eligible, and how many blocks there are.

    A block has as many weeks as hold twice the P95 wait; waits may be NaN. Jobs before `begin`, and behind the last
    whole block up to `end`, have the block -1.

    >>> eligible = np.arange(0, 4 * WEEK, WEEK)
    >>> blocks_of(eligible, np.full(4, 0.6 * WEEK), 0, 4 * WEEK), blocks_of(eligible, np.zeros(4), WEEK, 4 * WEEK)
    ((array([0, 0, 1, 1]), 2), (array([-1,  0,  1,  2]), 3))
    """
    here = (eligible >= begin) & (eligible < end)
    known = wait[here & ~np.isnan(wait)]
    longest = float(np.quantile(known, 0.95)) if len(known) else 0.0
    length = WEEK * max(1, int(np.ceil(2 * longest / WEEK)))
    n_blocks = max(0, (end - begin) // length)
    block = np.where(here, (eligible - begin) // length, -1)
    return np.where(block < n_blocks, block, -1).astype(np.int64), int(n_blocks)


def ratio(block: Ints, n_blocks: int, above: Floats, below: Floats) -> Interval:
    """Return Σ above / Σ below, with its interval over blocks drawn with replacement, 2,000 times; NaN of no block.

    Ratios of the same blocks are drawn in pairs.

    >>> ratio(np.array([0, 1, 2]), 3, np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    Interval(value=2.0, low=2.0, high=2.0)
    """
    times = drawn_times(n_blocks) if n_blocks else np.empty((0, 0))
    sums = [np.bincount(block, weights=one, minlength=n_blocks) for one in (above, below)]
    drawn = [times @ one for one in sums]
    ratios = np.divide(drawn[0], drawn[1], out=np.full(len(times), np.nan), where=drawn[1] > 0)
    whole = float(sums[0].sum() / sums[1].sum()) if sums[1].sum() > 0 else float("nan")
    return Interval(whole, *percentiles(ratios, LEVEL))


def weekly_correlation(week: Ints, wait: Floats, twin: Floats) -> float:
    """Return the rank correlation of the weekly means of two waits; NaN of fewer than three weeks, or if all are equal.

    >>> weekly_correlation(np.array([0, 0, 1, 2]), np.array([1.0, 3, 5, 9]), np.array([2.0, 2, 8, 7]))
    0.5
    """
    from scipy.stats import spearmanr

    weeks, which = np.unique(week, return_inverse=True)
    if len(weeks) < 3:
        return float("nan")
    means = [np.bincount(which, weights=one) / np.bincount(which) for one in (wait, twin)]
    if any(np.ptp(one) == 0 for one in means):
        return float("nan")
    return round(float(spearmanr(*means).statistic), 12)


@dataclass(frozen=True)
class Spread:
    """How a twin differs from itself under shakes of the submissions and of the backfill clock."""

    agreement: float  # mean share of jobs that agree, over the pairs of shakes
    error: float  # mean difference of waits [s]
    ratio: float  # 90th percentile of |R - 1|


def spread_of(waits: Sequence[Floats], among: Bools) -> Spread:
    """Return the spread of the waits of some jobs in several shakes, over all pairs; without any counted job no spread.

    >>> spread_of([np.array([1000.0, 0.0]), np.array([1100.0, 0.0]), np.array([1300.0, 0.0])], np.array([True, True]))
    Spread(agreement=0.3333333333333333, error=200.0, ratio=0.2763636363636364)
    """
    found = []
    for first, second in combinations(waits, 2):
        here = among & counts(first, second)
        if here.any() and first[here].sum() > 0:
            one, other = first[here], second[here]
            found.append((agrees(one, other).mean(), np.abs(one - other).mean(), abs(other.sum() / one.sum() - 1)))
    if not found:
        return Spread(1.0, 0.0, 0.0)
    agreement, error, off = np.array(found).T
    return Spread(float(agreement.mean()), float(error.mean()), float(np.quantile(off, 0.9)))


def user_classes(user: Ints, work: Floats) -> list[str]:
    """Return the class of each job's user: heavy ones have half of the work, middle ones 40 %, light ones the rest.

    >>> user_classes(np.array([1, 2, 3, 1]), np.array([50.0, 30.0, 5.0, 10.0]))
    ['heavy users', 'middle users', 'light users', 'heavy users']
    """
    users, which = np.unique(user, return_inverse=True)
    own = np.bincount(which, weights=work)
    order = np.argsort(-own, kind="stable")
    before = np.empty(len(users))
    before[order] = np.cumsum(own[order]) - own[order]
    share = before / max(float(own.sum()), 1.0)
    names = np.array(["heavy users", "middle users", "light users"])
    return [str(name) for name in names[np.digitize(share, [0.5, 0.9])][which]]


def classes_of(log: JobLog, work: Floats) -> dict[str, list[str]]:
    """Return the partition, the class of width, and the class of the user of each job."""
    widths = [width_class(1 << int(procs - 1).bit_length()) for procs in log.procs.tolist()]
    users = user_classes(log.filled("user"), work)
    return {"partition": words_of(log, log.partition_column), "width": widths, "users": users}


def groups_of(classes: Mapping[str, Sequence[str]], counted: Bools, work: Floats) -> Iterator[tuple[str, Bools]]:
    """Give the name of each group of enough jobs or work, and which of the counted jobs are its.

    >>> counted, work = np.array([True, True, True]), np.array([1.0, 0.0, 0.0])
    >>> [(name, own.tolist()) for name, own in groups_of({"partition": ["a", "b", "b"]}, counted, work)]
    [('partition a', [True, False, False])]
    """
    for by, names in classes.items():
        column = np.array(names)
        for name in sorted(set(column[counted].tolist()) - {""}, key=lambda one: (len(one), one)):
            own = counted & (column == name)
            if own.sum() >= FEWEST_OF_GROUP or work[own].sum() >= LEAST_WORK * max(work[counted].sum(), 1.0):
                yield name if by == "users" else f"{by} {name}", own
