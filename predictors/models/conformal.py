"""Conformal prediction: P10, P50 and P90 of any predictor's predictions; predictions within a budget of underestimates.

**Quantiles** (`ConformalQuantiles`) are predictions times factors. A factor is a quantile of run time / prediction over
the newest jobs that ended and were predicted alike: by the share of the request that the prediction takes, and by its
length. Which quantile follows from the quantiles that were issued: one that fewer jobs than it should have stayed
within is taken further out, by a small step a job [1]_. So P10 to P90 holds 80 % of the jobs in the long run, whatever
the jobs and the predictor do. Only ended jobs teach, each at its end. Jobs may run beyond their request, and so does
P90, unless the site is said to end them there (`kills`).

**Budgets** (`WithBudget`) move the prediction itself. A *share* is how far a prediction is moved: at 0 it stays at p,
at 1 it becomes the limit R (the request), at -1 one second; in between the way is geometric, p^(1 - share) R^share
upwards and p^(1 + share) downwards. The share that would have been just enough for a job is known when it has ended.
Its quantile over past jobs is the start (split conformal prediction), and from then on every outcome moves it a
little: up by `step` (1 - budget) when the job ran longer than predicted, down by `step` budget when not. In the long
run the rate of the first is the budget, whatever the jobs and the predictor do, unless the limit itself is outrun more
often [1]_.

.. [1] I. Gibbs, E. Candès. Adaptive conformal inference under distribution shift. NeurIPS 2021.
   doi:10.48550/arXiv.2106.00170
.. [2] A. N. Angelopoulos, R. F. Barber, S. Bates. Online conformal prediction with decaying step sizes. ICML 2024.
   doi:10.48550/arXiv.2402.01139
"""

import copy
import heapq
import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.model_files import read_arrays, write_arrays
from predictors.core.params import OpenShare
from predictors.core.prediction_bounds import SHORTEST
from predictors.history.history import Outcome, as_of_rule
from predictors.models.base import Estimator, Predictor
from predictors.models.baselines import Similar
from predictors.models.prediction import Prediction, in_range, no_estimate
from predictors.models.stream import overrun_at
from predictors.models.wrapper import Wrapper

LEVELS: Final = (0.1, 0.5, 0.9)  # the quantiles: P10, P50, P90
WINDOW: Final = 3000  # ratios of newest ended jobs to keep for each group
LEAST_RATIOS: Final = 20  # ended jobs before there are quantiles
LEAST_OF_GROUP: Final = 50  # ended jobs of a group before it has factors of its own; until then those of all jobs serve
LEVEL_STEP: Final = 0.003  # the step by which one outcome moves a level, once there are many
START: Final = 1.0  # the step is no less than this over the number of outcomes: the first jobs teach more [2]_
_FURTHEST_LEVEL: Final = 1.5
_BEYOND: Final = 10.0  # the factor's logarithm beyond the greatest ratio, for each 1 of a level beyond 1; below 0 alike
_SHARES: Final = (0.03, 0.2, 0.6, 0.97)  # of the groups: prediction / request; one more without request
_LENGTHS: Final = (30.0, 300.0, 3000.0, 20_000.0)  # bounds of the groups by the predicted run time [s]
_OF_LENGTH: Final = len(_LENGTHS) + 1
_GROUPS: Final = (len(_SHARES) + 2) * _OF_LENGTH
_ROUNDING: Final = 1e-12  # a product so near to a whole second is that second

Triple = tuple[float, float, float]


def _group(predicted: float, request: float) -> int:
    """Return the group of a prediction [s], at least 1 s."""
    share = bisect_right(_SHARES, predicted / request) if request > 0 else len(_SHARES) + 1
    return share * _OF_LENGTH + bisect_right(_LENGTHS, predicted)


def _ends(point: float, request: float, factors: Triple, kills: bool) -> Triple:
    """Return P10, P50 and P90 of a prediction [s], at least 1 s."""
    limit = max(request, SHORTEST) if kills and request > 0 else math.inf
    low = float(math.floor(point * factors[0] * (1 + _ROUNDING)))
    middle, high = float(round(point * factors[1])), float(math.ceil(point * factors[2] * (1 - _ROUNDING)))
    return min(max(low, SHORTEST), limit), min(max(middle, SHORTEST), limit), min(max(high, SHORTEST), limit)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """P10, P50 and P90 of predictions, as they are known at one moment; immutable, safe to call from threads."""

    # by group, what a prediction is multiplied by; None where too few jobs have ended
    factors: tuple[Triple, ...] | None = None
    kills: bool = False  # whether no quantile goes beyond the request

    def one(self, predicted: float, request: float) -> Triple | None:
        """Return P10, P50 and P90 of one prediction, whole seconds from 1 on; NaN is an unknown request."""
        if self.factors is None:
            return None
        point = max(predicted, SHORTEST)
        return _ends(point, request, self.factors[_group(point, request)], self.kills)

    def many(self, predicted: Floats, requests: Floats) -> Floats:
        """Return those of many predictions, shape (n, 3), each as `one` gives it; NaN where too few jobs have ended."""
        if self.factors is None:
            return np.full((len(predicted), len(LEVELS)), np.nan)
        point = np.maximum(predicted, SHORTEST)
        share = np.full(len(point), len(_SHARES) + 1)
        known = requests > 0
        share[known] = np.searchsorted(_SHARES, point[known] / requests[known], side="right")
        factors = np.array(self.factors)[share * _OF_LENGTH + np.searchsorted(_LENGTHS, point, side="right")]
        ends = point[:, None] * factors
        ends = np.column_stack(
            [np.floor(ends[:, 0] * (1 + _ROUNDING)), np.rint(ends[:, 1]), np.ceil(ends[:, 2] * (1 - _ROUNDING))]
        )
        limit = np.where(known, np.maximum(requests, SHORTEST), np.inf)[:, None] if self.kills else np.inf
        bounded: Floats = np.minimum(np.maximum(ends, SHORTEST), limit)
        return bounded


class ConformalQuantiles:
    """P10, P50 and P90 of a stream of predictions, calibrated by what became of those that were issued.

    Described at the top of this module.

    >>> random = np.random.default_rng(1)
    >>> layer, held = ConformalQuantiles(), []
    >>> for ran in np.exp(random.normal(6, 1, 4000)).round().tolist():
    ...     issued = layer.one(300.0, 3600.0)
    ...     held.append(issued is not None and issued[0] <= ran <= issued[2])
    ...     layer.learn(300.0, 3600.0, ran, issued)
    >>> round(float(np.mean(held[2000:])), 2)
    0.8
    >>> layer.now.one(300.0, 3600.0)
    (102.0, 361.0, 1580.0)
    """

    def __init__(
        self,
        *,
        kills: bool = False,  # whether the site ends jobs at their request: no quantile then goes beyond it
    ) -> None:
        self.kills = kills
        self.outcomes = 0  # ended jobs that it has learnt from
        self._levels = list(LEVELS)
        self._windows: dict[int, _Window] = {}
        self._all = _Window()
        self._now: Quantiles | None = Quantiles(None, kills)

    def one(self, predicted: float, request: float) -> Triple | None:
        """Return what `now.one` does, for a stream that asks once and then learns."""
        if self.outcomes < LEAST_RATIOS:
            return None
        point = max(predicted, SHORTEST)
        window = self._windows.get(_group(point, request), self._all)
        return _ends(point, request, self._factors(window if len(window) >= LEAST_OF_GROUP else self._all), self.kills)

    @property
    def now(self) -> Quantiles:
        """The quantiles by all that has been learnt until now."""
        if self._now is None:
            whole = self._factors(self._all)
            own = {group: self._factors(one) for group, one in self._windows.items() if len(one) >= LEAST_OF_GROUP}
            self._now = Quantiles(tuple(own.get(group, whole) for group in range(_GROUPS)), self.kills)
        return self._now

    def learn(
        self,
        # predicted, request: the prediction that was issued and the requested time [s]; NaN is an unknown request
        predicted: float,
        request: float,
        ran: float,  # run time [s]
        issued: Triple | None,  # the quantiles that were issued at the submission, if there were any
    ) -> None:
        ran, point = max(ran, SHORTEST), max(predicted, SHORTEST)
        if issued is not None:
            step = max(LEVEL_STEP, START / self.outcomes)
            beyond = ran >= issued[0], ran > issued[1], ran > issued[2]  # a job at an end is inside
            for place, (level, outran) in enumerate(zip(LEVELS, beyond, strict=True)):
                level = self._levels[place] + step * (outran - (1.0 - level))
                self._levels[place] = min(max(level, 1.0 - _FURTHEST_LEVEL), _FURTHEST_LEVEL)
            low, middle, high = self._levels
            self._levels = [min(low, middle), middle, max(high, middle)]  # a quantile never passes the next one
        group, ratio = _group(point, request), ran / point
        self._windows.setdefault(group, _Window()).add(ratio)
        self._all.add(ratio)
        self.outcomes += 1
        if self.outcomes >= LEAST_RATIOS:
            self._now = None

    def set_kills(self, kills: bool) -> None:
        """Say whether the site ends jobs at their request."""
        self.kills = kills
        self._now = Quantiles(None, kills) if self.outcomes < LEAST_RATIOS else None

    def copy(self) -> "ConformalQuantiles":
        return copy.deepcopy(self)

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that has been learnt, as arrays."""
        groups = sorted(self._windows)
        ratios = [[*self._all.order], *([*self._windows[group].order] for group in groups)]
        return {
            "levels": np.array(self._levels),
            "about": np.array([self.outcomes, self.kills], dtype=np.int64),
            "groups": np.array(groups, dtype=np.int64),
            "counts": np.array([len(one) for one in ratios], dtype=np.int64),
            "ratios": np.array([ratio for one in ratios for ratio in one], dtype=np.float64),
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "ConformalQuantiles":
        """Return one that goes on from `get_state`; other arrays raise JobcastError, KeyError or ValueError."""
        outcomes, kills = arrays["about"].tolist()
        levels, ratios, groups = arrays["levels"].tolist(), arrays["ratios"], arrays["groups"].tolist()
        parts = np.split(ratios, np.cumsum(arrays["counts"])[:-1])
        fits = len(parts) == len(groups) + 1 and sum(map(len, parts)) == len(ratios) == arrays["counts"].sum()
        sound = bool((np.isfinite(ratios) & (ratios > 0)).all()) and len(set(groups) & set(range(_GROUPS))) == len(
            groups
        )
        counted = fits and len(parts[0]) == min(outcomes, WINDOW) and all(0 < len(one) <= WINDOW for one in parts[1:])
        ordered = len(levels) == len(LEVELS) and levels == sorted(levels)
        within = all(1.0 - _FURTHEST_LEVEL <= level <= _FURTHEST_LEVEL for level in levels)
        if not (counted and sound and ordered and within):
            raise JobcastError("The quantiles of a saved model are damaged; train it again.")
        found = cls(kills=bool(kills))
        found.outcomes, found._levels = outcomes, levels
        found._all = _Window(parts[0].tolist())
        found._windows = {group: _Window(one.tolist()) for group, one in zip(groups, parts[1:], strict=True)}
        found._now = None if outcomes >= LEAST_RATIOS else found._now
        return found

    def _factors(self, window: "_Window") -> Triple:
        low, middle, high = (window.at(level) for level in self._levels)
        return low, middle, high


def quantiles_of(predictor: Predictor) -> ConformalQuantiles | None:
    """Return what a predictor's P10, P50 and P90 go on from; None if it was not calibrated."""
    found: ConformalQuantiles | None = vars(predictor).get("quantiles_")
    return found


def keep_quantiles(predictor: Predictor, layer: ConformalQuantiles | None) -> None:
    """Give a fitted predictor what its P10, P50 and P90 go on from; None: nothing is given."""
    if layer is not None:
        vars(predictor)["quantiles_"] = layer


class _Window:
    """The newest ratios, by their age and by their size."""

    def __init__(self, ratios: list[float] | None = None) -> None:
        self.order: deque[float] = deque(ratios or ())
        self._sorted = sorted(self.order)

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, ratio: float) -> None:
        """Add the newest; the oldest gives way."""
        self.order.append(ratio)
        insort(self._sorted, ratio)
        if len(self.order) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self.order.popleft())]

    def at(self, level: float) -> float:
        """Return the ratio at a level; beyond 0 and 1 it goes on from the least and the greatest."""
        n = len(self._sorted)
        if level >= 1.0:
            return self._sorted[-1] * math.exp((level - 1.0) * _BEYOND)
        if level <= 0.0:
            return self._sorted[0] * math.exp(level * _BEYOND)
        return self._sorted[min(math.ceil((n + 1) * level), n) - 1]


HELD_OUT: Final = 0.2  # share of the jobs of a fit, the newest, that calibrate what was learnt from the others
STEP: Final = 0.02  # the step by which one outcome moves a share
FURTHEST: Final = 2.0  # the greatest share; the least is its negative


def at_share(predicted: Floats, limit: Floats, share: float) -> Floats:
    """Return estimates [s] moved by a share, for predictions and limits of at least 1 s.

    >>> at_share(np.array([100.0, 100.0]), np.array([10_000.0, 50.0]), 0.5).round(6).tolist()
    [1000.0, 100.0]
    >>> at_share(np.array([100.0]), np.array([10_000.0]), -0.5).round(6).tolist()
    [10.0]
    """
    if share == 0:
        return predicted
    if share < 0:
        return np.exp(np.log(predicted) * (1.0 + max(share, -1.0)))
    if share >= 1:
        return np.maximum(predicted, limit)
    moved: Floats = predicted * np.exp(np.log(np.maximum(limit / predicted, 1.0)) * share)
    return moved


def shares(seconds: Floats, predicted: Floats, limit: Floats) -> Floats:
    """Return the least share at which each estimate would have been long enough; 1 where the limit was too short.

    >>> shares(np.array([1000.0, 10.0, 9e9]), np.full(3, 100.0), np.full(3, 10_000.0)).round(6).tolist()
    [0.5, -0.5, 1.0]
    """
    ran, floor = np.maximum(seconds, 1.0), np.maximum(predicted, 1.0 + 1e-9)
    room = np.log(np.maximum(limit / floor, 1.0 + 1e-9))
    up = np.log(np.maximum(ran / floor, 1.0)) / room
    down = np.log(ran) / np.log(floor) - 1.0
    return np.clip(np.where(ran > predicted, up, np.minimum(down, 0.0)), -1.0, 1.0)


def limits(requested: Floats) -> Floats:
    """Return what estimates move towards [s]: the request, or `UNKNOWN_REQUEST` where there is none."""
    return in_range(np.full(len(requested), np.nan), requested, cap=True)


def reachable(seconds: Floats, requested: Floats) -> Floats:
    """Return run times [s] as a prediction can reach them: a job that outran its request counts as long as that.

    >>> reachable(np.array([70.0, 70.0, 70.0]), np.array([60.0, 600.0, np.nan])).tolist()
    [60.0, 70.0, 70.0]
    """
    return np.where(requested > 0, np.minimum(seconds, np.maximum(requested, SHORTEST)), seconds)


def ends_around(point: Floats, limit: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the ends of intervals around predictions [s], moved from them by shares.

    >>> lower, upper = ends_around(np.array([100.0]), np.array([10_000.0]), -0.5, 0.5)
    >>> lower.round(6).tolist(), upper.round(6).tolist()
    ([10.0], [1000.0])
    >>> ends_around(np.array([100.0]), np.array([10_000.0]), 0.5, -0.5)[0].tolist()  # never beyond the prediction
    [100.0]
    """
    return at_share(point, limit, min(low, 0.0)), at_share(point, limit, max(high, 0.0))


def conformal_share(found: Floats, budget: float) -> float:
    """Return the share that would have sufficed for all but `budget` of past jobs, and for one more for safety.

    >>> conformal_share(np.linspace(0, 1, 101), 0.1)
    0.91
    >>> conformal_share(np.empty(0), 0.1)
    0.0
    """
    if not len(found):
        return 0.0
    place = min(math.ceil((len(found) + 1) * (1.0 - budget)), len(found))
    return float(np.sort(found)[place - 1])


def moved(share: float, outran: bool, budget: float) -> float:
    """Return the share after one more outcome; it may go beyond what moves an estimate, or the rate would drift."""
    return min(max(share + STEP * ((1.0 if outran else 0.0) - budget), -FURTHEST), FURTHEST)


GAP: Final = 0.05  # share of the jobs of a fit, before those, that is left out while they are predicted


@dataclass(frozen=True, eq=False)
class MovedEstimator(ABC):
    """An estimator that moves the answers of another one towards the request; immutable."""

    inner: Estimator
    request: int

    def predict(self, rows: Floats) -> Floats:
        return self._moved(self.inner.predict(rows), rows)

    def predict_one(self, row: Floats) -> float:
        return float(self._moved(np.array([self.inner.predict_one(row)]), row[None])[0])

    @abstractmethod
    def _moved(self, seconds: Floats, rows: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class CalibratedEstimator(MovedEstimator):
    """One that moves all answers by the same share."""

    share: float

    def _moved(self, seconds: Floats, rows: Floats) -> Floats:
        limit = limits(rows[:, self.request])
        return at_share(np.maximum(seconds, SHORTEST), limit, self.share)


@dataclass(kw_only=True, eq=False, repr=False)
class WithBudget(Wrapper):
    """A predictor, shifted until the share of the jobs that run longer than predicted is `budget`.

    How far is described at the top of this module. `boosted` predicts that quantile in the first place; the
    predictions of others are moved only. Every outcome of a stream calibrates further, by the prediction that was
    issued, and teaches the predictor inside. A job that outran its very request counts as run for that long: no
    prediction within the request could have been long enough.

    `shares_` says how far the prediction is moved from that of the predictor inside, and the ends of the interval from
    it.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(2000, seed=1)
    >>> careful = WithBudget(predictor=Similar(), budget=0.1).fit(log)
    >>> outran = careful.predict(log) < log.filled("run_time")
    >>> round(float(outran[-400:].mean()), 2)  # the newest fifth, which calibrates
    0.1
    >>> round(float(outran.mean()), 2)  # jobs before it had less history to be predicted from
    0.17
    """

    name = "with-budget"
    default = Similar

    # share of the jobs that may run longer than predicted; None leaves the predictions as they are
    budget: OpenShare | None = 0.05
    coverage: OpenShare = 0.9  # share of the jobs that are to run between `lower` and `upper` of their prediction

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the predictor inside."""
        return self.inside_features

    @property
    def fitted(self) -> bool:
        return "shares_" in vars(self)

    @property  # type: ignore[override]
    def estimator_(self) -> Estimator | None:
        """The estimator inside, moved; None as long as it has learnt nothing."""
        inner: Estimator | None = getattr(self._base(), "estimator_", None)
        return None if inner is None else CalibratedEstimator(inner, self._request, self._shares()[0])

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """Ignored: the learnt estimator stands in `base_` and `shares_`."""

    @property
    def learns_from_overruns(self) -> bool:
        """True: an overrun moves the share before the job ends."""
        return True

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Learn from the older jobs, calibrate on the newest, and learn from all.

        The jobs between the two are left out: those learnt from have hardly any end that a held-out one could not know.
        """
        base, n_first = self.made(), len(rows) - int(HELD_OUT * len(rows))
        first = slice(n_first - int(GAP * len(rows)))
        base.fit_with_running(rows[first], seconds[first], self.running_outcomes)
        held, ran = rows[n_first:], reachable(seconds[n_first:], rows[n_first:, self._request])
        predicted, limit = self._unmoved(base, held), limits(held[:, self._request])
        self.base_ = self.watching(base.fit_with_running(rows, seconds, self.running_outcomes) if len(held) else base)
        self._calibrate(held, ran, predicted, limit)
        estimator = self.estimator_
        assert estimator is not None
        return estimator

    def _calibrate(self, held: Floats, ran: Floats, predicted: Floats, limit: Floats) -> None:
        """Set the shares by held-out jobs: their rows, run times as they can be reached, predictions and limits [s]."""
        self.shares_ = self._shares_of(ran, predicted, limit)

    def _shares_of(self, ran: Floats, predicted: Floats, limit: Floats) -> tuple[float, float, float]:
        share = 0.0 if self.budget is None else conformal_share(shares(ran, predicted, limit), self.budget)
        around = shares(ran, at_share(predicted, limit, share), limit)
        low, high = (conformal_share(around, outside) for outside in self._outside)
        return share, low, high

    def _enter(self, row: Floats) -> None:
        """Make the shares those that hold for a job of this row; by default one set holds for all."""
        return

    def _leave(self, row: Floats) -> None:
        """Keep the shares as those that hold for jobs like this row's."""
        return

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job: calibrate by the prediction that was issued, and teach the one inside.

        One that still runs moves the budget's share if it has run longer than predicted already; its end must then be
        marked so, or it would count twice. How far the job went beyond is known at its end alone.
        """
        if not self.fitted:
            self.shares_ = 0.0, 0.0, 0.0
        self._enter(outcome.row)
        request, issued = outcome.row[self._request : self._request + 1], outcome.issued
        ran = float(reachable(np.array([outcome.seconds]), request)[0])
        outran = outcome.observed or outcome.seconds > issued
        if issued == issued and outran and not outcome.told:
            self._move_share(ran, issued)
        if issued == issued and outcome.observed:
            self._move_ends(ran, issued, limits(request))
        self._leave(outcome.row)
        self.taught(outcome)

    def predict_one(self, row: Floats) -> Prediction:
        found = super().predict_one(row)
        if found.fallback:
            return found
        low, high = self.predict_interval(row[None])
        return found._replace(lower=float(low[0]), upper=float(high[0]))

    def predict_interval(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends [s] around the predictions; 1 s and the request where nothing is known."""
        rows = self._checked(rows)
        limit = limits(rows[:, self._request])
        estimator = self.estimator_
        if estimator is None:
            return np.full(len(rows), SHORTEST), limit
        missing, point = no_estimate(estimator.predict(rows)), np.maximum(self.predict_rows(rows), SHORTEST)
        lower, upper = self._ends(rows, point, limit)
        return np.where(missing, SHORTEST, lower), np.where(missing, limit, upper)

    def _ends(self, rows: Floats, point: Floats, limit: Floats) -> tuple[Floats, Floats]:
        return ends_around(point, limit, *self._shares()[1:])

    def predict_as_they_end(
        self,
        rows: Floats,  # shape (n_jobs, n_features); jobs in order of submission
        submit: Ints,  # submit, end: shape (n_jobs,); submissions and ends [s]
        seconds: Floats,  # shape (n_jobs,); run times [s]; that of a job is used once it has run for so long
        end: Ints,
    ) -> tuple[Floats, Floats, Floats]:
        """Return predictions, lower and upper ends, each calibrated by what had happened before its submission.

        That a job outran its prediction counts from that second on, all else at its end. The predictor inside stays as
        it is, and this one as well: the calibration goes on in a copy.
        """
        copy = self.clone()
        copy.base_ = self._base()
        self._share_with(copy)
        predicted, limit = self._unmoved(copy.base_, rows), limits(rows[:, self._request])
        ran, same_second = reachable(seconds, rows[:, self._request]), as_of_rule(self.as_of).same_second
        predictions = np.empty((len(rows), 3))
        pending: list[tuple[float, int, bool]] = []
        for i in range(len(rows)):
            one = slice(i, i + 1)
            while pending and (pending[0][0] < submit[i] or (same_second and pending[0][0] == submit[i])):
                _, job, ended = heapq.heappop(pending)
                issued = float(predictions[job, 0])
                copy._enter(rows[job])
                if not ended or ran[job] <= issued:
                    copy._move_share(float(ran[job]), issued)
                if ended:
                    copy._move_ends(float(ran[job]), issued, limit[job : job + 1])
                copy._leave(rows[job])
            copy._enter(rows[i])
            share, low, high = copy.shares_
            point = at_share(predicted[one], limit[one], share)
            lower, upper = ends_around(point, limit[one], low, high)
            predictions[i] = point[0], lower[0], upper[0]
            heapq.heappush(pending, (float(end[i]), i, True))
            if ran[i] > point[0]:
                outran = overrun_at(float(end[i] - seconds[i]), float(point[0]))
                heapq.heappush(pending, (min(float(end[i]), outran), i, False))
        return predictions[:, 0], predictions[:, 1], predictions[:, 2]

    def _share_with(self, copy: Self) -> None:
        copy.shares_ = self._shares()

    def save_estimator(self, folder: Path) -> None:
        write_arrays(folder / "shares.npz", {"shares": np.array(self.shares_)})

    def load_estimator(self, folder: Path) -> None:
        found = read_arrays(folder / "shares.npz").get("shares", np.empty(0))
        if found.shape != (3,) or not np.isfinite(found).all():
            raise JobcastError(f"{folder / 'shares.npz'}: does not hold three shares; train the model again.")
        self.shares_ = float(found[0]), float(found[1]), float(found[2])

    def get_state(self) -> dict[str, npt.NDArray[Any]] | None:
        arrays = super().get_state()
        return arrays if arrays is None or not self.fitted else arrays | {"shares": np.array(self.shares_)}

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().set_state(arrays)
        if "shares" in arrays:
            share, low, high = arrays["shares"].tolist()
            self.shares_ = share, low, high

    @property
    def _outside(self) -> tuple[float, float]:
        """Shares of the jobs that shall run longer than the lower and the upper end say."""
        tail = (1.0 - self.coverage) / 2
        return 1.0 - tail, tail

    def _move_share(self, seconds: float, issued: float) -> None:
        """Move the budget's share by a job that ran, or has run, for `seconds`."""
        share, low, high = self.shares_
        if self.budget is not None:
            self.shares_ = moved(share, seconds > issued, self.budget), low, high

    def _move_ends(self, seconds: float, issued: float, limit: Floats) -> None:
        """Move the interval by a job that ran for `seconds`, without the model: it may have learnt from this job."""
        share, low, high = self.shares_
        point = np.array([max(issued, SHORTEST)])
        lower, upper = ends_around(point, limit, low, high)
        outside = self._outside
        self.shares_ = (share, moved(low, seconds > lower[0], outside[0]), moved(high, seconds > upper[0], outside[1]))

    def _shares(self) -> tuple[float, float, float]:
        found: tuple[float, float, float] = vars(self).get("shares_", (0.0, 0.0, 0.0))
        return found

    def _base(self) -> Predictor:
        base: Predictor | None = vars(self).get("base_")
        return self.made() if base is None else base

    def made(self) -> Predictor:
        """Return a new predictor to be the one inside: of the budget's quantile, if it can predict one."""
        base = super().made()
        has_quantiles = self.budget is not None and "objective" in base.get_params()
        return base.set_params(objective="quantile", quantile=1.0 - (self.budget or 0.0)) if has_quantiles else base

    def _unmoved(self, base: Predictor, rows: Floats) -> Floats:
        return np.maximum(base.predict_rows(rows), SHORTEST)
