"""Importance of features: from the trees of a forest, and for any predictor by permutation."""

from typing import TYPE_CHECKING, Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.models.base import Predictor
from predictors.models.forest import Forest
from predictors.models.trees import levels

if TYPE_CHECKING:
    import pandas as pd


MOST: Final = 5000  # jobs that a permutation looks at


def importances(forest: Forest) -> "pd.DataFrame":
    """Return what each attribute is worth to a fitted forest, a row each, the most important first.

    `importance` is the share of the explained variance (scikit-learn's, the one-hot columns of a category summed);
    `first_depth` the depth of its topmost split, averaged over the trees (0 is the root; a tree without such a split
    counts its own depth); `mean_depth` that of all its splits; `height` the share of 1 / (1 + first_depth): Reis ranks
    attributes by their average height in the trees.
    """
    import pandas as pd

    estimator = forest.estimator_
    sources = np.array(estimator.encoding.sources(forest.features))  # type: ignore[attr-defined]
    first: dict[str, list[float]] = {name: [] for name in forest.features}
    every: dict[str, list[float]] = {name: [] for name in forest.features}
    for tree in (one.tree_ for one in estimator.model.estimators_):  # type: ignore[attr-defined]
        depth, split = np.zeros(tree.node_count, dtype=np.int64), tree.children_left >= 0
        for k, nodes in enumerate(levels(tree.children_left, tree.children_right)):
            depth[nodes] = k
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


def permuted(
    predictor: Predictor,  # fitted, whatever it is
    # shape (n_jobs, n_features); feature rows that it has not learnt from; of more than 5,000 as many are drawn
    rows: Floats,
    run_time: Floats,  # shape (n_jobs,); true run times [s]
    seed: int = 0,
) -> "pd.DataFrame":
    """Return by how much the squared error of a fitted predictor grows when one attribute is permuted [1]_.

    A row an attribute, the most important first: `growth` of the sum of squared errors is relative to it (0: not
    needed). Attributes of equal information replace each other: all may look unneeded.

    .. [1] L. Breiman. Random forests. Machine Learning 45(1), 2001. doi:10.1023/A:1010933404324
    """
    import pandas as pd

    random = np.random.default_rng(seed)
    if len(rows) > MOST:
        drawn = np.sort(random.choice(len(rows), MOST, replace=False))
        rows, run_time = rows[drawn], run_time[drawn]
    whole = float(((predictor.predict_rows(rows) - run_time) ** 2).sum())
    order, found = random.permutation(len(rows)), []
    for place, name in enumerate(predictor.features):
        changed = rows.copy()
        changed[:, place] = rows[order, place]
        lost = float(((predictor.predict_rows(changed) - run_time) ** 2).sum())
        found.append((predictor.name, name, lost / whole - 1 if whole > 0 else float("nan")))
    table = pd.DataFrame(found, columns=["predictor", "attribute", "growth"])
    return table.sort_values("growth", ascending=False, kind="stable", ignore_index=True)
