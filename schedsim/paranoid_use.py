"""Whether a schedule uses more than there is: of the machine, a node, a share of a queue, or below a ceiling."""

import numpy as np
import numpy.typing as npt

from schedsim.availability import available
from schedsim.paranoid_laws import AVAILABLE, CAPACITY, CEILING, NODES, SHARES, refuse
from schedsim.paranoid_replay import Broken
from schedsim.postponing import most_in_use, share_of
from schedsim.rules import Rules
from schedsim.schedule import Disturbed, Schedule

Ints = npt.NDArray[np.int64]


def check_capacity(schedule: Schedule) -> None:
    """Count the processors in use after the ends and starts of each second."""
    seconds, in_use = _in_use(schedule)
    over = in_use > schedule.workload.machine_procs
    if over.any():
        second, used = int(seconds[np.argmax(over)]), int(in_use[np.argmax(over)])
        row = int(np.argmax((schedule.end > schedule.start) & (schedule.start == second)))
        raise Broken(
            CAPACITY,
            row,
            f"starts at {second} s, when {used} of {schedule.workload.machine_procs} processors are in use",
        )


def _in_use(schedule: Schedule) -> tuple[Ints, Ints]:
    """Return when the number of processors in use changes, and to how many; runs that failures stopped count."""
    runs = np.stack([np.arange(len(schedule.start)), schedule.start, schedule.end], axis=1)
    if schedule.disturbed is not None:
        runs = np.concatenate([runs[~schedule.disturbed.dropped], schedule.disturbed.runs])
    runs = runs[runs[:, 1] < runs[:, 2]]
    procs = schedule.workload.procs[runs[:, 0]]
    seconds, place = np.unique(np.concatenate([runs[:, 1], runs[:, 2]]), return_inverse=True)
    change = np.bincount(place, weights=np.concatenate([procs, -procs]), minlength=len(seconds))
    return seconds, np.cumsum(change.astype(np.int64))


def check_nodes(schedule: Schedule) -> None:
    """Look at each node's jobs one after the other."""
    if schedule.nodes is None:
        return
    nodes, count = schedule.nodes, schedule.nodes.counts
    refuse(NODES, count != schedule.workload.procs, "has {} nodes and needs {}", count, schedule.workload.procs)
    # Between two borders, where some job's nodes begin or end, a machine is one node for all that matters here.
    ends = nodes.last.astype(np.int64) + 1
    borders = np.unique(np.concatenate([nodes.first, ends]))
    begins = np.searchsorted(borders, nodes.first)
    pieces = np.searchsorted(borders, ends) - begins
    ids = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces) + np.repeat(begins, pieces)
    row = np.repeat(np.repeat(np.arange(len(count)), np.diff(nodes.offsets)), pieces)
    runs = (schedule.end > schedule.start)[row]
    ids, row = ids[runs], row[runs]
    order = np.lexsort((schedule.start[row], ids))
    ids, row = ids[order], row[order]
    twice = np.flatnonzero((ids[1:] == ids[:-1]) & (schedule.start[row[1:]] < schedule.end[row[:-1]]))
    if twice.size:
        before, after = int(row[twice[0]]), int(row[twice[0] + 1])
        raise Broken(
            NODES, after, f"starts at {schedule.start[after]} s on node {borders[ids[twice[0]]]}, which job "
            f"{schedule.workload.job_id[before]} holds until {schedule.end[before]} s"
        )  # fmt: skip


def check_available(schedule: Schedule, disturbed: Disturbed) -> None:
    """Look at each second at which more is in use, or less is available."""
    used_at, used = _in_use(schedule)
    free_at, free = available(disturbed.outages, schedule.workload.machine_procs)
    seconds = np.unique(np.concatenate([used_at, free_at]))
    in_use = np.concatenate([[0], used])[np.searchsorted(used_at, seconds, side="right")]
    room = free[np.searchsorted(free_at, seconds, side="right") - 1]
    over = in_use > room
    if over.any():
        place = int(np.argmax(over))
        row = int(np.argmax((schedule.start <= seconds[place]) & (schedule.end > seconds[place])))
        raise Broken(
            AVAILABLE,
            row,
            f"runs at {seconds[place]} s, when {in_use[place]} processors are in use and {room[place]} available",
        )


def check_shares(schedule: Schedule, rules: Rules) -> None:
    """Count the processors that the jobs of each queue use."""
    queue = rules.routes(schedule.workload)
    for number, one in enumerate(rules.router.queues):
        if one.share is None:
            continue
        mine = (queue == number) & (schedule.end > schedule.start)
        times = np.concatenate([schedule.end[mine], schedule.start[mine]])
        change = np.concatenate([-schedule.workload.procs[mine], schedule.workload.procs[mine]])
        order = np.argsort(times, kind="stable")
        used = np.cumsum(change[order])
        if used.size and used.max() > one.share:
            second = int(times[order][np.argmax(used)])
            row = int(np.argmax(mine & (schedule.start == second)))
            raise Broken(
                SHARES, row, f"starts at {second} s, when {one.name} uses {used.max()} of its {one.share} processors"
            )


def check_ceiling(schedule: Schedule, ceiling: float) -> None:
    """In each second with starts that leaves more in use than the ceiling allows, an exempt job must have started."""
    workload, runs = schedule.workload, schedule.end > schedule.start
    times = np.concatenate([schedule.start[runs], schedule.end[runs]])
    change = np.concatenate([workload.procs[runs], -workload.procs[runs]])
    seconds, place = np.unique(times, return_inverse=True)
    in_use = np.cumsum(np.bincount(place, weights=change, minlength=len(seconds)).astype(np.int64))
    most = most_in_use(ceiling, workload.machine_procs)
    exempt = workload.procs >= share_of(ceiling, workload.machine_procs)
    excused = np.isin(schedule.start, schedule.start[runs & exempt])
    used = in_use[np.minimum(np.searchsorted(seconds, schedule.start), len(seconds) - 1)] if len(seconds) else in_use
    refuse(CEILING, runs & ~excused & (used > most), "starts at {} s, when {} processors are in use",
            schedule.start, used)  # fmt: skip
