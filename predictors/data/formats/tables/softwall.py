"""The logs with soft walltimes of JSSPP's workload archive: ten fields between blanks, without a line of names.

They hold what a production system predicted and what then happened. Fields: https://jsspp.org/workload; the system:
Klusáček & Chlumský, Improving Accuracy of Walltime Estimates in PBS Professional Using Soft Walltimes, JSSPP 2022, doi
10.1007/978-3-031-22698-4_10.
"""

import re
from typing import Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.data.formats._delimited import Table, in_utf8
from predictors.data.formats.columns import MISSING
from predictors.data.formats.parquet import text_array
from predictors.data.formats.records import RULES
from predictors.data.formats.tables.read import table_log
from predictors.data.formats.tables.table_map import Column, TableMap
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

FIELDS: Final = ("id", "arrival", "wait", "run", "cpus", "memory", "user", "queue", "walltime", "soft_walltime")
MAP: Final = TableMap(
    columns={
        "id": "job_id", "arrival": Column(column="submit", unit="s"), "wait": Column(column="wait", unit="s"),
        "run": Column(column="run_time", unit="s"), "cpus": "requested_procs",
        "memory": Column(column="requested_job_memory", unit="B"), "user": "user", "queue": "queue",
        "walltime": Column(column="requested_time", unit="s"),
        "soft_walltime": Column(column="soft_walltime", unit="s"),
    },
    decimal=",",
    unknown=("-1",),
)  # fmt: skip
_ROW: Final = re.compile(
    rb"\d+(?:\[\d*\])?\S*[ \t]+\d{9,11}(?:[.,]\d+)?[ \t]+-?[\d.,]+[ \t]+-?[\d.,]+[ \t]+\d+[ \t]+-?[\d.,eE+]+[ \t]+\S+"
    rb"[ \t]+\S+[ \t]+-?\d[\d.,]*[ \t]+-?\d[\d.,]*[ \t]*\r?"
)
_COMMENT: Final = (b";", b"#", b"%")
_ARRAY: Final = re.compile(r"(\d+)\[(\d{1,18})\]")


def is_softwall(data: bytes) -> bool:
    """Return whether the first row below the comments of a text has these ten fields."""
    for line in data[:200_000].removeprefix(b"\xef\xbb\xbf").split(b"\n")[:2000]:
        if line.strip() and not line.lstrip().startswith(_COMMENT):
            return _ROW.fullmatch(line.strip(b" \t")) is not None
    return False


def parse_softwall(data: bytes, source: str, strict: bool = False) -> tuple[JobLog, ReadingReport]:
    """Return the job log of such a file, and the account.

    Arrival is Unix time; memory is in bytes with a comma as decimal mark; -1 is unknown. A job of an array is written
    as `16922[16921]`: its id, and that of the array.
    """
    report = ReportBuilder(source, RULES)
    rows: list[list[str]] = []
    lines: list[int] = []
    torn: dict[str, list[int]] = {"too-few-fields": [], "surplus-fields": []}
    for number, line in enumerate(in_utf8(data, report).decode("utf-8", "replace").split("\n"), 1):
        fields = line.split()
        if not fields or fields[0][0] in ";#%":
            continue
        if len(fields) == len(FIELDS):
            rows.append(fields)
            lines.append(number)
        else:
            torn["too-few-fields" if len(fields) < len(FIELDS) else "surplus-fields"].append(number)
    for rule, places in torn.items():
        report.add(rule, places)
    if not rows:
        raise JobcastError(f"{source}: no row has the {len(FIELDS)} fields of such a log: {', '.join(FIELDS)}.")
    arrays = [_ARRAY.fullmatch(row[0]) for row in rows]
    columns = dict(zip(FIELDS, (list(values) for values in zip(*rows, strict=True)), strict=True))
    columns["id"] = [match[1] if match else text for match, text in zip(arrays, columns["id"], strict=True)]
    at: Ints = np.array(lines, dtype=np.int64)
    table = Table(FIELDS, {name: text_array(texts) for name, texts in columns.items()}, lambda picked: at[picked])
    array = np.array([int(match[2]) if match else MISSING for match in arrays], dtype=np.int64)
    return table_log(table, source, MAP, report, strict, more={"array": array})
