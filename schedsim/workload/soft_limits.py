"""Soft limits next to a simulated scheduler, by the rule of the adapter next to a real one.

A soft limit is a run time that a scheduler plans by while the hard limit, the requested time, still ends the job. The
adapter looks at the queue in steady polls, and sets, raises, lowers or clears the soft limits of the jobs that wait
(`predictors.schedulers.soft_limit`). A job that starts before the first poll after its submission has none. Until
25.05.3 Slurm planned running jobs by their hard limits, from 25.05.4 on by the soft ones. The correction replaces a
soft limit that has passed, see `schedsim.kernels.corrections`.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.events import CANCELLED, ENDED, JOB, KIND, RETURNED, STARTED, SUBMITTED, TIME
from predictors.schedulers.soft_limit import (
    LEAVE,
    LOOKS_EVERY,
    MINUTE,
    Bound,
    Outlived,
    QueuedJob,
    SiteRules,
    SiteState,
    decide,
)


class Bounds(Protocol):
    """Who describes the jobs and gives upper quantiles of their run times; it sees what a poll sees."""

    def job(self, row: int) -> QueuedJob:
        """Return a job as it waits, without a soft limit."""
        ...

    def take(self, events: Ints) -> None:
        """Take in what has happened until this poll."""
        ...

    def of(self, jobs: Sequence[QueuedJob]) -> Sequence[Bound]:
        """Return a quantile of each job's run time as it is known now."""
        ...

    def fork(self) -> Self:
        """Return a copy that goes on by itself."""
        ...


@dataclass(frozen=True)
class SoftLimits:
    """How a scheduler holds soft limits."""

    # whether running jobs are planned by their hard limits; waiting ones are always planned by the soft ones
    running_by_hard: bool
    correction: str  # what replaces a soft limit that has passed


SOFT_LIMITS: Final[Mapping[str, SoftLimits]] = MappingProxyType(
    {"slurm": SoftLimits(False, "slurm"), "slurm-23.11": SoftLimits(True, "slurm"), "pbs": SoftLimits(False, "pbs")}
)
"""By name: Slurm from 25.05.4 on, Slurm 23.11 to 25.05.3, PBS."""


def soft_limits_named(name: str) -> SoftLimits:
    """Return how a scheduler holds soft limits, by its name.

    >>> soft_limits_named("slurm").correction
    'slurm'
    """
    if name not in SOFT_LIMITS:
        raise unknown_name("kind of soft limits", name, SOFT_LIMITS)
    return SOFT_LIMITS[name]


@dataclass(frozen=True)
class Looks:
    """How the adapter looks at the queue: by a site's rules, and how often."""

    rules: SiteRules = field(default_factory=SiteRules)
    every: int = LOOKS_EVERY  # seconds from one poll to the next

    def __post_init__(self) -> None:
        if self.every < 1:
            raise JobcastError(f"The adapter looks at the queue every second at most; got {self.every} s.")


USUAL: Final = Looks()
"""How it looks where nothing else is said."""


class Change(NamedTuple):
    """A soft limit that a poll has set, or cleared (0), of the job in a row."""

    at: int
    row: int
    minutes: int


class PolledLimits:
    """The soft limits that the adapter sets while a simulation goes on, as `PolledEstimates`.

    A poll sees the jobs that were submitted before its second, and all that has started and ended by then.
    """

    n_steps: Final = 1

    def __init__(self, bounds: Bounds, requested: Ints, held_as: SoftLimits, looks: Looks = USUAL) -> None:
        self.seconds = np.full(len(requested), np.nan)  # the soft limit of each job, at last [s]; NaN: none
        self.changes: list[Change] = []
        self._bounds, self._requested, self._held_as, self._looks = bounds, requested, held_as, looks
        self._waiting: dict[int, QueuedJob] = {}
        self._running: dict[int, tuple[QueuedJob, int]] = {}  # and when they started
        self._outlived = Outlived(looks.rules)
        self._unseen: list[Ints] = []  # events since the last poll

    @property
    def every(self) -> int:
        """Seconds from one poll to the next."""
        return self._looks.every

    def advance(self, events: Ints, answers: Floats) -> int:
        """Take in the events since the last call; write the requested time of each submission among them."""
        self._unseen.append(events.copy())
        rows = events[events[:, KIND] == SUBMITTED, JOB]
        return self._write(answers, 0, rows, self._requested[rows])

    def poll(self, now: int, events: Ints, answers: Floats) -> int:
        """Do what `advance` does, then decide on the jobs that waited before `now`, if anything has happened."""
        n, told = self.advance(events, answers), self._told(now)
        if not len(told):
            return n
        self._follow(told)
        self._bounds.take(told)
        revised = []
        for (row, job), given in zip(
            list(self._waiting.items()), self._bounds.of([*self._waiting.values()]), strict=True
        ):
            self._outlived.asked(job, given)
            bound = self._outlived.raised(job, given)
            ours = frozenset((job.soft // MINUTE,)) if job.soft else frozenset[int]()
            decision = decide(job, bound, SiteState(now), self._looks.rules, ours)
            if decision.action == LEAVE:
                continue
            minutes = decision.minutes or 0
            self._waiting[row] = replace(job, soft=minutes * MINUTE or None)
            self.seconds[row] = minutes * MINUTE or np.nan
            self.changes.append(Change(now, row, minutes))
            revised.append(row)
        rows = np.array(revised, dtype=np.int64)
        planned = np.where(np.isnan(self.seconds[rows]), self._requested[rows], self.seconds[rows])
        return self._write(answers, n, rows, planned)

    def fork(self) -> Self:
        """Return a copy that goes on by itself."""
        new = copy.copy(self)
        new.seconds, new.changes, new._bounds = self.seconds.copy(), list(self.changes), self._bounds.fork()
        new._waiting, new._running, new._unseen = dict(self._waiting), dict(self._running), list(self._unseen)
        new._outlived = copy.deepcopy(self._outlived)
        return new

    def figures(self, run_time: Ints) -> dict[str, float]:
        """Return the share of jobs with a soft limit; of these those that outlive it, and by how much [s].

        Means of no job are NaN.
        """
        short = (run_time - self.seconds)[~np.isnan(self.seconds)]
        late = short[short > 0]
        return {
            "soft_set": len(short) / len(run_time) if len(run_time) else float("nan"),
            "soft_too_short": float((short > 0).mean()) if len(short) else float("nan"),
            "soft_short_by_mean_s": float(late.mean()) if len(late) else float("nan"),
            "soft_short_by_median_s": float(np.median(late)) if len(late) else float("nan"),
        }

    def _told(self, now: int) -> Ints:
        """Return what this poll sees of the unseen events; the submissions of this very second stay."""
        events: Ints = np.concatenate(self._unseen)
        is_late = (events[:, KIND] == SUBMITTED) & (events[:, TIME] >= now)
        self._unseen = [events[is_late]]
        seen: Ints = events[~is_late]
        return seen

    def _follow(self, events: Ints) -> None:
        ended = []
        for time, kind, row in events.tolist():
            if kind in (SUBMITTED, RETURNED):  # a job that returns to the queue keeps its soft limit
                soft = self.seconds[row]
                self._waiting[row] = replace(self._bounds.job(row), soft=None if np.isnan(soft) else int(soft))
                self._running.pop(row, None)
            elif kind == STARTED:
                self._running[row] = self._waiting.pop(row), time
            elif kind == CANCELLED:
                self._outlived.ended(self._waiting.pop(row), None)
            elif kind == ENDED:
                job, start = self._running.pop(row)
                ended.append((time, row, job, time - start))
        for _, _, job, ran in sorted(ended, key=lambda one: one[:2]):  # as the adapter does, by end and id
            self._outlived.ended(job, ran)

    def _write(self, answers: Floats, n: int, rows: Ints, seconds: Ints | Floats) -> int:
        new = answers[n : n + len(rows)]
        new[:, 0], new[:, 2], new[:, 3], new[:, 4] = rows, seconds, seconds, np.inf
        new[:, 1] = self._requested[rows] if self._held_as.running_by_hard else seconds
        return n + len(rows)
