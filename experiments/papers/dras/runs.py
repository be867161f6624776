"""Runs of the study: every method on the months to test, validate and train on, seed by seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd

from experiments.papers.dras.cases import DQL, PG, UNTRAINED
from experiments.papers.dras.job_sets import HUNDREDTH, ORDERS, TENTH, THETA_NODES, Counts, Parts
from experiments.papers.dras.measures import by_size, jobs_of, of_rows, row_of, size_bounds, weeks_of
from predictors.data.joblog import JobLog
from schedsim.results.schedule import Schedule
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

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
WHOLE: Final = Plan(THETA_NODES, Counts(), seeds=1, orders=1, snapshots=2, control_seeds=0, agents=(PG, DQL))
"""The paper's networks: each state that is kept takes 88 MB."""
QUICK: Final = Plan(HUNDREDTH, Counts(3, 3, 27, jobs=800), seeds=3, orders=1, snapshots=5)


@dataclass(frozen=True)
class Work:
    """What every worker is given.

    Trainings of hours are kept in the folder `checkpoints`, job set by job set.
    """

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
    work: Work,
    case: str,
    seed: int,
    go: Scheduler,
    more: dict[str, Any] | None = None,
    only: str | None = None,
) -> pd.DataFrame:
    """Return the runs of a method on all months, shaken by a seed, or only on one part, called `case` in tables.

    The rows belong to several tables, distinguished by the column `table`.
    """
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
    """Return the runs of every method without training by one seed."""
    found = [evaluated(work, case.name, seed, partial(case.run, seed=seed)) for case in UNTRAINED]
    return pd.concat(found, ignore_index=True)


def table_of(runs: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the rows of one table, without columns that it does not have."""
    rows = runs[runs["table"] == table].drop(columns="table")
    return rows.dropna(axis="columns", how="all").reset_index(drop=True)
