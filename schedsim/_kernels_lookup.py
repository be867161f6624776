"""Looking into the ordered lists: first entries, the place of an entry, who fits next, when processors come free.

Sums of leaves and nodes (see `_kernels_ordered`) let a search pass over what cannot hold what is looked for.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_rows import width_class

Ints = npt.NDArray[np.int64]


@step
def ends_before(blocks: Ints, leaf: int, key: int, tie: int) -> bool:
    """Return whether all entries of a leaf come before (key, tie)."""
    last = blocks[leaf, at.COUNT] - 1
    k = blocks[leaf, at.E_KEY + last]
    return bool(k < key or (k == key and blocks[leaf, at.E_TIE + last] < tie))


@step
def node_of(blocks: Ints, clock: Ints, which: int, key: int, tie: int) -> int:
    """Return the place of the first node that does not end before (key, tie), or the number of nodes."""
    low, high = 0, clock[at.NODES + which]
    while low < high:
        middle = (low + high) >> 1
        node = blocks[middle, at.NODE + which]
        if ends_before(blocks, blocks[node, at.LEAF + blocks[node, at.COUNT] - 1], key, tie):
            low = middle + 1
        else:
            high = middle
    return int(low)


@step
def leaf_of(blocks: Ints, node: int, key: int, tie: int) -> int:
    """Return the place of the node's first leaf that does not end before (key, tie); if all do, of the last leaf."""
    low, high = 0, blocks[node, at.COUNT] - 1
    while low < high:
        middle = (low + high) >> 1
        if ends_before(blocks, blocks[node, at.LEAF + middle], key, tie):
            low = middle + 1
        else:
            high = middle
    return int(low)


@step
def place_of(blocks: Ints, leaf: int, key: int, tie: int) -> int:
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
    i = node_of(blocks, clock, which, key, tie)
    if i == clock[at.NODES + which]:
        return -1
    node = blocks[i, at.NODE + which]
    leaf = blocks[node, at.LEAF + leaf_of(blocks, node, key, tie)]
    return int(blocks[leaf, at.E_SLOT + place_of(blocks, leaf, key, tie)])


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
    first = node_of(blocks, clock, which, key, tie)
    for i in range(first, clock[at.NODES + which]):
        node = blocks[i, at.NODE + which]
        if not _may_fit(blocks, node, column, free, slack, extra):
            continue
        begin = leaf_of(blocks, node, key, tie) if i == first else 0
        for j in range(begin, blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            if not _may_fit(blocks, leaf, column, free, slack, extra):
                continue
            place = place_of(blocks, leaf, key, tie) if i == first and j == begin else 0
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
        if ends_before(blocks, blocks[node, at.LEAF + blocks[node, at.COUNT] - 1], time + 1, at.FIRST_KEY):
            released += blocks[node, at.TOTAL]
            continue
        for j in range(blocks[node, at.COUNT]):
            leaf = blocks[node, at.LEAF + j]
            for k in range(blocks[leaf, at.COUNT]):
                if blocks[leaf, at.E_KEY + k] > time:
                    return released
                released += blocks[leaf, at.E_WIDTH + k]
    return released
