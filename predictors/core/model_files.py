"""Parts of a fitted model on disk, without pickle: its description, arrays, and forests of scikit-learn."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

FORMAT: Final = 1
ABOUT: Final = "predictor.json"
TRUSTED: Final = ("sklearn.tree._tree.Tree",)
"""What a saved forest may hold beyond the types that skops trusts by itself; its nodes are checked after loading."""


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
    """Return the description of a model from the file beside it.

    Raises
    ------
    JobcastError
        If the file is of another format than `known`. Errors in reading it are for `damage_as_error`.
    """
    about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if about["format"] != known:
        raise JobcastError(f"{path}: format {about['format']!r}; this jobcast reads {known}: upgrade it.")
    return about


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of numbers and text, compressed."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise JobcastError(f"{path}: {name!r} holds Python objects, which cannot be saved.")
    with whole_file(path) as part:
        np.savez_compressed(part, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file; one that holds objects is refused.

    Raises
    ------
    JobcastError
        If the file is missing or damaged, or holds objects.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise JobcastError(f"{path}: cannot be read ({error}); train the model again.") from error


def save_sklearn(path: Path, model: "RandomForestRegressor") -> None:
    """Write a scikit-learn model by skops."""
    from skops.io import dump

    with whole_file(path) as part:
        dump(model, part, compression=zipfile.ZIP_DEFLATED, compresslevel=6)


def load_sklearn(path: Path) -> "RandomForestRegressor":
    """Return a scikit-learn forest that skops wrote, if it holds nothing but trusted types.

    Raises
    ------
    JobcastError
        If the file is missing or damaged, holds another type, or is no forest. Its trees are not checked here.
    """
    from sklearn.ensemble import RandomForestRegressor
    from skops.io import get_untrusted_types
    from skops.io import load as load_skops

    try:
        if foreign := sorted(set(get_untrusted_types(file=path)) - set(TRUSTED)):
            raise JobcastError(f"{path}: holds {foreign[0]}, which no model of ours does; it is not loaded.")
        model = load_skops(path, trusted=list(TRUSTED))
    except JobcastError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside skops
        raise JobcastError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); train the model again."
        ) from error
    if type(model) is not RandomForestRegressor:
        raise JobcastError(f"{path}: holds a {type(model).__name__}, not a random forest; train the model again.")
    return model
