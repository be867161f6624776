"""A job log like that of a capability centre, for those who have none: wide jobs, short debug jobs, a daily rhythm.

The shape is that of ALCF's Theta [1]_ as far as papers tell it: 4,392 nodes, sizes from debug jobs of 8 nodes to the
whole machine, walltimes that go with the size, and submissions that go up and down with the time of day. It is not
fitted to any log.

References
----------
.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from predictors.data._synthetic import earliest_starts
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

HOUR: Final = 3600
DAY: Final = 24 * HOUR
MONTH: Final = 30 * DAY
BEGIN: Final = 1_704_067_200
"""Monday, 1 January 2024, 00:00 UTC."""
NODES: Final = 4392

SIZES: Final = (
    (8 / NODES, 0.15, (0.25, 0.5, 1.0)),
    (16 / NODES, 0.10, (0.25, 0.5, 1.0)),
    (128 / NODES, 0.33, (0.5, 1.0, 2.0, 3.0)),
    (256 / NODES, 0.20, (1.0, 3.0, 6.0)),
    (512 / NODES, 0.10, (1.0, 3.0, 6.0, 9.0)),
    (768 / NODES, 0.04, (3.0, 6.0, 12.0)),
    (1024 / NODES, 0.048, (1.0, 3.0, 6.0, 12.0)),
    (2048 / NODES, 0.022, (1.0, 3.0, 6.0)),
    (4096 / NODES, 0.007, (1.0, 3.0, 6.0)),
    (1.0, 0.003, (0.5, 1.0, 3.0)),
)
"""Share of the machine, chance of such a job, and the walltimes that its users ask for [h]."""
ALIKE: Final = 0.8
"""Correlation of the run times, relative to the requests, of one application's jobs."""
APPS: Final = 120
SWING: Final = 0.6
"""Of the daily rhythm: between 1 - swing at three in the morning and 1 + swing at three in the afternoon."""
WEEKEND: Final = 0.6


def generate_capability_log(
    months: Sequence[tuple[int, float]] = ((3816, 0.75), (8092, 0.90)), *, seed: int = 0, procs: int = NODES
) -> JobLog:
    """Make a log of months of 30 days: the same arguments give the same log.

    Parameters
    ----------
    months : sequence of (int, float)
        Jobs of each month, and its offered load: run time x nodes over machine x month, 0.05 to 1.2.
    seed : int
        Any number from 0.
    procs : int
        Nodes of the machine.

    Returns
    -------
    JobLog
        With waits (each job at the earliest start that holds back no earlier one), users and executables.

    Raises
    ------
    JobcastError
        If a month has no job, or its load cannot be met by run times from 0 to the requests.

    Examples
    --------
    >>> log = generate_capability_log([(1000, 0.3)], seed=1)
    >>> len(log), log.max_procs, bool((log["run_time"] <= log["requested_time"]).all())
    (1000, 4392, True)
    """
    if procs < 1 or seed < 0 or not months:
        raise JobcastError(f"A capability log needs a machine, a seed and a month; got {procs}, {seed} and {months}.")
    rng = np.random.Generator(np.random.PCG64(seed))
    parts = [_month(rng, *about, procs) for about in months]
    columns = {
        name: np.concatenate([part[name] + (i * MONTH if name == "submit" else 0) for i, part in enumerate(parts)])
        for name in parts[0]
    }
    submit = columns["submit"]
    origin = BEGIN + int(submit[0])
    columns["submit"] = submit - submit[0]
    starts = earliest_starts(columns["submit"], columns["requested_procs"], columns["run_time"], procs)
    columns |= {"job_id": np.arange(1, len(submit) + 1), "wait": starts - columns["submit"]}
    columns["allocated_procs"] = columns["requested_procs"]
    return JobLog(
        columns, origin=origin, epoch=origin, time_zone="UTC", max_procs=procs, max_nodes=procs,
        name=f"capability-{seed}",
    )  # fmt: skip


def _month(rng: np.random.Generator, n_jobs: int, load: float, procs: int) -> dict[str, Ints]:
    """Draw the jobs of one month, submissions from its first second."""
    if n_jobs < 1 or not 0.05 <= load <= 1.2:
        raise JobcastError(f"A month has 1 job or more and a load of 0.05 to 1.2; got {n_jobs} jobs and {load}.")
    app = rng.zipf(1.6, 8 * n_jobs)
    app = app[app <= APPS][:n_jobs] - 1
    kind = rng.choice(len(SIZES), n_jobs, p=np.array([chance for _, chance, _ in SIZES]))
    nodes = np.maximum(1, np.rint(np.array([share for share, _, _ in SIZES])[kind] * procs)).astype(np.int64)
    asked = np.array([HOUR * rng.choice(SIZES[k][2]) for k in kind]).astype(np.int64)
    typical = rng.standard_normal((APPS, len(SIZES)))
    place = ndtr(ALIKE * typical[app, kind] + np.sqrt(1 - ALIKE**2) * rng.standard_normal(n_jobs))
    run_time = _run_times(place, asked, nodes, load * procs * MONTH)
    return {
        "submit": _submissions(rng, n_jobs),
        "requested_procs": nodes,
        "requested_time": asked,
        "run_time": run_time,
        "user": app // 4 + 1,
        "executable": app + 1,
    }


def _run_times(place: Floats, asked: Ints, nodes: Ints, area: float) -> Ints:
    """Return place ** power x the requests, by the power that gives this area in sum."""
    low, high = 0.0, 64.0
    if float((asked * nodes).sum()) < area:
        raise JobcastError(
            f"The load is too high: {len(asked)} jobs ask for {(asked * nodes).sum() / area:.0%} of it; take more jobs."
        )
    for _ in range(60):
        power = (low + high) / 2
        run_time = np.maximum(1, np.rint(place**power * asked)).astype(np.int64)
        low, high = (power, high) if float((run_time * nodes).sum()) > area else (low, power)
    return run_time


def _submissions(rng: np.random.Generator, n_jobs: int) -> Ints:
    """Draw so many submissions within a month, more by day than by night and fewer at weekends, sorted."""
    hours = np.arange(MONTH // HOUR)
    rate = 1 + SWING * np.cos(2 * np.pi * ((hours % 24) - 15) / 24)
    rate = rate * np.where(hours // 24 % 7 >= 5, WEEKEND, 1.0)
    cumulated = np.concatenate([[0.0], np.cumsum(rate / rate.sum())])
    drawn = np.interp(np.sort(rng.random(n_jobs)), cumulated, np.arange(len(cumulated)) * HOUR)
    return np.asarray(drawn.astype(np.int64))
