"""Slurm's records as `sacct --json` writes them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError
from predictors.data.formats._delimited import Table
from predictors.data.formats.parquet import text_array
from predictors.data.formats.records import RULES, Draft, finish
from predictors.data.formats.slurm import PUT_BACK, fill, job_keys
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

_NO_VALUES: Final = frozenset((4_294_967_294, 18_446_744_073_709_551_614))
_INFINITE: Final = frozenset((4_294_967_295, 18_446_744_073_709_551_615))


def is_sacct_json(data: bytes) -> bool:
    head = data[:4_000_000].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"{") and (b'"jobs"' in head or b"Slurm" in head)


def parse_sacct_json(
    data: bytes, source: str, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return the job log that sacct's JSON holds, and the account; a place in it is a job's id."""
    jobs = jobs_of(data, source)
    ledger = ReportBuilder(source, RULES, place="job")
    sound = [job for job in jobs if isinstance(job, Mapping) and _is_whole(_plain(job.get("job_id")))]
    ledger.add("no-job-id", [0] * (len(jobs) - len(sound)))
    rows, words = [_row(job) for job in sound], [_word(job) for job in sound]
    columns = _columns(rows)
    at = np.array([min(int(row["jobidraw"]), 2**62) for row in rows], dtype=np.int64)
    table = Table(tuple(columns), columns, lambda picked: at[picked])
    ledger.note_unused(sorted({key for job in sound for key in job}), _KEYS_READ)
    draft = Draft(source, job_keys([row["jobidraw"] for row in rows], words), table.places, ledger)
    fill(draft, table, words, time_zone)
    return finish(draft, log_name(source), strict, time_zone=time_zone)


def jobs_of(data: bytes, source: str) -> list[Any]:
    """Return the jobs of sacct's JSON as they stand."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise JobcastError(f"{source}: is no whole JSON document ({str(error)[:80]}); export it again.") from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not jobs:
        raise JobcastError(f"{source}: is JSON, but holds no list of jobs; make it with sacct --json.")
    return jobs


def _columns(rows: list[dict[str, str]]) -> dict[str, Any]:
    names = dict.fromkeys(name for row in rows for name in row)
    names |= dict.fromkeys(("jobidraw", "submit", "start", "end", "state"))
    return {name: text_array([row.get(name, "") for row in rows]) for name in names}


def _row(job: Mapping[str, Any]) -> dict[str, str]:
    """Return a job as sacct's text would have it, by field in small letters."""
    time, required, tres = (_part(job, key) for key in ("time", "required", "tres"))
    association = _part(job, "association")
    requested, allocated = _trackable(tres.get("requested")), _trackable(tres.get("allocated"))
    told = _part(job, "state").get("current") if isinstance(job.get("state"), Mapping) else job.get("state")
    put_back = [one for one in told if isinstance(one, str) and one in PUT_BACK] if isinstance(told, list) else []
    state = _first(put_back or told)  # PENDING accompanies REQUEUED or RESIZING
    return {
        "jobidraw": _plain(job.get("job_id")),
        "submit": _timestamp(time.get("submission")),
        "eligible": _timestamp(time.get("eligible")),
        "start": _timestamp(time.get("start")),
        "end": _timestamp(time.get("end")),
        "elapsedraw": _plain(time.get("elapsed")),
        "timelimitraw": _limit(time.get("limit")),
        "totalcpu": _plain(_part(time, "total").get("seconds")),
        "reqcpus": requested.get("cpu") or _plain(required.get("CPUs")),
        "alloccpus": allocated.get("cpu", ""),
        "reqnodes": requested.get("node", ""),
        "allocnodes": allocated.get("node") or _plain(job.get("allocation_nodes")),
        "reqmem": f"{requested['mem']}M" if requested.get("mem") else "",
        "state": state,
        "exitcode": _exit_code(_part(job, "exit_code"), state),
        "user": _plain(job.get("user")) or _plain(association.get("user")),
        "group": _plain(job.get("group")),
        "account": _plain(job.get("account")) or _plain(association.get("account")),
        "partition": _plain(job.get("partition")),
        "qos": _plain(job.get("qos")),
        "jobname": _plain(job.get("name")),
        "workdir": _plain(job.get("working_directory")),
        "submitline": _plain(job.get("submit_line")),
        "nodelist": _plain(job.get("nodes")),
        "restarts": _plain(job.get("restart_cnt")),
        "reqtres": _tres_text(tres.get("requested")),
        "alloctres": _tres_text(tres.get("allocated")),
        "constraints": _plain(job.get("constraints")),
        "reservation": _plain(_part(job, "reservation").get("name")),
        "licenses": _plain(job.get("licenses")),
        "dependency": _plain(job.get("dependency")),
    }


_KEYS_READ: Final = (  # keys of a job from which something is taken
    "job_id", "array", "het", "time", "required", "tres", "association", "state", "exit_code", "user", "group",
    "account",
    "partition", "qos", "name", "working_directory", "submit_line", "nodes", "allocation_nodes", "restart_cnt",
    "constraints", "reservation", "licenses", "dependency",
)  # fmt: skip


def _tres_text(entries: Any) -> str:
    if not isinstance(entries, list):
        return ""
    kept = (one for one in entries if isinstance(one, Mapping) and one.get("type") and _plain(one.get("count")))
    return ",".join(
        f"{one['type']}{'/' if one.get('name') else ''}{one.get('name') or ''}={_plain(one.get('count'))}"
        for one in kept
    )


def _word(job: Mapping[str, Any]) -> str:
    """Return the id as sacct's text shows it: `12_3` for the third of array 12."""
    array, own = _part(job, "array"), _plain(job.get("job_id"))
    whole = _plain(_part(job, "het").get("job_id"))
    if whole not in ("", "0"):
        return f"{whole}+{_plain(_part(job, 'het').get('job_offset')) or 0}"
    parent, task = _plain(array.get("job_id")), _plain(array.get("task_id"))
    if parent in ("", "0"):
        return own
    return f"{parent}_{task}" if task else f"{parent}_[{_waiting(_plain(array.get('task')))}]"


def _waiting(tasks: str) -> str:
    """Return the tasks of an array that still wait; Slurm 22.05 writes them as the bits of a number."""
    if not tasks.lower().startswith("0x"):
        return tasks
    try:
        bits = f"{int(tasks, 16):b}"
    except ValueError:
        return ""
    return ",".join(str(task) for task, bit in enumerate(reversed(bits)) if bit == "1")


def _part(job: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = job.get(key)
    return found if isinstance(found, Mapping) else {}


def _first(value: Any) -> str:
    return _plain(value[0] if isinstance(value, list) and value else value)


def _plain(value: Any) -> str:
    """Return a value as text: a number as it stands or as `{"set": …, "number": …}`; "" where it is not set."""
    if isinstance(value, Mapping):
        if value.get("infinite"):
            return "UNLIMITED"
        return _plain(value.get("number")) if value.get("set") else ""
    if value is None or isinstance(value, (list, bool)) or value in _NO_VALUES:
        return ""
    return str(value)


def _timestamp(value: Any) -> str:
    text = _plain(value)
    return text if text != "0" and _is_whole(text) else ""


def _is_whole(text: str) -> bool:
    """Return whether a text is a whole number from 0 that can be stored."""
    return text.isascii() and text.isdigit() and len(text) < 400


def _limit(value: Any) -> str:
    if value is None or (isinstance(value, int) and value in _INFINITE):
        return "UNLIMITED"
    return _plain(value)


def _trackable(entries: Any) -> dict[str, str]:
    if not isinstance(entries, list):
        return {}
    return {str(e["type"]): _plain(e.get("count")) for e in entries if isinstance(e, Mapping) and e.get("type")}


def _exit_code(found: Mapping[str, Any], state: str) -> str:
    signal = _part(found, "signal")
    number = _plain(signal.get("signal_id")) or _plain(signal.get("id"))
    code = _plain(found.get("return_code"))
    if state == "FAILED" and code in ("", "0") and number in ("", "0"):
        return ""  # a job that failed has no code 0: Slurm 22.05 writes 0 whatever the code was
    return f"{code or 0}:{number or 0}" if code or number else ""
