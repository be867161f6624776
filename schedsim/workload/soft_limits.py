"""Soft limits: estimates in the form that Slurm and PBS can hold, and what these schedulers plan by them.

A soft limit is a run time that a scheduler plans by while the hard limit, the requested time, still ends the job.
Slurm's (`TimeMin` with `SchedulerParameters=time_min_as_soft_limit`, from 23.11 on) are whole minutes, rounded up.
Until 25.05.3 it planned running jobs by their hard limits, from 25.05.4 on by the soft ones. PBS's `soft_walltime` has
seconds and serves both. The correction replaces a soft limit that has passed, see
`schedsim.kernels.corrections`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.events import JOB, KIND, SUBMITTED, Forecast, Forkable
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate, checked
from schedsim.workload.workload import Workload

MINUTE: Final = 60


class Rounded:
    """A `Forecast` with answers rounded up to whole steps, as far as the requested times allow.

    `step` is in seconds; the requested times [s], shape (n_jobs,), are the hard limits.
    """

    def __init__(self, inner: Forecast, step: int, requested: Ints) -> None:
        self.inner: Final = inner
        self.given = np.full(len(requested), np.nan)  # the soft limits as given [s]; NaN before a job's submission
        self._step, self._requested = step, requested

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        self.inner.advance(events, seconds)
        rows = events[events[:, KIND] == SUBMITTED, JOB]
        seconds[rows] = rounded_up(seconds[rows], self._step, self._requested[rows])
        self.given[rows] = seconds[rows]

    def fork(self) -> Self:
        """Return a copy that goes on by itself."""
        if not isinstance(self.inner, Forkable):
            raise JobcastError(f"{type(self.inner).__name__} cannot be copied: it has no fork().")
        copy = type(self)(self.inner.fork(), self._step, self._requested)
        copy.given[:] = self.given
        return copy


def rounded_up(seconds: Floats, step: int, requested: Ints) -> Floats:
    """Return seconds rounded up to whole steps, at least one, at most the requested times.

    >>> rounded_up(np.array([0.5, 60.0, 61.0, 900.0]), 60, np.array([600, 600, 600, 890])).tolist()
    [60.0, 60.0, 120.0, 890.0]
    """
    up: Floats = np.minimum(np.maximum(np.ceil(seconds / step), 1.0) * step, requested)
    return up


@dataclass(frozen=True)
class SoftLimits:
    """How a scheduler holds soft limits."""

    step: int  # they are rounded up to its multiples [s]
    # whether running jobs are planned by their hard limits; waiting ones are always planned by the soft ones
    running_by_hard: bool
    correction: str  # what replaces a soft limit that has passed

    def of(self, estimates: Estimates | Separate | RevisedEstimates, workload: Workload) -> "Given":
        """Return estimates as this scheduler holds them: one per job, as it has one soft limit per job."""
        if isinstance(estimates, Separate):
            raise JobcastError(
                "A scheduler has one soft limit per job, not an estimate for each role: name one predictor."
            )
        soft: Ints | Rounded
        if isinstance(estimates, np.ndarray):
            whole = checked(estimates, workload)
            soft = rounded_up(whole.astype(np.float64), self.step, workload.requested).astype(np.int64)
        elif isinstance(estimates, RevisedEstimates):
            raise JobcastError(
                "A scheduler has one soft limit per job; revised estimates (careful, balanced, bold) are several: name "
                "one predictor."
            )
        else:
            soft = Rounded(estimates, self.step, workload.requested)
        used = Separate(workload.requested, soft, soft) if self.running_by_hard else soft
        return Given(soft, used)


@dataclass(frozen=True, eq=False)
class Given:
    """Soft limits, and the estimates that a simulation plans by with them."""

    soft: Ints | Rounded
    estimates: Estimates | Separate

    @property
    def seconds(self) -> Floats:
        """The soft limit of each job [s]; a forecast's are known once the simulation has asked for them."""
        return self.soft.given if isinstance(self.soft, Rounded) else self.soft.astype(np.float64)

    def figures(self, run_time: Ints) -> dict[str, float]:
        """Return the share of jobs with too short a soft limit, and by how much it was too short: mean and median [s].

        Means of no job are NaN.

        >>> soft = np.array([60, 60, 120, 600])
        >>> Given(soft, soft).figures(np.array([50, 90, 180, 600]))
        {'soft_too_short': 0.5, 'soft_short_by_mean_s': 45.0, 'soft_short_by_median_s': 45.0}
        """
        short = run_time - self.seconds
        late = short[short > 0]
        return {
            "soft_too_short": float((short > 0).mean()) if len(short) else float("nan"),
            "soft_short_by_mean_s": float(late.mean()) if len(late) else float("nan"),
            "soft_short_by_median_s": float(np.median(late)) if len(late) else float("nan"),
        }


SOFT_LIMITS: Final[Mapping[str, SoftLimits]] = MappingProxyType(
    {
        "slurm": SoftLimits(MINUTE, False, "slurm"),
        "slurm-23.11": SoftLimits(MINUTE, True, "slurm"),
        "pbs": SoftLimits(1, False, "pbs"),
    }
)
"""By name: Slurm from 25.05.4 on, Slurm 23.11 to 25.05.3, PBS."""


def soft_limits_named(name: str) -> SoftLimits:
    """Return how a scheduler holds soft limits, by its name.

    >>> soft_limits_named("slurm").step
    60
    """
    if name not in SOFT_LIMITS:
        raise unknown_name("kind of soft limits", name, SOFT_LIMITS)
    return SOFT_LIMITS[name]
