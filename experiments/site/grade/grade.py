"""The runs behind a grade: the twin, the twin shaken, and two other policies, on the jobs of a site's own log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from experiments.runs.checkpoints import code_identity, digest_of_values, log_identity, run_all, run_directory
from experiments.runs.clusters import Pool
from experiments.runs.policies import NamedPolicy, demands_by
from experiments.runs.pool import HERE
from experiments.runs.setting import Setting
from experiments.runs.simulate import NamedSimulation, Ready
from experiments.site.grade.grades import Figures, GroupFigures, Letter, grade_of
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
from predictors.core.errors import JobcastError
from predictors.core.hash_random import uniform
from predictors.data.joblog import JobLog
from schedsim.machine.outages import Outages
from schedsim.sites.slurm.accounts import words_of
from schedsim.sites.slurm.files import SlurmFiles
from schedsim.sites.slurm.loops import Loops
from schedsim.workload.shaking import resubmitted
from schedsim.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

SHAKES: Final = 10
OTHERS: Final = ("easy", "conservative-replan")  # policies that a twin must be nearer than
SHORTEST_WARM_UP: Final = 14 * 86_400
HALF_LIVES: Final = 2  # of fair-share's usage in a warm-up
_JITTER, _PHASE = 1, 2  # purposes of what is drawn


def from_eligible(log: JobLog) -> tuple[JobLog, Floats]:
    """Return a log with jobs submitted when they were eligible, and their waits from then; NaN where unknown [s].

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "wait": [50, 3], "eligible_wait": [20, 3]}, {})
    >>> moved, waits = from_eligible(log)
    >>> moved["job_id"].tolist(), moved["submit"].tolist(), waits.tolist()
    ([2, 1], [0, 25], [3.0, 20.0])
    """
    wait, known = log.filled("wait"), log.known("wait")
    if not known.any():
        raise JobcastError(
            f"{log.name}: records no waits, so a twin cannot be held against it; export sacct with Submit, Eligible "
            "and Start."
        )
    eligible = np.where(log.known("eligible_wait") & known, log.filled("eligible_wait"), wait)
    moved = resubmitted(log, log.values["submit"] + np.where(known, np.maximum(wait - eligible, 0), 0))
    told = dict(zip(log.values["job_id"].tolist(), np.where(known, eligible, np.nan).tolist(), strict=True))
    return moved, np.array([told[job] for job in moved.values["job_id"].tolist()])


def shaken_slightly(log: JobLog, seed: int, interval: int) -> JobLog:
    """Return a log with submissions moved by up to a second, and another phase of the clock of Slurm's backfill loop.

    That clock begins with the first submission, which comes up to `interval` seconds earlier; seed 0 changes nothing.
    """
    if seed == 0:
        return log
    job_id = log.values["job_id"]
    moves, phase = np.empty(len(log)), np.empty(1)
    uniform(seed, job_id, _JITTER, moves)
    uniform(seed, job_id[:1], _PHASE, phase)
    submit = log.values["submit"] + np.rint(3 * moves - 1.5).astype(np.int64)
    submit[0] = submit.min() - int(phase[0] * interval)
    return resubmitted(log, submit)


def backfill_interval(named: NamedPolicy, log: JobLog) -> int:
    """Return the seconds between the backfill loops of a policy; 1 where it has none."""
    backfill = named.of_log(log)[0].backfill
    return backfill.interval if isinstance(backfill, Loops) else 1


def runs_of(
    setting: Setting, name: str, about: dict[str, Any], waits: Callable[..., "pd.DataFrame"], shared: object,
    tasks: Sequence[Any],
) -> list[Floats]:  # fmt: skip
    """Return the waits of each task, by `waits(shared, task)`; what is done is kept in the setting's folder.

    `about` is what they depend on beside the log.
    """
    about = {"log": log_identity(setting.log), **about, **code_identity()}
    identity = digest_of_values(about)
    kept = setting.folder / f"runs-{identity[:12]}"
    with run_directory(kept, "waits", identity, about):
        found = run_all(replace(setting, checkpoints=kept), name, waits, shared, tasks)
    return [table["wait_s"].to_numpy(dtype=np.float64) for table in found]


def _moved(outages: Outages | None, seconds: int) -> Outages | None:
    """Return outages on a clock that shows so many seconds more."""
    if outages is None:
        return None
    parts = tuple(replace(one, start=one.start + seconds, end=one.end + seconds) for one in outages.reservations)
    return replace(outages, reservations=parts)


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
    files: SlurmFiles | None  # the site's Slurm; without it nothing is graded
    source: str  # the site's file
    outages: Outages | None = None
    lacking: tuple[str, ...] = ()  # partitions under rules that the twin lacks
    lost: int = 0  # rows of jobs that could not be read
    read: JobLog | None = None  # all jobs that were; None: those that became ready

    @cached_property
    def jobs(self) -> tuple[JobLog, Floats]:
        """The jobs, submitted when they were eligible, and their waits as logged."""
        return from_eligible(self.ready.used)

    @cached_property
    def policies(self) -> tuple[NamedPolicy, ...]:
        """The twin first, then what it is compared with."""
        others = tuple(replace(NamedPolicy.of(name), site=self.files) for name in OTHERS)
        if self.files is None:
            return others[:1]
        return NamedPolicy(f"slurm:{self.source}", self.files), *others

    @property
    def warm_up(self) -> int:
        """Seconds at the beginning that do not count."""
        return warm_up_of(self.jobs[0], self.files)

    def run(self, folder: Path, pool: Pool = HERE) -> "Graded":
        """Do the runs; what is done is kept within `folder`, and started again it goes on there."""
        log, wait = self.jobs
        shakes = [(0, seed) for seed in range(1, SHAKES + 1)] if self.files is not None else []
        tasks = [*((number, 0) for number in range(len(self.policies))), *shakes]
        nodes = self.ready.nodes
        about = {"machine": None if nodes is None else nodes.plain, "outages": repr(self.outages)}
        about |= {"policies": [(one.name, one.digest) for one in self.policies]}
        outages = _moved(self.outages, self.ready.used.origin - log.origin)
        setting = Setting(log, folder, pool=pool)
        shared = log, nodes, self.policies, outages, backfill_interval(self.policies[0], log)
        waits = runs_of(setting, "Simulating", about, _waits, shared, tasks)
        n = len(self.policies)  # one without a slurm.conf
        return Graded(self, wait, waits[0], dict(zip(OTHERS, waits[1:n], strict=False)), waits[n:])


def _waits(shared: tuple[Any, ...], task: tuple[int, int]) -> "pd.DataFrame":
    """Return the wait of each job under a policy and a shake, in the order of the log's jobs."""
    import pandas as pd

    log, nodes, policies, outages, interval = shared
    number, seed = task
    named, jobs = policies[number], shaken_slightly(log, seed, interval)
    demands = None if nodes is None else demands_by(named.files, jobs, nodes)[1]
    schedule, _ = NamedSimulation(
        jobs, named, workload=Workload.from_log(jobs, demands), outages=_moved(outages, log.origin - jobs.origin)
    ).run()
    waits = dict(zip(jobs.values["job_id"].tolist(), schedule.wait.tolist(), strict=True))
    return pd.DataFrame({"wait_s": [waits[job] for job in log.values["job_id"].tolist()]})


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
        """When each job was eligible [s]."""
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
        """The partition of each job, as the log names it."""
        log = self.asked.jobs[0]
        return words_of(log, log.partition_column)

    @cached_property
    def counted(self) -> Bools:
        """The jobs that count: behind the warm-up, known, and waiting for more than two minutes on some side."""
        return (self.blocks[0] >= 0) & counts(np.nan_to_num(self.wait), self.twin)

    @cached_property
    def work(self) -> Floats:
        """The work of each job [processor s]."""
        log = self.asked.jobs[0]
        return (log.procs * log.filled("run_time")).astype(np.float64)

    def _ratio(self, here: Bools, above: Floats, below: Floats) -> Interval:
        return ratio(self.blocks[0][here], self.blocks[1], above[here], below[here])

    @cached_property
    def figures(self) -> Figures:
        """The figures of 2a."""
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
        """The week of each job."""
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
        """The grade."""
        return "ungraded" if self.asked.files is None else grade_of(self.figures)
