"""The plain average of unlike learners on the history of similar jobs: boosted trees and extra trees."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.boosted import Boosted, BoostedEstimator, boost, load_boosted, save_boosted
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.features import KERNEL_MEANS, RICH_FEATURES, WIDE_FEATURES
from predictors.params import whole
from predictors.refit import RefittingPredictor
from predictors.tree_arrays import forest_arrays, forest_from_arrays
from predictors.trees import CompiledForest, node_budget

Floats = npt.NDArray[np.float64]

TREES: Final = "extra_trees.npz"
MISSING: Final = -1.0
"""What missing values read as in extra trees: every known one is >= 0."""

BOOSTED: Final[Mapping[str, tuple[Literal["seconds", "residual"], tuple[str, ...]]]] = MappingProxyType(
    {
        "over-similar": ("residual", RICH_FEATURES),
        "over-similar-kernel": ("residual", (*RICH_FEATURES, *KERNEL_MEANS)),
        "seconds": ("seconds", WIDE_FEATURES),
    }
)
"""What each of the boosted members learns (`Boosted`'s target), and from which features."""


def columns_of(member: str) -> Ints:
    """Return which columns of a row a boosted member reads."""
    return np.array([WIDE_FEATURES.index(feature) for feature in BOOSTED[member][1]], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AverageEstimator:
    """Boosted members, each with the columns that it reads, and extra trees, which all count the same; immutable."""

    boosted: tuple[tuple[Ints, BoostedEstimator], ...]
    forest: CompiledForest

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        total = self.forest.predict(np.where(np.isnan(rows), MISSING, rows))
        for columns, member in self.boosted:
            total = total + member.predict(rows[:, columns])
        return total / (1 + len(self.boosted))

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        total = self.forest.predict_one(np.where(np.isnan(row), MISSING, row).astype(np.float32))
        for columns, member in self.boosted:
            total += member.predict_one(row[columns])
        return total / (1 + len(self.boosted))


class Average(RefittingPredictor):
    """Mean of four learners: boosted trees of three kinds (`BOOSTED`), and extra trees on `WIDE_FEATURES`.

    They err differently, so that their plain mean has less squared error than each of them on most logs, and weights
    learnt for them do no better.

    Parameters
    ----------
    n_boosted : int
        Trees of each boosted member.
    n_forest : int
        Extra trees, each grown on half of the jobs, drawn with replacement.
    random_state : int
        Seed: equal seeds, equal trees.
    refit_every, window, cap, as_of
        As in `RefittingPredictor`.

    References
    ----------
    .. [1] P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63(1), 2006.
       doi:10.1007/s10994-006-6226-1

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> average = Average(n_boosted=5, n_forest=3).fit(log)
    >>> bool((average.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "average"
    features = WIDE_FEATURES
    rules = MappingProxyType({"n_boosted": whole(1), "n_forest": whole(1), "random_state": whole(0)})

    def __init__(
        self,
        *,
        n_boosted: int = 300,
        n_forest: int = 60,
        random_state: int = 0,
        refit_every: int | None = 30 * 86400,
        window: int = 60_000,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(refit_every=refit_every, window=window, cap=cap, as_of=as_of)
        self.n_boosted = n_boosted
        self.n_forest = n_forest
        self.random_state = random_state

    def learn(self, rows: Floats, seconds: Floats) -> AverageEstimator:
        """Grow both on ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""
        from sklearn.ensemble import ExtraTreesRegressor

        boosted = []
        for member, (target, features) in BOOSTED.items():
            how = Boosted(target=target, n_estimators=self.n_boosted, random_state=self.random_state)
            columns = columns_of(member)
            boosted.append((columns, boost(how, features, rows[:, columns], seconds)))
        forest = ExtraTreesRegressor(
            self.n_forest,
            max_features=0.33,
            min_samples_leaf=3,
            bootstrap=True,
            max_samples=0.5 if len(rows) > 1 else None,
            max_leaf_nodes=node_budget(self.n_forest),
            random_state=self.random_state,
            n_jobs=1,
        ).fit(np.where(np.isnan(rows), MISSING, rows).astype(np.float32), seconds)
        return AverageEstimator(tuple(boosted), CompiledForest.from_sklearn(forest))

    def save_estimator(self, folder: Path) -> None:
        """Write the window, the boosted trees in XGBoost's own format, and the extra trees as arrays."""
        from predictors.saving import write_arrays

        super().save_estimator(folder)
        if not isinstance(self.estimator_, AverageEstimator):
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        for name, (_, member) in zip(BOOSTED, self.estimator_.boosted, strict=True):
            (folder / name).mkdir(exist_ok=True)
            save_boosted(member, folder / name)
        write_arrays(folder / TREES, forest_arrays(self.estimator_.forest))

    def load_estimator(self, folder: Path) -> None:
        """Take back what was written, after checking that no tree points outside itself."""
        from predictors.saving import read_arrays

        super().load_estimator(folder)
        forest = forest_from_arrays(read_arrays(folder / TREES))
        if forest.n_features != len(self.features):
            raise JobcastError(f"{folder / TREES}: learnt from other features; train the model again.")
        boosted = [(columns_of(name), load_boosted(folder / name, BOOSTED[name][1])) for name in BOOSTED]
        self.estimator_ = AverageEstimator(tuple(boosted), forest)
