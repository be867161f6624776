"""Description of a model for a run: tags, page, records."""

import json
import math
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from predictors.data.joblog import JobLog
from predictors.models.base import Predictor
from predictors.tracking import pyfunc, pyfunc_classifier
from predictors.tracking.model_folder import ClassifierOrigin, Origin, save_model
from predictors.variability.classifiers.base import Classifier
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Labels

if TYPE_CHECKING:
    import pandas as pd


def numbers(figures: Mapping[str, object]) -> dict[str, float]:
    """Return the figures that are finite numbers.

    >>> numbers({"mae_s": 3, "r2": float("nan"), "name": "forest", "capped": True})
    {'mae_s': 3.0}
    """
    found = {}
    for key, value in figures.items():
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[key] = float(value)
    return found


def page(origin: Origin, figures: Mapping[str, object], split: str) -> str:
    """Return the text of a predictor's run page, in Markdown.

    >>> print(page(Origin(predictor="forest", log="kth", log_sha256="ab"), {"mae_s": 3151.25}, "first 80 % of jobs"))
    **forest** on **kth**: first 80 % of jobs
    <BLANKLINE>
    | figure | value |
    |---|--:|
    | mae_s | 3151.25 |
    """
    until = origin.trained_until_utc or (f"{origin.trained_until} s" if origin.trained_until is not None else "")
    head = f"**{origin.predictor}** on **{origin.log}**: {split}"
    return text(f"{head}; learnt from ends until {until}" if until else head, figures)


def text(head: str, figures: Mapping[str, object]) -> str:
    """Return a page of a first line and a table of figures, in Markdown."""
    rows = [f"| {key} | {value:.6g} |" for key, value in numbers(figures).items()]
    return "\n".join([head, "", "| figure | value |", "|---|--:|", *rows])


def code_tags(folder: Path = Path(__file__).parent) -> dict[str, str]:
    """Return the tag with the code's git commit, `-dirty` if changed since; nothing where git does not track it."""
    try:
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"mlflow.source.git.commit": commit}


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True)
    return run.stdout.strip()


DIGEST: Final = 32  # characters of a data set's digest that MLflow receives: it takes at most 36


@dataclass(frozen=True)
class LoggedData:
    """What a model learnt from, as MLflow describes a data set."""

    name: str  # of the log, or of the data set's file
    sha256: str  # digest of its values
    columns: Mapping[str, str]  # MLflow's type of each column
    n_rows: int  # jobs, or runs
    source: str  # path of the file that it was read from; its name where that is not known

    @property
    def digest(self) -> str:
        """The beginning of the digest, as long as MLflow takes it."""
        return self.sha256[:DIGEST]

    @classmethod
    def of_log(cls, log: JobLog, source: str | None = None) -> Self:
        """Describe a job log.

        >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9]}, {}, name="kth")
        >>> found = LoggedData.of_log(log)
        >>> found.name, found.n_rows, log.digest().startswith(found.digest)
        ('kth', 2, True)
        """
        return cls(log.name, log.digest(), dict.fromkeys(log.values, "long"), len(log), source or log.name)

    def schema(self) -> str:
        columns = [{"type": kind, "name": name, "required": True} for name, kind in self.columns.items()]
        return json.dumps({"mlflow_colspec": columns})

    def profile(self) -> str:
        return json.dumps({"num_rows": self.n_rows, "num_elements": self.n_rows * len(self.columns)})


@dataclass(frozen=True, eq=False)
class Loggable:
    """A fitted model with all that is written down about it."""

    title: str  # what the run is called
    save: Callable[[Path], str]  # writes the model into an empty folder and returns the hash of the whole
    tags: Mapping[str, str]  # where it came from; the run, the model and its versions carry them
    note: str  # the run's page, in Markdown
    params: Mapping[str, object]  # the model's parameters, split and seed
    # MLflow's type of each column that it takes, and whether the column must be there
    inputs: Mapping[str, tuple[str, bool]]
    outputs: Mapping[str, str]  # MLflow's type of each column that it gives
    loader: str  # module with the `_load_pyfunc` that opens it for MLflow
    example: "pd.DataFrame"  # a few rows
    predict: "Callable[[pd.DataFrame], pd.DataFrame]"  # what the model, opened for MLflow, must say
    data: LoggedData  # what it learnt from

    @classmethod
    def of_predictor(
        cls,
        predictor: Predictor,
        log: JobLog,
        figures: Mapping[str, object],
        split: str,
        seed: int | None,
        trained_until: int | None,
        source: str | None = None,
    ) -> Self:
        """Describe a predictor of run times that learnt from `log`."""
        origin = Origin.of(predictor.name, log, trained_until)
        return cls(
            title=f"{predictor.name} on {log.name}",
            save=lambda folder: save_model(predictor, folder, origin),
            tags=_tags(origin.brief()),
            note=page(origin, figures, split),
            params=predictor.named_params() | {"predictor": predictor.name, "split": split, "seed": seed},
            inputs={name: (pyfunc.NUMBER, name in pyfunc.REQUIRED) for name in predictor.features},
            outputs={pyfunc.OUTPUT: "double"},
            loader=pyfunc.__name__,
            example=pyfunc.example(predictor, log),
            predict=lambda rows: pyfunc.ServedModel(predictor).predict(rows),
            data=LoggedData.of_log(log, source),
        )

    @classmethod
    def of_classifier(
        cls,
        classifier: Classifier,
        dataset: Dataset,
        labels: Labels,
        figures: Mapping[str, object],
        split: str,
        seed: int | None,
        name: str,
    ) -> Self:
        """Describe a classifier of variability that learnt from the labelled rows of a dataset of that name."""
        origin = ClassifierOrigin.of(classifier, dataset, labels, name)
        inputs = dict.fromkeys(classifier.features_, (pyfunc.NUMBER, True))
        if classifier.seen_only:
            inputs[pyfunc_classifier.APPLICATION] = ("string", True)
        first = str(dataset.runs.application[0])
        return cls(
            title=f"{classifier.name} on {name}",
            save=lambda folder: save_model(classifier, folder, origin),
            tags=_tags(origin.brief()),
            note=text(f"**{classifier.name}** on **{name}**, counters of {dataset.scope} nodes: {split}", figures),
            params=classifier.get_params() | {"classifier": classifier.name, "split": split, "seed": seed},
            inputs=inputs,
            outputs=dict(
                zip(pyfunc_classifier.OUTPUTS, ("long", "string", "double", "boolean", "string"), strict=True)
            ),
            loader=pyfunc_classifier.__name__,
            example=pyfunc_classifier.example(classifier, dataset.rows, FEATURES, first),
            predict=lambda rows: pyfunc_classifier.ServedClassifier(classifier).predict(rows),
            data=LoggedData(name, dataset.digest(), dict.fromkeys(FEATURES, "double"), len(dataset), name),
        )


def _tags(origin: Mapping[str, object]) -> dict[str, str]:
    return {f"jobcast.{key}": str(value) for key, value in origin.items() if value is not None}


MODEL: Final = "model"  # name of the model within its run


@dataclass(frozen=True)
class LoggedRun:
    """A run in the store: one predictor, one log, one split, one seed."""

    run_id: str  # the run
    model_id: str  # the model that it logged
    sha256: str  # hash of the whole model
    store: str  # the store's URI, its password left out

    @property
    def uri(self) -> str:
        return f"runs:/{self.run_id}/{MODEL}"


@dataclass(frozen=True)
class Registered:
    """A version of a registered model."""

    name: str  # registered name
    version: int  # its number, from 1
    alias: str | None = None  # the alias that now points to it

    @property
    def uri(self) -> str:
        """Address of the model: by alias where it has one.

        >>> Registered("runtime", 3, "champion").uri, Registered("runtime", 3).uri
        ('models:/runtime@champion', 'models:/runtime/3')
        """
        return f"models:/{self.name}@{self.alias}" if self.alias else f"models:/{self.name}/{self.version}"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model from the store, and which one it is."""

    sha256: str  # hash of the whole model
    uri: str  # the address that was asked for
    # name, version, alias: registered name and version, and the alias asked for; None where the address was not a
    # registered one
    name: str | None = None
    version: int | None = None
    alias: str | None = None
    run_id: str | None = None  # the run that logged it
    origin: Origin | ClassifierOrigin  # what it learnt from

    def about(self) -> dict[str, object]:
        """Return all of this and its origin as plain values for JSON."""
        found = {name: getattr(self, name) for name in Loaded.__dataclass_fields__ if name != "origin"}
        return found | self.origin.brief()


@dataclass(frozen=True, kw_only=True)
class LoadedModel(Loaded):
    """A predictor from the store, and which one it is."""

    predictor: Predictor = field(repr=False)  # the very predictor that was logged
    origin: Origin  # which predictor it is, what log it learnt from, and until when

    @property
    def trained_until(self) -> int | None:
        """Last end that it learnt from [s since its log's first submission]."""
        return self.origin.trained_until


@dataclass(frozen=True, kw_only=True)
class LoadedClassifier(Loaded):
    """A classifier of variability from the store, and which one it is."""

    classifier: Classifier = field(repr=False)  # the very classifier that was logged
    origin: ClassifierOrigin  # which classifier it is, what it learnt from, which nodes' counters its windows pool
