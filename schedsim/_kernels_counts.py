"""The scheduling pass of policies with no or one reservation, where only numbers of processors matter.

Jobs start in the queue's order until one is blocked: the head. It is promised its shadow time, the earliest second at
which by the estimates of the running jobs it fits; extra processors are those free then beside it (Mu'alem &
Feitelson, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708). The jobs behind it, in the backfill order, start if they fit
now and either end by the shadow time or need no more than the extra ones, which they then use up. After them, jobs
that are put off may start likewise (see `_kernels_postpone`). Under a ceiling on utilisation, jobs fit into fewer
processors than are free (see `room`).

Does not handle several reservations, or nodes with identities.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean, step
from schedsim._kernels_calendar import clears, note_start, read_dates
from schedsim._kernels_head import (
    candidate_key,
    keeps_promise,
    nothing_new,
    reserve_head,
    room,
    start_in_order,
    use_up,
    verdict_on,
)
from schedsim._kernels_instant import start, until_pass
from schedsim._kernels_lookup import next_fitting
from schedsim._kernels_order import sort_postponed
from schedsim._kernels_postpone import release, release_if_idle
from schedsim._kernels_sets import set_allows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@lean
def run(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Go on until a pause; return its reason (see `_kernels_layout`)."""
    while True:
        if clock[at.PHASE] < at.AT_PASS:
            stop = until_pass(jobs, seconds, live, blocks, clock, log, notes)
            if stop != at.PASS_IS_DUE:
                return stop
            if nothing_new(live, blocks, clock):
                clock[at.PHASE] = _next_phase(live, blocks, clock)
                continue
            if clock[at.DATED] == 1:
                read_dates(blocks, clock, plan)
        stop = _pass(jobs, live, blocks, clock, log, notes, plan)
        if stop != 0:
            return stop
        clock[at.PHASE] = _next_phase(live, blocks, clock)


@step
def _next_phase(live: Ints, blocks: Ints, clock: Ints) -> int:
    """Return the phase after a pass: another pass, if jobs put off have joined the queue after it."""
    if clock[at.LOOKS] & at.AFTER != 0 and release_if_idle(live, blocks, clock):
        return at.AT_ORDER + at.NOTHING
    return at.AT_ADVANCE + at.NOTHING


@step
def _pass(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Start what may start now; return 0, or the reason of a pause."""
    if clock[at.PHASE] == at.AT_PASS:
        clock[at.SETS_WAIT] = 0
        if clock[at.DEPTH] != at.GREEDY:
            stop = start_in_order(jobs, live, blocks, clock, log, notes, plan)
            if stop != 0:
                return stop
            if clock[at.HEAD] < 0 or clock[at.DEPTH] == at.NO_BACKFILL:
                return 0
            reserve_head(live, blocks, clock, plan)
        else:
            clock[at.HEAD] = -1
            clock[at.SHADOW] = at.NEVER
        clock[at.AFTER_KEY] = at.FIRST_KEY
        clock[at.AFTER_TIE] = at.FIRST_TIE
        clock[at.SEARCHED] = clock[at.CANDIDATES]
        clock[at.PHASE] = at.AT_BACKFILL
        if clock[at.PLACED] == 1 and clock[at.HEAD] >= 0:
            return at.ASK_SHADOW
    return _backfill(jobs, live, blocks, clock, log, notes, plan)


@step
def _backfill(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Start jobs behind the head, in the backfill order, that do not delay it."""
    while clock[at.FREE] > 0:
        key, tie, slack = clock[at.AFTER_KEY], clock[at.AFTER_TIE], clock[at.SHADOW] - clock[at.NOW]
        which, free = clock[at.SEARCHED], room(clock, clock[at.FREE])
        slot = next_fitting(blocks, clock, which, key, tie, free, slack, clock[at.EXTRA])
        if slot < 0:
            if clock[at.PUT_OFF_START] == 0 or which == at.POSTPONED or clock[at.N_POSTPONED] == 0:
                return 0
            if next_fitting(blocks, clock, at.POSTPONED, at.FIRST_KEY, at.FIRST_TIE, free, slack, clock[at.EXTRA]) < 0:
                return 0
            sort_postponed(jobs, live, blocks, clock)
            clock[at.SEARCHED] = at.POSTPONED
            clock[at.AFTER_KEY] = at.FIRST_KEY
            clock[at.AFTER_TIE] = at.FIRST_TIE
            continue
        if clock[at.PICKED] == 1:
            if clock[at.ANSWER] == at.NOT_ANSWERED:
                clock[at.ASKED] = 2
                return at.ASK_PICK
            slot = clock[at.ANSWER]
            clock[at.ANSWER] = at.NOT_ANSWERED
            if slot < 0 or not clears(live, clock, plan, slot):
                return 0
        else:
            clock[at.AFTER_KEY], clock[at.AFTER_TIE] = candidate_key(live, clock, slot), live[slot, at.ROW]
            tried = live[slot, at.TRIED] == clock[at.PASSES] or live[slot, at.WIDTH] > room(clock, live[slot, at.WIDTH])
            if tried or not keeps_promise(live, clock, slot):
                clock[at.AFTER_TIE] += 1
                continue
        if not clears(live, clock, plan, slot):
            clock[at.AFTER_TIE] += 1
            continue
        if clock[at.N_SETS] > 0 and not set_allows(live, blocks, clock, slot):
            clock[at.AFTER_TIE] += 1
            continue
        verdict = verdict_on(live, clock, slot)
        if verdict < 0:
            return at.ASK_GATE
        if verdict != at.MAY_START:
            clock[at.AFTER_TIE] += 1
            continue
        use_up(live, clock, slot)
        if live[slot, at.DUE] != at.NEVER:
            release(live, blocks, clock, slot)
        how = at.READY if clock[at.DEPTH] == at.GREEDY else at.BACKFILLED
        start(jobs, live, blocks, clock, log, notes, slot, how)
        note_start(live, clock, plan, slot)
    return 0
