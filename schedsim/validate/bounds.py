"""The latest start of each job under a priority with due dates, however wrong the estimates are.

The theorem, for jobs that are killed at their requested times on a machine that loses no processors, under EASY by a
priority with due dates in which the head keeps its place and a promise: let a job be submitted at `s`; let `A` be what
the jobs running and queued then may take by their requested times [processor-seconds]; let `P` be the processors of the
machine, `R` the longest requested time, `S` the longest slack of promises. The job is due by
`D = s + grace + share * A / P`. Let `n` be the number of jobs submitted before it that still wait at `D`. Then it
starts by `D + (n + 2) * (R + S)`.

Proof. Estimates never exceed requested times, so the due date is at most `D`. From then on only the head of that time,
which keeps its place, and the `n` may come before it: no later job is overdue before it. Each of these jobs,
and then the job itself, becomes the head at the second at which the one before it starts. A head that does not fit is
promised its shadow time by requested times, which is at most `R` later, since all jobs running now have ended by then,
and at most `S` of slack. No later start breaks the promise by requested times, and no job outruns its request.
"""

from bisect import bisect_right, insort

import numpy as np

from predictors.core.arrays import Ints
from schedsim.policies.policy import Policy
from schedsim.results.schedule import Schedule


def is_bounded(policy: Policy) -> bool:
    """Return whether the theorem holds for a policy.

    >>> from schedsim.policies.policy import make_policy
    >>> is_bounded(make_policy("balanced")), is_bounded(make_policy("careful"))
    (True, False)
    """
    priority, promise = policy.order.priority, policy.promise
    if policy.agent is not None:  # it may start later jobs first
        return False
    return priority is not None and priority.grace is not None and promise is not None and promise.kept


def latest_starts(
    schedule: Schedule,  # of a run that kills jobs at their requested times
    policy: Policy,  # one that `is_bounded`
) -> Ints:
    """Return the latest start of each job [s], by the theorem above."""
    workload, priority, promise = schedule.workload, policy.order.priority, policy.promise
    assert priority is not None and priority.grace is not None and promise is not None
    each = int(workload.requested.max(initial=0)) + (promise.most if promise.growth > 0 else promise.slack)
    share = priority.share * _work_ahead(schedule) / workload.machine_procs
    due = workload.submit + np.floor(priority.grace + share).astype(np.int64)
    earlier: list[int] = []  # starts of the jobs submitted before, ascending
    ahead = np.empty(len(due), dtype=np.int64)
    for row, (start, second) in enumerate(zip(schedule.start.tolist(), due.tolist(), strict=True)):
        ahead[row] = len(earlier) - bisect_right(earlier, second)
        insort(earlier, start)
    return due + (ahead + 2) * each


def _work_ahead(schedule: Schedule) -> "np.typing.NDArray[np.float64]":
    """Return what the jobs running and queued at each submission may take by their requested times, shape (n_jobs,)."""
    workload, start, end = schedule.workload, schedule.start, schedule.end
    rows = np.arange(len(start))
    events = np.concatenate(  # ends before submissions before starts
        [
            np.stack([when, np.full(len(rows), kind), rows], axis=1)
            for kind, when in enumerate((end, workload.submit, start))
        ]
    )
    area, limit = workload.procs * workload.requested.astype(np.float64), start + workload.requested
    work, queued, until, procs = np.zeros(len(rows)), 0.0, 0.0, 0
    for now, kind, row in events[np.lexsort(events.T[::-1])].tolist():
        if kind == 1:
            work[row] = queued + max(0.0, until - float(now) * procs)
            queued += area[row]
        elif kind == 2:
            queued -= area[row]
        if kind != 1 and end[row] > start[row]:
            sign = 1 if kind == 2 else -1
            until += sign * float(limit[row]) * int(workload.procs[row])
            procs += sign * int(workload.procs[row])
    return work
