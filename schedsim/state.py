"""The live part of a simulation: the arrays that a fork copies."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at

Ints = npt.NDArray[np.int64]

_LEAST_SLOTS = 256


@dataclass(eq=False)
class State:
    """Records of live jobs, ordered lists and the clock, see `_kernels_layout`."""

    live: Ints
    blocks: Ints
    clock: Ints
    plan: Ints

    @classmethod
    def empty(cls, columns: int = 0, rungs: int = 0, cells: int = 0) -> Self:
        """Return a state without a job or a policy; its plan has so many columns at least, ladders so many rungs.

        The clock has so many cells more than `CELLS`.
        """
        room = _room(_LEAST_SLOTS, _width(rungs))
        return cls(*room, np.zeros(at.CELLS + cells, dtype=np.int64), _plan(_LEAST_SLOTS, columns))

    def copy(self) -> Self:
        """Return a copy, in time proportional to the live jobs."""
        return self._moved(len(self.live))

    def grown(self) -> Self:
        """Return a copy with twice the room."""
        return self._moved(2 * len(self.live))

    def with_rungs(self, rungs: int) -> Self:
        """Return a copy whose records have ladders of at least so many rungs."""
        return self._moved(len(self.live), _width(rungs))

    def leaves(self, which: int) -> list[Ints]:
        """Return the leaves of one of the ordered lists, in its order."""
        nodes = self.blocks[: self.clock[at.NODES + which], at.NODE + which]
        return [
            self.blocks[leaf] for n in nodes for leaf in self.blocks[n, at.LEAF : at.LEAF + self.blocks[n, at.COUNT]]
        ]

    def entries(self, which: int, field: int) -> Ints:
        """Return a field, such as E_KEY, of all entries of one of the ordered lists, in its order."""
        parts = [leaf[field : field + leaf[at.COUNT]] for leaf in self.leaves(which)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def slots(self, which: int) -> Ints:
        """Return the records' numbers in one of the ordered lists, in its order."""
        return self.entries(which, at.E_SLOT)

    def rows(self, which: int) -> Ints:
        """Return the rows in the workload of the jobs in one of the ordered lists, in its order."""
        return np.asarray(self.live[self.slots(which), at.ROW])

    def _moved(self, slots: int, width: int = at.RECORD) -> Self:
        own = self.live.shape[1]
        live, blocks = _room(slots, max(width, own))
        used, high = int(self.clock[at.HIGH_SLOT]), int(self.clock[at.HIGH_BLOCK])
        live[:used, :own] = self.live[:used]
        live[:used, own:] = at.NEVER
        if width > own == at.RECORD:
            live[:used, at.RUNG] = 0
        blocks[:high] = self.blocks[:high]
        clock = self.clock.copy()
        if clock[at.PLAN_SIZE] > 0:  # plans are not copied but made anew
            clock[at.PLAN_SIZE], clock[at.STALE] = 0, 1
        plan, dates = _plan(slots, self.plan.shape[1]), int(clock[at.N_DATES])
        plan[at.DATE :, :dates] = self.plan[at.DATE :, :dates]
        return type(self)(live, blocks, clock, plan)


def _plan(slots: int, columns: int) -> Ints:
    """Return room for a plan: a running job takes at most one column, a reservation two."""
    return np.empty((at.PLAN_ROWS, max(columns, 2 * slots + 4)), dtype=np.int64)


def _width(rungs: int) -> int:
    """Return the columns of a record."""
    return at.LADDER + 2 * rungs if rungs else at.RECORD


def _room(slots: int, width: int) -> tuple[Ints, Ints]:
    """Return arrays that hold `slots` live jobs whatever happens.

    Of two neighbouring leaves, and of two neighbouring nodes, one is more than a quarter full, so a list of m entries
    takes fewer than 0.4 m + 3 rows. A waiting job is in at most three lists, a running one in five; timers, at most
    one a job, in another.
    """
    n_rows = 6 * (2 * slots // 5) + 3 * at.LISTS
    return np.empty((slots, width), dtype=np.int64), np.empty((n_rows, at.ROW_LENGTH), dtype=np.int64)
