"""What an agent that is asked from outside sees at a pick: its window, a row of features a job, and the context.

The pass writes it into `observation`, and the slots of the window into `scratch`, and stops; the answer is a place in
the window. The first rows are the jobs', by `FEATURES`, zero behind the last job; then follows `CONTEXT`. All
scales are fixed and none is of the machine or the window, so that an agent can be tried on other machines. Estimates
stand for run times throughout.
"""

import math
from typing import Final

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.agents.picks import DECADE, FEATURES, list_candidates, longest_wait, see
from schedsim.kernels.ordered_lists import leaf_at, list_slots, node_at
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import Arrays, Observed, Picker

HORIZONS: Final = (600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800)
"""When the release profile tells how much of the machine will be free [s from now]."""

WIDTHS: Final = (0.01, 0.05, 0.25)
"""Shares of the machine between the classes of width."""

CONTEXT: Final = (
    "backfilling",
    "free",
    *(f"free in {seconds} s" for seconds in HORIZONS),
    "running jobs",
    "width of the job reserved",
    "time until its shadow time",
    "extra processors",
    "jobs in the queue",
    "processors asked for in the queue",
    "longest wait in the queue",
    "area of the window",
    *(f"jobs of the window up to {share:.0%} of the machine" for share in WIDTHS),
    "wider jobs of the window",
    "sine of the time of day",
    "cosine of the time of day",
    "sine of the time of the week",
    "cosine of the time of the week",
)
"""What an agent sees besides the jobs, in this order.

`backfilling` is 1 where candidates for backfills are picked from, else 0, as are then the three entries of the job
reserved. Processors, free by the estimates of the running jobs, are shares of the machine; classes of width are
shares of the window. Counts, times [s], processors asked for (in machines) and the area (in machine days) are decimal
logarithms of 1 + x. Day and week are those of UTC on the log's own clock."""

N_FEATURES: Final = len(FEATURES)
N_CONTEXT: Final = len(CONTEXT)
DAY: Final = 86_400
WEEK: Final = 604_800


@rare
def ask_for_pick(sim: Arrays, agent: Picker, site: NodeArrays | None) -> int:
    """Return the pause that asks the client, with the window in `scratch`; show it the features if it wants those.

    `asked_about` is the level: 1 for the front of the queue, 2 for the candidates for backfills.
    """
    state = sim.state[0]
    clock = state.clock
    n = list_slots(sim, at.QUEUE, state.rules.window) if clock.asked_about == 1 else list_candidates(sim, site)
    clock.picked_of = n
    if agent.one[0].kind == at.ENCODED:
        _write_observation(sim, agent, site, n, clock.asked_about == 2)
    return at.ASK_PICK


@step
def answer_place(sim: Arrays, place: int) -> None:
    """Take the place in the window that the client has picked."""
    clock = sim.state[0].clock
    clock.answer = sim.scratch[place]
    clock.picked_place = place + 1
    clock.picked_score = math.nan


@step
def decimal(number: float) -> float:
    """Return the decimal logarithm of 1 + a number."""
    return math.log(1.0 + number) / DECADE


@step
def _write_observation(sim: Arrays, agent: Picker, site: NodeArrays | None, n: int, behind_head: bool) -> None:
    """Write what is seen of the first `n` jobs in `scratch`, and the context."""
    state, out, oldest = sim.state[0], agent.observation, longest_wait(sim)
    clock, queue, rules = state.clock, state.queue, state.rules
    area, below, narrow, middle = 0.0, 0, 0, 0
    for place in range(n):
        job = sim.jobs_now[sim.scratch[place]]
        share = job.procs / rules.machine_procs
        see(sim, agent, site, sim.scratch[place], behind_head, oldest, place)
        for i in range(N_FEATURES):
            out[place * N_FEATURES + i] = agent.hidden[i]
        area += share * job.order_estimate
        below += share <= WIDTHS[0]
        narrow += share <= WIDTHS[1]
        middle += share <= WIDTHS[2]
    for i in range(n * N_FEATURES, rules.window * N_FEATURES):
        out[i] = 0.0
    i = rules.window * N_FEATURES
    out[i] = behind_head
    out[i + 1] = queue.free / rules.machine_procs
    i = _write_profile(sim, out, i + 2)
    out[i] = decimal(clock.n_running)
    out[i + 1] = out[i + 2] = out[i + 3] = 0.0
    if behind_head and queue.head >= 0:
        out[i + 1] = sim.jobs_now[queue.head].procs / rules.machine_procs
        out[i + 2] = decimal(max(0, queue.shadow_time - clock.now))
        out[i + 3] = max(0.0, min(1.0, queue.extra_procs / rules.machine_procs))
    out[i + 4] = decimal(queue.n_queued)
    out[i + 5] = decimal(_procs_queued(sim) / rules.machine_procs)
    out[i + 6] = decimal(oldest)
    out[i + 7] = decimal(area / DAY)
    out[i + 8] = below / n
    out[i + 9] = (narrow - below) / n
    out[i + 10] = (middle - narrow) / n
    out[i + 11] = (n - middle) / n
    second = clock.origin + clock.now
    day, week = second % DAY * (2 * math.pi / DAY), second % WEEK * (2 * math.pi / WEEK)
    out[i + 12] = math.sin(day)
    out[i + 13] = math.cos(day)
    out[i + 14] = math.sin(week)
    out[i + 15] = math.cos(week)


@step
def _write_profile(sim: Arrays, out: Observed, i: int) -> int:
    """Write which share of the machine is free at each horizon, if no job starts; return the place behind."""
    lists, state = sim.lists, sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    free, horizon, end = queue.free, 0, clock.now + HORIZONS[0]
    for node_place in range(queue.n_nodes[at.RUNNING]):
        node = node_at(lists, at.RUNNING, node_place)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            if leaf.key[leaf.count - 1] <= end:
                free += leaf.procs_sum
                continue
            for k in range(leaf.count):
                while leaf.key[k] > end:
                    out[i + horizon] = free / rules.machine_procs
                    horizon += 1
                    if horizon == len(HORIZONS):
                        return i + horizon
                    end = clock.now + HORIZONS[horizon]
                free += leaf.procs[k]
    while horizon < len(HORIZONS):
        out[i + horizon] = free / rules.machine_procs
        horizon += 1
    return i + horizon


@step
def _procs_queued(sim: Arrays) -> int:
    """Return how many processors the jobs in the queue ask for in sum."""
    total = 0
    for i in range(sim.state[0].queue.n_nodes[at.QUEUE]):
        total += node_at(sim.lists, at.QUEUE, i).procs_sum
    return total
