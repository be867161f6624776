"""A what-if: a site's log simulated as the site is, and changed, over the same shakes; what is shown is the difference.

Jobs are compared one by one, in each shake. A difference of a group is shown where its sign holds in nine of ten
shakes, and it exceeds what the twin differs from itself there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np

from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from experiments.runs.setting import Setting
from experiments.site.grade.grade import warm_up_of
from experiments.site.grade.grades import FEWEST_BLOCKS
from experiments.site.grade.sides import Side, from_eligible
from experiments.site.grade.statistics import WEEK, blocks_of, classes_of, groups_of, ratio
from experiments.site.whatif.changes import DRAIN
from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.summary import date_of
from schedsim.sites.slurm.accounts import words_of

HOLDS: Final = 0.9  # share of the shakes in which a difference has the same sign
SPREAD: Final = 0.9  # quantile of the twin's differences from itself, over the pairs of shakes


@dataclass(frozen=True, eq=False)
class Question:
    """A site as it is, whose jobs are asked about."""

    used: JobLog  # the jobs that have a place
    before: Side
    shakes: int = 10
    folder: Path = Path()  # where runs are kept
    pool: Pool = HERE

    @cached_property
    def log(self) -> JobLog:
        """The jobs, submitted when they were eligible, where the log tells that."""
        return from_eligible(self.used)[0] if self.used.known("wait").any() else self.used

    @cached_property
    def warm_up(self) -> int:
        """Seconds at the beginning that do not count: those of the grade, but 0 where too little would be left.

        That is less than the warm-up, and less than a grade needs.
        """
        last = int(self.log.values["submit"].max(initial=0))
        found = warm_up_of(self.log, self.before.files)
        return found if last - found >= min(found, FEWEST_BLOCKS * WEEK) else 0

    def check(self, after: Side) -> None:
        """Refuse a side that could not be simulated, and maintenance outside the log's time."""
        self._gone(after)
        after.named.of_log(after.jobs(self.log))
        last = int(self.log.values["submit"].max(initial=0))
        for one in after.site.reservations:
            epoch = self.log.epoch
            if one.place != DRAIN:
                continue
            if epoch is None:
                raise JobcastError("--drain: the log has no start date, so none of its jobs meets one; leave it out.")
            if one.end <= epoch or one.start >= epoch + last:
                raise JobcastError(
                    f"--drain: its time lies outside the log's, {date_of(self.log, 0)} to {date_of(self.log, last)}; "
                    "name days within."
                )

    @cached_property
    def waits(self) -> list[Floats]:
        return self._run(self.before, None, "As it is")

    def compared(self, after: Side, name: str = "Changed") -> "Compared":
        """Simulate a changed site; jobs that it would refuse, or has no place for, are gone there."""
        gone = self._gone(after)
        return Compared(self, after, self.waits, self._run(after, ~gone, name), gone)

    def _gone(self, after: Side) -> Bools:
        """Return which jobs Slurm would refuse after a change alone, or has no place for then."""
        gone = ~after.placed(self.log)
        if self.before.files is not None and after.files is not None:
            gone |= self.before.files.takes(self.log) & ~after.files.takes(self.log)
        if gone.all():
            raise JobcastError(f"{self.before.source}: after this change no job has a place; change less.")
        return gone

    def _run(self, side: Side, kept: Bools | None, name: str) -> list[Floats]:
        setting = Setting(self.log, self.folder, pool=self.pool)
        return side.run(setting, name, range(1, self.shakes + 1), self.before.interval(self.log), kept)


@dataclass(frozen=True)
class Difference:
    """What changes for a group of jobs: mean waits [s], over all shakes."""

    name: str  # all jobs, or such as partition x, heavy users
    jobs: int
    before: float
    after: float
    low: float  # low, high: 90 % interval of after - before, over blocks of weeks; NaN where there are too few
    high: float
    same_sign: float  # share of the shakes in which the difference has the sign of their mean
    spread: float  # of the twin against itself

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def holds(self) -> bool:
        """Whether it can be told from chance."""
        return self.same_sign >= HOLDS and abs(self.change) > self.spread


@dataclass(frozen=True, eq=False)
class Compared:
    """A what-if that was run: the waits of each job and shake, before and after [s]."""

    asked: Question
    after_side: Side
    before: Sequence[Floats]
    after: Sequence[Floats]
    gone: Bools  # jobs that Slurm would refuse after the change alone, or has no place for

    @cached_property
    def counted(self) -> Bools:
        """Jobs behind the warm-up that are simulated on both sides."""
        submit = self.asked.log.values["submit"]
        here: Bools = (submit >= self.asked.warm_up) & ~self.gone
        return here

    @cached_property
    def work(self) -> Floats:
        log = self.asked.log
        return (log.procs * log.filled("run_time")).astype(np.float64)

    @cached_property
    def blocks(self) -> tuple[Ints, int]:
        submit = self.asked.log.values["submit"]
        mean = np.mean(self.before, axis=0)
        return blocks_of(submit, mean, self.asked.warm_up, int(submit.max(initial=0)) + 1)

    @cached_property
    def all_jobs(self) -> Difference:
        return self._difference("all jobs", self.counted)

    @cached_property
    def by_group(self) -> list[Difference]:
        log = self.asked.log
        classes = classes_of(log, self.work)
        users = {"users": classes.pop("users")}
        classes |= {"account": words_of(log, "project", "group")} | users
        found = [self._difference(name, own) for name, own in groups_of(classes, self.counted, self.work)]
        return [one for one in found if one.jobs < self.all_jobs.jobs]

    def _difference(self, name: str, own: Bools) -> Difference:
        if not own.any():
            return Difference(name, 0, 0.0, 0.0, float("nan"), float("nan"), 0.0, 0.0)
        means = np.array([[wait[own].mean() for wait in side] for side in (self.before, self.after)])
        moved = np.sign(means[1] - means[0])
        sign = float(np.mean(moved == np.sign(means[1].mean() - means[0].mean()))) if moved.any() else 0.0
        pairs = [abs(one - other) for one, other in combinations(means[0].tolist(), 2)]
        low, high = self._interval(own)
        return Difference(
            name, int(own.sum()), float(means[0].mean()), float(means[1].mean()), low, high, sign,
            float(np.quantile(pairs, SPREAD)) if pairs else 0.0,
        )  # fmt: skip

    def _interval(self, own: Bools) -> tuple[float, float]:
        block, n_blocks = self.blocks
        here = own & (block >= 0)
        if n_blocks < 2 or not here.any():
            return float("nan"), float("nan")
        change = np.mean(self.after, axis=0) - np.mean(self.before, axis=0)
        found = ratio(block[here], n_blocks, change[here], np.ones(int(here.sum())))
        return found.low, found.high

    def shaken(self, figure: str) -> list[float]:
        """Return a figure of all jobs after the change, one a shake: `mean_wait` or `p95_wait` [s]."""
        waits = [wait[self.counted] for wait in self.after]
        return [float(one.mean() if figure == "mean_wait" else np.quantile(one, 0.95)) for one in waits]


FIGURES: Final[Mapping[str, str]] = {"mean_wait": "mean wait", "p95_wait": "95th percentile of the wait"}


@dataclass(frozen=True)
class Target:
    """A figure of all jobs, what it may be at most [s], and what was tried for it."""

    figure: str
    most: int
    tried: dict[int, Sequence[float]] = field(default_factory=dict)  # the figure of each shake, by number [s]

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise unknown_name("target", self.figure, FIGURES)

    def is_met(self, number: int) -> bool:
        """Return whether nine of ten shakes keep to it with a number that was tried."""
        return float(np.mean(np.asarray(self.tried[number]) <= self.most)) >= HOLDS

    @property
    def smallest(self) -> int | None:
        """The smallest number that was tried and meets it; None if none does."""
        return min(filter(self.is_met, self.tried), default=None)

    def search(self, shaken: Callable[[int], Sequence[float]], most: int) -> None:
        """Try numbers up to `most`; `shaken` gives the figure of each shake for one.

        >>> target = Target("mean_wait", 60)
        >>> target.search(lambda number: [600.0 / (1 + number)] * 10, 64)
        >>> target.smallest, sorted(target.tried)
        (9, [0, 1, 2, 4, 8, 9, 10, 12, 16])
        """

        def meets(number: int) -> bool:
            if number not in self.tried:
                self.tried[number] = shaken(number)
            return self.is_met(number)

        low, high = -1, 0
        while not meets(high) and high < most:
            low, high = high, min(max(1, 2 * high), most)
        while meets(high) and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if meets(middle) else (middle, high)
