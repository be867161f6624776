"""What do the nodes' counters show? Rates from the loads of one moment."""

from dataclasses import dataclass
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from predictors.data.counters import COUNTERS, DRIVERS
from schedsim.contention._kernels_rates import sample

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rates = npt.NDArray[np.float32]

_DRIVER: Final = np.array([list(DRIVERS).index(counter.driver) for counter in COUNTERS], dtype=np.int64)
_SCALE: Final = np.array([counter.scale for counter in COUNTERS], dtype=np.float64)


class Sink(Protocol):
    """Something that takes the counters' rates as they come, such as a ring that keeps the last five minutes."""

    def push(self, time: float, rates: Rates) -> None:
        """Take a sample: time [s], and rates per second of shape (nodes, 90), NaN where lost; not to be kept."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The loads from one second (left out) to another, in which nothing changes.

    Parameters
    ----------
    since, until : int
        Seconds of the world's clock.
    owner : int64 array of shape (nodes,)
        The place of each node's job in the arrays below, or `IDLE` or `NOISE`.
    spread : int64 array of shape (m, leaves)
        Nodes of each job on each leaf.
    width : int64 array of shape (m,)
        Nodes of each job.
    about : float64 array of shape (m, 7)
        Its application, see `App.vector`.
    speed : float64 array of shape (m,)
        Its speed; 1 on a machine that disturbs nobody.
    load : float64 array of shape (leaves + 2,)
        Utilisation of the uplinks, the file system, the metadata server.
    noise : float
        What each node of the noise job sends [bytes/s].
    """

    since: int
    until: int
    owner: Ints
    spread: Ints
    width: Ints
    about: Floats
    speed: Floats
    load: Floats
    noise: float

    def copy(self) -> Self:
        """Return a frame that stays as it is."""
        return type(self)(
            self.since, self.until, self.owner.copy(), self.spread.copy(), self.width.copy(), self.about.copy(),
            self.speed.copy(), self.load.copy(), self.noise,
        )  # fmt: skip

    def rates(self, machine: Floats, seed: int, index: int, lost: float, out: Rates) -> None:
        """Write the rates of sample number `index`, which lies in this frame, into `out` of shape (nodes, 90)."""
        sample(
            self.owner, self.spread, self.width, self.about, self.speed, self.load, self.noise, machine,
            _DRIVER, _SCALE, seed, index, lost, out,
        )  # fmt: skip
