"""What became of a waiting job at one instant? A finding, and the machine during the pass that makes them."""

from dataclasses import dataclass, field
from typing import Literal

from schedsim.instant import Instant, Queued
from schedsim.plan import fits_at
from schedsim.policy import Policy

Rule = Literal[
    "starts", "head", "processors", "place", "turn", "shadow", "promise", "reservation", "gate", "not chosen", "window",
    "ceiling", "put off", "share", "held", "outage",
]  # fmt: skip
"""What became of a waiting job at an instant: it starts; or it heads the queue blocked; too few processors are free;
enough are, but not where it could have them; it may not pass the head; it would delay the head; it would break a
promise; it would delay reservations; a gate holds it; the policy chose others; the policy does not look at it yet; its
start would lift utilisation above the ceiling; it is put off; its queue may not use so much of the machine, or has
reserved it; it is held; by its requested time it would run into what is reserved of the machine."""


@dataclass(frozen=True)
class Finding:
    """What became of a waiting job at one instant; jobs as rows of the workload, times in seconds.

    Parameters
    ----------
    rule : str
        See `Rule`.
    free : int
        Processors free when its turn came.
    head : int, optional
        The job that headed the queue blocked.
    shadow : int, optional
        When by the estimates the head can start; for a promise, when it was promised to at the latest.
    extra : int, optional
        Processors that the head leaves free then; unknown where places count and not numbers.
    reserved : int, optional
        When the job's own reservation is.
    collides : int, optional
        When the reservations of others would leave it too few processors, had it started.
    blockers : tuple of int
        The jobs whose reservations those are.
    reason : str
        What the gate says.
    room : int, optional
        Under a ceiling on utilisation, processors that the job could use.
    due : int, optional
        When a job that is put off joins the queue at the latest.
    """

    rule: Rule
    free: int
    head: int | None = None
    shadow: int | None = None
    extra: int | None = None
    reserved: int | None = None
    collides: int | None = None
    blockers: tuple[int, ...] = ()
    reason: str = ""
    room: int | None = None
    due: int | None = None


Findings = dict[int, Finding]


@dataclass
class Site:
    """The machine during a pass."""

    instant: Instant
    policy: Policy
    free: int
    releases: list[tuple[int, int]]  # (planned end, processors) of running jobs
    limits: list[tuple[int, int]]  # (latest end, processors)
    found: Findings = field(default_factory=dict)

    def __post_init__(self) -> None:
        shares = self.instant.shares
        self._sets = {} if shares is None else shares.of
        self._left = {} if shares is None else dict(shares.left)
        self._ends = {} if shares is None else {cell: list(ends) for cell, ends in shares.ends.items()}
        self._reserved: dict[int, tuple[int, int]] = {}

    def outside(self, job: Queued) -> bool:
        """Note and return whether the share of its queue stops a job.

        The first job that needs more than its queue has left reserves there; others must end by then, or fit beside it.
        """
        cell = self._sets.get(job.row)
        if cell is None:
            return False
        if cell in self._reserved:
            shadow, extra = self._reserved[cell]
            in_time = self.instant.now + job.candidate <= shadow
            if job.procs <= self._left[cell] and (in_time or job.procs <= extra):
                return False
        elif job.procs <= self._left[cell]:
            return False
        else:
            self._reserved[cell] = fits_at(self._ends[cell], self._left[cell], job.procs)
        self.found[job.row] = Finding(
            "share", self.free, room=self._left[cell], shadow=self._reserved[cell][0], extra=self._reserved[cell][1]
        )
        return True

    @property
    def left(self) -> list[Queued]:
        """Return the jobs that the pass has not come to yet, in the queue's order."""
        return [job for job in self.instant.queue if job.row not in self.found]

    def held(self, job: Queued) -> bool:
        """Note and return whether its queue's share, or a gate, holds a job that could start."""
        if self.outside(job):
            return True
        verdict = self.instant.verdicts.get(job.row)
        if verdict is None or verdict.start:
            return False
        self.found[job.row] = Finding("gate", self.free, reason=verdict.reason)
        return True

    def start(self, job: Queued, length: int, finding: Finding) -> None:
        """Start a job that is planned to run for `length` seconds; an instantaneous one gives all back at once."""
        self.found[job.row] = finding
        if not job.instantaneous:
            self.free -= job.procs
            self.releases.append((self.instant.now + length, job.procs))
            self._use(job, length)
            self.limits.append((self.instant.now + job.requested, job.procs))

    def _use(self, job: Queued, length: int) -> None:
        """Count a job that starts in its queue's share."""
        cell = self._sets.get(job.row)
        if cell is None:
            return
        self._left[cell] -= job.procs
        self._ends[cell].append((self.instant.now + length, job.procs))
        if cell in self._reserved:
            shadow, extra = self._reserved[cell]
            late = self.instant.now + job.candidate > shadow
            self._reserved[cell] = shadow, extra - (job.procs if late else 0)
