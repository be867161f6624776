"""Who starts where processors are reserved from a date on, or fail? Such passes, told readably.

A job must clear every date ahead at which more of the machine becomes reserved: by its requested time it must be over,
or fit then beside the running jobs by their requested times, and beside those that hold reservations.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from schedsim.finding import Finding, Site
from schedsim.instant import NEVER, Queued
from schedsim.plan import Plan
from schedsim.policy import Kind

NOBODY: Final = -1
"""Stands for the machine's reservations where rows of jobs are expected."""


class _Dated:
    """The machine during a pass: a plan by the estimates, and the room left at the dates ahead."""

    def __init__(self, site: Site) -> None:
        self.site, self.now = site, site.instant.now
        self.room: dict[int, int] = {}
        free = site.free
        for date, more in site.instant.dates:
            free -= more
            if more > 0:
                self.room[date] = free + sum(procs for end, procs in site.limits if end <= date)

    def conflict(self, job: Queued, start: int) -> int | None:
        """Return the first date that a job does not clear if it starts at a second."""
        within = (date for date in self.room if start < date < start + job.requested)
        return next((date for date in within if self.room[date] < job.procs), None)

    def hold(self, job: Queued, start: int, sign: int = 1) -> None:
        """Let a job count at the dates within its request."""
        for date in self.room:
            if start < date < start + job.requested:
                self.room[date] -= sign * job.procs

    def begin(self, job: Queued, length: int, finding: Finding) -> None:
        """Start a job."""
        self.site.start(job, length, finding)
        if not job.instantaneous:
            self.hold(job, self.now)

    def stopped(self, job: Queued, finding: Finding) -> bool:
        """Note and return whether too few processors are free, or the job would run into what is reserved."""
        date = self.conflict(job, self.now)
        if job.procs > self.site.free:
            self.site.found[job.row] = replace(finding, rule="processors")
        elif date is not None:
            self.site.found[job.row] = replace(finding, rule="outage", collides=date)
        return job.row in self.site.found

    def plan(self, releases: list[tuple[int, int]]) -> Plan:
        """Return the free processors by ends of running jobs and what is reserved of the machine."""
        plan = Plan(self.now, self.site.free, releases)
        plan.booked += [(date, NEVER, more, NOBODY) for date, more in self.site.instant.dates]
        return plan

    def earliest(self, plan: Plan, job: Queued, length: int) -> int:
        """Return the first second at which a job fits and clears the dates, or NEVER."""
        times = {self.now, *(end for end, _ in plan.releases), *(t for entry in plan.booked for t in entry[:2])}
        for second in sorted(time for time in times if self.now <= time < NEVER):
            if plan.collision(second, length, job.procs) is None and self.conflict(job, second) is None:
                return second
        return NEVER

    def in_order(self) -> Queued | None:
        """Start jobs from the front of the queue; return the first that is blocked."""
        for job in self.site.left:
            if self.site.outside(job):
                continue
            if job.procs > self.site.free or self.conflict(job, self.now) is not None:
                return job
            if not self.site.held(job):
                self.begin(job, job.running, Finding("starts", self.site.free))
        return None

    def promised(self, head: Queued) -> tuple[int, int]:
        """Return the head's promise and the processors free beside it then, by requested times."""
        plan, promise = self.plan(list(self.site.limits)), head.promise
        if not self.site.policy.promise:
            return NEVER, 0
        if promise == NEVER:
            first = self.earliest(plan, head, head.requested)
            promise = NEVER if first == NEVER else first + self.site.instant.slack
        return promise, NEVER if promise == NEVER else plan.free_at(max(promise, self.now)) - head.procs

    def reserve(self, head: Queued, promise: int) -> tuple[Plan, Finding]:
        """Plan the head; it counts at the dates within its request from its shadow time, and from its promise, on."""
        plan = self.plan(list(self.site.releases))
        shadow, extra = self.earliest(plan, head, head.candidate), NEVER
        if shadow != NEVER:
            plan.book(head, shadow, head.candidate)
            extra = plan.free_at(shadow)
        for date in self.room:
            if any(begin != NEVER and begin < date < begin + head.requested for begin in (shadow, promise)):
                self.room[date] -= head.procs
        finding = Finding("head", self.site.free, head.row, shadow, extra, collides=self.conflict_before(head))
        self.site.found[head.row] = finding
        return plan, finding

    def conflict_before(self, head: Queued) -> int | None:
        """Return the date that keeps a head that would fit."""
        return self.conflict(head, self.now) if head.procs <= self.site.free else None


def _counts(site: Site) -> None:
    """FCFS and EASY."""
    dated = _Dated(site)
    head = dated.in_order()
    if head is None:
        return
    if not site.policy.depth:
        _, finding = dated.reserve(head, NEVER)
        for job in site.left:
            site.found[job.row] = Finding("turn", site.free, head.row, finding.shadow)
        return
    promise, beside = dated.promised(head)
    _, first = dated.reserve(head, promise)
    shadow, extra = first.shadow or 0, first.extra or 0
    for job in [job for job in site.instant.candidates if job.row not in site.found]:
        in_time, kept = site.instant.now + job.candidate <= shadow, site.instant.now + job.requested <= promise
        finding = Finding("starts", site.free, head.row, shadow, extra)
        if job.procs > site.free:
            site.found[job.row] = replace(finding, rule="processors")
        elif not in_time and job.procs > extra:
            site.found[job.row] = replace(finding, rule="shadow")
        elif not kept and job.procs > beside:
            site.found[job.row] = replace(finding, rule="promise", shadow=promise, extra=beside)
        elif not dated.stopped(job, finding) and not site.outside(job) and not site.held(job):
            dated.begin(job, job.candidate, finding)
            used = 0 if job.instantaneous else job.procs
            extra -= 0 if in_time else used
            beside -= 0 if kept else used


def _profile(site: Site) -> None:
    """Hybrid and conservative, all reservations anew."""
    dated = _Dated(site)
    head = dated.in_order()
    if head is None:
        return
    promise, beside = dated.promised(head)
    plan, first = dated.reserve(head, promise)
    depth, now, reserved = site.policy.depth, site.instant.now, 1
    for job in [job for job in site.instant.candidates if job.row not in site.found]:
        finding, kept = replace(first, rule="starts", collides=None), now + job.requested <= promise
        date = dated.conflict(job, now)
        if plan.collision(now, job.candidate, job.procs) is not None or date is not None:
            start = None
            if depth is None or reserved < depth:
                start = dated.earliest(plan, job, job.candidate)
                if start != NEVER:
                    plan.book(job, start, job.candidate)
                    dated.hold(job, start)
                reserved += 1
            found = _in_the_way(plan, job, finding, date)
            site.found[job.row] = replace(found, reserved=start)
        elif not kept and job.procs > beside:
            site.found[job.row] = replace(finding, rule="promise", shadow=promise, extra=beside)
        else:
            dated.begin(job, job.candidate, finding)
            if not job.instantaneous:
                plan.book(job, now, job.candidate)
                beside -= 0 if kept else job.procs


def _in_the_way(plan: Plan, job: Queued, finding: Finding, date: int | None) -> Finding:
    """Tell what a start now would run into."""
    others = [entry for entry in plan.booked if entry[3] != job.row]
    collides = replace(plan, booked=others).collision(plan.now, job.candidate, job.procs)
    if collides == plan.now:
        return replace(finding, rule="processors")
    if collides is None or (date is not None and date <= collides):
        return replace(finding, rule="outage", collides=date)
    rows = tuple(row for begin, end, _, row in others if begin <= collides < end and row != NOBODY)
    return replace(finding, rule="reservation", collides=collides, blockers=rows)


def _compress(site: Site) -> None:
    """Conservative, reservations kept."""
    dated, now, ended = _Dated(site), site.instant.now, site.instant.ended
    planned = {job.row: job.planned for job in site.instant.queue}
    while True:
        dated = _Dated(site)
        plan, queue = dated.plan(list(site.releases)), site.left

        def book(job: Queued, start: int, plan: Plan = plan, dated: _Dated = dated) -> None:
            planned[job.row] = start
            if start != NEVER:
                plan.book(job, start, job.candidate)
                dated.hold(job, start)

        impossible = []
        for job in queue:
            if planned[job.row] == NEVER:
                continue
            start = max(planned[job.row], now)
            if plan.collision(start, job.candidate, job.procs) is None and dated.conflict(job, start) is None:
                book(job, start)
            else:
                impossible.append(job)
        for job in impossible:
            book(job, dated.earliest(plan, job, job.candidate))
        for job in queue:
            if planned[job.row] == NEVER:
                book(job, dated.earliest(plan, job, job.candidate))
            elif ended and planned[job.row] > now:
                plan.booked = [entry for entry in plan.booked if entry[3] != job.row]
                dated.hold(job, planned[job.row], -1)
                book(job, dated.earliest(plan, job, job.candidate))
        due = [job for job in queue if planned[job.row] == now]
        for job in due:
            site.start(job, job.running, Finding("starts", site.free, reserved=now))
        ended = any(job.instantaneous for job in due)
        if not ended:
            break
    waiting = site.left
    for job in waiting:
        begin = None if planned[job.row] == NEVER else planned[job.row]
        finding = Finding("reservation", site.free, waiting[0].row, reserved=begin)
        if begin is not None:
            dated.hold(job, begin, -1)
        site.found[job.row] = _in_the_way(plan, job, finding, dated.conflict(job, now))
        if begin is not None:
            dated.hold(job, begin)


def _greedy(site: Site) -> None:
    """Whatever fits starts."""
    dated = _Dated(site)
    for job in site.left:
        stopped = dated.stopped(job, Finding("starts", site.free))
        if not stopped and not site.outside(job) and not site.held(job):
            dated.begin(job, job.running, Finding("starts", site.free))


DATED_PASSES: Final[Mapping[Kind, Callable[[Site], None]]] = MappingProxyType(
    {"counts": _counts, "profile": _profile, "compress": _compress, "greedy": _greedy}
)
"""The knapsack's choice is taken from the engine, not recomputed."""
