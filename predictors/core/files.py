"""Files are written whole or not at all."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` only if the block succeeds.

    Parameters
    ----------
    path : path-like
        The place of the finished file. Its folder must exist and be writable; a link is followed.

    Raises
    ------
    JobcastError
        If `path` is a folder, a device or a pipe, or the file cannot be made there.

    Examples
    --------
    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "table.csv"
    >>> with whole_file(out) as part:
    ...     size = part.write_text("a,b")
    >>> out.read_text()
    'a,b'
    """
    target = Path(path).resolve()  # a link means the file behind it
    if target.is_dir():
        raise JobcastError(f"{path}: is a folder; give the name of a file to write.")
    if target.exists() and not target.is_file():
        raise JobcastError(f"{path}: is a device or a pipe, not a file; give the name of a file to write.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise JobcastError(f"{path}: cannot be written ({error.strerror}); choose another place.") from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        part.replace(target)
    except OSError as error:
        raise JobcastError(f"{path}: cannot be written ({error.strerror}); choose another place.") from error
    finally:
        part.unlink(missing_ok=True)


_UNFINISHED: Final = re.compile(r"\..+\.[a-z0-9_]{8}(\.[^.]*)?")
"""The names by `whole_file` of files that are not finished."""


def drop_unfinished(folder: Path) -> None:
    """Remove the unfinished files below a folder, left by programs that were killed.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in (".table.csv.k3j_9a0b.csv", ".gitignore", "table.csv"):
    ...     (folder / name).touch()
    >>> drop_unfinished(folder)
    >>> sorted(path.name for path in folder.iterdir())
    ['.gitignore', 'table.csv']
    """
    for path in folder.rglob(".*"):
        if _UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def refuse_same(out: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Raise JobcastError if the file to write is the file to read, also by another name."""
    if Path(out).exists() and Path(source).exists() and Path(out).samefile(source):
        raise JobcastError(f"{out}: is the very file that is read, and would be lost; give the output another name.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
