"""Keys of the queue orders, smaller first, and Cobalt's score: the engine's only formulas of orders.

Keys are int64 that sort like the real numbers they stand for. Only IEEE basic operations and square roots (both exactly
rounded) and the C library's log10 and log2 of one number are used, in the order written, so that the same formula in
plain Python gives the same last bit; NumPy's vectorised logarithms and powers may differ there, and one tie more or
less changes the schedule.

Cobalt's score grows at every tick by `gain * e**2`, e the seconds since when the job is eligible. The squares of whole
seconds sum up to a whole number, so that the closed form between two ticks equals ticking to the last bit, as long as
that number fits (e below 46 days with ticks of 15 s, below 18 with ticks of 1 s). Scores never fall, which is all that
the search for the next tick needs.
"""

import math
from typing import Final

import numpy as np

import schedsim.kernels.records as at
from predictors.core.hash_random import mixed
from predictors.core.jit import lean, rare, step
from schedsim.kernels.ordered_lists import first_key, leaf_at, node_at
from schedsim.kernels.records import Arrays, Changes, Job, JobNow, State

FCFS: Final = 0
SJF: Final = 1
LJF: Final = 2
SAF: Final = 3
LAF: Final = 4
F1: Final = 5
F2: Final = 6
F3: Final = 7
F4: Final = 8
WIDEST: Final = 9
RANDOM: Final = 10
RANKED: Final = 11  # the pass sorts the queue itself; until then a job has its row as its key
WFP3: Final = 12  # from here on keys change with time
UNICEP: Final = 13
PRIORITY: Final = 14
SCORE: Final = 15  # the score of Cobalt
USER: Final = 16
OVERDUE: Final = -(1 << 63) + (1 << 53)
"""Key of an overdue job, to which its row is added: before every priority, which is a number below 1e300."""
NEWCOMER: Final = (1 << 63) - (1 << 53)
"""Key of a job without a computed priority yet, to which its row is added: behind every priority."""
EXACT: Final = 4.5e18
"""Ticks times the square of the eligible time [s] up to which all parts of the sum are whole numbers that fit."""
SECOND_TIER: Final = 0x7FF0000000000001
"""Added to a key: behind every key of the first tier, since no score is negative."""
CLEARLY: Final = 1e-9
"""Part of a score, or of a key, that no rounding reaches."""


@lean
def sortable(x: float) -> int:
    """Return an int64 that sorts like `x` among its equals; -0.0 counts as 0.0. Not for NaN."""
    bits = np.float64(x + 0.0).view(np.int64)
    return int(bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF)


@lean
def static_key(code: int, row: int, since: int, procs: int, estimate: int, seed: int, job_id: int) -> int:
    """Return the key of a job under a static order; `since` is max(1, submit - first submit) [s]."""
    if code == SJF:
        return estimate
    if code == LJF:
        return -estimate
    if code == SAF:
        return estimate * procs
    if code == LAF:
        return -estimate * procs
    if code == F1:
        return sortable(math.log10(estimate) * procs + 870.0 * math.log10(since))
    if code == F2:
        return sortable(math.sqrt(estimate) * procs + 25600.0 * math.log10(since))
    if code == F3:
        return sortable(float(estimate) * procs + 6860000.0 * math.log10(since))
    if code == F4:
        return sortable(estimate * math.sqrt(procs) + 530000.0 * math.log10(since))
    if code == WIDEST:
        return -procs
    if code == RANDOM:
        return mixed(seed, job_id, 0)
    if code == PRIORITY:
        return NEWCOMER + row
    return row


@lean
def dynamic_key(code: int, wait: int, procs: int, requested: int) -> int:
    """Return the key now of a job under WFP3 or UNICEP; `wait` and `requested` in seconds."""
    if code == WFP3:
        ratio = wait / requested
        return sortable(-(ratio * ratio * ratio * procs))
    return sortable(-(wait / (max(1.0, math.log2(procs)) * requested)))


@step
def _slowness(code: int, job: Job) -> float:
    """Return what a job's wait is divided by, on a scale that sorts as WFP3 or UNICEP."""
    if code == WFP3:
        return job.requested_time / math.pow(job.procs, 1.0 / 3.0)
    return max(1.0, math.log2(job.procs)) * job.requested_time


@step
def stays_ahead(code: int, now: int, a: Job, b: Job) -> int:
    """Return until when job a, which comes before b now under WFP3 or UNICEP, does so for certain.

    What a job has gained is proportional to its wait, so that b passes a once at most. A margin makes the answer so
    early that no rounding of the keys reaches it.
    """
    slow_a, slow_b = _slowness(code, a), _slowness(code, b)
    if (code == UNICEP and slow_a == slow_b) or (a.procs == b.procs and a.requested_time == b.requested_time):
        return at.NEVER
    x, y = (1.0 - CLEARLY) / slow_a, 1.0 / slow_b
    ahead = x * (now - a.submit) - y * (now - b.submit)
    if ahead <= 0.0:
        return now + 1
    if y <= x or ahead >= (y - x) * float(at.FAR):
        return at.NEVER
    return now + 1 + int(ahead / (y - x))


@lean
def priority_key(job: JobNow, state: State, submit: int) -> int:
    """Return the key now of a job by its priority: overdue jobs first, in the order of their submission."""
    clock, rules = state.clock, state.rules
    if clock.now > job.due:
        return OVERDUE + job.row
    return sortable(
        -(
            math.log10(clock.now - submit + rules.head_start)
            - rules.estimate_weight * math.log10(job.order_estimate)
            + rules.procs_weight * math.log10(job.procs)
        )
    )


@lean
def squares(tick: int, since: int, begin: int, now: int) -> float:
    """Return the sum of (t - since)**2 over the ticks t, multiples of `tick`, from `begin` to `now`; begin >= since."""
    first = -(-begin // tick)
    n = now // tick - first + 1
    if n <= 0:
        return 0.0
    a = first * tick - since
    if float(n) * float(now - since) * float(now - since) <= EXACT:
        return float(n * a * a + tick * a * n * (n - 1) + tick * tick * (n * (n - 1) * (2 * n - 1) // 6))
    x, y, z = float(n), float(a), float(tick)
    return x * y * y + z * y * x * (x - 1.0) + z * z * (x * (x - 1.0) * (2.0 * x - 1.0) / 6.0)


@lean
def score_at(job: JobNow, state: State, now: int) -> float:
    """Return the score of a job in the queue, the ticks up to `now` included."""
    if job.scored_from > now:
        return job.score
    return job.score + job.score_gain * squares(state.site.tick, job.eligible_since, job.scored_from, now)


@step
def score_key(job: JobNow, state: State) -> int:
    """Return the key now of a job in the queue: highest score first, the second tier behind the first."""
    key = sortable(-score_at(job, state, state.clock.now))
    return key + SECOND_TIER if job.tier > 0 else key


@step
def _passes(b: JobNow, a: JobNow, state: State, now: int) -> bool:
    """Return whether job b comes before job a at `now`, both of one tier."""
    x, y = score_at(b, state, now), score_at(a, state, now)
    return x > y or (x == y and b.row < a.row)


@step
def _falls_back(a: JobNow, b: JobNow, begin: int, end: int) -> bool:
    """Return whether b gains no more than a at any tick from `begin` to `end` [s]."""
    x, y = math.sqrt(a.score_gain), math.sqrt(b.score_gain)
    return y * (begin - b.eligible_since) <= x * (begin - a.eligible_since) and y * (end - b.eligible_since) <= x * (
        end - a.eligible_since
    )


@step
def _first_passing(a: JobNow, b: JobNow, state: State, low: int, high: int) -> int:
    """Return the first tick after `low`, up to `high`, at which b comes before a; high + 1 if it never does.

    Within a stretch of ticks b stays behind if even its last score is below the first of a, or if it is clearly behind
    and gains less all the while; else the stretch is halved, down to single ticks.
    """
    if b.tier != a.tier:
        return high + 1
    alike = b.score_gain == a.score_gain and b.score == a.score
    if alike and a.scored_from <= b.scored_from and a.eligible_since <= b.eligible_since and a.row < b.row:
        return high + 1
    tick, span = state.site.tick, high - low
    while low < high:
        end = min(low + span, high)
        if end == low + 1:
            if _passes(b, a, state, end * tick):
                return end
            low, span = end, 2
            continue
        last, now, first = (low + 1) * tick, low * tick, score_at(a, state, (low + 1) * tick)
        most = score_at(b, state, end * tick)
        ahead = score_at(a, state, now) - score_at(b, state, now)
        if most < first or (ahead > CLEARLY * score_at(a, state, end * tick) and _falls_back(a, b, last, end * tick)):
            low, span = end, 2 * span
        else:
            span = (end - low) // 2
    return high + 1


@step
def next_tick(sim: Arrays, changes: Changes | None, time: int) -> int:
    """Return the first tick after now and before `time` at which a pass might start something, else `time`.

    Nothing frees a processor between two instants, so such a pass must find another head (or another order, where more
    than the head counts), a planned end that has passed and is corrected, or a shadow time that the last pass made old
    (jobs that it started count for the next one by another estimate). Each tick counts while estimates are corrected
    at every instant.
    """
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].site.ticking > 0 and sim.state[0].queue.n_queued > 0:
            return _next_tick(sim, time)
    return time


@rare
def _next_tick(sim: Arrays, time: int) -> int:
    lists, state = sim.lists, sim.state[0]
    queue, site = state.queue, state.site
    tick, now = site.tick, state.clock.now
    low, found = now // tick, (time - 1) // tick + 1
    if low + 1 >= found:
        return time
    asks_again = queue.n_nodes[at.OVERDUE] > 0
    if site.ticking == at.AT_EVERY_TICK or asks_again or (queue.stale and queue.head >= 0):
        return (low + 1) * tick
    for which in (at.RUNNING, at.REVISIONS):
        if queue.n_nodes[which] > 0:
            found = min(found, max(low + 1, -(-first_key(lists, state, which) // tick)))
    any_order = site.ticking == at.AT_NEW_ORDERS or site.node_set_waits
    if queue.head >= 0 or any_order:
        before = -1 if any_order else queue.head
        for i in range(queue.n_nodes[at.QUEUE]):
            node = node_at(lists, at.QUEUE, i)
            for j in range(node.count):
                leaf = leaf_at(lists, node, j)
                for k in range(leaf.count):
                    slot = leaf.slot[k]
                    if before >= 0 and slot != before:
                        found = _first_passing(sim.jobs_now[before], sim.jobs_now[slot], state, low, found - 1)
                    if any_order:
                        before = slot
    return min(found * tick, time)
