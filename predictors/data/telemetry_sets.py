"""Telemetry files: which of a folder belong together, in which order, and what is in them, piece by piece.

LDMS writes `<path>/<container>/<schema>`, with a rollover `<schema>.<epoch>` (`store_function_csv`: `-<epoch>`), and
beside it, if told to, `<schema>.HEADER[.<epoch>]` and `<schema>.KIND[.<epoch>]`. Files that differ in the epoch alone
are one set and are read one after the other. Any may be packed by gzip and end in `.csv`, `.gz` or both.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from predictors.data.errors import JobcastError

CHUNK: Final = 16_000_000
"""How many bytes of a file are worked on at a time."""
LONGEST: Final = 1_000_000
"""No line may be longer [bytes]."""

_NAME: Final = re.compile(
    r"^(?P<name>.+?)(?:\.(?P<side>HEADER|KIND))?(?:(?:\.|-(?=\d{6}))(?P<epoch>\d+))?(?P<ending>(?:\.csv|\.parquet)?(?:\.gz)?)$"
)
_LAST: Final = 2**62
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True)
class TelemetryFile:
    """One file, with its header if that stands in a file of its own, and the second at which it was begun."""

    path: Path
    header: Path | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class FileSet:
    """Files that follow one another.

    Parameters
    ----------
    name : str
        The files' path within the folder, without epoch and endings.
    files : tuple of TelemetryFile
        By epoch; one without comes last, for it is still being written.
    """

    name: str
    files: tuple[TelemetryFile, ...]


def file_sets(folder: str | os.PathLike[str]) -> tuple[FileSet, ...]:
    """Return the sets of files under a folder, or of one file, by name; hidden and unfinished files are left out.

    Raises
    ------
    JobcastError
        If there is no such file or folder, or no file in it.
    """
    root = Path(folder)
    if root.is_file():
        paths = [root, *sorted(_side_files(root))]
        root = root.parent
    elif root.is_dir():
        paths = sorted(path for path in root.rglob("*") if path.is_file())
    else:
        raise JobcastError(f"{folder}: no such file or folder; check the path.")
    data: dict[str, list[tuple[int, Path]]] = {}
    headers: dict[tuple[str, str], Path] = {}
    for path in paths:
        within = path.relative_to(root)
        match = _NAME.match(path.name)
        if match is None or any(part.startswith(".") for part in within.parts):
            continue
        name, epoch = (within.parent / match["name"]).as_posix(), match["epoch"] or ""
        if match["side"] == "HEADER":
            headers[name, epoch] = path
        elif match["side"] is None:
            data.setdefault(name, []).append((int(epoch or _LAST), path))
    if not data:
        raise JobcastError(f"{folder}: holds no file; give the folder that LDMS writes to.")
    return tuple(
        FileSet(
            name,
            tuple(
                TelemetryFile(path, _header_of(name, epoch, headers), epoch if epoch < _LAST else None)
                for epoch, path in sorted(files)
            ),
        )
        for name, files in sorted(data.items())
    )


def _side_files(path: Path) -> Iterator[Path]:
    match = _NAME.match(path.name)
    name = match["name"] if match else path.name
    return (side for side in path.parent.glob(f"{name}.HEADER*") if side != path)


def _header_of(name: str, epoch: int, headers: dict[tuple[str, str], Path]) -> Path | None:
    own = headers.get((name, str(epoch) if epoch < _LAST else ""))
    return own or headers.get((name, ""))


def first_bytes(path: Path, number: int = 4096) -> bytes:
    """Return how a file begins, unpacked."""
    with _opened(path) as file:
        return _read(file, path, number)


def is_parquet(path: Path) -> bool:
    """Tell whether a file is a Parquet file."""
    return first_bytes(path, 4) == _PARQUET


def read_lines(path: Path, share: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield a file's whole lines in pieces, each with the number of its first line; unpacked if need be.

    So many files may `share` the memory; the more, the smaller are the pieces.

    What comes after the last newline is yielded last, without a newline: its line is not finished.

    Raises
    ------
    JobcastError
        If the file cannot be read, is damaged, cut short or binary, or has a line of more than a million bytes.
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
