"""Ordered lists of jobs in small blocks: insert, remove, and "the next one that fits" without a walk over all.

An entry is (key, tie, slot, width, length), sorted by (key, tie), smaller first. A list is a sequence of blocks of at
most `BLOCK` entries; two neighbours together are always more than half full, so that m entries take fewer than
`4 m / BLOCK + 2` blocks. The lists of waiting jobs know of each block its narrowest job and, for each power of two, the
shortest one below that width: a search reads a few numbers a block. The lists of running jobs know the sum of widths.

Does not handle: two entries with equal (key, tie); running out of blocks (the caller grows in time).
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean

Ints = npt.NDArray[np.int64]


@lean
def width_class(width: int) -> int:
    """Return floor(log2(width)); 0 for widths below 2."""
    c = 0
    while width > 1:
        width >>= 1
        c += 1
    return c


@lean
def _summarise(blocks: Ints, index: Ints, b: int, waiting: bool) -> None:
    """Compute a block's sums anew from its entries."""
    if not waiting:
        total = 0
        for j in range(index[b, at.COUNT]):
            total += blocks[b, at.E_WIDTH, j]
        index[b, at.TOTAL] = total
        return
    narrowest = at.NEVER
    for c in range(at.CLASSES):
        index[b, at.LEAST + c] = at.NEVER
    for j in range(index[b, at.COUNT]):
        width = blocks[b, at.E_WIDTH, j]
        narrowest = min(narrowest, width)
        c = width_class(width)
        index[b, at.LEAST + c] = min(index[b, at.LEAST + c], blocks[b, at.E_LENGTH, j])
    for c in range(1, at.CLASSES):
        index[b, at.LEAST + c] = min(index[b, at.LEAST + c], index[b, at.LEAST + c - 1])
    index[b, at.NARROWEST] = narrowest


@lean
def _add_to_summary(index: Ints, b: int, waiting: bool, width: int, length: int) -> None:
    if not waiting:
        index[b, at.TOTAL] += width
        return
    index[b, at.NARROWEST] = min(index[b, at.NARROWEST], width)
    for c in range(width_class(width), at.CLASSES):
        if index[b, at.LEAST + c] <= length:
            break  # wider classes are no longer
        index[b, at.LEAST + c] = length


@lean
def _take_block(index: Ints, clock: Ints, which: int, place: int) -> int:
    """Put an empty block into a list as its `place`-th and return it."""
    if clock[at.UNUSEDS] > 0:
        clock[at.UNUSEDS] -= 1
        b = int(index[clock[at.UNUSEDS], at.UNUSED])
    else:
        b = int(clock[at.HIGH_BLOCK])
        clock[at.HIGH_BLOCK] += 1
    for i in range(clock[at.MEMBERS + which], place, -1):
        index[i, at.MEMBER + which] = index[i - 1, at.MEMBER + which]
    index[place, at.MEMBER + which] = b
    clock[at.MEMBERS + which] += 1
    index[b, at.COUNT] = 0
    index[b, at.TOTAL] = 0
    index[b, at.NARROWEST] = at.NEVER
    for c in range(at.CLASSES):
        index[b, at.LEAST + c] = at.NEVER
    return b


@lean
def _give_block(index: Ints, clock: Ints, which: int, place: int) -> None:
    """Take the `place`-th block out of a list."""
    index[clock[at.UNUSEDS], at.UNUSED] = index[place, at.MEMBER + which]
    clock[at.UNUSEDS] += 1
    clock[at.MEMBERS + which] -= 1
    for i in range(place, clock[at.MEMBERS + which]):
        index[i, at.MEMBER + which] = index[i + 1, at.MEMBER + which]


@lean
def locate(blocks: Ints, index: Ints, clock: Ints, which: int, key: int, tie: int) -> tuple[int, int]:
    """Return (i, j): the first entry not before (key, tie) is the j-th of the list's i-th block.

    If all are before it, i is the number of blocks.
    """
    low, high = 0, clock[at.MEMBERS + which]
    while low < high:
        middle = (low + high) >> 1
        b = index[middle, at.MEMBER + which]
        last = index[b, at.COUNT] - 1
        k = blocks[b, at.E_KEY, last]
        if k < key or (k == key and blocks[b, at.E_TIE, last] < tie):
            low = middle + 1
        else:
            high = middle
    i = low
    if i == clock[at.MEMBERS + which]:
        return i, 0
    b = index[i, at.MEMBER + which]
    low, high = 0, index[b, at.COUNT] - 1
    while low < high:
        middle = (low + high) >> 1
        k = blocks[b, at.E_KEY, middle]
        if k < key or (k == key and blocks[b, at.E_TIE, middle] < tie):
            low = middle + 1
        else:
            high = middle
    return i, low


@lean
def _split(blocks: Ints, index: Ints, clock: Ints, which: int, i: int) -> None:
    """Move the upper half of a full block into a new one behind it."""
    b = index[i, at.MEMBER + which]
    upper = _take_block(index, clock, which, i + 1)
    half = at.BLOCK // 2
    for f in range(at.FIELDS):
        for j in range(half, at.BLOCK):
            blocks[upper, f, j - half] = blocks[b, f, j]
    index[b, at.COUNT] = half
    index[upper, at.COUNT] = at.BLOCK - half
    _summarise(blocks, index, b, which <= at.BACKFILL)
    _summarise(blocks, index, upper, which <= at.BACKFILL)


@lean
def insert(
    blocks: Ints, index: Ints, clock: Ints, which: int, key: int, tie: int, slot: int, width: int, length: int
) -> None:
    """Add an entry to a list."""
    i, place = locate(blocks, index, clock, which, key, tie)
    n = clock[at.MEMBERS + which]
    if i == n:  # behind all: fill the last block, then begin another
        if n == 0 or index[index[n - 1, at.MEMBER + which], at.COUNT] == at.BLOCK:
            _take_block(index, clock, which, n)
        else:
            i = n - 1
        place = index[index[i, at.MEMBER + which], at.COUNT]
    elif index[index[i, at.MEMBER + which], at.COUNT] == at.BLOCK:
        _split(blocks, index, clock, which, i)
        if place > at.BLOCK // 2:
            i += 1
            place -= at.BLOCK // 2
    b = index[i, at.MEMBER + which]
    count = index[b, at.COUNT]
    for f in range(at.FIELDS):
        for j in range(count, place, -1):
            blocks[b, f, j] = blocks[b, f, j - 1]
    blocks[b, at.E_KEY, place] = key
    blocks[b, at.E_TIE, place] = tie
    blocks[b, at.E_SLOT, place] = slot
    blocks[b, at.E_WIDTH, place] = width
    blocks[b, at.E_LENGTH, place] = length
    index[b, at.COUNT] = count + 1
    _add_to_summary(index, b, which <= at.BACKFILL, width, length)


@lean
def _merge(blocks: Ints, index: Ints, clock: Ints, which: int, i: int) -> bool:
    """Join the i-th block and the next if together they are at most half full."""
    if i < 0 or i + 1 >= clock[at.MEMBERS + which]:
        return False
    b, following = index[i, at.MEMBER + which], index[i + 1, at.MEMBER + which]
    count, more = index[b, at.COUNT], index[following, at.COUNT]
    if count + more > at.BLOCK // 2:
        return False
    for f in range(at.FIELDS):
        for j in range(more):
            blocks[b, f, count + j] = blocks[following, f, j]
    index[b, at.COUNT] = count + more
    _summarise(blocks, index, b, which <= at.BACKFILL)
    _give_block(index, clock, which, i + 1)
    return True


@lean
def remove_at(blocks: Ints, index: Ints, clock: Ints, which: int, i: int, place: int) -> None:
    """Take out the `place`-th entry of the list's i-th block."""
    b = index[i, at.MEMBER + which]
    count = index[b, at.COUNT] - 1
    width, length = blocks[b, at.E_WIDTH, place], blocks[b, at.E_LENGTH, place]
    for f in range(at.FIELDS):
        for j in range(place, count):
            blocks[b, f, j] = blocks[b, f, j + 1]
    index[b, at.COUNT] = count
    if count == 0:
        _give_block(index, clock, which, i)
        _merge(blocks, index, clock, which, i - 1)
        return
    if _merge(blocks, index, clock, which, i) or _merge(blocks, index, clock, which, i - 1):
        return
    if which > at.BACKFILL:
        index[b, at.TOTAL] -= width
    elif width == index[b, at.NARROWEST] or length == index[b, at.LEAST + width_class(width)]:
        _summarise(blocks, index, b, which <= at.BACKFILL)


@lean
def remove(blocks: Ints, index: Ints, clock: Ints, which: int, key: int, tie: int) -> None:
    """Take out the entry (key, tie), which must be there."""
    i, place = locate(blocks, index, clock, which, key, tie)
    remove_at(blocks, index, clock, which, i, place)


@lean
def remove_first(blocks: Ints, index: Ints, clock: Ints, which: int) -> None:
    """Take out the first entry of a list."""
    first = at.NOTHING  # a plain 0: numba compiles anew for a literal one
    remove_at(blocks, index, clock, which, first, first)


@lean
def next_fitting(
    blocks: Ints, index: Ints, clock: Ints, which: int, key: int, tie: int, free: int, slack: int, extra: int
) -> tuple[int, int]:
    """Return (block, place) of the first entry not before (key, tie) that may be backfilled, or (-1, -1).

    It may if its width is at most `free`, and its length at most `slack` or its width at most `extra`.
    """
    i, place = locate(blocks, index, clock, which, key, tie)
    column = at.LEAST + width_class(free)
    for k in range(i, clock[at.MEMBERS + which]):
        b = index[k, at.MEMBER + which]
        narrowest = index[b, at.NARROWEST]
        if narrowest <= free and (index[b, column] <= slack or narrowest <= extra):
            for j in range(place, index[b, at.COUNT]):
                width = blocks[b, at.E_WIDTH, j]
                if width <= free and (blocks[b, at.E_LENGTH, j] <= slack or width <= extra):
                    return b, j
        place = 0
    return -1, -1


@lean
def time_of_release(blocks: Ints, index: Ints, clock: Ints, which: int, need: int) -> tuple[int, int]:
    """Return when the running jobs will have released `need` processors, and how many more they then have.

    The time is a key of the list; all that are released at that very time count.
    """
    n = clock[at.MEMBERS + which]
    shadow = at.NEVER
    for i in range(n):
        b = index[i, at.MEMBER + which]
        if index[b, at.TOTAL] < need:
            need -= index[b, at.TOTAL]
            continue
        for j in range(index[b, at.COUNT]):
            if need <= 0 and blocks[b, at.E_KEY, j] > shadow:
                return shadow, -need
            if need > 0:
                shadow = blocks[b, at.E_KEY, j]
            need -= blocks[b, at.E_WIDTH, j]
    return shadow, -need


@lean
def released_by(blocks: Ints, index: Ints, clock: Ints, which: int, time: int) -> int:
    """Return the sum of the widths of the entries with key <= `time`."""
    released = 0
    for i in range(clock[at.MEMBERS + which]):
        b = index[i, at.MEMBER + which]
        if blocks[b, at.E_KEY, index[b, at.COUNT] - 1] <= time:
            released += index[b, at.TOTAL]
            continue
        for j in range(index[b, at.COUNT]):
            if blocks[b, at.E_KEY, j] > time:
                return released
            released += blocks[b, at.E_WIDTH, j]
    return released
