"""Kernel of `schedsim.contention.background`: what others do to the machine, step by step.

Each channel is an Ornstein-Uhlenbeck process in steps, its shocks drawn by hash(seed, step, channel). So that any time
can be looked at without going through all that came before, time is cut into blocks, and each block is reached from
some steps before it: after 8 correlation times what was before counts e^-8 of a standard deviation.
"""

import math

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled
from schedsim._kernels_draws import normal, unit
from schedsim._kernels_orders import mixed

Floats = npt.NDArray[np.float64]


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
    """Write what bursts load: off, they begin, and on, they end, with these probabilities a step.

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
