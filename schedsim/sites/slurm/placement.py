"""Slurm's places on nodes: the lightest nodes first; of these the best run of nodes, or few leaf switches.

**One piece.** A job of one piece has the first of the lightest nodes with room. See select/cons_tres, `_get_one_res`.

**Runs.** Other jobs take runs: nodes with room for the job, of equal weight, with numbers that follow one another. A
node counts with the processors of the pieces that it has room for. Of the lightest runs the one with the fewest
processors is taken that holds all that the job still needs; if none does, the one with the most. If one node of the run
can hold all that is needed, the first one with the fewest processors does; otherwise the run's nodes are taken in turn.
See select/cons_tres, `_eval_nodes_consec`.

**Tree.** Where nodes are on leaf switches, a job is to lie on few of them. Nodes of the lowest weights count, as many
weights as hold the job. Of all but the heaviest of these, all nodes are taken, then the others on their leaf switches.
While pieces are left, the leaf switches are compared in the order of the file. A later one comes first if it is closer
to the switches that have a part of the job (in hops, all added) and holds what is left; or if it is as close, and
better: of two switches that hold what is left the one with fewer nodes, else the one that does. If neither does, the
switches above them are compared instead, up to the one above both; if none of them does, the one with more nodes is
better. The nodes of a leaf switch are taken in turn. See topology/tree, `_eval_nodes_topo`, as of Slurm 26.05.
"""

from predictors.core.arrays import Ints
from predictors.core.jit import rare, step
from schedsim.kernels.places.placement import room_on
from schedsim.kernels.places.records import Demand, NodeArrays
from schedsim.kernels.records import NEVER
from schedsim.sites.slurm.records import NodeCycle


@step
def is_in(nodes: Ints, number: int) -> bool:
    """Return whether a node is in a set of nodes."""
    return bool((nodes[number >> 6] >> (number & 63)) & 1)


@step
def count_bits(bits: int) -> int:
    """Return how many of the bits of a whole number are set."""
    bits -= (bits >> 1) & 0x5555555555555555
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    return (((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101) >> 56


@step
def next_usable(cycle: NodeCycle, number: int) -> int:
    """Return the first usable node from a number on, or -1."""
    word, words = number >> 6, len(cycle.usable)
    if word >= words:
        return -1
    bits = cycle.usable[word] & (-1 << (number & 63))
    while bits == 0:
        word += 1
        if word == words:
            return -1
        bits = cycle.usable[word]
    return (word << 6) + count_bits((bits & -bits) - 1)


@step
def find_rooms(places: NodeArrays, cycle: NodeCycle, demand: Demand, end: int) -> None:
    """Write the room for a job on its usable nodes as they are now; by its requested time it runs until `end`."""
    number = next_usable(cycle, 0)
    while number >= 0:
        cycle.rooms[number] = room_on(places.users, places.nodes[number], demand, end)
        number = next_usable(cycle, number + 1)


@step
def choose(places: NodeArrays, cycle: NodeCycle, demand: Demand) -> int:
    """Write the place of a job, by the rooms on its nodes, into `chosen`; return its number of nodes, 0 for none."""
    if demand.pieces == 1:
        left = _take_first(cycle)
    elif len(cycle.switches) > 0:
        left = _take_in_tree(cycle, demand)
    else:
        left = _take_runs(cycle, demand)
    if left > 0:
        return 0
    n, number = 0, next_usable(cycle, 0)
    while number >= 0:
        if cycle.taken[number] > 0:
            places.chosen[n] = number
            places.chosen_pieces[n] = cycle.taken[number]
            n += 1
        number = next_usable(cycle, number + 1)
    return n


@step
def _take_first(cycle: NodeCycle) -> int:
    """Take a piece on the first of the lightest nodes with room; return how many are left: 1 if no node has room."""
    best, number = -1, next_usable(cycle, 0)
    while number >= 0:
        cycle.taken[number] = 0
        if cycle.rooms[number] > 0 and (best < 0 or cycle.weights[number] < cycle.weights[best]):
            best = number
        number = next_usable(cycle, number + 1)
    if best < 0:
        return 1
    cycle.taken[best] = 1
    return 0


@step
def _take_runs(cycle: NodeCycle, demand: Demand) -> int:
    """Take the pieces of a job on the best runs; return how many are left."""
    n_runs, left = _find_runs(cycle, demand), demand.pieces
    while left > 0:
        best = _best_run(cycle, n_runs, demand, left)
        if best < 0:
            return left
        left = _take_of(cycle, demand, best, left)
    return 0


@step
def _find_runs(cycle: NodeCycle, demand: Demand) -> int:
    """Find the runs of nodes with room; return how many there are."""
    n, before, number = 0, -2, next_usable(cycle, 0)
    while number >= 0:
        cycle.taken[number] = 0
        if cycle.rooms[number] > 0:
            if number != before + 1 or cycle.weights[number] != cycle.runs[n - 1].weight:
                run = cycle.runs[n]
                run.first = number
                run.nodes = 0
                run.procs = 0
                run.weight = cycle.weights[number]
                n += 1
            run = cycle.runs[n - 1]
            run.last = number
            run.nodes += 1
            run.procs += cycle.rooms[number] * demand.procs
            before = number
        number = next_usable(cycle, number + 1)
    return n


@step
def _best_run(cycle: NodeCycle, n_runs: int, demand: Demand, left: int) -> int:
    """Return the run from which the pieces left are taken next, or -1."""
    best, best_suffices = -1, False
    for i in range(n_runs):
        run = cycle.runs[i]
        if run.nodes == 0:
            continue
        suffices = run.procs >= left * demand.procs and (run.nodes >= left or not demand.spread)
        if best < 0 or run.weight < cycle.runs[best].weight:
            best, best_suffices = i, suffices
        elif run.weight == cycle.runs[best].weight:
            procs = cycle.runs[best].procs
            if (suffices and (not best_suffices or run.procs < procs)) or (not suffices and run.procs > procs):
                best, best_suffices = i, suffices
    return best


@step
def _take_of(cycle: NodeCycle, demand: Demand, which: int, left: int) -> int:
    """Take pieces on the nodes of a run; return how many are left."""
    run = cycle.runs[which]
    first, last = run.first, run.last
    if left == 1 or not demand.spread:
        alone = _tightest_node(cycle, which, left)
        if alone >= 0:
            first = last = alone
    for number in range(first, last + 1):
        cycle.taken[number] = min(left, cycle.rooms[number])
        left -= cycle.taken[number]
    run.nodes = 0
    return left


@step
def _tightest_node(cycle: NodeCycle, which: int, left: int) -> int:
    """Return the first node of a run with the least room that can hold all pieces left, or -1."""
    run, best = cycle.runs[which], -1
    for number in range(run.first, run.last + 1):
        if cycle.rooms[number] >= left and (best < 0 or cycle.rooms[number] < cycle.rooms[best]):
            best = number
    return best


@rare
def _take_in_tree(cycle: NodeCycle, demand: Demand) -> int:
    """Take the pieces of a job on few leaf switches; return how many are left: all, if it has no place."""
    heaviest = _heaviest(cycle, demand)
    if heaviest < 0:
        return int(demand.pieces)
    left = _take_lighter(cycle, demand, heaviest)
    if left < demand.pieces:
        n_taken = 0
        for i in range(len(cycle.switches)):
            if cycle.switches[i].has_part:
                _move_away(cycle, i)
        for i in range(len(cycle.switches)):
            if cycle.switches[i].has_part and cycle.switches[i].level == 0:
                left, n = _take_on(cycle, demand, i, heaviest, left)
                n_taken += n  # Slurm counts those of the switches before, too
                _drop(cycle, i, n_taken)
    while left > 0:
        best = _best_leaf(cycle, demand, left)
        _move_away(cycle, best)
        left, _ = _take_on(cycle, demand, best, heaviest, left)
        _drop(cycle, best, cycle.switches[best].nodes)
    return 0


@step
def _heaviest(cycle: NodeCycle, demand: Demand) -> int:
    """Return the lowest weight up to which the usable nodes have room for a job, or -1."""
    room, weight = 0, -1
    while room < demand.pieces:
        before, weight, number = weight, NEVER, next_usable(cycle, 0)
        while number >= 0:
            if cycle.rooms[number] > 0 and before < cycle.weights[number] < weight:
                weight = cycle.weights[number]
            number = next_usable(cycle, number + 1)
        if weight == NEVER:
            return -1
        number = next_usable(cycle, 0)
        while number >= 0:
            if cycle.weights[number] == weight:
                room += cycle.rooms[number]
            number = next_usable(cycle, number + 1)
    return weight


@step
def _take_lighter(cycle: NodeCycle, demand: Demand, heaviest: int) -> int:
    """Take all nodes lighter than the heaviest that count, and count the others; return how many pieces are left."""
    for i in range(len(cycle.switches)):
        switch = cycle.switches[i]
        switch.nodes = 0
        switch.procs = 0
        switch.distance = 0
        switch.has_part = False
    left, number = demand.pieces, next_usable(cycle, 0)
    while number >= 0:
        cycle.taken[number] = 0
        if cycle.rooms[number] > 0:
            is_lighter = cycle.weights[number] < heaviest
            if is_lighter:
                cycle.taken[number] = cycle.rooms[number]
                left -= cycle.rooms[number]
            i = cycle.leaf_of[number]
            while i >= 0:
                switch = cycle.switches[i]
                switch.procs += cycle.rooms[number] * demand.procs
                switch.nodes += cycle.weights[number] <= heaviest
                switch.has_part |= is_lighter
                i = switch.parent
        number = next_usable(cycle, number + 1)
    return left


@step
def _take_on(cycle: NodeCycle, demand: Demand, leaf: int, heaviest: int, left: int) -> tuple[int, int]:
    """Take nodes of a leaf switch in turn; return how many pieces are left, and how many nodes it took."""
    n, switch = 0, cycle.switches[leaf]
    for i in range(switch.first_node, switch.end_node):
        number = cycle.on_leaf[i]
        if left > 0 and is_in(cycle.usable, number):  # noqa: SIM102 - what follows is old on other nodes
            if cycle.taken[number] == 0 and cycle.rooms[number] > 0 and cycle.weights[number] <= heaviest:
                cycle.taken[number] = min(left, cycle.rooms[number])
                left -= cycle.taken[number]
                n += 1
    return left, n


@step
def _drop(cycle: NodeCycle, which: int, n: int) -> None:
    """Count so many nodes less on a switch and on those above it."""
    while which >= 0:
        switch = cycle.switches[which]
        switch.nodes = max(0, switch.nodes - n)
        which = switch.parent


@step
def _move_away(cycle: NodeCycle, which: int) -> None:
    """Add to the distance of each leaf switch the hops to one that has a part of the job now."""
    for i in range(len(cycle.switches)):
        if cycle.switches[i].level > 0:
            continue
        a, b = which, i
        while a != b:
            if cycle.switches[a].depth > cycle.switches[b].depth:
                a = cycle.switches[a].parent
            else:
                b = cycle.switches[b].parent
            cycle.switches[i].distance += 1


@step
def _best_leaf(cycle: NodeCycle, demand: Demand, left: int) -> int:
    """Return the leaf switch from which the pieces left are taken next."""
    best = -1
    for i in range(len(cycle.switches)):
        leaf = cycle.switches[i]
        if leaf.level > 0 or leaf.has_part or leaf.nodes == 0:
            continue
        if best < 0:
            best = i
            continue
        order, holds = _compare(cycle, demand, i, best, left)
        if leaf.distance < cycle.switches[best].distance:
            best = i if holds else best
        elif leaf.distance == cycle.switches[best].distance and order > 0:
            best = i
    return best


@step
def _compare(cycle: NodeCycle, demand: Demand, one: int, other: int, left: int) -> tuple[int, bool]:
    """Return 1, -1 or 0: which of two switches is the better one, or the one above it; and whether that of `one` holds.

    Pieces that need not be spread need one node, or none once the job has some.
    """
    need = left if demand.spread else int(left == demand.pieces)
    while True:
        a, b = cycle.switches[one], cycle.switches[other]
        holds = a.nodes >= need and a.procs >= left * demand.procs
        if holds != (b.nodes >= need and b.procs >= left * demand.procs):
            return (1 if holds else -1), holds
        if holds or a.parent == b.parent or a.parent < 0 or b.parent < 0:
            break
        one, other = a.parent, b.parent
    if a.nodes != b.nodes:
        return (1 if (a.nodes < b.nodes) == holds else -1), holds
    return (b.level > a.level) - (b.level < a.level), holds
