"""Classifiers of variability by name: make one, load one.

The behaviour of a name never changes. A new classifier is one line in `UNCALIBRATED`, the table of those that can also
be calibrated.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from predictors.variability.classifiers.base import Classifier, make, read
from predictors.variability.classifiers.calibrated import UNCALIBRATED, Calibrated

CLASSIFIERS: Final[Mapping[str, type[Classifier]]] = MappingProxyType({**UNCALIBRATED, "calibrated": Calibrated})
"""Every classifier by its name; a changed rule gets a new name."""

OF_THE_PAPER: Final = ("extra-trees", "decision-forest", "knn", "adaboost")


def make_classifier(name: str, **params: Any) -> Classifier:
    """Return a fresh, unfitted classifier by its registered name.

    >>> make_classifier("adaboost", n_estimators=100)
    AdaBoost(n_estimators=100)
    >>> make_classifier("adabost")
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: No classifier 'adabost'; did you mean 'adaboost'? Known: extra-trees, ...
    """
    return make(CLASSIFIERS, name, params)


def seeded(name: str, seed: int, **params: Any) -> Classifier:
    """Return the same with `seed` handed to those that draw by chance."""
    fresh = make_classifier(name, **params)
    return fresh.set_params(random_state=seed) if "random_state" in fresh.get_params() else fresh


def load(folder: str | Path) -> Classifier:
    """Return the classifier that `Classifier.save` wrote: it judges the same, to the last bit."""
    return read(CLASSIFIERS, Path(folder))
