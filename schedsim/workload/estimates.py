"""Estimates of run time: given beforehand, or by a forecast in the loop."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import Forecast, Forkable
from schedsim.kernels.records import Estimates as Records
from schedsim.workload.workload import Workload


@runtime_checkable
class RevisedEstimates(Protocol):
    """A forecast for every role at once, which may revise its estimates.

    It revises the estimates of waiting jobs when it has learnt more. For each job it also says in advance what to
    expect once the job has run for a given time: the *estimate steps*, which are frozen when the job starts. A step
    takes effect at the first scheduling instant that is not before it. The last step expires like any estimate.
    """

    @property
    def n_steps(self) -> int:
        """Most estimate steps, at least 1."""
        ...

    def advance(self, events: Ints, answers: Floats) -> int:
        """Take in the events since the last call; write the answers on waiting jobs, and return how many they are.

        Called at instants with submissions, and at instants with ends while jobs wait.

        Parameters
        ----------
        events : int64 array of shape (n, 3)
            Rows (time, kind, job row), see `predictors.core.events`. All ends of an instant precede its submissions.
        answers : float64 array of shape (room, 4 + 2 * steps)
            Where to write: first a row for each submission among the events, in their order, then one for each job that
            waited already and has a new estimate. Columns: the job's row; the estimate for
            planning once it runs, as a candidate for backfilling, and for the order [s]; then the steps, by
            ascending elapsed time, as pairs (elapsed time from which on it holds, running estimate) [s]. An elapsed
            time of infinity ends the steps. There is room for all jobs that wait.
        """
        ...

    def fork(self) -> "RevisedEstimates":
        """Return a copy that learns on its own."""
        ...


@runtime_checkable
class GroupedEstimates(RevisedEstimates, Protocol):
    """Revised estimates that are always the same for all waiting jobs of a group, and can be revised as one."""

    @property
    def group_of(self) -> Ints:
        """The number of each job's group, from 0."""
        ...

    def by_group(self) -> None:
        """Answer by group from now on: a revision of one waiting job holds for all waiting jobs of its group."""
        ...


@runtime_checkable
class PolledEstimates(RevisedEstimates, Protocol):
    """Revised estimates of a program next to the scheduler, which looks at the queue at polls.

    `advance` is then called at instants with submissions alone, and answers for these.
    """

    @property
    def every(self) -> int:
        """Polls are at the multiples of so many seconds, at least 1, if anything has happened since the last one."""
        ...

    def poll(self, now: int, events: Ints, answers: Floats) -> int:
        """Do what `advance` does, and revise the estimates of jobs that waited before second `now`."""
        ...


Estimates = Forecast | Ints


@dataclass(frozen=True, eq=False)
class Separate:
    """Different estimates for planning with running jobs, for starting waiting jobs, and for the order."""

    running: Estimates
    candidates: Estimates
    order: Estimates

    __repr__ = short_repr


_LEAST_ANSWERS: Final = 64
_NO_ESTIMATES: Final = np.empty(0)


def _answers(room: int, n_steps: int) -> Floats:
    return np.full((room, 4 + 2 * n_steps), np.nan)


def requested(workload: Workload) -> Ints:
    """Return what the users asked for [s]."""
    return workload.requested


def clairvoyant(workload: Workload) -> Ints:
    """Return the true run times [s], cut at the requested time, at least 1."""
    return np.clip(workload.run_time, 1, workload.requested)


def cqsim(workload: Workload) -> Separate:
    """Return estimates as the simulator CQSim uses them, for comparison with what was published with it.

    Requested times plan running jobs and the order, but the true run time decides whether a waiting job may be
    backfilled. No scheduler knows that: results by these estimates look ahead.

    >>> w = Workload.from_columns([7], submit=[0], procs=[1], requested=[60], run_time=[30], machine_procs=8)
    >>> cqsim(w).running.tolist(), cqsim(w).candidates.tolist()
    ([60], [30])
    """
    return Separate(requested(workload), clairvoyant(workload), requested(workload))


def checked(estimates: npt.ArrayLike, workload: Workload) -> Ints:
    """Return estimates given beforehand as an int64 array.

    >>> w = Workload.from_columns([7], submit=[0], procs=[1], requested=[60], run_time=[30], machine_procs=8)
    >>> checked([0], w)
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: Estimates must be positive whole seconds; job 7 has 0.
    """
    given = np.asarray(estimates)
    if given.shape != (len(workload),):
        raise JobcastError(f"Estimates have shape {given.shape}; one for each of {len(workload)} jobs is needed.")
    if given.dtype.kind not in "iuf":
        raise JobcastError(f"Estimates must be positive whole seconds; got an array of {given.dtype}.")
    bad = ~(given >= 1)
    if given.dtype.kind == "f":
        bad |= given != np.floor(given)
    if bad.any():
        row = int(np.argmax(bad))
        raise JobcastError(f"Estimates must be positive whole seconds; job {workload.job_id[row]} has {given[row]}.")
    return np.minimum(given.astype(np.int64), workload.requested)


@dataclass(frozen=True, eq=False)
class Source:
    """Estimates as the kernels read them, and who writes them."""

    # estimates [s]: one for all roles, or for planning with running jobs, for candidates and for the order, shape
    # (n_jobs,)
    given: tuple[Floats, ...]
    forecasts: tuple[tuple[Forecast, Floats], ...]  # who writes into which of them in the loop
    answers: Floats  # where revised estimates are written, see `RevisedEstimates.advance`, shape (room, 4 + 2 * steps)
    revised: RevisedEstimates | None = None  # a forecast for every role at once

    @classmethod
    def of(cls, estimates: Estimates | Separate | RevisedEstimates, workload: Workload) -> Self:
        """Check and lay out estimates; those that a forecast will write are NaN until then."""
        if not isinstance(estimates, np.ndarray) and isinstance(estimates, RevisedEstimates):
            if estimates.n_steps < 1:
                raise JobcastError(f"Revised estimates need room for 1 step or more; got {estimates.n_steps}.")
            return cls((_NO_ESTIMATES,), (), _answers(_LEAST_ANSWERS, estimates.n_steps), estimates)
        roles: tuple[Estimates, ...] = (estimates,) if not isinstance(estimates, Separate) else (
            estimates.running, estimates.candidates, estimates.order,
        )  # fmt: skip
        given, forecasts = list[Floats](), list[tuple[Forecast, Floats]]()
        asked: dict[int, Floats] = {}  # a forecast of several roles is asked once
        for role in roles:
            if isinstance(role, np.ndarray) or not isinstance(role, Forecast):
                given.append(checked(role, workload).astype(np.float64))
            elif isinstance(role, RevisedEstimates):
                raise JobcastError(
                    "Revised estimates are for all roles at once: give them alone, not as a part of Separate."
                )
            elif id(role) in asked:
                given.append(asked[id(role)])
            else:
                given.append(np.full(len(workload), np.nan))
                forecasts.append((role, given[-1]))
                asked[id(role)] = given[-1]
        return cls(tuple(given), tuple(forecasts), _answers(2, 1))

    @cached_property
    def estimates(self) -> Records:
        """The estimates as the kernels read them, on the same memory."""
        running, candidate, order = self.given if len(self.given) > 1 else self.given * 3
        room, columns = self.answers.shape
        width = self.answers.strides[0]
        revisions = np.ndarray(room, at.REVISION, self.answers, strides=(width,))
        steps = np.ndarray((room, (columns - 4) // 2), at.REVISED_STEP, self.answers, 32, (width, 16))
        return Records(running, candidate, order, revisions, steps)  # type: ignore[arg-type]

    @property
    def in_loop(self) -> bool:
        return bool(self.forecasts) or self.revised is not None

    @property
    def several(self) -> bool:
        """Whether one job may have different estimates for different roles."""
        return self.revised is not None or len(self.given) > 1

    @property
    def n_steps(self) -> int:
        """Most estimate steps; 0 without revised estimates."""
        return 0 if self.revised is None else self.revised.n_steps

    def groups(self, workload: Workload) -> tuple[Ints, Ints] | None:
        """Let estimates be revised by group; return each job's group and each group's lead, None where they cannot be.

        They cannot where jobs of one group have several requested times, since these limit the estimates. Jobs of an
        engine's group have the same number of processors; among groups with the same estimates, one leads.
        """
        if not isinstance(self.revised, GroupedEstimates):
            return None
        group = np.ascontiguousarray(self.revised.group_of, dtype=np.int64)
        requested = np.zeros(group.max(initial=-1) + 1, dtype=np.int64)
        if len(group) != len(workload):
            return None
        requested[group] = workload.requested
        if (requested[group] != workload.requested).any():
            return None
        self.revised.by_group()
        widths, width = np.unique(workload.procs, return_inverse=True)
        alike, group_of = np.unique(group * len(widths) + width, return_inverse=True)
        _, first, of = np.unique(alike // len(widths), return_index=True, return_inverse=True)
        return np.ascontiguousarray(group_of, dtype=np.int64), first[of].astype(np.int64)

    def read_past(self, events: Ints) -> None:
        """Let forecasts read past events; their answers on jobs submitted by then are not used."""
        for forecast, row in self.forecasts:
            forecast.advance(events, row)

    def grown(self) -> Self:
        return replace(self, answers=_answers(2 * len(self.answers), self.n_steps))

    def fork(self) -> Self:
        """Return a source for a copy of the simulation: the same one where no forecast answers during it."""
        if not self.in_loop:
            return self
        if self.revised is not None:
            return replace(self, answers=np.full_like(self.answers, np.nan), revised=self.revised.fork())
        copies = []
        for forecast, row in self.forecasts:
            if not isinstance(forecast, Forkable):
                raise JobcastError(
                    f"A simulation with {type(forecast).__name__} in the loop cannot be copied: it has no fork(). "
                    "Give the copy estimates of its own."
                )
            copies.append((forecast.fork(), row))
        return replace(self, forecasts=tuple(copies))
