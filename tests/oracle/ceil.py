"""CEIL, slowly: who starts when under a ceiling on utilisation, with postponed jobs.

Written from the definitions alone. Li et al., ROSS 2019. It shares the oracle's `Site` (queue, running jobs,
estimates, corrections), no code with `schedsim`. Readings, where the paper leaves something open:

1. A postponed job joins the queue, its submission kept, at (deadline - requested - lead), which is an instant; one
   whose second has come when it is submitted is not postponed.
2. All join at an instant at which the queue is empty, or less than `low` of the machine in use. That is looked at
   after the pass, which then goes on, or (`looks`) before it, after submissions and corrections, or both; an empty
   queue is seen before the pass whatever `looks` says.
3. A job needs room: the processors that the ceiling leaves, or, if it alone needs the ceiling's share of the machine,
   those that are free. A job without room is blocked, whatever the reason; the first such holds a reservation, at
   the first planned end at which it has room. Extra are the processors that it then leaves.
4. With `passed_over`, a job that fits but for the ceiling is left aside, holds no reservation, and the next is tried.
5. Backfills come from the queue, then (`backfill`) from the postponed jobs, each in the backfill order.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop

from tests.oracle.easy import ESTIMATES, Outcome
from tests.oracle.passes import reservation
from tests.oracle.site import Entry, Rule, Site


@dataclass(frozen=True)
class CeilRule(Rule):
    """CEIL's part of a policy; shares as fractions."""

    ceiling: Fraction = Fraction(95, 100)
    low: Fraction = Fraction(60, 100)
    lead: int = 10800
    postpones: bool = True
    backfill: bool = True
    looks: str = "after"
    passed_over: bool = False

    def run_pass(self, site):
        """Start whom CEIL starts."""
        one_pass(site)


@dataclass
class CeilSite(Site):
    """The machine with its two queues."""

    deadline: dict[int, int] = field(default_factory=dict)
    put_off: list[Entry] = field(default_factory=list)

    @property
    def in_use(self):
        """Processors in use."""
        return self.procs - self.free

    def room(self, procs):
        """Return how many processors a job of that width may use now."""
        if procs >= self.rule.ceiling * self.procs:
            return self.free
        return max(n for n in range(-self.procs, self.procs + 1) if self.in_use + n <= self.rule.ceiling * self.procs)

    def due(self, entry):
        """Return when a postponed job joins the queue at the latest."""
        return self.deadline[entry.row] - entry.requested - self.rule.lead

    def submitted(self, entry):
        """Postpone a job, or put it into the queue."""
        if self.rule.postpones and self.deadline[entry.row] >= 0 and self.due(entry) > self.now:
            self.put_off.append(entry)
        else:
            super().submitted(entry)

    def join(self, entries):
        """Let postponed jobs join the queue."""
        for entry in list(entries):
            self.put_off.remove(entry)
            super().submitted(entry)

    def join_if_idle(self):
        """Let all join if the queue is empty or the machine idle; tell whether any did."""
        moves = self.put_off and (not self.queue or self.in_use < self.rule.low * self.procs)
        if moves:
            self.join(self.put_off)
        return bool(moves)

    def correct_expired(self):
        """After the submissions, before the pass."""
        super().correct_expired()
        if self.rule.looks in ("before", "both") or not self.queue:
            self.join_if_idle()

    def one_pass(self):
        """Go on until nobody joins the queue."""
        super().one_pass()
        if self.rule.looks in ("after", "both") and self.join_if_idle():
            self.one_pass()

    def start(self, entry, past=None):
        """Start a job, also a postponed one."""
        if entry in self.put_off:
            self.join([entry])
        super().start(entry, past)

    def candidates_put_off(self):
        """Return the postponed jobs, in the backfill order."""
        order = self.rule.backfill_order or self.rule.order
        return sorted(self.put_off, key=lambda e: self.key(order, e))


def one_pass(site):
    """Start jobs in order until one has no room; then, at depth 1, those that leave it its reservation."""
    aside, head = [], None
    for entry in list(site.queue):
        if entry.procs <= site.room(entry.procs):
            site.start(entry)
        elif site.rule.passed_over and entry.procs <= site.free:
            aside.append(entry)
        else:
            head = entry
            break
    if head is None or site.rule.depth == 0:
        return
    exempt = head.procs >= site.rule.ceiling * site.procs
    shadow, extra = reservation(site.room(head.procs), head.procs, site.planned_ends())
    site.held.add(head)
    promise_to(site, head)
    behind = [e for e in site.candidates(behind=head) if e not in aside]
    if site.rule.backfill:
        behind += site.candidates_put_off()
    for entry in behind:
        if entry.procs > site.room(entry.procs):
            continue
        ends_in_time = site.now + entry.candidate <= shadow
        if (ends_in_time or entry.procs <= extra) and keeps_promise(site, head, entry, exempt):
            site.start(entry, past=head)
            if not ends_in_time and entry.run_time > 0:
                extra -= entry.procs


def promise_to(site, head):
    """The head's first shadow time by requested times, and slack."""
    if site.rule.promise and head.row not in site.promises:
        ends = [(site._latest_end(e), e.procs) for e in site.running]
        site.promises[head.row] = reservation(site.room(head.procs), head.procs, ends)[0] + site.slack_of(head)


def keeps_promise(site, head, entry, exempt):
    """By requested times a start now ends by the promise, or head and it have room together then."""
    if not site.rule.promise or site.now + entry.requested <= site.promises[head.row]:
        return True
    beyond = sum(e.procs for e in site.running if site._latest_end(e) > site.promises[head.row])
    return head.procs + entry.procs + beyond <= (1 if exempt else site.rule.ceiling) * site.procs


def simulate(jobs, procs, rule, deadlines, estimates="requested", correction="requested", kill=True):
    """Return the schedule of `jobs` under CEIL; `deadlines` by row, -1 for none."""
    first = min(job.submit for job in jobs)
    site = CeilSite(rule, procs, correction, kill, free=procs, first_submit=first, deadline=dict(enumerate(deadlines)))
    arrivals = sorted(range(len(jobs)), key=lambda row: (jobs[row].submit, jobs[row].job_id), reverse=True)
    entries = {}

    def expected(row):
        job, by_name = jobs[row], isinstance(estimates, str)
        value = ESTIMATES[estimates](job, site.ended_of[job.user]) if by_name else estimates[row]
        return max(1, min(int(value), job.requested))

    def entry_of(row):
        job, guess = jobs[row], expected(row)
        run_time = min(job.run_time, job.requested) if kill else job.run_time
        entries[row] = Entry(row, job.job_id, job.submit, job.procs, job.requested, run_time, job.user,
                             ordering=guess, candidate=guess, first=guess, running=guess)  # fmt: skip
        return entries[row]

    while arrivals or site.ends or site.put_off:
        seconds = [site.ends[0][0]] if site.ends else []
        seconds += [jobs[arrivals[-1]].submit] if arrivals else []
        seconds += [site.due(entry) for entry in site.put_off]
        site.now = min(seconds)
        ending, arriving = [], []
        while site.ends and site.ends[0][0] == site.now:
            ending.append(heappop(site.ends)[-1])
        while arrivals and jobs[arrivals[-1]].submit == site.now:
            arriving.append(arrivals.pop())
        site.join([entry for entry in site.put_off if site.due(entry) == site.now])
        site.instant(ending, (entry_of(row) for row in arriving))

    rows = range(len(jobs))
    return Outcome(
        start=[entries[row].start for row in rows],
        estimate=[entries[row].first for row in rows],
        last_estimate=[entries[row].running for row in rows],
        started_by=[site.started_by[row] for row in rows],
    )
