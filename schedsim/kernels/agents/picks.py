"""An agent that scores jobs inside the pass: which job of its window it picks, and the features that it looks at.

A linear agent scores a job by the weighted sum of its features, a shared network by whatever it makes of them; the job
with the greatest score is picked, of equal ones the first in the queue. A random agent draws the score. The features
have fixed scales, so that weights found on one machine can be tried on another; none of them tells a user, a job's
number or the date. A network of DRAS looks at the window and the nodes instead, see `networks`.
"""

import math
from typing import Final

import schedsim.kernels.records as at
from predictors.core.hash_random import unit
from predictors.core.jit import rare, step
from schedsim.kernels.agents.scoring import keep_choice, pick_by_scores, shared_score
from schedsim.kernels.nodes.site import could_start_behind_head, has_room
from schedsim.kernels.ordered_lists import first_slot, leaf_at, list_slots, next_fitting, node_at
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.profile import free_for
from schedsim.kernels.queue import candidate_key
from schedsim.kernels.records import Arrays, Picker

FEATURES: Final = (
    "wait",
    "estimate",
    "procs",
    "share of the machine",
    "share of the free processors",
    "fits now",
    "ends by the shadow time",
    "needs extra processors only",
    "wait per estimate",
    "wait per oldest wait",
    "wait of a wide job",
    "place in the window",
)
"""What a job is scored by, in this order: wait, estimate, processors and 1 + wait / estimate as decimal logarithms, the
wait of a wide job as its share of the machine times the first of these, the others from 0 to 1.

Each then moves by about 1 between jobs, so that weights of about 1 are a fair start for whoever tunes them."""

DECADE: Final = math.log(10.0)  # scale of the logarithms
PICKING: Final = 71  # purpose of a random agent's draws


@rare
def pick_next(sim: Arrays, agent: Picker, site: NodeArrays | None) -> int:
    """Return the job that the agent picks from the front of the queue, which is not empty."""
    return _best_of(sim, agent, site, list_slots(sim, at.QUEUE, sim.state[0].rules.window), False)


@rare
def pick_backfill(sim: Arrays, agent: Picker, site: NodeArrays | None) -> int:
    """Return the job that the agent picks of those that may be backfilled; there is one at least."""
    return _best_of(sim, agent, site, list_candidates(sim, site), True)


@step
def list_candidates(sim: Arrays, site: NodeArrays | None) -> int:
    """Write a window of the jobs that may be backfilled to `scratch`, and return how many they are."""
    state = sim.state[0]
    queue = state.queue
    free, time_left = free_for(state, queue.free), queue.shadow_time - state.clock.now
    key, tie, n = at.FIRST_KEY, at.FIRST_TIE, 0
    while n < state.rules.window:
        slot = next_fitting(sim.lists, state, queue.candidates, key, tie, free, time_left, queue.extra_procs)
        if slot < 0:
            break
        job = sim.jobs_now[slot]
        key, tie = candidate_key(job, state), job.row + 1
        if could_start_behind_head(sim, site, slot):
            sim.scratch[n] = slot
            n += 1
    return n


@step
def _best_of(sim: Arrays, agent: Picker, site: NodeArrays | None, n: int, behind_head: bool) -> int:
    """Return the job with the greatest score of the first `n` in `scratch`, and note the choice."""
    clock, one, oldest = sim.state[0].clock, agent.one[0], longest_wait(sim)
    best, greatest = 0, -math.inf
    one.n_picks += 1
    if one.kind == at.DRAS:
        best = pick_by_scores(sim, agent, n)
        if one.instants > 0:
            keep_choice(sim, agent, site, sim.scratch[best], oldest, behind_head)
    else:
        for place in range(n):
            value = score(sim, agent, site, sim.scratch[place], behind_head, oldest, place)
            if value > greatest:
                best, greatest = place, value
        clock.picked_score = greatest
    clock.picked = sim.scratch[best]
    clock.picked_place = best + 1
    clock.picked_of = n
    return clock.picked


@step
def longest_wait(sim: Arrays) -> int:
    """Return the longest wait in the queue, which is not empty [s]."""
    lists, state = sim.lists, sim.state[0]
    clock = state.clock
    first = sim.jobs[sim.jobs_now[first_slot(lists, state, at.QUEUE)].row].submit
    if state.rules.order == at.FIRST_COME:
        return clock.now - first
    for i in range(state.queue.n_nodes[at.QUEUE]):
        node = node_at(lists, at.QUEUE, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                first = min(first, sim.jobs[sim.jobs_now[leaf.slot[k]].row].submit)
    return clock.now - first


@step
def is_asked(agent: Picker) -> bool:
    """Return whether a client picks: the pass stops for each pick."""
    kind = agent.one[0].kind
    return kind == at.ASKED or kind == at.ENCODED


@step
def take_answer(sim: Arrays, agent: Picker) -> int:
    """Return the job that a client has picked, or -1; it has noted the place in the window itself."""
    clock = sim.state[0].clock
    clock.picked = clock.answer
    clock.answer = at.NOT_ANSWERED
    agent.one[0].n_picks += 1
    return clock.picked


@step
def score(
    sim: Arrays, agent: Picker, site: NodeArrays | None, slot: int, behind_head: bool, oldest_wait: int, place: int
) -> float:
    """Return the score of a job, which stands at a place of its window; `behind_head`: it is to be backfilled."""
    one, weights = agent.one[0], agent.weights
    if one.kind == at.RANDOM_PICK:
        return unit(one.seed, sim.jobs[sim.jobs_now[slot].row].job_id, PICKING + one.n_picks)
    see(sim, agent, site, slot, behind_head, oldest_wait, place)
    if one.kind == at.SHARED:
        return shared_score(agent)
    total = 0.0
    for i in range(len(weights)):
        total += weights[i] * agent.hidden[i]
    return float(total)


@step
def see(
    sim: Arrays, agent: Picker, site: NodeArrays | None, slot: int, behind_head: bool, oldest_wait: int, place: int
) -> None:
    """Write the features of a job, see `FEATURES`, to the front of `hidden`."""
    state, features, job = sim.state[0], agent.hidden, sim.jobs_now[slot]
    clock, queue, rules = state.clock, state.queue, state.rules
    wait = clock.now - sim.jobs[job.row].submit
    waited, length = math.log(1.0 + wait), math.log(job.order_estimate)  # log1p is three times as slow
    share = job.procs / rules.machine_procs
    features[0] = waited / DECADE
    features[1] = length / DECADE
    features[2] = math.log(job.procs) / DECADE
    features[3] = share
    features[4] = min(1.0, job.procs / max(1, queue.free))
    features[5] = 1.0 if has_room(sim, site, slot) else 0.0
    features[6] = 1.0 if behind_head and clock.now + job.candidate_estimate <= queue.shadow_time else 0.0
    features[7] = 1.0 if behind_head and job.procs <= queue.extra_procs else 0.0
    features[8] = (math.log(wait + job.order_estimate) - length) / DECADE
    features[9] = wait / oldest_wait if oldest_wait > 0 else 0.0
    features[10] = share * waited / DECADE
    features[11] = place / rules.window
