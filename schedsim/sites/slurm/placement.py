"""Slurm's places on nodes: the lightest nodes first, and of these the run of nodes that fits best.

Nodes are taken in runs: nodes with room for the job, of equal weight, with numbers that follow one another. Of the
lightest runs the one with the fewest processors is taken that holds all that the job still needs; if none does, the one
with the most. If one node of the run can hold all that is needed, the one with the fewest free processors does;
otherwise the run's nodes are taken in turn. See select/cons_tres, `_eval_nodes_consec`.
"""

from predictors.core.arrays import Ints
from predictors.core.jit import step
from schedsim.kernels.places.placement import room_on
from schedsim.kernels.places.records import Demand, Node, NodeArrays
from schedsim.kernels.records import Records
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
def choose(places: NodeArrays, cycle: NodeCycle, nodes: Records[Node], demand: Demand) -> int:
    """Write the place of a job on its usable nodes into `chosen`; return its number of nodes, 0 for none.

    The rooms are those of `nodes`.
    """
    n_runs, left = _find_runs(cycle, nodes, demand), demand.pieces
    while left > 0:
        best = _best_run(cycle, n_runs, demand, left)
        if best < 0:
            return 0
        left = _take_of(cycle, nodes, demand, best, left)
    n, number = 0, next_usable(cycle, 0)
    while number >= 0:
        if cycle.taken[number] > 0:
            places.chosen[n] = number
            places.chosen_pieces[n] = cycle.taken[number]
            n += 1
        number = next_usable(cycle, number + 1)
    return n


@step
def _find_runs(cycle: NodeCycle, nodes: Records[Node], demand: Demand) -> int:
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
            run.procs += _procs_on(cycle, nodes, demand, number)
            before = number
        number = next_usable(cycle, number + 1)
    return n


@step
def _procs_on(cycle: NodeCycle, nodes: Records[Node], demand: Demand, number: int) -> int:
    """Return how many processors of a node a job might use."""
    return int(nodes[number].procs if demand.spread else cycle.rooms[number] * demand.procs)


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
def _take_of(cycle: NodeCycle, nodes: Records[Node], demand: Demand, which: int, left: int) -> int:
    """Take pieces on the nodes of a run; return how many are left."""
    run = cycle.runs[which]
    first, last = run.first, run.last
    if left == 1 or not demand.spread:
        alone = _tightest_node(cycle, nodes, demand, which, left)
        if alone >= 0:
            first = last = alone
    for number in range(first, last + 1):
        cycle.taken[number] = min(left, cycle.rooms[number])
        left -= cycle.taken[number]
    run.nodes = 0
    return left


@step
def _tightest_node(cycle: NodeCycle, nodes: Records[Node], demand: Demand, which: int, left: int) -> int:
    """Return the node of a run with the fewest processors that can hold all pieces left, or -1."""
    run, need = cycle.runs[which], left * demand.procs
    best, fewest = -1, 0
    for number in range(run.first, run.last + 1):
        procs = _procs_on(cycle, nodes, demand, number)
        if procs >= need and (best < 0 or procs < fewest):
            best, fewest = number, procs
    return best
