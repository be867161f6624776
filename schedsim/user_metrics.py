"""How long did users wait who were waiting? Figures of a schedule some of whose jobs could be postponed.

*User wait* is start - submission of a job that could not be postponed, and max(0, end - deadline) of one that could:
until its deadline nobody waits for it [1]_.

References
----------
.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from schedsim.metrics import bounded_slowdown, makespan
from schedsim.postponing import CEILING, check_ceiling, most_in_use
from schedsim.schedule import Schedule
from schedsim.timelines import timeline

Ints = npt.NDArray[np.int64]

BOUND: Final = 60
"""Threshold of the bounded slowdown on user wait [s]."""


def user_wait(schedule: Schedule) -> Ints:
    """Return the user wait of each job [s].

    Examples
    --------
    >>> from schedsim.engine import simulate
    >>> from schedsim.policy import make_policy
    >>> from schedsim.workload import Workload
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 0, 0], procs=[8, 8, 8], requested=[60, 60, 60],
    ...                           run_time=[60, 60, 60], deadline=[-1, 130, 130], machine_procs=8)
    >>> user_wait(simulate(w, make_policy("fcfs"))).tolist()
    [0, 0, 50]
    """
    deadline = schedule.workload.deadline
    if deadline is None:
        return schedule.wait
    return np.where(deadline < 0, schedule.wait, np.maximum(0, schedule.end - deadline))


def time_above(schedule: Schedule, share: float = CEILING) -> int:
    """Return for how long more than a share of the machine was in use [s]."""
    check_ceiling(share)
    line = timeline(schedule)
    above = line.busy_procs[:-1] > most_in_use(share, schedule.workload.machine_procs)
    return int(np.diff(line.time)[above].sum())


def user_figures(schedule: Schedule, share: float = CEILING) -> dict[str, float | None]:
    """Return the figures of a schedule that Li et al. look at; means over all jobs, times in seconds.

    `time_above_share`: of the makespan, with more than `share` of the machine in use. `mean_user_slowdown`: bounded by
    60 s, on user wait, with the run as it was; `..._undilated`: with the run time of the workload. `late`: jobs that
    could be postponed and ended after their deadline. `dilated`: jobs that ran longer than the workload says.
    """
    wait, deadline, alone = user_wait(schedule), schedule.workload.deadline, schedule.workload.run_time
    may_wait = np.zeros(len(wait), dtype=np.bool_) if deadline is None else deadline >= 0
    return {
        "makespan_s": makespan(schedule),
        "time_above_share": time_above(schedule, share) / max(1, makespan(schedule)),
        "mean_user_wait_s": float(wait.mean()),
        "mean_user_slowdown": float(bounded_slowdown(wait, schedule.run_time, BOUND).mean()),
        "mean_user_slowdown_undilated": float(bounded_slowdown(wait, alone, BOUND).mean()),
        "mean_user_wait_regular_s": _mean(wait[~may_wait]),
        "mean_user_wait_postponable_s": _mean(wait[may_wait]),
        "postponable": int(may_wait.sum()),
        "late": int((may_wait & (wait > 0)).sum()),
        "dilated": int((schedule.run_time > alone).sum()),
    }


def _mean(values: Ints) -> float | None:
    return float(values.mean()) if values.size else None
