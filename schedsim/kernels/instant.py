"""The phases of a scheduling instant up to the scheduling pass, shared by all policies.

An instant is a second at which a job ends, is submitted, or a waking timer fires. Its phases: ends, in the order
(start, job id); timers; submissions, by job id; estimates asked; corrections of those that expired; order; pass.
The phase and all cursors are in `state`: a pause returns a reason, and the next call goes on where it stopped.
"""

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.cobalt import on_submit, release_child
from schedsim.kernels.corrections import asks_again, corrected
from schedsim.kernels.keys import WFP3, next_tick
from schedsim.kernels.ordered_lists import (
    first_key,
    first_leaf,
    first_slot,
    insert,
    list_slots,
    remove,
    remove_first,
)
from schedsim.kernels.postponed import postpone, release, release_if_idle, release_time
from schedsim.kernels.queue import enqueue, record, static_key_of
from schedsim.kernels.records import Arrays, Estimates, State
from schedsim.kernels.revisions import (
    apply_revisions,
    estimates_of,
    is_overdue,
    join_revision,
    keep_steps,
    revisions_fit,
    take_revisions,
    update_postponed,
    update_waiting,
)
from schedsim.kernels.sorting import reorder
from schedsim.kernels.start_end import end_due


@step
def until_pass(sim: Arrays, estimates: Estimates) -> int:
    """Go on to the next scheduling pass; return PASS_IS_DUE or the reason of a pause."""
    state = sim.state[0]
    while True:
        if state.phase == at.AT_ADVANCE:
            stop = _advance(sim)
            if stop != 0:
                return stop
            state.phase = at.AT_ENDS
        if state.phase == at.AT_ENDS:
            if _log_is_short(sim):
                return at.GROW_LOG
            end_due(sim)
            state.phase = at.AT_TIMERS
        if state.phase == at.AT_TIMERS:
            if state.n_nodes[at.TIMERS] > 0:
                stop = _fire_timers(sim)
                if stop != 0:
                    return stop
            state.phase = at.AT_SUBMISSIONS
        if state.phase == at.AT_SUBMISSIONS:
            stop = _submit(sim)
            if stop != 0:
                return stop
            if state.revises and not revisions_fit(estimates, state):
                return at.GROW_REVISIONS
            state.phase = at.AT_QUEUEING
            if state.in_loop and _forecast_is_due(state):
                return state.n_logged
        if state.phase == at.AT_QUEUEING:
            stop = _take_in_submitted(sim, estimates)
            if stop != 0:
                return stop
            if state.n_revised < state.n_revisions:
                stop = take_revisions(sim, estimates)
                if stop != 0:
                    return stop
            if state.causes == 0:  # only timers that do not wake
                state.phase = at.AT_ADVANCE
                continue
            if state.n_nodes[at.REVISIONS] > 0:
                apply_revisions(sim)
            _correct_expired(sim)
            if state.n_postponed > 0 and (state.n_queued == 0 or state.release_looks & at.BEFORE != 0):
                release_if_idle(sim)
            state.n_passes += 1
            state.phase = at.AT_ORDER
        if state.phase == at.AT_ORDER or state.phase == at.AT_REORDER:
            if state.n_queued == 0 and not state.is_apart:
                state.phase = at.AT_ADVANCE
                continue
            if state.outdated:
                update_waiting(sim)
            if state.postponed_outdated:
                update_postponed(sim)
            if max(state.order, state.backfill_order) >= WFP3:
                stop = reorder(sim)
                if stop != 0:
                    return stop
            state.phase = at.AT_PASS
        return at.PASS_IS_DUE


@step
def repeat_pass(state: State) -> int:
    """Return the phase after a pass that does not go on by itself when a job of length zero frees its processors."""
    if state.causes & at.ENDED_AT_ONCE == 0:
        return at.AT_ADVANCE
    state.causes = at.BY_END
    state.n_passes += 1
    return at.AT_ORDER


@step
def _advance(sim: Arrays) -> int:
    """Move the time to the next event; return 0, or why it does not move."""
    lists, state = sim.lists, sim.state[0]
    if state.asks_ends and state.ends_known_at != state.n_events:
        state.ends_known_at = state.n_events
        return at.ASK_ENDS
    time = at.NEVER
    if state.n_running > 0:
        time = first_key(lists, state, at.ENDS)
    if state.next_submission < state.end_of_submissions:
        time = min(time, sim.jobs[state.next_submission].submit)
    if state.n_nodes[at.TIMERS] > 0:
        time = min(time, first_key(lists, state, at.TIMERS))
    if time == at.NEVER:
        return at.FINISHED
    cause = 0
    if state.scored and state.n_queued > 0:
        tick = next_tick(sim, time)
        if tick < time:
            time, cause = tick, at.BY_TIMER
    if time > state.until:
        return at.REACHED
    state.now = time
    state.causes = cause
    state.n_newcomers = 0
    return 0


@rare
def _fire_timers(sim: Arrays) -> int:
    """Take the timers that are due; return a pause for one that asks the client, else 0."""
    lists, state = sim.lists, sim.state[0]
    while state.n_nodes[at.TIMERS] > 0:
        leaf = first_leaf(lists, state, at.TIMERS)
        if leaf.key[0] > state.now:
            return 0
        kind, argument, wakes = leaf.slot[0], leaf.procs[0], leaf.length[0]
        if wakes == 1:
            state.causes |= at.BY_TIMER
        if kind == at.RELEASE:
            release(sim, argument)
            continue
        remove_first(lists, state, at.TIMERS)
        if kind == at.STEP:
            state.ends_known_at = -1
        elif kind == at.RELEASE_CHILD:
            release_child(sim, argument)
        elif kind == at.CALENDAR:
            state.free -= argument
            state.stale = True
        elif kind != at.RECHECK:
            state.asked_about = kind
            state.answer = argument
            return at.ASK_TIMER
    return 0


@step
def _submit(sim: Arrays) -> int:
    """Log the jobs submitted now; return GROW_LOG if it might overflow before the next instant, else 0."""
    state = sim.state[0]
    while state.next_submission < state.end_of_submissions and sim.jobs[state.next_submission].submit == state.now:
        if _log_is_short(sim):
            return at.GROW_LOG
        record(sim, event.SUBMITTED, state.next_submission, at.NOTHING)
        state.next_submission += 1
        state.causes |= at.BY_SUBMISSION
    return 0


@step
def _log_is_short(sim: Arrays) -> bool:
    """Return whether all that may happen before the next look might not fit into the log."""
    state = sim.state[0]
    if not state.restarts and state.n_logged + 3 * len(sim.jobs) - state.n_events <= len(sim.log):
        return False
    waiting = state.n_queued + state.n_postponed + state.n_held
    present = state.n_running + waiting + state.next_submission - state.next_queued
    return state.n_logged + 3 * (present + 1) > len(sim.log)


@step
def _forecast_is_due(state: State) -> bool:
    """Return whether the forecast is asked at this instant: jobs are new, or ends may change what it said of others."""
    if state.next_queued < state.next_submission:
        return True
    return state.revises and state.n_queued + state.n_postponed > 0 and state.causes & at.BY_END != 0


@step
def _take_in_submitted(sim: Arrays, estimates: Estimates) -> int:
    """Give the jobs submitted now a record and a place in the queue; return 0 or a pause."""
    state = sim.state[0]
    is_alone = state.n_newcomers == 0 and state.next_queued + 1 == state.next_submission
    state.is_apart = state.tries_newcomers and is_alone
    while state.next_queued < state.next_submission:
        row = state.next_queued
        running, candidate, order = estimates_of(estimates, state, row, sim.jobs[row].requested_time)
        if min(running, candidate, order) < 0:
            state.asked_about = row
            return at.BAD_ESTIMATE
        slot = _unused_slot(sim)
        if slot < 0:
            return at.GROW_JOBS
        _write_submitted(sim, slot, row)
        job = sim.jobs_now[slot]
        job.current_estimate = running
        job.first_estimate = running
        job.candidate_estimate = candidate
        job.order_estimate = order
        keep_steps(sim, estimates, slot)
        if state.grouped:
            job.group = sim.group_of[row]
            join_revision(sim, slot)
        job.keys[at.QUEUE] = static_key_of(sim, job, at.QUEUE)
        if state.candidate_kind == at.BACKFILL:
            job.keys[at.BACKFILL] = static_key_of(sim, job, at.BACKFILL)
        state.next_queued += 1
        if state.site_rules and on_submit(sim, slot) != 0:
            continue
        if state.postpones and release_time(sim, row) > state.now:
            job.release_time = release_time(sim, row)
            postpone(sim, slot)
        elif not state.is_apart:
            enqueue(sim, slot)
        state.n_newcomers += 1
        state.last_queued = slot
    return 0


@step
def _unused_slot(sim: Arrays) -> int:
    """Return a record for a job, one given back if there is any; -1 if there is no room."""
    state = sim.state[0]
    if state.spare_slot >= 0:
        slot = state.spare_slot
        state.spare_slot = sim.jobs_now[slot].next_spare
        return slot
    if state.n_slots < len(sim.jobs_now):
        state.n_slots += 1
        return state.n_slots - 1
    return -1


@step
def _write_submitted(sim: Arrays, slot: int, row: int) -> None:
    """Write into a record what is known of a job when it is submitted, but for its estimates."""
    job, submitted = sim.jobs_now[slot], sim.jobs[row]
    job.row = row
    job.procs = submitted.procs
    job.requested_time = submitted.requested_time
    job.run_time = submitted.run_time
    job.start = -1
    job.end = -1
    job.has_reservation = False
    job.guaranteed_start = at.NEVER
    job.due = at.NEVER
    job.planned_start = at.NEVER
    job.tried_in_pass = -1
    job.times_held = 0
    job.release_time = at.NEVER


@step
def _correct_expired(sim: Arrays) -> None:
    """Correct the estimates of running jobs that were to end by now."""
    lists, state = sim.lists, sim.state[0]
    if state.n_nodes[at.OVERDUE] > 0:
        _ask_again(sim)
    while state.n_running > 0:
        if first_key(lists, state, at.RUNNING) > state.now:
            return
        _correct_first(sim)


@rare
def _correct_first(sim: Arrays) -> None:
    """Correct the estimate of the running job that was to end first."""
    lists, state = sim.lists, sim.state[0]
    slot = first_slot(lists, state, at.RUNNING)
    job = sim.jobs_now[slot]
    remove_first(lists, state, at.RUNNING)
    old, limit = job.current_estimate, job.requested_time
    estimate = corrected(state.correction, old, job.first_estimate, limit, state.now - job.start)
    job.current_estimate = estimate
    insert(lists, state, at.RUNNING, job.start + estimate, job.row, slot, job.procs, limit)
    if estimate > limit and state.keeps_limits:
        remove(lists, state, at.LIMITS, job.start + max(limit, old), job.row)
        insert(lists, state, at.LIMITS, job.start + estimate, job.row, slot, job.procs, limit)
    if asks_again(state.correction) and not is_overdue(sim, slot):
        insert(lists, state, at.OVERDUE, job.row, job.row, slot, job.procs, limit)
    state.stale = True
    state.causes |= at.CORRECTED


@rare
def _ask_again(sim: Arrays) -> None:
    """Correct the estimates of all overdue jobs anew, by what is left to their requests now."""
    lists, state = sim.lists, sim.state[0]
    for i in range(list_slots(sim, at.OVERDUE, len(sim.jobs_now))):
        slot = sim.scratch[i]
        job = sim.jobs_now[slot]
        elapsed, old, limit = state.now - job.start, job.current_estimate, job.requested_time
        if elapsed >= min(old, limit):  # it has expired, and is corrected as one that has
            continue
        estimate = corrected(state.correction, old, job.first_estimate, limit, elapsed)
        if estimate == old:
            continue
        remove(lists, state, at.RUNNING, job.start + old, job.row)
        job.current_estimate = estimate
        insert(lists, state, at.RUNNING, job.start + estimate, job.row, slot, job.procs, limit)
        state.stale = True
        state.causes |= at.CORRECTED
