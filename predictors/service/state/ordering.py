"""The order of a job's events: the rule for late, early and contradictory ones.

Events are taken in by sequence number, which is the order of their arrival, each with its own time.

* One that cannot happen yet is *held*: a start before its submission, an end before its start. It is taken in right
  after the event that it waits for. At most `most_held` jobs have held events; beyond, those of the job that has waited
  for longest are dropped.
* A cancellation takes a job out of the queue; that of a running job is its end, with status 5 (cancelled).
* One from before the history that the service began with ended is *refused*: that history tells it already.
* One that contradicts what was taken in before is *refused*: a start, an end or a cancellation before its job's
  submission, an end before its job's start or more than `LONGEST_RUN` after it, anything after the end or the
  cancellation. `most_over` jobs are remembered as over; what arrives about older ones is held instead.

* A job is *forgotten* by an event of the service's own: it leaves the queue, or the machine, without a run time.

A second event of the same job and kind comes this far only if the first was refused or dropped
(`predictors.service.storage.store`). The outcome is a function of the sequence alone, so a rebuilt state equals one
that never stopped. An event is judged before it is stored, with its effect; `trial` takes that back if it is not.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.history.keyed_rows import KeyedRows
from predictors.service.event import APPLIED, DROPPED, FIELDS, HELD, REFUSED, Event

CANCELLED_STATUS: Final = 5
_ALWAYS: Final = -(2**62)
LONGEST_RUN: Final = 365 * 86_400  # Slurm plans a job without a limit for so long [s]; beyond, a clock or unit is wrong
_ABSENT: Final = -2  # where a running job has the second of its start, and a waiting one -3 - that of its submission
_AT_ONCE: Final = 512
_JOB, _KIND, _TIME = (FIELDS.index(name) for name in ("job", "kind", "time"))
_Before = tuple[int | None, dict[int, Event] | None, int | None, int | None]


def _waiting_since(submission: int) -> int:
    return -3 - submission


def _earliest(start: int) -> int:
    """Return the second of a live job's start, or while it waits of its submission: nothing else happens before.

    A snapshot of an earlier version has -1 for every job that waits: then any second may be.
    """
    return start if start >= 0 else -3 - start


class EventOrder:
    """The next possible events of each live job, and the events that wait.

    >>> event_order, start = EventOrder(), Event(1, STARTED, 8)
    >>> event_order.take(start)
    ('held', [])
    >>> effect, events = event_order.take(Event(1, SUBMITTED, 5))
    >>> effect, [(event.time, event.kind) for event in events]
    ('applied', [(5, 0), (8, 1)])
    """

    def __init__(
        self,
        most_held: int = 100_000,  # most_held, most_over: jobs to hold events of, and jobs to remember as over
        most_over: int = 100_000,
        begin: int = _ALWAYS,  # second from which on events are taken
    ) -> None:
        self._begin = begin
        self._most_held, self._most_over = most_held, most_over
        self._live: KeyedRows[int] = KeyedRows(1, np.int64)
        self._held: OrderedDict[int, dict[int, Event]] = OrderedDict()
        self._over: OrderedDict[int, int] = OrderedDict()
        self._held_since: dict[int, int] = {}
        self._stamp = 0
        self._before: dict[int, _Before] | None = None
        self.changed: list[tuple[Event, str]] = []  # held events that the newest event freed or ruled out
        self.applied = 0
        self.refused = 0
        self.dropped = 0

    @property
    def held(self) -> int:
        """Number of jobs with events that wait."""
        return len(self._held)

    def take(self, event: Event) -> tuple[str, list[Event]]:
        """Take in one event; return what became of it, and the events that happen now, in order."""
        job = event.job
        self.changed = []
        self._note(job)
        if job in self._over or event.time < self._begin:
            self.refused += 1
            return REFUSED, []
        if not self._may_happen(event):
            if event.kind == FORGOTTEN or self._contradicts(event) or self._is_there(event):
                self.refused += 1
                return REFUSED, []
            self._hold(event)
            return HELD, []
        happened = [self._happens(event)]
        if job not in self._held:
            self.applied += 1
            return APPLIED, happened
        while (waiting := self._held.get(job)) and (following := self._next_of(waiting)):
            del waiting[following.kind]
            if not waiting:
                self._unhold(job)
            self.changed.append((following, APPLIED))
            happened.append(self._happens(following))
        self._refuse_contradictions(job)
        self.applied += len(happened)
        return APPLIED, happened

    def judge(self, table: Ints) -> Iterator[tuple[int, str]]:
        """Take in numbered events; yield number and effect of those that were not simply applied."""
        jobs, kinds, times = (table[:, column].tolist() for column in (_JOB, _KIND, _TIME))
        begin = 0
        while (begin := begin + self.take_regular(jobs[begin:], kinds[begin:], times[begin:])) < len(table):
            event = Event(*table[begin].tolist())
            effect, _ = self.take(event)
            if effect != APPLIED:
                yield event.sequence, effect
            yield from ((one.sequence, now) for one, now in self.changed)
            begin += 1

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take in events that may turn out not to be stored: an exception takes them back."""
        counts, self._before = (self.applied, self.refused, self.dropped), {}
        try:
            yield
        except BaseException:
            for job, (start, *before) in self._before.items():
                self._live.pop(job)
                if start is not None:
                    self._live.put(job, (start,))
                for place, value in zip((self._held, self._held_since, self._over), before, strict=True):
                    place.pop(job, None)  # type: ignore[attr-defined]
                    if value is not None:
                        place[job] = value  # type: ignore[index]
            self._held = OrderedDict(sorted(self._held.items(), key=lambda one: self._held_since[one[0]]))
            self._over = OrderedDict(sorted(self._over.items(), key=lambda one: one[1]))
            self.applied, self.refused, self.dropped = counts
            raise
        finally:
            self._before = None

    def take_regular(self, jobs: Sequence[int], kinds: Sequence[int], times: Sequence[int]) -> int:
        """Take in, as `take` does for each, the first events that are regular; return how many that are."""
        taken = 0
        while taken < len(jobs):
            part = slice(taken, taken + _AT_ONCE)
            n = self._take_part(jobs[part], kinds[part], times[part])
            taken += n
            if n < _AT_ONCE:
                break
        self.applied += taken
        return taken

    def _take_part(self, jobs: Sequence[int], kinds: Sequence[int], times: Sequence[int]) -> int:
        held, over, begin = self._held, self._over, self._begin
        live = dict(zip(jobs, self._live.first_of(jobs, _ABSENT), strict=True))
        changed, taken = dict[int, int](), 0
        for job, kind, time in zip(jobs, kinds, times, strict=True):
            if job in held or job in over or time < begin:
                break
            start = live[job]
            if kind == SUBMITTED:
                if start != _ABSENT:
                    break
                live[job] = changed[job] = _waiting_since(time)
            elif kind == STARTED:
                if start >= 0 or start == _ABSENT or time < _earliest(start):
                    break
                live[job] = changed[job] = time
            elif kind == ENDED and 0 <= start <= time <= start + LONGEST_RUN:
                live[job] = changed[job] = _ABSENT
                self._stamp += 1
                over[job] = self._stamp
                if len(over) > self._most_over:
                    over.popitem(last=False)
            else:
                break
            taken += 1
        self._live.remove_many([job for job, start in changed.items() if start == _ABSENT])
        there = {job: start for job, start in changed.items() if start != _ABSENT}
        self._live.put_many(list(there), list(there.values()))
        return taken

    def _may_happen(self, event: Event) -> bool:
        start = self._live.first(event.job)
        if event.kind == SUBMITTED:
            return start is None
        if start is None or event.kind == FORGOTTEN:
            return start is not None
        if self._contradicts(event):
            return False
        return event.kind == CANCELLED or (start >= 0) == (event.kind == ENDED)

    def _is_there(self, event: Event) -> bool:
        """Return whether another of the kind has taken effect or waits; so it may be when one between was withdrawn."""
        start = self._live.first(event.job)
        happened = start is not None and (event.kind == SUBMITTED or (event.kind == STARTED and start >= 0))
        return happened or event.kind in self._held.get(event.job, ())

    def _contradicts(self, event: Event) -> bool:
        """Return whether the time of a start, an end or a cancellation cannot be, by what has happened to its job."""
        start = self._live.first(event.job)
        if start is None or event.kind in (SUBMITTED, FORGOTTEN):
            return False
        return event.time < _earliest(start) or (start >= 0 and event.time > start + LONGEST_RUN)

    def _refuse_contradictions(self, job: int) -> None:
        waiting = self._held.get(job, {})
        for event in [event for event in waiting.values() if self._contradicts(event)]:
            del waiting[event.kind]
            self.changed.append((event, REFUSED))
            self.refused += 1
        if not waiting:
            self._unhold(job)

    def _happens(self, event: Event) -> Event:
        job = event.job
        if event.kind == SUBMITTED:
            self._live.put(job, (_waiting_since(event.time),))
        elif event.kind == STARTED:
            self._live.put(job, (event.time,))
        else:
            if event.kind == CANCELLED and (self._live.first(job) or 0) >= 0:
                event = event._replace(kind=ENDED, status=CANCELLED_STATUS)
            self._is_over(job)
        return event

    def _next_of(self, waiting: Mapping[int, Event]) -> Event | None:
        for kind in (STARTED, ENDED, CANCELLED):
            if kind in waiting and self._may_happen(waiting[kind]):
                return waiting[kind]
        return None

    def _hold(self, event: Event) -> None:
        if event.job not in self._held:
            self._stamp += 1
            self._held[event.job], self._held_since[event.job] = {}, self._stamp
        self._held[event.job][event.kind] = event
        if len(self._held) > self._most_held:
            oldest = next(iter(self._held))
            self._note(oldest)
            self.changed += [(one, DROPPED) for one in self._unhold(oldest)]
            self.dropped += 1

    def _unhold(self, job: int) -> list[Event]:
        self._held_since.pop(job, None)
        return list(self._held.pop(job, {}).values())

    def _is_over(self, job: int) -> None:
        self._live.pop(job)
        impossible = self._unhold(job)
        self.changed += [(one, REFUSED) for one in impossible]
        self.refused += len(impossible)
        self._stamp += 1
        self._over[job] = self._stamp
        if len(self._over) > self._most_over:
            oldest = next(iter(self._over))
            self._note(oldest)
            del self._over[oldest]

    def _note(self, job: int) -> None:
        """Keep how a job stands before a trial changes it."""
        if self._before is not None and job not in self._before:
            held = self._held.get(job)
            self._before[job] = (
                self._live.first(job), None if held is None else dict(held), self._held_since.get(job),
                self._over.get(job),
            )  # fmt: skip

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as int64 arrays."""
        held = [event for events in self._held.values() for event in events.values()]
        live = np.column_stack([self._live.keys(), self._live.rows()])
        return {
            "live": live[np.argsort(live[:, 0])],
            "held": np.array(held, dtype=np.int64).reshape(-1, len(Event._fields)),
            "over": np.array(list(self._over), dtype=np.int64),
            "counts": np.array([self.applied, self.refused, self.dropped], dtype=np.int64),
            "begin": np.array(self._begin, dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "EventOrder":
        event_order = cls(begin=int(arrays["begin"]) if "begin" in arrays else _ALWAYS)
        event_order._live.put_many(arrays["live"][:, 0], arrays["live"][:, 1])
        for row in arrays["held"].tolist():
            event_order._hold(Event(*row))
        over = arrays["over"].tolist()
        event_order._over = OrderedDict(zip(over, range(event_order._stamp + 1, 1 << 62), strict=False))
        event_order._stamp += len(over)
        event_order.applied, event_order.refused, event_order.dropped = arrays["counts"].tolist()
        return event_order
