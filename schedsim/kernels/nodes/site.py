"""What jobs take of a machine where nodes differ: the places of EASY (see `schedsim.kernels.easy`).

Jobs start in the queue's order until one has no place now: the head. Its **shadow time** is the first planned end of a
running job at which it has a place, all jobs gone that are planned to end by then; so it counts every resource at
once, and on which nodes it becomes free. There are no extra processors: a job behind the head starts if it has a place
now and either ends by the shadow time, or leaves the head a place at that time, beside all that is planned to run then.
With one node, or with nodes of one processor and nothing else, this is EASY on counts.

A place is found by first fit (see `placement`) and not changed for the head's sake: a job whose place now is in the
head's way does not look for another one.

Under a **promise** the head's first shadow time by requested times, and some slack, is kept as well: a job behind the
head must also end by the promise by its requested time, or leave the head a place then, beside all that may run then.

**Reservations** of nodes for maintenance are known from the beginning: a job is placed on a node only if by its
requested time it ends before the node is reserved. The shadow time is the first planned end of a job, or end of a
reservation, at which the head has such a place; at the promise likewise, by requested times.

The pass gives these steps the nodes, or None: then numbers of processors are all that counts.

A node that **fails** is taken whole by its repair, of which nobody knows the end (see `engine.placing`): until then it
is part of no place, now or later.

Several reservations of jobs are planned in `plan`. Does not handle agents and ceilings.
"""

from typing import Final

import schedsim.kernels.nodes.records as of
import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.nodes.placement import (
    change,
    copy_free,
    date_nodes,
    find_place,
    lacking,
    next_opening,
    occupy,
    room_on,
    vacate,
)
from schedsim.kernels.nodes.records import Demand, Node, NodeArrays
from schedsim.kernels.ordered_lists import first_slot, list_slots
from schedsim.kernels.promise import guarantee, outlasts_promise
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, JobNow, Records, State

_IN_NO_WINDOW: Final = -at.NEVER
"""The end of a job that no reservation of nodes hinders."""


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
    if one.head_at_scan != sim.jobs_now[queue.head].row or first_slot(sim.lists, state, at.QUEUE) != queue.head:
        return False
    return one.released_at_scan == one.n_released and one.occupied_at_scan == one.n_occupied


@step
def demand_of(places: NodeArrays, row: int) -> Demand:
    """Return what a job asks for."""
    demand: Demand = places.demands[places.shape_of[row]]
    return demand


@step
def fits_now(sim: Arrays, places: NodeArrays, slot: int) -> bool:
    """Return whether a job has a place now, which is then the place found last."""
    job, one = sim.jobs_now[slot], places.one[0]
    one.n_chosen = find_place(places, demand_of(places, job.row), sim.state[0].clock.now + job.requested_time)
    return one.n_chosen > 0


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
    state, one, later = sim.state[0], places.one[0], places.later
    queue = state.queue
    job = sim.jobs_now[queue.head]
    head = demand_of(places, job.row)
    one.head_end = at.NOTHING
    one.head_room = _as_now(places, later, head, one.head_end)
    procs = 0
    for i in range(len(places.nodes)):
        procs += places.nodes[i].procs
    n = list_slots(sim, at.RUNNING, len(sim.jobs_now))
    queue.shadow_time = at.NEVER
    i, time = 0, state.clock.now
    while True:
        time = min(_planned_end(sim.jobs_now[sim.scratch[i]]) if i < n else at.NEVER, next_opening(places, time))
        if time == at.NEVER:
            break
        while i < n and _planned_end(sim.jobs_now[sim.scratch[i]]) <= time:
            row = sim.jobs_now[sim.scratch[i]].row
            one.head_room += _without(places, later, row, head, one.head_end)
            procs += _procs_of(places, row)
            i += 1
        if len(places.windows) > 0:
            one.head_end = time + job.requested_time
            one.head_room = _room_at(places, later, head, time, one.head_end)
        if one.head_room >= head.pieces:
            queue.shadow_time = time
            break
    queue.extra_procs = procs - head.pieces * head.procs  # no backfill that ends later can need more
    if state.rules.promises:
        _keep_promise(sim, places, head)
    queue.stale = False
    one.moment += 1


@step
def _room_at(places: NodeArrays, nodes: Records[Node], head: Demand, time: int, end: int) -> int:
    """Find from when on the nodes are reserved, seen from a time; return for how many pieces of the head is room."""
    date_nodes(places, nodes, time)
    room = 0
    for i in range(head.first_member, head.end_member):
        room += room_on(nodes[places.members[i]], head, end)
    return room


@step
def _planned_end(job: JobNow) -> int:
    return job.start + job.current_estimate


@step
def _latest_end(job: JobNow) -> int:
    """Return when a running job ends by its requested time; one that is not stopped then by its estimate."""
    return job.start + max(job.requested_time, job.current_estimate)


@step
def _keep_promise(sim: Arrays, places: NodeArrays, demand: Demand) -> None:
    """Find the start that the head was promised, or promise one, and what is free on the nodes then by requests."""
    queue, one = sim.state[0].queue, places.one[0]
    head = sim.jobs_now[queue.head]
    one.promise_room = _as_now(places, places.at_promise, demand, at.NOTHING)
    n = list_slots(sim, at.LIMITS, len(sim.jobs_now))
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        end = _latest_end(job)
        if end > head.guaranteed_start:
            break
        one.promise_room += _without(places, places.at_promise, job.row, demand, at.NOTHING)
        if head.guaranteed_start == at.NEVER and one.promise_room >= demand.pieces:  # noqa: SIM102 - for numba
            if i == n - 1 or _latest_end(sim.jobs_now[sim.scratch[i + 1]]) > end:
                guarantee(sim, head, end)
    queue.guaranteed_start = head.guaranteed_start


@step
def _as_now(places: NodeArrays, nodes: Records[Node], head: Demand, end: int) -> int:
    """Write what is free on the nodes now into `nodes`; return for how many pieces of the head there is room."""
    room = 0
    for i in range(len(nodes)):
        copy_free(nodes[i], places.nodes[i])
        nodes[i].reserved_from = places.nodes[i].reserved_from
    for i in range(head.first_member, head.end_member):
        room += room_on(nodes[places.members[i]], head, end)
    return room


@step
def _procs_of(places: NodeArrays, row: int) -> int:
    """Return how many processors a running job has; none, if it has no nodes."""
    demand = demand_of(places, row)
    return demand.pieces * demand.procs if places.first_part[row] >= 0 else 0


@step
def _without(places: NodeArrays, nodes: Records[Node], row: int, head: Demand, end: int) -> int:
    """Release what a running job has from `nodes`; return by how much the head's room grows."""
    demand, number, more = demand_of(places, row), places.first_part[row], 0
    while number >= 0:
        part = places.parts[number]
        more += _change_at(places, nodes, part.node, demand, part.pieces, of.RELEASE, head, end)
        number = part.next
    return more


@step
def _change_at(
    places: NodeArrays,
    nodes: Records[Node],
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
    node = nodes[number]
    if not places.serves[head.node_set, number]:
        change(node, demand, pieces, sign)
        return 0
    before = room_on(node, head, end)
    change(node, demand, pieces, sign)
    return room_on(node, head, end) - before


@step
def _book(sim: Arrays, places: NodeArrays, job: JobNow, n: int, sign: int, at_promise: bool) -> bool:
    """Take the place found last for a job from what is free at the head's shadow time or promise, or release it.

    Returns whether the head has a place then.
    """
    one, head = places.one[0], demand_of(places, sim.jobs_now[sim.state[0].queue.head].row)
    nodes, end = (places.at_promise, at.NOTHING) if at_promise else (places.later, one.head_end)
    more = 0
    for i in range(n):
        number, pieces = places.chosen[i], places.chosen_pieces[i]
        more += _change_at(places, nodes, number, demand_of(places, job.row), pieces, sign, head, end)
    if at_promise:
        one.promise_room += more
        return one.promise_room >= head.pieces
    one.head_room += more
    return one.head_room >= head.pieces


@step
def _leaves_head_room(sim: Arrays, places: NodeArrays, job: JobNow, n: int, at_promise: bool) -> bool:
    """Return whether the head has a place at its shadow time or promise beside a job in the place found last.

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
    if (keeps and tried.in_vain_at == one.n_released) or not fits_now(sim, places, slot):
        tried.in_vain_at = one.n_released
        return why.RESOURCES
    late, n = _ends_late(job, state), one.n_chosen
    if late and ((keeps and tried.in_the_way_at == one.moment) or not _leaves_head_room(sim, places, job, n, False)):
        tried.in_the_way_at = one.moment
        return why.DELAYS_HEAD
    if outlasts_promise(job, state) and (
        tried.breaks_promise_at == one.moment or not _leaves_head_room(sim, places, job, n, True)
    ):
        tried.breaks_promise_at = one.moment
        if late:
            _book(sim, places, job, n, of.RELEASE, False)
        return why.PROMISE
    return why.STARTS


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
    if job.run_time == 0:
        give_spare(sim, places, job)
    elif _ends_late(job, sim.state[0]):
        sim.state[0].queue.extra_procs -= job.procs


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
    one = reasons[slot]
    one.extra = at.NEVER
    if rule == why.PROMISE:
        one.shadow = sim.state[0].queue.guaranteed_start
    note_nodes(reasons, sim, places, slot)


@step
def note_nodes(reasons: Reasons, sim: Arrays, places: NodeArrays | None, slot: int) -> None:
    """Note what is free on the nodes that a job may use, and what it lacks if it has no place."""
    if places is None:
        return
    one, demand = reasons[slot], demand_of(places, sim.jobs_now[slot].row)
    procs = gpus = memory = 0
    for i in range(demand.first_member, demand.end_member):
        node = places.nodes[places.members[i]]
        procs += node.procs
        gpus += node.gpus
        memory += node.memory
    one.free = procs
    one.free_gpus = gpus
    one.free_memory = memory
    one.lacking = at.NOTHING
    if one.rule != why.HEAD and one.rule != why.RESOURCES:
        return
    job, now = sim.jobs_now[slot], sim.state[0].clock.now
    one.lacking = lacking(places, demand, _IN_NO_WINDOW)
    if len(places.windows) > 0 and find_place(places, demand, _IN_NO_WINDOW) > 0:
        for i in range(demand.first_member, demand.end_member):  # but for what is reserved it has a place
            begins = places.nodes[places.members[i]].reserved_from
            if begins < now + job.requested_time:
                one.collides = min(one.collides, begins)
        if one.rule == why.RESOURCES:
            one.rule = why.OUTAGE
