"""What an outlook adds: estimates of waiting jobs that are revised, and of running jobs that grow with what has passed.

An outlook answers in rows (job row, estimate for each role, ladder). A ladder says from which elapsed time on the
running estimate is another; it is frozen when the job starts. A rung is reached at the first scheduling instant not
before it, so by itself it makes none. Beyond its last rung, an estimate that expires is corrected like any other.
`watch`, `unwatch` and `keep_ladder` are for records that have ladders.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_lookup import first_key, first_slot, list_slots, slot_from
from schedsim._kernels_ordered import insert, remove, remove_first
from schedsim._kernels_orders import FCFS, USER, WFP3, static_key
from schedsim._kernels_postpone import enlist, unlist

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@step
def clamped(seconds: float, limit: int) -> int:
    """Return an estimate in whole seconds, from 1 to the requested time; -1 if it is no number."""
    if np.isnan(seconds):
        return -1
    if seconds >= limit:
        return limit
    return max(1, int(seconds))


@step
def believed(seconds: Floats, clock: Ints, row: int, role: int, limit: int) -> int:
    """Return the estimate of a new job for a role [s], or -1 if there is none."""
    if clock[at.OUTLOOK] == 0:
        return clamped(seconds[role if len(seconds) > 1 else 0, row], limit)
    answer = clock[at.ANSWERED]
    if answer >= clock[at.ANSWERS] or seconds[answer, at.A_ROW] != row:
        return -1
    return clamped(seconds[answer, at.A_ROLE + role], limit)


@step
def answers_fit(seconds: Floats, clock: Ints) -> bool:
    """Return whether there is room for an answer on each waiting and each new job."""
    waiting = clock[at.N_QUEUED] + clock[at.N_POSTPONED] + clock[at.N_HELD]
    return bool(waiting + clock[at.NEXT_JOB] - clock[at.NEXT_QUEUED] <= len(seconds))


@step
def keep_ladder(seconds: Floats, live: Ints, clock: Ints, slot: int) -> None:
    """Keep the ladder of the present answer with a waiting job, and go on to the next answer."""
    live[slot, at.RUNG] = 0
    live[slot, at.LADDER] = at.NEVER
    if clock[at.OUTLOOK] == 0:
        return
    answer, limit, column = clock[at.ANSWERED], live[slot, at.LIMIT], at.LADDER + at.NOTHING
    for given in range(at.A_LADDER, seconds.shape[1], 2):
        since = seconds[answer, given]
        if not since < limit:  # a job ends at its requested time; NaN and infinity end the ladder
            break
        live[slot, column] = int(np.ceil(since))
        live[slot, column + 1] = clamped(seconds[answer, given + 1], limit)
        column += 2
    if column < live.shape[1]:
        live[slot, column] = at.NEVER
    clock[at.ANSWERED] += 1


@step
def _next_rung(live: Ints, slot: int) -> int:
    """Return the elapsed time of a job's next rung [s], or NEVER."""
    column = at.LADDER + 2 * live[slot, at.RUNG]
    return int(live[slot, column]) if column < live.shape[1] else at.NEVER + at.NOTHING


@step
def watch(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Note when a job that has just started, or has been reviewed, reaches its next rung."""
    if _next_rung(live, slot) != at.NEVER:
        due, row = live[slot, at.START] + _next_rung(live, slot), live[slot, at.ROW]
        insert(blocks, clock, at.REVIEWS, due, row, slot, live[slot, at.WIDTH], live[slot, at.LIMIT])


@step
def unwatch(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Forget the next rung of a job that has ended."""
    if _next_rung(live, slot) != at.NEVER:
        due = live[slot, at.START] + _next_rung(live, slot)
        remove(blocks, clock, at.REVIEWS, due, live[slot, at.ROW])


@step
def review(live: Ints, blocks: Ints, clock: Ints) -> None:
    """Give the running jobs that have reached a rung its estimate."""
    now = clock[at.NOW]
    while clock[at.NODES + at.REVIEWS] > 0:
        if first_key(blocks, at.REVIEWS) > now:
            return
        slot = first_slot(blocks, at.REVIEWS)
        remove_first(blocks, clock, at.REVIEWS)
        begun, old, estimate = live[slot, at.START], live[slot, at.ESTIMATE], live[slot, at.ESTIMATE]
        while _next_rung(live, slot) <= now - begun:
            estimate = live[slot, at.LADDER + 2 * live[slot, at.RUNG] + 1]
            live[slot, at.RUNG] += 1
        watch(live, blocks, clock, slot)
        row, width, limit = live[slot, at.ROW], live[slot, at.WIDTH], live[slot, at.LIMIT]
        remove(blocks, clock, at.RUNNING, begun + old, row)
        live[slot, at.ESTIMATE] = estimate
        insert(blocks, clock, at.RUNNING, begun + estimate, row, slot, width, limit)
        clock[at.STALE] = 1
        clock[at.CAUSE] |= at.CORRECTED


@step
def revise(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints) -> int:
    """Take in the answers on jobs that wait already; return BAD_ESTIMATE if one is no number, else 0."""
    while clock[at.ANSWERED] < clock[at.ANSWERS]:
        row = int(seconds[clock[at.ANSWERED], at.A_ROW])
        slot = _slot_of(live, blocks, clock, row)
        if slot < 0:
            clock[at.ASKED] = row
            return at.BAD_ESTIMATE
        limit = live[slot, at.LIMIT]
        estimate = believed(seconds, clock, row, at.FOR_RUNNING, limit)
        candidate = believed(seconds, clock, row, at.FOR_CANDIDATES, limit)
        ranking = believed(seconds, clock, row, at.FOR_ORDER, limit)
        if min(estimate, candidate, ranking) < 0:
            clock[at.ASKED] = row
            return at.BAD_ESTIMATE
        keep_ladder(seconds, live, clock, slot)
        live[slot, at.ESTIMATE] = live[slot, at.FIRST] = estimate
        if candidate != live[slot, at.CANDIDATE] or ranking != live[slot, at.RANKING]:
            longer = candidate != live[slot, at.CANDIDATE]
            live[slot, at.CANDIDATE], live[slot, at.RANKING] = candidate, ranking
            waits = live[slot, at.DUE] == at.NEVER
            if not waits:
                unlist(live, blocks, clock, slot)
            _move(jobs, live, blocks, clock, at.QUEUE, clock[at.ORDER], at.KEY, slot, longer, waits)
            if clock[at.CANDIDATES] == at.BACKFILL:
                code = clock[at.BACKFILL_ORDER]
                _move(jobs, live, blocks, clock, at.BACKFILL, code, at.BACKFILL_KEY, slot, longer, waits)
            if not waits:
                enlist(live, blocks, clock, slot)
            clock[at.STALE] = 1
    return 0


@step
def _slot_of(live: Ints, blocks: Ints, clock: Ints, row: int) -> int:
    """Return the record of a waiting job, or -1: a short search under FCFS, a walk over the queue under others."""
    if clock[at.N_HELD] > 0:
        slot = slot_from(blocks, clock, at.KIN, row, row)
        if slot >= 0 and live[slot, at.ROW] == row and live[slot, at.HOLD] != 0:
            return slot
    if clock[at.ORDER] == FCFS:
        slot = slot_from(blocks, clock, at.QUEUE, row, row)
        if slot >= 0 and live[slot, at.ROW] == row:
            return slot
    else:
        for i in range(list_slots(live, blocks, clock, at.QUEUE, clock[at.N_QUEUED])):
            if live[live[i, at.SORTED], at.ROW] == row:
                return int(live[i, at.SORTED])
    for i in range(list_slots(live, blocks, clock, at.POSTPONED, clock[at.N_POSTPONED])):
        if live[live[i, at.SORTED], at.ROW] == row:
            return int(live[i, at.SORTED])
    return -1


@step
def _move(
    jobs: Ints, live: Ints, blocks: Ints, clock: Ints, which: int, code: int, column: int, slot: int,
    longer: bool, listed: bool,
) -> None:  # fmt: skip
    """Put a waiting job where its list, if it is in it, needs it after its estimates have changed.

    Keys that change with time, and users' own, are not touched: they are computed anew before each pass.
    """
    row, key = live[slot, at.ROW], live[slot, column]
    new, width, candidate = key, live[slot, at.WIDTH], live[slot, at.CANDIDATE]
    if code < WFP3 or code > USER:
        since = max(1, jobs[row, at.SUBMIT] - jobs[0, at.SUBMIT])
        seed = clock[at.BACKFILL_SEED if which == at.BACKFILL else at.SEED]
        new = static_key(code, row, since, width, live[slot, at.RANKING], seed, jobs[row, at.JOB_ID])
    if not listed or (clock[at.RULES] == 1 and live[slot, at.HOLD] != 0):
        live[slot, column] = new
    elif new != key or (longer and which == clock[at.CANDIDATES]):
        remove(blocks, clock, which, key, row)
        live[slot, column] = new
        insert(blocks, clock, which, new, row, slot, width, candidate)
