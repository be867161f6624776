"""Random forest on Reis's features.

Learnt on the training part alone. All categories of an attribute get a column, as in the paper of Reis, or only the
most frequent ones: all others are rows of zeros, and are predicted from the user's own history. Means of run
times by category, frequencies and plain codes were measured as well, and are worse on real logs: the first two overfit
the users who dominate a log, and the sets of users change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.core.model_files import TREE, load_sklearn, read_arrays, save_sklearn, write_arrays
from predictors.core.params import Count, Seed, Share, whole
from predictors.history.features import CATEGORIES, REIS_FEATURES
from predictors.models.base import Estimator
from predictors.models.refit import RefittingPredictor
from predictors.models.trees import CompiledForest, node_budget

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.ensemble import RandomForestRegressor


@compiled
def encode(rows: Floats, places: Ints, starts: Ints, codes: Floats, missing: float, out: Singles) -> None:
    """Write encoded rows into `out`, which must be all 0.

    A feature without a table is a number: copied to its place, `missing` standing for NaN. One with a table
    codes[starts[c]:starts[c + 1]], sorted, is a category: a 1 marks its code's column; other codes and NaN mark none.
    """
    for i in range(len(rows)):
        for c in range(len(places)):
            x = rows[i, c]
            low, high = starts[c], starts[c + 1]
            if low == high:
                out[i, places[c]] = missing if np.isnan(x) else x
                continue
            k = low + np.searchsorted(codes[low:high], x)
            if k < high and codes[k] == x:
                out[i, places[c] + k - low] = 1.0


BELOW_ALL: Final = -1.0
"""Stands for a missing number in sparse rows: sparse trees take no NaN, and every known number is >= 0."""
_STEP: Final = 10_000  # dense rows held at once on the way to sparse ones


@dataclass(frozen=True, eq=False)
class Encoding:
    """A fitted map from feature rows to encoded rows (float32); immutable, safe to call from threads."""

    places: Ints  # shape (n_features,); first encoded column of each feature
    starts: Ints  # shape (n_features + 1,); where each feature's codes begin; a number has none
    codes: Floats  # category codes, sorted within each feature
    n_columns: int  # width of an encoded row
    missing: float  # what a missing number becomes: NaN where the trees can take it, else `BELOW_ALL`

    def transform(self, rows: npt.ArrayLike) -> Singles:
        """Return encoded rows, float32 of shape (n_rows, n_columns), for feature rows (n_rows, n_features)."""
        given = np.ascontiguousarray(rows, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.places):
            raise JobcastError(f"Rows must have {len(self.places)} features; got shape {given.shape}.")
        out = np.zeros((len(given), self.n_columns), dtype=np.float32)
        encode(given, self.places, self.starts, self.codes, self.missing, out)
        return out

    def for_fit(self, rows: Floats) -> "Singles | csr_matrix":
        """Return `transform(rows)`, sparse where missing numbers are no NaN: training then skips the zeros."""
        if np.isnan(self.missing):
            return self.transform(rows)
        from scipy.sparse import csr_matrix, vstack

        parts = [csr_matrix(self.transform(rows[i : i + _STEP])) for i in range(0, len(rows), _STEP)]
        return vstack(parts, format="csr")

    def sources(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return which feature each encoded column comes from: importances are summed by it."""
        widths = np.diff(self.places, append=self.n_columns)
        return tuple(name for name, width in zip(features, widths, strict=True) for _ in range(width))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the encoding that `arrays()` described, after a check that its tables fit together."""
        try:
            starts = np.asarray(arrays["starts"], dtype=np.int64)
            places, codes = np.asarray(arrays["places"], dtype=np.int64), np.asarray(arrays["codes"], dtype=np.float64)
            n_columns, missing = int(arrays["n_columns"]), float(arrays["missing"])
        except (KeyError, TypeError, ValueError) as error:
            raise JobcastError(f"The model's encoding cannot be read ({error}); train it again.") from error
        sound = starts.ndim == 1 and len(starts) > 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
        sound = sound and codes.shape == (starts[-1],)
        if not sound or not np.array_equal(places, _places(starts)) or n_columns != _widths(starts).sum():
            raise JobcastError("The model's encoding points outside its tables; the file is damaged: train it again.")
        return cls(places, starts, codes, n_columns, missing)


def fit_encoding(
    rows: Floats,  # shape (n_rows, n_features); feature rows of the training part, NaN = missing
    categorical: Sequence[bool],  # which features are categories
    # columns an attribute may have, for its most frequent categories (ties: the smaller code); None: all categories
    most: int | None = None,
) -> Encoding:
    """Learn which categories get a column.

    >>> rows = np.array([[4.0, 7.0], [4.0, 9.0], [8.0, 9.0]])
    >>> fit_encoding(rows, [False, True]).transform([[4.0, 9.0], [4.0, 5.0]]).tolist()
    [[4.0, 0.0, 1.0], [4.0, 0.0, 0.0]]
    >>> fit_encoding(rows, [False, True], most=1).transform([[4.0, 9.0], [4.0, 7.0]]).tolist()
    [[4.0, 1.0], [4.0, 0.0]]
    """
    tables = [_frequent(rows[:, c], most) if is_category else np.empty(0) for c, is_category in enumerate(categorical)]
    # A category without any known code keeps one column that is never marked: no feature ever vanishes.
    tables = [np.array([np.inf]) if c and not len(t) else t for t, c in zip(tables, categorical, strict=True)]
    starts = np.cumsum([0, *(len(table) for table in tables)])
    missing = BELOW_ALL if most is None else np.nan
    return Encoding(_places(starts), starts, np.concatenate(tables), int(_widths(starts).sum()), missing)


def _frequent(column: Floats, most: int | None) -> Floats:
    codes, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return np.sort(codes[np.argsort(-counts, kind="stable")[:most]])


def _widths(starts: Ints) -> Ints:
    return np.maximum(np.diff(starts), 1)


def _places(starts: Ints) -> Ints:
    widths = _widths(starts)
    return np.cumsum(widths) - widths


@dataclass(frozen=True, eq=False)
class ForestEstimator:
    """An encoding and the forest that reads it; immutable."""

    encoding: Encoding  # feature rows to encoded rows
    compiled: CompiledForest  # encoded rows to seconds, equal to `model.predict` to the last bit
    model: "RandomForestRegressor"  # the same forest as scikit-learn grew it, to be saved and explained

    def predict(self, rows: Floats) -> Floats:
        step = 10_000  # encoded rows may be wide
        parts = [self.compiled.predict(self.encoding.transform(rows[i : i + step])) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def predict_one(self, row: Floats) -> float:
        return self.compiled.predict_one(self.encoding.transform(row[None])[0])


@dataclass(kw_only=True, eq=False, repr=False)
class Forest(RefittingPredictor):
    """Random forest: the mean of full-grown trees, each on jobs drawn with replacement.

    A tree gets as many jobs as its share of the forest's nodes can hold, two nodes a job: growing it on a few thousand
    jobs takes the same time whatever the log's size, and unlike trees make a better mean. Categories are one-hot
    encoded; by default only the most frequent ones of each attribute get a column. The paper's encoding is
    `one_hot=None`.

    .. [1] L. Breiman. Random forests. Machine Learning 45(1), 2001. doi:10.1023/A:1010933404324
    .. [2] V. Reis. Learning job run-times in HPC systems. Master's report, MoSIG, Grenoble.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> forest = Forest(n_estimators=5).fit(log)
    >>> bool((forest.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "forest"
    packages = ("sklearn",)
    features = REIS_FEATURES

    n_estimators: Count = 100  # trees
    max_features: Share = 0.6  # share of the encoded columns that are tried at a split
    min_samples_leaf: Count = 1  # fewest jobs in a leaf
    # nodes that the whole forest may have; a tree is grown on `max_nodes / (2 n_estimators)` jobs
    max_nodes: Annotated[int, whole(3)] = 1_000_000
    # categories of an attribute that get a column of their own, the most frequent ones; None: all
    one_hot: Count | None = 16
    random_state: Seed = 0  # seed: equal seeds, equal forests

    def learn(self, rows: Floats, seconds: Floats) -> ForestEstimator:
        from sklearn.ensemble import RandomForestRegressor

        encoding = fit_encoding(rows, [name in CATEGORIES for name in self.features], self.one_hot)
        model = RandomForestRegressor(
            self.n_estimators,
            max_features=self.max_features,
            max_samples=min(node_budget(self.n_estimators, self.max_nodes), len(rows)),
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.random_state,
            n_jobs=1,
        ).fit(encoding.for_fit(rows), seconds)
        return ForestEstimator(encoding, CompiledForest.from_sklearn(model), model)

    def importances(self) -> dict[str, float]:
        """Return scikit-learn's importance of each feature, the columns of a category summed; they sum to 1."""
        estimator = self._fitted_estimator()
        shares = dict.fromkeys(self.features, 0.0)
        found = estimator.model.feature_importances_
        for source, share in zip(estimator.encoding.sources(self.features), found, strict=True):
            shares[source] += float(share)
        return shares

    def _fitted_estimator(self) -> ForestEstimator:
        if not self.fitted:
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        learnt: Estimator | None = self.estimator_
        assert isinstance(learnt, ForestEstimator)
        return learnt

    def save_estimator(self, folder: Path) -> None:
        estimator = self._fitted_estimator()
        super().save_estimator(folder)
        write_arrays(folder / "encoding.npz", estimator.encoding.arrays())
        save_sklearn(folder / "forest.skops", estimator.model, (TREE,))

    def load_estimator(self, folder: Path) -> None:
        from sklearn.ensemble import RandomForestRegressor

        super().load_estimator(folder)
        encoding = Encoding.from_arrays(read_arrays(folder / "encoding.npz"))
        model = load_sklearn(path := folder / "forest.skops", (TREE,))
        if type(model) is not RandomForestRegressor:
            raise JobcastError(f"{path}: holds a {type(model).__name__}, not a random forest; train the model again.")
        compiled = CompiledForest.from_sklearn(model)
        if len(encoding.places) != len(self.features) or encoding.n_columns != compiled.n_features:
            raise JobcastError(f"{folder}: the forest and its encoding do not fit together; train the model again.")
        self.estimator_ = ForestEstimator(encoding, compiled, model)
