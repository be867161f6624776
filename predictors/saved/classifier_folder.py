"""A fitted classifier of variability in a folder with its origin: put there, and taken out again unchanged."""

from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from predictors.saved.folder import checked_folder, read_manifest, write_manifest
from predictors.variability.classifier import Classifier
from predictors.variability.dataset import Dataset
from predictors.variability.labels import Labels, Norms

KIND: Final = "variability"
"""What a manifest calls a classifier."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOrigin:
    """Where a classifier came from, and how it must be asked.

    Attributes
    ----------
    classifier : str
        Name in the registry of classifiers, such as `adaboost`.
    dataset : str
        Name of the dataset that it learnt from.
    dataset_sha256 : str
        The dataset's digest.
    scope : {"all", "job"}
        Whose counters its windows pool: all nodes', or the job's.
    window : float
        How long these windows are [s].
    n_runs : int
        Runs that it learnt from.
    trained_until : float
        Last end among them, in the telemetry's clock [s].
    labels : str
        How their labels were made, in words.
    norms : mapping
        What is normal for each application and size, as `Norms.to_json` writes it.
    """

    classifier: str
    dataset: str
    dataset_sha256: str
    scope: str
    window: float
    n_runs: int
    trained_until: float
    labels: str
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
        return datetime.fromtimestamp(self.trained_until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def norms_of(self) -> Norms:
        """Return what is normal for each application and size."""
        return Norms.from_json(self.norms)

    def brief(self) -> dict[str, object]:
        """Return everything but the norms, as plain values."""
        return {name: value for name, value in asdict(self).items() if name != "norms"}


@dataclass(frozen=True)
class SavedClassifier:
    """A classifier that was read from its folder: as it was saved, its origin, the hash of the whole model."""

    classifier: Classifier = field(repr=False)
    origin: ClassifierOrigin
    sha256: str


def save_classifier(classifier: Classifier, folder: Path, origin: ClassifierOrigin) -> str:
    """Write a fitted classifier and its origin into an empty folder; return the hash of the whole model.

    Raises
    ------
    JobcastError
        If the model is too large, or wrote a file of a format that is not ours.
    """
    classifier.save(folder)
    return write_manifest(folder, asdict(origin), KIND)


def open_classifier(folder: Path, expected: str | None = None) -> SavedClassifier:
    """Read a classifier's folder, ours or the one that MLflow wraps around it, after checking every file.

    Parameters
    ----------
    folder : Path
        What `save_classifier` wrote, or an MLflow model that holds it.
    expected : str, optional
        The hash that `save_classifier` returned, from where it was written down.

    Raises
    ------
    JobcastError
        If it is no classifier of ours, holds a foreign file, or a file is not the one that was saved.
    """
    data, found = checked_folder(folder, expected)
    origin = read_manifest(data, KIND)
    names = [f.name for f in fields(ClassifierOrigin)]
    return SavedClassifier(Classifier.load(data), ClassifierOrigin(**{name: origin[name] for name in names}), found)
