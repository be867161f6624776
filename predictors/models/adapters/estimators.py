"""Our learners as estimators of scikit-learn and river.

`GradientRegressor` and `NormalisedGradient` are the learner in `online-linear`, without the history's inputs.
`HistoryRegressor` and `HistoryLearner` are a whole predictor over tables of the history's features.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from river import base
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from predictors.core.arrays import Floats
from predictors.core.jit import compiled
from predictors.history.history import Outcome
from predictors.models.base import Predictor
from predictors.models.online._nag import descend, dot, quadratic, rescale, squared_loss_rate
from predictors.models.online.base import Gradient

if TYPE_CHECKING:
    import pandas as pd


@compiled
def write_inputs(row: Floats, products: bool, x: Floats) -> None:
    """Write the constant, the row and, if asked, all products of two of its numbers into x."""
    if products:
        z = np.empty(1 + len(row))
        z[0] = 1.0
        z[1:] = row
        quadratic(z, x)
    else:
        x[0] = 1.0
        x[1:] = row


@compiled
def predict(rows: Floats, products: bool, weights: Floats, out: Floats) -> None:
    x = np.empty(len(weights))
    for i in range(len(rows)):
        write_inputs(rows[i], products, x)
        out[i] = dot(x, weights)


@compiled
def learn_squared(
    rows: Floats, targets: Floats, products: bool, rate: float,
    weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Learn from each row in turn under the squared loss."""
    x = np.empty(len(weights))
    for i in range(len(rows)):
        write_inputs(rows[i], products, x)
        norm = rescale(x, weights, scales)
        error = dot(x, weights) - targets[i]
        step = squared_loss_rate(rate, error, norm, sums)
        descend(x, error, step, 0.0, weights, scales, squares)


class GradientRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Linear model of squared loss, learnt row by row by the normalised adaptive gradient.

    >>> X = np.arange(200.0)[:, None] % 7
    >>> model = GradientRegressor(passes=20).fit(X, 3 * X[:, 0] + 1)
    >>> np.round(model.predict([[2.0], [5.0]])).tolist()
    [7.0, 16.0]
    """

    def __init__(
        self,
        rate: float = 0.5,  # length of the steps, in units of the root mean square of the errors so far
        passes: int = 5,  # how often `fit` goes over its rows
        quadratic: bool = False,  # whether products of two inputs are inputs as well
    ) -> None:
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


class HistoryRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A predictor as a regressor over tables with its features as columns, for scikit-learn's searches."""

    def __init__(
        self,
        # never changed: what is fitted is a clone. Its parameters are searched as `predictor__NAME`
        predictor: Predictor,
    ) -> None:
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


class NormalisedGradient(base.Regressor):  # type: ignore[misc]  # river is not typed
    """Linear model of squared loss by the normalised adaptive gradient; inputs may come and go.

    .. [1] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646

    >>> model = NormalisedGradient()
    >>> for x in [1.0, 2.0, 3.0] * 200:
    ...     model.learn_one({"x": x}, 2 * x + 1)
    >>> round(model.predict_one({"x": 2.0}))
    5
    """

    def __init__(
        self,
        rate: float = 0.5,  # length of the steps, in units of the root mean square of the errors so far
    ) -> None:
        self.rate = rate
        self._places: dict[base.typing.FeatureName, int] = {}
        self._gradient = Gradient.empty(1)

    def learn_one(self, x: Mapping[base.typing.FeatureName, float], y: float) -> None:
        for name in sorted(x.keys() - self._places.keys(), key=str):
            self._places[name] = len(self._places)
        weights, scales, squares, sums = self._gradient.arrays
        if missing := 1 + len(self._places) - len(weights):
            new = np.zeros(missing)
            self._gradient = Gradient(np.append(weights, new), np.append(scales, new), np.append(squares, new), sums)
        rows, targets = self._row(x)[np.newaxis], np.array([float(y)])
        learn_squared(rows, targets, False, float(self.rate), *self._gradient.arrays)

    def predict_one(self, x: Mapping[base.typing.FeatureName, float]) -> float:
        """Return the model's value; inputs never seen count for nothing."""
        out = np.empty(1)
        predict(self._row(x)[np.newaxis], False, self._gradient.weights, out)
        return float(out[0])

    def _row(self, x: Mapping[base.typing.FeatureName, float]) -> Floats:
        row = np.zeros(len(self._gradient.weights) - 1)
        for name, value in x.items():
            place = self._places.get(name)
            if place is not None and value == value:
                row[place] = value
        return row


class HistoryLearner(base.Regressor):  # type: ignore[misc]  # river is not typed
    """A predictor that learns on a stream, as a regressor over dictionaries of its features; the rest is ignored.

    >>> from predictors.models.online.linear import OnlineLinear
    >>> model = HistoryLearner(OnlineLinear())
    >>> for _ in range(50):
    ...     model.learn_one({"requested_time": 600.0, "user": 3.0}, 60.0)
    >>> round(model.predict_one({"requested_time": 600.0, "user": 3.0}))
    60
    """

    def __init__(
        self,
        predictor: Predictor,  # never changed: what learns is a clone
    ) -> None:
        self.predictor = predictor
        self._learnt = predictor.clone()
        self._count = 0

    def learn_one(self, x: Mapping[base.typing.FeatureName, float], y: float) -> None:
        """Learn from one job: its features at submission and its run time [s]."""
        self._count += 1
        row = self._row(x)
        self._learnt.learn_one(Outcome(row, float("nan"), float(y), True, self._count))

    def predict_one(self, x: Mapping[base.typing.FeatureName, float]) -> float:
        """Return the predicted run time [s]."""
        return self._learnt.predict_one(self._row(x)).seconds

    def _row(self, x: Mapping[base.typing.FeatureName, float]) -> Floats:
        return np.array([float(x.get(name, np.nan)) for name in self.predictor.features])
