"""The bytes of a file, unpacked if it is packed by gzip."""

import gzip
import io
import os
import select
import stat
import zlib
from pathlib import Path
from time import monotonic
from typing import Final

from predictors.core.errors import JobcastError

_GZIP: Final = b"\x1f\x8b"

HARMLESS: Final = 64 << 20  # bytes that every gzip file may hold
MOST_TIMES: Final = 200  # multiple of its size that a larger file may hold; logs are packed to a thirtieth at best
_PIECE: Final = 8 << 20
MOST_PIPED: Final = 1 << 30  # most bytes that a pipe may give, since its length is unknown beforehand


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file; a gzip file, whatever its name, is unpacked, unless it holds more than a log can."""
    data = _read(Path(path), "a job log")
    if data.startswith(_GZIP):
        data = _unpack(data, path)
    if not data:
        raise JobcastError(f"{path}: is empty; give a file that holds a job log.")
    return data


def read_text(path: str | os.PathLike[str], what: str = "text") -> str:
    """Return the text of a file that people write: UTF-8, with or without a byte order mark before it."""
    data = _read(Path(path), what)
    if data.startswith(_GZIP):
        data = _unpack(data, path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobcastError(f"{path}: is no text in UTF-8 (line {line}); save {what} as UTF-8.") from error


def log_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file's log: the file's name without the endings of its format.

    >>> log_name("/data/KTH-SP2-1996-2.1-cln.swf.gz")
    'KTH-SP2-1996-2.1-cln'
    """
    name = Path(path).name
    for ending in (".gz", ".swf", ".parquet", ".csv", ".json", ".txt"):
        name = name.removesuffix(ending)
    return name or "log"


LONGEST_WAIT: Final = 10.0  # how long a reader waits for a writer of a pipe [s]


def _read(path: Path, what: str) -> bytes:
    try:
        with os.fdopen(_pipe(path, what), "rb") if path.is_fifo() else path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                return file.read()
            if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
                raise JobcastError(f"{path}: is a device, not a file; give a file that holds {what}.")
            data = file.read(MOST_PIPED + 1)
        if len(data) > MOST_PIPED:
            raise JobcastError(
                f"{path}: the pipe gives more than {MOST_PIPED:,} bytes; write them into a file first, and give that."
            )
        return data
    except JobcastError:
        raise
    except FileNotFoundError as error:
        raise JobcastError(f"{path}: cannot be read (no such file); check the path.") from error
    except IsADirectoryError as error:
        raise JobcastError(f"{path}: is a folder; give a file that holds {what}.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JobcastError(f"{path}: cannot be read ({reason}); check the path and its permissions.") from error


def _pipe(path: Path, what: str) -> int:
    """Return a pipe, open for reading, as soon as it holds something or somebody who wrote into it has gone."""
    pipe, begin, events = os.open(path, os.O_RDONLY | os.O_NONBLOCK), monotonic(), select.poll()
    events.register(pipe, select.POLLIN)
    while not events.poll(50):
        if monotonic() - begin > LONGEST_WAIT and not events.poll(0) and not _has_writer(pipe):
            os.close(pipe)
            raise JobcastError(
                f"{path}: is a pipe without a writer (waited {LONGEST_WAIT:.0f} s); start the program that "
                f"writes it, or give a file that holds {what}."
            )
    os.set_blocking(pipe, True)
    return pipe


def _has_writer(pipe: int) -> bool:
    """Return whether somebody has an empty pipe open for writing: then a read would have to wait for them."""
    try:
        os.read(pipe, 1)
    except BlockingIOError:
        return True
    return False


def _unpack(data: bytes, path: str | os.PathLike[str]) -> bytes:
    most = max(HARMLESS, MOST_TIMES * len(data))
    pieces, size = list[bytes](), 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            while piece := packed.read(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    raise JobcastError(
                        f"{path}: the gzip file of {len(data):,} bytes holds more than {most:,}, as no job log does; "
                        "unpack it yourself if you trust it."
                    )
        return b"".join(pieces)
    except EOFError as error:
        raise JobcastError(f"{path}: the gzip file is cut short; copy or download it again.") from error
    except (OSError, zlib.error) as error:
        raise JobcastError(f"{path}: the gzip file is damaged ({error}); copy or download it again.") from error
