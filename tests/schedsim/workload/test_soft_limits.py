"""Soft limits in a simulation: set at polls alone, and the roles before and from Slurm 25.05.4 on."""

import pytest

from predictors.core.errors import JobcastError
from predictors.schedulers.soft_limit import Bound, QueuedJob, SiteRules
from schedsim.engine.simulation import simulate
from schedsim.machine.outages import Outages, Reservation
from schedsim.policies.policy import make_policy
from schedsim.validate.validate import check
from schedsim.workload.soft_limits import SOFT_LIMITS, Looks, PolledLimits, soft_limits_named
from schedsim.workload.workload import Workload

RULES = SiteRules(pad_minutes=1, least_minutes=1, least_gain_minutes=1)


class Known:
    """Bounds that are given from the first poll on."""

    def __init__(self, workload, seconds):
        self.workload, self.seconds = workload, seconds

    def job(self, row):
        return QueuedJob(row, limit=int(self.workload.requested[row]))

    def take(self, events):
        """Learn nothing."""

    def of(self, jobs):
        return [Bound(float(self.seconds[job.job_id])) for job in jobs]


def workload(procs, run_time, requested):
    """Return jobs that are submitted second by second, on 8 processors."""
    n = len(procs)
    return Workload.from_columns(
        range(n), submit=range(n), procs=procs, requested=requested, run_time=run_time, machine_procs=8
    )


def starts(jobs, held_as="slurm", policy="easy", every=60):
    limits = PolledLimits(Known(jobs, jobs.run_time), jobs.requested, SOFT_LIMITS[held_as], Looks(RULES, every))
    schedule = simulate(jobs, make_policy(policy), limits, SOFT_LIMITS[held_as].correction)
    check(schedule, make_policy(policy), limits)
    return schedule.start.tolist()


def test_running_jobs_are_planned_by_hard_limits_before_25_05_4():
    """Row 1 gets 18 min, and runs from 100 s on: the head is due at 1180 s, and row 3 (35 min) must not pass."""
    jobs = workload([8, 6, 8, 2], [100, 1000, 600, 2000], [100, 36_000, 7200, 36_000])
    assert {name: starts(jobs, name) for name in SOFT_LIMITS} == {
        "slurm": [0, 100, 1100, 1700], "slurm-23.11": [0, 100, 2100, 100], "pbs": [0, 100, 1100, 1700],
    }  # fmt: skip


@pytest.mark.parametrize("policy", ["easy", "conservative-replan", "easy-sjbf"])
@pytest.mark.parametrize("every", [60, 7])
def test_a_job_passes_at_the_poll_that_sets_its_soft_limit(policy, every):
    """Row 2 fits before the head by its soft limit alone, and starts at the first poll after its submission."""
    jobs = workload([6, 8, 2], [3600, 600, 120], [3600, 7200, 36_000])
    assert starts(jobs, policy=policy, every=every) == [0, 3600, every * (2 // every + 1)]


def test_an_instant_without_a_cause_keeps_the_poll_to_come():
    """A reservation begins between the submissions and the poll, and starts no job."""
    jobs = workload([5, 7, 2], [3600, 600, 120], [3600, 7200, 36_000])
    limits = PolledLimits(Known(jobs, jobs.run_time), jobs.requested, SOFT_LIMITS["slurm"], Looks(RULES))
    blocked = Outages([Reservation(30, 500_000, 1)])
    assert simulate(jobs, make_policy("easy"), limits, "slurm", outages=blocked).start.tolist() == [0, 3600, 60]


def test_what_is_no_soft_limit_is_refused():
    with pytest.raises(JobcastError, match="No kind of soft limits 'slrum'; did you mean 'slurm'"):
        soft_limits_named("slrum")
    with pytest.raises(JobcastError, match="every second at most; got 0 s"):
        Looks(every=0)
