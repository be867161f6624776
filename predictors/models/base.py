"""Predictor: the base of run-time predictors.

An `Estimator` maps feature rows to seconds and knows nothing of requests. A `Predictor` makes estimators, from many
outcomes at once or from one after the other, and joins them to a history and to the rule of the range
(`predictors.models.prediction`). Which base a new predictor wants:

========================================================= =====================================================
`predictors.models.baselines.ColumnPredictor`             it reads its answer off the feature row, nothing to fit
`predictors.models.refit.RefittingPredictor`              it is fitted on many jobs, again and again on a stream
`predictors.models.online.base.OnlinePredictor`           it learns from each job when it ends, compiled
`predictors.models.adapters.river.StreamPredictor`        the same, around a model of river's
`predictors.models.wrapper.Wrapper`                       it changes what another predictor predicts
`Predictor`                                               none of these
========================================================= =====================================================

`predictors.models.adapters.from_sklearn` and `from_river` take models of others without a class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.events import Forkable
from predictors.core.params import Parameters
from predictors.data.joblog import JobLog
from predictors.data.names import Codes, codes_of, renumbered
from predictors.history.features import REQUESTED_TIME, codes_read
from predictors.history.history import JobHistory, Outcome, Outcomes, as_of_rule
from predictors.history.replay import LogHistory, replay, still_running
from predictors.models.prediction import LONGEST, REQUESTED, Prediction, in_range, in_range_one, no_estimate
from predictors.models.warnings import warn_about_training_data

if TYPE_CHECKING:
    import pandas as pd


@runtime_checkable
class Estimator(Protocol):
    """An immutable map from feature rows to seconds, safe to call from threads; NaN where it has no estimate."""

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,), for rows of shape (n_rows, n_features)."""
        ...

    def predict_one(self, row: Floats) -> float:
        """Return the same for one row, shape (n_features,)."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class Predictor(Parameters, ABC):
    """Base class of predictors. As in scikit-learn, the constructor stores and `fit` sets attributes that end in `_`.

    An author writes `name`, `features` and `learn`; `learn_one` as well, if each outcome of a stream teaches it.

    Parameters
    ----------
    cap : bool
        Keep predictions within [1 s, requested time].
    as_of : {"strict", "reis"}
        What counts as ended at a submission (`predictors.history.history.AS_OF_RULES`).

    Attributes
    ----------
    estimator_ : Estimator
        The fitted estimator; absent before.
    history_ : JobHistory
        What was known at the end of the log of the last `fit`; absent before, and where rows were given.
    codes_ : dict of str to Codes
        The names behind the codes in its history and in its rows, by column; present as `history_` is.
    quantiles_ : ConformalQuantiles
        What P10, P50 and P90 of its predictions go on from (`predictors.models.conformal`); absent unless calibrated.
    """

    features: ClassVar[tuple[str, ...]]
    """Columns of a row, from `predictors.history.features.FEATURES`; one is the requested time."""

    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of extras that learning needs, so that a command can name a missing one before it reads a log."""

    cap: bool = True
    as_of: str = "strict"

    # --- learning -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Return an estimator learnt from ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""

    def check(self) -> None:
        """Raise a `JobcastError` that names what the class lacks, or the first parameter that cannot be used."""
        kind, features = type(self).__name__, getattr(self, "features", ())
        if not isinstance(getattr(self, "name", None), str):
            raise JobcastError(f"A predictor has a class attribute `name`, a text; {kind} has none.")
        if not isinstance(features, tuple | list) or REQUESTED_TIME not in features:
            raise JobcastError(
                f"A predictor has a class attribute `features`, a tuple of names with {REQUESTED_TIME!r} among them, "
                f"which bounds what it predicts; {kind} has {features!r}."
            )
        as_of_rule(self.as_of)
        super().check()

    def fit(self, jobs: "JobLog | pd.DataFrame", seconds: npt.ArrayLike | None = None) -> Self:
        """Forget, then learn from a log's jobs that ran for more than 0 s, or from a table of features.

        Parameters
        ----------
        jobs : JobLog or DataFrame
            A log, replayed for its features; or a table that has the features as columns.
        seconds : array-like of shape (n_jobs,), optional
            Run times [s]; only with a table.
        """
        if not isinstance(jobs, JobLog):
            if seconds is None:
                raise JobcastError("A table of features needs the run times as well: fit(table, seconds).")
            return self.fit_rows(self._rows_of(jobs), np.asarray(seconds, dtype=np.float64))
        self.check()
        history = LogHistory(jobs, self.features, self.as_of)
        rows = history.replayed()
        run_time = jobs.filled("run_time")
        ran = rows[run_time > 0], run_time[run_time > 0].astype(np.float64)
        self.fit_with_running(*ran, still_running(history, rows) if self.learns_from_running else None)
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
        warn_about_training_data(self.name, self.features, rows, seconds)
        for name in ("history_", "codes_", "quantiles_"):
            self.__dict__.pop(name, None)
        self.estimator_ = self.learn(rows, seconds)
        if not isinstance(self.estimator_, Estimator):
            got = type(self.__dict__.pop("estimator_")).__name__
            raise JobcastError(
                f"{type(self).__name__}.learn returns an estimator, an object with predict(rows) and predict_one(row); "
                f"got an object of type {got}. from_sklearn(regressor) makes a predictor of a scikit-learn regressor."
            )
        return self

    def fit_with_running(self, rows: Floats, seconds: Floats, running: Outcomes | None) -> Self:
        """Forget, then learn from feature rows, run times [s] and, where it can, jobs that still run.

        `learn` finds these in `running_outcomes`.
        """
        self._running_outcomes = running
        try:
            return self.fit_rows(rows, seconds)
        finally:
            del self._running_outcomes

    @property
    def running_outcomes(self) -> Outcomes | None:
        """The running jobs of the fit under way."""
        found: Outcomes | None = vars(self).get("_running_outcomes")
        return found

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job; the history has done so by itself, so by default nothing is left to do."""
        return

    def watch(self, running: Callable[[int], Outcomes]) -> None:
        """Take a function that returns the outcomes of the jobs running at a second; by default it is not used."""
        return

    @property
    def learns_from_running(self) -> bool:
        """Whether it learns from jobs that still run: it then gets a function that returns them, by `watch`."""
        return False

    @property
    def learns_from_overruns(self) -> bool:
        """Whether it learns, before a job ends, that the job has run longer than predicted."""
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
        log, past = self.recoded(log, warm)
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
        return self._prediction(estimate, float(row[self._request]))

    def answered_by(self, rows: Floats) -> npt.NDArray[np.str_]:
        """Return the source of each row's prediction, shape (n_rows,); see `Prediction.answered_by`."""
        rows = self._checked(rows)
        estimator: Estimator | None = getattr(self, "estimator_", None)
        unknown = np.ones(len(rows), np.bool_) if estimator is None else no_estimate(estimator.predict(rows))
        return np.where(unknown, REQUESTED, self.name)

    def _prediction(self, estimate: float, request: float) -> Prediction:
        unknown = not abs(estimate) <= LONGEST
        seconds = in_range_one(estimate, request, self.cap)
        return Prediction(seconds, unknown, REQUESTED if unknown else self.name, model=self.name)

    def own_forecast(self, log: JobLog, *, learns: bool, after: JobHistory | None) -> Forkable | None:
        """Return estimates for a log's jobs while its events go by, where there is a faster way than event by event.

        None: `predictors.models.stream.LearningForecast` serves. `log` is in the codes of `fit`; `learns` says whether
        outcomes are learnt from, and `after` is what was known before. Called by `predictors.models.stream.forecast`.
        """
        return None

    @property
    def _request(self) -> int:
        return self.features.index(REQUESTED_TIME)

    def recoded(self, log: JobLog, warm: bool) -> tuple[JobLog, JobHistory | None]:
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

    # --- state --------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """Return the learnt state as arrays; None if arrays do not suffice to go on from it.

        A predictor with a `learn_one` of its own overrides this and `set_state`, or is trained again after a restart.
        An equal predictor with these arrays set must predict and learn exactly as this one.
        """
        return {} if type(self).learn_one is Predictor.learn_one else None

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `get_state` of an equal predictor returned; its own state is replaced, never changed.

        Arrays of another kind raise JobcastError, KeyError or ValueError; the predictor must not be used after that.
        """
        return

    # --- saving -------------------------------------------------------------------------------------------------------

    def save_params(self, folder: Path) -> dict[str, Any]:
        """Return the constructor's parameters as JSON can hold them, after writing what it cannot."""
        return self.named_params()

    def save_estimator(self, folder: Path) -> None:
        """Write what was learnt; a predictor that learns nothing writes nothing."""
        return

    def load_estimator(self, folder: Path) -> None:
        """Take back what `save_estimator` wrote, after checking it."""
        return
