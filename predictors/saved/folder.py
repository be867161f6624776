"""A fitted predictor in a folder with its origin: how it is put there, and taken out again unchanged."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from predictors.base import Predictor
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.saved.files import check_beside, check_size, check_unchanged, hashes, sha256

MANIFEST: Final = "manifest.json"
"""The file that says what a model is and holds the hashes of the others."""

INSIDE: Final = "data/predictor"
"""Where the predictor lies within the folder that MLflow makes of a model."""

FORMAT: Final = 1

KIND: Final = "run time"
"""What a manifest calls a predictor; one that says nothing is of a predictor, too."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a model came from.

    Attributes
    ----------
    predictor : str
        Name in the registry of predictors, such as `forest`.
    log : str
        Name of the log that it learnt from.
    log_sha256 : str
        The log's digest.
    trained_until : int or None
        Last end that it learnt from [s since the log's first submission].
    trained_until_utc : str or None
        The same as a date, where the log tells its clock.
    """

    predictor: str
    log: str
    log_sha256: str
    trained_until: int | None = None
    trained_until_utc: str | None = None

    @classmethod
    def of(cls, predictor: str, log: JobLog, trained_until: int | None) -> Self:
        """Return the origin of a predictor that learnt from `log` until a second of its clock."""
        date = None
        if log.epoch is not None and trained_until is not None:
            date = datetime.fromtimestamp(log.epoch + trained_until, UTC).isoformat().replace("+00:00", "Z")
        return cls(
            predictor=predictor,
            log=log.name,
            log_sha256=log.digest(),
            trained_until=trained_until,
            trained_until_utc=date,
        )


@dataclass(frozen=True)
class SavedModel:
    """A predictor that was read from its folder.

    Attributes
    ----------
    predictor : Predictor
        As it was saved.
    origin : Origin
        Where it came from.
    sha256 : str
        Hash of the whole model.
    """

    predictor: Predictor = field(repr=False)
    origin: Origin
    sha256: str


def save_model(predictor: Predictor, folder: Path, origin: Origin) -> str:
    """Write a fitted predictor and its origin into an empty folder; return the hash of the whole model.

    Raises
    ------
    JobcastError
        If the model is too large, or wrote a file of a format that is not ours.
    """
    predictor.save(folder)
    return write_manifest(folder, asdict(origin), KIND)


def open_model(folder: Path, expected: str | None = None) -> SavedModel:
    """Read a model's folder, ours or the one that MLflow wraps around it, after checking every file.

    Parameters
    ----------
    folder : Path
        What `save_model` wrote, or an MLflow model that holds it.
    expected : str, optional
        The hash that `save_model` returned, from where it was written down.

    Raises
    ------
    JobcastError
        If it is not a jobcast model, holds a foreign file, or a file is not the one that was saved.
    """
    data, found = checked_folder(folder, expected)
    origin = read_manifest(data, KIND)
    return SavedModel(Predictor.load(data), Origin(**{f.name: origin[f.name] for f in fields(Origin)}), found)


def write_manifest(folder: Path, origin: Mapping[str, Any], kind: str) -> str:
    """Write down what a saved model is and the hashes of its files; return the hash of the whole model.

    Raises
    ------
    JobcastError
        If the model is too large, or holds a file of a format that is not ours.
    """
    check_size(folder)
    about = {"format": FORMAT, "kind": kind, "origin": dict(origin), "files": hashes(folder)}
    (folder / MANIFEST).write_text(json.dumps(about, indent=1, sort_keys=True))
    return sha256(folder / MANIFEST)


def checked_folder(folder: Path, expected: str | None) -> tuple[Path, str]:
    """Return the folder with the manifest, and the hash of the whole model.

    Raises
    ------
    JobcastError
        If there is no manifest, it is not the expected one, or there is a foreign file beside the model's.
    """
    data = folder if (folder / MANIFEST).is_file() else folder / INSIDE
    if not (data / MANIFEST).is_file():
        raise JobcastError(
            f"{folder}: not a jobcast model (no {MANIFEST}), so it is not loaded: other formats can run code; "
            "train one with `jobcast train`."
        )
    if data != folder:
        check_beside(folder, INSIDE)
    found = sha256(data / MANIFEST)
    if expected is not None and found != expected:
        raise JobcastError(
            f"{data / MANIFEST}: was changed since the model was logged (SHA-256 differs from the store's), so the "
            "model is not loaded. Train it again, or restore the file."
        )
    return data, found


def read_manifest(data: Path, kind: str) -> dict[str, Any]:
    """Return the origin that a manifest tells, after checking the files beside it.

    Raises
    ------
    JobcastError
        If it cannot be read, is of another kind of model, or a file is not the one that was saved.
    """
    path = data / MANIFEST
    try:
        about = json.loads(path.read_text())
        if about["format"] != FORMAT:
            raise JobcastError(f"{path}: model format {about['format']!r}, this jobcast reads {FORMAT}; upgrade it.")
        found, origin = str(about.get("kind", KIND)), _Whole(about["origin"])
        files = {str(name): str(value) for name, value in about["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, JobcastError):
            raise
        raise JobcastError(f"{path}: cannot be read ({error}); the model is damaged. Train it again.") from error
    if found != kind:
        raise JobcastError(f"{data}: is a model of {found}, not of {kind}; {_ASK.get(found, 'upgrade jobcast')}.")
    check_unchanged(data, files, besides=MANIFEST)
    return origin


class _Whole(dict[str, Any]):
    """A mapping whose missing keys are told as damage."""

    def __missing__(self, key: str) -> Any:
        raise JobcastError(f"The model's manifest lacks {key!r}; the model is damaged. Train it again.")


_ASK: Final = {
    KIND: "ask it with `jobcast predict`",
    "variability": "ask it with `jobcast variability predict`",
}
