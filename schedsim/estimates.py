"""How long does the scheduler believe that jobs run? Estimates given beforehand, or by a forecast in the loop."""

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@runtime_checkable
class Forecast(Protocol):
    """A source of estimates that learns from the events of the simulation as they happen."""

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for every submission among them.

        Parameters
        ----------
        events : int64 array of shape (n, 3)
            Rows (time, kind, job row), see `predictors.data.events`. All ends of an instant precede its submissions.
        seconds : float64 array of shape (n_jobs,)
            Where to write. The engine cuts what it finds to [1, requested] and to whole seconds.
        """


@runtime_checkable
class Forkable(Forecast, Protocol):
    """A forecast that can be copied with a simulation."""

    def fork(self) -> "Forecast":
        """Return a copy that learns on its own."""


Estimates = Forecast | Ints


@dataclass(frozen=True, eq=False)
class Separate:
    """Different estimates for planning with running jobs, for asking whether a waiting job may start, for the order."""

    running: Estimates
    candidates: Estimates
    order: Estimates


N_ROLES: Final = 3


def requested(workload: Workload) -> Ints:
    """Return what the users asked for [s]."""
    return workload.requested


def clairvoyant(workload: Workload) -> Ints:
    """Return the true run times [s], cut at the requested time, at least 1."""
    return np.clip(workload.run_time, 1, workload.requested)


def checked(estimates: npt.ArrayLike, workload: Workload) -> Ints:
    """Return estimates given beforehand as an int64 array.

    Raises
    ------
    JobcastError
        If they are not one positive whole number of seconds a job.

    Examples
    --------
    >>> w = Workload.from_columns([7], submit=[0], procs=[1], requested=[60], run_time=[30], machine_procs=8)
    >>> checked([0], w)
    Traceback (most recent call last):
    predictors.data.errors.JobcastError: Estimates must be positive whole seconds; job 7 has 0.
    """
    given = np.asarray(estimates)
    if given.shape != (len(workload),):
        raise JobcastError(f"Estimates have shape {given.shape}; one for each of {len(workload)} jobs is needed.")
    if given.dtype.kind not in "iuf":
        raise JobcastError(f"Estimates must be positive whole seconds; got an array of {given.dtype}.")
    with np.errstate(invalid="ignore"):
        bad = ~((given >= 1) & (given == np.floor(given)))
    if bad.any():
        row = int(np.argmax(bad))
        raise JobcastError(f"Estimates must be positive whole seconds; job {workload.job_id[row]} has {given[row]}.")
    return np.minimum(given.astype(np.int64), workload.requested)


@dataclass(frozen=True, eq=False)
class Source:
    """Estimates as the kernels read them: `seconds` of shape (roles, n_jobs), and who writes into which row."""

    seconds: Floats
    forecasts: tuple[tuple[Forecast, Floats], ...]

    @classmethod
    def of(cls, estimates: Estimates | Separate, workload: Workload) -> "Source":
        """Check and lay out estimates; those that a forecast will write are NaN until then."""
        roles: tuple[Estimates, ...] = (estimates,) if not isinstance(estimates, Separate) else (
            estimates.running, estimates.candidates, estimates.order,
        )  # fmt: skip
        seconds = np.full((len(roles), len(workload)), np.nan)
        forecasts = []
        for row, role in zip(seconds, roles, strict=True):
            if isinstance(role, Forecast):
                forecasts.append((role, row))
            else:
                row[:] = checked(role, workload)
        return cls(seconds, tuple(forecasts))

    def fork(self) -> "Source":
        """Return a source for a copy of the simulation.

        Raises
        ------
        JobcastError
            If a forecast has no method `fork`.
        """
        copies = []
        for forecast, row in self.forecasts:
            if not isinstance(forecast, Forkable):
                raise JobcastError(
                    f"A simulation with {type(forecast).__name__} in the loop cannot be copied: it has no fork(). "
                    "Give the copy estimates of its own."
                )
            copies.append((forecast.fork(), row))
        return Source(self.seconds, tuple(copies))
