"""Do categories help more when a tree splits on them natively? One forest of trees, told of categories in four ways.

V. Reis encodes users, groups, weekdays and exit statuses in one-hot columns, since his package splits on numbers only,
and asks for "systematic full splitting on categorical attributes". The learner is the same in all four: XGBoost's
random forest (one round of many parallel trees) on his sixteen features.
"""

from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

from predictors.base import Predictor
from predictors.data.joblog import JobLog
from predictors.evaluate import evaluate
from predictors.features import CATEGORIES, REIS_FEATURES

SPLITS: Final = {
    "none": "no category at all",
    "codes": "codes read as numbers",
    "one-hot": "one category against the others, as in the paper",
    "grouped": "the best two groups of categories",
    "full": "a forest for each user with enough jobs, else one for all",
}
"""How a tree may split on a category."""
ENOUGH: Final = 100
"""Jobs of a user from which on there is a forest of their own."""
TREES: Final = 50
QUICK_TREES: Final = 10

Floats = npt.NDArray[np.float64]


class CategoryForest(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A random forest of XGBoost's that splits on categories in one of the ways of `SPLITS`, a scikit-learn regressor.

    Parameters
    ----------
    splits : str
        One of `SPLITS`.
    trees : int
        Trees of the forest.
    seed : int
        Equal seeds, equal forests.
    """

    def __init__(self, splits: str = "one-hot", trees: int = TREES, seed: int = 0) -> None:
        self.splits = splits
        self.trees = trees
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, table: pd.DataFrame, seconds: npt.ArrayLike) -> Self:
        """Grow the forest on a table that has the features as columns, and run times [s]."""
        rows, ran = table.to_numpy(dtype=np.float64), np.asarray(seconds, dtype=np.float64)
        self.names_ = tuple(table.columns)
        self.codes_ = {
            place: np.unique(rows[~np.isnan(rows[:, place]), place])
            for place, name in enumerate(self.names_)
            if name in CATEGORIES
        }
        self.forest_ = self._grown(rows, ran)
        self.of_user_ = {}
        if self.splits == "full":
            user = rows[:, self.names_.index("user")]
            names, counts = np.unique(user[~np.isnan(user)], return_counts=True)
            self.of_user_ = {u: self._grown(rows[user == u], ran[user == u]) for u in names[counts >= ENOUGH].tolist()}
        return self

    def predict(self, table: pd.DataFrame) -> Floats:
        """Return seconds, shape (n_rows,)."""
        rows = table.to_numpy(dtype=np.float64)
        found: Floats = self.forest_.predict(self._matrix(rows)).astype(np.float64)
        user = rows[:, self.names_.index("user")]
        for name, forest in self.of_user_.items():
            own = user == name
            if own.any():
                found[own] = forest.predict(self._matrix(rows[own]))
        return found

    def _grown(self, rows: Floats, seconds: Floats) -> Any:
        import xgboost

        settings = {
            "num_parallel_tree": self.trees,
            "learning_rate": 1.0,
            "max_depth": 12,
            "min_child_weight": 2,
            "reg_lambda": 0.0,
            "subsample": 0.63,
            "colsample_bynode": 0.6,
            "max_cat_to_onehot": 100_000 if self.splits == "one-hot" else 1,
            "tree_method": "hist",
            "seed": self.seed,
            "nthread": 1,
        }
        return xgboost.train(settings, self._matrix(rows, seconds), num_boost_round=1)

    def _matrix(self, rows: Floats, seconds: Floats | None = None) -> Any:
        import xgboost

        native = self.splits in ("one-hot", "grouped")
        dropped = list(self.codes_) if self.splits == "none" else []
        kept = [place for place in range(rows.shape[1]) if place not in dropped]
        values = rows.copy()
        for place, codes in self.codes_.items() if native else ():
            values[:, place] = _places(rows[:, place], codes)
        kinds = ["c" if native and place in self.codes_ else "q" for place in kept]
        return xgboost.DMatrix(values[:, kept], seconds, feature_types=kinds, enable_categorical=True, nthread=1)


def _places(column: Floats, codes: Floats) -> Floats:
    """Return each value's place among the sorted codes; NaN for one that is not among them.

    Examples
    --------
    >>> _places(np.array([7.0, 5.0, 6.0, np.nan]), np.array([5.0, 7.0])).tolist()
    [1.0, 0.0, nan, nan]
    """
    if not len(codes):
        return np.full(len(column), np.nan)
    place = np.minimum(np.searchsorted(codes, column), len(codes) - 1)
    return np.where(codes[place] == column, place, np.nan)


def category_splits(log: JobLog, seed: int = 0, *, quick: bool = False) -> pd.DataFrame:
    """Return the errors on the last 20 % of a log, protocol strict, a row a way to split."""
    trees = QUICK_TREES if quick else TREES
    asked = {splits: Predictor.from_sklearn(CategoryForest(splits, trees, seed), REIS_FEATURES) for splits in SPLITS}
    found = evaluate(log, asked, seed=seed)
    return pd.DataFrame(
        [
            {
                "splits": splits,
                "meaning": meaning,
                "ratio_to_last_two": found[splits].figures.sse_ratio_to_last_two,
                "ratio_low": found[splits].interval[0],
                "ratio_high": found[splits].interval[1],
                "mae_s": found[splits].figures.mae_s,
                "fit_s": found[splits].fit_seconds,
            }
            for splits, meaning in SPLITS.items()
        ]
    )
