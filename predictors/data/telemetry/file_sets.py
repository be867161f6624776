"""Sets of telemetry files that follow one another, and the pieces in which they are read.

LDMS writes `<path>/<container>/<schema>`, with a rollover `<schema>.<epoch>` (`store_function_csv`: `-<epoch>`), and
next to it, if configured to, `<schema>.HEADER[.<epoch>]` and `<schema>.KIND[.<epoch>]`. Files that differ only in the
epoch are one set and are read one after the other. Each may be packed by gzip and end in `.csv`, `.gz` or both.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.parquet import MAGIC, damage_named
from predictors.data.telemetry.layout import FileMapping, Layout, header_names, is_ldms_header, ldms_layout
from predictors.data.telemetry.parse import Losses, Piece, csv_frames, metric_types

if TYPE_CHECKING:
    import polars as pl

CHUNK: Final = 16_000_000  # bytes of a file that are worked on at a time
ROWS: Final = 100_000  # rows of a Parquet file that are worked on at a time
LONGEST: Final = 1_000_000  # no line may be longer [bytes]
MARGIN: Final = 300.0  # readings that long before the wanted times are read as well [s], to take rates from
SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ms+us": 1e-3}  # what the time column of a layout is in
_GLIMPSE: Final = 50_000
_HOUR: Final = 3600.0

_NAME: Final = re.compile(
    r"^(?P<name>.+?)(?:\.(?P<side>HEADER|KIND))?(?:(?:\.|-(?=\d{6}))(?P<epoch>\d+))?(?P<ending>(?:\.csv|\.parquet)?(?:\.gz)?)$"
)
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True)
class TelemetryFile:
    """One file, the file with its header if that is another, and the second in its name, infinite without one."""

    path: Path
    header: Path | None = None
    epoch: float = np.inf


@dataclass(frozen=True)
class FileSet:
    """Files that follow one another in time."""

    name: str  # the files' path within the folder, without epoch and endings
    files: tuple[TelemetryFile, ...]  # by epoch; one without epoch comes last, since it is still being written
    counters: tuple[int, ...] = ()  # the counters that every file has: positions in `COUNTERS`, ascending
    mapping: FileMapping | None = None  # what the columns are; absent: LDMS's
    share: int = 1  # how many sets are read side by side, and share the memory

    def layout(self, names: tuple[str, ...], source: str) -> Layout:
        return ldms_layout(names, source) if self.mapping is None else self.mapping.layout(names, source)


def file_sets(folder: str | os.PathLike[str]) -> list[FileSet]:
    """Return the sets of files under a folder, or of one file, by name; hidden and unfinished files are left out."""
    root = Path(folder)
    if root.is_file():
        match = _NAME.match(root.name)
        paths = [root, *sorted(root.parent.glob(f"{match['name'] if match else root.name}.HEADER*"))]
        root = root.parent
    elif root.is_dir():
        paths = sorted(path for path in root.rglob("*") if path.is_file())
    else:
        raise JobcastError(f"{folder}: no such file or folder; check the path.")
    data: dict[str, list[tuple[float, Path]]] = {}
    headers: dict[tuple[str, float], Path] = {}
    for path in paths:
        within = path.relative_to(root)
        match = _NAME.match(path.name)
        if match is None or any(part.startswith(".") for part in within.parts):
            continue
        name, epoch = (within.parent / match["name"]).as_posix(), float(match["epoch"] or np.inf)
        if match["side"] == "HEADER":
            headers[name, epoch] = path
        elif match["side"] is None:
            data.setdefault(name, []).append((epoch, path))
    if not data:
        raise JobcastError(f"{folder}: holds no file; give the folder that LDMS writes to.")
    return [
        FileSet(
            name,
            tuple(
                TelemetryFile(path, headers.get((name, epoch), headers.get((name, np.inf))), epoch)
                for epoch, path in sorted(files)
            ),
        )
        for name, files in sorted(data.items())
    ]


def first_bytes(path: Path, number: int = 4096) -> bytes:
    """Return the first bytes of a file, unpacked."""
    with _opened(path) as file:
        return _read(file, path, number)


def is_parquet(path: Path) -> bool:
    return first_bytes(path, 4) == MAGIC


def read_lines(path: Path, share: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield a file's lines in pieces of whole lines, unpacked, each with the number of its first line.

    The pieces are the smaller the more files `share` the memory. If the last line has no newline, it is a piece of its
    own. A line has at most a million bytes.
    """
    line, rest = 1, b""
    with _opened(path) as file:
        while True:
            fresh = _read(file, path, max(CHUNK // share, min(CHUNK, 100_000)))
            data = rest + fresh
            if b"\0" in fresh:
                at = line + data.count(b"\n", 0, data.index(b"\0"))
                raise JobcastError(f"{path}:{at}: holds a zero byte; this is no CSV file but a binary or damaged one.")
            end = data.rfind(b"\n") + 1
            piece, rest = data[:end], data[end:]
            if piece:
                yield line, piece
                line += piece.count(b"\n")
            if len(rest) > LONGEST:
                raise JobcastError(f"{path}:{line}: the line is longer than {LONGEST:,} bytes; this is no CSV file.")
            if not fresh:
                break
    if rest:
        yield line, rest


def _opened(path: Path) -> IO[bytes]:
    try:
        file = path.open("rb")
        packed = file.read(2) == _GZIP
        file.seek(0)
        if packed:
            file.close()
            return cast("IO[bytes]", gzip.open(path, "rb"))
    except OSError as error:
        raise JobcastError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions.") from error
    return file


def _read(file: IO[bytes], path: Path, number: int) -> bytes:
    try:
        return file.read(number)
    except EOFError as error:
        raise JobcastError(f"{path}: the gzip file is cut short; copy it again.") from error
    except (OSError, zlib.error) as error:
        raise JobcastError(f"{path}: is damaged ({error}); copy it again.") from error


def names_of(file: TelemetryFile) -> tuple[str, ...] | None:
    """Return the names of a file's columns, None without a header by LDMS."""
    if is_parquet(file.path):
        return tuple(_parquet(file.path).schema_arrow.names)
    begin = first_bytes(file.header or file.path, 200_000)
    line = begin.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return header_names(line) if is_ldms_header(line) else None


def began(file: TelemetryFile, files: FileSet) -> float | None:
    """Return the second at which a CSV file begins, if its name says so and its first lines agree; else None."""
    if file.epoch == np.inf or is_parquet(file.path) or (names := names_of(file)) is None:
        return None
    layout = files.layout(names, str(file.path))
    lines = first_bytes(file.path, _GLIMPSE).split(b"\n")[:-1]
    first = next((time for line in lines if (time := _time_of(line, layout)) is not None), None)
    return file.epoch if first is not None and abs(first - file.epoch) < _HOUR else None


def csv_pieces(
    file: TelemetryFile, files: FileSet, losses: Losses, between: Floats | None = None
) -> Iterator[Piece | None]:
    """Yield the pieces of a CSV file, which may hold several headers; None in place of each outside of `between`."""
    source = str(file.path)
    layout = None
    if file.header is not None:
        names = names_of(file)
        layout = files.layout(names, str(file.header)) if names else None
    for line, piece in read_lines(file.path, files.share):
        if not piece.endswith(b"\n"):
            if files.mapping is None:
                losses.add("unfinished", source, [line], example=piece[:40].decode("utf-8", "replace"))
                return
            piece += b"\n"
        begin = 0
        headers = _header_lines(piece)
        if files.mapping is not None and layout is None and headers[:1] != [0]:
            headers = [0, *headers]
        for at in headers:
            end = piece.index(b"\n", at)
            text = piece[at:end].decode("utf-8", "replace").replace('"', "")
            here = line + piece.count(b"\n", 0, at)
            if here > 1:
                losses.add("header", source, [here], example=text[:40])
            if not is_ldms_header(text) if files.mapping is None else layout is not None:
                continue  # a remark
            fresh = files.layout(header_names(text), f"{source}:{here}")
            if layout is None or fresh != layout:
                if layout is not None:
                    here = line + piece.count(b"\n", 0, begin)
                    yield from _wanted(piece[begin:at], layout, here, source, losses, between)
                begin, layout = end + 1, fresh
        if layout is None:
            raise JobcastError(
                f"{source}:{line}: has no header; LDMS writes it as the first line, or to NAME.HEADER next to the file."
            )
        if begin < len(piece):
            here = line + piece.count(b"\n", 0, begin)
            yield from _wanted(piece[begin:], layout, here, source, losses, between)


def _header_lines(piece: bytes) -> list[int]:
    """Return where the lines begin that begin with `#`: headers and remarks."""
    begins = []
    at = piece.find(b"#")  # one byte is found faster than b"\n#"
    while at >= 0:
        if at == 0 or piece[at - 1 : at] == b"\n":
            begins.append(at)
        at = piece.find(b"#", at + 1)
    return begins


def _wanted(
    piece: bytes, layout: Layout, line: int, source: str, losses: Losses, between: Floats | None
) -> Iterator[Piece | None]:
    """Yield the rows of a piece; None if its first and last lines show that it lies outside of `between`."""
    if between is not None and layout.clock != "datetime":
        ends = piece[:_GLIMPSE].split(b"\n")[:5] + piece[-_GLIMPSE:].split(b"\n")[-6:]
        times = [time for one in ends if (time := _time_of(one, layout)) is not None]
        if times and not _overlap(min(times) - MARGIN, max(times) + MARGIN, between):
            yield None
            return
    yield from csv_frames(piece, layout, line, source, losses)


def _time_of(line: bytes, layout: Layout) -> float | None:
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


def parquet_pieces(file: TelemetryFile, files: FileSet, between: Floats | None) -> Iterator[Piece | None]:
    """Yield the pieces of a Parquet file; None in place of each row group outside of `between`."""
    import polars as pl
    import pyarrow as pa

    table = _parquet(file.path)
    layout = files.layout(tuple(table.schema_arrow.names), str(file.path))
    if pa.types.is_timestamp(table.schema_arrow.field(layout.time[0]).type):
        layout = replace(layout, clock="datetime")
    kinds = metric_types(layout)
    wanted = sorted({*kinds, *layout.time, layout.node, *layout.devices, max(layout.component, 0)})
    names = [layout.names[k] for k in wanted]
    first = 1
    for group in range(table.metadata.num_row_groups):
        rows = table.metadata.row_group(group)
        if not _holds(rows, names[wanted.index(layout.time[0])], layout, between):
            first += rows.num_rows
            yield None
            continue
        with damage_named(file.path):
            for batch in table.iter_batches(ROWS, row_groups=[group], columns=names):
                part = pl.DataFrame(pl.from_arrow(batch)).rename(dict(zip(names, map(str, wanted), strict=True)))
                frame = part.with_columns(pl.col(str(k)).cast(kind, strict=False) for k, kind in kinds.items())
                yield Piece(frame, np.arange(first, first + len(part)), layout, partial(_cells, part))
                first += len(part)


def _holds(rows: Any, name: str, layout: Layout, between: Floats | None) -> bool:
    """Return whether a row group may hold a time within `between`, by the smallest and largest time in it."""
    if between is None or layout.clock != "s":
        return True
    columns = [rows.column(k) for k in range(rows.num_columns)]
    times = next(column.statistics for column in columns if column.path_in_schema == name)
    if times is None or not times.has_min_max:
        return True
    return _overlap(times.min, times.max + MARGIN, between)


def _cells(part: "pl.DataFrame", column: int) -> "pl.Series":
    import polars as pl

    return part[str(column)].cast(pl.String)


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    with damage_named(path):
        return parquet.ParquetFile(pa.OSFile(os.fsencode(path)), page_checksum_verification=True)
