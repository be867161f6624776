"""Node sets: queues whose jobs may use only so many processors at once.

A job for which its set has too few left is passed over; others of other sets do not wait for it. The first such job of
a set in a pass holds a reservation within its set: the set's shadow time is the earliest second at which by the
estimates of the running jobs its share suffices, and further jobs of the set start only if they end by then, or need no
more than what the set has left beside it.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step

Ints = npt.NDArray[np.int64]


@step
def set_allows(live: Ints, blocks: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job's node set lets it start now; if not, it is not tried again in this pass."""
    cell = live[slot, at.SET]
    if cell < 0:
        return True
    width, left = live[slot, at.WIDTH], clock[cell + at.SET_LIMIT] - clock[cell + at.SET_USED]
    if clock[cell + at.SET_PASS] == clock[at.PASSES]:
        in_time = clock[at.NOW] + live[slot, at.CANDIDATE] <= clock[cell + at.SET_SHADOW]
        if width <= left and (in_time or width <= clock[cell + at.SET_EXTRA]):
            return True
    elif width <= left:
        return True
    else:
        clock[cell + at.SET_PASS] = clock[at.PASSES]
        clock[cell + at.SET_SHADOW], clock[cell + at.SET_EXTRA] = _shadow(live, blocks, clock, cell, width - left)
    live[slot, at.TRIED] = clock[at.PASSES]
    clock[at.SETS_WAIT] = 1
    return False


@step
def _shadow(live: Ints, blocks: Ints, clock: Ints, cell: int, need: int) -> tuple[int, int]:
    """Return when the running jobs of a set will have released `need` processors, and how many more by then."""
    shadow = at.NEVER + at.NOTHING
    for i in range(clock[at.NODES + at.RUNNING]):
        node = blocks[i, at.NODE + at.RUNNING]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if need <= 0 and blocks[leaf, at.E_KEY + k] > shadow:
                    return shadow, -need
                if live[blocks[leaf, at.E_SLOT + k], at.SET] == cell:
                    if need > 0:
                        shadow = blocks[leaf, at.E_KEY + k]
                    need -= blocks[leaf, at.E_WIDTH + k]
    return shadow, -need


@step
def enter_set(live: Ints, clock: Ints, slot: int) -> None:
    """Count a job that starts, and what it takes beside the reservation of its set."""
    cell, width = live[slot, at.SET], live[slot, at.WIDTH]
    if cell < 0 or live[slot, at.RUN] == 0:
        return
    clock[cell + at.SET_USED] += width
    reserved = clock[cell + at.SET_PASS] == clock[at.PASSES]
    if reserved and clock[at.NOW] + live[slot, at.CANDIDATE] > clock[cell + at.SET_SHADOW]:
        clock[cell + at.SET_EXTRA] -= width


@step
def leave_set(live: Ints, clock: Ints, slot: int) -> None:
    """Count a job that has ended."""
    if live[slot, at.SET] >= 0 and live[slot, at.RUN] > 0:
        clock[live[slot, at.SET] + at.SET_USED] -= live[slot, at.WIDTH]
