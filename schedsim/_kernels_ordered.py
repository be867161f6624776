"""Ordered lists of jobs: insert and remove (see `_kernels_lookup` for "the next one that fits").

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
from schedsim._kernels_lookup import ends_before, leaf_of, node_of, place_of
from schedsim._kernels_rows import add, give_row, is_searched, sum_leaf, sum_node, take_row, width_class

Ints = npt.NDArray[np.int64]


@step
def _open_node(blocks: Ints, clock: Ints, which: int, i: int) -> int:
    """Put an empty node into a list as its i-th."""
    node = take_row(blocks, clock)
    for k in range(clock[at.NODES + which], i, -1):
        blocks[k, at.NODE + which] = blocks[k - 1, at.NODE + which]
    blocks[i, at.NODE + which] = node
    clock[at.NODES + which] += 1
    return node


@step
def _open_leaf(blocks: Ints, clock: Ints, node: int, j: int) -> int:
    """Put an empty leaf into a node as its j-th."""
    leaf = take_row(blocks, clock)
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
    searched = is_searched(clock, which)
    sum_node(blocks, clock, node, searched)
    sum_node(blocks, clock, upper, searched)


@step
def _split_leaf(blocks: Ints, clock: Ints, which: int, node: int, j: int) -> None:
    """Move the upper half of a full leaf into a new one behind it."""
    leaf, half = blocks[node, at.LEAF + j], at.BLOCK // 2
    upper = _open_leaf(blocks, clock, node, j + 1)
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(half, at.BLOCK):
            blocks[upper, f + k - half] = blocks[leaf, f + k]
    blocks[leaf, at.COUNT], blocks[upper, at.COUNT] = half, at.BLOCK - half
    searched = is_searched(clock, which)
    sum_leaf(blocks, clock, leaf, searched)
    sum_leaf(blocks, clock, upper, searched)


@step
def insert(blocks: Ints, clock: Ints, which: int, key: int, tie: int, slot: int, width: int, length: int) -> None:
    """Add an entry to a list."""
    n = clock[at.NODES + which]
    i = node_of(blocks, clock, which, key, tie)
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
            if ends_before(blocks, blocks[node, at.LEAF + at.FAN // 2 - 1], key, tie):
                node = blocks[i + 1, at.NODE + which]
        j = leaf_of(blocks, node, key, tie)
        if blocks[blocks[node, at.LEAF + j], at.COUNT] == at.BLOCK:
            _split_leaf(blocks, clock, which, node, j)
            if ends_before(blocks, blocks[node, at.LEAF + j], key, tie):
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
    count, place = blocks[leaf, at.COUNT], place_of(blocks, leaf, key, tie)
    for f in range(at.E_KEY, at.E_KEY + at.FIELDS * at.BLOCK, at.BLOCK):
        for k in range(count, place, -1):
            blocks[leaf, f + k] = blocks[leaf, f + k - 1]
    blocks[leaf, at.E_KEY + place] = key
    blocks[leaf, at.E_TIE + place] = tie
    blocks[leaf, at.E_SLOT + place] = slot
    blocks[leaf, at.E_WIDTH + place] = width
    blocks[leaf, at.E_LENGTH + place] = length
    blocks[leaf, at.COUNT] = count + 1
    searched = is_searched(clock, which)
    add(blocks, clock, leaf, searched, width, length)
    add(blocks, clock, node, searched, width, length)


@step
def _close_leaf(blocks: Ints, clock: Ints, node: int, j: int) -> None:
    """Take the j-th leaf out of a node."""
    give_row(blocks, clock, blocks[node, at.LEAF + j])
    blocks[node, at.COUNT] -= 1
    for k in range(j, blocks[node, at.COUNT]):
        blocks[node, at.LEAF + k] = blocks[node, at.LEAF + k + 1]


@step
def _close_node(blocks: Ints, clock: Ints, which: int, i: int) -> None:
    """Take the i-th node out of a list."""
    give_row(blocks, clock, blocks[i, at.NODE + which])
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
    sum_leaf(blocks, clock, leaf, is_searched(clock, which))
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
    sum_node(blocks, clock, node, is_searched(clock, which))
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
    searched = is_searched(clock, which)
    if searched:
        column = at.LEAST + width_class(width)
        if width == blocks[leaf, at.NARROWEST] or length == blocks[leaf, column]:
            sum_leaf(blocks, clock, leaf, searched)
            if width == blocks[node, at.NARROWEST] or length == blocks[node, column]:
                sum_node(blocks, clock, node, searched)
    if count <= at.BLOCK // 2:
        _shrink(blocks, clock, which, i, j)


@step
def remove(blocks: Ints, clock: Ints, which: int, key: int, tie: int) -> None:
    """Take out the entry (key, tie), which must be there."""
    i = node_of(blocks, clock, which, key, tie)
    node = blocks[i, at.NODE + which]
    j = leaf_of(blocks, node, key, tie)
    _take_out(blocks, clock, which, i, j, place_of(blocks, blocks[node, at.LEAF + j], key, tie))


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
            give_row(blocks, clock, blocks[node, at.LEAF + j])
    for i in range(clock[at.NODES + which]):
        give_row(blocks, clock, blocks[i, at.NODE + which])
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
