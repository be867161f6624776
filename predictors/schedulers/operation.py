"""What an operator does by hand: check the site before, and clear every soft limit after."""

import fcntl
import getpass
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError, counted
from predictors.probes.commands import run
from predictors.schedulers.adapter import about
from predictors.schedulers.feed import has_ended
from predictors.schedulers.journal import CLEARED, INTENDED, NOT_DONE, Journal, Record
from predictors.schedulers.slurm import FILTERS, WAITING, Scheduler, called
from predictors.schedulers.slurm_text import Config
from predictors.schedulers.soft_limit import PENDING, QueuedJob
from predictors.schedulers.table import parse

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"
_COMMANDS: Final = ("squeue", "scontrol", "sinfo", "sacct")
_ROUNDS: Final = 5
_CLOCKS: Final = 60  # clocks may differ by so much [s]


@dataclass(frozen=True)
class Finding:
    """One line of the acceptance: ok, warn or fail; what was checked, and what was found."""

    status: str
    what: str
    found: str


@dataclass
class Cleared:
    """What became of the soft limits."""

    cleared: int = 0  # jobs, and tasks of arrays, with a cleared soft limit
    left: dict[str, str] = field(default_factory=dict)  # those that wait and still have one of ours, by id, and why
    # those that have begun with one of ours and have not ended, by id, and their state. Slurm does not change these; a
    # requeue would bring such a soft limit back to the queue.
    running: dict[str, str] = field(default_factory=dict)
    others: int = 0  # those that wait with a soft limit that this journal knows nothing of
    troubles: list[str] = field(default_factory=list)  # what the journal could not take


def clear_all(scheduler: Scheduler, journal: Journal) -> Cleared:
    """Set TimeMin=0 on every waiting or held job with a soft limit that is ours by the journal, and read back.

    Only then may the option be taken out of SchedulerParameters, and only if nothing runs with a soft limit of ours:
    without the option, a job that still has one when it starts is ended there.
    """
    done, ever = Cleared(troubles=[journal.trouble] if journal.trouble else []), set[str]()
    for at in range(_ROUNDS):
        now = scheduler.config().now
        jobs = [job for job in scheduler.queue().jobs if job.soft and not has_ended(job)]
        ours = {job.key: job for job in jobs if journal.is_ours(job)}
        waiting = {name: job for name, job in ours.items() if job.state in WAITING}
        done.others = sum(1 for job in jobs if job.state in WAITING and job.key not in ours)
        done.running = {name: job.state for name, job in ours.items() if name not in waiting}
        done.left = {name: why for name, why in done.left.items() if name in waiting}
        done.cleared = len(ever - ours.keys())
        if not waiting or at == _ROUNDS - 1:
            break
        ever |= waiting.keys()
        _keep(journal, [_record(job, now, INTENDED) for job in waiting.values()], done)
        users = {job.target for job in jobs if job.key not in ours}
        grouped: dict[int, list[QueuedJob]] = {}
        for job in waiting.values():
            grouped.setdefault(job.target, []).append(job)
        names = {called(target, those, whole=target not in users): those for target, those in grouped.items()}
        marks = {name: scheduler.mark(those, 0) for name, those in names.items()}
        refused: Mapping[str, str] = {}
        why = "the scheduler took the change and did not make it"
        try:
            refused = scheduler.write(dict.fromkeys(names, 0), marks)
        except JobcastError as error:  # a part may have been done: what is there is read
            why = str(error)
        shown = {job.key for job in scheduler.queue().jobs if journal.is_ours(job) and not has_ended(job)}
        done.left = {
            name: refused.get(name) or refused.get(str(job.target)) or why
            for name, job in waiting.items()
            if name in shown
        }
        records = [
            _record(job, now, NOT_DONE) | {"why": done.left[name]} if name in shown else _record(job, now, CLEARED)
            for name, job in waiting.items()
        ]
        _keep(journal, records, done)
    return done


def _keep(journal: Journal, records: Sequence[Record], done: Cleared) -> None:
    """Add records; a journal that cannot be written stops no clearing."""
    try:
        journal.add(records)
    except JobcastError as error:
        if str(error) not in done.troubles:
            done.troubles.append(str(error))


def _record(job: QueuedJob, now: int, what: str) -> dict[str, object]:
    return about(job, now, what, 0) | {"why": "jobcast slurm clear"}


def check_site(scheduler: Scheduler, journal: Path, table: Path | None = None) -> Iterator[Finding]:
    """Yield whether a site is ready, a line each; nothing is changed."""
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
    found = config.scheduler or "unknown"
    yield Finding(OK if backfills else FAIL, "scheduler", found if backfills else f"{found}: it plans nothing ahead")
    apart = config.now - int(time.time())
    near = abs(apart) <= _CLOCKS
    yield Finding(OK if near else WARN, "clock", "as this machine's" if near else f"{apart:+,} s from this machine's")


def _about_rights() -> Finding:
    """Tell whether other users' jobs may be changed, by the account's level; nothing is tried."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    told = run(["scontrol", "show", "config"], without=FILTERS)
    owner = re.search(r"^SlurmUser\s*= (\S+?)\(", told.out, re.MULTILINE)
    if user == "root" or (owner is not None and owner[1] == user):
        return Finding(OK, "rights", f"{user} is {'root' if user == 'root' else 'SlurmUser'}")
    level = run(
        ["sacctmgr", "-n", "-P", "show", "user", f"name={user}", "format=adminlevel"], without=FILTERS
    ).out.strip()
    if level in ("Operator", "Administrator"):
        marks = "; AdminComment needs an Administrator, so mark jobs by --mark comment" if level == "Operator" else ""
        return Finding(OK, "rights", f"{user} is {level}{marks}")
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
    """Tell whether a journal can be there; nothing is made, and one that is in use stays so."""
    if not folder.exists():
        above = next(one for one in folder.absolute().parents if one.exists())
        if os.access(above, os.W_OK | os.X_OK):
            return Finding(OK, "journal", f"{folder}: not there yet; the first adapter makes it")
        return Finding(FAIL, "journal", f"{folder}: is not there, and {above} cannot be written by this user")
    own = folder.stat().st_uid
    try:
        files = [one for one in folder.iterdir() if one.is_file()]
        closed = [one for one in (folder, *files) if not os.access(one, os.R_OK | os.W_OK)]
        apart = [one for one in files if one.stat().st_uid != own]
    except OSError as error:
        return Finding(FAIL, "journal", f"{folder}: cannot be read ({error.strerror})")
    if closed or not folder.is_dir():
        return Finding(FAIL, "journal", f"{closed[0] if closed else folder}: cannot be written by this user")
    if apart:
        return Finding(
            FAIL,
            "journal",
            f"{apart[0]}: belongs to another user than its folder; chown it, or no adapter may write it",
        )
    used = "in use by an adapter" if _is_locked(folder / "lock") else f"{counted(len(files), 'file')}, not in use"
    return Finding(OK, "journal", f"{folder}: {used}")


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _about_table(path: Path, config: Config) -> Finding:
    try:
        table = parse(path.read_text(encoding="utf-8"), config.cluster, config.now)
    except (OSError, ValueError) as error:
        return Finding(FAIL, "table", f"{path}: {error}")
    return Finding(OK, "table", f"{path}: {counted(len(table.rows), 'row')}, {'set' if table.sets else 'advise'}")
