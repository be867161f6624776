"""A simulation by names: log, policy, estimates, correction, as the command line and the experiments give them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.similar_runs import OUTLOOKS, SimilarRuns
from schedsim.allocators import Allocator
from schedsim.availability import disturbed_figures
from schedsim.corrections import correction_code
from schedsim.engine import Simulation
from schedsim.estimates import Estimates, Outlook, clairvoyant, requested
from schedsim.metrics import by_run_time, by_size, by_user, figures, how_started
from schedsim.outages import Outages
from schedsim.partitions import widened
from schedsim.policy import Policy, make_policy
from schedsim.queue_metrics import by_queue
from schedsim.rules import Rules
from schedsim.run_times import RunTimes
from schedsim.schedule import Schedule
from schedsim.workload import Workload

if TYPE_CHECKING:
    from predictors.saved.records import LoadedModel
    from predictors.with_budget import WithBudget

Ints = npt.NDArray[np.int64]

GIVEN = {"requested": requested, "clairvoyant": clairvoyant}
"""Estimates that need no predictor: what the users asked for, and the truth."""


def loaded(name: str) -> "str | LoadedModel":
    """Return the kept model, if the name is a model's address, else the name as it stands.

    Raises
    ------
    JobcastError
        If there is no such model.
    """
    if "/" not in name:
        return name
    from predictors.tracking import load_model

    return load_model(name)


def of_partition(log: JobLog, partition: int | None) -> JobLog:
    """Return the log, or of it the jobs of one partition of the machine.

    Raises
    ------
    JobcastError
        If the log has no job in that partition.
    """
    if partition is None:
        return log
    in_it = log.known("partition") & (log.filled("partition") == partition)
    if not in_it.any():
        raise JobcastError(f"{log.name}: has no job in partition {partition}.")
    return log.select(in_it)


def learnt_from(given: "str | LoadedModel", *logs: JobLog) -> bool:
    """Tell whether a kept model has learnt from one of these very logs: in their loop it would know the future."""
    return not isinstance(given, str) and given.origin.log_sha256 in [log.digest() for log in logs]


def check_names(
    policy: str, estimates: "str | SimilarRuns", correction: str = "requested", budget: float | None = None
) -> None:
    """Raise what `run_by_name` would raise for these names, before a log is read; a model's address is looked up.

    Raises
    ------
    JobcastError
        If there is no such policy, estimates, model, correction or budget, or they do not go together.
    """
    from predictors.registry import PREDICTORS

    rule, _ = make_policy(policy), correction_code(correction)
    if budget is not None:
        _within(str(estimates), budget)
    elif isinstance(estimates, str) and "/" in estimates:
        loaded(estimates)
    elif isinstance(estimates, str) and estimates not in (*GIVEN, *OUTLOOKS, *PREDICTORS):
        raise unknown_name("estimates", estimates, (*GIVEN, *OUTLOOKS, *PREDICTORS, "models:/NAME@ALIAS"))
    if rule.kind == "compress" and (not isinstance(estimates, str) or estimates in OUTLOOKS):
        raise JobcastError(
            f"{policy} keeps reservations by the estimates that they were made with: an outlook ({estimates}), which "
            "changes them, does not go with it; take conservative-replan or EASY."
        )


def estimates_by_name(
    name: "str | LoadedModel | SimilarRuns", log: JobLog, workload: Workload, budget: float | None = None
) -> Estimates | Outlook:
    """Return what the scheduler shall believe.

    Parameters
    ----------
    name : str, LoadedModel or SimilarRuns
        `requested`, `clairvoyant`, an outlook (`default`, `bold`), a registered predictor (both start knowing nothing
        and learn as jobs end), or a model's address (`models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/…`, a
        folder) or the model itself: that is served as it is; or the rule of an outlook.
    log : JobLog
        The cleaned log, rows as in `workload`.
    workload : Workload
        The jobs to be simulated.
    budget : float or None
        Share of the jobs that may run longer than estimated: a registered predictor is moved until that is so, as jobs
        end (`predictors.with_budget`).

    Raises
    ------
    JobcastError
        If there is no such predictor or model, or the budget is no share or asked of what does not learn in the loop.
    """
    if budget is not None:
        return _within(_called(name), budget).forecast(log)
    given = loaded(name) if isinstance(name, str) else name
    if isinstance(given, SimilarRuns):
        return given.forecast(log)
    if not isinstance(given, str):
        return given.predictor.forecast(log)
    if given in GIVEN:
        return GIVEN[given](workload)
    from predictors.registry import PREDICTORS, make_predictor

    if given in OUTLOOKS:
        return OUTLOOKS[given].forecast(log)
    if given in PREDICTORS:
        return make_predictor(given).forecast(log)
    raise unknown_name("estimates", given, (*GIVEN, *OUTLOOKS, *PREDICTORS, "models:/NAME@ALIAS"))


def _called(name: "str | LoadedModel | SimilarRuns") -> str:
    """Return what to call estimates in a table."""
    if isinstance(name, SimilarRuns):
        return repr(name)
    return name if isinstance(name, str) else name.uri


def _within(name: str, budget: float) -> "WithBudget":
    """Return a registered predictor that keeps a budget, unfitted."""
    from predictors.registry import PREDICTORS
    from predictors.requested import Requested
    from predictors.with_budget import WithBudget

    fixed = {
        **dict.fromkeys(GIVEN, "these estimates are given, not learnt"),
        Requested.name: "no estimate may be above the request, so there is nowhere to move it",
        **dict.fromkeys(OUTLOOKS, "it plans by many estimates of a job, not by one"),
        WithBudget.name: "it keeps a budget of its own already; name the predictor inside",
    }
    if name in fixed:
        raise JobcastError(f"A budget cannot go with the estimates {name}: {fixed[name]}. Name a predictor: similar.")
    if name not in PREDICTORS and "/" in name:
        raise JobcastError(
            f"A budget cannot go with {name}: a kept model is served as it is. Name a predictor: similar."
        )
    if name not in PREDICTORS:
        raise unknown_name("predictor", name, PREDICTORS)
    found = WithBudget(predictor=name, budget=budget)
    found.check()
    return found


TABLES: dict[str, Callable[[Schedule], Mapping[Any, Mapping[str, float]]]] = {
    "user": by_user,
    "size": by_size,
    "run-time": by_run_time,
    "start": how_started,
}
"""What a schedule's figures can be split by: user, class of width, class of run time, how the jobs came to start."""


def table_by(schedule: Schedule, what: str, rules: Rules | None = None) -> dict[str, dict[str, Any]]:
    """Return a schedule's figures by group, under the groups' names.

    Raises
    ------
    JobcastError
        If it cannot be split by that.
    """
    if what == "queue":
        if rules is None:
            raise JobcastError("A table by queue needs queues: name a --site, or take the policy cobalt.")
        return {name: dict(row) for name, row in by_queue(schedule, rules).items()}
    if what not in TABLES:
        raise unknown_name("table by", what, (*TABLES, "queue"))
    return {str(group): dict(row) for group, row in TABLES[what](schedule).items()}


def run_by_name(
    log: JobLog,
    policy: str,
    estimates: "str | LoadedModel | SimilarRuns" = "requested",
    correction: str = "requested",
    *,
    kill: bool = True,
    budget: float | None = None,
    allocator: Allocator | None = None,
    workload: Workload | None = None,
    rule: Policy | None = None,
    world: RunTimes | None = None,
    deadline: Ints | None = None,
    rules: Rules | None = None,
    outages: Outages | None = None,
) -> tuple[Schedule, dict[str, Any]]:
    """Simulate a cleaned log; return the schedule and its figures under the names of `jobcast simulate --json`.

    Who simulates a log more than once may give its `workload`, made once. `rule` is what the policy's name stands for,
    where options have changed it; `deadline` those of jobs that may be postponed; the rest as for `simulate`.
    """
    rule = make_policy(policy) if rule is None else rule
    workload = widened(workload or Workload.from_log(log), allocator)
    if deadline is not None:
        workload = replace(workload, deadline=deadline)
    believed = estimates_by_name(estimates, log, workload, budget)
    simulation = Simulation(workload, rule, believed, correction, kill, allocator, world, rules, outages)
    simulation.run()
    schedule = simulation.schedule()
    late = {"commands_too_late": len(simulation.ignored)} if rules is not None and rules.commands else {}
    return schedule, {
        "log": log.name,
        "policy": policy,
        "estimates": _called(estimates),
        "budget": budget,
        "correction": correction,
        "procs": workload.machine_procs,
        **figures(schedule),
        **disturbed_figures(schedule),
        "engine_seconds": schedule.engine_seconds,
        "jobs_per_second": len(workload) / schedule.engine_seconds,
        **late,
    }
