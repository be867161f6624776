"""A learning predictor in the loop: its history, its predictions and its refits are driven by one stream of events."""

import copy
from time import perf_counter

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors.base import Predictor
from predictors.data.events import CANCELLED, ENDED, STARTED, SUBMITTED
from predictors.data.joblog import Ints, JobLog
from predictors.history import JobHistory, Outcome, Outcomes
from predictors.lessons import Lessons
from predictors.replay import LogHistory

Floats = npt.NDArray[np.float64]


class LearningForecast:
    """A `Forecast` that learns from each job when it ends in this clock, and from nothing else.

    When it learns what is told in `predictors.lessons`.

    Parameters
    ----------
    predictor : Predictor
        What predicts, and what learns if `learns`: it is changed then.
    log : JobLog
        Whose rows the events speak of; its own waits and run times are not read.
    learns : bool
        Whether outcomes are learnt from.
    after : JobHistory, optional
        What was known before.

    Attributes
    ----------
    learning_seconds : float
        Time spent learning so far [s].
    """

    def __init__(self, predictor: Predictor, log: JobLog, *, learns: bool, after: JobHistory | None = None) -> None:
        self.predictor = predictor
        self.learning_seconds = 0.0
        self._learns = learns
        self._history = LogHistory(log, predictor.features, predictor.as_of, after)
        self._rows = np.full((len(log), len(predictor.features)), np.nan)
        self._jobs = self._history.arrays[0]
        self._lessons = Lessons(predictor, self._teach) if learns else None

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        self._history.consume(events, self._rows)
        predict, lessons = self.predictor.predict_one, self._lessons
        for time, kind, job in events.tolist():
            if lessons is not None:
                lessons.catch_up(time)
            if kind == SUBMITTED:
                issued = seconds[job] = predict(self._rows[job]).seconds
                if lessons is not None:
                    lessons.submitted(job, self._rows[job], issued)
            elif lessons is None:
                continue
            elif kind == STARTED:
                lessons.started(job, time)
            elif kind == ENDED:
                lessons.ended(job, time, float(time - self._jobs[job, at.START]))
            elif kind == CANCELLED:
                lessons.cancelled(job)

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended among the events gone through, censored at `now`."""
        return Outcomes.stack([], self.predictor.features) if self._lessons is None else self._lessons.running(now)

    def learnt(self) -> Predictor:
        """Return the predictor as it has learnt until now; it goes on learning with this forecast."""
        if self._lessons is not None:
            self._lessons.learn_due()
        return self.predictor

    def fork(self) -> "LearningForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        shared: list[object] = [self._history.log, getattr(self.predictor, "estimator_", None)]
        if not self._learns:
            shared.append(self.predictor)
        return copy.deepcopy(self, {id(thing): thing for thing in shared if thing is not None})

    def _teach(self, outcome: Outcome) -> None:
        begin = perf_counter()
        self.predictor.learn_one(outcome)
        self.learning_seconds += perf_counter() - begin
