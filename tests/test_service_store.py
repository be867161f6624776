"""The database: each event once, numbered, durable; one owner."""

import sqlite3

import pytest
from sqlalchemy import text

from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, STARTED, SUBMITTED
from predictors.service.database import HEAD, MIGRATIONS, StorageError
from predictors.service.events import Event
from predictors.service.store import Store
from predictors.service.tables import METADATA


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
