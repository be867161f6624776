"""What do a site's queues get? Waits and node-hours of each, and how much of the work is capability work."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from schedsim.rules import Rules
from schedsim.schedule import Schedule

Floats = npt.NDArray[np.float64]

HOUR: Final = 3600.0
CAPABILITY_PARTS: Final = ((1 / 6, 0.8), (1 / 3, 0.2))
"""Widths, as parts of the machine, and the weights of the shares of work at least so wide: 8,192 and 16,384 nodes of
Mira's 49,152. Allcock et al. give no weights; these make 20 % of the mean of the two widths."""


def by_queue(schedule: Schedule, rules: Rules) -> Mapping[str, Mapping[str, Any]]:
    """Return a queue's jobs, means and sums, the columns of Table 2 of Allcock et al., nodes for cores.

    References
    ----------
    .. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at
       Argonne. JSSPP 2017. doi:10.1007/978-3-319-77398-8_1
    """
    workload, queue = schedule.workload, rules.serves(schedule.workload)
    hours = workload.procs * schedule.run_time / HOUR
    asked = workload.procs * workload.requested / HOUR
    table = {}
    for number, one in enumerate(rules.router.queues):
        mine = queue == number
        if not mine.any():
            continue
        table[one.name] = {
            "jobs": int(mine.sum()),
            "mean_nodes": float(workload.procs[mine].mean()),
            "mean_wait_s": float(schedule.wait[mine].mean()),
            "median_wait_s": float(np.median(schedule.wait[mine])),
            "mean_walltime_s": float(workload.requested[mine].mean()),
            "mean_run_time_s": float(schedule.run_time[mine].mean()),
            "mean_node_hours": float(hours[mine].mean()),
            "mean_requested_node_hours": float(asked[mine].mean()),
            "node_hours": float(hours[mine].sum()),
        }
    return table


def capability_share(schedule: Schedule, until: int | None = None) -> float:
    """Return the split capability metric: the weighted mean of the shares of work of two widths, see the constant.

    Until a second, where it is given: in the end every policy has done all the work.
    """
    workload = schedule.workload
    work = delivered(schedule, int(schedule.end.max()) if until is None else until)
    wide = workload.procs / workload.machine_procs
    shares = [(weight, work[wide >= part].sum() / max(work.sum(), 1e-9)) for part, weight in CAPABILITY_PARTS]
    return float(sum(weight * share for weight, share in shares))


def delivered(schedule: Schedule, until: int) -> Floats:
    """Return each job's processor-hours before a second: what a queue that never empties has done by then."""
    workload = schedule.workload
    ran = np.clip(np.minimum(schedule.end, until) - schedule.start, 0, None)
    return np.asarray(workload.procs * ran / HOUR, dtype=np.float64)
