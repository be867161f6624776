"""Is this schedule possible, and does it keep its policy's laws? A second look at a user's own run.

Nothing of the engine is trusted: the schedule is walked through by its starts and ends. The cost grows like n log n.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim.availability import available
from schedsim.estimates import Forecast, Outlook, Separate
from schedsim.orders import SCORE
from schedsim.paranoid_replay import (
    FIRST_SHADOW,
    HARMLESS,
    IN_ORDER,
    KIND,
    NO_IDLE_HEAD,
    NOTHING_FITS,
    PROMISE,
    STATIC_KEYS,
    Broken,
    Replay,
)
from schedsim.policy import Policy
from schedsim.postponing import most_in_use, share_of
from schedsim.rules import Rules
from schedsim.schedule import Disturbed, Schedule

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Believed = Forecast | Outlook | Separate | Ints

STARTS: Final = "every job starts once, not before its submission"
ENDS: Final = "a job runs as long as it runs, or to its request where it is killed there"
CAPACITY: Final = "never more processors than the machine has"
INSTANTS: Final = "jobs start in seconds in which something ends or is submitted"
NODES: Final = "every job has its number of nodes, and no node two jobs at once"
RANGE: Final = "estimates lie from 1 s to the request, and are those that were given"
CEILING: Final = "no start lifts utilisation above the ceiling, but of a job that alone needs as much"
PARENTS: Final = "no job starts before the one that it waits for has ended, and its think time"
SHARES: Final = "no queue uses more than its share of the machine"
AVAILABLE: Final = "never more processors than are neither reserved nor down"
CORRECTED: Final = "an estimate is corrected if, and only if, an instant finds it outlived"


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
    >>> checked = check(simulate(workload, make_policy("easy")), make_policy("easy"))
    >>> len(checked.kept), checked.left_out[PROMISE]
    (10, 'nothing is promised')
    """
    left_out = _excuses_of(schedule, policy, estimates, kill, rules)
    laws = frozenset(EXCUSES.keys() - left_out.keys())
    order = policy.order.name if policy.order.name in STATIC_KEYS and KIND in laws else None
    try:
        _check_columns(schedule, estimates, kill, ENDS in laws)
        _check_capacity(schedule)
        if AVAILABLE in laws and schedule.disturbed is not None:
            _check_available(schedule, schedule.disturbed)
        _check_nodes(schedule)
        if CORRECTED in laws:
            _check_corrections(schedule)
        if INSTANTS in laws:
            _check_instants(schedule, policy)
        if PARENTS in laws and rules is not None:
            _check_parents(schedule, rules)
        if SHARES in laws and rules is not None:
            _check_shares(schedule, rules)
        if CEILING in laws:
            _check_ceiling(schedule, policy.ceiling)
        window = policy.window if policy.kind == "knapsack" else len(schedule.start)
        Replay(schedule, laws, order, window, policy.promise_slack).run()
    except Broken as broken:
        raise JobcastError(
            f"{schedule.workload.name}: job {schedule.workload.job_id[broken.row]} {broken.found}. "
            f"The schedule breaks the law: {broken.law}. Please report it with the log and the command."
        ) from None
    return Checked(tuple(law for law in EXCUSES if law in laws), left_out)


GATED: Final = "a gate or an agent decides, and may wake the machine"
KEEPING: Final = "reservations are kept, or there are none"
BACKFILLING: Final = "the policy backfills"
NOT_BACKFILLING: Final = "the policy does not backfill"
MOVING: Final = "the order is not known, or changes while jobs wait"
NEW_HEADS: Final = "a later job may become the head"
TOO_SHORT: Final = "some estimates were too short"
SEPARATE: Final = "several estimates are used"
REVISED: Final = "estimates are revised while jobs wait and run"
BEYOND: Final = "jobs may run beyond their request"
UNPLACED: Final = "nodes are not told apart"
BY_PLACE: Final = "where free nodes lie may decide who fits"
BY_WORLD: Final = "the machine decides how long jobs run"
UNPROMISED: Final = "nothing is promised"
NOT_GREEDY: Final = "the policy is not greedy"
UNLIMITED: Final = "there is no ceiling on utilisation"
LIMITED: Final = "there is a ceiling on utilisation, or jobs are put off"
TICKS: Final = "the score's ticks wake the machine"
RULED: Final = "the site's rules hold jobs, or limit their queues"
UNRULED: Final = "the site has no such rules"
SPENDING: Final = "spent accounts move jobs out of their queues"
PUT_OFF: Final = "jobs are put off, until a timer wakes the machine"
BY_OUTAGE: Final = "parts of the machine are reserved, or fail"
UNDISTURBED: Final = "nothing is reserved and nothing fails"
OVERTAKEN: Final = "what is reserved waits for jobs that run on after failures, or beyond their requests"

EXCUSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        STARTS: (),
        ENDS: (BY_WORLD,),
        CAPACITY: (),
        NODES: (UNPLACED,),
        INSTANTS: (GATED, TICKS, RULED, BY_OUTAGE),
        RANGE: (),
        CORRECTED: (GATED, REVISED, PUT_OFF, TICKS, RULED, BY_OUTAGE),
        IN_ORDER: (BACKFILLING, GATED, KEEPING, MOVING, LIMITED, RULED, BY_OUTAGE),
        NO_IDLE_HEAD: (GATED, KEEPING, MOVING, BY_PLACE, LIMITED, RULED, BY_OUTAGE),
        KIND: (GATED, KEEPING, MOVING, BY_PLACE, LIMITED, RULED, BY_OUTAGE),
        HARMLESS: (
            NOT_BACKFILLING,
            GATED,
            KEEPING,
            MOVING,
            SEPARATE,
            REVISED,
            TOO_SHORT,
            BY_PLACE,
            LIMITED,
            RULED,
            BY_OUTAGE,
        ),
        FIRST_SHADOW: (
            NOT_BACKFILLING,
            GATED,
            KEEPING,
            NEW_HEADS,
            SEPARATE,
            REVISED,
            TOO_SHORT,
            BY_PLACE,
            LIMITED,
            RULED,
            BY_OUTAGE,
        ),
        PROMISE: (UNPROMISED, GATED, KEEPING, NEW_HEADS, BEYOND, LIMITED, RULED, BY_OUTAGE),
        CEILING: (UNLIMITED,),
        NOTHING_FITS: (NOT_GREEDY, GATED, BY_PLACE, RULED, BY_OUTAGE),
        AVAILABLE: (UNDISTURBED, OVERTAKEN, BY_PLACE),
        PARENTS: (UNRULED,),
        SHARES: (UNRULED, SPENDING),
    }
)
"""The laws, and what excuses a run from each."""


def _excuses_of(
    schedule: Schedule, policy: Policy, estimates: Believed | None, kill: bool, rules: Rules | None
) -> Mapping[str, str]:
    """Return the laws that a run need not keep, with the first excuse of each."""
    greedy = policy.kind in ("greedy", "knapsack")
    separate, revised = isinstance(estimates, Separate), isinstance(estimates, Outlook)
    true = {
        GATED: policy.gate is not None or policy.agent is not None,
        KEEPING: policy.kind not in ("counts", "profile"),
        BACKFILLING: policy.depth != 0,
        NOT_BACKFILLING: policy.depth == 0,
        MOVING: policy.order.name not in STATIC_KEYS or ((separate or revised) and policy.order.name != "fcfs"),
        NEW_HEADS: policy.order.name != "fcfs",
        TOO_SHORT: bool((schedule.run_time > schedule.estimate).any()),
        SEPARATE: separate,
        REVISED: revised,
        BEYOND: not kill,
        UNPLACED: schedule.nodes is None,
        BY_PLACE: schedule.nodes is not None and schedule.nodes.by_identity,
        BY_WORLD: schedule.stopped is not None,
        UNPROMISED: not policy.promise,
        NOT_GREEDY: not greedy,
        BY_OUTAGE: schedule.disturbed is not None,
        UNDISTURBED: schedule.disturbed is None,
        OVERTAKEN: _is_overtaken(schedule, kill),
        UNLIMITED: policy.ceiling >= 1,
        LIMITED: policy.is_ceil,
        PUT_OFF: policy.postpone is not None,
        TICKS: SCORE in (policy.order, policy.backfill_order),
        RULED: rules is not None,
        UNRULED: rules is None,
        SPENDING: rules is not None and rules.accounts is not None,
    }
    first = {law: next((excuse for excuse in excuses if true[excuse]), None) for law, excuses in EXCUSES.items()}
    return MappingProxyType({law: excuse for law, excuse in first.items() if excuse is not None})


def _check_parents(schedule: Schedule, rules: Rules) -> None:
    """Look at each child beside its parent."""
    if rules.dependencies is None:
        return
    parent, think = rules.dependencies.rows(schedule.workload)
    earliest = np.where(parent >= 0, schedule.end[parent] + think, 0)
    early = (schedule.start < earliest) & (parent >= 0)
    if rules.dependencies.on_failure == "hold":  # an altered child does not wait any more
        early &= ~np.isin(schedule.workload.job_id[parent], list(rules.dependencies.failed))
    _refuse(PARENTS, early, "starts at {} s; it may at {} s", schedule.start, earliest)


def _check_shares(schedule: Schedule, rules: Rules) -> None:
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


def _refuse(law: str, bad: Bools, found: str, *columns: Ints) -> None:
    """Raise for the first row that is bad; `found` is filled with its values."""
    if bad.any():
        row = int(np.argmax(bad))
        raise Broken(law, row, found.format(*(int(column[row]) for column in columns)))


def _check_columns(schedule: Schedule, estimates: Believed | None, kill: bool, lasting: bool) -> None:
    """Check what concerns one job alone."""
    workload, start, end = schedule.workload, schedule.start, schedule.end
    _refuse(STARTS, start < workload.submit, "starts at {} s, submitted at {} s", start, workload.submit)
    lasts = np.minimum(workload.run_time, workload.requested) if kill else workload.run_time
    if schedule.disturbed is not None:
        lasts = np.where(schedule.disturbed.dropped, end - start, lasts)
    _refuse(ENDS, lasting & (end - start != lasts), "starts at {} s and ends at {} s, but runs {} s", start, end, lasts)
    first, last, most = schedule.estimate, schedule.last_estimate, workload.requested
    _refuse(RANGE, (first < 1) | (first > most), "has an estimate of {} s, a request of {} s", first, most)
    if estimates is None or isinstance(estimates, np.ndarray):
        given = most if estimates is None else np.minimum(estimates, most)
        _refuse(RANGE, first != given, "was planned with {} s; {} s was given", first, given)
    if kill:
        _refuse(RANGE, last > most, "has a last estimate of {} s, a request of {} s", last, most)


def _check_corrections(schedule: Schedule) -> None:
    """A running job's estimate is looked at in every instant; the last one before its end decides."""
    start, first, last = schedule.start, schedule.estimate, schedule.last_estimate
    instants = _instants(schedule)
    seen = np.maximum(instants[np.searchsorted(instants, schedule.end) - 1], start)
    runs = schedule.end > start
    _refuse(CORRECTED, runs & (start + last <= seen), "starts at {} s and runs at {} s, expected to last {} s",
            start, seen, last)  # fmt: skip
    needed = runs & (start + first <= seen)
    _refuse(CORRECTED, needed != (last != first), "starts at {} s, planned with {} s, then {} s; last seen at {} s",
            start, first, last, seen)  # fmt: skip


def _check_nodes(schedule: Schedule) -> None:
    """Look at each node's jobs one after the other."""
    if schedule.nodes is None:
        return
    nodes, count = schedule.nodes, schedule.nodes.counts
    _refuse(NODES, count != schedule.workload.procs, "has {} nodes and needs {}", count, schedule.workload.procs)
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


def _instants(schedule: Schedule) -> Ints:
    return np.unique(np.concatenate([schedule.workload.submit, schedule.end]))


def _check_instants(schedule: Schedule, policy: Policy) -> None:
    seconds, workload = _instants(schedule), schedule.workload
    if policy.postpone is not None and workload.deadline is not None:
        joins = workload.deadline - workload.requested - policy.postpone.lead
        seconds = np.concatenate([seconds, joins[workload.deadline >= 0]])
    known = np.isin(schedule.start, seconds)
    _refuse(INSTANTS, ~known, "starts at {} s, when nothing ends and nobody is submitted", schedule.start)


def _check_capacity(schedule: Schedule) -> None:
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


def _is_overtaken(schedule: Schedule, kill: bool) -> bool:
    """Return whether what is reserved may have to wait for running jobs."""
    if schedule.disturbed is None:
        return False
    outages = schedule.disturbed.outages
    return bool(outages.reservations) and (not kill or bool(outages.changes))


def _check_available(schedule: Schedule, disturbed: Disturbed) -> None:
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


def _check_ceiling(schedule: Schedule, ceiling: float) -> None:
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
    _refuse(CEILING, runs & ~excused & (used > most), "starts at {} s, when {} processors are in use",
            schedule.start, used)  # fmt: skip
