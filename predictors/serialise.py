"""save and load: a fitted predictor as files that cannot carry code (JSON, arrays, and skops for scikit-learn)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from predictors.core import model_files
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.names import Codes
from predictors.history.features import CODED, codes_read, families_of
from predictors.history.history import JobHistory
from predictors.models.adapters import ADAPTERS
from predictors.models.base import Predictor
from predictors.models.conformal import ConformalQuantiles, keep_quantiles, quantiles_of
from predictors.models.wrapper import Wrapper
from predictors.registry import make_predictor

INSIDE: Final = "inside"  # folder of the predictor inside another
HISTORY: Final = "history.npz"
CODES: Final = "codes.json"  # the names behind the codes; the names of users are in this file where the log had names
QUANTILES: Final = "quantiles.npz"  # what P10, P50 and P90 go on from; only of a model that was calibrated


def save(predictor: Predictor, folder: str | Path) -> None:
    """Write everything of a predictor into an existing folder: JSON, arrays and skops, never a pickle."""
    folder = Path(folder)
    if not folder.is_dir():
        raise JobcastError(f"{folder}: is not a folder; make it before saving a model there.")
    history: JobHistory | None = getattr(predictor, "history_", None)
    codes: Mapping[str, Codes] | None = getattr(predictor, "codes_", None)
    about = {
        "format": model_files.FORMAT, "name": predictor.name, "params": predictor.save_params(folder),
        "features": list(predictor.features), "fitted": predictor.fitted, "starts_cold": history is None,
        "codes": codes is not None,
    }  # fmt: skip
    if predictor.fitted:
        predictor.save_estimator(folder)
        if isinstance(predictor, Wrapper):
            (folder / INSIDE).mkdir(exist_ok=True)
            save(predictor.base_, folder / INSIDE)
    if history is not None:
        model_files.write_arrays(folder / HISTORY, history.snapshot())
    if (quantiles := quantiles_of(predictor)) is not None:
        model_files.write_arrays(folder / QUANTILES, quantiles.get_state())
    if codes is not None:
        with whole_file(folder / CODES) as part:
            part.write_text(json.dumps({column: one.to_json() for column, one in codes.items()}))
    model_files.write_about(folder / model_files.ABOUT, about)


def load(folder: str | Path) -> Predictor:
    """Return the predictor that `save` wrote: it predicts the same, to the last bit."""
    folder = Path(folder)
    with model_files.damage_as_error(folder / model_files.ABOUT):
        about = model_files.read_about(folder / model_files.ABOUT, model_files.FORMAT)
        name, params, features = str(about["name"]), dict(about["params"]), tuple(about["features"])
        fitted, cold = bool(about["fitted"]), bool(about["starts_cold"])
        told = about.get("codes")
    predictor = ADAPTERS[name].from_saved(folder, params) if name in ADAPTERS else make_predictor(name, **params)
    predictor.check()
    if features != predictor.features:
        raise JobcastError(
            f"{folder / model_files.ABOUT}: learnt from other features than {name} reads; train the model again."
        )
    if fitted:
        predictor.load_estimator(folder)
        if isinstance(predictor, Wrapper):
            predictor.base_ = _inside(folder / INSIDE, predictor.pattern.name)
    if not cold:
        history = JobHistory.restore(model_files.read_arrays(folder / HISTORY))
        if families_of(features) & ~families_of(history.features):
            raise JobcastError(f"{folder / HISTORY}: holds the history of other features; train the model again.")
        predictor.history_ = history
    if told or (told is None and not cold):
        predictor.codes_ = _codes(folder, features) if told else _before_names(features)
    if (folder / QUANTILES).is_file():
        with model_files.damage_as_error(folder / QUANTILES):
            keep_quantiles(predictor, ConformalQuantiles.from_state(model_files.read_arrays(folder / QUANTILES)))
    return predictor


def _inside(folder: Path, name: str) -> Predictor:
    found = load(folder)
    if found.name != name:
        raise JobcastError(f"{folder}: holds {found.name}, not {name}; train the model again.")
    return found


def _codes(folder: Path, features: Sequence[str]) -> dict[str, Codes]:
    with model_files.damage_as_error(folder / CODES):
        found = json.loads((folder / CODES).read_text(encoding="utf-8"))
        columns = {*codes_read(features, past=True), *(column for column in CODED if column in found)}
        return {column: Codes.from_json(found[column]) for column in CODED if column in columns}


def _before_names(features: Sequence[str]) -> dict[str, Codes]:
    """Return what is known of a model's codes that was saved before names were kept: that they are numbers."""
    return dict.fromkeys(codes_read(features, past=True), Codes(free=1))
