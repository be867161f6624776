"""Which attributes does a forest rely on? By the variance they explain, and by how high they stand in the trees."""

from typing import TYPE_CHECKING

import numpy as np

from predictors.forest import Forest

if TYPE_CHECKING:
    import pandas as pd


def importances(forest: Forest) -> "pd.DataFrame":
    """Return what each attribute is worth to a fitted forest, the most important first.

    Parameters
    ----------
    forest : Forest
        Fitted.

    Returns
    -------
    DataFrame
        One row an attribute: `attribute`; `importance`, the share of the explained variance (scikit-learn's, the
        one-hot columns of a category summed); `first_depth`, the depth of its topmost split, averaged over the trees
        (0 is the root; a tree without such a split counts its own depth); `mean_depth` over all its splits; `height`,
        the share of 1 / (1 + first_depth): Reis ranks attributes by their average height in the trees.
    """
    import pandas as pd

    estimator = forest.estimator_
    sources = np.array(estimator.encoding.sources(forest.features))  # type: ignore[attr-defined]
    first: dict[str, list[float]] = {name: [] for name in forest.features}
    every: dict[str, list[float]] = {name: [] for name in forest.features}
    for tree in (one.tree_ for one in estimator.model.estimators_):  # type: ignore[attr-defined]
        depth, split = _depths(tree.children_left, tree.children_right)
        names = sources[tree.feature[split]]
        for name in forest.features:
            found = depth[split][names == name]
            first[name].append(float(found.min()) if len(found) else float(depth.max()))
            every[name].extend(found.tolist())
    share = forest.importances()
    table = pd.DataFrame(
        {
            "attribute": list(forest.features),
            "importance": [share[name] for name in forest.features],
            "first_depth": [float(np.mean(first[name])) for name in forest.features],
            "mean_depth": [float(np.mean(every[name])) if every[name] else float("nan") for name in forest.features],
        }
    )
    height = 1 / (1 + table["first_depth"])
    table["height"] = height / height.sum()
    return table.sort_values("importance", ascending=False, ignore_index=True)


def _depths(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the depth of each node of a tree, and which nodes split; parents come before their children."""
    depth = np.zeros(len(left), dtype=np.int64)
    split = left >= 0
    level = np.array([0])
    while len(level):
        inner = level[split[level]]
        below = np.concatenate([left[inner], right[inner]])
        depth[below] = np.concatenate([depth[inner], depth[inner]]) + 1
        level = below
    return depth, split
