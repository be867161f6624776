"""Dilation (CEIL): run times that grow where utilisation passes a limit.

A job that meets a utilisation above the limit takes longer by a factor of (seed, job), the same under every policy.
Utilisation is processors in use over processors of the machine, the job itself included.
"""

from copy import copy
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, Self

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.core.hash_random import unit
from predictors.core.validation import check_whole
from schedsim.machine.topology import Topology
from schedsim.workload.workload import Workload


@dataclass(frozen=True)
class Dilation:
    """A model of run times, see `schedsim.machine.run_times.RunTimes`.

    Simulate with `kill=False`, so that the request does not cut dilated runs.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> w = Workload.from_columns([1, 2], submit=[0, 0], procs=[50, 46], requested=[100, 100], run_time=[100, 100],
    ...                           machine_procs=100)
    >>> simulate(w, make_policy("easy"), kill=False, run_times=Dilation(low=1.2, high=1.2)).run_time.tolist()
    [100, 120]
    """

    limit: float = 0.95  # utilisation above which jobs take longer; equal is not above
    # low, high: the factor is uniform between these
    low: float = 1.052
    high: float = 1.211
    # whether the utilisation right after the job's start counts, or its mean over the undilated run
    by: Literal["start", "mean"] = "start"
    seed: int = 0  # seed of the factors

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= 1:
            raise JobcastError(f"The utilisation above which jobs take longer is from 0 to 1; got {self.limit}.")
        if not 1 <= self.low <= self.high < float("inf"):
            raise JobcastError(f"Jobs take longer by factors from 1 on, low to high; got {self.low}, {self.high}.")
        check_whole(self.seed, "the seed of by how much runs take longer", 0, (1 << 62) - 1)
        if self.by not in ("start", "mean"):
            raise JobcastError(f"Jobs take longer by the utilisation at their 'start' or its 'mean'; got {self.by!r}.")

    @property
    def topology(self) -> Topology | None:
        """None: the places of jobs do not matter."""
        return None

    def factor(self, job_id: int) -> float:
        """Return the factor by which a dilated job takes longer."""
        return self.low + (self.high - self.low) * unit(self.seed, job_id, 71)

    def begun(self, workload: Workload) -> "Dilating":
        return Dilating(self, workload)


@dataclass
class _Run:
    """A running job: its start, the integral of utilisation at that time, and its end once known [s]."""

    start: int
    used: int
    end: int
    sure: bool


class Dilating:
    """The running jobs of one simulation, see `schedsim.machine.run_times.Progress`."""

    def __init__(self, model: Dilation, workload: Workload) -> None:
        self._model, self._workload = model, workload
        self._running: dict[int, _Run] = {}
        self._fresh: list[int] = []
        self._in_use = self._used = self._now = 0

    def advance(self, now: int) -> None:
        self._used += self._in_use * (now - self._now)
        self._now = now

    def started(self, row: int, nodes: Ints | None) -> None:
        """Take in a start. By `start`, utilisation right after it decides on the run; by `mean`, that comes later."""
        run_time, model = int(self._workload.run_time[row]), self._model
        self._in_use += int(self._workload.procs[row])
        longer = model.by == "mean" or self._in_use > model.limit * self._workload.machine_procs
        end = self._now + (self._dilated(row) if longer else run_time)
        self._running[row] = _Run(self._now, self._used, end, sure=model.by == "start")
        self._fresh.append(row)

    def ended(self, row: int) -> bool:
        self._in_use -= int(self._workload.procs[row])
        return self._now >= self._running.pop(row).end or not self._workload.run_time[row]

    def ends(self) -> tuple[Ints, Ints]:
        """Return the ends of jobs that have started, or for which the mean utilisation is known now."""
        for row, run in self._running.items():
            if not run.sure and self._now >= run.start + int(self._workload.run_time[row]) - 1:
                self._decide(row, run)
        rows = sorted(row for row in self._fresh if row in self._running)
        self._fresh = []
        return np.array(rows, dtype=np.int64), np.array([self._running[row].end for row in rows], dtype=np.int64)

    def next_step(self) -> int | None:
        """Return the first second at which all but the last second of an undilated run is known."""
        unsure = (row for row, run in self._running.items() if not run.sure)
        return min((self._running[row].start + int(self._workload.run_time[row]) - 1 for row in unsure), default=None)

    def fork(self) -> Self:
        new = copy(self)
        new._running = {row: replace(run) for row, run in self._running.items()}
        new._fresh = list(self._fresh)
        return new

    def _dilated(self, row: int) -> int:
        run_time = int(self._workload.run_time[row])
        return ceil(run_time * self._model.factor(int(self._workload.job_id[row])) - 1e-9)

    def _decide(self, row: int, run: _Run) -> None:
        """Decide by the mean; utilisation does not change in the last second."""
        run_time = int(self._workload.run_time[row])
        used = self._used - run.used + self._in_use * (run.start + run_time - self._now)
        longer = used > self._model.limit * self._workload.machine_procs * run_time
        run.end, run.sure = run.start + (self._dilated(row) if longer else run_time), True
        self._fresh.append(row)
