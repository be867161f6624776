"""The fat tree: capacities of links."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError
from schedsim.machine.topology import Topology


@dataclass(frozen=True)
class Fabric:
    """A fat tree of leaf switches and a parallel file system.

    >>> Fabric().uplink(Topology(16, 32)) / 1e9
    200.0
    """

    injection: float = 12.5e9  # what a node can send and receive [bytes/s]; 12.5e9 is 100 Gbit/s
    # what a leaf's nodes can send over what its uplink carries: the uplink's capacity is nodes x injection / this
    oversubscription: float = 2.0
    files: float = 60e9  # capacity of the file system [bytes/s]
    calls: float = 60e3  # operations of its metadata server [1/s]
    # largest utilisation that counts, so that penalties stay finite; with 0.95 the largest penalty is 19
    most: float = 0.95
    # clip_network, clip_io: largest slow-down of a job by the network, and by the file system
    clip_network: float = 4.0
    clip_io: float = 6.0

    def __post_init__(self) -> None:
        for name in ("injection", "oversubscription", "files", "calls"):
            value = getattr(self, name)
            if not (value > 0 and isfinite(value)):
                raise JobcastError(f"A fabric's {name} must be above 0; got {value}.")
        if not 0 < self.most < 1:
            raise JobcastError(f"A fabric's highest utilisation must be between 0 and 1; got {self.most}.")
        if not (self.clip_network >= 1 and self.clip_io >= 1):
            raise JobcastError("A fabric's clips are factors of 1 or more; infinity for none.")

    def uplink(self, topology: Topology) -> float:
        """Return the capacity of a leaf's uplink [bytes/s]."""
        return topology.per_leaf * self.injection / self.oversubscription

    def vector(self, topology: Topology) -> npt.NDArray[np.float64]:
        """Return its numbers for the kernels, see `_loads`."""
        uplink = self.uplink(topology)
        return np.array(
            [uplink, self.files, self.calls, self.most, self.clip_network, self.clip_io, self.injection]
        )  # fmt: skip
