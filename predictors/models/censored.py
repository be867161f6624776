"""Accelerated failure time: learns from jobs that still run, as right-censored run times."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.params import Positive
from predictors.history.features import REQUESTED_TIME, RICH_FEATURES
from predictors.history.history import Outcomes
from predictors.models.base import Estimator
from predictors.models.boosted import BoostedEstimator, BoostingPredictor, grow_trees
from predictors.models.conformal import HELD_OUT
from predictors.models.trees import AFT

Running = Callable[[int], Outcomes]

LEAST_HELD_OUT: Final = 20  # ended jobs below which nothing is corrected


@dataclass(kw_only=True, eq=False, repr=False)
class Censored(BoostingPredictor):
    """Median or mean run time by boosted accelerated failure time; running jobs count as right-censored.

    A model trained on ended jobs alone sees too many short ones: at any time the long ones are those that still run. A
    fit on a log takes the jobs of which a start but no run time is known as running at its newest event; in the loop
    each new fit asks for those that run (`watch`), also inside another predictor.

    What such trees give is where the assumed distribution is centred. It is corrected by a factor: one learnt from all
    but the newest fifth of the jobs, and then such that half of these (by Kaplan and Meier's estimate, with the
    running jobs) run longer than predicted, or that predictions sum up to what they ran.

    .. [1] A. Barnwal, H. Cho, T. Hocking. Survival regression with accelerated failure time model in XGBoost. Journal
       of Computational and Graphical Statistics 31(4), 2022. doi:10.1080/10618600.2022.2067548

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> censored = Censored(n_estimators=5).fit(log)
    >>> bool((censored.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "censored"
    packages = ("xgboost",)
    features = RICH_FEATURES

    predicts: Literal["median", "mean"] = "median"  # what the correction aims at
    # of the logarithm of run times around the value that the features predict; the first leans to the short side, as
    # jobs do that may fail early but are killed at their request
    distribution: Literal["extreme", "logistic", "normal"] = "extreme"
    scale: Positive = 1.0  # how wide that is

    @property
    def learns_from_running(self) -> bool:
        return True

    def watch(self, running: Running) -> None:
        """Ask `running(now)` for the running jobs whenever it is fitted again; `JobHistory.training_set` is one."""
        self._running = running

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        return grow(self, rows, seconds, self.running_outcomes)

    def refit_estimator(self, now: int) -> Estimator:
        running: Running | None = vars(self).get("_running")
        return grow(self, *self.window_.newest(), None if running is None else running(now))


def grow(how: Censored, rows: Floats, seconds: Floats, beside: Outcomes | None) -> BoostedEstimator:
    """Return corrected trees learnt from ended jobs, and from those of `beside` that run."""
    runs = np.zeros(0, dtype=np.int64) if beside is None else np.flatnonzero(~beside.observed)
    running, elapsed = (rows[:0], seconds[:0]) if beside is None else (beside.rows[runs], beside.seconds[runs])
    n_first, held = len(rows) - int(HELD_OUT * len(rows)), np.arange(len(runs)) % round(1 / HELD_OUT) == 0
    factor = 1.0
    if len(rows) - n_first >= LEAST_HELD_OUT:
        first = trees(how, rows[:n_first], seconds[:n_first], running[~held], elapsed[~held])
        ended, still = first.predict(rows[n_first:]), first.predict(running[held])
        factor = correction(how.predicts, seconds[n_first:] / ended, ended, elapsed[held] / still)
    found = trees(how, rows, seconds, running, elapsed)
    return replace(found, factor=factor)


def correction(
    predicts: str,  # {"median", "mean"}: which of them
    ended: Floats,  # shape (n_ended,); run time / prediction of jobs that ended
    predicted: Floats,  # shape (n_ended,); predictions for them [s]
    still: Floats,  # shape (n_running,); elapsed time / prediction of jobs that run
) -> float:
    """Return what predictions have to be multiplied with.

    >>> ended = np.array([0.5, 1.5, 2.0])
    >>> correction("median", ended, np.ones(3), np.empty(0)), correction("median", ended, np.ones(3), np.full(3, 1.8))
    (1.5, 2.0)
    >>> correction("mean", ended, np.array([10.0, 10.0, 60.0]), np.empty(0))
    1.75
    """
    if predicts == "mean":
        found = float((ended * predicted).sum() / predicted.sum())
    else:
        ratio, seen = np.concatenate([ended, still]), np.arange(len(ended) + len(still)) < len(ended)
        order = np.lexsort((~seen, ratio))
        left = np.arange(len(order), 0, -1)
        longer = np.cumprod(1.0 - seen[order] / left)
        found = float(ratio[order][min(int(np.searchsorted(-longer, -0.5)), len(order) - 1)])
    return found if np.isfinite(found) and found > 0 else 1.0


def trees(
    how: Censored,  # the parameters
    rows: Floats,  # rows, seconds: shape (n_ended, n_features) and (n_ended,); ended jobs
    seconds: Floats,
    running: Floats,  # running, elapsed: shape (n_running, n_features) and (n_running,); running jobs
    elapsed: Floats,
) -> BoostedEstimator:
    """Return trees that add up to the logarithm of where the distribution is centred."""
    lower = np.maximum(np.concatenate([seconds, elapsed]), 1.0)
    upper = np.where(np.arange(len(lower)) < len(seconds), lower, np.inf)
    rows = np.concatenate([rows, running])
    objective = {
        "objective": AFT,
        "aft_loss_distribution": how.distribution,
        "aft_loss_distribution_scale": how.scale,
        "base_score": float(np.median(np.maximum(seconds, 1.0))),
    }
    least = min(how.min_child_weight, max(0.1, len(rows) / 400))
    model = grow_trees(how, rows, objective, least, label_lower_bound=lower, label_upper_bound=upper)
    return BoostedEstimator.of(model, -1, how.features.index(REQUESTED_TIME), float(seconds.max()), 1.0)
