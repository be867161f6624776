"""AdaBoost, extra trees and the decision forest: scikit-learn grows them, compiled code walks them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.runs import Floats, Ints
from predictors.sklearn_predictor import dump, trusting, undump
from predictors.variability.classifier import Classifier
from predictors.variability.inputs import is_number, is_whole
from predictors.variability.votes import TreeVoter

MODEL: Final = "classifier.skops"
TRUSTED: Final = ("sklearn.tree._tree.Tree",)
"""What a saved classifier may hold beyond what skops trusts by itself; its nodes are checked after loading."""


@dataclass(frozen=True, eq=False)
class SklearnTrees:
    """A fitted scikit-learn classifier and the same trees compiled; immutable.

    Parameters
    ----------
    model : scikit-learn classifier
        As fitted: to be saved and explained.
    compiled : TreeVoter
        Its votes.
    """

    model: Any
    compiled: TreeVoter

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        return self.compiled.probabilities(rows)


class TreeClassifier(Classifier):
    """Base of the classifiers that scikit-learn grows of trees."""

    random_state: int

    def unfitted(self) -> Any:
        """Return scikit-learn's classifier with this one's parameters."""
        raise NotImplementedError

    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> SklearnTrees:
        """Grow trees on complete rows (n, n_inputs) and their classes (n,)."""
        try:
            model = self.unfitted().fit(rows.astype(np.float32), classes)
        except ValueError as error:  # AdaBoost gives up where its first tree is no better than chance
            raise JobcastError(f"{self.name}: nothing can be learnt from these {len(rows)} runs ({error}).") from error
        return SklearnTrees(model, TreeVoter.from_sklearn(model, n_classes))

    def importances(self) -> Floats:
        """Return how much each input lessens the impurity, shape (n_features,), summing to 1."""
        self.require_fit()
        assert isinstance(self.voter_, SklearnTrees)
        return np.asarray(self.voter_.model.feature_importances_, dtype=np.float64)

    def save_voter(self, folder: Path) -> None:
        """Write the classifier by skops."""
        assert isinstance(self.voter_, SklearnTrees)
        with trusting(*TRUSTED):
            dump(folder / MODEL, self.voter_.model)

    def load_voter(self, folder: Path) -> SklearnTrees:
        """Take back the classifier, after checking that its trees do not point outside themselves."""
        with trusting(*TRUSTED):
            model = undump(folder / MODEL)
        expected = type(self.unfitted())
        if type(model) is not expected or int(model.n_features_in_) != len(self.features_):
            raise JobcastError(
                f"{folder / MODEL}: holds no {expected.__name__} of {len(self.features_)} inputs; train it again."
            )
        return SklearnTrees(model, TreeVoter.from_sklearn(model, len(self.class_names)))


class AdaBoost(TreeClassifier):
    """AdaBoost (SAMME) over shallow trees; by default stumps, fifty of them, as in scikit-learn.

    Parameters
    ----------
    n_estimators : int
        Trees at most.
    max_depth : int
        Of a tree.
    learning_rate : float
        How much each tree counts.
    random_state : int
        Seed: equal seeds, equal classifiers.
    threshold, most_missing, seen_only
        As in `Classifier`.

    References
    ----------
    .. [1] Y. Freund, R. E. Schapire. A decision-theoretic generalization of on-line learning and an application to
       boosting. Journal of Computer and System Sciences 55(1), 1997. doi:10.1006/jcss.1997.1504
    .. [2] T. Hastie, S. Rosset, J. Zhu, H. Zou. Multi-class AdaBoost. Statistics and Its Interface 2(3), 2009.
       doi:10.4310/SII.2009.v2.n3.a8
    """

    name = "adaboost"
    rules: ClassVar[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
        "n_estimators": ("a whole number, at least 1", lambda v: is_whole(v, 1)),
        "max_depth": ("a whole number, at least 1", lambda v: is_whole(v, 1)),
        "learning_rate": ("a number above 0", lambda v: is_number(v) and v > 0),
        "random_state": ("a whole number, at least 0", lambda v: is_whole(v, 0)),
    }

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        max_depth: int = 1,
        learning_rate: float = 1.0,
        random_state: int = 0,
        threshold: float | None = None,
        most_missing: float = 0.5,
        seen_only: bool = False,
    ) -> None:
        super().__init__(threshold=threshold, most_missing=most_missing, seen_only=seen_only)
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.random_state = random_state

    def unfitted(self) -> Any:
        """Return scikit-learn's classifier with this one's parameters."""
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        return AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=self.max_depth),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )


class ForestOfTrees(TreeClassifier):
    """Base of the two forests: the mean of the shares in the leaves of trees that are grown to their end.

    Parameters
    ----------
    n_estimators : int
        Trees.
    max_features : "sqrt" or float
        How many of the inputs are tried at a split: the root of their number, or a share.
    min_samples_leaf : int
        Fewest runs in a leaf.
    balanced : bool
        Let each class weigh the same in the trees' growth.
    random_state : int
        Seed: equal seeds, equal classifiers.
    threshold, most_missing, seen_only
        As in `Classifier`.
    """

    rules: ClassVar[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
        "n_estimators": ("a whole number, at least 1", lambda v: is_whole(v, 1)),
        "max_features": (
            "'sqrt' or a share above 0, at most 1",
            lambda v: v == "sqrt" or (is_number(v) and 0 < v <= 1),
        ),
        "min_samples_leaf": ("a whole number, at least 1", lambda v: is_whole(v, 1)),
        "balanced": ("True or False", lambda v: isinstance(v, bool)),
        "random_state": ("a whole number, at least 0", lambda v: is_whole(v, 0)),
    }

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: str | float = "sqrt",
        min_samples_leaf: int = 1,
        balanced: bool = False,
        random_state: int = 0,
        threshold: float | None = None,
        most_missing: float = 0.5,
        seen_only: bool = False,
    ) -> None:
        super().__init__(threshold=threshold, most_missing=most_missing, seen_only=seen_only)
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.balanced = balanced
        self.random_state = random_state

    def _settings(self) -> dict[str, Any]:
        return {
            "n_estimators": self.n_estimators,
            "max_features": self.max_features,
            "min_samples_leaf": self.min_samples_leaf,
            "class_weight": "balanced" if self.balanced else None,
            "random_state": self.random_state,
            "n_jobs": 1,
        }


class ExtraTrees(ForestOfTrees):
    """Extra trees: each split's threshold is drawn, each tree sees all runs. Parameters as in `ForestOfTrees`.

    References
    ----------
    .. [1] P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63(1), 2006.
       doi:10.1007/s10994-006-6226-1
    """

    name = "extra-trees"

    def unfitted(self) -> Any:
        """Return scikit-learn's classifier with this one's parameters."""
        from sklearn.ensemble import ExtraTreesClassifier

        return ExtraTreesClassifier(**self._settings())


class DecisionForest(ForestOfTrees):
    """Random forest: each tree sees runs drawn with replacement. Parameters as in `ForestOfTrees`.

    References
    ----------
    .. [1] L. Breiman. Random forests. Machine Learning 45(1), 2001. doi:10.1023/A:1010933404324
    """

    name = "decision-forest"

    def unfitted(self) -> Any:
        """Return scikit-learn's classifier with this one's parameters."""
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(**self._settings())
