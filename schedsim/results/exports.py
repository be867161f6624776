"""Exports of a schedule: CSV, Batsim, SWF, Parquet.

A simulation without an allocator only counts processors. Any schedule that never overbooks has a placement; this one
gives each start the lowest free numbers.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.formats.swf import write_swf
from predictors.data.joblog import JobLog
from schedsim.machine.nodes import Interval, interval_set
from schedsim.results.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd


def place(schedule: Schedule) -> list[list[Interval]]:
    """Return the processors of each job as intervals (first, last), both included, numbered from 0.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([0, 1, 2], submit=[0, 0, 1], procs=[2, 3, 5], requested=[5, 9, 9], run_time=[5, 9, 9],
    ...                           machine_procs=8)
    >>> place(simulate(w, make_policy("fcfs")))
    [[(0, 1)], [(2, 4)], [(0, 1), (5, 7)]]
    """
    if schedule.nodes is not None:
        return [schedule.nodes.intervals(row) for row in range(len(schedule.nodes))]
    n_jobs = len(schedule.start)
    empty = schedule.start == schedule.end
    # within a second: ends, then jobs of length 0 (they hold processors for a moment only), then other starts
    phase = np.concatenate([np.where(empty, 1, 2), np.where(empty, 3, 0)])
    held: list[list[Interval]] = [[] for _ in range(n_jobs)]
    free: list[Interval] = [(0, schedule.workload.machine_procs - 1)]
    for event in np.lexsort((phase, np.concatenate([schedule.start, schedule.end]))).tolist():
        row = event % n_jobs
        if event < n_jobs:
            held[row] = _take(free, int(schedule.workload.procs[row]))
        if empty[row] == (event < n_jobs):
            for interval in held[row]:
                _give_back(free, interval)
    return held


def _take(free: list[Interval], wanted: int) -> list[Interval]:
    taken: list[Interval] = []
    while wanted:
        first, last = free[0]
        cut = min(last, first + wanted - 1)
        taken.append((first, cut))
        wanted -= cut - first + 1
        if cut == last:
            del free[0]
        else:
            free[0] = (cut + 1, last)
    return taken


def _give_back(free: list[Interval], interval: Interval) -> None:
    first, last = interval
    place = bisect_left(free, interval)
    if place < len(free) and free[place][0] == last + 1:
        last = free.pop(place)[1]
    if place and free[place - 1][1] == first - 1:
        place -= 1
        first = free.pop(place)[0]
    free.insert(place, (first, last))


def to_frame(schedule: Schedule) -> "pd.DataFrame":
    """Return the columns of a schedule's files as a table, one row a job."""
    import pandas as pd

    return pd.DataFrame(schedule.columns())


def to_log(schedule: Schedule, log: JobLog) -> JobLog:
    """Return the cleaned log that was simulated with the simulated waits and run times in place of its own."""
    if not np.array_equal(log.filled("job_id"), schedule.workload.job_id):
        raise JobcastError(f"{log.name}: is not the log of this schedule; give the cleaned log that was simulated.")
    return log.replaced({"wait": schedule.wait, "run_time": schedule.run_time, "allocated_procs": log.procs})


BATSIM_COLUMNS: Final = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip


def batsim_frame(schedule: Schedule) -> "pd.DataFrame":
    """Return the table of Batsim's `jobs.csv`, which Gantt tools read; times from the first submission.

    Processors are numbered by `schedsim.results.exports`; energy and metadata stay empty.
    """
    import pandas as pd

    workload, killed = schedule.workload, schedule.killed
    turnaround = schedule.end - workload.submit
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.where(schedule.run_time > 0, turnaround / schedule.run_time, np.inf)
    columns = (
        workload.job_id,
        workload.name,
        "delay",
        workload.submit,
        workload.procs,
        workload.requested,
        (~killed).astype(np.int64),
        np.where(killed, "COMPLETED_WALLTIME_REACHED", "COMPLETED_SUCCESSFULLY"),
        schedule.start,
        schedule.run_time,
        schedule.end,
        schedule.wait,
        turnaround,
        stretch,
        [interval_set(held) for held in place(schedule)],
        "",
        "",
    )
    return pd.DataFrame(dict(zip(BATSIM_COLUMNS, columns, strict=True)))


def _write_batsim(schedule: Schedule, log: JobLog, path: Path) -> None:
    with whole_file(path) as part:
        batsim_frame(schedule).to_csv(part, index=False, lineterminator="\n")


def _write_parquet(schedule: Schedule, log: JobLog, path: Path) -> None:
    with whole_file(path) as part, part.open("wb") as file:  # Arrow refuses paths that are not UTF-8
        to_frame(schedule).to_parquet(file, index=False)


def _write_swf(schedule: Schedule, log: JobLog, path: Path) -> None:
    write_swf(to_log(schedule, log), path)


Writer = Callable[[Schedule, JobLog, Path], None]

WRITERS: Final[Mapping[str, Writer]] = MappingProxyType(
    {
        ".jobs.csv": _write_batsim,
        ".csv": lambda schedule, log, path: schedule.write_csv(path),
        ".parquet": _write_parquet,
        ".swf": _write_swf,
        ".swf.gz": _write_swf,
    }
)
"""Formats by how a file's name ends; `NAME.jobs.csv` and `jobs.csv` are Batsim's."""


def schedule_writer(path: str | os.PathLike[str]) -> Writer:
    """Return the writer for a file by its name.

    >>> schedule_writer("out.xlsx")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: out.xlsx: a schedule is written as .jobs.csv, .csv, .parquet, .swf or .swf.gz;
    choose a name that ends so.
    """
    name = Path(path).name.lower()
    for ending, write in WRITERS.items():
        if name.endswith(ending) or name == ending[1:]:
            return write
    *most, last = WRITERS
    raise JobcastError(f"{path}: a schedule is written as {', '.join(most)} or {last}; choose a name that ends so.")
