"""Slurm's two scheduling loops: the main one at each event, and backfilling by its own clock.

The **main loop** runs when a job ends or is submitted. It starts jobs in the queue's order until one does not fit: the
head. It passes over a job that a limit holds.

The **backfill loop** runs every `interval` seconds, if a job has ended or was submitted since its last run, if that run
started one, or if the priorities have changed. It goes through the queue in its order, up to `tested` jobs: a job that
fits now next to the running jobs and the reservations made before starts; another one gets a reservation at the
earliest second at which it fits, from the multiple of `resolution` before it to the one after its end, unless that
second lies beyond `window`. Each run plans everything again. A job that a limit holds now gets no reservation. See
slurm.conf(5), bf_interval, bf_resolution, bf_window and bf_max_job_test.

Each pass adds up the use of each limit from the running jobs.

Does not handle promises, gates, agents, ceilings, and node sets of a site.
"""

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, rare, step
from schedsim.kernels.instant import until_pass
from schedsim.kernels.ordered_lists import insert, leaf_at, node_at, slot_from
from schedsim.kernels.profile import book, clears, earliest, is_free, note_start, plan_running, read_dates
from schedsim.kernels.queue import refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Estimates, JobNow
from schedsim.kernels.reservation import reserve_head
from schedsim.kernels.start_end import start
from schedsim.sites.slurm.records import SlurmArrays


@lean
def run(sim: Arrays, estimates: Estimates, reasons: Reasons | None, slurm: SlurmArrays) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state, pace = sim.state[0], slurm.pace[0]
    clock, queue = state.clock, state.queue
    while True:
        stop = until_pass(sim, None, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        clock.phase = at.AT_ADVANCE
        if state.rules.dated:
            read_dates(sim)
        pace.is_changed |= clock.causes & ~at.BY_TIMER != 0
        _count(sim, slurm)
        _main_loop(sim, reasons, slurm)
        is_due = pace.backfills and clock.now % pace.interval == 0
        queued = queue.n_queued
        if queue.head >= 0:
            reserve_head(sim, None)
            if reasons is not None:
                _note_head(reasons, sim)
            if is_due:
                _backfill_loop(sim, reasons, slurm)
            elif reasons is not None:
                why.note_turns(reasons, sim)
        if is_due:
            pace.is_changed = queue.n_queued < queued  # what it has started itself
        _wake(sim, slurm)


@step
def _count(sim: Arrays, slurm: SlurmArrays) -> None:
    lists, state = sim.lists, sim.state[0]
    if len(slurm.limits) == 0:
        return
    for i in range(len(slurm.limits)):
        slurm.limits[i].used = 0
    for i in range(state.queue.n_nodes[at.ENDS]):
        node = node_at(lists, at.ENDS, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                _claim(slurm, sim.jobs_now[leaf.slot[k]].row)


@step
def _claim(slurm: SlurmArrays, row: int) -> None:
    for i in range(slurm.first_claim[row], slurm.first_claim[row + 1]):
        claim = slurm.claims[i]
        slurm.limits[claim.limit].used += claim.amount


@step
def _limit_of(slurm: SlurmArrays, row: int) -> int:
    """Return the first limit that holds a job now, or -1."""
    for i in range(slurm.first_claim[row], slurm.first_claim[row + 1]):
        claim = slurm.claims[i]
        limit = slurm.limits[claim.limit]
        if claim.holds and limit.used + claim.amount > limit.most:
            return claim.limit
    return -1


@step
def _is_held(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays, slot: int) -> bool:
    """Return whether a limit holds a job now, and note which."""
    job = sim.jobs_now[slot]
    limit = _limit_of(slurm, job.row)
    slurm.held_by[job.row] = limit
    if limit < 0:
        return False
    job.tried_in_pass = sim.state[0].clock.n_passes
    if reasons is not None:
        why.note(reasons, sim, slot, why.GATE)
    return True


@step
def _start(sim: Arrays, slurm: SlurmArrays, slot: int, how: int) -> None:
    """Start a job, which counts against its limits from now on; one of length zero does not."""
    job = sim.jobs_now[slot]
    row, lasts = job.row, job.run_time > 0
    start(sim, None, slot, how)
    if lasts:
        _claim(slurm, row)


@step
def _main_loop(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays) -> None:
    """Start jobs in the queue's order until one does not fit: the head, or -1; pass over held jobs."""
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    key, tie = at.FIRST_KEY, at.FIRST_TIE
    queue.head = -1
    while queue.n_queued > 0:
        slot = slot_from(lists, state, at.QUEUE, key, tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        refresh(sim, sim.changes, slot)
        if _is_held(sim, reasons, slurm, slot):
            continue
        if job.procs > queue.free or not clears(sim, job):
            queue.head = slot
            queue.stale = True
            return
        if reasons is not None:
            why.note(reasons, sim, slot, why.STARTS)
        _start(sim, slurm, slot, at.BY_RESERVATION if job.has_reservation else at.READY)
        note_start(sim, job)


@step
def _backfill_loop(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays) -> None:
    """Start jobs that fit now next to the reservations before them; reserve the earliest second for the others."""
    lists, state, pace = sim.lists, sim.state[0], slurm.pace[0]
    queue = state.queue
    plan_running(sim)
    queue.n_reservations = 0
    key, tie, tested = at.FIRST_KEY, at.FIRST_TIE, 0
    while queue.n_queued > 0 and (tested < pace.tested or reasons is not None):
        slot = slot_from(lists, state, at.QUEUE, key, tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        tested += 1
        refresh(sim, sim.changes, slot)
        if tested > pace.tested:
            if reasons is not None:
                _note_window(reasons, sim, slot)
        elif not _is_held(sim, reasons, slurm, slot):
            _start_or_reserve(sim, reasons, slurm, slot)


@step
def _start_or_reserve(sim: Arrays, reasons: Reasons | None, slurm: SlurmArrays, slot: int) -> None:
    """Start a job in the backfill loop, or reserve the earliest second for it."""
    job, state = sim.jobs_now[slot], sim.state[0]
    clock, queue = state.clock, state.queue
    procs, length, limit = job.procs, job.candidate_estimate, job.requested_time
    # a job that would end in the very second in which a reservation begins is in its way
    if procs <= queue.free and is_free(sim, clock.now, procs, length + 1, limit):
        if reasons is not None:
            why.note_planned(reasons, sim, slot, why.STARTS)
            why.note_booking(reasons, sim, slot)
        if job.run_time > 0:
            book(sim, clock.now, procs, length, limit)
        _start(sim, slurm, slot, at.BACKFILLED)
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
        _reserve(sim, reasons, slurm, slot)


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
    book(sim, first, procs, max(1, slots - first), limit)
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
    """Set the timer of the next run of the backfill loop, unless it is set or the run could start nothing."""
    state, pace = sim.state[0], slurm.pace[0]
    clock = state.clock
    if not pace.backfills or state.queue.n_queued == 0:
        return
    when = at.NEVER
    if pace.is_changed:
        when = clock.now - clock.now % pace.interval + pace.interval
    elif pace.calc_period > 0 and (clock.n_running > 0 or clock.next_submission < clock.end_of_submissions):
        when = clock.now - clock.now % pace.calc_period + pace.calc_period
        when += (-when) % pace.interval
    if when == at.NEVER or clock.now < pace.timer <= when:
        return
    pace.timer = when
    clock.n_timers += 1
    insert(sim.lists, state, at.TIMERS, when, clock.n_timers, at.RECHECK, 0, 1)


@rare
def _note_head(reasons: Reasons, sim: Arrays) -> None:
    queue = sim.state[0].queue
    queue.after_key = at.FIRST_KEY
    queue.after_tie = at.FIRST_TIE
    why.note_head(reasons, sim)
    reasons[queue.head].booked = queue.shadow_time


@rare
def _note_window(reasons: Reasons, sim: Arrays, slot: int) -> None:
    why.note_behind(reasons, sim, slot, why.WINDOW)
    reasons[slot].extra = at.NEVER
