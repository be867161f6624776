"""The starts of jobs under the policies `careful` and `balanced` and their estimates, slowly.

From the definitions in docs/backfilling.md.

It shares no code with `schedsim` or `predictors`: nothing is kept between instants but what happened, and all that is
believed is computed anew from it whenever it is asked. FCFS queue order, EASY, backfills by the order estimate; or
the order of priorities with due dates, for the queue and for backfills.
"""

from dataclasses import dataclass, field
from itertools import groupby
from math import exp, floor, log, log10

UP = 1 + 1e-12


@dataclass(frozen=True)
class Rule:
    """The free numbers of the two."""

    runs: int = 10
    request_weight: float = 0.1
    candidate: str = "mean"
    factor: float = 1.0
    quantile: float = 0.5
    slack: int | None = 0  # None: no promise
    priority: tuple | None = None  # head start, weight of the estimate, of the processors, grace, share
    growth: float = 0.0
    least: int = 0
    most: int = 10**12
    kept: bool = False


@dataclass
class World:
    """What has happened up to second `now`; jobs are tuples (job_id, submit, procs, requested, run_time, user)."""

    jobs: list
    procs: int
    rule: Rule
    now: int = 0
    waiting: list = field(default_factory=list)
    started: dict = field(default_factory=dict)
    ended: list = field(default_factory=list)  # in the order of the ends
    frozen: dict = field(default_factory=dict)  # job -> its sample when it started
    promises: dict = field(default_factory=dict)
    due: dict = field(default_factory=dict)
    head: int | None = None  # whoever was blocked in the last pass

    def sample(self, job):
        """Return [(seconds, weight)], ascending, of a waiting job."""
        _, _, _, requested, _, user = self.jobs[job]
        own = [self.jobs[other] for other in self.ended if user >= 0 and self.jobs[other][5] == user]
        same = [ran for _, _, _, asked, ran, _ in own if asked == requested][-self.rule.runs :]
        scaled = [max(1, ran * requested // asked) for _, _, _, asked, ran, _ in own][-self.rule.runs :]
        values = sorted(min(max(1, ran), requested) for ran in same or scaled)
        weight = self.rule.request_weight if values else 1.0
        return [(ran, 1.0) for ran in values] + [(requested, weight)]

    def low(self, sample):
        """Weighted geometric mean [s]."""
        return exp(sum(w * log(v) for v, w in sample) / sum(w for _, w in sample))

    def order(self, job):
        """Return the estimate that backfills are ordered by."""
        return within(self.low(self.sample(job)), self.jobs[job][3])

    def candidate(self, job):
        """Return the estimate by which a backfill is tried."""
        sample = self.sample(job)
        mean = sum(w * v for v, w in sample) / sum(w for _, w in sample)
        chosen = mean if self.rule.candidate == "mean" else self.low(sample)
        return within(self.rule.factor * chosen, self.jobs[job][3])

    def end_of(self, job):
        """Return the second at which a running job is expected to end, given that it still runs."""
        elapsed = self.now - self.started[job]
        left = [(v, w) for v, w in self.frozen[job] if v > elapsed]
        need, reached = self.rule.quantile * sum(w for _, w in left), 0.0
        for v, w in left:
            reached += w
            if reached >= need - 1e-9:
                return self.started[job] + v
        return self.started[job] + self.jobs[job][3]

    def latest_end_of(self, job):
        """Return the second at which a running job is killed."""
        return self.started[job] + self.jobs[job][3]

    @property
    def running(self):
        """Jobs started and not ended."""
        return [job for job in self.started if job not in self.ended]

    @property
    def free(self):
        """Processors free now."""
        return self.procs - sum(self.jobs[job][2] for job in self.running)

    def start(self, job):
        """Start a waiting job, freezing its sample."""
        assert self.jobs[job][2] <= self.free
        self.frozen[job] = self.sample(job)
        self.started[job] = self.now
        self.waiting.remove(job)

    def rank(self):
        """Bring the queue into the order of priorities: a head that is kept, overdue jobs, the others."""
        head_start, by_estimate, by_procs, grace, share = self.rule.priority
        work = sum((self.end_of(job) - self.now) * self.jobs[job][2] for job in self.running)
        for job in sorted(self.waiting, key=lambda job: (job not in self.due, job)):
            if job not in self.due and grace is not None:
                self.due[job] = self.now + int(grace + share * work / self.procs)
            work += self.order(job) * self.jobs[job][2]

        def place(job):
            _, submit, procs, *_ = self.jobs[job]
            if self.rule.kept and job == self.head:
                return 0, 0, job
            if grace is not None and self.now > self.due[job]:
                return 1, 0, job
            length = by_estimate * log10(self.order(job))
            return 2, -(log10(self.now - submit + head_start) - length + by_procs * log10(procs)), job

        self.waiting.sort(key=place)

    def slack_of(self, head):
        """Return by how much a promise that is given now lies behind the shadow time by requested times."""
        waited = self.now - self.jobs[head][1]
        return max(self.rule.least, min(self.rule.most, self.rule.slack + int(self.rule.growth * waited)))

    def schedule(self):
        """One pass: the queue's front, then backfills that delay the head neither as believed nor as promised."""
        if self.rule.priority is not None:
            self.rank()
        while self.waiting and self.jobs[self.waiting[0]][2] <= self.free:
            self.start(self.waiting[0])
        self.head = self.waiting[0] if self.waiting else None
        if not self.waiting:
            return
        head, *others = self.waiting
        need, limit = self.jobs[head][2], None
        shadow, extra = release(self.free, need, [(self.end_of(job), self.jobs[job][2]) for job in self.running])
        if self.rule.slack is not None:
            if head not in self.promises:
                by_request = [(self.latest_end_of(job), self.jobs[job][2]) for job in self.running]
                self.promises[head] = release(self.free, need, by_request)[0] + self.slack_of(head)
            limit = self.promises[head]
        if self.rule.priority is None:
            others = sorted(others, key=lambda job: (self.order(job), job))
        for job in others:
            width, requested = self.jobs[job][2], self.jobs[job][3]
            in_time = self.now + self.candidate(job) <= shadow
            if width > self.free or not (in_time or width <= extra):
                continue
            if limit is not None and self.now + requested > limit:
                beyond = sum(self.jobs[other][2] for other in self.running if self.latest_end_of(other) > limit)
                if need + width > self.procs - beyond:
                    continue
            extra -= 0 if in_time else width
            self.start(job)


def within(seconds, requested):
    """Whole seconds from 1 to the requested time."""
    return max(1, min(floor(seconds * UP), requested))


def release(free, need, ends):
    """Return when `need` processors are free, and how many more then."""
    for end, together in groupby(sorted(ends), key=lambda pair: pair[0]):
        free += sum(procs for _, procs in together)
        if free >= need:
            return end, free - need
    raise ValueError(f"{need} processors are never free")


def simulate(jobs, procs, rule):
    """Return the `World` at the end; `jobs` sorted by (submit, job id), run times from 1 to the requested time.

    >>> simulate([(1, 0, 6, 10, 10, 0), (2, 1, 8, 10, 10, 0), (3, 2, 2, 8, 8, 0)], 8, Rule()).started
    {0: 0, 2: 2, 1: 10}
    """
    world = World(jobs, procs, rule)
    arriving = list(range(len(jobs)))
    while arriving or world.running:
        ends = {job: world.started[job] + jobs[job][4] for job in world.running}
        world.now = min([*ends.values(), *(jobs[job][1] for job in arriving[:1])])
        over = [job for job, end in ends.items() if end == world.now]
        world.ended += sorted(over, key=lambda job: (world.started[job], jobs[job][0]))
        while arriving and jobs[arriving[0]][1] == world.now:
            world.waiting.append(arriving.pop(0))
        world.schedule()
    return world
