"""Starts and ends of jobs."""

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.jit import step
from schedsim.kernels.agents.scoring import free_nodes, take_nodes
from schedsim.kernels.cobalt import on_end, on_start
from schedsim.kernels.nodes.site import give, take, write_spots
from schedsim.kernels.ordered_lists import first_key, first_slot, insert, remove, remove_first
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.queue import end_tie, give_back, leave_queue, record, refresh
from schedsim.kernels.records import Arrays
from schedsim.kernels.revisions import cancel_revision, not_overdue, schedule_revision


@step
def start(sim: Arrays, site: NodeArrays | None, slot: int, how: int) -> None:
    """Start a waiting job now. A job of length zero ends at once."""
    refresh(sim, sim.changes, slot)
    leave_queue(sim, sim.jobs_now[slot])
    begin(sim, site, slot, how)


@step
def begin(sim: Arrays, site: NodeArrays | None, slot: int, how: int) -> None:
    """Let a job that is not in the queue start now."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    clock, rules = state.clock, state.rules
    on_start(sim, sim.changes, job)
    write_spots(sim, site, slot)
    record(sim, event.STARTED, job.row, 4 * job.current_estimate + how)
    run_time, limit = job.run_time, job.requested_time
    if run_time > limit and rules.kill:
        run_time = limit
        clock.n_kills += 1
    if run_time == 0:
        record(sim, event.ENDED, job.row, job.current_estimate)
        if on_end(sim, sim.changes, slot, at.NO, at.YES):
            give_back(sim, slot)
        clock.causes |= at.ENDED_AT_ONCE
        return
    job.start = clock.now
    job.end = clock.now + run_time
    state.queue.free -= job.procs
    clock.n_running += 1
    take(sim, site, slot)
    take_nodes(sim, slot)
    insert(lists, state, at.RUNNING, job.start + job.current_estimate, job.row, slot, job.procs, limit)
    insert(lists, state, at.ENDS, job.end, end_tie(sim, job), slot, job.procs, limit)
    if rules.keeps_limits:
        insert(lists, state, at.LIMITS, job.start + limit, job.row, slot, job.procs, limit)
    schedule_revision(sim, sim.changes, slot)


@step
def end_due(sim: Arrays, site: NodeArrays | None) -> None:
    """End the jobs that end now, in the order (start, job id)."""
    lists, state = sim.lists, sim.state[0]
    clock, queue = state.clock, state.queue
    while clock.n_running > 0:
        if first_key(lists, state, at.ENDS) > clock.now:
            return
        slot = first_slot(lists, state, at.ENDS)
        job = sim.jobs_now[slot]
        remove_first(lists, state, at.ENDS)
        remove(lists, state, at.RUNNING, job.start + job.current_estimate, job.row)
        if state.rules.keeps_limits:
            remove(lists, state, at.LIMITS, job.start + max(job.requested_time, job.current_estimate), job.row)
        cancel_revision(sim, sim.changes, job)
        not_overdue(sim, slot)
        queue.free += job.procs
        clock.n_running -= 1
        give(sim, site, slot)
        free_nodes(sim, slot)
        clock.causes |= at.BY_END
        queue.stale = True  # by the estimates it may have ended later, or earlier
        record(sim, event.ENDED, job.row, job.current_estimate)
        if on_end(sim, sim.changes, slot, at.NO, at.NO):
            give_back(sim, slot)
