"""What all families of policies share: the phases of an instant up to the scheduling pass, and starting a job.

An instant is a second at which a job ends, is submitted, or a waking timer fires. Its phases: ends, in the order
(start, job id); timers; submissions, by job id; estimates asked; corrections of those that expired; order; pass.
The phase and all cursors are in `clock`: a pause returns a reason, and the next call goes on where it stopped.
"""

import numpy as np
import numpy.typing as npt

import predictors.data.events as event
import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_corrections import corrected
from schedsim._kernels_holds import admit, begun, line_up, over, release_child
from schedsim._kernels_lookup import first_key, first_leaf, first_slot
from schedsim._kernels_order import reorder
from schedsim._kernels_ordered import insert, remove, remove_first
from schedsim._kernels_orders import WFP3, static_key
from schedsim._kernels_outlook import answers_fit, believed, keep_ladder, review, revise, unwatch, watch
from schedsim._kernels_postpone import due, postpone, release, release_if_idle
from schedsim._kernels_score import next_tick

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@step
def record(clock: Ints, log: Ints, notes: Ints, kind: int, row: int, note: int) -> None:
    """Append an event to the log."""
    i = clock[at.LOGGED]
    log[i, 0] = clock[at.NOW]
    log[i, 1] = kind
    log[i, 2] = row
    notes[i] = note
    clock[at.LOGGED] += 1
    clock[at.EVENTS] += 1


@step
def give_back(live: Ints, clock: Ints, slot: int) -> None:
    """Give a record back."""
    live[clock[at.SPARES], at.SPARE] = slot
    clock[at.SPARES] += 1


@step
def start(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, slot: int, how: int) -> None:
    """Start a waiting job now. A job of length zero ends at once."""
    now, row, width, limit = clock[at.NOW], live[slot, at.ROW], live[slot, at.WIDTH], live[slot, at.LIMIT]
    remove(blocks, clock, at.QUEUE, live[slot, at.KEY], row)
    if clock[at.CANDIDATES] == at.BACKFILL:
        remove(blocks, clock, at.BACKFILL, live[slot, at.BACKFILL_KEY], row)
    clock[at.N_QUEUED] -= 1
    if clock[at.RULES] == 1:
        begun(live, clock, slot)
    estimate = live[slot, at.ESTIMATE]
    record(clock, log, notes, event.STARTED, row, 4 * estimate + how)
    run_time = live[slot, at.RUN]
    if run_time > limit and clock[at.KILL] == 1:
        run_time = limit
        clock[at.KILLS] += 1
    if run_time == 0:
        record(clock, log, notes, event.ENDED, row, estimate)
        if clock[at.RULES] == 0 or over(jobs, live, blocks, clock, slot, at.YES):
            give_back(live, clock, slot)
        clock[at.CAUSE] |= at.ENDED_AT_ONCE
        return
    live[slot, at.START] = now
    live[slot, at.END] = now + run_time
    clock[at.FREE] -= width
    clock[at.N_RUNNING] += 1
    insert(blocks, clock, at.RUNNING, now + estimate, row, slot, width, limit)
    insert(blocks, clock, at.ENDS, now + run_time, now * len(jobs) + jobs[row, at.RANK], slot, width, limit)
    if clock[at.LIMITED] == 1:
        insert(blocks, clock, at.LIMITS, now + limit, row, slot, width, limit)
    if live.shape[1] > at.RECORD:
        watch(live, blocks, clock, slot)


@step
def _advance(jobs: Ints, live: Ints, blocks: Ints, clock: Ints) -> int:
    """Move the clock to the next event; return 0, or why it does not move."""
    if clock[at.WORLD] == 1 and clock[at.SETTLED] != clock[at.EVENTS]:
        clock[at.SETTLED] = clock[at.EVENTS]
        return at.ASK_WORLD
    time = at.NEVER
    if clock[at.N_RUNNING] > 0:
        time = first_key(blocks, at.ENDS)
    if clock[at.NEXT_JOB] < clock[at.LAST_JOB]:
        time = min(time, jobs[clock[at.NEXT_JOB], at.SUBMIT])
    if clock[at.NODES + at.TIMERS] > 0:
        time = min(time, first_key(blocks, at.TIMERS))
    if time == at.NEVER:
        return at.FINISHED
    cause = at.NOTHING
    if clock[at.SCORED] == 1 and clock[at.N_QUEUED] > 0:
        tick = next_tick(live, blocks, clock, time)
        if tick < time:
            time, cause = tick, at.BY_TIMER
    if time > clock[at.UNTIL]:
        return at.REACHED
    clock[at.NOW] = time
    clock[at.CAUSE] = cause
    clock[at.NEWCOMERS] = 0
    return 0


@step
def _end(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints) -> None:
    """End the jobs whose time has come, in the order (start, job id)."""
    now = clock[at.NOW]
    while clock[at.N_RUNNING] > 0:
        if first_key(blocks, at.ENDS) > now:
            return
        slot = first_slot(blocks, at.ENDS)
        row, estimate = live[slot, at.ROW], live[slot, at.ESTIMATE]
        remove_first(blocks, clock, at.ENDS)
        remove(blocks, clock, at.RUNNING, live[slot, at.START] + estimate, row)
        if clock[at.LIMITED] == 1:
            limit = max(live[slot, at.LIMIT], estimate)
            remove(blocks, clock, at.LIMITS, live[slot, at.START] + limit, row)
        if live.shape[1] > at.RECORD:
            unwatch(live, blocks, clock, slot)
        clock[at.FREE] += live[slot, at.WIDTH]
        clock[at.N_RUNNING] -= 1
        clock[at.CAUSE] |= at.BY_END
        clock[at.STALE] = 1
        record(clock, log, notes, event.ENDED, row, estimate)
        if clock[at.RULES] == 0 or over(jobs, live, blocks, clock, slot, at.NO):
            give_back(live, clock, slot)


@step
def _fire(jobs: Ints, live: Ints, blocks: Ints, clock: Ints) -> int:
    """Take the timers that are due; return a pause for one that asks the client, else 0."""
    while clock[at.NODES + at.TIMERS] > 0:
        leaf = first_leaf(blocks, at.TIMERS)
        if blocks[leaf, at.E_KEY] > clock[at.NOW]:
            return 0
        kind, argument = blocks[leaf, at.E_SLOT], int(blocks[leaf, at.E_WIDTH])
        if blocks[leaf, at.E_LENGTH] == 1:
            clock[at.CAUSE] |= at.BY_TIMER
        if kind == at.RELEASE:
            release(live, blocks, clock, argument)
            continue
        remove_first(blocks, clock, at.TIMERS)
        if kind == at.STEP:
            clock[at.SETTLED] = -1
        elif kind == at.RELEASE_CHILD:
            release_child(jobs, live, blocks, clock, argument)
        elif kind == at.CALENDAR:
            clock[at.FREE] -= argument
            clock[at.STALE] = 1
        elif kind != at.RECHECK:
            clock[at.ASKED] = kind
            clock[at.ANSWER] = argument
            return at.ASK_TIMER
    return 0


@step
def _submit(jobs: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Log the jobs submitted now; return GROW_LOG if it might overflow before the next instant, else 0."""
    while clock[at.NEXT_JOB] < clock[at.LAST_JOB] and jobs[clock[at.NEXT_JOB], at.SUBMIT] == clock[at.NOW]:
        if _log_is_short(jobs, clock, log):
            return at.GROW_LOG
        record(clock, log, notes, event.SUBMITTED, clock[at.NEXT_JOB], at.NOTHING)
        clock[at.NEXT_JOB] += 1
        clock[at.CAUSE] |= at.BY_SUBMISSION
    return 0


@step
def _log_is_short(jobs: Ints, clock: Ints, log: Ints) -> bool:
    """Return whether all that may happen before the next look might not fit into the log."""
    waiting = clock[at.N_QUEUED] + clock[at.N_POSTPONED] + clock[at.N_HELD]
    present = clock[at.N_RUNNING] + waiting + clock[at.NEXT_JOB] - clock[at.NEXT_QUEUED]
    most = 3 * (present + 1)
    if clock[at.FRAGILE] == 0:
        most = min(most, 3 * len(jobs) - clock[at.EVENTS])
    return bool(clock[at.LOGGED] + most > len(log))


@step
def _queue(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints) -> int:
    """Give the jobs submitted now a record and a place in the queue; return 0 or a pause."""
    while clock[at.NEXT_QUEUED] < clock[at.NEXT_JOB]:
        row = clock[at.NEXT_QUEUED]
        limit, width = jobs[row, at.REQUESTED], jobs[row, at.PROCS]
        estimate = believed(seconds, clock, row, at.FOR_RUNNING, limit)
        candidate, ranking = estimate, estimate
        if clock[at.SEVERAL] == 1:
            candidate = believed(seconds, clock, row, at.FOR_CANDIDATES, limit)
            ranking = believed(seconds, clock, row, at.FOR_ORDER, limit)
        if min(estimate, candidate, ranking) < 0:
            clock[at.ASKED] = row
            return at.BAD_ESTIMATE
        if clock[at.SPARES] > 0:
            clock[at.SPARES] -= 1
            slot = live[clock[at.SPARES], at.SPARE]
        elif clock[at.HIGH_SLOT] < len(live):
            slot = clock[at.HIGH_SLOT]
            clock[at.HIGH_SLOT] += 1
        else:
            return at.GROW_LIVE
        live[slot, at.ROW] = row
        live[slot, at.WIDTH] = width
        live[slot, at.LIMIT] = limit
        live[slot, at.START] = -1
        live[slot, at.END] = -1
        live[slot, at.ESTIMATE] = estimate
        live[slot, at.FIRST] = estimate
        live[slot, at.CANDIDATE] = candidate
        live[slot, at.RANKING] = ranking
        live[slot, at.RUN] = jobs[row, at.RUN_TIME]
        live[slot, at.RESERVED] = 0
        live[slot, at.HOLDS] = 0
        live[slot, at.PROMISE] = at.NEVER
        live[slot, at.TRIED] = -1
        live[slot, at.PLANNED] = at.NEVER
        live[slot, at.DUE] = at.NEVER
        if live.shape[1] > at.RECORD:
            keep_ladder(seconds, live, clock, slot)
        since = max(1, jobs[row, at.SUBMIT] - jobs[0, at.SUBMIT])
        job_id, seed = jobs[row, at.JOB_ID], clock[at.SEED]
        key = static_key(clock[at.ORDER], row, since, width, ranking, seed, job_id)
        live[slot, at.KEY] = key
        if clock[at.CANDIDATES] == at.BACKFILL:
            seed = clock[at.BACKFILL_SEED]
            key = static_key(clock[at.BACKFILL_ORDER], row, since, width, ranking, seed, job_id)
            live[slot, at.BACKFILL_KEY] = key
        clock[at.NEXT_QUEUED] += 1
        if clock[at.RULES] == 1 and admit(jobs, live, blocks, clock, slot) != 0:
            continue
        if clock[at.POSTPONES] == 1 and due(jobs, clock, row) > clock[at.NOW]:
            live[slot, at.DUE] = due(jobs, clock, row)
            postpone(live, blocks, clock, slot)
        else:
            line_up(live, blocks, clock, slot)
        clock[at.NEWCOMERS] += 1
        clock[at.LAST_QUEUED] = slot
    return 0


@step
def _correct(live: Ints, blocks: Ints, clock: Ints) -> None:
    """Correct the estimates of running jobs that were to end by now."""
    now = clock[at.NOW]
    while clock[at.N_RUNNING] > 0:
        if first_key(blocks, at.RUNNING) > now:
            return
        slot = first_slot(blocks, at.RUNNING)
        remove_first(blocks, clock, at.RUNNING)
        begun, row, width = live[slot, at.START], live[slot, at.ROW], live[slot, at.WIDTH]
        old, limit = live[slot, at.ESTIMATE], live[slot, at.LIMIT]
        estimate = corrected(clock[at.CORRECTION], old, live[slot, at.FIRST], limit, now - begun)
        live[slot, at.ESTIMATE] = estimate
        insert(blocks, clock, at.RUNNING, begun + estimate, row, slot, width, limit)
        if estimate > limit and clock[at.LIMITED] == 1:
            remove(blocks, clock, at.LIMITS, begun + max(limit, old), row)
            insert(blocks, clock, at.LIMITS, begun + estimate, row, slot, width, limit)
        clock[at.STALE] = 1
        clock[at.CAUSE] |= at.CORRECTED


@step
def again(clock: Ints) -> int:
    """Return the phase after a pass that does not go on by itself when a job of length zero frees its processors."""
    if clock[at.CAUSE] & at.ENDED_AT_ONCE == 0:
        return at.AT_ADVANCE + at.NOTHING
    clock[at.CAUSE] = at.BY_END
    clock[at.PASSES] += 1
    return at.AT_ORDER + at.NOTHING


@step
def _is_asked(clock: Ints) -> bool:
    """Return whether the forecast is asked at this instant: jobs are new, or ends may change what it said of others."""
    if clock[at.NEXT_QUEUED] < clock[at.NEXT_JOB]:
        return True
    waiting = clock[at.N_QUEUED] + clock[at.N_POSTPONED]
    return bool(clock[at.OUTLOOK] == 1 and waiting > 0 and clock[at.CAUSE] & at.BY_END != 0)


@step
def until_pass(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints) -> int:
    """Go on to the next scheduling pass; return PASS_IS_DUE or the reason of a pause."""
    while True:
        if clock[at.PHASE] == at.AT_ADVANCE:
            stop = _advance(jobs, live, blocks, clock)
            if stop != 0:
                return stop
            clock[at.PHASE] = at.AT_ENDS
        if clock[at.PHASE] == at.AT_ENDS:
            if _log_is_short(jobs, clock, log):
                return at.GROW_LOG
            _end(jobs, live, blocks, clock, log, notes)
            clock[at.PHASE] = at.AT_TIMERS
        if clock[at.PHASE] == at.AT_TIMERS:
            if clock[at.NODES + at.TIMERS] > 0:
                stop = _fire(jobs, live, blocks, clock)
                if stop != 0:
                    return stop
            clock[at.PHASE] = at.AT_SUBMISSIONS
        if clock[at.PHASE] == at.AT_SUBMISSIONS:
            stop = _submit(jobs, clock, log, notes)
            if stop != 0:
                return stop
            if clock[at.OUTLOOK] == 1 and not answers_fit(seconds, clock):
                return at.GROW_ANSWERS
            clock[at.PHASE] = at.AT_QUEUEING
            if clock[at.IN_LOOP] == 1 and _is_asked(clock):
                return int(clock[at.LOGGED])
        if clock[at.PHASE] == at.AT_QUEUEING:
            stop = _queue(jobs, seconds, live, blocks, clock)
            if stop != 0:
                return stop
            if clock[at.ANSWERED] < clock[at.ANSWERS]:
                stop = revise(jobs, seconds, live, blocks, clock)
                if stop != 0:
                    return stop
            if clock[at.CAUSE] == 0:  # only timers that do not wake
                clock[at.PHASE] = at.AT_ADVANCE
                continue
            if clock[at.NODES + at.REVIEWS] > 0:
                review(live, blocks, clock)
            _correct(live, blocks, clock)
            if clock[at.N_POSTPONED] > 0 and (clock[at.N_QUEUED] == 0 or clock[at.LOOKS] & at.BEFORE != 0):
                release_if_idle(live, blocks, clock)
            clock[at.PASSES] += 1
            clock[at.PHASE] = at.AT_ORDER
        if clock[at.PHASE] == at.AT_ORDER or clock[at.PHASE] == at.AT_REORDER:
            if clock[at.N_QUEUED] == 0:
                clock[at.PHASE] = at.AT_ADVANCE
                continue
            if max(clock[at.ORDER], clock[at.BACKFILL_ORDER]) >= WFP3:
                stop = reorder(jobs, live, blocks, clock)
                if stop != 0:
                    return stop
            clock[at.PHASE] = at.AT_PASS
        return at.PASS_IS_DUE
