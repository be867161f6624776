"""The state of the oracle at an instant: what the scheduler knows and may do (see `easy.py`)."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappush
from math import ceil, floor, isinf, log10

import numpy as np

from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.core.hash_random import mixed
from tests.oracle import passes as oracle_passes
from tests.oracle.entry import Entry, corrected
from tests.oracle.limits import NO_CAPS, Caps, hold
from tests.oracle.look_ahead import best_order
from tests.oracle.machine import NEVER, Counts, Machine, Nodes, Plan, Span
from tests.oracle.orders import MOVING, ORDERS, TICK
from tests.oracle.slurm import loops_on_nodes


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
    greedy: bool = False
    knapsack: str | None = None  # the reward
    window: int = 50
    family: str | None = None
    seed: int = 0  # of the random order
    ceiling: Fraction = Fraction(1)
    passed_over: bool = False
    postpones: bool = False
    low: Fraction = Fraction(60, 100)
    lead: int = 10800
    backfill: bool = True  # postponed jobs, too
    looks: str = "after"
    gate: object = None  # (how often it held the job) -> seconds until it is asked again, or None: it may start
    agent: int | None = None  # the seed of random picks
    reserve: str = "kept"
    loops: tuple | None = None  # tested, interval, resolution, window
    quota: int | None = None  # jobs of a user that a run of Slurm's backfill loop tests
    limits: Caps = NO_CAPS  # of Slurm's loops
    # of Slurm's loops: what a test takes [us]; jobs that the main loop tests, and all at multiples of; at least between
    pace: tuple = (0, 0, 60, 0)
    main_quota: int | None = None  # jobs of a user that a run of the main loop tests
    preempts: object = None  # who may stop whom, see `preemption.py`
    look_ahead: tuple | None = None  # the orders tried at each pass, and the aim

    def run_pass(self, site) -> None:
        """Start whom this rule starts now."""
        if self.loops:
            on_nodes = type(site.machine) is Nodes
            return loops_on_nodes(site) if on_nodes else oracle_passes.loops(site)
        if self.knapsack:
            return oracle_passes.knapsack(site)
        if self.greedy:
            return oracle_passes.greedy(site)
        if self.keeps:
            return oracle_passes.kept(site)
        if self.depth in (0, 1) and self.family != "planned":
            return oracle_passes.easy(site)
        return oracle_passes.planned(site)


@dataclass
class Site:
    """The machine and its queue at second `now`; what a pass may ask and do."""

    rule: Rule
    machine: Machine
    correction: str = "requested"
    kill: bool = True
    first_submit: int = 0
    run_times: object = None  # a model: limit, factor(job_id)
    revised: object = None  # a source of estimates, see `schedsim.workload.estimates.RevisedEstimates`
    news: list[tuple[int, int, int]] = field(default_factory=list)  # that it has not heard yet
    now: int = 0
    something_ended: bool = False
    queue: list[Entry] = field(default_factory=list)
    running: list[Entry] = field(default_factory=list)
    in_use: int = 0  # processors of the running jobs
    ends: list[tuple[int, int, int, Entry]] = field(default_factory=list)  # a heap by (end, start, job id)
    timers: list[tuple] = field(default_factory=list)  # (second, what to do, with what)
    ended_of: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    booked: dict[Entry, Span] = field(default_factory=dict)
    first_booked: dict[int, int] = field(default_factory=dict)
    promises: dict[int, int] = field(default_factory=dict)
    started_by: dict[int, str] = field(default_factory=dict)
    held: set[Entry] = field(default_factory=set)  # whoever was given a reservation
    due_dates: dict[Entry, int] = field(default_factory=dict)
    head: Entry | None = None  # whoever was blocked in the last pass
    put_off: list[Entry] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # that failures stopped
    dropped: set[int] = field(default_factory=set)
    wakes: set[int] = field(default_factory=set)  # seconds at which nodes fail, are repaired, or less is reserved
    picks: int = 0
    preempted: list[tuple[int, int, int, int]] = field(default_factory=list)  # runs that were stopped, and for whom
    cancelled: set[int] = field(default_factory=set)  # those that were stopped and are gone
    retry_at: list[int] = field(default_factory=list)  # when the exempt times end that matter in this pass
    changed: bool = False  # since the last cycle of Slurm's backfill loop
    timer: int = -1  # for which second the next one is set
    next_at: int = 0  # when it may begin, if cycles take time
    jobs_end: bool = False  # in this second
    main_at: int = -(10**9)  # the last main loop
    main_timer: int = -1
    all_at: int = 10**12  # from when on it tests all jobs
    is_cut: bool = False  # it has not tested all jobs
    leaves: bool = False  # it has left jobs that no limit holds
    to_come: bool = False  # jobs that are still to be submitted
    past: list[tuple[Entry, int, int]] = field(default_factory=list)  # runs that are over
    # of one pass
    as_candidates: dict[Entry, int] = field(default_factory=dict)  # planned ends of jobs started past a head
    plans: list[tuple[int, int, int]] = field(default_factory=list)  # (start, latest end, processors) of waiting jobs
    refused: set[Entry] = field(default_factory=set)  # by the gate

    # an instant

    def set_out(self, jobs, house) -> None:
        """Begin before the first second: what is down by then, and what wakes the scheduler."""
        calendar = self.machine.calendar
        for second, kind, nodes in sorted(calendar.changes, key=lambda change: (change[0], change[1] == "fail")):
            if second <= self.first_submit:
                self.change(kind, nodes)
        changes = {second for second, *_ in calendar.changes}
        self.wakes = {s for s in self.machine.openings(-NEVER) | changes if s > self.first_submit}

    def next_second(self, arriving) -> int | None:
        """Return the next instant."""
        seconds = [*arriving, *(end[0] for end in self.ends[:1]), *(timer[0] for timer in self.timers)]
        seconds += [self.due(entry) for entry in self.put_off]
        seconds += self.wakes
        if seconds and self.rule.order == "score" and self.queue:
            seconds.append((self.now // TICK + 1) * TICK)
        return min(seconds, default=None)

    def instant(self, ending: Iterable[Entry], arriving: Iterable[Entry]) -> None:
        """One scheduling instant; estimates are asked for as `arriving` is walked, after the ends."""
        ending, waited = list(ending), bool(self.queue or self.put_off)
        self.something_ended, self.jobs_end = False, bool(ending)
        for entry in ending:
            self.ended(entry)
            self.something_ended = self.changed = True
        asks = self.something_ended and waited
        self.change_machine()
        self.fire_timers()
        newcomers = list(arriving)
        if self.revised is not None:
            self.news += [(self.now, SUBMITTED, entry.row) for entry in newcomers]
            if newcomers or asks:
                waiting = [entry for entry in self.waiting() if not self.was_stopped(entry)]
                self.revise({entry.row: entry for entry in (*waiting, *newcomers)})
        for entry in newcomers:
            self.submitted(entry)
            self.changed = True
        self.tick()
        self.take_steps()
        self.correct_expired()
        if self.rule.postpones and (self.rule.looks != "after" or not self.queue):
            self.join_if_idle()
        self.one_pass()

    def revise(self, waiting: dict[int, Entry]) -> None:
        """Take in what the revised estimates say of newcomers and, where they have changed their mind, of others.

        They are asked after the ends and submissions of an instant, if anything was submitted, or ended while jobs
        waited. Corrections know the estimate at the start as the first one.
        """
        answers = np.full((len(waiting) + 1, 4 + 2 * self.revised.n_steps), np.nan)
        count = self.revised.advance(np.array(self.news, dtype=np.int64).reshape(-1, 3), answers)
        self.news = []
        for row, *roles in answers[:count].tolist():
            entry = waiting[int(row)]

            def cut(seconds, most=entry.requested):
                return max(1, min(floor(seconds), most))

            entry.first = entry.running = cut(roles[0])
            entry.candidate, entry.ordering = cut(roles[1]), cut(roles[2])
            pairs = zip(roles[3::2], roles[4::2], strict=True)
            entry.steps = [(elapsed, cut(seconds)) for elapsed, seconds in pairs if not isinf(elapsed)]
        for entry in self.queue:
            entry.key = self.key(self.rule.order, entry)
        self.queue.sort(key=lambda entry: entry.key)

    def take_steps(self) -> None:
        """Take a step of a running estimate at the first instant that is not before it."""
        for entry in self.running:
            while entry.ladder and entry.start + entry.ladder[0][0] <= self.now:
                entry.running, entry.overdue = entry.ladder.pop(0)[1], False
                self.changed = True

    def change_machine(self) -> None:
        """Let nodes be repaired, or fail; what is reserved changes by itself."""
        if self.now not in self.wakes:
            return
        self.wakes.remove(self.now)
        self.something_ended = self.changed = True
        changes = self.machine.calendar.changes
        for second, kind, nodes in sorted(changes, key=lambda change: (change[0], change[1] == "fail")):
            if second == self.now:
                self.change(kind, nodes)

    def change(self, kind, nodes) -> None:
        """Let nodes be repaired, or fail."""
        if kind == "repair":
            self.machine.repair(nodes)
            return
        for entry in self.machine.fail(nodes, self.running):
            self.interrupt(entry)

    def waiting(self) -> list[Entry]:
        """Return all jobs that wait, also those that may not start."""
        return [*self.queue, *self.put_off]

    def was_stopped(self, entry: Entry) -> bool:
        """Whether a failure has stopped a job, or another job has: revised estimates know it as running."""
        return any(row == entry.row for row, *_ in [*self.runs, *self.preempted])

    def interrupt(self, entry: Entry) -> None:
        """Stop a running job: it waits again, by its old key, its estimate and promise as at first; or it is gone."""
        self.runs.append((entry.row, entry.start, self.now))
        self.past.append((entry, entry.start, self.now))
        self.running.remove(entry)
        self.in_use -= entry.procs
        self.ends = [end for end in self.ends if end[-1] is not entry]
        heapify(self.ends)
        if not self.machine.calendar.requeue:
            self.dropped.add(entry.row)
            self.news.append((self.now, ENDED, entry.row))
            entry.end = self.now
            return
        entry.base, entry.squares = entry.score, 0  # it gains on from here
        entry.since += self.now - entry.start
        entry.start, entry.running, entry.overdue, entry.place = -1, entry.first, False, None
        self.held.discard(entry)
        self.promises.pop(entry.row, None)
        self.enqueue(entry)

    def fire_timers(self) -> None:
        """Do what is due."""
        due = sorted((timer for timer in self.timers if timer[0] <= self.now), key=lambda timer: timer[0])
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, action, *to in due:
            if action is not None:
                action(*to)
        self.join([entry for entry in self.put_off if self.due(entry) <= self.now])

    def tick(self) -> None:
        """Let the waiting jobs gain score, if this is a tick; postponed ones, too: their submissions are kept."""
        for entry in [*self.queue, *self.put_off] if self.now % TICK == 0 and self.rule.order == "score" else []:
            if entry.ticked < self.now:  # all in the queue, those released or submitted just now included
                entry.squares += (self.now - entry.since) ** 2
                entry.ticked = self.now

    def submitted(self, entry: Entry) -> None:
        """Postpone a job with a deadline, or put it into the queue."""
        if self.rule.postpones and entry.job.deadline >= 0 and self.due(entry) > self.now:
            self.put_off.append(entry)
        else:
            self.enqueue(entry)

    def enqueue(self, entry: Entry) -> None:
        """Put a job into the queue."""
        entry.key = self.key(self.rule.order, entry)
        insort(self.queue, entry, key=lambda e: e.key)

    def ended(self, entry: Entry) -> None:
        """Give the place back and learn the run time."""
        self.running.remove(entry)
        self.in_use -= entry.procs
        entry.end = self.now
        self.past.append((entry, entry.start, self.now))
        self.news.append((self.now, ENDED, entry.row))
        if entry.user >= 0:
            self.ended_of[entry.user].append(entry)

    def start(self, entry: Entry, place: dict, past: Entry | None = None) -> None:
        """Start a waiting job, `past` a blocked one or in its turn; a zero-length one ends at once."""
        if entry in self.put_off:
            self.join([entry])
        self.queue.remove(entry)
        entry.start, entry.place = self.now, place
        entry.ladder = list(entry.steps)
        if not self.was_stopped(entry):
            self.news.append((self.now, STARTED, entry.row))
        self.started_by[entry.row] = "backfilled" if past else "reserved" if entry in self.held else "ready"
        self.running.append(entry)
        self.in_use += entry.procs
        if past:
            self.as_candidates[entry] = self.now + entry.candidate
        lasts = self.lasts(entry)
        if lasts == 0:
            self.ended(entry)
        else:
            heappush(self.ends, (self.now + lasts, self.now, entry.job_id, entry))

    def lasts(self, entry: Entry) -> int:
        """Return how long a job that has just started runs [s]."""
        model = self.run_times
        dilates = model is not None and self.in_use > model.limit * self.machine.procs
        entry.length = ceil(entry.job.run_time * model.factor(entry.job_id) - 1e-9) if dilates else entry.job.run_time
        return min(entry.length, entry.requested) if self.kill else entry.length

    def correct_expired(self) -> None:
        """Replace the estimates that running jobs have outlived."""
        for entry in self.running:
            elapsed = self.now - entry.start
            if entry.planned_end <= self.now:
                entry.running = corrected(entry, elapsed, self.correction, self.kill)
                entry.overdue = self.changed = True
            elif self.correction == "slurm" and entry.overdue and elapsed < entry.requested:
                estimate = elapsed + max(1, (entry.requested - elapsed) // 2)
                self.changed |= estimate != entry.running
                entry.running = estimate

    def one_pass(self) -> None:
        """Bring the queue in order and start whom the rule starts; again, if postponed jobs join after it."""
        self.as_candidates, self.plans, self.refused = {}, [], set()
        if "priority" in (self.rule.order, self.rule.backfill_order):
            self.set_due_dates()
        if self.rule.look_ahead:
            self.rule = replace(self.rule, order=best_order(self))
        if self.rule.order in MOVING or self.rule.look_ahead or self.rule.kept:
            self.in_order()
        self.run_pass()
        if self.rule.postpones and self.rule.looks != "before" and self.join_if_idle():
            self.one_pass()

    def in_order(self) -> None:
        """Bring the queue in order; a head that keeps its place comes first."""
        for entry in self.queue:
            entry.key = self.key(self.rule.order, entry)
        self.queue.sort(key=lambda e: (not (self.rule.kept and e is self.head), e.key))

    def run_pass(self) -> None:
        """Start whom the rule starts now; the queue is in order."""
        self.rule.run_pass(self)

    # orders

    def key(self, order: str, entry: Entry) -> tuple:
        """Rank of a waiting job: smaller first, ties by (submit, job id)."""
        if order == "score":
            return -entry.score, entry.submit, entry.job_id
        if order == "priority":
            return *self.rank(entry), entry.submit, entry.job_id
        if order == "random":
            return mixed(self.rule.seed, entry.job_id, 0), entry.submit, entry.job_id
        age = max(1, entry.submit - self.first_submit)
        wait = self.now - entry.submit
        value = ORDERS[order](entry.procs, entry.ordering, entry.requested, wait, entry.submit, age)
        return value, entry.submit, entry.job_id

    def rank(self, entry: Entry) -> tuple:
        """Rank by priority: overdue jobs, the others."""
        head_start, by_estimate, by_procs, grace, _ = self.rule.priority
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
                self.due_dates[entry] = self.now + int(grace + share * work / self.machine.procs)
            work += entry.ordering * entry.procs

    def candidates(self, behind: Entry | None) -> list[Entry]:
        """Return the jobs behind the blocked head, in the backfill order; then the postponed ones in the same."""
        order = self.rule.backfill_order or self.rule.order
        rest = [e for e in self.queue if e is not behind and e not in self.refused]
        if order != self.rule.order:
            rest = sorted(rest, key=lambda e: self.key(order, e))
        return rest + self.candidates_put_off()

    def candidates_put_off(self) -> list[Entry]:
        """Return the postponed jobs that may be backfilled, in the backfill order."""
        order = self.rule.backfill_order or self.rule.order
        return sorted(self.put_off if self.rule.backfill else [], key=lambda e: self.key(order, e))

    # postponed jobs

    def due(self, entry: Entry) -> int:
        """Return when a postponed job joins the queue at the latest."""
        return entry.job.deadline - entry.requested - self.rule.lead

    def join(self, entries: Iterable[Entry]) -> None:
        """Let postponed jobs join the queue."""
        for entry in list(entries):
            self.put_off.remove(entry)
            self.enqueue(entry)

    def join_if_idle(self) -> bool:
        """Let all join if the queue is empty or the machine idle; return whether any did."""
        in_use = self.in_use + self.machine.closed(self.now)
        moves = self.put_off and (not self.queue or in_use < self.rule.low * self.machine.procs)
        if moves:
            self.join(self.put_off)
        return bool(moves)

    # verbs: what is held, who fits, what is reserved

    def planned_end(self, entry: Entry) -> int:
        """Return when a running job ends by the estimates valid now; one started past a head by its candidate one."""
        return self.as_candidates.get(entry, entry.planned_end)

    def latest_end(self, entry: Entry) -> int:
        """Return the end by the requested time; for a job let run beyond it, by the estimate."""
        end = entry.start + entry.requested
        return end if end > self.now else entry.planned_end

    def spans(self) -> list[Span]:
        """Return the running jobs on their places, by the estimates."""
        return [Span(e.start, self.planned_end(e), e, e.place) for e in self.running]

    def spans_by_request(self) -> list[Span]:
        """The same, by requested times."""
        return [Span(e.start, self.latest_end(e), e, e.place) for e in self.running]

    def is_exempt(self, entry: Entry) -> bool:
        """Whether a job needs the ceiling's share by itself."""
        return entry.procs >= self.rule.ceiling * self.machine.procs

    def below_ceiling(self, spans: Iterable[Span], entry: Entry, begin: int, end: int) -> bool:
        """Whether what is in use stays below the ceiling at this start, and at those planned until its end.

        So it must where more becomes reserved before its end, as on a machine that is as large as the ceiling allows.
        """
        if self.rule.ceiling == 1:
            return True
        most = self.rule.ceiling * self.machine.procs
        turns = (second for second in self.machine.calendar.seconds() if begin < second < end)
        starts = [] if self.is_exempt(entry) else [begin, *turns]
        starts += [x.begin for x in spans if begin < x.begin < end and not self.is_exempt(x.entry)]
        closed = self.machine.closed
        return all(
            entry.procs + closed(s) + sum(x.entry.procs for x in spans if x.begin <= s < x.end) <= most for s in starts
        )

    def all_below_ceiling(self, entries: Iterable[Entry]) -> bool:
        """Whether starting some jobs now, one after the other, lifts what is in use above the ceiling with none."""
        used = self.in_use + self.machine.closed(self.now)
        for entry in entries:
            used += entry.procs
            if used > self.rule.ceiling * self.machine.procs and not self.is_exempt(entry):
                return False
        return True

    def clears(self, entry: Entry, begin: int) -> bool:
        """Whether a start at `begin` leaves alone what is reserved of the machine later."""
        if not self.machine.calendar.reserved:
            return True
        return self.machine.clears(entry, begin, self.now, self.spans_by_request(), self.plans)

    def fits(self, entry: Entry) -> dict | None:
        """Return the place on which a job may start now, or None."""
        place = self.place_now(entry)
        if place is None or self.rule.ceiling == 1:
            return place
        return place if self.below_ceiling(self.spans(), entry, self.now, self.now + 1) else None

    def place_now(self, entry: Entry) -> dict | None:
        """The same, whatever the ceiling says."""
        machine = self.machine
        if entry.procs > machine.procs - self.in_use:
            return None
        if isinstance(machine, Counts):  # all that is held is known
            used = self.in_use + machine.closed(self.now)
            place = {0: entry.procs} if entry.procs + used <= machine.procs else None
        else:
            place = machine.place_at(entry, self.spans(), self.now)
        return place if place is not None and self.clears(entry, self.now) else None

    def plan(self, spans: list[Span] | None = None) -> Plan:
        """Return a plan in which jobs lie so; else the running ones, by the estimates."""
        return Plan(self.machine, self.spans() if spans is None else spans, self.now)

    def earliest(self, entry: Entry, length: int, plan: Plan) -> Span | None:
        """Return the first place that a job has for so long next to what is planned; None: never, with what is up."""
        if not self.machine.could_hold(entry):
            return None
        for begin in sorted({second for second, _ in plan.steps} | self.machine.turns(self.now)):
            place = self.machine.place_during(entry, begin, begin + length, plan.steps)
            if place is None or not self.below_ceiling(plan.spans, entry, begin, begin + length):
                continue
            if self.clears(entry, begin):
                return Span(begin, begin + length, entry, place)
        return None

    def reservation(self, head: Entry) -> Span | None:
        """Return what the head reserves: its shadow time, by the estimates."""
        return self.earliest(head, head.candidate, self.plan())

    def spares(self, head: Entry, reserved: Span | None, entry: Entry, place: dict) -> bool:
        """Whether a start now ends by the head's shadow time, or leaves the head a place then."""
        if reserved is None or self.now + entry.candidate <= reserved.begin:
            return True
        if head.procs + entry.procs > self.machine.procs:
            return False
        spans = [x for x in self.spans() if x.end > reserved.begin]
        return self.has_place_beside(head, spans, entry, place, reserved.begin)

    def has_place_beside(self, head, spans, entry, place, second) -> bool:
        """Whether the head has a place at a second next to spans and a job that starts now."""
        spans = [*spans, Span(self.now, NEVER, entry, place)]
        return self.machine.place_at(head, spans, second) is not None and self.below_ceiling(
            spans, head, second, second + 1
        )

    def promise_to(self, head: Entry) -> None:
        """Freeze the promise of a job that heads the queue blocked: its shadow time by requested times, and slack."""
        if self.rule.promise and head.row not in self.promises:
            reserved = self.earliest(head, head.requested, self.plan(self.spans_by_request()))
            if reserved is not None:
                self.promises[head.row] = reserved.begin + self.slack_of(head)

    def slack_of(self, head: Entry) -> int:
        """Return by how much the promise that is given now lies behind the shadow time by requested times."""
        slack = self.rule.slack + int(self.rule.growth * (self.now - head.submit))
        return max(self.rule.least, min(self.rule.most, slack))

    def keeps_promise(self, head: Entry, entry: Entry, place: dict) -> bool:
        """Return whether a start now leaves the head its promise, by requested times."""
        promise = self.promises.get(head.row) if self.rule.promise else None
        if promise is None or self.now + entry.requested <= promise:
            return True
        when = max(promise, self.now)
        spans = [x for x in self.spans_by_request() if x.end > when] + [Span(self.now, NEVER, entry, place)]
        return self.machine.place_beside(head, spans, when) is not None and self.below_ceiling(
            spans, head, when, when + 1
        )

    def book_head(self, head: Entry, reserved: Span | None) -> None:
        """Let the head count where more becomes reserved within its request, from its shadow time or promise on."""
        spans = [reserved.begin if reserved else None, self.promises.get(head.row) if self.rule.promise else None]
        seconds = {
            s
            for begin in spans
            if begin is not None
            for s in self.machine.turns(self.now)
            if begin < s < begin + head.requested
        }
        self.plans += [(s - 1, s + 1, head.procs) for s in seconds]

    def is_held(self, entry: Entry) -> bool:
        """Ask the gate about a job that would start now; one that is held is as if it were not there in this pass."""
        if self.rule.gate is None:
            return False
        again = self.rule.gate(entry.holds)
        if again is None:
            return False
        entry.holds += 1
        self.refused.add(entry)
        self.timers.append((self.now + again, None))
        return True

    # node sets of a site's queues; see `cobalt.py`

    def allows(self, entry: Entry) -> bool:
        """Return whether the entry's node set lets it start, and under Slurm's loops its limits."""
        return not (self.rule.loops and self.rule.limits.caps and hold(self, entry))

    def use(self, entry: Entry) -> None:
        """Take from what is left next to the reservation of the entry's set."""
