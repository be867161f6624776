"""A learning predictor in the loop: its history, its predictions and its refits are driven by one stream of events."""

import copy
from time import perf_counter

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors.base import Predictor
from predictors.data.events import ENDED, STARTED, SUBMITTED
from predictors.data.joblog import Ints, JobLog
from predictors.history import JobHistory, Outcome, Outcomes
from predictors.replay import LogHistory

Floats = npt.NDArray[np.float64]


class LearningForecast:
    """A `Forecast` that learns from each job when it ends in this clock, and from nothing else.

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
        self._issued = np.full(len(log), np.nan)
        self._jobs = self._history.arrays[0]
        self._running: dict[int, int] = {}
        self._watches = learns and predictor.learns_from_running
        if self._watches:
            predictor.watch(self.running)

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        self._history.consume(events, self._rows)
        for i in range(len(events)):
            kind = events[i, 1]
            if kind == SUBMITTED:
                job = events[i, 2]
                seconds[job] = self._issued[job] = self.predictor.predict_one(self._rows[job]).seconds
            elif kind == ENDED and self._learns:
                time, job = int(events[i, 0]), events[i, 2]
                ran = float(time - self._jobs[job, at.START])
                self._running.pop(job, None)
                begin = perf_counter()
                self.predictor.learn_one(Outcome(self._rows[job], float(self._issued[job]), ran, True, time))
                self.learning_seconds += perf_counter() - begin
            elif kind == STARTED and self._watches:
                self._running[int(events[i, 2])] = int(events[i, 0])

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended among the events gone through, censored at `now`."""
        jobs = np.array(list(self._running), dtype=np.int64)
        elapsed = now - np.array(list(self._running.values()), dtype=np.int64)
        time = np.full(len(jobs), now, dtype=np.int64)
        seen = np.zeros(len(jobs), dtype=np.bool_)
        return Outcomes(self._rows[jobs], self._issued[jobs], elapsed.astype(np.float64), seen, time)

    def fork(self) -> "LearningForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        shared: list[object] = [self._history.log, getattr(self.predictor, "estimator_", None)]
        if not self._learns:
            shared.append(self.predictor)
        return copy.deepcopy(self, {id(thing): thing for thing in shared if thing is not None})
