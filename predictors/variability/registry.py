"""Which classifiers of variability are there, and how do I make one by name? A name keeps its behaviour for ever."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from predictors.data.errors import unknown_name
from predictors.variability.boosted import BoostedClassifier
from predictors.variability.calibrated import Calibrated
from predictors.variability.classifier import Classifier
from predictors.variability.neighbours import Neighbours
from predictors.variability.tree_classifiers import AdaBoost, DecisionForest, ExtraTrees

CLASSIFIERS: Final[Mapping[str, type[Classifier]]] = MappingProxyType(
    {
        "extra-trees": ExtraTrees,
        "decision-forest": DecisionForest,
        "knn": Neighbours,
        "adaboost": AdaBoost,
        "boosted": BoostedClassifier,
        "calibrated": Calibrated,
    }
)
"""Every classifier by its name; the first four are the paper's. A changed rule gets a new name."""

OF_THE_PAPER: Final = ("extra-trees", "decision-forest", "knn", "adaboost")


def make_classifier(name: str, **params: Any) -> Classifier:
    """Return a fresh, unfitted classifier by its registered name.

    Raises
    ------
    JobcastError
        If there is no classifier, or no parameter, of that name.

    Examples
    --------
    >>> make_classifier("adaboost", n_estimators=100)
    AdaBoost(n_estimators=100)
    >>> make_classifier("adabost")
    Traceback (most recent call last):
        ...
    predictors.data.errors.JobcastError: No classifier 'adabost'; did you mean 'adaboost'? Known: extra-trees, ...
    """
    if name not in CLASSIFIERS:
        raise unknown_name("classifier", name, CLASSIFIERS)
    return CLASSIFIERS[name]().set_params(**params)


def seeded(name: str, seed: int, **params: Any) -> Classifier:
    """Return the same with `seed` handed to those that draw by chance."""
    fresh = make_classifier(name, **params)
    return fresh.set_params(random_state=seed) if "random_state" in fresh.get_params() else fresh
