"""Figures of a site: by queue, users' waits, availability.

*User wait* is start - submission of a job that could not be postponed, and max(0, end - deadline) of one that could:
until its deadline no user waits for it (Li et al., ROSS 2019).
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from schedsim.machine.outages import Outages, size_of
from schedsim.policies.ceil import CEILING, Ceiling, most_in_use
from schedsim.results.metrics import areas, bounded_slowdown, makespan
from schedsim.results.schedule import Schedule
from schedsim.results.timelines import timeline
from schedsim.sites.cobalt.rules import Rules

HOUR: Final = 3600.0
CAPABILITY_PARTS: Final = ((1 / 6, 0.8), (1 / 3, 0.2))
"""Widths, as shares of the machine, and the weight of the work in jobs of at least that width: 8,192 and 16,384 nodes
of Mira's 49,152. Allcock et al. give no weights; these make 20 % of the mean of the two widths."""


def by_queue(schedule: Schedule, rules: Rules) -> Mapping[str, Mapping[str, Any]]:
    """Return a queue's jobs, means and sums, the columns of Table 2 of Allcock et al., nodes for cores.

    .. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at
       Argonne. JSSPP 2017. doi:10.1007/978-3-319-77398-8_1
    """
    workload, queue = schedule.workload, rules.serves(schedule.workload)
    hours = areas(schedule) / HOUR
    asked = workload.procs.astype(np.float64) * workload.requested / HOUR
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
    """Return the split capability metric: the weighted mean of the shares of work of two widths.

    `until` limits it to the work done before that second, since in the end every policy has done all the work.
    """
    workload = schedule.workload
    work = delivered(schedule, int(schedule.end.max()) if until is None else until)
    wide = workload.procs / workload.machine_procs
    shares = [(weight, work[wide >= part].sum() / max(work.sum(), 1e-9)) for part, weight in CAPABILITY_PARTS]
    return float(sum(weight * share for weight, share in shares))


def delivered(schedule: Schedule, until: int) -> Floats:
    """Return each job's processor-hours before a second, for a queue that never empties."""
    workload = schedule.workload
    ran = np.clip(np.minimum(schedule.end, until) - schedule.start, 0, None)
    return np.asarray(workload.procs.astype(np.float64) * ran / HOUR, dtype=np.float64)


USER_BOUND: Final = 60  # threshold of the bounded slowdown on user wait [s]


def user_wait(schedule: Schedule) -> Ints:
    """Return the user wait of each job [s].

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
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
    """Return how long more than a share of the machine was in use [s]."""
    share = Ceiling(share).share
    line = timeline(schedule)
    above = line.busy_procs[:-1] > most_in_use(share, schedule.workload.machine_procs)
    return int(np.diff(line.time)[above].sum())


def user_figures(schedule: Schedule) -> dict[str, float | None]:
    """Return the figures of Li et al. for a schedule; means over all jobs, times in seconds.

    `time_above_share`: of the makespan, with more than `CEILING` of it in use. `mean_user_slowdown`: bounded by
    60 s, on user wait, with the run as it was; `..._undilated`: with the run time of the workload. `late`: jobs that
    could be postponed and ended after their deadline. `dilated`: jobs that ran longer than the workload says.
    """
    wait, deadline, alone = user_wait(schedule), schedule.workload.deadline, schedule.workload.run_time
    may_wait = np.zeros(len(wait), dtype=np.bool_) if deadline is None else deadline >= 0
    return {
        "makespan_s": makespan(schedule),
        "time_above_share": time_above(schedule, CEILING) / max(1, makespan(schedule)),
        "mean_user_wait_s": float(wait.mean()),
        "mean_user_slowdown": float(bounded_slowdown(wait, schedule.run_time, USER_BOUND).mean()),
        "mean_user_slowdown_undilated": float(bounded_slowdown(wait, alone, USER_BOUND).mean()),
        "mean_user_wait_regular_s": _mean(wait[~may_wait]),
        "mean_user_wait_postponable_s": _mean(wait[may_wait]),
        "postponable": int(may_wait.sum()),
        "late": int((may_wait & (wait > 0)).sum()),
        "dilated": int((schedule.run_time > alone).sum()),
    }


def _mean(values: Ints) -> float | None:
    return float(values.mean()) if values.size else None


def available(outages: Outages, machine_procs: int) -> tuple[Ints, Ints]:
    """Return when the number of available processors changes, ascending, and to how many.

    The first second is the smallest int64. Reserved nodes and nodes that are down add up, so those that are both count
    twice, up to the whole machine.

    >>> from schedsim.machine.outages import Change, Reservation
    >>> seconds, procs = available(Outages([Reservation(10, 20)], [Change(5, "fail", 1), Change(30, "repair", 1)]), 8)
    >>> seconds[1:].tolist(), procs.tolist()
    ([5, 10, 20, 30], [8, 7, 0, 7, 8])
    """
    reserved_at, levels = outages.reserved(machine_procs)
    steps = [change.procs or size_of(change.nodes or ()) for change in outages.changes]
    down = np.cumsum([step if c.kind == "fail" else -step for step, c in zip(steps, outages.changes, strict=True)])
    down_at = np.array([change.time for change in outages.changes], dtype=np.int64)
    seconds = np.unique(np.concatenate([reserved_at, down_at, [np.iinfo(np.int64).min]]))

    def level(times: Ints, values: Ints) -> Ints:
        return np.concatenate([[0], values])[np.searchsorted(times, seconds, side="right")].astype(np.int64)

    return seconds, np.maximum(0, machine_procs - level(reserved_at, levels) - level(down_at, down))


def disturbed_figures(schedule: Schedule) -> dict[str, Any]:
    """Return the processor seconds lost to reservations and failures; empty without any.

    `available` is the share of the machine's processor seconds within the makespan that jobs could have,
    `utilisation_of_available` the share of these used by runs that no failure stopped.
    """
    if schedule.disturbed is None:
        return {}
    disturbed, procs, span = schedule.disturbed, schedule.workload.procs, makespan(schedule)
    seconds, free = available(disturbed.outages, schedule.workload.machine_procs)
    begin = int(schedule.workload.submit.min())
    edges = np.clip(np.append(seconds, begin + span), begin, begin + span)
    room = float((np.diff(edges) * free.astype(np.float64)).sum())
    used = areas(schedule)[~disturbed.dropped].sum(dtype=np.float64)
    runs = disturbed.runs
    lost = ((runs[:, 2] - runs[:, 1]) * procs[runs[:, 0]].astype(np.float64)).sum()
    whole = float(span) * schedule.workload.machine_procs
    return {
        "available": room / whole if whole else 1.0,
        "utilisation_of_available": float(used / room) if room else 0.0,
        "interrupted": len(runs),
        "lost_processor_hours": float(lost / 3600),
        "dropped": int(disturbed.dropped.sum()),
    }


def preemption_figures(schedule: Schedule) -> dict[str, Any]:
    """Return how many runs were stopped for other jobs, of how many jobs, and what that lost; empty without preemption.

    `cancelled` counts the jobs that did not start again.
    """
    preempted = schedule.preempted
    if preempted is None:
        return {}
    lost = float(preempted.seconds.astype(np.float64) @ schedule.workload.procs)
    return {
        "preemptions": len(preempted.runs),
        "preempted_jobs": int((preempted.times > 0).sum()),
        "preempted_processor_seconds": lost,
        "cancelled": int(preempted.cancelled.sum()),
    }
