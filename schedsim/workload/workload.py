"""Workload: the jobs and the machine of a simulation."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints, jobs_in
from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole, whole_numbers
from predictors.data.joblog import JobLog
from schedsim.kernels.records import CLASSES
from schedsim.workload.demands import Demands

MOST_PROCS: Final = (1 << CLASSES) - 1
"""Processors of the largest machine; the ordered lists have classes of width up to it."""
_COLUMNS: Final = ("submit", "procs", "requested", "run_time", "job_id")
_OPTIONAL: Final = ("user", "deadline", "asked_procs")


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs to be scheduled, one row a job, sorted by (submit, job id); row i is row i of the cleaned job log.

    Parameters
    ----------
    job_id : int64 array of shape (n_jobs,)
        Unique numbers.
    submit : int64 array of shape (n_jobs,)
        Submission [s], from 0.
    procs : int64 array of shape (n_jobs,)
        Processors, 1 to `machine_procs`.
    requested : int64 array of shape (n_jobs,)
        Requested time [s], at least 1: the hard limit.
    run_time : int64 array of shape (n_jobs,)
        How long the job runs unless it is stopped [s], at least 0.
    machine_procs : int
        Processors of the machine.
    user : int64 array of shape (n_jobs,), optional
        Who submitted it, for tables by user; -1 is unknown.
    deadline : int64 array of shape (n_jobs,), optional
        Second by which a job that may be postponed should have ended, not before its submission; -1 for the others.
    asked_procs : int64 array of shape (n_jobs,), optional
        Processors asked for, 1 to `procs`, where jobs get more than that; by default `procs`.
    origin : int
        Time of second 0 on the log's own clock; writers add it back.
    name : str
        What to call it in tables.
    demands : Demands, optional
        What the jobs ask of nodes with GPUs and memory; without them processors alone are counted.

    Examples
    --------
    >>> w = Workload.from_columns([1, 2], submit=[0, 5], procs=[4, 8], requested=[60, 60], run_time=[30, 60],
    ...                           machine_procs=8)
    >>> len(w), w.jobs.shape
    (2, (2, 7))
    """

    job_id: Ints
    submit: Ints
    procs: Ints
    requested: Ints
    run_time: Ints
    machine_procs: int
    user: Ints | None = None
    deadline: Ints | None = None
    asked_procs: Ints | None = None
    origin: int = 0
    name: str = "workload"
    demands: Demands | None = None

    def __post_init__(self) -> None:
        n_jobs = len(self.job_id)
        for column in (*_COLUMNS, *(name for name in _OPTIONAL if getattr(self, name) is not None)):
            array = np.array(whole_numbers(getattr(self, column), f"{self.name}: {column}"))
            if array.shape != (n_jobs,):
                raise JobcastError(f"{self.name}: {column} has shape {array.shape}; one value a job is ({n_jobs},).")
            array.flags.writeable = False
            object.__setattr__(self, column, array)
        self._validate(n_jobs)

    def _validate(self, n_jobs: int) -> None:
        if n_jobs == 0:
            raise JobcastError(f"{self.name}: there are no jobs to simulate.")
        check_whole(self.machine_procs, f"{self.name}: machine_procs", most=np.iinfo(np.int64).max)
        if self.machine_procs < 1:
            raise JobcastError(f"{self.name}: a machine needs at least 1 processor; got {self.machine_procs}.")
        if self.machine_procs > MOST_PROCS:
            raise JobcastError(
                f"{self.name}: a machine has at most {MOST_PROCS:,} processors; got {self.machine_procs:,}. Count "
                "nodes in place of processors."
            )
        for column, least in (("submit", 0), ("procs", 1), ("requested", 1), ("run_time", 0)):
            self._refuse(getattr(self, column) < least, column, f"must be at least {least}")
        self._refuse(self.procs > self.machine_procs, "procs", f"the machine has {self.machine_procs}")
        step = np.diff(self.submit)
        unsorted = (step < 0) | ((step == 0) & (np.diff(self.job_id) <= 0))
        self._refuse(np.append(False, unsorted), "submit", "jobs must be sorted by (submit, job id)")
        if self.deadline is not None:
            wrong = (self.deadline < self.submit) & (self.deadline != -1)
            self._refuse(wrong, "deadline", "it lies before the submission; -1 means none")
        if self.asked_procs is not None:
            wrong = (self.asked_procs < 1) | (self.asked_procs > self.procs)
            self._refuse(wrong, "asked_procs", "it must be at least 1, and at most what the job gets")
        if (np.diff(np.sort(self.job_id)) == 0).any():
            raise JobcastError(f"{self.name}: two jobs have the same job id; number them again.")
        if self.demands is not None:
            self._validate_demands(self.demands)

    def _validate_demands(self, demands: Demands) -> None:
        if len(demands) != len(self):
            raise JobcastError(f"{self.name}: has demands for {len(demands)} jobs, and {len(self)} jobs.")
        if (procs := demands.total("procs")) != self.machine_procs:
            raise JobcastError(
                f"{self.name}: is for a machine of {self.machine_procs} processors, the nodes have {procs}; both must "
                "be the same."
            )
        if not (fits := demands.fits).all():
            row = int(np.argmin(fits))
            raise JobcastError(
                f"{self.name}: job {self.job_id[row]} asks for {demands.words(row)}, and has no place even when no "
                "other job runs; leave such jobs out."
            )

    def _refuse(self, bad: npt.NDArray[np.bool_], column: str, rule: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            value = int(getattr(self, column)[row])
            raise JobcastError(f"{self.name}: job {self.job_id[row]} has {column} {value}; {rule}.")

    @classmethod
    def from_columns(cls, job_id: npt.ArrayLike, *, machine_procs: int, **columns: npt.ArrayLike) -> Self:
        """Build a workload from anything that NumPy can turn into whole numbers."""
        arrays = {name: values if np.ndim(values) == 0 else np.asarray(values) for name, values in columns.items()}
        return cls(np.asarray(job_id), machine_procs=machine_procs, **arrays)  # type: ignore[arg-type]

    @classmethod
    def from_log(cls, log: JobLog, demands: Demands | None = None) -> Self:
        """Take the jobs of a log cleaned by `predictors.data.cleaning.clean`, and what they ask of nodes.

        Raises
        ------
        JobcastError
            If the log is not cleaned: a run time, request or width is unknown, or the machine's size is; or the demands
            are not of these jobs.
        """
        if log.max_procs is None:
            raise JobcastError(
                f"{log.name}: does not tell the machine's size; clean it: predictors.data.cleaning.clean(log, procs=…)."
            )
        return cls(
            job_id=log.values["job_id"],
            submit=log.values["submit"],
            procs=log.procs,
            requested=log.values["requested_time"],
            run_time=log.values["run_time"],
            machine_procs=log.max_procs,
            user=log.values["user"],
            origin=log.origin,
            name=log.name,
            demands=demands,
        )

    def __repr__(self) -> str:
        nodes = [] if self.demands is None else [f"{len(self.demands.nodes):,} nodes"]
        jobs, machine = jobs_in(len(self), self.submit), f"{self.machine_procs:,} processors"
        return f"Workload({', '.join([repr(self.name), jobs, machine, *nodes])})"

    def __len__(self) -> int:
        return len(self.job_id)

    def of_rows(self, rows: Ints) -> Self:
        """Return some of the jobs, rows ascending, on the same clock and machine."""
        optional = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        columns = {name: getattr(self, name) for name in _COLUMNS} | optional
        demands = None if self.demands is None else self.demands.of_rows(rows)
        return replace(self, **{name: column[rows] for name, column in columns.items()}, demands=demands)

    @cached_property
    def jobs(self) -> Ints:
        """The table that the kernels read, read-only, shape (n_jobs, 7): columns, rank of the id, deadline or -1."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(self.job_id)] = np.arange(len(self))
        deadline = np.full(len(self), -1) if self.deadline is None else self.deadline
        table = np.stack([*(getattr(self, column) for column in _COLUMNS), rank, deadline], axis=1)
        table.flags.writeable = False
        return table

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the jobs and the machine's size, and of what they ask of its nodes."""
        sha = hashlib.sha256(str(self.machine_procs).encode())
        sha.update(np.ascontiguousarray(self.jobs, dtype="<i8").tobytes())
        sha.update(b"" if self.demands is None else self.demands.digest.encode())
        return sha.hexdigest()


def row_of(workload: Workload, job_id: int) -> int:
    rows = np.flatnonzero(workload.job_id == job_id)
    if not rows.size:
        ids = workload.job_id
        raise JobcastError(f"{workload.name} has no job {job_id}; its {len(ids)} jobs are {ids.min()} to {ids.max()}.")
    return int(rows[0])
