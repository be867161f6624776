"""What stood in a log at a moment, and what was submitted from then on? So that one log makes a past and a future."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from predictors.data.account import Account, Effect, Ledger
from predictors.data.errors import JobcastError
from predictors.data.joblog import Bools, JobLog
from predictors.data.swf_header import without_extent

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "before": ("dropped", "submitted before the moment asked for"),
        "after": ("dropped", "submitted at or after the moment asked for"),
        "not-ended-yet": ("changed", "had not ended at the moment asked for; what became of it is unknown"),
    }
)
"""What cutting may write into an account."""

_AT_START: Final = ("wait", "allocated_procs", "nodes", "cores", "location", "eligible_wait")
_AT_END: Final = ("run_time", "cpu_time", "used_memory", "status", "exit_code", "state", "overburn", "restarts")


def between(log: JobLog, begin: str | None, until: str | None) -> tuple[JobLog, Account]:
    """Return the jobs submitted from `begin` on, as they stood at `until`, and what was dropped or is unknown then.

    Parameters
    ----------
    log : JobLog
        It must tell its date.
    begin, until : str or None
        Dates with or without a time, in the log's time zone, UTC if it has none, or Unix times [s]; None: no limit.

    Raises
    ------
    JobcastError
        If a moment cannot be read, the log does not tell its date, or no job is left.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1, 2, 3], "submit": [0, 50, 90], "wait": [0, 10, 0],
    ...                            "run_time": [9, 40, 5]}, {}, epoch=1_000_000_000)
    >>> past, account = between(log, None, "1000000080")
    >>> past["job_id"].tolist(), past["wait"].tolist(), past["run_time"].tolist()
    ([1, 2], [0, 10], [9, None])
    >>> between(log, "2001-09-09 01:48", None)[0]["job_id"].tolist()
    [3]
    """
    ledger = Ledger(log.name, RULES, place="job")
    if begin is None and until is None:
        return log, ledger.close()
    ids, submit = log.filled("job_id"), log.filled("submit")
    kept = np.ones(len(log), dtype=np.bool_)
    if begin is not None:
        kept = submit >= _second(log, begin)
        ledger.add("before", ids[~kept])
    if until is not None:
        now = _second(log, until)
        ledger.add("after", ids[kept & (submit >= now)])
        kept &= submit < now
        started = submit + log.filled("wait", 0) < now
        ended = started & (submit + log.filled("wait", 0) + log.filled("run_time", 0) < now)
        ledger.add("not-ended-yet", ids[kept & ~ended & log.known("run_time")])
        log = _hidden(log, ~started, ~ended)
    if not kept.any():
        raise JobcastError(f"{log.name}: no job was submitted from {begin or 'its begin'} to {until or 'its end'}.")
    return _told_alone(log.select(kept)), ledger.close()


def _hidden(log: JobLog, not_started: Bools, not_ended: Bools) -> JobLog:
    unknown = dict(log.unknown)
    for columns, rows in ((_AT_START, not_started), (_AT_END, not_ended)):
        unknown |= {column: log.unknown[column] | rows for column in columns if column in log.values}
    return replace(log, unknown=unknown)


def _told_alone(log: JobLog) -> JobLog:
    """Return a log without what tells of other jobs: names that none of its own has, and how many there are."""
    own = {}
    for column, names in log.categories.items():
        used = set(np.unique(log.filled(column)).tolist())
        own[column] = tuple(name if code in used else "" for code, name in enumerate(names[: max(used) + 1]))
    return replace(log, categories=own, header=without_extent(log.header))


def _second(log: JobLog, when: str) -> int:
    """Return a moment on the log's clock [s]."""
    if log.epoch is None:
        raise JobcastError(f"{log.name}: does not tell its date, so that it cannot be cut at {when}.")
    if when.isdecimal() and when.isascii() and len(when) < 16 and len(when) != 8:
        return int(when) - log.epoch
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        raise JobcastError(
            f"{when!r} is no moment; give a date such as 2025-04-01 or 2025-04-01T12:00, or Unix time [s]."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(log.time_zone) if log.time_zone else UTC)
    return int(np.floor(moment.timestamp())) - log.epoch
