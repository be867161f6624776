"""Running jobs that a waiting one may preempt, in the order in which Slurm would stop them.

A candidate is of a class (a QOS, or a partition) that the waiting job's class may preempt, has run for its exempt time,
and on nodes lies on one that the waiting job may use. The lowest rank comes first, of equal ones the job on the fewest
nodes, then the one submitted first; or the jobs that started last. See slurmctld/preempt and preempt/qos.
"""

from typing import Final

import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.jit import rare, step
from schedsim.kernels.nodes.site import demand_of
from schedsim.kernels.ordered_lists import leaf_at, node_at
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import Arrays, JobNow
from schedsim.sites.slurm.placement import is_in
from schedsim.sites.slurm.records import NodeCycle, PreemptionArrays

MOST_NODES: Final = 0xFFFF  # Slurm counts no more of them in a job's rank


@step
def lies_on(places: NodeArrays, row: int, nodes: Ints) -> int:
    """Return on how many nodes of a set a running job lies."""
    number, n = places.first_part[row], 0
    while number >= 0:
        n += is_in(nodes, places.parts[number].node)
        number = places.parts[number].next
    return n


@step
def is_candidate(
    sim: Arrays,
    preempt: PreemptionArrays,
    places: NodeArrays | None,
    cycle: NodeCycle | None,
    job: JobNow,
    other: JobNow,
) -> bool:
    """Return whether a waiting job may preempt a running one now; note when an exempt time that hinders it ends."""
    if not preempt.preempts[preempt.class_of[job.row], preempt.class_of[other.row]]:
        return False
    if places is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if cycle is not None:  # noqa: SIM102
            if lies_on(places, other.row, cycle.sets[demand_of(places, job.row).node_set]) == 0:
                return False
    one, first = preempt.one[0], other.start + max(1, preempt.exempt[other.row])
    if first <= sim.state[0].clock.now:
        return True
    one.exempt_until = min(one.exempt_until, first)
    return False


@rare
def find_candidates(
    sim: Arrays, preempt: PreemptionArrays, places: NodeArrays | None, cycle: NodeCycle | None, job: JobNow
) -> int:
    """Write down the candidates of a waiting job in their order; return how many there are."""
    lists, state, one, n = sim.lists, sim.state[0], preempt.one[0], 0
    one.n_candidates = 0
    one.exempt_before = one.exempt_until
    if not _preempts_any(preempt, preempt.class_of[job.row]):
        return 0
    for i in range(state.queue.n_nodes[at.ENDS]):
        node = node_at(lists, at.ENDS, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                other = sim.jobs_now[leaf.slot[k]]
                if is_candidate(sim, preempt, places, cycle, job, other):
                    preempt.slots[n] = leaf.slot[k]
                    preempt.keys[n] = _key(preempt, places, other)
                    preempt.ties[n] = other.row
                    n += 1
    one.n_candidates = n
    _sort(preempt, 0, n)
    return n


@step
def forget_exempt(preempt: PreemptionArrays) -> None:
    """Forget which exempt times hindered the job tried last: it starts."""
    preempt.one[0].exempt_until = preempt.one[0].exempt_before


@step
def _preempts_any(preempt: PreemptionArrays, which: int) -> bool:
    n = 0
    for i in range(preempt.preempts.shape[1]):
        n += preempt.preempts[which, i]
    return n > 0


@step
def _key(preempt: PreemptionArrays, places: NodeArrays | None, other: JobNow) -> int:
    if preempt.one[0].youngest:
        return -other.start
    nodes, rank = int(preempt.nodes[other.row]), int(preempt.rank[other.row])
    if places is not None:
        nodes, number = 0, places.first_part[other.row]
        while number >= 0:
            nodes += 1
            number = places.parts[number].next
    return (rank << 16) + min(nodes, MOST_NODES)


@step
def _sort(preempt: PreemptionArrays, first: int, end: int) -> None:
    slots, keys, ties = preempt.slots, preempt.keys, preempt.ties
    gap = (end - first) >> 1
    while gap > 0:
        for i in range(first + gap, end):
            slot, key, tie, j = slots[i], keys[i], ties[i], i
            while j >= first + gap and (keys[j - gap] > key or (keys[j - gap] == key and ties[j - gap] > tie)):
                slots[j], keys[j], ties[j] = slots[j - gap], keys[j - gap], ties[j - gap]
                j -= gap
            slots[j], keys[j], ties[j] = slot, key, tie
        gap >>= 1


@rare
def reorder(preempt: PreemptionArrays, needed: int) -> None:
    """Let the last of the candidates needed come first, and the others before it by their keys, the greatest first.

    Their keys say how much of their processors or nodes the job would take; a strict order keeps the others.
    """
    slots, keys = preempt.slots, preempt.keys
    last = slots[needed - 1]
    for i in range(needed - 1, 0, -1):
        slots[i] = slots[i - 1]
        keys[i] = -keys[i - 1]
        preempt.ties[i] = i
    slots[0] = last
    if not preempt.one[0].strict:
        _sort(preempt, 1, needed)
