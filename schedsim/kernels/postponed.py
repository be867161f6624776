"""CEIL: postponed jobs wait in a second queue until the first is empty, the machine nearly so, or they must join.

After CEIL (Li et al., ROSS 2019, doi:10.1145/3322789.3328743). A job with a deadline waits among the postponed ones;
all of them join the queue at an instant with an empty queue, or with few processors in use. A timer lets each join in
time: `release_lead` seconds before it must start to end by its deadline if it runs as long as requested.
"""

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.ordered_lists import first_slot, insert, remove
from schedsim.kernels.places.placement import reserved_procs
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.queue import candidate_key, enqueue, join_group, leave_group
from schedsim.kernels.records import Arrays, Changes, JobNow


@step
def release_time(sim: Arrays, row: int) -> int:
    """Return the latest second at which a job joins the queue; below 0 for one that is not to be postponed."""
    job = sim.jobs[row]
    if job.deadline < 0:
        return -1
    return job.deadline - job.requested_time - sim.state[0].rules.release_lead  # endless where none are postponed


@rare
def enlist(sim: Arrays, slot: int) -> None:
    """Put a job into the list of postponed ones."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    queue = state.queue
    if queue.candidates == at.GROUPED:
        job.group += queue.n_groups
        join_group(sim, slot)
    insert(lists, state, at.POSTPONED, candidate_key(job, state), job.row, slot, job.procs, job.candidate_estimate)


@rare
def unlist(sim: Arrays, job: JobNow) -> None:
    """Take a job out of the list of postponed ones."""
    state = sim.state[0]
    queue = state.queue
    remove(sim.lists, state, at.POSTPONED, candidate_key(job, state), job.row)
    if queue.candidates == at.GROUPED:
        leave_group(sim, job)
        job.group -= queue.n_groups


@rare
def postpone(sim: Arrays, slot: int) -> None:
    """Postpone a job, and set the timer that releases it. Such timers come before others of their second."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    enlist(sim, slot)
    insert(lists, state, at.TIMERS, job.release_time, -1 - job.row, at.RELEASE, slot, at.YES)
    state.queue.n_postponed += 1


@step
def release_started(sim: Arrays, changes: Changes | None, slot: int) -> None:
    """Let a job that is about to start join the queue, if it is postponed."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.jobs_now[slot].release_time != at.NEVER:
            release(sim, slot)


@rare
def release(sim: Arrays, slot: int) -> None:
    """Let a postponed job join the queue."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    queue = state.queue
    unlist(sim, job)
    remove(lists, state, at.TIMERS, job.release_time, -1 - job.row)
    job.release_time = at.NEVER
    queue.n_postponed -= 1
    queue.stale = True
    queue.outdated |= queue.postponed_outdated and queue.lists_estimates
    enqueue(sim, slot)


@step
def release_if_idle(sim: Arrays, changes: Changes | None, site: NodeArrays | None) -> bool:
    """Let all postponed jobs join the queue if it is empty, or few processors are in use; return whether any did."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].queue.n_postponed > 0:
            return _release_if_idle(sim, site)
    return False


@rare
def _release_if_idle(sim: Arrays, site: NodeArrays | None) -> bool:
    lists, state = sim.lists, sim.state[0]
    queue, rules = state.queue, state.rules
    in_use = rules.machine_procs - queue.free
    if site is not None:
        in_use += reserved_procs(site, state.clock.now)
    if queue.n_queued > 0 and in_use >= rules.idle_below:
        return False
    while queue.n_postponed > 0:
        release(sim, first_slot(lists, state, at.POSTPONED))
    return True
