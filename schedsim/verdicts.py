"""Who starts at this instant, and what keeps each of the others? One scheduling pass, told readably.

This is not how the engine computes: every pass is walked job by job, as its definition reads, and each job gets a
`Finding`. A test holds it to the engine at every instant of random workloads.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from schedsim.finding import Finding, Findings, Rule, Site
from schedsim.instant import NEVER, Instant, Queued
from schedsim.plan import Plan, fits_at
from schedsim.policy import Kind, Policy
from schedsim.verdicts_ceil import promised, under_ceiling
from schedsim.verdicts_dated import DATED_PASSES
from schedsim.verdicts_placed import by_places, greedy_by_places


def findings(instant: Instant, policy: Policy) -> Findings:
    """Return what becomes of each waiting job, by row.

    Examples
    --------
    >>> from schedsim.engine import Simulation
    >>> from schedsim.instant import Stepper
    >>> from schedsim.policy import make_policy
    >>> from schedsim.workload import Workload
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 1, 2], procs=[6, 8, 2], requested=[10, 10, 9],
    ...                           run_time=[10, 10, 9], machine_procs=8)
    >>> stepper = Stepper(Simulation(w, make_policy("easy")))
    >>> stepper.skip(1)
    >>> for row, finding in findings(stepper.look(), make_policy("easy")).items():
    ...     print(row, finding.rule, finding.free, finding.head, finding.shadow, finding.extra)
    1 head 2 1 10 0
    2 shadow 2 1 10 0
    """
    running = instant.running
    site = Site(
        instant, policy, instant.free, [(job.end, job.procs) for job in running], [(j.limit, j.procs) for j in running]
    )
    if policy.agent is not None:
        _as_chosen(site)
    elif policy.is_ceil:
        under_ceiling(site)
    elif instant.dated and policy.kind in DATED_PASSES:
        DATED_PASSES[policy.kind](site)
    elif instant.ground is not None:
        (greedy_by_places if policy.kind == "greedy" else by_places)(site, instant.ground)
    else:
        PASSES[policy.kind](site)
    for row, why in instant.held.items():
        site.found[row] = Finding("held", site.free, reason=why)
    return site.found


def _in_order(site: Site) -> Queued | None:
    """Start jobs from the front of the queue; return the first that is blocked, those held by a gate left aside."""
    for job in site.left:
        if site.outside(job):
            continue
        if job.procs > site.free:
            return job
        if not site.held(job):
            site.start(job, job.running, Finding("starts", site.free))
    return None


def _counts(site: Site) -> None:
    """FCFS and EASY: the head, then those that end by its shadow time or need no more than the extra processors."""
    head = _in_order(site)
    if head is None:
        return
    now, keeps = site.instant.now, site.policy.promise
    shadow, extra = fits_at(site.releases, site.free, head.procs)
    promise, beside = promised(site, head, site.free) if keeps else (NEVER, 0)
    site.found[head.row] = Finding("head", site.free, head.row, shadow, extra)
    if not site.policy.depth:
        for job in site.left:
            site.found[job.row] = Finding("turn", site.free, head.row, shadow)
        return
    for job in [job for job in site.instant.candidates if job.row not in site.found]:
        in_time, kept = now + job.candidate <= shadow, now + job.requested <= promise
        finding = Finding("starts", site.free, head.row, shadow, extra)
        if job.procs > site.free:
            site.found[job.row] = replace(finding, rule="processors")
        elif not in_time and job.procs > extra:
            site.found[job.row] = replace(finding, rule="shadow")
        elif not kept and job.procs > beside:
            site.found[job.row] = replace(finding, rule="promise", shadow=promise, extra=beside)
        elif not site.held(job):
            site.start(job, job.candidate, finding)
            used = 0 if job.instantaneous else job.procs
            extra -= 0 if in_time else used
            beside -= 0 if kept else used


def _in_the_way(plan: Plan, job: Queued, finding: Finding) -> Finding:
    """Tell which reservations a start now would delay."""
    collides = plan.collision(plan.now, job.candidate, job.procs)
    if collides is None or collides == plan.now:
        return replace(finding, rule="processors")
    blockers = tuple(row for begin, end, _, row in plan.booked if begin <= collides < end and row != job.row)
    return replace(finding, rule="reservation", collides=collides, blockers=blockers)


def _profile(site: Site) -> None:
    """Hybrid and conservative, all reservations anew: who fits beside those made before starts, others reserve."""
    head = _in_order(site)
    if head is None:
        return
    depth, now = site.policy.depth, site.instant.now
    shadow, extra = fits_at(site.releases, site.free, head.procs)
    promise, beside = promised(site, head, site.free) if site.policy.promise else (NEVER, 0)
    plan = Plan(now, site.free, list(site.releases))
    plan.book(head, plan.earliest(head.procs, head.candidate), head.candidate)
    site.found[head.row] = Finding("head", site.free, head.row, shadow, extra)
    reserved = 1
    for job in [job for job in site.instant.candidates if job.row not in site.found]:
        kept, finding = now + job.requested <= promise, Finding("starts", site.free, head.row, shadow, extra)
        if plan.collision(now, job.candidate, job.procs) is not None:
            finding = _in_the_way(plan, job, finding)
            if depth is None or reserved < depth:
                start = plan.earliest(job.procs, job.candidate)
                plan.book(job, start, job.candidate)
                reserved += 1
                finding = replace(finding, reserved=start)
            site.found[job.row] = finding
        elif not kept and job.procs > beside:
            site.found[job.row] = replace(finding, rule="promise", shadow=promise, extra=beside)
        else:
            site.start(job, job.candidate, finding)
            if not job.instantaneous:
                plan.book(job, now, job.candidate)
                beside -= 0 if kept else job.procs


def _compress(site: Site) -> None:
    """Conservative, reservations kept: those possible stay, after ends all are brought forward, who is due starts."""
    instant, now = site.instant, site.instant.now
    planned = {job.row: job.planned for job in instant.queue}
    ended = instant.ended
    while True:
        plan, queue = Plan(now, site.free, list(site.releases)), site.left
        _keep(plan, queue, planned)
        for job in queue:
            if planned[job.row] == NEVER or (ended and planned[job.row] > now):
                plan.booked = [entry for entry in plan.booked if entry[3] != job.row]
                _book_earliest(plan, job, planned)
        due = [job for job in queue if planned[job.row] == now]
        for job in due:
            site.start(job, job.running, Finding("starts", site.free, reserved=now))
        ended = any(job.instantaneous for job in due)
        if not ended:
            break
    waiting = site.left
    for job in waiting:
        finding = Finding("reservation", site.free, waiting[0].row, reserved=planned[job.row])
        site.found[job.row] = _in_the_way(plan, job, finding)


def _keep(plan: Plan, queue: list[Queued], planned: dict[int, int]) -> None:
    """Book the reservations that are still possible where they were, then the others at the earliest hole."""
    impossible = []
    for job in queue:
        if planned[job.row] == NEVER:
            continue
        planned[job.row] = max(planned[job.row], plan.now)
        if plan.collision(planned[job.row], job.candidate, job.procs) is None:
            plan.book(job, planned[job.row], job.candidate)
        else:
            impossible.append(job)
    for job in impossible:
        _book_earliest(plan, job, planned)


def _book_earliest(plan: Plan, job: Queued, planned: dict[int, int]) -> None:
    planned[job.row] = plan.earliest(job.procs, job.candidate)
    plan.book(job, planned[job.row], job.candidate)


def _greedy(site: Site) -> None:
    """Whatever fits starts."""
    for job in site.left:
        if job.procs > site.free:
            site.found[job.row] = Finding("processors", site.free)
        elif not site.held(job):
            site.start(job, job.running, Finding("starts", site.free))


def _as_chosen(site: Site) -> None:
    """An agent or the knapsack chose: taken from the engine, not recomputed."""
    for place, job in enumerate(site.instant.queue):
        if job.row in site.instant.started:
            rule: Rule = "starts"
        elif job.procs > site.instant.free:
            rule = "processors"
        else:
            rule = "window" if place >= site.policy.window else "not chosen"
        site.found[job.row] = Finding(rule, site.instant.free)


PASSES: Final[Mapping[Kind, Callable[[Site], None]]] = MappingProxyType(
    {"counts": _counts, "profile": _profile, "compress": _compress, "greedy": _greedy, "knapsack": _as_chosen}
)
