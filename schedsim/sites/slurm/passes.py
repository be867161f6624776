"""Slurm's two scheduling loops: the main one at each event, and backfilling by its own clock.

The **main loop** runs when a job ends or is submitted. It starts jobs in the queue's order until one does not fit: the
head. It passes over a job that a limit holds, and may test the first jobs alone.

The **backfill loop** runs every `interval` seconds, if a job has ended or was submitted since its last run, if that run
started one, or if the priorities have changed. It goes through the queue in its order, up to `tested` jobs: a job that
fits now next to the running jobs and the reservations made before starts; another one gets a reservation at the
earliest second at which it fits, from the multiple of `resolution` before it to the one after its end, unless that
second lies beyond `window`. Each run plans everything again. A job that a limit holds now gets no reservation. See
slurm.conf(5), bf_interval, bf_resolution, bf_window and bf_max_job_test.

Each pass adds up the use of each limit from the running jobs.

Where jobs take GPUs and memory of nodes, a job that is blocked in the main loop closes the nodes of its partition to
the jobs behind it, and the loop goes on while nodes are left; a reservation takes whole nodes (see `cycle`).

Where jobs **preempt** others, a job that does not fit now looks for running jobs that it may stop (see `victims`). A
reservation is made as if all that it may stop were gone.

Does not handle promises, gates, agents, ceilings, and node sets of a site.
"""

from typing import Final

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, rare, step
from schedsim.kernels.instant import until_pass
from schedsim.kernels.nodes.site import date, demand_of, note_behind, spots_are_short
from schedsim.kernels.ordered_lists import insert, leaf_at, node_at, slot_from
from schedsim.kernels.places.placement import find_place
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.profile import book, book_dates, clears, earliest, is_free, note_start, plan_running, read_dates
from schedsim.kernels.queue import refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Estimates, JobNow
from schedsim.kernels.reservation import reserve_head
from schedsim.kernels.start_end import start
from schedsim.sites.slurm.cycle import (
    begin_slots,
    close_nodes,
    first_start,
    has_unclosed_place,
    open_all,
    reserve_nodes,
    slot_in_the_way,
)
from schedsim.sites.slurm.placement import choose, find_rooms
from schedsim.sites.slurm.preemptable import find_candidates, forget_exempt
from schedsim.sites.slurm.preemption.victims import (
    BACK,
    GONE,
    make_way,
    make_way_on,
    plan_without,
    stops_are_short,
    wake_when_exempt_no_more,
)
from schedsim.sites.slurm.priorities import rank
from schedsim.sites.slurm.records import NodeCycle, Pace, PreemptionArrays, SlurmArrays
from schedsim.sites.slurm.usage import claim, falls, limit_of

SECOND: Final = 1_000_000  # [us]


@lean
def run(
    sim: Arrays,
    estimates: Estimates,
    reasons: Reasons | None,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays | None,
) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state, pace = sim.state[0], slurm.pace[0]
    clock, queue = state.clock, state.queue
    while True:
        stop = until_pass(sim, site, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        if site is not None:
            if spots_are_short(sim, site):
                return at.GROW_SPOTS
            date(sim, site)
        if stops_are_short(sim, preempt):
            return at.GROW_STOPS
        if slurm.ranking[0].ranks:
            rank(sim, slurm, preempt)
        clock.phase = at.AT_ADVANCE
        if state.rules.dated:
            read_dates(sim)
        pace.is_changed |= clock.causes & ~at.BY_TIMER != 0
        if preempt is not None:
            pace.is_changed |= preempt.one[0].timer == clock.now
        _count(sim, slurm)
        queue.head = -1
        pace.is_cut = clock.now < pace.main_at + pace.min_interval
        if pace.is_cut:
            _leave(sim, slot_from(sim.lists, state, at.QUEUE, at.FIRST_KEY, at.FIRST_TIE))
        else:
            pace.main_at = clock.now
            _main_loop(sim, reasons, slurm, site, cycle, preempt)
        is_due = pace.backfills and _cycle_from(pace, clock.now) == clock.now
        is_due &= pace.is_changed or clock.now == pace.timer
        if pace.test_time > 0:
            is_due &= clock.causes & at.BY_END == 0  # a job that completes keeps it from beginning
        queued = queue.n_queued
        if queue.head >= 0:
            _hold_head(sim, reasons, site)
        if is_due and queue.n_queued > 0:
            _backfill_loop(sim, reasons, slurm, site, cycle, preempt)
        elif reasons is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if queue.head >= 0:
                why.note_turns(reasons, sim)
        if is_due:
            pace.is_changed = queue.n_queued < queued  # what it has started itself
            pace.next_at = max(pace.next_at, clock.now + pace.interval)
        _wake(sim, slurm)
        wake_when_exempt_no_more(sim, preempt, is_due or not pace.backfills or queue.head < 0)


@step
def _hold_head(sim: Arrays, reasons: Reasons | None, site: NodeArrays | None) -> None:
    head = sim.state[0].queue.head
    if site is None and (sim.jobs_now[head].procs > sim.state[0].queue.free or sim.state[0].rules.dated):
        reserve_head(sim, None)
    else:  # also one that a main loop of some jobs has not tested
        sim.jobs_now[head].has_reservation = True
    if reasons is not None:
        _note_head(reasons, sim, site)


@step
def _count(sim: Arrays, slurm: SlurmArrays) -> None:
    lists, state, limits = sim.lists, sim.state[0], slurm.usage.limits
    if len(limits) == 0:
        return
    for i in range(len(limits)):
        limits[i].used = 0
    for i in range(state.queue.n_nodes[at.ENDS]):
        node = node_at(lists, at.ENDS, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                claim(slurm, sim.jobs_now[leaf.slot[k]], state.clock.now, 1)


@step
def _is_held(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays, slot: int) -> bool:
    """Return whether a limit holds a job now, and note which."""
    job = sim.jobs_now[slot]
    limit = limit_of(slurm.usage, job.row)
    slurm.held_by[job.row] = limit
    if limit < 0:
        return False
    job.tried_in_pass = sim.state[0].clock.n_passes
    if reasons is not None:
        why.note(reasons, sim, slot, why.GATE)
    return True


@step
def _start(sim: Arrays, slurm: SlurmArrays, site: NodeArrays | None, slot: int, how: int) -> None:
    """Start a job, which counts against its limits from now on; one of length zero does not."""
    job = sim.jobs_now[slot]
    lasts = job.run_time > 0
    start(sim, site, slot, how)
    if lasts:
        claim(slurm, job, sim.state[0].clock.now, 1)


@step
def _main_loop(
    sim: Arrays,
    reasons: Reasons | None,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays | None,
) -> None:
    """Start jobs in the queue's order until one does not fit: the head, or -1; pass over held jobs.

    On nodes a job that does not fit closes the nodes of its partition, and the loop goes on until all are closed.
    """
    lists, state, pace = sim.lists, sim.state[0], slurm.pace[0]
    queue = state.queue
    key, tie, tested = at.FIRST_KEY, at.FIRST_TIE, 0
    looks_at_all = pace.queue_depth == 0 or state.clock.now % pace.sched_interval == 0
    looks_at_all |= state.clock.now >= pace.all_at
    if looks_at_all:
        pace.all_at = at.NEVER
    slurm.tested_of[:] = 0
    if cycle is not None:
        open_all(cycle)
    while queue.n_queued > 0:
        slot = slot_from(lists, state, at.QUEUE, key, tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        refresh(sim, sim.changes, slot)
        if _exceeds_quota(slurm, job.row, at.YES):
            _leave(sim, slot)
            continue
        if not looks_at_all and tested == pace.queue_depth:
            _leave(sim, slot)
            pace.is_cut, now = True, state.clock.now
            pace.all_at = min(pace.all_at, now - now % pace.sched_interval + pace.sched_interval)
            return
        tested += 1
        if _is_held(sim, reasons, slurm, slot):
            continue
        if not _has_place(sim, site, cycle, job) and not _has_made_way(sim, slurm, site, cycle, preempt, slot):
            _leave(sim, slot)
            if _closes_all(sim, site, cycle, preempt, job):
                return
            continue
        if reasons is not None:
            why.note(reasons, sim, slot, why.STARTS)
        _start(sim, slurm, site, slot, at.BY_RESERVATION if job.has_reservation else at.READY)
        note_start(sim, job)


@step
def _leave(sim: Arrays, slot: int) -> None:
    """Let the first job that the main loop leaves be the head."""
    if sim.state[0].queue.head < 0:
        sim.state[0].queue.head = slot
        sim.state[0].queue.stale = True


@step
def _has_place(sim: Arrays, site: NodeArrays | None, cycle: NodeCycle | None, job: JobNow) -> bool:
    """Return whether the main loop may start a job; on nodes in the place found last."""
    if site is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if cycle is not None:
            return has_unclosed_place(sim, site, cycle, job)
    return job.procs <= sim.state[0].queue.free and clears(sim, job)


@step
def _has_made_way(
    sim: Arrays,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays | None,
    slot: int,
) -> bool:
    """Stop other jobs so that the main loop may start a job; return whether it may."""
    if preempt is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if find_candidates(sim, preempt, site, cycle, sim.jobs_now[slot]) > 0:
            return _make_way(sim, slurm, site, cycle, preempt, slot)
    return False


@step
def _make_way(
    sim: Arrays,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays,
    slot: int,
) -> bool:
    if site is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if cycle is not None:
            return make_way_on(sim, slurm, preempt, site, cycle, slot)
    return make_way(sim, slurm, preempt, slot, at.NO)


@step
def _closes_all(
    sim: Arrays, site: NodeArrays | None, cycle: NodeCycle | None, preempt: PreemptionArrays | None, job: JobNow
) -> bool:
    """Let a blocked job close nodes; return whether the main loop then has none left."""
    if site is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if cycle is not None:
            end = sim.state[0].clock.now + job.requested_time
            return close_nodes(site, cycle, job.row, end, preempt is not None)
    return True


@step
def _backfill_loop(
    sim: Arrays,
    reasons: Reasons | None,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays | None,
) -> None:
    """Start jobs that fit now next to the reservations before them; reserve the earliest second for the others."""
    lists, state, pace = sim.lists, sim.state[0], slurm.pace[0]
    queue = state.queue
    if cycle is None:
        plan_running(sim)
    else:
        begin_slots(sim, pace, cycle)
    slurm.tested_of[:] = 0
    queue.n_reservations = 0
    key, tie, tested, most = at.FIRST_KEY, at.FIRST_TIE, 0, pace.tested
    if (state.clock.now + pace.window) // pace.resolution * pace.resolution < state.clock.now:
        most = 0  # the window ends before it begins
    while queue.n_queued > 0 and (tested < most or reasons is not None):
        slot = slot_from(lists, state, at.QUEUE, key, tie)
        if slot < 0:
            break
        job = sim.jobs_now[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        is_left_out = _exceeds_quota(slurm, job.row, at.NO)
        tested += not is_left_out
        refresh(sim, sim.changes, slot)
        if is_left_out or tested > most:
            if reasons is not None:
                _note_window(reasons, sim, slot)
        elif not _is_held(sim, reasons, slurm, slot):
            _start_or_reserve(sim, reasons, slurm, site, cycle, preempt, slot)
    if pace.test_time > 0:
        lasts = (min(tested, most) * pace.test_time + SECOND - 1) // SECOND
        pace.next_at = state.clock.now + lasts + pace.interval


@step
def _exceeds_quota(slurm: SlurmArrays, row: int, of_main: int) -> bool:
    """Return whether this run has tested as many jobs of a job's user or partition as it may; else count it."""
    for i in range(len(slurm.quotas)):
        group = slurm.group_of[i, row]
        if slurm.of_main[i] == of_main and group >= 0 and slurm.tested_of[i, group] >= slurm.quotas[i]:
            return True
    for i in range(len(slurm.quotas)):
        if slurm.of_main[i] == of_main and slurm.group_of[i, row] >= 0:
            slurm.tested_of[i, slurm.group_of[i, row]] += 1
    return False


@step
def _start_or_reserve(
    sim: Arrays,
    reasons: Reasons | None,
    slurm: SlurmArrays,
    site: NodeArrays | None,
    cycle: NodeCycle | None,
    preempt: PreemptionArrays | None,
    slot: int,
) -> None:
    """Start a job in the backfill loop, or reserve the earliest second for it."""
    if site is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if cycle is not None:
            _start_or_reserve_nodes(sim, reasons, slurm, site, cycle, preempt, slot)
            return
    job, state = sim.jobs_now[slot], sim.state[0]
    clock, queue = state.clock, state.queue
    procs, length, limit = job.procs, job.candidate_estimate, job.requested_time
    # a job that would end in the very second in which a reservation begins is in its way
    fits = procs <= queue.free and is_free(sim, clock.now, procs, length + 1, limit)
    if fits or _has_made_way_in_plan(sim, slurm, preempt, slot):
        if reasons is not None:
            why.note_planned(reasons, sim, slot, why.STARTS)
            why.note_booking(reasons, sim, slot)
        if job.run_time > 0:
            book(sim, clock.now, procs, length, limit)
        _start(sim, slurm, site, slot, at.BACKFILLED)
        return
    if reasons is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if slot != queue.head:
            why.note_reservation(reasons, sim, slot)
            if (
                reasons[slot].rule == why.PROCESSORS and procs <= queue.free
            ):  # whole slots are taken, from before now on
                reasons[slot].rule = why.RESERVATION
                reasons[slot].collides = clock.now
    if not slurm.unreserved[job.row]:
        _reserve_without(sim, reasons, slurm, preempt, slot)


@step
def _has_made_way_in_plan(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays | None, slot: int) -> bool:
    """Stop other jobs so that the backfill loop may start a job; return whether it may."""
    if preempt is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if find_candidates(sim, preempt, None, None, sim.jobs_now[slot]) > 0:
            return make_way(sim, slurm, preempt, slot, at.YES)
    return False


@step
def _reserve_without(
    sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays, preempt: PreemptionArrays | None, slot: int
) -> None:
    """Reserve the earliest second for a job as if the jobs that it may preempt were gone."""
    if preempt is not None:
        plan_without(sim, preempt, preempt.one[0].n_candidates, at.YES, GONE)
    _reserve(sim, reasons, slurm, slot)
    if preempt is not None:
        plan_without(sim, preempt, preempt.one[0].n_candidates, at.YES, BACK)


@step
def _start_or_reserve_nodes(
    sim: Arrays,
    reasons: Reasons | None,
    slurm: SlurmArrays,
    site: NodeArrays,
    cycle: NodeCycle,
    preempt: PreemptionArrays | None,
    slot: int,
) -> None:
    """Start a job in the backfill loop, or reserve nodes for it from the first second at which it has a place."""
    job, state, pace = sim.jobs_now[slot], sim.state[0], slurm.pace[0]
    if reasons is not None:
        _note_nodes(reasons, sim, site, cycle, slot)
    if preempt is not None:
        find_candidates(sim, preempt, site, cycle, job)
    first = first_start(sim, site, pace, cycle, preempt, job)
    if first == state.clock.now:
        _take_place(sim, slurm, site, cycle, preempt, slot)
        if reasons is not None:
            note_behind(reasons, sim, site, slot, why.STARTS)
        _start(sim, slurm, site, slot, at.BACKFILLED)
    elif first != at.NEVER and not slurm.unreserved[job.row]:
        begin = reserve_nodes(site, pace, cycle, job, first)
        job.planned_start = first
        job.has_reservation = True
        state.queue.n_reservations += 1
        if reasons is not None:
            why.note_booking(reasons, sim, slot)
            reasons[slot].booked = begin


@step
def _take_place(
    sim: Arrays,
    slurm: SlurmArrays,
    site: NodeArrays,
    cycle: NodeCycle,
    preempt: PreemptionArrays | None,
    slot: int,
) -> None:
    """Let a job that may start now have its place next to the jobs that run, or stop some of them."""
    if preempt is not None:
        job = sim.jobs_now[slot]
        end = sim.state[0].clock.now + job.requested_time
        find_rooms(site, cycle, demand_of(site, job.row), end)
        site.one[0].n_chosen = choose(site, cycle, demand_of(site, job.row))
        if site.one[0].n_chosen == 0:
            make_way_on(sim, slurm, preempt, site, cycle, slot)
        forget_exempt(preempt)


@rare
def _reserve(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays, slot: int) -> None:
    """Book a job at the earliest second at which it fits, in whole slots, if that lies within the window."""
    job, state, pace = sim.jobs_now[slot], sim.state[0], slurm.pace[0]
    clock = state.clock
    procs, length, limit = job.procs, job.candidate_estimate, job.requested_time
    planned = earliest(sim, procs, length, limit)
    if planned == at.NEVER or planned > clock.now + pace.window:
        return
    first, slots = _slots(job, planned, pace.resolution)
    first = max(first, clock.now)
    book(sim, first, procs, max(1, slots - first), 0)
    if state.rules.dated:  # these it meets when it runs, not from the begin of its slot on
        book_dates(sim, planned, procs, limit)
    job.planned_start = planned
    job.has_reservation = True
    state.queue.n_reservations += 1
    if reasons is not None:
        why.note_booking(reasons, sim, slot)
        reasons[slot].booked = first


@step
def _slots(job: JobNow, planned: int, resolution: int) -> tuple[int, int]:
    """Return the seconds from which and until when a reservation takes its processors."""
    first = planned - planned % resolution
    end = planned + job.candidate_estimate + resolution - 1
    return first, max(first + resolution, end - end % resolution)


@step
def _wake(sim: Arrays, slurm: SlurmArrays) -> None:
    """Set the timers of the next runs of the loops, unless they are set or the runs could start nothing."""
    state, pace = sim.state[0], slurm.pace[0]
    clock = state.clock
    if state.queue.n_queued == 0:
        return
    when, comes = at.NEVER, clock.n_running > 0 or clock.next_submission < clock.end_of_submissions
    if pace.backfills and pace.is_changed:
        when = _cycle_from(pace, clock.now + 1)
    elif pace.calc_period > 0 and ((pace.backfills and comes) or falls(slurm.usage)):
        when = _cycle_from(pace, clock.now - clock.now % pace.calc_period + pace.calc_period)
    if when < at.NEVER and not clock.now < pace.timer <= when:
        pace.timer = when
        _set_timer(sim, when)
    if pace.is_cut:
        when = pace.main_at + pace.min_interval
        if pace.main_at == clock.now:  # it has run, as far as its depth
            when = max(when, pace.all_at)
        if not clock.now < pace.main_timer <= when:
            pace.main_timer = when
            _set_timer(sim, when)


@step
def _cycle_from(pace: Pace, time: int) -> int:
    """Return the first second from one on at which a run of the backfill loop may begin."""
    if pace.test_time > 0:
        return max(time, pace.next_at)
    return time + (-time) % pace.interval


@step
def _set_timer(sim: Arrays, when: int) -> None:
    clock = sim.state[0].clock
    clock.n_timers += 1
    insert(sim.lists, sim.state[0], at.TIMERS, when, clock.n_timers, at.RECHECK, 0, 1)


@rare
def _note_head(reasons: Reasons, sim: Arrays, site: NodeArrays | None) -> None:
    queue = sim.state[0].queue
    if site is not None:
        reserve_head(sim, site)
        note_behind(reasons, sim, site, queue.head, why.HEAD)
        return
    queue.after_key = at.FIRST_KEY
    queue.after_tie = at.FIRST_TIE
    why.note_head(reasons, sim)
    reasons[queue.head].booked = queue.shadow_time


@rare
def _note_nodes(reasons: Reasons, sim: Arrays, site: NodeArrays, cycle: NodeCycle, slot: int) -> None:
    """Note what keeps a job from starting now, should it not start: the nodes, or what is reserved on them."""
    job, state = sim.jobs_now[slot], sim.state[0]
    if slot == state.queue.head:
        return
    if find_place(site, demand_of(site, job.row), state.clock.now + job.requested_time) == 0:
        note_behind(reasons, sim, site, slot, why.RESOURCES)
    else:
        note_behind(reasons, sim, site, slot, why.RESERVATION)
        reasons[slot].known = reasons[slot].number
        reasons[slot].collides = slot_in_the_way(sim, site, cycle, job)


@rare
def _note_window(reasons: Reasons, sim: Arrays, slot: int) -> None:
    why.note_behind(reasons, sim, slot, why.WINDOW)
    reasons[slot].extra = at.NEVER
