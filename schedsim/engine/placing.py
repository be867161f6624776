"""Nodes of a simulation, of which jobs take processors, GPUs and memory."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

import schedsim.kernels.places.records as of
from predictors.core.arrays import Bools, Ints
from schedsim.kernels.places.records import NodeArrays
from schedsim.machine.nodes import Placements
from schedsim.workload.demands import FIELDS, LEAST_SPOTS
from schedsim.workload.workload import Workload

_MUTABLE = ("nodes", "later", "later_as_of", "at_promise", "promise_as_of", "tried", "released_on", "first_part",
            "last_level", "chosen", "chosen_pieces", "one")  # fmt: skip
"""The arrays that a fork copies, next to parts and levels; it shares the others."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The nodes and which job has what of them, at one moment of a simulation."""

    arrays: NodeArrays  # as the kernels take them
    earlier: tuple[Ints, ...] = ()  # shape (n, 3); what was written into `arrays.spots` before; forks share it

    @classmethod
    def of(cls, workload: Workload) -> "Placing | None":
        """Return the nodes of a simulation before its first second; None where jobs ask for processors alone."""
        if workload.demands is None:
            return None
        return cls(workload.demands.arrays())

    def placements(self) -> Placements:
        """Return where every job ran last."""
        pieces = self.arrays.demands["pieces"][self.arrays.shape_of]
        return Placements.of(np.concatenate([*self.earlier, self._spots]), pieces)

    @property
    def found(self) -> Ints:
        """Nodes of the place found last, ascending."""
        return self.arrays.chosen[: int(self.arrays.one[0].n_chosen)].copy()

    def on(self, rows: Ints, nodes: Bools) -> Bools:
        """Return which of some running jobs, by row, have a part of one of these nodes."""
        number, found = self.arrays.first_part[rows], np.zeros(len(rows), dtype=np.bool_)
        while (number >= 0).any():
            parts = self.arrays.parts[np.maximum(number, 0)]
            found |= (number >= 0) & nodes[parts["node"]]
            number = np.where(number >= 0, parts["next"], -1)
        return found

    def change(self, failed: Bools, repaired: Bools) -> int:
        """Take nodes, on which no job runs, away for their repair, and give others back.

        Returns how many processors fewer there are.
        """
        nodes, empty, one = self.arrays.nodes, self.arrays.empty, self.arrays.one[0]
        for field in FIELDS:
            nodes[field][failed] = 0
        nodes["n_jobs"][failed], nodes["kept"][failed] = -1, True
        for field in (*FIELDS, "n_jobs", "kept"):
            nodes[field][repaired] = empty[field][repaired]
        one.n_occupied += 1
        one.n_released += of.REMEMBERED + 1  # places are looked for again
        one.moment += 1
        return int(empty["procs"][failed].sum() - empty["procs"][repaired].sum())

    def fork(self) -> Self:
        """Return an independent copy; its plan is made again."""
        copies: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in _MUTABLE}
        levels: Any = np.empty_like(self.arrays.levels)
        arrays = self.arrays._replace(levels=levels, parts=self._parts(len(self.arrays.parts)), **copies)
        return type(self)(arrays, self.earlier)._with_spots(LEAST_SPOTS, self._spots)

    def with_room_for_starts(self) -> Self:
        """Return the same with room to write down where more jobs start."""
        return self._with_spots(2 * len(self.arrays.spots), self._spots)

    def with_larger_plan(self) -> Self:
        """Return the same with room for a larger plan, which must be made again."""
        levels: Any = np.empty(2 * len(self.arrays.levels), of.NODE_LEVEL)
        return replace(self, arrays=self.arrays._replace(levels=levels, parts=self._parts(2 * len(self.arrays.parts))))

    @property
    def _spots(self) -> Ints:
        return self.arrays.spots[: int(self.arrays.one[0].n_spots)]

    def _with_spots(self, room: int, written: Ints) -> Self:
        self.arrays.one[0].n_spots = 0
        arrays = self.arrays._replace(spots=np.empty((room, 3), dtype=np.int64))
        return type(self)(arrays, (*self.earlier, written))

    def _parts(self, room: int) -> Any:
        parts, used = np.empty(room, of.PART), int(self.arrays.one[0].n_parts)
        parts[:used] = self.arrays.parts[:used]
        return parts
