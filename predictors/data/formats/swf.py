"""Job logs in the Standard Workload Format (SWF): 18 fields a row, -1 for unknown, a header of `;` lines.

`_swf_scan.FIELDS` names the 18 fields. Rows of 21 fields go on with GPUs, a soft walltime and a descriptor.

Format: Feitelson et al., The Standard Workload Format, version 2.2 (Parallel Workloads Archive); Chapin et al.,
Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, JSSPP 1999, doi 10.1007/3-540-47954-6_4.
"""

import gzip
import io
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.formats import swf_header
from predictors.data.formats._swf_scan import COMMENT, FIELDS, MISSING, Problem, Rows, parse_rows, parse_value
from predictors.data.formats.columns import refuse_returns
from predictors.data.joblog import FURTHER, UNKNOWN, JobLog
from predictors.data.report import Effect, ReadingReport, ReportBuilder

MOST_COMMENTS: Final = 50_000  # comment lines that are kept: a header has some dozens
RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "too-few-fields": ("dropped", "a row has 18 fields"),
        "no-job-id": ("dropped", "a row begins with the job's number"),
        "no-submission": ("dropped", "a job has a submission time, from 0 to 2^53 s"),
        "partial-execution": ("dropped", "a burst of a job that an earlier row sums up"),
        "repeated-id": ("dropped", "an earlier row has the same job number"),
        "surplus-fields": ("changed", "fields after the 18th are left out"),
        "not-a-number": ("changed", "read as unknown"),
        "not-finite": ("changed", "read as unknown"),
        "negative": ("changed", "only -1 may be negative; read as unknown"),
        "too-large": ("changed", "beyond what the column can hold; read as unknown"),
        "fraction": ("noted", "rounded to a whole number, halves up"),
        "no-nodes": ("changed", "field 21 gives no nodes; fields 5 and 8 may be nodes or cores: read as unknown"),
        "unsorted": ("noted", "submitted before the row above; sorted by submission"),
        "long-header": ("changed", f"comments beyond the first {MOST_COMMENTS:,} are left out"),
        "late-comment": ("noted", "a comment below the first job, moved to the header"),
        "header": ("noted", ""),
        "bytes": ("noted", ""),
        "columns": ("noted", ""),
    }
)
WRITING_RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "negative": ("changed", "only -1, for unknown, may be negative; written as unknown"),
        "names": ("changed", ""),
        "clock": ("changed", ""),
        "no-column": ("changed", "SWF has no such column; it is not written"),
    }
)
_PARTIAL: Final = (2, 3, 4)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def parse_swf(data: bytes, source: str, strict: bool = False, careful: bool = False) -> tuple[JobLog, ReadingReport]:
    r"""Return the job log in the text of an SWF file, and the account; `careful` reads without the compiled scanner.

    >>> log, account = parse_swf(b"; MaxProcs: 4\n1 100 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\n2 160\n", "a.swf")
    >>> len(log), log.max_procs, log["user"].tolist(), log["cpu_time"].tolist()
    (1, 4, [7], [None])
    >>> print(account)
    a.swf: 1 dropped
      dropped  1  too-few-fields    a row has 18 fields  (line 3)
    """
    refuse_returns(data, source)
    text = data.removeprefix(_BYTE_ORDER_MARK) + b"\n"
    rows = parse_rows(text, careful)
    report = ReportBuilder(source, RULES)
    comments = np.flatnonzero(rows.kinds == COMMENT)
    report.add("long-header", comments[MOST_COMMENTS:] + 1)
    header = swf_header.parse_header(rows.line(k) for k in comments[:MOST_COMMENTS].tolist())
    facts = swf_header.header_facts(header)
    for note in facts.notes:
        report.note("header", note)
    if len(rows.lines):
        report.add("late-comment", comments[comments >= rows.lines[0]] + 1)

    kept = _keep(rows, report)
    _account_values(rows, kept, report)
    account = report.close()
    if strict:
        account.require_clean()
    if len(rows.lines) and not kept.any():
        first = min((f for f in account.findings if f.effect == "dropped"), key=lambda finding: finding.places)
        raise JobcastError(
            f"{source}: none of its {len(rows.lines):,} rows is a job (line {first.places[0]}: {first.rule}, "
            f"{first.text}); is this a file in the Standard Workload Format?"
        )
    values = rows.values if kept.all() else rows.values[kept]
    values = _in_kilobytes(values, report) if rows.queues else values
    unix = len(values) and swf_header.SMALLEST_UNIX_TIME <= values[:, 1].min() <= LARGEST_UNIX_TIME
    if unix and not any(label == "UnixStartTime" for label, _ in header):
        facts = replace(facts, unix_start=0)
        report.note("header", "no UnixStartTime; times of this size are taken as Unix times")
    more, descriptors = _more_columns(rows, kept, report) if rows.more else ({}, ())
    if rows.queues:
        more, facts = _with_queues(rows, kept, more, facts, report)
    account = report.close()
    if strict:
        account.require_clean()
    return _job_log(values, header, facts, log_name(source), more, descriptors), account


LARGEST_UNIX_TIME: Final = 10_000_000_000  # beyond it a submission is in other units than seconds
_IN_BYTES: Final = 2**25  # median memory of a processor [KB] from which on it is bytes, in logs with queues in field 19


def _in_kilobytes(values: Ints, report: ReportBuilder) -> Ints:
    """Return the fields with memory in KB, where MetaCentrum has it in bytes."""
    for column in ("used_memory", "requested_memory"):
        field = FIELDS.index(column)
        known = values[:, field] > 0
        if known.any() and np.median(values[known, field]) >= _IN_BYTES:
            values = values.copy()
            values[known, field] //= 1024
            report.note(
                "bytes", f"{column} is in bytes: no processor has as many KB; divided by 1,024", int(known.sum())
            )
    return values


def _with_queues(
    rows: Rows, kept: Bools, more: Mapping[str, Ints], facts: swf_header.HeaderFacts, report: ReportBuilder
) -> tuple[dict[str, Ints], swf_header.HeaderFacts]:
    """Return the columns with the queues that field 19 names; with numbers in field 15 these count."""
    numbers = rows.values[kept, FIELDS.index("queue")]
    if (numbers != UNKNOWN).any():
        report.add("surplus-fields", rows.lines[[row for row in rows.queues if kept[row]]])
        return dict(more), facts
    names: dict[str, int] = {}
    codes = np.full(len(kept), UNKNOWN, dtype=np.int64)
    for row, word in rows.queues.items():
        if kept[row]:
            codes[row] = names.setdefault(word.decode("utf-8", "replace"), len(names))
    report.note("columns", "field 19 names the queue", int((codes != UNKNOWN).sum()))
    return {**more, "queue": codes[kept]}, replace(facts, names={**facts.names, "queue": tuple(names)})


def _keep(rows: Rows, report: ReportBuilder) -> Bools:
    job_id, submit, status = (rows.values[:, FIELDS.index(column)] for column in ("job_id", "submit", "status"))
    kept = np.ones(len(job_id), dtype=np.bool_)

    def drop(rule: str, bad: Bools, field: int) -> None:
        places = np.flatnonzero(bad & kept)
        if len(places):
            report.add(rule, rows.lines[places], example=rows.token(int(places[0]), field))
            kept[places] = False

    drop("too-few-fields", job_id == MISSING, len(FIELDS))
    drop("no-job-id", job_id == UNKNOWN, 0)
    drop("partial-execution", _seen(job_id, kept) & np.isin(status, _PARTIAL), 0)
    drop("no-submission", submit == UNKNOWN, 1)
    drop("repeated-id", _seen(job_id, kept), 0)
    earlier = np.flatnonzero(np.diff(submit[kept]) < 0) + 1
    report.add("unsorted", rows.lines[kept][earlier])
    return kept


def _seen(job_id: Ints, kept: Bools) -> Bools:
    """Return which kept rows have the id of a kept row above them."""
    rows = np.flatnonzero(kept)
    ids = job_id[rows]
    seen = np.zeros(len(job_id), dtype=np.bool_)
    if (np.diff(ids) <= 0).any():
        seen[rows] = True
        seen[rows[np.unique(ids, return_index=True)[1]]] = False
    return seen


def _account_values(rows: Rows, kept: Bools, report: ReportBuilder) -> None:
    places: dict[tuple[str, str], list[Problem]] = {}
    for problem in rows.problems:
        if kept[problem.row]:
            places.setdefault((problem.rule, problem.column), []).append(problem)
    for (rule, column), problems in places.items():
        report.add(rule, rows.lines[[problem.row for problem in problems]], column, problems[0].token)
    if not rows.fractions.any():
        return
    for field, column in enumerate(FIELDS):
        rounded = np.flatnonzero((rows.fractions >> field & 1).astype(np.bool_) & kept)
        if len(rounded):
            report.add("fraction", rows.lines[rounded], column, rows.token(int(rounded[0]), field))


_DESCRIPTOR: Final = re.compile(r"[^:]*:([^:]*):(\d{1,9})x\d{1,9}")
"""The site's own words on what a job ran on: machine, `excl` for nodes of its own, nodes x processors of each."""


def _more_columns(rows: Rows, kept: Bools, report: ReportBuilder) -> tuple[dict[str, Ints], tuple[str, ...]]:
    """Return the columns of fields 19 to 21 of the rows kept, and the descriptors behind their codes.

    GPUs given, the soft walltime, and a descriptor. Its nodes stand for processors: in these logs fields 5 and 8 are
    sometimes nodes and sometimes cores. Maheshwari, Klusáček, Suter & Brewer, Workload Traces from the Frontier
    Exascale Supercomputer, JSSPP 2026.
    """
    columns = {
        name: np.full(len(kept), UNKNOWN, dtype=np.int64)
        for name in ("allocated_gpus", "soft_walltime", "descriptor", "nodes", "exclusive")
    }
    words: dict[str, int] = {}
    bad: dict[tuple[str, str], list[int]] = {}
    for row, fields in rows.more.items():
        for name, token in zip(("allocated_gpus", "soft_walltime"), fields[:2], strict=True):
            columns[name][row], rule = parse_value(token, name)
            if rule and kept[row]:
                bad.setdefault((rule, name), []).append(int(rows.lines[row]))
        word = fields[2].decode("utf-8", "replace")
        if word != "-1":
            columns["descriptor"][row] = words.setdefault(word, len(words))
    for (rule, name), lines in bad.items():
        report.add(rule, lines, name)
    read = [_DESCRIPTOR.fullmatch(word) for word in words]
    has = columns["descriptor"] >= 0
    table = np.array([[int(m[2]), int(m[1] == "excl")] if m else [UNKNOWN, UNKNOWN] for m in read] or [[-1, -1]])
    places = np.where(has, columns["descriptor"], 0)
    columns["nodes"], columns["exclusive"] = (np.where(has, table[places, k], UNKNOWN) for k in (0, 1))
    if (columns["nodes"][kept] > 0).any():
        sized = (rows.values[:, [FIELDS.index("allocated_procs"), FIELDS.index("requested_procs")]] > 0).any(axis=1)
        report.add("no-nodes", rows.lines[kept & sized & (columns["nodes"] <= 0)])
        report.note("columns", "processors are the nodes of field 21; fields 5 and 8, nodes or cores, are not used")
    return {name: values[kept] for name, values in columns.items()}, tuple(words)


def _job_log(
    values: Ints,
    header: tuple[tuple[str, str], ...],
    facts: swf_header.HeaderFacts,
    name: str,
    more: Mapping[str, Ints] = MappingProxyType({}),
    descriptors: tuple[str, ...] = (),
) -> JobLog:
    columns = {**dict(zip(FIELDS, np.ascontiguousarray(values.T), strict=True)), **more}
    max_procs = facts.max_procs
    if "nodes" in more and (more["nodes"] > 0).any():
        columns["allocated_procs"] = columns["requested_procs"] = np.where(more["nodes"] > 0, more["nodes"], UNKNOWN)
        max_procs = facts.max_nodes
    own = {"descriptor": descriptors} if descriptors else {}
    origin = int(columns["submit"].min()) if len(values) else 0
    return JobLog.from_columns(
        columns,
        {column: array == UNKNOWN for column, array in columns.items()},
        epoch=_epoch(facts.unix_start, origin),
        time_zone=facts.time_zone,
        max_procs=max_procs,
        max_nodes=facts.max_nodes,
        header=header,
        categories={column: _padded(names, columns[column]) for column, names in facts.names.items()} | own,
        name=name,
    )


def _epoch(unix_start: int | None, origin: int) -> int | None:
    if unix_start is None or (unix_start == 0 and origin < swf_header.SMALLEST_UNIX_TIME):
        return None
    return unix_start + origin


def _padded(names: tuple[str, ...], codes: Ints) -> tuple[str, ...]:
    """Return one name a code; codes that the header does not name have ""."""
    largest = int(codes.max(initial=-1))
    return names + ("",) * (largest + 1 - len(names)) if largest < 10_000 else names


def write_swf(log: JobLog, path: str | os.PathLike[str]) -> ReadingReport:
    """Write a log as SWF, in the clock of the file that it came from; packed if the name ends in `.gz`.

    The header is the log's own, brought in line with its clock and machine. The file appears whole or not at all. SWF
    holds neither negative numbers nor jobs submitted before second 0: a log with one is refused. The report says what
    SWF cannot hold.
    """
    lowest = int(log.values["job_id"].min(initial=0))
    if log.origin < 0 or lowest < 0:
        what = f"this log begins at {log.origin} s" if log.origin < 0 else f"this log has a job {lowest}"
        raise JobcastError(f"{path}: SWF has neither times nor jobs below 0; {what}. Write it as .parquet.")
    text = swf_text(log)
    with whole_file(path) as part:
        packed = os.fspath(path).endswith(".gz")
        part.write_bytes(gzip.compress(text, compresslevel=6, mtime=0) if packed else text)
    return _not_written(log, os.fspath(path))


def swf_text(log: JobLog) -> bytes:
    from pyarrow import csv, table

    header = "".join(f"{line}\n" for line in swf_header.header_lines(swf_header.header_of(log)))
    columns = {column: np.maximum(log.values[column], UNKNOWN) for column in FIELDS}
    columns["submit"] = columns["submit"] + log.origin
    body = io.BytesIO()
    csv.write_csv(table(columns), body, csv.WriteOptions(include_header=False, delimiter=" "))
    return header.encode("utf-8", "replace") + body.getvalue()


def _not_written(log: JobLog, source: str) -> ReadingReport:
    report = ReportBuilder(source, WRITING_RULES, place="job")
    for column in FIELDS:
        below = log.known(column) & (log.values[column] < 0)
        report.add("negative", log.values["job_id"][below], column)
    for column in log.values:
        if column in FURTHER and log.known(column).any():
            report.add("no-column", log.values["job_id"][log.known(column)], column)
    for column, names in log.categories.items():
        if column in FURTHER:
            continue
        if column not in swf_header.NAME_LABELS and any(names):
            report.note("names", f"SWF has no names for {column}s; the codes alone are written")
    if log.epoch is not None and log.epoch < log.origin:
        report.note("clock", "SWF has no Unix times below 0; the wall clock is not written")
    return report.close()
