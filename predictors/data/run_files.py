"""Tables of runs as files: CSV for people and other programs, Parquet for speed; told apart by their content."""

import csv
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.data.account import N_PLACES, Account, Effect, Finding
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.runs import PROBES, TRUTH, WORKLOADS, Runs, expand
from predictors.data.sources import read_bytes

MAGIC: Final = b"PAR1"
REQUIRED: Final = ("job_id", "application", "start", "end")
"""Columns that a table must have; beside them `nodes` or `node_count`."""
OPTIONAL: Final = ("node_count", "nodes", "region_time", "workload", *PROBES)


def write_runs(runs: Runs, path: str | os.PathLike[str]) -> None:
    """Write runs: Parquet if the name ends in `.parquet`, else CSV. The file appears whole or not at all.

    Node sets are written compactly, `0-3 8 12-15`; what is not known is an empty cell.

    Raises
    ------
    JobcastError
        If the file cannot be made.
    """
    table = runs.to_frame()
    with whole_file(path) as part:
        if Path(path).suffix == ".parquet":
            table.to_parquet(part, index=False, compression="zstd")
        else:
            table.to_csv(part, index=False, lineterminator="\n")


def read_runs(path: str | os.PathLike[str], strict: bool = False) -> tuple[Runs, Account]:
    """Read a table of runs, and account for each row that could not be used.

    A row is dropped, and counted by rule, if its id, application, start or end is missing or no number, if it ended
    before it started, if its nodes cannot be read or are not `node_count` many, or if its job id came before. A
    workload that is none of the three and a time or probe that is no number are changed to unknown.

    Parameters
    ----------
    path : path-like
        CSV with a header, or Parquet.
    strict : bool
        Raise at the first row that would be dropped or changed.

    Raises
    ------
    JobcastError
        If the file cannot be read, lacks a column or has one that is not known, or has no usable row.
    """
    data, source = read_bytes(path), os.fspath(path)
    rows = _parquet_rows(data, source) if data[:4] == MAGIC else _csv_rows(data, source)
    columns = list(rows[0]) if rows else []
    return _runs_of(columns, rows, source, strict)


def _csv_rows(data: bytes, source: str) -> list[dict[str, str]]:
    try:
        lines = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), restval="", strict=True)
        rows = [{str(key): value for key, value in row.items()} for row in lines]
    except (UnicodeDecodeError, csv.Error) as error:
        raise JobcastError(
            f"{source}: is no CSV table of runs ({error}); give CSV with a header, or Parquet."
        ) from error
    _check_columns(list(lines.fieldnames or ()), source)
    return rows


def _parquet_rows(data: bytes, source: str) -> list[dict[str, str]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(f"{source}: is a damaged Parquet file ({reason}); copy or write it again.") from error
    _check_columns(table.column_names, source)
    columns = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _check_columns(names: list[str], source: str) -> None:
    for name in REQUIRED:
        if name not in names:
            raise JobcastError(f"{source}: has no column {name!r}; a table of runs needs {', '.join(REQUIRED)}.")
    if not {"nodes", "node_count"} & set(names):
        raise JobcastError(f"{source}: has neither column 'nodes' nor 'node_count'.")
    for name in names:
        if name not in (*REQUIRED, *OPTIONAL) and not name.startswith(TRUTH):
            raise JobcastError(
                f"{source}: column {name!r} is not known; known are {', '.join((*REQUIRED, *OPTIONAL[:4]))}, the "
                f"probes {PROBES[0]} … {PROBES[-1]} and names that begin with {TRUTH!r}."
            )
    if len(set(names)) < len(names):
        raise JobcastError(f"{source}: has a column twice.")


class _Notes:
    """Findings as they come, by rule."""

    def __init__(self) -> None:
        self.found: dict[tuple[Effect, str, str], list[tuple[int, str]]] = {}
        self.text: dict[str, str] = {}

    def add(self, effect: Effect, rule: str, column: str, text: str, line: int, value: object) -> None:
        self.found.setdefault((effect, rule, column), []).append((line, str(value)))
        self.text[rule] = text

    def account(self, source: str) -> Account:
        return Account(
            source,
            tuple(
                Finding(
                    rule,
                    effect,
                    self.text[rule],
                    len(places),
                    tuple(line for line, _ in places[:N_PLACES]),
                    column=column,
                    example=places[0][1],
                )
                for (effect, rule, column), places in self.found.items()
            ),
        )


def _runs_of(columns: list[str], rows: list[dict[str, str]], source: str, strict: bool) -> tuple[Runs, Account]:
    notes, kept, seen = _Notes(), [], set()
    for line, row in enumerate(rows, start=2):
        cells = _cells(row, line, notes)
        if cells is not None and cells["job_id"] in seen:
            notes.add("dropped", "twice", "job_id", "the job id came before", line, cells["job_id"])
        elif cells is not None:
            seen.add(cells["job_id"])
            kept.append(cells)
    account = notes.account(source)
    if strict:
        account.require_clean()
    if not kept:
        raise JobcastError(f"{source}: holds no run that can be used ({account.summary()}).")
    truth = [name for name in columns if name.startswith(TRUTH)]
    runs = Runs(
        **{name: np.array([cells[name] for cells in kept]) for name in ("job_id", "application", "node_count")},
        **{name: np.array([cells[name] for cells in kept]) for name in ("start", "end", "region_time", "workload")},
        probes=np.array([[cells[name] for name in PROBES] for cells in kept]),
        node_ids=np.array([node for cells in kept for node in cells["nodes"]], dtype=np.int64),
        node_offsets=np.concatenate(([0], np.cumsum([len(cells["nodes"]) for cells in kept]))),
        truth={name: np.array([cells[name] for cells in kept]) for name in truth},
    )
    return runs, account


def _cells(row: Mapping[str, str], line: int, notes: _Notes) -> dict[str, Any] | None:
    """Return one row's values, or None where it must be dropped."""
    cells: dict[str, Any] = {}
    for name, (read, text) in _NEEDED.items():
        try:
            cells[name] = read(row[name].strip())
        except ValueError:
            notes.add("dropped", "unreadable", name, text, line, row[name])
            return None
    if cells["end"] < cells["start"]:
        notes.add("dropped", "ended-before-start", "end", "end lies before start", line, row["end"])
        return None
    try:
        cells["nodes"] = expand(row.get("nodes", ""))
        told = row.get("node_count", "").strip()
        cells["node_count"] = _whole(told) if told else len(cells["nodes"])
    except ValueError as error:
        notes.add("dropped", "unreadable", "nodes", "the nodes cannot be read", line, error)
        return None
    if cells["node_count"] < 1 or len(cells["nodes"]) not in (0, cells["node_count"]):
        found = f"{len(cells['nodes'])} nodes, node_count {row.get('node_count', '')}"
        notes.add("dropped", "nodes", "node_count", "nodes and node_count do not agree, or are none", line, found)
        return None
    workload = row.get("workload", "").strip()
    if workload not in (*WORKLOADS, ""):
        notes.add("changed", "unknown-word", "workload", "read as unknown", line, workload)
    cells["workload"] = workload if workload in WORKLOADS else ""
    for name in ("region_time", *PROBES, *(name for name in row if name.startswith(TRUTH))):
        cells[name] = _number(row.get(name, ""), name, line, notes)
    return cells


def _number(text: str, name: str, line: int, notes: _Notes) -> float:
    if not text.strip() or text.strip().lower() == "nan":
        return float("nan")
    try:
        value = _finite(text)
        if value < 0 and not name.startswith(TRUTH):
            raise ValueError
    except ValueError:
        notes.add("changed", "no-number", name, "read as unknown", line, text)
        return float("nan")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if abs(value) >= 10**18:  # it must fit into an int64
        raise ValueError(f"{text} is too large")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not np.isfinite(value):
        raise ValueError
    return value


def _word(text: str) -> str:
    if not text:
        raise ValueError
    return text


_NEEDED: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = MappingProxyType(
    {
        "job_id": (_whole, "the job id is no whole number of at most 18 digits"),
        "application": (_word, "the application has no name"),
        "start": (_finite, "start is no finite number"),
        "end": (_finite, "end is no finite number"),
    }
)
