"""The head of the queue: starting jobs in order until one is blocked, and what that one is promised.

The head is promised its shadow time, the earliest second at which by the estimates of the running jobs it fits; extra
processors are those free then beside it (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708). Under
`promise` its first shadow time by requested times, and some slack, is kept as well.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_calendar import clears, note_start
from schedsim._kernels_instant import start
from schedsim._kernels_lookup import first_slot, released_by, slot_from, time_of_release
from schedsim._kernels_plan import book, column_at, earliest, plan_ends
from schedsim._kernels_sets import set_allows

Ints = npt.NDArray[np.int64]


@step
def start_in_order(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Start jobs in the queue's order until one is blocked: the head, or -1. Jobs held by a gate are passed over."""
    while True:
        slot = first_slot(blocks, at.QUEUE) if clock[at.N_QUEUED] > 0 else -1
        while slot >= 0 and live[slot, at.TRIED] == clock[at.PASSES]:
            slot = slot_from(blocks, clock, at.QUEUE, live[slot, at.KEY], live[slot, at.ROW] + 1)
        if slot < 0:
            clock[at.HEAD] = -1
            return 0
        if clock[at.PICKED] == 1:
            if clock[at.ANSWER] == at.NOT_ANSWERED:
                clock[at.ASKED] = 1
                return at.ASK_PICK
            slot = clock[at.ANSWER]
            clock[at.ANSWER] = at.NOT_ANSWERED
            if slot < 0:
                clock[at.HEAD] = -1
                return 0
        if clock[at.N_SETS] > 0 and not set_allows(live, blocks, clock, slot):
            continue
        clear = clears(live, clock, plan, slot)
        if live[slot, at.WIDTH] > room(clock, live[slot, at.WIDTH]) or not clear:
            if clock[at.PASSED_OVER] == 1 and clear and live[slot, at.WIDTH] <= clock[at.FREE]:
                live[slot, at.TRIED] = clock[at.PASSES]
                continue
            if clock[at.HEAD] != slot:
                clock[at.HEAD] = slot
                clock[at.STALE] = 1
            return 0
        verdict = verdict_on(live, clock, slot)
        if verdict < 0:
            return at.ASK_GATE
        if verdict == at.NO_PLACE:
            clock[at.HEAD] = slot
            return 0
        if verdict == at.MAY_START:
            how = at.READY
            if live[slot, at.RESERVED] == 1 or (clock[at.DEPTH] == at.ALL and _has_waited(jobs, live, clock, slot)):
                how = at.BY_RESERVATION
            start(jobs, live, blocks, clock, log, notes, slot, how)
            note_start(live, clock, plan, slot)
            clock[at.HEAD] = -1


@step
def room(clock: Ints, width: int) -> int:
    """Return how many processors a job of some width may use now: under a ceiling, not all that are free."""
    return int(clock[at.FREE] if width >= clock[at.EXEMPT] else clock[at.FREE] - clock[at.RESERVE])


@step
def candidate_key(live: Ints, clock: Ints, slot: int) -> int:
    """Return a waiting job's key in the list that is searched for backfills."""
    return int(live[slot, at.KEY if clock[at.CANDIDATES] == at.QUEUE else at.BACKFILL_KEY])


@step
def _has_waited(jobs: Ints, live: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job was in the queue at an earlier pass."""
    return bool(jobs[live[slot, at.ROW], at.SUBMIT] < clock[at.NOW])


@step
def reserve_head(live: Ints, blocks: Ints, clock: Ints, plan: Ints) -> None:
    """Find the head's shadow time and the extra processors, and what it is promised."""
    head = clock[at.HEAD]
    live[head, at.RESERVED] = 1
    if clock[at.DATED] == 1:
        _reserve_among_dates(live, blocks, clock, plan, head)
        return
    if clock[at.STALE] == 0 or clock[at.PLACED] == 1:
        return
    width = live[head, at.WIDTH]
    need = width - room(clock, width)
    clock[at.SHADOW], clock[at.EXTRA] = time_of_release(blocks, clock, at.RUNNING, need)
    clock[at.STALE] = 0
    if clock[at.PROMISES] == 1:
        if live[head, at.PROMISE] == at.NEVER:
            shadow, _ = time_of_release(blocks, clock, at.LIMITS, need)
            live[head, at.PROMISE] = shadow + clock[at.SLACK]
        clock[at.PROMISED] = live[head, at.PROMISE]
        clock[at.BESIDE] = released_by(blocks, clock, at.LIMITS, clock[at.PROMISED]) - need


@step
def _reserve_among_dates(live: Ints, blocks: Ints, clock: Ints, plan: Ints, head: int) -> None:
    """Do so where processors are reserved or may fail: in the plan, which then holds the head's reservation."""
    width, length, limit = live[head, at.WIDTH], live[head, at.CANDIDATE], live[head, at.LIMIT]
    below = clock[at.FREE] - room(clock, width)  # a ceiling lies so far below the machine
    clock[at.STALE] = 0
    if clock[at.PROMISES] == 1:
        plan_ends(blocks, clock, plan, at.LIMITS)
        if live[head, at.PROMISE] == at.NEVER:
            shadow = earliest(clock, plan, width + below, limit, limit)
            live[head, at.PROMISE] = shadow if shadow == at.NEVER else shadow + clock[at.SLACK]
        clock[at.PROMISED] = live[head, at.PROMISE]
        clock[at.BESIDE] = at.NEVER
        if clock[at.PROMISED] != at.NEVER:
            clock[at.BESIDE] = (
                plan[at.SPACE, column_at(clock, plan, max(clock[at.PROMISED], clock[at.NOW]))] - width - below
            )
    plan_ends(blocks, clock, plan, at.RUNNING)
    clock[at.SHADOW] = earliest(clock, plan, width + below, length, limit)
    clock[at.EXTRA] = at.NEVER
    if clock[at.SHADOW] != at.NEVER:
        book(clock, plan, clock[at.SHADOW], width, length, limit)
        clock[at.EXTRA] = plan[at.SPACE, column_at(clock, plan, clock[at.SHADOW])] - below
    if clock[at.PROMISES] == 1 and clock[at.PROMISED] != at.NEVER:
        for i in range(clock[at.N_DATES]):  # also then it must clear them, beside whoever starts now
            date = plan[at.DATE, i]
            if clock[at.PROMISED] < date < clock[at.PROMISED] + limit and not (
                clock[at.SHADOW] < date < clock[at.SHADOW] + limit
            ):
                plan[at.ROOM, i] -= width


@step
def nothing_new(live: Ints, blocks: Ints, clock: Ints) -> bool:
    """Return whether this pass can start nothing because the last one could not.

    Since then no processor was freed, no estimate of a running job was corrected and the head is the same: the other
    waiting jobs have only less time left until the shadow time. So just the newcomer counts, if it is one.
    """
    if clock[at.CAUSE] != at.BY_SUBMISSION or clock[at.STALE] == 1 or clock[at.HEAD] < 0 or clock[at.GATED] == 1:
        return False
    if first_slot(blocks, at.QUEUE) != clock[at.HEAD] or clock[at.PICKED] == 1:
        return False
    if clock[at.DEPTH] == at.NO_BACKFILL:
        return True
    slot = clock[at.LAST_QUEUED]
    return clock[at.NEWCOMERS] == 1 and not fits(live, clock, slot)


@step
def fits(live: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job behind the head may start now without delaying it, by the estimates."""
    width = live[slot, at.WIDTH]
    if width > room(clock, width):
        return False
    return bool(clock[at.NOW] + live[slot, at.CANDIDATE] <= clock[at.SHADOW] or width <= clock[at.EXTRA])


@step
def keeps_promise(live: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job may start now without breaking the head's promise, by requested times."""
    if clock[at.PROMISES] == 0:
        return True
    return bool(clock[at.NOW] + live[slot, at.LIMIT] <= clock[at.PROMISED] or live[slot, at.WIDTH] <= clock[at.BESIDE])


@step
def verdict_on(live: Ints, clock: Ints, slot: int) -> int:
    """Return whether the gate lets the job start: MAY_START, HELD, NO_PLACE, or -1 if it must be asked."""
    if clock[at.GATED] == 0:
        return at.MAY_START + at.NOTHING
    if clock[at.ASKED] == slot and clock[at.ANSWER] >= 0:
        verdict = int(clock[at.ANSWER])
        clock[at.ASKED] = -1
        clock[at.ANSWER] = at.NOT_ANSWERED
        if verdict != at.MAY_START:
            live[slot, at.TRIED] = clock[at.PASSES]
        return verdict
    clock[at.ASKED] = slot
    clock[at.ANSWER] = at.NOT_ANSWERED
    return -1


@step
def use_up(live: Ints, clock: Ints, slot: int) -> None:
    """Take what a job that is about to be backfilled uses of the processors free beside the head."""
    now, width = clock[at.NOW], live[slot, at.WIDTH]
    if live[slot, at.RUN] > 0:
        if now + live[slot, at.CANDIDATE] > clock[at.SHADOW]:
            clock[at.EXTRA] -= width
        if now + live[slot, at.LIMIT] > clock[at.PROMISED]:
            clock[at.BESIDE] -= width
    clock[at.STALE] |= clock[at.SEVERAL]
