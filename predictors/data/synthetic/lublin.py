"""The model of Lublin and Feitelson: how wide jobs are, how long they run, when they come.

The batch jobs of the paper, with the parameters that its authors publish: no user, no request, no dependence between
jobs, no week and no season. `predictors.data.synthetic.generate` puts users and requests on top.

.. [1] U. Lublin, D. G. Feitelson. "The workload on parallel supercomputers: modeling the characteristics of rigid
       jobs". Journal of Parallel and Distributed Computing 63(11), 2003. doi:10.1016/S0743-7315(03)00108-4
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from predictors.core.arrays import Floats, Ints
from predictors.data.synthetic._kernels import mixture_quantile

DAY: Final = 86_400
SLOTS: Final = 48
SLOT: Final = DAY // SLOTS
_KNOTS: Final = 12_000  # steps of the table of ln(run time): linear between them, off by less than a second at 45 h


@dataclass(frozen=True)
class Lublin:
    """The model's parameters; the defaults are the published ones for batch jobs.

    A gamma distribution is (shape, scale). Sizes are log2(processors), times ln(seconds).
    """

    # serial, power_of_two: probability of a job on one processor, and of a parallel one rounded to a power of two
    serial: float = 0.2927
    power_of_two: float = 0.6686
    # low, tail, first: parallel sizes are uniform in [low, log2(machine) - tail] with probability `first`, else uniform
    # in the rest up to log2(machine)
    low: float = 1.2
    tail: float = 2.5
    first: float = 0.875
    # short, long: the two gammas of run times
    short: tuple[float, float] = (6.57, 0.823)
    long: tuple[float, float] = (639.1, 0.0156)
    # slope, intercept: probability of the short one: slope * size + intercept, within [0, 1]
    slope: float = -0.003
    intercept: float = 0.6986
    gap: tuple[float, float] = (6.0415, 0.8531)  # gamma of the times between arrivals, in the rush hours
    rush_ratio: float = 1.0519  # factor on its shape that turns rush hours into all hours
    cycle: tuple[float, float] = (6.1271, 5.2740)  # gamma of the daily cycle, in half hours since midnight
    cycle_start: int = 11  # first half hour of the cycle; what lies behind midnight wraps
    # longest, longest_gap: longer run times and gaps are drawn again: 45.2 h and 5.1 days
    longest: float = 12.0
    longest_gap: float = 13.0


BATCH: Final = Lublin()


def draw_sizes(rng: np.random.Generator, n_jobs: int, procs: int, model: Lublin = BATCH) -> Ints:
    """Draw how many processors each job uses, 1 to `procs`; what would round up beyond becomes the widest power of two.

    >>> draw_sizes(np.random.default_rng(1), 8, 64).tolist()
    [4, 4, 1, 4, 8, 4, 4, 8]
    """
    high = np.log2(procs)
    low = min(model.low, high)
    middle = max(low, high - model.tail)
    kind, stage, place = rng.random(n_jobs), rng.random(n_jobs), rng.random(n_jobs)
    log_size = np.where(stage < model.first, low + (middle - low) * place, middle + (high - middle) * place)
    rounded = np.minimum(np.floor(log_size + 0.5), np.floor(high))
    log_size = np.where(kind < model.serial + model.power_of_two, rounded, log_size)
    log_size[kind < model.serial] = 0.0
    sizes: Ints = np.floor(np.exp2(log_size) + 0.5).astype(np.int64)
    return sizes


def run_time_quantile(
    share: Floats,  # shape (n_jobs,); within [0, 1]
    sizes: Ints,  # shape (n_jobs,); processors of each job
    model: Lublin = BATCH,
) -> Ints:
    """Return the run time [s] that a share of the jobs of a size stay below: uniform shares give the model's run times.

    >>> run_time_quantile(np.array([0.1, 0.5, 0.9]), np.array([1, 1, 1])).tolist()
    [25, 596, 26731]
    """
    log_seconds = np.linspace(0.0, model.longest, _KNOTS + 1)
    short, long = (scipy.special.gammainc(shape, log_seconds / scale) for shape, scale in (model.short, model.long))
    weight = np.clip(model.slope * sizes + model.intercept, 0.0, 1.0)
    position = mixture_quantile(share, weight, short, long)
    return np.maximum(1, np.exp(position * (model.longest / _KNOTS))).astype(np.int64)


def draw_gaps(rng: np.random.Generator, n_jobs: int, model: Lublin = BATCH) -> Floats:
    """Draw the times between arrivals [s] of a day without cycle; shape (n_jobs,)."""
    shape, scale = model.gap[0] * model.rush_ratio, model.gap[1]
    gaps = rng.gamma(shape, scale, n_jobs)
    while len(long := np.flatnonzero(gaps > model.longest_gap)):
        gaps[long] = rng.gamma(shape, scale, len(long))
    return np.exp(gaps)


def day_weights(model: Lublin = BATCH) -> Floats:
    """Return how many arrivals each half hour of the day gets, relative to the mean half hour; shape (48,).

    >>> weights = day_weights()
    >>> int(weights.argmax()) / 2, int(weights.argmin()) / 2, round(float(weights.max() / weights.min()), 1)
    (13.0, 4.5, 7.1)
    """
    half_hours = np.arange(model.cycle_start, model.cycle_start + SLOTS)
    shape, scale = model.cycle
    weights = np.zeros(SLOTS)
    before, after = (scipy.special.gammainc(shape, (half_hours + by) / scale) for by in (-0.5, 0.5))
    weights[(half_hours - 1) % SLOTS] = after - before
    relative: Floats = weights / weights.mean()
    return relative


def wall_clock(
    even: Floats,  # even seconds since a midnight: cumulated gaps
    model: Lublin = BATCH,
) -> Floats:
    """Bend even time into the daily cycle: half hours of weight w pass w times as many seconds; days stay."""
    paid = np.concatenate(([0.0], np.cumsum(day_weights(model)))) * SLOT
    days = np.floor(even / DAY)
    wall: Floats = days * DAY + np.interp(even - days * DAY, paid, np.arange(SLOTS + 1) * float(SLOT))
    return wall
