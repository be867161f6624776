"""A second look at a simulation by names: why a job started when it did, and whether the schedule keeps its laws."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.simulation import estimates_by_name
from predictors.data.joblog import JobLog
from schedsim.allocators import Allocator
from schedsim.explain import Explanation, explain, row_of
from schedsim.outages import Outages
from schedsim.partitions import widened
from schedsim.policy import Policy, make_policy
from schedsim.rules import Rules
from schedsim.run_times import RunTimes
from schedsim.schedule import Schedule
from schedsim.workload import Workload

if TYPE_CHECKING:
    from predictors.saved.records import LoadedModel


def refuse_unknown_job(log: JobLog, job_id: int) -> None:
    """Raise JobcastError if a cleaned log has no such job."""
    row_of(Workload.from_log(log), job_id)


def explain_by_name(
    log: JobLog,
    schedule: Schedule,
    job_id: int,
    policy: str,
    estimates: "str | LoadedModel",
    correction: str,
    *,
    kill: bool,
    budget: float | None = None,
    allocator: Allocator | None = None,
    rule: Policy | None = None,
    world: RunTimes | None = None,
    rules: Rules | None = None,
    outages: Outages | None = None,
) -> Explanation:
    """Explain a job's start in a schedule of a cleaned log; the other names as `run_by_name` was given."""
    believed = estimates_by_name(estimates, log, schedule.workload, budget)
    rule = make_policy(policy) if rule is None else rule
    asked = schedule.workload
    if rules is not None and rules.commands:  # the schedule's jobs are as altered, the simulation starts with these
        as_submitted = widened(Workload.from_log(log), allocator)
        asked = replace(asked, procs=as_submitted.procs, requested=as_submitted.requested)
    return explain(
        schedule,
        job_id,
        rule,
        believed,
        correction,
        kill,
        allocator=allocator,
        world=world,
        rules=rules,
        workload=asked,
        outages=outages,
    )


def check_by_name(
    log: JobLog,
    schedule: Schedule,
    policy: str,
    estimates: "str | LoadedModel",
    *,
    kill: bool,
    budget: float | None = None,
    rule: Policy | None = None,
    rules: Rules | None = None,
) -> dict[str, Any]:
    """Check the laws of a schedule of a cleaned log; return those kept, and those left out with the reason.

    Raises
    ------
    JobcastError
        At the first law that is broken.
    """
    from schedsim.paranoid import check

    believed = estimates_by_name(estimates, log, schedule.workload, budget)
    checked = check(schedule, make_policy(policy) if rule is None else rule, believed, kill, rules)
    return {"kept": list(checked.kept), "left_out": dict(checked.left_out)}
