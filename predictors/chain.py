"""Who answers where a predictor cannot? The next in a chain: the predictor, similar jobs, the last two, the request."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import REQUESTED, Estimator, Prediction, Predictor
from predictors.data.errors import JobcastError
from predictors.history import Outcome, Outcomes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LINKS: Final = {"similar": "similar_median", "last-two": "last_two_mean"}
"""Who answers after the predictor inside, in this order, and the column where each answer stands."""


@dataclass(frozen=True, eq=False)
class ChainEstimator:
    """The first finite answer of an estimator and of columns of the row; immutable.

    Parameters
    ----------
    inner : Estimator or None
        Who is asked first; None: nobody has learnt yet.
    own : int64 array
        The columns of a row that it reads.
    others : int64 array
        The columns that answer after it, the first to be asked first.
    """

    inner: Estimator | None
    own: Ints
    others: Ints

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN where nobody can tell."""
        return self.ask_all(rows)[0]

    def ask_all(self, rows: Floats) -> tuple[Floats, Ints]:
        """Return seconds and who told them, as `ask` counts, each of shape (n_rows,)."""
        found = np.full(len(rows), np.nan) if self.inner is None else self.inner.predict(rows[:, self.own])
        who = np.where(np.isfinite(found), 0, -1)
        for place, column in enumerate(self.others, 1):
            here = (who < 0) & np.isfinite(rows[:, column])
            found, who = np.where(here, rows[:, column], found), np.where(here, place, who)
        return np.where(who < 0, np.nan, found), who

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        return self.ask(row)[0]

    def ask(self, row: Floats) -> tuple[float, int]:
        """Return seconds for one row and who told them: 0 the estimator, 1, 2, … the others, -1 nobody."""
        found = float("nan") if self.inner is None else self.inner.predict_one(row[self.own])
        if np.isfinite(found):
            return found, 0
        for place, column in enumerate(self.others, 1):
            if np.isfinite(row[column]):
                return float(row[column]), place
        return float("nan"), -1


@dataclass(frozen=True, eq=False)
class Columns:
    """Outcomes with some columns of their rows only: those of `running(now)`, or given ones."""

    chosen: Ints
    running: Callable[[int], Outcomes] | None = None

    def of(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes with these columns."""
        return replace(outcomes, rows=outcomes.rows[:, self.chosen])

    def __call__(self, now: int) -> Outcomes:
        """Return those of the jobs that run at a second."""
        assert self.running is not None
        return self.of(self.running(now))


class Chain(Predictor):
    """A predictor, and where it has no answer those that need no training: `similar`, `last-two`, the requested time.

    So there is an answer better than the request from the first jobs that end, long before the predictor inside has
    learnt. `Prediction.answered_by` tells whose it is.

    Parameters
    ----------
    predictor : str
        Registered name of the predictor that is asked first.
    settings : dict or None
        Its parameters, beside `cap` and `as_of`.
    cap, as_of
        As in `Predictor`.

    Attributes
    ----------
    base_ : Predictor
        The predictor inside.

    Examples
    --------
    >>> chain = Chain(predictor="boosted")
    >>> row = np.full(len(chain.features), np.nan)
    >>> row[chain.features.index("requested_time")] = 600.0
    >>> chain.predict_one(row)[:3]
    (600.0, True, 'requested')
    >>> row[chain.features.index("last_two_mean")] = 75.5
    >>> chain.predict_one(row)[:3]
    (75.5, False, 'last-two')
    """

    name = "chain"

    def __init__(
        self,
        *,
        predictor: str = "average",
        settings: dict[str, Any] | None = None,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(cap=cap, as_of=as_of)
        self.predictor = predictor
        self.settings = settings

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the predictor inside, and the columns of the others."""
        return tuple(dict.fromkeys((*self._inside(), *LINKS.values())))

    @property
    def fitted(self) -> bool:
        """Whether the predictor inside has been given something to learn from."""
        return "base_" in vars(self)

    @property
    def estimator_(self) -> ChainEstimator:
        """Who is asked, in order; the others answer before anything is learnt."""
        inner: Estimator | None = getattr(vars(self).get("base_"), "estimator_", None)
        others = [self.features.index(column) for column in LINKS.values()]
        return ChainEstimator(inner, self._own, np.array(others, dtype=np.int64))

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """What is learnt stands in `base_`."""

    @property
    def learns_from_running(self) -> bool:
        """Whether jobs that still run teach the predictor inside something."""
        return self.made().learns_from_running

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        super().check()
        if self.predictor == self.name:
            raise JobcastError(f"{self.name}: the predictor inside cannot be {self.name} itself.")
        self.made().check()

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Let the predictor inside learn from ended jobs."""
        running = None if self.beside is None else Columns(self._own).of(self.beside)
        self.base_ = self.watching(self.made()).fit_beside(rows[:, self._own], seconds, running)
        return self.estimator_

    def learn_one(self, outcome: Outcome) -> None:
        """Let the predictor inside take in what became of one job."""
        if not self.fitted:
            self.base_ = self.watching(self.made())
        self.base_.learn_one(outcome._replace(row=outcome.row[self._own]))

    def watch(self, running: Callable[[int], Outcomes]) -> None:
        """Let the predictor inside ask for the jobs that run at a second."""
        self._running = running
        if self.fitted:
            self.watching(self.base_)

    def watching(self, inside: Predictor) -> Predictor:
        """Return a predictor inside after telling it whom to ask for the jobs that run, if this one was told."""
        running: Callable[[int], Outcomes] | None = vars(self).get("_running")
        if running is not None:
            inside.watch(Columns(self._own, running))
        return inside

    def predict_one(self, row: Floats) -> Prediction:
        """Return the prediction for one feature row, and whose answer it is."""
        estimate, who = self.estimator_.ask(row)
        found = self._told(estimate, float(row[self._request]))
        return found if found.fallback else found._replace(answered_by=(self.predictor, *LINKS)[who])

    def answered_by(self, rows: Floats) -> npt.NDArray[np.str_]:
        """Return whose answer each row gets, shape (n_rows,)."""
        names = np.array([*(self.predictor, *LINKS), REQUESTED])
        told: npt.NDArray[np.str_] = names[self.estimator_.ask_all(self._checked(rows))[1]]
        return told

    def save_estimator(self, folder: Path) -> None:
        """Write the predictor inside into a folder of its own."""
        inside = folder / "inside"
        inside.mkdir(exist_ok=True)
        self.base_.save(inside)

    def load_estimator(self, folder: Path) -> None:
        """Take back the predictor inside."""
        self.base_ = Predictor.load(folder / "inside")
        if self.base_.name != self.predictor:
            raise JobcastError(
                f"{folder / 'inside'}: holds {self.base_.name}, not {self.predictor}; train the model again."
            )

    @property
    def _own(self) -> Ints:
        return np.arange(len(self._inside()), dtype=np.int64)

    def _inside(self) -> tuple[str, ...]:
        from predictors.registry import PREDICTORS

        found = PREDICTORS.get(self.predictor)
        return self.made().features if found is None or isinstance(found.features, property) else found.features

    def made(self) -> Predictor:
        """Return a new predictor to be the one inside."""
        from predictors.registry import make_predictor

        return make_predictor(self.predictor, **(self.settings or {}), cap=self.cap, as_of=self.as_of)
