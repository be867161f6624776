"""AdaBoost, extra trees and the decision forest, as compiled votes of trees.

Nodes and slots are laid out as in `predictors.models.trees`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.core.model_files import TREE, load_sklearn, save_sklearn
from predictors.core.params import SHARE, Count, Positive, Rule, Seed
from predictors.models.trees import BLOCK, fill_slots, sklearn_nodes, walk
from predictors.variability.classifiers.base import Classifier

SQRT_OR_SHARE: Final[Rule] = ("'sqrt' or a share above 0, at most 1", lambda v: v == "sqrt" or SHARE[1](v))


@compiled
def add_votes(nodes: npt.NDArray[np.void], votes: Floats, roots: Ints, rows: Singles, out: Floats) -> None:
    """Write, for each row, the sum over trees of the votes (n_nodes, n_classes) of the leaf that it reaches."""
    n_trees, n_classes = len(roots), votes.shape[1]
    slots = np.empty(2 * rows.shape[1] + 1, dtype=np.float32)
    at = np.empty(BLOCK, dtype=np.int32)
    for i in range(len(rows)):
        fill_slots(rows[i], slots)
        for c in range(n_classes):
            out[i, c] = 0.0
        for first in range(0, n_trees, BLOCK):
            width = min(BLOCK, n_trees - first)
            walk(nodes, roots, first, width, slots, at)
            for k in range(width):
                for c in range(n_classes):
                    out[i, c] += votes[at[k], c]


@dataclass(frozen=True, eq=False)
class TreeVoter:
    """An immutable map from complete rows to probabilities; safe to call from threads.

    .. [1] T. Hastie, S. Rosset, J. Zhu, H. Zou. Multi-class AdaBoost. Statistics and Its Interface 2(3), 2009.
       doi:10.4310/SII.2009.v2.n3.a8
    """

    # shape (n_nodes,); threshold, slot to compare and left child (`predictors.models.trees`)
    nodes: npt.NDArray[np.void]
    votes: Floats  # shape (n_nodes, n_classes); votes of a leaf: shares of the classes, or AdaBoost's weighted votes
    roots: Ints  # shape (n_trees,); first node of each tree
    n_inputs: int  # width of a row
    link: Literal["mean", "samme"]  # how sums become probabilities: their share, or the softmax of SAMME [1]_

    def __post_init__(self) -> None:
        for array in (self.nodes, self.votes, self.roots):
            array.flags.writeable = False

    @classmethod
    def from_sklearn(cls, model: Any, n_classes: int) -> Self:
        """Compile scikit-learn's AdaBoost, extra trees or random forest, fitted; a class never seen gets no vote.

        A tree that points outside itself, from a damaged or hostile file, is refused before anything is traversed.
        """
        boosts = hasattr(model, "estimator_weights_")
        n_inputs, seen = int(model.n_features_in_), np.asarray(model.classes_, dtype=np.int64)
        if seen.ndim != 1 or not len(seen) or not ((seen >= 0) & (seen < n_classes)).all() or (np.diff(seen) < 1).any():
            raise JobcastError("The model's classes are not those of its labels; the file is damaged: train it again.")
        weights = np.asarray(model.estimator_weights_, dtype=np.float64) if boosts else np.ones(len(model.estimators_))
        trees = list(model.estimators_[: len(weights)])
        if not trees or not np.isfinite(weights).all():
            raise JobcastError("The model has no trees that can vote; the file is damaged: train it again.")
        nodes, shares, roots = sklearn_nodes(trees, n_inputs, len(seen))
        own = [_samme(part, weight) for part, weight in zip(shares, weights, strict=False)] if boosts else shares
        votes = _spread(np.concatenate(own), seen, n_classes, -np.inf if boosts else 0.0)
        total = weights[: len(roots)].sum() if boosts else len(roots)
        return cls(nodes, votes / total, roots, n_inputs, "samme" if boosts else "mean")

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        singles = np.ascontiguousarray(rows, dtype=np.float32)
        if singles.ndim != 2 or singles.shape[1] != self.n_inputs:
            raise JobcastError(f"The trees take rows of {self.n_inputs} inputs; got shape {singles.shape}.")
        sums = np.empty((len(singles), self.votes.shape[1]))
        add_votes(self.nodes, self.votes, self.roots, singles, sums)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True)) if self.link == "mean" else softmax(sums)


def softmax(scores: Floats) -> Floats:
    """Return probabilities that grow with the scores, each row summing to 1.

    >>> softmax(np.array([[0.0, 0.0], [0.0, np.log(3)]])).round(2).tolist()
    [[0.5, 0.5], [0.25, 0.75]]
    """
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True), dtype=np.float64)


def _samme(shares: Floats, weight: float) -> Floats:
    """Return a tree's votes: its weight for the leaf's class, -weight / (K - 1) for each other, over K - 1."""
    k = shares.shape[1]
    votes = np.full(shares.shape, -weight / (k - 1) if k > 1 else 0.0)
    votes[np.arange(len(shares)), shares.argmax(axis=1)] = weight
    return np.asarray(votes / max(k - 1, 1))


def _spread(votes: Floats, seen: Ints, n_classes: int, unseen: float) -> Floats:
    """Return votes over all classes; a class that was never seen gets `unseen`: its probability is 0."""
    wide = np.full((len(votes), n_classes), unseen)
    wide[:, seen] = votes
    return wide


MODEL: Final = "classifier.skops"


@dataclass(frozen=True, eq=False)
class SklearnTrees:
    """A fitted scikit-learn classifier and the same trees compiled; immutable."""

    model: Any  # as fitted: to be saved and explained
    compiled: TreeVoter  # its votes

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        return self.compiled.probabilities(rows)


class TreeClassifier(Classifier):
    """Base of the classifiers that scikit-learn grows of trees."""

    def unfitted(self) -> Any:
        raise NotImplementedError

    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> SklearnTrees:
        try:
            model = self.unfitted().fit(rows.astype(np.float32), classes)
        except ValueError as error:  # AdaBoost gives up where its first tree is no better than chance
            raise JobcastError(f"{self.name}: nothing can be learnt from these {len(rows)} runs ({error}).") from error
        return SklearnTrees(model, TreeVoter.from_sklearn(model, n_classes))

    def importances(self) -> Floats:
        self.require_fit()
        assert isinstance(self.voter_, SklearnTrees)
        return np.asarray(self.voter_.model.feature_importances_, dtype=np.float64)

    def save_voter(self, folder: Path) -> None:
        assert isinstance(self.voter_, SklearnTrees)
        save_sklearn(folder / MODEL, self.voter_.model, (TREE,))

    def load_voter(self, folder: Path) -> SklearnTrees:
        model = load_sklearn(folder / MODEL, (TREE,))
        expected = type(self.unfitted())
        if type(model) is not expected or int(model.n_features_in_) != len(self.features_):
            raise JobcastError(
                f"{folder / MODEL}: holds no {expected.__name__} of {len(self.features_)} inputs; train it again."
            )
        return SklearnTrees(model, TreeVoter.from_sklearn(model, len(self.class_names)))


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoost(TreeClassifier):
    """AdaBoost (SAMME) over shallow trees; by default stumps, fifty of them, as in scikit-learn.

    .. [1] Y. Freund, R. E. Schapire. A decision-theoretic generalization of on-line learning and an application to
       boosting. Journal of Computer and System Sciences 55(1), 1997. doi:10.1006/jcss.1997.1504
    .. [2] T. Hastie, S. Rosset, J. Zhu, H. Zou. Multi-class AdaBoost. Statistics and Its Interface 2(3), 2009.
       doi:10.4310/SII.2009.v2.n3.a8
    """

    name = "adaboost"

    n_estimators: Count = 50  # trees at most
    max_depth: Count = 1  # of a tree
    learning_rate: Positive = 1.0  # how much each tree counts
    random_state: Seed = 0  # seed: equal seeds, equal classifiers

    def unfitted(self) -> Any:
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        return AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=self.max_depth),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class ForestOfTrees(TreeClassifier):
    """Base of the two forests: the mean of the shares in the leaves of trees that are grown to their end."""

    n_estimators: Count = 100  # trees
    # how many of the inputs are tried at a split: the root of their number, or a share
    max_features: Annotated[str | float, SQRT_OR_SHARE] = "sqrt"
    min_samples_leaf: Count = 1  # fewest runs in a leaf
    balanced: bool = False  # let each class weigh the same in the trees' growth
    random_state: Seed = 0  # seed: equal seeds, equal classifiers

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

    .. [1] P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63(1), 2006.
       doi:10.1007/s10994-006-6226-1
    """

    name = "extra-trees"

    def unfitted(self) -> Any:
        from sklearn.ensemble import ExtraTreesClassifier

        return ExtraTreesClassifier(**self._settings())


class DecisionForest(ForestOfTrees):
    """Random forest: each tree sees runs drawn with replacement. Parameters as in `ForestOfTrees`.

    .. [1] L. Breiman. Random forests. Machine Learning 45(1), 2001. doi:10.1023/A:1010933404324
    """

    name = "decision-forest"

    def unfitted(self) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(**self._settings())
