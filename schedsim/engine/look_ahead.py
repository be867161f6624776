"""Look-ahead without learning: at each pass the queue is drained under several orders, and the best one ranks.

A copy of the state is run until every job that waits has started, once under each order, as if all jobs took exactly
as long as is estimated and none came any more. Of the orders the one with the least cost ranks the queue in this pass;
at the next instant all are tried again. Nothing that is not known yet is read: neither run times nor later submissions.
Choosing among rules by simulating them is known as self-tuning (Streit) or portfolio scheduling (Deng et al.).

.. [1] Streit. A self-tuning job scheduler family with dynamic policy switching. JSSPP 2002.
   doi:10.1007/3-540-36180-4_1
.. [2] Deng, Song, Ren, Iosup. Exploring portfolio scheduling for long-term execution of scientific workloads in IaaS
   clouds. SC 2013. doi:10.1145/2503210.2503244
"""

import math
from typing import Final

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.jit import lean, step
from schedsim.engine.placing import Placing
from schedsim.engine.state import EventLog, State
from schedsim.kernels import renew_ends
from schedsim.kernels.keys import WFP3, dynamic_key
from schedsim.kernels.ordered_lists import list_slots
from schedsim.kernels.passes import easy
from schedsim.kernels.queue import refresh, static_key_of
from schedsim.kernels.records import Arrays, Estimates
from schedsim.kernels.sorting import put_in_order
from schedsim.policies.orders import AIMS, ORDERS, LookAhead
from schedsim.results.metrics import BOUND

WAIT: Final = AIMS.index("wait")
SLOWDOWN: Final = AIMS.index("slowdown")
WAIT_SLOWDOWN: Final = AIMS.index("wait-slowdown")


def rank_by_look_ahead(state: State, estimates: Estimates, placing: Placing | None, look_ahead: LookAhead) -> bool:
    """Write into the waiting jobs' keys the order that looks best; return whether several had to be tried.

    Where one job waits, or none that fits, all orders start the same, and the first one ranks.
    """
    codes = [ORDERS[name].code for name in look_ahead.orders]
    tries = len(codes) > 1 and orders_may_differ(state.arrays())
    best = codes[0]
    if tries:
        aim, least = AIMS.index(look_ahead.aim), math.inf
        for code in codes:
            cost = _cost(state, estimates, placing, code, aim)
            if cost < least:
                best, least = code, cost
    write_keys(state.arrays(), best)
    return tries


def _cost(state: State, estimates: Estimates, placing: Placing | None, code: int, aim: int) -> float:
    branch = state.copy()
    arrays = branch.arrays(EventLog.with_room(6 * (len(branch.jobs_now) + 1)))
    suppose_estimates(arrays, code)
    nodes = None if placing is None else placing.fork()
    while (stop := easy.run(arrays, estimates, None, None if nodes is None else nodes.arrays, None)) == at.GROW_SPOTS:
        assert nodes is not None
        nodes = nodes.with_room_for_starts()
    assert stop == at.FINISHED, f"a copy without submissions, gates or timers paused: {stop}"
    return cost_of_starts(arrays, aim)


@lean
def orders_may_differ(sim: Arrays) -> bool:
    """Return whether a job that waits fits now, and another one waits."""
    queue = sim.state[0].queue
    if queue.n_queued < 2:
        return False
    n, least = list_slots(sim, at.QUEUE, len(sim.jobs_now)), queue.free + 1
    for i in range(n):
        least = min(least, sim.jobs_now[sim.scratch[i]].procs)
    return bool(least <= queue.free)


@lean
def write_keys(sim: Arrays, order: int) -> None:
    """Give the jobs in the queue their keys under an order; the pass then sorts them."""
    _write_keys(sim, order)


@step
def _write_keys(sim: Arrays, order: int) -> int:
    """Do so; return how many they are, whose slots stand in `scratch`."""
    state = sim.state[0]
    rules = state.rules
    own = rules.order
    rules.order = order
    n = list_slots(sim, at.QUEUE, len(sim.jobs_now))
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        if order >= WFP3:
            wait = state.clock.now - sim.jobs[job.row].submit
            job.keys[at.QUEUE] = dynamic_key(order, wait, job.procs, job.requested_time)
        else:
            job.keys[at.QUEUE] = static_key_of(sim, job, at.QUEUE)
    rules.order = own
    return n


@lean
def suppose_estimates(sim: Arrays, order: int) -> None:
    """Let all jobs of a copy take as long as is estimated now, also those that run, and no more come; rank them."""
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    n = list_slots(sim, at.ENDS, len(sim.jobs_now))
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        job.run_time = job.current_estimate
        job.end = job.start + job.current_estimate
    renew_ends(sim)
    n = list_slots(sim, at.QUEUE, len(sim.jobs_now))
    for i in range(n):
        refresh(sim, sim.changes, sim.scratch[i])
    n = _write_keys(sim, order)
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        job.run_time = job.current_estimate
    put_in_order(sim, at.QUEUE, at.QUEUE, n)
    rules.order = rules.backfill_order = order
    clock.end_of_submissions = clock.next_submission
    rules.in_loop = queue.revises = False
    queue.poll_every = 0
    clock.until = at.NEVER - 1
    clock.n_logged = 0
    queue.stale = True
    clock.phase = at.AT_ORDER


@lean
def cost_of_starts(sim: Arrays, aim: int) -> float:
    total = 0.0
    for i in range(sim.state[0].clock.n_logged):
        if sim.log[i, 1] == event.STARTED:
            length = sim.start_notes[i] // 4
            wait = sim.log[i, 0] - sim.jobs[sim.log[i, 2]].submit
            total += _cost_of(aim, wait, length)
    return total


@step
def _cost_of(aim: int, wait: int, length: int) -> float:
    """Return what the wait of a job costs that is estimated to take so long."""
    if aim == WAIT:
        return float(wait)
    if aim == SLOWDOWN:
        return max(1.0, (wait + length) / max(length, BOUND))
    squared = float(wait) * float(wait)
    return squared / max(length, BOUND) if aim == WAIT_SLOWDOWN else squared
