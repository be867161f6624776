"""Is this schedule possible, and does it keep its policy's laws? A second look at a user's own run.

Nothing of the engine is trusted: the schedule is walked through by its starts and ends. The cost grows like n log n.
The laws are in `paranoid_laws`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim.paranoid_laws import (
    AVAILABLE,
    CEILING,
    CORRECTED,
    ENDS,
    EXCUSES,
    INSTANTS,
    PARENTS,
    RANGE,
    SHARES,
    STARTS,
    Believed,
    excuses_of,
    refuse,
)
from schedsim.paranoid_replay import KIND, STATIC_KEYS, Broken, Replay
from schedsim.paranoid_use import check_available, check_capacity, check_ceiling, check_nodes, check_shares
from schedsim.policy import Policy
from schedsim.rules import Rules
from schedsim.schedule import Schedule

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Checked:
    """What was checked of a schedule.

    Parameters
    ----------
    kept : tuple of str
        The laws that hold.
    left_out : mapping of str to str
        Laws that this run cannot be held to, each with the reason.
    """

    kept: tuple[str, ...]
    left_out: Mapping[str, str]


def check(
    schedule: Schedule,
    policy: Policy,
    estimates: Believed | None = None,
    kill: bool = True,
    rules: Rules | None = None,
) -> Checked:
    """Check the laws of a schedule again, without the engine that made it.

    Parameters
    ----------
    schedule : Schedule
        A finished simulation.
    policy : Policy
        What it was to follow.
    estimates : Forecast, Outlook, Separate or int64 array of shape (n_jobs,), optional
        What was given to the engine; by default the requested times.
    kill : bool
        Whether jobs were killed at their requested time.
    rules : Rules, optional
        The site's rules, as they were given to the engine.

    Returns
    -------
    Checked
        The laws that hold, and those that could not be checked, with the reason.

    Raises
    ------
    JobcastError
        At the first law that is broken; the message names the job, the second and the law.

    Examples
    --------
    >>> from schedsim.engine import simulate
    >>> from schedsim.policy import make_policy
    >>> from schedsim.workload import Workload
    >>> workload = Workload.from_columns([1, 2], submit=[0, 5], procs=[4, 8], requested=[60, 60], run_time=[30, 60],
    ...                                  machine_procs=8)
    >>> from schedsim.paranoid_replay import PROMISE
    >>> checked = check(simulate(workload, make_policy("easy")), make_policy("easy"))
    >>> len(checked.kept), checked.left_out[PROMISE]
    (10, 'nothing is promised')
    """
    left_out = excuses_of(schedule, policy, estimates, kill, rules)
    laws = frozenset(EXCUSES.keys() - left_out.keys())
    order = policy.order.name if policy.order.name in STATIC_KEYS and KIND in laws else None
    try:
        _check_columns(schedule, estimates, kill, ENDS in laws)
        check_capacity(schedule)
        if AVAILABLE in laws and schedule.disturbed is not None:
            check_available(schedule, schedule.disturbed)
        check_nodes(schedule)
        if CORRECTED in laws:
            _check_corrections(schedule)
        if INSTANTS in laws:
            _check_instants(schedule, policy)
        if PARENTS in laws and rules is not None:
            _check_parents(schedule, rules)
        if SHARES in laws and rules is not None:
            check_shares(schedule, rules)
        if CEILING in laws:
            check_ceiling(schedule, policy.ceiling)
        window = policy.window if policy.kind == "knapsack" else len(schedule.start)
        Replay(schedule, laws, order, window, policy.promise_slack).run()
    except Broken as broken:
        raise JobcastError(
            f"{schedule.workload.name}: job {schedule.workload.job_id[broken.row]} {broken.found}. "
            f"The schedule breaks the law: {broken.law}. Please report it with the log and the command."
        ) from None
    return Checked(tuple(law for law in EXCUSES if law in laws), left_out)


def _check_columns(schedule: Schedule, estimates: Believed | None, kill: bool, lasting: bool) -> None:
    """Check what concerns one job alone."""
    workload, start, end = schedule.workload, schedule.start, schedule.end
    refuse(STARTS, start < workload.submit, "starts at {} s, submitted at {} s", start, workload.submit)
    lasts = np.minimum(workload.run_time, workload.requested) if kill else workload.run_time
    if schedule.disturbed is not None:
        lasts = np.where(schedule.disturbed.dropped, end - start, lasts)
    refuse(ENDS, lasting & (end - start != lasts), "starts at {} s and ends at {} s, but runs {} s", start, end, lasts)
    first, last, most = schedule.estimate, schedule.last_estimate, workload.requested
    refuse(RANGE, (first < 1) | (first > most), "has an estimate of {} s, a request of {} s", first, most)
    if estimates is None or isinstance(estimates, np.ndarray):
        given = most if estimates is None else np.minimum(estimates, most)
        refuse(RANGE, first != given, "was planned with {} s; {} s was given", first, given)
    if kill:
        refuse(RANGE, last > most, "has a last estimate of {} s, a request of {} s", last, most)


def _check_corrections(schedule: Schedule) -> None:
    """A running job's estimate is looked at in every instant; the last one before its end decides."""
    start, first, last = schedule.start, schedule.estimate, schedule.last_estimate
    instants = _instants(schedule)
    seen = np.maximum(instants[np.searchsorted(instants, schedule.end) - 1], start)
    runs = schedule.end > start
    refuse(CORRECTED, runs & (start + last <= seen), "starts at {} s and runs at {} s, expected to last {} s",
            start, seen, last)  # fmt: skip
    needed = runs & (start + first <= seen)
    refuse(CORRECTED, needed != (last != first), "starts at {} s, planned with {} s, then {} s; last seen at {} s",
            start, first, last, seen)  # fmt: skip


def _instants(schedule: Schedule) -> Ints:
    return np.unique(np.concatenate([schedule.workload.submit, schedule.end]))


def _check_instants(schedule: Schedule, policy: Policy) -> None:
    seconds, workload = _instants(schedule), schedule.workload
    if policy.postpone is not None and workload.deadline is not None:
        joins = workload.deadline - workload.requested - policy.postpone.lead
        seconds = np.concatenate([seconds, joins[workload.deadline >= 0]])
    known = np.isin(schedule.start, seconds)
    refuse(INSTANTS, ~known, "starts at {} s, when nothing ends and nobody is submitted", schedule.start)


def _check_parents(schedule: Schedule, rules: Rules) -> None:
    """Look at each child beside its parent."""
    if rules.dependencies is None:
        return
    parent, think = rules.dependencies.rows(schedule.workload)
    earliest = np.where(parent >= 0, schedule.end[parent] + think, 0)
    early = (schedule.start < earliest) & (parent >= 0)
    if rules.dependencies.on_failure == "hold":  # an altered child does not wait any more
        early &= ~np.isin(schedule.workload.job_id[parent], list(rules.dependencies.failed))
    refuse(PARENTS, early, "starts at {} s; it may at {} s", schedule.start, earliest)
