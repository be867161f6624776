"""Checks a finished schedule against the laws of its policy, from its starts and ends alone.

Nothing is taken from the engine but the keys of its orders, and no pass is computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from schedsim.cobalt.rules import Rules
from schedsim.policies.ceil import most_in_use, share_of
from schedsim.policies.policy import Policy
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import available
from schedsim.validate import laws as known
from schedsim.validate.laws import EXCUSES, Believed, Run
from schedsim.validate.replay import Broken, Replay


@dataclass(frozen=True)
class Checked:
    """The laws that a schedule keeps, and those that its run cannot be held to, each with the reason."""

    kept: tuple[str, ...]
    left_out: Mapping[str, str]


def check(
    schedule: Schedule,
    policy: Policy,
    estimates: Believed | None = None,
    kill: bool = True,
    rules: Rules | None = None,
) -> Checked:
    """Check the laws of a schedule; policy, estimates, kill and rules as the simulation was given them.

    Raises
    ------
    JobcastError
        At the first law that is broken; the message names the job, the second and the law.

    Examples
    --------
    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.validate.laws import PROMISE
    >>> from schedsim.workload.workload import Workload
    >>> workload = Workload.from_columns([1, 2], submit=[0, 5], procs=[4, 8], requested=[60, 60], run_time=[30, 60],
    ...                                  machine_procs=8)
    >>> checked = check(simulate(workload, make_policy("easy")), make_policy("easy"))
    >>> len(checked.kept), checked.left_out[PROMISE]
    (10, 'nothing is promised')
    """
    run = Run(schedule, policy, estimates, kill, rules)
    excuses = {law: next((e.text for e in excuses if e.holds(run)), None) for law, excuses in EXCUSES.items()}
    left_out = {law: text for law, text in excuses.items() if text is not None}
    laws = frozenset(EXCUSES.keys() - left_out.keys())
    try:
        _check_jobs(run, laws)
        _check_use(run, laws)
        Replay(run, laws).run()
    except Broken as broken:
        raise JobcastError(
            f"{schedule.workload.name}: job {schedule.workload.job_id[broken.row]} {broken.found}. "
            f"The schedule breaks the law: {broken.law}. Please report it with the log and the command."
        ) from None
    return Checked(tuple(law for law in EXCUSES if law in laws), left_out)


def _refuse(law: str, bad: Bools, found: str, *columns: Ints) -> None:
    """Raise for the first row that is bad; `found` is filled with its values."""
    if bad.any():
        row = int(np.argmax(bad))
        raise Broken(law, row, found.format(*(int(column[row]) for column in columns)))


def _check_jobs(run: Run, laws: frozenset[str]) -> None:
    """Check what concerns one job alone, or beside its parent."""
    schedule, policy = run.schedule, run.policy
    workload, start, end = schedule.workload, schedule.start, schedule.end
    _refuse(known.STARTS, start < workload.submit, "starts at {} s, submitted at {} s", start, workload.submit)
    lasts = np.minimum(workload.run_time, workload.requested) if run.kill else workload.run_time
    if schedule.disturbed is not None:
        lasts = np.where(schedule.disturbed.dropped, end - start, lasts)
    if known.ENDS in laws:
        _refuse(known.ENDS, end - start != lasts, "starts at {} s and ends at {} s, but runs {} s", start, end, lasts)
    first, last, most = schedule.estimate, schedule.last_estimate, workload.requested
    _refuse(known.RANGE, (first < 1) | (first > most), "has an estimate of {} s, a request of {} s", first, most)
    if run.estimates is None or isinstance(run.estimates, np.ndarray):
        given = most if run.estimates is None else np.minimum(run.estimates, most)
        _refuse(known.RANGE, first != given, "was planned with {} s; {} s was given", first, given)
    if run.kill:
        _refuse(known.RANGE, last > most, "has a last estimate of {} s, a request of {} s", last, most)
    if schedule.nodes is not None:
        count = schedule.nodes.counts
        _refuse(known.NODES, count != workload.procs, "has {} nodes and needs {}", count, workload.procs)
    instants = np.unique(np.concatenate([workload.submit, end]))
    if known.CORRECTED in laws:  # an estimate is looked at in every instant; the last before the job's end decides
        seen = np.maximum(instants[np.searchsorted(instants, end) - 1], start)
        outlived, again = start + first <= seen, start + last <= seen
        runs = end > start
        wrong = (runs & again) | ((runs & outlived) != (last != first))
        found = "starts at {} s and runs at {} s, planned with {} s, then {} s"
        _refuse(known.CORRECTED, wrong, found, start, seen, first, last)
    if known.INSTANTS in laws:
        if policy.postpone is not None and workload.deadline is not None:
            joins = workload.deadline - workload.requested - policy.postpone.lead
            instants = np.concatenate([instants, joins[workload.deadline >= 0]])
        strange = ~np.isin(start, instants)
        _refuse(known.INSTANTS, strange, "starts at {} s, when nothing ends and nobody is submitted", start)
    if known.PARENTS in laws and run.rules is not None and run.rules.dependencies is not None:
        dependencies = run.rules.dependencies
        parent, think = dependencies.rows(workload)
        earliest = np.where(parent >= 0, end[parent] + think, 0)
        early = (start < earliest) & (parent >= 0)
        if dependencies.on_failure == "hold":  # an altered child does not wait any more
            early &= ~np.isin(workload.job_id[parent], list(dependencies.failed))
        _refuse(known.PARENTS, early, "starts at {} s; it may at {} s", start, earliest)


def _check_use(run: Run, laws: frozenset[str]) -> None:
    """Check whether more is used than there is: of the machine, a node, a share of a queue, or below a ceiling."""
    schedule, everybody = run.schedule, np.ones(len(run.schedule.start), dtype=np.bool_)
    machine = schedule.workload.machine_procs
    seconds, used = _in_use(schedule, everybody)
    _refuse_use(known.CAPACITY, schedule, everybody, seconds, used, np.full(len(used), machine), "")
    if known.AVAILABLE in laws and schedule.disturbed is not None:
        changes, left = available(schedule.disturbed.outages, machine)
        when = np.unique(np.concatenate([seconds, changes[1:]]))
        then = np.concatenate([[0], used])[np.searchsorted(seconds, when, side="right")]
        most = left[np.searchsorted(changes, when, side="right") - 1]
        _refuse_use(known.AVAILABLE, schedule, everybody, when, then, most, " that are available")
    if known.SHARES in laws and run.rules is not None:
        queue = run.rules.routes(schedule.workload)
        for number, one in enumerate(run.rules.router.queues):
            if one.share is not None:
                when, then = _in_use(schedule, queue == number)
                share = np.full(len(then), one.share)
                _refuse_use(known.SHARES, schedule, queue == number, when, then, share, f" of {one.name}")
    if known.CEILING in laws and run.policy.ceiling is not None and len(seconds):
        runs = schedule.end > schedule.start
        exempt = runs & (schedule.workload.procs >= share_of(run.policy.ceiling.share, machine))
        excused = ~runs | np.isin(schedule.start, schedule.start[exempt])
        then = used[np.minimum(np.searchsorted(seconds, schedule.start), len(seconds) - 1)]
        over = ~excused & (then > most_in_use(run.policy.ceiling.share, machine))
        _refuse(known.CEILING, over, "starts at {} s, when {} processors are in use", schedule.start, then)


def _in_use(schedule: Schedule, of: Bools) -> tuple[Ints, Ints]:
    """Return when the processors in use by some jobs change, and to how many; runs that failures stopped count."""
    runs = np.stack([np.arange(len(schedule.start)), schedule.start, schedule.end], axis=1)
    if schedule.disturbed is not None:
        runs = np.concatenate([runs[~schedule.disturbed.dropped], schedule.disturbed.runs])
    runs = runs[(runs[:, 1] < runs[:, 2]) & of[runs[:, 0]]]
    procs = schedule.workload.procs[runs[:, 0]]
    seconds, place = np.unique(np.concatenate([runs[:, 1], runs[:, 2]]), return_inverse=True)
    change = np.bincount(place, weights=np.concatenate([procs, -procs]), minlength=len(seconds))
    return seconds, np.cumsum(change.astype(np.int64))


def _refuse_use(law: str, schedule: Schedule, of: Bools, seconds: Ints, used: Ints, most: Ints, what: str) -> None:
    """Raise for the first second at which more processors are used than may be, naming a job that runs then."""
    if (used > most).any():
        place = int(np.argmax(used > most))
        second = int(seconds[place])
        runs = of & (schedule.start <= second) & (schedule.end > second)
        begins = runs & (schedule.start == second)
        found = f"{'starts' if begins.any() else 'runs'} at {second} s, when {used[place]} of {most[place]} processors"
        raise Broken(law, int(np.argmax(begins if begins.any() else runs)), f"{found}{what} are in use")
