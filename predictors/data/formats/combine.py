"""Months of one machine joined to one log; a log cut at a time.

A job that was queued or running at the end of a month is in both files. A job is identified by its id, the scheduler's
text where the log has it, and its second of submission.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.data.formats import slurm
from predictors.data.formats.detect import is_parquet, read_log
from predictors.data.formats.swf_header import without_extent
from predictors.data.joblog import CODED, KNOWN_COLUMNS, UNKNOWN, JobLog
from predictors.data.names import Codes, renumbered
from predictors.data.report import Effect, ReadingReport, ReportBuilder

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(  # of the report on joining
    {
        "in-two-files": ("dropped", "the same job is in a later file, too, and is kept there"),
        "not-ended-there": ("dropped", "had not ended in that file; another record of the job is kept"),
        "earlier-attempt": ("dropped", "a run after which the job went back into the queue; its last run is kept"),
        "ids": ("noted", "different jobs have one id; jobs are numbered by submission, labels keep the ids"),
        "clock": ("noted", "no file has a date; their times are taken as of one clock"),
    }
)

_CODED: Final = tuple(column for column in CODED if column != "label")


def read_logs(
    paths: Sequence[str | os.PathLike[str]], strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Read one log, or join several of a machine; files with local times and with Unix times do not mix."""
    read = [read_log(path, strict, time_zone) for path in paths]
    if len(read) == 1:
        return read[0]
    _check_one_clock(paths, read)
    log, account = joined([log for log, _ in read])
    for _, own in read:
        account = account + own
    return log, account


def _check_one_clock(paths: Sequence[str | os.PathLike[str]], read: Sequence[tuple[JobLog, ReadingReport]]) -> None:
    """Refuse local times together with Unix times, since they may differ by hours; Parquet files are not checked."""
    local, fixed = [], []
    for path, (log, account) in zip(paths, read, strict=True):
        if account.count("local-time"):
            local.append(path)
        elif log.epoch is not None and not is_parquet(path):
            fixed.append(path)
    if local and fixed:
        raise JobcastError(
            f"{os.fspath(local[0])} writes local times without their zone, {os.fspath(fixed[0])} does not: hours "
            "apart, one job would be two; give the zone, as with --time-zone Europe/Paris."
        )


def joined(logs: Sequence[JobLog]) -> tuple[JobLog, ReadingReport]:
    """Return one log of all jobs, and the report of the records that were in two.

    The order of the logs makes no difference: the one that begins first gives codes and header. Job ids stay unless one
    belongs to two submissions: then jobs get new numbers by submission, and `label` keeps the ids. Logs of different
    machines or clocks, names next to numbers, and records that contradict each other are refused.

    >>> march = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 50], "run_time": [9, 0]},
    ...                             {"run_time": [False, True]}, epoch=1_000_000_000, name="march")
    >>> april = JobLog.from_columns({"job_id": [2, 3], "submit": [0, 60], "run_time": [70, 8]}, {}, epoch=1_000_000_050)
    >>> both, account = joined([march, april])
    >>> both["job_id"].tolist(), both["submit"].tolist(), both["run_time"].tolist()
    ([1, 2, 3], [0, 50, 110], [9, 70, 8])
    >>> account.count("not-ended-there")
    1
    """
    if not logs:
        raise JobcastError("There is no log to join.")
    logs = sorted([log for log in logs if len(log)] or logs[:1], key=lambda log: (log.epoch or 0, log.origin, log.name))
    report = ReportBuilder(", ".join(log.name for log in logs), RULES, place="job")
    about = _machine(logs)
    base = _base(logs, report)
    logs, categories = _by_name(logs)
    jobs = _Jobs.of(logs, base)
    rows = _kept(jobs, report)
    columns = [c for c in KNOWN_COLUMNS if c != "label" and any(c in log.values for log in logs)]
    values = {c: np.concatenate([log.filled(c) for log in logs])[rows] for c in columns}
    unknown = {c: np.concatenate([~log.known(c) for log in logs])[rows] for c in columns}
    values["submit"] = jobs.submit[rows]
    again = len(np.unique(values["job_id"])) < len(rows)
    if again:
        report.note("ids", RULES["ids"][1])
        values["job_id"], values["preceding_job"] = _numbered_anew(jobs, rows, values)
        unknown["preceding_job"] = values["preceding_job"] == UNKNOWN
    if again or any("label" in log.values for log in logs):
        values["label"], categories["label"] = np.arange(len(rows)), tuple(jobs.ids[row] for row in rows.tolist())
    if base is not None:
        about["epoch"] = base + int(min(values["submit"], default=0))
    name = logs[0].name if len(logs) == 1 else f"{logs[0].name} to {logs[-1].name}"
    header = logs[0].header if len(logs) == 1 else without_extent(logs[0].header)
    log = JobLog.from_columns(values, unknown, header=header, categories=categories, name=name, **about)
    return log, report.close()


@dataclass(frozen=True)
class _Jobs:
    """The jobs of several files, by what identifies them."""

    names: tuple[str, ...]  # of the files
    file: Ints
    ids: tuple[str, ...]  # the scheduler's id of each job
    submit: Ints
    start: Ints
    end: Ints
    ended: Bools
    user: Ints
    put_back: Bools  # runs after which a job may have gone back into the queue

    @classmethod
    def of(cls, logs: Sequence[JobLog], base: int | None) -> "_Jobs":
        first = [log.origin if base is None or log.epoch is None else log.epoch - base for log in logs]
        submit = np.concatenate([log.filled("submit") + begin for log, begin in zip(logs, first, strict=True)])
        start = submit + np.concatenate([log.filled("wait", 0) for log in logs])
        return cls(
            names=tuple(log.name for log in logs),
            file=np.repeat(np.arange(len(logs)), [len(log) for log in logs]),
            ids=tuple(text for log in logs for text in _ids(log)),
            submit=submit,
            start=start,
            end=start + np.concatenate([log.filled("run_time", 0) for log in logs]),
            ended=np.concatenate([log.known("run_time") for log in logs]),
            user=np.concatenate([log.filled("user") for log in logs]),
            put_back=np.concatenate([_put_back(log) for log in logs]),
        )


def _ids(log: JobLog) -> list[str]:
    ids = list(map(str, log.filled("job_id").tolist()))
    if "label" not in log.values:
        return ids
    texts = log.names("label")
    codes = log.filled("label").tolist()
    return [texts[code] if 0 <= code < len(texts) else own for code, own in zip(codes, ids, strict=True)]


def _put_back(log: JobLog) -> Bools:
    codes = [code for code, name in enumerate(log.names("state")) if name in slurm.PUT_BACK]
    return np.isin(log.filled("state"), codes)


def _machine(logs: Sequence[JobLog]) -> dict[str, Any]:
    """Return the machine of the logs; refuse logs of different machines."""
    about: dict[str, Any] = {}
    for field in ("time_zone", "max_procs", "max_nodes", "max_gpus"):
        for log in logs:
            value = getattr(log, field)
            if value is not None and about.setdefault(field, value) != value:
                other = next(one.name for one in logs if getattr(one, field) == about[field])
                raise JobcastError(
                    f"{log.name} is of a machine of {field} {value}, {other} of {field} {about[field]}: only logs of "
                    "one machine can be joined."
                )
    return about


def _base(logs: Sequence[JobLog], report: ReportBuilder) -> int | None:
    """Return the Unix time of the common clock's second 0, which is the first log's; None if no log has a date."""
    if len({log.epoch is None for log in logs}) > 1:
        one, other = (next(log.name for log in logs if (log.epoch is None) == is_none) for is_none in (True, False))
        raise JobcastError(f"{one} has no date, and {other} has one: their order is not known.")
    if logs[0].epoch is None:
        if len(logs) > 1:
            report.note("clock", RULES["clock"][1])
        return None
    return logs[0].epoch - logs[0].origin


def _by_name(logs: Sequence[JobLog]) -> tuple[list[JobLog], dict[str, tuple[str, ...]]]:
    """Return the logs in the codes of the first, and the names behind them; new names follow in the others' order."""
    known = {column: Codes() for column in _CODED}
    found: list[JobLog] = []
    for log in logs:
        log = renumbered(log, known, found[0].name if found else "")
        for column, codes in known.items():
            if log.known(column).any():
                own = Codes.of(log, column)
                known[column] = Codes(own.names or codes.names, max(own.free, codes.free))
        found.append(log)
    return found, {column: codes.texts() for column, codes in known.items() if codes.names}


def _kept(jobs: _Jobs, report: ReportBuilder) -> Ints:
    """Return the rows to keep, each job once, in the order of the files."""
    numbered = {text: number for number, text in enumerate(dict.fromkeys(jobs.ids))}
    ident = np.array([numbered[text] for text in jobs.ids], dtype=np.int64)
    again = np.flatnonzero(np.bincount(ident, minlength=len(numbered))[ident] > 1)
    order = again[np.lexsort((jobs.file[again], jobs.submit[again], ident[again]))].tolist()
    dropped: dict[int, str] = {}
    for _, runs in groupby(order, key=lambda row: jobs.ids[row]):
        last = []
        for _, same in groupby(runs, key=lambda row: int(jobs.submit[row])):
            records = list(same)
            if len(records) > 1 and len(set(jobs.file[records].tolist())) == 1:  # its reader took them for several jobs
                last.append(records[-1])
                continue
            kept, rules = _one_of(records, jobs)
            dropped |= rules
            last.append(kept)
        dropped |= {
            one: "earlier-attempt"
            for one, then in pairwise(last)
            if jobs.put_back[one] and not _others(one, then, jobs)
        }
    for rule in dict.fromkeys(dropped.values()):
        report.add(rule, [_place(jobs.ids[row]) for row, met in dropped.items() if met == rule])
    return np.setdiff1d(np.arange(len(jobs.ids)), list(dropped))


def _one_of(records: Sequence[int], jobs: _Jobs) -> tuple[int, dict[int, str]]:
    """Return the record that is the job, its last run, and the rules that drop others; refuse a contradiction."""
    if len(set(jobs.file[records].tolist())) < len(records):
        raise _tasks_without_numbers(records, jobs)
    dropped: dict[int, str] = {}
    kept = records[0]
    for other in records[1:]:
        if _others(kept, other, jobs):
            raise _contradiction(kept, other, jobs, "another user")
        if not jobs.ended[kept] and not jobs.ended[other]:
            rule = "not-ended-there"
        elif jobs.ended[kept] and not jobs.ended[other]:
            if jobs.start[other] < jobs.end[kept] or not jobs.put_back[kept]:
                dropped[other] = "not-ended-there"
                continue
            rule = "earlier-attempt"
        elif not jobs.ended[kept]:
            rule = "not-ended-there"
        elif jobs.start[kept] == jobs.start[other] and jobs.end[kept] == jobs.end[other]:
            rule = "in-two-files"
        elif jobs.end[kept] <= jobs.start[other]:
            rule = "earlier-attempt"
        else:
            raise _contradiction(kept, other, jobs, "other times")
        dropped[kept], kept = rule, other
    return kept, dropped


def _others(one: int, other: int, jobs: _Jobs) -> bool:
    """Return whether two records are of different users."""
    users = int(jobs.user[one]), int(jobs.user[other])
    return users[0] != users[1] and UNKNOWN not in users


def _tasks_without_numbers(records: Sequence[int], jobs: _Jobs) -> JobcastError:
    first, second = list(dict.fromkeys(jobs.names[jobs.file[row]] for row in records))[:2]
    return JobcastError(
        f"Job {jobs.ids[records[0]]}: stands for several tasks of an array without their numbers, in {first} and "
        f"{second}: which task is which is not known, so none can be counted once. Export the tasks with their "
        "numbers, such as 12_3 (sacct's JobID), or export all of them into one file."
    )


def _contradiction(one: int, other: int, jobs: _Jobs, what: str) -> JobcastError:
    first, second = (jobs.names[jobs.file[row]] for row in (one, other))
    return JobcastError(
        f"Job {jobs.ids[one]}: {second} has {what} for it than {first}, but the same submission: they "
        "are not of one machine, or one was changed; leave one of them out."
    )


def _place(text: str) -> int:
    """Return the leading number of a job id, which reports show."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if 0 < len(digits) < 19 else 0


def _numbered_anew(jobs: _Jobs, rows: Ints, values: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """Return new job ids, by submission, and the ids of the preceding jobs, unknown if these are not in the log."""
    new = np.empty(len(rows), dtype=np.int64)
    new[np.lexsort((rows, values["submit"]))] = np.arange(1, len(rows) + 1)
    file, old = jobs.file[rows].tolist(), values["job_id"].tolist()
    there = dict(zip(zip(file, old, strict=True), new.tolist(), strict=True))
    before = values["preceding_job"].tolist()
    preceding = [there.get(one, UNKNOWN) for one in zip(file, before, strict=True)]
    return new, np.array(preceding, dtype=np.int64)


CUT_RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(  # the rules of the report on cutting
    {
        "before": ("dropped", "submitted before the cut"),
        "after": ("dropped", "submitted at or after the cut"),
        "not-ended-yet": ("changed", "had not ended at the cut; its end is unknown"),
    }
)

_AT_START: Final = (
    "wait", "allocated_procs", "nodes", "cores", "allocated_gpus", "location", "descriptor", "eligible_wait",
)  # fmt: skip
_AT_END: Final = (
    "run_time", "cpu_time", "used_memory", "used_job_memory", "status", "exit_code", "state", "overburn", "restarts",
)  # fmt: skip


def between(log: JobLog, begin: str | None, until: str | None) -> tuple[JobLog, ReadingReport]:
    """Return the jobs of a dated log submitted from `begin` on, at least one, as known at `until`; and the report.

    `begin` and `until` are dates with or without a time, in the log's time zone, UTC if it has none, or Unix times [s];
    None: no limit.

    >>> log = JobLog.from_columns({"job_id": [1, 2, 3], "submit": [0, 50, 90], "wait": [0, 10, 0],
    ...                            "run_time": [9, 40, 5]}, {}, epoch=1_000_000_000)
    >>> past, account = between(log, None, "1000000080")
    >>> past["job_id"].tolist(), past["wait"].tolist(), past["run_time"].tolist()
    ([1, 2], [0, 10], [9, None])
    >>> between(log, "2001-09-09 01:48", None)[0]["job_id"].tolist()
    [3]
    """
    report = ReportBuilder(log.name, CUT_RULES, place="job")
    if begin is None and until is None:
        return log, report.close()
    ids, submit = log.filled("job_id"), log.filled("submit")
    kept = np.ones(len(log), dtype=np.bool_)
    if begin is not None:
        kept = submit >= _second(log, begin)
        report.add("before", ids[~kept])
    if until is not None:
        now = _second(log, until)
        report.add("after", ids[kept & (submit >= now)])
        kept &= submit < now
        started = submit + log.filled("wait", 0) < now
        ended = started & (submit + log.filled("wait", 0) + log.filled("run_time", 0) < now)
        report.add("not-ended-yet", ids[kept & ~ended & log.known("run_time")])
        log = _hidden(log, ~started, ~ended)
    if not kept.any():
        raise JobcastError(f"{log.name}: no job was submitted from {begin or 'its begin'} to {until or 'its end'}.")
    return _without_other_jobs(log.select(kept)), report.close()


def _hidden(log: JobLog, not_started: Bools, not_ended: Bools) -> JobLog:
    unknown = dict(log.unknown)
    for columns, rows in ((_AT_START, not_started), (_AT_END, not_ended)):
        unknown |= {column: log.unknown[column] | rows for column in columns if column in log.values}
    return replace(log, unknown=unknown)


def _without_other_jobs(log: JobLog) -> JobLog:
    """Return a log without traces of other jobs: their names, and their number in the header."""
    own = {}
    for column, names in log.categories.items():
        used = set(np.unique(log.filled(column)).tolist())
        own[column] = tuple(name if code in used else "" for code, name in enumerate(names[: max(used) + 1]))
    return replace(log, categories=own, header=without_extent(log.header))


def _second(log: JobLog, when: str) -> int:
    """Return a time on the log's clock [s]."""
    if log.epoch is None:
        raise JobcastError(f"{log.name}: has no date, so that it cannot be cut at {when}.")
    if when.isdecimal() and when.isascii() and len(when) < 16 and len(when) != 8:
        return int(when) - log.epoch
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        raise JobcastError(
            f"{when!r} is no time; give a date such as 2025-04-01 or 2025-04-01T12:00, or Unix time [s]."
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(log.time_zone) if log.time_zone else UTC)
    return int(np.floor(time.timestamp())) - log.epoch
