"""What do the parts of a predictor promise each other? Estimators, learners and forecasts, by structure only."""

from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from predictors.data.joblog import Ints
from predictors.history import Outcome

Floats = npt.NDArray[np.float64]


class Estimator(Protocol):
    """An immutable map from feature rows to seconds, safe to call from threads; NaN where it cannot tell."""

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,), for rows of shape (n_rows, n_features)."""
        ...

    def predict_one(self, row: Floats) -> float:
        """Return the same for one row, shape (n_features,)."""
        ...


class Learner(Protocol):
    """Makes estimators from what became of jobs."""

    def fit_rows(self, rows: Floats, seconds: Floats) -> Self:
        """Forget, then learn from many ended jobs: rows (n_jobs, n_features) and run times [s]."""
        ...

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job."""
        ...


class Forecast(Protocol):
    """Estimates for the jobs of one log while its events, real or simulated, go by."""

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them.

        Parameters
        ----------
        events : int64 array of shape (n_events, 3)
            (time [s], kind, row of the log), in order; see `predictors.data.events`.
        seconds : float64 array of shape (n_jobs,)
            Estimates by row of the log. Each depends only on events before its job's submission.
        """
        ...

    def fork(self) -> "Forecast":
        """Return a copy that goes on by itself."""
        ...
