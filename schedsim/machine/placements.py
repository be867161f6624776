"""Placements: the nodes of the jobs of a schedule, and how many pieces of each ran there."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from predictors.core.arrays import Ints, short_repr
from schedsim.machine.nodes import NodeSets


@dataclass(frozen=True, eq=False)
class Placements:
    """The nodes of each job, by parts: a row has `offsets[row]` to `offsets[row + 1]`, nodes ascending."""

    # the node of each part, and the number of the job's pieces there, shape (n_parts,)
    node: Ints
    pieces: Ints
    offsets: Ints  # where each job's parts begin, shape (n_jobs + 1,)

    __repr__ = short_repr

    @classmethod
    def of(cls, spots: Ints, pieces: Ints) -> Self:
        """Return the placements from parts (job row, node, pieces), by starts; a restarted job's last ones.

        `pieces` has the number of pieces of each job, which its last parts add up to.

        >>> Placements.of(np.array([[1, 0, 2], [1, 3, 1], [0, 4, 1], [1, 5, 3]]), np.array([1, 3])).node.tolist()
        [4, 5]
        """
        spots = spots[np.argsort(spots[:, 0], kind="stable")]
        row, upto = spots[:, 0], np.cumsum(spots[:, 2])
        whole = np.cumsum(np.bincount(row, spots[:, 2], len(pieces)).astype(np.int64))
        spots = spots[upto > whole[row] - pieces[row]]
        offsets = np.append(0, np.cumsum(np.bincount(spots[:, 0], minlength=len(pieces)))).astype(np.int64)
        return cls(spots[:, 1].copy(), spots[:, 2].copy(), offsets)

    @property
    def job(self) -> Ints:
        """The job row of each part."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def node_sets(self) -> NodeSets:
        """Return the nodes of each job without the pieces."""
        return NodeSets.of(np.split(self.node, self.offsets[1:-1]), by_identity=True)
