"""When does each job start on a machine parts of which are reserved, and nodes of which fail? Slow, from definitions.

Shares no code with `schedsim`; extends `site.py`. The rules beyond those of `easy.py`:

1. At second t: ends; repairs, then failures; then what is reserved changes; submissions; expired estimates; the pass.
   Ends of reservations (where less is reserved than before), repairs and failures are instants; begins are not.
2. Reserved numbers that overlap in time are added, to the machine at most. A job may start at t only if at every later
   second s < t + requested at which more becomes reserved, it fits beside what is reserved then and beside all jobs
   that by their requested times run beyond s.
3. What a plan reserves for a waiting job counts at such seconds too, until the job's requested time; a job is planned
   for the first second at which it fits by estimates and rule 2 holds. So is the head's shadow time found.
4. Of N nodes of which d are down, a failure strikes node hash(seed, number) mod (N - d): the running jobs, by row, hold
   the first ones. A job struck waits again, by its old key, its estimate and promise anew; or it is gone.
5. Under `compress`, ends of reservations, repairs and failures bring reservations forward as ends of jobs do.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop

from tests.oracle.passes import most_worth
from tests.oracle.plan import Plan
from tests.oracle.site import Entry, Rule, Site

MASK = (1 << 64) - 1


def drawn(seed: int, number: int) -> int:
    """Return the number's hash: splitmix64 over (seed, number, 83), 63 bits."""
    z = 0
    for part in (seed, number, 83):
        z = ((z ^ part) + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
    return z >> 1


@dataclass(frozen=True)
class Calendar:
    """Reservations (start, end, processors) and changes (second, "repair" or "fail", nodes)."""

    reserved: tuple[tuple[int, int, int], ...] = ()
    changes: tuple[tuple[int, str, int], ...] = ()
    requeue: bool = True
    seed: int = 0

    def level(self, second: int, procs: int) -> int:
        """Return how many processors are reserved at a second."""
        return min(procs, sum(n for start, end, n in self.reserved if start <= second < end))

    def seconds(self) -> list[int]:
        """Return the seconds at which a reservation begins or ends."""
        return sorted({second for start, end, _ in self.reserved for second in (start, end)})


@dataclass
class Disturbed(Site):
    """The machine and its queue where processors may be reserved or down."""

    calendar: Calendar = field(default_factory=Calendar)
    down: int = 0
    failures: int = 0
    plans: list[tuple[int, int, int]] = field(default_factory=list)  # (start, latest end, processors) of waiting jobs
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # that failures stopped
    dropped: set[int] = field(default_factory=set)

    def count(self) -> None:
        """Find the free processors anew."""
        used = sum(e.procs for e in self.running)
        self.free = self.procs - self.down - self.calendar.level(self.now, self.procs) - used

    def change(self, kind: str, nodes: int) -> None:
        """Let nodes fail, or be repaired."""
        for _ in range(nodes):
            if kind == "repair":
                self.down -= 1
                continue
            self.failures += 1
            node = drawn(self.calendar.seed, self.failures) % (self.procs - self.down)
            held = [e for e in sorted(self.running, key=lambda e: e.row) for _ in range(e.procs)]
            if node < len(held):
                self.interrupt(held[node])
            self.down += 1
        self.count()

    def interrupt(self, entry: Entry) -> None:
        """Stop a running job."""
        self.runs.append((entry.row, entry.start, self.now))
        self.running.remove(entry)
        self.ends = [end for end in self.ends if end[-1] is not entry]
        heapify(self.ends)
        if not self.calendar.requeue:
            self.dropped.add(entry.row)
            return
        entry.start, entry.running, entry.overdue = -1, entry.first, False
        self.held.discard(entry)
        self.promises.pop(entry.row, None)
        self.submitted(entry)

    def clears(self, entry: Entry, begin: int) -> bool:
        """Rule 2, at `begin`, and rule 3."""
        for s in self.calendar.seconds():
            grows = self.calendar.level(s, self.procs) > self.calendar.level(s - 1, self.procs)
            if not (grows and s > self.now and begin < s < begin + entry.requested):
                continue
            used = self.calendar.level(s, self.procs) + self.down
            used += sum(e.procs for e in self.running if self._latest_end(e) > s)
            used += sum(procs for start, end, procs in self.plans if start < s < end)
            if used + entry.procs > self.procs:
                return False
        return True

    def may_start(self, entry: Entry) -> bool:
        """Return whether a job fits and clears what is reserved."""
        return entry.procs <= self.free and self.clears(entry, self.now)

    def plan_from(self, ends: list[tuple[int, int]]) -> Plan:
        """Return the free processors by running jobs' ends and what is reserved."""
        plan = Plan(self.now, self.free)
        for end, procs in ends:
            plan.add(end, procs)
        before = self.calendar.level(self.now, self.procs)
        for s in self.calendar.seconds():
            if s > self.now:
                plan.add(s, before - self.calendar.level(s, self.procs))
                before = self.calendar.level(s, self.procs)
        return plan

    def earliest(self, plan: Plan, entry: Entry, length: int) -> int | None:
        """Return the first second of the plan at which a job fits and clears what is reserved; None: never."""
        if plan.free[-1] < entry.procs:
            return None
        for second in plan.since:
            if second >= self.now and plan.fits(second, entry.procs, length) and self.clears(entry, second):
                return second
        raise ValueError("the last step always holds")

    def run_pass(self) -> None:
        """Start whom the rule starts now."""
        self.plans = []
        rule = self.rule
        if rule.greedy in ("binpacking", "random"):
            while fitting := [e for e in self.queue if self.may_start(e)]:
                if rule.greedy == "random":
                    self.start(rule.draw(fitting, self.now))
                else:
                    self.start(max(fitting, key=lambda e: (e.procs, -e.submit, -e.job_id)))
        elif rule.greedy:
            self.knapsack()
        elif rule.keeps:
            self.kept()
        else:
            while self.queue and self.may_start(self.queue[0]):
                self.start(self.queue[0])
            if self.queue and rule.depth != 0:
                (self.easy if rule.depth == 1 and rule.family != "planned" else self.planned)(self.queue[0])

    def promise_dated(self, head: Entry) -> None:
        """Freeze the promise: the first second by requested times."""
        if self.rule.promise and head.row not in self.promises:
            plan = self.plan_from([(self._latest_end(e), e.procs) for e in self.running])
            shadow = self.earliest(plan, head, head.requested)
            if shadow is not None:
                self.promises[head.row] = shadow + self.slack_of(head)

    def keeps_promise(self, head: Entry, entry: Entry) -> bool:
        """Return whether a start now leaves the head its promise, by requested times."""
        if not self.rule.promise or head.row not in self.promises:
            return True
        promise = self.promises[head.row]
        if self.now + entry.requested <= promise:
            return True
        when = max(promise, self.now)
        beyond = sum(e.procs for e in self.running if self._latest_end(e) > when)
        closed = self.down + self.calendar.level(when, self.procs)
        return head.procs + entry.procs <= self.procs - beyond - closed

    def book_head(self, head: Entry, shadow: int | None) -> None:
        """Let the head count at the seconds within its request, from its shadow time and from its promise on."""
        spans = [shadow, self.promises.get(head.row) if self.rule.promise else None]
        seconds = {
            s
            for begin in spans
            if begin is not None
            for s in self.calendar.seconds()
            if begin < s < begin + head.requested
        }
        self.plans += [(s - 1, s + 1, head.procs) for s in seconds]

    def easy(self, head: Entry) -> None:
        """Depth 1."""
        self.promise_dated(head)
        plan = self.plan_from(self.planned_ends())
        shadow = self.earliest(plan, head, head.candidate)
        extra = None
        if shadow is not None:
            plan.take(shadow, shadow + head.candidate, head.procs)
            extra = plan.free[plan.since.index(shadow)]
        self.held.add(head)
        self.book_head(head, shadow)
        for entry in self.candidates(behind=head):
            in_time = shadow is None or self.now + entry.candidate <= shadow
            room = in_time or entry.procs <= extra
            if entry.procs <= self.free and room and self.keeps_promise(head, entry) and self.clears(entry, self.now):
                self.start(entry, past=head)
                if not in_time and entry.run_time > 0:
                    extra -= entry.procs

    def planned(self, head: Entry) -> None:
        """Depth k or all, replanned."""
        self.promise_dated(head)
        plan = self.plan_from(self.planned_ends())
        reserved = 0
        for entry in [head, *self.candidates(behind=head)]:
            begin = self.earliest(plan, entry, entry.candidate)
            if begin == self.now:
                if self.keeps_promise(head, entry):
                    self.start(entry, past=head)
                    if entry.run_time > 0:
                        plan.take(begin, begin + entry.candidate, entry.procs)
            elif self.rule.depth is None or reserved < self.rule.depth:
                reserved += 1
                self.held.add(entry)
                if entry is head:
                    self.book_head(head, begin)
                elif begin is not None:
                    self.plans.append((begin, begin + entry.requested, entry.procs))
                if begin is not None:
                    plan.take(begin, begin + entry.candidate, entry.procs)

    def kept(self) -> None:
        """Conservative, reservations kept."""
        plan, booked, self.plans = self.plan_from(self.planned_ends()), self.booked, []

        def take(entry: Entry, begin: int | None) -> None:
            if begin is None:
                booked.pop(entry, None)
                return
            booked[entry] = begin
            plan.take(begin, begin + entry.candidate, entry.procs)
            self.plans.append((begin, begin + entry.requested, entry.procs))

        impossible = []
        for entry in [e for e in self.queue if e in booked]:
            begin = max(booked[entry], self.now)
            possible = entry.procs <= plan.free[-1] and plan.fits(begin, entry.procs, entry.candidate)
            if possible and self.clears(entry, begin):
                take(entry, begin)
            else:
                impossible.append(entry)
        for entry in impossible:
            take(entry, self.earliest(plan, entry, entry.candidate))
        for entry in self.queue:
            if entry not in booked:
                take(entry, self.earliest(plan, entry, entry.candidate))
            elif self.something_ended and booked[entry] > self.now:
                begin = booked[entry]
                plan.add(begin, entry.procs, begin + entry.candidate)
                self.plans.remove((begin, begin + entry.requested, entry.procs))
                take(entry, self.earliest(plan, entry, entry.candidate))
        blocked, due = None, [e for e in self.queue if booked.get(e) == self.now]
        for entry in list(self.queue):
            if entry in due:
                self.start(entry, past=blocked)
                del booked[entry]
            else:
                blocked = blocked or entry
                self.held.add(entry)
        self.something_ended = any(entry.run_time == 0 for entry in due)
        if self.something_ended:
            self.kept()

    def knapsack(self) -> None:
        """The most valuable set of those that each clear what is reserved; each must still, when its turn comes."""
        while True:
            others = [e for e in self.queue[: self.rule.window] if not self.clears(e, self.now)]
            chosen = _most_worth_without(self, others)
            if not chosen:
                return
            for entry in chosen:
                if self.clears(entry, self.now):
                    self.start(entry)


def _most_worth_without(site: Disturbed, others: list[Entry]) -> tuple:
    """Return the best set, some jobs of the window being too wide for the moment."""
    wide = {e: e.procs for e in others}
    view = _View(site, wide)
    return most_worth(view)


class _View:
    """The site as the knapsack sees it: a job that may not start counts for the longest wait alone."""

    def __init__(self, site: Disturbed, barred: dict[Entry, int]) -> None:
        self.rule, self.now, self.procs, self.free = site.rule, site.now, site.procs, max(site.free, 0)
        self.queue = [_Barred(e) if e in barred else e for e in site.queue]


class _Barred:
    """A job that fits nowhere."""

    def __init__(self, entry: Entry) -> None:
        self.submit, self.candidate, self.procs = entry.submit, entry.candidate, 1 << 40


def simulate(jobs, procs, rule: Rule, calendar: Calendar, estimates, correction="requested", kill=True) -> Disturbed:
    """Return the site at its end; `entries` are the jobs, by row."""
    site = Disturbed(
        rule, procs, correction, kill, free=procs, first_submit=min(j.submit for j in jobs), calendar=calendar
    )
    site.now = 0
    for second, kind, nodes in sorted(calendar.changes, key=lambda c: (c[0], c[1] == "fail")):
        if second <= 0:
            site.change(kind, nodes)
    entries = []
    for row, job in enumerate(jobs):
        first = max(1, min(int(estimates[row]), job.requested))
        run_time = min(job.run_time, job.requested) if kill else job.run_time
        entries.append(
            Entry(row, job.job_id, job.submit, job.procs, job.requested, run_time, job.user,
                  ordering=first, candidate=first, first=first, running=first)
        )  # fmt: skip
    arrivals = sorted(entries, key=lambda e: (e.submit, e.job_id))
    changes = sorted((c for c in calendar.changes if c[0] > 0), key=lambda c: (c[0], c[1] == "fail"))
    wakes = {s for s in calendar.seconds() if s > 0 and calendar.level(s, procs) < calendar.level(s - 1, procs)}
    wakes |= {second for second, _, _ in changes}
    while arrivals or site.ends or wakes:
        site.now = min([end[0] for end in site.ends[:1]] + [e.submit for e in arrivals[:1]] + sorted(wakes)[:1])
        site.something_ended = site.now in wakes
        while site.ends and site.ends[0][0] == site.now:
            site.ended(heappop(site.ends)[-1])
            site.something_ended = True
        while changes and changes[0][0] == site.now:
            site.change(*changes.pop(0)[1:])
        wakes.discard(site.now)
        site.count()
        while arrivals and arrivals[0].submit == site.now:
            site.submitted(arrivals.pop(0))
        site.correct_expired()
        site.one_pass()
    site.entries = entries
    return site
