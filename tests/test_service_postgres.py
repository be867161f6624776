"""The service on a real PostgreSQL: the same store, one owner, a database that goes away and comes back, kills."""

import time

import pytest

from predictors.data.errors import JobcastError
from predictors.data.events import STARTED, SUBMITTED
from predictors.service.client import ServiceError
from predictors.service.events import Event
from predictors.service.store import Store
from tests.killing import kill_again_and_again
from tests.postgres import Postgres
from tests.service_in_thread import running
from tests.test_service_api import ENDED
from tests.test_service_api import STARTED as STARTS
from tests.test_service_api import SUBMITTED as SUBMITS


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
    assert store.beginning() is None
    for sequence, kept in ((0, b"begun"), (1, b"a"), (2, b"b"), (3, b"abc")):
        store.keep_snapshot(sequence, kept)
    store.close()
    store = Store(url)
    assert store.last == 3 and store.snapshot() == (3, b"abc") and store.beginning() == b"begun"
    store.close()


def test_a_database_that_goes_away_and_comes_back(postgres, tmp_path):
    with running(tmp_path, db=postgres.url("away")) as one, one.client(retries=0, timeout=30) as client:
        assert client.send([SUBMITS])[0]["sequence"] == 1
        one.learnt()
        postgres.kill()
        with pytest.raises(ServiceError, match="503"):
            client.send([STARTS])
        assert client.runtime([{"requested_time": 60}])[0].seconds == 60.0  # predictions go on
        postgres.start()
        for _ in range(100):
            try:
                receipt = client.send([STARTS])[0]
                break
            except ServiceError:
                time.sleep(0.1)
        assert receipt["sequence"] == 2
        assert client.send([ENDED])[0] == {"sequence": 3, "status": "applied"}
        one.learnt()
        time.sleep(0.5)
        job = client.job(1)
        assert job["run_time"] == 100 and len(job["predictions"]) == 1


@pytest.mark.slow
def test_kills_lose_nothing(postgres, tmp_path):
    found = kill_again_and_again(tmp_path, postgres.url("kills"), times=2)
    assert found["acknowledged"] > 20
