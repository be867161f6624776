"""The phases of a scheduling instant up to the scheduling pass, shared by all policies.

An instant is a second at which a job ends, is submitted, or a waking timer fires. Its phases: ends, in the order
(start, job id); timers; submissions, by job id; estimates asked; corrections of those that expired; order; pass.
The phase and all cursors are in `state`: a pause returns a reason, and the next call continues from there.
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
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.postponed import postpone, release, release_if_idle, release_time
from schedsim.kernels.queue import enqueue, record, static_key_of
from schedsim.kernels.records import Arrays, Changes, Estimates, State
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
def until_pass(sim: Arrays, site: NodeArrays | None, estimates: Estimates) -> int:
    """Go on to the next scheduling pass; return PASS_IS_DUE or the reason of a pause."""
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    while True:
        if clock.phase == at.AT_ADVANCE:
            stop = _advance(sim)
            if stop != 0:
                return stop
            clock.phase = at.AT_ENDS
        if clock.phase == at.AT_ENDS:
            if _log_is_short(sim):
                return at.GROW_LOG
            end_due(sim, site)
            clock.phase = at.AT_TIMERS
        if clock.phase == at.AT_TIMERS:
            if queue.n_nodes[at.TIMERS] > 0:
                stop = _fire_timers(sim, sim.changes)
                if stop != 0:
                    return stop
            clock.phase = at.AT_SUBMISSIONS
        if clock.phase == at.AT_SUBMISSIONS:
            stop = _submit(sim)
            if stop != 0:
                return stop
            if not revisions_fit(estimates, state, sim.changes):
                return at.GROW_REVISIONS
            clock.phase = at.AT_QUEUEING
            if rules.in_loop and _forecast_is_due(state):
                return clock.n_logged
        if clock.phase == at.AT_QUEUEING:
            stop = _take_in_submitted(sim, sim.changes, estimates)
            if stop != 0:
                return stop
            stop = take_revisions(sim, sim.changes, estimates)
            if stop != 0:
                return stop
            if queue.poll_every > 0:
                _plan_poll(state)
            if clock.causes == 0:  # only timers that do not wake, or a poll that revised nothing
                clock.phase = at.AT_ADVANCE
                continue
            apply_revisions(sim, sim.changes)
            _correct_expired(sim)
            if queue.n_queued == 0 or rules.release_looks & at.BEFORE != 0:
                release_if_idle(sim, sim.changes, site)
            clock.n_passes += 1
            clock.phase = at.AT_ORDER
        if clock.phase == at.AT_ORDER or clock.phase == at.AT_REORDER:
            if queue.n_queued == 0 and not clock.is_apart:
                clock.phase = at.AT_ADVANCE
                continue
            stop = _bring_up_to_date(sim, sim.changes)
            if stop != 0:
                return stop
            clock.phase = at.AT_PASS
        return at.PASS_IS_DUE


@step
def _bring_up_to_date(sim: Arrays, changes: Changes | None) -> int:
    """Sort changed lists of waiting jobs again; return ASK_ORDER if the client must give keys first, else 0."""
    if changes is None:
        return 0
    state = sim.state[0]
    if state.queue.outdated:
        update_waiting(sim)
    if state.queue.postponed_outdated:
        update_postponed(sim)
    return reorder(sim) if max(state.rules.order, state.rules.backfill_order) >= WFP3 else 0


@step
def repeat_pass(state: State) -> int:
    """Return the phase after a pass that does not continue when a job of length zero frees its processors."""
    clock = state.clock
    if clock.causes & at.ENDED_AT_ONCE == 0:
        return at.AT_ADVANCE
    clock.causes = at.BY_END
    clock.n_passes += 1
    return at.AT_ORDER


@step
def _advance(sim: Arrays) -> int:
    """Move the time to the next event; return 0, or why it does not move."""
    lists, state = sim.lists, sim.state[0]
    clock, queue = state.clock, state.queue
    if state.rules.asks_ends and clock.ends_known_at != clock.n_events:
        clock.ends_known_at = clock.n_events
        return at.ASK_ENDS
    time = at.NEVER
    if clock.n_running > 0:
        time = first_key(lists, state, at.ENDS)
    if clock.next_submission < clock.end_of_submissions:
        time = min(time, sim.jobs[clock.next_submission].submit)
    if queue.n_nodes[at.TIMERS] > 0:
        time = min(time, first_key(lists, state, at.TIMERS))
    if time == at.NEVER:
        return at.FINISHED
    cause, tick = 0, next_tick(sim, sim.changes, time + 1)
    if tick <= time:  # also at a second of which nothing else makes an instant
        time, cause = tick, at.BY_TIMER
    if 0 < clock.next_poll <= time:
        cause = at.BY_POLL | (cause if clock.next_poll == time else 0)
        time = clock.next_poll
    if time > clock.until:
        return at.REACHED
    clock.now = time
    clock.causes = cause
    clock.n_newcomers = 0
    if clock.next_poll == time:
        clock.next_poll = 0
    return 0


@rare
def _fire_timers(sim: Arrays, changes: Changes | None) -> int:
    """Take the timers that are due; return a pause for one that asks the client, else 0."""
    lists, state = sim.lists, sim.state[0]
    clock, queue = state.clock, state.queue
    while queue.n_nodes[at.TIMERS] > 0:
        leaf = first_leaf(lists, state, at.TIMERS)
        if leaf.key[0] > clock.now:
            return 0
        kind, argument, wakes = leaf.slot[0], leaf.procs[0], leaf.length[0]
        if wakes == 1:
            clock.causes |= at.BY_TIMER
            if kind == at.CALENDAR or kind == at.CHANGE:
                clock.causes |= at.BY_MACHINE
        if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if kind == at.RELEASE:
                release(sim, argument)
                continue
        remove_first(lists, state, at.TIMERS)
        if kind == at.STEP:
            clock.ends_known_at = -1
        elif kind == at.RELEASE_CHILD:
            release_child(sim, sim.changes, argument)
        elif kind == at.CALENDAR:
            queue.free -= argument
            queue.stale = True
        elif kind != at.RECHECK:
            clock.asked_about = kind
            clock.answer = argument
            return at.ASK_TIMER
    return 0


@step
def _submit(sim: Arrays) -> int:
    """Log the jobs submitted now; return GROW_LOG if it might overflow before the next instant, else 0."""
    clock = sim.state[0].clock
    while clock.next_submission < clock.end_of_submissions and sim.jobs[clock.next_submission].submit == clock.now:
        if _log_is_short(sim):
            return at.GROW_LOG
        record(sim, event.SUBMITTED, clock.next_submission, at.NOTHING)
        clock.next_submission += 1
        clock.causes |= at.BY_SUBMISSION
    return 0


@step
def _log_is_short(sim: Arrays) -> bool:
    """Return whether the events until the next check might not fit into the log."""
    state = sim.state[0]
    clock, queue = state.clock, state.queue
    if not state.rules.restarts and clock.n_logged + 3 * len(sim.jobs) - clock.n_events <= len(sim.log):
        return False
    waiting = queue.n_queued + queue.n_postponed + state.site.n_held
    present = clock.n_running + waiting + clock.next_submission - clock.next_queued
    return clock.n_logged + 3 * (present + 1) > len(sim.log)


@step
def _forecast_is_due(state: State) -> bool:
    """Return whether to ask the forecast at this instant: jobs are new, or ends may change its answers on others."""
    clock, queue = state.clock, state.queue
    if clock.next_queued < clock.next_submission or clock.causes & at.BY_POLL != 0:
        return True
    return (
        queue.revises
        and queue.poll_every == 0
        and queue.n_queued + queue.n_postponed > 0
        and clock.causes & at.BY_END != 0
    )


@rare
def _plan_poll(state: State) -> None:
    """Set the next poll, where something happens while jobs wait; a poll that revises nothing makes no pass."""
    clock, queue = state.clock, state.queue
    if queue.n_revisions == 0:
        clock.causes &= ~at.BY_POLL
    if clock.causes == 0:  # a poll that is still to come stays; one that is due has been cleared
        return
    waits = clock.n_newcomers + queue.n_queued + queue.n_postponed + state.site.n_held > 0
    clock.next_poll = (clock.now // queue.poll_every + 1) * queue.poll_every if waits else 0


@step
def _take_in_submitted(sim: Arrays, changes: Changes | None, estimates: Estimates) -> int:
    """Give the jobs submitted now a record and a place in the queue; return 0 or a pause."""
    state = sim.state[0]
    clock, rules = state.clock, state.rules
    is_alone = clock.n_newcomers == 0 and clock.next_queued + 1 == clock.next_submission
    clock.is_apart = clock.tries_newcomers and is_alone
    while clock.next_queued < clock.next_submission:
        row = clock.next_queued
        running, candidate, order = estimates_of(estimates, state, changes, row, sim.jobs[row].requested_time)
        if min(running, candidate, order) < 0:
            clock.asked_about = row
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
        if changes is not None:
            keep_steps(sim, estimates, slot)
            if state.queue.grouped:
                job.group = changes.group_of[row]
                join_revision(sim, slot)
        job.keys[at.QUEUE] = static_key_of(sim, job, at.QUEUE)
        if rules.candidate_kind == at.BACKFILL:
            job.keys[at.BACKFILL] = static_key_of(sim, job, at.BACKFILL)
        clock.next_queued += 1
        if changes is not None:
            if len(changes.site_jobs) > 0 and on_submit(sim, slot) != 0:
                continue
            if release_time(sim, row) > clock.now:
                job.release_time = release_time(sim, row)
                postpone(sim, slot)
            else:
                enqueue(sim, slot)
        elif not clock.is_apart:
            enqueue(sim, slot)
        clock.n_newcomers += 1
        clock.last_queued = slot
    return 0


@step
def _unused_slot(sim: Arrays) -> int:
    """Return a record for a job, preferably one given back; -1 if there is no room."""
    clock = sim.state[0].clock
    if clock.spare_slot >= 0:
        slot = clock.spare_slot
        clock.spare_slot = sim.jobs_now[slot].next_spare
        return slot
    if clock.n_slots < len(sim.jobs_now):
        clock.n_slots += 1
        return clock.n_slots - 1
    return -1


@step
def _write_submitted(sim: Arrays, slot: int, row: int) -> None:
    """Write a submitted job into a record, except for its estimates."""
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
    job.next_step = at.NEVER
    job.steps_done = 0


@step
def _correct_expired(sim: Arrays) -> None:
    """Correct the estimates of running jobs that were to end by now."""
    lists, state = sim.lists, sim.state[0]
    clock = state.clock
    if state.queue.n_nodes[at.OVERDUE] > 0:
        _ask_again(sim)
    while clock.n_running > 0:
        if first_key(lists, state, at.RUNNING) > clock.now:
            return
        _correct_first(sim)


@rare
def _correct_first(sim: Arrays) -> None:
    """Correct the estimate of the running job that was to end first."""
    lists, state = sim.lists, sim.state[0]
    clock, rules = state.clock, state.rules
    slot = first_slot(lists, state, at.RUNNING)
    job = sim.jobs_now[slot]
    remove_first(lists, state, at.RUNNING)
    old, limit = job.current_estimate, job.requested_time
    estimate = corrected(rules.correction, old, job.first_estimate, limit, clock.now - job.start)
    job.current_estimate = estimate
    insert(lists, state, at.RUNNING, job.start + estimate, job.row, slot, job.procs, limit)
    if estimate > limit and rules.keeps_limits:
        remove(lists, state, at.LIMITS, job.start + max(limit, old), job.row)
        insert(lists, state, at.LIMITS, job.start + estimate, job.row, slot, job.procs, limit)
    if asks_again(rules.correction) and not is_overdue(sim, slot):
        insert(lists, state, at.OVERDUE, job.row, job.row, slot, job.procs, limit)
    state.queue.stale = True
    clock.causes |= at.CORRECTED


@rare
def _ask_again(sim: Arrays) -> None:
    """Correct the estimates of all overdue jobs again, by what is left to their requests now."""
    lists, state = sim.lists, sim.state[0]
    clock = state.clock
    for i in range(list_slots(sim, at.OVERDUE, len(sim.jobs_now))):
        slot = sim.scratch[i]
        job = sim.jobs_now[slot]
        elapsed, old, limit = clock.now - job.start, job.current_estimate, job.requested_time
        if elapsed >= min(old, limit):  # it has expired, and is corrected as one that has
            continue
        estimate = corrected(state.rules.correction, old, job.first_estimate, limit, elapsed)
        if estimate == old:
            continue
        remove(lists, state, at.RUNNING, job.start + old, job.row)
        job.current_estimate = estimate
        insert(lists, state, at.RUNNING, job.start + estimate, job.row, slot, job.procs, limit)
        state.queue.stale = True
        clock.causes |= at.CORRECTED
