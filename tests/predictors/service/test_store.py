"""The database, SQLite and PostgreSQL: each event once, numbered, durable; one owner."""

import contextlib
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.event import listens_for
from sqlalchemy.exc import OperationalError

from predictors.core.errors import JobcastError
from predictors.core.events import CANCELLED, ENDED, STARTED, SUBMITTED
from predictors.service.client import ServiceError
from predictors.service.event import Event
from predictors.service.settings import Settings
from predictors.service.state.ordering import EventOrder
from predictors.service.state.service import Service
from predictors.service.storage.database import HEAD, METADATA, StorageError, made_engine
from predictors.service.storage.snapshots import packed, unpacked
from predictors.service.storage.store import Store
from tests.predictors.service import test_api as posted
from tests.support.killing import kill_again_and_again, kill_in_migration
from tests.support.older_database import older
from tests.support.postgres import Postgres
from tests.support.service_in_thread import running


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def store(url):
    store = Store(url)
    yield store
    store.close()


def test_events_are_numbered_in_order_and_stored_once(store):
    first, second = Event(1, SUBMITTED, 5, user=3), Event(1, STARTED, 6)
    assert store.append([first, second, first]) == [(1, "applied"), (2, "applied"), (1, "duplicate")]
    assert store.append([first._replace(user=4), second, Event(2, SUBMITTED, 7)]) == [
        (1, "conflict"),
        (2, "duplicate"),
        (3, "applied"),
    ]
    assert [one.event for one in store.events_of(1)] == [first._replace(sequence=1), second._replace(sequence=2)]
    assert [table[:, -1].tolist() for table in store.events_after(1)] == [[2, 3]]


def judged(store, order, events):
    """Store events as the writer does, each judged before."""
    with order.trial():
        return [receipt.what for receipt in store.append(events, lambda one: (order.take(one)[0], order.changed))]


def test_what_was_refused_or_dropped_does_not_take_the_place_of_the_right_one(store):
    order = EventOrder(most_held=2)
    life = [Event(1, SUBMITTED, 0), Event(1, STARTED, 100), Event(1, ENDED, 90), Event(1, ENDED, 90)]
    assert judged(store, order, [*life, Event(1, ENDED, 200), Event(1, ENDED, 200), Event(1, ENDED, 90)]) == [
        "applied", "applied", "refused", "refused", "applied", "duplicate", "conflict",
    ]  # fmt: skip
    assert [(one.event.time, one.effect) for one in store.events_of(1)] == [
        (0, "applied"), (100, "applied"), (90, "refused"), (200, "applied"),
    ]  # fmt: skip
    starts = [Event(job, STARTED, 5) for job in (11, 12, 13)]
    assert judged(store, order, starts) == ["held"] * 3
    assert store.events_of(11)[0].effect == "dropped"
    assert judged(store, order, [starts[0], Event(11, SUBMITTED, 1)]) == ["held", "applied"]
    assert [one.effect for one in store.events_of(11)] == ["dropped", "applied", "applied"]
    early = [Event(21, ENDED, 5), Event(21, SUBMITTED, 1), Event(21, STARTED, 6), Event(21, ENDED, 9)]
    assert judged(store, order, early) == ["held", "applied", "applied", "applied"]
    assert [one.effect for one in store.events_of(21)] == ["refused", "applied", "applied", "applied"]


def test_what_could_not_be_stored_was_never_judged(store):
    """The order of events is what it was, whatever a commit that fails would have done to it."""
    order = EventOrder(most_held=2, most_over=2)
    for job in range(4):
        judged(store, order, [Event(job, SUBMITTED, 0), Event(job, STARTED, 1), Event(job, ENDED, 2)])
    judged(store, order, [Event(10, STARTED, 5), Event(11, STARTED, 5), Event(12, SUBMITTED, 5)])
    before = order.snapshot()
    bad = [Event(10, ENDED, 7), Event(13, STARTED, 5), Event(12, CANCELLED, 6), Event(14, SUBMITTED, 1),
           Event(11, SUBMITTED, 1), Event(14, 1 << 70, 1)]  # fmt: skip
    with pytest.raises((OverflowError, StorageError)):
        judged(store, order, bad)
    for name, array in order.snapshot().items():
        assert array.tolist() == before[name].tolist(), name
    assert store.last == store.newest() == 15


def test_an_older_database_is_brought_up_to_date(tmp_path):
    """A refused end of an older version lets the right one in; the copy is the way back."""
    path = tmp_path / "s.db"
    events = [Event(60, SUBMITTED, 1000), Event(60, STARTED, 1010), Event(60, ENDED, 1000), Event(61, STARTED, 5)]
    older(path, events)
    with running(tmp_path, db=f"sqlite:///{path}") as one, one.client(retries=0) as client:
        assert client.job(60)["state"] == "running" and client.job(60)["refused"] == 1
        assert client.job(61)["state"] == "held"
        assert client.send([{"kind": "ended", "job_id": 60, "time": 1100}])[0]["status"] == "applied"
        assert client.job(60)["run_time"] == 90
    with sqlite3.connect(f"{path}.before-0002") as copy:
        assert copy.execute("select version_num from alembic_version").fetchall() == [("0001",)]
        assert copy.execute("select count(*) from events").fetchall() == [(4,)]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("CREATE", "DROP", "UPDATE")]


@pytest.mark.parametrize("statement", ["ALTER", *SLOW])
def test_a_migration_that_is_killed_has_not_happened(tmp_path, statement):
    """Whatever statement it dies at: the next start does it whole."""
    path = tmp_path / "s.db"
    older(path, [Event(job, SUBMITTED, job) for job in range(50)])
    code = f"""
import os
from sqlalchemy import event
from predictors.service.state.ordering import EventOrder
from predictors.service.storage.database import made_engine, migrate
engine = made_engine({f"sqlite:///{path}"!r})
@event.listens_for(engine, "after_cursor_execute")
def after(connection, cursor, text, *_):
    if text.strip().upper().startswith({statement!r}):
        os._exit(9)
migrate(engine)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    with sqlite3.connect(path) as raw:
        assert raw.execute("select version_num from alembic_version").fetchall() == [("0001",)]
        assert "effect" not in str(raw.execute("select sql from sqlite_master").fetchall())
    raw.close()
    store = Store(f"sqlite:///{path}")
    assert store.last == 50
    store.close()


def test_what_is_stored_is_there_when_the_store_is_opened_again(url):
    store = Store(url)
    store.append([Event(1, SUBMITTED, 5)])
    number = store.record_model(
        {"role": "champion", "why": "w", "since": 0, "learns_since": 0, "uri": "u", "name": "n", "version": None,
         "predictor": "p", "sha256": ""}
    )  # fmt: skip
    record = {"job": 1, "role": "champion", "model": number, "sequence": 1, "seconds": 60.0, "lower": None,
              "upper": None, "answered_by": "p", "fallback": False}  # fmt: skip
    store.append([], predictions=[record, record])
    for sequence in (1, 2, 3):
        store.keep_snapshot(sequence, b"%d" % sequence)
    store.close()
    store = Store(url)
    assert store.last == 1
    assert store.newest_prediction("champion") == 1 and store.newest_prediction("challenger") == 0
    assert store.predictions_of([1, 2])[0]["name"] == "n"
    assert [(n, file.read()) for n, file in store.snapshots()] == [(3, b"3"), (2, b"2")]
    assert [row["why"] for row in store.models()] == ["w"]
    with store.engine.connect() as connection:
        assert connection.execute(text("select count(*) from snapshots")).scalar() == 2
        assert connection.execute(text("pragma synchronous")).scalar() == 2
        assert connection.execute(text("pragma journal_mode")).scalar() == "wal"
    store.close()


def test_a_file_has_one_owner_by_whatever_name_and_without_its_lock_file(tmp_path, url, store):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.db").symlink_to(tmp_path / "service.db")
    for path in tmp_path.glob("*.lock"):
        path.unlink()
    for other in (url, f"sqlite:///{tmp_path}/elsewhere/other.db"):
        with pytest.raises(JobcastError, match="another service writes to it"):
            Store(other)
    store.append([Event(1, SUBMITTED, 5)])


def test_a_full_disk_stores_nothing_and_passes(url):
    store, limits = Store(url), {"pages": 40}
    store.append([Event(1, SUBMITTED, 5)])

    @listens_for(store.engine, "connect")
    def limit(connection, _):
        connection.execute(f"PRAGMA max_page_count={limits['pages']}")

    store._drop_connection()
    store.engine.dispose()
    with pytest.raises(StorageError, match="full"):
        for job in range(2, 3000, 100):
            store.append([Event(job + i, SUBMITTED, 5) for i in range(100)])
    stored = store.newest()
    assert store.last == stored and not store.missed()
    limits["pages"] = 1 << 30
    store.engine.dispose()
    receipts = store.append([Event(9_999, SUBMITTED, 5)])
    assert receipts[0].sequence == stored + 1
    store.close()


def test_events_that_were_stored_though_the_answer_was_lost_are_found(store):
    store.append([Event(1, SUBMITTED, 5)])
    with sqlite3.connect(store.engine.url.database) as other:  # stands for a commit whose answer never came
        other.execute("insert into events select 2, job, 1, 6, -1, -1, -1, -1, -1, -1, -1, -1, 0 from events")
    assert store.missed() and store.last == 2
    assert not store.missed()
    assert store.append([Event(1, STARTED, 6), Event(1, ENDED, 9)]) == [(2, "duplicate"), (3, "applied")]


def test_a_newer_database_is_refused(url):
    Store(url).close()
    with sqlite3.connect(url.removeprefix("sqlite:///")) as other:
        other.execute("update alembic_version set version_num = '9999'")
    with pytest.raises(JobcastError, match="another version of jobcast"):
        Store(url)


@pytest.mark.parametrize(
    "url", ["sqlite://", "mysql://x/y", "nonsense", "sqlite:///:memory:", "sqlite:////proc/x/y.db"]
)
def test_other_databases_are_refused(url):
    with pytest.raises(JobcastError):
        Store(url)


def test_a_snapshot_behind_the_same_event_is_replaced_unless_it_is_a_base(store):
    for kept in (b"damaged", b"whole"):
        store.keep_snapshot(7, kept)
    assert [(n, file.read()) for n, file in store.snapshots()] == [(7, b"whole")]
    with store.engine.begin() as connection:
        connection.execute(text("update snapshots set base = 1"))
    store.keep_snapshot(7, b"other")
    assert [(n, file.read()) for n, file in store.snapshots()] == [(7, b"whole")]


@pytest.mark.parametrize("table", ["events", "models"])
def test_another_programs_tables_are_refused_and_left_as_they_are(tmp_path, url, table):
    path = tmp_path / "service.db"
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(f"create table {table} (a integer)")
    with pytest.raises(JobcastError, match=f"another program's, which has a table '{table}'; give an empty"):
        Store(url)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("select name from sqlite_master").fetchall() == [(table,)]


def test_a_database_without_a_version_is_new_only_if_that_could_be_read(tmp_path, url, monkeypatch):
    path = tmp_path / "service.db"
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("create table alembic_version (version_num varchar(32) not null primary key)")
    Store(url).close()
    path.unlink()
    older(path, [Event(1, SUBMITTED, 5)])

    def locked(_):
        raise OperationalError("select", {}, sqlite3.OperationalError("database is locked"))

    with monkeypatch.context() as patch, pytest.raises(JobcastError, match="database is locked"):
        patch.setattr("predictors.service.storage.database.inspect", locked)
        Store(url)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("select version_num from alembic_version").fetchall() == [("0001",)]
    store = Store(url)
    assert store.last == 1 and store.events_of(1)[0].effect == "applied"
    store.close()


def test_a_password_is_not_shown():
    with pytest.raises(JobcastError) as error:
        Store("mysql://me:secret@db/y")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("from_older", [False, True])
def test_the_migrations_make_the_tables_that_are_used(tmp_path, from_older):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    if from_older:
        older(tmp_path / "s.db", [])
    store = Store(f"sqlite:///{tmp_path}/s.db")
    with store.engine.connect() as connection:
        found = MigrationContext.configure(connection)
        assert compare_metadata(found, METADATA) == [] and found.get_current_revision() == HEAD
    store.close()


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.remove()


def test_events_are_stored_once_by_one_owner(postgres):
    url = postgres.url("store")
    store = Store(url)
    with pytest.raises(JobcastError, match="another service writes to this database"):
        Store(url)
    first = Event(2**53 - 1, SUBMITTED, 2**40 - 1, user=2**53 - 1)
    assert store.append([first, Event(1, SUBMITTED, 5)]) == [(1, "applied"), (2, "applied")]
    assert store.append([first, Event(1, STARTED, 6)]) == [(1, "duplicate"), (3, "applied")]
    assert store.events_of(first.job) == [(first._replace(sequence=1), "applied")]
    assert [table[:, -1].tolist() for table in store.events_after(1)] == [[2, 3]]
    assert store.first_history() is None
    for sequence, kept in ((0, b"begun"), (1, b"a"), (2, b"b"), (3, b"abc")):
        store.keep_snapshot(sequence, kept)
    store.close()
    store = Store(url)
    assert store.last == 3 and store.first_history() == b"begun"
    assert [(n, file.read()) for n, file in store.snapshots()] == [(3, b"abc"), (2, b"b")]
    store.close()


def test_a_snapshot_in_postgresql_that_cannot_be_read_now_is_not_taken_for_damaged(postgres):
    url = postgres.url("cut_off")
    store, other = Store(url), made_engine(url)
    store.keep_snapshot(1, packed({"a": np.arange(3)}))
    kept = store.snapshots()
    _, file = next(kept)
    with other.connect() as connection:
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
    with pytest.raises(StorageError):
        unpacked(file)
    kept.close()
    other.dispose()
    store.close()


def test_a_database_that_goes_away_and_comes_back(postgres, tmp_path):
    with running(tmp_path, db=postgres.url("away")) as one, one.client(retries=0, timeout=30) as client:
        assert client.send([posted.SUBMITTED])[0]["sequence"] == 1
        one.learnt()
        postgres.kill()
        with pytest.raises(ServiceError, match="503"):
            client.send([posted.STARTED])
        assert client.runtime([{"requested_time": 60}])[0].seconds == 60.0  # predictions go on
        postgres.start()
        for _ in range(600):
            try:
                receipt = client.send([posted.STARTED])[0]
                break
            except ServiceError:
                time.sleep(0.1)
        assert receipt["sequence"] == 2
        assert client.send([posted.ENDED])[0] == {"sequence": 3, "status": "applied"}
        one.learnt()
        time.sleep(0.5)
        job = client.job(1)
        assert job["run_time"] == 100 and len(job["predictions"]) == 1


@pytest.mark.slow
def test_kills_lose_nothing(postgres, tmp_path):
    found = kill_again_and_again(tmp_path, postgres.url("kills"), times=2)
    assert found["acknowledged"] > 20


@pytest.mark.slow
def test_starts_that_are_killed_while_the_database_is_brought_up_to_date_lose_nothing(tmp_path):
    """The bench kills ten: `bench_service.py kills 10 migration`."""
    found = kill_in_migration(tmp_path, times=2, n_jobs=3000)
    assert found["before"] + found["after"] == 2 and found["events"] == 9000


def test_a_snapshot_whose_room_cannot_be_filled_is_not_kept(tmp_path, monkeypatch):
    store = Store(f"sqlite:///{tmp_path}/x.db")

    def broken(*_):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("predictors.service.storage.store._fill", broken)
        with pytest.raises(StorageError, match="disk"):
            store.keep_snapshot(7, b"snapshot")
    store.check_writing()
    assert not list(store.snapshots())
    store.keep_snapshot(7, b"snapshot")
    assert [(n, file.read()) for n, file in store.snapshots()] == [(7, b"snapshot")]
    store.close()


def test_no_folder_is_made_for_a_database(tmp_path):
    url = f"sqlite:///{tmp_path}/no/such.db"
    for settings, told in (({"time_zone": ""}, "No time zone ''"), ({}, "no/such.db: its folder is not there")):
        with pytest.raises(JobcastError, match=told):
            Service(Settings(model="last-two", db=url, **settings))
    with pytest.raises(JobcastError, match="No such file"):
        Store(url)
    assert not list(tmp_path.iterdir())
