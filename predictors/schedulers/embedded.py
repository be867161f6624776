"""A service within this process, for an adapter without a separate service.

It takes the same events and gives the same answers as a service over HTTP, and has its own database.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from predictors.core.errors import JobcastError
from predictors.schedulers.forecaster import RefusedEvent, runtime_of
from predictors.service.api.schema import EventIn, JobIn
from predictors.service.client import Event, Job, Runtime
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.service import Service
from predictors.service.storage.database import StorageError

PATIENCE: Final = 60.0  # longest time until events are durable [s]


class Embedded:
    """A service in this process; no other process may own its database."""

    def __init__(self, settings: Settings, key: Pseudonymiser) -> None:
        self._service, self._key = Service(settings, key=key), key
        self._sent = 0  # the newest event: answers know of all that was sent
        self._service.start()
        try:
            self._service.wait()
        except BaseException:
            self._service.stop()
            raise

    def send(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Take in events; they are durable when this returns."""
        try:
            given = [msgspec.convert(dict(one), EventIn).event(self._key) for one in events]
        except msgspec.ValidationError as error:
            raise RefusedEvent(f"an event of the queue: {error}.") from error
        try:
            receipts = self._service.writer.put(given).result(PATIENCE)
        except (TimeoutError, StorageError) as error:
            raise JobcastError(f"events could not be stored: {str(error) or 'it took too long'}.") from error
        self._sent = max((one.sequence for one in receipts), default=self._sent)
        return [{"sequence": one.sequence, "status": one.what} for one in receipts]

    def runtime(self, jobs: Sequence[Job]) -> list[Runtime]:
        """Return the predicted run times of jobs, as if they were submitted now."""
        asked = [msgspec.convert(dict(one), JobIn).codes(self._key) for one in jobs]
        try:
            learnt = self._service.as_at(self._sent, None).result(PATIENCE)
        except TimeoutError as error:
            raise JobcastError(f"the model has not learnt the newest events within {PATIENCE:g} s.") from error
        found = self._service.predict(asked, None, learnt)
        return [runtime_of(one, found.identity, found.sequence) for one in found.answers]

    def close(self) -> None:
        """Keep a snapshot, and give the database back."""
        self._service.stop()
