"""Runs of the study: every method on the months to test, validate and train on, and what is measured of its schedules.

The rewards of Fan et al. are defined for an agent's selections. Here both are measured at every start of a job, so
that each method earns as often as any other: once a job. An agent that reserves more often earns nothing by that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.dras.cases import DQL, LINEARS, PG, UNTRAINED
from experiments.papers.dras.job_sets import DAY, HOUR, HUNDREDTH, ORDERS, TENTH, THETA_NODES, WEEK, Counts, Parts
from predictors.core.arrays import Bools, Floats, Ints
from predictors.data.joblog import JobLog
from schedsim.results.metrics import areas, figures, how_started
from schedsim.results.schedule import STARTED_BY, Schedule
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

LONG: Final = 7 * DAY  # jobs that wait longer are counted

RECIPROCALS: Final = {  # axes of the Kiviat graph drawn as reciprocals; utilisation is drawn as it is
    "mean wait": "mean_wait_s",
    "longest wait": "max_wait_s",
    "mean slowdown": "mean_stretch",
    "mean response": "mean_response_s",
}


def row_of(schedule: Schedule) -> dict[str, Any]:
    """Return the figures of a schedule, how its jobs started, and both rewards a start."""
    found: dict[str, Any] = dict(figures(schedule))
    found["waiting_over_7_d"] = int((schedule.wait > LONG).sum())
    jobs, hours = len(schedule.workload), areas(schedule).sum() / HOUR
    for way, counted in how_started(schedule).items():
        found[f"{way}_jobs"] = counted["jobs"] / jobs
        found[f"{way}_hours"] = counted["core_hours"] / hours if hours else float("nan")
        mine = schedule.started_by == STARTED_BY.index(way)
        found[f"{way}_wait_s"] = float(schedule.wait[mine].mean()) if mine.any() else float("nan")
    capability, capacity = rewards(schedule)
    found["capability_reward"] = float(capability.mean())
    found["capacity_reward"] = float(capacity.mean())
    return found


def rewards(schedule: Schedule) -> tuple[Floats, Floats]:
    """Return rewards (1) and (2) at the start of each job, shapes (n_jobs,), rows as in the workload.

    (1), for capability: a third each of the job's wait over the longest wait in the queue, its share of the machine,
    and the share of the machine in use once it has started. (2), for capacity: minus the mean of 1 / request [1/s] over
    the jobs that still wait.

    Starts of one second are taken in the order of submission.

    Two jobs that need the whole machine: the second one starts last, and no one waits then.

    >>> from jobcast import Workload, make_policy, simulate
    >>> jobs = Workload.from_columns([1, 2], submit=[0, 0], procs=[8, 8], requested=[50, 20], run_time=[50, 20],
    ...                              machine_procs=8)
    >>> capability, capacity = rewards(simulate(jobs, make_policy("easy")))
    >>> capability.round(2).tolist(), capacity.tolist()
    ([0.67, 1.0], [-0.05, 0.0])
    """
    jobs = schedule.workload
    submit, procs, machine = jobs.submit.tolist(), jobs.procs.tolist(), jobs.machine_procs
    begin, end, rate = schedule.start.tolist(), schedule.end.tolist(), (1.0 / jobs.requested).tolist()
    capability, capacity = np.empty((2, len(jobs)))
    started = bytearray(len(jobs))
    running = list[tuple[int, int]]()
    used = oldest = come = waiting = 0
    total = 0.0
    for row in np.argsort(schedule.start, kind="stable").tolist():
        now = begin[row]
        while come < len(submit) and submit[come] <= now:
            total += rate[come]
            waiting += 1
            come += 1
        while running and running[0][0] <= now:
            used -= heappop(running)[1]
        while started[oldest]:
            oldest += 1
        longest = max(1, now - submit[oldest])
        started[row] = 1
        used += procs[row]
        heappush(running, (end[row], procs[row]))
        waiting -= 1
        total = total - rate[row] if waiting else 0.0
        capability[row] = ((now - submit[row]) / longest + (procs[row] + used) / machine) / 3
        capacity[row] = -total / waiting if waiting else 0.0
    return capability, capacity


def of_rows(schedule: Schedule, rows: Bools) -> Schedule:
    """Return the part of a schedule with these jobs alone."""
    jobs = schedule.workload
    names = ("job_id", "submit", "procs", "requested", "run_time")
    part = replace(jobs, user=None, deadline=None, **{name: getattr(jobs, name)[rows] for name in names})
    columns = ("start", "end", "estimate", "last_estimate", "started_by")
    return replace(schedule, workload=part, **{name: getattr(schedule, name)[rows] for name in columns})


def weeks_of(schedule: Schedule) -> pd.DataFrame:
    """Return of each week of submissions its jobs, the core hours that they need, and their mean wait."""
    week = (schedule.workload.submit - schedule.workload.submit[0]) // WEEK
    number = np.bincount(week)
    area = np.bincount(week, weights=areas(schedule)) / HOUR
    with np.errstate(invalid="ignore"):
        wait = np.bincount(week, weights=schedule.wait) / number / HOUR
    table = pd.DataFrame({"week": np.arange(1, len(number) + 1), "jobs": number, "core_hours": area, "wait_h": wait})
    return table[number > 0].reset_index(drop=True)


DRAWN: Final = 400  # jobs of a method in the picture of waits by size, in addition to those that wait longest


def jobs_of(schedule: Schedule) -> pd.DataFrame:
    """Return jobs to draw: the longest waits, and others evenly spread; all of them where they are few."""
    order = np.argsort(-schedule.wait, kind="stable")
    rest = order[DRAWN:]
    rows = np.sort(np.concatenate([order[:DRAWN], rest[:: max(1, len(rest) // DRAWN)]]))
    return pd.DataFrame({
        "nodes": schedule.workload.procs[rows], "wait_h": schedule.wait[rows] / HOUR,
        "mode": np.array(STARTED_BY)[schedule.started_by[rows]],
    })  # fmt: skip


def by_size(schedule: Schedule, bounds: Ints) -> Iterator[dict[str, Any]]:
    """Yield for each class of sizes and each way to start the jobs, their mean wait and their longest wait [h]."""
    size = np.searchsorted(bounds, schedule.workload.procs, side="left")
    for number, upper in enumerate(bounds.tolist()):
        for code, mode in enumerate(STARTED_BY):
            mine = (size == number) & (schedule.started_by == code)
            if mine.any():
                wait = schedule.wait[mine] / HOUR
                yield {"up_to_nodes": upper, "mode": mode, "jobs": int(mine.sum()), "mean_wait_h": float(wait.mean()),
                       "longest_wait_h": float(wait.max())}  # fmt: skip


def size_bounds(machine: int) -> Ints:
    """Return the upper ends of classes of sizes, like Theta's 128, 256, 512, 1,024, 2,048 and all 4,360 nodes.

    >>> size_bounds(4360).tolist(), size_bounds(44).tolist()
    ([128, 256, 512, 1024, 2048, 4360], [1, 3, 5, 10, 21, 44])
    """
    parts = np.array([128, 256, 512, 1024, 2048, 4360]) / 4360
    return np.unique(np.maximum(1, np.rint(parts * machine)).astype(np.int64))


TEST: Final = "test"
WARM: Final = "test, warm"
VALIDATION: Final = "validation"
TRAIN: Final = "train"

RUN: Final = "run"
CURVE: Final = "curve"
WEEKS: Final = "weeks"
JOBS: Final = "jobs"
SIZES: Final = "sizes"

Scheduler = Callable[[JobLog, Workload], Schedule]  # schedules the jobs of a log from an idle machine


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    nodes: int  # of the scaled machine
    counts: Counts  # job sets of each kind
    seeds: int  # each draws other job sets, another network and shakes the months otherwise
    orders: int  # orders of job sets that DRAS-PG is trained in; all else is trained in the first
    snapshots: int = 10  # at how many places of the training the agent is tried on the validation month
    control_seeds: int = 5  # seeds of the controls
    agents: tuple[str, ...] = ()  # the only agents to train; empty: all


FULL: Final = Plan(TENTH, Counts(), seeds=10, orders=len(ORDERS))
WHOLE: Final = Plan(THETA_NODES, Counts(), seeds=1, orders=1, snapshots=2, control_seeds=0, agents=(PG, DQL, *LINEARS))
"""The paper's networks: each state that is kept takes 88 MB."""
QUICK: Final = Plan(HUNDREDTH, Counts(3, 3, 27, jobs=800), seeds=3, orders=1, snapshots=5)


@dataclass(frozen=True)
class Work:
    """What every worker is given; trainings of hours are kept in `checkpoints`, job set by job set."""

    parts: Parts
    plan: Plan
    first_seed: int
    checkpoints: Path | None = None


def months(work: Work, seed: int) -> Iterator[tuple[str, JobLog, int]]:
    """Yield the months by name, shaken by the seed, and from which second on the jobs count."""
    parts = work.parts
    for name, log in ((TEST, parts.test), (VALIDATION, parts.validation), (TRAIN, parts.train)):
        yield name, shaken(log, seed), 0
    yield WARM, shaken(parts.later, seed), parts.test.origin - parts.later.origin


def evaluated(
    work: Work, case: str, seed: int, go: Scheduler, more: dict[str, Any] | None = None, only: str | None = None
) -> pd.DataFrame:
    """Return a method's runs on all months, shaken by a seed, or on one part; `table` tells the rows apart."""
    about = {"log": work.parts.test.name, "case": case, "seed": seed, **(more or {})}
    found = list[pd.DataFrame]()
    for part, log, since in months(work, seed):
        if only not in (None, part):
            continue
        schedule = go(log, Workload.from_log(log))
        if since:
            schedule = of_rows(schedule, schedule.workload.submit >= since)
        found.append(pd.DataFrame([{"table": RUN, "part": part, **row_of(schedule)}]))
        if part != TEST:
            continue
        found.append(weeks_of(schedule).assign(table=WEEKS))
        if seed == work.first_seed:
            sizes = by_size(schedule, size_bounds(schedule.workload.machine_procs))
            found += [jobs_of(schedule).assign(table=JOBS), pd.DataFrame(sizes).assign(table=SIZES)]
    return pd.concat(found, ignore_index=True).assign(**about)


def untrained_runs(work: Work, seed: int) -> pd.DataFrame:
    found = [evaluated(work, case.name, seed, partial(case.run, seed=seed)) for case in UNTRAINED]
    return pd.concat(found, ignore_index=True)


def table_of(runs: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the rows of one table, without columns that it does not have."""
    rows = runs[runs["table"] == table].drop(columns="table")
    return rows.dropna(axis="columns", how="all").reset_index(drop=True)
