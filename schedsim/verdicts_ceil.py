"""Who starts under a ceiling on utilisation, with jobs put off? Such passes, told readably."""

from dataclasses import dataclass, field, replace

from schedsim.finding import Finding, Site
from schedsim.instant import NEVER, Queued
from schedsim.plan import fits_at
from schedsim.postponing import most_in_use, share_of


def promised(site: Site, head: Queued, room: int) -> tuple[int, int]:
    """Return the head's promise and the processors beside it then, by requested times, of `room` that it has now."""
    promise = head.promise
    if promise == NEVER:
        promise = fits_at(site.limits, room, head.procs)[0] + site.instant.slack
    then = room + sum(procs for end, procs in site.limits if end <= promise)
    return promise, then - head.procs


@dataclass
class _Queues:
    """The queue, the jobs put off, and the machine during the passes of one instant."""

    site: Site
    queue: list[Queued]
    put_off: list[Queued]
    promises: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        policy, instant = self.site.policy, self.site.instant
        self.machine = instant.free + sum(job.procs for job in instant.running)
        self.reserve = self.machine - most_in_use(policy.ceiling, self.machine)
        self.exempt = share_of(policy.ceiling, self.machine)

    def room(self, job: Queued) -> int:
        """Return how many processors the job may use now."""
        return self.site.free - (0 if job.procs >= self.exempt else self.reserve)

    def promised(self, head: Queued) -> tuple[int, int]:
        """Return the head's promise, which a second pass does not change, and the processors beside it then."""
        head = replace(head, promise=self.promises.get(head.row, head.promise))
        self.promises[head.row], beside = promised(self.site, head, self.room(head))
        return self.promises[head.row], beside

    def join_if_idle(self) -> bool:
        """Let all jobs put off join the queue if it is empty or the machine idle; return whether any did."""
        off = self.site.policy.postpone
        if off is None or not self.put_off:
            return False
        idle = self.machine - self.site.free < share_of(off.low, self.machine)
        if self.queue and not idle:
            return False
        self.queue = sorted(self.queue + self.put_off, key=lambda job: (job.key, job.row))
        self.put_off = []
        return True

    def start(self, job: Queued, length: int, finding: Finding) -> None:
        """Start a job of either queue."""
        (self.queue if job in self.queue else self.put_off).remove(job)
        self.site.start(job, length, finding)


def under_ceiling(site: Site) -> None:
    """FCFS and EASY within the ceiling; jobs put off join before the pass, or after it, which then goes on."""
    off = site.policy.postpone
    queues = _Queues(site, list(site.instant.queue), list(site.instant.put_off))
    if off is not None and (off.before or not queues.queue):
        queues.join_if_idle()
    _one_pass(queues)
    while off is not None and off.after and queues.join_if_idle():
        for job in queues.queue:
            if job.row in site.found and site.found[job.row].rule != "gate":
                del site.found[job.row]
        _one_pass(queues)
    for job in queues.put_off:
        site.found.setdefault(job.row, Finding("put off", site.free, due=job.due))


def _one_pass(queues: _Queues) -> None:
    """Start who may start, and say of all others in the queue what keeps them."""
    site, now = queues.site, queues.site.instant.now
    head = _in_order(queues)
    if head is None:
        return
    room = queues.room(head)
    shadow, extra = fits_at(site.releases, room, head.procs)
    promise, beside = queues.promised(head) if site.policy.promise else (NEVER, 0)
    site.found[head.row] = Finding("head", site.free, head.row, shadow, extra, room=room)
    rest = [job for job in queues.queue if job.row not in site.found]
    if not site.policy.depth:
        for job in rest:
            site.found[job.row] = Finding("turn", site.free, head.row, shadow)
        return
    rest.sort(key=lambda job: (job.backfill_key, job.row))
    off = site.policy.postpone
    for job in rest + (queues.put_off if off is not None and off.backfill else []):
        in_time, kept = now + job.candidate <= shadow, now + job.requested <= promise
        finding = Finding("starts", site.free, head.row, shadow, extra)
        if job.procs > site.free:
            finding = replace(finding, rule="processors")
        elif job.procs > queues.room(job):
            finding = replace(finding, rule="ceiling")
        elif not in_time and job.procs > extra:
            finding = replace(finding, rule="shadow")
        elif not kept and job.procs > beside:
            finding = replace(finding, rule="promise", shadow=promise, extra=beside)
        elif site.held(job):
            continue
        else:
            queues.start(job, job.candidate, finding)
            used = 0 if job.instantaneous else job.procs
            extra -= 0 if in_time else used
            beside -= 0 if kept else used
            continue
        finding = replace(finding, room=queues.room(job))
        site.found[job.row] = replace(finding, rule="put off", due=job.due) if job in queues.put_off else finding


def _in_order(queues: _Queues) -> Queued | None:
    """Start jobs from the front of the queue; return the first that is blocked, those left aside not counted."""
    site = queues.site
    for job in list(queues.queue):
        if job.row in site.found:
            continue
        if site.outside(job):
            continue
        room = queues.room(job)
        if job.procs > room:
            if site.policy.refused == "passed over" and job.procs <= site.free:
                site.found[job.row] = Finding("ceiling", site.free, room=room)
                continue
            return job
        if not site.held(job):
            queues.start(job, job.running, Finding("starts", site.free))
    return None
