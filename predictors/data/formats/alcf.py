"""ALCF's public job logs (CSV), and its RAS logs of failures.

Columns are found by name, in any order and case. Their jobs have whole nodes, so that a processor of the job log is a
node; `cores` keeps the cores. What the columns mean: Allcock et al., Experience and Practice of Batch Scheduling on
Leadership Supercomputers at Argonne, JSSPP 2017, doi 10.1007/978-3-319-77398-8_1.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import log_name, read_bytes
from predictors.core.errors import JobcastError
from predictors.core.validation import known_zone
from predictors.data.formats import columns
from predictors.data.formats._delimited import Table, header_names, quoted_table
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, clocked, finish
from predictors.data.joblog import UNKNOWN, JobLog
from predictors.data.report import Effect, ReadingReport, ReportBuilder

ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # their names for a log's columns, the better first
    {
        "id": ("COBALT_JOBID", "JOBID", "JOB_ID", "JOB_NAME"),
        "submit": ("QUEUED_TIMESTAMP", "SUBMIT_TIMESTAMP", "QUEUED_TIME", "SUBMIT_TIME"),
        "start": ("START_TIMESTAMP", "START_TIME"),
        "end": ("END_TIMESTAMP", "END_TIME"),
        "run_time": ("RUNTIME_SECONDS",),
        "requested_time": ("WALLTIME_SECONDS", "REQUESTED_WALLTIME_SECONDS"),
        "requested_nodes": ("NODES_REQUESTED", "REQUESTED_NODES"),
        "nodes": ("NODES_USED", "USED_NODES"),
        "cores": ("CORES_USED", "USED_CORES"),
        "eligible_wait": ("ELIGIBLE_WAIT_SECONDS",),
        "exit_code": ("EXIT_STATUS", "EXIT_CODE"),
        "overburn": ("IS_OVERBURN",),
        "user": ("USERNAME_GENID", "COBALT_USER_NAME_GENID", "USER_NAME_GENID", "USER_GENID"),
        "project": ("PROJECT_NAME_GENID", "COBALT_PROJECT_NAME_GENID", "PROJECT_GENID"),
        "queue": ("QUEUE_NAME", "QUEUE_GENID", "QUEUE"),
        "partition": ("MACHINE_PARTITION",),
        "location": ("LOCATION", "MACHINE_PARTITION"),
        "mode": ("MODE",),
        "machine": ("MACHINE_NAME",),
        "deleted": ("DELETED_BY_GENID",),
    }
)

_NAMED: Final = ("user", "project", "queue", "partition", "location", "mode")
_NUMBERS: Final = ("requested_nodes", "nodes", "cores", "exit_code", "overburn")
_MARKS: Final = frozenset(("queued_timestamp", "nodes_used", "used_nodes", "nodes_requested", "walltime_seconds"))


def is_alcf(data: bytes) -> bool:
    """Return whether a text begins with at least two names of these files between commas."""
    return len({name.lower() for name in header_names(data[:50_000], ",")} & _MARKS) >= 2


def parse_alcf(
    data: bytes, source: str, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return the log that such a file holds, and the account; times without a `time_zone` are taken as UTC."""
    ledger = ReportBuilder(source, RULES)
    table = quoted_table(data, source, [a for aliases in ALIASES.values() for a in aliases], ledger)
    found = {key: name for key, aliases in ALIASES.items() if (name := table.first(aliases))}
    _require(found, table, source)
    _note_missing(found, ledger)
    ledger.note_unused(table.names, [*found.values(), *ALIASES["id"]])
    draft = Draft(source, _ids(table, ledger), table.places, ledger)
    column = {key: table.columns[name] for key, name in found.items()}
    draft.numbers |= clocked(
        {key: column[key] for key in ("submit", "start", "end") if key in column}, draft, time_zone
    )
    for key in _NUMBERS:
        if key in column:
            draft.numbers[key] = columns.numbers(column[key], key, draft.report)
    for key in ("run_time", "requested_time", "eligible_wait"):
        if key in column:
            draft.numbers[key] = columns.spans_of(column[key], key, draft.report)
    draft.numbers["requested_procs"] = draft.number("requested_nodes")
    draft.numbers["allocated_procs"] = draft.number("nodes")
    for key in _NAMED:
        if key in column:
            draft.names[key] = columns.names(column[key])
    if "project" in draft.names:
        draft.names["group"] = draft.names["project"]
    _status(draft, column)
    machines = columns.names(column["machine"])[1] if "machine" in column else ()
    if len(machines) > 1:
        ledger.note("columns", f"jobs of several machines: {', '.join(machines)[:80]}")
    header = (("Computer", ", ".join(machines)[:200]),) if machines else ()
    return finish(draft, log_name(source), strict, time_zone=time_zone, header=header)


def _require(found: Mapping[str, str], table: Table, source: str) -> None:
    ends = "end" if "start" in found else "start"
    needed = ["submit", "start", *([] if "run_time" in found else [ends])]
    lacking = [ALIASES[key][0] for key in needed if key not in found]
    if not {"nodes", "requested_nodes"} & set(found):
        lacking.append(ALIASES["nodes"][0])
    if lacking:
        raise JobcastError(
            f"{source}: lacks the column {', '.join(lacking)} (it has {', '.join(table.names[:8])}, …); such a file is "
            "read by the names in its first line."
        )


def _note_missing(found: Mapping[str, str], ledger: ReportBuilder) -> None:
    for key in ("id", "requested_time", "user", "project", "queue", "exit_code", "run_time"):
        if key not in found:
            ledger.note(
                "columns", f"no column {ALIASES[key][0]}; {'job ids are' if key == 'id' else key + ' is'} not known"
            )


def _ids(table: Table, ledger: ReportBuilder) -> list[str]:
    """Return the jobs' ids from the column that distinguishes most jobs: in some files one is the same throughout."""
    texts = {alias.lower(): table.columns[alias.lower()] for alias in ALIASES["id"] if alias.lower() in table.columns}
    if not texts:
        return [str(number) for number in range(1, len(table) + 1)]
    distinct = dict[str, int]()
    for name, column in texts.items():
        distinct[name] = len(column.unique())
        if distinct[name] == len(table):
            break
    best = max(distinct, key=lambda name: distinct[name])
    if best != next(iter(texts)):
        ledger.note("columns", f"ids are taken from {best.upper()}: it distinguishes {distinct[best]:,} jobs")
    return columns.ids(texts[best])


def _status(draft: Draft, column: Mapping[str, object]) -> None:
    """Set the status: completed with exit code 0, cancelled if the job was deleted, else failed."""
    code = draft.number("exit_code")
    ended = (draft.number("end") != columns.MISSING) | (draft.number("run_time") != columns.MISSING)
    status = np.where(code == 0, COMPLETED, FAILED)
    if "deleted" in column:
        deleted = columns.known_texts(column["deleted"])
        status[deleted] = CANCELLED
        draft.waiting = deleted & (draft.number("start") == columns.MISSING) & (draft.number("end") != columns.MISSING)
        code = np.where(deleted & (code == columns.MISSING), CANCELLED, code)
    draft.numbers["status"] = np.where(ended & (code != columns.MISSING), status, columns.MISSING)


FAILURE_ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # the names of columns, the better first
    {
        "time": ("EVENT_TIME", "TIMESTAMP", "TIME", "FIRST_OCCURRENCE"),
        "severity": ("SEVERITY",),
        "job": ("COBALT_JOBID", "JOBID", "JOB_ID", "JOB"),
        "location": ("BLOCK", "PARTITION", "LOCATION", "NODE"),
    }
)

FAILURE_RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        **RULES,
        "not-fatal": ("noted", "of another severity than FATAL; not counted"),
        "no-time": ("dropped", "an event has a time"),
        "no-job": ("noted", "no job of the log ran there then; counted as a failure of no job"),
    }
)


@dataclass(frozen=True)
class Failures:
    """Failures, and the jobs that they hit."""

    time: Ints  # shape (n,); seconds since the job log's first submission
    row: Ints  # shape (n,); row of the job in its log, `UNKNOWN` where none was hit


def read_failures(path: str | os.PathLike[str], log: JobLog) -> tuple[Failures, ReadingReport]:
    """Read a CSV of failures: `EVENT_TIME`, and of `JOBID` and `LOCATION` at least one; of `SEVERITY`, FATAL alone.

    An event belongs to the job of its id, else to the one that ran at its location then. Local times are taken to be in
    the job log's own zone. The log needs a date, and ids or places of the kind that the file has.
    """
    source = os.fspath(path)
    if log.epoch is None:
        raise JobcastError(f"{log.name}: has no clock, so that no failure can be placed in it.")
    ledger = ReportBuilder(source, FAILURE_RULES)
    table = quoted_table(read_bytes(path), source, [a for aliases in FAILURE_ALIASES.values() for a in aliases], ledger)
    column = {key: table.columns[found] for key, aliases in FAILURE_ALIASES.items() if (found := table.first(aliases))}
    if "time" not in column or not {"job", "location"} & set(column):
        lacking = "EVENT_TIME" if "time" not in column else "JOBID or LOCATION"
        raise JobcastError(f"{source}: lacks the column {lacking} (it has {', '.join(table.names[:8])}).")
    time = _since_first(column["time"], log)
    rows = np.arange(len(table))
    ledger.add("no-time", table.places(rows[time == columns.MISSING]))
    kept = (time != columns.MISSING) & _fatal(column, table, ledger)
    hit = np.full(len(table), UNKNOWN, dtype=np.int64)
    if "job" in column:
        hit = _by_id(column["job"].to_pylist(), log)
    if "location" in column and "location" in log.values:
        left = np.flatnonzero(kept & (hit == UNKNOWN))
        hit[left] = _by_place(time[left], [column["location"][int(k)].as_py() for k in left], log)
    ledger.add("no-job", table.places(rows[kept & (hit == UNKNOWN)]))
    return Failures(time[kept], hit[kept]), ledger.close()


def _since_first(column: Any, log: JobLog) -> Ints:
    found = columns.timestamps(column)
    unix = found.seconds
    if log.time_zone:
        known_zone(log.time_zone)
        unix = np.where(found.fixed, unix, columns.unix_time(unix, log.time_zone))
    return np.where(unix == columns.MISSING, columns.MISSING, unix - (log.epoch or 0))


def _fatal(column: Mapping[str, Any], table: Table, ledger: ReportBuilder) -> Bools:
    if "severity" not in column:
        return np.ones(len(table), dtype=np.bool_)
    fatal: Bools = columns.by_name(
        columns.names(column["severity"]), lambda text: text.strip().upper() == "FATAL", unknown=False
    )
    ledger.add("not-fatal", table.places(np.flatnonzero(~fatal)))
    return fatal


def _by_id(texts: list[str], log: JobLog) -> Ints:
    labels = log.names("label")
    rows = {str(job): row for row, job in enumerate(log.filled("job_id").tolist())}
    if labels:
        rows |= {labels[code]: row for row, code in enumerate(log.filled("label").tolist()) if 0 <= code < len(labels)}
    return np.array([rows.get(text, rows.get(text.split(".")[0], UNKNOWN)) for text in texts], dtype=np.int64)


def _by_place(time: Ints, places: list[str], log: JobLog) -> Ints:
    found = np.full(len(time), UNKNOWN, dtype=np.int64)
    code_of = {name: code for code, name in enumerate(log.names("location"))}
    start = log.filled("submit") + log.filled("wait", 0)
    end = start + log.filled("run_time", 0)
    by_code: dict[int, Ints] = {}
    for k, place in enumerate(places):
        code = code_of.get(place)
        if code is None:
            continue
        if code not in by_code:
            by_code[code] = np.flatnonzero(log.filled("location") == code)
        rows = by_code[code]
        running = rows[(start[rows] <= time[k]) & (time[k] <= end[rows])]
        if len(running):
            found[k] = running[-1]
    return found
