"""The runs behind a grade: the twin, the twin shaken, and two other policies, on the jobs of a site's own log."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from experiments.runs.setting import Setting
from experiments.runs.simulate import Ready
from experiments.site.grade.grades import Figures, GroupFigures, Letter, grade_of
from experiments.site.grade.sides import Side, from_eligible
from experiments.site.grade.statistics import (
    WEEK,
    Interval,
    agrees,
    blocks_of,
    classes_of,
    counts,
    groups_of,
    ratio,
    spread_of,
    weekly_correlation,
)
from predictors.core.arrays import Bools, Floats, Ints
from predictors.data.joblog import JobLog
from schedsim.sites.slurm.accounts import words_of
from schedsim.sites.slurm.files import SlurmFiles

SHAKES: Final = 10
OTHERS: Final = ("easy", "conservative-replan")  # policies that a twin must be nearer than
SHORTEST_WARM_UP: Final = 14 * 86_400
HALF_LIVES: Final = 2  # of fair-share's usage in a warm-up
_JITTER, _PHASE = 1, 2  # purposes of what is drawn


def warm_up_of(log: JobLog, files: SlurmFiles | None) -> int:
    """Return the warm-up of a log: two weeks, the longest limit, two half-lives of fair-share [s]."""
    longest = int(log.filled("requested_time").max(initial=0))
    halves = 0
    if files is not None and files.accounts and files.conf.whole("PriorityWeightFairshare", 0):
        halves = HALF_LIVES * files.conf.seconds("PriorityDecayHalfLife", WEEK, may_be_0=True)
    return max(SHORTEST_WARM_UP, longest, halves)


@dataclass(frozen=True, eq=False)
class Grading:
    """A site's jobs and machine, on which its twin is graded."""

    ready: Ready  # the jobs that have a place
    side: Side  # without a slurm.conf nothing is graded
    lacking: tuple[str, ...] = ()  # partitions under rules that the twin lacks
    lost: int = 0  # rows of jobs that could not be read
    read: JobLog | None = None  # all jobs that were; None: those that became ready

    @cached_property
    def jobs(self) -> tuple[JobLog, Floats]:
        """The jobs, submitted when they were eligible, and their waits as logged."""
        return from_eligible(self.ready.used)

    @property
    def warm_up(self) -> int:
        return warm_up_of(self.jobs[0], self.side.files)

    def run(self, folder: Path, pool: Pool = HERE) -> "Graded":
        """Do the runs; what is done is kept within `folder`, and started again it goes on there."""
        log, wait = self.jobs
        setting, interval, is_twin = (
            Setting(log, folder, pool=pool),
            self.side.interval(log),
            self.side.files is not None,
        )
        twin, *shakes = self.side.run(setting, "Simulating", range(SHAKES + 1 if is_twin else 1), interval)
        others = {name: self.side.under(name).run(setting, name, [0], interval)[0] for name in OTHERS if is_twin}
        return Graded(self, wait, twin, others, shakes)


@dataclass(frozen=True, eq=False)
class Graded:
    """What came out: waits as logged and simulated, one a job."""

    asked: Grading
    wait: Floats
    twin: Floats
    others: dict[str, Floats]
    shakes: list[Floats]

    @cached_property
    def eligible(self) -> Ints:
        return self.asked.jobs[0].values["submit"]

    @cached_property
    def blocks(self) -> tuple[Ints, int]:
        """The block of each job, -1 where it does not count, and how many there are."""
        begin, end = self.asked.warm_up, int(self.eligible.max(initial=0)) + 1
        block, n_blocks = blocks_of(self.eligible, np.where(self._known, self.wait, np.nan), begin, end)
        return np.where(self._known, block, -1), n_blocks

    @cached_property
    def _known(self) -> Bools:
        """Jobs with a wait and a partition, if the log names any; all that are simulated have a limit and a size."""
        partitions = np.array([bool(name) for name in self.partitions])
        return ~np.isnan(self.wait) & (partitions | ~partitions.any())

    @cached_property
    def partitions(self) -> list[str]:
        log = self.asked.jobs[0]
        return words_of(log, log.partition_column)

    @cached_property
    def counted(self) -> Bools:
        """The jobs that count: behind the warm-up, known, and waiting for more than two minutes on some side."""
        return (self.blocks[0] >= 0) & counts(np.nan_to_num(self.wait), self.twin)

    @cached_property
    def work(self) -> Floats:
        log = self.asked.jobs[0]
        return (log.procs * log.filled("run_time")).astype(np.float64)

    def _ratio(self, here: Bools, above: Floats, below: Floats) -> Interval:
        return ratio(self.blocks[0][here], self.blocks[1], above[here], below[here])

    @cached_property
    def figures(self) -> Figures:
        here, wait = self.counted, np.nan_to_num(self.wait)
        error, one = np.abs(self.twin - wait), np.ones(len(wait))
        return Figures(
            jobs=int(here.sum()),
            blocks=self.blocks[1],
            agreement=self._ratio(here, agrees(wait, self.twin).astype(np.float64), one),
            ratio=self._ratio(here, self.twin, wait),
            error=self._ratio(here, error, one),
            correlation=weekly_correlation(self.weeks[here], wait[here], self.twin[here]),
            groups=tuple(self._groups(wait, error)),
            spread=spread_of(self.shakes, self.blocks[0] >= 0),
            better_than={name: self._is_nearer(other, wait) for name, other in self.others.items()},
            unread=self.unread,
            load=self.load,
        )

    @property
    def weeks(self) -> Ints:
        return (self.eligible - self.asked.warm_up) // WEEK

    def _is_nearer(self, other: Floats, wait: Floats) -> bool:
        """Return whether the twin's mean error is below that of other waits for certain, over the same jobs."""
        here = (self.blocks[0] >= 0) & counts(wait, self.twin, other)
        gain = np.abs(other - wait) - np.abs(self.twin - wait)
        return self._ratio(here, gain, np.ones(len(wait))).low > 0

    def _groups(self, wait: Floats, error: Floats) -> Iterator[GroupFigures]:
        here, work = self.counted, self.work
        for name, own in groups_of(classes_of(self.asked.jobs[0], work), here, work):
            yield GroupFigures(
                name, int(own.sum()), float(work[own].sum() / work[here].sum()), self._ratio(own, self.twin, wait),
                float(error[own].sum() / max(error[here].sum(), 1.0)), float(wait[own].mean()),
                float(self.twin[own].mean()),
            )  # fmt: skip

    @property
    def unread(self) -> float:
        """Share of the log's work that is not simulated, not counted for want of knowledge, or under other rules.

        Rows that could not be read count as of mean work.
        """
        read = self.asked.ready.prepared.log if self.asked.read is None else self.asked.read
        work = np.maximum(read.procs, 0) * np.maximum(read.filled("run_time"), 0)
        log = self.asked.jobs[0]
        lacks = ~self._known | np.isin(np.array(self.partitions), self.asked.lacking)
        lacks |= log.known("reservation") | log.known("licenses")
        whole = float(work.sum()) * (1 + self.asked.lost / len(read))
        return 1.0 - float(self.work[~lacks].sum()) / whole if whole else 0.0

    @property
    def load(self) -> float:
        """The logged work of the counted time / all that the machine could do then."""
        log, begin = self.asked.jobs[0], self.asked.warm_up
        end = int(self.eligible.max(initial=0)) + 1
        start = self.eligible + np.nan_to_num(self.wait).astype(np.int64)
        inside = np.minimum(start + log.filled("run_time"), end) - np.maximum(start, begin)
        room = int(log.max_procs or 0) * (end - begin)
        return float((np.maximum(inside, 0) * log.procs).sum() / room) if room > 0 else 0.0

    @property
    def grade(self) -> Letter:
        return "ungraded" if self.asked.side.files is None else grade_of(self.figures)
