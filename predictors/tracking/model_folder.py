"""A fitted model in a folder: manifest, hashes, origin.

There are two kinds of models, predictors of run times and classifiers of variability. They differ in their origin and
in who writes and reads their files; the manifest and the checks are the same.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.models.base import Predictor
from predictors.serialise import load, save
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import load as load_classifier
from predictors.variability.dataset import Dataset
from predictors.variability.labels import Labels

SUFFIXES: Final = (".json", ".npy", ".npz", ".skops", ".ubj")  # formats that carry no code; no pickles

MLFLOW_FILES: Final = (  # text files that MLflow puts next to ours; we load none of them but `MLmodel`
    "MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "input_example.json", "serving_input_example.json",
    "registered_model_meta",
)  # fmt: skip

MOST_BYTES: Final = 100_000_000  # a saved model must be smaller than this [bytes]


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below `folder`, by relative path; refuse links and formats that we do not write.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "state.json").write_text("{}")
    >>> hashes(folder)
    {'state.json': '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'}
    >>> _ = (folder / "model.pkl").write_bytes(b"")
    >>> hashes(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: .../model.pkl: not a file of a jobcast model ...
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or (path.is_file() and path.suffix not in SUFFIXES):
            raise JobcastError(
                f"{path}: not a file of a jobcast model ({', '.join(SUFFIXES)}), so the model is not loaded. "
                "Models in other formats can run code; train one with `jobcast train`."
            )
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = sha256(path)
    if not found:
        raise JobcastError(f"{folder}: holds no model files.")
    return found


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_unchanged(folder: Path, expected: Mapping[str, str], besides: str) -> None:
    """Raise unless the files below `folder`, `besides` left out, are exactly those of the recorded hashes."""
    found = {name: value for name, value in hashes(folder).items() if name != besides}
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            what = "is missing" if name not in found else "was added" if name not in expected else "was changed"
            raise JobcastError(
                f"{folder / name}: {what} since the model was saved (SHA-256 differs), so the model is not loaded. "
                "Train it again, or restore the file."
            )


def check_foreign_files(folder: Path, data: str) -> None:
    """Raise if an MLflow model's folder holds, apart from the folder `data`, anything that MLflow did not write."""
    inside = folder / data
    for path in sorted(folder.rglob("*")):
        known = path.name in MLFLOW_FILES and path.parent == folder
        if path.is_symlink() or (path.is_file() and not known and inside not in path.parents):
            raise JobcastError(f"{path}: not a file of a jobcast model, so the model is not loaded.")


def check_size(folder: Path) -> None:
    """Raise if the files below `folder` reach `MOST_BYTES`."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    if sum(sizes.values()) >= MOST_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise JobcastError(
            f"The model takes {sum(sizes.values()) / 1e6:.0f} MB ({largest.name}: {sizes[largest] / 1e6:.0f} MB); it "
            f"must stay under {MOST_BYTES / 1e6:.0f} MB. Bound it: fewer or smaller trees, or fewer training rows."
        )


MANIFEST: Final = "manifest.json"  # the file that says what a model is and holds the hashes of the others

INSIDE: Final = "data/predictor"  # place of our files within the folder that MLflow makes of a model

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of a predictor: the log that it learnt from."""

    kind: ClassVar[str] = "run time"

    predictor: str  # name in the registry of predictors, such as `forest`
    log: str  # name of the log that it learnt from
    log_sha256: str  # the log's digest
    trained_until: int | None = None  # last end that it learnt from [s since the log's first submission]
    trained_until_utc: str | None = None  # the same as a date, where the log has one

    @classmethod
    def of(cls, predictor: str, log: JobLog, trained_until: int | None) -> Self:
        """Return the origin of a predictor that learnt from `log` until a second of its clock."""
        date = None
        if log.epoch is not None and trained_until is not None:
            date = _utc(log.epoch + trained_until)
        return cls(
            predictor=predictor, log=log.name, log_sha256=log.digest(), trained_until=trained_until,
            trained_until_utc=date,
        )  # fmt: skip

    def brief(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ClassifierOrigin:
    """Origin of a classifier: the dataset that it learnt from, and the inputs that it needs."""

    kind: ClassVar[str] = "variability"

    classifier: str  # name in the registry of classifiers, such as `adaboost`
    dataset: str  # name of the dataset that it learnt from
    dataset_sha256: str  # the dataset's digest
    scope: str  # {"all", "job"}: which nodes' counters its windows pool: all nodes', or the job's
    window: float  # how long these windows are [s]
    n_runs: int  # runs that it learnt from
    trained_until: float  # last end among them, in the telemetry's clock [s]
    labels: str  # how their labels were made, in words
    # what is normal for each application and size, as `Norms.to_json` writes it
    norms: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, classifier: Classifier, dataset: Dataset, labels: Labels, name: str) -> Self:
        """Return the origin of a classifier that learnt from the labelled rows of a dataset of that name."""
        scheme = "three classes" if labels.scheme == "three" else "two classes"
        norms = labels.norms
        return cls(
            classifier=classifier.name,
            dataset=name,
            dataset_sha256=dataset.digest(),
            scope=dataset.scope,
            window=dataset.window,
            n_runs=int(labels.known.sum()),
            trained_until=float(dataset.runs.end[labels.known].max()),
            labels=f"{scheme}; mean and std of {sum(n.count for n in norms.by_key.values())} runs, ddof {norms.ddof}, "
            f"at least {norms.least} runs of an application and size",
            norms=norms.to_json(),
        )

    @property
    def trained_until_utc(self) -> str:
        """The same as a date, if the telemetry's clock is Unix time."""
        return _utc(self.trained_until, "seconds")

    def brief(self) -> dict[str, object]:
        """Return everything but the norms, as plain values."""
        return {name: value for name, value in asdict(self).items() if name != "norms"}


def _utc(unix: float, timespec: str = "auto") -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


_COMMANDS: Final = {Origin.kind: "jobcast predict", ClassifierOrigin.kind: "jobcast variability predict"}
"""The command that uses a model of each kind."""

ModelT = TypeVar("ModelT", Predictor, Classifier)
OriginT = TypeVar("OriginT", Origin, ClassifierOrigin)


@dataclass(frozen=True)
class Saved(Generic[ModelT, OriginT]):
    """A model that was read from its folder: as it was saved, its origin, the hash of the whole."""

    model: ModelT = field(repr=False)
    origin: OriginT
    sha256: str


def save_model(model: Predictor | Classifier, folder: Path, origin: Origin | ClassifierOrigin) -> str:
    """Write a fitted model and its origin into an empty folder; return the hash of the whole model."""
    if isinstance(model, Predictor):
        save(model, folder)
    else:
        model.save(folder)
    check_size(folder)
    about = {"format": FORMAT, "kind": origin.kind, "origin": asdict(origin), "files": hashes(folder)}
    (folder / MANIFEST).write_text(json.dumps(about, indent=1, sort_keys=True))
    return sha256(folder / MANIFEST)


def open_model(
    folder: Path,  # what `save_model` wrote, or an MLflow model that holds it
    expected: str | None = None,  # the hash that `save_model` returned, from where it was written down
) -> Saved[Predictor, Origin]:
    """Read a predictor's folder, ours or the one that MLflow wraps around it, after checking every file."""
    return _opened(folder, expected, load, Origin)


def open_classifier(folder: Path, expected: str | None = None) -> Saved[Classifier, ClassifierOrigin]:
    """Read a classifier's folder; parameters, checks and errors are those of `open_model`."""
    return _opened(folder, expected, load_classifier, ClassifierOrigin)


def _opened(
    folder: Path, expected: str | None, read: Callable[[Path], ModelT], kind: type[OriginT]
) -> Saved[ModelT, OriginT]:
    data, found = _checked_folder(folder, expected)
    origin = _read_manifest(data, kind.kind)
    return Saved(read(data), kind(**{f.name: origin[f.name] for f in fields(kind)}), found)


def _checked_folder(folder: Path, expected: str | None) -> tuple[Path, str]:
    data = folder if (folder / MANIFEST).is_file() else folder / INSIDE
    if not (data / MANIFEST).is_file():
        raise JobcastError(
            f"{folder}: not a jobcast model (no {MANIFEST}), so it is not loaded: other formats can run code; "
            "train one with `jobcast train`."
        )
    if data != folder:
        check_foreign_files(folder, INSIDE)
    found = sha256(data / MANIFEST)
    if expected is not None and found != expected:
        raise JobcastError(
            f"{data / MANIFEST}: was changed since the model was logged (SHA-256 differs from the store's), so the "
            "model is not loaded. Train it again, or restore the file."
        )
    return data, found


def _read_manifest(data: Path, kind: str) -> dict[str, Any]:
    """Return the origin in a manifest, after checking the files next to it."""
    path = data / MANIFEST
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise JobcastError(f"{path}: model format {about['format']!r}, this jobcast reads {FORMAT}; upgrade it.")
        found, origin = str(about.get("kind", Origin.kind)), _Whole(about["origin"])
        files = {str(name): str(value) for name, value in about["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, JobcastError):
            raise
        raise JobcastError(f"{path}: cannot be read ({error}); the model is damaged. Train it again.") from error
    if found != kind:
        way_out = f"use it with `{_COMMANDS[found]}`" if found in _COMMANDS else "upgrade jobcast"
        raise JobcastError(f"{data}: is a model of {found}, not of {kind}; {way_out}.")
    check_unchanged(data, files, besides=MANIFEST)
    return origin


class _Whole(dict[str, Any]):
    """A mapping that reports missing keys as damage."""

    def __missing__(self, key: str) -> Any:
        raise JobcastError(f"The model's manifest lacks {key!r}; the model is damaged. Train it again.")
