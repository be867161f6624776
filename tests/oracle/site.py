"""The state of the oracle at an instant: what the scheduler knows and may do (see `easy.py`)."""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappush
from itertools import count
from math import log10

from tests.oracle import passes as oracle_passes
from tests.oracle.orders import MOVING, ORDERS, TICK, growth
from tests.oracle.plan import Plan

MINUTE, HOUR = 60, 3600
RUNGS = [1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE] + [h * HOUR for h in (1, 2, 5, 10, 20, 50, 100)]


@dataclass(frozen=True)
class Rule:
    """A policy. `depth` None: all jobs hold reservations. `keeps`: reservations are kept and compressed."""

    order: str = "fcfs"
    backfill_order: str | None = None
    depth: int | None = 0
    keeps: bool = False
    promise: bool = False
    slack: int = 0
    growth: float = 0.0  # of the slack, for each second that the head had waited
    least: int = 0
    most: int = 10**12
    kept: bool = False  # the head keeps its place until it starts
    priority: tuple | None = None  # head start, weights of the estimate and the processors, grace, share
    greedy: str | None = None
    reward: str = "capability"
    window: int = 50
    draw: Callable | None = None
    family: str | None = None

    def run_pass(self, site) -> None:
        """Start whom this rule starts now."""
        if self.greedy:
            return {"binpacking": oracle_passes.bin_packing, "random": oracle_passes.random}.get(
                self.greedy, oracle_passes.knapsack
            )(site)
        if self.depth == 0:
            return oracle_passes.in_order(site)
        if self.keeps:
            return oracle_passes.kept(site)
        if self.depth == 1 and self.family != "planned":
            return oracle_passes.easy(site)
        return oracle_passes.planned(site)


@dataclass(eq=False)
class Entry:
    """A job as the scheduler knows it: three estimates [s], and when it started."""

    row: int
    job_id: int
    submit: int
    procs: int
    requested: int
    run_time: int
    user: int
    ordering: int
    candidate: int
    first: int  # the running estimate as first given
    running: int  # the same, as corrected
    start: int = -1
    key: tuple = ()
    overdue: bool = False  # it has outlived its estimate

    @property
    def planned_end(self) -> int:
        """Second at which a running job ends as planned."""
        return self.start + self.running


def corrected(entry: Entry, elapsed: int, correction: str, kill: bool) -> int:
    """Return an estimate beyond `elapsed` for a running job that outlived the one it had."""
    estimate = entry.running
    while estimate <= elapsed:
        if estimate >= entry.requested and not kill:
            estimate *= 2
        elif correction == "requested":
            estimate = entry.requested
        elif correction == "doubling":
            estimate = min(2 * estimate, entry.requested)
        elif correction == "incremental":
            higher = [entry.first + rung for rung in RUNGS if entry.first + rung > estimate]
            estimate = min(higher[0] if higher else entry.requested, entry.requested)
        elif correction == "slurm":
            left = entry.requested - elapsed
            estimate = elapsed + max(1, left // 2) if left > 0 else entry.requested
        elif correction == "pbs":
            estimate = min(next(k * entry.first for k in count(1) if k * entry.first > elapsed), entry.requested)
        elif correction == "plus-hour":
            estimate = min(estimate + HOUR, entry.requested)
        else:
            raise ValueError(correction)
    return estimate


@dataclass
class Site:
    """The machine and its queue at second `now`; what a pass may ask and do."""

    rule: Rule
    procs: int
    correction: str
    kill: bool
    now: int = 0
    free: int = 0
    something_ended: bool = False
    queue: list[Entry] = field(default_factory=list)
    running: list[Entry] = field(default_factory=list)
    ends: list[tuple[int, int, int, Entry]] = field(default_factory=list)  # a heap by (end, start, job id)
    ended_of: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    booked: dict[Entry, int] = field(default_factory=dict)
    first_booked: dict[int, int] = field(default_factory=dict)
    promises: dict[int, int] = field(default_factory=dict)
    started_by: dict[int, str] = field(default_factory=dict)
    held: set[Entry] = field(default_factory=set)  # whoever was given a reservation
    first_submit: int = 0
    squares: dict[Entry, int] = field(default_factory=lambda: defaultdict(int))  # of eligible seconds, over the ticks
    due_dates: dict[Entry, int] = field(default_factory=dict)
    head: Entry | None = None  # whoever was blocked in the last pass

    def instant(self, ending: Iterable[Entry], arriving: Iterable[Entry]) -> None:
        """One scheduling instant; estimates are asked for as `arriving` is walked, after the ends."""
        self.something_ended = False
        for entry in ending:
            self.ended(entry)
            self.something_ended = True
        for entry in arriving:
            self.submitted(entry)
        self.correct_expired()
        self.one_pass()

    def tick(self) -> None:
        """Let the waiting jobs gain score, if this is a tick."""
        for entry in self.queue if self.now % TICK == 0 else []:
            self.squares[entry] += (self.now - entry.submit) ** 2

    def submitted(self, entry: Entry) -> None:
        """Put a job into the queue."""
        entry.key = self.key(self.rule.order, entry)
        insort(self.queue, entry, key=lambda e: e.key)

    def key(self, order: str, entry: Entry) -> tuple:
        """Rank of a waiting job: smaller first, ties by (submit, job id)."""
        if order == "score":
            score = growth(entry.procs, entry.requested, self.procs, 1.0) * float(self.squares[entry])
            return -score, entry.submit, entry.job_id
        if order == "priority":
            return *self.place(entry), entry.submit, entry.job_id
        age = max(1, entry.submit - self.first_submit)
        wait = self.now - entry.submit
        value = ORDERS[order](entry.procs, entry.ordering, entry.requested, wait, entry.submit, age)
        return value, entry.submit, entry.job_id

    def place(self, entry: Entry) -> tuple:
        """Rank by priority: a head that is kept, overdue jobs, the others."""
        head_start, by_estimate, by_procs, grace, _ = self.rule.priority
        if self.rule.kept and entry is self.head:
            return 0, 0.0
        if grace is not None and self.now > self.due_dates.get(entry, self.now):
            return 1, 0.0
        length, wait = by_estimate * log10(entry.ordering), self.now - entry.submit
        return 2, -(log10(wait + head_start) - length + by_procs * log10(entry.procs))

    def set_due_dates(self) -> None:
        """Give the newcomers a due date: the grace, and a share of the time that the work ahead takes."""
        *_, grace, share = self.rule.priority
        work = sum((e.planned_end - self.now) * e.procs for e in self.running)
        for entry in sorted(self.queue, key=lambda e: (e not in self.due_dates, e.submit, e.job_id)):
            if grace is not None and entry not in self.due_dates:
                self.due_dates[entry] = self.now + int(grace + share * work / self.procs)
            work += entry.ordering * entry.procs

    def ended(self, entry: Entry) -> None:
        """Give the processors back and learn the run time."""
        self.free += entry.procs
        self.running.remove(entry)
        if entry.user >= 0:
            self.ended_of[entry.user].append(entry)

    def start(self, entry: Entry, past: Entry | None = None) -> None:
        """Start a waiting job, `past` a blocked one or in its turn; a zero-length one ends at once."""
        assert entry.procs <= self.free
        self.queue.remove(entry)
        entry.start = self.now
        self.started_by[entry.row] = "backfilled" if past else "reserved" if entry in self.held else "ready"
        self.free -= entry.procs
        self.running.append(entry)
        if entry.run_time == 0:
            self.ended(entry)
        else:
            heappush(self.ends, (self.now + entry.run_time, self.now, entry.job_id, entry))

    def correct_expired(self) -> None:
        """Replace the estimates that running jobs have outlived."""
        for entry in self.running:
            elapsed = self.now - entry.start
            if entry.planned_end <= self.now:
                entry.running = corrected(entry, elapsed, self.correction, self.kill)
                entry.overdue = True
            elif self.correction == "slurm" and entry.overdue and elapsed < entry.requested:
                entry.running = elapsed + max(1, (entry.requested - elapsed) // 2)

    def one_pass(self) -> None:
        """Bring the queue in order and start whom the rule starts."""
        if self.rule.order == "priority":
            self.set_due_dates()
        if self.rule.order in MOVING:
            for entry in self.queue:
                entry.key = self.key(self.rule.order, entry)
            self.queue.sort(key=lambda e: e.key)
        self.run_pass()
        self.head = next((e for e in self.queue if e in self.held), None) if self.rule.kept else None

    def run_pass(self) -> None:
        """Start whom the rule starts now; the queue is in order."""
        self.rule.run_pass(self)

    # what passes ask

    def candidates(self, behind: Entry) -> list[Entry]:
        """Return the jobs behind the blocked head, in the backfill order."""
        rest = [e for e in self.queue if e is not behind]
        if self.rule.backfill_order in (None, self.rule.order):
            return rest
        return sorted(rest, key=lambda e: self.key(self.rule.backfill_order, e))

    def plan_of_running_jobs(self) -> Plan:
        """Return the processors free from now on if all running jobs end as planned."""
        plan = Plan(self.now, self.free)
        for end, procs in self.planned_ends():
            plan.add(end, procs)
        return plan

    def planned_ends(self) -> list[tuple[int, int]]:
        """Return (end, processors) of the running jobs, by the estimates valid now."""
        return [(e.planned_end, e.procs) for e in self.running]

    def reservation(self, head: Entry) -> tuple[int, int]:
        """Return the head's shadow time and the extra processors."""
        return oracle_passes.reservation(self.free, head.procs, self.planned_ends())

    def promise_to(self, head: Entry) -> None:
        """Freeze the promise of a job that heads the queue blocked: its shadow time by requested times, and slack."""
        if self.rule.promise and head.row not in self.promises:
            ends = [(self._latest_end(e), e.procs) for e in self.running]
            self.promises[head.row] = oracle_passes.reservation(self.free, head.procs, ends)[0] + self.slack_of(head)

    def slack_of(self, head: Entry) -> int:
        """Return by how much the promise that is given now lies behind the shadow time by requested times."""
        slack = self.rule.slack + int(self.rule.growth * (self.now - head.submit))
        return max(self.rule.least, min(self.rule.most, slack))

    def _latest_end(self, entry: Entry) -> int:
        """Return the end by the requested time; for a job let run beyond it, by the estimate."""
        end = entry.start + entry.requested
        return end if end > self.now else entry.planned_end

    def keeps_promise(self, head: Entry, entry: Entry) -> bool:
        """Return whether a start now leaves the head its promise, by requested times."""
        if not self.rule.promise:
            return True
        promise = self.promises[head.row]
        if self.now + entry.requested <= promise:
            return True
        beyond = sum(e.procs for e in self.running if self._latest_end(e) > promise)
        return head.procs + entry.procs <= self.procs - beyond
