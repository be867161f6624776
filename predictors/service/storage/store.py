"""The store: events, models, predictions and snapshots, each stored once and durable before it is acknowledged."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from sqlalchemy import Connection, CursorResult, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.service.event import FIELDS, Event
from predictors.service.storage.database import (
    EVENTS,
    MODELS,
    PREDICTIONS,
    SNAPSHOTS,
    Ownership,
    StorageError,
    made_engine,
    migrate,
)

STORED: Final = "stored"
DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
_SLICE: Final = 20_000
_AT_ONCE: Final = 500  # jobs a query; SQLite takes some thousand parameters
_COLUMNS: Final = [EVENTS.c[name] for name in FIELDS]
_KEPT_SNAPSHOTS: Final = 2


class Receipt(NamedTuple):
    """Receipt of one event: its number, and whether it was new."""

    sequence: int
    """Its number, or that of the one that was there before."""
    what: str
    """`stored`; `duplicate`: the same event was there; `conflict`: another of this job and kind was, which stands."""


class Store:
    """The database of one service. Writing is for one thread, reading for any.

    Parameters
    ----------
    url : str
        See `predictors.service.storage.database`.
    prepare : callable, optional
        Called with each new connection of the driver.

    Raises
    ------
    JobcastError
        If the database cannot be used, or belongs to another process.
    """

    def __init__(self, url: str, prepare: Any = None) -> None:
        self.engine = made_engine(url, prepare)
        self._owner = Ownership(self.engine)
        self._insert: Any = sqlite.insert if self.engine.dialect.name == "sqlite" else postgresql.insert
        self._connection: Connection | None = None
        try:
            self._connected(migrate_first=True)
        except StorageError as error:
            self._owner.release()
            raise JobcastError(str(error)) from error
        except JobcastError:
            self._owner.release()
            raise
        self.last = self.newest()

    # --- writing: one thread ------------------------------------------------------------------------------------------

    def append(
        self, events: Sequence[Event], predictions: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[list[Receipt], list[Event]]:
        """Store events in one transaction; return a receipt each, and those that are new, numbered.

        Raises
        ------
        StorageError
            If they could not be stored: then none is, as far as this process can tell (see `missed`).
        """
        with self._writing() as connection:
            there = self._there(connection, events)
            receipts, new, last = [], [], self.last
            for one in events:
                before = there.get((one.job, one.kind))
                if before is None:
                    last += 1
                    there[one.job, one.kind] = numbered = one._replace(sequence=last)
                    new.append(numbered)
                    receipts.append(Receipt(last, STORED))
                else:
                    receipts.append(Receipt(before.sequence, DUPLICATE if one.described_as(before) else CONFLICT))
            if new:
                connection.execute(insert(EVENTS), [one._asdict() for one in new])
            if predictions:
                statement = self._insert(PREDICTIONS).on_conflict_do_nothing()
                connection.execute(statement, list(predictions))
        self.last = last
        return receipts, new

    def missed(self) -> bool:
        """Return whether the database holds events that this process believes it failed to store."""
        newest = self.newest()
        missed, self.last = newest > self.last, max(newest, self.last)
        return missed

    def record_model(self, row: Mapping[str, Any]) -> int:
        """Add to the history of models; return the number of what was added."""
        with self._writing() as connection:
            number = (connection.execute(select(func.max(MODELS.c.id))).scalar() or 0) + 1
            connection.execute(insert(MODELS), {**row, "id": number, "at": time.time()})
        return int(number)

    def keep_snapshot(self, sequence: int, arrays: bytes) -> None:
        """Keep the state after an event; of older ones only the newest stays, and what the service began with."""
        with self._writing() as connection:
            connection.execute(self._insert(SNAPSHOTS).on_conflict_do_nothing(), {
                "sequence": sequence, "at": time.time(), "arrays": arrays})  # fmt: skip
            kept = select(SNAPSHOTS.c.sequence).order_by(SNAPSHOTS.c.sequence.desc()).limit(_KEPT_SNAPSHOTS)
            connection.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.sequence.not_in(kept), SNAPSHOTS.c.sequence > 0))

    def close(self) -> None:
        """Give the database back."""
        self._drop_connection()
        self.engine.dispose()
        self._owner.release()

    # --- reading ------------------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """Return the newest sequence number; 0 before the first event."""
        return int(self._rows(select(func.coalesce(func.max(EVENTS.c.sequence), 0)))[0][0])

    def events_after(self, sequence: int) -> Iterator[Ints]:
        """Yield the events after one in order, slice by slice: int64 of shape (n_events, n_fields)."""
        while True:
            query = select(*_COLUMNS).where(EVENTS.c.sequence > sequence).order_by(EVENTS.c.sequence).limit(_SLICE)
            found = self._numbers(query)
            if not len(found):
                return
            sequence = int(found[-1, -1])
            yield found

    def events_of(self, job: int) -> list[Event]:
        """Return the events of a job, by sequence."""
        query = select(*_COLUMNS).where(EVENTS.c.job == job).order_by(EVENTS.c.sequence)
        return [Event(*row) for row in self._rows(query)]

    def predictions_of(self, jobs: Sequence[int]) -> list[dict[str, Any]]:
        """Return what models predicted for jobs at their submission, each with its model's identity."""
        return [
            dict(row._mapping)
            for i in range(0, len(jobs), _AT_ONCE)
            for row in self._rows(
                select(PREDICTIONS, MODELS.c.name, MODELS.c.version, MODELS.c.predictor)
                .join(MODELS, MODELS.c.id == PREDICTIONS.c.model)
                .where(PREDICTIONS.c.job.in_(jobs[i : i + _AT_ONCE]))
            )
        ]

    def newest_prediction(self, role: str) -> int:
        """Return the sequence number of the newest prediction that is kept of a role; 0 if there is none."""
        query = select(func.coalesce(func.max(PREDICTIONS.c.sequence), 0)).where(PREDICTIONS.c.role == role)
        return int(self._rows(query)[0][0])

    def models(self) -> list[dict[str, Any]]:
        """Return the history of models, oldest first."""
        return [dict(row._mapping) for row in self._rows(select(MODELS).order_by(MODELS.c.id))]

    def snapshot(self) -> tuple[int, bytes] | None:
        """Return the newest snapshot and the event that it stands behind."""
        query = select(SNAPSHOTS.c.sequence, SNAPSHOTS.c.arrays).where(SNAPSHOTS.c.sequence > 0)
        found = self._rows(query.order_by(SNAPSHOTS.c.sequence.desc()).limit(1))
        return (int(found[0][0]), bytes(found[0][1])) if found else None

    def newest_snapshot(self) -> tuple[int, float | None]:
        """Return the event behind which the newest snapshot stands, and when it was stored (Unix time); 0, None."""
        query = select(SNAPSHOTS.c.sequence, SNAPSHOTS.c.at).where(SNAPSHOTS.c.sequence > 0)
        found = self._rows(query.order_by(SNAPSHOTS.c.sequence.desc()).limit(1))
        return (int(found[0][0]), float(found[0][1])) if found else (0, None)

    def first_history(self) -> bytes | None:
        """Return what was kept behind event 0: what the service knew before its first event."""
        found = self._rows(select(SNAPSHOTS.c.arrays).where(SNAPSHOTS.c.sequence == 0))
        return bytes(found[0][0]) if found else None

    # --- small steps --------------------------------------------------------------------------------------------------

    def _there(self, connection: Connection, events: Sequence[Event]) -> dict[tuple[int, int], Event]:
        """Return the stored events of the jobs in question."""
        jobs = list({one.job for one in events})
        found = (
            Event(*row)
            for i in range(0, len(jobs), _AT_ONCE)
            for row in connection.execute(select(*_COLUMNS).where(EVENTS.c.job.in_(jobs[i : i + _AT_ONCE])))
        )
        return {(one.job, one.kind): one for one in found}

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Yield the connection, and commit what was done; where that fails, begin anew with another connection."""
        connection = self._connected()
        try:
            yield connection
            connection.commit()
        except SQLAlchemyError as error:
            self._drop_connection()
            raise StorageError(_reason(error)) from error

    @contextmanager
    def _result(self, query: Any) -> Iterator[CursorResult[Any]]:
        self._owner.check()
        try:
            with self.engine.connect() as connection:
                yield connection.execute(query)
        except SQLAlchemyError as error:
            raise StorageError(_reason(error)) from error

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._result(query) as result:
            return result.fetchall()

    def _numbers(self, query: Any) -> Ints:
        """Return rows of whole numbers, straight from the driver: SQLAlchemy's rows cost four times as much."""
        with self._result(query) as result:
            rows = [] if result.cursor is None else result.cursor.fetchall()
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows) * len(FIELDS))
        return flat.reshape(-1, len(FIELDS))

    def _connected(self, migrate_first: bool = False) -> Connection:
        self._owner.check()
        if self._connection is None:
            try:
                self._connection = self.engine.connect()
                self._owner.claim(self._connection)
                if migrate_first:
                    migrate(self.engine)
            except (SQLAlchemyError, JobcastError) as error:
                self._drop_connection()
                raise StorageError(_reason(error)) from error
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                pass


def _reason(error: Exception) -> str:
    """Return an error's first line, without the statement and its values."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


__all__ = ["CONFLICT", "DUPLICATE", "STORED", "Receipt", "StorageError", "Store"]
