"""The features of one submission, slowly, from their definitions: which jobs have ended, which run, as of now.

It shares no formula with `predictors`: every job of the log is looked at anew for each submission.
"""

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from predictors.data.joblog import JobLog

MISSING = math.nan


@dataclass(frozen=True)
class LoggedJob:
    """One job of a small log; None is unknown. Times in seconds."""

    job_id: int
    submit: int
    wait: int | None
    run_time: int | None
    procs: int | None
    requested_time: int | None
    user: int | None
    group: int | None
    status: int | None

    @property
    def start(self) -> int | None:
        """Unknown waits count as 0; a job of which nothing but its submission is known never starts."""
        return None if self.wait is None and self.run_time is None else self.submit + (self.wait or 0)

    @property
    def end(self) -> int | None:
        """A job with an unknown run time never ends."""
        return None if self.run_time is None else self.start + self.run_time


def expected_row(
    jobs: list[LoggedJob], job: LoggedJob, same_second: bool = True, least_ended: int = 1
) -> dict[str, float]:
    """Return the features of `job` as of its submission.

    Starts come after the submissions of their second, and so do ends of zero-length jobs, which start there.
    """
    now = job.submit

    def has_started(other: LoggedJob) -> bool:
        return other.start is not None and other.start < now

    def has_ended(other: LoggedJob) -> bool:
        if other.end is None:
            return False
        return other.end < now or (same_second and other.end == now and other.start < now)

    mine = [other for other in jobs if job.user is not None and other.user == job.user and other is not job]
    ended = sorted((o for o in mine if has_ended(o)), key=lambda o: (o.end, o.start, o.job_id))
    elapsed = [now - o.start for o in mine if has_started(o) and not has_ended(o)]
    held = [o.procs or 0 for o in mine if has_started(o) and not has_ended(o)]
    waiting = [o for o in mine if (o.submit, o.job_id) < (now, job.job_id) and not has_started(o) and not has_ended(o)]
    runs = [o.run_time for o in ended]
    last_two = runs[-2:]
    nobody = job.user is None
    row = {
        "procs": job.procs,
        "requested_time": job.requested_time,
        "last_two_mean": sum(last_two) / len(last_two) if len(last_two) >= least_ended else None,
        "last_run_time": runs[-1] if runs else None,
        "second_last_run_time": runs[-2] if len(runs) > 1 else None,
        "think_time": now - ended[-1].end if ended else None,
        "longest_running": max(elapsed) if elapsed else None,
        "running_sum": None if nobody else sum(elapsed),
        "running_count": None if nobody else len(elapsed),
        "running_mean": sum(elapsed) / len(elapsed) if elapsed else None,
        "procs_held": None if nobody else sum(held),
        "user": job.user,
        "group": job.group,
        "last_status": ended[-1].status if ended else None,
        "second_last_status": ended[-2].status if len(ended) > 1 else None,
        "ended_count": None if nobody else len(ended),
        "ended_mean": sum(runs) / len(runs) if runs else None,
        "pending_count": None if nobody else len(waiting),
    }
    before = sorted((o for o in jobs if (o.submit, o.job_id) < (now, job.job_id)), key=lambda o: (o.submit, o.job_id))
    everybody = [o for o in jobs if has_ended(o)]
    runs_now = [o for o in jobs if has_started(o) and not has_ended(o)]
    waits_now = [o for o in before if not has_started(o) and not has_ended(o)]
    row |= {
        "machine_pending": len(waits_now),
        "machine_pending_procs": sum(o.procs or 0 for o in waits_now),
        "machine_running": len(runs_now),
        "machine_running_procs": sum(o.procs or 0 for o in runs_now),
    }
    row |= of_submissions([o for o in before if not nobody and o.user == job.user], job)
    groups = {}
    for name, attributes in GROUPS.items():
        key = [getattr(job, a) for a in attributes]
        members = [o for o in everybody if o is not job and [getattr(o, a) for a in attributes] == key]
        groups[name] = [] if None in key else sorted(members, key=lambda o: (o.end, o.start, o.job_id))
        row |= {f"of_{name}_{fact}": value for fact, value in of_group(groups[name], now).items()}
    rank = next((i for i, name in enumerate(BACK_OFF) if groups[name]), None)
    similar = [] if rank is None else groups[BACK_OFF[rank]]
    row |= {f"similar_{fact}": value for fact, value in of_group(similar, now).items()} | {"similar_rank": rank}
    row |= {name: kernel_mean(ended[-64:], job, *scales) for name, scales in KERNELS.items()}
    row |= of_production(ended, job)
    return {name: MISSING if value is None else float(value) for name, value in row.items()}


def of_production(ended: list[LoggedJob], job: LoggedJob) -> dict[str, float | None]:
    """Return what predictors in production read; these small logs have one queue and one partition."""
    ratios = [min(o.run_time / o.requested_time, 1.0) for o in ended[-15:] if o.requested_time]
    about = (job.procs, job.requested_time)
    recent = [o for o in ended[-64:] if job.submit - o.end <= 90 * 86400]
    alike = [o.run_time for o in recent if (o.procs, o.requested_time) == about]
    place = [o.run_time for o in ended[-10:]]
    return {
        "worst_ratio": max(ratios, default=None),
        "alike_mean": sum(alike) / len(alike) if alike else None,
        "place_mean": sum(place) / len(place) if place else None,
    }


GROUPS = {
    "user": ["user"],
    "user_procs": ["user", "procs"],
    "user_request": ["user", "requested_time"],
    "user_procs_request": ["user", "procs", "requested_time"],
    "procs_request": ["procs", "requested_time"],
    "group": ["group"],
}
KERNELS = {
    "kernel_near": (0.1, 0.5, 10, math.inf),
    "kernel_wide": (0.3, 1, 10, math.inf),
    "kernel_timed": (0.1, 0.5, 30, 1),
}
BACK_OFF = ["user_procs_request", "user_request", "user_procs", "user", "procs_request"]


def of_submissions(mine: list[LoggedJob], job: LoggedJob) -> dict[str, float | None]:
    """Return how a submission compares with those of the same user before, in order."""
    burst, newer = 0, job
    for older in reversed(mine):
        if newer.submit - older.submit > 60:
            break
        burst, newer = burst + 1, older
    last = mine[-1] if mine else None
    pairs = {"same_procs": "procs", "same_request": "requested_time"}
    same = {name: (getattr(last, a, None), getattr(job, a)) for name, a in pairs.items()}
    return {
        "since_submit": job.submit - last.submit if last else None,
        "burst": None if job.user is None else burst,
        **{name: None if None in both else both[0] == both[1] for name, both in same.items()},
    }


def of_group(ended: list[LoggedJob], now: int) -> dict[str, float | None]:
    """Return the facts of a group with these ended jobs, in order."""
    facts = ("count", "last", "weighted", "ratio", "mean", "geometric", "min", "lower", "median", "upper", "max", "age")
    if not ended:
        return dict.fromkeys(facts)
    runs = [o.run_time for o in ended]
    ten = runs[-10:]
    values = [
        len(runs),
        runs[-1],
        weighted(runs),
        weighted([o.run_time / o.requested_time for o in ended if o.requested_time]),
        np.mean(ten),
        np.exp(np.mean(np.log(np.maximum(ten, 1)))),
        min(ten),
        *np.percentile(ten, [25, 50, 75]),
        max(ten),
        now - ended[-1].end,
    ]
    return dict(zip(facts, values, strict=True))


def kernel_mean(
    ended: list[LoggedJob], job: LoggedJob, request: float, procs: float, runs: float, hours: float
) -> float | None:
    """Return the mean run time of ended jobs, in order, weighing by how close each is to a job."""

    def log(value: int | None) -> float:
        return math.log(max(value or 1, 1))

    far = [
        abs(log(job.requested_time) - log(o.requested_time)) / request
        + abs(log(job.procs) - log(o.procs)) / procs
        + (len(ended) - 1 - i) / runs
        + math.log(1 + (job.submit - o.end) / 3600) / hours
        for i, o in enumerate(ended)
    ]
    weights = np.exp(min(far, default=0.0) - np.array(far))
    return float(np.average([o.run_time for o in ended], weights=weights)) if ended else None


def weighted(values: list[float]) -> float | None:
    """Return the mean of the first ten, and from then on 9/10 of the mean before and 1/10 of the newest."""
    if not values:
        return None
    mean = float(np.mean(values[:10]))
    for value in values[10:]:
        mean = 0.9 * mean + 0.1 * value
    return mean


def as_log(jobs: list[LoggedJob], **about: object) -> JobLog:
    """Return the same jobs as a log."""
    columns = ("job_id", "submit", "wait", "run_time", "requested_time", "user", "group", "status")
    values, unknown = {}, {}
    for name, attribute in {**{c: c for c in columns}, "requested_procs": "procs"}.items():
        given = [getattr(job, attribute) for job in jobs]
        values[name] = np.array([-1 if value is None else value for value in given], dtype=np.int64)
        unknown[name] = np.array([value is None for value in given], dtype=np.bool_)
    return JobLog.from_columns(values, unknown, **about)


def _maybe(values: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.one_of(values, values, values, st.none())


@st.composite
def logged_jobs(draw: st.DrawFn, most: int = 14) -> list[LoggedJob]:
    """Small logs sorted by (submit, job id), on a coarse grid: ties, zero-length jobs and unknown values abound."""
    small = st.integers(0, 4)
    row = st.tuples(
        st.integers(0, 9),  # submit
        _maybe(small),  # wait
        _maybe(small),  # run time
        _maybe(st.integers(1, 8)),  # processors
        _maybe(st.integers(1, 6)),  # requested time
        _maybe(st.integers(0, 2)),  # user
        _maybe(st.integers(0, 1)),  # group
        _maybe(st.sampled_from([0, 1, 5])),  # status
    )
    rows = draw(st.lists(row, min_size=1, max_size=most))
    ids = draw(st.permutations(range(1, len(rows) + 1)))
    first = min(submit for submit, *_ in rows)
    jobs = [LoggedJob(job_id, submit - first, *rest) for job_id, (submit, *rest) in zip(ids, rows, strict=True)]
    return sorted(jobs, key=lambda job: (job.submit, job.job_id))
