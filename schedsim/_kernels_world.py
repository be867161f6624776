"""Kernels of `schedsim.surroundings`: running jobs get new ends, or are stopped where nodes fail."""

import numpy as np
import numpy.typing as npt

import predictors.data.events as event
import schedsim._kernels_layout as at
from predictors.data.compiled import compiled, step
from schedsim._kernels_holds import line_up, over
from schedsim._kernels_instant import give_back, record
from schedsim._kernels_lookup import list_slots
from schedsim._kernels_ordered import insert, remove
from schedsim._kernels_outlook import unwatch
from schedsim._kernels_sets import leave_set

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


@compiled
def interrupt(
    jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, slot: int, again: bool
) -> None:  # fmt: skip
    """Stop a running job now. It joins the queue by its old keys, to run from the beginning; or it is gone."""
    row, begun, width = live[slot, at.ROW], live[slot, at.START], live[slot, at.WIDTH]
    estimate, limit = live[slot, at.ESTIMATE], live[slot, at.LIMIT]
    remove(blocks, clock, at.ENDS, live[slot, at.END], begun * len(jobs) + jobs[row, at.RANK])
    remove(blocks, clock, at.RUNNING, begun + estimate, row)
    if clock[at.LIMITED] == 1:
        remove(blocks, clock, at.LIMITS, begun + max(limit, estimate), row)
    if live.shape[1] > at.RECORD:
        unwatch(live, blocks, clock, slot)
    if clock[at.KILL] == 1 and live[slot, at.RUN] > limit:
        clock[at.KILLS] -= 1
    clock[at.FREE] += width
    clock[at.N_RUNNING] -= 1
    clock[at.STALE] = 1
    if not again:
        record(clock, log, notes, event.ENDED, row, estimate)
        _gone(jobs, live, blocks, clock, slot)
        return
    record(clock, log, notes, event.RETURNED, row, estimate)
    live[slot, at.START] = -1
    live[slot, at.END] = -1
    live[slot, at.ESTIMATE] = live[slot, at.FIRST]
    live[slot, at.RESERVED] = 0
    live[slot, at.PROMISE] = at.NEVER
    live[slot, at.TRIED] = -1
    live[slot, at.PLANNED] = at.NEVER
    live[slot, at.DUE] = at.NEVER
    if live.shape[1] > at.RECORD:
        live[slot, at.RUNG] = 0
    if clock[at.RULES] == 1:
        leave_set(live, clock, slot)
        live[slot, at.SINCE] += clock[at.NOW] - begun  # its eligible time goes on where it stopped
        live[slot, at.FROM] = clock[at.NOW]
    line_up(live, blocks, clock, slot)
    clock[at.NEWCOMERS] += 1
    clock[at.LAST_QUEUED] = slot


@step
def _gone(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Give the record of a stopped job back; by a site's rules its children see it fail."""
    if clock[at.RULES] == 0:
        give_back(live, clock, slot)
        return
    kill, run = clock[at.KILL], live[slot, at.RUN]
    clock[at.KILL], live[slot, at.RUN] = 1, live[slot, at.LIMIT] + 1  # as a job that is stopped at its limit fails
    kept = not over(jobs, live, blocks, clock, slot, at.NO)
    clock[at.KILL], live[slot, at.RUN] = kill, run
    if not kept:
        give_back(live, clock, slot)
