"""The decision on a job's soft limit: set it, clear it, or leave it, and why.

A soft limit is what a scheduler plans a job by; the job is still ended at its hard limit alone. Slurm calls it TimeMin
(with `SchedulerParameters=time_min_as_soft_limit`), PBS `soft_walltime`. Here it is an upper quantile of the run time,
rounded up to minutes and padded, as a site does since 2021 [1]_. P90 of all jobs is too short for more than a tenth of
those that have a soft limit, since these are chosen for a low one: `Outlived` raises it by what became of such jobs.

This module needs the standard library only, so that a hook of a scheduler can use a copy of the file.

.. [1] D. Klusáček, V. Chlumský. Real-life experience with soft walltimes. Job Scheduling Strategies for Parallel
   Processing, 2022. doi:10.1007/978-3-031-22698-4_10
.. [2] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei, T. Schuster. Conformal risk control. ICLR 2024.
   doi:10.48550/arXiv.2208.02814
"""

from __future__ import annotations  # for the older Python of a scheduler's hooks

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

MINUTE = 60
LOOKS_EVERY = 60
"""Seconds from one look at the queue to the next, where no other is said."""
PENDING = "PENDING"
RECURRING = {"HOURLY": 3600, "DAILY": 86_400, "WEEKDAY": 86_400, "WEEKEND": 86_400, "WEEKLY": 604_800}
"""Seconds until a reservation with this flag begins again, at least."""
SET = "set"
CLEAR = "clear"
LEAVE = "leave"


@dataclass(frozen=True)
class QueuedJob:
    """A job as a scheduler shows it; times are Unix time, None where there is none."""

    job_id: int  # its own id; of an array's tasks that wait, that of the array
    state: str = PENDING
    # limit, soft: hard and soft limit [s]; None: unlimited or unknown, and no soft limit
    limit: int | None = None
    soft: int | None = None
    array_id: int = 0  # the id of the array; that of the job where it belongs to none
    task: str = ""  # which task of the array, or which tasks wait, such as `1-20%3`; empty where it belongs to none
    is_het: bool = False  # whether it is a part of a heterogeneous job
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    submit: int | None = None
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    # procs, nodes: processors and nodes asked for
    procs: int = 1
    nodes: int = 1
    deadline: int | None = None  # when the user wants it to have ended
    reservation: str = ""  # the reservation that it asks for; empty: none
    restarts: int = 0
    # mark, comment: the administrator's comment, and the user's
    mark: str = ""
    comment: str = ""
    name: str = ""

    @property
    def target(self) -> int:
        """The id that a change of the job names: tasks of an array that wait are changed together."""
        return self.array_id if self.task else self.job_id

    @property
    def key(self) -> str:
        """What identifies the job among those of its cluster: its id; of an array's task, the array's and the task."""
        return f"{self.array_id}_{self.task}" if self.task else str(self.job_id)

    @property
    def marked(self) -> frozenset[int]:
        """The soft limits that a comment marks as ours [min].

        >>> QueuedJob(1, mark="jobcast:soft=25m").marked, QueuedJob(1, comment="soft=25m").marked
        (frozenset({25}), frozenset())
        """
        found = (re.match(r"jobcast[: ]soft=(\d{1,7})m\b", text) for text in (self.mark, self.comment))
        return frozenset(int(one[1]) for one in found if one)


@dataclass(frozen=True)
class Reservation:
    """Nodes that are kept free for others from a moment on."""

    name: str
    # start, end: its hours, in Unix time
    start: int
    end: int
    nodes: frozenset[str] | None = None  # names; None where unknown: then it may be any
    flags: frozenset[str] = frozenset()  # such as DAILY

    def next_start(self, now: int) -> int | None:
        """Return when it begins next; None if it has begun and does not recur.

        >>> Reservation("maintenance", 100, 200).next_start(150) is None
        True
        >>> Reservation("lecture", 100, 200, flags=frozenset({"DAILY"})).next_start(150)
        86500
        """
        if now <= self.start:
            return self.start
        steps = [RECURRING[flag] for flag in self.flags if flag in RECURRING]
        if steps:
            return self.start + min(steps) * math.ceil((now - self.start) / min(steps))
        return self.start if "TIME_FLOAT" in self.flags else None


@dataclass(frozen=True)
class Bound:
    """An upper quantile of a job's run time, and who gave it."""

    seconds: float | None  # the quantile [s]; None where there is none
    model: str = ""
    version: int | None = None
    why: str = ""  # why there is none, or what it is
    is_capped: bool = False  # whether it lay above the job's limit, which stands in its place


@dataclass(frozen=True)
class SiteRules:
    """The rules of a site; see docs/how-to/slurm.md for what each is good for."""

    pad_minutes: int = 15  # added to the quantile: launch and end of a job take time, too
    # factor, long_factor: what the quantile is multiplied by; of jobs with a limit above `long_hours`, by the second
    factor: float = 1.0
    long_hours: float = 24.0
    long_factor: float = 2.0
    least_minutes: int = 5  # no soft limit is shorter
    least_gain_minutes: int = 5  # no soft limit is set that is not shorter than the hard one by so much
    lower_share: float = 0.1  # a soft limit that stands is lowered only by more than this share; it is raised at once
    most_outlived: float = 0.1  # share of the jobs with a soft limit that may outlive it; 1: the quantile alone counts
    # a job whose limit ends so shortly before a reservation, or later, gets none. An adapter that dies clears nothing,
    # so it should be longer than it takes to notice that.
    reservation_margin_minutes: int = 1440
    # users, partitions: only these; None: all
    users: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    # without_users, without_partitions: not these
    without_users: tuple[str, ...] = ()
    without_partitions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        least = {"pad_minutes": 1, "least_minutes": 1, "least_gain_minutes": 1, "reservation_margin_minutes": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name} must be at least {bound}; got {getattr(self, name)}.")
        for name in ("factor", "long_factor"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be from 1: a soft limit is no shorter; got {getattr(self, name)}.")
        if not 0 <= self.lower_share < 1:
            raise ValueError(f"lower_share must be from 0 to below 1; got {self.lower_share}.")
        if not 0 < self.most_outlived <= 1:
            raise ValueError(f"most_outlived must be above 0 and at most 1; got {self.most_outlived}.")
        if not 0 < self.long_hours < math.inf:
            raise ValueError(f"long_hours must be above 0; got {self.long_hours}.")


@dataclass(frozen=True)
class SiteState:
    """What the decision on all jobs depends on."""

    now: int  # the scheduler's clock, in Unix time
    reservations: Sequence[Reservation] = ()
    # nodes by partition; one that is missing may have any
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def nodes_of(self, partitions: str) -> frozenset[str] | None:
        """Return the nodes of partitions, separated by commas; None if they are not known."""
        names = [name for name in partitions.split(",") if name]
        if not names or any(name not in self.partitions for name in names):
            return None
        return frozenset().union(*(self.partitions[name] for name in names))


@dataclass(frozen=True)
class Decision:
    """What is to be done about a job: `set` its soft limit, `clear` it, or `leave` it; a word and a sentence why."""

    action: str
    code: str
    why: str
    minutes: int | None = None


def decide(
    job: QueuedJob, bound: Bound, site: SiteState, rules: SiteRules, ours: frozenset[int] = frozenset()
) -> Decision:
    """Return what is to be done about a job's soft limit. It uses nothing else, and changes nothing.

    `ours` are the soft limits that we set for this job [min]; any other is the user's own, and never touched.

    >>> decide(QueuedJob(1, limit=4 * 3600), Bound(600.0), SiteState(now=0), SiteRules()).minutes
    25
    >>> decide(QueuedJob(1, limit=4 * 3600, is_het=True), Bound(600.0), SiteState(now=0), SiteRules()).code
    'het'
    >>> maintenance = Reservation("maintenance", start=7200, end=9000)
    >>> decide(QueuedJob(1, limit=4 * 3600), Bound(600.0), SiteState(0, [maintenance]), SiteRules()).code
    'reservation-ahead'
    """
    if job.state != PENDING:
        return Decision(LEAVE, "not-pending", f"it is {job.state or 'in an unknown state'}, not pending")
    if job.soft and (job.soft % MINUTE or job.soft // MINUTE not in ours):
        return Decision(LEAVE, "user-soft-limit", "the soft limit that it has is the user's own")
    never = forbidden(job, site, rules)
    if never is not None:
        return Decision(CLEAR if job.soft else LEAVE, *never)
    if bound.seconds is None or not 0 < bound.seconds < math.inf:
        return Decision(LEAVE, "no-prediction", bound.why or "there is no prediction")
    assert job.limit is not None  # `forbidden` has seen to it
    minutes = soft_minutes(bound.seconds, job.limit, rules)
    if not gains(minutes, job.limit, rules):
        return Decision(CLEAR if job.soft else LEAVE, "no-gain", "it may need nearly all of its limit")
    now_set = job.soft // MINUTE if job.soft else None
    if now_set is not None and now_set * (1 - rules.lower_share) <= minutes <= now_set:
        return Decision(LEAVE, "unchanged", f"its soft limit of {now_set} min still holds", now_set)
    what = "" if now_set is None else f", after {now_set}"
    return Decision(SET, "predicted", f"soft limit of {minutes} min{what}, of {job.limit // MINUTE} asked", minutes)


def soft_minutes(seconds: float, limit: int, rules: SiteRules) -> int:
    """Return the soft limit [min], rounded up, by a quantile of the run time; at the hard one it gains nothing."""
    return max(math.ceil(seconds * _factor(limit, rules) / MINUTE) + rules.pad_minutes, rules.least_minutes)


def gains(minutes: int, limit: int, rules: SiteRules) -> bool:
    """Return whether a soft limit is shorter than the hard one [s] by as much as it must be."""
    return minutes <= limit // MINUTE - rules.least_gain_minutes


def _factor(limit: int, rules: SiteRules) -> float:
    return rules.long_factor if limit > rules.long_hours * 3600 else rules.factor


class Ended(NamedTuple):
    """A job that has ended: its soft limit by each of `COUNTS` [min], hard limit and run time [s]."""

    user: str
    minutes: tuple[int, ...]  # empty of a job that P90 alone gives none
    limit: int
    ran: int


COUNTS = (0, 1, 2, 3, 5, 8, 12, 20, 30, 50)
NEWEST = 1000
LEAST = 20
INTERRUPTED = frozenset(("REQUEUED", "PREEMPTED", "NODE_FAIL"))
"""States of runs that others ended: they tell no run time."""
_FORGOTTEN_AFTER = 86_400  # seconds without a sight in the queue; accounts have told the end by then


class Outlived:
    """Raises quantiles until few of the jobs that have a soft limit outlive it.

    A job's quantile is raised to the largest share that the user's last jobs took of their limits, times its own limit.
    Of how many jobs is the least of `COUNTS` that was good enough: of the `NEWEST` ended jobs that the quantile alone
    gave a soft limit, some would have one by that count, too; so many of these, and one more for safety, may have
    outlived it [2]_. Where no count is good enough, and of users without an ended job, the hard limit counts. Until
    `LEAST` such jobs have ended the quantile alone counts.

    >>> outlived, job = Outlived(SiteRules()), QueuedJob(1, limit=14_400, user="eve")
    >>> for _ in range(LEAST):  # all outlive what P90 says
    ...     outlived.asked(job, Bound(600.0))
    ...     outlived.ended(job, 7200)
    >>> outlived.raised(job, Bound(600.0)).seconds
    7200.0
    """

    def __init__(self, rules: SiteRules) -> None:
        self.rules = rules
        self._shares: dict[str, deque[float]] = {}
        self._largest: dict[str, list[float]] = {}  # by user and count
        self._asked: dict[str, tuple[int, ...]] = {}  # by key; for an array's tasks that wait together, by its id
        self._seen: dict[str, int] = {}  # when the queue has last shown them
        self._newest: deque[Ended] = deque()
        self._set, self._short = [0] * len(COUNTS), [0] * len(COUNTS)

    def raised(self, job: QueuedJob, bound: Bound) -> Bound:
        """Return the bound of a job's run time that its soft limit follows from."""
        if bound.seconds is None or not job.limit:
            return bound
        place, limit = self._place(), float(job.limit)
        seconds = limit if place is None else self._by_count(job.user, bound.seconds, job.limit)[place]
        return bound if seconds <= bound.seconds else replace(bound, seconds=seconds)

    def asked(self, job: QueuedJob, bound: Bound) -> None:
        """Note the quantile of a job that waits, as it is now."""
        key = job.key if job.task.isdigit() else str(job.target)
        self._asked.pop(key, None)
        if bound.seconds is None or not job.limit or not 0 < bound.seconds < math.inf:
            return
        by_count = self._by_count(job.user, bound.seconds, job.limit)
        minutes = tuple(soft_minutes(seconds, job.limit, self.rules) for seconds in by_count)
        if gains(minutes[0], job.limit, self.rules):
            self._asked[key] = minutes

    def forget(self, queue: Iterable[QueuedJob], now: int) -> None:
        """Drop the quantiles of jobs that the queue has not shown for a day; an array's tasks share one."""
        self._seen.update({key: now for job in queue for key in (job.key, str(job.target)) if key in self._asked})
        for key in [key for key, at in self._seen.items() if now - at > _FORGOTTEN_AFTER]:
            del self._seen[key]
            self._asked.pop(key, None)

    def judged(self, job: QueuedJob, ran: int | None) -> Ended | None:
        """Return what a job's end tells; None: nothing, as it never ran (`ran` is None) or others ended its run."""
        if ran is None or not job.limit or job.state in INTERRUPTED:
            return None
        minutes = self._asked.get(job.key) or self._asked.get(str(job.target), ())
        return Ended(job.user, minutes, job.limit, ran)

    def ended(self, job: QueuedJob, ran: int | None) -> None:
        """Learn from a job's end."""
        found = self.judged(job, ran)
        self._asked.pop(job.key, None)
        if found is not None:
            self.learn(found)

    def learn(self, ended: Ended) -> None:
        """Count one more job, of its user and of all; the oldest gives way."""
        shares = self._shares.setdefault(ended.user, deque(maxlen=COUNTS[-1]))
        shares.appendleft(ended.ran / ended.limit)
        newest = list(shares)
        self._largest[ended.user] = [max(newest[:count], default=0.0) for count in COUNTS]
        if not ended.minutes:
            return
        self._newest.append(ended)
        self._count(ended, 1)
        if len(self._newest) > NEWEST:
            self._count(self._newest.popleft(), -1)

    def _count(self, ended: Ended, step: int) -> None:
        for place, minutes in enumerate(ended.minutes):
            if gains(minutes, ended.limit, self.rules):
                self._set[place] += step
                self._short[place] += step * (ended.ran > minutes * MINUTE)

    def _place(self) -> int | None:
        """Return the place of the count that is good enough."""
        if len(self._newest) < LEAST:
            return 0
        for place, n in enumerate(self._set):
            if self._short[place] + 1 <= self.rules.most_outlived * (n + 1):
                return place
        return None

    def _by_count(self, user: str, seconds: float, limit: int) -> list[float]:
        largest = self._largest.get(user)
        if largest is None:
            return [seconds, *[float(limit)] * (len(COUNTS) - 1)]
        whole = limit / _factor(limit, self.rules)
        return [max(seconds, share * whole) for share in largest]


def forbidden(job: QueuedJob, site: SiteState, rules: SiteRules) -> tuple[str, str] | None:
    """Return why a pending job must not have a soft limit, as a word and a sentence; None if it may.

    A heterogeneous job would be ended at it (seen with Slurm 26.05). A job with a deadline, or before a reservation,
    would begin because its soft limit fits, and then run on.
    """
    if job.is_het:
        return "het", "it is a part of a heterogeneous job, which Slurm would end at its soft limit"
    if job.deadline is not None:
        return "deadline", "it has a deadline, which its hard limit has to meet"
    if job.reservation:
        return "in-reservation", f"it asks for the reservation {job.reservation}"
    if job.limit is None or job.limit < MINUTE:
        return "no-limit", "it has no limit that is known"
    if not _chosen(job.user, rules.users, rules.without_users):
        return "user-not-chosen", "the site's rules leave its user out"
    for name in job.partition.split(","):
        if not _chosen(name, rules.partitions, rules.without_partitions):
            return "partition-not-chosen", f"the site's rules leave the partition {name or '(none)'} out"
    ahead = reached(job, job.limit, site, rules)
    if ahead is not None:
        return "reservation-ahead", f"its limit reaches the reservation {ahead.name}, or comes near to it"
    return None


def reached(job: QueuedJob, limit: int, site: SiteState, rules: SiteRules) -> Reservation | None:
    """Return a coming reservation on the job's nodes that a run of `limit` seconds from now on could reach."""
    until = site.now + limit + rules.reservation_margin_minutes * MINUTE
    own = site.nodes_of(job.partition)
    for one in site.reservations:
        start = one.next_start(site.now)
        shared = one.nodes is None or own is None or bool(one.nodes & own)
        if start is not None and shared and start <= until:
            return one
    return None


def earliest(reservations: Iterable[Reservation], now: int) -> int | None:
    """Return when the first of the coming reservations begins; None if there is none."""
    starts = [start for one in reservations if (start := one.next_start(now)) is not None]
    return min(starts, default=None)


def _chosen(name: str, only: tuple[str, ...] | None, without: tuple[str, ...]) -> bool:
    return (only is None or name in only) and name not in without
