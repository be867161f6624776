"""A simulation by names: log, policy, estimates, correction, as the command line and the experiments give them."""

from collections.abc import Callable, Mapping
from typing import Any

from predictors.data.errors import unknown_name
from predictors.data.joblog import JobLog
from schedsim.engine import simulate
from schedsim.estimates import Estimates, Outlook, clairvoyant, requested
from schedsim.metrics import by_size, by_user, figures, how_started
from schedsim.policy import make_policy
from schedsim.schedule import Schedule
from schedsim.workload import Workload

GIVEN = {"requested": requested, "clairvoyant": clairvoyant}
"""Estimates that need no predictor: what the users asked for, and the truth."""


def estimates_by_name(name: str, log: JobLog, workload: Workload) -> Estimates | Outlook:
    """Return what the scheduler shall believe.

    Parameters
    ----------
    name : str
        `requested`, `clairvoyant`, an outlook (`default`, `bold`), a registered predictor (both start knowing nothing
        and learn as jobs end), or a model's address (`models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/…`, a
        folder): that is served as it is.
    log : JobLog
        The cleaned log, rows as in `workload`.
    workload : Workload
        The jobs to be simulated.

    Raises
    ------
    JobcastError
        If there is no such predictor or model.
    """
    if name in GIVEN:
        return GIVEN[name](workload)
    from predictors.registry import PREDICTORS, make_predictor
    from predictors.similar_runs import OUTLOOKS

    if name in OUTLOOKS:
        return OUTLOOKS[name].forecast(log)
    if name in PREDICTORS:
        return make_predictor(name).forecast(log)
    if ":/" in name or "/" in name:
        from predictors.tracking import load_model

        return load_model(name).predictor.forecast(log)
    raise unknown_name("estimates", name, (*GIVEN, *OUTLOOKS, *PREDICTORS, "models:/NAME@ALIAS"))


TABLES: dict[str, Callable[[Schedule], Mapping[Any, Mapping[str, float]]]] = {
    "user": by_user,
    "size": by_size,
    "start": how_started,
}
"""What a schedule's figures can be split by: user, class of width, how the jobs came to start."""


def table_by(schedule: Schedule, what: str) -> dict[str, dict[str, Any]]:
    """Return a schedule's figures by group, under the groups' names.

    Raises
    ------
    JobcastError
        If it cannot be split by that.
    """
    if what not in TABLES:
        raise unknown_name("table by", what, TABLES)
    return {str(group): dict(row) for group, row in TABLES[what](schedule).items()}


def run_by_name(
    log: JobLog, policy: str, estimates: str = "requested", correction: str = "requested", *, kill: bool = True
) -> tuple[Schedule, dict[str, Any]]:
    """Simulate a cleaned log; return the schedule and its figures under the names of `jobcast simulate --json`."""
    rule = make_policy(policy)
    workload = Workload.from_log(log)
    schedule = simulate(workload, rule, estimates_by_name(estimates, log, workload), correction, kill=kill)
    return schedule, {
        "log": log.name,
        "policy": policy,
        "estimates": estimates,
        "correction": correction,
        "procs": workload.machine_procs,
        **figures(schedule),
        "engine_seconds": schedule.engine_seconds,
        "jobs_per_second": len(workload) / schedule.engine_seconds,
    }
