"""Which processors did each job get? The nodes that it ran on, or a placement found afterwards.

A simulation without an allocator counts processors. Any schedule that never overbooks has a placement; the one found
here takes the lowest free numbers at each start.
"""

from bisect import bisect_left

import numpy as np

from schedsim.nodes import Interval
from schedsim.schedule import Schedule


def place(schedule: Schedule) -> list[list[Interval]]:
    """Return the processors of each job as intervals (first, last), both included, numbered from 0.

    Examples
    --------
    >>> from schedsim.engine import simulate
    >>> from schedsim.policy import make_policy
    >>> from schedsim.workload import Workload
    >>> w = Workload.from_columns([0, 1, 2], submit=[0, 0, 1], procs=[2, 3, 5], requested=[5, 9, 9], run_time=[5, 9, 9],
    ...                           machine_procs=8)
    >>> place(simulate(w, make_policy("fcfs")))
    [[(0, 1)], [(2, 4)], [(0, 1), (5, 7)]]
    """
    if schedule.nodes is not None:
        return [schedule.nodes.intervals(row) for row in range(len(schedule.nodes))]
    n_jobs = len(schedule.start)
    empty = schedule.start == schedule.end
    # Within a second: ends, then jobs of length 0, which hold their processors for a moment only, then other starts.
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
