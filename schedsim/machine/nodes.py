"""Nodes of the running jobs, and of each job of a schedule.

The engine's events update them: a start places a job, an end gives its nodes back.
"""

from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, RETURNED, STARTED
from schedsim.machine.allocators import Allocator
from schedsim.machine.failures import FailureProcess
from schedsim.machine.partitions import allocated
from schedsim.workload.workload import Workload

Interval = tuple[int, int]


class Nodes:
    """Nodes of the running jobs, and those reserved or down, at one moment of a simulation."""

    def __init__(self, allocator: Allocator, workload: Workload, failing: FailureProcess | None = None) -> None:
        for_jobs = allocator.topology.for_jobs
        if for_jobs != workload.machine_procs:
            raise JobcastError(
                f"{workload.name} is for a machine of {workload.machine_procs} processors, the allocator's has "
                f"{for_jobs} nodes for jobs; a processor is a node, so both must be the same."
            )
        odd = np.flatnonzero(allocated(allocator, workload.procs) != workload.procs)
        if odd.size:
            job, procs = workload.job_id[odd[0]], workload.procs[odd[0]]
            raise JobcastError(
                f"{workload.name}: job {job} asks for {procs} nodes, which no partition has; give it those that it "
                "gets, with schedsim.machine.partitions.widened(workload, allocator)."
            )
        self.allocator = allocator
        self.free: Bools = allocator.topology.usable.copy()
        self.held: dict[int, Ints] = {}
        self.procs, self.job_id, self.requested = workload.procs, workload.job_id, workload.requested
        self.failing = failing
        self.now = 0

    @property
    def by_identity(self) -> bool:
        """Whether a job may have no place although enough nodes are free."""
        return self.allocator.by_identity or self.failing is not None

    def place(self, row: int, free: Bools | None = None, when: int | None = None) -> Ints | None:
        """Return the nodes that a job would get now, later, or if others were free; None if it has no place.

        It cannot have nodes that are down now, or reserved within its requested time.
        """
        free = self.free if free is None else free
        if self.failing is not None:
            when = self.now if when is None else when
            free = free & ~self.failing.closed(when, when + int(self.requested[row]))
        return self.allocator.place(free, int(self.procs[row]), int(self.job_id[row]))

    def start(self, row: int) -> Ints:
        """Allocate and return the nodes of a job; refuse an allocator's answer that is not free."""
        nodes = self.place(row)
        if nodes is None or len(nodes) != self.procs[row] or not self.free[nodes].all():
            raise JobcastError(
                f"{type(self.allocator).__name__} gave job {self.job_id[row]} "
                f"{'no place' if nodes is None else f'the nodes {nodes.tolist()}'}; it needs {self.procs[row]} of the "
                f"{np.count_nonzero(self.free)} free ones."
            )
        self.free[nodes] = False
        self.held[row] = nodes
        return nodes

    def end(self, row: int) -> None:
        self.free[self.held.pop(row)] = True

    def on(self, nodes: Ints) -> list[int]:
        """Return the rows of the jobs on these nodes, ascending."""
        return sorted(row for row, held in self.held.items() if np.isin(held, nodes).any())

    def free_once_ended(self, rows: Ints) -> Bools:
        """Return which nodes are free once these running jobs have ended."""
        free = self.free.copy()
        for row in rows.tolist():
            free[self.held[row]] = True
        return free

    def fork(self) -> Self:
        new = copy(self)
        new.free, new.held = self.free.copy(), dict(self.held)
        new.failing = None if self.failing is None else self.failing.fork()
        return new


@dataclass(frozen=True, eq=False)
class NodeSets:
    """Nodes of each job of a schedule, as intervals: a row has the numbers `offsets[row]` to `offsets[row + 1]`."""

    # first and last node of each interval, both included; ascending within a job, shape (n_intervals,)
    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    offsets: Ints  # where each job's intervals begin, shape (n_jobs + 1,)
    by_identity: bool = False  # whether the allocator may have refused jobs while enough nodes were free

    __repr__ = short_repr

    def __getitem__(self, row: int) -> Ints:
        return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in self.intervals(row)])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def intervals(self, row: int) -> list[Interval]:
        """Return the nodes of a job as intervals (first, last), both included."""
        part = slice(self.offsets[row], self.offsets[row + 1])
        return list(zip(self.first[part].tolist(), self.last[part].tolist(), strict=True))

    @property
    def counts(self) -> Ints:
        """How many nodes each job has."""
        upto = np.concatenate([[0], np.cumsum(self.last - self.first + 1, dtype=np.int64)])
        return np.diff(upto[self.offsets])

    @classmethod
    def of(cls, sets: list[Ints], by_identity: bool = False) -> Self:
        """Return the sets of jobs, row by row, each ascending."""
        return cls.of_intervals([intervals(nodes) for nodes in sets], by_identity)

    @classmethod
    def of_intervals(cls, sets: list[list[Interval]], by_identity: bool = False) -> Self:
        """Return the sets of jobs, row by row, as intervals."""
        offsets = np.concatenate([[0], np.cumsum([len(held) for held in sets])]).astype(np.int64)
        ends = np.array([interval for held in sets for interval in held], dtype=np.int32).reshape(-1, 2)
        first, last = ends[:, 0].copy(), ends[:, 1].copy()
        for column in (first, last, offsets):
            column.flags.writeable = False
        return cls(first, last, offsets, by_identity)


def intervals(nodes: Ints) -> list[Interval]:
    """Return ascending numbers as intervals (first, last), both included.

    >>> intervals(np.array([3, 4, 5, 9]))
    [(3, 5), (9, 9)]
    """
    gaps = np.flatnonzero(np.diff(nodes) > 1)
    first, last = nodes[np.append(0, gaps + 1)], nodes[np.append(gaps, len(nodes) - 1)]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def interval_set(held: list[Interval]) -> str:
    """Return intervals as Batsim writes them.

    >>> interval_set([(1, 2), (5, 5)])
    '1-2 5'
    """
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in held)


def placed(allocator: Allocator, workload: Workload, events: Ints, failing: FailureProcess | None = None) -> NodeSets:
    """Return the nodes that every job had, from a finished simulation's events (time, kind, job row).

    `failing` is the process at the beginning of the simulation; for a job that ran again, the last nodes count.
    """
    nodes = Nodes(allocator, workload, failing)
    sets: list[list[Interval]] = [[]] * len(workload)
    for time, kind, row in events.tolist():
        if kind == STARTED:
            nodes.now = time
            if failing is not None:
                failing.advance(time)
            sets[row] = intervals(nodes.start(row))
        elif kind in (ENDED, RETURNED):
            nodes.end(row)
    return NodeSets.of_intervals(sets, nodes.by_identity)


@dataclass(frozen=True, eq=False)
class Placements:
    """The nodes of each job, by parts: a row has `offsets[row]` to `offsets[row + 1]`, nodes ascending."""

    # the node of each part, and the number of the job's pieces there, shape (n_parts,)
    node: Ints
    pieces: Ints
    offsets: Ints  # where each job's parts begin, shape (n_jobs + 1,)

    __repr__ = short_repr

    @classmethod
    def of(cls, spots: Ints, pieces: Ints) -> Self:
        """Return the placements from parts (job row, node, pieces), by starts; a restarted job's last ones.

        `pieces` has the number of pieces of each job, which its last parts add up to.

        >>> Placements.of(np.array([[1, 0, 2], [1, 3, 1], [0, 4, 1], [1, 5, 3]]), np.array([1, 3])).node.tolist()
        [4, 5]
        """
        spots = spots[np.argsort(spots[:, 0], kind="stable")]
        row, upto = spots[:, 0], np.cumsum(spots[:, 2])
        whole = np.cumsum(np.bincount(row, spots[:, 2], len(pieces)).astype(np.int64))
        spots = spots[upto > whole[row] - pieces[row]]
        offsets = np.append(0, np.cumsum(np.bincount(spots[:, 0], minlength=len(pieces)))).astype(np.int64)
        return cls(spots[:, 1].copy(), spots[:, 2].copy(), offsets)

    @property
    def job(self) -> Ints:
        """The job row of each part."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def node_sets(self) -> NodeSets:
        """Return the nodes of each job without the pieces."""
        return NodeSets.of(np.split(self.node, self.offsets[1:-1]), by_identity=True)
