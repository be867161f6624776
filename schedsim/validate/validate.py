"""Check a finished schedule against the laws of its policy, from its starts and ends alone.

It takes only the keys of the orders from the engine, and computes no pass again.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from schedsim.kernels.keys import static_key
from schedsim.policies.backfilling import Promise
from schedsim.policies.ceil import most_in_use, share_of
from schedsim.policies.policy import Policy
from schedsim.results.resource_metrics import overfull
from schedsim.results.schedule import BACKFILLED, Schedule
from schedsim.results.site_metrics import available
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate import laws as known
from schedsim.validate.bounds import latest_starts
from schedsim.validate.laws import EXCUSES, Believed, Run

Ends = list[tuple[int, int]]  # ends of running jobs: (second, processors), ascending


class Broken(Exception):
    """A job breaks a law: (law, row of the job, what was found). `check` turns it into a `JobcastError`."""


@dataclass(frozen=True)
class Checked:
    """The laws that a schedule keeps, and those that do not apply to its run, each with the reason."""

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

    The first law that is broken raises JobcastError, which names the job, the second and the law.

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
        law, row, found = broken.args
        raise JobcastError(
            f"{schedule.workload.name}: job {schedule.workload.job_id[row]} {found}. "
            f"The schedule breaks the law: {law}. Please report it with the log and the command."
        ) from None
    return Checked(tuple(law for law in EXCUSES if law in laws), left_out)


def _refuse(law: str, bad: Bools, found: str, *columns: Ints) -> None:
    """Raise for the first row that is bad; `found` is filled with its values."""
    if bad.any():
        row = int(np.argmax(bad))
        raise Broken(law, row, found.format(*(int(column[row]) for column in columns)))


def _check_jobs(run: Run, laws: frozenset[str]) -> None:
    """Check each job alone, or together with its parent."""
    schedule, policy = run.schedule, run.policy
    workload, start, end = schedule.workload, schedule.start, schedule.end
    _refuse(known.STARTS, start < workload.submit, "starts at {} s, submitted at {} s", start, workload.submit)
    lasts = np.minimum(workload.run_time, workload.requested) if run.kill else workload.run_time
    lasts = np.where(schedule.is_gone, end - start, lasts)
    if known.ENDS in laws:
        _refuse(known.ENDS, end - start != lasts, "starts at {} s and ends at {} s, but runs {} s", start, end, lasts)
    first, last, most = schedule.estimate, schedule.last_estimate, workload.requested
    _refuse(known.RANGE, (first < 1) | (first > most), "has an estimate of {} s, a request of {} s", first, most)
    if run.estimates is None or isinstance(run.estimates, np.ndarray):
        given = most if run.estimates is None else np.minimum(run.estimates, most)
        _refuse(known.RANGE, first != given, "was planned with {} s; {} s was given", first, given)
    if run.kill:
        _refuse(known.RANGE, last > most, "has a last estimate of {} s, a request of {} s", last, most)
    if known.NODES in laws and schedule.nodes is not None:
        count = schedule.nodes.counts
        _refuse(known.NODES, count != workload.procs, "has {} nodes and needs {}", count, workload.procs)
    instants = np.unique(np.concatenate([workload.submit, end]))
    if known.CORRECTED in laws:  # each instant checks an estimate; the last one before the job's end decides
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
        _refuse(known.INSTANTS, strange, "starts at {} s, when nothing ends and no job is submitted", start)
    if known.PARTS in laws and schedule.preempted is not None:
        _check_parts(schedule)
    if known.BOUND in laws:
        by = latest_starts(schedule, policy)
        _refuse(known.BOUND, start > by, "starts at {} s; it had to by {} s", start, by)
    if known.PARENTS in laws and run.rules is not None and run.rules.dependencies is not None:
        dependencies = run.rules.dependencies
        parent, think = dependencies.rows(workload)
        earliest = np.where(parent >= 0, end[parent] + think, 0)
        early = (start < earliest) & (parent >= 0)
        if dependencies.on_failure == "hold":  # an altered child does not wait any more
            early &= ~np.isin(workload.job_id[parent], list(dependencies.failed))
        _refuse(known.PARENTS, early, "starts at {} s; it may at {} s", start, earliest)


def _check_parts(schedule: Schedule) -> None:
    """Check that no job runs twice at once: each of its runs begins after the one before."""
    rows, own = np.arange(len(schedule.start)), ~schedule.is_gone
    last = np.stack([rows, schedule.start, schedule.end], axis=1)[own]
    runs = np.concatenate([schedule.stopped_runs, last])
    runs = runs[np.lexsort((runs[:, 2], runs[:, 1], runs[:, 0]))]
    overlap = (runs[1:, 0] == runs[:-1, 0]) & (runs[1:, 1] < runs[:-1, 2])
    if overlap.any():
        place = int(np.argmax(overlap))
        row, begin, end = int(runs[place, 0]), runs[place + 1, 1], runs[place, 2]
        raise Broken(known.PARTS, row, f"starts again at {begin} s, while it runs until {end} s")


def _check_use(run: Run, laws: frozenset[str]) -> None:
    """Check that jobs never use more than the machine, a node, a queue's share or the ceiling allows."""
    schedule, machine = run.schedule, run.schedule.workload.machine_procs
    all_jobs = np.ones(len(schedule.start), dtype=np.bool_)
    _refuse_use(known.CAPACITY, schedule, all_jobs, machine, "")
    if known.ON_NODES in laws and (found := overfull(schedule)) is not None:
        raise Broken(known.ON_NODES, *found)
    if known.AVAILABLE in laws and schedule.disturbed is not None:
        left = available(schedule.disturbed.outages, machine)
        _refuse_use(known.AVAILABLE, schedule, all_jobs, left, " that are available")
    if known.SHARES in laws and run.rules is not None:
        queue = run.rules.routes(schedule.workload)
        for number, one in enumerate(run.rules.router.queues):
            if one.share is not None:
                _refuse_use(known.SHARES, schedule, queue == number, one.share, f" of {one.name}")
    seconds, used = _in_use(schedule, all_jobs)
    if known.CEILING in laws and run.policy.ceiling is not None and len(seconds):
        runs = schedule.end > schedule.start
        wide = schedule.workload.procs >= share_of(run.policy.ceiling.share, machine)
        exempt = schedule.start[runs & wide]
        stopped = schedule.stopped_runs  # these lifted it, too
        exempt = np.concatenate([exempt, stopped[wide[stopped[:, 0]], 1]])
        excused = ~runs | np.isin(schedule.start, exempt)
        then = used[np.minimum(np.searchsorted(seconds, schedule.start), len(seconds) - 1)]
        over = ~excused & (then > most_in_use(run.policy.ceiling.share, machine))
        _refuse(known.CEILING, over, "starts at {} s, when {} processors are in use", schedule.start, then)


def _in_use(schedule: Schedule, of: Bools) -> tuple[Ints, Ints]:
    """Return when the processors in use by some jobs change, and to how many; stopped runs count."""
    runs = np.stack([np.arange(len(schedule.start)), schedule.start, schedule.end], axis=1)
    runs = np.concatenate([runs[~schedule.is_gone], schedule.stopped_runs])
    runs = runs[(runs[:, 1] < runs[:, 2]) & of[runs[:, 0]]]
    procs = schedule.workload.procs[runs[:, 0]]
    seconds, place = np.unique(np.concatenate([runs[:, 1], runs[:, 2]]), return_inverse=True)
    change = np.bincount(place, weights=np.concatenate([procs, -procs]), minlength=len(seconds))
    return seconds, np.cumsum(change.astype(np.int64))


def _refuse_use(law: str, schedule: Schedule, of: Bools, limit: int | tuple[Ints, Ints], what: str) -> None:
    """Raise for the first second at which some jobs use more processors than a limit, which may change with time."""
    seconds, used = _in_use(schedule, of)
    changes, levels = limit if isinstance(limit, tuple) else (np.zeros(1, dtype=np.int64), np.array([limit]))
    seconds, before = np.unique(np.concatenate([seconds, changes[1:]])), seconds
    used = np.concatenate([[0], used])[np.searchsorted(before, seconds, side="right")]
    most = levels[np.searchsorted(changes, seconds, side="right") - 1]
    if (used > most).any():
        place = int(np.argmax(used > most))
        second = int(seconds[place])
        runs = of & (schedule.start <= second) & (schedule.end > second)
        begins = runs & (schedule.start == second)
        found = f"{'starts' if begins.any() else 'runs'} at {second} s, when {used[place]} of {most[place]} processors"
        raise Broken(law, int(np.argmax(begins if begins.any() else runs)), f"{found}{what} are in use")


def shadow_time(ends: Ends, free: int, need: int) -> int:
    """Return the first of the ends (second, processors), ascending, at which `need` processors are free.

    >>> shadow_time([(100, 3), (100, 1), (200, 4)], free=2, need=7)
    200
    """
    for end, procs in ends:
        free += procs
        if free >= need:
            return end
    raise ValueError(f"{need} processors are never free.")


class Replay:
    """One walk through a schedule: which job heads the queue, which pass it, and what that does to it."""

    def __init__(self, run: Run, laws: frozenset[str]) -> None:
        schedule, policy, workload = run.schedule, run.policy, run.schedule.workload
        self.schedule, self.laws, self.free, self.waiting = schedule, laws, workload.machine_procs, 0
        self.window = policy.window if policy.kind == "knapsack" else len(workload)
        self.procs: list[int] = workload.procs.tolist()
        self.start: list[int] = schedule.start.tolist()
        self.end: list[int] = schedule.end.tolist()
        self.planned_end: list[int] = (schedule.start + schedule.estimate).tolist()
        self.latest_end: list[int] = (schedule.start + workload.requested).tolist()
        self.planned: Ends = []
        self.latest: Ends = []
        self.promise, self.submit = policy.promise or Promise(), workload.submit.tolist()
        nodes = schedule.nodes if schedule.placements is None else None  # shared ones are checked elsewhere
        self.holder = np.full(0 if nodes is None else int(nodes.last.max(initial=-1)) + 1, -1)
        self.seen_head = [False] * len(workload)
        self.queue: list[tuple[int, int]] = []  # a heap by (key, row)
        self.narrow: list[tuple[int, int]] = []  # a heap by (processors, row)
        self.keys: list[int] | None = None
        if run.is_static and known.KIND in laws:  # by the estimates with which the jobs started
            since = np.maximum(1, workload.submit - workload.submit[0])
            jobs = enumerate(zip(since.tolist(), self.procs, schedule.estimate.tolist(), strict=True))
            self.keys = [static_key(policy.order.code, row, s, n, p, 0, 0) for row, (s, n, p) in jobs]

    def run(self) -> None:
        """Walk through all instants, up to the first job that breaks a law."""
        rows, submit = range(len(self.start)), self.schedule.workload.submit.tolist()
        events = [(self.end[row], 0, row) for row in rows if self.end[row] > self.start[row]]
        events += [(submit[row], 1, row) for row in rows] + [(self.start[row], 2, row) for row in rows]
        for now, here in groupby(sorted(events), key=lambda event: event[0]):
            starting = set[int]()
            for _, kind, row in here:
                if kind == 0:
                    self._occupy(row, -1)
                elif kind == 1:
                    self.waiting += 1
                    if self.keys is not None:
                        heappush(self.queue, (self.keys[row], row))
                    if known.NOTHING_FITS in self.laws:
                        heappush(self.narrow, (self.procs[row], row))
                else:
                    starting.add(row)
            self._instant(now, starting)

    def _occupy(self, row: int, sign: int) -> None:
        """Take a job's processors, or give them back (sign -1); a job of length zero takes none."""
        if self.end[row] <= self.start[row]:
            return
        self.free -= sign * self.procs[row]
        if self.schedule.nodes is not None and self.schedule.placements is None:
            mine = self.schedule.nodes[row]
            if sign > 0 and (self.holder[mine] >= 0).any():
                node = int(mine[np.argmax(self.holder[mine])])
                other = int(self.holder[node])
                found = f"on node {node}, which job {self._id(other)} holds until {self.end[other]} s"
                raise Broken(known.NODES, row, f"starts at {self.start[row]} s {found}")
            self.holder[mine] = row if sign > 0 else -1
        for ends, end in ((self.planned, self.planned_end[row]), (self.latest, self.latest_end[row])):
            if sign > 0:
                insort(ends, (end, self.procs[row]))
            else:
                del ends[bisect_left(ends, (end, self.procs[row]))]

    def _instant(self, now: int, passing: set[int]) -> None:
        """Start the jobs of a second: first those in turn, then those that pass the head."""
        self.waiting -= len(passing)
        while self.queue and self.start[self.queue[0][1]] <= now:  # in turn, or backfilled before
            row = heappop(self.queue)[1]
            if row in passing:
                passing.remove(row)
                self._occupy(row, 1)
                if self.schedule.started_by[row] == BACKFILLED:
                    self._check(known.KIND, row, "is called backfilled, but no job before it was waiting")
        if self.queue:
            self._head(now, self.queue[0][1], passing)
        for row in passing:
            if self.keys is None:
                self._occupy(row, 1)
                continue
            head = self._id(self.queue[0][1])
            self._check(known.IN_ORDER, row, f"passes job {head}")
            if self.schedule.started_by[row] != BACKFILLED:
                self._check(known.KIND, row, f"passes job {head}, and is not called backfilled")
        while self.narrow and self.start[self.narrow[0][1]] <= now:
            heappop(self.narrow)
        if self.narrow and self.narrow[0][0] <= self.free and self.waiting <= self.window:
            row = self.narrow[0][1]
            self._check(known.NOTHING_FITS, row, f"waits at {now} s while {self.free} processors are free")

    def _head(self, now: int, head: int, passing: set[int]) -> None:
        need, start = self.procs[head], self.start[head]
        if need <= self.free:
            self._check(known.NO_IDLE_HEAD, head, f"could start at {now} s: {self.free} processors are free")
        elif not self.seen_head[head]:  # now its shadow time and its promise are fixed
            self.seen_head[head] = True
            if known.FIRST_SHADOW in self.laws and start > (shadow := shadow_time(self.planned, self.free, need)):
                raise Broken(known.FIRST_SHADOW, head, f"starts at {start} s; its first shadow time was {shadow} s")
            slack = self.promise.slack_after(now - self.submit[head])
            if known.PROMISE in self.laws and start > (by := shadow_time(self.latest, self.free, need) + slack):
                raise Broken(known.PROMISE, head, f"starts at {start} s; it was promised {by} s")
        looks = bool(passing) and known.HARMLESS in self.laws
        before = shadow_time(self.planned, self.free, need) if looks else 0
        for row in passing:
            self._occupy(row, 1)
        after = shadow_time(self.planned, self.free, need) if looks else 0
        if after > before:
            names = ", ".join(str(self._id(row)) for row in sorted(passing)[:3])
            raise Broken(known.HARMLESS, head, f"is delayed at {now} s from {before} to {after} s by job(s) {names}")

    def _check(self, law: str, row: int, found: str) -> None:
        if law in self.laws:
            raise Broken(law, row, found)

    def _id(self, row: int) -> int:
        return int(self.schedule.workload.job_id[row])
