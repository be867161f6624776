"""Places on nodes: first fit of a job's pieces, in the order of the nodes' numbers.

A job asks for equal pieces. A piece lies on one node, and takes processors, GPUs and memory of it. The place of a job
is found by first fit: each node of its set, in ascending order, takes as many pieces as fit (one, if the pieces are to
lie on different nodes), until all have a node. Pieces are equal and nodes independent, so that first fit finds a place
whenever there is one. While jobs only start, what had no place has none. A node that is reserved from some second on
takes no job that by its requested time would run beyond it.
"""

import schedsim.kernels.places.records as of
import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.jit import lean, step
from schedsim.kernels.places.records import Demand, Node, NodeArrays, NodeLevel
from schedsim.kernels.records import Records


@step
def date_nodes(places: NodeArrays, nodes: Records[Node], time: int) -> int:
    """Find for each node from when on it is reserved, seen from a time; return the second until which that holds."""
    window = first_ahead(places, time)
    for i in range(len(nodes)):
        nodes[i].reserved_from = places.opens[window, places.kind_of[i]]
    return next_opening(places, time)


@step
def next_opening(places: NodeArrays, time: int) -> int:
    """Return the first end of a reservation of nodes after a time, or NEVER."""
    window = first_ahead(places, time)
    return places.windows[window, 1] if window < len(places.windows) else at.NEVER


@step
def reserved_procs(places: NodeArrays, time: int) -> int:
    """Return how many processors the nodes have that are up and reserved at a time."""
    procs = 0
    if len(places.windows) > 0:
        window = first_ahead(places, time)
        for i in range(len(places.nodes)):
            if places.opens[window, places.kind_of[i]] <= time and places.nodes[i].n_jobs >= 0:
                procs += places.empty[i].procs
    return procs


@step
def first_ahead(places: NodeArrays, time: int) -> int:
    """Return the number of the first reservation that ends after a time; if none does, how many there are."""
    low, high = 0, len(places.windows)
    while low < high:
        middle = (low + high) >> 1
        if places.windows[middle, 1] > time:
            high = middle
        else:
            low = middle + 1
    return low


@step
def room_on(users: Ints | None, node: Node | NodeLevel, demand: Demand, end: int) -> int:
    """Return for how many pieces of a job a node has room; at most one, if they are to be spread.

    By its requested time the job runs until `end`, and the node must not be reserved before. `users` are those of
    `places`.
    """
    if end > node.reserved_from:
        return 0
    if node.procs < demand.procs or node.gpus < demand.gpus or node.memory < demand.memory:
        return 0
    if (node.kept or (node.n_jobs > 0 and (demand.exclusive or node.one_job))) and not joins_its_user(
        users, node, demand
    ):
        return 0
    if demand.spread:
        return 1
    pieces = node.procs // demand.procs
    if demand.gpus > 0:
        pieces = min(pieces, node.gpus // demand.gpus)
    if demand.memory > 0:
        pieces = min(pieces, node.memory // demand.memory)
    return pieces


@step
def joins_its_user(users: Ints | None, node: Node | NodeLevel, demand: Demand) -> bool:
    """Return whether a node has jobs, all of one user, to which a job of that user may be added."""
    if users is None:
        return False
    if demand.alike == 0 or node.n_jobs <= 0 or node.one_job:
        return False
    return bool((node.n_jobs & ~demand.guards) == (node.n_jobs & users[0]) * demand.alike)


@step
def find_place(places: NodeArrays, demand: Demand, end: int) -> int:
    """Write the place of a job on the nodes as they are now into `chosen`; return its number of nodes, 0 for none.

    By its requested time it runs until `end`.
    """
    left, n = demand.pieces, 0
    for i in range(demand.first_member, demand.end_member):
        number = places.members[i]
        pieces = min(left, room_on(places.users, places.nodes[number], demand, end))
        if pieces > 0:
            places.chosen[n] = number
            places.chosen_pieces[n] = pieces
            n += 1
            left -= pieces
            if left == 0:
                return n
    places.one[0].n_missing = left
    return 0


@step
def stays_in_vain(places: NodeArrays, row: int) -> bool:
    """Return whether a job that had no place has none now: the nodes released since lack room for what was missing."""
    shape, n_released = places.shape_of[row], places.one[0].n_released
    tried, demand = places.tried[shape], places.demands[shape]
    if tried.in_vain_at == n_released:
        return True
    if tried.in_vain_at < 0 or n_released - tried.in_vain_at > of.REMEMBERED:
        return False
    missing = tried.missing
    for k in range(tried.in_vain_at, n_released):
        number = places.released_on[k % of.REMEMBERED]
        if places.serves[demand.node_set, number]:
            missing -= room_on(places.users, places.nodes[number], demand, at.NOTHING)
            if missing <= 0:
                return False
    tried.in_vain_at = n_released
    tried.missing = missing
    return True


@step
def cannot_start(places: NodeArrays, row: int, late: bool) -> bool:
    """Return whether it is known that a job has no place, or, if it ends late, only the head's place then."""
    tried, moment = places.tried[places.shape_of[row]], places.one[0].moment
    return (late and tried.in_the_way_at == moment) or stays_in_vain(places, row)


@step
def note_in_vain(places: NodeArrays, row: int) -> None:
    """Note that a job has no place; where nodes are reserved that depends on its requested time too."""
    if len(places.windows) == 0:
        tried = places.tried[places.shape_of[row]]
        tried.in_vain_at = places.one[0].n_released
        tried.missing = places.one[0].n_missing


@step
def change(node: Node | NodeLevel, demand: Demand, pieces: int, sign: int) -> None:
    """Take pieces of a job from what is free on a node, or release them."""
    node.procs -= sign * pieces * demand.procs
    node.gpus -= sign * pieces * demand.gpus
    node.memory -= sign * pieces * demand.memory
    node.n_jobs += sign * demand.joins
    node.kept = (node.n_jobs & demand.guards) != 0


@step
def copy_free(target: Node | NodeLevel, source: Node | NodeLevel) -> None:
    """Copy what is free on a node at one time to another time."""
    target.procs = source.procs
    target.gpus = source.gpus
    target.memory = source.memory
    target.n_jobs = source.n_jobs
    target.kept = source.kept
    target.one_job = source.one_job


@step
def planned_node(places: NodeArrays, which: int, number: int) -> Node:
    """Return what is free on a node at the head's shadow time (RUNNING) or promise (LIMITS), as planned so far.

    It is copied from what is free now when it is first asked for, and before that changes.
    """
    nodes, as_of, last = places.later, places.later_as_of, places.one[0].n_reserved
    if which == at.LIMITS:
        nodes, as_of, last = places.at_promise, places.promise_as_of, places.one[0].n_promised
    if as_of[number] != last:
        as_of[number] = last
        copy_free(nodes[number], places.nodes[number])
        nodes[number].reserved_from = places.nodes[number].reserved_from
    return nodes[number]


@step
def change_now(places: NodeArrays, number: int, demand: Demand, pieces: int, sign: int) -> None:
    """Take pieces of a job from what is free on a node now, or release them; what is planned there stays."""
    planned_node(places, at.RUNNING, number)
    planned_node(places, at.LIMITS, number)
    change(places.nodes[number], demand, pieces, sign)


@step
def occupy(places: NodeArrays, row: int, demand: Demand, n: int) -> None:
    """Give a job the place found last, of `n` nodes."""
    one = places.one[0]
    for i in range(n):
        change_now(places, places.chosen[i], demand, places.chosen_pieces[i], of.TAKE)
    keep_place(places, row, n)
    one.n_occupied += 1
    one.moment += 1


@step
def vacate(places: NodeArrays, row: int) -> None:
    """Take the nodes of a job that has ended back, if it had any: one of length zero has none."""
    one, demand, number = places.one[0], places.demands[places.shape_of[row]], places.first_part[row]
    if number < 0:
        return
    while number >= 0:
        part = places.parts[number]
        change_now(places, part.node, demand, part.pieces, of.RELEASE)
        places.released_on[one.n_released % of.REMEMBERED] = part.node
        one.n_released += 1
        number = part.next
    forget_place(places, row)
    one.moment += 1


@step
def keep_place(places: NodeArrays, row: int, n: int) -> None:
    """Write down the place found last, of `n` nodes, as that of a job."""
    one, parts = places.one[0], places.parts
    before = -1
    for i in range(n - 1, -1, -1):
        number = one.spare_part
        if number >= 0:
            one.spare_part = parts[number].next
        else:
            number = one.n_parts
            one.n_parts += 1
        part = parts[number]
        part.node = places.chosen[i]
        part.pieces = places.chosen_pieces[i]
        part.next = before
        before = number
    places.first_part[row] = before


@step
def forget_place(places: NodeArrays, row: int) -> int:
    """Forget the place of a job, which is then the place found last; return its number of nodes."""
    one, parts, number, n = places.one[0], places.parts, places.first_part[row], 0
    while number >= 0:
        part = parts[number]
        places.chosen[n] = part.node
        places.chosen_pieces[n] = part.pieces
        n += 1
        following = part.next
        part.next = one.spare_part
        one.spare_part = number
        number = following
    places.first_part[row] = -1
    return n


@step
def lacking(places: NodeArrays, demand: Demand, end: int) -> int:
    """Return which resources a job lacks that has no place now, as bits; 0: each alone suffices, but not on one node.

    A job lacks a resource if it would have no place were all others without limit and its nodes shared. It lacks empty
    nodes if those without a job, with all that they have, hold too few of its pieces, and it needs such nodes.
    """
    procs = gpus = memory = empty = 0
    for i in range(demand.first_member, demand.end_member):
        node, whole = places.nodes[places.members[i]], places.empty[places.members[i]]
        if end > node.reserved_from:
            continue
        most = 1 if demand.spread else demand.pieces
        procs += min(most, node.procs // demand.procs)
        gpus += most if demand.gpus == 0 else min(most, node.gpus // demand.gpus)
        memory += most if demand.memory == 0 else min(most, node.memory // demand.memory)
        is_open = node.n_jobs == 0 or (not demand.exclusive and not node.kept and not node.one_job)
        if is_open or joins_its_user(places.users, node, demand):
            empty += room_on(places.users, whole, demand, end)
    short = of.PROCESSORS if procs < demand.pieces else 0
    short += of.GPUS if gpus < demand.pieces else 0
    short += of.MEMORY if memory < demand.pieces else 0
    short += of.EMPTY_NODES if empty < demand.pieces else 0
    return short


@lean
def rooms_when_empty(places: NodeArrays, rooms: Ints) -> None:
    """Write for how many pieces of each shape the machine has room when no job runs."""
    for shape in range(len(places.demands)):
        demand = places.demands[shape]
        rooms[shape] = 0
        for i in range(demand.first_member, demand.end_member):
            rooms[shape] += room_on(places.users, places.empty[places.members[i]], demand, 0)
