"""What must hold of any schedule? Laws, each a function of one finished run, checked by looking at every instant.

A law asserts; `LAWS` lists those that ask for nothing but the run, with the runs they hold for. They see a schedule,
never a simulator's state, so they judge the oracle, the engine and the broken twins alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.oracle.easy import Job, Outcome, Rule
from tests.oracle.orders import ORDERS, TICK
from tests.oracle.passes import reservation


@dataclass(frozen=True)
class Run:
    """A finished simulation: what was asked, and the schedule."""

    jobs: Sequence[Job]
    procs: int
    rule: Rule
    estimates: str | Sequence[int]
    outcome: Outcome
    kill: bool = True

    @property
    def never_too_short(self) -> bool:
        """Estimates that hold: no correction can change a plan."""
        return self.kill and self.estimates in ("requested", "clairvoyant")

    @property
    def first_come_first_served(self) -> bool:
        """The head stays the head until it starts."""
        return self.rule.order == "fcfs" and not self.rule.greedy and not self.rule.keeps

    @property
    def scored(self) -> bool:
        """The queue is in the order of scores, or of priorities with due dates, which a schedule does not tell."""
        return self.rule.order in ("score", "priority")

    @property
    def backfills(self) -> bool:
        """EASY or deeper, replanned."""
        return not self.rule.greedy and not self.rule.keeps and self.rule.depth != 0

    def end(self, row: int) -> int:
        """Second at which a job ends."""
        return self.outcome.start[row] + ran(self, row)


@dataclass(frozen=True)
class Instant:
    """One second after its pass. Rows: `running` from before, `started` now and `waiting` on, in queue order."""

    now: int
    running: list[int]
    started: list[int]
    waiting: list[int]

    def in_order(self, queue: list[int]) -> list[int]:
        """Return the jobs that started from the front of the queue; the others that started were backfilled."""
        front = next((i for i, row in enumerate(queue) if row in self.waiting), len(queue))
        return queue[:front]


def ran(run: Run, row: int) -> int:
    """Seconds that a job runs."""
    job = run.jobs[row]
    return min(job.run_time, job.requested) if run.kill else job.run_time


def planned_end(run: Run, row: int) -> int:
    """End of a started job by an estimate that is never too short."""
    return run.outcome.start[row] + run.outcome.estimate[row]


def width(run: Run, rows: Sequence[int]) -> int:
    """Processors of some jobs together."""
    return sum(run.jobs[row].procs for row in rows)


def instants(run: Run) -> Iterator[tuple[Instant, list[int]]]:
    """Every second with an end or a submission, with the queue before its pass, in order."""
    jobs, start, rows = run.jobs, run.outcome.start, range(len(run.jobs))
    first = min(job.submit for job in jobs)
    for now in sorted({job.submit for job in jobs} | {run.end(row) for row in rows}):

        def key(row, now=now):
            job = jobs[row]
            age, wait = max(1, job.submit - first), now - job.submit
            value = ORDERS.get(run.rule.order, ORDERS["fcfs"])(
                job.procs, run.outcome.estimate[row], job.requested, wait, job.submit, age
            )  # fmt: skip
            return value, job.submit, job.job_id

        queue = sorted((row for row in rows if jobs[row].submit <= now <= start[row]), key=key)
        running = [row for row in rows if start[row] < now < run.end(row)]
        started = [row for row in queue if start[row] == now]
        yield Instant(now, running, started, [row for row in queue if start[row] > now]), queue


def every_job_starts_once(run: Run) -> None:
    """One start a job, and how it came about is told."""
    assert len(run.outcome.start) == len(run.outcome.started_by) == len(run.jobs)
    assert all(start >= 0 for start in run.outcome.start)


def none_starts_before_its_submission(run: Run) -> None:
    """A job cannot start before it is there."""
    for job, start in zip(run.jobs, run.outcome.start, strict=True):
        assert start >= job.submit, f"job {job.job_id} starts at {start} s, submitted at {job.submit} s"


def never_more_than_the_machine(run: Run) -> None:
    """Between two instants no more processors are in use than there are."""
    for now in run.outcome.start:
        in_use = [row for row, start in enumerate(run.outcome.start) if start <= now < run.end(row)]
        assert width(run, in_use) <= run.procs, f"{width(run, in_use)} of {run.procs} processors in use at {now} s"


def starts_only_at_instants(run: Run) -> None:
    """Something ends or is submitted in the second of every start; scores tick next to that."""
    seconds = {job.submit for job in run.jobs} | {run.end(row) for row in range(len(run.jobs))}
    assert all(start in seconds or (run.scored and start % TICK == 0) for start in run.outcome.start)


def estimates_lie_within_the_request(run: Run) -> None:
    """From 1 s to the request, and a correction only raises them."""
    for job, first, last in zip(run.jobs, run.outcome.estimate, run.outcome.last_estimate, strict=True):
        assert 1 <= first <= job.requested and first <= last
        assert last <= job.requested or not run.kill


def estimates_that_hold_need_no_correction(run: Run) -> None:
    """A job cannot outlive its run time, or its request where it is killed there."""
    if run.never_too_short:
        assert list(run.outcome.estimate) == list(run.outcome.last_estimate)


def outlived_estimates_are_corrected(run: Run) -> None:
    """At the last instant before its end, a running job was expected to end later."""
    seconds = sorted({job.submit for job in run.jobs} | {run.end(row) for row in range(len(run.jobs))})
    for row, start in enumerate(run.outcome.start):
        seen = max((t for t in seconds if start <= t < run.end(row)), default=start)
        if ran(run, row) > 0:
            assert start + run.outcome.last_estimate[row] > seen, f"job {run.jobs[row].job_id} at {seen} s"


def plain_orders_start_in_order(run: Run) -> None:
    """Depth 0: nobody starts past a waiting job that comes first; under FCFS starts follow submissions."""
    if run.rule.greedy or run.rule.depth != 0:
        return
    for instant, queue in instants(run):
        assert instant.started == instant.in_order(queue), f"out of order at {instant.now} s"
    if run.rule.order == "fcfs":
        by_submission = sorted(range(len(run.jobs)), key=lambda row: (run.jobs[row].submit, run.jobs[row].job_id))
        starts = [run.outcome.start[row] for row in by_submission]
        assert starts == sorted(starts)


def no_head_waits_that_could_start(run: Run) -> None:
    """Work is conserved: the first job left waiting did not fit in its turn (kept reservations may differ)."""
    if run.rule.greedy or run.rule.keeps:
        return
    for instant, queue in instants(run):
        if instant.waiting:
            alive = [row for row in instant.in_order(queue) if ran(run, row) > 0]
            free = run.procs - width(run, instant.running) - width(run, alive)
            head = run.jobs[instant.waiting[0]]
            assert head.procs > free, f"job {head.job_id} waits at {instant.now} s with {free} processors free"


def greedy_rules_leave_nothing_that_fits(run: Run) -> None:
    """Bin packing, random and the knapsack go on until no job (of the window) fits."""
    if not run.rule.greedy:
        return
    for instant, queue in instants(run):
        seen = queue[: run.rule.window] if run.rule.greedy == "knapsack" else queue
        busy = instant.running + [row for row in instant.started if ran(run, row) > 0]
        free = run.procs - width(run, busy)
        for row in instant.waiting:
            assert row not in seen or run.jobs[row].procs > free, f"job {run.jobs[row].job_id} fits at {instant.now} s"


def blocked_heads(run: Run) -> Iterator[tuple[int, int, list[int], list[int], int]]:
    """(now, head, jobs started in order and running, backfilled, free processors before the backfills)."""
    for instant, queue in instants(run):
        if instant.waiting:
            busy = instant.running + [row for row in instant.in_order(queue) if ran(run, row) > 0]
            behind = [row for row in instant.started if row not in instant.in_order(queue)]
            yield instant.now, instant.waiting[0], busy, behind, run.procs - width(run, busy)


def shadow_of(run: Run, head: int, free: int, busy: Sequence[int]) -> int:
    """Shadow time of a job by the estimates as first given."""
    return reservation(free, run.jobs[head].procs, [(planned_end(run, row), run.jobs[row].procs) for row in busy])[0]


def no_head_starts_after_its_first_shadow_time(run: Run) -> None:
    """First come, first served with estimates that hold: the head's shadow time can only come nearer."""
    if not (run.never_too_short and run.backfills and run.first_come_first_served):
        return
    first: dict[int, int] = {}
    for _, head, busy, _, free in blocked_heads(run):
        first.setdefault(head, shadow_of(run, head, free, busy))
    for head, shadow in first.items():
        start = run.outcome.start[head]
        assert start <= shadow, f"job {run.jobs[head].job_id} starts at {start} s, first shadow {shadow} s"


def no_backfill_delays_the_head(run: Run) -> None:
    """The head's shadow time is the same with the jobs backfilled in this pass and without them."""
    if not (run.never_too_short and run.backfills):
        return
    for now, head, busy, behind, free in blocked_heads(run):
        alive = [row for row in behind if ran(run, row) > 0]
        before, after = shadow_of(run, head, free, busy), shadow_of(run, head, free - width(run, alive), busy + alive)
        assert after == before, f"job {run.jobs[head].job_id} is delayed at {now} s from {before} to {after} s"


def easy_leaves_no_harmless_backfill(run: Run) -> None:
    """EASY: whoever is left waiting and fits would delay the head (or break its promise)."""
    if not (run.never_too_short and run.backfills and run.rule.depth == 1 and not run.rule.promise):
        return
    for instant, _ in instants(run):
        busy = instant.running + [row for row in instant.started if ran(run, row) > 0]
        free = run.procs - width(run, busy)
        fitting = [row for row in instant.waiting[1:] if run.jobs[row].procs <= free]
        for row in fitting:
            job, head = run.jobs[row], run.jobs[instant.waiting[0]]
            ends = [(planned_end(run, other), run.jobs[other].procs) for other in busy]
            with_job = [*ends, (instant.now + run.outcome.estimate[row], job.procs)]
            shadow, _ = reservation(free, head.procs, ends)
            later, _ = reservation(free - job.procs, head.procs, with_job)
            assert later > shadow, f"job {job.job_id} could start at {instant.now} s next to job {head.job_id}"


def promises_are_kept(run: Run) -> None:
    """First come, first served with promise: by requested times the head starts in time, whatever was predicted."""
    if not (run.rule.promise and run.first_come_first_served and run.kill):
        return
    promised: dict[int, int] = {}
    for _, head, busy, _, free in blocked_heads(run):
        ends = [(run.outcome.start[row] + run.jobs[row].requested, run.jobs[row].procs) for row in busy]
        promised.setdefault(head, reservation(free, run.jobs[head].procs, ends)[0] + run.rule.slack)
    for head, promise in promised.items():
        start = run.outcome.start[head]
        assert start <= promise, f"job {run.jobs[head].job_id} starts at {start} s, promised {promise} s"


OF_ANY_QUEUE = [
    every_job_starts_once,
    none_starts_before_its_submission,
    never_more_than_the_machine,
    starts_only_at_instants,
    estimates_lie_within_the_request,
    estimates_that_hold_need_no_correction,
    outlived_estimates_are_corrected,
]
LAWS = [
    *OF_ANY_QUEUE,
    plain_orders_start_in_order,
    no_head_waits_that_could_start,
    greedy_rules_leave_nothing_that_fits,
    no_head_starts_after_its_first_shadow_time,
    no_backfill_delays_the_head,
    easy_leaves_no_harmless_backfill,
    promises_are_kept,
]


def check(run: Run) -> None:
    """Assert every law that can be judged of a run."""
    for law in OF_ANY_QUEUE if run.scored else LAWS:
        law(run)
