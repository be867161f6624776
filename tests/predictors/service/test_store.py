"""The database, SQLite and PostgreSQL: each event once, numbered, durable; one owner."""

import sqlite3
import time

import pytest
from sqlalchemy import text

from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.service.client import ServiceError
from predictors.service.event import Event
from predictors.service.storage.database import HEAD, METADATA, MIGRATIONS, StorageError
from predictors.service.storage.store import Store
from tests.predictors.service import test_api as posted
from tests.support.killing import kill_again_and_again
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
    receipts, new = store.append([first, second, first])
    assert [(r.sequence, r.what) for r in receipts] == [(1, "stored"), (2, "stored"), (1, "duplicate")]
    assert [event.sequence for event in new] == [1, 2]
    receipts, new = store.append([first._replace(user=4), second, Event(2, SUBMITTED, 7)])
    assert [(r.sequence, r.what) for r in receipts] == [(1, "conflict"), (2, "duplicate"), (3, "stored")]
    assert len(new) == 1
    assert store.events_of(1) == [first._replace(sequence=1), second._replace(sequence=2)]
    assert [table[:, -1].tolist() for table in store.events_after(1)] == [[2, 3]]


def test_what_is_stored_is_there_when_the_store_is_opened_again(url):
    store = Store(url)
    store.append([Event(1, SUBMITTED, 5)])
    number = store.record_model(
        {"role": "champion", "why": "w", "since": 0, "learns_since": 0, "uri": "u", "name": "n", "version": None,
         "predictor": "p", "sha256": ""}
    )  # fmt: skip
    record = {"job": 1, "role": "champion", "model": number, "sequence": 1, "seconds": 60.0, "lower": None,
              "upper": None, "answered_by": "p", "fallback": False}  # fmt: skip
    store.append([], [record, record])
    for sequence in (1, 2, 3):
        store.keep_snapshot(sequence, b"%d" % sequence)
    store.close()
    store = Store(url)
    assert store.last == 1
    assert store.newest_prediction("champion") == 1 and store.newest_prediction("challenger") == 0
    assert store.predictions_of([1, 2])[0]["name"] == "n"
    assert store.snapshot() == (3, b"3")
    assert [row["why"] for row in store.models()] == ["w"]
    with store.engine.connect() as connection:
        assert connection.execute(text("select count(*) from snapshots")).scalar() == 2
        assert connection.execute(text("pragma synchronous")).scalar() == 2
        assert connection.execute(text("pragma journal_mode")).scalar() == "wal"
    store.close()


def test_a_database_has_one_owner(url, store):
    with pytest.raises(JobcastError, match="another service writes to it"):
        Store(url)


def test_a_full_disk_stores_nothing_and_passes(url):
    limits = {}

    def prepare(connection):
        connection.execute(f"PRAGMA max_page_count={limits.get('pages', 1 << 30)}")

    store = Store(url, prepare)
    store.append([Event(1, SUBMITTED, 5)])
    limits["pages"] = 40
    store._drop_connection()
    store.engine.dispose()
    with pytest.raises(StorageError, match="full"):
        for job in range(2, 3000, 100):
            store.append([Event(job + i, SUBMITTED, 5) for i in range(100)])
    stored = store.newest()
    assert store.last == stored and not store.missed()
    limits["pages"] = 1 << 30
    store.engine.dispose()
    receipts, _ = store.append([Event(9_999, SUBMITTED, 5)])
    assert receipts[0].sequence == stored + 1
    store.close()


def test_events_that_were_stored_though_the_answer_was_lost_are_found(store):
    store.append([Event(1, SUBMITTED, 5)])
    with sqlite3.connect(store.engine.url.database) as other:  # stands for a commit whose answer never came
        other.execute("insert into events select 2, job, 1, 6, -1, -1, -1, -1, -1, -1, -1, -1 from events")
    assert store.missed() and store.last == 2
    assert not store.missed()
    receipts, _ = store.append([Event(1, STARTED, 6), Event(1, ENDED, 9)])
    assert [(r.sequence, r.what) for r in receipts] == [(2, "duplicate"), (3, "stored")]


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


def test_a_password_is_not_shown():
    with pytest.raises(JobcastError) as error:
        Store("mysql://me:secret@db/y")
    assert "secret" not in str(error.value)


def test_the_newest_migration_is_known():
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_the_migrations_make_the_tables_that_are_used(store):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


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
    receipts, _ = store.append([first, Event(1, SUBMITTED, 5)])
    assert [(r.sequence, r.what) for r in receipts] == [(1, "stored"), (2, "stored")]
    assert [(r.sequence, r.what) for r in store.append([first, Event(1, STARTED, 6)])[0]] == [
        (1, "duplicate"),
        (3, "stored"),
    ]
    assert store.events_of(first.job) == [first._replace(sequence=1)]
    assert [table[:, -1].tolist() for table in store.events_after(1)] == [[2, 3]]
    assert store.first_history() is None
    for sequence, kept in ((0, b"begun"), (1, b"a"), (2, b"b"), (3, b"abc")):
        store.keep_snapshot(sequence, kept)
    store.close()
    store = Store(url)
    assert store.last == 3 and store.snapshot() == (3, b"abc") and store.first_history() == b"begun"
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
        for _ in range(100):
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
