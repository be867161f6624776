"""Predictors whose estimate stands in the feature row already: the history learns, they only read."""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from predictors import _columns as kernel
from predictors.base import REQUESTED_TIME, SHORTEST, UNKNOWN_REQUEST, Estimator, Predictor
from predictors.data.joblog import Ints, JobLog
from predictors.history import JobHistory
from predictors.replay import LogHistory

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ColumnMean:
    """The mean of a row's columns from `first` on; missing if one of them is.

    Parameters
    ----------
    first : int
        First column of the mean.
    whole : bool
        Whether the mean is rounded down to whole seconds.
    """

    first: int
    whole: bool = False

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        out = np.empty(len(rows))
        kernel.column_means(rows, self.first, self.whole, out)
        return out

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        return kernel.column_mean(row, self.first, self.whole)


class ColumnPredictor(Predictor):
    """Base of predictors that need no fit: they predict from `estimator`, the same always.

    The first feature is the requested time.
    """

    estimator: ClassVar[ColumnMean]

    @property
    def estimator_(self) -> Estimator:
        """What it predicts from, fitted or not."""
        return self.estimator

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """Nothing is learnt: the setter is there for `fit`."""

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Return the estimator; what there is to learn, the history has learnt."""
        return self.estimator

    def forecast(self, log: JobLog, *, warm: bool = False) -> "ColumnForecast":
        """Return estimates for the jobs of `log` while its events go by, in one compiled call a slice."""
        self.check()
        return ColumnForecast(self, *self._met(log, warm))


class ColumnForecast:
    """A `Forecast` that reads the estimate off the history's row.

    Parameters
    ----------
    predictor : ColumnPredictor
        What to read, and the range.
    log : JobLog
        Whose rows the events speak of.
    after : JobHistory, optional
        What was known before.
    """

    def __init__(self, predictor: ColumnPredictor, log: JobLog, after: JobHistory | None = None) -> None:
        assert predictor.features[0] == REQUESTED_TIME
        self._history = LogHistory(log, predictor.features, predictor.as_of, after)
        rows = np.full((len(log), len(predictor.features)), np.nan)
        about = (predictor.estimator.first, predictor.estimator.whole, predictor.cap, UNKNOWN_REQUEST, SHORTEST)
        self._arguments = (rows, *self._history.arrays, np.array(about, dtype=np.float64))

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        bad = kernel.advance(events, seconds, *self._arguments)
        if bad >= 0:
            self._history.consume(events[bad:], self._arguments[0])  # tells which event cannot be, and why

    def fork(self) -> "ColumnForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        return copy.deepcopy(self, {id(self._history.log): self._history.log})
