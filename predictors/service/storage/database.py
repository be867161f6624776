"""The database: engine, ownership, migration and tables.

SQLite: write-ahead log, `synchronous=FULL`: what was committed survives a power cut. The owner holds a lock on the file
itself, by whatever name it goes, which the system takes back however the process ends. PostgreSQL: the owner holds an
advisory lock on its connection.

A migration happens whole or not at all. Of a file of SQLite a copy is made first, `FILE.before-NUMBER`: to go back to
the older version, stop the service, put the copy in the place of FILE and remove `FILE-wal` and `FILE-shm`.
"""

import contextlib
import fcntl
import logging
import os
import re
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    create_engine,
    event,
    false,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from predictors.core.errors import JobcastError, missing
from predictors.service.event import FIELDS
from predictors.service.storage.postgres import STATEMENT_SECONDS, bound_waits

MIGRATIONS: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x6A6F62636173  # "jobcas", our advisory lock's name


class StorageError(Exception):
    """The database cannot be written or read now; nothing was acknowledged."""


def shown(url: str) -> str:
    """Return a database's URL without its password.

    >>> shown("postgresql+psycopg://me:secret@db/jobcast")
    'postgresql+psycopg://me:***@db/jobcast'
    >>> shown("postgresql+psycopg://db/jobcast?user=me&password=secret&sslmode=require")
    'postgresql+psycopg://db/jobcast?user=me&password=***&sslmode=require'
    """
    url = re.sub(r"(?i)(?<=[?&])(password|passfile|sslpassword|sslkey)=[^&]*", r"\1=***", url)
    return re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", url)


def made_engine(url: str) -> Engine:
    """Return the engine of a database, `sqlite:///FILE` or `postgresql+psycopg://…`."""
    parsed = parsed_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql") or parsed.database in (None, "", ":memory:"):
        raise _no_database(url)
    is_file = parsed.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"timeout": STATEMENT_SECONDS} if is_file else _POSTGRES
    try:
        engine = create_engine(parsed, connect_args=options, pool_pre_ping=not is_file)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise _no_database(url) from error
    except ModuleNotFoundError as error:
        raise JobcastError(f"{shown(url)}: {missing(error)}") from error
    if is_file:
        event.listen(engine, "connect", lambda connection, _: _durable(connection))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    else:
        bound_waits(engine)
    return engine


def parsed_url(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _no_database(url) from error


def _no_database(url: str) -> JobcastError:
    return JobcastError(f"{shown(url)!r} is no database: give sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.")


def is_new_file(url: str) -> bool:
    """Return whether a database is a file of SQLite that is not there yet.

    >>> is_new_file("sqlite:////x.db"), is_new_file("postgresql://me@host/jobs")
    (True, False)
    """
    parsed = parsed_url(url)
    path = Path(str(parsed.database)).absolute()
    if parsed.get_backend_name() != "sqlite" or not parsed.database or path.exists():
        return False
    if not path.parent.is_dir():
        raise JobcastError(f"{path}: its folder is not there; make it, or give another --db.")
    return True


_POSTGRES: Final = {
    "connect_timeout": STATEMENT_SECONDS,
    "options": f"-c statement_timeout={1000 * STATEMENT_SECONDS} -c synchronous_commit=on",
}


def _durable(connection: Any) -> None:
    connection.isolation_level = None  # transactions begin where SQLAlchemy begins them, also before CREATE and ALTER
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


class Ownership:
    """The right to write to a database, for one process at a time."""

    def __init__(self, engine: Engine) -> None:
        self._file: int | None = None
        self._path: Path | None = None
        if engine.dialect.name == "sqlite":
            path = self._path = Path(str(engine.url.database)).absolute()
            try:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.release()
                raise JobcastError(f"{path}: another service writes to it; stop that, or give another --db.") from error
            except OSError as error:
                self.release()
                raise JobcastError(f"{path}: cannot be used ({error.strerror}); give another --db.") from error

    def claim(self, connection: Connection) -> None:
        """Claim a new connection of the writer."""
        if connection.dialect.name == "postgresql":
            if not connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _LOCK}).scalar():
                raise JobcastError(f"{shown(str(connection.engine.url))}: another service writes to this database.")
            connection.commit()

    def check(self) -> None:
        """Raise `StorageError` unless the file is the claimed one: SQLite would go on writing to one that is gone."""
        if self._path is not None and self._file is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                    return
            raise StorageError(f"{self._path}: was taken away or replaced; put it back, or start the service again")

    def release(self) -> None:
        """Release the database; only when no connection to it is open: closing a file frees SQLite's own locks."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


HEAD: Final = "0002"  # the newest migration
log = logging.getLogger("jobcast.service")


def version_of(connection: Connection) -> str | None:
    """Return the newest migration that a database has; None if it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def migrate(engine: Engine) -> None:
    """Make the caller's tables, or bring them up to date; refuse those of others or of a newer jobcast."""
    try:
        with engine.connect() as connection:
            version = version_of(connection)
    except SQLAlchemyError as error:  # not taken for a new one: what it is stays unknown for now
        raise unusable(engine, error) from error
    if version == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        if version is not None and version < HEAD and engine.dialect.name == "sqlite":
            log.warning("the database is brought to version %s; %s holds it as it was", HEAD, _copied(engine))
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            if version is None:
                if there := sorted(METADATA.tables.keys() & set(inspect(connection).get_table_names())):
                    raise JobcastError(
                        f"{shown(str(engine.url))}: is another program's, which has a table {there[0]!r}; give an "
                        "empty --db."
                    )
                METADATA.create_all(connection)
                command.stamp(config, "head")
            else:
                command.upgrade(config, "head")
            connection.commit()
    except CommandError as error:
        raise JobcastError(
            f"{shown(str(engine.url))}: was written by another version of jobcast ({error}); upgrade this one, or put "
            "the copy that this version's successor made (FILE.before-NUMBER) in its place."
        ) from error
    except (SQLAlchemyError, OSError) as error:
        raise unusable(engine, error) from error


def unusable(engine: Engine, error: Exception) -> JobcastError:
    """Return an error of a database that cannot be used, which names it."""
    name = shown(str(engine.url))
    return JobcastError(f"{name}: the database cannot be used: {reason_of(error)}; give another --db.")


def reason_of(error: Exception) -> str:
    """Return an error's first line, without the statement and its values."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


def _copied(engine: Engine) -> Path:
    """Copy a file of SQLite as it is; return where to."""
    file = Path(str(engine.url.database))
    copy = file.with_name(f"{file.name}.before-{HEAD}")
    part = copy.with_name(copy.name + ".part")
    part.unlink(missing_ok=True)
    with contextlib.closing(engine.raw_connection()) as connection:
        connection.cursor().execute("VACUUM INTO ?", (str(part),))
    part.replace(copy)
    return copy


METADATA: Final = MetaData()
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by INTEGER only

ACCEPTED: Final = text("effect < 2")
OTHERS: Final = text("effect >= 2")

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    *(
        Column(name, SmallInteger if name in ("kind", "status") else _NUMBER, nullable=False)
        for name in FIELDS
        if name != "sequence"
    ),
    Column("effect", SmallInteger, nullable=False, server_default="0"),
    Index("events_once", "job", "kind", unique=True, sqlite_where=ACCEPTED, postgresql_where=ACCEPTED),
    Index("events_without_effect", "job", sqlite_where=OTHERS, postgresql_where=OTHERS),
)
"""Every event that was acknowledged; the state is a function of those that were not withdrawn.

`effect` is a place in `EFFECTS`: what was applied, or is held, takes the place of (job, kind); anything else does not.
"""

ABOUT: Final = Table(  # what must stay as it was at the first start: fingerprint of the key for names, clock, time zone
    "about", METADATA, Column("name", String(40), primary_key=True), Column("value", String(200), nullable=False)
)

CORRECTIONS: Final = Table(  # what an operator withdrew, erased or let go, when and why: a history, only added to
    "corrections",
    METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("what", String(200), nullable=False),
    Column("why", String(200), nullable=False),
    Column("n_events", _NUMBER, nullable=False),
)

MODELS: Final = Table(  # the models by role, each from a sequence number on, and why: a history that is only added to
    "models",
    METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),
    Column("role", String(16), nullable=False),
    Column("since", _NUMBER, nullable=False),
    Column("at", Float, nullable=False),
    Column("why", String(200), nullable=False),
    Column("uri", String(500), nullable=False),
    Column("name", String(200), nullable=False),
    Column("version", Integer),
    Column("predictor", String(100), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("learns_since", _NUMBER, nullable=False),
)

PREDICTIONS: Final = Table(  # the prediction of each model for each job at its submission
    "predictions",
    METADATA,
    Column("job", _NUMBER, primary_key=True, autoincrement=False),
    Column("role", String(16), primary_key=True),
    Column("model", _NUMBER, nullable=False),
    Column("sequence", _NUMBER, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("lower", Float),
    Column("upper", Float),
    Column("answered_by", String(100), nullable=False),
    Column("fallback", Boolean, nullable=False),
    Index("predictions_by_sequence", "sequence"),
)

SNAPSHOTS: Final = Table(
    "snapshots",
    METADATA,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("arrays", LargeBinary, nullable=False),
    Column("base", Boolean, nullable=False, server_default=false()),
)
"""The state after an event, to begin from when the service starts again.

A base is kept: of the events before it, some are not there any more.
"""
