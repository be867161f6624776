"""Slow changes of single applications: episodes that last days, and drift.

On real machines the congestion that applications share lasts some ten minutes, while an application's own slow-downs
last for days: another input, library or file layout, a step after an update. Such changes are no congestion: no counter
shows them, and delaying a job by minutes does not avoid them. They lengthen the work of jobs that start in the
meantime.

The defaults are ours, chosen so that a campaign of some months has some episodes. In 418 and 391 public repeated runs
on Frontier and Perlmutter [1]_ these are four to eight times as rare: in five months one of four applications had one,
on one of the two machines, for four days and up to three times as slow. The 95th percentile of an application was 1.1
to 1.3 times its median there, by drift and all else; how much of that is drift was not measured.

.. [1] Parallel Software and Systems Group. hpcgroup/perf-variability, repeated runs of AMG2023, MILC, deepCAM and
   nanoGPT, December 2024 to April 2025.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache
from math import exp, isfinite
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from schedsim.contention.background import burst, wander

_DAY: Final = 86_400
_STEP: Final = 3_600  # a job's factor is that of the hour in which it starts
_BLOCK: Final = 24 * 64  # steps
_LEADS: Final = 8  # correlation times that a block is reached from


@dataclass(frozen=True)
class Episodes:
    """Episodes and drift of single applications.

    >>> calm = Episodes(every=0, drift=0)
    >>> calm.factor(seed=1, application="AMG", clock=10**7)
    1.0
    >>> 1.2 <= Episodes(every=1e-9, length=1e6, drift=0).factor(1, "AMG", 0) <= 2.0
    True
    """

    every: float = 150.0  # days between the episodes of one application on average; 0: no episodes
    length: float = 4.0  # mean length of episodes in days
    # low, high: the work takes 1 + u times as long in an episode, u uniform between these
    low: float = 0.2
    high: float = 1.0
    drift: float = 0.05  # standard deviation of the logarithm of the slowly changing factor; 0: no drift
    drift_days: float = 30.0  # its correlation time

    def __post_init__(self) -> None:
        for name in ("every", "low", "high", "drift"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise JobcastError(f"Episodes: {name} must be 0 or more; got {value}.")
        for name in ("length", "drift_days"):
            value = getattr(self, name)
            if not (value > 0 and isfinite(value)):
                raise JobcastError(f"Episodes: {name} must be above 0 days; got {value}.")
        if self.high < self.low:
            raise JobcastError(f"Episodes: low must not be above high; got {self.low} and {self.high}.")

    def factor(self, seed: int, application: str, clock: int) -> float:
        """Return the factor on the work of a job that starts at this second of the model's clock."""
        number, place = divmod(clock // _STEP, _BLOCK)
        return float(_factors(self, seed, zlib.crc32(application.encode()), number)[place])


@lru_cache(maxsize=64)
def _factors(episodes: Episodes, seed: int, channel: int, number: int) -> Floats:
    """Return the factors of one application in the hours of a block, by hash of seed, application and hour."""
    first, out = number * _BLOCK, np.ones(_BLOCK)
    if episodes.drift:
        slow, keep = np.zeros(_BLOCK), exp(-_STEP / (episodes.drift_days * _DAY))
        wander(seed, channel, first, int(_LEADS * episodes.drift_days * _DAY / _STEP) + 1, keep, slow)
        out *= np.exp(episodes.drift * slow)
    if episodes.every:
        on, off = episodes.length * _DAY, episodes.every * _DAY
        lead = min(int(_LEADS * on / _STEP) + 1, 1_000_000)
        begin, end = 1 - exp(-_STEP / off), 1 - exp(-_STEP / on)
        added = np.zeros(_BLOCK)
        burst(seed, channel, first, lead, begin, end, episodes.low, episodes.high, 0.0, added)
        out *= 1.0 + added
    out.flags.writeable = False
    return out
