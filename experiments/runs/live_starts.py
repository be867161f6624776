"""Forecast starts of live jobs on a machine with a policy: what the service answers in addition to a run time."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.service.state.jobs import LiveJob
from schedsim.engine.simulation import Simulation
from schedsim.engine.start_times import when_will_it_start
from schedsim.policies.policy import make_policy
from schedsim.workload.workload import Workload

DRAWS: Final = 50
SPREAD: Final = 0.5
"""Standard deviation of the logarithm of run time / prediction: three in ten jobs are off by a factor of 1.65."""


class Around:
    """Run times [s] drawn around predictions: log-normal, within the request, beyond what has run already."""

    def __init__(self, predicted: Floats, requested: Ints) -> None:
        self._predicted, self._requested = predicted, requested

    def run_times(self, rows: Ints, elapsed: Ints, uniform: Floats) -> Ints:
        """Return one run time [s] for each draw and job."""
        from scipy.special import ndtri

        drawn = self._predicted[rows] * np.exp(SPREAD * ndtri(np.clip(uniform, 1e-6, 1 - 1e-6)))
        within = np.minimum(np.ceil(drawn), self._requested[rows]).astype(np.int64)
        possible: Ints = np.maximum(within, elapsed + 1)
        return possible


class LiveStarts:
    """Forecasts starts on a machine with a policy; jobs submitted later are not foreseen.

    >>> running = LiveJob(1, 0, 8, 100, None, 0, 80.0)
    >>> waiting = LiveJob(2, 5, 4, 50, None, None, 50.0)
    >>> p10, p50, p90 = LiveStarts("easy", 8).forecast([running, waiting], 10, waiting)
    >>> 10 < p10 <= p50 <= p90 <= 100
    True
    """

    def __init__(self, policy: str, procs: int) -> None:
        self._policy, self._procs = make_policy(policy), procs

    def forecast(self, live: Sequence[LiveJob], now: int, job: LiveJob) -> tuple[int, int, int]:
        """Return the seconds by which the job has started with a chance of 10, 50 and 90 %."""
        if job.start is not None:
            return job.start, job.start, job.start
        known = [one for one in live if one.procs and one.requested_time]
        if job not in known:
            given = f"procs {job.procs} and requested_time {job.requested_time}"
            raise JobcastError(f"job_id: a forecast needs the job's procs and requested_time; got {given}")
        running = sorted((one for one in known if one.start is not None), key=lambda one: (one.start, one.job_id))
        waiting = sorted((one for one in known if one.start is None), key=lambda one: (one.submit, one.job_id))
        most = max(sum(one.procs or 0 for one in running), job.procs or 0)
        if most > self._procs:
            raise JobcastError(f"job_id: the jobs may need the machine's {self._procs} processors at most; got {most}")
        waiting = [one for one in waiting if (one.procs or 0) <= self._procs]
        rows = [*running, *waiting]
        # Ended jobs are not there, so whoever runs now finds room at the very second at which it started.
        begun = np.array([min(one.start if one.start is not None else now, now) for one in rows], dtype=np.int64)
        requested = np.array([one.requested_time or 1 for one in rows], dtype=np.int64)
        requested[: len(running)] = np.maximum(requested[: len(running)], now - begun[: len(running)] + 1)
        predicted = np.array([one.predicted or float(r) for one, r in zip(rows, requested, strict=True)])
        origin = int(begun.min())
        workload = Workload.from_columns(
            np.arange(len(rows)),
            submit=begun - origin,
            procs=[one.procs or 1 for one in rows],
            requested=requested,
            run_time=requested,
            machine_procs=self._procs,
        )
        simulation = Simulation(workload, self._policy)
        simulation.run(until=now - origin)
        found = when_will_it_start(simulation, rows.index(job), Around(predicted, requested), DRAWS)
        return found.p10 + origin, found.p50 + origin, found.p90 + origin
