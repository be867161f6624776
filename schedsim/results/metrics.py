"""Figures of a schedule, each once: wait, bounded slowdown, utilisation, throughput, spread over users, who pays.

A mean over jobs counts a job of a second like one that fills the machine for a day. So there are also figures that
weight each job by its area (processors x run time), the standard deviation of the throughput and the spread over users
[1]_: a mean bounded slowdown can fall while all of these grow.

.. [1] Boëzennec, Dufossé, Pallez. Qualitatively analyzing optimization objectives in the design of HPC resource
   manager. ACM TOMPECS, 2024. doi:10.1145/3701986
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from schedsim.results.schedule import STARTED_BY, Schedule
from schedsim.results.timelines import in_use

BOUND: Final = 10  # threshold of the bounded slowdown [s]

WIDEST_SHARE: Final = 0.05

WORSE_BY_RATIO: Final = 1.05
"""A user whose mean wait grows by more than this ratio is worse off, if also by more than `WORSE_BY_SECONDS`."""
WORSE_BY_SECONDS: Final = 600.0  # a longer mean wait that a user would not notice [s]


def slowdown(wait: Ints, run_time: Ints) -> Floats:
    """Return (wait + run time) / run time, also called stretch; infinite for a job of length 0 that waited.

    >>> slowdown(np.array([0, 30]), np.array([10, 10])).tolist()
    [1.0, 4.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (wait + run_time) / run_time
    return np.where((wait == 0) & (run_time == 0), 1.0, ratio)


def bounded_slowdown(wait: Ints, run_time: Ints, bound: int = BOUND) -> Floats:
    """Return max(1, (wait + run time) / max(run time, bound)), times in seconds.

    .. [1] Feitelson et al. Theory and practice in parallel job scheduling. JSSPP 1997. doi:10.1007/3-540-63574-2_14

    >>> bounded_slowdown(np.array([0, 30, 30]), np.array([1, 2, 20])).tolist()
    [1.0, 3.2, 2.5]
    """
    return np.maximum(1.0, (wait + run_time) / np.maximum(run_time, bound))


def widest(procs: Ints, share: float = WIDEST_SHARE) -> npt.NDArray[np.bool_]:
    """Return which jobs are the widest: this share of the jobs, by processors, earlier rows first among equals.

    At least one job; else rounded to the nearest number of jobs.

    >>> widest(np.array([1, 8, 4, 8]), share=0.25).tolist()
    [False, True, False, False]
    """
    count = max(1, round(share * len(procs)))
    least = np.partition(procs, -count)[-count]
    chosen: npt.NDArray[np.bool_] = procs > least
    chosen[np.flatnonzero(procs == least)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def makespan(schedule: Schedule) -> int:
    """Return last end - first submission [s]."""
    return int(schedule.end.max() - schedule.workload.submit.min())


def areas(schedule: Schedule) -> Floats:
    """Return each job's processors x run time [s], as floats: whole numbers would overflow at 2^63."""
    return schedule.workload.procs.astype(np.float64) * schedule.run_time


def utilisation(schedule: Schedule) -> float:
    """Return the share of the machine's processor seconds used within the makespan."""
    work = areas(schedule).sum()
    span = makespan(schedule) * schedule.workload.machine_procs
    return float(work / span) if span else 0.0


def throughput_std(
    # start, end, procs: shape (n_jobs,); when each job starts and ends [s], and on how many processors it runs
    start: Ints,
    end: Ints,
    procs: Ints,
    begin: int,  # begin, machine_procs: the first submission [s], and the processors of the machine
    machine_procs: int,
) -> float:
    """Return the standard deviation over time of the throughput: the share of the machine in use at each second.

    Its mean from `begin`, the first submission, to the last end is the utilisation. Lower is steadier; 0 where no time
    passes.

    >>> float(throughput_std(np.array([5]), np.array([10]), np.array([4]), begin=0, machine_procs=8))
    0.25
    """
    time, busy = in_use(start, end, procs)
    lasts = np.diff(np.append(begin, time)).astype(np.float64)
    if not lasts.sum():
        return 0.0
    share = np.append(0, busy[:-1]) / machine_procs
    return float(np.sqrt(np.average((share - np.average(share, weights=lasts)) ** 2, weights=lasts)))


def gini(values: npt.ArrayLike) -> float:
    """Return the Gini coefficient of numbers above 0: 0 where all are equal, towards 1 where one has everything.

    It is the mean difference of two of them, drawn with replacement, divided by twice their mean. NaN of no number.

    >>> gini([2.0, 2.0]), gini([1.0, 3.0]), gini([])
    (0.0, 0.25, nan)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * ordered.sum())) if n else float("nan")


def user_slowdown_gini(wait: Ints, run_time: Ints, user: Ints | None) -> float:
    """Return the Gini coefficient of the users' mean bounded slowdowns, each user counting once.

    Jobs of unknown users do not count; NaN where no user is known.

    >>> user_slowdown_gini(np.array([0, 0, 40]), np.array([20, 20, 20]), np.array([7, 7, 8]))
    0.25
    """
    if user is None or not (known := user >= 0).any():
        return float("nan")
    _, which = np.unique(user[known], return_inverse=True)
    return gini(np.bincount(which, weights=bounded_slowdown(wait, run_time)[known]) / np.bincount(which))


def share_worse_off(
    # wait, wait_before: shape (n_users,); each user's mean wait [s] in two schedules of the same jobs; NaN of no user
    wait: npt.ArrayLike,
    wait_before: npt.ArrayLike,
) -> float:
    """Return the share of users who are worse off than before: mean wait longer by > 5 % and by > 10 min.

    >>> share_worse_off([700.0, 90_000.0, 9000.0, 50.0], [0.0, 89_000.0, 8000.0, 10.0])  # the first, and the third
    0.5
    """
    now, before = (np.asarray(one, dtype=np.float64) for one in (wait, wait_before))
    worse = (now > WORSE_BY_RATIO * before) & (now > before + WORSE_BY_SECONDS)
    return float(worse.mean()) if len(worse) else float("nan")


def figures(schedule: Schedule) -> dict[str, float]:
    """Return the figures of a schedule over all jobs, none left out.

    Times in seconds; `widest5_mean_wait_s` is the mean wait of the widest 5 % of jobs. What does not exist is NaN:
    means by area where all jobs have length 0, the spread over users where no user is known.
    """
    workload = schedule.workload
    found = figures_of_waits(schedule.wait, schedule.run_time, workload.procs) | {
        "makespan_s": makespan(schedule),
        "utilisation": utilisation(schedule),
        "throughput_std": throughput_std(
            schedule.start, schedule.end, workload.procs, int(workload.submit.min()), workload.machine_procs
        ),
        "user_slowdown_gini": user_slowdown_gini(schedule.wait, schedule.run_time, workload.user),
    }
    return {name: found[name] for name in ORDER} | {"killed": int(schedule.killed.sum())}


def figures_as_logged(log: JobLog) -> dict[str, float] | None:
    """Return the figures of the waits that the log records, over the jobs with a recorded wait; None without any.

    They show what the site's scheduler did, with its queues, priorities and outages.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9], "wait": [5, 25], "run_time": [50, 100],
    ...                            "requested_procs": [1, 1]}, {}, max_procs=2)
    >>> figures_as_logged(log)["mean_wait_s"], figures_as_logged(log)["max_wait_s"]
    (15.0, 25)
    """
    known = log.known("wait") & log.known("run_time") & (log.procs > 0)
    if not known.any():
        return None
    submit, wait, run_time = (log.values[name][known] for name in ("submit", "wait", "run_time"))
    procs = log.procs[known]
    span = int((submit + wait + run_time).max() - submit.min())
    area = float((procs.astype(np.float64) * run_time).sum())
    used = area / (span * log.max_procs) if span and log.max_procs else 0.0
    start, users = submit + wait, np.where(log.known("user"), log.values["user"], -1)[known]
    found = figures_of_waits(wait, run_time, procs) | {
        "makespan_s": span,
        "utilisation": used,
        "throughput_std": throughput_std(start, start + run_time, procs, int(submit.min()), log.max_procs)
        if log.max_procs
        else 0.0,
        "user_slowdown_gini": user_slowdown_gini(wait, run_time, users),
    }
    return {name: found[name] for name in ORDER}


ORDER: Final = (
    "n_jobs", "mean_wait_s", "mean_bounded_slowdown", "median_bounded_slowdown", "p99_wait_s", "max_wait_s",
    "widest5_mean_wait_s", "makespan_s", "utilisation", "mean_response_s", "mean_stretch", "max_stretch",
    "area_weighted_mean_wait_s", "area_weighted_mean_response_s", "area_weighted_mean_bounded_slowdown",
    "throughput_std", "user_slowdown_gini",
)  # fmt: skip
"""Figures of waits, in the order of documents and tables."""


def figures_of_waits(wait: Ints, run_time: Ints, procs: Ints) -> dict[str, float]:
    """Return the figures of jobs by their waits and run times [s], arrays of shape (n_jobs,)."""
    bounded, stretch = bounded_slowdown(wait, run_time), slowdown(wait, run_time)
    area = procs.astype(np.float64) * run_time
    return {
        "n_jobs": len(wait),
        "mean_wait_s": float(wait.mean()),
        "mean_bounded_slowdown": float(bounded.mean()),
        "median_bounded_slowdown": float(np.median(bounded)),
        "p99_wait_s": float(np.percentile(wait, 99)),
        "max_wait_s": int(wait.max()),
        "widest5_mean_wait_s": float(wait[widest(procs)].mean()),
        "mean_response_s": float((wait + run_time).mean()),
        "mean_stretch": float(stretch.mean()),
        "max_stretch": float(stretch.max()),
        "area_weighted_mean_wait_s": _weighted(wait, area),
        "area_weighted_mean_response_s": _weighted(wait + run_time, area),
        "area_weighted_mean_bounded_slowdown": _weighted(bounded, area),
    }


def _weighted(values: Ints | Floats, area: Floats) -> float:
    return float(np.average(values, weights=area)) if area.any() else float("nan")


def past_request(schedule: Schedule) -> int:
    """Return how many jobs ran longer than requested; none where jobs are killed at their request."""
    return int((schedule.run_time > schedule.workload.requested).sum())


def estimate_errors(estimate: Ints, run_time: Ints) -> dict[str, float]:
    """Return how wrong estimates were: root mean squared error and bias [s], and the share that was too short.

    >>> estimate_errors(np.array([10, 40]), np.array([20, 30]))
    {'estimate_rmse_s': 10.0, 'estimate_bias_s': 0.0, 'estimate_too_short': 0.5}
    """
    error = (estimate - run_time).astype(np.float64)
    return {
        "estimate_rmse_s": float(np.sqrt((error**2).mean())),
        "estimate_bias_s": float(error.mean()),
        "estimate_too_short": float((error < 0).mean()),
    }


def how_started(schedule: Schedule) -> dict[str, dict[str, float]]:
    """Return jobs and processor hours by how the jobs started."""
    area = areas(schedule)
    table = {}
    for code, name in enumerate(STARTED_BY):
        here = schedule.started_by == code
        table[name] = {"jobs": int(here.sum()), "core_hours": float(area[here].sum() / 3600)}
    return table


def by_group(schedule: Schedule, groups: Ints) -> dict[int, dict[str, float]]:
    """Return jobs, mean wait, mean bounded slowdown and longest wait of each group, by ascending group."""
    order = np.argsort(groups, kind="stable")
    wait = schedule.wait[order]
    bounded = bounded_slowdown(wait, schedule.run_time[order])
    names, first = np.unique(groups[order], return_index=True)
    table: dict[int, dict[str, float]] = {}
    for group, begin, end in zip(names.tolist(), first, [*first[1:], len(order)], strict=True):
        here = slice(begin, end)
        table[group] = {
            "n_jobs": int(end - begin),
            "mean_wait_s": float(wait[here].mean()),
            "mean_bounded_slowdown": float(bounded[here].mean()),
            "max_wait_s": int(wait[here].max()),
        }
    return table


def by_user(schedule: Schedule) -> dict[int, dict[str, float]]:
    if schedule.workload.user is None:
        raise JobcastError(f"{schedule.workload.name}: names no users, so there is no table by user.")
    return by_group(schedule, schedule.workload.user)


def by_size(schedule: Schedule) -> dict[str, dict[str, float]]:
    """Return the figures of each class of width: 1, 2, 3-4, 5-8, ... processors."""
    top = 1 << np.ceil(np.log2(schedule.workload.procs)).astype(np.int64)
    return {width_class(upper): row for upper, row in by_group(schedule, top).items()}


RUN_TIMES: Final = (60, 600, 3600, 4 * 3600, 12 * 3600, 24 * 3600)  # bounds between classes of run times [s]
RUN_TIME_CLASSES: Final = ("< 1 min", "< 10 min", "< 1 h", "< 4 h", "< 12 h", "< 24 h", "longer")


def by_run_time(schedule: Schedule) -> dict[str, dict[str, float]]:
    groups = by_group(schedule, np.digitize(schedule.run_time, RUN_TIMES))
    return {RUN_TIME_CLASSES[group]: row for group, row in groups.items()}


def width_class(upper: int) -> str:
    """Return the name of the class of widths up to a power of two.

    >>> [width_class(upper) for upper in (1, 2, 4, 64)]
    ['1', '2', '3-4', '33-64']
    """
    return str(upper) if upper < 3 else f"{upper // 2 + 1}-{upper}"
