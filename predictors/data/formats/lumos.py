"""The CSV files of the LUMOS collection: one table of seconds, nodes, cores and GPUs for logs of unlike machines.

Columns are found by name, in any order and case. A processor of the job log is a node where the file has nodes, else a
core. The collection: https://github.com/DIR-LAB/lumos.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError
from predictors.data.formats._delimited import Table, header_names, quoted_table
from predictors.data.formats.columns import MISSING, ids, known_texts, names, numbers, spans_of
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, clocked, finish
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

NAMES: Final = (  # the names of these files
    "job", "user", "project", "state", "gpu_num", "cpu_num", "node_num", "submit_time", "wait_time", "run_time",
    "wall_time", "node_hour", "new_status",
)  # fmt: skip

STATUS: Final[Mapping[str, int]] = MappingProxyType(  # words for how a job ended, in `new_status` or `state`
    {
        "pass": COMPLETED, "completed": COMPLETED, "failed": FAILED, "timeout": FAILED, "node_fail": FAILED,
        "killed": CANCELLED, "cancelled": CANCELLED,
    }
)  # fmt: skip

_NEEDED: Final = ("submit_time", "wait_time", "run_time")
_MARKS: Final = frozenset(("submit_time", "wait_time", "wall_time", "node_num", "cpu_num", "gpu_num"))


def is_lumos(data: bytes) -> bool:
    """Return whether a text begins with at least four names of these files between commas."""
    return len({name.lower() for name in header_names(data[:50_000], ",")} & _MARKS) >= 4


def parse_lumos(
    data: bytes, source: str, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return the log that such a file holds, and the account; local times are in `time_zone`, Unix times need none."""
    report = ReportBuilder(source, RULES)
    table = quoted_table(data, source, NAMES, report)
    _require(table, source)
    for name in ("user", "wall_time"):
        if name not in table.columns:
            report.note("columns", f"no column {name}")
    draft = Draft(source, _ids(table, report), table.places, report)
    draft.numbers |= clocked({"submit": table.columns["submit_time"]}, draft, time_zone)
    spans = {name: spans_of(table.columns[name], name, draft.report) for name in _NEEDED[1:]}
    known = (draft.number("submit") != MISSING) & (spans["wait_time"] != MISSING)
    draft.numbers["start"] = np.where(known, draft.number("submit") + np.where(known, spans["wait_time"], 0), MISSING)
    draft.numbers["run_time"] = spans["run_time"]
    if "wall_time" in table.columns:
        draft.numbers["requested_time"] = spans_of(table.columns["wall_time"], "wall_time", draft.report)
    _sizes(draft, table)
    for name, columns in (("user", ("user",)), ("project", ("project", "group"))):
        if name in table.columns:
            draft.names |= dict.fromkeys(columns, names(table.columns[name]))
    _status(draft, table)
    report.note_unused(table.names, [name for name in NAMES if name != "node_hour"])
    return finish(draft, log_name(source), strict, time_zone=time_zone)


def _require(table: Table, source: str) -> None:
    lacking = [name for name in _NEEDED if name not in table.columns]
    if not {"node_num", "cpu_num"} & set(table.columns):
        lacking.append("node_num or cpu_num")
    if lacking:
        raise JobcastError(
            f"{source}: lacks the column {', '.join(lacking)} (it has {', '.join(table.names[:14])}); such a file is "
            "read by the names in its first line."
        )


def _ids(table: Table, report: ReportBuilder) -> list[str]:
    """Return the jobs' ids; rows are numbered where there is no such column."""
    if "job" not in table.columns:
        report.note("columns", "no column job; jobs are numbered by their rows")
        return [str(number) for number in range(1, len(table) + 1)]
    return ids(table.columns["job"])


def _sizes(draft: Draft, table: Table) -> None:
    """Set the processors, nodes where the file has them, else cores; and the GPUs."""
    found = {
        name: numbers(table.columns[name], name, draft.report)
        for name in ("node_num", "cpu_num", "gpu_num")
        if name in table.columns
    }
    cores = found.get("cpu_num")
    nodes = found.get("node_num")
    if nodes is not None and (nodes > 0).any():
        draft.numbers["requested_procs"] = draft.numbers["requested_nodes"] = nodes
        if cores is not None and (cores > 0).any():
            draft.numbers["cores"] = cores
    elif cores is not None:
        draft.numbers["requested_procs"] = cores
        draft.ledger.note("columns", "no nodes are known; a processor is a core")
    gpus = found.get("gpu_num")
    if gpus is not None:
        draft.numbers["requested_gpus"] = gpus


def _status(draft: Draft, table: Table) -> None:
    """Set how jobs ended, and the exit code where `state` holds numbers."""
    words: Any = table.columns.get("new_status")
    state: Any = table.columns.get("state")
    if state is not None and _are_numbers(state):
        draft.numbers["exit_code"] = numbers(state, "state", draft.report)
    elif words is None:
        words = state
    if words is None:
        return
    codes, texts = names(words)
    by_code = np.array([STATUS.get(text.strip().lower(), MISSING) for text in texts] or [MISSING], dtype=np.int64)
    draft.numbers["status"] = np.where(codes == MISSING, MISSING, by_code[np.where(codes == MISSING, 0, codes)])


def _are_numbers(column: Any) -> bool:
    known = known_texts(column).nonzero()[0].tolist()
    return bool(known) and all(_is_number(column[row].as_py()) for row in known[:1000])


def _is_number(text: str) -> bool:
    return text.strip().removesuffix(".0").removeprefix("-").isdigit()
