"""What an operator does by hand: check the site before, and clear every soft limit after."""

import getpass
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError, counted
from predictors.probes.commands import run
from predictors.schedulers.journal import CLEARED, INTENDED, NOT_DONE, Journal
from predictors.schedulers.slurm import Scheduler
from predictors.schedulers.slurm_text import Config
from predictors.schedulers.soft_limit import MINUTE, PENDING, QueuedJob
from predictors.schedulers.table import parse

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"
_COMMANDS: Final = ("squeue", "scontrol", "sinfo", "sacct")
_ROUNDS: Final = 5
_CLOCKS: Final = 60
"""Clocks may differ by so much [s]."""


@dataclass(frozen=True)
class Finding:
    """One line of the acceptance: ok, warn or fail; what was looked at, and what was found."""

    status: str
    what: str
    found: str


@dataclass
class Cleared:
    """What became of the soft limits: how many were cleared, and which pending jobs still have one of ours."""

    cleared: int = 0
    left: dict[int, str] = field(default_factory=dict)
    others: int = 0
    """Pending jobs with a soft limit of their user's own."""


def clear_all(scheduler: Scheduler, journal: Journal) -> Cleared:
    """Set TimeMin=0 on every pending job whose soft limit is ours by the journal, and read back.

    Only then may the option be taken out of SchedulerParameters: without it, a job that still has a soft limit is ended
    there.

    Raises
    ------
    JobcastError
        If the scheduler does not answer.
    """
    done = Cleared()
    for _ in range(_ROUNDS):
        now = scheduler.config().now
        pending = [job for job in scheduler.queue().jobs if job.state == PENDING and job.soft]
        ours = {job.target: job for job in pending if job.soft and job.soft // MINUTE in journal.ours(job)}
        done.others = len({job.target for job in pending} - ours.keys())
        done.cleared += len(done.left.keys() - ours.keys())
        if not ours:
            done.left = {}
            return done
        journal.add([_record(job, now, INTENDED) for job in ours.values()])
        refused = scheduler.write(dict.fromkeys(ours, 0))
        shown = {job.target: job for job in scheduler.queue().jobs if job.state == PENDING and job.soft}
        records, done.left = [], {}
        for target, job in ours.items():
            if target in shown and shown[target].soft == job.soft:
                done.left[target] = refused.get(target, "the scheduler took the change and did not make it")
                records.append(_record(job, now, NOT_DONE) | {"why": done.left[target]})
            else:
                done.cleared += 1
                records.append(_record(job, now, CLEARED))
        journal.add(records)
        if not done.left:
            return done
    return done


def _record(job: QueuedJob, now: int, what: str) -> dict[str, object]:
    found: dict[str, object] = {"at": now, "what": what, "job": job.target, "submission": job.submit or 0, "minutes": 0}
    return found | {"why": "jobcast slurm clear", "requeued": bool(job.restarts or job.task)}


def check_site(scheduler: Scheduler, journal: Path, table: Path | None = None) -> Iterator[Finding]:
    """Yield whether a site is ready, a line each; nothing is changed.

    Parameters
    ----------
    journal : Path
        The folder of the journal.
    table : Path, optional
        The table for submission.
    """
    missing = [name for name in _COMMANDS if shutil.which(name) is None]
    yield Finding(FAIL if missing else OK, "commands", f"not on the PATH: {', '.join(missing)}" if missing else "there")
    try:
        config = scheduler.config()
    except JobcastError as error:
        yield Finding(FAIL, "slurmctld", str(error))
        return
    yield from _about_config(config)
    yield _about_rights()
    yield from _about_queue(scheduler, config)
    yield _about_journal(journal)
    if table is not None:
        yield _about_table(table, config)


def _about_config(config: Config) -> Iterator[Finding]:
    shown = f"Slurm {config.shown}, cluster {config.cluster or '(no name)'}"
    yield Finding(OK, "slurmctld", shown)
    if config.refusal:
        yield Finding(FAIL, "soft limits", config.refusal)
    else:
        yield Finding(WARN if config.warning else OK, "soft limits", config.warning or "they are soft")
    backfills = config.scheduler == "sched/backfill"
    found = config.scheduler or "not told"
    yield Finding(OK if backfills else FAIL, "scheduler", found if backfills else f"{found}: it plans nothing ahead")
    apart = config.now - int(time.time())
    near = abs(apart) <= _CLOCKS
    yield Finding(OK if near else WARN, "clock", "as this machine's" if near else f"{apart:+,} s beside this machine's")


def _about_rights() -> Finding:
    """Tell whether other users' jobs may be changed, by the account's level; nothing is tried."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    told = run(["scontrol", "show", "config"])
    owner = re.search(r"^SlurmUser\s*= (\S+?)\(", told.out, re.MULTILINE)
    if user == "root" or (owner is not None and owner[1] == user):
        return Finding(OK, "rights", f"{user} is {'root' if user == 'root' else 'SlurmUser'}")
    level = run(["sacctmgr", "-n", "-P", "show", "user", f"name={user}", "format=adminlevel"]).out.strip()
    if level in ("Operator", "Administrator"):
        return Finding(OK, "rights", f"{user} is {level}")
    return Finding(
        FAIL,
        "rights",
        f"{user} is {level or 'not known to sacctmgr'}: sacctmgr modify user {user} set adminlevel=Operator",
    )


def _about_queue(scheduler: Scheduler, config: Config) -> Iterator[Finding]:
    try:
        begin = time.perf_counter()
        rows = scheduler.queue()
        took = time.perf_counter() - begin
        users = len({job.user for job in rows.jobs})
        seen = f"{counted(len(rows.jobs), 'job')} of {counted(users, 'user')} in {took:.2f} s"
        yield Finding(
            WARN if rows.bad else OK, "queue", f"{seen}; rows not read: {rows.problems}" if rows.bad else seen
        )
        if "jobs" in config.private.split(","):
            yield Finding(WARN, "privacy", "PrivateData=jobs: who is no Operator sees only his own jobs")
        own = sum(1 for job in rows.jobs if job.state == PENDING and job.soft)
        if own:
            yield Finding(WARN, "TimeMin", f"{counted(own, 'pending job')} have one: users' own stay, and are soft now")
        coming = scheduler.reservations()
        scheduler.partitions()
        yield Finding(OK, "reservations", counted(len(coming), "reservation"))
        ended = scheduler.ended_since(config.now - 3600)
        yield Finding(
            OK if ended is not None else WARN, "accounts",
            "no accounts are kept: ends are seen in the queue alone" if ended is None else "sacct answers",
        )  # fmt: skip
    except JobcastError as error:
        yield Finding(FAIL, "queue", str(error))


def _about_journal(folder: Path) -> Finding:
    try:
        with Journal(folder) as journal:
            n_open = len(journal.open_jobs())
    except JobcastError as error:
        return Finding(FAIL, "journal", str(error))
    return Finding(OK, "journal", f"{folder}: {counted(n_open, 'job')} with a soft limit of ours")


def _about_table(path: Path, config: Config) -> Finding:
    try:
        table = parse(path.read_text(encoding="utf-8"), config.cluster, config.now)
    except (OSError, ValueError) as error:
        return Finding(FAIL, "table", f"{path}: {error}")
    return Finding(OK, "table", f"{path}: {counted(len(table.rows), 'row')}, {'set' if table.sets else 'advise'}")
