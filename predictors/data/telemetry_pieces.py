"""The pieces of one telemetry file: frames of rows, with their lines and what their columns are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.telemetry import Floats
from predictors.data.telemetry_layout import Layout, header_names, is_ldms_header, ldms_layout
from predictors.data.telemetry_mapping import FileMapping
from predictors.data.telemetry_rows import Piece, Texts, csv_frames, header_lines
from predictors.data.telemetry_rules import Losses
from predictors.data.telemetry_sets import FileSet, TelemetryFile, first_bytes, is_parquet, read_lines

if TYPE_CHECKING:
    import polars as pl

MARGIN: Final = 300.0
"""Readings this much before what is asked for are read as well [s], to take rates from."""
SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ms+us": 1e-3}
"""What the time column of a layout is in."""
_GLIMPSE: Final = 50_000
_HOUR: Final = 3600.0
_ROWS: Final = 100_000
"""Rows of a Parquet file that are worked on at a time."""


@dataclass(frozen=True)
class Plan:
    """A set of files, what it gives, and how to read its headers: LDMS's, or by a mapping."""

    files: FileSet
    counters: tuple[int, ...]
    mapping: FileMapping | None = None
    share: int = 1

    def layout(self, names: tuple[str, ...], source: str) -> Layout:
        """Return what the columns of one of the files are."""
        return ldms_layout(names, source) if self.mapping is None else self.mapping.layout(names, source)


def names_of(file: TelemetryFile) -> tuple[str, ...] | None:
    """Return the names of a file's columns, None if it has no header that LDMS would write."""
    if is_parquet(file.path):
        return tuple(_parquet(file.path).schema_arrow.names)
    begin = first_bytes(file.header or file.path, 200_000)
    line = begin.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return header_names(line) if is_ldms_header(line) else None


def began(file: TelemetryFile, plan: Plan) -> float | None:
    """Return the second at which a CSV file begins, if its name says so and its first lines agree; else None."""
    if file.epoch is None or is_parquet(file.path) or (names := names_of(file)) is None:
        return None
    layout = plan.layout(names, str(file.path))
    lines = first_bytes(file.path, _GLIMPSE).split(b"\n")[:-1]
    first = next((time for line in lines if (time := _time_of(line, layout)) is not None), None)
    return float(file.epoch) if first is not None and abs(first - file.epoch) < _HOUR else None


def csv_pieces(
    file: TelemetryFile, plan: Plan, losses: Losses, between: Floats | None = None
) -> Iterator[Piece | None]:
    """Yield the pieces of a CSV file, which may hold several headers; None in place of pieces that were not asked for.

    Raises
    ------
    JobcastError
        If there is none, or the file is damaged.
    """
    source = str(file.path)
    layout = None
    if file.header is not None:
        names = names_of(file)
        layout = plan.layout(names, str(file.header)) if names else None
    for line, read in read_lines(file.path, plan.share):
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
                    here = line + piece.count(b"\n", 0, begin)
                    yield from _asked_for(piece[begin:at], layout, here, source, losses, between)
                begin, layout = end + 1, fresh
        if layout is None:
            raise JobcastError(
                f"{source}:{line}: has no header; LDMS writes it as the first line, or to NAME.HEADER beside the file."
            )
        if begin < len(piece):
            here = line + piece.count(b"\n", 0, begin)
            yield from _asked_for(piece[begin:], layout, here, source, losses, between)


def _asked_for(
    piece: bytes, layout: Layout, line: int, source: str, losses: Losses, between: Floats | None
) -> Iterator[Piece | None]:
    """Yield a piece's frame; None if no time in it is asked for, as its first and last lines tell."""
    if between is not None and layout.clock != "datetime":
        ends = piece[:_GLIMPSE].split(b"\n")[:5] + piece[-_GLIMPSE:].split(b"\n")[-6:]
        times = [time for one in ends if (time := _time_of(one, layout)) is not None]
        if times and not _overlap(min(times) - MARGIN, max(times) + MARGIN, between):
            yield None
            return
    yield from csv_frames(piece, layout, line, source, losses)


def _time_of(line: bytes, layout: Layout) -> float | None:
    """Return when a line was read [s]; None if that cannot be told."""
    fields = line.split(b",")
    if len(fields) != len(layout.names):
        return None
    try:
        time = float(fields[layout.time[0]]) * SECONDS[layout.clock]
    except ValueError:
        return None
    return time if 0 <= time < np.inf else None


def _overlap(first: float, last: float, between: Floats) -> bool:
    return bool(((between[:, 0] <= last) & (between[:, 1] >= first)).any())


def parquet_pieces(file: TelemetryFile, plan: Plan, between: Floats | None) -> Iterator[Piece | None]:
    """Yield the pieces of a Parquet file; None where row groups that hold no time that is asked for were left out.

    Raises
    ------
    JobcastError
        If the file is damaged.
    """
    import polars as pl
    import pyarrow as pa

    table = _parquet(file.path)
    layout = plan.layout(tuple(table.schema_arrow.names), str(file.path))
    if pa.types.is_timestamp(table.schema_arrow.field(layout.time[0]).type):
        layout = replace(layout, clock="datetime")
    kinds: dict[int, Any] = {}
    for metric in layout.metrics:
        kinds[metric.column] = pl.UInt64 if metric.kind == "cumulative" else pl.Float64
        if metric.flag >= 0:
            kinds[metric.flag] = pl.Int64
    wanted = sorted({*kinds, *layout.time, layout.node, *layout.devices, max(layout.component, 0)})
    names = [layout.names[k] for k in wanted]
    first = 1
    for group in range(table.metadata.num_row_groups):
        rows = table.metadata.row_group(group)
        if not _holds(rows, names[wanted.index(layout.time[0])], layout, between):
            first += rows.num_rows
            yield None
            continue
        batches = _all_of(table.iter_batches(_ROWS, row_groups=[group], columns=names), file.path)
        for batch in batches:
            part = pl.DataFrame(pl.from_arrow(batch)).rename(dict(zip(names, map(str, wanted), strict=True)))
            frame = part.with_columns(pl.col(str(k)).cast(kind, strict=False) for k, kind in kinds.items())
            yield Piece(frame, np.arange(first, first + len(part)), layout, _as_text(part))
            first += len(part)


def _holds(rows: Any, name: str, layout: Layout, between: Floats | None) -> bool:
    """Tell whether a row group may hold a time that is asked for, by the smallest and largest time in it."""
    if between is None or layout.clock != "s":
        return True
    columns = [rows.column(k) for k in range(rows.num_columns)]
    times = next(column.statistics for column in columns if column.path_in_schema == name)
    if times is None or not times.has_min_max:
        return True
    return _overlap(times.min, times.max + MARGIN, between)


def _as_text(part: "pl.DataFrame") -> Texts:
    import polars as pl

    return lambda column: part[str(column)].cast(pl.String)


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    with _clear_errors(path):
        return parquet.ParquetFile(path, page_checksum_verification=True)


def _all_of(batches: Iterator[Any], path: Path) -> Iterator[Any]:
    while True:
        with _clear_errors(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(f"{path}: is a damaged Parquet file ({reason}); copy or convert it again.") from error
