"""Which partitions has a machine? Those of each size, and where they lie: Mira's, or those of any machine."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError, counted
from schedsim.given import check_whole

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

MIRA_NODES: Final = 49_152
MOST_PARTS: Final = 2_000
"""Partitions of one machine: each is compared with each."""
MOST_CELLS: Final = 4_000_000
"""Partitions times places at which one begins or ends, at most: place() reads a table of that size."""


@dataclass(frozen=True)
class Level:
    """Partitions of one size.

    Parameters
    ----------
    size : int
        Nodes of each.
    starts : tuple of int
        The first node of each.
    skip : int
        Nodes left out in the middle: half of the partition lies before them, half behind.

    Raises
    ------
    JobcastError
        If there is no partition, or one cannot lie so.

    Examples
    --------
    >>> Level(4, (0, 2), skip=2).pieces
    (((0, 2), (4, 6)), ((2, 4), (6, 8)))
    """

    size: int
    starts: tuple[int, ...]
    skip: int = 0

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

    @property
    def pieces(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The nodes of each partition as pieces (first, last + 1)."""
        half = self.size // 2
        if not self.skip:
            return tuple(((start, start + self.size),) for start in self.starts)
        behind = half + self.skip
        return tuple(((s, s + half), (s + behind, s + behind + half)) for s in self.starts)


@dataclass(frozen=True)
class Hierarchy:
    """All partitions of a machine.

    Parameters
    ----------
    nodes : int
        Nodes of the machine.
    levels : tuple of Level
        The partitions by size, no size twice but for one with and one without a gap; the whole machine is among them.

    Raises
    ------
    JobcastError
        If a partition reaches beyond the machine, none is the whole machine, or there are too many.

    Examples
    --------
    >>> Hierarchy.binary(12, 2).sizes
    (2, 4, 8, 12)
    """

    nodes: int
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

        Without a unit, the least power of two that gives at most 128 smallest partitions.
        """
        check_whole(nodes, "the number of nodes", 1)
        if unit is None:
            unit = 1
            while nodes > 128 * unit:
                unit *= 2
        check_whole(unit, "the least partition", 1)
        if nodes // unit > MOST_PARTS:
            n_parts = f"{nodes // unit:,} partitions of {counted(unit, 'node')}"
            raise JobcastError(f"{n_parts} are more than {MOST_PARTS:,}; take larger ones.")
        levels, size = [], unit
        while size < nodes:
            levels.append(Level(size, tuple(range(0, nodes - size + 1, size))))
            size *= 2
        return cls(nodes, (*levels, Level(nodes, (0,))))

    @classmethod
    def mira(cls, odd: bool = False) -> Self:
        """Return the partitions of Mira: 512 x 2^k nodes to 32 K, 12 K, 24 K and the whole 48 K.

        Parameters
        ----------
        odd : bool
            Whether 4 K partitions may also be 2 K nodes, a gap of 2 K, and 2 K nodes.

        Examples
        --------
        >>> [f"{size / 1024:g} K" for size in Hierarchy.mira().sizes]
        ['0.5 K', '1 K', '2 K', '4 K', '8 K', '12 K', '16 K', '24 K', '32 K', '48 K']
        """
        nodes, k = MIRA_NODES, 1024
        levels = [Level(size, tuple(range(0, nodes, size))) for size in (512 << i for i in range(6))]
        levels += [
            Level(12 * k, tuple(range(0, nodes, 12 * k))),
            Level(24 * k, (0, 24 * k)),
            Level(32 * k, (0, 16 * k)),
            Level(nodes, (0,)),
        ]
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
    def parts(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """All partitions, level by level, as pieces (first, last + 1)."""
        return tuple(part for level in self.levels for part in level.pieces)

    @cached_property
    def size_of(self) -> Ints:
        """Size of each partition, in the order of `parts`."""
        return np.array([level.size for level in self.levels for _ in level.starts], dtype=np.int64)

    @cached_property
    def covers(self) -> Floats:
        """1 where a partition has the nodes between two borders, shape (partitions, borders - 1)."""
        covers = np.zeros((len(self.parts), len(self.borders) - 1), dtype=np.float32)
        for row, part in enumerate(self.parts):
            for first, end in part:
                a, b = np.searchsorted(self.borders, [first, end])
                covers[row, a:b] = 1
        return covers

    @cached_property
    def of_size(self) -> dict[int, tuple[Ints, Floats]]:
        """The numbers of the partitions of each size, and their rows of `covers`."""
        rows = {size: np.flatnonzero(self.size_of == size) for size in self.sizes}
        return {size: (of, self.covers[of]) for size, of in rows.items()}

    @cached_property
    def blocks(self) -> Floats:
        """1 where a partition, once taken, blocks another that is larger, shape (partitions, partitions)."""
        larger = self.size_of[None, :] > self.size_of[:, None]
        return ((self.covers @ self.covers.T > 0) & larger).astype(np.float32)
