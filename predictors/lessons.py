"""When does a predictor learn what? Events of live jobs become outcomes, each at its moment, whatever the clock is.

* An end is learnt from at once; under the as-of rule `reis`, when its second is over.
* A predictor that hears of overruns is told of a job that has outrun its prediction as of the first event after that;
  the job's end then says so, so that it does not count twice.
* One that learns from running jobs can ask for them, censored at a second.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import Predictor
from predictors.history import Outcome, Outcomes, as_of_rule

Floats = npt.NDArray[np.float64]


def overrun_at(start: float, said: float) -> float:
    """Return the first whole second at which a job that started then has run for longer than was said.

    Examples
    --------
    >>> overrun_at(100, 5.5), overrun_at(100, 6)
    (106, 107)
    """
    return start + math.floor(said) + 1


class Lessons:
    """What a predictor's live jobs will teach it.

    Parameters
    ----------
    predictor : Predictor
        It is taught.
    teach : callable, optional
        Called in the place of its `learn_one`.

    Examples
    --------
    >>> from predictors.registry import make_predictor
    >>> seen = []
    >>> lessons = Lessons(make_predictor("with-budget"), seen.append)
    >>> lessons.submitted(1, np.zeros(2), issued=60.0)
    >>> lessons.started(1, time=100)
    >>> lessons.catch_up(200)
    >>> _ = lessons.ended(1, time=250, seconds=150.0)
    >>> [(one.seconds, one.observed, one.told) for one in seen]
    [(100.0, False, False), (150.0, True, True)]
    """

    def __init__(self, predictor: Predictor, teach: Callable[[Outcome], None] | None = None) -> None:
        self._teach: Final = predictor.learn_one if teach is None else teach
        self._same_second: Final = as_of_rule(predictor.as_of).same_second
        self._width: Final = len(predictor.features)
        self._watches: Final = predictor.learns_from_running
        self._tells: Final = predictor.hears_of_overruns
        self._live: dict[int, tuple[Floats, float]] = {}
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
                row, issued = self._live[job]
                self._due.append(Outcome(row, issued, float(now - start), False, now))
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
        self._live[job] = row, issued

    def started(self, job: int, time: int) -> None:
        """Note that a job runs; of one whose submission was before the lessons began nothing is noted."""
        if (self._watches or self._tells) and job in self._live:
            self._running[job] = time
            if self._tells:
                heapq.heappush(self._overruns, (overrun_at(time, self._live[job][1]), job))

    def ended(self, job: int, time: int, seconds: float, row: Floats | None = None) -> float:
        """Learn from an end, now or when its second is over; return what had been issued, NaN if nothing.

        `row` is that of a job whose submission was before the lessons began; without it nothing is learnt from that.
        """
        known, issued = self._live.pop(job, (row, math.nan))
        self._running.pop(job, None)
        if known is not None:
            self._due.append(Outcome(known, issued, seconds, True, time, job in self._told))
            if self._same_second:
                self.learn_due()
        self._told.discard(job)
        return issued

    def cancelled(self, job: int) -> None:
        """Forget a job that left the queue."""
        self._live.pop(job, None)

    def running(self, now: int) -> Outcomes:
        """Return the jobs that have started and not ended, by start, censored at `now`."""
        lives = [self._live[job] for job in self._running]
        rows = np.array([row for row, _ in lives], dtype=np.float64).reshape(-1, self._width)
        elapsed = now - np.array(list(self._running.values()), dtype=np.int64)
        seen, time = np.zeros(len(lives), dtype=np.bool_), np.full(len(lives), now, dtype=np.int64)
        issued = np.array([said for _, said in lives], dtype=np.float64)
        return Outcomes(rows, issued, elapsed.astype(np.float64), seen, time)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays."""
        rows = np.array([row for row, _ in self._live.values()], dtype=np.float64).reshape(-1, self._width)
        return {
            "jobs": np.array(list(self._live), dtype=np.int64),
            "rows": rows,
            "issued": np.array([issued for _, issued in self._live.values()], dtype=np.float64),
            "running": np.array(list(self._running.items()), dtype=np.int64).reshape(-1, 2),
            "overrun_at": np.array([moment for moment, _ in self._overruns], dtype=np.float64),
            "overrun": np.array([job for _, job in self._overruns], dtype=np.int64),
            "told": np.array(sorted(self._told), dtype=np.int64),
            **Outcomes.stack(self._due, [""] * self._width).arrays("due_"),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on where those stood whose `arrays` are given."""
        known = zip(arrays["rows"], arrays["issued"].tolist(), strict=True)
        self._live = dict(zip(arrays["jobs"].tolist(), known, strict=True))
        self._running = dict(arrays["running"].tolist())
        self._overruns = list(zip(arrays["overrun_at"].tolist(), arrays["overrun"].tolist(), strict=True))
        self._told = set(arrays["told"].tolist())
        self._due = list(Outcomes.from_arrays(arrays, "due_"))
