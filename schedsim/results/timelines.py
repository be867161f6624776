"""Timelines of a schedule as step functions."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints, short_repr
from schedsim.results.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Timeline:
    """Values from each second of `time` until the next; arrays of shape (n_instants,)."""

    time: Ints  # seconds since the first submission at which something changed, ascending
    busy_procs: Ints  # processors in use
    # queued_jobs, queued_procs: waiting jobs, and the processors that they ask for
    queued_jobs: Ints
    queued_procs: Ints

    __repr__ = short_repr


def timeline(schedule: Schedule) -> Timeline:
    """Return the step functions of a schedule: after the ends, submissions and starts of each second.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([0, 1], submit=[0, 1], procs=[6, 8], requested=[10, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> line = timeline(simulate(w, make_policy("fcfs")))
    >>> line.time.tolist(), line.busy_procs.tolist(), line.queued_jobs.tolist()
    ([0, 1, 9, 19], [6, 6, 8, 0], [0, 1, 0, 0])
    """
    workload, start, end = schedule.workload, schedule.start, schedule.end
    time = np.unique(np.concatenate([workload.submit, start, end]))
    ones = np.ones(len(workload), dtype=np.int64)

    def level(up: Ints, down: Ints, amount: Ints) -> Ints:
        change = np.zeros(len(time), dtype=np.int64)
        np.add.at(change, np.searchsorted(time, up), amount)
        np.subtract.at(change, np.searchsorted(time, down), amount)
        return np.cumsum(change)

    return Timeline(
        time,
        level(start, end, workload.procs),
        level(workload.submit, start, ones),
        level(workload.submit, start, workload.procs),
    )


def in_use(start: Ints, end: Ints, procs: Ints) -> tuple[Ints, Ints]:
    """Return the seconds at which the processors in use change, ascending, and how many are in use from each of them.

    >>> in_use(np.array([0, 5]), np.array([10, 8]), np.array([4, 2]))
    (array([ 0,  5,  8, 10]), array([4, 6, 4, 0]))
    """
    time, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.bincount(place, weights=np.concatenate([procs, -procs]), minlength=len(time))
    return time, np.cumsum(change).round().astype(np.int64)


def value_at(seconds: Ints, time: Ints, value: Ints) -> Ints:
    """Return the value of a step function at some seconds; 0 before its first.

    >>> value_at(np.array([-1, 0, 7]), *in_use(np.array([0]), np.array([5]), np.array([4])))
    array([0, 4, 0])
    """
    place = np.searchsorted(time, seconds, side="right") - 1
    return np.where(place >= 0, value[np.maximum(place, 0)], 0)


def mean_by_span(
    line: Timeline,
    values: Ints,  # shape (n_instants,); one of its columns
    n_spans: int,  # how many spans the whole time is cut into
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the time-weighted means of a step function over equal spans, and where each span begins [s].

    >>> line = Timeline(np.array([0, 10, 20]), np.array([4, 8, 0]), np.zeros(3, int), np.zeros(3, int))
    >>> mean_by_span(line, line.busy_procs, 2)[0].tolist()
    [4.0, 8.0]
    """
    edges = np.linspace(line.time[0], line.time[-1], n_spans + 1)
    area = np.concatenate([[0.0], np.cumsum(np.diff(line.time) * values[:-1])])
    cumulated = np.interp(edges, line.time, area)
    width = np.maximum(np.diff(edges), 1e-9)
    return np.diff(cumulated) / width, edges[:-1]
