"""What does the noise job send? All-to-all traffic whose strength changes from one period to the next."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim._kernels_draws import unit
from schedsim.topology import Topology


@dataclass(frozen=True)
class Noise:
    """A job on the nodes set apart, which always runs.

    Parameters
    ----------
    amplitude : float
        What each of its nodes sends at most [bytes/s].
    period : int
        For so long it sends as much as it does, from 0 to the amplitude, uniform by hash(seed, number of the period);
        a multiple of the background's step, else it changes at the next step [s].

    Examples
    --------
    >>> Noise(amplitude=1e9).sends(seed=1, now=0) == Noise(amplitude=1e9).sends(seed=1, now=119)
    True
    """

    amplitude: float = 12.5e9
    period: int = 120

    def __post_init__(self) -> None:
        if not (self.amplitude >= 0 and isfinite(self.amplitude)) or self.period < 1:
            raise JobcastError(
                f"A noise job sends 0 bytes/s or more, in periods of 1 s or more; got {self.amplitude}, {self.period}."
            )

    def sends(self, seed: int, now: int) -> float:
        """Return what each of its nodes sends [bytes/s]."""
        return self.amplitude * unit(seed, now // self.period, 41)

    def leaving(self, topology: Topology) -> npt.NDArray[np.float64]:
        """Return how much of that leaves each leaf, in shares of one node's, shape (leaves,)."""
        n = topology.nodes - topology.for_jobs
        there = np.bincount(np.array(topology.apart, dtype=np.int64) // topology.per_leaf, minlength=topology.leaves)
        return np.asarray(there * (1 - there / max(n, 1)))
