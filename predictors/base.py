"""What is a predictor? Features, something that learns from them, a range, and an answer for when nothing is known.

An `Estimator` maps feature rows to seconds and knows nothing of requests. A `Learner` makes estimators, from many
outcomes at once or from one after the other (`predictors.protocols`). A `Predictor` joins them to a history and to the
rules of the range (`predictors.answers`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from predictors.answers import (
    REQUESTED,
    REQUESTED_TIME,
    SHORTEST,
    UNKNOWN_REQUEST,
    Floats,
    Prediction,
    in_range,
)
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.naming import Codes, codes_of, renumbered
from predictors.features import REIS_FEATURES, codes_read
from predictors.history import JobHistory, Outcome, Outcomes, as_of_rule
from predictors.oddities import warn_of_oddities
from predictors.params import Parameters
from predictors.protocols import Estimator, Forecast, Learner
from predictors.replay import LogHistory, log_events, replay
from predictors.running import still_running

if TYPE_CHECKING:
    import pandas as pd
    from river.base import Regressor
    from sklearn.base import RegressorMixin

    from predictors.river_predictor import RiverPredictor
    from predictors.sklearn_predictor import SklearnPredictor

__all__ = [
    "REQUESTED",
    "REQUESTED_TIME",
    "SHORTEST",
    "UNKNOWN_REQUEST",
    "Estimator",
    "Floats",
    "Forecast",
    "Learner",
    "Prediction",
    "Predictor",
    "in_range",
]


class Predictor(Parameters, ABC):
    """Base of all predictors, in the manner of scikit-learn: the constructor stores, `fit` sets what ends in `_`.

    An author writes `name`, `features` and either `learn` (a batch learner's heart) or a whole `Learner`.

    Parameters
    ----------
    cap : bool
        Keep predictions within [1 s, requested time].
    as_of : {"strict", "reis"}
        What counts as ended at a submission (`predictors.history.AS_OF_RULES`).

    Attributes
    ----------
    estimator_ : Estimator
        What was learnt; absent before.
    history_ : JobHistory
        What was known at the end of the log of the last `fit`; absent before, and where rows were given.
    codes_ : dict of str to Codes
        Whom the codes in its history and in its rows stand for, by column; present as `history_` is.
    """

    features: ClassVar[tuple[str, ...]]
    """Columns of a row, from `predictors.features.FEATURES`; one is the requested time."""

    def __init__(self, *, cap: bool = True, as_of: str = "strict") -> None:
        self.cap = cap
        self.as_of = as_of

    # --- learning -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Return an estimator learnt from ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        as_of_rule(self.as_of)
        super().check()

    def fit(self, jobs: "JobLog | pd.DataFrame", seconds: npt.ArrayLike | None = None) -> Self:
        """Forget, then learn from a log's jobs that ran for more than 0 s, or from a table of features.

        Parameters
        ----------
        jobs : JobLog or DataFrame
            A log, replayed for its features; or a table that has the features as columns.
        seconds : array-like of shape (n_jobs,), optional
            Run times [s]; only beside a table.

        Raises
        ------
        JobcastError
            If there is no job to learn from, or the table lacks a feature or its run times.
        """
        if not isinstance(jobs, JobLog):
            if seconds is None:
                raise JobcastError("A table of features needs the run times beside it: fit(table, seconds).")
            return self.fit_rows(self._rows_of(jobs), np.asarray(seconds, dtype=np.float64))
        self.check()
        history = LogHistory(jobs, self.features, self.as_of)
        rows = np.full((len(jobs), len(self.features)), np.nan)
        history.consume(log_events(jobs), rows)
        run_time = jobs.filled("run_time")
        ran = rows[run_time > 0], run_time[run_time > 0].astype(np.float64)
        self.fit_beside(*ran, still_running(history, rows) if self.learns_from_running else None)
        self.history_ = history.live(rows)
        self.codes_ = codes_of(jobs, codes_read(self.features, past=True))
        return self

    def fit_rows(self, rows: Floats, seconds: Floats) -> Self:
        """Forget, then learn from feature rows, NaN = missing, and run times [s]."""
        self.check()
        rows, seconds = self._checked(rows), np.asarray(seconds, dtype=np.float64)
        if not len(rows) or seconds.shape != (len(rows),):
            raise JobcastError(
                f"{self.name} needs at least one job that ended, and one run time a job; got {len(rows)} rows and run "
                f"times of shape {seconds.shape}."
            )
        if not (np.isfinite(seconds) & (seconds >= 0)).all():
            raise JobcastError(f"{self.name} needs finite run times, not below 0 s.")
        warn_of_oddities(self.name, self.features, rows, seconds)
        self.__dict__.pop("history_", None)
        self.__dict__.pop("codes_", None)
        self.estimator_ = self.learn(rows, seconds)
        return self

    def fit_beside(self, rows: Floats, seconds: Floats, running: Outcomes | None) -> Self:
        """Forget, then learn from feature rows, run times [s], and, if that teaches it something, jobs that still run.

        While it learns, it finds them in `beside`.
        """
        self._beside = running
        try:
            return self.fit_rows(rows, seconds)
        finally:
            del self._beside

    @property
    def beside(self) -> Outcomes | None:
        """The running jobs that a fit under way was given."""
        found: Outcomes | None = vars(self).get("_beside")
        return found

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job; the history has done so by itself, so by default nothing is left to do."""
        return

    def watch(self, running: Callable[[int], Outcomes]) -> None:
        """Be told whom to ask for the outcomes of the jobs that run at a second; by default nobody asks."""
        return

    @property
    def learns_from_running(self) -> bool:
        """Whether jobs that still run teach it something: it is then handed to `watch` how to ask for them."""
        return False

    @property
    def hears_of_overruns(self) -> bool:
        """Whether it is to be told when a job has run longer than predicted, before it ends."""
        return False

    @property
    def fitted(self) -> bool:
        """Whether there is something learnt to predict from."""
        return getattr(self, "estimator_", None) is not None

    @property
    def starts_cold(self) -> bool:
        """Whether it carries no history to go on from: `predict(log, warm=True)` is then refused."""
        return not hasattr(self, "history_")

    # --- predicting ---------------------------------------------------------------------------------------------------

    def predict(self, jobs: "JobLog | pd.DataFrame", *, warm: bool = False) -> Floats:
        """Return predicted run times [s], shape (n_jobs,), each as of its job's submission.

        Parameters
        ----------
        jobs : JobLog or DataFrame
            A log, replayed for its features by its own starts and ends; or a table that has the features as columns.
        warm : bool
            Go on from the history at the end of the log of `fit`: for a later log of the same machine and users. By
            default the history starts cold: of each user nothing is known before their first job in `jobs` has ended.

        Raises
        ------
        JobcastError
            If `warm` and there is no history to go on from, or the log does not come after it; or if one of the two
            logs has names and the other numbers.
        """
        return self.predict_rows(self.rows(jobs, warm=warm) if isinstance(jobs, JobLog) else self._rows_of(jobs))

    def rows(self, log: JobLog, *, warm: bool = False) -> Floats:
        """Return the feature rows of a log, shape (n_jobs, n_features), in the codes of the log of `fit`.

        `warm` and errors are as in `predict`.
        """
        log, past = self._met(log, warm)
        return replay(log, self.features, self.as_of, after=past)

    def predict_rows(self, rows: Floats) -> Floats:
        """Return predicted run times [s], shape (n_rows,), for feature rows, NaN = missing."""
        rows = self._checked(rows)
        estimator: Estimator | None = getattr(self, "estimator_", None)
        estimates = np.full(len(rows), np.nan) if estimator is None else estimator.predict(rows)
        return in_range(estimates, rows[:, self._request], self.cap)

    def predict_one(self, row: Floats) -> Prediction:
        """Return the prediction for one feature row, shape (n_features,): `JobHistory.row` gives it."""
        estimator: Estimator | None = getattr(self, "estimator_", None)
        estimate = float("nan") if estimator is None else estimator.predict_one(row)
        return self._told(estimate, float(row[self._request]))

    def answered_by(self, rows: Floats) -> npt.NDArray[np.str_]:
        """Return who tells the prediction of each row, shape (n_rows,); see `Prediction.answered_by`."""
        rows = self._checked(rows)
        estimator: Estimator | None = getattr(self, "estimator_", None)
        unknown = np.ones(len(rows), np.bool_) if estimator is None else np.isnan(estimator.predict(rows))
        return np.where(unknown, REQUESTED, self.name)

    def _told(self, estimate: float, request: float) -> Prediction:
        unknown = estimate != estimate
        seconds = (request if request > 0 else UNKNOWN_REQUEST) if unknown else max(estimate, 0.0)
        if self.cap:
            seconds = max(min(seconds, request) if request > 0 else seconds, SHORTEST)
        return Prediction(seconds, unknown, REQUESTED if unknown else self.name, model=self.name)

    def forecast(self, log: JobLog, *, warm: bool = False) -> Forecast:
        """Return estimates for the jobs of `log` while its events go by, as in a simulation.

        What was fitted is served unchanged. An unfitted predictor learns as the jobs end, by its own rule for refits.
        `warm` is as in `predict`.
        """
        from predictors.loop import LearningForecast

        self.check()
        log, history = self._met(log, warm)
        predictor = self if self.fitted else self.clone()
        return LearningForecast(predictor, log, learns=not self.fitted, after=history)

    @property
    def _request(self) -> int:
        return self.features.index(REQUESTED_TIME)

    def _met(self, log: JobLog, warm: bool) -> tuple[JobLog, JobHistory | None]:
        """Return a log in the codes of the log of `fit`, where they are read, and the history that goes on with it."""
        if warm and not hasattr(self, "history_"):
            raise JobcastError(f"This {self.name} carries no history to go on from: fit it on a log, or start cold.")
        known: dict[str, Codes] = vars(self).get("codes_", {})
        read = codes_read(self.features, past=warm)
        met = renumbered(log, {column: known[column] for column in read if column in known}, f"this {self.name}")
        return met, self.history_ if warm else None

    def _rows_of(self, table: "pd.DataFrame") -> Floats:
        for feature in self.features:
            if feature not in table:
                raise JobcastError(f"The table lacks {feature!r}; {self.name} needs {', '.join(self.features)}.")
        return table[list(self.features)].to_numpy(dtype=np.float64, na_value=np.nan)

    def _checked(self, rows: Floats) -> Floats:
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise JobcastError(f"{self.name} takes rows of {len(self.features)} features; got shape {rows.shape}.")
        return rows

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write everything into an existing folder: JSON, arrays and skops, never a pickle; see `predictors.saving`."""
        from predictors.saving import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "Predictor":
        """Return the predictor that `save` wrote: it predicts the same, to the last bit."""
        from predictors.saving import load

        return load(Path(folder))

    def save_params(self, folder: Path) -> dict[str, Any]:
        """Return the constructor's parameters as JSON can hold them, after writing what it cannot."""
        return self.get_params()

    def save_estimator(self, folder: Path) -> None:
        """Write what was learnt; a predictor that learns nothing writes nothing."""
        return

    def load_estimator(self, folder: Path) -> None:
        """Take back what `save_estimator` wrote, after checking it."""
        return

    # --- models of others ---------------------------------------------------------------------------------------------

    @staticmethod
    def from_sklearn(
        regressor: "RegressorMixin", features: Sequence[str] = REIS_FEATURES, **params: Any
    ) -> "SklearnPredictor":
        """Return a predictor around any scikit-learn regressor or pipeline; see `predictors.adapters`."""
        from predictors.adapters import from_sklearn

        return from_sklearn(regressor, features, **params)

    @staticmethod
    def from_river(model: "Regressor", features: Sequence[str] = REIS_FEATURES, **params: Any) -> "RiverPredictor":
        """Return a predictor around any river regressor or pipeline; see `predictors.adapters`."""
        from predictors.adapters import from_river

        return from_river(model, features, **params)
