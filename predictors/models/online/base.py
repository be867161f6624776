"""OnlinePredictor: the base of predictors that learn one job at a time by a compiled step."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, KIND, TIME
from predictors.core.model_files import read_arrays, write_arrays
from predictors.data.joblog import JobLog
from predictors.history.history import JobHistory, Outcome
from predictors.models.base import Estimator, Predictor
from predictors.models.online import _nag as nag
from predictors.models.stream import LearningForecast

MODEL: Final = "online.npz"


@dataclass(frozen=True, eq=False)
class Gradient:
    """The weights of a linear model so far; learning changes the arrays in place."""

    # weights, squares: shape (n_weights,); of the dense inputs, then of the marks
    weights: Floats
    scales: Floats  # shape (n_dense,); greatest absolute value of each dense input
    squares: Floats
    sums: Floats  # shape (4,); counts at the positions that `predictors.models.online._nag` names

    @classmethod
    def empty(cls, n_dense: int, n_marks: int = 0) -> Self:
        n = n_dense + n_marks
        return cls(np.zeros(n), np.zeros(n_dense), np.zeros(n), np.zeros(nag.N_SUMS))

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The four arrays, in the order that the kernels take them."""
        return self.weights, self.scales, self.squares, self.sums

    def named(self) -> dict[str, npt.NDArray[Any]]:
        return {"weights": self.weights, "scales": self.scales, "squares": self.squares, "sums": self.sums}

    def checked(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the model that `named` described, of the same shape as this one."""
        for name, own in self.named().items():
            found = arrays.get(name)
            if found is None or found.shape != own.shape or found.dtype != own.dtype or not np.isfinite(found).all():
                raise JobcastError(
                    f"The model's {name} cannot be used: {own.shape} finite numbers are needed; train again."
                )
        return type(self)(**{name: np.ascontiguousarray(arrays[name]) for name in self.named()})


class Kernels(NamedTuple):
    """The compiled functions of one linear model; `settings` are those of its predictor, `gradient` its four arrays."""

    estimate: Callable[..., float]  # (row, weights, sums): seconds for one row
    estimates: Callable[..., None]  # (rows, weights, sums, out): the same for many
    learn_rows: Callable[..., None]  # (rows, seconds, *settings, *gradient): learn from jobs in their order
    advance: Callable[..., int]
    """(events, seconds, rows, jobs, learns, cap, *settings, *gradient): predict at submissions, learn from ends; how
    many jobs had no estimate."""
    n_dense: int
    n_marks: int = 0


@dataclass(frozen=True, eq=False)
class OnlineEstimator:
    """The linear model of an online predictor at one time; immutable."""

    kind: "type[OnlinePredictor]"  # kind of predictor with the kernels for these weights
    weights: Floats  # of the dense inputs, then of the marks
    sums: Floats  # shape (4,); how many jobs it has learnt from, and the longest

    def predict(self, rows: Floats) -> Floats:
        out = np.empty(len(rows))
        self.kind.kernels.estimates(rows, self.weights, self.sums, out)
        return out

    def predict_one(self, row: Floats) -> float:
        return self.kind.kernels.estimate(row, self.weights, self.sums)


class OnlinePredictor(Predictor):
    """Base of predictors that learn from each job when it ends.

    `fit` forgets and learns from a log's jobs one after the other. `learn_one` takes in one more outcome, with the row
    that the job's prediction was issued from, and then swaps `estimator_` for a new one: an estimator never changes,
    so another thread may predict from it meanwhile.

    An author writes the compiled functions (`kernels`) and `settings`. `gradient_` is what was learnt, still changing.
    """

    kernels: ClassVar[Kernels]

    @property
    @abstractmethod
    def settings(self) -> tuple[float, ...]:
        """The parameters that the kernels take."""

    def begin(self) -> Gradient:
        return Gradient.empty(self.kernels.n_dense, self.kernels.n_marks)

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        self.gradient_ = self.begin()
        self.kernels.learn_rows(rows, seconds, *self.settings, *self.gradient_.arrays)
        return self.published()

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job; one that still runs, or ran for 0 s, teaches nothing."""
        if not outcome.observed or not outcome.seconds > 0:
            return
        if not hasattr(self, "gradient_"):
            self.gradient_ = self.begin()
        row, seconds = outcome.row[np.newaxis], np.array([outcome.seconds])
        self.kernels.learn_rows(row, seconds, *self.settings, *self.gradient_.arrays)
        self.estimator_ = self.published()

    def published(self) -> Estimator:
        """Return an estimator of what has been learnt until now."""
        weights, sums = self.gradient_.weights.copy(), self.gradient_.sums.copy()
        weights.flags.writeable = sums.flags.writeable = False
        return OnlineEstimator(type(self), weights, sums)

    def own_forecast(self, log: JobLog, *, learns: bool, after: JobHistory | None) -> "OnlineForecast":
        return OnlineForecast(self, log, learns=learns, after=after)

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return self.gradient_.named() if hasattr(self, "gradient_") else {}

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if arrays:
            self.gradient_ = self.begin().checked(arrays)
            self.estimator_ = self.published()

    def save_estimator(self, folder: Path) -> None:
        write_arrays(folder / MODEL, self.gradient_.named())

    def load_estimator(self, folder: Path) -> None:
        self.gradient_ = self.begin().checked(read_arrays(folder / MODEL))
        self.estimator_ = self.published()


class OnlineForecast(LearningForecast):
    """A `LearningForecast`, with the same parameters, that predicts and updates in one compiled call a slice."""

    def __init__(
        self, predictor: OnlinePredictor, log: JobLog, *, learns: bool, after: JobHistory | None = None
    ) -> None:
        super().__init__(predictor, log, learns=learns, after=after)
        self._online = predictor
        if learns:
            predictor.gradient_ = predictor.begin()
        self._held = np.empty((0, 3), dtype=np.int64)

    def advance(self, events: Ints, seconds: Floats) -> None:
        self._history.consume(events, self._rows)
        if self._learns and not self._history.as_of.same_second:
            events = self._ends_last(events)
        self._follow(events, seconds)

    def _follow(self, events: Ints, seconds: Floats) -> None:
        online = self._online
        about = (self._rows, self._jobs, self._learns, online.cap, *online.settings, *online.gradient_.arrays)
        self.n_fallback += online.kernels.advance(events, seconds, *about)

    def _ends_last(self, events: Ints) -> Ints:
        """Return the events with each second's ends behind its others; those of the newest second are held back."""
        events = np.concatenate([self._held, events])
        is_end = events[:, KIND] == ENDED
        order = np.lexsort((is_end, events[:, TIME]))
        events, is_end = events[order], is_end[order]
        newest = is_end & (events[:, TIME] == events[-1, TIME]) if len(events) else is_end
        self._held = events[newest]
        rest: Ints = events[~newest]
        return rest

    def learnt(self) -> OnlinePredictor:
        self._follow(self._held, np.empty(0))
        self._held = self._held[:0]
        if self._learns and self._online.gradient_.sums[nag.SEEN] > 0:
            self._online.estimator_ = self._online.published()
        return self._online
