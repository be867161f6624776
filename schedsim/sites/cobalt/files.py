"""A site's rules as a TOML file: queues, the score, dependencies and projects; `mira` needs no file."""

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, get_args

import numpy as np

from predictors.core.declarations import STRICT, declared, read_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.commands import Command, read_commands
from schedsim.sites.cobalt.queues import CAPABILITY_SHARE, Queue, Router, mira_router
from schedsim.sites.cobalt.rules import ONE_QUEUE, Rules
from schedsim.sites.cobalt.score import Score
from schedsim.workload.dependencies import Dependencies, OnFailure
from schedsim.workload.workload import Workload


@dataclass(frozen=True)
class OnFailures:
    """What happens to jobs that wait for a failed one."""

    __pydantic_config__: ClassVar[Any] = STRICT

    on_failure: str = "hold"

    def __post_init__(self) -> None:
        if self.on_failure not in get_args(OnFailure):
            raise unknown_name("rule on failure", self.on_failure, get_args(OnFailure))


@dataclass(frozen=True)
class ChargedProject(Project):
    """A project, and the log's groups that it pays for: by name where the log has names, else by number."""

    __pydantic_config__: ClassVar[Any] = STRICT

    groups: tuple[int | str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.groups:
            raise JobcastError("groups must list the log's groups that it pays for.")


@dataclass(frozen=True)
class Site:
    """A site as its TOML file declares it: queues by name or one by one, the score, dependencies, projects."""

    __pydantic_config__: ClassVar[Any] = STRICT

    queues: str | None = None
    capability: float | None = None
    queue: tuple[Queue, ...] = ()
    partitions: tuple[int, ...] = ()
    score: Score = field(default_factory=Score)
    dependencies: OnFailures = field(default_factory=OnFailures)
    project: tuple[ChargedProject, ...] = ()

    def __post_init__(self) -> None:
        if self.queues is not None and self.queue:
            raise JobcastError('Name ready-made queues (queues = "mira"), or give [[queue]] sections, not both.')
        if self.queues not in (None, "mira"):
            raise unknown_name("set of queues", str(self.queues), ["mira"])
        if self.capability is not None and self.queues is None:
            raise JobcastError('capability is a share for queues = "mira"; a [[queue]] says least_procs.')
        if self.partitions and not self.queue and self.queues is None:
            raise JobcastError("partitions route jobs; give [[queue]] sections too.")


def rules_of_log(
    log: JobLog,  # as `predictors.data.cleaning.clean` returns it
    # a TOML file (see docs/cobalt.md); or `mira`, Mira's queues, scaled to the machine; by default one queue
    site: str | os.PathLike[str] | None = None,
    commands: str | os.PathLike[str] | None = None,  # a CSV file, see `schedsim.sites.cobalt.commands.read_commands`
    kill: bool = True,  # whether the simulation stops jobs at their requested time: such a job counts as failed
) -> tuple[Rules, JobLog, ReadingReport]:
    """Return a site's rules for a cleaned log, and the log without the jobs that could never start under them.

    Jobs stay that some queue takes, unless a failed job would hold them without end. The report tells, by reason, which
    jobs and dependencies were left out, and which groups of the site the log does not have.
    """
    machine = int(log.max_procs or 0)
    given = Site(queues="mira") if site == "mira" else Site() if site is None else _read(site)
    source = "mira" if site is None else str(site)
    router = _router(given, machine, source)
    on_failure = cast("OnFailure", given.dependencies.on_failure)
    log, account = _routed(log, router)
    dependencies, dangling = Dependencies.of(log, on_failure)
    orders = () if commands is None else read_commands(commands, log.origin)
    if dependencies is not None:
        log, stuck = _unstuck(log, dependencies, orders, kill)
        dependencies, _ = Dependencies.of(log, on_failure)
        dangling = dangling + stuck
    accounts, unmet = _accounts(given, log, source)
    rules = Rules(
        router,
        given.score,
        dependencies,
        accounts,
        orders,
    )
    return rules, log, account + dangling + unmet


def _read(path: str | os.PathLike[str]) -> Site:
    return declared(Site, read_toml(path, "a site, a TOML file"), str(path))


def _router(given: Site, machine: int, source: str) -> Router:
    if given.queues is not None:
        return mira_router(machine, CAPABILITY_SHARE if given.capability is None else given.capability)
    if not given.queue:
        return ONE_QUEUE
    for queue in given.queue:
        if queue.share is not None and queue.share > machine:
            raise JobcastError(
                f"{source}: queue {queue.name!r} has a share of {queue.share}; the machine has {machine}."
            )
    try:
        return Router(given.queue, given.partitions)
    except JobcastError as error:
        raise JobcastError(f"{source}: {error}") from error


def _routed(log: JobLog, router: Router) -> tuple[JobLog, ReadingReport]:
    queue = router.route(log.procs, log.values["requested_time"])
    return _without(log, queue < 0, "unrouted", "no queue takes a job of its processors and requested time")


def _unstuck(
    log: JobLog, dependencies: Dependencies, commands: tuple[Command, ...], kill: bool
) -> tuple[JobLog, ReadingReport]:
    """Leave out jobs that wait for a failed one without end, unless a command releases them."""
    workload = Workload.from_log(log)
    released = [command.job for command in commands if command.action in ("release", "alter")]
    stuck = np.zeros(len(log), dtype=np.bool_)
    stuck[dependencies.stuck(workload, released, kill)] = True
    return _without(log, stuck, "dep-fail", "a job before it failed, and no command lets it go")


def _without(log: JobLog, bad: Any, rule: str, text: str) -> tuple[JobLog, ReadingReport]:
    places = tuple(log.values["job_id"][np.flatnonzero(bad)[:5]].tolist())
    if not places:
        return log, ReadingReport(log.name)
    if bad.all():
        raise JobcastError(f"{log.name}: no job is left: {text}.")
    return log.select(~bad), ReadingReport(log.name, (Finding(rule, "dropped", text, int(bad.sum()), places, "job"),))


def _accounts(given: Site, log: JobLog, source: str) -> tuple[Accounts | None, ReadingReport]:
    """Return the projects, with jobs by the log's groups, and a note on groups without a job in the log."""
    if not given.project:
        return None, ReadingReport(log.name)
    here = set(log.values["group"][log.known("group")].tolist())
    missing: list[Finding] = []
    of_group: dict[int, int] = {}
    for number, project in enumerate(given.project):
        where = f"{source}: [[project]] {project.name}"
        for group in project.groups:
            code = _group_code(log, group, where)
            if code in of_group:
                other = given.project[of_group[code]].name
                raise JobcastError(f"{where}: group {group!r} is charged to {other!r} already.")
            of_group[code] = number
            if code not in here:
                text = f"{where}: no job of the log is of group {group!r}, so none is charged for it"
                missing.append(Finding("unknown-group", "noted", text))
    group_of = np.where(log.known("group"), log.filled("group"), -1).tolist()
    jobs = log.values["job_id"].tolist()
    charged = {job: of_group[group] for job, group in zip(jobs, group_of, strict=True) if group in of_group}
    return Accounts(given.project, charged, log.epoch), ReadingReport(log.name, tuple(missing))


def _group_code(log: JobLog, group: int | str, where: str) -> int:
    names = log.categories.get("group")
    if isinstance(group, str) and names is not None:
        if group not in names:
            raise JobcastError(f"{where}: {unknown_name('group', group, names[:20])}")
        return names.index(group)
    if isinstance(group, str):
        raise JobcastError(f"{where}: {log.name} has groups by number; got {group!r}.")
    return group
