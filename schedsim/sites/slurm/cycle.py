"""The plan of a cycle of Slurm's backfill loop where jobs take GPUs and memory of nodes.

A job that cannot start reserves *whole* nodes: `slots` holds, from when on which nodes no job planned before in this
cycle has. Running jobs hold their own pieces until their planned ends. Slurm looks for the second at which a job can
start in **end windows**: it releases the running jobs in the order of their ends, all of a window at once, and looks
for a place after each window. The first window reaches 30 to 60 seconds beyond the first end, and each is twice as long
as the one before. The job then starts at the last end of those jobs that lie on its nodes. See sched/backfill and
select/cons_tres, `_future_run_test`.
"""

from typing import Final

import schedsim.kernels.places.records as of
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.nodes.site import demand_of
from schedsim.kernels.ordered_lists import list_slots
from schedsim.kernels.places.placement import change, copy_free, date_nodes, first_ahead, next_opening, room_on
from schedsim.kernels.places.records import Demand, NodeArrays
from schedsim.kernels.records import Arrays, JobNow
from schedsim.sites.slurm.placement import choose, count_bits, find_rooms, is_in
from schedsim.sites.slurm.preemptable import is_candidate
from schedsim.sites.slurm.records import NodeCycle, Pace, PreemptionArrays

FIRST_WINDOW: Final = 30  # [s]
LONGEST_WINDOW: Final = 365 * 86_400  # [s]


@step
def open_all(cycle: NodeCycle) -> None:
    """Let the main loop begin, in which no job has closed its nodes."""
    for i in range(len(cycle.unclosed)):
        cycle.unclosed[i] = -1


@step
def close_nodes(places: NodeArrays, cycle: NodeCycle, row: int, end: int, preempts: bool) -> bool:
    """Close the partition of a blocked job to the jobs behind it, if it is to; return whether all nodes are closed."""
    demand, left = demand_of(places, row), False
    if not _is_to_close(places, cycle, demand, end, preempts):
        return False
    for i in range(len(cycle.unclosed)):
        cycle.unclosed[i] &= ~cycle.sets[demand.partition, i]
    for i in range(len(places.nodes)):
        left |= is_in(cycle.unclosed, i)
    return not left


@step
def _is_to_close(places: NodeArrays, cycle: NodeCycle, demand: Demand, end: int, preempts: bool) -> bool:
    """Return whether a blocked job waits for running jobs, and not for nodes that others have closed.

    See slurmctld, `_pick_best_nodes`: "nodes busy" closes a partition, "node not available" does not.
    """
    least, n_open, room, room_in_all, is_busy = demand.pieces if demand.spread else 1, 0, 0, 0, False
    for i in range(len(places.nodes)):
        node = places.nodes[i]
        is_open = is_in(cycle.unclosed, i) and node.n_jobs >= 0
        n_open += is_open and is_in(cycle.sets[demand.partition], i)
        if end <= node.reserved_from and is_in(cycle.sets[demand.node_set], i):
            pieces = room_on(places.users, places.empty[i], demand, end)
            room_in_all += pieces
            if is_open:
                room += pieces
                is_busy |= node.kept or (node.n_jobs > 0 and (demand.exclusive or node.one_job))
    if n_open < least or room >= demand.pieces:
        return True
    return is_busy and not preempts and room_in_all >= demand.pieces


@step
def has_unclosed_place(sim: Arrays, places: NodeArrays, cycle: NodeCycle, job: JobNow) -> bool:
    """Return whether a job has a place now on the nodes that are not closed, which is then the place found last."""
    demand, one, any_node = demand_of(places, job.row), places.one[0], 0
    for i in range(len(cycle.usable)):
        cycle.usable[i] = cycle.unclosed[i] & cycle.sets[demand.node_set, i]
        any_node |= cycle.usable[i]
    one.n_chosen = 0
    if any_node != 0 and job.procs <= sim.state[0].queue.free:
        find_rooms(places, cycle, demand, sim.state[0].clock.now + job.requested_time)
        one.n_chosen = choose(places, cycle, demand)
    return one.n_chosen > 0


@step
def begin_slots(sim: Arrays, pace: Pace, cycle: NodeCycle) -> None:
    """Begin the plan of a cycle, in which nothing is reserved."""
    one, now = cycle.one[0], sim.state[0].clock.now
    one.n_slots = 1
    one.listed_at = -1
    one.window_end = _floor(now + pace.window, pace.resolution)
    cycle.begins[0] = _floor(now, pace.resolution)
    cycle.rows[0] = 0
    for i in range(len(cycle.usable)):
        cycle.open[0, i] = -1


@step
def _floor(time: int, resolution: int) -> int:
    return time - time % resolution


@rare
def first_start(
    sim: Arrays, places: NodeArrays, pace: Pace, cycle: NodeCycle, preempt: PreemptionArrays | None, job: JobNow
) -> int:
    """Return the first second at which Slurm finds a place for a job, which is then the place found last; or NEVER.

    Jobs that it may preempt count as gone.
    """
    demand, one, length = demand_of(places, job.row), cycle.one[0], job.candidate_estimate
    now = sim.state[0].clock.now
    begin, slot, one.n_listed, one.last_joined = now, 0, at.NOTHING, -1
    while begin <= one.window_end:
        while slot + 1 < one.n_slots and cycle.begins[slot + 1] <= begin:
            slot += 1
        later = min(_next_opening_of(cycle, demand, slot), next_opening(places, begin))
        start = at.NEVER
        if _may_hold(cycle, demand, cycle.most_on_node[places.shape_of[job.row]], slot, begin, begin + length):
            start = _start_between(sim, places, cycle, preempt, job, begin, later)
        if start == at.NEVER:
            if later == at.NEVER:
                return at.NEVER
            begin = later
        elif start == now or not _collides(places, pace, cycle, job, start):
            return start if start <= now + pace.window else at.NEVER
        else:
            begin = start if start > begin else start + pace.resolution
            one.n_listed = at.NOTHING
    return at.NEVER


@step
def _slot_end(cycle: NodeCycle, slot: int) -> int:
    one = cycle.one[0]
    return int(cycle.begins[slot + 1]) if slot + 1 < one.n_slots else one.window_end


@step
def _slot_at(cycle: NodeCycle, time: int) -> int:
    """Return the last slot that begins at a time or before; the first, if none does."""
    low, high = 0, cycle.one[0].n_slots - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if cycle.begins[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return low


@step
def _next_opening_of(cycle: NodeCycle, demand: Demand, slot: int) -> int:
    """Return when the first slot from one on ends behind which another node of a job is open; or NEVER."""
    for following in range(slot + 1, cycle.one[0].n_slots):
        before, row = cycle.rows[following - 1], cycle.rows[following]
        for i in range(len(cycle.usable)):
            if cycle.sets[demand.node_set, i] & cycle.open[row, i] & ~cycle.open[before, i] != 0:
                return int(cycle.begins[following])
    return at.NEVER


@step
def _may_hold(cycle: NodeCycle, demand: Demand, most_on_node: int, slot: int, begin: int, end: int) -> bool:
    """Find the nodes of a job that no job has reserved between two seconds, both included; return whether they suffice.

    They do not if they could not hold the job even without other jobs. The first second lies in `slot`, or behind all.
    """
    nodes, is_behind_all = 0, _slot_end(cycle, slot) <= begin
    if not is_behind_all:
        _join(cycle, slot, end)
    for i in range(len(cycle.usable)):
        cycle.usable[i] = cycle.sets[demand.node_set, i]
        if not is_behind_all:
            cycle.usable[i] &= cycle.joined[slot, i] & cycle.beyond[i]
        nodes += count_bits(cycle.usable[i])
    return nodes * most_on_node >= demand.pieces


@step
def _join(cycle: NodeCycle, slot: int, end: int) -> None:
    """Find the nodes that are open in all slots from one on to a second.

    Both only grow while the start of a job is searched: `joined` keeps the nodes open from each slot to `last_joined`,
    `beyond` those open from there to `last_beyond`.
    """
    one, last = cycle.one[0], slot
    if slot <= one.last_joined:
        last = one.last_beyond
    while last + 1 < one.n_slots and cycle.begins[last + 1] <= end:
        last += 1
        if slot <= one.last_joined:
            for i in range(len(cycle.usable)):
                cycle.beyond[i] &= cycle.open[cycle.rows[last], i]
    one.last_beyond = last
    if slot <= one.last_joined:
        return
    one.last_joined = last
    for i in range(len(cycle.usable)):
        cycle.beyond[i] = all_open = -1
        for joined in range(last, slot - 1, -1):
            all_open &= cycle.open[cycle.rows[joined], i]
            cycle.joined[joined, i] = all_open


@step
def _start_between(
    sim: Arrays,
    places: NodeArrays,
    cycle: NodeCycle,
    preempt: PreemptionArrays | None,
    job: JobNow,
    begin: int,
    later: int,
) -> int:
    """Return when a job finds a place on its usable nodes, from a second on and not after another; or NEVER.

    Then `later` of the nodes holds what is free once all running jobs have ended that are planned to end by then.
    """
    one, listed, demand = places.one[0], cycle.one[0], demand_of(places, job.row)
    end = begin + job.requested_time
    if listed.n_listed == 0 or len(places.windows) > 0:
        copy_now(places, cycle, demand, begin, end)
        listed.n_listed = _list_running(sim, places, cycle, preempt, job, end)
        listed.n_released = 0
    ends, n, i, room = cycle.ends, listed.n_listed, listed.n_released, _room_on_usable(cycle)
    while i < n and ends[i] <= begin:
        room += max(0, _release_listed(places, cycle, i, demand, end))
        i += 1
    first, bound, window, start = i, at.NEVER, FIRST_WINDOW, at.NEVER
    if room >= demand.pieces:
        one.n_chosen = choose(places, cycle, demand)
        start = begin
    while start == at.NEVER and i < n and ends[i] <= later:
        last = -1
        while i < n and ends[i] <= later:
            time = ends[i]
            more = _release_listed(places, cycle, i, demand, end)
            i += 1
            if more >= 0:
                room += more
                last = i - 1
                if bound == at.NEVER:
                    bound = time + FIRST_WINDOW - time % FIRST_WINDOW
                if i < n and ends[i] > bound + window:
                    break
        if last >= 0 and room >= demand.pieces:
            one.n_chosen = choose(places, cycle, demand)
            start = _last_end_on(cycle, first, last)
        window *= 2
        while i < n and window <= LONGEST_WINDOW and ends[i] > bound + window:
            window *= 2
    listed.n_released = i
    listed.room = room
    return start


@step
def _list_running(
    sim: Arrays, places: NodeArrays, cycle: NodeCycle, preempt: PreemptionArrays | None, job: JobNow, end: int
) -> int:
    """List running jobs that have nodes, by planned ends, unless none has started or stopped since; return how many.

    Of those that the job may preempt what they have is released instead.
    """
    one, moment = cycle.one[0], places.one[0].n_occupied + places.one[0].n_released
    if one.listed_at == moment and preempt is None:
        return one.n_running
    one.n_running, cycle.first_held[0], n = 0, 0, 0
    for i in range(list_slots(sim, at.RUNNING, len(sim.jobs_now))):
        other = sim.jobs_now[sim.scratch[i]]
        if preempt is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if preempt.one[0].n_candidates > 0 and is_candidate(sim, preempt, places, cycle, job, other):
                release(places, cycle, other.row, demand_of(places, job.row), end)
                continue
        number = places.first_part[other.row]
        if number < 0:
            continue
        cycle.ends[one.n_running] = other.start + other.current_estimate
        one.n_running += 1
        while number >= 0:
            part, held = places.parts[number], cycle.held[n]
            held.node = part.node
            held.shape = places.shape_of[other.row]
            held.pieces = part.pieces
            n += 1
            number = part.next
        cycle.first_held[one.n_running] = n
    one.listed_at = moment
    return one.n_running


@step
def copy_now(places: NodeArrays, cycle: NodeCycle, demand: Demand, begin: int, end: int) -> None:
    """Write what is free on the nodes now into `later`, and what is reserved of them, seen from a second."""
    nodes = places.later
    for i in range(len(nodes)):
        copy_free(nodes[i], places.nodes[i])
        nodes[i].reserved_from = at.NEVER
        places.later_as_of[i] = places.one[0].n_reserved  # a start does not change what is planned
    if len(places.windows) > 0:
        date_nodes(places, nodes, begin)
    for i in range(len(nodes)):
        cycle.rooms[i] = room_on(places.users, nodes[i], demand, end)
    cycle.counted[:] = 0
    cycle.one[0].room = 0


@step
def _room_on_usable(cycle: NodeCycle) -> int:
    """Return the room on the usable nodes: that on the nodes counted last, without those that are not usable now."""
    room = cycle.one[0].room
    for i in range(len(cycle.usable)):
        differs = cycle.usable[i] ^ cycle.counted[i]
        while differs != 0:
            bit = differs & -differs
            more = cycle.rooms[(i << 6) + count_bits(bit - 1)]
            room += more if cycle.usable[i] & bit else -more
            differs ^= bit
        cycle.counted[i] = cycle.usable[i]
    return room


@step
def release(places: NodeArrays, cycle: NodeCycle, row: int, demand: Demand, end: int) -> int:
    """Release what a running job has; return by how much the room on usable nodes grows, or -1: it has none there."""
    number, more = places.first_part[row], -1
    while number >= 0:
        part = places.parts[number]
        more = _release_part(places, cycle, part.node, places.shape_of[row], part.pieces, demand, end, more)
        number = part.next
    return more


@step
def _release_listed(places: NodeArrays, cycle: NodeCycle, i: int, demand: Demand, end: int) -> int:
    """Release what the i-th running job listed has; return by how much the room grows, as `release` does."""
    more = -1
    for k in range(cycle.first_held[i], cycle.first_held[i + 1]):
        held = cycle.held[k]
        more = _release_part(places, cycle, held.node, held.shape, held.pieces, demand, end, more)
    return more


@step
def _release_part(
    places: NodeArrays, cycle: NodeCycle, number: int, shape: int, pieces: int, demand: Demand, end: int, more: int
) -> int:
    """Release pieces of a shape on a node in `later`; return `more` and what the room there grows, if it is usable."""
    change(places.later[number], places.demands[shape], pieces, of.RELEASE)
    before = cycle.rooms[number]
    cycle.rooms[number] = room_on(places.users, places.later[number], demand, end)
    return int(max(0, more) + cycle.rooms[number] - before if is_in(cycle.usable, number) else more)


@step
def _last_end_on(cycle: NodeCycle, first: int, last: int) -> int:
    """Return the last planned end of those jobs released that lie on the nodes of the place found last."""
    for i in range(last, first - 1, -1):
        for k in range(cycle.first_held[i], cycle.first_held[i + 1]):
            number = cycle.held[k].node
            if is_in(cycle.usable, number) and cycle.taken[number] > 0:
                return int(cycle.ends[i])
    return int(cycle.ends[last])


@step
def _whole_slots(pace: Pace, job: JobNow, start: int) -> tuple[int, int]:
    """Return from when until when a job takes nodes that starts at a second, in whole slots."""
    end = start + job.candidate_estimate + pace.resolution - 1
    return _floor(start, pace.resolution), _floor(end, pace.resolution)


@step
def _collides(places: NodeArrays, pace: Pace, cycle: NodeCycle, job: JobNow, start: int) -> bool:
    """Return whether some node of the place found last is reserved while the job runs, in whole slots."""
    begin, end = _whole_slots(pace, job, start)
    slot, n, window = _slot_at(cycle, begin), places.one[0].n_chosen, first_ahead(places, start)
    for i in range(n):
        if places.opens[window, places.kind_of[places.chosen[i]]] < start + job.requested_time:
            return True
    if _slot_end(cycle, slot) <= begin:
        return False
    while slot < cycle.one[0].n_slots and cycle.begins[slot] < end:
        for i in range(n):
            if not is_in(cycle.open[cycle.rows[slot]], places.chosen[i]):
                return True
        slot += 1
    return False


@rare
def slot_in_the_way(sim: Arrays, places: NodeArrays, cycle: NodeCycle, job: JobNow) -> int:
    """Return when the first slot begins with nodes reserved that a job would need to start now, or NEVER."""
    now, demand = sim.state[0].clock.now, demand_of(places, job.row)
    for i in range(len(cycle.usable)):
        cycle.usable[i] = cycle.sets[demand.node_set, i]
    for slot in range(cycle.one[0].n_slots):
        if cycle.begins[slot] > now + job.candidate_estimate:
            break
        for i in range(len(cycle.usable)):
            cycle.usable[i] &= cycle.open[cycle.rows[slot], i]
        find_rooms(places, cycle, demand, now + job.requested_time)
        if choose(places, cycle, demand) == 0:
            return max(now, int(cycle.begins[slot]))
    return at.NEVER


@step
def reserve_nodes(places: NodeArrays, pace: Pace, cycle: NodeCycle, job: JobNow, start: int) -> int:
    """Reserve the nodes of the place found last from a second on, in whole slots; return where they begin."""
    begin, end = _whole_slots(pace, job, start)
    if begin >= cycle.one[0].window_end:
        return begin
    slot = _split_at(cycle, begin)
    _split_at(cycle, end)
    while slot < cycle.one[0].n_slots and cycle.begins[slot] < end:
        for i in range(places.one[0].n_chosen):
            number = places.chosen[i]
            cycle.open[cycle.rows[slot], number >> 6] &= ~(1 << (number & 63))
        slot += 1
    return begin


@step
def _split_at(cycle: NodeCycle, time: int) -> int:
    """Let a slot begin at a second, if the window reaches so far; return it."""
    slot, one = _slot_at(cycle, time), cycle.one[0]
    if cycle.begins[slot] == time or time >= one.window_end:
        return slot
    for i in range(one.n_slots, slot + 1, -1):
        cycle.begins[i] = cycle.begins[i - 1]
        cycle.rows[i] = cycle.rows[i - 1]
    cycle.begins[slot + 1] = time
    cycle.rows[slot + 1] = one.n_slots
    for i in range(len(cycle.usable)):
        cycle.open[one.n_slots, i] = cycle.open[cycle.rows[slot], i]
    one.n_slots += 1
    return slot + 1
