"""Our learners as scikit-learn's regressors: for its pipelines, searches and checks, on any numbers.

`GradientRegressor` is the learner in `online-linear`, without the history's inputs; `AsymmetricRegressor` the one in
`gaussier`; `CompiledForestRegressor` the one in `forest`. `HistoryRegressor` is a whole predictor over tables of the
history's features.
"""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from predictors._regressors import learn_asymmetric, learn_squared, predict
from predictors.base import Predictor
from predictors.online import Gradient
from predictors.trees import CompiledForest

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]


class GradientRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Linear model of squared loss, learnt row by row by the normalised adaptive gradient.

    Parameters
    ----------
    rate : float
        Length of the steps, in units of the root mean square of the errors so far.
    passes : int
        How often `fit` goes over its rows.
    quadratic : bool
        Whether products of two inputs are inputs as well.

    References
    ----------
    .. [1] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646

    Examples
    --------
    >>> X = np.arange(200.0)[:, None] % 7
    >>> model = GradientRegressor(passes=20).fit(X, 3 * X[:, 0] + 1)
    >>> np.round(model.predict([[2.0], [5.0]])).tolist()
    [7.0, 16.0]
    """

    def __init__(self, rate: float = 0.5, passes: int = 5, quadratic: bool = False) -> None:
        self.rate = rate
        self.passes = passes
        self.quadratic = quadratic

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Forget, then learn from rows (n_rows, n_features) and their targets (n_rows,)."""
        rows, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self.gradient_ = self._begin()
        for _ in range(self.passes):
            self._learn(rows, np.asarray(targets, dtype=np.float64))
        return self

    def partial_fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Learn from more rows, once each."""
        first = not hasattr(self, "gradient_")
        rows, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=first)
        if first:
            self.gradient_ = self._begin()
        self._learn(rows, np.asarray(targets, dtype=np.float64))
        return self

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return predictions, shape (n_rows,)."""
        check_is_fitted(self, "gradient_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        out = np.empty(len(rows))
        predict(np.ascontiguousarray(rows), self.quadratic, self.gradient_.weights, out)
        return out

    def _begin(self) -> Gradient:
        n = 1 + self.n_features_in_
        return Gradient.empty(n + (n - 1) * n // 2 if self.quadratic else n)

    def _learn(self, X: Floats, y: Floats) -> None:
        learn_squared(np.ascontiguousarray(X), y, self.quadratic, float(self.rate), *self.gradient_.arrays)


class AsymmetricRegressor(GradientRegressor):
    """Linear model of SC'15's loss: squared above the target, linear below; see `predictors.gaussier`.

    Parameters
    ----------
    rate : float
        Length of the steps, in the target's unit.
    ridge : float
        Weight of the penalty on squared weights.
    passes, quadratic
        As in `GradientRegressor`.
    """

    def __init__(self, rate: float = 1.0, passes: int = 5, quadratic: bool = False, ridge: float = 0.0) -> None:
        super().__init__(rate=rate, passes=passes, quadratic=quadratic)
        self.ridge = ridge

    def _learn(self, X: Floats, y: Floats) -> None:
        settings = (self.quadratic, float(self.rate), float(self.ridge))
        learn_asymmetric(np.ascontiguousarray(X), y, *settings, *self.gradient_.arrays)


class CompiledForestRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Random forest that scikit-learn grows and compiled code walks, equal to the last bit.

    Parameters
    ----------
    n_estimators : int
        Trees.
    min_samples_leaf : int
        Fewest rows in a leaf.
    random_state : int
        Seed.
    """

    def __init__(self, n_estimators: int = 100, min_samples_leaf: int = 1, random_state: int = 0) -> None:
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Grow a forest on rows (n_rows, n_features) and their targets (n_rows,)."""
        from sklearn.ensemble import RandomForestRegressor

        rows, targets = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        forest = RandomForestRegressor(
            self.n_estimators, min_samples_leaf=self.min_samples_leaf, random_state=self.random_state
        )
        self.compiled_ = CompiledForest.from_sklearn(forest.fit(rows, targets))
        return self

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return predictions, shape (n_rows,)."""
        check_is_fitted(self, "compiled_")
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return self.compiled_.predict(np.ascontiguousarray(rows))


class HistoryRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A predictor as a regressor over tables with its features as columns, for scikit-learn's searches.

    Parameters
    ----------
    predictor : Predictor
        Never changed: what is fitted is a clone. Its parameters are searched as `predictor__NAME`.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def fit(self, X: "pd.DataFrame", y: npt.ArrayLike) -> Self:
        """Learn from features, one column each, and run times [s]."""
        self.predictor_ = self.predictor.clone().fit(X, y)
        return self

    def predict(self, X: "pd.DataFrame") -> Floats:
        """Return predicted run times [s], shape (n_rows,)."""
        check_is_fitted(self, "predictor_")
        return self.predictor_.predict(X)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn should know: missing values are welcome, targets are above 0."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.positive_only = True
        return tags
