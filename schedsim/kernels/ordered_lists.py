"""Ordered lists of jobs: insert, remove, the next job that fits, and when processors come free.

An entry is (key, tie, slot, procs, length), sorted by (key, tie), smaller first. A list is a sequence of nodes, a node
of at most `FAN` leaves, a leaf of at most `BLOCK` entries; neighbours that together are at most half full are joined,
leaves up to three quarters. A leaf has twice as many places: the empty ones behind its entries hold the greatest key
and more processors than any machine, and to make or close a gap as many places as a leaf has entries move at once.
Neither a search within a leaf nor a move depends on the number of entries: a processor does both without a guess, for
all places at once. The list searched for backfills keeps, for each leaf and node, the fewest processors of a job and,
for each power of two, the shortest job below that number: a search reads two numbers to pass over a whole node. When
such a job leaves, the row is loose: a search that finds nothing in it looks for the next ones. A list of one leaf has
no such bounds. The lists of running jobs keep sums of processors, and no lengths. A leaf or node may keep its first job
under an order that changes with time.

Does not handle: two entries with equal (key, tie); running out of rows (the caller grows in time).
"""

import numpy as np

import schedsim.kernels.records as at
from predictors.core.jit import below, lowest_bit, move, rare, step
from schedsim.kernels.places.placement import cannot_start
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import BLOCK, Arrays, ListRow, Records, State


@step
def size_class(procs: int) -> int:
    """Return floor(log2(procs)); 0 for numbers below 2."""
    if procs < 2:
        return 0
    return int((np.float64(procs).view(np.int64) >> 52) - 1023)  # the exponent of the number


@step
def take_row(lists: Records[ListRow], state: State) -> int:
    """Return an unused row, emptied."""
    queue = state.queue
    if queue.spare_row >= 0:
        place = queue.spare_row
        queue.spare_row = lists[place].next_spare
    else:
        place = queue.n_rows
        queue.n_rows += 1
    row = lists[place]
    row.count = 0
    row.procs_sum = 0
    row.least_procs = at.NEVER
    row.is_loose = False
    row.first_until = at.NOTHING
    for c in range(queue.n_classes):
        row.least_length[c] = at.NEVER
    _empty_places(row, at.NOTHING, at.PLACES)
    return place


@step
def _empty_places(leaf: ListRow, begin: int, end: int) -> None:
    """Mark places of a leaf as empty: no search finds them."""
    for k in range(begin, end):
        leaf.key[k] = at.LAST_KEY
        leaf.procs[k] = at.NEVER


@step
def give_back_row(lists: Records[ListRow], state: State, place: int) -> None:
    """Give a row back."""
    queue = state.queue
    lists[place].next_spare = queue.spare_row
    queue.spare_row = place


@step
def is_searched(state: State, which: int) -> bool:
    """Return whether a list is searched for backfills; the others need sums of processors at most."""
    return which == state.queue.candidates or which == at.POSTPONED or which >= at.GROUPS


@step
def _is_only_leaf(state: State, which: int, node: ListRow) -> bool:
    """Return whether this node of a list is the only one and has one leaf: a search then needs no bounds."""
    return node.count + state.queue.n_nodes[which] == 2


@step
def add(row: ListRow, state: State, bounded: bool, procs: int, length: int) -> None:
    """Count an entry in the sums of its leaf or node."""
    row.procs_sum += procs
    row.first_until = at.NOTHING
    if not bounded:
        return
    if procs < row.least_procs:
        row.least_procs = procs
    for c in range(size_class(procs), state.queue.n_classes):
        if row.least_length[c] <= length:
            return  # in wider classes too
        row.least_length[c] = length


@rare
def sum_leaf(leaf: ListRow, state: State, searched: bool) -> None:
    """Compute a leaf's sums again."""
    queue = state.queue
    total, least = 0, at.NEVER
    for c in range(queue.n_classes):
        leaf.least_length[c] = at.NEVER
    for j in range(leaf.count):
        procs = leaf.procs[j]
        total += procs
        if searched:
            least = min(least, procs)
            c = size_class(procs)
            leaf.least_length[c] = min(leaf.least_length[c], leaf.length[j])
    for c in range(1, queue.n_classes):
        leaf.least_length[c] = min(leaf.least_length[c], leaf.least_length[c - 1])
    leaf.procs_sum = total
    leaf.least_procs = least
    leaf.is_loose = False
    leaf.first_until = at.NOTHING


@rare
def sum_node(lists: Records[ListRow], state: State, node: ListRow, searched: bool) -> None:
    """Compute a node's sums again from those of its leaves."""
    queue = state.queue
    node.procs_sum = 0
    node.least_procs = at.NEVER
    node.is_loose = False
    node.first_until = at.NOTHING
    for c in range(queue.n_classes):
        node.least_length[c] = at.NEVER
    for j in range(node.count):
        leaf = lists[node.leaves[j]]
        node.procs_sum += leaf.procs_sum
        if searched:
            node.least_procs = min(node.least_procs, leaf.least_procs)
            node.is_loose |= leaf.is_loose
            for c in range(queue.n_classes):
                node.least_length[c] = min(node.least_length[c], leaf.least_length[c])


@step
def node_at(lists: Records[ListRow], which: int, i: int) -> ListRow:
    """Return the i-th node of a list."""
    return lists[lists[i].node[which]]


@step
def leaf_at(lists: Records[ListRow], node: ListRow, j: int) -> ListRow:
    """Return the j-th leaf of a node."""
    return lists[node.leaves[j]]


@step
def ends_before(leaf: ListRow, key: int, tie: int) -> bool:
    """Return whether all entries of a leaf come before (key, tie)."""
    last = leaf.count - 1
    return leaf.key[last] < key or (leaf.key[last] == key and leaf.tie[last] < tie)


@step
def node_of(lists: Records[ListRow], state: State, which: int, key: int, tie: int) -> int:
    """Return the place of the first node that does not end before (key, tie), or the number of nodes."""
    low, high = 0, state.queue.n_nodes[which]
    while low < high:
        middle = (low + high) >> 1
        node = node_at(lists, which, middle)
        if ends_before(leaf_at(lists, node, node.count - 1), key, tie):
            low = middle + 1
        else:
            high = middle
    return low


@step
def _node_among(lists: Records[ListRow], state: State, which: int, key: int, tie: int) -> int:
    """Return the place of the first node that does not end before (key, tie); if all do, of the last; there is one."""
    low, high = 0, state.queue.n_nodes[which] - 1
    while low < high:
        middle = (low + high) >> 1
        node = node_at(lists, which, middle)
        if ends_before(leaf_at(lists, node, node.count - 1), key, tie):
            low = middle + 1
        else:
            high = middle
    return low


@step
def leaf_of(lists: Records[ListRow], node: ListRow, key: int, tie: int) -> int:
    """Return the place of the node's first leaf that does not end before (key, tie); if all do, of the last leaf."""
    low, high = 0, node.count - 1
    while low < high:
        middle = (low + high) >> 1
        if ends_before(leaf_at(lists, node, middle), key, tie):
            low = middle + 1
        else:
            high = middle
    return low


@step
def place_of(leaf: ListRow, key: int, tie: int) -> int:
    """Return the place of the leaf's first entry not before (key, tie), or the number of entries."""
    place: int = lowest_bit(~below(leaf.key, key, BLOCK))  # halving would guess wrong at every other step
    n = leaf.count
    while place < n and leaf.key[place] == key and leaf.tie[place] < tie:
        place += 1
    return place


@step
def first_leaf(lists: Records[ListRow], state: State, which: int) -> ListRow:
    """Return the first leaf of a list that is not empty; its first entry is the list's."""
    return lists[state.queue.first_leaf[which]]


@step
def first_key(lists: Records[ListRow], state: State, which: int) -> int:
    """Return the key of the first entry of a list that is not empty."""
    return first_leaf(lists, state, which).key[0]


@step
def first_slot(lists: Records[ListRow], state: State, which: int) -> int:
    """Return the slot of the first entry of a list that is not empty."""
    return first_leaf(lists, state, which).slot[0]


@step
def _leaf_of_list(lists: Records[ListRow], state: State, which: int, i: int, j: int) -> ListRow:
    """Return the j-th leaf of a list's i-th node; the first needs no access to its node."""
    if i + j == 0:
        return first_leaf(lists, state, which)
    return leaf_at(lists, node_at(lists, which, i), j)


@step
def slot_from(lists: Records[ListRow], state: State, which: int, key: int, tie: int) -> int:
    """Return the slot of the first entry not before (key, tie), or -1."""
    i = node_of(lists, state, which, key, tie)
    if i == state.queue.n_nodes[which]:
        return -1
    node = node_at(lists, which, i)
    leaf = leaf_at(lists, node, leaf_of(lists, node, key, tie))
    return leaf.slot[place_of(leaf, key, tie)]


@step
def list_slots(sim: Arrays, which: int, most: int) -> int:
    """Write the slots of the first entries, at most so many, into `scratch`; return how many."""
    lists, state = sim.lists, sim.state[0]
    n = 0
    for i in range(state.queue.n_nodes[which]):
        node = node_at(lists, which, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                if n == most:
                    return n
                sim.scratch[n] = leaf.slot[k]
                n += 1
    return n


@step
def _may_fit(row: ListRow, c: int, free: int, slack: int, extra: int) -> bool:
    """Return whether a leaf or node may hold a job that fits."""
    return row.least_procs <= free and (row.least_length[c] <= slack or row.least_procs <= extra)


@rare
def _tighten(lists: Records[ListRow], state: State, which: int, node: ListRow) -> None:
    """Compute the sums of a loose node, and of its loose leaves, again."""
    searched = is_searched(state, which)
    for j in range(node.count):
        leaf = leaf_at(lists, node, j)
        if leaf.is_loose:
            sum_leaf(leaf, state, searched)
    sum_node(lists, state, node, searched)


@step
def next_fitting(
    lists: Records[ListRow],
    state: State,
    which: int,
    key: int,
    tie: int,
    free: int,
    slack: int,
    extra: int,
    places: NodeArrays | None = None,
) -> int:
    """Return the slot of the first entry of a list, not before (key, tie), that may be backfilled, or -1.

    It may if it needs at most `free` processors, and its length is at most `slack` or it needs at most `extra`. On
    nodes, where entries have their row as tie, jobs are passed over of which it is known that they cannot start.
    """
    queue = state.queue
    if queue.n_nodes[which] == 0:
        return -1
    if _is_only_leaf(state, which, node_at(lists, which, at.NOTHING)):
        leaf = first_leaf(lists, state, which)
        return _fitting_in(leaf, place_of(leaf, key, tie), free, slack, extra, places)
    c = size_class(free)
    first = node_of(lists, state, which, key, tie)
    for i in range(first, queue.n_nodes[which]):
        node = node_at(lists, which, i)
        if not _may_fit(node, c, free, slack, extra):
            continue
        begin = leaf_of(lists, node, key, tie) if i == first else 0
        for j in range(begin, node.count):
            leaf = leaf_at(lists, node, j)
            if not _may_fit(leaf, c, free, slack, extra):
                continue
            place = place_of(leaf, key, tie) if i == first and j == begin else 0
            slot = _fitting_in(leaf, place, free, slack, extra, places)
            if slot >= 0:
                return slot
            if leaf.is_loose:
                sum_leaf(leaf, state, is_searched(state, which))
        if node.is_loose:
            _tighten(lists, state, which, node)
    return -1


@step
def _fitting_in(leaf: ListRow, place: int, free: int, slack: int, extra: int, places: NodeArrays | None) -> int:
    """Return the slot of a leaf's first entry from a place on that may be backfilled, or -1."""
    short, few = below(leaf.length, slack + 1, BLOCK), below(leaf.procs, extra + 1, BLOCK)
    fitting = below(leaf.procs, free + 1, BLOCK) & (short | few) & (-1 << place)
    if places is not None:
        while fitting != 0 and cannot_start(
            places, leaf.tie[lowest_bit(fitting)], (short >> lowest_bit(fitting)) & 1 == 0
        ):
            fitting &= fitting - 1
    return leaf.slot[lowest_bit(fitting)] if fitting != 0 else -1


@step
def time_of_release(lists: Records[ListRow], state: State, which: int, need: int) -> tuple[int, int]:
    """Return when the running jobs will have released `need` processors, and how many more they then have.

    The time is a key of the list; all that are released at that very time count.
    """
    shadow = at.NEVER
    for i in range(state.queue.n_nodes[which]):
        node = node_at(lists, which, i)
        if node.procs_sum < need:
            need -= node.procs_sum
            continue
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            if leaf.procs_sum < need:
                need -= leaf.procs_sum
                continue
            for k in range(leaf.count):
                if need <= 0 and leaf.key[k] > shadow:
                    return shadow, -need
                if need > 0:
                    shadow = leaf.key[k]
                need -= leaf.procs[k]
    return shadow, -need


@step
def released_by(lists: Records[ListRow], state: State, which: int, time: int) -> int:
    """Return the sum of the processors of the entries with key <= `time`."""
    released = 0
    for i in range(state.queue.n_nodes[which]):
        node = node_at(lists, which, i)
        if ends_before(leaf_at(lists, node, node.count - 1), time + 1, at.FIRST_KEY):
            released += node.procs_sum
            continue
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                if leaf.key[k] > time:
                    return released
                released += leaf.procs[k]
    return released


@rare
def _open_node(lists: Records[ListRow], state: State, which: int, i: int) -> ListRow:
    queue = state.queue
    place = take_row(lists, state)
    for k in range(queue.n_nodes[which], i, -1):
        lists[k].node[which] = lists[k - 1].node[which]
    lists[i].node[which] = place
    queue.n_nodes[which] += 1
    return lists[place]


@rare
def _open_leaf(lists: Records[ListRow], state: State, node: ListRow, j: int) -> ListRow:
    place = take_row(lists, state)
    for k in range(node.count, j, -1):
        node.leaves[k] = node.leaves[k - 1]
    node.leaves[j] = place
    node.count += 1
    return lists[place]


@step
def _copy_entry(source: ListRow, i: int, target: ListRow, j: int) -> None:
    target.key[j] = source.key[i]
    target.tie[j] = source.tie[i]
    target.slot[j] = source.slot[i]
    target.procs[j] = source.procs[i]
    target.length[j] = source.length[i]


@rare
def _split_node(lists: Records[ListRow], state: State, which: int, i: int, keep: int) -> None:
    """Move the leaves behind the first `keep` of the i-th node into a new one behind it."""
    node, upper = node_at(lists, which, i), _open_node(lists, state, which, i + 1)
    for k in range(keep, node.count):
        upper.leaves[k - keep] = node.leaves[k]
    upper.count = node.count - keep
    node.count = keep
    searched = is_searched(state, which)
    sum_node(lists, state, node, searched)
    sum_node(lists, state, upper, searched)


@rare
def _split_leaf(lists: Records[ListRow], state: State, which: int, node: ListRow, j: int) -> None:
    """Move the upper half of a full leaf into a new one behind it."""
    leaf, upper, half = leaf_at(lists, node, j), _open_leaf(lists, state, node, j + 1), at.BLOCK // 2
    for k in range(half, at.BLOCK):
        _copy_entry(leaf, k, upper, k - half)
    _empty_places(leaf, half, at.BLOCK)
    leaf.count = half
    upper.count = at.BLOCK - half
    searched = is_searched(state, which)
    sum_leaf(leaf, state, searched)
    sum_leaf(upper, state, searched)


@step
def insert(
    lists: Records[ListRow], state: State, which: int, key: int, tie: int, slot: int, procs: int, length: int
) -> None:
    """Add an entry to a list."""
    if state.queue.n_nodes[which] == 0:
        _open_list(lists, state, which)
    i = _node_among(lists, state, which, key, tie)
    j = leaf_of(lists, node_at(lists, which, i), key, tie)
    if _leaf_of_list(lists, state, which, i, j).count == at.BLOCK:
        i, j = _make_room(lists, state, which, i, j, key, tie)
    leaf, node = _leaf_of_list(lists, state, which, i, j), node_at(lists, which, i)
    _put(leaf, _has_lengths(which), key, tie, slot, procs, length)
    bounded = is_searched(state, which) and not _is_only_leaf(state, which, node)
    add(leaf, state, bounded, procs, length)
    add(node, state, bounded, procs, length)


@step
def _open_list(lists: Records[ListRow], state: State, which: int) -> None:
    """Give an empty list a node with a leaf: the last ones that it had, unless they were given back."""
    queue = state.queue
    if queue.first_leaf[which] == at.NO_LEAF:
        _open_leaf(lists, state, _open_node(lists, state, which, at.NOTHING), at.NOTHING)
        queue.first_leaf[which] = node_at(lists, which, at.NOTHING).leaves[0]
    else:
        queue.n_nodes[which] = 1


@rare
def _make_room(
    lists: Records[ListRow], state: State, which: int, i: int, j: int, key: int, tie: int
) -> tuple[int, int]:
    """Make room for an entry with a place in a full leaf, the i-th node's j-th; return the same of a leaf with room.

    Behind all entries a new leaf begins; elsewhere the leaf is split.
    """
    node = node_at(lists, which, i)
    if _is_only_leaf(state, which, node):
        searched = is_searched(state, which)
        sum_leaf(leaf_at(lists, node, j), state, searched)
        sum_node(lists, state, node, searched)
    if ends_before(leaf_at(lists, node, j), key, tie):  # so it is the last leaf of all
        if node.count == at.FAN:
            i += 1
            j = -1
            node = _open_node(lists, state, which, i)
        j += 1
        _open_leaf(lists, state, node, j)
        return i, j
    if node.count == at.FAN:
        _split_node(lists, state, which, i, at.FAN // 2)
        if ends_before(leaf_at(lists, node, at.FAN // 2 - 1), key, tie):
            i += 1
            node = node_at(lists, which, i)
        j = leaf_of(lists, node, key, tie)
    _split_leaf(lists, state, which, node, j)
    if ends_before(leaf_at(lists, node, j), key, tie):
        j += 1
    return i, j


@step
def _has_lengths(which: int) -> bool:
    """Return whether the entries of a list keep their lengths: those of running jobs do not, as they are not needed."""
    return which < at.RUNNING or which > at.LIMITS


@step
def _move_entries(leaf: ListRow, has_lengths: bool, target: int, source: int) -> None:
    """Move the entries of a leaf from a place on to another, and as many places behind them as a leaf has entries."""
    move(leaf.key, target, source, BLOCK)
    move(leaf.tie, target, source, BLOCK)
    move(leaf.slot, target, source, BLOCK)
    move(leaf.procs, target, source, BLOCK)
    if has_lengths:
        move(leaf.length, target, source, BLOCK)


@step
def _put(leaf: ListRow, has_lengths: bool, key: int, tie: int, slot: int, procs: int, length: int) -> None:
    """Put an entry into a leaf with room."""
    place = place_of(leaf, key, tie)
    _move_entries(leaf, has_lengths, place + 1, place)
    leaf.key[place] = key
    leaf.tie[place] = tie
    leaf.slot[place] = slot
    leaf.procs[place] = procs
    leaf.length[place] = length
    leaf.count += 1


@step
def _close_leaf(lists: Records[ListRow], state: State, node: ListRow, j: int) -> None:
    give_back_row(lists, state, node.leaves[j])
    node.count -= 1
    for k in range(j, node.count):
        node.leaves[k] = node.leaves[k + 1]


@step
def _close_node(lists: Records[ListRow], state: State, which: int, i: int) -> None:
    queue = state.queue
    give_back_row(lists, state, lists[i].node[which])
    queue.n_nodes[which] -= 1
    for k in range(i, queue.n_nodes[which]):
        lists[k].node[which] = lists[k + 1].node[which]


@step
def _join_leaves(lists: Records[ListRow], state: State, which: int, node: ListRow, j: int) -> bool:
    """Join the j-th leaf and the next if together they fill at most three quarters of one."""
    if j < 0 or j + 1 >= node.count:
        return False
    leaf, following = leaf_at(lists, node, j), leaf_at(lists, node, j + 1)
    if leaf.count + following.count > 3 * at.BLOCK // 4:
        return False
    for k in range(following.count):
        _copy_entry(following, k, leaf, leaf.count + k)
    leaf.count += following.count
    sum_leaf(leaf, state, is_searched(state, which))
    _close_leaf(lists, state, node, j + 1)
    return True


@step
def _join_nodes(lists: Records[ListRow], state: State, which: int, i: int) -> bool:
    """Join the i-th node and the next if together they are at most half full."""
    if i < 0 or i + 1 >= state.queue.n_nodes[which]:
        return False
    node, following = node_at(lists, which, i), node_at(lists, which, i + 1)
    if node.count + following.count > at.FAN // 2:
        return False
    for k in range(following.count):
        node.leaves[node.count + k] = following.leaves[k]
    node.count += following.count
    sum_node(lists, state, node, is_searched(state, which))
    _close_node(lists, state, which, i + 1)
    return True


@rare
def _shrink(lists: Records[ListRow], state: State, which: int, i: int, j: int) -> None:
    """Close or join rows that a removal left too empty: the i-th node's j-th leaf, if it has several, then the node."""
    node = node_at(lists, which, i)
    if leaf_at(lists, node, j).count == 0:
        _close_leaf(lists, state, node, j)
        joined = True
        _join_leaves(lists, state, which, node, j - 1)
    else:
        joined = _join_leaves(lists, state, which, node, j) or _join_leaves(lists, state, which, node, j - 1)
    if not joined:
        return
    if node.count == 0:
        _close_node(lists, state, which, i)
        _join_nodes(lists, state, which, i - 1)
    elif not _join_nodes(lists, state, which, i):
        _join_nodes(lists, state, which, i - 1)
    state.queue.first_leaf[which] = node_at(lists, which, at.NOTHING).leaves[0]


@step
def _take_out(lists: Records[ListRow], state: State, which: int, i: int, j: int, place: int) -> None:
    leaf, node = _leaf_of_list(lists, state, which, i, j), node_at(lists, which, i)
    procs, length = leaf.procs[place], leaf.length[place]
    leaf.count -= 1
    _move_entries(leaf, _has_lengths(which), place, place + 1)
    leaf.procs_sum -= procs
    node.procs_sum -= procs
    leaf.first_until = node.first_until = at.NOTHING
    if _is_only_leaf(state, which, node):
        if leaf.count == 0:
            state.queue.n_nodes[which] = 0
        return
    if is_searched(state, which):
        c = size_class(procs)
        if procs == leaf.least_procs or length == leaf.least_length[c]:
            leaf.is_loose = True
            if procs == node.least_procs or length == node.least_length[c]:
                node.is_loose = True
    if leaf.count <= at.BLOCK // 2:
        _shrink(lists, state, which, i, j)


@step
def remove(lists: Records[ListRow], state: State, which: int, key: int, tie: int) -> None:
    """Take out the entry (key, tie), which must be there."""
    i = _node_among(lists, state, which, key, tie)
    j = leaf_of(lists, node_at(lists, which, i), key, tie)
    _take_out(lists, state, which, i, j, place_of(_leaf_of_list(lists, state, which, i, j), key, tie))


@step
def remove_first(lists: Records[ListRow], state: State, which: int) -> None:
    """Take out the first entry of a list."""
    _take_out(lists, state, which, at.NOTHING, at.NOTHING, at.NOTHING)


@rare
def clear(lists: Records[ListRow], state: State, which: int) -> None:
    """Take out all entries of a list."""
    queue = state.queue
    for i in range(queue.n_nodes[which]):
        node = node_at(lists, which, i)
        for j in range(node.count):
            give_back_row(lists, state, node.leaves[j])
    for i in range(queue.n_nodes[which]):
        give_back_row(lists, state, lists[i].node[which])
    if queue.n_nodes[which] > 0:
        queue.first_leaf[which] = at.NO_LEAF
    queue.n_nodes[which] = 0


@rare
def renew_keys(sim: Arrays, which: int, kind: int) -> None:
    """Take the keys of a list from its records again, where they sort as before; `kind` is that of the keys."""
    lists, jobs_now, state = sim.lists, sim.jobs_now, sim.state[0]
    for i in range(state.queue.n_nodes[which]):
        node = node_at(lists, which, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                leaf.key[k] = jobs_now[leaf.slot[k]].keys[kind]


@rare
def renew_lengths(sim: Arrays, which: int) -> None:
    """Take the lengths of the list searched for backfills from its records again."""
    lists, jobs_now, state = sim.lists, sim.jobs_now, sim.state[0]
    searched = is_searched(state, which)
    for i in range(state.queue.n_nodes[which]):
        node = node_at(lists, which, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                leaf.length[k] = jobs_now[leaf.slot[k]].candidate_estimate
            sum_leaf(leaf, state, searched)
        sum_node(lists, state, node, searched)
