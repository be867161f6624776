"""Partitions in a hierarchy: Mira's, or those of a TOML file.

On such a machine a job gets a whole partition: of the free ones of the smallest sufficient size the one that blocks the
fewest larger partitions that are still free, of these the first (Allcock, Rich, Fan & Lan, Experience and practice of
batch scheduling on leadership supercomputers at Argonne, JSSPP 2017, doi:10.1007/978-3-319-77398-8_1). The partitions
are data, a `schedsim.machine.partitions.Hierarchy`: Mira's, or that of a file (docs/machine.md).
"""

import os
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np

from predictors.core.arrays import Bools, Ints, Singles
from predictors.core.declarations import STRICT, declared, read_toml
from predictors.core.errors import JobcastError, counted, unknown_name
from predictors.core.validation import check_whole
from schedsim.machine.allocators import ALLOCATORS, Allocator, make_allocator
from schedsim.machine.outages import Pieces, mask_of
from schedsim.machine.topology import MOST_NODES, Topology
from schedsim.workload.workload import Workload

MIRA_NODES: Final = 49_152
MOST_PARTS: Final = 2_000  # most partitions of a machine: each is compared with each
MOST_CELLS: Final = 4_000_000
"""Most partitions times places at which one begins or ends: place() reads a table of that size."""


@dataclass(frozen=True)
class Level:
    """Partitions of one size.

    >>> Level(4, (0, 2), skip=2).pieces
    (((0, 2), (4, 6)), ((2, 4), (6, 8)))
    """

    size: int  # nodes of each
    starts: tuple[int, ...]  # the first node of each
    skip: int = 0  # nodes left out in the middle, between two halves of the partition

    def __post_init__(self) -> None:
        if not isinstance(self.starts, tuple | list):
            raise JobcastError(f"The starts of partitions are a list of nodes; got {self.starts!r}.")
        for what, value in (("size", self.size), ("gap", self.skip), *(("start", start) for start in self.starts)):
            check_whole(value, f"the {what} of a partition")
        if self.size < 1 or not self.starts or min(self.starts) < 0 or self.skip < 0:
            raise JobcastError(
                f"Partitions have 1 node or more and begin at node 0 or later; got size {self.size}, starts "
                f"{list(self.starts)}, skip {self.skip}."
            )
        if self.skip and self.size % 2:
            raise JobcastError(f"A partition of {self.size} nodes has no two equal halves with {self.skip} between.")
        if len(set(self.starts)) < len(self.starts):
            raise JobcastError(f"Two partitions of {self.size} nodes begin at the same node: {list(self.starts)}.")

    @classmethod
    def side_by_side(cls, size: int, nodes: int, skip: int = 0) -> Self:
        """Return partitions that begin at each multiple of their size, on a machine of this many nodes."""
        if nodes // size > MOST_PARTS:
            n_parts = f"{nodes // size:,} partitions of {counted(size, 'node')}"
            raise JobcastError(f"{n_parts} are more than {MOST_PARTS:,}; take larger ones.")
        return cls(size, tuple(range(0, nodes - size + 1, size)), skip)

    @property
    def pieces(self) -> tuple[Pieces, ...]:
        """The nodes of each partition as pieces (first, last + 1)."""
        half = self.size // 2
        if not self.skip:
            return tuple(((start, start + self.size),) for start in self.starts)
        behind = half + self.skip
        return tuple(((s, s + half), (s + behind, s + behind + half)) for s in self.starts)


@dataclass(frozen=True)
class Hierarchy:
    """All partitions of a machine.

    >>> Hierarchy.binary(12, 2).sizes
    (2, 4, 8, 12)
    """

    nodes: int
    # the partitions by size, including the whole machine; a size may occur once with and once without a gap
    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        check_whole(self.nodes, "the number of nodes", 1)
        for level in self.levels:
            end = max(piece[-1][1] for piece in level.pieces)
            if end > self.nodes:
                raise JobcastError(
                    f"A partition of {level.size} nodes reaches to node {end - 1}; the machine's last is "
                    f"{self.nodes - 1}."
                )
        if self.nodes not in self.sizes:
            raise JobcastError(f"One partition must be the whole machine of {self.nodes} nodes.")
        kinds = [(level.size, level.skip) for level in self.levels]
        if len(set(kinds)) < len(kinds):
            raise JobcastError(
                f"Partitions of one size belong to one level; got the sizes {[size for size, _ in kinds]}."
            )
        n_parts, n_cells = sum(len(level.starts) for level in self.levels), len(self.borders) - 1
        if n_parts * n_cells > MOST_CELLS or n_parts > MOST_PARTS:
            raise JobcastError(
                f"{n_parts} partitions with {n_cells + 1} borders are too many to search for each job; take a larger "
                "smallest partition."
            )

    @classmethod
    def binary(cls, nodes: int, unit: int | None = None) -> Self:
        """Return partitions of unit x 2^k nodes, each at multiples of its size, and the whole machine.

        By default the unit is the smallest power of two that gives at most 128 smallest partitions.
        """
        check_whole(nodes, "the number of nodes", 1)
        if unit is None:
            unit = 1
            while nodes > 128 * unit:
                unit *= 2
        check_whole(unit, "the least partition", 1)
        levels, size = [], unit
        while size < nodes:
            levels.append(Level.side_by_side(size, nodes))
            size *= 2
        return cls(nodes, (*levels, Level(nodes, (0,))))

    @classmethod
    def mira(
        cls,
        odd: bool = False,  # whether 4 K partitions may also be 2 K nodes, a gap of 2 K, and 2 K nodes
    ) -> Self:
        """Return the partitions of Mira: 512 x 2^k nodes to 32 K, 12 K, 24 K and the whole 48 K.

        >>> [f"{size / 1024:g} K" for size in Hierarchy.mira().sizes]
        ['0.5 K', '1 K', '2 K', '4 K', '8 K', '12 K', '16 K', '24 K', '32 K', '48 K']
        """
        nodes, k = MIRA_NODES, 1024
        sizes = (*(512 << i for i in range(6)), 12 * k, 24 * k, nodes)
        levels = [*(Level.side_by_side(size, nodes) for size in sizes), Level(32 * k, (0, 16 * k))]
        if odd:
            levels.append(Level(4 * k, tuple(s + at for s in range(0, nodes, 8 * k) for at in (0, 2 * k)), skip=2 * k))
        return cls(nodes, tuple(sorted(levels, key=lambda level: (level.size, level.skip))))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of partitions, ascending."""
        return tuple(sorted({level.size for level in self.levels}))

    @cached_property
    def borders(self) -> Ints:
        """Nodes at which a partition begins or ends, ascending, 0 and the number of nodes among them."""
        found = {0, self.nodes} | {
            border for level in self.levels for piece in level.pieces for ends in piece for border in ends
        }
        return np.array(sorted(found), dtype=np.int64)

    @cached_property
    def parts(self) -> tuple[Pieces, ...]:
        """All partitions, level by level, as pieces (first, last + 1)."""
        return tuple(part for level in self.levels for part in level.pieces)

    @cached_property
    def size_of(self) -> Ints:
        """Size of each partition, in the order of `parts`."""
        return np.array([level.size for level in self.levels for _ in level.starts], dtype=np.int64)

    @cached_property
    def covers(self) -> Singles:
        """1 where a partition has the nodes between two borders, shape (partitions, borders - 1)."""
        covers = np.zeros((len(self.parts), len(self.borders) - 1), dtype=np.float32)
        for row, part in enumerate(self.parts):
            for first, end in part:
                a, b = np.searchsorted(self.borders, [first, end])
                covers[row, a:b] = 1
        return covers

    @cached_property
    def of_size(self) -> dict[int, tuple[Ints, Singles]]:
        """The numbers of the partitions of each size, and their rows of `covers`."""
        rows = {size: np.flatnonzero(self.size_of == size) for size in self.sizes}
        return {size: (of, self.covers[of]) for size, of in rows.items()}

    @cached_property
    def blocks(self) -> Singles:
        """1 where a partition, once taken, blocks another that is larger, shape (partitions, partitions)."""
        larger = self.size_of[None, :] > self.size_of[:, None]
        return ((self.covers @ self.covers.T > 0) & larger).astype(np.float32)


@dataclass(frozen=True)
class Partitions:
    """A whole partition: of the free ones of the smallest sufficient size, the one that blocks the fewest larger ones.

    Jobs must ask for exactly the nodes of a partition, see `widened`.

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
        sizes = np.array(self.hierarchy.sizes, dtype=np.int64)
        return sizes[np.searchsorted(sizes, procs)]

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `schedsim.machine.allocators.Allocator`."""
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
    """Another allocator that keeps some jobs to certain nodes: a queue on a part of the machine.

    >>> small = Within(Partitions(Hierarchy.binary(8)), sets=(((4, 8),),), set_of={1: 0})
    >>> small.place(small.topology.usable, 2, job_id=1).tolist(), small.place(small.topology.usable, 2, 2).tolist()
    ([4, 5], [0, 1])
    """

    allocator: Allocator
    sets: tuple[Pieces, ...]  # sets of nodes, each as pieces (first, last + 1)
    set_of: Mapping[int, int]  # the set of a job, by its id; other jobs may have all nodes
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
        return self.allocator.topology

    @cached_property
    def masks(self) -> tuple[Bools, ...]:
        """Whether a node is in a set, for each set."""
        return tuple(mask_of(pieces, self.topology.nodes) for pieces in self.sets)

    def allocated(self, procs: Ints) -> Ints:
        return allocated(self.allocator, procs)

    def place(self, free: Bools, procs: int, job_id: int) -> Ints | None:
        """Return the nodes of a job, see `schedsim.machine.allocators.Allocator`."""
        number = self.set_of.get(job_id)
        return self.allocator.place(free if number is None else free & self.masks[number], procs, job_id)


def allocated(allocator: Allocator, procs: Ints) -> Ints:
    """Return the nodes that jobs of these widths get: with partitions, more than they ask for."""
    return allocator.allocated(procs) if isinstance(allocator, Partitions | Within) else procs


def widened(workload: Workload, allocator: Allocator | None) -> Workload:
    """Return a workload in which jobs take as many nodes as they get; with partitions, `procs` may grow.

    `asked_procs` keeps what they asked for, for Cobalt's score.

    >>> w = Workload.from_columns([1, 2], submit=[0, 5], procs=[3, 8], requested=[60, 60], run_time=[30, 60],
    ...                           machine_procs=8)
    >>> wide = widened(w, Partitions(Hierarchy.binary(8)))
    >>> wide.procs.tolist(), wide.asked_procs.tolist()
    ([4, 8], [3, 8])
    """
    if not isinstance(allocator, Partitions | Within):
        return workload
    if allocator.topology.for_jobs != workload.machine_procs:
        raise JobcastError(
            f"{workload.name} is for a machine of {workload.machine_procs} processors, the partitions are of one of "
            f"{allocator.topology.for_jobs} nodes; a processor is a node, so both must be the same."
        )
    asked = workload.procs if workload.asked_procs is None else workload.asked_procs
    return replace(workload, procs=allocator.allocated(workload.procs), asked_procs=asked)


ALLOCATOR_NAMES: Final = (*ALLOCATORS, "partitions")


def allocator_named(
    name: str,  # one of `ALLOCATOR_NAMES`
    nodes: int,
    per_leaf: int | None = None,  # nodes of a leaf switch; by default all are on one
    seed: int = 0,  # for allocators that draw
    # for `partitions`; by default Mira's where the machine has as many nodes, else `Hierarchy.binary`
    hierarchy: Hierarchy | None = None,
) -> Allocator:
    """Return an allocator by its name, for a machine of this many nodes.

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


@dataclass(frozen=True)
class _Level:
    """A `[[level]]` of a TOML file."""

    __pydantic_config__: ClassVar[Any] = STRICT

    size: int
    starts: tuple[int, ...] | None = None
    skip: int = 0

    def made(self, nodes: int) -> Level:
        if self.size < 1:
            raise JobcastError(f"needs `size = N`, the nodes of each partition; got {self.size}.")
        if self.size > nodes:
            raise JobcastError(f"partitions of {self.size} nodes do not fit into the machine of {nodes}.")
        if self.starts is not None:
            return Level(self.size, self.starts, self.skip)
        return Level.side_by_side(self.size, nodes, self.skip)


@dataclass(frozen=True)
class _Machine:
    """A TOML file of partitions."""

    __pydantic_config__: ClassVar[Any] = STRICT

    nodes: int
    level: tuple[_Level, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1 or not self.level:
            raise JobcastError("needs `nodes = N` and a `[[level]]` for each size of partition.")
        if self.nodes > MOST_NODES:
            raise JobcastError(f"a machine has at most {MOST_NODES:,} nodes; got {self.nodes:,}.")


def read_hierarchy(path: str | os.PathLike[str]) -> Hierarchy:
    machine = declared(_Machine, read_toml(path, "partitions, a TOML file"), str(path))
    found = []
    for number, level in enumerate(machine.level, start=1):
        try:
            found.append(level.made(machine.nodes))
        except JobcastError as error:
            raise JobcastError(f"{path}: level {number}: {error}") from None
    try:
        return Hierarchy(machine.nodes, tuple(sorted(found, key=lambda level: (level.size, level.skip))))
    except JobcastError as error:
        raise JobcastError(f"{path}: {error}") from None
