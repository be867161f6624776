"""Jobs of Microsoft's Philly clusters: a JSON list of jobs, each with its attempts and the GPUs of their servers.

Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, USENIX ATC 2019; the file
`cluster_job_log`: https://github.com/msr-fiddle/philly-traces.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from predictors.core.errors import JobcastError
from predictors.data.formats._delimited import Table
from predictors.data.formats.columns import MISSING
from predictors.data.formats.parquet import text_array
from predictors.data.formats.records import RULES
from predictors.data.formats.tables.read import table_log
from predictors.data.formats.tables.table_map import TableMap
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

MAP: Final = TableMap(
    columns={
        "jobid": "job_id", "user": "user", "vc": "project", "status": "state", "submitted_time": "submit",
        "start_time": "start", "end_time": "end", "gpus": "requested_gpus", "servers": "nodes", "retries": "restarts",
    },
    status={"Pass": "completed", "Failed": "failed", "Killed": "cancelled"},
)  # fmt: skip


def is_philly(data: bytes) -> bool:
    """Return whether a text begins as a JSON list of jobs with attempts."""
    head = data[:4000].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"[") and b'"jobid"' in head and (b'"attempts"' in head or b'"vc"' in head)


def parse_philly(
    data: bytes, source: str, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return the job log of such a file, and the account; a place in it is the job's number in the list.

    The last attempt is the job's run, as with jobs that went back into the queue; `restarts` counts those before. GPUs
    are those of the last attempt; a processor is a GPU. Times are local, without a zone.
    """
    try:
        jobs = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise JobcastError(f"{source}: is no whole JSON document ({str(error)[:80]}); get it again.") from error
    sound = [job for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, list) else []
    if not sound:
        raise JobcastError(f"{source}: is JSON, but no list of jobs.")
    report = ReportBuilder(source, RULES)
    report.add("no-job-id", [0] * (len(jobs) - len(sound)))
    rows = [_row(job) for job in sound]
    columns = {name: text_array([row[name] for row in rows]) for name in MAP.columns}
    others = sorted({key for job in sound for key in job} - {"attempts"})
    others += sorted(_within(sound))
    table = Table((*others, "start_time", "end_time", "gpus", "servers", "retries"), columns, lambda at: at + 1)
    report.note("columns", "Philly: no requested times are given, and of several attempts the last is the job's run")
    procs = np.array([int(row["gpus"] or MISSING) for row in rows], dtype=np.int64)
    return table_log(table, source, MAP, report, strict, time_zone, more={"requested_procs": procs})


def _within(jobs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return what attempts and their servers tell that is not read, such as attempts.detail.ip."""
    attempts = [one for job in jobs for one in _records(job.get("attempts"))]
    servers = [server for one in attempts for server in _records(one.get("detail"))]
    found = {f"attempts.{key}" for one in attempts for key in one if key not in ("start_time", "end_time", "detail")}
    return found | {f"attempts.detail.{key}" for server in servers for key in server if key != "gpus"}


def _records(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _row(job: Mapping[str, Any]) -> dict[str, str]:
    attempts = _records(job.get("attempts"))
    last = attempts[-1] if attempts else {}
    servers = _records(last.get("detail"))
    gpus = sum(len(one["gpus"]) for one in servers if isinstance(one.get("gpus"), list))
    return {
        **{key: _text(job.get(key)) for key in ("jobid", "user", "vc", "status", "submitted_time")},
        "start_time": _text(last.get("start_time")),
        "end_time": _text(last.get("end_time")),
        "gpus": str(gpus) if servers else "",
        "servers": str(len(servers)) if servers else "",
        "retries": str(max(len(attempts) - 1, 0)),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
