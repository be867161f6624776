"""All that the store needs to know of a model to keep it, whatever kind it is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from predictors.base import Predictor
from predictors.data.joblog import JobLog
from predictors.saved import served, served_classifier
from predictors.saved.classifier_folder import ClassifierOrigin, save_classifier
from predictors.saved.folder import Origin, save_model
from predictors.saved.page import page, text
from predictors.variability.classifier import Classifier
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Loggable:
    """A fitted model with all that is written down beside it.

    Attributes
    ----------
    title : str
        What the run is called.
    save : callable of Path
        Writes the model into an empty folder and returns the hash of the whole.
    tags : mapping of str to str
        Where it came from; the run, the model and its versions carry them.
    note : str
        The run's page, in Markdown.
    params : mapping
        The model's parameters, split and seed.
    inputs : mapping of str to (str, bool)
        MLflow's type of each column that it takes, and whether the column must be there.
    outputs : mapping of str to str
        MLflow's type of each column that it gives.
    loader : str
        Module whose `_load_pyfunc` opens it for MLflow.
    example : DataFrame
        A few rows.
    predict : callable of DataFrame
        What the model, opened for MLflow, must say.
    """

    title: str
    save: Callable[[Path], str]
    tags: Mapping[str, str]
    note: str
    params: Mapping[str, object]
    inputs: Mapping[str, tuple[str, bool]]
    outputs: Mapping[str, str]
    loader: str
    example: "pd.DataFrame"
    predict: "Callable[[pd.DataFrame], pd.DataFrame]"

    @classmethod
    def of_predictor(
        cls,
        predictor: Predictor,
        log: JobLog,
        figures: Mapping[str, object],
        split: str,
        seed: int | None,
        trained_until: int | None,
    ) -> Self:
        """Describe a predictor of run times that learnt from `log`."""
        origin = Origin.of(predictor.name, log, trained_until)
        return cls(
            title=f"{predictor.name} on {log.name}",
            save=lambda folder: save_model(predictor, folder, origin),
            tags=_tags(asdict(origin)),
            note=page(origin, figures, split),
            params=predictor.get_params() | {"predictor": predictor.name, "split": split, "seed": seed},
            inputs={name: ("double", name in served.REQUIRED) for name in predictor.features},
            outputs={served.OUTPUT: "double"},
            loader=served.__name__,
            example=served.example(predictor, log),
            predict=lambda rows: served.ServedModel(predictor).predict(rows),
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
        inputs = dict.fromkeys(classifier.features_, ("double", True))
        if classifier.seen_only:
            inputs[served_classifier.APPLICATION] = ("string", True)
        first = str(dataset.runs.application[0])
        return cls(
            title=f"{classifier.name} on {name}",
            save=lambda folder: save_classifier(classifier, folder, origin),
            tags=_tags(origin.brief()),
            note=text(f"**{classifier.name}** on **{name}**, counters of {dataset.scope} nodes: {split}", figures),
            params=classifier.get_params() | {"classifier": classifier.name, "split": split, "seed": seed},
            inputs=inputs,
            outputs=dict(
                zip(served_classifier.OUTPUTS, ("long", "string", "double", "boolean", "string"), strict=True)
            ),
            loader=served_classifier.__name__,
            example=served_classifier.example(classifier, dataset.rows, FEATURES, first),
            predict=lambda rows: served_classifier.ServedClassifier(classifier).predict(rows),
        )


def _tags(origin: Mapping[str, object]) -> dict[str, str]:
    return {f"jobcast.{key}": str(value) for key, value in origin.items() if value is not None}
