"""Fitted trees as arrays, walked by compiled code.

A forest is one array of nodes, tree after tree, breadth first, so that siblings are neighbours and the upper levels
share cache lines. A node sends a row to `left` if slot[feature] <= threshold, else to `left + 1`; a leaf sends
every row back to itself. Trees are walked in blocks, so that the processor waits for many cache lines at once.

Slots hold a row twice: as it is (NaN <= t is false: missing goes right), and with NaN as -inf (missing goes left); one
last slot of -inf is what leaves test. Does not handle several outputs, or infinite input.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled, step

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor


Holds = npt.NDArray[np.int32]

NODE: Final = np.dtype([("threshold", np.float32), ("feature", np.int32), ("left", np.int32)])
BLOCK: Final = 16


@compiled
def fill_slots(row: Singles, slots: Singles) -> None:
    """Lay out one row of n features in 2 n + 1 slots."""
    n_features = len(row)
    for f in range(n_features):
        x = row[f]
        slots[f] = x
        slots[n_features + f] = -np.inf if np.isnan(x) else x
    slots[2 * n_features] = -np.inf


@step
def walk(nodes: npt.NDArray[np.void], roots: Ints, first: int, width: int, slots: Singles, at: Holds) -> None:
    """Write into `at` which leaves `slots` reach in `width` trees from the `first` on."""
    for k in range(width):
        at[k] = roots[first + k]
    moving = True
    while moving:
        moving = False
        for k in range(width):
            node = nodes[at[k]]
            there = node.left + (0 if slots[node.feature] <= node.threshold else 1)
            moving |= there != at[k]
            at[k] = there


@compiled
def mean_of_leaves(nodes: npt.NDArray[np.void], values: Floats, roots: Ints, slots: Singles) -> float:
    """Mean over trees of the leaf that `slots` reach, summed in the trees' order."""
    n_trees = len(roots)
    at = np.empty(BLOCK, dtype=np.int32)
    total = 0.0
    for first in range(0, n_trees, BLOCK):
        width = min(BLOCK, n_trees - first)
        walk(nodes, roots, first, width, slots, at)
        for k in range(width):
            total += values[at[k]]
    return total / n_trees


@compiled
def mean_of_leaves_for_rows(
    nodes: npt.NDArray[np.void], values: Floats, roots: Ints, rows: Singles, out: Floats
) -> None:
    slots = np.empty(2 * rows.shape[1] + 1, dtype=np.float32)
    for i in range(len(rows)):
        fill_slots(rows[i], slots)
        out[i] = mean_of_leaves(nodes, values, roots, slots)


_NO_CHILD: Final = -1
_DAMAGED: Final = "The model's trees point outside themselves; the file is damaged: train it again."


@dataclass(frozen=True, eq=False)
class CompiledForest:
    """An immutable map from encoded rows to seconds; safe to call from threads."""

    # shape (n_nodes,); threshold, slot to compare and left child (`predictors.models.trees`)
    nodes: npt.NDArray[np.void]
    values: Floats  # shape (n_nodes,); what a leaf predicts [s]
    roots: Ints  # shape (n_trees,); first node of each tree
    n_features: int  # width of an encoded row

    def __post_init__(self) -> None:
        for array in (self.nodes, self.values, self.roots):
            array.flags.writeable = False

    @classmethod
    def from_sklearn(cls, forest: "RandomForestRegressor | ExtraTreesRegressor") -> Self:
        """Compile a fitted scikit-learn forest of one output; its trees are checked as in `sklearn_nodes`."""
        n_features = int(forest.n_features_in_)
        nodes, values, roots = sklearn_nodes(forest.estimators_, n_features)
        return cls(nodes, np.concatenate(values)[:, 0], roots, n_features)

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
    """Refuse a tree with nodes that point outside it, backwards or at missing features; `width` values a node.

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

    >>> node_budget(100)
    5000
    """
    return max(2, total // (2 * n_trees))


def sklearn_nodes(
    estimators: Sequence[Any], n_features: int, width: int = 1
) -> tuple[npt.NDArray[np.void], list[Floats], Ints]:
    """Return the nodes of scikit-learn's trees in our layout, the values (n_nodes, width) of each tree, and the roots.

    A tree that points outside itself, from a damaged or hostile file, is refused before anything is traversed.
    """
    parts, values, roots, base = [], [], [], 0
    for number, estimator in enumerate(estimators):
        tree = estimator.tree_
        check_tree(tree, n_features, f"tree {number}", width)
        nodes, order = lay_out(
            tree.children_left, tree.children_right, tree.feature, _rounded_down(tree.threshold),
            tree.missing_go_to_left, n_features, base,
        )  # fmt: skip
        parts.append(nodes)
        values.append(tree.value[order, 0, :])
        roots.append(base)
        base += len(nodes)
    return np.concatenate(parts), values, np.array(roots, dtype=np.int64)


def lay_out(
    left: Ints, right: Ints, feature: Ints, threshold: Singles, missing_left: npt.NDArray[Any],
    n_features: int, base: int,
) -> tuple[npt.NDArray[np.void], Ints]:  # fmt: skip
    """Return a tree's nodes in our layout, the first being number `base`, and which node each one was."""
    order = np.concatenate(levels(left, right))
    place = np.zeros(len(left), dtype=np.int64)
    place[order] = np.arange(len(order))
    left, leaf = left[order], left[order] < 0
    nodes = np.empty(len(order), dtype=NODE)
    nodes["threshold"] = np.where(leaf, np.float32(np.inf), threshold[order])
    slot = feature[order] + n_features * missing_left[order].astype(np.int64)
    nodes["feature"] = np.where(leaf, 2 * n_features, slot)
    nodes["left"] = base + np.where(leaf, np.arange(len(order)), place[left])
    return nodes, order


def levels(left: Ints, right: Ints) -> list[Ints]:
    """Return the nodes of each level of a tree, from the root down, siblings side by side."""
    found: list[Ints] = [np.zeros(1, dtype=np.int64)]
    while len(inner := found[-1][left[found[-1]] >= 0]):
        found.append(np.column_stack([left[inner], right[inner]]).ravel())
        if sum(map(len, found)) > len(left):
            raise JobcastError(_DAMAGED)
    return found


def _rounded_down(threshold: Floats) -> Singles:
    """Largest float32 <= threshold: for float32 x, x <= threshold exactly if x <= that."""
    single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)


AFT: Final = "survival:aft"
"""XGBoost's objective of accelerated failure time: its trees add up to the logarithm of a time."""


def compile_booster(model: str | bytes) -> tuple[CompiledForest, float]:
    """Return boosted trees, and what is added to their *sum*, from XGBoost's own JSON.

    The walk is exact; the sum is made in float64, where XGBoost adds up in float32. A tree that points outside itself
    is refused before anything is traversed.
    """
    try:
        learner = json.loads(model)["learner"]
        about = learner["learner_model_param"]
        score = about["base_score"]
        base = float(str(score).strip("[]"))
        if learner["objective"]["name"] == AFT:
            base = math.log(base)  # given as a time, added as its logarithm
        n_features = int(about["num_feature"])
        trees = learner["gradient_booster"]["model"]["trees"]
        parts, base_node = [], 0
        for tree in trees:
            parts.append(_nodes(tree, n_features, base_node))
            base_node += len(parts[-1][0])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise JobcastError(f"The boosted model cannot be read ({error}); train it again.") from error
    sizes = [len(nodes) for nodes, _ in parts]
    roots = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    forest = CompiledForest(
        np.concatenate([nodes for nodes, _ in parts]),
        np.concatenate([values for _, values in parts]),
        roots,
        n_features,
    )
    check_forest(forest)
    return forest, base


def _nodes(
    tree: Mapping[str, Any], n_features: int, first: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.float64]]:
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    split, feature = np.array(tree["split_conditions"], dtype=np.float32), np.array(tree["split_indices"])
    threshold = np.nextafter(split, np.float32(-np.inf))  # XGBoost goes left if x < split, we if x <= threshold
    nodes, order = lay_out(left, right, feature, threshold, np.array(tree["default_left"]), n_features, first)
    return nodes, np.where(left[order] < 0, split[order], 0.0).astype(np.float64)


def forest_arrays(forest: CompiledForest) -> dict[str, npt.NDArray[Any]]:
    """Return compiled trees as plain arrays by name, to be saved."""
    columns = {name: np.array(forest.nodes[name]) for name in ("threshold", "feature", "left")}
    return {**columns, "values": forest.values, "roots": forest.roots, "n_features": np.array(forest.n_features)}


def forest_from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> CompiledForest:
    """Return the trees that `forest_arrays` described, after checking them."""
    try:
        nodes = np.empty(len(arrays["left"]), dtype=NODE)
        for name in ("threshold", "feature", "left"):
            nodes[name] = arrays[name]
        values, roots = np.array(arrays["values"], dtype=np.float64), np.array(arrays["roots"], dtype=np.int64)
        forest = CompiledForest(nodes, values, roots, int(arrays["n_features"]))
    except (KeyError, TypeError, ValueError) as error:
        raise JobcastError(f"The model's trees cannot be read ({error}); train it again.") from error
    check_forest(forest)
    return forest


def check_forest(forest: CompiledForest) -> None:
    """Refuse trees that point outside themselves or backwards."""
    n_nodes, number = len(forest.nodes), np.arange(len(forest.nodes))
    left, feature = forest.nodes["left"].astype(np.int64), forest.nodes["feature"]
    leaf = left == number
    sound = (
        n_nodes > 0
        and forest.values.shape == (n_nodes,)
        and forest.roots.ndim == 1
        and len(forest.roots) > 0
        and bool(((forest.roots >= 0) & (forest.roots < n_nodes)).all())
        and bool((leaf | ((left > number) & (left < n_nodes - 1))).all())
        and bool(np.isposinf(forest.nodes["threshold"][leaf]).all())
        and bool(((feature >= 0) & (feature <= 2 * forest.n_features)).all())
        and bool(np.isfinite(forest.values).all())
    )
    if not sound:
        raise JobcastError(_DAMAGED)
