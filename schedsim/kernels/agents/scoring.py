"""Networks that score the jobs of a window inside the pass: one shared by all jobs, and those of DRAS.

The shared network scores one job after the other by its features, as RLScheduler's kernel does (Zhang et al., SC 2020,
doi:10.1109/SC41405.2020.00035). A network of DRAS (Fan et al., IPDPS 2021, doi:10.1109/IPDPS49936.2021.00090) sees rows
of two numbers: two rows a job ([processors, estimate], [priority, time in the queue]) and one a node ([free, time until
it is free by the estimates]). A filter makes one number of each row; two dense layers without bias and with leaky ReLU
follow, then the output with bias. DRAS-PG sees the whole window and scores it at once; DRAS-DQL sees one job and tells
its value. The weights lie one after the other: the filter's three, then each dense layer row by row, then the bias.

The filter is linear, so the first dense layer is a sum of three: what the first numbers of the rows give, the second
numbers, and the filter's bias times the columns' sums, which are kept. Rows of zeros then cost nothing.
"""

import math
from typing import Any, Final

import schedsim.kernels.records as at
from predictors.core.arrays import Singles
from predictors.core.hash_random import mixed, unit
from predictors.core.jit import lean, rare, step
from schedsim.kernels.nodes.site import fits_now
from schedsim.kernels.ordered_lists import leaf_at, node_at
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import Arrays, JobNow, Picker

LEAK: Final = 0.01  # slope of leaky ReLU below zero
TIME_SCALE: Final = 86_400.0  # seconds of an input of 1; processors are shares of the machine
FILTER: Final = 3  # weights of the filter

# purposes of draws; those of picks are above zero
EXPLORING: Final = -1
EXPLORED: Final = -2
PERMUTING: Final = -3
DRAWING: Final = 1 << 40

# columns of a pick kept for the learner
PLACE: Final = 0
OF: Final = 1
REWARD: Final = 2
VALUE: Final = 3
INSTANT: Final = 4


@step
def shared_score(agent: Picker) -> float:
    """Return what the shared network makes of the features at the front of `hidden`."""
    one, hidden, weights = agent.one[0], agent.hidden, agent.weights
    source, first, layer = 0, 0, 0
    target = one.layers[0]
    while one.layers[layer + 1] > 0:
        n, m = one.layers[layer], one.layers[layer + 1]
        for j in range(m):
            hidden[target + j] = weights[first + n * m + j]
        for i in range(n):
            value = hidden[source + i]
            for j in range(m):
                hidden[target + j] += value * weights[first + i * m + j]
        first += (n + 1) * m
        layer += 1
        if one.layers[layer + 1] > 0:
            for j in range(m):
                value = hidden[target + j]
                hidden[target + j] = math.tanh(value) if one.activation == at.TANH else max(value, 0.0)
        source, target = target, target + m
    return float(hidden[source])


@step
def take_nodes(sim: Arrays, slot: int) -> None:
    """Give a job that starts the free nodes of the lowest numbers, where a network sees nodes."""
    if len(sim.holders) > 0:
        _hold_nodes(sim, slot, sim.jobs_now[slot].procs)


@rare
def _hold_nodes(sim: Arrays, slot: int, procs: int) -> None:
    for node in range(len(sim.holders)):
        if procs == 0:
            return
        if sim.holders[node] < 0:
            sim.holders[node] = slot
            procs -= 1


@step
def free_nodes(sim: Arrays, slot: int) -> None:
    """Take its nodes from a job that ends."""
    for node in range(len(sim.holders)):
        if sim.holders[node] == slot:
            sim.holders[node] = -1


@step
def scores_of(sim: Arrays, agent: Picker, n: int) -> int:
    """Score the first `n` jobs in `scratch`; return where in `neurons` their scores begin."""
    one = agent.one[0]
    rows, first, second = one.layers[0], one.layers[1], one.layers[2]
    seen = agent.seen[one.n_choices if one.instants > 0 else 0]
    net, neurons = agent.net, agent.neurons
    shift = 0
    if one.is_permuted:
        shift = mixed(one.seed, one.n_picks, PERMUTING) % n
    scores = 4 * first + second  # behind the layers
    if not one.by_value:
        window = one.layers[3]
        for place in range(window):
            if place < n:
                _see_job(sim, agent, seen, 2 * place, sim.jobs_now[sim.scratch[(place + shift) % n]])
            else:
                seen[2 * place, 0] = seen[2 * place, 1] = seen[2 * place + 1, 0] = seen[2 * place + 1, 1] = 0
        _see_nodes(sim, agent, seen, 2 * window)
        sum_rows(net, seen, neurons, 0, rows, rows, first)
        first_layer(net, neurons, first)
        other_layers(net, neurons, rows, first, second, window)
        return scores
    scores += 1  # behind the output
    _see_nodes(sim, agent, seen, 2)
    sum_rows(net, seen, neurons, 2, rows, rows, first)
    for j in range(2 * first):  # the nodes' part, kept behind the scores
        neurons[scores + n + j] = neurons[first + j]
    for place in range(n):
        _see_job(sim, agent, seen, 0, sim.jobs_now[sim.scratch[(place + shift) % n]])
        for j in range(2 * first):
            neurons[first + j] = neurons[scores + n + j]
        add_rows(net, seen, neurons, 0, 2, rows, first)
        first_layer(net, neurons, first)
        other_layers(net, neurons, rows, first, second, 1)
        neurons[scores + place] = neurons[scores - 1]
    return scores


@step
def pick_by_scores(sim: Arrays, agent: Picker, n: int) -> int:
    """Return the place of the job picked among the first `n` in `scratch`, and note its score."""
    one, neurons = agent.one[0], agent.neurons
    scores = scores_of(sim, agent, n)
    best, greatest, value = 0, -math.inf, -math.inf
    explores = one.explore > 0 and unit(one.seed, one.n_picks, EXPLORING) < one.explore
    for place in range(n):
        score = float(neurons[scores + place])
        value = max(value, score)
        if explores or one.is_drawn:
            job_id = sim.jobs[sim.jobs_now[sim.scratch[place]].row].job_id
            chance = unit(one.seed, job_id, DRAWING + one.n_picks)
            score = chance if explores else score - math.log(-math.log(chance))  # Gumbel's: a draw by the softmax
        if score > greatest:
            best, greatest = place, score
    sim.state[0].clock.picked_score = neurons[scores + best]
    if one.instants > 0:
        choice = agent.choices[one.n_choices]
        choice[PLACE], choice[OF], choice[VALUE] = best, n, value
        if one.by_value:
            shift = mixed(one.seed, one.n_picks, PERMUTING) % n if one.is_permuted else 0
            _see_job(sim, agent, agent.seen[one.n_choices], 0, sim.jobs_now[sim.scratch[(best + shift) % n]])
    return best


@step
def keep_choice(
    sim: Arrays, agent: Picker, site: NodeArrays | None, slot: int, oldest_wait: int, behind_head: bool
) -> None:
    """Note what the job picked earns: the pick is complete."""
    one = agent.one[0]
    choice = agent.choices[one.n_choices]
    choice[REWARD] = reward_of(sim, agent, site, slot, oldest_wait, behind_head)
    choice[INSTANT] = sim.state[0].clock.n_passes
    one.n_choices += 1


@step
def reward_of(
    sim: Arrays, agent: Picker, site: NodeArrays | None, slot: int, oldest_wait: int, behind_head: bool
) -> float:
    """Return the reward of picking a job, by equation 1 or 2; a job that starts counts as running already.

    Equation 1: its wait by the longest wait in the queue, its processors and those in use by the machine's, weighted.
    Equation 2: the mean of -1 / estimate over the queue without it if it starts, estimates in hours. Short jobs: minus
    its own estimate, so that the shortest earns most.
    """
    state, job = sim.state[0], sim.jobs_now[slot]
    queue, rules, one = state.queue, state.rules, agent.one[0]
    starts = behind_head or fits_now(sim, site, slot)
    if one.pick_reward == at.EQUATION_1:
        wait = state.clock.now - sim.jobs[job.row].submit
        longest = max(oldest_wait, one.least_wait)
        total = one.procs_share * job.procs / rules.machine_procs
        if longest > 0:
            total += one.wait_share * wait / longest
        used = rules.machine_procs - queue.free
        if starts:
            used += job.procs
        return float(total + one.used_share * used / rules.machine_procs)
    if one.pick_reward == at.EQUATION_2:
        total, n = sum_of_rates(sim), queue.n_queued
        if starts:
            total -= 1.0 / job.order_estimate
            n -= 1
        return -3600.0 * total / n if n > 0 else 0.0
    return -job.order_estimate / 3600.0 if one.pick_reward == at.SHORT_JOBS else 0.0


@step
def sum_of_rates(sim: Arrays) -> float:
    """Return the sum of 1 / estimate [1/s] over the jobs in the queue."""
    lists, state = sim.lists, sim.state[0]
    total = 0.0
    for i in range(state.queue.n_nodes[at.QUEUE]):
        node = node_at(lists, at.QUEUE, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                total += 1.0 / sim.jobs_now[leaf.slot[k]].order_estimate
    return total


@step
def update_is_due(sim: Arrays, agent: Picker | None) -> bool:
    """Return whether a learner is to be asked; without a pick it is not."""
    if agent is None:
        return False
    clock, one = sim.state[0].clock, agent.one[0]
    if one.instants == 0 or clock.phase != at.AT_ADVANCE or clock.n_passes < one.next_update:
        return False
    if one.n_choices > 0:
        return True
    one.next_update = clock.n_passes + one.instants
    return False


@step
def choices_are_short(sim: Arrays, agent: Picker | None) -> bool:
    """Return whether the picks of one pass might not fit into the memory: one a waiting job, and the job reserved."""
    if agent is None:
        return False
    one = agent.one[0]
    return one.instants > 0 and one.n_choices + sim.state[0].queue.n_queued + 1 > len(agent.choices)


@step
def _see_job(sim: Arrays, agent: Picker, seen: Singles, row: int, job: JobNow) -> None:
    """Write the two rows of a job: [processors, estimate], [priority, which no log tells, time in the queue]."""
    state = sim.state[0]
    wait = state.clock.now - sim.jobs[job.row].submit
    if agent.one[0].is_raw:
        seen[row, 0], seen[row, 1], seen[row + 1, 1] = job.procs, job.order_estimate, wait
    else:
        seen[row, 0], seen[row, 1] = job.procs / state.rules.machine_procs, job.order_estimate / TIME_SCALE
        seen[row + 1, 1] = wait / TIME_SCALE
    seen[row + 1, 0] = 0


@step
def _see_nodes(sim: Arrays, agent: Picker, seen: Singles, row: int) -> None:
    """Write a row for each node: [1, 0] if it is free, else [0, time until it is free by the estimates]."""
    state, holders = sim.state[0], sim.holders
    last, left = -1, 0.0
    for node in range(len(holders)):
        slot = holders[node]
        if slot < 0:
            seen[row + node, 0], seen[row + node, 1] = 1, 0
            continue
        if slot != last:
            job = sim.jobs_now[slot]
            left = max(0, job.start + job.current_estimate - state.clock.now)
            if not agent.one[0].is_raw:
                left /= TIME_SCALE
            last = slot
        seen[row + node, 0], seen[row + node, 1] = 0, left


@step
def sum_rows(net: Singles, seen: Singles, neurons: Singles, begin: int, end: int, rows: int, first: int) -> None:
    """Write the sums over rows `begin` to `end` of their two numbers times their weights of the first dense layer."""
    for j in range(2 * first):
        neurons[first + j] = 0
    add_rows(net, seen, neurons, begin, end, rows, first)


@step
def add_rows(net: Singles, seen: Singles, neurons: Singles, begin: int, end: int, rows: int, first: int) -> None:
    """Add them to what is there."""
    weights = net[FILTER : FILTER + rows * first].reshape((rows, first))
    ones, twos = neurons[first : 2 * first], neurons[2 * first : 3 * first]
    for i in range(begin, end):
        one, two = seen[i, 0], seen[i, 1]
        row = weights[i]
        if one != 0:
            for j in range(first):
                ones[j] += one * row[j]
        if two != 0:
            for j in range(first):
                twos[j] += two * row[j]


@step
def first_layer(net: Singles, neurons: Singles, first: int) -> None:
    """Write the first dense layer from the three sums in front of it."""
    a, b, c = net[0], net[1], net[2]
    columns, ones, twos = neurons[:first], neurons[first : 2 * first], neurons[2 * first : 3 * first]
    layer = neurons[3 * first : 4 * first]
    for j in range(first):
        layer[j] = leaky(a * ones[j] + b * twos[j] + c * columns[j])


@step
def other_layers(net: Singles, neurons: Singles, rows: int, first: int, second: int, outputs: int) -> None:
    """Write the second dense layer and the outputs from the first."""
    begin = FILTER + rows * first
    source, target = neurons[3 * first : 4 * first], neurons[4 * first : 4 * first + second]
    dense(net[begin : begin + first * second].reshape((first, second)), source, target)
    for j in range(second):
        target[j] = leaky(target[j])
    begin += first * second
    out = neurons[4 * first + second : 4 * first + second + outputs]
    dense(net[begin : begin + second * outputs].reshape((second, outputs)), target, out)
    bias = net[begin + second * outputs : begin + second * outputs + outputs]
    for j in range(outputs):
        out[j] += bias[j]


@step
def leaky(value: float) -> float:
    """Return leaky ReLU."""
    return value if value > 0 else value * LEAK


@step
def dense(weights: Any, source: Any, target: Any) -> None:
    """Write a dense layer without bias."""
    n, m = weights.shape
    for j in range(m):
        target[j] = 0
    for i in range(n):
        value = source[i]
        row = weights[i]
        for j in range(m):
            target[j] += value * row[j]


@lean
def sum_columns(net: Singles, rows: int, first: int, neurons: Singles) -> None:
    """Write the sums of the columns of the first dense layer to the front of `neurons`."""
    weights = net[FILTER : FILTER + rows * first].reshape((rows, first))
    for j in range(first):
        neurons[j] = 0
    for i in range(rows):
        row = weights[i]
        for j in range(first):
            neurons[j] += row[j]
