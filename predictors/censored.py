"""Learning from jobs that still run as well: how long one has run already is the least that it will."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from predictors.base import REQUESTED_TIME, Estimator
from predictors.boosted import RULES, BoostedEstimator, load_boosted, save_boosted
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.features import RICH_FEATURES
from predictors.history import Outcomes
from predictors.refit import RefittingPredictor
from predictors.replay import LogHistory, log_events
from predictors.tree_arrays import AFT, compile_booster

Floats = npt.NDArray[np.float64]
Running = Callable[[int], Outcomes]

DISTRIBUTIONS: Final = ("logistic", "normal")


class Censored(RefittingPredictor):
    """Median run time by boosted accelerated failure time: ended jobs, and running ones as right-censored.

    Who learns from ended jobs alone sees too many short ones: at any time the long ones are those that still run. A
    fit on a log takes the jobs of which a start but no run time is known as running at its newest event; in the loop
    each new fit asks for those that run (`watch`); inside of another predictor it learns from ended jobs only.

    Parameters
    ----------
    distribution : {"logistic", "normal"}
        Of the logarithm of run times around what the features tell.
    scale : float
        How wide that is.
    n_estimators, learning_rate, max_depth, min_child_weight, subsample, colsample, random_state
        As in `Boosted`.
    refit_every, window, cap, as_of
        As in `RefittingPredictor`.

    References
    ----------
    .. [1] A. Barnwal, H. Cho, T. Hocking. Survival regression with accelerated failure time model in XGBoost. Journal
       of Computational and Graphical Statistics 31(4), 2022. doi:10.1080/10618600.2022.2067548

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> censored = Censored(n_estimators=5).fit(log)
    >>> bool((censored.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "censored"
    features = RICH_FEATURES
    learns_from_running = True

    def __init__(
        self,
        *,
        distribution: Literal["logistic", "normal"] = "logistic",
        scale: float = 0.5,
        n_estimators: int = 300,
        learning_rate: float = 0.04,
        max_depth: int = 8,
        min_child_weight: float = 10.0,
        subsample: float = 0.7,
        colsample: float = 0.4,
        random_state: int = 0,
        refit_every: int | None = 30 * 86400,
        window: int = 60_000,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(refit_every=refit_every, window=window, cap=cap, as_of=as_of)
        self.distribution = distribution
        self.scale = scale
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample = colsample
        self.random_state = random_state

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        super().check()
        if self.distribution not in DISTRIBUTIONS:
            raise JobcastError(
                f"{self.name}: distribution must be one of {', '.join(DISTRIBUTIONS)}; got {self.distribution!r}."
            )
        if not (isinstance(self.scale, (int, float)) and not isinstance(self.scale, bool) and 0 < self.scale < np.inf):
            raise JobcastError(f"{self.name}: scale must be a number above 0; got {self.scale!r}.")
        for parameter in self.get_params().keys() & RULES.keys():
            rule, holds = RULES[parameter]
            value = getattr(self, parameter)
            if not holds(value):
                raise JobcastError(f"{self.name}: {parameter} must be {rule}; got {value!r}.")

    def fit(self, jobs: Any, seconds: npt.ArrayLike | None = None) -> Self:
        """Forget, then learn from a log's jobs that ran for more than 0 s and from those that run, or from a table."""
        self.check()
        self._beside = still_running(jobs, self.features, self.as_of) if isinstance(jobs, JobLog) else None
        try:
            return super().fit(jobs, seconds)
        finally:
            del self._beside

    def fit_beside(self, rows: Floats, seconds: Floats, running: Outcomes) -> Self:
        """Forget, then learn from the feature rows of ended jobs, their run times [s], and running jobs."""
        self._beside = running
        try:
            return self.fit_rows(rows, seconds)
        finally:
            del self._beside

    def watch(self, running: Running) -> None:
        """Ask `running(now)` for the running jobs whenever it is fitted again; `JobHistory.training_set` is one."""
        self._running = running

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Grow trees on ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]; and on those beside."""
        return grow(self, rows, seconds, vars(self).get("_beside"))

    def learn_again(self, now: int) -> Estimator:
        """Grow trees on the window and on the jobs that run now."""
        running: Running | None = vars(self).get("_running")
        return grow(self, *self.window_.newest(), None if running is None else running(now))

    def save_estimator(self, folder: Path) -> None:
        """Write the window and the trees, in XGBoost's own format."""
        super().save_estimator(folder)
        if not isinstance(self.estimator_, BoostedEstimator):
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        save_boosted(self.estimator_, folder)

    def load_estimator(self, folder: Path) -> None:
        """Take back the window and the trees, after checking that they do not point outside themselves."""
        super().load_estimator(folder)
        self.estimator_ = load_boosted(folder, self.features)


def still_running(log: JobLog, features: tuple[str, ...], as_of: str) -> Outcomes | None:
    """Return the jobs of a log that started and whose end it does not tell, censored at its newest event.

    One that would have outrun its request by then (or, without a request, all ended jobs) was lost, and is left out.
    """
    run_time = log.filled("run_time")
    if log.known("run_time").all() or not (run_time > 0).any():
        return None
    history = LogHistory(log, features, as_of)
    rows, events = np.full((len(log), len(features)), np.nan), log_events(log)
    history.consume(events, rows)
    known = history.training_set(rows, int(events[-1, 0]))
    asked = known.rows[:, features.index(REQUESTED_TIME)]
    there = ~known.observed & (known.seconds <= np.where(asked > 0, asked, run_time.max()))
    return known.select(np.flatnonzero(there))


def grow(how: Censored, rows: Floats, seconds: Floats, beside: Outcomes | None) -> BoostedEstimator:
    """Return trees that add up to the logarithm of the median, by the parameters of `how`."""
    import xgboost

    longest = float(seconds.max())
    lower = np.maximum(seconds, 1.0)
    upper = lower
    middle = float(np.median(lower))
    if beside is not None and not beside.observed.all():
        runs = ~beside.observed
        rows = np.concatenate([rows, beside.rows[runs]])
        lower = np.concatenate([lower, np.maximum(beside.seconds[runs], 1.0)])
        upper = np.concatenate([upper, np.full(int(runs.sum()), np.inf)])
    settings = {
        "objective": AFT,
        "aft_loss_distribution": how.distribution,
        "aft_loss_distribution_scale": how.scale,
        "base_score": middle,
        "learning_rate": how.learning_rate,
        "max_depth": how.max_depth,
        "min_child_weight": min(how.min_child_weight, max(0.1, len(rows) / 400)),
        "subsample": how.subsample,
        "colsample_bytree": how.colsample,
        "seed": how.random_state,
        "tree_method": "hist",
        "nthread": 1,
        "verbosity": 0,
    }
    jobs = xgboost.QuantileDMatrix(rows.astype(np.float32), label_lower_bound=lower, label_upper_bound=upper, nthread=1)
    model = bytes(xgboost.train(settings, jobs, num_boost_round=how.n_estimators).save_raw("json"))
    forest, start = compile_booster(model)
    return BoostedEstimator(model, forest, start, -1, how.features.index(REQUESTED_TIME), longest, 1.0)
