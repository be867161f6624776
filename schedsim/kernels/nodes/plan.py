"""The plan of reservations on nodes: what is free on each node from when on.

`levels` holds for each node the steps of what is free on it, from the present on, as a chain; from the last one on
everything stays as it is. Running jobs hold their own pieces until their planned ends. A reservation takes the pieces
that first fit finds (see `placement`) among those that stay free for its whole length; a node of which a part of the
job's requested time is reserved is no part of its place. With one node this is the availability profile of processors
(see `schedsim.kernels.profile`), which is kept as well: a hole in it comes before each place.
"""

import schedsim.kernels.places.records as of
import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.nodes.site import demand_of, most_parts, note_behind
from schedsim.kernels.ordered_lists import list_slots
from schedsim.kernels.places.placement import (
    change,
    copy_free,
    find_place,
    first_ahead,
    forget_place,
    keep_place,
    room_on,
)
from schedsim.kernels.places.records import Demand, NodeArrays
from schedsim.kernels.profile import hole_from, split_at
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, JobNow


@rare
def plan_is_short(sim: Arrays, places: NodeArrays) -> bool:
    """Return whether this pass might plan more pieces than there is room for."""
    queue, one = sim.state[0].queue, places.one[0]
    used, taken = max(one.n_levels, len(places.nodes) + one.n_parts), one.n_parts
    waiting = queue.n_queued * one.most_parts
    if used + 4 * waiting <= len(places.levels) and taken + waiting <= len(places.parts):
        return False
    waiting = most_parts(sim, places, at.QUEUE)
    return used + 4 * waiting > len(places.levels) or taken + waiting > len(places.parts)


@rare
def plan_places(sim: Arrays, places: NodeArrays) -> None:
    """Begin a plan with what is free now and with the running jobs; their processors are in the profile."""
    now, one = sim.state[0].clock.now, places.one[0]
    for i in range(len(places.nodes)):
        level = places.levels[i]
        copy_free(level, places.nodes[i])
        level.time = now
        level.reserved_from = at.NEVER
        level.next = -1
        places.last_level[i] = i
    one.n_levels = len(places.nodes)
    for i in range(list_slots(sim, at.RUNNING, len(sim.jobs_now))):
        job = sim.jobs_now[sim.scratch[i]]
        _plan_end(places, job.row, job.start + job.current_estimate)
    for i in range(first_ahead(places, now), len(places.windows)):
        split_at(sim, places.windows[i, 1])


@step
def _plan_end(places: NodeArrays, row: int, time: int) -> None:
    """Release what a running job has from a second on, which is not before that of the last job planned so."""
    demand, number = demand_of(places, row), places.first_part[row]
    while number >= 0:
        part = places.parts[number]
        last = places.last_level[part.node]
        if places.levels[last].time < time:
            last = _add_behind(places, last, time)
            places.last_level[part.node] = last
        change(places.levels[last], demand, part.pieces, of.RELEASE)
        number = part.next


@rare
def earliest_place(sim: Arrays, places: NodeArrays, job: JobNow) -> int:
    """Return the first second at which the plan has a place for a job, which is then the place found last; or NEVER."""
    one, procs, length = places.one[0], job.procs, job.candidate_estimate
    i = hole_from(sim, 0, procs, length)
    while i >= 0:
        time = sim.profile[i].time
        one.n_chosen = _find(places, demand_of(places, job.row), time, length, job.requested_time)
        if one.n_chosen > 0:
            return time
        if i + 1 == sim.state[0].queue.profile_size:
            return at.NEVER
        i = hole_from(sim, i + 1, procs, length)
    return at.NEVER


@step
def place_at(places: NodeArrays, job: JobNow, start: int) -> bool:
    """Return whether the plan has a place for a job that starts at a second, which is then the place found last."""
    demand, one = demand_of(places, job.row), places.one[0]
    one.n_chosen = _find(places, demand, start, job.candidate_estimate, job.requested_time)
    return one.n_chosen > 0


@step
def keeps_place(places: NodeArrays, job: JobNow, start: int) -> bool:
    """Return whether the place that a waiting job keeps is free in the plan from a second on."""
    demand, number = demand_of(places, job.row), places.first_part[job.row]
    window = first_ahead(places, start)
    while number >= 0:
        part = places.parts[number]
        if places.opens[window, places.kind_of[part.node]] < start + job.requested_time:
            return False
        if _room(places, part.node, demand, start, start + job.candidate_estimate) < part.pieces:
            return False
        number = part.next
    return True


@step
def book_place(places: NodeArrays, job: JobNow, start: int) -> None:
    """Take the place found last for a job that starts at a second."""
    demand, end = demand_of(places, job.row), start + job.candidate_estimate
    for i in range(places.one[0].n_chosen):
        _change_between(places, places.chosen[i], demand, places.chosen_pieces[i], start, end, of.TAKE)


@step
def book_kept_place(places: NodeArrays, job: JobNow, sign: int) -> None:
    """Take the place that a waiting job keeps, or give it back."""
    demand, number, start = demand_of(places, job.row), places.first_part[job.row], job.planned_start
    while number >= 0:
        part = places.parts[number]
        _change_between(places, part.node, demand, part.pieces, start, start + job.candidate_estimate, sign)
        number = part.next


@step
def keep_chosen(places: NodeArrays, job: JobNow) -> None:
    """Let a waiting job keep the place found last."""
    keep_place(places, job.row, places.one[0].n_chosen)


@step
def recall_place(places: NodeArrays, job: JobNow) -> None:
    """Make the place that a waiting job keeps the place found last."""
    places.one[0].n_chosen = forget_place(places, job.row)


@step
def note_place(reasons: Reasons, sim: Arrays, places: NodeArrays, slot: int) -> None:
    """Note what in the plan keeps a job, which holds nothing there, from starting now."""
    state, job = sim.state[0], sim.jobs_now[slot]
    now, demand = state.clock.now, demand_of(places, job.row)
    if find_place(places, demand, now + job.requested_time) == 0:
        note_behind(reasons, sim, places, slot, why.RESOURCES)
        return
    note_behind(reasons, sim, places, slot, why.RESERVATION)
    reasons[slot].known = reasons[slot].number
    for i in range(1, state.queue.profile_size):
        time = sim.profile[i].time
        if _find(places, demand, now, time + 1 - now, job.requested_time) == 0:
            reasons[slot].collides = time
            return


@step
def _find(places: NodeArrays, demand: Demand, start: int, length: int, limit: int) -> int:
    """Write the place of a job that starts at a second into `chosen`; return its number of nodes, 0 for none.

    The place stays free for `length` seconds, and by the requested time, `limit`, the job clears what is reserved.
    """
    left, n = demand.pieces, 0
    window = first_ahead(places, start)
    for i in range(demand.first_member, demand.end_member):
        number = places.members[i]
        if places.opens[window, places.kind_of[number]] < start + limit:
            continue
        pieces = min(left, _room(places, number, demand, start, start + length))
        if pieces > 0:
            places.chosen[n] = number
            places.chosen_pieces[n] = pieces
            n += 1
            left -= pieces
            if left == 0:
                return n
    return 0


@step
def _room(places: NodeArrays, number: int, demand: Demand, start: int, end: int) -> int:
    """Return for how many pieces of a job there is room on a node from a second on until another."""
    level = _level_at(places, number, start)
    pieces = demand.pieces
    while level >= 0 and pieces > 0:
        pieces = min(pieces, room_on(places.users, places.levels[level], demand, at.NOTHING))
        level = places.levels[level].next
        if level >= 0 and places.levels[level].time >= end:
            break
    return pieces


@step
def _level_at(places: NodeArrays, number: int, time: int) -> int:
    """Return the level of a node that holds at a second, which is not before the plan."""
    level = number  # the first level of each node has the node's number
    while True:
        after = places.levels[level].next
        if after < 0 or places.levels[after].time > time:
            return level
        level = after


@step
def _change_between(
    places: NodeArrays, number: int, demand: Demand, pieces: int, start: int, end: int, sign: int
) -> None:
    """Take pieces from what is free on a node between two seconds, or give them back."""
    if start == end:
        return
    level = _split_at(places, number, start)
    _split_at(places, number, end)
    while places.levels[level].time < end:
        change(places.levels[level], demand, pieces, sign)
        level = places.levels[level].next


@step
def _split_at(places: NodeArrays, number: int, time: int) -> int:
    """Let a level of a node begin at a second; return it."""
    level = _level_at(places, number, time)
    return level if places.levels[level].time == time else _add_behind(places, level, time)


@step
def _add_behind(places: NodeArrays, before: int, time: int) -> int:
    """Add a level that begins at a second, with what is free on the one before it; return it."""
    one = places.one[0]
    new, old = places.levels[one.n_levels], places.levels[before]
    copy_free(new, old)
    new.time = time
    new.reserved_from = old.reserved_from
    new.next = old.next
    old.next = one.n_levels
    one.n_levels += 1
    return one.n_levels - 1
