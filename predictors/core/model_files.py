"""Parts of a fitted model on disk, without pickle: its description, arrays, and models of scikit-learn."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file

FORMAT: Final = 1
ABOUT: Final = "predictor.json"
TREE: Final = "sklearn.tree._tree.Tree"  # a type in saved forests, checked after loading since skops does not trust it
HARMLESS: Final = ("numpy.dtype",)  # what skops does not list, though it can do nothing; imputers hold one
DAMAGE: Final = (  # what reading damaged arrays raises
    ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, OSError, RuntimeError, OverflowError,
    MemoryError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip
_TRUSTED: ContextVar[tuple[str, ...]] = ContextVar("trusted types", default=HARMLESS)


@contextmanager
def trusting(*types: str) -> Iterator[None]:
    """Within this block, models that hold these types may be saved and loaded as well.

    Trusting a type means trusting the file: skops rebuilds such objects from what the file says.

    >>> with trusting("sklearn.tree._tree.Tree"):
    ...     pass
    """
    token = _TRUSTED.set((*_TRUSTED.get(), *types))
    try:
        yield
    finally:
        _TRUSTED.reset(token)


@contextmanager
def damage_as_error(path: Path) -> Iterator[None]:
    """Tell what goes wrong in reading a file of a model as damage to it."""
    try:
        yield
    except JobcastError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobcastError(f"{path}: cannot be read ({error}); train the model again.") from error


def read_about(path: Path, known: int) -> dict[str, Any]:
    """Return the description of a model from the file next to it; read errors are left to `damage_as_error`."""
    about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if about["format"] != known:
        raise JobcastError(f"{path}: format {about['format']!r}; this jobcast reads {known}: upgrade it.")
    return about


def write_about(path: Path, about: Any) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(about, indent=1), encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise JobcastError(f"{path}: {name!r} holds Python objects, which cannot be saved.")
    with whole_file(path) as part:
        np.savez_compressed(part, allow_pickle=False, **arrays)


def part(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays with names that begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file; one that holds objects is refused."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:  # NumPy leaves a damaged one open
            return {name: file[name] for name in file.files}
    except DAMAGE as error:
        raise JobcastError(f"{path}: cannot be read ({error}); train the model again.") from error


def read_stored(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file that numpy.savez wrote: each takes as many bytes as the file has for it.

    A small file cannot fill the memory so. A damaged, compressed or encrypted file, or one with objects, raises
    ValueError or another of `DAMAGE`.

    >>> file = BytesIO()
    >>> np.savez(file, weights=np.zeros(3))
    >>> read_stored(file.getvalue())
    {'weights': array([0., 0., 0.])}
    """
    with zipfile.ZipFile(BytesIO(data)) as parts:
        members = parts.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members):
        raise ValueError("its arrays are compressed or encrypted")
    if sum(member.file_size for member in members) > len(data):
        raise ValueError("its arrays are larger than the file")
    with np.load(BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("it holds something else than arrays")
    return arrays


def save_sklearn(path: Path, model: Any, only: Sequence[str] | None = None) -> None:
    """Write a scikit-learn model by skops, refusing types other than those in `only` (None: that `trusting` names)."""
    from skops.io import dumps

    try:
        data = dumps(model, compression=zipfile.ZIP_DEFLATED, compresslevel=6)
    except Exception as error:  # what a type cannot do shows anywhere inside skops
        raise JobcastError(
            f"{path}: skops cannot save this {type(model).__name__} ({error}); keep the code that makes it, and fit "
            "again instead of loading."
        ) from error
    _check_types(path, data, only)
    with whole_file(path) as part:
        part.write_bytes(data)


def load_sklearn(path: Path, only: Sequence[str] | None = None) -> Any:
    """Return the model that `save_sklearn` wrote, after the same check of its types."""
    from skops.io import loads

    try:
        data = path.read_bytes()
        return loads(data, trusted=_check_types(path, data, only))
    except JobcastError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside skops
        raise JobcastError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); train the model again."
        ) from error


def _check_types(path: Path, data: bytes, only: Sequence[str] | None) -> list[str]:
    """Return the types that a file may hold in addition to those that skops trusts; refuse a file with others."""
    from skops.io import get_untrusted_types

    allowed = {*_TRUSTED.get()} if only is None else {*HARMLESS, *only}
    if foreign := sorted(set(get_untrusted_types(data=data)) - allowed):
        names = ", ".join(repr(one) for one in foreign)
        if only is not None:
            raise JobcastError(f"{path}: holds {names}, which no model of ours does; it is not loaded.")
        raise JobcastError(
            f"{path}: holds {names}, which skops does not trust by itself. If you do, save and load within "
            f"`with predictors.models.adapters.trusting({names}):`."
        )
    return sorted(allowed)
