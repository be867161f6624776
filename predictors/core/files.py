"""Files are written whole or not at all."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError


@contextmanager
def whole_file(
    # the place of the finished file. Its folder must exist and be writable; a link is followed.
    path: str | os.PathLike[str],
) -> Iterator[Path]:
    """Yield a temporary path next to `path`; it replaces `path` only if the block succeeds.

    It refuses a folder, a device, a pipe, and an input of the command (`kept`).

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "table.csv"
    >>> with whole_file(out) as part:
    ...     size = part.write_text("a,b")
    >>> out.read_text()
    'a,b'
    """
    target = resolved(path)  # a link means the file behind it
    _refuse_no_file(path)
    refuse_input(path, [source for source in _KEPT if source.is_file()])
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


_UNFINISHED: Final = re.compile(r"\..+\.[a-z0-9_]{8}(\.[^.]*)?")  # names by `whole_file` of unfinished files


def drop_unfinished(folder: Path) -> None:
    """Remove the unfinished files below a folder, left by programs that were killed.

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


_KEPT: Final[list[Path]] = []  # what the running command reads


@contextmanager
def kept(inputs: Iterable[Path]) -> Iterator[None]:
    """Refuse within the block to replace these files."""
    before = list(_KEPT)
    _KEPT[:] = [*before, *inputs]
    try:
        yield
    finally:
        _KEPT[:] = before


def refuse_input(out: str | os.PathLike[str], inputs: Iterable[Path]) -> None:
    """Refuse an output that is an input, also by another name, or lies in a folder that is one."""
    target = resolved(out)
    for source in inputs:
        if source.is_dir() and resolved(source) in (target, *target.parents):
            raise JobcastError(f"{out}: lies in the folder {source}, which is read; write it to another folder.")
        if source.is_file() and target.exists() and target.samefile(source):
            raise JobcastError(
                f"{out}: is the very file that is read, and would be lost; give the output another name."
            )


def refuse_unwritable(out: str | os.PathLike[str], is_folder: bool = False) -> None:
    """Refuse an output that could not be written in the end."""
    if resolved(out).is_symlink():
        raise JobcastError(f"{out}: is a link that leads back to itself; choose another place.")
    if not is_folder:
        _refuse_no_file(out)
    above = resolved(out)
    above = next(place for place in (above, *above.parents) if place.exists()) if is_folder else above.parent
    if not above.exists():
        raise JobcastError(f"{out}: cannot be written (the folder {above} does not exist); choose another place.")
    if not above.is_dir():
        raise JobcastError(f"{out}: cannot be written ({above} is no folder); choose another place.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise JobcastError(f"{out}: cannot be written (no permission in the folder {above}); choose another place.")


def _refuse_no_file(out: str | os.PathLike[str]) -> None:
    target = resolved(out)
    if target.is_dir():
        raise JobcastError(f"{out}: is a folder; give the name of a file to write.")
    if target.exists() and not target.is_file():
        raise JobcastError(f"{out}: is a device or a pipe, not a file; give the name of a file to write.")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path behind all links; a link that leads back to itself stays.

    >>> resolved("/tmp/../etc").as_posix()
    '/etc'
    """
    return Path(os.path.realpath(path))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
