"""Rows of the ordered lists: taken and given back, and what a leaf or node holds in sum."""

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


@step
def take_row(blocks: Ints, clock: Ints) -> int:
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
def give_row(blocks: Ints, clock: Ints, row: int) -> None:
    """Give a row back."""
    blocks[clock[at.UNUSEDS], at.UNUSED] = row
    clock[at.UNUSEDS] += 1


@step
def is_searched(clock: Ints, which: int) -> bool:
    """Return whether a list is searched for backfills; the others need sums of widths at most."""
    return bool(which == clock[at.CANDIDATES] or which == at.POSTPONED)


@step
def add(blocks: Ints, clock: Ints, row: int, searched: bool, width: int, length: int) -> None:
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
def sum_leaf(blocks: Ints, clock: Ints, leaf: int, searched: bool) -> None:
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
def sum_node(blocks: Ints, clock: Ints, node: int, searched: bool) -> None:
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
