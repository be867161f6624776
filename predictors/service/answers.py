"""What does a model answer for a job, and who answers when it fails? Similar jobs, the last two, the request."""

import copy
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.answers import REQUESTED, REQUESTED_TIME, SHORTEST, UNKNOWN_REQUEST
from predictors.base import Predictor
from predictors.chain import LINKS
from predictors.service.facts import EVERY_FEATURE
from predictors.service.own_rows import OwnRows

Floats = npt.NDArray[np.float64]

NOTHING_LEARNT: Final = "nothing learnt yet"
FAILED: Final = "the model failed"
OUT_OF_RANGE: Final = "the model predicted out of range"
QUANTILES: Final = (0.1, 0.5, 0.9)
LEAST_RATIOS: Final = 20
"""Outcomes before quantiles are told."""
_REQUEST: Final = EVERY_FEATURE.index(REQUESTED_TIME)
_CHAIN: Final = tuple((name, EVERY_FEATURE.index(column)) for name, column in LINKS.items())


class Answer(NamedTuple):
    """The prediction for one job; a tuple, since ten thousand of them are made at once.

    Attributes
    ----------
    seconds : float
        Predicted run time [s].
    answered_by : str
        The predictor that told it.
    why : str or None
        Why it is a fallback; None if it is not.
    lower, upper : float or None
        Interval of the model's own, where it gives one [s].
    quantiles : tuple of three float, or None
        P10, P50 and P90 [s], by how long recent jobs ran of what was predicted for them.
    """

    seconds: float
    answered_by: str
    why: str | None = None
    lower: float | None = None
    upper: float | None = None
    quantiles: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A model as it was after an event; nobody changes it any more, any thread may ask it.

    Parameters
    ----------
    predictor : Predictor
        See `frozen`.
    own : OwnRows
        How the model reads a row of all features.
    ratios : tuple of three float, or None
        P10, P50 and P90 of run time / prediction of recent jobs.
    sequence : int
        The event that it had learnt when it was published.
    """

    predictor: Predictor
    own: OwnRows
    ratios: tuple[float, float, float] | None
    sequence: int

    def answer(self, row: Floats) -> Answer:
        """Return the answer for one row of every feature."""
        request = float(row[_REQUEST])
        try:
            found = self.predictor.predict_one(self.own.one(row))
        except Exception:  # a model of any kind can fail in any way; the cluster must not notice
            return fallback(row, FAILED)
        if not self._in_range(found.seconds, request):
            return fallback(row, OUT_OF_RANGE)
        why = NOTHING_LEARNT if found.fallback else None
        quantiles = None if self.ratios is None else self._quantiles(found.seconds, request)
        return Answer(found.seconds, found.answered_by, why, found.lower, found.upper, quantiles)

    def answers(self, rows: Floats) -> list[Answer]:
        """Return the answers for many rows: the same as one by one, but in one call of the model where that can be."""
        if len(rows) < 8 or hasattr(self.predictor, "base_"):
            return [self.answer(row) for row in rows]
        try:
            inside = self.own.many(rows)
            estimator = getattr(self.predictor, "estimator_", None)
            unknown = np.ones(len(rows), dtype=np.bool_) if estimator is None else np.isnan(estimator.predict(inside))
            seconds = self.predictor.predict_rows(inside)
        except Exception:  # as above
            return [fallback(row, FAILED) for row in rows]
        name, requests = self.predictor.name, rows[:, _REQUEST]
        quantiles = self._all_quantiles(seconds, requests)
        return [
            (
                Answer(
                    told,
                    REQUESTED if nothing else name,
                    NOTHING_LEARNT if nothing else None,
                    quantiles=None if quantiles is None else quantiles[i],
                )
                if self._in_range(told, request)
                else fallback(rows[i], OUT_OF_RANGE)
            )
            for i, (told, nothing, request) in enumerate(
                zip(seconds.tolist(), unknown.tolist(), requests.tolist(), strict=True)
            )
        ]

    def _in_range(self, seconds: float, request: float) -> bool:
        if not (math.isfinite(seconds) and seconds >= 0):
            return False
        return not (self.predictor.cap and request > 0 and seconds > max(request, SHORTEST))

    def _quantiles(self, seconds: float, request: float) -> tuple[float, float, float]:
        assert self.ratios is not None
        most = max(request, SHORTEST) if request > 0 else math.inf
        low, middle, high = (max(min(seconds * ratio, most), SHORTEST) for ratio in self.ratios)
        return low, middle, high

    def _all_quantiles(self, seconds: Floats, requests: Floats) -> list[tuple[float, float, float]] | None:
        """Return what `_quantiles` does of each."""
        if self.ratios is None:
            return None
        most = np.where(requests > 0, np.maximum(requests, SHORTEST), np.inf)
        low, middle, high = (np.maximum(np.minimum(seconds * one, most), SHORTEST).tolist() for one in self.ratios)
        return list(zip(low, middle, high, strict=True))


def fallback(row: Floats, why: str) -> Answer:
    """Return the first answer that there is of similar jobs, the user's last two, and the request.

    Examples
    --------
    >>> row = np.full(len(EVERY_FEATURE), np.nan)
    >>> row[EVERY_FEATURE.index("requested_time")] = 600.0
    >>> fallback(row, FAILED).answered_by, fallback(row, FAILED).seconds
    ('requested', 600.0)
    >>> row[EVERY_FEATURE.index("last_two_mean")] = 75.5
    >>> fallback(row, FAILED).answered_by, fallback(row, FAILED).seconds
    ('last-two', 75.5)
    """
    request = float(row[_REQUEST])
    most = max(request, SHORTEST) if request > 0 else math.inf
    for name, column in _CHAIN:
        if math.isfinite(row[column]):
            return Answer(max(min(float(row[column]), most), SHORTEST), name, why)
    return Answer(most if request > 0 else UNKNOWN_REQUEST, REQUESTED, why)


def frozen(predictor: Predictor) -> Predictor:
    """Return a predictor as it is now, whatever the one that was given learns from here on.

    Estimators never change; what learns puts a new one in the place of the old, so that a copy of the places is enough.
    (river's models are the exception: they are one and the same, and take turns.)
    """
    copied = copy.copy(predictor)
    if "base_" in vars(copied):
        vars(copied)["base_"] = frozen(vars(copied)["base_"])
    return copied
