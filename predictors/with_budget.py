"""Any predictor, so that jobs run longer than it says only as often as allowed, and with an interval around it."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import SHORTEST, Estimator, Prediction, Predictor
from predictors.calibration import (
    HELD_OUT,
    at_share,
    conformal_share,
    ends_around,
    limits,
    moved,
    reachable,
    shares,
)
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.history import Outcome, Outcomes, as_of_rule
from predictors.lessons import overrun_at
from predictors.params import BETWEEN, or_none

Floats = npt.NDArray[np.float64]

GAP: Final = 0.05
"""Share of the jobs of a fit, before those, that is left out while they are predicted."""


@dataclass(frozen=True, eq=False)
class CalibratedEstimator:
    """An estimator whose answers are moved by a share towards the request; immutable."""

    inner: Estimator
    request: int
    share: float

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        return self._moved(self.inner.predict(rows), rows)

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        return float(self._moved(np.array([self.inner.predict_one(row)]), row[None])[0])

    def _moved(self, seconds: Floats, rows: Floats) -> Floats:
        limit = limits(rows[:, self.request])
        return at_share(np.maximum(seconds, SHORTEST), limit, self.share)


class WithBudget(Predictor):
    """A predictor that is moved until jobs outrun it just as often as `budget` says; see `predictors.calibration`.

    `boosted` is asked for that quantile in the first place; what others predict is moved only. Every outcome of a
    stream calibrates further, by the prediction that was issued, and teaches the predictor inside. A job that outran
    its very request counts as run for that long: no prediction within the request could have been long enough.

    Parameters
    ----------
    predictor : str
        Registered name of the predictor inside.
    settings : dict or None
        Its parameters, beside `cap` and `as_of`.
    budget : float or None
        Share of the jobs that may run longer than predicted; None leaves the predictions as they are.
    coverage : float
        Share of the jobs that shall run as long as `lower` to `upper` of a prediction says.
    cap, as_of
        As in `Predictor`.

    Attributes
    ----------
    base_ : Predictor
        The predictor inside.
    shares_ : tuple of three float
        How far the prediction is moved from that of the predictor inside, and the ends of the interval from it.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(2000, seed=1)
    >>> careful = WithBudget(predictor="similar", budget=0.1).fit(log)
    >>> plain = WithBudget(predictor="similar", budget=None).fit(log)
    >>> [round(float(np.mean(one.predict(log) < log.filled("run_time"))), 2) for one in (plain, careful)]
    [0.48, 0.17]
    """

    name = "with-budget"
    rules = MappingProxyType({"budget": or_none(BETWEEN), "coverage": BETWEEN})

    def __init__(
        self,
        *,
        predictor: str = "similar",
        settings: dict[str, Any] | None = None,
        budget: float | None = 0.05,
        coverage: float = 0.9,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(cap=cap, as_of=as_of)
        self.predictor = predictor
        self.settings = settings
        self.budget = budget
        self.coverage = coverage

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the predictor inside."""
        from predictors.registry import PREDICTORS

        self._refuse_itself()
        return PREDICTORS[self.predictor].features if self.predictor in PREDICTORS else self.made().features

    @property
    def fitted(self) -> bool:
        """Whether anything has been learnt, if only how to calibrate."""
        return "shares_" in vars(self)

    @property  # type: ignore[override]
    def estimator_(self) -> Estimator | None:
        """The estimator inside, moved; None as long as it has learnt nothing."""
        inner: Estimator | None = getattr(self._base(), "estimator_", None)
        return None if inner is None else CalibratedEstimator(inner, self._request, self._shares()[0])

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """What is learnt stands in `base_` and `shares_`."""

    @property
    def learns_from_running(self) -> bool:
        """Whether jobs that still run teach the predictor inside something."""
        return self.made().learns_from_running

    @property
    def hears_of_overruns(self) -> bool:
        """Whether it is to be told when a job has run longer than predicted, before it ends."""
        return True

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        super().check()
        self._refuse_itself()
        self.made().check()

    def _refuse_itself(self) -> None:
        if self.predictor == self.name:
            raise JobcastError(f"{self.name}: the predictor inside cannot be {self.name} itself.")

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Learn from the older jobs, calibrate on the newest, and learn from all.

        The jobs between the two are left out: those learnt from have hardly any end that a held-out one could not know.
        """
        base, n_first = self.made(), len(rows) - int(HELD_OUT * len(rows))
        first = slice(n_first - int(GAP * len(rows)))
        base.fit_beside(rows[first], seconds[first], self.beside)
        held, ran = rows[n_first:], reachable(seconds[n_first:], rows[n_first:, self._request])
        predicted, limit = self._unmoved(base, held), limits(held[:, self._request])
        share = 0.0 if self.budget is None else conformal_share(shares(ran, predicted, limit), self.budget)
        around = shares(ran, at_share(predicted, limit, share), limit)
        low, high = (conformal_share(around, outside) for outside in self._outside)
        self.base_ = self.watching(base.fit_beside(rows, seconds, self.beside) if len(held) else base)
        self.shares_ = share, low, high
        estimator = self.estimator_
        assert estimator is not None
        return estimator

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job: calibrate by the prediction that was issued, and teach the one inside.

        One that still runs moves the budget's share if it has run longer than predicted already; its end must then say
        that this was told, or it would count twice. How far the job went beyond is known at its end alone.
        """
        if not self.fitted:
            self.base_, self.shares_ = self.watching(self.made()), (0.0, 0.0, 0.0)
        request, issued = outcome.row[self._request : self._request + 1], outcome.issued
        ran = float(reachable(np.array([outcome.seconds]), request)[0])
        outran = outcome.observed or outcome.seconds > issued
        if issued == issued and outran and not outcome.told:
            self._move_share(ran, issued)
        if issued == issued and outcome.observed:
            self._move_ends(ran, issued, limits(request))
        self.base_.learn_one(outcome)

    def watch(self, running: Callable[[int], Outcomes]) -> None:
        """Let the predictor inside ask for the jobs that run at a second."""
        self._running = running
        if self.fitted:
            self.watching(self.base_)

    def predict_one(self, row: Floats) -> Prediction:
        """Return the prediction for one feature row, with its interval."""
        found = super().predict_one(row)
        if found.fallback:
            return found
        low, high = self.predict_interval(row[None])
        return found._replace(lower=float(low[0]), upper=float(high[0]))

    def predict_interval(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends [s], each of shape (n_rows,), with the prediction between them.

        Where nothing is known they are 1 s and the request.
        """
        rows = self._checked(rows)
        limit = limits(rows[:, self._request])
        estimator = self.estimator_
        if estimator is None:
            return np.full(len(rows), SHORTEST), limit
        missing, said = np.isnan(estimator.predict(rows)), np.maximum(self.predict_rows(rows), SHORTEST)
        _, low, high = self._shares()
        lower, upper = ends_around(said, limit, low, high)
        return np.where(missing, SHORTEST, lower), np.where(missing, limit, upper)

    def predict_as_they_end(
        self, rows: Floats, submit: Ints, seconds: Floats, end: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Return predictions, lower and upper ends, each calibrated by what had happened before its submission.

        That a job outran its prediction counts from that second on, all else at its end. The predictor inside stays as
        it is, and this one as well: the calibration goes on in a copy.

        Parameters
        ----------
        rows : float64 array of shape (n_jobs, n_features)
            Jobs in order of submission.
        submit, end : int64 arrays of shape (n_jobs,)
            Submissions and ends [s].
        seconds : float64 array of shape (n_jobs,)
            Run times [s]; that of a job is looked at when it has run for so long.
        """
        copy = self.clone()
        copy.base_, copy.shares_ = self._base(), self._shares()
        predicted, limit = self._unmoved(copy.base_, rows), limits(rows[:, self._request])
        ran, same_second = reachable(seconds, rows[:, self._request]), as_of_rule(self.as_of).same_second
        said = np.empty((len(rows), 3))
        pending: list[tuple[float, int, bool]] = []
        for i in range(len(rows)):
            one = slice(i, i + 1)
            while pending and (pending[0][0] < submit[i] or (same_second and pending[0][0] == submit[i])):
                _, job, ended = heapq.heappop(pending)
                issued = float(said[job, 0])
                if not ended or ran[job] <= issued:
                    copy._move_share(float(ran[job]), issued)
                if ended:
                    copy._move_ends(float(ran[job]), issued, limit[job : job + 1])
            share, low, high = copy.shares_
            point = at_share(predicted[one], limit[one], share)
            lower, upper = ends_around(point, limit[one], low, high)
            said[i] = point[0], lower[0], upper[0]
            heapq.heappush(pending, (float(end[i]), i, True))
            if ran[i] > point[0]:
                outran = overrun_at(float(end[i] - seconds[i]), float(point[0]))
                heapq.heappush(pending, (min(float(end[i]), outran), i, False))
        return said[:, 0], said[:, 1], said[:, 2]

    def save_estimator(self, folder: Path) -> None:
        """Write the predictor inside into a folder of its own, and the shares."""
        from predictors.saving import write_arrays

        inside = folder / "inside"
        inside.mkdir(exist_ok=True)
        self.base_.save(inside)
        write_arrays(folder / "shares.npz", {"shares": np.array(self.shares_)})

    def load_estimator(self, folder: Path) -> None:
        """Take back the predictor inside and the shares."""
        from predictors.saving import read_arrays

        found = read_arrays(folder / "shares.npz").get("shares", np.empty(0))
        if found.shape != (3,) or not np.isfinite(found).all():
            raise JobcastError(f"{folder / 'shares.npz'}: does not hold three shares; train the model again.")
        self.base_ = Predictor.load(folder / "inside")
        self.shares_ = float(found[0]), float(found[1]), float(found[2])

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
        """Move the interval by a job that ran for `seconds`; its interval is the present one around issued.

        So nothing is asked of the predictor inside, which may have learnt from this very job.
        """
        share, low, high = self.shares_
        point = np.array([max(issued, SHORTEST)])
        lower, upper = ends_around(point, limit, low, high)
        outside = self._outside
        self.shares_ = (
            share,
            moved(low, seconds > lower[0], outside[0]),
            moved(high, seconds > upper[0], outside[1]),
        )

    def watching(self, inside: Predictor) -> Predictor:
        """Return a predictor inside after telling it whom to ask for the jobs that run, if this one was told."""
        running: Callable[[int], Outcomes] | None = vars(self).get("_running")
        if running is not None:
            inside.watch(running)
        return inside

    def _shares(self) -> tuple[float, float, float]:
        found: tuple[float, float, float] = vars(self).get("shares_", (0.0, 0.0, 0.0))
        return found

    def _base(self) -> Predictor:
        base: Predictor | None = vars(self).get("base_")
        return self.made() if base is None else base

    def made(self) -> Predictor:
        """Return a new predictor to be the one inside."""
        from predictors.registry import make_predictor

        base = make_predictor(self.predictor, **(self.settings or {}), cap=self.cap, as_of=self.as_of)
        has_quantiles = self.budget is not None and "objective" in base.get_params()
        return base.set_params(objective="quantile", quantile=1.0 - (self.budget or 0.0)) if has_quantiles else base

    def _unmoved(self, base: Predictor, rows: Floats) -> Floats:
        return np.maximum(base.predict_rows(rows), SHORTEST)
