"""Kernel of `schedsim.surroundings`: running jobs get new ends."""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import compiled
from schedsim._kernels_ordered import insert, list_slots, remove

Ints = npt.NDArray[np.int64]


@compiled
def move_ends(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, rows: Ints, ends: Ints, kill: bool) -> None:
    """Let running jobs, rows ascending, end at these seconds, or at their request if they are killed then."""
    n = list_slots(live, blocks, clock, at.ENDS, len(live))
    for i in range(n):
        slot = live[i, at.SORTED]
        row = live[slot, at.ROW]
        place = np.searchsorted(rows, row)
        if place == len(rows) or rows[place] != row:
            continue
        begun, old, end = live[slot, at.START], live[slot, at.END], ends[place]
        if kill:
            end = min(end, begun + live[slot, at.LIMIT])
        end = max(end, clock[at.NOW] + 1)
        if end != old:
            tie = begun * len(jobs) + jobs[row, at.RANK]
            remove(blocks, clock, at.ENDS, old, tie)
            insert(blocks, clock, at.ENDS, end, tie, slot, live[slot, at.WIDTH], live[slot, at.LIMIT])
            live[slot, at.END] = end
