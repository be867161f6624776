"""A site's rules as a TOML file: queues, the score, dependencies and projects; `mira` is one that needs no file."""

import os
import tomllib
from collections.abc import Mapping
from typing import Any, Final, get_args

import numpy as np

from predictors.data.account import Account, Finding
from predictors.data.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.sources import read_text
from schedsim.accounts import Accounts, Project
from schedsim.commands import Command, read_commands
from schedsim.dependencies import Dependencies, OnFailure
from schedsim.queues import Queue, Router, mira_router
from schedsim.rules import ONE_QUEUE, Rules
from schedsim.score import Score
from schedsim.workload import Workload

SECTIONS: Final = ("queues", "queue", "partitions", "score", "dependencies", "project")
Table = Mapping[str, Any]


def rules_of_log(
    log: JobLog, site: str | os.PathLike[str] | None = None, commands: str | os.PathLike[str] | None = None
) -> tuple[Rules, JobLog, Account]:
    """Return a site's rules for a cleaned log, and the log without the jobs that could never start under them.

    Parameters
    ----------
    log : JobLog
        As cleaned by `for_simulation`.
    site : path or str, optional
        A TOML file (see docs/cobalt.md); or `mira`, Mira's queues, scaled to the machine; by default one queue.
    commands : path, optional
        A CSV file, see `schedsim.commands.read_commands`.

    Returns
    -------
    Rules
        They go with the log returned.
    JobLog
        The jobs that some queue takes, and that no failed job holds for ever.
    Account
        Jobs and dependencies that were left out, by reason; and what the site names that the log has not.

    Raises
    ------
    JobcastError
        If a file cannot be used; the message names file, section and value.
    """
    machine = int(log.max_procs or 0)
    given = {"queues": "mira"} if site == "mira" else {} if site is None else _read(site)
    source = "mira" if site is None else str(site)
    router = _router(given, machine, source)
    on_failure = _section(given, "dependencies", source, ("on_failure",)).get("on_failure", "hold")
    if on_failure not in get_args(OnFailure):
        raise JobcastError(
            f"{source}: [dependencies]: {unknown_name('rule on failure', str(on_failure), get_args(OnFailure))}"
        )
    log, account = _routed(log, router)
    dependencies, dangling = Dependencies.of(log, on_failure)
    orders = () if commands is None else read_commands(commands, log.origin)
    if dependencies is not None:
        log, stuck = _unstuck(log, dependencies, orders)
        dependencies, _ = Dependencies.of(log, on_failure)
        dangling = dangling + stuck
    accounts, unmet = _accounts(given, log, source)
    rules = Rules(
        router,
        _made(Score, _section(given, "score", source, tuple(Score.__dataclass_fields__)), f"{source}: [score]"),
        dependencies,
        accounts,
        orders,
    )
    return rules, log, account + dangling + unmet


def _read(path: str | os.PathLike[str]) -> Table:
    try:
        given = tomllib.loads(read_text(path, "a site, a TOML file"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{path}: is no TOML file: {error}.") from error
    for name in given:
        if name not in SECTIONS:
            raise JobcastError(f"{path}: {unknown_name('section', name, SECTIONS)}")
    return given


def _section(given: Table, name: str, source: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return a section, which may be missing."""
    section = given.get(name, {})
    if not isinstance(section, dict):
        raise JobcastError(f"{source}: {name} must be a section, [{name}].")
    for key in section:
        if key not in known:
            raise JobcastError(f"{source}: [{name}]: {unknown_name('setting', key, known)}")
    return section


def _made(what: Any, values: Mapping[str, Any], where: str) -> Any:
    """Make a frozen dataclass of a section."""
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            if key in ("capability", "behind") and isinstance(value, bool):
                continue
            raise JobcastError(f"{where}: {key} must be a number or a name; got {value!r}.")
    try:
        return what(**values)
    except JobcastError as error:
        raise JobcastError(f"{where}: {error}") from error
    except TypeError as error:
        raise JobcastError(f"{where}: a value is missing or of the wrong kind ({error}).") from error


def _rows(given: Table, name: str, source: str, known: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = given.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise JobcastError(f"{source}: {name} must be sections, [[{name}]].")
    for row in rows:
        for key in row:
            if key not in known:
                raise JobcastError(f"{source}: [[{name}]]: {unknown_name('setting', key, known)}")
    return rows


def _router(given: Table, machine: int, source: str) -> Router:
    """Return the queues: Mira's, or those of the file."""
    if "queues" in given and "queue" in given:
        raise JobcastError(f'{source}: name ready-made queues (queues = "mira"), or give [[queue]] sections, not both.')
    if "queues" in given:
        if given["queues"] != "mira":
            raise JobcastError(f"{source}: {unknown_name('set of queues', str(given['queues']), ['mira'])}")
        return mira_router(machine)
    rows = _rows(given, "queue", source, tuple(Queue.__dataclass_fields__))
    if not rows:
        if "partitions" in given:
            raise JobcastError(f"{source}: partitions are what jobs are routed by; give [[queue]] sections too.")
        return ONE_QUEUE
    queues = tuple(_made(Queue, row, f"{source}: [[queue]] {row.get('name', '')}") for row in rows)
    for queue in queues:
        if queue.share is not None and queue.share > machine:
            raise JobcastError(
                f"{source}: queue {queue.name!r} has a share of {queue.share}; the machine has {machine}."
            )
    sizes = given.get("partitions", [])
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        raise JobcastError(f"{source}: partitions must be a list of sizes; got {sizes!r}.")
    try:
        return Router(queues, tuple(sizes))
    except JobcastError as error:
        raise JobcastError(f"{source}: {error}") from error


def _routed(log: JobLog, router: Router) -> tuple[JobLog, Account]:
    """Leave out the jobs that no queue takes."""
    queue = router.route(log.procs, log.values["requested_time"])
    return _without(log, queue < 0, "unrouted", "no queue takes a job of its processors and requested time")


def _unstuck(log: JobLog, dependencies: Dependencies, commands: tuple[Command, ...]) -> tuple[JobLog, Account]:
    """Leave out the jobs that wait for ever for a failed one; commands that let them go are trusted."""
    workload = Workload.from_log(log)
    released = [command.job for command in commands if command.action in ("release", "alter")]
    stuck = np.zeros(len(log), dtype=np.bool_)
    stuck[dependencies.stuck(workload, released)] = True
    return _without(log, stuck, "dep-fail", "a job before it failed, and no command lets it go")


def _without(log: JobLog, bad: Any, rule: str, text: str) -> tuple[JobLog, Account]:
    places = tuple(log.values["job_id"][np.flatnonzero(bad)[:5]].tolist())
    if not places:
        return log, Account(log.name)
    if bad.all():
        raise JobcastError(f"{log.name}: no job is left: {text}.")
    return log.select(~bad), Account(log.name, (Finding(rule, "dropped", text, int(bad.sum()), places, "job"),))


def _accounts(given: Table, log: JobLog, source: str) -> tuple[Accounts | None, Account]:
    """Return the projects, whose jobs are told by the log's groups; and a note of groups that have no job in it."""
    known = (*Project.__dataclass_fields__, "groups")
    rows = _rows(given, "project", source, known)
    if not rows:
        return None, Account(log.name)
    here = set(log.values["group"][log.known("group")].tolist())
    missing: list[Finding] = []
    of_group: dict[int, int] = {}
    projects: list[Project] = []
    for number, row in enumerate(rows):
        where = f"{source}: [[project]] {row.get('name', '')}"
        groups = row.get("groups", [])
        if not isinstance(groups, list) or not groups:
            raise JobcastError(f"{where}: groups must list the log's groups that are charged to it; got {groups!r}.")
        for group in groups:
            code = _group_code(log, group, where)
            if code in of_group:
                other = rows[of_group[code]].get("name", "")
                raise JobcastError(f"{where}: group {group!r} is charged to {other!r} already.")
            of_group[code] = number
            if code not in here:
                text = f"{where}: no job of the log is of group {group!r}, so none is charged for it"
                missing.append(Finding("unknown-group", "noted", text))
        projects.append(_made(Project, {key: value for key, value in row.items() if key != "groups"}, where))
    group_of = np.where(log.known("group"), log.filled("group"), -1).tolist()
    jobs = log.values["job_id"].tolist()
    charged = {job: of_group[group] for job, group in zip(jobs, group_of, strict=True) if group in of_group}
    return Accounts(tuple(projects), charged, log.epoch), Account(log.name, tuple(missing))


def _group_code(log: JobLog, group: object, where: str) -> int:
    """Return the code of a group by its name, where the log has names, else the code itself."""
    names = log.categories.get("group")
    if isinstance(group, str) and names is not None:
        if group not in names:
            raise JobcastError(f"{where}: {unknown_name('group', group, names[:20])}")
        return names.index(group)
    if isinstance(group, bool) or not isinstance(group, int):
        raise JobcastError(f"{where}: {log.name} has groups by number; got {group!r}.")
    return group
