"""Ordered lists of jobs: insert, remove, and "the next one that fits" without a walk over all.

An entry is (key, tie, slot, width, length), sorted by (key, tie), smaller first. A list is a sequence of nodes, a node
of at most `FAN` leaves, a leaf of at most `BLOCK` entries; neighbours that together are at most half full are joined.
The list searched for backfills knows of each leaf and node the narrowest job and, for each power of two, the shortest
one below that width: a search reads two numbers to pass over a whole node. The lists of running jobs know sums of
widths.

Does not handle: two entries with equal (key, tie); running out of rows (the caller grows in time).
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step

Ints = npt.NDArray[np.int64]


@step
def width_class(width: int) -> int:
    """Return floor(log2(width)); 0 for widths below 2."""
    c = 0
    while width > 1:
        width >>= 1
        c += 1
    return c


# --- rows ---------------------------------------------------------------------------------------------------------


@step
def _take_row(blocks: Ints, clock: Ints) -> int:
    """Return an unused row, emptied."""
    if clock[at.UNUSEDS] > 0:
        clock[at.UNUSEDS] -= 1
        row = int(blocks[clock[at.UNUSEDS], at.UNUSED])
    else:
        row = int(clock[at.HIGH_BLOCK])
        clock[at.HIGH_BLOCK] += 1
    blocks[row, at.COUNT] = 0
    blocks[row, at.TOTAL] = 0
    blocks[row, at.NARROWEST] = at.NEVER
    for c in range(clock[at.N_CLASSES]):
        blocks[row, at.LEAST + c] = at.NEVER
    return row


@step
def _give_row(blocks: Ints, clock: Ints, row: int) -> None:
    """Give a row back."""
    blocks[clock[at.UNUSEDS], at.UNUSED] = row
    clock[at.UNUSEDS] += 1


@step
def _is_searched(clock: Ints, which: int) -> bool:
    """Return whether a list is searched for backfills; the others need sums of widths at most."""
    return bool(which == clock[at.CANDIDATES] or which == at.POSTPONED)


@step
def _add(blocks: Ints, clock: Ints, row: int, searched: bool, width: int, length: int) -> None:
    """Count an entry in the sums of its leaf or node."""
    blocks[row, at.TOTAL] += width
    if not searched:
        return
    if width < blocks[row, at.NARROWEST]:
        blocks[row, at.NARROWEST] = width
    for c in range(width_class(width), clock[at.N_CLASSES]):
        if blocks[row, at.LEAST + c] <= length:
            return  # in wider classes too
        blocks[row, at.LEAST + c] = length


@step
def _sum_leaf(blocks: Ints, clock: Ints, leaf: int, searched: bool) -> None:
    """Compute a leaf's sums anew."""
    total, narrowest = 0, at.NEVER
    for c in range(clock[at.N_CLASSES]):
        blocks[leaf, at.LEAST + c] = at.NEVER
    for j in range(blocks[leaf, at.COUNT]):
        width = blocks[leaf, at.E_WIDTH + j]
        total += width
        if searched:
            narrowest = min(narrowest, width)
            c = at.LEAST + width_class(width)
            blocks[leaf, c] = min(blocks[leaf, c], blocks[leaf, at.E_LENGTH + j])
    for c in range(1, clock[at.N_CLASSES]):
        blocks[leaf, at.LEAST + c] = min(blocks[leaf, at.LEAST + c], blocks[leaf, at.LEAST + c - 1])
    blocks[leaf, at.TOTAL], blocks[leaf, at.NARROWEST] = total, narrowest


@step
def _sum_node(blocks: Ints, clock: Ints, node: int, searched: bool) -> None:
    """Compute a node's sums anew from those of its leaves."""
    blocks[node, at.TOTAL], blocks[node, at.NARROWEST] = 0, at.NEVER
    for c in range(clock[at.N_CLASSES]):
        blocks[node, at.LEAST + c] = at.NEVER
    for j in range(blocks[node, at.COUNT]):
        leaf = blocks[node, at.LEAF + j]
        blocks[node, at.TOTAL] += blocks[leaf, at.TOTAL]
        if searched:
            for column in range(at.NARROWEST, at.LEAST + clock[at.N_CLASSES]):
                blocks[node, column] = min(blocks[node, column], blocks[leaf, column])


# --- places -------------------------------------------------------------------------------------------------------


@step
def _ends_before(blocks: Ints, leaf: int, key: int, tie: int) -> bool:
    """Return whether all entries of a leaf come before (key, tie)."""
    last = blocks[leaf, at.COUNT] - 1
    k = blocks[leaf, at.E_KEY + last]
    return bool(k < key or (k == key and blocks[leaf, at.E_TIE + last] < tie))


@step
def _node_of(blocks: Ints, clock: Ints, which: int, key: int, tie: int) -> int:
    """Return the place of the first node that does not end before (key, tie), or the number of nodes."""
    low, high = 0, clock[at.NODES + which]
    while low < high:
        middle = (low + high) >> 1
        node = blocks[middle, at.NODE + which]
        if _ends_before(blocks, blocks[node, at.LEAF + blocks[node, at.COUNT] - 1], key, tie):
            low = middle + 1
        else:
            high = middle
    return int(low)


@step
def _leaf_of(blocks: Ints, node: int, key: int, tie: int) -> int:
    """Return the place of the node's first leaf that does not end before (key, tie); if all do, of the last leaf."""
    low, high = 0, blocks[node, at.COUNT] - 1
    while low < high:
        middle = (low + high) >> 1
        if _ends_before(blocks, blocks[node, at.LEAF + middle], key, tie):
            low = middle + 1
        else:
            high = middle
    return int(low)


@step
def _place_of(blocks: Ints, leaf: int, key: int, tie: int) -> int:
    """Return the place of the leaf's first entry not before (key, tie), or the number of entries."""
    low, high = 0, blocks[leaf, at.COUNT]
    while low < high:
        middle = (low + high) >> 1
        k = blocks[leaf, at.E_KEY + middle]
        if k < key or (k == key and blocks[leaf, at.E_TIE + middle] < tie):
            low = middle + 1
        else:
            high = middle
    return int(low)


# --- insert -------------------------------------------------------------------------------------------------------


@step
def _open_node(blocks: Ints, clock: Ints, which: int, i: int) -> int:
    """Put an empty node into a list as its i-th."""
    node = _take_row(blocks, clock)
    for k in range(clock[at.NODES + which], i, -1):
        blocks[k, at.NODE + which] = blocks[k - 1, at.NODE + which]
    blocks[i, at.NODE + which] = node
    clock[at.NODES + which] += 1
    return node


@step
def _open_leaf(blocks: Ints, clock: Ints, node: int, j: int) -> int:
    """Put an empty leaf into a node as its j-th."""
    leaf = _take_row(blocks, clock)
    for k in range(blocks[node, at.COUNT], j, -1):
        blocks[node, at.LEAF + k] = blocks[node, at.LEAF + k - 1]
    blocks[node, at.LEAF + j] = leaf
    blocks[node, at.COUNT] += 1
    return leaf


@step
def _split_node(blocks: Ints, clock: Ints, which: int, i: int, keep: int) -> None:
    """Move the leaves behind the first `keep` of the i-th node into a new one behind it."""
    node = blocks[i, at.NODE + which]
    upper = _open_node(blocks, clock, which, i + 1)
    for k in range(keep, blocks[node, at.COUNT]):
        blocks[upper, at.LEAF + k - keep] = blocks[node, at.LEAF + k]
    blocks[upper, at.COUNT] = blocks[node, at.COUNT] - keep
    blocks[node, at.COUNT] = keep
    searched = _is_searched(clock, which)
    _sum_node(blocks, clock, node, searched)
    _sum_node(blocks, clock, upper, searched)


@step
def _split_leaf(blocks: Ints, clock: Ints, which: int, node: int, j: int) -> None:
    """Move the upper half of a full leaf into a new one behind it."""
    leaf, half = blocks[node, at.LEAF + j], at.BLOCK // 2
    upper = _open_leaf(blocks, clock, node, j + 1)
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(half, at.BLOCK):
            blocks[upper, f + k - half] = blocks[leaf, f + k]
    blocks[leaf, at.COUNT], blocks[upper, at.COUNT] = half, at.BLOCK - half
    searched = _is_searched(clock, which)
    _sum_leaf(blocks, clock, leaf, searched)
    _sum_leaf(blocks, clock, upper, searched)


@step
def insert(blocks: Ints, clock: Ints, which: int, key: int, tie: int, slot: int, width: int, length: int) -> None:
    """Add an entry to a list."""
    n = clock[at.NODES + which]
    i = _node_of(blocks, clock, which, key, tie)
    if i == n:  # behind all: fill the last leaf, then begin another
        i = max(0, n - 1)
        if n == 0:
            _open_leaf(blocks, clock, _open_node(blocks, clock, which, i), i)
        node = blocks[i, at.NODE + which]
        j = blocks[node, at.COUNT] - 1
        if blocks[blocks[node, at.LEAF + j], at.COUNT] == at.BLOCK:
            if blocks[node, at.COUNT] == at.FAN:
                i, j = i + 1, at.NOTHING - 1
                node = _open_node(blocks, clock, which, i)
            j += 1
            _open_leaf(blocks, clock, node, j)
    else:
        node = blocks[i, at.NODE + which]
        if blocks[node, at.COUNT] == at.FAN:  # a leaf may have to be split: make room beforehand
            _split_node(blocks, clock, which, i, at.FAN // 2)
            if _ends_before(blocks, blocks[node, at.LEAF + at.FAN // 2 - 1], key, tie):
                node = blocks[i + 1, at.NODE + which]
        j = _leaf_of(blocks, node, key, tie)
        if blocks[blocks[node, at.LEAF + j], at.COUNT] == at.BLOCK:
            _split_leaf(blocks, clock, which, node, j)
            if _ends_before(blocks, blocks[node, at.LEAF + j], key, tie):
                j += 1
    _put(blocks, clock, which, node, blocks[node, at.LEAF + j], key, tie, slot, width, length)


@step
def _put(
    blocks: Ints,
    clock: Ints,
    which: int,
    node: int,
    leaf: int,
    key: int,
    tie: int,
    slot: int,
    width: int,
    length: int,
) -> None:
    """Put an entry into a leaf with room."""
    count, place = blocks[leaf, at.COUNT], _place_of(blocks, leaf, key, tie)
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(count, place, -1):
            blocks[leaf, f + k] = blocks[leaf, f + k - 1]
    blocks[leaf, at.E_KEY + place] = key
    blocks[leaf, at.E_TIE + place] = tie
    blocks[leaf, at.E_SLOT + place] = slot
    blocks[leaf, at.E_WIDTH + place] = width
    blocks[leaf, at.E_LENGTH + place] = length
    blocks[leaf, at.COUNT] = count + 1
    searched = _is_searched(clock, which)
    _add(blocks, clock, leaf, searched, width, length)
    _add(blocks, clock, node, searched, width, length)


# --- remove -------------------------------------------------------------------------------------------------------


@step
def _close_leaf(blocks: Ints, clock: Ints, node: int, j: int) -> None:
    """Take the j-th leaf out of a node."""
    _give_row(blocks, clock, blocks[node, at.LEAF + j])
    blocks[node, at.COUNT] -= 1
    for k in range(j, blocks[node, at.COUNT]):
        blocks[node, at.LEAF + k] = blocks[node, at.LEAF + k + 1]


@step
def _close_node(blocks: Ints, clock: Ints, which: int, i: int) -> None:
    """Take the i-th node out of a list."""
    _give_row(blocks, clock, blocks[i, at.NODE + which])
    clock[at.NODES + which] -= 1
    for k in range(i, clock[at.NODES + which]):
        blocks[k, at.NODE + which] = blocks[k + 1, at.NODE + which]


@step
def _join_leaves(blocks: Ints, clock: Ints, which: int, node: int, j: int) -> bool:
    """Join the j-th leaf and the next if together they are at most half full."""
    if j < 0 or j + 1 >= blocks[node, at.COUNT]:
        return False
    leaf, following = blocks[node, at.LEAF + j], blocks[node, at.LEAF + j + 1]
    count, more = blocks[leaf, at.COUNT], blocks[following, at.COUNT]
    if count + more > at.BLOCK // 2:
        return False
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(more):
            blocks[leaf, f + count + k] = blocks[following, f + k]
    blocks[leaf, at.COUNT] = count + more
    _sum_leaf(blocks, clock, leaf, _is_searched(clock, which))
    _close_leaf(blocks, clock, node, j + 1)
    return True


@step
def _join_nodes(blocks: Ints, clock: Ints, which: int, i: int) -> bool:
    """Join the i-th node and the next if together they are at most half full."""
    if i < 0 or i + 1 >= clock[at.NODES + which]:
        return False
    node, following = blocks[i, at.NODE + which], blocks[i + 1, at.NODE + which]
    count, more = blocks[node, at.COUNT], blocks[following, at.COUNT]
    if count + more > at.FAN // 2:
        return False
    for k in range(more):
        blocks[node, at.LEAF + count + k] = blocks[following, at.LEAF + k]
    blocks[node, at.COUNT] = count + more
    _sum_node(blocks, clock, node, _is_searched(clock, which))
    _close_node(blocks, clock, which, i + 1)
    return True


@step
def _shrink(blocks: Ints, clock: Ints, which: int, i: int, j: int) -> None:
    """Close or join what a removal has left too empty: the i-th node's j-th leaf, then the node."""
    node = blocks[i, at.NODE + which]
    if blocks[blocks[node, at.LEAF + j], at.COUNT] == 0:
        _close_leaf(blocks, clock, node, j)
        joined = True
        _join_leaves(blocks, clock, which, node, j - 1)
    else:
        joined = _join_leaves(blocks, clock, which, node, j) or _join_leaves(blocks, clock, which, node, j - 1)
    if not joined:
        return
    if blocks[node, at.COUNT] == 0:
        _close_node(blocks, clock, which, i)
        _join_nodes(blocks, clock, which, i - 1)
    elif not _join_nodes(blocks, clock, which, i):
        _join_nodes(blocks, clock, which, i - 1)


@step
def _take_out(blocks: Ints, clock: Ints, which: int, i: int, j: int, place: int) -> None:
    """Take out an entry."""
    node = blocks[i, at.NODE + which]
    leaf = blocks[node, at.LEAF + j]
    count = blocks[leaf, at.COUNT] - 1
    width, length = blocks[leaf, at.E_WIDTH + place], blocks[leaf, at.E_LENGTH + place]
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(place, count):
            blocks[leaf, f + k] = blocks[leaf, f + k + 1]
    blocks[leaf, at.COUNT] = count
    blocks[leaf, at.TOTAL] -= width
    blocks[node, at.TOTAL] -= width
    searched = _is_searched(clock, which)
    if searched:
        column = at.LEAST + width_class(width)
        if width == blocks[leaf, at.NARROWEST] or length == blocks[leaf, column]:
            _sum_leaf(blocks, clock, leaf, searched)
            if width == blocks[node, at.NARROWEST] or length == blocks[node, column]:
                _sum_node(blocks, clock, node, searched)
    if count <= at.BLOCK // 2:
        _shrink(blocks, clock, which, i, j)


@step
def remove(blocks: Ints, clock: Ints, which: int, key: int, tie: int) -> None:
    """Take out the entry (key, tie), which must be there."""
    i = _node_of(blocks, clock, which, key, tie)
    node = blocks[i, at.NODE + which]
    j = _leaf_of(blocks, node, key, tie)
    _take_out(blocks, clock, which, i, j, _place_of(blocks, blocks[node, at.LEAF + j], key, tie))


@step
def remove_first(blocks: Ints, clock: Ints, which: int) -> None:
    """Take out the first entry of a list."""
    _take_out(blocks, clock, which, at.NOTHING, at.NOTHING, at.NOTHING)


@step
def clear(blocks: Ints, clock: Ints, which: int) -> None:
    """Take out all entries of a list."""
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        for j in range(blocks[node, at.COUNT]):
            _give_row(blocks, clock, blocks[node, at.LEAF + j])
    for i in range(clock[at.NODES + which]):
        _give_row(blocks, clock, blocks[i, at.NODE + which])
    clock[at.NODES + which] = 0


@step
def rekey(live: Ints, blocks: Ints, clock: Ints, which: int, column: int) -> None:
    """Take the keys of a list anew from its records, where they sort as before."""
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                blocks[leaf, at.E_KEY + k] = live[blocks[leaf, at.E_SLOT + k], column]


# --- look ---------------------------------------------------------------------------------------------------------


@step
def first_leaf(blocks: Ints, which: int) -> int:
    """Return the first leaf of a list that is not empty; its first entry is the list's."""
    return int(blocks[blocks[0, at.NODE + which], at.LEAF])


@step
def first_key(blocks: Ints, which: int) -> int:
    """Return the key of the first entry of a list that is not empty."""
    return int(blocks[first_leaf(blocks, which), at.E_KEY])


@step
def first_slot(blocks: Ints, which: int) -> int:
    """Return the slot of the first entry of a list that is not empty."""
    return int(blocks[first_leaf(blocks, which), at.E_SLOT])


@step
def slot_from(blocks: Ints, clock: Ints, which: int, key: int, tie: int) -> int:
    """Return the slot of the first entry not before (key, tie), or -1."""
    i = _node_of(blocks, clock, which, key, tie)
    if i == clock[at.NODES + which]:
        return -1
    node = blocks[i, at.NODE + which]
    leaf = blocks[node, at.LEAF + _leaf_of(blocks, node, key, tie)]
    return int(blocks[leaf, at.E_SLOT + _place_of(blocks, leaf, key, tie)])


@step
def list_slots(live: Ints, blocks: Ints, clock: Ints, which: int, most: int) -> int:
    """Write the slots of the first entries, at most so many, into the sorting column; return how many."""
    n = 0
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if n == most:
                    return n
                live[n, at.SORTED] = blocks[leaf, at.E_SLOT + k]
                n += 1
    return n


@step
def _may_fit(blocks: Ints, row: int, column: int, free: int, slack: int, extra: int) -> bool:
    """Return whether a leaf or node may hold a job that fits."""
    narrowest = blocks[row, at.NARROWEST]
    return bool(narrowest <= free and (blocks[row, column] <= slack or narrowest <= extra))


@step
def next_fitting(blocks: Ints, clock: Ints, which: int, key: int, tie: int, free: int, slack: int, extra: int) -> int:
    """Return the slot of the first entry of a list, not before (key, tie), that may be backfilled, or -1.

    It may if its width is at most `free`, and its length at most `slack` or its width at most `extra`.
    """
    column = at.LEAST + width_class(free)
    first = _node_of(blocks, clock, which, key, tie)
    for i in range(first, clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        if not _may_fit(blocks, node, column, free, slack, extra):
            continue
        begin = _leaf_of(blocks, node, key, tie) if i == first else 0
        for j in range(begin, blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            if not _may_fit(blocks, leaf, column, free, slack, extra):
                continue
            place = _place_of(blocks, leaf, key, tie) if i == first and j == begin else 0
            for k in range(place, blocks[leaf, at.COUNT]):
                width = blocks[leaf, at.E_WIDTH + k]
                if width <= free and (blocks[leaf, at.E_LENGTH + k] <= slack or width <= extra):
                    return int(blocks[leaf, at.E_SLOT + k])
    return -1


@step
def time_of_release(blocks: Ints, clock: Ints, which: int, need: int) -> tuple[int, int]:
    """Return when the running jobs will have released `need` processors, and how many more they then have.

    The time is a key of the list; all that are released at that very time count.
    """
    shadow = at.NEVER
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        if blocks[node, at.TOTAL] < need:
            need -= blocks[node, at.TOTAL]
            continue
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            if blocks[leaf, at.TOTAL] < need:
                need -= blocks[leaf, at.TOTAL]
                continue
            for k in range(blocks[leaf, at.COUNT]):
                if need <= 0 and blocks[leaf, at.E_KEY + k] > shadow:
                    return shadow, -need
                if need > 0:
                    shadow = blocks[leaf, at.E_KEY + k]
                need -= blocks[leaf, at.E_WIDTH + k]
    return shadow, -need


@step
def released_by(blocks: Ints, clock: Ints, which: int, time: int) -> int:
    """Return the sum of the widths of the entries with key <= `time`."""
    released = 0
    for i in range(clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        if _ends_before(blocks, blocks[node, at.LEAF + blocks[node, at.COUNT] - 1], time + 1, at.FIRST_KEY):
            released += blocks[node, at.TOTAL]
            continue
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if blocks[leaf, at.E_KEY + k] > time:
                    return released
                released += blocks[leaf, at.E_WIDTH + k]
    return released
