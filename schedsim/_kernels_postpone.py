"""Jobs that are put off: a second queue, from which they join the first when it is empty, the machine is, or they must.

After CEIL (Li et al., ROSS 2019, doi:10.1145/3322789.3328743). A job with a deadline waits among the postponed ones;
all of them join the queue at an instant that finds it empty, or few processors in use. A timer lets each join it in
time: `LEAD` seconds before it must start to end by its deadline if it runs as long as requested.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_holds import line_up
from schedsim._kernels_lookup import first_slot
from schedsim._kernels_ordered import insert, remove

Ints = npt.NDArray[np.int64]


@step
def due(jobs: Ints, clock: Ints, row: int) -> int:
    """Return when a job must join the queue at the latest [s]; below 0 for one that is not to be put off."""
    if jobs[row, at.DEADLINE] < 0:
        return -1
    return int(jobs[row, at.DEADLINE] - jobs[row, at.REQUESTED] - clock[at.LEAD])


@step
def _key(live: Ints, clock: Ints, slot: int) -> int:
    return int(live[slot, at.BACKFILL_KEY if clock[at.CANDIDATES] == at.BACKFILL else at.KEY])


@step
def enlist(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Put a job into the list of postponed ones."""
    row, width, length = live[slot, at.ROW], live[slot, at.WIDTH], live[slot, at.CANDIDATE]
    insert(blocks, clock, at.POSTPONED, _key(live, clock, slot), row, slot, width, length)


@step
def unlist(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Take a job out of the list of postponed ones."""
    remove(blocks, clock, at.POSTPONED, _key(live, clock, slot), live[slot, at.ROW])


@step
def postpone(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Put a job off, and set the timer that ends it. Such timers come before others of their second."""
    enlist(live, blocks, clock, slot)
    insert(blocks, clock, at.TIMERS, live[slot, at.DUE], -1 - live[slot, at.ROW], at.RELEASE, slot, at.YES)
    clock[at.N_POSTPONED] += 1


@step
def release(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Let a postponed job join the queue."""
    unlist(live, blocks, clock, slot)
    remove(blocks, clock, at.TIMERS, live[slot, at.DUE], -1 - live[slot, at.ROW])
    live[slot, at.DUE] = at.NEVER
    clock[at.N_POSTPONED] -= 1
    clock[at.STALE] = 1
    line_up(live, blocks, clock, slot)


@step
def release_if_idle(live: Ints, blocks: Ints, clock: Ints) -> bool:
    """Let all postponed jobs join the queue if it is empty, or few processors are in use; return whether any did."""
    in_use = clock[at.MACHINE] - clock[at.FREE]
    if clock[at.N_POSTPONED] == 0 or (clock[at.N_QUEUED] > 0 and in_use >= clock[at.IDLE]):
        return False
    while clock[at.N_POSTPONED] > 0:
        release(live, blocks, clock, first_slot(blocks, at.POSTPONED))
    return True
