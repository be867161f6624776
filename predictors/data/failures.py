"""A log of failures (RAS: reliability, availability, serviceability) as events of a job log's jobs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.data.account import Account, Effect, Ledger
from predictors.data.cells import names
from predictors.data.clocks import known_zone
from predictors.data.errors import JobcastError
from predictors.data.joblog import UNKNOWN, Ints, JobLog
from predictors.data.moments import MISSING, moments, unix_time
from predictors.data.records import RULES
from predictors.data.sources import read_bytes
from predictors.data.tables import Table, quoted_table

ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "time": ("EVENT_TIME", "TIMESTAMP", "TIME", "FIRST_OCCURRENCE"),
        "severity": ("SEVERITY",),
        "job": ("COBALT_JOBID", "JOBID", "JOB_ID", "JOB"),
        "location": ("BLOCK", "PARTITION", "LOCATION", "NODE"),
    }
)
"""The names under which such a file tells what is needed, the better one first."""

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
    """Failures, and the jobs that they hit.

    Parameters
    ----------
    time : int64 array of shape (n,)
        Seconds since the job log's first submission.
    row : int64 array of shape (n,)
        Row of the job in its log, `UNKNOWN` where none was hit.
    """

    time: Ints
    row: Ints


def read_failures(path: str | os.PathLike[str], log: JobLog) -> tuple[Failures, Account]:
    """Read a CSV of failures: `EVENT_TIME`, and of `JOBID` and `LOCATION` at least one; of `SEVERITY`, FATAL alone.

    An event belongs to the job of its id, else to the one that ran at its location then. Local times are taken to be
    in the job log's own zone.

    Raises
    ------
    JobcastError
        If the file cannot be read, lacks a column, or the job log has no clock or nothing to match with.
    """
    source = os.fspath(path)
    if log.epoch is None:
        raise JobcastError(f"{log.name}: does not tell its clock, so that no failure can be placed in it.")
    ledger = Ledger(source, FAILURE_RULES)
    table = quoted_table(read_bytes(path), source, [a for aliases in ALIASES.values() for a in aliases], ledger)
    column = {key: table.columns[found] for key, aliases in ALIASES.items() if (found := table.first(aliases))}
    if "time" not in column or not {"job", "location"} & set(column):
        lacking = "EVENT_TIME" if "time" not in column else "JOBID or LOCATION"
        raise JobcastError(f"{source}: lacks the column {lacking} (it has {', '.join(table.names[:8])}).")
    time = _since_first(column["time"], log)
    rows = np.arange(len(table))
    ledger.add("no-time", table.places(rows[time == MISSING]))
    kept = (time != MISSING) & _fatal(column, table, ledger)
    hit = np.full(len(table), UNKNOWN, dtype=np.int64)
    if "job" in column:
        hit = _by_id(column["job"].to_pylist(), log)
    if "location" in column and "location" in log.values:
        left = np.flatnonzero(kept & (hit == UNKNOWN))
        hit[left] = _by_place(time[left], [column["location"][int(k)].as_py() for k in left], log)
    ledger.add("no-job", table.places(rows[kept & (hit == UNKNOWN)]))
    return Failures(time[kept], hit[kept]), ledger.close()


def _since_first(column: Any, log: JobLog) -> Ints:
    found = moments(column)
    unix = found.seconds
    if log.time_zone:
        known_zone(log.time_zone)
        unix = np.where(found.fixed, unix, unix_time(unix, log.time_zone))
    return np.where(unix == MISSING, MISSING, unix - (log.epoch or 0))


def _fatal(column: Mapping[str, Any], table: Table, ledger: Ledger) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    if "severity" not in column:
        return np.ones(len(table), dtype=np.bool_)
    codes, texts = names(column["severity"])
    fatal = np.array([text.strip().upper() == "FATAL" for text in texts] + [False], dtype=np.bool_)
    found = fatal[np.where(codes == MISSING, len(texts), codes)]
    ledger.add("not-fatal", table.places(np.flatnonzero(~found)))
    return found


def _by_id(texts: list[str], log: JobLog) -> Ints:
    """Return the rows of jobs by their ids, in words or numbers."""
    labels = log.names("label")
    rows = {str(job): row for row, job in enumerate(log.filled("job_id").tolist())}
    if labels:
        rows |= {labels[code]: row for row, code in enumerate(log.filled("label").tolist()) if 0 <= code < len(labels)}
    return np.array([rows.get(text, rows.get(text.split(".")[0], UNKNOWN)) for text in texts], dtype=np.int64)


def _by_place(time: Ints, places: list[str], log: JobLog) -> Ints:
    """Return the rows of the jobs that ran at a place at a time."""
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
