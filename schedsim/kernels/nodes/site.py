"""What jobs take of a machine where nodes differ: the places of EASY (see `schedsim.kernels.passes.easy`).

Jobs start in the queue's order until one has no place now: the head. Its **shadow time** is the first planned end of a
running job at which it has a place, all jobs gone that are planned to end by then; so it counts every resource at
once, and on which nodes it becomes free. There are no extra processors: a job behind the head starts if it has a place
now and either ends by the shadow time, or leaves the head a place then, next to all that is planned to run then.
With one node, or with nodes of one processor and nothing else, this is EASY on counts.

A place is found by first fit (see `placement`) and not changed for the head's sake: a job whose place now is in the
head's way does not look for another one.

Under a **promise** the head's first shadow time by requested times, and some slack, is kept as well: a job behind the
head must also end by the promise by its requested time, or leave the head a place then, next to all that may run then.

**Reservations** of nodes for maintenance are known from the beginning: a job is placed on a node only if by its
requested time it ends before the node is reserved. The shadow time is the first planned end of a job, or end of a
reservation, at which the head has such a place; at the promise likewise, by requested times.

The pass gives these steps the nodes, or None: then numbers of processors are all that counts.

An agent picks among the jobs that may start behind the head: each is tried alone, and what it takes next to the head is
given back before the next one is tried.

A node that **fails** is taken whole by its repair, which has no known end (see `engine.placing`): until then it
is part of no place, now or later.

Several reservations of jobs are planned in `plan`.
"""

from typing import Final

import schedsim.kernels.places.records as of
import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.ordered_lists import first_slot, list_slots, released_by
from schedsim.kernels.places.placement import (
    change,
    date_nodes,
    find_place,
    lacking,
    next_opening,
    note_in_vain,
    occupy,
    planned_node,
    reserved_procs,
    room_on,
    stays_in_vain,
    vacate,
)
from schedsim.kernels.places.records import Demand, NodeArrays
from schedsim.kernels.profile import clears, free_for
from schedsim.kernels.promise import guarantee, keeps_promise, outlasts_promise, use_spare_at_promise
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, JobNow, State

_IN_NO_WINDOW: Final = -at.NEVER
"""The end of a job that no reservation of nodes hinders."""
_FEW: Final = 64
"""So many running jobs are listed at first: the head mostly has a place once a few have ended."""


@step
def newcomer_counts(sim: Arrays, places: NodeArrays | None) -> bool:
    """Return whether just the one job that was submitted now can start, since the last pass could start no other.

    Since that pass began to search nodes were neither taken nor released, no estimate of a running job was corrected
    and the head is the same: the jobs that waited then find the same places, and have less time left until the
    shadow time.
    """
    if places is None:
        return False
    state, one = sim.state[0], places.one[0]
    clock, queue = state.clock, state.queue
    if clock.causes != at.BY_SUBMISSION or queue.stale or queue.head < 0 or clock.n_newcomers != 1:
        return False
    if len(places.windows) > 0 or state.rules.gated:  # as they come nearer, jobs find other places
        return False
    if queue.n_postponed > 0:  # the newcomer may be one of them
        return False
    if one.head_at_scan != sim.jobs_now[queue.head].row or first_slot(sim.lists, state, at.QUEUE) != queue.head:
        return False
    return one.released_at_scan == one.n_released and one.occupied_at_scan == one.n_occupied


@step
def demand_of(places: NodeArrays, row: int) -> Demand:
    """Return what a job asks for."""
    demand: Demand = places.demands[places.shape_of[row]]
    return demand


@step
def fits_now(sim: Arrays, places: NodeArrays | None, slot: int) -> bool:
    """Return whether a job may start now, below the ceiling; on nodes in the place found last."""
    job = sim.jobs_now[slot]
    if places is None:
        return job.procs <= free_for(sim.state[0], job.procs) and clears(sim, job)
    return _is_below(sim, places, job) and has_place(sim, places, slot)


@step
def _is_below(sim: Arrays, places: NodeArrays, job: JobNow) -> bool:
    """Return whether a job that starts now stays below the ceiling."""
    state = sim.state[0]
    return job.procs <= _room_below(sim, places, job.procs, state.queue.free, state.clock.now)


@step
def has_place(sim: Arrays, places: NodeArrays | None, slot: int) -> bool:
    """Return whether a job could start now but for the ceiling; on nodes in the place found last."""
    job = sim.jobs_now[slot]
    if places is None:
        return job.procs <= sim.state[0].queue.free and clears(sim, job)
    one = places.one[0]
    one.n_chosen = 0
    if stays_in_vain(places, job.row):
        return False
    one.n_chosen = find_place(places, demand_of(places, job.row), sim.state[0].clock.now + job.requested_time)
    if one.n_chosen == 0:
        note_in_vain(places, job.row)
    return one.n_chosen > 0


@step
def has_room(sim: Arrays, places: NodeArrays | None, slot: int) -> bool:
    """Return whether there is room for a job now, whatever is reserved later."""
    job = sim.jobs_now[slot]
    if places is None:
        return bool(job.procs <= sim.state[0].queue.free)
    return find_place(places, demand_of(places, job.row), _IN_NO_WINDOW) > 0


@step
def take(sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Give a job that starts the place found last."""
    if places is not None:
        row = sim.jobs_now[slot].row
        occupy(places, row, demand_of(places, row), places.one[0].n_chosen)


@step
def write_spots(sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Write down where a job starts: in the place found last."""
    if places is None:
        return
    one, spots = places.one[0], places.spots
    for i in range(one.n_chosen):
        spots[one.n_spots, 0] = sim.jobs_now[slot].row
        spots[one.n_spots, 1] = places.chosen[i]
        spots[one.n_spots, 2] = places.chosen_pieces[i]
        one.n_spots += 1


@step
def spots_are_short(sim: Arrays, places: NodeArrays | None) -> bool:
    """Return whether there might be no room to write down where the jobs of this pass start."""
    if places is None:
        return False
    most, queue, one = len(places.spots), sim.state[0].queue, places.one[0]
    if one.n_spots + (queue.n_queued + queue.n_postponed) * one.most_parts <= most:
        return False
    return one.n_spots + most_parts(sim, places, at.QUEUE) + most_parts(sim, places, at.POSTPONED) > most


@rare
def most_parts(sim: Arrays, places: NodeArrays, which: int) -> int:
    """Return on how many nodes the jobs of a list may lie in all."""
    n = 0
    for i in range(list_slots(sim, which, len(sim.jobs_now))):
        demand = demand_of(places, sim.jobs_now[sim.scratch[i]].row)
        n += min(demand.pieces, demand.end_member - demand.first_member)
    return n


@step
def give(sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Take its nodes back from a job that ends."""
    if places is not None:
        vacate(places, sim.jobs_now[slot].row)


@step
def date(sim: Arrays, places: NodeArrays | None) -> None:
    """Find from when on the nodes are reserved, if that has changed since the last pass."""
    if places is None:
        return
    now, one = sim.state[0].clock.now, places.one[0]
    if now >= one.dated_until:
        one.dated_until = date_nodes(places, places.nodes, now)


@step
def begin_search(sim: Arrays, places: NodeArrays | None) -> None:
    """Note where a search for backfills begins, see `newcomer_counts`."""
    if places is None:
        return
    one, head = places.one[0], sim.state[0].queue.head
    one.released_at_scan = one.n_released
    one.occupied_at_scan = one.n_occupied
    one.head_at_scan = sim.jobs_now[head].row if head >= 0 else -1


@step
def reserve(sim: Arrays, places: NodeArrays) -> None:
    """Find the head's shadow time, what is free on the nodes then, and what it is promised."""
    state, one = sim.state[0], places.one[0]
    queue = state.queue
    head = sim.jobs_now[queue.head]
    queue.shadow_time, one.head_room, free = _first_place(sim, places, at.RUNNING)
    one.head_end = queue.shadow_time + head.requested_time
    # no backfill that ends later can need more
    queue.extra_procs = _room_below(sim, places, head.procs, free, queue.shadow_time) - head.procs
    if state.rules.promises:
        _keep_promise(sim, places, head)
    queue.stale = False
    one.moment += 1


@step
def _first_place(sim: Arrays, places: NodeArrays, which: int) -> tuple[int, int, int]:
    """Return when the head has a place, by a list of the running jobs, or NEVER; also its room and what is free then.

    The room is the number of its pieces; `planned_node` has what is free on the nodes at that time.
    """
    state, dated = sim.state[0], len(places.windows) > 0
    job = sim.jobs_now[state.queue.head]
    head = demand_of(places, job.row)
    room, free = _as_now(places, which, head), state.queue.free
    n, i, time = list_slots(sim, which, _FEW), 0, state.clock.now
    while True:
        time = min(_planned_end(sim.jobs_now[sim.scratch[i]], which) if i < n else at.NEVER, next_opening(places, time))
        if time == at.NEVER:
            return at.NEVER, room, free
        while i < n and _planned_end(sim.jobs_now[sim.scratch[i]], which) <= time:
            ends = sim.jobs_now[sim.scratch[i]]
            room += _without(places, which, ends.row, head, at.NOTHING)
            free += _procs_of(places, ends)
            i += 1
            if i == n and n % _FEW == 0:
                n = list_slots(sim, which, 2 * n)
        if dated:
            room = _room_at(places, which, head, time, time + job.requested_time)
        if room >= head.pieces and _stays_below(sim, places, job, free, time, which):
            return time, room, free


@step
def _room_below(sim: Arrays, places: NodeArrays, procs: int, free: int, time: int) -> int:
    """Return how many of the processors free at a time a job of so many may use: under a ceiling not all.

    Under a ceiling nodes that are reserved then count as in use.
    """
    state = sim.state[0]
    below = state.queue.free - free_for(state, procs)  # a ceiling lies so far below the machine
    return free if below == 0 else free - below - reserved_procs(places, time)


@rare
def _stays_below(sim: Arrays, places: NodeArrays, job: JobNow, free: int, start: int, which: int) -> bool:
    """Return whether a job stays below the ceiling at its planned start, and where more becomes reserved by its end."""
    lists, state = sim.lists, sim.state[0]
    if free_for(state, job.procs) == state.queue.free:
        return True
    if job.procs > _room_below(sim, places, job.procs, free, start):
        return False
    end = start + (job.candidate_estimate if which == at.RUNNING else job.requested_time)
    for i in range(len(places.windows)):
        time = places.windows[i, 0]
        if start < time < end:
            then = free + released_by(lists, state, which, time) - released_by(lists, state, which, start)
            if job.procs > _room_below(sim, places, job.procs, then, time):
                return False
    return True


@step
def _room_at(places: NodeArrays, which: int, head: Demand, time: int, end: int) -> int:
    """Find from when on the nodes are reserved, seen from a time; return for how many pieces of the head is room."""
    date_nodes(places, places.later if which == at.RUNNING else places.at_promise, time)
    room = 0
    for i in range(head.first_member, head.end_member):
        room += room_on(places.users, planned_node(places, which, places.members[i]), head, end)
    return room


@step
def _planned_end(job: JobNow, which: int) -> int:
    """Return when a running job ends by a list: by its estimate, or by its request, if it is stopped then."""
    return job.start + (job.current_estimate if which == at.RUNNING else max(job.requested_time, job.current_estimate))


@step
def _keep_promise(sim: Arrays, places: NodeArrays, head: JobNow) -> None:
    """Find the start that the head was promised, or promise one, and what is free on the nodes then by requests."""
    queue, one = sim.state[0].queue, places.one[0]
    shadow = at.NEVER
    if head.guaranteed_start == at.NEVER:
        shadow, _, _ = _first_place(sim, places, at.LIMITS)
    guarantee(sim, head, shadow)
    demand, free, time = demand_of(places, head.row), queue.free, max(queue.guaranteed_start, sim.state[0].clock.now)
    one.promise_room = _as_now(places, at.LIMITS, demand)
    for i in range(list_slots(sim, at.LIMITS, len(sim.jobs_now))):
        job = sim.jobs_now[sim.scratch[i]]
        if _planned_end(job, at.LIMITS) > time:
            break
        one.promise_room += _without(places, at.LIMITS, job.row, demand, at.NOTHING)
        free += _procs_of(places, job)
    if len(places.windows) > 0:
        one.promise_room = _room_at(places, at.LIMITS, demand, time, time + head.requested_time)
    queue.extra_at_promise = _room_below(sim, places, head.procs, free, time) - head.procs


@step
def _as_now(places: NodeArrays, which: int, head: Demand) -> int:
    """Let as much be free at a later time as is now; return for how many pieces of the head there is room."""
    one, room = places.one[0], 0
    if which == at.RUNNING:
        one.n_reserved += 1
    else:
        one.n_promised += 1
    for i in range(len(places.nodes) if len(places.windows) > 0 else 0):  # before they are dated
        planned_node(places, which, i)
    for i in range(head.first_member, head.end_member):
        room += room_on(places.users, places.nodes[places.members[i]], head, at.NOTHING)
    return room


@step
def _procs_of(places: NodeArrays, job: JobNow) -> int:
    """Return how many processors a running job has; none, if it has no nodes."""
    return job.procs if places.first_part[job.row] >= 0 else 0


@step
def _without(places: NodeArrays, which: int, row: int, head: Demand, end: int) -> int:
    """Release what a running job has at a later time; return by how much the head's room grows."""
    demand, number, more = demand_of(places, row), places.first_part[row], 0
    while number >= 0:
        part = places.parts[number]
        more += _change_at(places, which, part.node, demand, part.pieces, of.RELEASE, head, end)
        number = part.next
    return more


@step
def _change_at(
    places: NodeArrays,
    which: int,
    number: int,
    demand: Demand,
    pieces: int,
    sign: int,
    head: Demand,
    end: int,
) -> int:
    """Take pieces from what is free on a node at a time, or release them; return by how much the head's room grows.

    By its requested time the head would run until `end`.
    """
    node = planned_node(places, which, number)
    if not places.serves[head.node_set, number]:
        change(node, demand, pieces, sign)
        return 0
    before = room_on(places.users, node, head, end)
    change(node, demand, pieces, sign)
    return room_on(places.users, node, head, end) - before


@step
def _book(sim: Arrays, places: NodeArrays, job: JobNow, n: int, sign: int, at_promise: bool) -> bool:
    """Take the place found last for a job from what is free at the head's shadow time or promise, or release it.

    Returns whether the head has a place then.
    """
    one, first = places.one[0], sim.jobs_now[sim.state[0].queue.head]
    head, more = demand_of(places, first.row), 0
    which, end = at.RUNNING, one.head_end
    if at_promise:
        which = at.LIMITS
        end = max(sim.state[0].queue.guaranteed_start, sim.state[0].clock.now) + first.requested_time
    for i in range(n):
        number, pieces = places.chosen[i], places.chosen_pieces[i]
        more += _change_at(places, which, number, demand_of(places, job.row), pieces, sign, head, end)
    if at_promise:
        one.promise_room += more
        return one.promise_room >= head.pieces
    one.head_room += more
    return one.head_room >= head.pieces


@step
def _leaves_head_room(sim: Arrays, places: NodeArrays, job: JobNow, n: int, at_promise: bool) -> bool:
    """Return whether the head has a place at its shadow time or promise next to a job in the place found last.

    If so, the job takes that place.
    """
    if _book(sim, places, job, n, of.TAKE, at_promise):
        return True
    _book(sim, places, job, n, of.RELEASE, at_promise)
    return False


@step
def verdict_beside_head(sim: Arrays, places: NodeArrays, slot: int) -> int:
    """Return what keeps a job from starting next to the head, as a rule of `reasons`; STARTS if nothing does.

    It starts if it has a place now and leaves the head one at its shadow time, and at its promise; it then has these.
    """
    state, one, job = sim.state[0], places.one[0], sim.jobs_now[slot]
    tried = places.tried[places.shape_of[job.row]]
    keeps = len(places.windows) == 0  # else the place of a job hangs on its requested time too
    if not has_place(sim, places, slot):
        return why.RESOURCES
    if not _is_below(sim, places, job):
        return why.CEILING
    late, n = _ends_late(job, state), one.n_chosen
    if late:
        if job.procs > state.queue.extra_procs:  # others of this shape may have fewer
            return why.DELAYS_HEAD
        if tried.in_the_way_at == one.moment or not _leaves_head_room(sim, places, job, n, False):
            tried.in_the_way_at = one.moment if keeps else -1
            return why.DELAYS_HEAD
    if not outlasts_promise(job, state):
        return why.STARTS
    if job.procs <= state.queue.extra_at_promise:
        if tried.breaks_promise_at != one.moment and _leaves_head_room(sim, places, job, n, True):
            return why.STARTS
        tried.breaks_promise_at = one.moment if keeps else -1
    if late:
        _book(sim, places, job, n, of.RELEASE, False)
    return why.PROMISE


@step
def could_start_behind_head(sim: Arrays, places: NodeArrays | None, slot: int) -> bool:
    """Return whether a job that fits by numbers of processors may start next to the head; it takes nothing yet."""
    job = sim.jobs_now[slot]
    if places is None:
        return keeps_promise(job, sim.state[0]) and clears(sim, job)
    if slot == sim.state[0].queue.head or verdict_beside_head(sim, places, slot) != why.STARTS:
        return False
    give_spare(sim, places, job)
    return True


@step
def take_spare(sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Give a job that may start what it takes next to the head, in the place found last."""
    if places is not None:
        verdict_beside_head(sim, places, slot)


@step
def keeps_promise_in_place(sim: Arrays, places: NodeArrays, job: JobNow) -> bool:
    """Return whether a job, in the place found last, leaves the head one at its promise; it then has that place."""
    n = places.one[0].n_chosen
    if not outlasts_promise(job, sim.state[0]):
        return True
    keeps = _leaves_head_room(sim, places, job, n, True)
    if keeps and job.run_time == 0:  # it takes no time
        _book(sim, places, job, n, of.RELEASE, True)
    return keeps


@step
def _ends_late(job: JobNow, state: State) -> bool:
    """Return whether by the estimates a job that starts now ends after the head's shadow time."""
    return state.clock.now + job.candidate_estimate > state.queue.shadow_time


@step
def use_spare(sim: Arrays, places: NodeArrays, job: JobNow) -> None:
    """Count what a job that is about to be backfilled takes of what is spare; one of length zero takes nothing."""
    state = sim.state[0]
    if job.run_time == 0:
        give_spare(sim, places, job)
        return
    if _ends_late(job, state):
        state.queue.extra_procs -= job.procs
    use_spare_at_promise(job, state)


@step
def give_spare(sim: Arrays, places: NodeArrays | None, job: JobNow) -> None:
    """Take back from a job that does not start, or takes no time, what it has of what is spare next to the head."""
    if places is None:
        return
    state, n = sim.state[0], places.one[0].n_chosen
    if state.queue.head < 0:
        return
    if _ends_late(job, state):
        _book(sim, places, job, n, of.RELEASE, False)
    if outlasts_promise(job, state):
        _book(sim, places, job, n, of.RELEASE, True)


@step
def note_behind(reasons: Reasons, sim: Arrays, places: NodeArrays, slot: int, rule: int) -> None:
    """Note what becomes of a job behind the head, if there is one; of the head, what it lacks."""
    why.note_behind(reasons, sim, slot, rule)
    one, queue, procs = reasons[slot], sim.state[0].queue, sim.jobs_now[slot].procs
    limited = sim.state[0].rules.exempt_only > 0
    one.extra = at.NEVER
    if rule == why.DELAYS_HEAD and limited and procs > queue.extra_procs:
        one.extra = queue.extra_procs
    if rule == why.PROMISE:
        one.shadow = queue.guaranteed_start
        if limited and procs > queue.extra_at_promise:
            one.extra = queue.extra_at_promise
    note_nodes(reasons, sim, places, slot)


@step
def note_nodes(reasons: Reasons, sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Note what is free on the nodes that a job may use, and what it lacks if it has no place."""
    if places is None:
        return
    job, now = sim.jobs_now[slot], sim.state[0].clock.now
    one, demand = reasons[slot], demand_of(places, job.row)
    procs = gpus = memory = 0
    for i in range(demand.first_member, demand.end_member):
        node = places.nodes[places.members[i]]
        procs += node.procs
        gpus += node.gpus
        memory += node.memory
    one.free = procs
    one.free_gpus = gpus
    one.free_memory = memory
    one.room = _room_below(sim, places, job.procs, sim.state[0].queue.free, now)
    one.lacking = at.NEVER
    if one.rule != why.HEAD and one.rule != why.RESOURCES and one.rule != why.POSTPONED:
        return
    if find_place(places, demand, now + job.requested_time) > 0:  # but for the ceiling, or for the head
        return
    one.lacking = lacking(places, demand, _IN_NO_WINDOW)
    if len(places.windows) > 0 and find_place(places, demand, _IN_NO_WINDOW) > 0:
        for i in range(demand.first_member, demand.end_member):  # but for what is reserved it has a place
            begins = places.nodes[places.members[i]].reserved_from
            if begins < now + job.requested_time:
                one.collides = min(one.collides, begins)
        if one.rule == why.RESOURCES:
            one.rule = why.OUTAGE
