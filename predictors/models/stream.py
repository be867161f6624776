"""Predictors in a stream of events: delayed outcomes, forecasts in the loop.

* An end is learnt from at once; under the as-of rule `reis`, when its second is over.
* A predictor that learns from overruns gets an outcome of a job that has outrun its prediction at the first event
  after that; the job's end is then marked, so that it does not count twice.
* One that learns from running jobs can ask for them, censored at a second.

A fit keeps the history that the predictor's own features need. A registered model keeps all of it, so that a service
that starts with it has the same history as if the log had been replayed into it.
"""

import copy
import heapq
import math
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.events import CANCELLED, ENDED, RETURNED, STARTED, SUBMITTED, Forkable
from predictors.data.joblog import JobLog
from predictors.data.names import codes_of
from predictors.history import _layout as at
from predictors.history.features import CODED, FEATURES, families_of
from predictors.history.history import JobHistory, Outcome, Outcomes, as_of_rule
from predictors.history.keyed_rows import KeyedRows
from predictors.history.replay import LogHistory
from predictors.models.base import Predictor


def overrun_at(start: float, predicted: float) -> float:
    """Return the first whole second at which a job that started then has outrun its prediction.

    >>> overrun_at(100, 5.5), overrun_at(100, 6)
    (106, 107)
    """
    return start + math.floor(predicted) + 1


class OutcomeStream:
    """Delayed labels: turns the events of live jobs into training outcomes at the time they become known.

    >>> from predictors.registry import make_predictor
    >>> seen = []
    >>> stream = OutcomeStream(make_predictor("with-budget"), seen.append)
    >>> stream.submitted(1, np.zeros(2), issued=60.0)
    >>> stream.started(1, time=100)
    >>> stream.catch_up(200)
    >>> _ = stream.ended(1, time=250, seconds=150.0)
    >>> [(one.seconds, one.observed, one.told) for one in seen]
    [(100.0, False, False), (150.0, True, True)]
    """

    def __init__(
        self,
        predictor: Predictor,  # it learns from the outcomes
        teach: Callable[[Outcome], None] | None = None,  # called in the place of its `learn_one`
        *,
        # whether each end brings the job's row: then none is kept here, unless the predictor needs it before the end
        rows_with_ends: bool = False,
    ) -> None:
        self._teach: Final = predictor.learn_one if teach is None else teach
        self._same_second: Final = as_of_rule(predictor.as_of).same_second
        self._width: Final = len(predictor.features)
        self._watches: Final = predictor.learns_from_running
        self._tells: Final = predictor.learns_from_overruns
        self._issued: KeyedRows[float] = KeyedRows(1, np.float64)
        self._keeps_rows: Final = not rows_with_ends or self._watches or self._tells
        self._rows: dict[int, Floats] = {}
        self._running: dict[int, int] = {}
        self._overruns: list[tuple[float, int]] = []
        self._told: set[int] = set()
        self._due: list[Outcome] = []
        if self._watches:
            predictor.watch(self.running)

    def catch_up(self, now: int) -> None:
        """Learn what may be known at `now`: ends held back before it, and jobs that have outrun their prediction."""
        if self._due and self._due[0].time < now:
            self.learn_due()
        while self._overruns and self._overruns[0][0] < now + self._same_second:
            job = heapq.heappop(self._overruns)[1]
            start = self._running.get(job)
            if start is not None:
                self._told.add(job)
                issued = self._issued.first(job)
                assert issued is not None
                self._due.append(Outcome(self._rows[job], issued, float(now - start), False, now))
                self.learn_due()

    def is_due(self, now: int) -> bool:
        """Return whether `catch_up` would learn anything."""
        held_back = bool(self._due) and self._due[0].time < now
        return held_back or (bool(self._overruns) and self._overruns[0][0] < now + self._same_second)

    def learn_due(self) -> None:
        """Learn from what was held back, whatever the second is."""
        for outcome in self._due:
            self._teach(outcome)
        self._due.clear()

    def submitted(self, job: int, row: Floats, issued: float) -> None:
        """Note a job's row and the prediction that was issued for it."""
        self._issued.put(job, (issued,))
        if self._keeps_rows:
            self._rows[job] = row

    def started(self, job: int, time: int) -> None:
        """Note that a job runs; one submitted before the stream began is left out."""
        if not (self._watches or self._tells):
            return
        issued = self._issued.first(job)
        if issued is not None:
            self._running[job] = time
            if self._tells and job not in self._told:
                heapq.heappush(self._overruns, (overrun_at(time, issued), job))

    def ended(self, job: int, time: int, seconds: float, row: Floats | None = None) -> float:
        """Learn from an end, now or when its second is over; return what had been issued, NaN if nothing.

        `row` is that of the job at its submission, where none was kept; without any an end is not learnt from.
        """
        known, found = self._rows.pop(job, row), self._issued.pop(job)
        issued = math.nan if found is None else found[0]
        self._running.pop(job, None)
        if known is not None:
            self._due.append(Outcome(known, issued, seconds, True, time, job in self._told))
            if self._same_second:
                self.learn_due()
        self._told.discard(job)
        return issued

    def cancelled(self, job: int) -> None:
        """Forget a job that left the queue, or that was given up while it ran."""
        self._issued.pop(job)
        self._rows.pop(job, None)
        self._running.pop(job, None)
        self._told.discard(job)

    def returned(self, job: int) -> None:
        if self._running.pop(job, None) is not None:
            self._overruns = [one for one in self._overruns if one[1] != job]
            heapq.heapify(self._overruns)

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended, by start, censored at `now`."""
        rows = np.array([self._rows[job] for job in self._running], dtype=np.float64).reshape(-1, self._width)
        elapsed = now - np.array(list(self._running.values()), dtype=np.int64)
        seen, time = np.zeros(len(rows), dtype=np.bool_), np.full(len(rows), now, dtype=np.int64)
        issued = np.array(self._issued.first_of(list(self._running), math.nan), dtype=np.float64)
        return Outcomes(rows, issued, elapsed.astype(np.float64), seen, time)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        jobs = self._issued.keys()
        kept = [self._rows[job] for job in jobs.tolist()] if self._keeps_rows else []
        return {
            "jobs": jobs,
            "rows": np.array(kept, dtype=np.float64).reshape(-1, self._width),
            "issued": self._issued.rows()[:, 0],
            "running": np.array(list(self._running.items()), dtype=np.int64).reshape(-1, 2),
            "overrun_at": np.array([time for time, _ in self._overruns], dtype=np.float64),
            "overrun": np.array([job for _, job in self._overruns], dtype=np.int64),
            "told": np.array(sorted(self._told), dtype=np.int64),
            **Outcomes.stack(self._due, [""] * self._width).arrays("due_"),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._issued = KeyedRows(1, np.float64)
        self._issued.put_many(arrays["jobs"], arrays["issued"])
        if self._keeps_rows:
            self._rows = dict(zip(arrays["jobs"].tolist(), arrays["rows"], strict=True))
        self._running = dict(arrays["running"].tolist())
        self._overruns = list(zip(arrays["overrun_at"].tolist(), arrays["overrun"].tolist(), strict=True))
        heapq.heapify(self._overruns)  # ids may be others than those that it was kept with
        self._told = set(arrays["told"].tolist())
        self._due = list(Outcomes.from_arrays(arrays, "due_"))


def forecast(predictor: Predictor, log: JobLog, *, warm: bool = False) -> Forkable:
    """Return a predictor's estimates for the jobs of `log` while its events go by, as in a simulation.

    What was fitted is served unchanged. An unfitted predictor learns as the jobs end, by its own rule for refits; that
    is a clone, and the predictor stays unfitted.

    Parameters
    ----------
    predictor : Predictor
        Fitted or not.
    log : JobLog
        The events name its rows; its own waits and run times are not read.
    warm : bool
        Go on from the history of the predictor's fit, as in `Predictor.predict`.

    Examples
    --------
    >>> from predictors.data.synthetic.generate import generate_log
    >>> from predictors.history.replay import log_events
    >>> from predictors.registry import make_predictor
    >>> log, seconds = generate_log(100, seed=1), np.empty(100)
    >>> forecast(make_predictor("last-two"), log).advance(log_events(log), seconds)
    >>> bool((seconds == make_predictor("last-two").predict(log)).all())
    True
    """
    predictor.check()
    log, history = predictor.recoded(log, warm)
    learns = not predictor.fitted
    serving = predictor.clone() if learns else predictor
    own = serving.own_forecast(log, learns=learns, after=history)
    return LearningForecast(serving, log, learns=learns, after=history) if own is None else own


class LearningForecast:
    """A `Forecast` that learns from each job when it ends in this clock, as described above, and from nothing else."""

    def __init__(
        self,
        predictor: Predictor,  # what predicts, and what learns if `learns`: it is changed then
        log: JobLog,  # the events name its rows; its own waits and run times are not read
        *,
        learns: bool,  # whether outcomes are learnt from
        after: JobHistory | None = None,  # what was known before
    ) -> None:
        self.predictor = predictor
        self.learning_seconds = 0.0  # time spent learning so far [s]
        self.n_fallback = 0  # jobs so far that were answered by their request, since there was no estimate
        self._learns = learns
        self._history = LogHistory(log, predictor.features, predictor.as_of, after)
        self._rows = np.full((len(log), len(predictor.features)), np.nan)
        self._jobs = self._history.arrays[0]
        self._outcomes = OutcomeStream(predictor, self._teach) if learns else None

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        self._history.consume(events, self._rows)
        predict, outcomes = self.predictor.predict_one, self._outcomes
        for time, kind, job in events.tolist():
            if outcomes is not None:
                outcomes.catch_up(time)
            if kind == SUBMITTED:
                found = predict(self._rows[job])
                issued = seconds[job] = found.seconds
                self.n_fallback += found.fallback
                if outcomes is not None:
                    outcomes.submitted(job, self._rows[job], issued)
            elif outcomes is None:
                continue
            elif kind == STARTED:
                outcomes.started(job, time)
            elif kind == ENDED:
                outcomes.ended(job, time, float(time - self._jobs[job, at.START]))
            elif kind == CANCELLED:
                outcomes.cancelled(job)
            elif kind == RETURNED:
                outcomes.returned(job)

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended among the events gone through, censored at `now`."""
        return Outcomes.stack([], self.predictor.features) if self._outcomes is None else self._outcomes.running(now)

    def learnt(self) -> Predictor:
        """Return the predictor as it has learnt until now; it goes on learning with this forecast."""
        if self._outcomes is not None:
            self._outcomes.learn_due()
        return self.predictor

    def fork(self) -> "LearningForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        shared: list[object] = [self._history.log, getattr(self.predictor, "estimator_", None)]
        if not self._learns:
            shared.append(self.predictor)
        return copy.deepcopy(self, {id(thing): thing for thing in shared if thing is not None})

    def _teach(self, outcome: Outcome) -> None:
        begin = process_time()
        self.predictor.learn_one(outcome)
        self.learning_seconds += process_time() - begin


ALL_FAMILIES: Final = tuple(  # one feature of each, for a history with what any feature needs but names
    {one.family: name for name, one in FEATURES.items() if not one.family & at.WIDE_FAMILIES}.values()
)


def keep_full_history(predictor: Predictor, log: JobLog) -> None:
    """Give a fitted predictor the full history of its log, and the names behind every code of it.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> from predictors.registry import make_predictor
    >>> log = generate_log(40, seed=1)
    >>> model = make_predictor("last-two").fit(log)
    >>> has_full_history(model.history_)
    False
    >>> keep_full_history(model, log)
    >>> has_full_history(model.history_)
    True
    """
    further = [name for name in predictor.features if FEATURES[name].family & at.WIDE_FAMILIES]
    history = LogHistory(log, (*ALL_FAMILIES, *further), predictor.as_of)
    predictor.history_ = history.live(history.replayed())
    predictor.codes_ = codes_of(log, CODED)


def has_full_history(history: JobHistory) -> bool:
    """Return whether a history keeps what any feature needs; codes of single runs came later, and may lack."""
    needed = families_of(ALL_FAMILIES) & ~at.PRODUCTION_FAMILY
    return families_of(history.features) & needed == needed
