"""Nodes of a simulation, of which jobs take processors, GPUs and memory."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

import schedsim.kernels.nodes.records as of
from predictors.core.arrays import Ints
from schedsim.kernels.nodes.records import NodeArrays
from schedsim.machine.placements import Placements
from schedsim.workload.workload import Workload

_MUTABLE = ("nodes", "later", "at_promise", "tried", "first_part", "last_level", "chosen", "chosen_pieces", "one")
"""The arrays that a fork copies, next to parts and levels; it shares the others."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The nodes and which job has what of them, at one moment of a simulation.

    Parameters
    ----------
    arrays : NodeArrays
        As the kernels take them.
    earlier : tuple of int64 arrays of shape (n, 3)
        What was written into `arrays.spots` before; forks share it.
    """

    arrays: NodeArrays
    earlier: tuple[Ints, ...] = ()

    @classmethod
    def of(cls, workload: Workload) -> "Placing | None":
        """Return the nodes of a simulation before its first second; None where jobs ask for processors alone."""
        if workload.demands is None:
            return None
        return cls(workload.demands.arrays())

    def placements(self, n_jobs: int) -> Placements:
        """Return where every job ran last."""
        return Placements.of(np.concatenate([*self.earlier, self._spots]), n_jobs)

    @property
    def found(self) -> Ints:
        """Nodes of the place found last, ascending."""
        return self.arrays.chosen[: int(self.arrays.one[0].n_chosen)].copy()

    def fork(self) -> Self:
        """Return an independent copy; its plan is made again."""
        return self._copy(1)

    def grown(self) -> Self:
        """Return a copy with room for a larger plan, which is made again, and for more starts."""
        return self._copy(2)

    @property
    def _spots(self) -> Ints:
        return self.arrays.spots[: int(self.arrays.one[0].n_spots)]

    def _copy(self, times: int) -> Self:
        copies: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in _MUTABLE}
        used, parts = int(self.arrays.one[0].n_parts), np.empty(times * len(self.arrays.parts), of.PART)
        parts[:used] = self.arrays.parts[:used]
        copies["one"][0].n_spots = 0
        levels: Any = np.empty(times * len(self.arrays.levels), of.NODE_LEVEL)
        spots = np.empty((times * len(self.arrays.spots), 3), dtype=np.int64)
        new = self.arrays._replace(parts=parts, levels=levels, spots=spots, **copies)  # type: ignore[arg-type]
        return type(self)(new, (*self.earlier, self._spots))
