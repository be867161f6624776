"""A fitted predictor as files that cannot carry code: JSON, arrays without objects, and skops for scikit-learn."""

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import Predictor
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.naming import Codes
from predictors.features import CODED, codes_read, families_of
from predictors.history import JobHistory

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

FORMAT: Final = 1
ABOUT: Final = "predictor.json"
HISTORY: Final = "history.npz"
CODES: Final = "codes.json"
"""Whom the codes stand for: where the log had names, the names of its users are in this file."""

TRUSTED: Final = ("sklearn.tree._tree.Tree",)
"""What a saved forest may hold beyond the types that skops trusts by itself; its nodes are checked after loading."""


def save(predictor: Predictor, folder: Path) -> None:
    """Write a predictor into an existing folder.

    Raises
    ------
    JobcastError
        If the folder is not there or cannot be written.
    """
    if not folder.is_dir():
        raise JobcastError(f"{folder}: is not a folder; make it before saving a model there.")
    history: JobHistory | None = getattr(predictor, "history_", None)
    codes: Mapping[str, Codes] | None = getattr(predictor, "codes_", None)
    about = {
        "format": FORMAT,
        "name": predictor.name,
        "params": predictor.save_params(folder),
        "features": list(predictor.features),
        "fitted": predictor.fitted,
        "starts_cold": history is None,
        "codes": codes is not None,
    }
    if predictor.fitted:
        predictor.save_estimator(folder)
    if history is not None:
        write_arrays(folder / HISTORY, history.snapshot())
    if codes is not None:
        with whole_file(folder / CODES) as part:
            part.write_text(json.dumps({column: one.to_json() for column, one in codes.items()}))
    with whole_file(folder / ABOUT) as part:
        part.write_text(json.dumps(about, indent=1))


def load(folder: Path) -> Predictor:
    """Return the predictor that `save` wrote.

    Raises
    ------
    JobcastError
        If a file is missing, damaged or not ours.
    """
    from predictors.adapters import ADAPTERS
    from predictors.registry import make_predictor

    with telling_damage(folder / ABOUT):
        about = read_about(folder / ABOUT, FORMAT)
        name, params, features = str(about["name"]), dict(about["params"]), tuple(about["features"])
        fitted, cold = bool(about["fitted"]), bool(about["starts_cold"])
        told = about.get("codes")
    predictor = ADAPTERS[name].from_saved(folder, params) if name in ADAPTERS else make_predictor(name, **params)
    predictor.check()
    if features != predictor.features:
        raise JobcastError(f"{folder / ABOUT}: learnt from other features than {name} reads; train the model again.")
    if fitted:
        predictor.load_estimator(folder)
    if not cold:
        history = JobHistory.restore(read_arrays(folder / HISTORY))
        if families_of(features) & ~families_of(history.features):
            raise JobcastError(f"{folder / HISTORY}: holds the history of other features; train the model again.")
        predictor.history_ = history
    if told or (told is None and not cold):
        predictor.codes_ = _codes(folder, features) if told else _before_names(features)
    return predictor


def _codes(folder: Path, features: Sequence[str]) -> dict[str, Codes]:
    with telling_damage(folder / CODES):
        found = json.loads((folder / CODES).read_text())
        columns = {*codes_read(features, past=True), *(column for column in CODED if column in found)}
        return {column: Codes.from_json(found[column]) for column in CODED if column in columns}


def _before_names(features: Sequence[str]) -> dict[str, Codes]:
    """Return what is known of a model's codes that was saved before names were kept: that they are numbers."""
    return dict.fromkeys(codes_read(features, past=True), Codes(free=1))


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """Tell what goes wrong in reading a file of a model as damage to it."""
    try:
        yield
    except JobcastError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobcastError(f"{path}: cannot be read ({error}); train the model again.") from error


def read_about(path: Path, known: int) -> dict[str, Any]:
    """Return what the file beside a model says about it.

    Raises
    ------
    JobcastError
        If the file is of another format than `known`. Errors in reading it are for `telling_damage`.
    """
    about: dict[str, Any] = json.loads(path.read_text())
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
