"""When does each job start under Cobalt's score and a site's rules? A slow simulator that ticks every 15 seconds.

It shares no code with `schedsim`. Scores are kept as Cobalt keeps them: at every tick each job in the queue gains its
increment. (The squares are added up as whole numbers, so that nothing is lost in adding.)

Readings, beside those of `easy.py`
-------------------------------------
1. Ticks lie at the multiples of 15 s. While a job is in the queue, every tick is a scheduling instant, as if a timer
   woke the scheduler; the score counts the ticks up to and including the present second, of the seconds at whose end
   the job is in the queue.
2. A second: ends; timers (children whose think time is over, commands); submissions; ticks; corrections; one pass. The
   children of a job of length zero are released in a further instant of the same second.
3. A job for which its node set has too few left is passed over, and the first such job of a set in a pass reserves
   within its set; others of the set start if they end by then, or fit beside it. The jobs before the machine's head
   are asked about their set first, those behind it last.
"""

from dataclasses import dataclass, field
from heapq import heappop

from tests.oracle import passes as oracle_passes
from tests.oracle.easy import ESTIMATES, Outcome
from tests.oracle.orders import TICK, growth
from tests.oracle.site import Entry, Site


@dataclass
class House:
    """The rules of a site, by rows of the jobs.

    Queues are (least procs, most procs, longer than, up to, share or None); parents {row: (parent's row, think)};
    commands (time, action, row, procs or None, requested or None).
    """

    queues: list = field(default_factory=lambda: [(1, 10**9, 0, 10**9, None)])
    parents: dict = field(default_factory=dict)
    failed: set = field(default_factory=set)
    stuck: bool = True
    commands: list = field(default_factory=list)
    weights: dict = field(default_factory=dict)
    starts: dict = field(default_factory=dict)

    def queue_of(self, procs, requested):
        """Return the number of the queue that takes such a job."""
        fits = [
            number
            for number, (least, most, longer, up_to, _) in enumerate(self.queues)
            if least <= procs <= most and longer < requested <= up_to
        ]
        assert len(fits) == 1
        return fits[0]


@dataclass(eq=False)
class Scored(Entry):
    """A job with its score: what it has, the squares gained since, and the seconds that it was held."""

    base: float = 0.0
    squares: int = 0
    growth: float = 0.0
    since: int = 0
    why: frozenset = frozenset()
    held_at: int = 0
    queue: int = 0
    fate: str = ""
    score_at_start: float = 0.0

    @property
    def score(self) -> float:
        """What it is served by."""
        return self.base + self.growth * float(self.squares)


class Stuck(Exception):
    """Jobs are held for ever."""


class Cobalt(Site):
    """The state, with the score as an order that the walk below keeps up."""

    house: House = None
    trying: dict = None

    def key(self, order, entry):
        """Rank of a waiting job."""
        if order == "score":
            return -entry.score, entry.submit, entry.job_id
        return super().key(order, entry)

    def one_pass(self):
        """Bring the queue in order and start whom the rule starts."""
        for entry in self.queue:
            entry.key = self.key(self.rule.order, entry)
        self.queue.sort(key=lambda e: e.key)
        if any(share is not None for *_, share in self.house.queues):
            self.trying = {}
            easy_within_sets(self)
        else:
            self.run_pass()

    def start(self, entry, past=None):
        """Note the score, and start."""
        entry.score_at_start = entry.score
        super().start(entry, past)

    # node sets

    def allows(self, entry):
        """Return whether the entry's node set lets it start; the first that it does not reserves within the set."""
        share = self.house.queues[entry.queue][-1]
        if share is None:
            return True
        mates = [e for e in self.running if e.queue == entry.queue]
        left = share - sum(e.procs for e in mates)
        if entry.queue in self.trying:
            shadow, extra = self.trying[entry.queue]
            return entry.procs <= left and (self.now + entry.candidate <= shadow or entry.procs <= extra)
        if entry.procs > left:
            ends = [(e.planned_end, e.procs) for e in mates]
            self.trying[entry.queue] = oracle_passes.reservation(left, entry.procs, ends)
        return entry.procs <= left

    def use(self, entry):
        """Take from what is left beside the reservation of the entry's set."""
        if entry.queue in self.trying and entry.run_time > 0:
            shadow, extra = self.trying[entry.queue]
            if self.now + entry.candidate > shadow:
                self.trying[entry.queue] = shadow, extra - entry.procs


def easy_within_sets(site):
    """EASY among jobs of node sets, see reading 3."""
    tried, head = [], None
    while head is None:
        left = [e for e in site.queue if e not in tried]
        if not left:
            return
        entry = left[0]
        if not site.allows(entry):
            tried.append(entry)
        elif entry.procs > site.free:
            head = entry
        else:
            site.use(entry)
            site.start(entry)
    if site.rule.depth == 0:
        return
    shadow, extra = site.reservation(head)
    site.held.add(head)
    site.promise_to(head)
    for entry in site.candidates(behind=head):
        in_time = site.now + entry.candidate <= shadow
        if entry in tried or entry.procs > site.free or not (in_time or entry.procs <= extra):
            continue
        if site.keeps_promise(head, entry) and site.allows(entry):
            site.use(entry)
            site.start(entry, past=head)
            if not in_time and entry.run_time > 0:
                extra -= entry.procs


def simulate(jobs, procs, rule, house=None, estimates="requested", correction="requested", kill=True):
    """Return the schedule, walking from second to second at which something happens, every tick among them."""
    return Walk(jobs, procs, rule, house or House(), estimates, correction, kill).run()


class Walk:
    """One simulation."""

    def __init__(self, jobs, procs, rule, house, estimates, correction, kill):
        self.jobs, self.house, self.estimates, self.kill, self.procs = jobs, house, estimates, kill, procs
        self.site = Cobalt(
            rule, procs, correction, kill, free=procs, first_submit=min((j.submit for j in jobs), default=0)
        )
        self.site.house = house
        self.arrivals = sorted(range(len(jobs)), key=lambda r: (jobs[r].submit, jobs[r].job_id), reverse=True)
        self.entries, self.timers = {}, []
        from_start = {}
        for time, action, row, *to in house.commands:
            if action == "hold" and time == jobs[row].submit:
                from_start[row] = True
            else:
                self.timers.append((time, action, row, *to))
        self.from_start = from_start
        self.latest = {}
        self.ignored = 0
        self.scores = {}

    def run(self):
        """Return the outcome."""
        site, again = self.site, False
        while True:
            seconds = [site.now] if again else []
            seconds += [site.ends[0][0]] if site.ends else []
            seconds += [self.jobs[self.arrivals[-1]].submit] if self.arrivals else []
            seconds += [time for time, *_ in self.timers]
            if not seconds:
                break
            if site.queue and not again and self.site.rule.order == "score":
                seconds.append((site.now // TICK + 1) * TICK)
            before = site.now
            site.now = min(seconds)
            again = self.instant(new=site.now > before or not self.entries)
        if any(e.why for e in self.entries.values()):
            raise Stuck([e.job_id for e in self.entries.values() if e.why])
        rows, at = range(len(self.jobs)), self.entries
        return Outcome(
            start=[at[row].start for row in rows],
            estimate=[at[row].first for row in rows],
            last_estimate=[at[row].running for row in rows],
            started_by=[site.started_by[row] for row in rows],
            promises=site.promises,
        )

    def instant(self, new):
        """Do all of one second, or the rest of it; return whether a job of length zero released others."""
        site, now = self.site, self.site.now
        site.something_ended = False
        while site.ends and site.ends[0][0] == now:
            entry = heappop(site.ends)[-1]
            site.ended(entry)
            self.over(entry)
        due = sorted((t for t in self.timers if t[0] <= now), key=lambda t: t[0])
        self.timers = [t for t in self.timers if t[0] > now]
        for timer in due:
            self.fire(*timer)
        while self.arrivals and self.jobs[self.arrivals[-1]].submit == now:
            self.arrive(self.arrivals.pop())
        if now % TICK == 0:  # all in the queue, those released or submitted just now included
            for entry in site.queue:
                if self.latest.get(entry.row) != now:
                    entry.squares += (now - entry.since) ** 2
                    self.latest[entry.row] = now
        site.correct_expired()
        running = set(site.running)
        site.one_pass()
        instantly = [
            e for e in self.entries.values() if e.start == now and e.run_time == 0 and not e.fate and e not in running
        ]
        for entry in instantly:
            self.over(entry, later=True)
        return any(time <= now for time, *_ in self.timers)

    def expected(self, row):
        """Return the estimate of a job just submitted."""
        job, source = self.jobs[row], self.estimates
        value = ESTIMATES[source](job, self.site.ended_of[job.user]) if isinstance(source, str) else source[row]
        return max(1, min(int(value), job.requested))

    def arrive(self, row):
        """Submit a job."""
        job, first, now = self.jobs[row], self.expected(row), self.site.now
        entry = Scored(
            row, job.job_id, job.submit, job.procs, job.requested,
            min(job.run_time, job.requested) if self.kill else job.run_time, job.user,
            ordering=first, candidate=first, first=first, running=first,
            base=self.house.starts.get(row, 0.0),
            growth=growth(job.procs, job.requested, self.procs, self.house.weights.get(row, 1.0)),
            since=now, queue=self.house.queue_of(job.procs, job.requested), held_at=now,
        )  # fmt: skip
        self.entries[row] = entry
        why = {"user"} if row in self.from_start else set()
        if row in self.house.parents:
            parent, think = self.house.parents[row]
            parent = self.entries.get(parent)
            if parent is None or not parent.fate:
                why.add("parent")
            elif parent.fate == "badly" and self.house.stuck:
                why.add("failure")
            else:
                self.inherit(entry, parent)
                if parent.end + think > now:
                    why.add("parent")
                    self.timers.append((parent.end + think, "free", row))
        entry.why = frozenset(why)
        if not why:
            self.site.queue.append(entry)

    def inherit(self, entry, parent):
        """Take half of the parent's score, if that is more."""
        entry.base, entry.squares = max(entry.score, 0.5 * parent.score_at_start), 0

    def over(self, entry, later=False):
        """Tell the children; `later`: within a pass, so nobody is queued now."""
        entry.end = self.site.now
        killed = self.kill and self.jobs[entry.row].run_time > entry.requested
        entry.fate = "badly" if entry.row in self.house.failed or killed else "well"
        for row, (parent, think) in sorted(self.house.parents.items()):
            child = self.entries.get(row)
            if parent != entry.row or child is None or "parent" not in child.why:
                continue
            if entry.fate == "badly" and self.house.stuck:
                child.why = child.why - {"parent"} | {"failure"}
                continue
            self.inherit(child, entry)
            if think == 0 and not later:
                self.lift(child, {"parent"})
            else:
                self.timers.append((entry.end + think, "free", row))

    def lift(self, entry, which):
        """Take away reasons to be held."""
        if not entry.why & which:
            return
        entry.why -= which
        if not entry.why:
            entry.since += self.site.now - entry.held_at
            self.site.queue.append(entry)

    def fire(self, time, action, row, procs=None, requested=None):
        """Carry out a command, or release a child."""
        site, entry = self.site, self.entries.get(row)
        if action == "free":
            self.lift(entry, {"parent"})
            return
        if entry is None or entry.start >= 0:
            self.ignored += 1
        elif action == "release":
            self.lift(entry, {"user", "failure"})
        elif action == "hold":
            if not entry.why:
                entry.base, entry.squares, entry.held_at = entry.score, 0, site.now
                site.queue.remove(entry)
            entry.why |= {"user"}
        else:
            self.alter(entry, procs or entry.procs, requested or entry.requested)

    def alter(self, entry, procs, requested):
        """Change a job's width or request."""
        entry.base, entry.squares = entry.score, 0
        queue = self.house.queue_of(procs, requested)
        if queue != entry.queue:
            entry.base, entry.since, entry.held_at = self.house.starts.get(entry.row, 0.0), self.site.now, self.site.now
            entry.queue = queue
        entry.growth = growth(procs, requested, self.procs, self.house.weights.get(entry.row, 1.0))
        change = requested if entry.first == entry.requested else min(entry.first, requested)
        entry.ordering = entry.candidate = entry.first = entry.running = change
        entry.procs, entry.requested = procs, requested
        if self.kill:
            entry.run_time = min(self.jobs[entry.row].run_time, requested)
        self.site.promises.pop(entry.row, None)
        self.lift(entry, {"failure"})
