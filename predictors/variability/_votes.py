"""Kernel that walks rows down each tree of a forest and adds up what the leaves vote, one number a class.

Nodes and slots are laid out as in `predictors._trees`.
"""

import numpy as np
import numpy.typing as npt

from predictors._trees import BLOCK, fill_slots, walk
from predictors.data.compiled import compiled

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@compiled
def add_votes(nodes: npt.NDArray[np.void], votes: Floats, roots: Ints, rows: Singles, out: Floats) -> None:
    """Write, for each row, the sum over trees of the votes (n_nodes, n_classes) of the leaf that it reaches."""
    n_trees, n_classes = len(roots), votes.shape[1]
    slots = np.empty(2 * rows.shape[1] + 1, dtype=np.float32)
    at = np.empty(BLOCK, dtype=np.int32)
    for i in range(len(rows)):
        fill_slots(rows[i], slots)
        for c in range(n_classes):
            out[i, c] = 0.0
        for first in range(0, n_trees, BLOCK):
            width = min(BLOCK, n_trees - first)
            walk(nodes, roots, first, width, slots, at)
            for k in range(width):
                for c in range(n_classes):
                    out[i, c] += votes[at[k], c]
