"""PostgreSQL whose backends are stopped: no answer, no error. The service says so, stays quick, and ends when told."""

import contextlib
import os
import signal
import threading
import time

import pytest
from sqlalchemy import create_engine, text

from predictors.service.client import ServiceError
from predictors.service.storage.postgres import MOST_WAIT
from tests.predictors.service import test_api as posted
from tests.support.postgres import Postgres
from tests.support.service_in_thread import running


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.remove()


def backends(url):
    """Return the processes that serve a database's connections."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        )
        pids = [row[0] for row in found]
    engine.dispose()
    return pids


def stop(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def resume(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_database_that_hangs_is_told_passes_and_holds_up_neither_questions_nor_the_end(postgres, tmp_path):
    url = postgres.url("hangs")
    with running(tmp_path, db=url) as one, one.client(retries=0, timeout=30) as client:
        client.send([posted.SUBMITTED])
        one.learnt()
        pids = backends(url)
        assert pids
        stop(pids)
        try:
            sender = threading.Thread(target=failing, args=(one, posted.STARTED))
            begin = time.monotonic()
            sender.start()
            told = set()
            while not told & {"waiting", "storage"}:
                assert time.monotonic() - begin < 12, "it says that it is ready"
                try:
                    told = set(client.ask("GET", "/readyz")["trouble"])
                except ServiceError as error:
                    assert error.status == 503
                    told = {"waiting"}
                time.sleep(0.1)
            assert client.runtime([{"requested_time": 60}])[0].seconds == 60.0
            begin = time.monotonic()
            try:
                client.models()
            except ServiceError as error:
                assert error.status == 503
            assert time.monotonic() - begin < 2 * MOST_WAIT + 3
            sender.join(30)
        finally:
            resume(pids)
        for _ in range(200):
            try:
                client.send([posted.STARTED])
                break
            except ServiceError:
                time.sleep(0.1)
        assert client.ask("GET", "/readyz")["ready"] and client.job(1)["started"] == posted.STARTED["time"]
        pids = backends(url)
        stop(pids)
        begin = time.monotonic()
    try:
        assert time.monotonic() - begin < 28, "it does not end while the database hangs"
    finally:
        resume(pids)


def failing(one, event):
    with pytest.raises(ServiceError):
        one.client(retries=0, timeout=30).send([event])
