"""CompiledForest: a fitted forest as plain arrays, equal to scikit-learn's to the last bit, fast for one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors._trees import NODE, fill_slots, mean_of_leaves, mean_of_leaves_for_rows
from predictors.data.errors import JobcastError

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_NO_CHILD: Final = -1


@dataclass(frozen=True, eq=False)
class CompiledForest:
    """An immutable map from encoded rows to seconds; safe to call from threads.

    Parameters
    ----------
    nodes : structured array of shape (n_nodes,)
        Threshold, slot to compare and left child (`predictors._trees`).
    values : float64 array of shape (n_nodes,)
        What a leaf predicts [s].
    roots : int64 array of shape (n_trees,)
        First node of each tree.
    n_features : int
        Width of an encoded row.
    """

    nodes: npt.NDArray[np.void]
    values: Floats
    roots: Ints
    n_features: int

    def __post_init__(self) -> None:
        for array in (self.nodes, self.values, self.roots):
            array.flags.writeable = False

    @classmethod
    def from_sklearn(cls, forest: "RandomForestRegressor | ExtraTreesRegressor") -> Self:
        """Compile a fitted scikit-learn forest of one output.

        Raises
        ------
        JobcastError
            If a tree points outside itself: a damaged or hostile file. Nothing is traversed before this is checked.
        """
        n_features = int(forest.n_features_in_)
        parts, values, roots, base = [], [], [], 0
        for number, estimator in enumerate(forest.estimators_):
            tree = estimator.tree_
            check_tree(tree, n_features, where=f"tree {number}")
            nodes, order = breadth_first(tree, n_features, base)
            parts.append(nodes)
            values.append(tree.value[order, 0, 0])
            roots.append(base)
            base += len(nodes)
        return cls(np.concatenate(parts), np.concatenate(values), np.array(roots, dtype=np.int64), n_features)

    def predict(self, rows: npt.ArrayLike) -> Floats:
        """Return seconds, shape (n_rows,), for encoded rows of shape (n_rows, n_features), NaN = missing."""
        singles = np.ascontiguousarray(rows, dtype=np.float32)
        if singles.ndim != 2 or singles.shape[1] != self.n_features:
            raise JobcastError(f"The forest takes rows of {self.n_features} features; got shape {singles.shape}.")
        out = np.empty(len(singles))
        mean_of_leaves_for_rows(self.nodes, self.values, self.roots, singles, out)
        return out

    def predict_one(self, row: Singles) -> float:
        """Return seconds for one encoded row, float32 of shape (n_features,)."""
        slots = np.empty(2 * self.n_features + 1, dtype=np.float32)
        fill_slots(row, slots)
        return mean_of_leaves(self.nodes, self.values, self.roots, slots)


def check_tree(tree: Any, n_features: int, where: str, width: int = 1) -> None:
    """Refuse a tree whose nodes point outside it, backwards or at features that do not exist; `width` values a node.

    scikit-learn adds children after their parents, so a child with a smaller number would be a loop.
    """
    left, right, feature = (np.asarray(a) for a in (tree.children_left, tree.children_right, tree.feature))
    n_nodes, number = len(left), np.arange(len(left))
    inner = left != _NO_CHILD
    sound = (
        n_nodes > 0
        and tree.value.shape == (n_nodes, 1, width)
        and np.array_equal(inner, right != _NO_CHILD)
        and bool(np.all((left > number) & (left < n_nodes) & (right > number) & (right < n_nodes) | ~inner))
        and bool(np.all((feature >= 0) & (feature < n_features) | ~inner))
        and len(np.unique(np.concatenate([left[inner], right[inner]]))) == n_nodes - 1
        and bool(np.isfinite(tree.value).all())
    )
    if not sound:
        raise JobcastError(f"The model's {where} has nodes that point outside it; the file is damaged: train it again.")


def node_budget(n_trees: int, total: int = 1_000_000) -> int:
    """Return the leaves, or jobs, that each of `n_trees` may have so that the forest keeps within `total` nodes.

    Examples
    --------
    >>> node_budget(100)
    5000
    """
    return max(2, total // (2 * n_trees))


def breadth_first(tree: Any, n_features: int, base: int) -> tuple[npt.NDArray[np.void], Ints]:
    """Return the tree's nodes in our layout, the first being number `base`, and which node each one was."""
    order = _levels(tree.children_left, tree.children_right)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    left = tree.children_left[order]
    leaf = left == _NO_CHILD
    nodes = np.empty(len(order), dtype=NODE)
    nodes["threshold"] = np.where(leaf, np.float32(np.inf), _rounded_down(tree.threshold[order]))
    nodes["feature"] = np.where(
        leaf, 2 * n_features, tree.feature[order] + n_features * tree.missing_go_to_left[order].astype(np.int64)
    )
    nodes["left"] = base + np.where(leaf, np.arange(len(order)), place[left])
    return nodes, order


def _levels(left: Ints, right: Ints) -> Ints:
    level: Ints = np.zeros(1, dtype=np.int64)
    levels: Sequence[Ints] = []
    while len(level):
        levels = [*levels, level]
        inner = level[left[level] != _NO_CHILD]
        level = np.column_stack([left[inner], right[inner]]).ravel()
    return np.concatenate(levels)


def _rounded_down(threshold: Floats) -> Singles:
    """Largest float32 <= threshold: for float32 x, x <= threshold exactly if x <= that."""
    single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
