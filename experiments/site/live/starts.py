"""When a waiting job will start, and why not now: the live queue rolled forward under draws of the run times.

The jobs of its partition that run and wait are simulated on, once for each draw. Run times are drawn from what the
users' ended jobs used of their requests (`RecentRatios`), given how long a job runs already. The scheduler is EASY
backfilling by soft limits where jobs have them, with Slurm's correction. Jobs that wait stand in the order of their
eligible times: priorities are not known here. Jobs that are submitted later are not foreseen.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

import numpy as np

from experiments.site.live.queue import CLEANED, HOLDING, LiveQueue
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.models.similar_jobs import RecentRatios
from predictors.schedulers.feed import has_ended, has_run
from predictors.schedulers.soft_limit import PENDING, QueuedJob
from schedsim.engine.simulation import Simulation
from schedsim.engine.start_times import Requested, when_will_it_start
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.outages import Outages, Reservation
from schedsim.policies.policy import make_policy
from schedsim.workload.workload import Workload

POLICY: Final = "easy"
CORRECTION: Final = "slurm"
DRAWS: Final = 100
MOST_TOLD: Final = 4  # stretches of waiting that `why` tells
_JOBS: Final = re.compile(r"\bjobs? \d+(?:, \d+)*")


@dataclass(frozen=True)
class Start:
    """When a job will start, in Unix time."""

    job: str
    now: int  # when that was asked
    # it has started by then with a chance of 10, 50 and 90 %
    p10: int
    p50: int
    p90: int
    by_requests: int  # its start if every job ran as long as it asked for
    by_scheduler: int | None  # what the scheduler itself expects, if it says
    ahead: int  # jobs that wait in front of it
    learnt_from: int  # ended jobs that the run times were drawn from
    # waiting jobs of the partition that are not simulated: not eligible, without a limit, heterogeneous, too wide, or
    # given several partitions
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Past:
    """What ended before, of a cleaned log with a date, or of none: user, end, run time / requested time of each job."""

    def __init__(self, log: JobLog | None) -> None:
        self.user: list[str] = []
        self.end = np.empty(0, dtype=np.int64)
        self.ratio = np.empty(0)
        if log is None:
            return
        if log.epoch is None:
            raise JobcastError(f"{log.name}: has no date, so what ended before now is unknown.")
        known = log.known("run_time") & log.known("wait") & (log.filled("requested_time") > 0)
        values = {name: log.filled(name)[known] for name in ("submit", "wait", "run_time", "requested_time", "user")}
        end = log.epoch + values["submit"] + values["wait"] + values["run_time"]
        order = np.argsort(end, kind="stable")
        names = log.names("user")
        users = [names[code] if 0 <= code < len(names) else str(code) for code in values["user"][order].tolist()]
        self.user, self.end = users, end[order]
        self.ratio = np.minimum(values["run_time"] / values["requested_time"], 1.0)[order]

    def add(self, user: str, end: int, ratio: float) -> None:
        """Take in a job that has ended: its user, when, and run time / requested time."""
        at = int(np.searchsorted(self.end, end, side="right"))
        self.user.insert(at, user)
        self.end = np.insert(self.end, at, end)
        self.ratio = np.insert(self.ratio, at, min(ratio, 1.0))

    def keep(self, newest: int) -> None:
        """Forget all but so many jobs, those that ended last."""
        first = max(len(self.user) - newest, 0)
        self.user, self.end, self.ratio = self.user[first:], self.end[first:], self.ratio[first:]

    def before(self, now: int, jobs: Iterable[QueuedJob] = ()) -> list[tuple[str, float]]:
        """Return (user, ratio) of what had ended by a second, the oldest first; of `jobs`, too, that are not known."""
        rows = list(zip(self.end.tolist(), self.user, self.ratio.tolist(), strict=True))
        known = set(rows)
        own = [(job.end or 0, job.user, ratio_of(job)) for job in jobs if has_ended(job) and has_run(job) and job.limit]
        rows = sorted([*rows, *(one for one in own if one not in known)], key=lambda row: row[0])
        return [(user, ratio) for end, user, ratio in rows if end <= now]


class Present:
    """The jobs of one partition at one moment, ready to be simulated on.

    Of the past it reads only what ended by the queue's clock; ended jobs that are still in the queue count, too.
    """

    def __init__(self, queue: LiveQueue, partition: str, past: Past) -> None:
        if partition not in queue.procs:
            known = ", ".join(sorted(queue.procs)) or "none"
            several = " A job that several partitions may take is not simulated." if "," in partition else ""
            raise JobcastError(
                f"The number of processors of partition {partition!r} is unknown; known: {known}.{several}"
            )
        self.queue, self.partition = queue, partition
        here = [job for job in queue.jobs if job.partition == partition]
        now = queue.now
        begun_of = {one.name for one in queue.reservations if one.start <= now < one.end}
        running = [job for job in here if job.state in HOLDING and job.start is not None]
        running = [job for job in running if job.reservation not in begun_of]  # these are on what is reserved
        waiting = [job for job in here if job.state == PENDING and obstacle(job, queue.now) == ""]
        self.procs = max(queue.procs[partition], sum(job.procs for job in running), 1)
        waiting = [job for job in waiting if job.procs <= self.procs]
        running.sort(key=lambda job: (job.start or 0, job.job_id, job.key))
        waiting.sort(key=lambda job: (job.eligible or 0, job.submit or 0, job.job_id, len(job.key), job.key))
        self.jobs: list[QueuedJob] = [*running, *waiting]
        self.n_running = len(running)
        self.n_busy = sum(job.procs for job in running)
        shared = [job for job in queue.jobs if job.partition != partition and partition in job.partition.split(",")]
        self.n_left_out = sum(job.state == PENDING for job in [*here, *shared]) - len(waiting)
        begun = np.array([min(job.start or now, now) for job in running] + [now] * len(waiting), dtype=np.int64)
        self.origin = int(begun.min()) if len(begun) else now
        elapsed = np.where(np.arange(len(self.jobs)) < len(running), now - begun, 0)
        limit = np.array([0 if job.state == CLEANED else job.limit or 1 for job in self.jobs], dtype=np.int64)
        self.limit = np.maximum(limit, elapsed + 1)  # one that should be over by now ends at once
        self.soft = np.minimum([job.soft or job.limit or 1 for job in self.jobs], self.limit).astype(np.int64)
        self.workload = Workload.from_columns(
            np.arange(len(self.jobs)), submit=begun - self.origin, procs=[job.procs for job in self.jobs],
            requested=self.limit, run_time=self.limit, machine_procs=self.procs,
        )  # fmt: skip
        self.outages = self._outages()
        codes: dict[str, int] = {}
        users = [codes.setdefault(job.user, len(codes)) if job.user else -1 for job in self.jobs]
        columns = {"job_id": np.arange(len(self.jobs)), "submit": begun, "user": users, "requested_time": self.limit}
        log = JobLog.from_columns({name: np.asarray(of, dtype=np.int64) for name, of in columns.items()}, {})
        self.sampler, ended = RecentRatios(log), past.before(now, queue.jobs)
        self.learnt_from = len(ended)
        for user, ratio in ended:
            self.sampler.ended(codes.get(user, -1), ratio)

    def _outages(self) -> Outages | None:
        """Return the reservations from now on, each as the share of the partition's nodes that it takes."""
        nodes, found = self.queue.nodes.get(self.partition, frozenset()), []
        for one in self.queue.reservations:
            share = 1.0 if one.nodes is None or not nodes else len(one.nodes & nodes) / len(nodes)
            procs = round(share * self.procs)
            begin = max(one.start, self.queue.now)
            if one.start <= self.queue.now:  # what runs there without it stays until it ends
                procs = min(procs, self.procs - self.n_busy)
            if one.end > begin and procs:
                found.append(Reservation(begin - self.origin, one.end - self.origin, procs))
        return Outages(tuple(found)) if found else None

    def simulation(self) -> Simulation:
        found = Simulation(self.workload, make_policy(POLICY), self.soft, CORRECTION, outages=self.outages)
        found.run(until=self.queue.now - self.origin)
        return found

    def row(self, job: QueuedJob) -> int:
        if job in self.jobs[self.n_running :]:
            return self.jobs.index(job, self.n_running)
        why = obstacle(job, self.queue.now)
        if job.state != PENDING:
            why = f"it is {job.state}"
        elif not why:
            why = f"it asks for {job.procs} processors, and {self.procs} of {self.partition} are usable"
        raise JobcastError(f"No start can be forecast for job {job.key}: {why}.")

    def start(self, job: QueuedJob, simulation: Simulation, draws: int = DRAWS, seed: int = 0) -> Start:
        row = self.row(job)
        found = when_will_it_start(simulation, row, self.sampler, draws, seed)
        by_requests = when_will_it_start(simulation, row, Requested(self.limit), 1)
        at = [self.origin + second for second in (found.p10, found.p50, found.p90, by_requests.p50)]
        return Start(
            job.key, self.queue.now, at[0], at[1], at[2], at[3], job.start, row - self.n_running, self.learnt_from,
            self.n_left_out,
        )  # fmt: skip

    def why(self, job: QueuedJob, zone: tzinfo | None = None) -> list[str]:
        """Return why a job does not start now, and what keeps it then by all that was asked for, a sentence each."""
        row = self.row(job)
        simulation = Simulation(self.workload, make_policy(POLICY), self.soft, CORRECTION, outages=self.outages)
        simulation.run()
        found = explain(simulation.schedule(), row, make_policy(POLICY), self.soft, CORRECTION, outages=self.outages)

        def clock(second: int) -> str:
            return datetime.fromtimestamp(self.origin + second, zone).strftime("%Y-%m-%d %H:%M:%S")

        def named(match: re.Match[str]) -> str:
            return re.sub(r"\d+", lambda number: self.jobs[int(number[0])].key, match[0])

        told = in_words(found, clock=clock)[1 : 1 + len(found.chain)]
        return [_JOBS.sub(named, line) for line in told[:MOST_TOLD]]


def ratio_of(job: QueuedJob) -> float:
    """Return which share of its limit a job took that has run.

    >>> ratio_of(QueuedJob(7, limit=60, start=5, end=35))
    0.5
    """
    return min(((job.end or 0) - (job.start or 0)) / (job.limit or 1), 1.0)


def obstacle(job: QueuedJob, now: int) -> str:
    """Return why a waiting job is not considered by the scheduler yet; empty if it is.

    >>> obstacle(QueuedJob(7, limit=60, eligible=5), 10), obstacle(QueuedJob(7, limit=60), 10)
    ('', 'it is held, or waits for another job: it is not eligible')
    """
    if job.eligible is None:
        return "it is held, or waits for another job: it is not eligible"
    if job.eligible > now:
        return f"it is not eligible before {datetime.fromtimestamp(job.eligible).isoformat(' ')}"
    if job.limit is None:
        return "it has no time limit, so it cannot be planned"
    if job.is_het:
        return "it is a part of a heterogeneous job: all parts start together"
    if job.reservation:
        return f"it waits for the reservation {job.reservation}"
    return ""


def starts_of(
    queue: LiveQueue, past: Past, jobs: Sequence[QueuedJob], draws: int = DRAWS, seed: int = 0
) -> list[Start]:
    """Return when each of some jobs will start; those without a possible forecast are left out."""
    found = []
    for partition in dict.fromkeys(job.partition for job in jobs):
        if partition not in queue.procs:
            continue
        present = Present(queue, partition, past)
        simulation = present.simulation()
        asked = [job for job in jobs if job.partition == partition and job in present.jobs[present.n_running :]]
        found += [present.start(job, simulation, draws, seed) for job in asked]
    return found


def actual_starts(log: JobLog) -> Mapping[str, int]:
    """Return the start of each job of a log by its id, in Unix time."""
    if log.epoch is None:
        raise JobcastError(f"{log.name}: does not tell its date, so forecasts cannot be held against it.")
    known = log.known("wait")
    start = log.epoch + log.filled("submit") + log.filled("wait")
    ids = log.filled("job_id")
    return {str(job): int(second) for job, second, here in zip(ids, start, known, strict=True) if here}


def scored(found: Sequence[Start], actual: Mapping[str, int]) -> dict[str, Any]:
    """Return how well forecasts held: shares, and mean absolute errors [s] of jobs that the scheduler answers, too.

    >>> one = Start("7", 0, 10, 50, 90, 200, 150, 0, 30, 0)
    >>> scored([one], {"7": 60})["p10_to_p90_holds"], scored([one], {"7": 60})["scheduler_mean_error_s"]
    (1.0, 90.0)
    """
    told = [(one, actual[one.job]) for one in found if one.job in actual]
    both = [(one, at) for one, at in told if one.by_scheduler is not None]

    def mean(values: list[float]) -> float:
        return float(np.mean(values)) if values else float("nan")

    return {
        "forecasts": len(found),
        "started": len(told),
        "p10_to_p90_holds": mean([float(one.p10 <= at <= one.p90) for one, at in told]),
        "earlier_than_p10": mean([float(at < one.p10) for one, at in told]),
        "later_than_p90": mean([float(at > one.p90) for one, at in told]),
        "p50_mean_error_s": mean([abs(one.p50 - at) for one, at in told]),
        "by_requests_mean_error_s": mean([abs(one.by_requests - at) for one, at in told]),
        "answered_by_scheduler": len(both),
        "p50_mean_error_of_these_s": mean([abs(one.p50 - at) for one, at in both]),
        "scheduler_mean_error_s": mean([abs((one.by_scheduler or 0) - at) for one, at in both]),
    }
