"""Figures by resource: how much of the processors, GPUs and memory jobs hold, and who waits for which.

A job's **dominant** resource is the one with the greatest requested share of the machine (Ghodsi et al., Dominant
resource fairness, NSDI 2011); of equal shares the first of processors, GPUs and memory.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import schedsim.kernels.places.records as of
from predictors.core.arrays import Bools, Floats
from schedsim.results.metrics import bounded_slowdown, makespan
from schedsim.results.schedule import Schedule
from schedsim.workload.demands import FIELDS, RESOURCES, Demands


def dominant(demands: Demands) -> Any:
    """Return the number of each job's dominant resource among `RESOURCES`, int64 array of shape (n_jobs,)."""
    shares = [demands.held(field) / (demands.total(field) or np.inf) for field in FIELDS]
    return np.argmax(np.stack(shares), axis=0)


def resource_figures(schedule: Schedule) -> dict[str, Any]:
    """Return the figures by resource of a schedule on nodes; empty where jobs ask for processors alone.

    `resources` has, for each resource that counts on every node, the machine's `total`; `utilisation`, the share of its
    seconds within the makespan that jobs asked for, in whole pieces; `held`, the same with everything on the nodes of
    exclusive jobs. `by_dominant` has for each dominant resource the number of jobs, their mean wait and mean bounded
    slowdown.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> from predictors.data.joblog import JobLog
    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 0], "run_time": [10, 10], "requested_time": [10, 10],
    ...                            "requested_procs": [4, 4], "requested_gpus": [2, 2]}, {}, max_procs=8)
    >>> log, demands, _ = demands_of(log, Machine((NodeGroup("gpu", 2, 4, gpus=1),)))
    >>> found = resource_figures(simulate(Workload.from_log(log, demands), make_policy("easy")))
    >>> found["resources"]["gpus"], found["by_dominant"]["gpus"]["mean_wait_s"]
    ({'total': 2, 'utilisation': 1.0, 'held': 1.0}, 5.0)
    """
    demands, placements = schedule.workload.demands, schedule.placements
    if demands is None or placements is None:
        return {}
    lasts, span = schedule.run_time.astype(np.float64), makespan(schedule)
    alone = _alone(demands)[placements.job] | demands.nodes["one_job"][placements.node]
    resources: dict[str, Any] = {}
    for name, field in zip(RESOURCES, FIELDS, strict=True):
        total = demands.total(field)
        if not total:
            continue
        piece = demands.shapes[field][demands.shape_of[placements.job]]
        asked = placements.pieces * piece
        held = np.where(alone, demands.nodes[field][placements.node], asked)
        resources[name] = {
            "total": total,
            "utilisation": _share(asked * lasts[placements.job], total, span),
            "held": _share(held * lasts[placements.job], total, span),
        }
    return {"resources": resources, "by_dominant": _by_dominant(schedule, demands)}


def _alone(demands: Demands) -> Bools:
    """Return which jobs share nodes with no other, not even of their user."""
    return np.asarray((demands.shapes["exclusive"] & (demands.shapes["alike"] == 0))[demands.shape_of])


def flat(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures with separate columns by resource: `gpus_utilisation`, `gpus_mean_wait_s`, ….

    >>> flat({"killed": 0, "resources": {"gpus": {"held": 0.5}}, "by_dominant": {"gpus": {"jobs": 2}}})
    {'killed': 0, 'gpus_held': 0.5, 'gpus_jobs': 2}
    """
    tables = ("resources", "by_dominant")
    row = {name: value for name, value in found.items() if name not in tables}
    for table in tables:
        for resource, figures in found.get(table, {}).items():
            row |= {f"{resource}_{name}": value for name, value in figures.items()}
    return row


def _share(work: Floats, total: int, span: int) -> float:
    return float(work.sum() / (float(total) * span)) if span else 0.0


def _by_dominant(schedule: Schedule, demands: Demands) -> dict[str, dict[str, float]]:
    """Return the waits of the jobs of each dominant resource that some job has."""
    number, slowness = dominant(demands), bounded_slowdown(schedule.wait, schedule.run_time)
    found = {}
    for place, name in enumerate(RESOURCES):
        mine = number == place
        if mine.any():
            found[name] = {
                "jobs": int(mine.sum()),
                "mean_wait_s": float(schedule.wait[mine].mean()),
                "p99_wait_s": float(np.percentile(schedule.wait[mine], 99)),
                "mean_bounded_slowdown": float(slowness[mine].mean()),
            }
    return found


def overfull(schedule: Schedule) -> tuple[int, str] | None:
    """Return the row of the first job that overbooks a node, and what is wrong; None if no node is overbooked.

    It adds up the running totals of each node in the order of time, from starts, ends and placements alone.
    """
    demands, parts = schedule.workload.demands, schedule.placements
    if demands is None or parts is None:
        return None
    lasts = schedule.end[parts.job] > schedule.start[parts.job]
    job, node, pieces = parts.job[lasts], parts.node[lasts], parts.pieces[lasts]
    shape = demands.shape_of[job]
    times = np.concatenate([schedule.end[job], schedule.start[job]])
    sign = np.repeat([-1, 1], len(job))
    both, nodes = np.tile(job, 2), np.tile(node, 2)
    order = np.lexsort((sign, times, nodes))  # on each node, at each second ends come first
    first = np.searchsorted(nodes[order], nodes[order])
    amounts = {field: pieces * demands.shapes[field][shape] for field in FIELDS}
    ones = np.ones(len(job), dtype=np.int64)
    user = np.zeros(len(job), dtype=np.int64)
    if schedule.workload.user is not None:
        user = np.unique(schedule.workload.user[job], return_inverse=True)[1].reshape(-1)
    amounts |= {"n_jobs": ones, "alone": ones * _alone(demands)[job], "user": user, "squared": user**2}
    amounts |= {"exclusive": ones * demands.shapes["exclusive"][shape]}
    used = {}
    for name, amount in amounts.items():
        total = np.cumsum((np.tile(amount, 2) * sign)[order])
        before = total - (np.tile(amount, 2) * sign)[order]
        used[name] = total - before[first]
    for field, name in zip(FIELDS, RESOURCES, strict=True):
        has = demands.nodes[field][nodes[order]]
        over = (used[field] > has) & (has < of.UNLIMITED)
        if over.any():
            place = int(np.argmax(over))
            where = f"on node {nodes[order][place]}, when {used[field][place]} of its {has[place]} {name} are in use"
            return int(both[order][place]), f"starts at {times[order][place]} s {where}"
    one_job = demands.nodes["one_job"][nodes[order]]
    differ = used["n_jobs"] * used["squared"] != used["user"] ** 2  # jobs of several users
    shared = (used["n_jobs"] > 1) & (one_job | (used["alone"] > 0) | ((used["exclusive"] > 0) & differ))
    if shared.any():
        place = int(np.argmax(shared))
        where = f"on node {nodes[order][place]}, which one of its jobs has exclusively"
        return int(both[order][place]), f"runs at {times[order][place]} s {where}"
    return None
