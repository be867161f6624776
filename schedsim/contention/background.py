"""Load from outside the simulated jobs, and the noise job.

Utilisation of each leaf's uplink, of the file system and of its metadata server follows an Ornstein-Uhlenbeck process
with correlation time `tau`; some of the leaves also have bursts, and rare storms may hit everything at once. All loads
are constant within a step and depend on (seed, step) alone.

The defaults are ours: with 16-node jobs scattered over a machine three quarters full, they give the spread of run times
in the literature: a few percent longer for applications that compute, and two to four times for those that communicate
or write.

Each channel is an Ornstein-Uhlenbeck process in steps, with shocks by hash(seed, step, channel). To compute any time
without all earlier ones, time is cut into blocks, and each block starts some steps early: after 8 correlation times the
past counts e^-8 of a standard deviation.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from math import exp, isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.hash_random import mixed, normal, unit
from predictors.core.jit import compiled
from schedsim.machine.topology import Topology


@compiled
def wander(seed: int, channel: int, first: int, lead: int, keep: float, out: Floats) -> None:
    """Write a stationary process of mean 0 and variance 1; `keep` is its correlation from one step to the next."""
    own = mixed(seed, channel, 11)
    x, shock = normal(own, first - lead, 12), math.sqrt(1.0 - keep * keep)
    for k in range(1 - lead, len(out)):
        x = keep * x + shock * normal(own, first + k, 12)
        if k >= 0:
            out[k] = x


@compiled
def burst(
    seed: int, channel: int, first: int, lead: int, begin: float, end: float, low: float, high: float, tail: float,
    out: Floats,
) -> None:  # fmt: skip
    """Write the load of bursts: they begin and end with these probabilities per step.

    A burst's height is uniform from `low` to `high`; with a `tail` above 0 it is Pareto's from `low` on, to the power
    of -`tail`, at most `high`. Chains from different beginnings meet at the first change of either.
    """
    own = mixed(seed, channel, 21)
    on, height = unit(own, first - lead, 22) < begin / (begin + end), 0.0
    if on:
        height = _height(own, first - lead, low, high, tail)
    for k in range(1 - lead, len(out)):
        u = unit(own, first + k, 23)
        if on and u < end:
            on = False
        elif not on and u >= 1.0 - begin:
            on = True
            height = _height(own, first + k, low, high, tail)
        if k >= 0:
            out[k] = height if on else 0.0


@compiled
def _height(own: int, number: int, low: float, high: float, tail: float) -> float:
    u = unit(own, number, 24)
    if tail > 0.0:
        return float(min(high, low * (1.0 - u) ** (-1.0 / tail)))
    return float(low + (high - low) * u)


_DAY: Final = 86_400
_LEADS: Final = 8  # correlation times by which a block starts early
_MOST_STEPS: Final = 1_000_000
# channels besides the leaves, which have the numbers from 0
_COMMON: Final = -1
_IO: Final = -2
_METADATA: Final = -3
_STORM: Final = -4


@dataclass(frozen=True)
class Background:
    """Load from outside; utilisations as shares of the capacity, times in seconds.

    >>> quiet = Background.none()
    >>> quiet.block(seed=1, leaves=2, number=0)[0].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    # correlation time of the utilisations, and mean length of bursts; its ratio to the jobs' lengths decides whether
    # the present predicts the near future
    tau: float = 1800.0
    # network, io, metadata: mean utilisation of the uplinks, the file system and the metadata server, without bursts
    # and storms
    network: float = 0.10
    io: float = 0.20
    metadata: float = 0.20
    spread: float = 0.08  # standard deviation of each
    together: float = 0.5  # correlation between the uplinks
    burst_leaves: float = 0.25  # share of the leaves that have bursts
    burst_pause: float = 8.0  # mean pause between a leaf's bursts, in `tau`
    # burst_low, burst_high: a burst's height is uniform between these
    burst_low: float = 0.10
    burst_high: float = 0.50
    # mean number of storms a day; 0 for none; a storm loads all uplinks, the file system and the metadata server
    storms: float = 0.0
    storm_length: float = 7200.0  # mean length of storms
    # heights of storms are Pareto's from 0.2 on with this exponent; the smaller, the heavier the tail
    storm_tail: float = 1.5
    step: int = 60  # length of a step

    def __post_init__(self) -> None:
        if self.step < 1 or not (isfinite(self.tau) and self.step <= self.tau <= _DAY * 30):
            raise JobcastError(
                f"A background's correlation time is from its step, at least 1 s, to 30 days; got {self.tau} s, "
                f"steps of {self.step} s."
            )
        for name in ("network", "io", "metadata", "spread", "burst_low", "burst_high", "storms"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise JobcastError(f"A background's {name} must be 0 or more; got {value}.")
        for name in ("together", "burst_leaves"):
            if not 0 <= getattr(self, name) <= 1:
                raise JobcastError(f"A background's {name} must be from 0 to 1; got {getattr(self, name)}.")
        if self.burst_high < self.burst_low or not min(self.storm_tail, self.storm_length, self.burst_pause) > 0:
            raise JobcastError("Bursts need burst_low <= burst_high and a pause, storms a tail and a length, above 0.")

    @classmethod
    def none(cls, step: int = 60) -> "Background":
        """Return a background without load."""
        return cls(network=0, io=0, metadata=0, spread=0, burst_leaves=0, step=step)

    @classmethod
    def two_scales(cls, **more: Any) -> "Background":
        """Return load that changes within ten minutes, and in three episodes of about four days in 150.

        The arguments replace these parameters of the class.
        """
        return cls(**{"tau": 600.0, "storms": 3 / 150, "storm_length": 4.0 * _DAY, **more})

    @property
    def block_steps(self) -> int:
        """Steps of a block: a day, or as many as its early start has, if that is more."""
        return max(_DAY // self.step, self._lead) or 1

    @property
    def _lead(self) -> int:
        slowest = max(self.tau, self.storm_length) if self.storms else self.tau
        return min(int(_LEADS * slowest / self.step) + 1, _MOST_STEPS)

    def block(self, seed: int, leaves: int, number: int) -> Floats:
        """Return utilisations of steps `number * block_steps` and on, shape (block_steps, leaves + 2), read-only.

        Columns are the uplinks, the file system, the metadata server.
        """
        return _block(self, seed, leaves, number)


@lru_cache(maxsize=8)
def _block(background: Background, seed: int, leaves: int, number: int) -> Floats:
    b, n, lead = background, background.block_steps, background._lead
    first, keep = number * n, exp(-background.step / background.tau)

    def process(channel: int) -> Floats:
        out = np.zeros(n)
        if b.spread:
            wander(seed, channel, first, lead, keep, out)
        return out

    def bursts(channel: int, on: float, off: float, low: float, high: float, tail: float) -> Floats:
        out = np.empty(n)
        burst(seed, channel, first, lead, 1 - exp(-b.step / off), 1 - exp(-b.step / on), low, high, tail, out)
        return out

    table = np.empty((n, leaves + 2))
    common = process(_COMMON) * b.together**0.5
    for leaf in range(leaves):
        table[:, leaf] = b.network + b.spread * (common + process(leaf) * (1 - b.together) ** 0.5)
    table[:, leaves] = b.io + b.spread * process(_IO)
    table[:, leaves + 1] = b.metadata + b.spread * process(_METADATA)
    np.maximum(table, 0.0, out=table)
    with_bursts = round(b.burst_leaves * leaves)
    for i in range(with_bursts):
        leaf = i * leaves // with_bursts
        table[:, leaf] += bursts(leaf, b.tau, b.burst_pause * b.tau, b.burst_low, b.burst_high, 0.0)
    if b.storms:
        table += bursts(_STORM, b.storm_length, _DAY / b.storms, 0.2, 100.0, b.storm_tail)[:, None]
    table.flags.writeable = False
    return table


@dataclass(frozen=True)
class Noise:
    """A job that always runs, on the nodes set apart.

    >>> Noise(amplitude=1e9).sends(seed=1, now=0) == Noise(amplitude=1e9).sends(seed=1, now=119)
    True
    """

    amplitude: float = 12.5e9  # most that each of its nodes sends [bytes/s]
    # its load is constant for this long, uniform from 0 to the amplitude by hash(seed, number of the period); if it is
    # no multiple of the background's step, the load changes at the next step [s]
    period: int = 120

    def __post_init__(self) -> None:
        if not (self.amplitude >= 0 and isfinite(self.amplitude)) or self.period < 1:
            raise JobcastError(
                f"A noise job sends 0 bytes/s or more, in periods of 1 s or more; got {self.amplitude}, {self.period}."
            )

    def sends(self, seed: int, now: int) -> float:
        """Return how much each of its nodes sends [bytes/s]."""
        return self.amplitude * unit(seed, now // self.period, 41)

    def leaving(self, topology: Topology) -> npt.NDArray[np.float64]:
        """Return how much of that leaves each leaf, in multiples of one node's, shape (leaves,)."""
        n = topology.nodes - topology.for_jobs
        there = np.bincount(np.array(topology.apart, dtype=np.int64) // topology.per_leaf, minlength=topology.leaves)
        return np.asarray(there * (1 - there / max(n, 1)))
