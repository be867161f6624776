"""Nodes of a simulation, of which jobs take processors, GPUs and memory."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from schedsim.kernels.nodes.records import NodeArrays
from schedsim.workload.workload import Workload

_MUTABLE = ("nodes", "later", "at_promise", "tried", "parts", "first_part", "chosen", "chosen_pieces", "one")
"""The arrays that a fork copies; it shares the others."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The nodes and which job has what of them, at one moment of a simulation.

    Parameters
    ----------
    arrays : NodeArrays
        As the kernels take them.
    """

    arrays: NodeArrays

    @classmethod
    def of(cls, workload: Workload) -> "Placing | None":
        """Return the nodes of a simulation before its first second; None where jobs ask for processors alone."""
        if workload.demands is None:
            return None
        return cls(workload.demands.arrays())

    def fork(self) -> Self:
        """Return an independent copy."""
        copies: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in _MUTABLE if name != "parts"}
        parts: Any = np.empty_like(self.arrays.parts)
        used = int(self.arrays.one[0].n_parts)
        parts[:used] = self.arrays.parts[:used]
        return type(self)(self.arrays._replace(parts=parts, **copies))
