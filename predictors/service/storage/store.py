"""The store: events, models, predictions and snapshots, each stored once and durable before it is acknowledged.

A receipt follows the commit (`state.writer`), and a commit survives a power cut (`database`).
"""

import io
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from sqlalchemy import Connection, CursorResult, bindparam, delete, func, insert, select, union_all, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.service.event import APPLIED, EFFECTS, FIELDS, HELD, REFUSED, WITHDRAWN, Event
from predictors.service.storage.database import (
    ABOUT,
    ACCEPTED,
    EVENTS,
    MODELS,
    OTHERS,
    PREDICTIONS,
    SNAPSHOTS,
    Ownership,
    StorageError,
    made_engine,
    migrate,
    reason_of,
    unusable,
)
from predictors.service.storage.snapshots import PIECE

DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
_SLICE: Final = 20_000
_AT_ONCE: Final = 500  # jobs a query; SQLite takes some thousand parameters
_COLUMNS: Final = [EVENTS.c[name] for name in FIELDS]
_KEPT_SNAPSHOTS: Final = 2


class Receipt(NamedTuple):
    """Receipt of one event: its number, and what became of it."""

    sequence: int  # its number, or that of the one that was there before
    what: str
    """`applied`, `held` or `refused`; `duplicate`: the same event was there; `conflict`: another of this job and kind
    was, which stands."""


class Stored(NamedTuple):
    """An event as the database holds it, and what became of it."""

    event: Event
    effect: str


Judge = Callable[[Event], tuple[str, Sequence[tuple[Event, str]]]]
"""Says what becomes of a numbered event, and of events before it that were held until now."""


class Store:
    """The database of one service. Writing is for one thread, reading for any."""

    def __init__(self, url: str) -> None:
        self.engine = made_engine(url)
        self._owner = Ownership(self.engine)
        self._insert: Any = sqlite.insert if self.engine.dialect.name == "sqlite" else postgresql.insert
        self._connection: Connection | None = None
        try:
            self._connected(migrate_first=True)
            self.last = self.newest()
        except (StorageError, SQLAlchemyError) as error:
            self._drop_connection()
            self._owner.release()
            raise unusable(self.engine, error) from error
        except JobcastError:
            self._owner.release()
            raise

    # --- writing: one thread ------------------------------------------------------------------------------------------

    def append(
        self, events: Sequence[Event], judge: Judge | None = None, predictions: Sequence[Mapping[str, Any]] = ()
    ) -> list[Receipt]:
        """Store events in one transaction, each with what becomes of it; return a receipt each.

        An event is new unless one of its job and kind has taken effect, or waits. One that was refused is judged again
        as soon as anything else has been stored of its job.
        A StorageError says that none is stored, as far as this process can tell (see `missed`).
        """
        with self._writing() as connection:
            there, newest = self._there(connection, events)
            receipts, new, last = [], dict[int, Stored](), self.last
            changed: dict[int, str] = {}
            for one in events:
                before = there.get((one.job, one.kind))
                if before is not None and before.effect in (APPLIED, HELD):
                    same = one.described_as(before.event)
                    receipts.append(Receipt(before.event.sequence, DUPLICATE if same else CONFLICT))
                    continue
                newer = before is None or newest[one.job] > before.event.sequence
                if before is not None and not newer and before.effect == REFUSED and one.described_as(before.event):
                    receipts.append(Receipt(before.event.sequence, REFUSED))
                    continue
                last += 1
                numbered = one._replace(sequence=last)
                effect, others = (APPLIED, ()) if judge is None else judge(numbered)
                new[last] = there[one.job, one.kind] = Stored(numbered, effect)
                newest[one.job] = last
                for other, now in others:
                    if other.sequence in new:
                        new[other.sequence] = Stored(other, now)
                    else:
                        changed[other.sequence] = now
                    there[other.job, other.kind] = Stored(other, now)
                receipts.append(Receipt(last, effect))
            write_effects(connection, changed)
            if new:
                rows = [{**one._asdict(), "effect": EFFECTS.index(effect)} for one, effect in new.values()]
                connection.execute(insert(EVENTS), rows)
            if predictions:
                statement = self._insert(PREDICTIONS).on_conflict_do_nothing()
                connection.execute(statement, list(predictions))
        self.last = last
        return receipts

    def check_writing(self) -> None:
        """Write what is there already; a `StorageError` says that the database cannot be written now."""
        with self._writing() as connection:
            connection.execute(update(ABOUT).values(value=ABOUT.c.value))

    def note(self, name: str, value: str) -> None:
        """Keep a fact about the service that must not change."""
        with self._writing() as connection:
            connection.execute(delete(ABOUT).where(ABOUT.c.name == name))
            connection.execute(insert(ABOUT), {"name": name, "value": value})

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

    def scratch(self) -> BinaryIO:
        """Return an empty file without a name, for a snapshot; it is gone with its last use, however the process ends.

        It lies next to SQLite's file, where there has to be room for the snapshot anyway; with PostgreSQL in TMPDIR.
        Any thread may ask for one.
        """
        is_file = self.engine.dialect.name == "sqlite"
        folder = Path(str(self.engine.url.database)).absolute().parent if is_file else None
        file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller's
        return file

    def keep_snapshot(self, sequence: int, stored: bytes | BinaryIO) -> None:
        """Keep the state after an event; of older ones only the newest stays, and what the service began with.

        One that stands behind the same event, which may be damaged, is replaced, unless it is a base.
        A StorageError says that it could not be, or the file not be read: the older ones stay.
        """
        file = io.BytesIO(stored) if isinstance(stored, bytes) else stored
        is_file = self.engine.dialect.name == "sqlite"
        with self._writing() as connection:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            row: dict[str, Any] = {"sequence": sequence, "at": time.time()}
            row["arrays"] = (
                func.zeroblob(size) if is_file else file.read()
            )  # SQLite would copy a value that it is given
            same = (SNAPSHOTS.c.sequence == sequence, SNAPSHOTS.c.base.is_(False))
            connection.execute(delete(SNAPSHOTS).where(*same))
            found = connection.execute(self._insert(SNAPSHOTS).values(row).on_conflict_do_nothing())
            if found.rowcount and is_file:
                _fill(connection, sequence, file)
            kept = select(SNAPSHOTS.c.sequence).order_by(SNAPSHOTS.c.sequence.desc()).limit(_KEPT_SNAPSHOTS)
            old = (SNAPSHOTS.c.sequence.not_in(kept), SNAPSHOTS.c.sequence > 0, SNAPSHOTS.c.base.is_(False))
            connection.execute(delete(SNAPSHOTS).where(*old))

    @contextmanager
    def correcting(self) -> Iterator[Connection]:
        """Yield the connection for a correction: one transaction, all or nothing."""
        try:
            with self._writing() as connection:
                yield connection
        except JobcastError:
            self._drop_connection()
            raise

    def vacuum(self) -> None:
        """Overwrite what was deleted, where the database is a file; if that fails, it can still be found there."""
        if self.engine.dialect.name == "sqlite":
            self._drop_connection()
            try:
                with closing(self.engine.raw_connection()) as connection:
                    for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                        connection.cursor().execute(statement)
            except sqlite3.Error as error:
                raise JobcastError(
                    f"{self.engine.url.database}: was corrected, but what was removed can still be found in the file "
                    f"({reason_of(error)}); make room for a copy of it next to it and run VACUUM on it."
                ) from error

    def close(self) -> None:
        self._drop_connection()
        self.engine.dispose()
        self._owner.release()

    # --- reading ------------------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """Return the newest sequence number ever given, the base's where later ones are gone; 0 before the first."""
        return max(int(self._rows(select(func.coalesce(func.max(EVENTS.c.sequence), 0)))[0][0]), self.base())

    def events_after(self, sequence: int, connection: Connection | None = None) -> Iterator[Ints]:
        """Yield slices of the events after one, shape (n_events, n_fields), as a connection's transaction sees them."""
        while True:
            there = (EVENTS.c.sequence > sequence, EVENTS.c.effect != EFFECTS.index(WITHDRAWN))
            query = select(*_COLUMNS).where(*there).order_by(EVENTS.c.sequence).limit(_SLICE)
            found = self._numbers(query, connection)
            if not len(found):
                return
            sequence = int(found[-1, -1])
            yield found

    def events_of(self, job: int) -> list[Stored]:
        """Return the events of a job, by sequence, each with what became of it."""
        return sorted((_stored(row) for row in self._rows(_of_jobs([job]))), key=lambda one: one.event.sequence)

    def about(self) -> dict[str, str]:
        """Return the facts about the service that must not change."""
        return dict(self._rows(select(ABOUT.c.name, ABOUT.c.value)))

    def predictions_of(self, jobs: Sequence[int]) -> list[dict[str, Any]]:
        """Return what models predicted for jobs at their submission, each with its model's identity."""
        return [
            dict(row._mapping)
            for some in parts(jobs)
            for row in self._rows(
                select(PREDICTIONS, MODELS.c.name, MODELS.c.version, MODELS.c.predictor)
                .join(MODELS, MODELS.c.id == PREDICTIONS.c.model)
                .where(PREDICTIONS.c.job.in_(some))
            )
        ]

    def newest_prediction(self, role: str) -> int:
        """Return the sequence number of the newest prediction that is kept of a role; 0 if there is none."""
        query = select(func.coalesce(func.max(PREDICTIONS.c.sequence), 0)).where(PREDICTIONS.c.role == role)
        return int(self._rows(query)[0][0])

    def models(self) -> list[dict[str, Any]]:
        """Return the history of models, oldest first."""
        return [dict(row._mapping) for row in self._rows(select(MODELS).order_by(MODELS.c.id))]

    def snapshots(self) -> Generator[tuple[int, BinaryIO]]:
        """Yield the snapshots, newest first: the event that each stands behind, and its file, open until the next."""
        found = self._rows(select(SNAPSHOTS.c.sequence).where(SNAPSHOTS.c.sequence > 0))
        for sequence in sorted((int(row[0]) for row in found), reverse=True):
            with self._opened(sequence) as file:
                if file is not None:
                    yield sequence, file

    def base(self) -> int:
        """Return the event behind which the base stands that rebuilding needs; 0 if there is none."""
        query = select(func.coalesce(func.max(SNAPSHOTS.c.sequence), 0)).where(SNAPSHOTS.c.base.is_(True))
        return int(self._rows(query)[0][0])

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

    @contextmanager
    def _opened(self, sequence: int) -> Iterator[BinaryIO | None]:
        """Yield what is kept behind an event, to be read piece by piece; None if there is nothing."""
        content, this = SNAPSHOTS.c.arrays, SNAPSHOTS.c.sequence == sequence
        with self._result(select(func.length(content)).where(this)) as result:
            size, connection = result.scalar(), result.connection
            if size is None:
                yield None
            elif self.engine.dialect.name == "sqlite":
                driver: Any = connection.connection.driver_connection
                with driver.blobopen(SNAPSHOTS.name, content.name, sequence, readonly=True) as room:
                    yield io.BufferedReader(_Kept(size, lambda first, n: bytes(room[first : first + n])), PIECE)
            else:

                def piece(first: int, n: int) -> bytes:
                    try:
                        found = connection.execute(select(func.substr(content, first + 1, n)).where(this)).scalar()
                    except OperationalError as error:  # the database, and not what it holds
                        raise StorageError(reason_of(error)) from error
                    return bytes(found or b"")

                yield io.BufferedReader(_Kept(size, piece), PIECE)

    def _there(
        self, connection: Connection, events: Sequence[Event]
    ) -> tuple[dict[tuple[int, int], Stored], dict[int, int]]:
        """Return the stored events of the jobs in question, one of a kind, and the newest number of each job."""
        jobs = list({one.job for one in events})
        there: dict[tuple[int, int], Stored] = {}
        newest: dict[int, int] = {}
        for some in parts(jobs):
            for row in connection.execute(_of_jobs(some)):
                one = _stored(row)
                job, sequence = one.event.job, one.event.sequence
                before = there.get((job, one.event.kind))
                if before is None or (one.effect in (APPLIED, HELD), sequence) > (
                    before.effect in (APPLIED, HELD),
                    before.event.sequence,
                ):
                    there[job, one.event.kind] = one
                newest[job] = max(sequence, newest.get(job, 0))
        return there, newest

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Yield the connection, and commit what was done; where that fails, start again with another connection."""
        connection = self._connected()
        try:
            yield connection
            connection.commit()
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:  # the driver's own where a snapshot is filled in
            self._drop_connection()
            raise StorageError(reason_of(error)) from error

    @contextmanager
    def _result(self, query: Any) -> Iterator[CursorResult[Any]]:
        self._owner.check()
        try:
            with self.engine.connect() as connection:
                yield connection.execute(query)
        except (SQLAlchemyError, sqlite3.Error) as error:  # the driver's own where a snapshot is opened
            raise StorageError(reason_of(error)) from error

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._result(query) as result:
            return result.fetchall()

    def _numbers(self, query: Any, connection: Connection | None) -> Ints:
        """Return rows of whole numbers, straight from the driver: SQLAlchemy's rows cost four times as much."""
        with self._result(query) if connection is None else nullcontext(connection.execute(query)) as result:
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
                if migrate_first:
                    raise
                raise StorageError(reason_of(error)) from error
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()


def parts(jobs: Sequence[int]) -> list[Sequence[int]]:
    """Return jobs in parts, each for one query."""
    return [jobs[i : i + _AT_ONCE] for i in range(0, len(jobs), _AT_ONCE)]


class _Kept(io.RawIOBase):
    """The bytes of a snapshot, fetched from the database by offset and number."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch, self._at = size, fetch, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, room: Any) -> int:
        found = self._fetch(self._at, min(len(room), self._size - self._at))
        room[: len(found)] = found
        self._at += len(found)
        return len(found)


def _of_jobs(jobs: Sequence[int]) -> Any:
    """Return the query for all events of some jobs; each half has an index of its own."""
    columns = [*_COLUMNS, EVENTS.c.effect]
    halves = (select(*columns).where(EVENTS.c.job.in_(jobs), part) for part in (ACCEPTED, OTHERS))
    return union_all(*halves)


def _stored(row: Sequence[Any]) -> Stored:
    return Stored(Event(*row[:-1]), EFFECTS[row[-1]])


def _fill(connection: Connection, sequence: int, file: BinaryIO) -> None:
    """Write a snapshot into the room that a file of SQLite has for it, piece by piece."""
    driver: Any = connection.connection.driver_connection
    with driver.blobopen(SNAPSHOTS.name, "arrays", sequence) as room:
        while piece := file.read(PIECE):
            room.write(piece)


def write_effects(connection: Connection, effects: Mapping[int, str]) -> None:
    """Note what became of events, by number, as part of a transaction."""
    if effects:
        statement = update(EVENTS).where(EVENTS.c.sequence == bindparam("which")).values(effect=bindparam("now"))
        rows = [{"which": which, "now": EFFECTS.index(now)} for which, now in effects.items()]
        connection.execute(statement, rows)
