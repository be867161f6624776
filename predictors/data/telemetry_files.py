"""Read telemetry: a folder that LDMS writes to, or other files with a mapping, as rates in order of time.

`scan` yields parts and keeps little, for months of data; `read_telemetry` returns one dense block. Both tell, in an
account, what was dropped, changed or taken otherwise than it stands.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from predictors.data.account import Account
from predictors.data.counters import COUNTER_NAMES, SAMPLERS, counters_of
from predictors.data.errors import JobcastError
from predictors.data.telemetry import Samples, Telemetry
from predictors.data.telemetry_layout import Layout, header_names, is_ldms_header, ldms_layout
from predictors.data.telemetry_mapping import FileMapping, SchemaMapping, read_mapping
from predictors.data.telemetry_rows import Devices, Piece, Texts, csv_frames, header_lines, rows_of
from predictors.data.telemetry_rules import Losses
from predictors.data.telemetry_sets import FileSet, TelemetryFile, file_sets, first_bytes, is_parquet, read_lines
from predictors.data.telemetry_stream import Reading, Stream

if TYPE_CHECKING:
    import polars as pl

MOST_VALUES: Final = 2_000_000_000
"""A dense block has no more values than this (8 GB)."""
_ROWS: Final = 100_000
"""Rows of a Parquet file that are worked on at a time."""


@dataclass(frozen=True)
class _Plan:
    """A set of files, what it gives, and how to read its headers."""

    files: FileSet
    counters: tuple[int, ...]
    mapping: FileMapping | None = None

    def layout(self, names: tuple[str, ...], source: str) -> Layout:
        return ldms_layout(names, source) if self.mapping is None else self.mapping.layout(names, source)


class Scan:
    """Telemetry on its way out of files: iterate over its parts, then ask for the account.

    Parameters
    ----------
    folder : path-like
        The folder that LDMS's store writes to, or any one file of it.
    mapping : path-like or SchemaMapping, optional
        For files of another schema.
    nodes : mapping of str to int, optional
        Id of each producer's node; producers that are not in it are dropped. Absent: the mapping file's, else the
        number that ends the producer's name (`nid00012` is 12), else component_id.
    how : Reading
        Period, gaps, tolerances.
    strict : bool
        Raise at the first thing that would be dropped or changed.

    Raises
    ------
    JobcastError
        If nothing there is telemetry, two sets of files give the same counters, or a file is damaged.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        mapping: str | os.PathLike[str] | SchemaMapping | None = None,
        nodes: Mapping[str, int] | None = None,
        how: Reading | None = None,
        strict: bool = False,
    ) -> None:
        schema = mapping if mapping is None or isinstance(mapping, SchemaMapping) else read_mapping(mapping)
        self.source, self.how = os.fspath(folder), how or Reading()
        self.nodes = nodes if nodes is not None or schema is None else schema.nodes
        self._losses = Losses(self.source, strict)
        self._plans = _ldms_plans(folder, self._losses) if schema is None else _mapped_plans(Path(folder), schema)
        _check_plans(self._plans, self.source)
        missing = len(COUNTER_NAMES) - len({counter for plan in self._plans for counter in plan.counters})
        self._losses.add("no-counter", "", n=missing)

    def __iter__(self) -> Iterator[Samples]:
        for plan in self._plans:
            yield from _read_set(plan, Devices(self.nodes), self.how, self._losses)

    def account(self) -> Account:
        """Return what was dropped, changed or noted so far."""
        return self._losses.account()


def scan(
    folder: str | os.PathLike[str],
    mapping: str | os.PathLike[str] | SchemaMapping | None = None,
    nodes: Mapping[str, int] | None = None,
    how: Reading | None = None,
    strict: bool = False,
) -> Scan:
    """Return the telemetry of a folder, to be iterated over in parts: see `Scan`."""
    return Scan(folder, mapping, nodes, how, strict)


def read_telemetry(
    folder: str | os.PathLike[str],
    mapping: str | os.PathLike[str] | SchemaMapping | None = None,
    nodes: Mapping[str, int] | None = None,
    how: Reading | None = None,
    strict: bool = False,
) -> tuple[Telemetry, Account]:
    """Read the telemetry of a folder as one dense block, its samplers joined by node and time.

    Parameters are those of `Scan`; readings less than `how.tolerance` apart are of one instant.

    Raises
    ------
    JobcastError
        As `Scan`; and if there is no rate at all, or too many for a block.
    """
    parts = Scan(folder, mapping, nodes, how, strict)
    rows, values = [], 0
    for part in parts:
        rows.append(part)
        values += len(part) * len(COUNTER_NAMES)
        if values > 3 * MOST_VALUES:
            raise JobcastError(f"{parts.source}: holds too much for one block; use `scan`, which goes part by part.")
    if not any(map(len, rows)):
        raise JobcastError(f"{parts.source}: gives no rate at all. {parts.account().summary()}.")
    return Telemetry.of_samples(rows, parts.how.tolerance), parts.account()


def _ldms_plans(folder: str | os.PathLike[str], losses: Losses) -> list[_Plan]:
    plans: dict[str, _Plan] = {}
    for files in file_sets(folder):
        layout = _first_layout(files, losses)
        if layout is None:
            continue
        sampler = next(name for name in SAMPLERS if COUNTER_NAMES[layout.counters[0]] in _names_of(name))
        if sampler in plans:
            raise JobcastError(
                f"{os.fspath(folder)}: both {plans[sampler].files.name!r} and {files.name!r} hold counters of "
                f"{sampler}; give one of them, or join their files in one folder."
            )
        plans[sampler] = _Plan(files, tuple(COUNTER_NAMES.index(name) for name in _names_of(sampler)))
    return list(plans.values())


def _names_of(sampler: str) -> list[str]:
    return [counter.name for counter in counters_of(sampler)]


def _first_layout(files: FileSet, losses: Losses) -> Layout | None:
    """Return the layout of the first file that has one; None if the files are no telemetry."""
    problem = ""
    for file in files.files:
        names = _names(file)
        if names:
            try:
                return ldms_layout(names, str(file.path))
            except JobcastError as error:
                problem = str(error)
                break
    losses.add("other-file", "", n=len(files.files), example=problem or str(files.files[0].path))
    return None


def _names(file: TelemetryFile) -> tuple[str, ...] | None:
    if is_parquet(file.path):
        return tuple(_parquet(file.path).collect_schema().names())
    begin = first_bytes(file.header or file.path, 200_000)
    line = begin.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return header_names(line) if is_ldms_header(line) else None


def _mapped_plans(folder: Path, schema: SchemaMapping) -> list[_Plan]:
    plans = []
    for mapping in schema.files:
        paths = sorted(path for path in folder.glob(mapping.match) if path.is_file())
        if not paths:
            raise JobcastError(f"{folder}: no file matches {mapping.match!r} of the mapping; check it.")
        counters = tuple(sorted(one.counter for one in mapping.counters))
        files = FileSet(mapping.match, tuple(TelemetryFile(path) for path in paths))
        plans.append(_Plan(files, counters, mapping))
    return plans


def _check_plans(plans: list[_Plan], source: str) -> None:
    if not plans:
        raise JobcastError(
            f"{source}: holds no telemetry. LDMS's files begin #Time,Time_usec,ProducerName, or have that line in "
            "NAME.HEADER beside them; give a mapping file for other schemas."
        )
    owners: dict[int, str] = {}
    for plan in plans:
        for counter in plan.counters:
            if owners.setdefault(counter, plan.files.name) != plan.files.name:
                raise JobcastError(
                    f"{source}: both {owners[counter]!r} and {plan.files.name!r} give {COUNTER_NAMES[counter]}."
                )


def _read_set(plan: _Plan, devices: Devices, how: Reading, losses: Losses) -> Iterator[Samples]:
    stream: Stream | None = None
    for file in plan.files.files:
        source = str(file.path)
        rows = 0
        for frame, lines, layout, texts in _frames(file, plan, losses):
            if stream is None:
                stream = Stream(layout, plan.counters, devices, how, losses)
            elif layout != stream.layout:
                yield stream.change(layout)
            if not stream.files or stream.files[-1] != source:
                stream.files.append(source)
            at = len(stream.files) - 1, source
            rows += len(frame)
            yield stream.take(rows_of(frame, layout, lines, at, devices, losses, texts))
        if not rows:
            losses.add("empty-file", source, n=1)
    if stream is not None:
        yield stream.finish()


def _frames(file: TelemetryFile, plan: _Plan, losses: Losses) -> Iterator[Piece]:
    told: Layout | None = None
    for piece in _parquet_pieces(file, plan) if is_parquet(file.path) else _csv_pieces(file, plan, losses):
        layout = piece[2]
        if layout is not told:
            told = layout
            foreign = [COUNTER_NAMES[one] for one in layout.counters if one not in plan.counters]
            if foreign:
                raise JobcastError(f"{file.path}: holds {foreign[0]}, which the files before it of its set do not.")
            losses.add("other-column", str(file.path), n=len(layout.ignored), example=", ".join(layout.ignored[:3]))
        yield piece


def _csv_pieces(file: TelemetryFile, plan: _Plan, losses: Losses) -> Iterator[Piece]:
    source = str(file.path)
    layout = None
    if file.header is not None:
        names = _names(file)
        layout = plan.layout(names, str(file.header)) if names else None
    for line, read in read_lines(file.path):
        piece = read
        if not piece.endswith(b"\n"):
            if plan.mapping is None:
                losses.add("unfinished", source, [line], example=piece[:40].decode("utf-8", "replace"))
                return
            piece += b"\n"
        begin = 0
        headers = header_lines(piece)
        if plan.mapping is not None and layout is None and headers[:1] != [0]:
            headers = [0, *headers]
        for at in headers:
            end = piece.index(b"\n", at)
            text = piece[at:end].decode("utf-8", "replace").replace('"', "")
            here = line + piece.count(b"\n", 0, at)
            if here > 1:
                losses.add("header", source, [here], example=text[:40])
            if not is_ldms_header(text) if plan.mapping is None else layout is not None:
                continue  # a remark
            fresh = plan.layout(header_names(text), f"{source}:{here}")
            if layout is None or fresh != layout:
                if layout is not None:
                    yield from csv_frames(piece[begin:at], layout, line + piece.count(b"\n", 0, begin), source, losses)
                begin, layout = end + 1, fresh
        if layout is None:
            raise JobcastError(
                f"{source}:{line}: has no header; LDMS writes it as the first line, or to NAME.HEADER beside the file."
            )
        if begin < len(piece):
            yield from csv_frames(piece[begin:], layout, line + piece.count(b"\n", 0, begin), source, losses)


def _parquet_pieces(file: TelemetryFile, plan: _Plan) -> Iterator[Piece]:
    import polars as pl

    source = str(file.path)
    table = _parquet(file.path)
    schema = table.collect_schema()
    layout = plan.layout(tuple(schema.names()), source)
    if isinstance(schema.dtypes()[layout.time[0]], pl.Datetime):
        layout = replace(layout, clock="datetime")
    kinds: dict[int, pl.DataType] = {}
    for metric in layout.metrics:
        kinds[metric.column] = pl.UInt64() if metric.kind == "cumulative" else pl.Float64()
        if metric.flag >= 0:
            kinds[metric.flag] = pl.Int64()
    wanted = sorted({*kinds, *layout.time, layout.node, *layout.devices, max(layout.component, 0)})
    first = 0
    while True:
        part = table.select(layout.names[k] for k in wanted).slice(first, _ROWS).collect()
        if not len(part):
            return
        part = part.rename({layout.names[k]: str(k) for k in wanted})
        frame = part.with_columns(pl.col(str(k)).cast(kind, strict=False) for k, kind in kinds.items())
        yield frame, np.arange(first, first + len(part)) + 1, layout, _as_text(part)
        first += len(part)


def _as_text(part: "pl.DataFrame") -> Texts:
    import polars as pl

    return lambda column: part[str(column)].cast(pl.String)


def _parquet(path: Path) -> "pl.LazyFrame":
    import polars as pl

    try:
        table = pl.scan_parquet(path)
        table.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).split("\n")[0]
        raise JobcastError(f"{path}: is a damaged Parquet file ({reason}); copy or convert it again.") from error
    return table
