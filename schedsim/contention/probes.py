"""What do the two benchmarks measure just before a job? A ring of 100 MB messages and an all-reduce over its nodes."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim.contention._kernels_probes import measure

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Probes:
    """Waits of `t0 (1 + weight g)`, give or take, where g is the queueing penalty that the call meets.

    A node's Send meets that of its own leaf's uplink, its Recv that of its predecessor's, an AllReduce the worst of
    all; on one leaf nothing leaves it, and all are undisturbed.

    Parameters
    ----------
    send, receive, reduce : float
        t0: waits on an idle machine, over 10, 10 and 5 rounds [s].
    weight : float
        How much of the penalty is felt.
    jitter : float
        Standard deviation of the logarithm of each node's wait.
    """

    send: float = 0.08
    receive: float = 0.08
    reduce: float = 0.10
    weight: float = 0.5
    jitter: float = 0.05

    def __post_init__(self) -> None:
        for name in ("send", "receive", "reduce", "weight", "jitter"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise JobcastError(f"A probe's {name} must be 0 or more; got {value}.")

    def measure(self, seed: int, job_id: int, nodes: Ints, per_leaf: int, load: Floats, most: float) -> Floats:
        """Return the nine figures in the order of `predictors.data.runs.PROBES` [s]."""
        out, idle = np.empty(9), np.array([self.send, self.receive, self.reduce])
        measure(seed, job_id, nodes, per_leaf, load, most, idle, self.weight, self.jitter, out)
        return out
