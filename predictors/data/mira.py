"""A job log like Mira's for those who have none: few, large, long jobs in four queues; seeded."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.data._synthetic import earliest_starts
from predictors.data.errors import JobcastError
from predictors.data.habits import draw_runs
from predictors.data.joblog import JobLog
from predictors.data.lublin import draw_gaps, wall_clock
from predictors.data.synthetic import COMPLETED, FAILED, MIDNIGHT

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NODES: Final = 49_152
MINUTE: Final = 60


class Mix(NamedTuple):
    """Jobs of a queue: their part of all, and how likely each width [nodes] and requested time [min] is."""

    part: float
    widths: Mapping[int, float]
    minutes: Mapping[int, float]


MIXES: Final = MappingProxyType(
    {
        "prod-capability": Mix(
            0.072,
            {8192: 0.62, 12_288: 0.08, 16_384: 0.17, 24_576: 0.04, 32_768: 0.06, 49_152: 0.03},
            {30: 0.05, 60: 0.2, 120: 0.15, 180: 0.1, 360: 0.25, 720: 0.2, 1440: 0.05},
        ),
        "prod-short": Mix(
            0.673,
            {512: 0.62, 1024: 0.18, 2048: 0.12, 4096: 0.08},
            {30: 0.25, 60: 0.33, 120: 0.2, 180: 0.1, 240: 0.05, 360: 0.07},
        ),
        "prod-long": Mix(0.059, {512: 0.5, 1024: 0.22, 2048: 0.18, 4096: 0.1}, {480: 0.2, 600: 0.15, 720: 0.65}),
        "backfill": Mix(
            0.196, {512: 0.65, 1024: 0.16, 2048: 0.11, 4096: 0.08}, {30: 0.4, 60: 0.35, 120: 0.15, 180: 0.06, 240: 0.04}
        ),
    }
)
"""Parts and means after Table 2 of Allcock et al.; how widths and times spread around the means is ours."""

TYPICAL: Final = (3.2, 1.5)
"""Run time / request of an application: a beta distribution, of mean 0.68."""
NOISE: Final = 0.15
"""Log deviation of equal runs."""
CRASHED: Final = 0.1
USERS: Final = 200
USERS_PER_PROJECT: Final = 3
OF_SPENT: Final = 1_000
"""Codes of projects that have spent their allocation lie above this one."""


def mira_like_log(n_jobs: int = 10_000, *, seed: int = 0, load: float = 0.9) -> JobLog:
    """Make a log with the mix of queues of Mira: the same arguments give the same log, bit for bit.

    Parameters
    ----------
    n_jobs : int
        How many jobs, at least 2; Mira had some 200 a day.
    seed : int
        Any number from 0.
    load : float
        Offered load: the sum of run time * nodes over machine * (last - first submission).

    Returns
    -------
    JobLog
        Queues as they were routed; `backfill` are the small jobs of projects whose codes lie above `OF_SPENT`.

    Notes
    -----
    Arrivals and their daily cycle are the model's of Lublin and Feitelson (doi:10.1016/S0743-7315(03)00108-4), users
    and their applications those of `predictors.data.habits`. Each application of a user has in each queue one width,
    one requested time and one typical run time, so that run times can be learnt. What it is not: a copy of Mira. It has
    no weekends, no campaigns of months, no dependencies, and users who do not react to their waits.

    References
    ----------
    .. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at
       Argonne. JSSPP 2017. doi:10.1007/978-3-319-77398-8_1

    Examples
    --------
    >>> log = mira_like_log(2000, seed=1)
    >>> len(log), log.max_procs, int(log.procs.max())
    (2000, 49152, 32768)
    """
    if n_jobs < 2 or seed < 0 or not 0.01 <= load <= 2:
        raise JobcastError(
            f"A log like Mira's needs 2 jobs or more, a seed from 0 and a load of 0.01 to 2; got {n_jobs}, {seed} and "
            f"{load}."
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    even = np.cumsum(draw_gaps(rng, n_jobs))
    runs = draw_runs(rng, wall_clock(even), USERS)
    mixes = list(MIXES.values())
    queue = rng.choice(len(mixes), n_jobs, p=[mix.part for mix in mixes])
    procs, requested = _asked(rng, queue, runs.app)
    run_time, crashed = _run_times(rng, queue, runs.app, requested)
    stretch = float((procs * run_time).sum()) / (NODES * load) / float(even[-1] - even[0])
    clock = wall_clock(even * stretch).astype(np.int64)
    submit = np.maximum.accumulate(clock - clock[0])
    project = runs.user // USERS_PER_PROJECT + 1
    values = {
        "job_id": np.arange(1, n_jobs + 1),
        "submit": submit,
        "wait": earliest_starts(submit, procs, run_time, NODES) - submit,
        "run_time": run_time,
        "requested_time": requested,
        "requested_procs": procs,
        "allocated_procs": procs,
        "user": runs.user + 1,
        "group": np.where(queue == list(MIXES).index("backfill"), OF_SPENT + project, project),
        "executable": runs.app * len(mixes) + queue + 1,
        "queue": queue + 1,
        "partition": np.ones(n_jobs, np.int64),
        "status": np.where(crashed | (run_time == requested), FAILED, COMPLETED),
    }
    return JobLog(
        values,
        origin=int(clock[0]),
        epoch=MIDNIGHT + int(clock[0]),
        time_zone="UTC",
        max_procs=NODES,
        max_nodes=NODES,
        header=(
            ("Version", "2.2"),
            ("Computer", "none: a synthetic log"),
            ("Information", "mix of queues after Allcock et al., doi:10.1007/978-3-319-77398-8_1"),
            ("MaxNodes", str(NODES)),
            ("MaxProcs", str(NODES)),
            *(("Queue", f"{code} {name}") for code, name in enumerate(MIXES, start=1)),
            ("Note", f"mira_like_log(n_jobs={n_jobs}, seed={seed}, load={load})"),
        ),
        name=f"mira-like-{seed}",
    )


def _asked(rng: np.random.Generator, queue: Ints, app: Ints) -> tuple[Ints, Ints]:
    """Return widths and requested times: one of each for an application in a queue."""
    n_apps = int(app.max()) + 1
    procs, requested = np.empty((2, len(queue)), dtype=np.int64)
    for number, mix in enumerate(MIXES.values()):
        mine = queue == number
        widths = rng.choice(list(mix.widths), n_apps, p=list(mix.widths.values()))
        minutes = rng.choice(list(mix.minutes), n_apps, p=list(mix.minutes.values()))
        procs[mine], requested[mine] = widths[app[mine]], minutes[app[mine]] * MINUTE
    return procs, requested


def _run_times(rng: np.random.Generator, queue: Ints, app: Ints, requested: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return run times [s], at most the requests, and which jobs crash early."""
    typical = rng.beta(*TYPICAL, (len(MIXES), int(app.max()) + 1))[queue, app]
    crashed = rng.random(len(queue)) < CRASHED
    part = np.where(crashed, rng.uniform(0, 0.05, len(queue)), typical * np.exp(rng.normal(0, NOISE, len(queue))))
    return np.clip((requested * part).astype(np.int64), 60, requested), crashed
