"""The fallback chain: the predictor, then similar jobs, then the last two, then the requested time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.history.history import Outcome
from predictors.models.base import Estimator
from predictors.models.boosted import Average
from predictors.models.prediction import LONGEST, REQUESTED, Prediction, no_estimate
from predictors.models.wrapper import ChosenColumns, Wrapper

LINKS: Final = {"similar": "similar_median", "last-two": "last_two_mean"}
"""The links after the predictor inside, in order, each with the column of a row that holds its estimate."""


@dataclass(frozen=True, eq=False)
class ChainEstimator:
    """The first finite estimate, of an estimator and then of columns of the row; immutable."""

    inner: Estimator | None  # the first link; None before it has learnt
    own: Ints  # the columns of a row that it reads
    others: Ints  # the columns of the links after it, in order

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN where no link has an estimate."""
        return self.predict_with_source(rows)[0]

    def predict_with_source(self, rows: Floats) -> tuple[Floats, Ints]:
        """Return seconds and the places of their links, counted as by `predict_one_with_source`, of shape (n_rows,)."""
        found = np.full(len(rows), np.nan) if self.inner is None else self.inner.predict(rows[:, self.own])
        who = np.where(no_estimate(found), -1, 0)
        for place, column in enumerate(self.others, 1):
            here = (who < 0) & np.isfinite(rows[:, column])
            found, who = np.where(here, rows[:, column], found), np.where(here, place, who)
        return np.where(who < 0, np.nan, found), who

    def predict_one(self, row: Floats) -> float:
        return self.predict_one_with_source(row)[0]

    def predict_one_with_source(self, row: Floats) -> tuple[float, int]:
        """Return seconds for one row and the place of its link: 0 the estimator, 1, 2, … the others, -1 none."""
        found = float("nan") if self.inner is None else self.inner.predict_one(row[self.own])
        if abs(found) <= LONGEST:
            return found, 0
        for place, column in enumerate(self.others, 1):
            if np.isfinite(row[column]):
                return float(row[column]), place
        return float("nan"), -1


def chain_of(inner: Estimator | None, features: Sequence[str], own: Sequence[int] = ()) -> ChainEstimator:
    """Return the chain of an estimator, which reads the columns `own`, and of `LINKS`, for rows of these features."""
    others = [features.index(column) for column in LINKS.values()]
    return ChainEstimator(inner, np.array(own, dtype=np.int64), np.array(others, dtype=np.int64))


class Chain(Wrapper):
    """A predictor and, where it has no estimate, others that need no training: `similar`, `last-two`, the request.

    So there is an estimate better than the request from the first jobs that end, long before the predictor inside is
    fitted. `Prediction.answered_by` names its source.

    >>> from predictors.registry import make_predictor
    >>> chain = make_predictor("chain", predictor="boosted", settings={"n_estimators": 5})
    >>> chain
    Chain(predictor='boosted', settings={'n_estimators': 5})
    >>> row = np.full(len(chain.features), np.nan)
    >>> row[chain.features.index("requested_time")] = 600.0
    >>> chain.predict_one(row)[:3]
    (600.0, True, 'requested')
    >>> row[chain.features.index("last_two_mean")] = 75.5
    >>> chain.predict_one(row)[:3]
    (75.5, False, 'last-two')
    """

    name = "chain"

    default = Average

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the predictor inside, and the columns of the others."""
        return tuple(dict.fromkeys((*self.inside_features, *LINKS.values())))

    @property
    def fitted(self) -> bool:
        return "base_" in vars(self)

    @property
    def estimator_(self) -> ChainEstimator:
        """The chain of estimators; the links after the first need no training."""
        inner: Estimator | None = getattr(vars(self).get("base_"), "estimator_", None)
        return chain_of(inner, self.features, range(len(self.inside_features)))

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """Ignored: the learnt estimator stands in `base_`."""

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        running = (
            None if self.running_outcomes is None else ChosenColumns(self.inside_columns).of(self.running_outcomes)
        )
        self.base_ = self.watching(self.made()).fit_with_running(rows[:, self.inside_columns], seconds, running)
        return self.estimator_

    def learn_one(self, outcome: Outcome) -> None:
        self.taught(outcome)

    def predict_one(self, row: Floats) -> Prediction:
        estimate, who = self.estimator_.predict_one_with_source(row)
        found = self._prediction(estimate, float(row[self._request]))
        return found if found.fallback else found._replace(answered_by=(self.pattern.name, *LINKS)[who])

    def answered_by(self, rows: Floats) -> npt.NDArray[np.str_]:
        names = np.array([self.pattern.name, *LINKS, REQUESTED])
        sources: npt.NDArray[np.str_] = names[self.estimator_.predict_with_source(self._checked(rows))[1]]
        return sources
