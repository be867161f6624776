"""Our learners as river's regressors: for its pipelines, metrics and checks, on dictionaries of numbers."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from river import base

from predictors import _nag as nag
from predictors._regressors import learn_asymmetric, learn_squared, predict
from predictors.base import Predictor
from predictors.history import Outcome

Floats = npt.NDArray[np.float64]


class NormalisedGradient(base.Regressor):  # type: ignore[misc]  # river is not typed
    """Linear model of squared loss by the normalised adaptive gradient; inputs may come and go.

    Parameters
    ----------
    rate
        Length of the steps, in units of the root mean square of the errors so far.

    References
    ----------
    .. [1] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646

    Examples
    --------
    >>> model = NormalisedGradient()
    >>> for x in [1.0, 2.0, 3.0] * 200:
    ...     model.learn_one({"x": x}, 2 * x + 1)
    >>> round(model.predict_one({"x": 2.0}))
    5
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate
        self._places: dict[base.typing.FeatureName, int] = {}
        self._weights, self._scales, self._squares = np.zeros(1), np.zeros(1), np.zeros(1)
        self._sums = np.zeros(nag.N_SUMS)

    def learn_one(self, x: Mapping[base.typing.FeatureName, float], y: float) -> None:
        """Learn from one example."""
        for name in sorted(x.keys() - self._places.keys(), key=str):
            self._places[name] = len(self._places)
        missing = 1 + len(self._places) - len(self._weights)
        if missing:
            self._weights, self._scales, self._squares = (
                np.append(old, np.zeros(missing)) for old in (self._weights, self._scales, self._squares)
            )
        self._learn(self._row(x)[np.newaxis], np.array([float(y)]))

    def predict_one(self, x: Mapping[base.typing.FeatureName, float]) -> float:
        """Return the model's value; inputs never seen count for nothing."""
        out = np.empty(1)
        predict(self._row(x)[np.newaxis], False, self._weights, out)
        return float(out[0])

    def _row(self, x: Mapping[base.typing.FeatureName, float]) -> Floats:
        row = np.zeros(len(self._weights) - 1)
        for name, value in x.items():
            place = self._places.get(name)
            if place is not None and value == value:
                row[place] = value
        return row

    def _learn(self, rows: Floats, targets: Floats) -> None:
        arrays = (self._weights, self._scales, self._squares, self._sums)
        learn_squared(rows, targets, False, float(self.rate), *arrays)


class AsymmetricGradient(NormalisedGradient):
    """The same under SC'15's loss: squared above the target, linear below; see `predictors.gaussier`.

    Parameters
    ----------
    rate
        Length of the steps, in the target's unit.
    ridge
        Weight of the penalty on squared weights.

    Examples
    --------
    >>> model = AsymmetricGradient()
    >>> for y in [0.0, 10.0] * 500:
    ...     model.learn_one({"x": 1.0}, y)
    >>> bool(model.predict_one({"x": 1.0}) < 5)
    True
    """

    def __init__(self, rate: float = 1.0, ridge: float = 0.0) -> None:
        super().__init__(rate=rate)
        self.ridge = ridge

    def _learn(self, rows: Floats, targets: Floats) -> None:
        arrays = (self._weights, self._scales, self._squares, self._sums)
        learn_asymmetric(rows, targets, False, float(self.rate), float(self.ridge), *arrays)


class HistoryLearner(base.Regressor):  # type: ignore[misc]  # river is not typed
    """A predictor that learns on a stream, as a regressor over dictionaries of its features; the rest is ignored.

    Parameters
    ----------
    predictor
        Never changed: what learns is a clone.

    Examples
    --------
    >>> from predictors.online_linear import OnlineLinear
    >>> model = HistoryLearner(OnlineLinear())
    >>> for _ in range(50):
    ...     model.learn_one({"requested_time": 600.0, "user": 3.0}, 60.0)
    >>> round(model.predict_one({"requested_time": 600.0, "user": 3.0}))
    60
    """

    def __init__(self, predictor: Predictor) -> None:
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
