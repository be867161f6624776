"""Scheduling passes with several reservations: replanned at every pass, or kept and compressed.

`replan`: jobs start in the queue's order until one is blocked: the head. The pass plans it, and then the jobs behind it
in the backfill order, each at the earliest second at which it fits next to the running jobs and the reservations made
before: a job that fits now starts, the first k others (all, in conservative backfilling) hold their reservation. With
k = 1 this is EASY, written differently. Only starts now matter, so the pass stops when none of the jobs left could
start even with the reservations made so far. And while no job ends and no estimate is corrected, the plan holds: the
pass only plans newcomers.

`compress`: every waiting job holds a reservation. It moves later only when corrected estimates of running jobs make it
impossible; at an instant with ends or a change of the machine, the pass takes each waiting job in the queue's order out
of the plan and puts it back at the earliest hole, while the other reservations stay. A job with a reservation at a
second without an instant is due now.

Where nodes differ, a reservation also has a place on them (see `nodes.plan`). A kept reservation keeps its place; if
that is no longer free it takes another one at its second, if there is one.
"""

import schedsim.kernels.places.records as of
import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, step
from schedsim.kernels.instant import repeat_pass, until_pass
from schedsim.kernels.nodes.plan import (
    book_kept_place,
    book_place,
    earliest_place,
    keep_chosen,
    keeps_place,
    note_place,
    place_at,
    plan_is_short,
    plan_places,
    recall_place,
)
from schedsim.kernels.nodes.site import date, keeps_promise_in_place, note_behind, spots_are_short
from schedsim.kernels.ordered_lists import list_slots, slot_from
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.profile import book, earliest, first_drop, is_free, plan_running, read_dates, trim
from schedsim.kernels.promise import keeps_promise
from schedsim.kernels.queue import candidate_key, next_candidate, refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Estimates, JobNow, State
from schedsim.kernels.reservation import nothing_changed, reserve_head, start_in_order, use_extra_procs
from schedsim.kernels.start_end import start


@lean
def replan(sim: Arrays, estimates: Estimates, reasons: Reasons | None, site: NodeArrays | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    queue = state.queue
    while True:
        stop = until_pass(sim, site, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        if site is not None:
            if plan_is_short(sim, site):
                return at.GROW_PLAN
            if spots_are_short(sim, site):
                return at.GROW_SPOTS
            date(sim, site)
            if len(site.windows) > 0:
                queue.profile_size = 0
        state.clock.phase = at.AT_ADVANCE
        if state.rules.dated:
            queue.profile_size = 0
            read_dates(sim)
        if reasons is not None:
            queue.profile_size = 0  # all reservations are made again
        behind = queue.profile_size == 0 or _newcomers_come_last(sim)
        quiet = behind and nothing_changed(sim, None, site) and reasons is None
        if not quiet:
            start_in_order(sim, None, site, reasons)
            if queue.head < 0:
                continue
        if queue.stale or queue.profile_size == 0 or not behind:
            queue.profile_size = 0
            queue.after_key = at.FIRST_KEY
            queue.after_tie = at.FIRST_TIE
        if not quiet:
            reserve_head(sim, site)
            if reasons is not None:
                _note_head(reasons, sim, site)
            _start_behind(sim, site, reasons)
        _mark_reserved(sim)


@step
def _start_behind(sim: Arrays, site: NodeArrays | None, reasons: Reasons | None) -> None:
    """Start the jobs behind the head that may start, with the plan of the last pass if it holds."""
    state = sim.state[0]
    queue = state.queue
    if state.rules.dated:
        queue.n_reservations = 1  # the head's
    elif queue.profile_size > 0:
        trim(sim)
    elif reasons is not None or _anything_fits(sim):
        _begin_plan(sim, site)
        queue.n_reservations = 0
        _reserve(sim, site, sim.jobs_now[queue.head])
    else:
        return
    if reasons is not None:
        reasons[queue.head].booked = queue.shadow_time
    _walk(sim, site, reasons)


@step
def _note_head(reasons: Reasons, sim: Arrays, site: NodeArrays | None) -> None:
    if site is None:
        why.note_head(reasons, sim)
    else:
        note_behind(reasons, sim, site, sim.state[0].queue.head, why.HEAD)


@step
def _begin_plan(sim: Arrays, site: NodeArrays | None) -> None:
    """Begin a plan with the running jobs and the reservations of the machine."""
    plan_running(sim)
    if site is not None:
        plan_places(sim, site)


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
    """Return whether some job might start next to the head's reservation alone, before any is tried."""
    state = sim.state[0]
    queue = state.queue
    slack = queue.shadow_time - state.clock.now
    return next_candidate(sim, sim.changes, queue.candidates, queue.free, slack, queue.extra_procs) >= 0


@step
def _by_rank(state: State) -> int:
    """Return the list of all candidates in their order: the queue's, where they are searched by group."""
    queue = state.queue
    return at.QUEUE if queue.candidates == at.GROUPED else queue.candidates


@step
def _reserve(sim: Arrays, site: NodeArrays | None, job: JobNow) -> None:
    """Give a job, brought up to date, the earliest reservation."""
    state = sim.state[0]
    _book_earliest(sim, site, job)
    job.has_reservation = True
    state.queue.n_reservations += 1


@step
def _walk(sim: Arrays, site: NodeArrays | None, reasons: Reasons | None) -> None:
    """Start or plan the jobs behind the head, from the pass's position in the state."""
    jobs_now, state, profile = sim.jobs_now, sim.state[0], sim.profile
    queue = state.queue
    now = state.clock.now
    while profile[0].free > 0 or reasons is not None:
        if reasons is None:
            slot = _next_that_may_start(sim)
        else:  # every job is examined
            slot = slot_from(sim.lists, state, _by_rank(state), queue.after_key, queue.after_tie)
        if slot < 0:
            break
        job = jobs_now[slot]
        if slot == queue.head:  # enough processors are free, but not where or for as long as it needs them
            _reserve_before(sim, site, slot)
            continue
        refresh(sim, sim.changes, slot)
        _reserve_before(sim, site, slot)
        if not _fits_in_plan(sim, site, job):
            if reasons is not None:
                _note_reservation(reasons, sim, site, slot)
            if queue.n_reservations < state.rules.depth:
                _reserve(sim, site, job)
                if reasons is not None:
                    why.note_booking(reasons, sim, slot)
        elif _keeps_promise(sim, site, job):
            if reasons is not None:
                why.note_planned(reasons, sim, slot, why.STARTS)
                why.note_booking(reasons, sim, slot)
            if job.run_time > 0:
                _book(sim, site, job, now)
            use_extra_procs(sim, None, job)
            start(sim, site, slot, at.BACKFILLED)
        else:
            if reasons is not None:
                why.note_promise(reasons, sim, slot)
            queue.stale = True  # later it may not even fit and take a reservation: this plan will not hold


@step
def _fits_in_plan(sim: Arrays, site: NodeArrays | None, job: JobNow) -> bool:
    """Return whether a job may start now next to all that is planned."""
    now = sim.state[0].clock.now
    if not is_free(sim, now, job.procs, job.candidate_estimate, job.requested_time):
        return False
    if site is not None:
        return place_at(site, job, now)
    return True


@step
def _keeps_promise(sim: Arrays, site: NodeArrays | None, job: JobNow) -> bool:
    """Return whether a job, in the place found last, keeps the head's promise."""
    if site is not None:
        return keeps_promise_in_place(sim, site, job)
    return keeps_promise(job, sim.state[0])


@step
def _note_reservation(reasons: Reasons, sim: Arrays, site: NodeArrays | None, slot: int) -> None:
    """Note what in the plan keeps a job from starting now."""
    if site is None:
        why.note_reservation(reasons, sim, slot)
    else:
        note_place(reasons, sim, site, slot)


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
def _go_behind(job: JobNow, state: State) -> None:
    """Set the pass's position behind a job."""
    queue = state.queue
    queue.after_key = candidate_key(job, state)
    queue.after_tie = job.row + 1


@step
def _reserve_before(sim: Arrays, site: NodeArrays | None, slot: int) -> None:
    """Plan the jobs before `slot` that cannot start now, as long as there are reservations left; move behind it."""
    job, state = sim.jobs_now[slot], sim.state[0]
    queue = state.queue
    while queue.n_reservations < state.rules.depth:
        other = slot_from(sim.lists, state, _by_rank(state), queue.after_key, queue.after_tie)
        if other == slot:
            break
        _go_behind(sim.jobs_now[other], state)
        if other != queue.head:
            refresh(sim, sim.changes, other)
            _reserve(sim, site, sim.jobs_now[other])
    _go_behind(job, state)


@step
def _mark_reserved(sim: Arrays) -> None:
    """Mark the jobs that would hold the reservations left, had the pass continued."""
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
def compress(sim: Arrays, estimates: Estimates, reasons: Reasons | None, site: NodeArrays | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    while True:
        stop = until_pass(sim, site, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        if site is not None:
            if plan_is_short(sim, site):
                return at.GROW_PLAN
            if spots_are_short(sim, site):
                return at.GROW_SPOTS
            date(sim, site)
        _begin_plan(sim, site)
        n = list_slots(sim, at.QUEUE, state.queue.n_queued)
        _keep(sim, site, n)
        _improve(sim, site, n)
        _start_due(sim, site, n, reasons)
        if reasons is not None:
            _note_waiting(reasons, sim, site)
        state.clock.phase = repeat_pass(state)


@step
def _keep(sim: Arrays, site: NodeArrays | None, n: int) -> None:
    """Book the reservations that are still possible where they were, then the others at the earliest hole."""
    jobs_now, state, scratch = sim.jobs_now, sim.state[0], sim.scratch
    clock, rules = state.clock, state.rules
    doubtful = clock.causes & at.CORRECTED != 0 or rules.several_estimates or rules.dated or rules.restarts
    for i in range(n):
        doubtful |= jobs_now[scratch[i]].planned_start < clock.now
    for i in range(n):
        job = jobs_now[scratch[i]]
        if job.planned_start == at.NEVER:
            continue
        planned = max(job.planned_start, clock.now)
        if doubtful and not _is_possible(sim, site, job, planned):
            job.planned_start = at.DISPLACED
        else:
            job.planned_start = planned
            _book_kept(sim, site, job, of.TAKE)
    if doubtful:
        for i in range(n):
            job = jobs_now[scratch[i]]
            if job.planned_start == at.DISPLACED:
                _book_and_keep(sim, site, job)


@step
def _is_possible(sim: Arrays, site: NodeArrays | None, job: JobNow, planned: int) -> bool:
    """Return whether a reservation is possible at its second, in another place if its own is not free."""
    possible = is_free(sim, planned, job.procs, job.candidate_estimate, job.requested_time)
    if site is not None:
        if possible and keeps_place(site, job, planned):
            return True
        recall_place(site, job)
        possible = possible and place_at(site, job, planned)
        if possible:
            keep_chosen(site, job)
    return possible


@step
def _book(sim: Arrays, site: NodeArrays | None, job: JobNow, begin: int) -> None:
    """Plan a job from a second on, in the place found last."""
    book(sim, begin, job.procs, job.candidate_estimate, job.requested_time)
    if site is not None:
        book_place(site, job, begin)


@step
def _book_earliest(sim: Arrays, site: NodeArrays | None, job: JobNow) -> None:
    """Plan a job at the earliest second with room for it."""
    if site is None:
        job.planned_start = earliest(sim, job.procs, job.candidate_estimate, job.requested_time)
    else:
        job.planned_start = earliest_place(sim, site, job)
    if job.planned_start != at.NEVER:
        _book(sim, site, job, job.planned_start)


@step
def _book_and_keep(sim: Arrays, site: NodeArrays | None, job: JobNow) -> None:
    """Plan a job at the earliest second; it keeps that place."""
    if site is not None:
        recall_place(site, job)
    _book_earliest(sim, site, job)
    if site is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if job.planned_start != at.NEVER:
            keep_chosen(site, job)


@step
def _book_kept(sim: Arrays, site: NodeArrays | None, job: JobNow, sign: int) -> None:
    """Plan a job where it keeps its reservation, or take it out of the plan."""
    if job.planned_start == at.NEVER:
        return
    book(sim, job.planned_start, sign * job.procs, job.candidate_estimate, job.requested_time)
    if site is not None:
        book_kept_place(site, job, sign)


@step
def _improve(sim: Arrays, site: NodeArrays | None, n: int) -> None:
    """Give newcomers their reservation; if a job ended or the machine changed, bring the others forward; in order."""
    jobs_now, state, scratch = sim.jobs_now, sim.state[0], sim.scratch
    improves = state.clock.causes & (at.BY_END | at.BY_MACHINE) != 0
    for i in range(n):
        job = jobs_now[scratch[i]]
        if job.planned_start == at.NEVER:
            _book_and_keep(sim, site, job)
        elif improves and job.planned_start > state.clock.now:
            _book_kept(sim, site, job, of.RELEASE)
            _book_and_keep(sim, site, job)


@step
def _start_due(sim: Arrays, site: NodeArrays | None, n: int, reasons: Reasons | None) -> None:
    """Start the jobs with a reservation that is due."""
    jobs_now, state, scratch = sim.jobs_now, sim.state[0], sim.scratch
    passed = False
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if job.planned_start > state.clock.now:
            passed = True
            job.has_reservation = True
        else:
            if reasons is not None:
                why.note(reasons, sim, slot, why.STARTS)
                why.note_booking(reasons, sim, slot)
                reasons[slot].planned = state.clock.now
            how = at.BY_RESERVATION if job.has_reservation else at.READY
            if site is not None:
                recall_place(site, job)
            start(sim, site, slot, at.BACKFILLED if passed else how)


@step
def _note_waiting(reasons: Reasons, sim: Arrays, site: NodeArrays | None) -> None:
    """Note which reservations keep the jobs that still wait; the first of them counts as the head."""
    scratch = sim.scratch
    for i in range(list_slots(sim, at.QUEUE, sim.state[0].queue.n_queued)):
        slot = scratch[i]
        _book_kept(sim, site, sim.jobs_now[slot], of.RELEASE)
        _note_reservation(reasons, sim, site, slot)
        _book_kept(sim, site, sim.jobs_now[slot], of.TAKE)
        why.note_booking(reasons, sim, slot)
        reasons[slot].known = at.NEVER
        reasons[slot].head = sim.jobs_now[scratch[0]].row
