"""The answer of one published model: prediction, quantiles, or the fallback.

The fallback is the prediction of similar jobs, else of the user's last two jobs, else the requested time.
"""

import copy
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from predictors.core.arrays import Bools, Floats
from predictors.history.features import REQUESTED_TIME
from predictors.models.base import Predictor
from predictors.models.conformal import Quantiles
from predictors.models.fallback import LINKS, chain_of
from predictors.models.prediction import REQUESTED, in_range_one, is_in_range, no_estimate
from predictors.models.wrapper import Wrapper
from predictors.service.state.feature_mapping import FeatureMapping
from predictors.service.state.jobs import EVERY_FEATURE

NOTHING_LEARNT: Final = "nothing learnt yet"
FAILED: Final = "the model failed"
OUT_OF_RANGE: Final = "the model predicted out of range"
_REQUEST: Final = EVERY_FEATURE.index(REQUESTED_TIME)
_WITHOUT_MODEL: Final = chain_of(None, EVERY_FEATURE)  # the fallback chain with nothing before its links


class Answer(NamedTuple):
    """The prediction for one job; a tuple, since ten thousand of them are made at once."""

    seconds: float  # predicted run time [s]
    answered_by: str  # the predictor that gave it
    why: str | None = None  # why it is a fallback; None if it is not
    # lower, upper: interval of the model's own, where it gives one [s]
    lower: float | None = None
    upper: float | None = None
    quantiles: tuple[float, float, float] | None = None  # P10, P50 and P90 [s] (`predictors.models.conformal`)


@dataclass(frozen=True, slots=True)
class Published:
    """A model as it was after an event; immutable, safe to call from threads."""

    predictor: Predictor  # see `frozen`
    mapping: FeatureMapping  # how the model reads a row of all features
    quantiles: Quantiles  # of its predictions, as of that event
    sequence: int  # the event that it had learnt when it was published

    def answer(self, row: Floats) -> Answer:
        request = float(row[_REQUEST])
        try:
            inside = self.mapping.one(row)
            found = self.predictor.predict_one(inside)
            no_time = found.fallback and bool(self._estimates(inside[None])[1][0])
        except Exception:  # a model of any kind can fail in any way; the cluster must not notice
            return fallback(row, FAILED)
        if no_time or not is_in_range(found.seconds, request, self.predictor.cap):
            return fallback(row, OUT_OF_RANGE)
        why = NOTHING_LEARNT if found.fallback else None
        quantiles = self.quantiles.one(found.seconds, request)
        return Answer(found.seconds, found.answered_by, why, found.lower, found.upper, quantiles)

    def answers(self, rows: Floats) -> list[Answer]:
        """Return the answers for many rows: the same as one by one, but in one call of the model where that can be."""
        if len(rows) < 8 or isinstance(self.predictor, Wrapper):
            return [self.answer(row) for row in rows]
        try:
            inside = self.mapping.many(rows)
            unknown, no_time = self._estimates(inside)
            seconds = self.predictor.predict_rows(inside)
        except Exception:  # as above
            return [fallback(row, FAILED) for row in rows]
        name, requests = self.predictor.name, rows[:, _REQUEST]
        ends = self.quantiles.many(seconds, requests).tolist()
        known = self.quantiles.factors is not None
        return [
            (
                Answer(
                    predicted,
                    REQUESTED if nothing else name,
                    NOTHING_LEARNT if nothing else None,
                    quantiles=(ends[i][0], ends[i][1], ends[i][2]) if known else None,
                )
                if not no_time[i] and is_in_range(predicted, request, self.predictor.cap)
                else fallback(rows[i], OUT_OF_RANGE)
            )
            for i, (predicted, nothing, request) in enumerate(
                zip(seconds.tolist(), unknown.tolist(), requests.tolist(), strict=True)
            )
        ]

    def _estimates(self, rows: Floats) -> tuple[Bools, Bools]:
        """Return where the model has no estimate, and where it answers what is no time: infinite, or far too large."""
        estimator = getattr(self.predictor, "estimator_", None)
        if estimator is None:
            return np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
        estimates = estimator.predict(rows)
        unknown = no_estimate(estimates)
        return unknown, unknown & ~np.isnan(estimates)


def fallback(row: Floats, why: str) -> Answer:
    """Return the first answer that there is of similar jobs, the user's last two, and the request.

    >>> row = np.full(len(EVERY_FEATURE), np.nan)
    >>> row[EVERY_FEATURE.index("requested_time")] = 600.0
    >>> fallback(row, FAILED).answered_by, fallback(row, FAILED).seconds
    ('requested', 600.0)
    >>> row[EVERY_FEATURE.index("last_two_mean")] = 75.5
    >>> fallback(row, FAILED).answered_by, fallback(row, FAILED).seconds
    ('last-two', 75.5)
    """
    request = float(row[_REQUEST])
    estimate, who = _WITHOUT_MODEL.predict_one_with_source(row)
    return Answer(in_range_one(estimate, request, True), REQUESTED if who < 0 else tuple(LINKS)[who - 1], why)


def frozen(predictor: Predictor) -> Predictor:
    """Return a predictor as it is now, whatever the one that was given learns from here on.

    Estimators never change; what learns puts a new one in the place of the old, so that a copy of the places is enough.
    (river's models are the exception: they are one and the same, and take turns.)
    """
    copied = copy.copy(predictor)
    if isinstance(copied, Wrapper) and copied.fitted:
        copied.base_ = frozen(copied.base_)
    return copied
