"""When does each job start? A slow simulator written from the definitions alone, to check the fast one against.

It shares no code with `schedsim`: whole-number seconds, plain Python, one function a definition (`oracle_passes.py`).

The rules
---------
At second t: ends, by (start, job id); submissions, by job id; estimates that expired (start + estimate <= t); one
scheduling pass. Only a second with an end or a submission is an instant. Shadow times are recomputed in every pass
from the estimates valid now; extra processors are used; jobs planned to end *at* the shadow time count as free.

Readings, where the rules leave something open
----------------------------------------------
1. A zero-length job gives its processors back at once: the pass goes on with them, no extra is used up, and a
   submission of a later instant knows its run time.
2. A pass first starts the front of the queue while it fits; these jobs are *running* for the rest of the pass (planned
   end by their running estimate). A job started behind a blocked head holds its processors in this pass's plan by its
   candidate estimate. (The two differ only where several estimates are used.)
3. Candidates behind the head are walked in the backfill order; at depth k the first k blocked jobs of this walk, the
   head first, hold reservations.
4. The ordering and the candidate estimate stay as given at submission; corrections touch running jobs alone.
5. `incremental`: the first of p0 + rung that lies beyond t, at most the request; no rung left: the request.
   With kill=False an estimate that has reached the request is doubled, whatever the correction.
6. `conservative-compress`, within one pass: (a) a reservation whose second went by is due now; reservations, in queue
   order, stay where they still fit beside the running jobs and the reservations kept before them; (b) those that do
   not, in queue order, get the earliest hole beside all that stay; (c) in queue order, a job without a reservation
   gets the earliest hole, and, if a job ended at this instant, one with a reservation is taken out and put
   back at its earliest hole; (d) whoever is reserved now starts.
7. The promise is the head's shadow time by requested times over the jobs running when it is first found blocked.
   "Fits beside the head at the promise": head and backfill together are at most the machine less the jobs that run
   beyond the promise by requested times. Under hybrid only the head has a promise.
8. Greedy rules: of equally large jobs bin packing takes the first by (submit, job id). The knapsack's value of a job is
   its part of the reward: capability (wait / longest wait in the window + procs / N + procs / N) / 3, the last for the
   processors that it brings into use; capacity 1 / estimate, the loss that its start ends.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tests import oracle_passes
from tests.oracle_orders import MOVING, ORDERS
from tests.oracle_plan import Plan

MINUTE, HOUR = 60, 3600
RUNGS = [1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE] + [h * HOUR for h in (1, 2, 5, 10, 20, 50, 100)]


@dataclass(frozen=True)
class Job:
    """One job; times in seconds. A user below 0 is nobody."""

    job_id: int
    submit: int
    procs: int
    requested: int
    run_time: int
    user: int = -1


@dataclass(frozen=True)
class Rule:
    """A policy. `depth` None: all jobs hold reservations. `keeps`: reservations are kept and compressed."""

    order: str = "fcfs"
    backfill_order: str | None = None
    depth: int | None = 0
    keeps: bool = False
    promise: bool = False
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

    @property
    def planned_end(self) -> int:
        """Second at which a running job ends as planned."""
        return self.start + self.running


@dataclass
class Outcome:
    """The schedule, one value a row: start [s], first and last running estimate [s], how each started."""

    start: list[int]
    estimate: list[int]
    last_estimate: list[int]
    started_by: list[str]
    first_booked: dict[int, int]
    promises: dict[int, int]
    first_shadow: dict[int, int]
    corrections: int


# What is expected of a job at its submission; `ended` are its user's ended jobs, in the order of their ends.
ESTIMATES: dict[str, Callable[[Job, list[Job]], int]] = {
    "requested": lambda job, ended: job.requested,
    "clairvoyant": lambda job, ended: job.run_time,
    "tsafrir": lambda job, ended: (ended[-1].run_time + ended[-2].run_time) // 2 if len(ended) >= 2 else job.requested,
}


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
    first_shadow: dict[int, int] = field(default_factory=dict)
    started_by: dict[int, str] = field(default_factory=dict)
    corrections: int = 0
    first_submit: int = 0

    def submitted(self, entry: Entry) -> None:
        """Put a job into the queue."""
        entry.key = self.key(self.rule.order, entry)
        insort(self.queue, entry, key=lambda e: e.key)

    def key(self, order: str, entry: Entry) -> tuple:
        """Rank of a waiting job: smaller first, ties by (submit, job id)."""
        age = max(1, entry.submit - self.first_submit)
        wait = self.now - entry.submit
        value = ORDERS[order](entry.procs, entry.ordering, entry.requested, wait, entry.submit, age)
        return value, entry.submit, entry.job_id

    def ended(self, entry: Entry) -> None:
        """Give the processors back and learn the run time."""
        self.free += entry.procs
        self.running.remove(entry)
        if entry.user >= 0:
            self.ended_of[entry.user].append(entry)

    def start(self, entry: Entry, by: str) -> None:
        """Start a waiting job; a zero-length one ends at once."""
        assert entry.procs <= self.free
        self.queue.remove(entry)
        entry.start = self.now
        self.started_by[entry.row] = by
        self.free -= entry.procs
        self.running.append(entry)
        if entry.run_time == 0:
            self.ended(entry)
        else:
            heappush(self.ends, (self.now + entry.run_time, self.now, entry.job_id, entry))

    def correct_expired(self) -> None:
        """Replace the estimates that running jobs have outlived."""
        for entry in self.running:
            if entry.planned_end <= self.now:
                entry.running = corrected(entry, self.now - entry.start, self.correction, self.kill)
                self.corrections += 1

    def one_pass(self) -> None:
        """Bring the queue in order and start whom the rule starts."""
        if self.rule.order in MOVING:
            for entry in self.queue:
                entry.key = self.key(self.rule.order, entry)
            self.queue.sort(key=lambda e: e.key)
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
        for entry in self.running:
            plan.add(entry.planned_end, entry.procs)
        return plan

    def promise_to(self, head: Entry) -> None:
        """Note the head's shadow time by estimates, and freeze its promise, the same by requested times."""
        if head.row not in self.first_shadow:
            self.first_shadow[head.row] = self._shadow(head, lambda e: e.planned_end)
        if self.rule.promise and head.row not in self.promises:
            self.promises[head.row] = self._shadow(head, self._latest_end)

    def _shadow(self, head: Entry, end_of: Callable[[Entry], int]) -> int:
        return oracle_passes.reservation(self.free, head.procs, [(end_of(e), e.procs) for e in self.running])[0]

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


def simulate(
    jobs: Sequence[Job],
    procs: int,
    rule: Rule,
    estimates: str | Sequence[int] = "requested",
    correction: str = "requested",
    kill: bool = True,
    ordering: str | Sequence[int] | None = None,
    running: str | Sequence[int] | None = None,
    candidates: str | Sequence[int] | None = None,
) -> Outcome:
    """Return the schedule of `jobs` on `procs` processors; result lists follow the order of `jobs`.

    >>> jobs = [Job(1, 0, 6, 10, 10), Job(2, 1, 8, 10, 10), Job(3, 2, 2, 8, 8), Job(4, 3, 2, 9, 9)]
    >>> simulate(jobs, 8, Rule(depth=1)).start, simulate(jobs, 8, Rule()).start
    ([0, 10, 2, 20], [0, 10, 20, 20])
    """
    site = Site(rule, procs, correction, kill, free=procs, first_submit=min((j.submit for j in jobs), default=0))
    arrivals = sorted(range(len(jobs)), key=lambda row: (jobs[row].submit, jobs[row].job_id), reverse=True)
    entries: dict[int, Entry] = {}

    def expected(source: str | Sequence[int] | None, row: int) -> int:
        if source is None:
            source = estimates
        job = jobs[row]
        value = ESTIMATES[source](job, site.ended_of[job.user]) if isinstance(source, str) else source[row]
        return max(1, min(int(value), job.requested))

    while arrivals or site.ends:
        seconds = [site.ends[0][0]] if site.ends else []
        seconds += [jobs[arrivals[-1]].submit] if arrivals else []
        site.now = min(seconds)
        site.something_ended = bool(site.ends) and site.ends[0][0] == site.now
        while site.ends and site.ends[0][0] == site.now:
            site.ended(heappop(site.ends)[-1])
        while arrivals and jobs[arrivals[-1]].submit == site.now:
            row = arrivals.pop()
            job, first = jobs[row], expected(running, row)
            run_time = min(job.run_time, job.requested) if kill else job.run_time
            entries[row] = Entry(
                row, job.job_id, job.submit, job.procs, job.requested, run_time, job.user,
                ordering=expected(ordering, row), candidate=expected(candidates, row), first=first, running=first,
            )  # fmt: skip
            site.submitted(entries[row])
        site.correct_expired()
        site.one_pass()

    rows = range(len(jobs))
    return Outcome(
        start=[entries[row].start for row in rows],
        estimate=[entries[row].first for row in rows],
        last_estimate=[entries[row].running for row in rows],
        started_by=[site.started_by.get(row, "never") for row in rows],
        first_booked=site.first_booked,
        promises=site.promises,
        first_shadow=site.first_shadow,
        corrections=site.corrections,
    )


def rule_named(name: str, **more) -> Rule:
    """Return the rule of a policy's name.

    >>> rule_named("easy-sjbf+promise") == Rule(backfill_order="sjf", depth=1, promise=True)
    True
    """
    base, _, option = name.partition("+")
    promise = option == "promise"
    if base in ("binpacking", "random"):
        return Rule(greedy=base, **more)
    if base.startswith("knapsack"):
        return Rule(greedy="knapsack", **more)
    if base == "conservative-replan":
        return Rule(depth=None, **more)
    if base == "conservative-compress":
        return Rule(depth=None, keeps=True, **more)
    if base.startswith("hybrid-"):
        return Rule(depth=int(base.removeprefix("hybrid-")), promise=promise, **more)
    if base == "easy-sjbf":
        return Rule(backfill_order="sjf", depth=1, promise=promise, **more)
    if base == "easy":
        return Rule(depth=1, promise=promise, **more)
    order = base.removesuffix("-easy")
    return Rule(order=order, depth=1 if base.endswith("-easy") else 0, promise=promise, **more)
