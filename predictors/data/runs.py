"""Runs of applications: table and files (CSV, Parquet).

A `Runs` is an immutable table of finished jobs, one row a job: control jobs submitted again and again, or any others.
Times are seconds in one clock, that of its telemetry (Unix seconds on a real machine, simulated seconds in a
simulation); they need not be whole. What is not known is NaN, an empty node set or an empty text.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.parquet import MAGIC, parquet_table
from predictors.data.report import Effect, ReadingReport, ReportBuilder

if TYPE_CHECKING:
    import pandas as pd


Words = npt.NDArray[np.str_]

WORKLOADS: Final = ("compute", "network", "io")  # what a run time depends on most, as the one-hot inputs

PROBES: Final = tuple(  # waits in the calls of a ring and an all-reduce just before the job, over its nodes [s]; nine
    f"{extreme}_{call}_wait" for call in ("send", "recv", "allreduce") for extreme in ("min", "max", "mean")
)

TRUTH: Final = "true_"  # prefix of columns that only a simulation can fill, such as true loads; no classifier sees them
NEAR: Final = "near_"  # prefix of columns that describe what ran next to a run when it started, such as near_jobs
FREE: Final = (TRUTH, NEAR)  # prefixes of columns that are free in number


@dataclass(frozen=True, eq=False)
class Runs:
    """Finished jobs.

    >>> runs = Runs.of(
    ...     job_id=[1, 2], application=["AMG", "LBANN"], nodes=[[3, 2], [0, 1, 7]], start=[0, 60], end=[300, 390.5],
    ...     workload=["compute", "io"],
    ... )
    >>> len(runs), runs.nodes(1).tolist(), runs.run_time.tolist()
    (2, [0, 1, 7], [300.0, 330.5])
    """

    job_id: Ints  # shape (n,); unique
    application: Words  # shape (n,); never empty
    node_count: Ints  # shape (n,); at least 1
    start: Floats  # start, end: shape (n,); in the telemetry's clock [s]; end >= start
    end: Floats
    workload: Words  # shape (n,); one of `WORKLOADS`, or empty where it is not known
    # node_ids, node_offsets: row i ran on `node_ids[node_offsets[i]:node_offsets[i + 1]]`, ascending; none where they
    # are not known. Absent: not known for any row.
    node_ids: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    node_offsets: Ints | None = None
    # shape (n,); time in the main compute region [s], NaN where it was not measured; absent: nowhere
    region_time: Floats | None = None
    # shape (n, 9); in the order of `PROBES` [s], NaN where a probe is absent; absent: nowhere measured
    probes: Floats | None = None
    truth: Mapping[str, Floats] = field(default_factory=dict)  # shape (n,); columns with names that begin with `true_`

    __repr__ = short_repr

    def __post_init__(self) -> None:
        n = len(self.job_id)
        absent = {
            "node_offsets": np.zeros(n + 1, dtype=np.int64),
            "region_time": np.full(n, np.nan),
            "probes": np.full((n, len(PROBES)), np.nan),
        }
        shapes = {"node_offsets": (n + 1,), "node_ids": (len(self.node_ids),), "probes": (n, len(PROBES))}
        for name, kind in _KINDS.items():
            given = getattr(self, name)
            array = np.array(absent[name] if given is None else given, dtype=kind)
            _check_shape(name, array, shapes.get(name, (n,)))
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        truth = {name: np.array(column, dtype=np.float64) for name, column in self.truth.items()}
        for name, column in truth.items():
            _check_shape(name, column, (n,))
            column.flags.writeable = False
            if not name.startswith(FREE):
                raise JobcastError(
                    f"Runs: column {name!r} is not known; only names that begin with {TRUTH!r} or {NEAR!r} are free."
                )
        object.__setattr__(self, "truth", MappingProxyType(truth))
        self._validate()

    def _validate(self) -> None:
        lowest, listed = self.offsets[:-1], np.diff(self.offsets)
        if self.offsets[0] != 0 or (listed < 0).any() or self.offsets[-1] != len(self.node_ids):
            raise JobcastError("Runs: node offsets must rise from 0 to the number of node ids.")
        first = np.zeros(len(self.node_ids), dtype=np.bool_)
        first[lowest[listed > 0]] = True
        rising = np.diff(self.node_ids, prepend=0) > 0
        order = np.argsort(self.job_id, kind="stable")
        twice = np.zeros(len(self), dtype=np.bool_)
        twice[order[1:]] = np.diff(self.job_id[order]) == 0
        region = self.known_region_time
        probes_fit = np.all(np.isnan(self.probe_waits) | _positive(self.probe_waits), axis=1)
        rules: list[tuple[str, Any, npt.NDArray[Any]]] = [
            ("job ids must be unique", twice, self.job_id),
            ("the application must have a name", self.application == "", self.application),
            ("there must be at least one node", self.node_count < 1, self.node_count),
            ("node ids must be as many as node_count", (listed > 0) & (listed != self.node_count), self.node_count),
            ("start must be finite", ~np.isfinite(self.start), self.start),
            ("end must be finite and not before start", ~(np.isfinite(self.end) & (self.end >= self.start)), self.end),
            ("region_time must be finite and not below 0", ~np.isnan(region) & ~_positive(region), region),
            (
                f"workload must be one of {', '.join(WORKLOADS)}",
                ~np.isin(self.workload, (*WORKLOADS, "")),
                self.workload,
            ),
            ("probes must be finite and not below 0", ~probes_fit, self.job_id),
        ]
        for rule, bad, values in rules:
            if bad.any():
                row = int(np.argmax(bad))
                raise JobcastError(f"Runs: {rule}; job {self.job_id[row]} (row {row}) has {values[row]!s}.")
        if not (rising | first).all() or (self.node_ids[:1] < 0).any() or (self.node_ids[first] < 0).any():
            raise JobcastError("Runs: the node ids of a job must ascend from 0 on, each once.")

    @classmethod
    def of(
        cls,
        *,
        job_id: npt.ArrayLike,
        application: Sequence[str],
        start: npt.ArrayLike,
        end: npt.ArrayLike,
        workload: Sequence[str],
        nodes: Iterable[Sequence[int] | Ints] | None = None,
        node_count: npt.ArrayLike | None = None,
        region_time: npt.ArrayLike | None = None,
        probes: npt.ArrayLike | None = None,
        truth: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Self:
        """Build from plain lists; give `nodes`, a list of ids a job in any order, or `node_count`, or both."""
        lists = None if nodes is None else [np.unique(np.asarray(one, dtype=np.int64)) for one in nodes]
        if lists is None and node_count is None:
            raise JobcastError("Runs: needs the nodes of each job, or their number.")
        sizes = [len(one) for one in lists or ()]
        return cls(
            job_id=np.asarray(job_id, dtype=np.int64),
            application=np.asarray(application, dtype=np.str_),
            node_count=np.asarray(sizes if node_count is None else node_count, dtype=np.int64),
            start=np.asarray(start, dtype=np.float64),
            end=np.asarray(end, dtype=np.float64),
            workload=np.asarray(workload, dtype=np.str_),
            node_ids=np.concatenate(lists) if lists else np.empty(0, dtype=np.int64),
            node_offsets=None if lists is None else np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))),
            region_time=None if region_time is None else np.asarray(region_time, dtype=np.float64),
            probes=None if probes is None else np.asarray(probes, dtype=np.float64),
            truth={name: np.asarray(column, dtype=np.float64) for name, column in (truth or {}).items()},
        )

    def __len__(self) -> int:
        return len(self.job_id)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle and copy by the columns, made and checked again: a read-only mapping cannot be pickled."""
        return remade, (type(self), {f.name: getattr(self, f.name) for f in fields(self)} | {"truth": dict(self.truth)})

    @property
    def offsets(self) -> Ints:
        """Where each row's nodes begin and end in `node_ids`, shape (n + 1,)."""
        assert self.node_offsets is not None
        return self.node_offsets

    @property
    def known_region_time(self) -> Floats:
        """Time in the main compute region [s], NaN where it was not measured."""
        assert self.region_time is not None
        return self.region_time

    @property
    def probe_waits(self) -> Floats:
        """Probes in the order of `PROBES` [s], NaN where absent, shape (n, 9)."""
        assert self.probes is not None
        return self.probes

    @property
    def run_time(self) -> Floats:
        """The run time for labels [s]: the time in the main compute region, or end - start.

        All runs of an application on the same number of nodes use the same one, since they are compared: the time in
        the region if each of these runs in this table has it, else end - start.
        """
        unknown = np.isnan(self.known_region_time)
        names, name = np.unique(self.application, return_inverse=True)
        sizes, size = np.unique(self.node_count, return_inverse=True)
        kind = name * len(sizes) + size
        lacking = np.bincount(kind, weights=unknown, minlength=len(names) * len(sizes)) > 0
        return np.where(lacking[kind], self.end - self.start, self.known_region_time)

    def nodes(self, row: int) -> Ints:
        """Return the node ids of one row, ascending; empty where they are not known."""
        return self.node_ids[self.offsets[row] : self.offsets[row + 1]]

    def select(self, rows: npt.NDArray[np.bool_] | Ints | slice) -> Self:
        """Return the table of some rows, in the order given."""
        chosen = np.arange(len(self))[rows]
        listed = [self.nodes(row) for row in chosen]
        columns = {name: getattr(self, name)[chosen] for name in _BY_ROW}
        return type(self)(
            **columns,
            node_ids=np.concatenate([np.empty(0, dtype=np.int64), *listed]),
            node_offsets=np.concatenate(([0], np.cumsum([len(one) for one in listed], dtype=np.int64))),
            truth={name: column[chosen] for name, column in self.truth.items()},
        )

    def sorted_by_start(self) -> Self:
        """Return the table sorted by (start, job id)."""
        return self.select(np.lexsort((self.job_id, self.start)))

    @classmethod
    def joined(cls, tables: Sequence["Runs"]) -> "Runs":
        """Return one table of several, in order; columns `true_…` must be the same in each, and job ids must differ."""
        if not tables or any(set(table.truth) != set(tables[0].truth) for table in tables):
            raise JobcastError("Runs: join at least one table, all with the same columns true_….")
        shifts = np.cumsum([0, *(len(table.node_ids) for table in tables)])
        return cls(
            **{name: np.concatenate([getattr(table, name) for table in tables]) for name in (*_BY_ROW, "node_ids")},
            node_offsets=np.concatenate([[0], *(t.offsets[1:] + s for t, s in zip(tables, shifts, strict=False))]),
            truth={name: np.concatenate([table.truth[name] for table in tables]) for name in tables[0].truth},
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return one pandas column a field, nodes as `0-3 8`; the CSV file has the same columns."""
        import pandas as pd

        plain = {name: getattr(self, name) for name in ("job_id", "application", "node_count")}
        nodes = [compact(self.nodes(row)) for row in range(len(self))]
        rest = {name: getattr(self, name) for name in ("start", "end", "region_time", "workload")}
        probes = {name: self.probe_waits[:, k] for k, name in enumerate(PROBES)}
        return pd.DataFrame({**plain, "nodes": nodes, **rest, **probes, **self.truth})

    @classmethod
    def from_frame(cls, table: "pd.DataFrame") -> Self:
        """Return the runs of a frame by `to_frame`.

        >>> runs = Runs.of(job_id=[4], application=["AMG"], nodes=[[3, 2]], start=[0], end=[0.1], workload=["io"])
        >>> again = Runs.from_frame(runs.to_frame())
        >>> again.nodes(0).tolist(), again.end.tolist()
        ([2, 3], [0.1])
        """
        lists = [expand(text) for text in table["nodes"]]
        return cls(
            **{name: table[name].to_numpy() for name in _BY_ROW if name != "probes"},
            probes=table[list(PROBES)].to_numpy(),
            node_ids=np.array([node for one in lists for node in one], dtype=np.int64),
            node_offsets=np.concatenate(([0], np.cumsum([len(one) for one in lists], dtype=np.int64))),
            truth={str(name): table[name].to_numpy() for name in table if str(name).startswith(FREE)},
        )


def remade(kind: Callable[..., object], about: dict[str, object]) -> object:
    """Return a table made of its fields, for copies and pickles."""
    return kind(**about)


def compact(nodes: Iterable[int]) -> str:
    """Return an ascending set of node ids as text.

    >>> compact([0, 1, 2, 3, 8, 12, 13])
    '0-3 8 12-13'
    """
    ranges: list[list[int]] = []
    for node in map(int, nodes):
        if ranges and node == ranges[-1][1] + 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def expand(text: str) -> list[int]:
    """Return the node ids that `compact` wrote, ascending; any other text raises ValueError.

    >>> expand("0-3 8 12-13")
    [0, 1, 2, 3, 8, 12, 13]
    """
    nodes: list[int] = []
    for part in text.split():
        low, dash, high = part.partition("-")
        if not (_is_id(low) and (_is_id(high) if dash else True)):
            raise ValueError(f"{part!r} is no node id and no range such as 12-15")
        span = range(int(low), int(high or low) + 1)
        if not span or (nodes and span[0] <= nodes[-1]):
            raise ValueError(f"{part!r} does not ascend")
        if len(nodes) + len(span) > MOST_NODES:
            raise ValueError(f"more than {MOST_NODES:,} nodes")
        nodes.extend(span)
    return nodes


def _is_id(text: str) -> bool:
    """Return whether a text is a number of at most 18 digits, which an int64 holds."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


MOST_NODES: Final = 10_000_000  # a run cannot have more nodes

_KINDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "job_id": np.int64, "application": np.str_, "node_count": np.int64, "start": np.float64, "end": np.float64,
        "workload": np.str_, "node_ids": np.int64, "node_offsets": np.int64, "region_time": np.float64,
        "probes": np.float64,
    }
)  # fmt: skip
_BY_ROW: Final = tuple(f.name for f in fields(Runs) if f.name not in ("node_ids", "node_offsets", "truth"))


def _check_shape(name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise JobcastError(f"Runs: column {name!r} has shape {array.shape}; it must have {shape}.")


def _positive(values: Floats) -> npt.NDArray[np.bool_]:
    return np.isfinite(values) & (values >= 0)


RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(  # the rules of the report on a file of runs
    {
        "unreadable": ("dropped", "a run has an id of at most 18 digits, a name, finite times, and node ids or none"),
        "ended-before-start": ("dropped", "end is before start"),
        "nodes": ("dropped", "nodes and node_count do not agree, or are both missing"),
        "twice": ("dropped", "an earlier row has the same job id"),
        "unknown-word": ("changed", "read as unknown"),
        "no-number": ("changed", "read as unknown"),
    }
)
REQUIRED: Final = ("job_id", "application", "start", "end")  # of a table, together with `nodes` or `node_count`
OPTIONAL: Final = ("node_count", "nodes", "region_time", "workload", *PROBES)


def write_runs(runs: Runs, path: str | os.PathLike[str]) -> None:
    """Write runs: Parquet if the name ends in `.parquet`, else CSV. The file appears whole or not at all.

    Node sets are written as `0-3 8 12-15`; what is not known is an empty cell.
    """
    table = runs.to_frame()
    with whole_file(path) as part:
        if Path(path).suffix == ".parquet":
            with part.open("wb") as file:  # Arrow refuses paths that are not UTF-8
                table.to_parquet(file, index=False, compression="zstd")
        else:
            table.to_csv(part, index=False, lineterminator="\n")


def read_runs(
    path: str | os.PathLike[str],  # CSV with a header, or Parquet
    strict: bool = False,
) -> tuple[Runs, ReadingReport]:
    """Read a table of runs, and account for each row that could not be used.

    `RULES` says which rows are dropped. A workload that is none of the three, and a time or probe that is no number,
    are changed to unknown.
    """
    data, source = read_bytes(path), os.fspath(path)
    rows = _parquet_rows(data, source) if data[:4] == MAGIC else _csv_rows(data, source)
    return _runs_of(rows, source, strict)


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
    table = parquet_table(data, source)
    _check_columns(table.column_names, source)
    return [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in table.to_pylist()]


def _check_columns(names: list[str], source: str) -> None:
    for name in REQUIRED:
        if name not in names:
            raise JobcastError(f"{source}: has no column {name!r}; a table of runs needs {', '.join(REQUIRED)}.")
    if not {"nodes", "node_count"} & set(names):
        raise JobcastError(f"{source}: has neither column 'nodes' nor 'node_count'.")
    for name in names:
        if name not in (*REQUIRED, *OPTIONAL) and not name.startswith(FREE):
            raise JobcastError(
                f"{source}: column {name!r} is not known; known are {', '.join((*REQUIRED, *OPTIONAL[:4]))}, the "
                f"probes {PROBES[0]} … {PROBES[-1]} and names that begin with {TRUTH!r} or {NEAR!r}."
            )
    if len(set(names)) < len(names):
        raise JobcastError(f"{source}: has a column twice.")


def _runs_of(rows: list[dict[str, str]], source: str, strict: bool) -> tuple[Runs, ReadingReport]:
    report, kept = ReportBuilder(source, RULES), dict[int, dict[str, Any]]()
    for line, row in enumerate(rows, start=2):
        cells = _cells(row, line, report)
        if cells is not None and cells["job_id"] in kept:
            report.add("twice", line, "job_id", str(cells["job_id"]))
        elif cells is not None:
            kept[cells["job_id"]] = cells
    account = report.close()
    if strict:
        account.require_clean()
    if not kept:
        raise JobcastError(f"{source}: holds no run that can be used ({account.summary()}).")
    column = {name: [cells[name] for cells in kept.values()] for name in next(iter(kept.values()))}
    runs = Runs(
        **{name: np.array(column[name]) for name in _BY_ROW if name != "probes"},
        probes=np.array([column[name] for name in PROBES]).T,
        node_ids=np.array([node for one in column["nodes"] for node in one], dtype=np.int64),
        node_offsets=np.concatenate(([0], np.cumsum([len(one) for one in column["nodes"]]))),
        truth={name: np.array(column[name]) for name in column if name.startswith(FREE)},
    )
    return runs, account


def _cells(row: Mapping[str, str], line: int, report: ReportBuilder) -> dict[str, Any] | None:
    """Return one row's values, or None where it must be dropped."""
    cells: dict[str, Any] = {}
    for name, read in _NEEDED.items():
        try:
            cells[name] = read(row[name].strip())
        except ValueError:
            report.add("unreadable", line, name, row[name])
            return None
    if cells["end"] < cells["start"]:
        report.add("ended-before-start", line, "end", row["end"])
        return None
    try:
        cells["nodes"] = expand(row.get("nodes", ""))
        count = row.get("node_count", "").strip()
        cells["node_count"] = _whole(count) if count else len(cells["nodes"])
    except ValueError as error:
        report.add("unreadable", line, "nodes", str(error))
        return None
    if cells["node_count"] < 1 or len(cells["nodes"]) not in (0, cells["node_count"]):
        report.add("nodes", line, "node_count", f"{len(cells['nodes'])} nodes, node_count {count}")
        return None
    workload = row.get("workload", "").strip()
    if workload not in (*WORKLOADS, ""):
        report.add("unknown-word", line, "workload", workload)
    cells["workload"] = workload if workload in WORKLOADS else ""
    for name in ("region_time", *PROBES, *(name for name in row if name.startswith(FREE))):
        text = row.get(name, "").strip()
        try:
            cells[name] = float("nan") if text.lower() in ("", "nan") else _finite(text)
            if cells[name] < 0 and not name.startswith(FREE):
                raise ValueError
        except ValueError:
            report.add("no-number", line, name, text)
            cells[name] = float("nan")
    return cells


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


def _name(text: str) -> str:
    if not text:
        raise ValueError
    return text


_NEEDED: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {"job_id": _whole, "application": _name, "start": _finite, "end": _finite}
)
