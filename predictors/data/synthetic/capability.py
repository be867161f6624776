"""Logs like those of capability centres: Theta's and Mira's.

The shape is that of ALCF's Theta [1]_ as far as papers describe it: 4,392 nodes, sizes from debug jobs of 8 nodes to
the whole machine, walltimes that go with the size, and submissions that go up and down with the time of day. It is not
fitted to any log.

.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError, percent
from predictors.data.joblog import JobLog
from predictors.data.synthetic._kernels import earliest_starts
from predictors.data.synthetic.generate import COMPLETED, FAILED, MIDNIGHT
from predictors.data.synthetic.lublin import draw_gaps, wall_clock
from predictors.data.synthetic.users import draw_runs

HOUR: Final = 3600
DAY: Final = 24 * HOUR
MONTH: Final = 30 * DAY
BEGIN: Final = 1_704_067_200  # Monday, 1 January 2024, 00:00 UTC
NODES: Final = 4392

SIZES: Final = (  # share of the machine, chance of such a job, and the walltimes that its users ask for [h]
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
ALIKE: Final = 0.8  # correlation of the run times, relative to the requests, of one application's jobs
APPS: Final = 120
SWING: Final = 0.6  # of the daily rhythm: 1 - swing at three in the morning, 1 + swing at three in the afternoon
WEEKEND: Final = 0.6


def generate_capability_log(
    # jobs of each month, and its offered load: run time x nodes over machine x month, 0.05 to 1.2
    months: Sequence[tuple[int, float]] = ((3816, 0.75), (8092, 0.90)),
    *,
    seed: int = 0,
    procs: int = NODES,
) -> JobLog:
    """Make a log of months of 30 days: the same arguments give the same log.

    It has waits (each job at the earliest start that holds back no earlier one), users and executables.

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
    place = scipy.special.ndtr(ALIKE * typical[app, kind] + np.sqrt(1 - ALIKE**2) * rng.standard_normal(n_jobs))
    run_time = _run_times(place, asked, nodes, load * procs * MONTH)
    return {
        "submit": _submissions(rng, n_jobs), "requested_procs": nodes, "requested_time": asked, "run_time": run_time,
        "user": app // 4 + 1, "executable": app + 1,
    }  # fmt: skip


def _run_times(place: Floats, asked: Ints, nodes: Ints, area: float) -> Ints:
    """Return place ** power x the requests, by the power that gives this area in sum."""
    low, high = 0.0, 64.0
    if float((asked * nodes).sum()) < area:
        share = percent((asked * nodes).sum() / area)
        raise JobcastError(f"The load is too high: {len(asked)} jobs ask for {share} of it; take more jobs.")
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


MIRA_NODES: Final = 49_152
MINUTE: Final = 60


class Mix(NamedTuple):
    """Jobs of a queue: their part of all, and how likely each width [nodes] and requested time [min] is."""

    part: float
    widths: Mapping[int, float]
    minutes: Mapping[int, float]


MIXES: Final = MappingProxyType(  # parts and means after Table 2 of Allcock et al.; the spread is ours
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

TYPICAL: Final = (3.2, 1.5)  # run time / request of an application: a beta distribution, of mean 0.68
NOISE: Final = 0.15  # log deviation of equal runs
CRASHED: Final = 0.1
USERS: Final = 200
USERS_PER_PROJECT: Final = 3
OF_SPENT: Final = 1_000  # codes of projects that have spent their allocation lie above this one


def mira_like_log(
    n_jobs: int = 10_000,  # how many jobs, at least 2; Mira had some 200 a day
    *,
    seed: int = 0,
    load: float = 0.9,  # offered load: the sum of run time * nodes over machine * (last - first submission)
) -> JobLog:
    """Make a log with the mix of queues of Mira: the same arguments give the same log, bit for bit.

    Returns
    -------
    JobLog
        Queues as they were routed; `backfill` are the small jobs of projects with codes above `OF_SPENT`.

    Notes
    -----
    Arrivals and their daily cycle are the model's of Lublin and Feitelson (doi:10.1016/S0743-7315(03)00108-4), users
    and their applications those of `predictors.data.synthetic.users`. Each application of a user has in each queue one
    width, one requested time and one typical run time, so that run times can be learnt. What it is not: a copy of Mira.
    It has no weekends, no campaigns of months, no dependencies, and users who do not react to their waits.

    References
    ----------
    .. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at
       Argonne. JSSPP 2017. doi:10.1007/978-3-319-77398-8_1

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
    procs, requested = _requests(rng, queue, runs.app)
    run_time, crashed = _mira_run_times(rng, queue, runs.app, requested)
    stretch = float((procs * run_time).sum()) / (MIRA_NODES * load) / float(even[-1] - even[0])
    clock = wall_clock(even * stretch).astype(np.int64)
    submit = np.maximum.accumulate(clock - clock[0])
    project = runs.user // USERS_PER_PROJECT + 1
    values = {
        "job_id": np.arange(1, n_jobs + 1), "submit": submit,
        "wait": earliest_starts(submit, procs, run_time, MIRA_NODES) - submit, "run_time": run_time,
        "requested_time": requested, "requested_procs": procs, "allocated_procs": procs, "user": runs.user + 1,
        "group": np.where(queue == list(MIXES).index("backfill"), OF_SPENT + project, project),
        "executable": runs.app * len(mixes) + queue + 1, "queue": queue + 1, "partition": np.ones(n_jobs, np.int64),
        "status": np.where(crashed | (run_time == requested), FAILED, COMPLETED),
    }  # fmt: skip
    return JobLog(
        values,
        origin=int(clock[0]),
        epoch=MIDNIGHT + int(clock[0]),
        time_zone="UTC",
        max_procs=MIRA_NODES,
        max_nodes=MIRA_NODES,
        header=(
            ("Version", "2.2"),
            ("Computer", "none: a synthetic log"),
            ("Information", "mix of queues after Allcock et al., doi:10.1007/978-3-319-77398-8_1"),
            ("MaxNodes", str(MIRA_NODES)),
            ("MaxProcs", str(MIRA_NODES)),
            *(("Queue", f"{code} {name}") for code, name in enumerate(MIXES, start=1)),
            ("Note", f"mira_like_log(n_jobs={n_jobs}, seed={seed}, load={load})"),
        ),
        name=f"mira-like-{seed}",
    )


def _requests(rng: np.random.Generator, queue: Ints, app: Ints) -> tuple[Ints, Ints]:
    """Return widths and requested times: one of each for an application in a queue."""
    n_apps = int(app.max()) + 1
    procs, requested = np.empty((2, len(queue)), dtype=np.int64)
    for number, mix in enumerate(MIXES.values()):
        mine = queue == number
        widths = rng.choice(list(mix.widths), n_apps, p=list(mix.widths.values()))
        minutes = rng.choice(list(mix.minutes), n_apps, p=list(mix.minutes.values()))
        procs[mine], requested[mine] = widths[app[mine]], minutes[app[mine]] * MINUTE
    return procs, requested


def _mira_run_times(
    rng: np.random.Generator, queue: Ints, app: Ints, requested: Ints
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return run times [s], at most the requests, and which jobs crash early."""
    typical = rng.beta(*TYPICAL, (len(MIXES), int(app.max()) + 1))[queue, app]
    crashed = rng.random(len(queue)) < CRASHED
    part = np.where(crashed, rng.uniform(0, 0.05, len(queue)), typical * np.exp(rng.normal(0, NOISE, len(queue))))
    return np.clip((requested * part).astype(np.int64), 60, requested), crashed
