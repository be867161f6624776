"""The scheduling pass of policies with several reservations, all rebuilt at every pass.

Jobs start in the queue's order until one is blocked: the head. It and then the jobs behind it, in the backfill order,
are planned one after the other at the earliest second at which they fit beside the running jobs and the reservations
made before: who fits now starts, the first k others (all, in conservative backfilling) hold their reservation. With
k = 1 this is EASY, told differently.

Only starts now matter, so the pass stops when none of the jobs left could start even with the reservations made so
far. And while no job ends and no estimate is corrected, the plan holds: only newcomers are planned.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean, step
from schedsim._kernels_calendar import read_dates
from schedsim._kernels_head import candidate_key, keeps_promise, nothing_new, reserve_head, start_in_order, use_up
from schedsim._kernels_instant import start, until_pass
from schedsim._kernels_lookup import next_fitting, slot_from
from schedsim._kernels_plan import book, earliest, first_drop, is_free, plan_running, trim

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@lean
def run(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Go on until a pause; return its reason (see `_kernels_layout`)."""
    while True:
        stop = until_pass(jobs, seconds, live, blocks, clock, log, notes)
        if stop != at.PASS_IS_DUE:
            return stop
        clock[at.PHASE] = at.AT_ADVANCE
        if clock[at.DATED] == 1:
            clock[at.PLAN_SIZE] = 0
            read_dates(blocks, clock, plan)
        behind = clock[at.PLAN_SIZE] == 0 or _newcomers_come_last(live, clock)
        quiet = behind and nothing_new(live, blocks, clock)
        if not quiet:
            start_in_order(jobs, live, blocks, clock, log, notes, plan)
            if clock[at.HEAD] < 0:
                continue
        if clock[at.STALE] == 1 or clock[at.PLAN_SIZE] == 0 or not behind:
            clock[at.PLAN_SIZE] = 0
            clock[at.AFTER_KEY] = at.FIRST_KEY
            clock[at.AFTER_TIE] = at.FIRST_TIE
        if not quiet:
            reserve_head(live, blocks, clock, plan)
            _start_behind(jobs, live, blocks, clock, log, notes, plan)
        _mark_reserved(live, blocks, clock)


@step
def _start_behind(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> None:
    """Start what may start behind the head, with the plan of the last pass if it holds."""
    if clock[at.DATED] == 1:
        clock[at.RESERVATIONS] = 1  # the head's
    elif clock[at.PLAN_SIZE] > 0:
        trim(clock, plan)
    elif _anything_fits(blocks, clock):
        plan_running(blocks, clock, plan)
        clock[at.RESERVATIONS] = 0
        _reserve(live, clock, plan, clock[at.HEAD])
    else:
        return
    _walk(jobs, live, blocks, clock, log, notes, plan)


@step
def _newcomers_come_last(live: Ints, clock: Ints) -> bool:
    """Return whether all jobs queued at this instant come behind those that the plan holds."""
    if clock[at.NEWCOMERS] > 1:
        return bool(clock[at.BACKFILL_ORDER] == at.FIRST_COME)
    slot, column = clock[at.LAST_QUEUED], at.KEY if clock[at.CANDIDATES] == at.QUEUE else at.BACKFILL_KEY
    key, row = live[slot, column], live[slot, at.ROW]
    return bool(
        clock[at.NEWCOMERS] == 0
        or key > clock[at.AFTER_KEY]
        or (key == clock[at.AFTER_KEY] and row >= clock[at.AFTER_TIE])
    )


@step
def _anything_fits(blocks: Ints, clock: Ints) -> bool:
    """Return whether some job might start beside the head's reservation alone."""
    key, tie, slack = at.FIRST_KEY, at.FIRST_TIE, clock[at.SHADOW] - clock[at.NOW]
    return next_fitting(blocks, clock, clock[at.CANDIDATES], key, tie, clock[at.FREE], slack, clock[at.EXTRA]) >= 0


@step
def _reserve(live: Ints, clock: Ints, plan: Ints, slot: int) -> None:
    """Give a job the earliest reservation."""
    width, length, limit = live[slot, at.WIDTH], live[slot, at.CANDIDATE], live[slot, at.LIMIT]
    planned = earliest(clock, plan, width, length, limit)
    book(clock, plan, planned, width, length, limit)
    live[slot, at.PLANNED] = planned
    live[slot, at.RESERVED] = 1
    clock[at.RESERVATIONS] += 1


@step
def _walk(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> None:
    """Start or plan the jobs behind the head, from where the clock says that the pass has got to."""
    now = clock[at.NOW]
    while plan[at.SPACE, 0] > 0:
        slot = _next_that_may_start(blocks, clock, plan)
        if slot < 0:
            break
        if slot == clock[at.HEAD]:  # enough processors are free, but it would run into a reservation of the machine
            clock[at.AFTER_KEY], clock[at.AFTER_TIE] = candidate_key(live, clock, slot), live[slot, at.ROW] + 1
            continue
        _reserve_before(live, blocks, clock, plan, slot)
        width, length, limit = live[slot, at.WIDTH], live[slot, at.CANDIDATE], live[slot, at.LIMIT]
        if not is_free(clock, plan, now, width, length, limit):
            if clock[at.RESERVATIONS] < clock[at.DEPTH]:
                _reserve(live, clock, plan, slot)
        elif keeps_promise(live, clock, slot):
            if live[slot, at.RUN] > 0:
                book(clock, plan, now, width, length, limit)
            use_up(live, clock, slot)
            start(jobs, live, blocks, clock, log, notes, slot, at.BACKFILLED)
        else:
            clock[at.STALE] = 1  # later it may not even fit and take a reservation: this plan will not hold


@step
def _next_that_may_start(blocks: Ints, clock: Ints, plan: Ints) -> int:
    """Return the next job that might fit now in the plan made so far, or -1."""
    drop, now = first_drop(clock, plan), clock[at.NOW]
    slack, extra = at.NEVER, at.NOTHING
    if drop < clock[at.PLAN_SIZE]:
        slack, extra = plan[at.WHEN, drop] - now, plan[at.SPACE, drop]
    free = plan[at.SPACE, 0]
    key, tie = clock[at.AFTER_KEY], clock[at.AFTER_TIE]
    return next_fitting(blocks, clock, clock[at.CANDIDATES], key, tie, free, slack, extra)


@step
def _next_waiting(live: Ints, blocks: Ints, clock: Ints) -> int:
    """Return the next job that the pass has not got to, the head excluded, and move behind it; there must be one."""
    while True:
        slot = slot_from(blocks, clock, clock[at.CANDIDATES], clock[at.AFTER_KEY], clock[at.AFTER_TIE])
        clock[at.AFTER_KEY], clock[at.AFTER_TIE] = candidate_key(live, clock, slot), live[slot, at.ROW] + 1
        if slot != clock[at.HEAD]:
            return slot


@step
def _reserve_before(live: Ints, blocks: Ints, clock: Ints, plan: Ints, slot: int) -> None:
    """Plan the jobs before `slot` that cannot start now, as long as there are reservations left; move behind it."""
    while clock[at.RESERVATIONS] < clock[at.DEPTH]:
        other = _next_waiting(live, blocks, clock)
        if other == slot:
            break
        _reserve(live, clock, plan, other)
    clock[at.AFTER_KEY], clock[at.AFTER_TIE] = candidate_key(live, clock, slot), live[slot, at.ROW] + 1


@step
def _mark_reserved(live: Ints, blocks: Ints, clock: Ints) -> None:
    """Mark the jobs that would hold the reservations left, had the pass gone on."""
    left = clock[at.DEPTH] - (clock[at.RESERVATIONS] if clock[at.PLAN_SIZE] > 0 else 1)
    if left == 0 or clock[at.DEPTH] == at.ALL:
        return
    key, tie = clock[at.AFTER_KEY], clock[at.AFTER_TIE]
    while left > 0:
        slot = slot_from(blocks, clock, clock[at.CANDIDATES], key, tie)
        if slot < 0:
            return
        if slot != clock[at.HEAD]:
            live[slot, at.RESERVED] = 1
            left -= 1
        key, tie = candidate_key(live, clock, slot), live[slot, at.ROW] + 1
