"""Any predictor, so that jobs run longer than it says only as often as allowed, and with an interval around it."""

import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import SHORTEST, UNKNOWN_REQUEST, Estimator, Prediction, Predictor
from predictors.calibration import at_share, conformal_share, moved, shares
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.history import Outcome

Floats = npt.NDArray[np.float64]

HELD_OUT: Final = 0.2
"""Share of the jobs of a fit, the newest, that calibrate what was learnt from the others."""


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


def limits(requested: Floats) -> Floats:
    """Return what estimates move towards [s]: the request, or `UNKNOWN_REQUEST` where there is none."""
    return np.maximum(np.where(requested > 0, requested, UNKNOWN_REQUEST), SHORTEST)


def reachable(seconds: Floats, requested: Floats) -> Floats:
    """Return run times [s] as a prediction can reach them: a job that outran its request counts as long as that.

    Examples
    --------
    >>> reachable(np.array([70.0, 70.0, 70.0]), np.array([60.0, 600.0, np.nan])).tolist()
    [60.0, 70.0, 70.0]
    """
    return np.where(requested > 0, np.minimum(seconds, np.maximum(requested, SHORTEST)), seconds)


class WithBudget(Predictor):
    """A predictor that is moved until jobs outrun it just as often as `budget` says; see `predictors.calibration`.

    `boosted` is asked for that quantile in the first place; what others predict is moved only. Every outcome of a
    stream calibrates further, and teaches the predictor inside. A job that outran its very request counts as run for
    that long: no prediction within the request could have been long enough.

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
        How far the prediction, the interval's lower and its upper end are moved.

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
        return PREDICTORS[self.predictor].features if self.predictor in PREDICTORS else self._made().features

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

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        super().check()
        if self.budget is not None and not 0 < self.budget < 1:
            raise JobcastError(
                f"{self.name}: budget must be a share between 0 and 1, such as 0.05; got {self.budget!r}."
            )
        if not 0 < self.coverage < 1:
            raise JobcastError(f"{self.name}: coverage must be a share between 0 and 1; got {self.coverage!r}.")
        self._refuse_itself()
        self._made().check()

    def _refuse_itself(self) -> None:
        if self.predictor == self.name:
            raise JobcastError(f"{self.name}: the predictor inside cannot be {self.name} itself.")

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Learn from the older jobs, calibrate on the newer ones, and learn from all."""
        base, n_first = self._made(), len(rows) - int(HELD_OUT * len(rows))
        base.fit_rows(rows[:n_first], seconds[:n_first])
        held = rows[n_first:]
        requested = held[:, self._request]
        found = shares(reachable(seconds[n_first:], requested), self._unmoved(base, held), limits(requested))
        fitted = tuple(0.0 if budget is None else conformal_share(found, budget) for budget in self._budgets)
        self.base_ = base.fit_rows(rows, seconds) if len(held) else base
        self.shares_ = fitted[0], fitted[1], fitted[2]
        estimator = self.estimator_
        assert estimator is not None
        return estimator

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job: calibrate, by the prediction that was issued, and teach the one inside."""
        if not self.fitted:
            self.base_, self.shares_ = self._made(), (0.0, 0.0, 0.0)
        if outcome.observed:
            row = outcome.row[None]
            predicted, limit = self._unmoved(self.base_, row), limits(row[:, self._request])
            issued = outcome.issued
            said = [
                float(at_share(predicted, limit, share)[0]) if end or issued != issued else issued
                for end, share in enumerate(self.shares_)
            ]
            ran = reachable(np.array([outcome.seconds]), row[:, self._request])
            self._calibrate(float(ran[0]), said)
        self.base_.learn_one(outcome)

    def predict_one(self, row: Floats) -> Prediction:
        """Return the prediction for one feature row, with its interval."""
        found = super().predict_one(row)
        if found.fallback:
            return found
        low, high = self.predict_interval(row[None])
        return found._replace(lower=float(low[0]), upper=float(high[0]))

    def predict_interval(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends [s], each of shape (n_rows,); where nothing is known, 1 s and the request."""
        rows = self._checked(rows)
        limit = limits(rows[:, self._request])
        inner: Estimator | None = getattr(self._base(), "estimator_", None)
        if inner is None:
            return np.full(len(rows), SHORTEST), limit
        missing = np.isnan(inner.predict(rows))
        predicted = self._unmoved(self._base(), rows)
        _, low, high = self._shares()
        lower, upper = at_share(predicted, limit, low), at_share(predicted, limit, high)
        return np.where(missing, SHORTEST, np.minimum(lower, upper)), np.where(missing, limit, upper)

    def predict_as_they_end(
        self, rows: Floats, submit: Ints, seconds: Floats, end: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Return predictions, lower and upper ends, each calibrated by what had ended at its submission.

        The predictor inside stays as it is, and this one as well: the calibration goes on in a copy.

        Parameters
        ----------
        rows : float64 array of shape (n_jobs, n_features)
            Jobs in order of submission.
        submit, end : int64 arrays of shape (n_jobs,)
            Submissions and ends [s].
        seconds : float64 array of shape (n_jobs,)
            Run times [s]; that of a job is looked at after its end only.
        """
        copy = self.clone()
        copy.base_, copy.shares_ = self._base(), self._shares()
        predicted, limit = self._unmoved(copy.base_, rows), limits(rows[:, self._request])
        ran = reachable(seconds, rows[:, self._request])
        said = np.empty((len(rows), 3))
        pending: list[tuple[int, int]] = []
        for i in range(len(rows)):
            while pending and pending[0][0] <= submit[i]:
                job = heapq.heappop(pending)[1]
                copy._calibrate(float(ran[job]), said[job].tolist())
            for k, share in enumerate(copy.shares_):
                said[i, k] = at_share(predicted[i : i + 1], limit[i : i + 1], share)[0]
            heapq.heappush(pending, (int(end[i]), i))
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
    def _budgets(self) -> tuple[float | None, float, float]:
        tail = (1.0 - self.coverage) / 2
        return self.budget, 1.0 - tail, tail

    def _calibrate(self, seconds: float, said: list[float]) -> None:
        new = [
            share if budget is None else moved(share, seconds > what, budget)
            for share, what, budget in zip(self.shares_, said, self._budgets, strict=True)
        ]
        self.shares_ = new[0], new[1], new[2]

    def _shares(self) -> tuple[float, float, float]:
        found: tuple[float, float, float] = vars(self).get("shares_", (0.0, 0.0, 0.0))
        return found

    def _base(self) -> Predictor:
        base: Predictor | None = vars(self).get("base_")
        return self._made() if base is None else base

    def _made(self) -> Predictor:
        from predictors.registry import make_predictor

        base = make_predictor(self.predictor, **(self.settings or {}), cap=self.cap, as_of=self.as_of)
        has_quantiles = self.budget is not None and "objective" in base.get_params()
        return base.set_params(objective="quantile", quantile=1.0 - (self.budget or 0.0)) if has_quantiles else base

    def _unmoved(self, base: Predictor, rows: Floats) -> Floats:
        return np.maximum(base.predict_rows(rows), SHORTEST)
