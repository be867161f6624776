"""The one thread that writes: it commits events in groups, then hands them to the job state and to the learner."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from predictors.core.errors import JobcastError
from predictors.service.event import Event
from predictors.service.state.jobs import JobState
from predictors.service.state.learner import Learner, Worker
from predictors.service.storage.database import StorageError
from predictors.service.storage.store import Receipt, Store

GROUP: Final = 4096  # events of different requests that share one commit, at most
SLICE: Final = 128  # events taken in while questions wait, at most: less than a millisecond
_MOST_KEPT: Final = 500_000

T = TypeVar("T")


class Busy(Exception):
    """Too many events wait; the client must try again later."""


def outcome(future: "Future[T]", stopping: threading.Event) -> T:
    """Wait for what the writer or the learner was asked for; raise JobcastError if the service stops meanwhile."""
    while True:
        try:
            return future.result(0.5)
        except TimeoutError:
            if stopping.is_set():
                raise JobcastError("The service stops.") from None


class _Request(NamedTuple):
    events: Sequence[Event]
    receipts: "Future[list[Receipt]]"


class Writer(Worker):
    """Owner of the store and of the job_state."""

    idle_seconds = 0.2

    def __init__(
        self,
        store: Store,
        job_state: JobState,
        learner: Learner,
        most_pending: int,  # events to wait for their commit, or to be learnt, before new ones are turned away
        # called with a failure that ends the thread: the process must restart from what is stored
        crashed: Callable[[Exception], None],
    ) -> None:
        super().__init__("writer", crashed)
        self._requests: Final[deque[_Request]] = deque()
        self._store, self._job_state, self._learner = store, job_state, learner
        self._most_pending: Final = most_pending
        self._records: list[dict[str, Any]] = []
        self._arrivals: deque[float] = deque()
        self.pending = 0  # events that wait for their commit
        self.trouble: str | None = None  # why the newest commit failed; None if it did not
        self.records_dropped = 0
        self.last_commit: float | None = None  # when events were last committed (Unix time); None before the first

    @property
    def oldest_wait(self) -> float:
        """How long the oldest event without an answer has waited [s]; 0 if none waits."""
        with self._lock:
            return time.monotonic() - self._arrivals[0] if self._arrivals else 0.0

    def put(self, events: Sequence[Event]) -> "Future[list[Receipt]]":
        """Queue the events of one request; return its receipts to come, or the `StorageError`; or raise `Busy`."""
        with self._lock:
            if self.pending + self._learner.pending + len(events) > self._most_pending:
                raise Busy("too many events wait")
            request = _Request(events, Future())
            self._requests.append(request)
            self._arrivals.append(time.monotonic())
            self.pending += len(events)
        self.do(self._commit_requests)
        return request.receipts

    def keep(self, records: Sequence[dict[str, Any]]) -> None:
        """Store predictions of record with the next commit."""
        if not records:
            return
        with self._lock:
            if len(self._records) < _MOST_KEPT:
                self._records.extend(records)
            else:
                self.records_dropped += len(records)  # they are made again when the service next starts

    def flush(self) -> None:
        """Store the predictions of record that are left, once the thread has ended."""
        if self._records:
            self._commit([])

    def idle(self) -> None:
        """Store predictions of record; if nothing can be stored, see whether that has passed."""
        if self._records:
            self._commit([])
        elif self.trouble is not None:
            self._look_again()

    def _commit_requests(self) -> None:
        """Commit the requests that wait, and share a commit; there are none if an earlier commit has taken them in."""
        group, n = list[_Request](), 0
        while self._requests and n < GROUP:
            group.append(self._requests.popleft())
            n += len(group[-1].events)
        if group:
            self._commit(group)

    def _commit(self, requests: list[_Request]) -> None:
        with self._lock:
            records, self._records = self._records, []
        judged: list[tuple[int, list[Event]]] = []
        order = self._job_state.event_order

        def judge(event: Event) -> tuple[str, Sequence[tuple[Event, str]]]:
            effect, possible = order.take(event)
            judged.append((event.sequence, possible))
            return effect, order.changed

        try:
            self.recover()
            with order.trial():
                receipts = self._store.append([event for one in requests for event in one.events], judge, records)
        except StorageError as error:
            self.trouble = str(error)
            self.keep(records)
            for one in requests:
                self._forget(one)
                one.receipts.set_exception(error)
            return
        self.trouble = None  # and whatever the database held beyond what was known has been taken in
        if requests:
            self.last_commit = time.time()
        self._take_in(judged)
        place = 0
        for one in requests:
            mine = receipts[place : place + len(one.events)]
            place += len(one.events)
            self._forget(one)
            one.receipts.set_result(mine)

    def recover(self) -> None:
        """Take in events that a commit stored although it seemed to fail: its answer was lost on the way."""
        if self.trouble is not None and self._store.missed():
            for table in self._store.events_after(self._job_state.sequence):
                events = [Event(*row) for row in table.tolist()]
                self._take_in([(event.sequence, self._job_state.event_order.take(event)[1]) for event in events])

    def _look_again(self) -> None:
        """Check whether the trouble has passed: a client may wait for that before it sends events."""
        try:
            self.recover()
            self._store.check_writing()
            self.trouble = None
        except StorageError as error:
            self.trouble = str(error)

    def _take_in(self, judged: Sequence[tuple[int, Sequence[Event]]]) -> None:
        for i in range(0, len(judged), SLICE):
            part = judged[i : i + SLICE]
            last = part[-1][0]
            happened = self._job_state.apply([event for _, possible in part for event in possible], last)
            self._learner.put(happened, last)

    def _forget(self, request: _Request) -> None:
        with self._lock:
            self.pending -= len(request.events)
            self._arrivals.popleft()  # requests are answered in the order of their arrival
