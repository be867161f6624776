"""A summary of a job log: jobs, span, machine, users, known columns, quantiles."""

from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from predictors.data.joblog import JobLog

QUANTILES: Final = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
CODES: Final = ("user", "group", "executable", "queue", "partition")
FURTHER_CODES: Final = ("project", "mode", "state", "location")


def summarise(log: JobLog) -> dict[str, Any]:
    """Return the figures of a log as plain values for JSON; what the log does not have is None.

    `span_s` runs from the first submission to the last; `utilisation` is sum(run time * processors) over (machine *
    time from the first submission to the last end), an unknown wait counted as 0.

    Examples
    --------
    >>> log = JobLog.from_columns(
    ...     {"job_id": [1, 2], "submit": [0, 50], "run_time": [100, 50], "requested_procs": [2, 4]}, {}, max_procs=4
    ... )
    >>> figures = summarise(log)
    >>> figures["jobs"], figures["span_s"], figures["utilisation"], figures["known_share"]["user"]
    (2, 50, 1.0, 0.0)
    """
    submit = log.values["submit"]
    return {
        "name": log.name,
        "jobs": len(log),
        "span_s": int(submit[-1]) if len(log) else None,
        "first_submission": date_of(log, 0),
        "last_submission": date_of(log, int(submit[-1])) if len(log) else None,
        "max_procs": log.max_procs,
        "max_nodes": log.max_nodes,
        "time_zone": log.time_zone,
        "distinct": {column: _distinct(log, column) for column in (*CODES, *FURTHER_CODES) if column in log.values},
        "utilisation": utilisation(log),
        "known_share": {column: float(log.known(column).mean()) if len(log) else None for column in log.values},
        "quantiles": {
            "procs": _quantiles(log.procs[log.procs > 0]),
            "requested_time_s": _quantiles(_known(log, "requested_time")),
            "run_time_s": _quantiles(_known(log, "run_time")),
            "run_over_requested": _quantiles(_accuracy(log)),
            "wait_s": _quantiles(_known(log, "wait")),
        },
        "sha256": log.digest(),
    }


def utilisation(log: JobLog) -> float | None:
    """Return the share of the machine that the log's jobs filled, from the first submission to the last end."""
    procs, run_time = log.procs, log.values["run_time"].astype(np.float64)
    ran = (procs > 0) & (run_time > 0)
    if log.max_procs is None or not ran.any():
        return None
    ends = log.values["submit"] + log.filled("wait", 0) + run_time
    return float((run_time * procs)[ran].sum() / (log.max_procs * ends[ran].max()))


def _known(log: JobLog, column: str) -> npt.NDArray[np.int64]:
    return log.values[column][log.known(column)]


def _accuracy(log: JobLog) -> npt.NDArray[np.float64]:
    usable = log.known("run_time") & (log.values["requested_time"] > 0)
    return log.values["run_time"][usable] / log.values["requested_time"][usable]


def _quantiles(values: npt.NDArray[Any]) -> dict[str, float] | None:
    """Return quantiles as they occur in the values: the lower of two neighbours, never between them."""
    if not len(values):
        return None
    figures = np.quantile(values, list(QUANTILES.values()), method="lower").tolist()
    return dict(zip(QUANTILES, figures, strict=True))


def _distinct(log: JobLog, column: str) -> int | None:
    known = _known(log, column)
    return len(np.unique(known)) if len(known) else None


def date_of(log: JobLog, second: int) -> str | None:
    """Return the date and time of a second of a log, in the machine's time zone; None where its epoch is unknown.

    Examples
    --------
    >>> date_of(JobLog.from_columns({"job_id": [1], "submit": [0]}, {}, epoch=1_706_659_200), 60)
    '2024-01-31T00:01:00+00:00'
    """
    if log.epoch is None:
        return None
    zone = ZoneInfo(log.time_zone) if log.time_zone else UTC
    try:
        return datetime.fromtimestamp(log.epoch + second, zone).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
