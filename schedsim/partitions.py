"""Which partition does a job get? An allocator for machines whose nodes are given out in partitions of fixed places.

On such a machine a job gets a whole partition: of the free ones of the least sufficient size the one that blocks the
fewest larger partitions which are still free, of these the first (Allcock, Rich, Fan & Lan, Experience and practice of
batch scheduling on leadership supercomputers at Argonne, JSSPP 2017, doi:10.1007/978-3-319-77398-8_1). The partitions
are data, a `schedsim.hierarchy.Hierarchy`: Mira's, or that of any machine.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError, unknown_name
from schedsim.allocators import ALLOCATORS, Allocator, make_allocator
from schedsim.hierarchy import MIRA_NODES, Hierarchy
from schedsim.topology import Topology
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Partitions:
    """A whole partition: of the free ones of the least sufficient size, the one that blocks the fewest larger ones.

    Jobs must ask for exactly the nodes of a partition, see `widened`.

    Parameters
    ----------
    hierarchy : Hierarchy
        The machine's partitions.

    Examples
    --------
    >>> allocator, free = Partitions(Hierarchy.binary(8)), np.array([1, 1, 1, 1, 0, 1, 1, 1]) > 0
    >>> allocator.place(free, 1, job_id=7).tolist(), allocator.place(free, 2, job_id=8).tolist()
    ([5], [6, 7])
    >>> allocator.allocated(np.array([1, 3, 5])).tolist()
    [1, 4, 8]
    """

    hierarchy: Hierarchy
    by_identity: ClassVar[bool] = True

    @cached_property
    def topology(self) -> Topology:
        """The machine, as one switch."""
        return Topology.flat(self.hierarchy.nodes)

    def allocated(self, procs: Ints) -> Ints:
        """Return the nodes of the least partition that holds so many."""
        sizes = np.array(self.hierarchy.sizes, dtype=np.int64)
        return sizes[np.searchsorted(sizes, procs)]

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `schedsim.allocators.Allocator`."""
        h = self.hierarchy
        taken = (~np.logical_and.reduceat(free, h.borders[:-1])).astype(np.float32)
        rows, covers = h.of_size[h.sizes[bisect_left(h.sizes, procs)]]
        fitting = rows[covers @ taken == 0]
        if not fitting.size:
            return None
        chosen = fitting[0]
        if fitting.size > 1:
            still_open = (h.covers @ taken == 0).astype(np.float32)
            chosen = fitting[np.argmin(h.blocks[fitting] @ still_open)]
        return np.concatenate([np.arange(first, end) for first, end in h.parts[chosen]])


@dataclass(frozen=True)
class Within:
    """Another allocator, some jobs of which may have certain nodes only: a queue on a part of the machine.

    Parameters
    ----------
    allocator : Allocator
        Places the jobs.
    sets : tuple of tuple of (int, int)
        Sets of nodes, each as pieces (first, last + 1).
    set_of : mapping of int to int
        Which set a job, by its id, is kept to; jobs not named may have all nodes.

    Raises
    ------
    JobcastError
        If a set reaches beyond the machine, or a job is kept to a set that is not there.

    Examples
    --------
    >>> small = Within(Partitions(Hierarchy.binary(8)), sets=(((4, 8),),), set_of={1: 0})
    >>> small.place(small.topology.usable, 2, job_id=1).tolist(), small.place(small.topology.usable, 2, 2).tolist()
    ([4, 5], [0, 1])
    """

    allocator: Allocator
    sets: tuple[tuple[tuple[int, int], ...], ...]
    set_of: Mapping[int, int]
    by_identity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        nodes = self.topology.nodes
        for pieces in self.sets:
            if not all(isinstance(piece, tuple | list) and len(piece) == 2 for piece in pieces):
                raise JobcastError(f"A set of nodes is pieces (first, last + 1); got {pieces!r}.")
            for first, end in pieces:
                if not 0 <= first < end <= nodes:
                    raise JobcastError(f"Nodes {first} to {end - 1} are not a piece of a machine of {nodes} nodes.")
        for job, number in self.set_of.items():
            if not 0 <= number < len(self.sets):
                raise JobcastError(f"Job {job} is kept to set {number} of nodes; there are {len(self.sets)}, from 0.")

    @property
    def topology(self) -> Topology:
        """The machine."""
        return self.allocator.topology

    @cached_property
    def masks(self) -> tuple[Bools, ...]:
        """Whether a node is in a set, for each set."""
        masks = []
        for pieces in self.sets:
            mask = np.zeros(self.topology.nodes, dtype=np.bool_)
            for first, end in pieces:
                mask[first:end] = True
            masks.append(mask)
        return tuple(masks)

    def allocated(self, procs: Ints) -> Ints:
        """Return the nodes that jobs of these widths get."""
        return allocated(self.allocator, procs)

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `schedsim.allocators.Allocator`."""
        number = self.set_of.get(job_id)
        return self.allocator.place(free if number is None else free & self.masks[number], procs, job_id)


def allocated(allocator: Allocator, procs: Ints) -> Ints:
    """Return the nodes that jobs of these widths get: more than they ask for, where nodes come in partitions."""
    return allocator.allocated(procs) if isinstance(allocator, Partitions | Within) else procs


def widened(workload: Workload, allocator: Allocator | None) -> Workload:
    """Return a workload whose jobs ask for as many nodes as they get: where nodes come in partitions, more.

    Raises
    ------
    JobcastError
        If the allocator's machine has another number of nodes for jobs than the workload's.

    Examples
    --------
    >>> w = Workload.from_columns([1, 2], submit=[0, 5], procs=[3, 8], requested=[60, 60], run_time=[30, 60],
    ...                           machine_procs=8)
    >>> widened(w, Partitions(Hierarchy.binary(8))).procs.tolist()
    [4, 8]
    """
    if not isinstance(allocator, Partitions | Within):
        return workload
    if allocator.topology.for_jobs != workload.machine_procs:
        raise JobcastError(
            f"{workload.name} is for a machine of {workload.machine_procs} processors, the partitions are of one of "
            f"{allocator.topology.for_jobs} nodes; a processor is a node, so both must be the same."
        )
    return replace(workload, procs=allocator.allocated(workload.procs))


ALLOCATOR_NAMES: Final = (*ALLOCATORS, "partitions")


def allocator_named(
    name: str, nodes: int, per_leaf: int | None = None, seed: int = 0, hierarchy: Hierarchy | None = None
) -> Allocator:
    """Return an allocator by its name, for a machine of so many nodes.

    Parameters
    ----------
    name : str
        One of `ALLOCATOR_NAMES`.
    nodes : int
        Nodes of the machine.
    per_leaf : int, optional
        Nodes of a leaf switch; by default all are on one.
    seed : int
        For allocators that draw.
    hierarchy : Hierarchy, optional
        For `partitions`; by default Mira's where the machine has as many nodes, else `Hierarchy.binary`.

    Raises
    ------
    JobcastError
        If there is no such allocator, or the machine cannot be built so.

    Examples
    --------
    >>> allocator_named("partitions", 100).allocated(np.array([3, 65])).tolist()
    [4, 100]
    """
    if name not in ALLOCATOR_NAMES:
        raise unknown_name("allocator", name, ALLOCATOR_NAMES)
    if name == "partitions":
        if hierarchy is None:
            hierarchy = Hierarchy.mira() if nodes == MIRA_NODES else Hierarchy.binary(nodes)
        if hierarchy.nodes != nodes:
            raise JobcastError(f"The partitions are of a machine of {hierarchy.nodes} nodes, this one has {nodes}.")
        return Partitions(hierarchy)
    if hierarchy is not None:
        raise JobcastError(f"Partitions are given, but the allocator {name!r} has none; take 'partitions'.")
    if per_leaf is not None and (per_leaf < 1 or nodes % per_leaf):
        raise JobcastError(f"A machine of {nodes} nodes cannot have leaf switches of {per_leaf} nodes each.")
    return make_allocator(
        name, Topology.flat(nodes) if per_leaf is None else Topology(nodes // per_leaf, per_leaf), seed
    )
