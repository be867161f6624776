"""A random forest on Reis's sixteen features: scikit-learn grows it, compiled code walks it."""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from predictors.base import Estimator
from predictors.data.errors import JobcastError
from predictors.encoding import Encoding, fit_encoding
from predictors.features import CATEGORIES, REIS_FEATURES
from predictors.params import SHARE, or_none, whole
from predictors.refit import RefittingPredictor
from predictors.trees import CompiledForest, node_budget

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ForestEstimator:
    """An encoding and the forest that reads it; immutable.

    Parameters
    ----------
    encoding : Encoding
        Feature rows to encoded rows.
    compiled : CompiledForest
        Encoded rows to seconds, equal to `model.predict` to the last bit.
    model : RandomForestRegressor
        The same forest as scikit-learn grew it, to be saved and explained.
    """

    encoding: Encoding
    compiled: CompiledForest
    model: "RandomForestRegressor"

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        step = 10_000  # encoded rows may be wide
        parts = [self.compiled.predict(self.encoding.transform(rows[i : i + step])) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        return self.compiled.predict_one(self.encoding.transform(row[None])[0])


class Forest(RefittingPredictor):
    """Random forest: the mean of trees, each grown to its end on some jobs, drawn with replacement.

    A tree gets as many jobs as its share of the forest's nodes can hold, two nodes a job: growing it on a few thousand
    jobs takes the same time whatever the log's size, and unlike trees make a better mean. Categories are one-hot
    encoded; by default only the most frequent ones of each attribute get a column. The paper's encoding is
    `one_hot=None`.

    Parameters
    ----------
    n_estimators : int
        Trees.
    max_features : float
        Share of the encoded columns that are tried at a split.
    min_samples_leaf : int
        Fewest jobs in a leaf.
    max_nodes : int
        Nodes that the whole forest may have; a tree is grown on `max_nodes / (2 n_estimators)` jobs.
    one_hot : int or None
        Categories of an attribute that get a column of their own, the most frequent ones; None: all.
    random_state : int
        Seed: equal seeds, equal forests.
    refit_every, window, cap, as_of
        As in `RefittingPredictor`.

    References
    ----------
    .. [1] L. Breiman. Random forests. Machine Learning 45(1), 2001. doi:10.1023/A:1010933404324
    .. [2] V. Reis. Learning job run-times in HPC systems. Master's report, MoSIG, Grenoble.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> forest = Forest(n_estimators=5).fit(log)
    >>> bool((forest.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "forest"
    features = REIS_FEATURES

    rules = MappingProxyType(
        {
            "n_estimators": whole(1),
            "max_features": SHARE,
            "min_samples_leaf": whole(1),
            "max_nodes": whole(3),
            "one_hot": or_none(whole(1)),
            "random_state": whole(0),
        }
    )

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: float = 0.6,
        min_samples_leaf: int = 1,
        max_nodes: int = 1_000_000,
        one_hot: int | None = 16,
        random_state: int = 0,
        refit_every: int | None = 30 * 86400,
        window: int = 60_000,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(refit_every=refit_every, window=window, cap=cap, as_of=as_of)
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_nodes = max_nodes
        self.one_hot = one_hot
        self.random_state = random_state

    def learn(self, rows: Floats, seconds: Floats) -> ForestEstimator:
        """Grow a forest on ended jobs: rows (n_jobs, 16) and run times (n_jobs,) [s]."""
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
        estimator = self._learnt()
        shares = dict.fromkeys(self.features, 0.0)
        found = estimator.model.feature_importances_
        for source, share in zip(estimator.encoding.sources(self.features), found, strict=True):
            shares[source] += float(share)
        return shares

    def _learnt(self) -> ForestEstimator:
        if not self.fitted:
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        learnt: Estimator | None = self.estimator_
        assert isinstance(learnt, ForestEstimator)
        return learnt

    def save_estimator(self, folder: Path) -> None:
        """Write the window and the encoding as arrays, the forest by skops."""
        from predictors.saving import save_sklearn, write_arrays

        estimator = self._learnt()
        super().save_estimator(folder)
        write_arrays(folder / "encoding.npz", estimator.encoding.arrays())
        save_sklearn(folder / "forest.skops", estimator.model)

    def load_estimator(self, folder: Path) -> None:
        """Take back the window, the encoding and the forest, after checking that neither points outside itself."""
        from predictors.saving import load_sklearn, read_arrays

        super().load_estimator(folder)
        encoding = Encoding.from_arrays(read_arrays(folder / "encoding.npz"))
        model = load_sklearn(folder / "forest.skops")
        compiled = CompiledForest.from_sklearn(model)
        if len(encoding.places) != len(self.features) or encoding.n_columns != compiled.n_features:
            raise JobcastError(f"{folder}: the forest and its encoding do not fit together; train the model again.")
        self.estimator_ = ForestEstimator(encoding, compiled, model)
