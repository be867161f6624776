"""The scheduling pass of policies with no or one reservation, where only numbers of processors matter.

Jobs start in the queue's order until one is blocked: the head. It is promised its shadow time, the earliest second at
which by the estimates of the running jobs it fits; extra processors are those free then beside it (Mu'alem &
Feitelson, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708). The jobs behind it, in the backfill order, start if they fit
now and either end by the shadow time or need no more than the extra ones, which they then use up.

Does not handle several reservations, or nodes with identities.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean
from schedsim._kernels_instant import start, until_pass
from schedsim._kernels_ordered import next_fitting, released_by, time_of_release

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@lean
def run(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, index: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Go on until a pause; return its reason (see `_kernels_layout`)."""
    while True:
        if clock[at.PHASE] < at.AT_PASS:
            stop = until_pass(jobs, seconds, live, blocks, index, clock, log, notes)
            if stop != at.PASS_IS_DUE:
                return stop
            if _nothing_new(live, blocks, index, clock):
                clock[at.PHASE] = at.AT_ADVANCE
                continue
        stop = _pass(jobs, live, blocks, index, clock, log, notes)
        if stop != 0:
            return stop
        clock[at.PHASE] = at.AT_ADVANCE


@lean
def _nothing_new(live: Ints, blocks: Ints, index: Ints, clock: Ints) -> bool:
    """Return whether this pass can start nothing because the last one could not.

    Since then no processor was freed, no estimate of a running job was corrected and the head is the same: the other
    waiting jobs have only less time left until the shadow time. So just the newcomer counts, if it is one.
    """
    if clock[at.CAUSE] != at.BY_SUBMISSION or clock[at.STALE] == 1 or clock[at.HEAD] < 0 or clock[at.GATED] == 1:
        return False
    if blocks[index[0, at.MEMBER + at.QUEUE], at.E_SLOT, 0] != clock[at.HEAD] or clock[at.PICKED] == 1:
        return False
    if clock[at.DEPTH] == at.NO_BACKFILL:
        return True
    slot = clock[at.LAST_QUEUED]
    return clock[at.NEWCOMERS] == 1 and not _fits(live, clock, slot)


@lean
def _fits(live: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job behind the head may start now without delaying it, by the estimates."""
    width = live[slot, at.WIDTH]
    if width > clock[at.FREE]:
        return False
    return bool(clock[at.NOW] + live[slot, at.CANDIDATE] <= clock[at.SHADOW] or width <= clock[at.EXTRA])


@lean
def _keeps_promise(live: Ints, clock: Ints, slot: int) -> bool:
    """Return whether a job may start now without breaking the head's promise, by requested times."""
    if clock[at.PROMISES] == 0:
        return True
    return bool(clock[at.NOW] + live[slot, at.LIMIT] <= clock[at.PROMISED] or live[slot, at.WIDTH] <= clock[at.BESIDE])


@lean
def _verdict(live: Ints, clock: Ints, slot: int) -> int:
    """Return 1 if the gate lets the job start, 0 if it holds it, -1 if it must be asked."""
    if clock[at.GATED] == 0:
        return 1
    if clock[at.ASKED] == slot and clock[at.ANSWER] >= 0:
        verdict = int(clock[at.ANSWER])
        clock[at.ASKED] = -1
        clock[at.ANSWER] = at.NOT_ANSWERED
        if verdict == 0:
            live[slot, at.TRIED] = clock[at.PASSES]
        return verdict
    clock[at.ASKED] = slot
    clock[at.ANSWER] = at.NOT_ANSWERED
    return -1


@lean
def _pass(jobs: Ints, live: Ints, blocks: Ints, index: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Start what may start now; return 0, or the reason of a pause."""
    if clock[at.PHASE] == at.AT_PASS:
        if clock[at.DEPTH] != at.GREEDY:
            stop = _start_in_order(jobs, live, blocks, index, clock, log, notes)
            if stop != 0:
                return stop
            if clock[at.HEAD] < 0 or clock[at.DEPTH] == at.NO_BACKFILL:
                return 0
            _reserve(live, blocks, index, clock)
        else:
            clock[at.HEAD] = -1
            clock[at.SHADOW] = at.NEVER
        clock[at.AFTER_KEY] = -at.NEVER
        clock[at.AFTER_TIE] = -1
        clock[at.PHASE] = at.AT_BACKFILL
    return _backfill(jobs, live, blocks, index, clock, log, notes)


@lean
def _start_in_order(jobs: Ints, live: Ints, blocks: Ints, index: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Start jobs in the queue's order until one is blocked: the head, or -1. Jobs held by a gate are passed over."""
    while True:
        slot, place = -1, 0
        for i in range(clock[at.MEMBERS + at.QUEUE]):
            b = index[i, at.MEMBER + at.QUEUE]
            for place in range(index[b, at.COUNT]):
                if live[blocks[b, at.E_SLOT, place], at.TRIED] != clock[at.PASSES]:
                    slot = blocks[b, at.E_SLOT, place]
                    break
            if slot >= 0:
                break
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
        if live[slot, at.WIDTH] > clock[at.FREE]:
            if clock[at.HEAD] != slot:
                clock[at.HEAD] = slot
                clock[at.STALE] = 1
            return 0
        verdict = _verdict(live, clock, slot)
        if verdict < 0:
            return at.ASK_GATE
        if verdict == 1:
            how = at.BY_RESERVATION if live[slot, at.RESERVED] == 1 else at.READY
            start(jobs, live, blocks, index, clock, log, notes, slot, how)
            clock[at.HEAD] = -1


@lean
def _reserve(live: Ints, blocks: Ints, index: Ints, clock: Ints) -> None:
    """Find the head's shadow time and the extra processors, and what it is promised."""
    head = clock[at.HEAD]
    live[head, at.RESERVED] = 1
    if clock[at.STALE] == 0:
        return
    width = live[head, at.WIDTH]
    need = width - clock[at.FREE]
    clock[at.SHADOW], clock[at.EXTRA] = time_of_release(blocks, index, clock, at.RUNNING, need)
    clock[at.STALE] = 0
    if clock[at.PROMISES] == 1:
        if live[head, at.PROMISE] == at.NEVER:
            live[head, at.PROMISE], _ = time_of_release(blocks, index, clock, at.LIMITS, need)
        clock[at.PROMISED] = live[head, at.PROMISE]
        clock[at.BESIDE] = released_by(blocks, index, clock, at.LIMITS, clock[at.PROMISED]) - need


@lean
def _backfill(jobs: Ints, live: Ints, blocks: Ints, index: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Start jobs behind the head, in the backfill order, that do not delay it."""
    which, now = clock[at.CANDIDATES], clock[at.NOW]
    while clock[at.FREE] > 0:
        b, place = next_fitting(
            blocks, index, clock, which, clock[at.AFTER_KEY], clock[at.AFTER_TIE],
            clock[at.FREE], clock[at.SHADOW] - now, clock[at.EXTRA],
        )  # fmt: skip
        if b < 0:
            return 0
        slot = blocks[b, at.E_SLOT, place]
        if clock[at.PICKED] == 1:
            if clock[at.ANSWER] == at.NOT_ANSWERED:
                clock[at.ASKED] = 2
                return at.ASK_PICK
            slot = clock[at.ANSWER]
            clock[at.ANSWER] = at.NOT_ANSWERED
            if slot < 0:
                return 0
        else:
            clock[at.AFTER_KEY], clock[at.AFTER_TIE] = blocks[b, at.E_KEY, place], blocks[b, at.E_TIE, place]
            if live[slot, at.TRIED] == clock[at.PASSES] or not _keeps_promise(live, clock, slot):
                clock[at.AFTER_TIE] += 1
                continue
        verdict = _verdict(live, clock, slot)
        if verdict < 0:
            return at.ASK_GATE
        if verdict == 0:
            clock[at.AFTER_TIE] += 1
            continue
        width = live[slot, at.WIDTH]
        if live[slot, at.RUN] > 0:
            if now + live[slot, at.CANDIDATE] > clock[at.SHADOW]:
                clock[at.EXTRA] -= width
            if now + live[slot, at.LIMIT] > clock[at.PROMISED]:
                clock[at.BESIDE] -= width
        clock[at.STALE] |= clock[at.SEVERAL]
        first = blocks[index[0, at.MEMBER + at.QUEUE], at.E_SLOT, 0] == slot
        start(jobs, live, blocks, index, clock, log, notes, slot, at.READY if first else at.BACKFILLED)
    return 0
