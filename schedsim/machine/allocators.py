"""Allocators: scattered, first-fit, best-fit, contiguous.

Counts of processors decide which jobs start; most allocators place every job for which enough nodes are free, and so
change no schedule. Where identity matters (`by_identity`: contiguous nodes, partitions), the allocator decides as well:
a job without a place is blocked like one with too few free nodes; the shadow time of the head is the first planned end
at which it has a place; there are no extra processors, and a backfill that ends later may start if the head still has a
place then.

Your own allocator has the attributes and the method of `Allocator`; pass it to the simulation as a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import unknown_name
from predictors.core.hash_random import mixed
from predictors.core.jit import compiled
from predictors.core.validation import check_whole
from schedsim.machine.topology import Topology


@compiled
def draw(seed: int, job_id: int, free: Bools, nodes: Ints, keys: Ints) -> int:
    """Write the free nodes and a key for each; return how many there are."""
    n = 0
    own = mixed(seed, job_id, 1)
    for node in range(len(free)):
        if free[node]:
            nodes[n] = node
            keys[n] = mixed(own, node, 2)
            n += 1
    return n


class Allocator(Protocol):
    """Places jobs. Its answer may depend on its arguments alone: the engine asks more often than jobs start."""

    @property
    def topology(self) -> Topology:
        """The machine."""

    @property
    def by_identity(self) -> bool:
        """Whether it may refuse a job although enough nodes are free."""

    def place(
        self,
        free: Bools,  # shape (nodes,); which nodes are free; not to be changed
        # procs, job_id: how many nodes the job needs, and its number
        procs: int,
        job_id: int,
    ) -> Ints | None:
        """Return the nodes of a job, ascending, or None if it has no place."""


@dataclass(frozen=True)
class Scattered:
    """Nodes drawn by hash(seed, job id, node), as on a machine with free nodes anywhere.

    >>> allocator = Scattered(Topology(leaves=4, per_leaf=4), seed=1)
    >>> allocator.place(allocator.topology.usable, 4, job_id=7).tolist()
    [7, 9, 11, 15]
    """

    topology: Topology
    seed: int = 0
    by_identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(self.seed, "an allocator's seed", 0, (1 << 63) - 1)

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `Allocator`."""
        nodes, keys = np.empty((2, len(free)), dtype=np.int64)
        found = draw(self.seed, job_id, free, nodes, keys)
        if found < procs:
            return None
        chosen = np.argpartition(keys[:found], procs - 1)[:procs] if procs < found else np.arange(found)
        return np.sort(nodes[:found][chosen])


@dataclass(frozen=True)
class FirstFit:
    """The free nodes with the lowest numbers.

    >>> FirstFit(Topology(2, 4)).place(np.array([0, 1, 0, 1, 1, 1, 1, 1]) > 0, 3, job_id=7).tolist()
    [1, 3, 4]
    """

    topology: Topology
    seed: int = 0
    by_identity: ClassVar[bool] = False

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `Allocator`."""
        nodes = np.flatnonzero(free)
        return nodes[:procs] if len(nodes) >= procs else None


@dataclass(frozen=True)
class BestFit:
    """As few leaves as possible: the tightest one that holds the job; else the emptiest leaves, then the tightest.

    >>> allocator, free = BestFit(Topology(3, 4)), np.array([1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1]) > 0
    >>> allocator.place(free, 2, job_id=7).tolist(), allocator.place(free, 6, job_id=7).tolist()
    ([6, 7], [0, 1, 2, 3, 6, 7])
    """

    topology: Topology
    seed: int = 0
    by_identity: ClassVar[bool] = False

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `Allocator`."""
        per_leaf = self.topology.per_leaf
        room = free.reshape(self.topology.leaves, per_leaf).sum(axis=1)
        if room.sum() < procs:
            return None
        chosen = np.zeros(self.topology.leaves, dtype=np.bool_)
        left = procs
        while left > room[~chosen].max():
            leaf = int(np.argmax(np.where(chosen, -1, room)))
            chosen[leaf] = True
            left -= int(room[leaf])
        last = int(np.argmin(np.where(chosen | (room < left), per_leaf + 1, room)))
        within = np.flatnonzero(free[last * per_leaf : (last + 1) * per_leaf])[:left] + last * per_leaf
        whole = np.flatnonzero(free & np.repeat(chosen, per_leaf))
        return np.sort(np.concatenate([whole, within]))


@dataclass(frozen=True)
class Contiguous:
    """The first row of consecutive free nodes that is long enough; without one, the job has no place.

    >>> allocator, free = Contiguous(Topology(2, 4)), np.array([1, 1, 0, 1, 1, 1, 0, 1]) > 0
    >>> allocator.place(free, 3, job_id=7).tolist(), allocator.place(free, 4, job_id=7)
    ([3, 4, 5], None)
    """

    topology: Topology
    seed: int = 0
    by_identity: ClassVar[bool] = True

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `Allocator`."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], free, [False]])))
        first, length = edges[::2], edges[1::2] - edges[::2]
        enough = np.flatnonzero(length >= procs)
        return np.arange(first[enough[0]], first[enough[0]] + procs) if enough.size else None


ALLOCATORS: Final[Mapping[str, type[Scattered] | type[FirstFit] | type[BestFit] | type[Contiguous]]] = MappingProxyType(
    {"scattered": Scattered, "first-fit": FirstFit, "best-fit": BestFit, "contiguous": Contiguous}
)
"""Allocators by name; all take the topology, and a seed for those that draw."""


def make_allocator(name: str, topology: Topology, seed: int = 0) -> Allocator:
    """Return an allocator by its name.

    >>> make_allocator("first-fit", Topology.flat(100)).by_identity
    False
    """
    if name not in ALLOCATORS:
        raise unknown_name("allocator", name, ALLOCATORS)
    return ALLOCATORS[name](topology, seed)
