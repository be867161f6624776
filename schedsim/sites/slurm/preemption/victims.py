"""Which running jobs are stopped so that a waiting one may start now: the fewest that Slurm finds.

The candidates go one after the other until the job fits. Then they come in another order, the last one needed first,
and the search begins again, by default twice: so larger jobs that alone suffice are stopped, not many small ones
before them. On nodes only those are stopped that lie on the nodes of the place found. See select/cons_tres, `_run_now`.

What is stopped is gone at once; Slurm starts the waiting job some seconds later, when it has ended.
"""

from typing import Final

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.cobalt import hold_stopped
from schedsim.kernels.interrupt import stop_run
from schedsim.kernels.nodes.site import demand_of
from schedsim.kernels.ordered_lists import insert, remove
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.profile import book, book_dates, clears, is_free
from schedsim.kernels.records import Arrays, JobNow
from schedsim.sites.slurm.cycle import copy_now, release
from schedsim.sites.slurm.placement import choose, find_rooms, is_in, next_usable
from schedsim.sites.slurm.preemptable import forget_exempt, reorder
from schedsim.sites.slurm.records import NodeCycle, PreemptionArrays, SlurmArrays
from schedsim.sites.slurm.usage import claim

GONE: Final = 1
BACK: Final = -1


@step
def stops_are_short(sim: Arrays, preempt: PreemptionArrays | None) -> bool:
    """Return whether there might be no room to write down whom this pass stops; else let the pass begin."""
    if preempt is None:
        return False
    one = preempt.one[0]
    one.exempt_until = at.NEVER
    return one.n_stops + sim.state[0].clock.n_running > len(preempt.stops)


@step
def wake_when_exempt_no_more(sim: Arrays, preempt: PreemptionArrays | None, all_tried: bool) -> None:
    """Let a timer wait for the first second at which a waiting job may preempt a job that is exempt now.

    One that is set stays if it comes first, unless this pass has tried all jobs that the last cycle has.
    """
    if preempt is None:
        return
    one, state, first = preempt.one[0], sim.state[0], int(preempt.one[0].exempt_until)
    if state.clock.now < one.timer < at.NEVER:
        if not all_tried:
            first = min(first, one.timer)
        if first == one.timer:
            return
        remove(sim.lists, state, at.TIMERS, one.timer, one.timer_number)
    one.timer = first
    if first < at.NEVER:
        state.clock.n_timers += 1
        one.timer_number = state.clock.n_timers
        insert(sim.lists, state, at.TIMERS, first, one.timer_number, at.RECHECK, 0, 1)


@rare
def make_way(sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, slot: int, planned: int) -> bool:
    """Stop candidates so that enough processors are free for a job now; return whether they are.

    Within a cycle they are free by its plan, too, in which the stopped jobs then are not.
    """
    one, job, passes, needed = preempt.one[0], sim.jobs_now[slot], 0, 0
    while True:
        needed, freed = 0, 0
        while not _fits(sim, job, freed, planned):
            if needed == one.n_candidates:
                plan_without(sim, preempt, needed, planned, BACK)
                return False
            freed += _give_back(sim, sim.jobs_now[preempt.slots[needed]], planned, GONE)
            needed += 1
        passes += 1
        if passes > one.reorders + 1 or one.n_candidates <= passes:
            break
        plan_without(sim, preempt, needed, planned, BACK)
        for i in range(needed):
            preempt.keys[i] = sim.jobs_now[preempt.slots[i]].procs
        reorder(preempt, needed)
    for i in range(needed):
        _stop(sim, slurm, preempt, None, preempt.slots[i], job.row)
    forget_exempt(preempt)
    return True


@step
def _fits(sim: Arrays, job: JobNow, freed: int, planned: int) -> bool:
    """Return whether a job fits now, with so many processors more."""
    if job.procs > sim.state[0].queue.free + freed:
        return False
    if planned == at.YES:
        return is_free(sim, sim.state[0].clock.now, job.procs, job.candidate_estimate + 1, job.requested_time)
    return clears(sim, job)


@step
def plan_without(sim: Arrays, preempt: PreemptionArrays, n: int, planned: int, sign: int) -> None:
    """Take the first candidates out of what is planned, or (`BACK`) let them be in it again."""
    for i in range(n):
        _give_back(sim, sim.jobs_now[preempt.slots[i]], planned, sign)


@step
def _give_back(sim: Arrays, other: JobNow, planned: int, sign: int) -> int:
    """Give back the processors of a running job in what is planned; return how many."""
    now, procs = sim.state[0].clock.now, sign * other.procs
    limit = other.start + max(other.requested_time, other.current_estimate) - now
    if planned == at.YES:
        book(sim, now, -procs, other.start + other.current_estimate - now, limit)
    elif sim.state[0].rules.dated:
        book_dates(sim, now, -procs, limit)
    return procs


@rare
def make_way_on(
    sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, places: NodeArrays, cycle: NodeCycle, slot: int
) -> bool:
    """Stop candidates so that a job has a place now on its usable nodes, which is then the place found last."""
    one, job, passes, needed = preempt.one[0], sim.jobs_now[slot], 0, 0
    demand, end = demand_of(places, job.row), sim.state[0].clock.now + job.requested_time
    while True:
        copy_now(places, cycle, demand, sim.state[0].clock.now, end)
        needed, room, number = 0, 0, next_usable(cycle, 0)
        while number >= 0:
            room += cycle.rooms[number]
            number = next_usable(cycle, number + 1)
        while room < demand.pieces:
            if needed == one.n_candidates:
                return False
            more = release(places, cycle, sim.jobs_now[preempt.slots[needed]].row, demand, end)
            room += max(0, more)
            needed += 1
        choose(places, cycle, demand)
        passes += 1
        for i in range(needed):
            preempt.keys[i] = _taken_of(places, cycle, sim.jobs_now[preempt.slots[i]].row)
        if passes > one.reorders + 1 or one.n_candidates <= passes:
            break
        reorder(preempt, needed)
    for i in range(needed):
        if preempt.keys[i] > 0:
            _stop(sim, slurm, preempt, places, preempt.slots[i], job.row)
    forget_exempt(preempt)
    find_rooms(places, cycle, demand, end)
    places.one[0].n_chosen = choose(places, cycle, demand)
    return True


@step
def _taken_of(places: NodeArrays, cycle: NodeCycle, row: int) -> int:
    """Return how many nodes of a running job are in the place found last."""
    number, n = places.first_part[row], 0
    while number >= 0:
        node = places.parts[number].node
        if is_in(cycle.usable, node):
            n += cycle.taken[node] > 0
        number = places.parts[number].next
    return n


@step
def _stop(
    sim: Arrays, slurm: SlurmArrays, preempt: PreemptionArrays, places: NodeArrays | None, slot: int, by: int
) -> None:
    """Stop a running job for another one: it starts again later, or is gone."""
    one, job, now = preempt.one[0], sim.jobs_now[slot], sim.state[0].clock.now
    row, stop = job.row, preempt.stops[one.n_stops]
    stop[0], stop[1], stop[2], stop[3] = row, job.start, now, by
    one.n_stops += 1
    claim(slurm, job, now, -1)
    stop_run(sim, places, slot, not preempt.is_cancelled[row], at.YES)
    if not preempt.is_cancelled[row]:
        hold_stopped(sim, slot, now + one.delay)
        if slurm.ranking[0].ranks:
            slurm.parts[row].submitted = now
            slurm.parts[row].aged_from = now if slurm.ranking[0].ages_in_pause else now + one.delay
    slurm.pace[0].is_changed = True
