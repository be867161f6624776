"""How long does the scheduler believe that jobs run? Estimates given beforehand, or by a forecast in the loop."""

from dataclasses import dataclass, replace
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
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


@runtime_checkable
class Outlook(Protocol):
    """A forecast for every role at once, which may think again.

    It tells the estimates of waiting jobs anew when it has learnt better, and of each job beforehand what to expect of
    it once it has run for so long: the *ladder*, which is frozen when the job starts. A rung is climbed at the first
    scheduling instant that is not before it. What expires beyond the last rung is corrected like any estimate.
    """

    @property
    def rungs(self) -> int:
        """Most rungs of a ladder, at least 1."""
        ...

    def advance(self, events: Ints, answers: Floats) -> int:
        """Take in the events since the last call; write the answers on waiting jobs, and return how many they are.

        Called at instants with submissions, and at instants with ends while jobs wait.

        Parameters
        ----------
        events : int64 array of shape (n, 3)
            Rows (time, kind, job row), see `predictors.data.events`. All ends of an instant precede its submissions.
        answers : float64 array of shape (room, 4 + 2 * rungs)
            Where to write: first a row for each submission among the events, in their order, then one for each job that
            waited already and of which something else is believed now. Columns: the job's row; the estimate for
            planning once it runs, as a candidate for backfilling, and for the order [s]; then the ladder's rungs, by
            ascending elapsed time, as pairs (elapsed time from which on it holds, running estimate) [s]. An elapsed
            time of infinity ends a ladder. There is room for all jobs that wait.
        """
        ...

    def fork(self) -> "Outlook":
        """Return a copy that learns on its own."""
        ...


Estimates = Forecast | Ints


@dataclass(frozen=True, eq=False)
class Separate:
    """Different estimates for planning with running jobs, for asking whether a waiting job may start, for the order."""

    running: Estimates
    candidates: Estimates
    order: Estimates


_LEAST_ANSWERS: Final = 64


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
    """Estimates as the kernels read them: `seconds` of shape (roles, n_jobs), and who writes into which row.

    With an outlook, `seconds` holds its answers instead.
    """

    seconds: Floats
    forecasts: tuple[tuple[Forecast, Floats], ...]
    outlook: Outlook | None = None

    @classmethod
    def of(cls, estimates: Estimates | Separate | Outlook, workload: Workload) -> Self:
        """Check and lay out estimates; those that a forecast will write are NaN until then."""
        if isinstance(estimates, Outlook):
            if estimates.rungs < 1:
                raise JobcastError(f"An outlook's ladders need room for 1 rung or more; got {estimates.rungs}.")
            return cls(np.full((_LEAST_ANSWERS, at.A_LADDER + 2 * estimates.rungs), np.nan), (), estimates)
        roles: tuple[Estimates, ...] = (estimates,) if not isinstance(estimates, Separate) else (
            estimates.running, estimates.candidates, estimates.order,
        )  # fmt: skip
        seconds = np.full((len(roles), len(workload)), np.nan)
        forecasts = []
        for row, role in zip(seconds, roles, strict=True):
            if isinstance(role, Outlook):
                raise JobcastError("An outlook speaks for all roles at once: give it alone, not as a part of Separate.")
            if isinstance(role, Forecast):
                forecasts.append((role, row))
            else:
                row[:] = checked(role, workload)
        return cls(seconds, tuple(forecasts))

    @property
    def in_loop(self) -> bool:
        """Whether something is asked while the simulation goes on."""
        return bool(self.forecasts) or self.outlook is not None

    @property
    def several(self) -> bool:
        """Whether one job may have different estimates for different roles."""
        return self.outlook is not None or len(self.seconds) > 1

    @property
    def rungs(self) -> int:
        """Most rungs of a ladder; 0 without an outlook."""
        return 0 if self.outlook is None else self.outlook.rungs

    def tell_past(self, events: Ints) -> None:
        """Tell forecasts what happened before they came; what they say of jobs submitted by then is not used."""
        for forecast, row in self.forecasts:
            forecast.advance(events, row)

    def grown(self) -> Self:
        """Return a source with room for twice as many answers."""
        return replace(self, seconds=np.full((2 * len(self.seconds), self.seconds.shape[1]), np.nan))

    def fork(self) -> Self:
        """Return a source for a copy of the simulation.

        Raises
        ------
        JobcastError
            If a forecast has no method `fork`.
        """
        if self.outlook is not None:
            return replace(self, seconds=np.full_like(self.seconds, np.nan), outlook=self.outlook.fork())
        copies = []
        for forecast, row in self.forecasts:
            if not isinstance(forecast, Forkable):
                raise JobcastError(
                    f"A simulation with {type(forecast).__name__} in the loop cannot be copied: it has no fork(). "
                    "Give the copy estimates of its own."
                )
            copies.append((forecast.fork(), row))
        return replace(self, forecasts=tuple(copies))
