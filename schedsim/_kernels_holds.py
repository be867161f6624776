"""Jobs that wait for their parent or for their user: held, released, and what they inherit.

A held job has a record but is in no queue, and gains no score. The record of a parent is kept after its end until its
last child is submitted, so that a child submitted late still learns how and when it ended.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_lookup import list_slots, slot_from
from schedsim._kernels_ordered import insert, remove
from schedsim._kernels_orders import SCORE
from schedsim._kernels_score import bits_of, number, score_at, score_key
from schedsim._kernels_sets import enter_set, leave_set

Ints = npt.NDArray[np.int64]


@step
def line_up(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Put a waiting job into the queue, by its keys."""
    row, width, length = live[slot, at.ROW], live[slot, at.WIDTH], live[slot, at.CANDIDATE]
    if clock[at.ORDER] == SCORE:
        live[slot, at.KEY] = score_key(live, clock, slot)
    insert(blocks, clock, at.QUEUE, live[slot, at.KEY], row, slot, width, length)
    if clock[at.CANDIDATES] == at.BACKFILL:
        if clock[at.BACKFILL_ORDER] == SCORE:
            live[slot, at.BACKFILL_KEY] = score_key(live, clock, slot)
        insert(blocks, clock, at.BACKFILL, live[slot, at.BACKFILL_KEY], row, slot, width, length)
    clock[at.N_QUEUED] += 1


@step
def step_out(live: Ints, blocks: Ints, clock: Ints, slot: int) -> None:
    """Take a waiting job out of the queue."""
    remove(blocks, clock, at.QUEUE, live[slot, at.KEY], live[slot, at.ROW])
    if clock[at.CANDIDATES] == at.BACKFILL:
        remove(blocks, clock, at.BACKFILL, live[slot, at.BACKFILL_KEY], live[slot, at.ROW])
    clock[at.N_QUEUED] -= 1
    if clock[at.HEAD] == slot:
        clock[at.HEAD] = -1
        clock[at.STALE] = 1


@step
def judge(jobs: Ints, live: Ints, clock: Ints, slot: int, fresh: int) -> bool:
    """Move a waiting job behind all others if its account is spent; return whether it must be held for that.

    A job just submitted also starts with less, the less the further its account is overdrawn.
    """
    row = live[slot, at.ROW]
    account = jobs[row, at.ACCOUNT]
    spent, granted = clock[account + at.SPENT], clock[account + at.GRANTED]
    if spent < granted:
        return False
    if clock[account + at.BLOCKS] == 1:
        return True
    if clock[account + at.OVERBURNING] == 1 and spent < 2 * granted and jobs[row, at.OVERBURNS] == 1:
        return False
    live[slot, at.TIER], live[slot, at.SET], live[slot, at.QUEUE_NUMBER] = 1, -1, clock[at.BEHIND]
    if fresh == at.YES:
        left = max(0.0, 1.0 - (spent - granted) / granted)
        live[slot, at.SCORE] = bits_of(left * number(live[slot, at.SCORE]))
    return False


@step
def hold(live: Ints, blocks: Ints, clock: Ints, slot: int, why: int) -> None:
    """Hold a waiting job; the ticks before now are its own."""
    if live[slot, at.HOLD] == 0:
        now = clock[at.NOW]
        live[slot, at.SCORE] = bits_of(score_at(live, clock, slot, now - 1))
        live[slot, at.FROM] = live[slot, at.HELD_AT] = now
        step_out(live, blocks, clock, slot)
        clock[at.N_HELD] += 1
        if live[slot, at.KIDS] == 0:
            row = live[slot, at.ROW]
            insert(blocks, clock, at.KIN, row, row, slot, live[slot, at.WIDTH], live[slot, at.LIMIT])
    live[slot, at.HOLD] |= why
    live[slot, at.PLANNED] = at.NEVER


@step
def lift(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, slot: int, why: int) -> None:
    """Take away reasons to hold a job; without any it is queued, its eligible time going on where it stopped."""
    if live[slot, at.HOLD] & why == 0:
        return
    live[slot, at.HOLD] -= live[slot, at.HOLD] & why
    if live[slot, at.HOLD] != 0:
        return
    now, row = clock[at.NOW], live[slot, at.ROW]
    if jobs[row, at.ACCOUNT] >= 0 and live[slot, at.TIER] == 0 and judge(jobs, live, clock, slot, at.NO):
        live[slot, at.HOLD] = at.BY_ACCOUNT
        return
    live[slot, at.SINCE] += now - live[slot, at.HELD_AT]
    live[slot, at.FROM] = now
    clock[at.N_HELD] -= 1
    if live[slot, at.KIDS] == 0:
        remove(blocks, clock, at.KIN, row, row)
    line_up(live, blocks, clock, slot)


@step
def _judge_all(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, account: int) -> None:
    """Judge the waiting jobs of an account anew."""
    n = list_slots(live, blocks, clock, at.QUEUE, clock[at.N_QUEUED])
    for i in range(n):
        slot = live[i, at.SORTED]
        if jobs[live[slot, at.ROW], at.ACCOUNT] == account and live[slot, at.TIER] == 0:
            if judge(jobs, live, clock, slot, at.NO):
                hold(live, blocks, clock, slot, at.BY_ACCOUNT)
            elif live[slot, at.TIER] == 1:
                step_out(live, blocks, clock, slot)
                line_up(live, blocks, clock, slot)


@step
def kin_of(live: Ints, blocks: Ints, clock: Ints, row: int) -> int:
    """Return the record of a held job, or of one with children still to be submitted; -1 if there is none."""
    slot = slot_from(blocks, clock, at.KIN, row, row)
    return slot if slot >= 0 and live[slot, at.ROW] == row else -1


@step
def _give_back(live: Ints, clock: Ints, slot: int) -> None:
    live[clock[at.SPARES], at.SPARE] = slot
    clock[at.SPARES] += 1


@step
def _inherit(live: Ints, clock: Ints, slot: int, parent: int) -> None:
    """Let a child start with a share of its parent's score, if that is more than its own."""
    share = number(clock[at.HEIRS_SHARE]) * number(live[parent, at.SCORE])
    if share > number(live[slot, at.SCORE]):
        live[slot, at.SCORE] = bits_of(share)


@step
def _wait_until(live: Ints, blocks: Ints, clock: Ints, slot: int, when: int) -> None:
    """Release a child at a second."""
    clock[at.N_TIMERS] += 1
    insert(blocks, clock, at.TIMERS, when, clock[at.N_TIMERS], at.RELEASE_CHILD, live[slot, at.ROW], at.YES)


@step
def admit(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, slot: int) -> int:
    """Fill what the site's rules need of a newly submitted job's record; return why it is held, or 0."""
    row, now = live[slot, at.ROW], clock[at.NOW]
    live[slot, at.SCORE], live[slot, at.GAIN] = jobs[row, at.START_SCORE], jobs[row, at.GROWTH]
    live[slot, at.SINCE] = live[slot, at.FROM] = live[slot, at.HELD_AT] = now
    live[slot, at.SET], live[slot, at.TIER] = jobs[row, at.IN_SET], jobs[row, at.IN_TIER]
    live[slot, at.KIDS], live[slot, at.FATE] = jobs[row, at.LATER_CHILDREN], 0
    live[slot, at.QUEUE_NUMBER] = jobs[row, at.ROUTED]
    hold = at.BY_USER * jobs[row, at.ON_HOLD]
    if jobs[row, at.ACCOUNT] >= 0 and judge(jobs, live, clock, slot, at.YES):
        hold |= at.BY_ACCOUNT
    if jobs[row, at.PARENT] >= 0:
        parent = kin_of(live, blocks, clock, jobs[row, at.PARENT])
        hold |= at.BY_PARENT
        if parent >= 0:
            if jobs[row, at.PARENT] < row:
                live[parent, at.KIDS] -= 1
            ended = live[parent, at.FATE] != 0
            if ended:
                hold += _part(jobs, live, blocks, clock, slot, parent, at.NO) - at.BY_PARENT
            if live[parent, at.KIDS] == 0 and live[parent, at.HOLD] == 0:
                remove(blocks, clock, at.KIN, live[parent, at.ROW], live[parent, at.ROW])
                if ended:
                    _give_back(live, clock, parent)
    live[slot, at.HOLD] = hold
    if hold != 0:
        clock[at.N_HELD] += 1
    if hold != 0 or live[slot, at.KIDS] > 0:
        insert(blocks, clock, at.KIN, row, row, slot, live[slot, at.WIDTH], live[slot, at.LIMIT])
    return int(hold)


@step
def _part(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, slot: int, parent: int, in_pass: int) -> int:
    """Settle what the end of a parent means for a child: return why it is held still, or 0.

    Within a pass nobody is queued: a child of a job of length zero is released at a further instant of this second.
    """
    if live[parent, at.FATE] == at.BADLY and clock[at.STUCK] == 1:
        return at.BY_FAILURE + at.NOTHING
    _inherit(live, clock, slot, parent)
    due = live[parent, at.END] + jobs[live[slot, at.ROW], at.THINK]
    if due > clock[at.NOW] or in_pass == at.YES:
        _wait_until(live, blocks, clock, slot, due)
        return at.BY_PARENT + at.NOTHING
    return at.NOTHING


@step
def release_child(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, row: int) -> None:
    """Let a job wait for its parent no more."""
    slot = kin_of(live, blocks, clock, row)
    if slot >= 0:
        lift(jobs, live, blocks, clock, slot, at.BY_PARENT)


@step
def begun(live: Ints, clock: Ints, slot: int) -> None:
    """Note the score with which a job starts, and count it in its node set."""
    live[slot, at.SCORE] = bits_of(score_at(live, clock, slot, clock[at.NOW]))
    live[slot, at.FROM] = at.NEVER
    enter_set(live, clock, slot)


@step
def over(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, slot: int, in_pass: int) -> bool:
    """Tell a job's children that it has ended; return whether its record is needed no more."""
    row = live[slot, at.ROW]
    leave_set(live, clock, slot)
    killed = clock[at.KILL] == 1 and live[slot, at.RUN] > live[slot, at.LIMIT]
    live[slot, at.FATE] = at.BADLY if killed or jobs[row, at.ENDS_BADLY] == 1 else at.WELL
    live[slot, at.END] = clock[at.NOW]
    if jobs[row, at.ACCOUNT] >= 0 and live[slot, at.START] >= 0:
        account = jobs[row, at.ACCOUNT]
        before, granted = clock[account + at.SPENT], clock[account + at.GRANTED]
        after = before + live[slot, at.WIDTH] * (clock[at.NOW] - live[slot, at.START])
        clock[account + at.SPENT] = after
        if before < granted <= after or before < 2 * granted <= after:
            _judge_all(jobs, live, blocks, clock, account)
    child = jobs[row, at.FIRST_CHILD]
    while child >= 0:
        kin = kin_of(live, blocks, clock, child)
        if kin >= 0 and live[kin, at.HOLD] & at.BY_PARENT != 0:
            why = _part(jobs, live, blocks, clock, kin, slot, in_pass)
            if why == 0:
                lift(jobs, live, blocks, clock, kin, at.BY_PARENT)
            elif why == at.BY_FAILURE:
                live[kin, at.HOLD] += at.BY_FAILURE - at.BY_PARENT
        child = jobs[child, at.NEXT_CHILD]
    return bool(live[slot, at.KIDS] == 0)
