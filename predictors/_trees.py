"""Kernels that walk a row down each tree of a forest and average the leaves.

A forest is one array of nodes, tree after tree, breadth first, so that siblings are neighbours and the upper levels
share cache lines. A node sends a row to `left` if slot[feature] <= threshold, else to `left + 1`; a leaf sends
every row back to itself. Trees are walked in blocks, so that the processor waits for many cache lines at once.

Slots hold a row twice: as it is (NaN <= t is false: missing goes right), and with NaN as -inf (missing goes left); one
last slot of -inf is what leaves test. Does not handle several outputs, or infinite input.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled, step

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Holds = npt.NDArray[np.int32]

NODE: Final = np.dtype([("threshold", np.float32), ("feature", np.int32), ("left", np.int32)])
BLOCK: Final = 16


@compiled
def fill_slots(row: Singles, slots: Singles) -> None:
    """Lay out one row of n features in 2 n + 1 slots."""
    n_features = len(row)
    for f in range(n_features):
        x = row[f]
        slots[f] = x
        slots[n_features + f] = -np.inf if np.isnan(x) else x
    slots[2 * n_features] = -np.inf


@step
def walk(nodes: npt.NDArray[np.void], roots: Ints, first: int, width: int, slots: Singles, at: Holds) -> None:
    """Write into `at` which leaves `slots` reach in `width` trees from the `first` on."""
    for k in range(width):
        at[k] = roots[first + k]
    moving = True
    while moving:
        moving = False
        for k in range(width):
            node = nodes[at[k]]
            there = node.left + (0 if slots[node.feature] <= node.threshold else 1)
            moving |= there != at[k]
            at[k] = there


@compiled
def mean_of_leaves(nodes: npt.NDArray[np.void], values: Floats, roots: Ints, slots: Singles) -> float:
    """Mean over trees of the leaf that `slots` reach, summed in the trees' order."""
    n_trees = len(roots)
    at = np.empty(BLOCK, dtype=np.int32)
    total = 0.0
    for first in range(0, n_trees, BLOCK):
        width = min(BLOCK, n_trees - first)
        walk(nodes, roots, first, width, slots, at)
        for k in range(width):
            total += values[at[k]]
    return total / n_trees


@compiled
def mean_of_leaves_for_rows(
    nodes: npt.NDArray[np.void], values: Floats, roots: Ints, rows: Singles, out: Floats
) -> None:
    """`mean_of_leaves` for each row."""
    slots = np.empty(2 * rows.shape[1] + 1, dtype=np.float32)
    for i in range(len(rows)):
        fill_slots(rows[i], slots)
        out[i] = mean_of_leaves(nodes, values, roots, slots)
