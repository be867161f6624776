"""The plan: how many processors are free from when on, by the estimates of running jobs and by reservations.

`plan` is int64 of shape (2, room): second and processors free from then until the next column; `clock[PLAN_SIZE]`
counts its columns. The first is the present; from the last on everything stays as it is.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_calendar import conflict, hold_dates, read_dates

Ints = npt.NDArray[np.int64]


@step
def plan_running(blocks: Ints, clock: Ints, plan: Ints) -> None:
    """Begin a plan with the running jobs, and what is reserved of the machine."""
    plan_ends(blocks, clock, plan, at.RUNNING)
    if clock[at.DATED] == 1:
        read_dates(blocks, clock, plan)


@step
def plan_ends(blocks: Ints, clock: Ints, plan: Ints, which: int) -> None:
    """Begin a plan with the running jobs, ending as one of their lists tells, and what is reserved of the machine."""
    free = clock[at.FREE]
    plan[at.WHEN, 0], plan[at.SPACE, 0] = clock[at.NOW], free
    size = 1
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                free += blocks[leaf, at.E_WIDTH + k]
                if blocks[leaf, at.E_KEY + k] > plan[at.WHEN, size - 1]:
                    plan[at.WHEN, size] = blocks[leaf, at.E_KEY + k]
                    size += 1
                plan[at.SPACE, size - 1] = free
    clock[at.PLAN_SIZE] = size
    if clock[at.DATED] == 1:
        _plan_reserved(blocks, clock, plan)


@step
def _plan_reserved(blocks: Ints, clock: Ints, plan: Ints) -> None:
    """Take the processors that are reserved of the machine out of a plan."""
    for i in range(clock[at.NODES + at.TIMERS]):
        node = blocks[i, at.NODE + at.TIMERS]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if blocks[leaf, at.E_SLOT + k] == at.CALENDAR:
                    for column in range(_cut(clock, plan, blocks[leaf, at.E_KEY + k]), clock[at.PLAN_SIZE]):
                        plan[at.SPACE, column] -= blocks[leaf, at.E_WIDTH + k]


@step
def earliest(clock: Ints, plan: Ints, width: int, length: int, limit: int) -> int:
    """Return the first second from which on `width` processors are free for `length` seconds, or NEVER.

    By the requested time, `limit`, the job then clears what is reserved of the machine.
    """
    size, i = clock[at.PLAN_SIZE], at.NOTHING
    if plan[at.SPACE, size - 1] < width:
        return at.NEVER + at.NOTHING
    while True:
        while plan[at.SPACE, i] < width:
            i += 1
        end, j = plan[at.WHEN, i] + length, i + 1
        while j < size and plan[at.WHEN, j] < end and plan[at.SPACE, j] >= width:
            j += 1
        if j < size and plan[at.WHEN, j] < end:
            i = j + 1
            continue
        date = at.NEVER if clock[at.DATED] == 0 else conflict(clock, plan, plan[at.WHEN, i], width, limit)
        if date == at.NEVER:
            return int(plan[at.WHEN, i])
        while plan[at.WHEN, i] < date:
            i += 1


@step
def is_free(clock: Ints, plan: Ints, start: int, width: int, length: int, limit: int) -> bool:
    """Return whether `width` processors are free for `length` seconds from `start` on, which is not before the plan.

    By the requested time, `limit`, the job must clear what is reserved of the machine.
    """
    size = clock[at.PLAN_SIZE]
    i = column_at(clock, plan, start)
    while i < size and plan[at.WHEN, i] < start + length:
        if plan[at.SPACE, i] < width:
            return False
        i += 1
    return bool(clock[at.DATED] == 0 or conflict(clock, plan, start, width, limit) == at.NEVER)


@step
def column_at(clock: Ints, plan: Ints, time: int) -> int:
    """Return the column that holds at a second, which is not before the plan."""
    low, high = 0, clock[at.PLAN_SIZE] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if plan[at.WHEN, middle] <= time:
            low = middle
        else:
            high = middle - 1
    return low


@step
def _cut(clock: Ints, plan: Ints, time: int) -> int:
    """Make a column begin at a second; return it."""
    i = column_at(clock, plan, time)
    if plan[at.WHEN, i] == time:
        return i
    for j in range(clock[at.PLAN_SIZE], i + 1, -1):
        plan[at.WHEN, j], plan[at.SPACE, j] = plan[at.WHEN, j - 1], plan[at.SPACE, j - 1]
    plan[at.WHEN, i + 1], plan[at.SPACE, i + 1] = time, plan[at.SPACE, i]
    clock[at.PLAN_SIZE] += 1
    return i + 1


@step
def book(clock: Ints, plan: Ints, start: int, width: int, length: int, limit: int) -> None:
    """Take `width` processors (give them back, if negative) for `length` seconds from `start` on.

    At the dates of the machine's reservations they are taken until the requested time, `limit`.
    """
    if start == at.NEVER:
        return
    if clock[at.DATED] == 1:
        hold_dates(clock, plan, start, width, limit)
    first = _cut(clock, plan, start)
    last = _cut(clock, plan, start + length)
    for i in range(first, last):
        plan[at.SPACE, i] -= width


@step
def trim(clock: Ints, plan: Ints) -> None:
    """Let the plan begin now: nothing in it changes between its begin and now."""
    plan[at.WHEN, 0] = clock[at.NOW]


@step
def first_drop(clock: Ints, plan: Ints) -> int:
    """Return the first column with less free than now, or the number of columns."""
    i, size = 1, clock[at.PLAN_SIZE]
    while i < size and plan[at.SPACE, i] >= plan[at.SPACE, 0]:
        i += 1
    return i
