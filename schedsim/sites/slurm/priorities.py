"""The priorities of waiting jobs while a simulation goes on, and the queue in their order, compiled.

Ages and fair-share change at the ticks alone. So a pass behind a new tick computes all keys, and any other one those of
the jobs that have come since the last pass. Keys are whole numbers below 0, of jobs that are not ranked yet 0 or more.
"""

import math
from typing import Final

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints
from predictors.core.jit import lean, rare, step
from schedsim.kernels.ordered_lists import insert, list_slots, remove, slot_from
from schedsim.kernels.records import Arrays, Records
from schedsim.kernels.sorting import put_in_order, sort_slots
from schedsim.sites.slurm.records import Parts, PreemptionArrays, Ranking, SlurmArrays, UsageArrays
from schedsim.sites.slurm.usage import advance, ended, find_factors, started

TIER: Final = 1 << 33
"""Value of a tier: more than any priority."""
MOST: Final = float((1 << 32) - 1)
"""The highest priority."""
BEFORE_ALL: Final = 1 << 32
"""More than there are jobs."""


@rare
def rank(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays | None) -> None:
    """Let the queue have the order of the priorities now."""
    lists, state, ranking = sim.lists, sim.state[0], slurm.ranking[0]
    if ranking.follows:
        _take_in_events(sim, ranking, slurm.usage)
        advance(slurm.usage, state.clock.now)
    if ranking.fair_share > 0:
        find_factors(slurm.usage)
    tick = state.clock.now - state.clock.now % ranking.calc_period
    if preempt is not None:
        ranking.ranked_at = tick
        _rank_by_place(sim, slurm, preempt)
        return
    if tick != ranking.ranked_at:
        ranking.ranked_at = tick
        if ranking.age > 0 or ranking.fair_share > 0:
            _rank_all(sim, slurm)
            return
    slot = slot_from(lists, state, at.QUEUE, at.NOTHING, at.FIRST_TIE)
    while slot >= 0:
        job = sim.jobs_now[slot]
        remove(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row)
        job.keys[at.QUEUE] = _key(sim, slurm, job.row)
        insert(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row, slot, job.procs, job.candidate_estimate)
        slot = slot_from(lists, state, at.QUEUE, at.NOTHING, at.FIRST_TIE)


@step
def _rank_all(sim: Arrays, slurm: SlurmArrays) -> None:
    """Compute all keys, and sort the queue where they are in another order."""
    n = list_slots(sim, at.QUEUE, len(sim.jobs_now))
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        key = _key(sim, slurm, job.row)
        job.keys[at.QUEUE] = min(key, job.keys[at.QUEUE]) if slurm.ranking[0].only_grows else key
    put_in_order(sim, at.QUEUE, at.QUEUE, n)


@step
def _rank_by_place(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays) -> None:
    """Compute all priorities; the keys number the jobs as Slurm sorts them."""
    n, ranking = list_slots(sim, at.QUEUE, len(sim.jobs_now)), slurm.ranking[0]
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        key, parts = _key(sim, slurm, job.row), slurm.parts[job.row]
        if ranking.only_grows and job.keys[at.QUEUE] < 0:
            key = min(key, parts.key)
        parts.key = key
        job.keys[at.BACKFILL] = job.row  # the loops read no keys of this kind
    sort_slots(sim, at.BACKFILL, n)
    _sort_by_halves(sim, slurm, preempt, n)
    for i in range(n):
        sim.jobs_now[sim.scratch[i]].keys[at.QUEUE] = i - BEFORE_ALL
    put_in_order(sim, at.QUEUE, at.QUEUE, list_slots(sim, at.QUEUE, len(sim.jobs_now)))


@step
def _sort_by_halves(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, n: int) -> None:
    """Sort the slots in `scratch`, as they were submitted, as the C library does it for Slurm.

    Each half, the first of which is the smaller one, is sorted, then both are merged. What comes out depends on this:
    one job may come before another, this before a third, and the third, which may preempt it, before the first.
    """
    halves, height = preempt.halves, 1
    halves[0, 0], halves[0, 1], halves[0, 2] = 0, n, 0
    while height > 0:
        first, end, n_sorted = halves[height - 1]
        middle = first + ((end - first) >> 1)
        if n_sorted == 2 or end - first < 2:
            if n_sorted == 2:
                _merge(sim, slurm, preempt, first, middle, end)
            height -= 1
            continue
        halves[height - 1, 2] += 1
        halves[height, 0] = middle if n_sorted == 1 else first
        halves[height, 1] = end if n_sorted == 1 else middle
        halves[height, 2] = 0
        height += 1


@step
def _merge(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, first: int, middle: int, end: int) -> None:
    """Merge two sorted parts of `scratch` that lie one behind the other."""
    one, a, b, to = preempt.half, 0, middle, first
    for i in range(middle - first):
        one[i] = sim.scratch[first + i]
    while a < middle - first:
        if b == end or _comes_first(sim, slurm, preempt, one[a], sim.scratch[b]):
            sim.scratch[to] = one[a]
            a += 1
        else:
            sim.scratch[to] = sim.scratch[b]
            b += 1
        to += 1


@step
def _comes_first(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, slot: int, other: int) -> bool:
    """Return whether a job comes before another: it may preempt it, or has the higher priority, or came earlier."""
    a, b = sim.jobs_now[slot].row, sim.jobs_now[other].row
    if preempt.precedes[preempt.class_of[a], preempt.class_of[b]]:
        return True
    if preempt.precedes[preempt.class_of[b], preempt.class_of[a]]:
        return False
    one, two = slurm.parts[a], slurm.parts[b]
    if one.key != two.key:
        return bool(one.key < two.key)
    return bool(one.submitted < two.submitted or (one.submitted == two.submitted and a < b))


@step
def _take_in_events(sim: Arrays, ranking: Ranking, usage: UsageArrays) -> None:
    """Let usage know which jobs have started and ended since the last pass."""
    for i in range(ranking.n_read, sim.state[0].clock.n_logged):
        kind = sim.log[i, event.KIND]
        if kind == event.STARTED:
            started(usage, sim.log[i, event.JOB], sim.log[i, event.TIME])
        elif kind == event.ENDED or kind == event.RETURNED:
            ended(usage, sim.log[i, event.JOB], sim.log[i, event.TIME])
    ranking.n_read = sim.state[0].clock.n_logged


@step
def _key(sim: Arrays, slurm: SlurmArrays, row: int) -> int:
    """Return a waiting job's key: higher tiers first, then higher priorities."""
    ranking, parts, share = slurm.ranking[0], slurm.parts[row], 0.0
    if ranking.fair_share > 0:
        entry = slurm.usage.jobs[row].entry
        share = slurm.usage.entries[entry].factor if entry >= 0 else 0.0
    return -(_priority(ranking, parts, ranking.ranked_at, share) + TIER * parts.tier)


@step
def _priority(ranking: Ranking, parts: Parts, tick: int, share: float) -> int:
    """Return a job's priority at a tick: the sum of its parts, in the order in which Slurm adds them up."""
    priority = ranking.age * min(1.0, max(0, tick - parts.aged_from) / ranking.max_age)
    priority += parts.association
    priority += ranking.fair_share * share
    priority += parts.size
    priority += parts.partition
    priority += parts.qos
    priority += parts.tres
    priority += parts.site
    priority -= parts.nice
    return math.floor(min(max(priority, 1.0), MOST))


@lean
def write_priorities(ranking: Records[Ranking], parts: Records[Parts], tick: int, share: Floats, found: Ints) -> None:
    for i in range(len(parts)):
        found[i] = _priority(ranking[0], parts[i], tick, share[i])
