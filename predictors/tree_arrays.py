"""Where do compiled trees come from, beside scikit-learn? From boosted trees, and from arrays in a file."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors._trees import NODE
from predictors.data.errors import JobcastError
from predictors.trees import CompiledForest

Singles = npt.NDArray[np.float32]

AFT: Final = "survival:aft"
"""XGBoost's objective of accelerated failure time: its trees add up to the logarithm of a time."""

_DAMAGED: Final = "The model's trees point outside themselves; the file is damaged: train it again."


def compile_booster(model: str | bytes) -> tuple[CompiledForest, float]:
    """Return boosted trees, and what is added to their *sum*, from XGBoost's own JSON.

    The walk is exact; the sum is made in float64, where XGBoost adds up in float32.

    Raises
    ------
    JobcastError
        If it is no such model, or a tree points outside itself. Nothing is traversed before this is checked.
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
    """Return a tree's nodes in our layout, siblings side by side, and its leaves' values."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    split, feature = np.array(tree["split_conditions"], dtype=np.float32), np.array(tree["split_indices"])
    missing_left = np.array(tree["default_left"], dtype=np.int64)
    order: list[int] = []
    level = [0]
    while level:
        order += level
        if len(order) > len(left):
            raise JobcastError(_DAMAGED)
        level = [child for node in level if left[node] >= 0 for child in (left[node], right[node])]
    place = np.zeros(len(left), dtype=np.int64)
    place[order] = np.arange(len(order))
    left, split, feature, missing_left = left[order], split[order], feature[order], missing_left[order]
    leaf = left < 0
    nodes = np.empty(len(order), dtype=NODE)
    # XGBoost goes left if x < split, we if x <= threshold
    nodes["threshold"] = np.where(leaf, np.float32(np.inf), np.nextafter(split, np.float32(-np.inf)))
    nodes["feature"] = np.where(leaf, 2 * n_features, feature + n_features * missing_left)
    nodes["left"] = first + np.where(leaf, np.arange(len(order)), place[np.where(leaf, 0, left)])
    return nodes, np.where(leaf, split, 0.0).astype(np.float64)


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
