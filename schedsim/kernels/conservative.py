"""Scheduling passes with several reservations: replanned at every pass, or kept and compressed.

`replan`: jobs start in the queue's order until one is blocked: the head. It and then the jobs behind it, in the
backfill order, are planned one after the other at the earliest second at which they fit beside the running jobs and the
reservations made before: who fits now starts, the first k others (all, in conservative backfilling) hold their
reservation. With k = 1 this is EASY, written differently. Only starts now matter, so the pass stops when none of the
jobs left could start even with the reservations made so far. And while no job ends and no estimate is corrected, the
plan holds: only newcomers are planned.

`compress`: every waiting job holds a reservation. Once given it moves later only when corrected estimates of running
jobs make it impossible; at an instant with ends, each waiting job in the queue's order is taken out of the plan and put
back at the earliest hole, the others' reservations staying. A job whose reservation was overlooked, since nothing
happened at its second, is due now.
"""

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, step
from schedsim.kernels.instant import repeat_pass, until_pass
from schedsim.kernels.ordered_lists import list_slots, slot_from
from schedsim.kernels.profile import book, earliest, first_drop, is_free, plan_running, read_dates, trim
from schedsim.kernels.promise import keeps_promise
from schedsim.kernels.queue import candidate_key, next_candidate, refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Estimates, JobNow, State
from schedsim.kernels.reservation import nothing_changed, reserve_head, start_in_order, use_extra_procs
from schedsim.kernels.start_end import start


@lean
def replan(sim: Arrays, estimates: Estimates, reasons: Reasons | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    queue = state.queue
    while True:
        stop = until_pass(sim, None, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        state.clock.phase = at.AT_ADVANCE
        if state.rules.dated:
            queue.profile_size = 0
            read_dates(sim)
        if reasons is not None:
            queue.profile_size = 0  # all reservations are made anew
        behind = queue.profile_size == 0 or _newcomers_come_last(sim)
        quiet = behind and nothing_changed(sim, sim.agent, None) and reasons is None
        if not quiet:
            start_in_order(sim, sim.agent, None, reasons)
            if queue.head < 0:
                continue
        if queue.stale or queue.profile_size == 0 or not behind:
            queue.profile_size = 0
            queue.after_key = at.FIRST_KEY
            queue.after_tie = at.FIRST_TIE
        if not quiet:
            reserve_head(sim, None)
            if reasons is not None:
                why.note_head(reasons, sim)
            _start_behind(sim, reasons)
        _mark_reserved(sim)


@step
def _start_behind(sim: Arrays, reasons: Reasons | None) -> None:
    """Start what may start behind the head, with the plan of the last pass if it holds."""
    state = sim.state[0]
    queue = state.queue
    if state.rules.dated:
        queue.n_reservations = 1  # the head's
    elif queue.profile_size > 0:
        trim(sim)
    elif reasons is not None or _anything_fits(sim):
        plan_running(sim)
        queue.n_reservations = 0
        _reserve(sim, sim.jobs_now[queue.head])
    else:
        return
    if reasons is not None:
        reasons[queue.head].booked = queue.shadow_time
    _walk(sim, reasons)


@step
def _newcomers_come_last(sim: Arrays) -> bool:
    """Return whether all jobs queued at this instant come behind those that the plan holds."""
    state = sim.state[0]
    clock, queue = state.clock, state.queue
    if clock.n_newcomers > 1:
        return state.rules.backfill_order == at.FIRST_COME
    if clock.n_newcomers == 0:
        return True
    newcomer = sim.jobs_now[clock.last_queued]
    key = candidate_key(newcomer, state)
    return key > queue.after_key or (key == queue.after_key and newcomer.row >= queue.after_tie)


@step
def _anything_fits(sim: Arrays) -> bool:
    """Return whether some job might start beside the head's reservation alone; no job was tried yet."""
    state = sim.state[0]
    queue = state.queue
    slack = queue.shadow_time - state.clock.now
    return next_candidate(sim, sim.changes, queue.candidates, queue.free, slack, queue.extra_procs) >= 0


@step
def _by_rank(state: State) -> int:
    """Return the list of all candidates in their order: where they are searched by group, that is the queue's."""
    queue = state.queue
    return at.QUEUE if queue.candidates == at.GROUPED else queue.candidates


@step
def _reserve(sim: Arrays, job: JobNow) -> None:
    """Give a job, brought up to date, the earliest reservation."""
    state = sim.state[0]
    _book_earliest(sim, job)
    job.has_reservation = True
    state.queue.n_reservations += 1


@step
def _walk(sim: Arrays, reasons: Reasons | None) -> None:
    """Start or plan the jobs behind the head, from where the state says that the pass has got to."""
    jobs_now, state, profile = sim.jobs_now, sim.state[0], sim.profile
    queue = state.queue
    now = state.clock.now
    while profile[0].free > 0 or reasons is not None:
        if reasons is None:
            slot = _next_that_may_start(sim)
        else:  # everyone is looked at
            slot = slot_from(sim.lists, state, _by_rank(state), queue.after_key, queue.after_tie)
        if slot < 0:
            break
        job = jobs_now[slot]
        if slot == queue.head:  # enough processors are free, but it would run into a reservation of the machine
            _go_behind(job, state)
            continue
        refresh(sim, sim.changes, slot)
        _reserve_before(sim, slot)
        if not is_free(sim, now, job.procs, job.candidate_estimate, job.requested_time):
            if reasons is not None:
                why.note_reservation(reasons, sim, slot)
            if queue.n_reservations < state.rules.depth:
                _reserve(sim, job)
                if reasons is not None:
                    why.note_booking(reasons, sim, slot)
        elif keeps_promise(job, state):
            if reasons is not None:
                why.note_planned(reasons, sim, slot, why.STARTS)
                why.note_booking(reasons, sim, slot)
            if job.run_time > 0:
                book(sim, now, job.procs, job.candidate_estimate, job.requested_time)
            use_extra_procs(sim, None, job)
            start(sim, None, slot, at.BACKFILLED)
        else:
            if reasons is not None:
                why.note_promise(reasons, sim, slot)
            queue.stale = True  # later it may not even fit and take a reservation: this plan will not hold


@step
def _next_that_may_start(sim: Arrays) -> int:
    """Return the next job that might fit now in the plan made so far, or -1."""
    state, profile = sim.state[0], sim.profile
    queue = state.queue
    drop, now = first_drop(sim), state.clock.now
    slack, extra = at.NEVER, 0
    if drop < queue.profile_size:
        slack, extra = profile[drop].time - now, profile[drop].free
    return next_candidate(sim, sim.changes, queue.candidates, profile[0].free, slack, extra)


@step
def _next_waiting(sim: Arrays) -> int:
    """Return the next job that the pass has not got to, the head excluded, and move behind it; there must be one."""
    jobs_now, lists, state = sim.jobs_now, sim.lists, sim.state[0]
    queue = state.queue
    while True:
        slot = slot_from(lists, state, _by_rank(state), queue.after_key, queue.after_tie)
        _go_behind(jobs_now[slot], state)
        if slot != queue.head:
            return slot


@step
def _go_behind(job: JobNow, state: State) -> None:
    """Note that the pass has got to a job: it goes on behind it."""
    queue = state.queue
    queue.after_key = candidate_key(job, state)
    queue.after_tie = job.row + 1


@step
def _reserve_before(sim: Arrays, slot: int) -> None:
    """Plan the jobs before `slot` that cannot start now, as long as there are reservations left; move behind it."""
    job, state = sim.jobs_now[slot], sim.state[0]
    while state.queue.n_reservations < state.rules.depth:
        other = _next_waiting(sim)
        if other == slot:
            break
        refresh(sim, sim.changes, other)
        _reserve(sim, sim.jobs_now[other])
    _go_behind(job, state)


@step
def _mark_reserved(sim: Arrays) -> None:
    """Mark the jobs that would hold the reservations left, had the pass gone on."""
    jobs_now, lists, state = sim.jobs_now, sim.lists, sim.state[0]
    queue, rules = state.queue, state.rules
    left = rules.depth - (queue.n_reservations if queue.profile_size > 0 else 1)
    if left == 0 or rules.depth == at.ALL:
        return
    key, tie = queue.after_key, queue.after_tie
    while left > 0:
        slot = slot_from(lists, state, _by_rank(state), key, tie)
        if slot < 0:
            return
        job = jobs_now[slot]
        if slot != queue.head:
            job.has_reservation = True
            left -= 1
        key, tie = candidate_key(job, state), job.row + 1


@lean
def compress(sim: Arrays, estimates: Estimates, reasons: Reasons | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    while True:
        stop = until_pass(sim, None, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        n = list_slots(sim, at.QUEUE, state.queue.n_queued)
        plan_running(sim)
        _keep(sim, n)
        _improve(sim, n)
        _start_due(sim, n, reasons)
        if reasons is not None:
            _note_waiting(reasons, sim)
        state.clock.phase = repeat_pass(state)


@step
def _keep(sim: Arrays, n: int) -> None:
    """Book the reservations that are still possible where they were, then the others at the earliest hole."""
    jobs_now, state, scratch = sim.jobs_now, sim.state[0], sim.scratch
    clock, rules = state.clock, state.rules
    doubtful = clock.causes & at.CORRECTED != 0 or rules.several_estimates or rules.dated
    for i in range(n):
        doubtful |= jobs_now[scratch[i]].planned_start < clock.now
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if job.planned_start == at.NEVER:
            continue
        planned = max(job.planned_start, clock.now)
        procs, length, limit = job.procs, job.candidate_estimate, job.requested_time
        if doubtful and not is_free(sim, planned, procs, length, limit):
            job.planned_start = at.DISPLACED
        else:
            job.planned_start = planned
            book(sim, planned, procs, length, limit)
    if doubtful:
        for i in range(n):
            slot = scratch[i]
            job = jobs_now[slot]
            if job.planned_start == at.DISPLACED:
                _book_earliest(sim, job)


@step
def _book_earliest(sim: Arrays, job: JobNow) -> None:
    """Book a job at the earliest second at which the profile has room for it."""
    procs, length, limit = job.procs, job.candidate_estimate, job.requested_time
    job.planned_start = earliest(sim, procs, length, limit)
    book(sim, job.planned_start, procs, length, limit)


@step
def _improve(sim: Arrays, n: int) -> None:
    """Give newcomers their reservation and, if a job ended now, bring the others forward; in the queue's order.

    So is it if processors came back otherwise, which only timers can do.
    """
    jobs_now, state, scratch = sim.jobs_now, sim.state[0], sim.scratch
    clock = state.clock
    ended = clock.causes & (at.BY_END | (at.BY_TIMER if state.rules.dated else 0))
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if job.planned_start == at.NEVER:
            _book_earliest(sim, job)
        elif ended and job.planned_start > clock.now:
            length, limit = job.candidate_estimate, job.requested_time
            book(sim, job.planned_start, -job.procs, length, limit)
            _book_earliest(sim, job)


@step
def _start_due(sim: Arrays, n: int, reasons: Reasons | None) -> None:
    """Start the jobs whose reservation is due."""
    jobs_now, clock, scratch = sim.jobs_now, sim.state[0].clock, sim.scratch
    passed = False
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if job.planned_start > clock.now:
            passed = True
            job.has_reservation = True
        else:
            if reasons is not None:
                why.note(reasons, sim, slot, why.STARTS)
                why.note_booking(reasons, sim, slot)
                reasons[slot].planned = clock.now
            how = at.BY_RESERVATION if job.has_reservation else at.READY
            start(sim, None, slot, at.BACKFILLED if passed else how)


@step
def _note_waiting(reasons: Reasons, sim: Arrays) -> None:
    """Note which reservations keep the jobs that still wait; the first of them counts as the head."""
    scratch = sim.scratch
    for i in range(list_slots(sim, at.QUEUE, sim.state[0].queue.n_queued)):
        why.note_kept(reasons, sim, scratch[i])
        reasons[scratch[i]].head = sim.jobs_now[scratch[0]].row
