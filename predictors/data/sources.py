"""The bytes behind a path, unpacked if gzip packed them, or a clear error."""

import gzip
import os
import zlib
from pathlib import Path
from typing import Final

from predictors.data.errors import JobcastError

_GZIP: Final = b"\x1f\x8b"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds; a gzip file, whatever its name, is unpacked.

    Raises
    ------
    JobcastError
        If the file is missing, a folder, not readable, empty, or a gzip file that is damaged or cut short.
    """
    data = _read(Path(path))
    if data.startswith(_GZIP):
        data = _unpack(data, path)
    if not data:
        raise JobcastError(f"{path}: is empty; give a file that holds a job log.")
    return data


def log_name(path: str | os.PathLike[str]) -> str:
    """Return what to call the log of a file: its name without the endings that tell the format.

    Examples
    --------
    >>> log_name("/data/KTH-SP2-1996-2.1-cln.swf.gz")
    'KTH-SP2-1996-2.1-cln'
    """
    name = Path(path).name
    for ending in (".gz", ".swf", ".parquet"):
        name = name.removesuffix(ending)
    return name or "log"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise JobcastError(f"{path}: no such file; check the path.") from error
    except IsADirectoryError as error:
        raise JobcastError(f"{path}: is a folder; give a file that holds a job log.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JobcastError(f"{path}: cannot be read ({reason}); check the path and its permissions.") from error


def _unpack(data: bytes, path: str | os.PathLike[str]) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise JobcastError(f"{path}: the gzip file is cut short; copy or download it again.") from error
    except (OSError, zlib.error) as error:
        raise JobcastError(f"{path}: the gzip file is damaged ({error}); copy or download it again.") from error
