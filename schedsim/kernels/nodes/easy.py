"""The scheduling pass of EASY, and of its relatives, where jobs take processors, GPUs and memory of nodes.

Jobs start in the queue's order until one has no place now: the head. Its **shadow time** is the first planned end of a
running job at which it has a place, all jobs gone that are planned to end by then; so it counts every resource at
once, and on which nodes it becomes free. There are no extra processors: a job behind the head starts if it has a place
now and either ends by the shadow time, or leaves the head a place at that time, beside all that is planned to run then.
With one node, or with nodes of one processor and nothing else, this is EASY (see `schedsim.kernels.easy`).

A place is found by first fit (see `placement`) and not changed for the head's sake: a job whose place now is in the
head's way does not look for another one.

Under a **promise** the head's first shadow time by requested times, and some slack, is kept as well: a job behind the
head must also end by the promise by its requested time, or leave the head a place then, beside all that may run then.

**Reservations** of nodes for maintenance are known from the beginning: a job is placed on a node only if by its
requested time it ends before the node is reserved. The shadow time is the first planned end of a job, or end of a
reservation, at which the head has such a place; at the promise likewise, by requested times.

Does not handle several reservations of jobs, gates, agents, ceilings and failures.
"""

from typing import Final

import predictors.core.events as event
import schedsim.kernels.nodes.records as of
import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, step
from schedsim.kernels.instant import until_pass
from schedsim.kernels.nodes.placement import (
    change,
    date_nodes,
    find_place,
    lacking,
    next_opening,
    occupy,
    room_on,
    vacate,
)
from schedsim.kernels.nodes.records import Demand, Node, NodeArrays
from schedsim.kernels.ordered_lists import first_slot, list_slots, slot_from
from schedsim.kernels.promise import guarantee, outlasts_promise
from schedsim.kernels.queue import candidate_key, next_candidate, refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Estimates, JobNow, Records
from schedsim.kernels.start_end import start

_IN_NO_WINDOW: Final = -at.NEVER
"""The end of a job that no reservation of nodes hinders."""


@lean
def run(sim: Arrays, estimates: Estimates, reasons: Reasons | None, places: NodeArrays) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    clock = sim.state[0].clock
    while True:
        read = clock.n_logged
        stop = until_pass(sim, estimates)
        for i in range(read, clock.n_logged):
            if sim.log[i, 1] == event.ENDED:
                vacate(places, sim.log[i, 2])
        if stop != at.PASS_IS_DUE:
            return stop
        _pass(sim, reasons, places)
        clock.phase = at.AT_ADVANCE


@step
def _pass(sim: Arrays, reasons: Reasons | None, places: NodeArrays) -> None:
    """Start what may start now."""
    state, one = sim.state[0], places.one[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    if clock.now >= one.dated_until:
        one.dated_until = date_nodes(places, places.nodes, clock.now)
    if rules.depth == at.GREEDY:
        queue.head = -1
        queue.shadow_time = at.NEVER
        _search(sim, reasons, places)
        return
    if reasons is None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if _only_newcomer_counts(sim, places):
            if rules.depth != at.NO_BACKFILL:
                _search_from_newcomer(sim, reasons, places)
            return
    _start_in_order(sim, reasons, places)
    if queue.head < 0:
        return
    if rules.depth != at.NO_BACKFILL:
        sim.jobs_now[queue.head].has_reservation = True
        _reserve(sim, places)
    elif reasons is not None:
        _reserve(sim, places)  # for the notes alone
    if reasons is not None:
        _note_behind(reasons, sim, queue.head, places, why.HEAD)
        if rules.depth == at.NO_BACKFILL:
            why.note_turns(reasons, sim)
    if rules.depth != at.NO_BACKFILL:
        _search(sim, reasons, places)


@step
def _only_newcomer_counts(sim: Arrays, places: NodeArrays) -> bool:
    """Return whether just the one job that was submitted now can start, since the last pass could start no other.

    Since that pass began to search nodes were neither taken nor released, no estimate of a running job was corrected
    and the head is the same: the jobs that waited then find the same places, and have less time left until the
    shadow time.
    """
    state, one = sim.state[0], places.one[0]
    clock, queue = state.clock, state.queue
    if clock.causes != at.BY_SUBMISSION or queue.stale or queue.head < 0 or clock.n_newcomers != 1:
        return False
    if len(places.windows) > 0:  # as they come nearer, jobs find other places
        return False
    if one.head_at_scan != sim.jobs_now[queue.head].row or first_slot(sim.lists, state, at.QUEUE) != queue.head:
        return False
    return one.released_at_scan == one.n_released and one.occupied_at_scan == one.n_occupied


@step
def _demand_of(places: NodeArrays, row: int) -> Demand:
    demand: Demand = places.demands[places.shape_of[row]]
    return demand


@step
def _start_in_order(sim: Arrays, reasons: Reasons | None, places: NodeArrays) -> None:
    """Start jobs in the queue's order until one has no place: the head, or -1."""
    state = sim.state[0]
    queue = state.queue
    while queue.n_queued > 0:
        slot = first_slot(sim.lists, state, at.QUEUE)
        if state.rules.keeps_head and queue.head >= 0:
            slot = queue.head
        job = sim.jobs_now[slot]
        refresh(sim, sim.changes, slot)
        n = find_place(places, _demand_of(places, job.row), state.clock.now + job.requested_time)
        if n == 0:
            queue.head = slot
            return
        if reasons is not None:
            why.note(reasons, sim, slot, why.STARTS)
            _note_nodes(reasons, sim, slot, places)
        _start(sim, places, slot, n, at.BY_RESERVATION if job.has_reservation else at.READY)
        queue.head = -1
    queue.head = -1


@step
def _start(sim: Arrays, places: NodeArrays, slot: int, n: int, how: int) -> None:
    """Start a job in the place found last; one of length zero takes none."""
    row, lasts = sim.jobs_now[slot].row, sim.jobs_now[slot].run_time > 0
    start(sim, slot, how)
    if lasts:
        occupy(places, row, _demand_of(places, row), n)


@step
def _reserve(sim: Arrays, places: NodeArrays) -> None:
    """Find the head's shadow time, what is free on the nodes then, and what it is promised."""
    state, one, later = sim.state[0], places.one[0], places.later
    queue = state.queue
    job = sim.jobs_now[queue.head]
    head = _demand_of(places, job.row)
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
        node, now = nodes[i], places.nodes[i]
        node.procs = now.procs
        node.gpus = now.gpus
        node.memory = now.memory
        node.n_jobs = now.n_jobs
        node.taken_whole = now.taken_whole
        node.reserved_from = now.reserved_from
    for i in range(head.first_member, head.end_member):
        room += room_on(nodes[places.members[i]], head, end)
    return room


@step
def _procs_of(places: NodeArrays, row: int) -> int:
    """Return how many processors a running job has; none, if it has no nodes."""
    demand = _demand_of(places, row)
    return demand.pieces * demand.procs if places.first_part[row] >= 0 else 0


@step
def _without(places: NodeArrays, nodes: Records[Node], row: int, head: Demand, end: int) -> int:
    """Release what a running job has from `nodes`; return by how much the head's room grows."""
    demand, number, more = _demand_of(places, row), places.first_part[row], 0
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
    one, head = places.one[0], _demand_of(places, sim.jobs_now[sim.state[0].queue.head].row)
    nodes, end = (places.at_promise, at.NOTHING) if at_promise else (places.later, one.head_end)
    more = 0
    for i in range(n):
        number, pieces = places.chosen[i], places.chosen_pieces[i]
        more += _change_at(places, nodes, number, _demand_of(places, job.row), pieces, sign, head, end)
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
def _search_from_newcomer(sim: Arrays, reasons: Reasons | None, places: NodeArrays) -> None:
    """Start the newcomer if it may; then those behind it may find other places than before, and start too."""
    state = sim.state[0]
    clock, queue = state.clock, state.queue
    job, n_queued = sim.jobs_now[clock.last_queued], queue.n_queued
    queue.after_key = candidate_key(job, state)
    queue.after_tie = job.row + 1
    _try(sim, clock.last_queued, reasons, places)
    if queue.n_queued < n_queued:
        _search_on(sim, reasons, places)


@step
def _search(sim: Arrays, reasons: Reasons | None, places: NodeArrays) -> None:
    """Start the jobs behind the head, in the backfill order, that have a place and do not delay it."""
    queue, one = sim.state[0].queue, places.one[0]
    one.released_at_scan = one.n_released
    one.occupied_at_scan = one.n_occupied
    one.head_at_scan = sim.jobs_now[queue.head].row if queue.head >= 0 else -1
    queue.after_key = at.FIRST_KEY
    queue.after_tie = at.FIRST_TIE
    _search_on(sim, reasons, places)


@step
def _search_on(sim: Arrays, reasons: Reasons | None, places: NodeArrays) -> None:
    """Go on behind the last job tried."""
    state = sim.state[0]
    queue = state.queue
    while queue.n_queued > 0:
        if reasons is None:
            slot = next_candidate(
                sim, sim.changes, queue.candidates, queue.free, queue.shadow_time - state.clock.now, queue.extra_procs
            )
        else:
            slot = slot_from(sim.lists, state, queue.candidates, queue.after_key, queue.after_tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        queue.after_key = candidate_key(job, state)
        queue.after_tie = job.row + 1
        if slot != queue.head:
            _try(sim, slot, reasons, places)


@step
def _try(sim: Arrays, slot: int, reasons: Reasons | None, places: NodeArrays) -> None:
    """Start a job if it has a place and does not delay the head."""
    state, one, job = sim.state[0], places.one[0], sim.jobs_now[slot]
    clock, queue = state.clock, state.queue
    refresh(sim, sim.changes, slot)
    tried, demand = places.tried[places.shape_of[job.row]], _demand_of(places, job.row)
    late = clock.now + job.candidate_estimate > queue.shadow_time
    beyond = outlasts_promise(job, state)
    keeps = len(places.windows) == 0  # else the place of a job hangs on its requested time too
    n = (
        0
        if keeps and tried.in_vain_at == one.n_released
        else find_place(places, demand, clock.now + job.requested_time)
    )
    if n == 0:
        tried.in_vain_at = one.n_released
        if reasons is not None:
            _note_behind(reasons, sim, slot, places, why.RESOURCES)
        return
    if late and ((keeps and tried.in_the_way_at == one.moment) or not _leaves_head_room(sim, places, job, n, False)):
        tried.in_the_way_at = one.moment
        if reasons is not None:
            _note_behind(reasons, sim, slot, places, why.DELAYS_HEAD)
        return
    if beyond and (tried.breaks_promise_at == one.moment or not _leaves_head_room(sim, places, job, n, True)):
        tried.breaks_promise_at = one.moment
        if late:
            _book(sim, places, job, n, of.RELEASE, False)
        if reasons is not None:
            _note_behind(reasons, sim, slot, places, why.PROMISE)
            reasons[slot].shadow = queue.guaranteed_start
        return
    if job.run_time > 0:
        queue.extra_procs -= demand.pieces * demand.procs if late else 0
    else:  # it takes nothing
        if late:
            _book(sim, places, job, n, of.RELEASE, False)
        if beyond:
            _book(sim, places, job, n, of.RELEASE, True)
    if reasons is not None:
        _note_behind(reasons, sim, slot, places, why.STARTS)
    _start(sim, places, slot, n, at.READY if state.rules.depth == at.GREEDY else at.BACKFILLED)


@step
def _note_behind(reasons: Reasons, sim: Arrays, slot: int, places: NodeArrays, rule: int) -> None:
    """Note what becomes of a job behind the head, if there is one; of the head, what it lacks."""
    why.note_behind(reasons, sim, slot, rule)
    reasons[slot].extra = at.NEVER
    _note_nodes(reasons, sim, slot, places)


@step
def _note_nodes(reasons: Reasons, sim: Arrays, slot: int, places: NodeArrays) -> None:
    """Note what is free on the nodes that a job may use, and what it lacks if it has no place."""
    one, demand = reasons[slot], _demand_of(places, sim.jobs_now[slot].row)
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
