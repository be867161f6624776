"""Schedule: when each job started and ended, and how it started; and its file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

import schedsim.kernels.records as at
from predictors.core.arrays import Bools, Ints, jobs_in, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, JOB, KIND, STARTED, TIME
from predictors.core.files import whole_file
from schedsim.machine.nodes import NodeSets, Placements, interval_set
from schedsim.machine.outages import Outages
from schedsim.workload.workload import Workload

READY: Final = at.READY
RESERVED: Final = at.BY_RESERVATION
BACKFILLED: Final = at.BACKFILLED
STARTED_BY: Final = ("ready", "reserved", "backfilled")
"""Names of the codes in `Schedule.started_by`: in the queue's order at once, in that order after holding a
reservation, ahead of a blocked job."""

_BY_ROW: Final = ("start", "end", "estimate", "last_estimate", "started_by")


@dataclass(frozen=True, eq=False)
class Disturbed:
    """What was reserved of the machine, and what failures did."""

    outages: Outages
    runs: Ints  # runs that failures stopped: job row, start, end [s], shape (n, 3)
    dropped: Bools  # whether a job was stopped by a failure and is gone, shape (n_jobs,)

    __repr__ = short_repr

    @classmethod
    def of(cls, outages: Outages, runs: Sequence[tuple[int, int, int]], dropped: Sequence[int], n_jobs: int) -> Self:
        """Build it from lists of runs and rows."""
        table, gone = np.array(runs, dtype=np.int64).reshape(-1, 3), np.zeros(n_jobs, dtype=np.bool_)
        gone[list(dropped)] = True
        table.flags.writeable = gone.flags.writeable = False
        return cls(outages, table, gone)


@dataclass(frozen=True, eq=False)
class Preempted:
    """Which runs were stopped for other jobs."""

    runs: Ints  # job row, start, end [s], row of the job that took their place, shape (n, 4)
    cancelled: Bools  # whether a job was stopped so and is gone, shape (n_jobs,)

    __repr__ = short_repr

    @classmethod
    def of(cls, runs: Ints, cancelled: Ints, n_jobs: int) -> Self:
        """Build it from the rows of runs, and of jobs that are gone."""
        table, gone = runs.copy(), np.zeros(n_jobs, dtype=np.bool_)
        gone[cancelled] = True
        table.flags.writeable = gone.flags.writeable = False
        return cls(table, gone)

    @property
    def seconds(self) -> Ints:
        """How long each job ran in vain [s], shape (n_jobs,)."""
        lost = np.zeros(len(self.cancelled), dtype=np.int64)
        np.add.at(lost, self.runs[:, 0], self.runs[:, 2] - self.runs[:, 1])
        return lost

    @property
    def times(self) -> Ints:
        """How often each job was stopped, shape (n_jobs,)."""
        return np.bincount(self.runs[:, 0], minlength=len(self.cancelled))


@dataclass(frozen=True, eq=False)
class Schedule:
    """One simulated schedule; arrays of shape (n_jobs,), rows as in the workload, times in seconds."""

    workload: Workload
    # start, end: when each job started and ended, on the workload's clock
    start: Ints
    end: Ints
    # estimate, last_estimate: the estimate at the start, and the last one after corrections
    estimate: Ints
    last_estimate: Ints
    started_by: Ints  # `READY`, `RESERVED` or `BACKFILLED`
    engine_seconds: float = 0.0  # wall time of the simulation, forecasts included
    nodes: NodeSets | None = None  # the nodes of each job, where there was an allocator
    # whether the job was stopped at its requested time with work left, where there is a run-time model
    stopped: Bools | None = None
    # what was reserved of the machine and what failed; of a job that failures stopped, start and end are those of its
    # last run
    disturbed: Disturbed | None = None
    placements: Placements | None = None  # where the pieces of each job lay, where jobs take GPUs and memory of nodes
    # which runs were stopped for other jobs, where the policy does that; start and end are those of the last run
    preempted: Preempted | None = None

    def __repr__(self) -> str:
        jobs = jobs_in(len(self.end), np.append(self.workload.submit, self.end))
        return f"Schedule({self.workload.name!r}, {jobs}, {self.workload.machine_procs:,} processors)"

    @classmethod
    def from_events(
        cls,
        workload: Workload,
        events: Ints,
        notes: Ints,
        engine_seconds: float,
        nodes: NodeSets | None = None,
        stopped: Sequence[int] | None = None,
        disturbed: Disturbed | None = None,
        placements: Placements | None = None,
        preempted: Preempted | None = None,
    ) -> "Schedule":
        """Build the schedule from a finished simulation's log."""
        started, ended = events[:, KIND] == STARTED, events[:, KIND] == ENDED
        if np.count_nonzero(ended) < len(workload):
            waiting = len(workload) - np.count_nonzero(ended)
            raise JobcastError(f"The simulation is not finished: {waiting} jobs have not ended. Run it to the end.")
        start, note = _by_job(len(workload), events, notes, started)
        end, last_estimate = _by_job(len(workload), events, notes, ended)
        columns = (start, end, note >> 2, last_estimate, note & 3)
        for column in columns:
            column.flags.writeable = False
        marked = None
        if stopped is not None:
            marked = np.zeros(len(workload), dtype=np.bool_)
            marked[list(stopped)] = True
        return cls(
            workload, *columns, engine_seconds=engine_seconds, nodes=nodes, stopped=marked, disturbed=disturbed,
            placements=placements, preempted=preempted,
        )  # fmt: skip

    def of_rows(self, rows: Ints) -> Self:
        """Return the schedule of some of the jobs, rows ascending, without their nodes."""
        columns = {name: getattr(self, name)[rows] for name in _BY_ROW}
        stopped = self.killed[rows]
        workload = self.workload.of_rows(rows)
        return replace(
            self, workload=workload, **columns, stopped=stopped, nodes=None, disturbed=None,
            placements=None, preempted=None,
        )  # fmt: skip

    @property
    def wait(self) -> Ints:
        """Start - submit [s]."""
        return self.start - self.workload.submit

    @property
    def run_time(self) -> Ints:
        """End - start [s]: how long the job really ran, until a kill at the requested time too."""
        return self.end - self.start

    @property
    def killed(self) -> npt.NDArray[np.bool_]:
        """Whether the job was stopped at its requested time."""
        if self.stopped is not None:
            return self.stopped
        return (self.run_time < self.workload.run_time) & ~self.is_gone

    @property
    def is_gone(self) -> Bools:
        """Whether the job was stopped by a failure or for another job, and did not start again."""
        gone = np.zeros(len(self.start), dtype=np.bool_)
        if self.disturbed is not None:
            gone |= self.disturbed.dropped
        if self.preempted is not None:
            gone |= self.preempted.cancelled
        return gone

    @property
    def stopped_runs(self) -> Ints:
        """Runs that failures stopped, or that were stopped for other jobs: job row, start, end [s], shape (n, 3)."""
        parts = [np.empty((0, 3), dtype=np.int64)]
        if self.disturbed is not None:
            parts.append(self.disturbed.runs)
        if self.preempted is not None:
            parts.append(self.preempted.runs[:, :3])
        return np.concatenate(parts)

    def columns(self) -> dict[str, npt.NDArray[Any] | list[str]]:
        """Return the columns of its files, one row per job; times by the log's own clock [s].

        Where jobs are preempted, it follows how often each was, and what it lost by that. Where there was an allocator,
        a last column `nodes` follows, such as `0-3 8`.
        """
        origin, workload = self.workload.origin, self.workload
        table: dict[str, npt.NDArray[Any] | list[str]] = {
            "job_id": workload.job_id,
            "submit": workload.submit + origin,
            "start": self.start + origin,
            "end": self.end + origin,
            "procs": workload.procs,
            "estimate": self.estimate,
            "last_estimate": self.last_estimate,
            "started_by": np.array(STARTED_BY)[self.started_by],
            "wait": self.wait,
            "run_time": self.run_time,
        }
        if self.preempted is not None:
            lost = self.preempted.seconds * workload.procs
            table |= {"preempted": self.preempted.times, "lost_processor_seconds": lost}
        if self.nodes is None:
            return table
        return table | {"nodes": [interval_set(self.nodes.intervals(row)) for row in range(len(self.nodes))]}

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write its columns, one line a job; whole or not at all."""
        table = self.columns()
        with whole_file(path) as part, part.open("w", encoding="ascii") as out:
            out.write(",".join(table) + "\n")
            for row in zip(*(np.asarray(column).tolist() for column in table.values()), strict=True):
                out.write(",".join(map(str, row)) + "\n")


def _by_job(n_jobs: int, events: Ints, notes: Ints, which: Bools) -> tuple[Ints, Ints]:
    """Return time and note of each job's last event among these, of shape (n_jobs,)."""
    rows, last = np.flatnonzero(which), np.empty(n_jobs, dtype=np.int64)
    last[events[rows, JOB]] = rows
    return events[last, TIME], notes[last]
