"""New ends of running jobs, and runs that end early: where nodes fail, or for jobs that preempt others."""

import numpy as np

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.jit import compiled, step
from schedsim.kernels.cobalt import on_end, on_return
from schedsim.kernels.keys import RANKED
from schedsim.kernels.nodes.site import give
from schedsim.kernels.ordered_lists import insert, list_slots, remove
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.queue import end_tie, enqueue, give_back, record
from schedsim.kernels.records import Arrays
from schedsim.kernels.revisions import cancel_revision, not_overdue


@compiled
def move_ends(sim: Arrays, rows: Ints, ends: Ints, kill: bool) -> None:
    """Let running jobs, rows ascending, end at these seconds, or at their request if they are killed then."""
    lists, state = sim.lists, sim.state[0]
    for i in range(list_slots(sim, at.ENDS, len(sim.jobs_now))):
        slot = sim.scratch[i]
        job = sim.jobs_now[slot]
        place = np.searchsorted(rows, job.row)
        if place == len(rows) or rows[place] != job.row:
            continue
        job.run_time = ends[place] - job.start
        end = job.start + (min(job.run_time, job.requested_time) if kill else job.run_time)
        end = max(end, state.clock.now + 1)
        if end != job.end:
            remove(lists, state, at.ENDS, job.end, end_tie(sim, job))
            insert(lists, state, at.ENDS, end, end_tie(sim, job), slot, job.procs, job.requested_time)
            job.end = end


@step
def stop_run(sim: Arrays, site: NodeArrays | None, slot: int, restarts: bool, in_pass: int) -> None:
    """Stop a running job now: it is to run from the beginning, and in no list of waiting jobs yet; or it is gone."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    start, estimate, limit = job.start, job.current_estimate, job.requested_time
    remove(lists, state, at.ENDS, job.end, end_tie(sim, job))
    remove(lists, state, at.RUNNING, start + estimate, job.row)
    if rules.keeps_limits:
        remove(lists, state, at.LIMITS, start + max(limit, estimate), job.row)
    cancel_revision(sim, sim.changes, job)
    not_overdue(sim, slot)
    if rules.kill and job.run_time > limit:
        clock.n_kills -= 1
    queue.free += job.procs
    clock.n_running -= 1
    give(sim, site, slot)
    queue.stale = True
    if not restarts:
        record(sim, event.ENDED, job.row, estimate)
        if on_end(sim, sim.changes, slot, at.YES, in_pass):
            give_back(sim, slot)
        return
    record(sim, event.RETURNED, job.row, estimate)
    job.start = -1
    job.end = -1
    if rules.asks_ends:  # a model of run times has moved its end
        job.run_time = sim.jobs[job.row].run_time
    job.current_estimate = job.first_estimate
    job.has_reservation = False
    job.guaranteed_start = at.NEVER
    job.tried_in_pass = -1
    job.planned_start = at.NEVER
    job.release_time = at.NEVER
    if rules.order == RANKED:
        job.keys[at.QUEUE] = job.row
    job.group = -1  # forecasts, for which it still runs, no longer revise its estimates
    on_return(sim, sim.changes, slot, start)


@compiled
def interrupt(sim: Arrays, site: NodeArrays | None, slot: int, restarts: bool) -> None:
    """Stop a running job before a pass. It joins the queue by its old keys, to run from the begin; or it is gone."""
    stop_run(sim, site, slot, restarts, at.NO)
    if restarts:
        enqueue(sim, slot)
        sim.state[0].clock.n_newcomers += 1
        sim.state[0].clock.last_queued = slot
