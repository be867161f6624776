"""Trees that vote: scikit-learn's classifiers as plain arrays, the same answers, a hundred times sooner for one row."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from predictors.data.runs import Floats, Ints
from predictors.trees import breadth_first, check_tree
from predictors.variability._votes import add_votes


@dataclass(frozen=True, eq=False)
class TreeVoter:
    """An immutable map from complete rows to probabilities; safe to call from threads.

    Parameters
    ----------
    nodes : structured array of shape (n_nodes,)
        Threshold, slot to compare and left child (`predictors._trees`).
    votes : float64 array of shape (n_nodes, n_classes)
        What a leaf says: shares of the classes, or AdaBoost's weighted votes.
    roots : int64 array of shape (n_trees,)
        First node of each tree.
    n_inputs : int
        Width of a row.
    link : {"mean", "samme"}
        How sums become probabilities: their share, or the softmax of SAMME [1]_.

    References
    ----------
    .. [1] T. Hastie, S. Rosset, J. Zhu, H. Zou. Multi-class AdaBoost. Statistics and Its Interface 2(3), 2009.
       doi:10.4310/SII.2009.v2.n3.a8
    """

    nodes: npt.NDArray[np.void]
    votes: Floats
    roots: Ints
    n_inputs: int
    link: Literal["mean", "samme"]

    def __post_init__(self) -> None:
        for array in (self.nodes, self.votes, self.roots):
            array.flags.writeable = False

    @classmethod
    def from_sklearn(cls, model: Any, n_classes: int) -> Self:
        """Compile scikit-learn's AdaBoost, extra trees or random forest, fitted; a class never seen gets no vote.

        Raises
        ------
        JobcastError
            If a tree points outside itself: a damaged or hostile file. Nothing is traversed before this is checked.
        """
        boosts = hasattr(model, "estimator_weights_")
        n_inputs, seen = int(model.n_features_in_), np.asarray(model.classes_, dtype=np.int64)
        if seen.ndim != 1 or not len(seen) or not ((seen >= 0) & (seen < n_classes)).all() or (np.diff(seen) < 1).any():
            raise JobcastError("The model's classes are not those of its labels; the file is damaged: train it again.")
        weights = np.asarray(model.estimator_weights_, dtype=np.float64) if boosts else np.ones(len(model.estimators_))
        parts, votes, roots, base = [], [], [], 0
        for number, (estimator, weight) in enumerate(zip(model.estimators_, weights, strict=False)):
            check_tree(estimator.tree_, n_inputs, f"tree {number}", len(seen))
            nodes, order = breadth_first(estimator.tree_, n_inputs, base)
            shares = estimator.tree_.value[order, 0, :]
            parts.append(nodes)
            own = _samme(shares, weight) if boosts else shares
            votes.append(_spread(own, seen, n_classes, -np.inf if boosts else 0.0))
            roots.append(base)
            base += len(nodes)
        if not parts or not np.isfinite(weights).all():
            raise JobcastError("The model has no trees that can vote; the file is damaged: train it again.")
        total = weights[: len(roots)].sum() if boosts else len(roots)
        return cls(
            np.concatenate(parts),
            np.concatenate(votes) / total,
            np.array(roots, dtype=np.int64),
            n_inputs,
            "samme" if boosts else "mean",
        )

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

    Examples
    --------
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
