"""A learning predictor in the loop: its history, its predictions and its refits are driven by one stream of events."""

import copy
import heapq
import math
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


def overrun_at(start: float, said: float) -> float:
    """Return the first whole second at which a job that started then has run for longer than was said.

    Examples
    --------
    >>> overrun_at(100, 5.5), overrun_at(100, 6)
    (106, 107)
    """
    return start + math.floor(said) + 1


class LearningForecast:
    """A `Forecast` that learns from each job when it ends in this clock, and from nothing else.

    Where only what ended strictly before a submission counts as known (the as-of rule `reis`), ends are learnt from
    when their second is over. A predictor that hears of overruns is told of a job that has outrun its prediction as of
    the first event after that; its end then says so.

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
        self._same_second = self._history.as_of.same_second
        self._due: list[Outcome] = []
        self._running: dict[int, int] = {}
        self._overruns: list[tuple[float, int]] = []
        self._told: set[int] = set()
        self._watches = learns and predictor.learns_from_running
        self._tells = learns and predictor.hears_of_overruns
        if self._watches:
            predictor.watch(self.running)

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        self._history.consume(events, self._rows)
        for i in range(len(events)):
            time, kind, job = int(events[i, 0]), events[i, 1], int(events[i, 2])
            if self._due or self._overruns:
                self._catch_up(time)
            if kind == SUBMITTED:
                seconds[job] = self._issued[job] = self.predictor.predict_one(self._rows[job]).seconds
            elif kind == ENDED and self._learns:
                self._running.pop(job, None)
                ran, told = float(time - self._jobs[job, at.START]), job in self._told
                self._told.discard(job)
                self._due.append(Outcome(self._rows[job], float(self._issued[job]), ran, True, time, told))
                if self._same_second:
                    self._learn_due()
            elif kind == STARTED and (self._watches or self._tells):
                self._running[job] = time
                if self._tells:
                    heapq.heappush(self._overruns, (overrun_at(time, float(self._issued[job])), job))

    def _catch_up(self, now: int) -> None:
        """Learn what may be known at `now`: ends held back before it, and jobs that have outrun their prediction."""
        if self._due and self._due[0].time < now:
            self._learn_due()
        while self._overruns and self._overruns[0][0] < now + self._same_second:
            job = heapq.heappop(self._overruns)[1]
            start = self._running.get(job)
            if start is not None:
                self._told.add(job)
                self._due.append(Outcome(self._rows[job], float(self._issued[job]), float(now - start), False, now))
                self._learn_due()

    def _learn_due(self) -> None:
        begin = perf_counter()
        for outcome in self._due:
            self.predictor.learn_one(outcome)
        self._due.clear()
        self.learning_seconds += perf_counter() - begin

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended among the events gone through, censored at `now`."""
        jobs = np.array(list(self._running), dtype=np.int64)
        elapsed = now - np.array(list(self._running.values()), dtype=np.int64)
        time = np.full(len(jobs), now, dtype=np.int64)
        seen = np.zeros(len(jobs), dtype=np.bool_)
        return Outcomes(self._rows[jobs], self._issued[jobs], elapsed.astype(np.float64), seen, time)

    def learnt(self) -> Predictor:
        """Return the predictor as it has learnt until now; it goes on learning with this forecast."""
        self._learn_due()
        return self.predictor

    def fork(self) -> "LearningForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        shared: list[object] = [self._history.log, getattr(self.predictor, "estimator_", None)]
        if not self._learns:
            shared.append(self.predictor)
        return copy.deepcopy(self, {id(thing): thing for thing in shared if thing is not None})
