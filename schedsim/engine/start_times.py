"""Forecasts of start times: forks run the present queue forward, each with other run times.

A `Sampler` draws the run times of live jobs, in place of the workload's. The forecast uses nothing that the simulation
holds of the future: no later submissions, failures of jobs, failures or repairs of nodes, or commands. So it does not
foresee later jobs that would pass the job: where the policy lets many pass, it tends to be early.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import JOB, KIND, STARTED, TIME
from predictors.core.hash_random import mixed
from schedsim.engine.simulation import Simulation
from schedsim.workload.workload import row_of

QUANTILES: Final = (0.1, 0.5, 0.9)


class Sampler(Protocol):
    """Draws run times of live jobs, given how long they have run already."""

    def run_times(
        self,
        rows: Ints,  # shape (n_live,); the jobs' rows in the workload
        elapsed: Ints,  # shape (n_live,); how long each has run [s]; -1 for waiting jobs
        uniform: Floats,  # shape (n_draws, n_live); numbers in [0, 1): the quantile of each draw
    ) -> Ints:
        """Return one run time [s], beyond `elapsed`, for each draw and job, shape (n_draws, n_live)."""


@dataclass(frozen=True, eq=False)
class Requested:
    """The sampler by requests: every job, by row of the workload, runs as long as requested [s]."""

    requested: Ints

    def run_times(self, rows: Ints, elapsed: Ints, uniform: Floats) -> Ints:
        return np.broadcast_to(np.maximum(self.requested[rows], elapsed + 1), uniform.shape)


@dataclass(frozen=True, eq=False)
class StartForecast:
    """When a job will start; times in seconds on the workload's clock."""

    job_id: int
    now: int  # time of the forecast
    starts: Ints  # shape (n_draws,); its start in each of the draws, ascending; all the same if it has started already

    __repr__ = short_repr

    def quantile(self, share: float) -> int:
        """Return the second by which it has started in this share of the draws."""
        return int(np.quantile(self.starts, share, method="inverted_cdf"))

    @property
    def p10(self) -> int:
        """It starts by then with a chance of one in ten [s]."""
        return self.quantile(0.1)

    @property
    def p50(self) -> int:
        """It starts by then with a chance of one half [s]."""
        return self.quantile(0.5)

    @property
    def p90(self) -> int:
        """It starts by then with a chance of nine in ten [s]."""
        return self.quantile(0.9)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"job_id": self.job_id, "now": self.now, "p10": self.p10, "p50": self.p50, "p90": self.p90,
                "draws": len(self.starts)}  # fmt: skip


def when_will_it_start(
    simulation: Simulation, job_id: int, sampler: Sampler, n: int = 100, seed: int = 0
) -> StartForecast:
    """Forecast the start of a job that has been submitted.

    Parameters
    ----------
    simulation : Simulation
        At the present moment; it does not change. The copies also ask a gate or an agent of its policy, which must
        therefore not remember.
    sampler : Sampler
        Draws run times of the jobs that run or wait.
    n : int
        Draws.
    seed : int
        A draw depends on (seed, job id, number of the draw) alone.

    Examples
    --------
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2], submit=[0, 1], procs=[6, 8], requested=[100, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> simulation = Simulation(w, make_policy("easy"))
    >>> simulation.run(until=5)
    False
    >>> when_will_it_start(simulation, 2, Requested(w.requested), n=1).p50
    100
    """
    if n < 1:
        raise JobcastError(f"A start is forecast from 1 draw or more; got n = {n}.")
    row, now = row_of(simulation.workload, job_id), simulation.now
    state, workload = simulation._state, simulation.workload
    if row >= state.record.clock.next_submission:
        raise JobcastError(f"Job {job_id} is only submitted at {workload.submit[row]} s; it is {now} s.")
    waiting = np.concatenate([simulation.queued, simulation.postponed, simulation.held])
    running = simulation.running
    if row not in waiting:
        events = simulation.events()
        begun = events[(events[:, KIND] == STARTED) & (events[:, JOB] == row), TIME]
        return StartForecast(job_id, now, np.repeat(begun[-1:], n))
    rows = np.concatenate([running, waiting])
    elapsed = np.full(len(rows), -1, dtype=np.int64)
    elapsed[: len(running)] = now - state.jobs_now["start"][state.slots(at.ENDS)]
    drawn = _checked(sampler.run_times(rows, elapsed, draws(workload.job_id[rows], n, seed)), (n, len(rows)))
    branch = simulation.fork(workload.requested)  # no job is submitted any more, so no forecast is needed
    branch.close_submissions()
    names = rows.tolist()
    starts: list[int] = []
    for lengths in drawn.tolist():
        begun = _start(branch, row, dict(zip(names, lengths, strict=True)))
        if begun is None:
            raise JobcastError(
                f"Job {job_id} does not start by all that is known at {now} s: it is held, or wider than the nodes "
                "that are up. Ask again once it is released, or nodes are repaired."
            )
        starts.append(begun)
    return StartForecast(job_id, now, np.sort(np.array(starts, dtype=np.int64)))


def draws(job_ids: Ints, n: int, seed: int) -> Floats:
    """Return numbers in [0, 1) that depend on seed, job id and draw alone, shape (n, n_jobs)."""
    ids = job_ids.tolist()
    numbers = [[mixed(seed, job, draw) >> 10 for job in ids] for draw in range(n)]  # 53 bits: below 1 for certain
    return np.array(numbers, dtype=np.float64) / 2.0**53


def _checked(drawn: npt.ArrayLike, shape: tuple[int, int]) -> Ints:
    given = np.asarray(drawn)
    if given.shape != shape or given.dtype.kind not in "iu" or (given < 0).any():
        raise JobcastError(
            f"A sampler gave run times of shape {given.shape} and type {given.dtype}; whole seconds from 0 on, "
            f"shape {shape}, are needed."
        )
    return given.astype(np.int64)


def _start(branch: Simulation, row: int, run_times: dict[int, int]) -> int | None:
    """Return when a job starts if the live jobs take these run times; None if it never does in the present state."""
    future, now = branch.fork(), branch.now
    future.suppose(run_times)
    future.run()
    events = future._log.events[: future._state.record.clock.n_logged]
    begun = events[(events[:, KIND] == STARTED) & (events[:, JOB] == row) & (events[:, TIME] >= now), TIME]
    return int(begun[0]) if begun.size else None  # it may be stopped for another job, and start again
