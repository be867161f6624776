"""The job state: history and live jobs, behind a readers–writer lock; the protocol of forecasts of their starts."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.core.model_files import part
from predictors.history import _layout as at
from predictors.history._rows import Rows
from predictors.history.features import NAMELESS_FEATURES
from predictors.history.history import Job, JobHistory, fits, rows_of_many, take_in_many
from predictors.service.event import FIELDS, UNKNOWN, Event
from predictors.service.settings import Settings
from predictors.service.state.ordering import EventOrder

if TYPE_CHECKING:  # simulations use this without a database
    from predictors.service.storage.snapshots import Arrays, Streamed


class ReadersWriterLock:
    """A readers–writer lock: readers do not wait for one another, so a long question holds up no short one.

    Readers go first: a writer waits for the readers that are there, and for those that come meanwhile; they are brief.

    >>> lock = ReadersWriterLock()
    >>> with lock.reading(), lock.reading():
    ...     pass
    >>> with lock.writing():
    ...     pass
    """

    def __init__(self) -> None:
        self._count_lock: Final = threading.Lock()
        self._write_lock: Final = threading.Lock()
        self._readers = 0

    def __deepcopy__(self, memo: object) -> Self:
        return type(self)()  # a copy has no readers

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Enter as a reader: other readers may enter, writers wait."""
        with self._count_lock:
            self._readers += 1
            if self._readers == 1:
                self._write_lock.acquire()
        try:
            yield
        finally:
            with self._count_lock:
                self._readers -= 1
                if not self._readers:
                    self._write_lock.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Enter as the only one."""
        with self._write_lock:
            yield


EVERY_FEATURE: Final = NAMELESS_FEATURES  # a row holds all there are: a model that comes later finds its own among them
ROWS: Final = "history_rows"  # the array of a snapshot that takes most: it may come as `Rows`
_MANY: Final = 32  # from so many on a slice is cheaper than one after the other
_NOTHING: Final = np.empty(0)


class Happened(NamedTuple):
    """One event that was taken in, with what learners need of it."""

    kind: int
    job: int
    time: int
    row: Floats  # every feature of the job as of its submission; of submissions and ends only
    seconds: float  # run time of an ended job [s]
    sequence: int  # the event's own number


class LiveJob(NamedTuple):
    """A job that waits or runs."""

    job_id: int
    submit: int
    procs: int | None
    requested_time: int | None
    user: int | None
    start: int | None  # None: it waits
    predicted: float | None  # the prediction at its submission [s]


class StartTimes(Protocol):
    """Forecasts starts from the jobs that wait and run; passed in, since the service knows no scheduler."""

    def forecast(self, live: Sequence[LiveJob], now: int, job: LiveJob) -> tuple[int, int, int]:
        """Return the seconds by which the job has started with a chance of 10, 50 and 90 %."""
        ...


class JobState:
    """The history of all jobs as of an event, and the order of events of the live ones."""

    def __init__(
        self,
        *,
        # Unix time [s] of the clock's second 0; None: the clock counts from an unknown moment, no weekday is known then
        epoch: int | None = 0,
        time_zone: str | None = None,  # IANA name of the machine's time zone
        as_of: str = "strict",  # {"strict", "reis"}: what counts as ended at a submission
        capacity: int = 100_000,  # users, and groups of each kind, to remember
        # processors of the machine; None if unknown (no free processors are known then)
        machine_procs: int | None = None,
    ) -> None:
        self._lock: Final = ReadersWriterLock()
        self.history = _counting_late_events(
            JobHistory(
                EVERY_FEATURE, as_of=as_of, epoch=epoch, time_zone=time_zone, capacity=capacity,
                machine_procs=machine_procs,
            )
        )  # fmt: skip
        self.event_order = EventOrder()
        self.sequence = 0  # number of the newest event taken in

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the state of a service with these settings before its first event."""
        return cls(
            epoch=0 if settings.clock == "unix" else None, time_zone=settings.time_zone, as_of=settings.as_of,
            capacity=settings.capacity, machine_procs=settings.machine_procs,
        )  # fmt: skip

    def take(self, events: Sequence[Event]) -> tuple[list[str], list[Happened]]:
        """Take in numbered events; return what became of each, and all that happened, in order."""
        with self._lock.writing():
            effects, order = [], []
            for event in events:
                effect, now_possible = self.event_order.take(event)
                effects.append(effect)
                order.extend(now_possible)
            happened = self._many_or_each(order)
            self.sequence = events[-1].sequence if events else self.sequence
        return effects, happened

    def apply(self, order: Sequence[Event], sequence: int) -> list[Happened]:
        """Take in what the order of events has let happen until an event; return it for learners."""
        with self._lock.writing():
            happened = self._many_or_each(order)
            self.sequence = sequence
        return happened

    def take_table(self, table: Ints, wanted: bool = True) -> list[Happened]:
        """Take in many numbered events, as `take` does one, in order; return all that happened, if wanted."""
        found: list[Happened] = []
        with self._lock.writing():
            jobs, kinds, times = (table[:, column].tolist() for column in (_JOB, _KIND, _TIME))
            begin = 0
            while begin < len(table):
                n = self.event_order.take_regular(jobs[begin:], kinds[begin:], times[begin:])
                regular = table[begin : begin + n]
                if n >= _MANY and fits(self.history, int((regular[:, _KIND] == SUBMITTED).sum())):
                    many = self._many(regular)
                    found.extend(_happened(regular, *many) if wanted else ())
                else:
                    found.extend(self._one(Event(*row)) for row in regular.tolist())
                begin += n
                if begin < len(table):
                    _, now_possible = self.event_order.take(Event(*table[begin].tolist()))
                    found.extend(self._one(event) for event in now_possible)
                    begin += 1
            self.sequence = int(table[-1, -1]) if len(table) else self.sequence
        return found

    def rows(self, jobs: Sequence[Sequence[int]], now: int | None) -> tuple[Floats, int]:
        """Return every feature of jobs if they were submitted at `now`, and the event as of which that is.

        Of a job are given processors, requested time, user, group, executable, queue, partition; -1 is unknown.
        """
        with self._lock.reading():
            moment = now if now is not None else self.history.now or 0
            if len(jobs) < _MANY:
                asked = [Job.coded(0, moment, job) for job in jobs]
                return self.history.rows(asked, moment), self.sequence
            described = np.fromiter(chain.from_iterable(jobs), dtype=np.int64).reshape(len(jobs), -1)
            described = np.insert(described, 0, moment, axis=1)
            return rows_of_many(self.history, described, moment), self.sequence

    @property
    def live(self) -> int:
        """Number of jobs queued and running."""
        return len(self.history)

    def live_jobs(self, predicted: Mapping[int, float]) -> tuple[list[LiveJob], int]:
        """Return the jobs that wait and run, and the second of the newest event."""
        with self._lock.reading():
            slots = self.history.slot_of_job
            records = self.history.tables.jobs[slots.rows()[:, 0]].tolist()
            jobs, now = slots.keys().tolist(), self.history.now or 0
        known = [[None if value < 0 else value for value in one] for one in records]
        return [
            LiveJob(job, one[at.SUBMIT], of[at.PROCS], of[at.REQUESTED], of[at.USER], of[at.START], predicted.get(job))
            for job, one, of in zip(jobs, records, known, strict=True)
        ], now

    def silent(self) -> tuple[Ints, Ints, int]:
        """Return the live jobs, the second from which on an event of each is overdue, and that of the newest event.

        That is the submission of a job that waits, and the requested end of one that runs.
        """
        with self._lock.reading():
            slots = self.history.slot_of_job
            jobs, records = slots.keys(), self.history.tables.jobs[slots.rows()[:, 0]]
            now = self.history.now or 0
        requested_end = records[:, at.START] + np.maximum(records[:, at.REQUESTED], 0)
        return jobs, np.where(records[:, at.START] == at.NONE, records[:, at.SUBMIT], requested_end), now

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def begin(self, history: JobHistory) -> None:
        """Know a history before the first event; events of before its newest one are refused from then on."""
        self.history, self.event_order = _counting_late_events(history), EventOrder(begin=history.now or 0)

    def snapshot(self) -> "tuple[int, Arrays]":
        """Return the event that all this stands behind, and everything as arrays without objects."""
        sequence, streamed = self.streamed_snapshot()
        return sequence, {name: array.whole() if isinstance(array, Rows) else array for name, array in streamed.items()}

    def streamed_snapshot(self) -> "tuple[int, Streamed]":
        """Return what `snapshot` does, for `packed`: what takes most is copied as it is written."""
        with self._lock.reading():
            arrays: Streamed = {f"history_{name}": array for name, array in self.history.streamed_snapshot().items()}
            arrays |= {f"ledger_{name}": array for name, array in self.event_order.snapshot().items()}
            return self.sequence, arrays

    def restore(self, sequence: int, arrays: Mapping[str, Any], is_base: bool = False) -> None:
        """Go on from a snapshot of a service with the same settings; the array `ROWS` may be `Rows`.

        A base, of which no events are left, may be of an earlier version: of the jobs that were live then, features
        that it did not know stay unknown. Other snapshots of earlier versions are made again from the events.
        """
        kept = part(arrays, "history_")
        history = JobHistory.restore(_with_every_feature(kept) if is_base else kept)
        for name in ("features", "as_of", "epoch", "time_zone", "capacity", "machine_procs"):
            if getattr(history, name) != getattr(self.history, name):
                raise JobcastError(f"The snapshot behind event {sequence} was made with another {name}.")
        self.history = _counting_late_events(history)
        self.event_order, self.sequence = EventOrder.restore(part(arrays, "ledger_")), sequence

    # --- small steps --------------------------------------------------------------------------------------------------

    def _one(self, event: Event) -> Happened:
        row, seconds = _NOTHING, 0.0
        if event.kind == SUBMITTED:
            row = self.history.submitted(event.submission, event.time)
        elif event.kind == STARTED:
            self.history.started(event.job, event.time)
        elif event.kind == ENDED:
            outcome = self.history.ended(event.job, event.time, None if event.status == UNKNOWN else event.status)
            row, seconds = outcome.row, outcome.seconds
        elif event.kind == FORGOTTEN:
            self.history.forgotten(event.job, event.time)
        else:
            self.history.cancelled(event.job, event.time)
        return Happened(event.kind, event.job, event.time, row, seconds, event.sequence)

    def _many_or_each(self, events: Sequence[Event]) -> list[Happened]:
        return self._all(events) if len(events) >= _MANY else [self._one(event) for event in events]

    def _all(self, events: Sequence[Event]) -> list[Happened]:
        table = np.fromiter(chain.from_iterable(events), dtype=np.int64).reshape(len(events), len(FIELDS))
        if not fits(self.history, int((table[:, _KIND] == SUBMITTED).sum())):
            return [self._one(event) for event in events]
        return _happened(table, *self._many(table))

    def _many(self, table: Ints) -> tuple[Floats, Ints]:
        kind, time = np.ascontiguousarray(table[:, _KIND]), np.ascontiguousarray(table[:, _TIME])
        described = table[:, [_TIME, *_DESCRIBED]]
        return take_in_many(self.history, time, kind, table[:, _JOB].tolist(), described, table[:, _STATUS])


def _counting_late_events(history: JobHistory) -> JobHistory:
    """Return a history that counts late events in silence: a service shows their number."""
    history.tables.warns = False
    return history


def _with_every_feature(kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a history with the features that came later, which are not known of its jobs."""
    names = kept["features"].tolist()
    if not set(names) < set(EVERY_FEATURE):
        return kept
    narrow, rows = kept["rows"], Rows(len(EVERY_FEATURE))
    for piece in narrow.pieces() if isinstance(narrow, Rows) else [narrow]:
        wide = np.full((len(piece), len(EVERY_FEATURE)), np.nan)
        wide[:, [EVERY_FEATURE.index(name) for name in names]] = piece
        rows.put(range(rows.shape[0], rows.shape[0] + len(piece)), wide)
    return {**kept, "rows": rows, "features": np.array(EVERY_FEATURE)}


_JOB, _KIND, _TIME, _STATUS = (FIELDS.index(name) for name in ("job", "kind", "time", "status"))
_DESCRIBED: Final = [
    FIELDS.index(name) for name in ("procs", "requested_time", "user", "group", "executable", "queue", "partition")
]


def _happened(table: Ints, rows: Floats, seconds: Ints) -> list[Happened]:
    """Return what happened, given rows and run times of the submissions and ends."""
    found_rows = iter(zip(rows, seconds.tolist(), strict=True))
    found = []
    for job, kind, time, sequence in table[:, [_JOB, _KIND, _TIME, -1]].tolist():
        row, ran = next(found_rows) if kind in (SUBMITTED, ENDED) else (_NOTHING, 0.0)
        found.append(Happened(kind, job, time, row, ran if kind == ENDED else 0.0, sequence))
    return found
