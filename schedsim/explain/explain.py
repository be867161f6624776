"""Why a job started when it did: the chain of instants at which it waited, and what kept it at each.

A second run of the simulation stops at the instants at which the job waits. Their passes are those of the first run,
compiled once more so that they note why each job does not start (`schedsim.kernels.reasons`); the first run notes
nothing. It is a new run, not a copy of the first: gates that remember and forecasts may not be copied.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from predictors.core.errors import JobcastError
from schedsim.engine.simulation import Simulation
from schedsim.explain.reasons import Reason
from schedsim.explain.snapshot import Instant, Recorded, Stepper
from schedsim.machine.allocators import Allocator
from schedsim.machine.outages import Outages
from schedsim.machine.run_times import RunTimes
from schedsim.policies.policy import Policy
from schedsim.results.schedule import STARTED_BY, Schedule
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate
from schedsim.workload.workload import Workload, row_of

MOST_INSTANTS: Final = 1000
"""Instants to examine by default; for a job that waits longer, every second one, or third, …"""


@dataclass(frozen=True)
class Stretch:
    """Consecutive instants at which the same rule kept a job waiting because of the same other job; or its start."""

    # first, last: their first and last second
    first: int
    last: int
    instants: int  # how many of them were examined
    finding: Reason  # what was noted at the last one, other jobs by their job ids
    would_end: int  # when the job would have ended by its estimate, had it started at the last one [s]


@dataclass(frozen=True)
class Explanation:
    """Why a job started when it did; jobs by their ids, times in seconds on the log's own clock."""

    # job_id, procs, requested, estimate: the job; its estimate at its start
    job_id: int
    procs: int
    requested: int
    estimate: int
    # submit, start: when it was submitted and when it started
    submit: int
    start: int
    started_by: str  # see `schedsim.results.schedule.STARTED_BY`
    chain: tuple[Stretch, ...]  # what kept it waiting; the last entry is its start
    passed_by: tuple[tuple[int, int, str], ...]  # jobs submitted after it that started before it
    # instants, looked_at: scheduling instants from its submission to its start, and how many of them were examined
    instants: int
    looked_at: int
    demand: str = ""  # what it asks of nodes, where jobs take GPUs and memory of them; else empty
    stopped: tuple[tuple[int, int, int], ...] = ()  # its runs that were stopped for another job, and for which
    stops: tuple[tuple[int, int], ...] = ()  # jobs that were stopped for it, and when

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def explain(
    schedule: Schedule,
    job_id: int,
    policy: Policy,
    estimates: Estimates | Separate | RevisedEstimates | None = None,
    correction: str = "requested",
    kill: bool = True,
    *,
    most_instants: int = MOST_INSTANTS,
    allocator: Allocator | None = None,
    run_times: RunTimes | None = None,
    rules: Rules | None = None,
    workload: Workload | None = None,
    outages: Outages | None = None,
) -> Explanation:
    """Explain a job's start in a schedule.

    Parameters
    ----------
    schedule : Schedule
        A finished simulation.
    policy, estimates, correction, kill
        As given to that simulation. A forecast in the loop and a gate that remembers must be fresh, since this is a
        second run.
    most_instants : int
        How many instants to examine at most, including the first and the last.
    allocator, run_times, rules, outages
        As given to that simulation; the sink of a contention model must be fresh where a gate reads it.

    workload : Workload, optional
        As given to that simulation, where commands have altered jobs since.

    Examples
    --------
    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.explain.sentences import in_words
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 1, 2], procs=[6, 8, 2], requested=[10, 10, 9],
    ...                           run_time=[10, 10, 9], machine_procs=8)
    >>> easy = make_policy("easy")
    >>> for line in in_words(explain(simulate(w, easy), 3, easy)):
    ...     print(line)
    Job 3 (2 processors, 9 s requested, 9 s estimated) was submitted at t=2 and started at t=20, after 18 s.
    t=2: job 3 was not backfilled: it would end at t=11, after the shadow time t=10 of job 2, and needs 2 processors
    where 0 are extra (an estimate of at most 8 s would have let it start).
    t=10: it headed the queue, but needs 2 processors and 0 were free; by the estimates it fits at t=20.
    t=20: started, in the queue's order, having held a reservation; free were 8.
    """
    workload = schedule.workload if workload is None else workload
    row = row_of(workload, job_id)
    if most_instants < 2:
        raise JobcastError(f"An explanation examines 2 instants or more; got {most_instants}.")
    recorded = Recorded(policy.gate) if policy.gate is not None else None
    rule = policy if recorded is None else replace(policy, gate=recorded)
    simulation = Simulation(workload, rule, estimates, correction, kill, allocator, run_times, rules, outages)
    stepper = Stepper(simulation, recorded)
    first, last = int(workload.submit[row]), int(schedule.start[row])
    every = 1 + _instants_between(schedule, first, last) // most_instants
    chain: list[Stretch] = []
    looked_at = instants = 0
    for number, instant in _instants(stepper, first, last, every):
        instants = number + 1
        if instant is None:
            continue
        looked_at += 1
        _add(chain, instant, row, workload)
    if not chain or chain[-1].finding.rule != "starts" or chain[-1].last != last + workload.origin:
        raise JobcastError(
            f"Job {job_id} starts at {last} s, but not when the simulation is run again: give the same policy, "
            "estimates and correction, and a fresh forecast or gate."
        )
    return Explanation(
        job_id=job_id,
        procs=int(schedule.workload.procs[row]),
        requested=int(schedule.workload.requested[row]),
        estimate=int(schedule.estimate[row]),
        submit=first + workload.origin,
        start=last + workload.origin,
        started_by=STARTED_BY[schedule.started_by[row]],
        chain=tuple(chain),
        passed_by=_passed_by(schedule, row),
        instants=instants,
        looked_at=looked_at,
        demand="" if workload.demands is None else workload.demands.words(row),
        stopped=_stopped(schedule, row),
        stops=_stops(schedule, row),
    )


def _instants_between(schedule: Schedule, first: int, last: int) -> int:
    """Return how many instants lie from `first` to `last`, without those that a gate asked for."""
    times = np.concatenate([schedule.workload.submit, schedule.end])
    return len(np.unique(times[(times >= first) & (times <= last)]))


def _instants(stepper: Stepper, first: int, last: int, every: int) -> Iterator[tuple[int, Instant | None]]:
    """Walk from one second to another; yield each instant's number, and the instant if it is examined."""
    stepper.skip(first - 1)
    number = 0
    while (now := stepper.next_time()) is not None and now <= last:
        if number % every == 0 or now == last:
            yield number, stepper.look()
        else:
            stepper.skip(now)
            yield number, None
        number += 1


def _add(chain: list[Stretch], instant: Instant, row: int, workload: Workload) -> None:
    """Add the note on a job at an instant: to the last stretch, if it says the same."""
    reason = instant.reason(row)
    if reason is None:
        return
    finding = _by_job_id(reason, workload)
    now = instant.now + workload.origin
    begin, count = now, 1
    if chain and (chain[-1].finding.rule, chain[-1].finding.head) == (finding.rule, finding.head):
        before = chain.pop()
        begin, count = before.first, before.instants + 1
    chain.append(Stretch(begin, now, count, finding, instant.would_end(row) + workload.origin))


def _by_job_id(finding: Reason, workload: Workload) -> Reason:
    """Return a reason with job ids for rows, and times on the log's own clock."""

    def job(row: int | None) -> int | None:
        return None if row is None else int(workload.job_id[row])

    def clock(time: int | None) -> int | None:
        return None if time is None else time + workload.origin

    return replace(
        finding,
        head=job(finding.head),
        blockers=tuple(int(workload.job_id[row]) for row in finding.blockers),
        shadow=clock(finding.shadow),
        reserved=clock(finding.reserved),
        collides=clock(finding.collides),
        due=clock(finding.due),
    )


def _stopped(schedule: Schedule, row: int) -> tuple[tuple[int, int, int], ...]:
    """Return the runs of a job that were stopped for others: start, end, the other's job id."""
    if schedule.preempted is None:
        return ()
    runs, workload = schedule.preempted.runs, schedule.workload
    own = runs[runs[:, 0] == row].tolist()
    return tuple((a + workload.origin, b + workload.origin, int(workload.job_id[by])) for _, a, b, by in own)


def _stops(schedule: Schedule, row: int) -> tuple[tuple[int, int], ...]:
    """Return the jobs that were stopped for a job: job id, second."""
    if schedule.preempted is None:
        return ()
    runs, workload = schedule.preempted.runs, schedule.workload
    own = runs[runs[:, 3] == row].tolist()
    return tuple((int(workload.job_id[other]), end + workload.origin) for other, _, end, _ in own)


def _passed_by(schedule: Schedule, row: int) -> tuple[tuple[int, int, str], ...]:
    """Return the jobs submitted after a job that started before it, by start: job id, start, how."""
    workload = schedule.workload
    later = np.arange(row + 1, len(workload))
    rows = later[schedule.start[later] < schedule.start[row]]
    rows = rows[np.argsort(schedule.start[rows], kind="stable")]
    columns = workload.job_id[rows], schedule.start[rows] + workload.origin, schedule.started_by[rows]
    return tuple((job, start, STARTED_BY[how]) for job, start, how in zip(*(c.tolist() for c in columns), strict=True))
