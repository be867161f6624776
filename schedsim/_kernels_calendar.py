"""Reservations of the machine: which dates lie ahead, and whether a job clears them by its requested time.

The calendar is the timers of kind `CALENDAR`: at such a date so many processors more, or fewer, are reserved. A job may
start at a second only if at every later date within its requested time it fits beside what is reserved then and beside
the running jobs, each until its own requested time: so nothing runs on reserved processors, whatever the estimates were
worth. Rows `DATE` and `ROOM` of the plan hold the dates at which the reserved part grows, and what is left then.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_lookup import released_by

Ints = npt.NDArray[np.int64]


@step
def read_dates(blocks: Ints, clock: Ints, plan: Ints) -> None:
    """Write the dates ahead, and the room that running jobs leave then by their requested times."""
    n, taken = 0, at.NOTHING
    for i in range(clock[at.NODES + at.TIMERS]):
        node = blocks[i, at.NODE + at.TIMERS]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if blocks[leaf, at.E_SLOT + k] != at.CALENDAR:
                    continue
                date, more = blocks[leaf, at.E_KEY + k], blocks[leaf, at.E_WIDTH + k]
                taken += more
                if more > 0:
                    plan[at.DATE, n] = date
                    plan[at.ROOM, n] = clock[at.FREE] - taken + released_by(blocks, clock, at.LIMITS, date)
                    n += 1
    clock[at.N_DATES] = n


@step
def conflict(clock: Ints, plan: Ints, start: int, width: int, limit: int) -> int:
    """Return the first date within a job's requested time at which it would not fit, or NEVER."""
    for i in range(clock[at.N_DATES]):
        if plan[at.DATE, i] >= start + limit:
            break
        if plan[at.DATE, i] > start and plan[at.ROOM, i] < width:
            return int(plan[at.DATE, i])
    return at.NEVER + at.NOTHING


@step
def clears(live: Ints, clock: Ints, plan: Ints, slot: int) -> bool:
    """Return whether a waiting job may start now for all that is reserved."""
    if clock[at.DATED] == 0:
        return True
    return conflict(clock, plan, clock[at.NOW], live[slot, at.WIDTH], live[slot, at.LIMIT]) == at.NEVER


@step
def hold_dates(clock: Ints, plan: Ints, start: int, width: int, limit: int) -> None:
    """Take a job's processors (give them back, if negative) at the dates within its requested time."""
    for i in range(clock[at.N_DATES]):
        if start < plan[at.DATE, i] < start + limit:
            plan[at.ROOM, i] -= width


@step
def note_start(live: Ints, clock: Ints, plan: Ints, slot: int) -> None:
    """Let a job that has just started count at the dates ahead."""
    if clock[at.DATED] == 1 and live[slot, at.RUN] > 0:
        hold_dates(clock, plan, clock[at.NOW], live[slot, at.WIDTH], live[slot, at.LIMIT])
