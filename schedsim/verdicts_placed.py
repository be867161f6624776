"""Who starts where not numbers of free nodes decide, but which ones they are? Such passes, told readably."""

from dataclasses import replace

import numpy as np

from schedsim.finding import Finding, Site
from schedsim.instant import NEVER, Ground, Queued


class _Land:
    """The nodes during a pass, and when by the estimates those running give theirs back."""

    def __init__(self, site: Site, ground: Ground) -> None:
        self.site, self.nodes, self.planned = site, ground.nodes.fork(), dict(ground.planned)

    def has_place(self, job: Queued) -> bool:
        return self.nodes.place(job.row) is not None

    def start(self, job: Queued, finding: Finding) -> None:
        self.site.start(job, job.running, finding)
        self.nodes.start(job.row)
        if job.instantaneous:
            self.nodes.end(job.row)
        else:
            self.planned[job.row] = self.site.instant.now + job.running

    def has_place_at(self, head: Queued, when: int, without: Queued | None = None) -> bool:
        """Return whether the head has a place once all have ended that should have by then."""
        ended = np.array([row for row, end in self.planned.items() if end <= when], dtype=np.int64)
        free = self.nodes.free_once_ended(ended)
        if without is not None:
            free[self.nodes.place(without.row)] = False
        return self.nodes.place(head.row, free, when) is not None

    def shadow(self, head: Queued) -> int:
        """Return the first planned end, or end of a reservation of the machine, at which the head has a place."""
        failing, now = self.nodes.failing, self.site.instant.now
        ends = set(self.planned.values())
        if failing is not None and failing.site is not None:
            ends |= {end for end in failing.site.ends.tolist() if end > now}
        return next((end for end in sorted(ends) if self.has_place_at(head, end)), NEVER)


def by_places(site: Site, ground: Ground) -> None:
    """FCFS and EASY: the head is promised the first planned end at which it has a place."""
    land, now = _Land(site, ground), site.instant.now
    head = _in_order(site, land)
    if head is None:
        return
    shadow = land.shadow(head)
    site.found[head.row] = Finding("head", site.free, head.row, shadow)
    if not site.policy.depth:
        for job in site.left:
            site.found[job.row] = Finding("turn", site.free, head.row, shadow)
        return
    for job in [job for job in site.instant.candidates if job.row not in site.found]:
        finding = Finding("starts", site.free, head.row, shadow)
        if job.procs > site.free:
            site.found[job.row] = replace(finding, rule="processors")
        elif site.outside(job):
            continue
        elif not land.has_place(job):
            site.found[job.row] = replace(finding, rule="place")
        elif now + job.candidate > shadow and not land.has_place_at(head, shadow, without=job):
            site.found[job.row] = replace(finding, rule="shadow")
        elif not site.held(job):
            land.start(job, finding)


def greedy_by_places(site: Site, ground: Ground) -> None:
    """Whatever has a place starts."""
    land = _Land(site, ground)
    for job in site.left:
        if job.procs > site.free:
            site.found[job.row] = Finding("processors", site.free)
        elif site.outside(job):
            continue
        elif not land.has_place(job):
            site.found[job.row] = Finding("place", site.free)
        elif not site.held(job):
            land.start(job, Finding("starts", site.free))


def _in_order(site: Site, land: _Land) -> Queued | None:
    """Start jobs from the front of the queue; return the first that has no place, those held by a gate left aside."""
    for job in site.left:
        if site.outside(job):
            continue
        if job.procs > site.free or not land.has_place(job):
            return job
        if not site.held(job):
            land.start(job, Finding("starts", site.free))
    return None
