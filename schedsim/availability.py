"""How much of the machine could jobs have? Processors that were neither reserved nor down, from second to second."""

from typing import Any

import numpy as np
import numpy.typing as npt

from schedsim.metrics import makespan
from schedsim.outages import Outages, size_of
from schedsim.schedule import Schedule

Ints = npt.NDArray[np.int64]


def available(outages: Outages, machine_procs: int) -> tuple[Ints, Ints]:
    """Return when the number of available processors changes, ascending, and to how many.

    The first second is the least that there is. What is reserved and what is down is added, so nodes that are both
    count twice, to the whole machine at most.

    Examples
    --------
    >>> from schedsim.outages import Change, Reservation
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
    """Return what reservations and failures took; nothing where there were none.

    `available` is the share of the machine's processor seconds within the makespan that jobs could have,
    `utilisation_of_available` the share of these used by runs that failures did not stop.
    """
    if schedule.disturbed is None:
        return {}
    disturbed, procs, span = schedule.disturbed, schedule.workload.procs, makespan(schedule)
    seconds, free = available(disturbed.outages, schedule.workload.machine_procs)
    begin = int(schedule.workload.submit.min())
    edges = np.clip(np.append(seconds, begin + span), begin, begin + span)
    room = float((np.diff(edges) * free).sum(dtype=np.float64))
    used = (schedule.run_time * procs)[~disturbed.dropped].sum(dtype=np.float64)
    runs = disturbed.runs
    lost = ((runs[:, 2] - runs[:, 1]) * procs[runs[:, 0]]).sum(dtype=np.float64)
    whole = float(span) * schedule.workload.machine_procs
    return {
        "available": room / whole if whole else 1.0,
        "utilisation_of_available": float(used / room) if room else 0.0,
        "interrupted": len(runs),
        "lost_processor_hours": float(lost / 3600),
        "dropped": int(disturbed.dropped.sum()),
    }
