"""Placements: on which nodes the jobs of a schedule ran, and how many pieces of each lay there."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from predictors.core.arrays import Ints, short_repr
from predictors.core.events import ENDED, JOB, KIND, STARTED, TIME
from schedsim.kernels.nodes.placement import places_of
from schedsim.machine.nodes import NodeSets
from schedsim.workload.demands import Demands
from schedsim.workload.workload import Workload


@dataclass(frozen=True, eq=False)
class Placements:
    """The nodes of each job, by parts: those of a row are `offsets[row]` to `offsets[row + 1]`, nodes ascending.

    Parameters
    ----------
    node, pieces : int64 arrays of shape (n_parts,)
        The node of each part, and how many pieces of the job lie there.
    offsets : int64 array of shape (n_jobs + 1,)
        Where each job's parts begin.
    """

    node: Ints
    pieces: Ints
    offsets: Ints

    __repr__ = short_repr

    @property
    def job(self) -> Ints:
        """The job row of each part."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def node_sets(self) -> NodeSets:
        """Return the nodes of each job without the pieces."""
        return NodeSets.of(np.split(self.node, self.offsets[1:-1]), by_identity=True)


def placements_of(workload: Workload, demands: Demands, events: Ints) -> Placements:
    """Return where every job ran, from a finished simulation's events (time, kind, job row)."""
    moves = events[(events[:, KIND] == STARTED) | (events[:, KIND] == ENDED)]
    rows = np.ascontiguousarray(moves[:, JOB])
    ends = (moves[:, KIND] == ENDED).astype(np.int64)
    keeps = (workload.run_time[rows] > 0).astype(np.int64)
    times = np.ascontiguousarray(moves[:, TIME])
    room = 4 * len(workload)
    while True:
        found: Any = np.empty((room, 3), dtype=np.int64)
        size = places_of(demands.arrays(), rows, ends, keeps, times, workload.requested[rows], found)
        if size >= 0:
            break
        room *= 2
    found = found[:size]
    found = found[np.argsort(found[:, 0], kind="stable")]
    offsets = np.append(0, np.cumsum(np.bincount(found[:, 0], minlength=len(workload)))).astype(np.int64)
    return Placements(found[:, 1].copy(), found[:, 2].copy(), offsets)
