"""The promise: the latest start that a blocked head is guaranteed, and which jobs keep it.

The first time a job is the head, it is promised its shadow time by requested times, and some slack. A job behind it
keeps the promise if by its requested time it ends before the guaranteed start, or needs no more than is spare then
next to the head; on nodes see `verdict_beside_head` in `nodes.site`. See `Promise` in `schedsim.policies.backfilling`.
"""

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.ordered_lists import released_by, time_of_release
from schedsim.kernels.profile import earliest, free_for, level_at, plan_ends
from schedsim.kernels.records import Arrays, JobNow, State


@step
def guarantee(sim: Arrays, head: JobNow, shadow: int) -> None:
    """Promise the head a start, if it has no promise yet; `shadow` is its shadow time by requested times."""
    state = sim.state[0]
    rules = state.rules
    if head.guaranteed_start == at.NEVER and shadow != at.NEVER:
        waited = state.clock.now - sim.jobs[head.row].submit
        slack = rules.promise_slack + int(rules.promise_growth * waited)
        head.guaranteed_start = shadow + max(rules.least_slack, min(rules.most_slack, slack))
    state.queue.guaranteed_start = head.guaranteed_start


@step
def promise_head(sim: Arrays, head: JobNow, need: int) -> None:
    """Promise the head a start, which needs `need` processors more, and find what is spare next to it then."""
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    shadow = at.NEVER
    if head.guaranteed_start == at.NEVER:
        shadow, _ = time_of_release(lists, state, at.LIMITS, need)
    guarantee(sim, head, shadow)
    queue.extra_at_promise = released_by(lists, state, at.LIMITS, queue.guaranteed_start) - need


@rare
def promise_among_dates(sim: Arrays, head: JobNow) -> None:
    """The same, where processors are reserved or may fail."""
    state, limit = sim.state[0], head.requested_time
    queue = state.queue
    procs = head.procs + queue.free - free_for(state, head.procs)  # a ceiling lies so far below the machine
    plan_ends(sim, at.LIMITS)
    shadow = at.NEVER
    if head.guaranteed_start == at.NEVER:
        shadow = earliest(sim, procs, limit, limit)
    guarantee(sim, head, shadow)
    queue.extra_at_promise = at.NEVER
    if queue.guaranteed_start != at.NEVER:
        level = sim.profile[level_at(sim, max(queue.guaranteed_start, state.clock.now))]
        queue.extra_at_promise = level.free - procs


@step
def outlasts_promise(job: JobNow, state: State) -> bool:
    """Return whether a job that starts now may still run at the guaranteed start, by its requested time."""
    return state.rules.promises and state.clock.now + job.requested_time > state.queue.guaranteed_start


@step
def keeps_promise(job: JobNow, state: State) -> bool:
    """Return whether a job may start now without breaking the head's promise, by requested times."""
    return not outlasts_promise(job, state) or job.procs <= state.queue.extra_at_promise


@step
def use_spare_at_promise(job: JobNow, state: State) -> None:
    """Subtract what a job about to start uses of the processors spare next to the head at its guaranteed start."""
    if outlasts_promise(job, state):
        state.queue.extra_at_promise -= job.procs
