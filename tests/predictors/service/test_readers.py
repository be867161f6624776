"""Readers: their answers are the owner's, at most so far behind as they tell; all else reaches the owner unchanged."""

import asyncio
import contextlib
import fcntl
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httptools
import pytest
import uvicorn

from predictors.core.errors import JobcastError
from predictors.service.api.auth import Limits, add_token, read_tokens
from predictors.service.api.buckets import MOST_CLIENTS, Buckets
from predictors.service.api.lifecycle import Listening
from predictors.service.api.prometheus import Metrics
from predictors.service.api.server import bound, configuration
from predictors.service.client import Client, ServiceError
from predictors.service.readers.entry import begin, packed
from predictors.service.readers.forward import Owner
from predictors.service.readers.pool import Readers
from predictors.service.readers.process import BEHIND, QUESTION, Plan, Questions, Tally, _serve, run
from predictors.service.settings import Settings
from predictors.service.state.follower import MOST_BEHIND, Follower
from predictors.service.state.model import load
from predictors.service.state.service import Service
from predictors.service.storage.database import StorageError
from tests.predictors.service.test_state import EVENTS, equal, feed, small, state
from tests.support.killing import free_port, is_there, readers_of, start
from tests.support.service_in_thread import running

JOB = {"user": 1, "procs": 4, "requested_time": 600}


def state_of(follower):
    """What `state` returns of a service."""
    follower.learner = follower._learner
    return state(follower)


@pytest.mark.parametrize("model", ["last-two", "online-linear", pytest.param("forest", marks=pytest.mark.slow)])
def test_a_follower_is_its_owner_to_the_last_bit_after_every_look(tmp_path, model):
    about = Settings(model=model, db=f"sqlite:///{tmp_path}/x.db", poll=0)
    with pytest.raises(JobcastError, match="No such file"):
        Follower(about, small(model), None)
    owner = Service(about, small(model))
    owner.start()
    owner.wait()
    feed(owner, EVENTS[:400])
    follower = Follower(about, small(model), owner.key)
    assert follower.behind > MOST_BEHIND
    follower.begin()
    for first in range(400, 1000, 200):
        assert follower.job_state.sequence == first and follower.behind < MOST_BEHIND
        equal(state_of(follower), state(owner))
        feed(owner, EVENTS[first : first + 200])
        follower._follow()
    row = owner.store.models()[-1]
    following = threading.Thread(target=follower.run)
    following.start()
    owner.store.record_model({name: row[name] for name in row if name not in ("id", "at")} | {"why": "promoted"})
    following.join(10)
    assert not following.is_alive()
    owner.stop()
    again = Service(about, small(model))  # the follower held nothing
    again.store.close()


def test_trouble_of_the_database_is_told_once_and_the_look_after_it_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("predictors.service.state.follower.EVERY", 0.01)
    owner = Service(Settings(model="last-two", db=f"sqlite:///{tmp_path}/x.db", poll=0))
    owner.start()
    owner.wait()
    follower = Follower(owner.settings, load, owner.key)
    follower.begin()
    looks = []

    def broken():
        looks.append(follower.behind)
        if len(looks) <= 3:
            raise StorageError(f"away {len(looks)}")
        follower.stop()

    monkeypatch.setattr(follower, "_follow", broken)
    follower.run()
    owner.stop()
    assert looks == sorted(looks) and len(looks) == 4 and caplog.text.count("cannot be read") == 1


def test_an_owner_with_another_model_than_asked_for_has_no_follower(tmp_path):
    about = Settings(model="last-two", db=f"sqlite:///{tmp_path}/x.db", poll=0)
    owner = Service(about)
    owner.start()
    owner.wait()
    with pytest.raises(JobcastError, match="champion is last-two"):
        Follower(about, lambda _: load("online-linear"), owner.key)
    owner.stop()


class Apart(Readers):
    """Readers whose processes the tests play themselves."""

    def begin(self):
        """Start none."""


class Reader:
    """A reader in a thread of the tests."""

    def __init__(self, follower, url, owner):
        self.follower, self.url, self.owner = follower, url, owner

    def ask(self, method, path, body=None, **headers):
        """Return status, headers and document of an answer."""
        line = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        content = (
            body if body is None or isinstance(body, (bytes, str)) or hasattr(body, "__next__") else json.dumps(body)
        )
        line.request(method, path, content, {"Content-Type": "application/json", **headers})
        answer = line.getresponse()
        text = answer.read()
        line.close()
        return answer.status, answer.headers, json.loads(text) if text[:1] in b"{[" and text else text


@contextlib.contextmanager
def a_reader(tmp_path, listening=None, **options):
    kept = []

    def made(service, listening):
        kept.append(Apart(1, service.settings, listening, load, service.key))
        return kept[0]

    with running(tmp_path, readers=made, listening=listening, poll=0, **options) as owner:
        plan, tally = kept[0]._plan, Tally()
        follower = Follower(plan.settings, load, plan.key)
        follower.begin()
        app = Questions(follower, plan, tally)
        server = uvicorn.Server(configuration(app, plan.listening, lambda: None, lifespan="off"))
        opened = bound("127.0.0.1", 0)
        threads = [threading.Thread(target=follower.run), threading.Thread(target=server.run, args=([opened],))]
        for thread in threads:
            thread.start()
        while not server.started:
            time.sleep(0.01)
        one = Reader(follower, f"http://127.0.0.1:{opened.getsockname()[1]}", owner)
        one.tally = tally
        try:
            yield one
        finally:
            server.should_exit = True
            follower.stop()
            for thread in threads:
                thread.join(20)


def test_a_reader_answers_questions_and_hands_on_all_else(tmp_path):
    with a_reader(tmp_path) as one:
        sent = {"kind": "submitted", "job_id": 7, "time": 100, **JOB}
        with Client(one.url) as client:
            assert client.send([sent]) == [{"sequence": 1, "status": "applied"}]
            assert client.job(7)["state"] == "queued" and client.models()["sequence"] == 1
            assert client.runtime([JOB], as_of=1)[0].sequence == 1
            assert client.recorded([7])[0].seconds == 600.0
        until(lambda: one.follower._learner.sequence >= 1, 5)  # it is learnt after its row is known
        about = {"jobs": [JOB] * 3, "now": 200}
        status, headers, answer = one.ask("POST", QUESTION, about)
        assert status == 200 and 0 <= float(headers[BEHIND]) <= MOST_BEHIND
        with one.owner.client() as client:
            assert client.ask("POST", QUESTION, {**about, "as_of": answer["sequence"]}) == answer
        status, headers, _ = one.ask("POST", QUESTION, {"job_ids": [7]}, **{"X-Request-ID": "mine"})
        assert (status, headers[BEHIND], headers.get_all("X-Request-ID")) == (200, None, ["mine"])
        chunks = (json.dumps({**sent, "job_id": n}).encode() for n in (8,))
        assert one.ask("POST", "/v1/events", chunks)[2]["sequence"] == 2  # of a length that is not told
        for method, path, body, told in (
            ("GET", "/healthz", None, 200), ("HEAD", "/healthz", None, 200), ("GET", "/readyz", None, 200),
            ("GET", "/nowhere", None, 404), ("PUT", QUESTION, None, 405), ("POST", QUESTION, "{", 400),
            ("POST", QUESTION, {"jobs": []}, 422), ("POST", "/v1/events", {"kind": "none"}, 422),
            ("POST", "/v1/events", b" " * (4 * 2**20 + 1), 413), ("GET", "/v1/jobs/a%2Fb?cluster=x", None, 404),
        ):  # fmt: skip
            status, headers, _ = one.ask(method, path, body)
            assert status == told and len(headers.get_all("X-Request-ID")) == 1, path
        assert one.ask("GET", "/", Accept="text/html")[2].startswith(b"<!doctype html>")
        # the owner counts what it answered, the reader what it did, nobody twice
        page = one.owner.api.metrics.page().decode()
        assert f'count{{route="{QUESTION}",status="2xx"}} 4.0' in page
        assert sorted(status for _, status, _ in one.tally.taken()["requests"]) == [200, 400, 422]


def test_a_stream_ends_with_its_client_and_the_owner_stays_free(tmp_path):
    with a_reader(tmp_path) as one:
        line = http.client.HTTPConnection(urlsplit(one.url).netloc, timeout=20)
        line.request("GET", "/status/events")
        answer = line.getresponse()
        assert answer.status == 200 and answer.read1(10)
        line.close()
        answer.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and one.owner.api.metrics.page().count(b'route="/status/events"') == 0:
            time.sleep(0.05)
        assert b'route="/status/events"' in one.owner.api.metrics.page()  # it has ended there


def test_one_that_is_too_far_behind_lets_the_owner_answer_and_without_an_owner_says_so(tmp_path):
    with a_reader(tmp_path) as one:
        one.follower.stop()
        about = {"jobs": [JOB], "now": 200}
        assert one.ask("POST", QUESTION, about)[1][BEHIND] is not None
        one.follower._as_of -= MOST_BEHIND
        status, headers, _ = one.ask("POST", QUESTION, about)
        assert status == 200 and headers[BEHIND] is None
        one.owner.api.lifecycle._readers._server.close()
        (one.owner.api.lifecycle._readers._plan.folder / "owner.sock").unlink(missing_ok=True)
        status, headers, answer = one.ask("POST", QUESTION, about)
        assert (status, headers["Retry-After"]) == (503, "1") and "again" in answer["error"]


def test_tokens_hold_and_a_rate_is_one_for_all_processes(tmp_path):
    reads, writes = (add_token(tmp_path / "tokens", role, role) for role in ("read", "write"))
    about = Listening(port=0, tokens=read_tokens(tmp_path / "tokens"), limits=Limits(rate=0.001, burst=6))
    event, question = {"kind": "submitted", "job_id": 7, "time": 100}, {"jobs": [JOB]}
    with a_reader(tmp_path, about) as one:

        def ask(path, body, token):
            return one.ask("POST", path, body, Authorization=f"Bearer {token}")[0]

        assert one.ask("POST", QUESTION, question, **{"X-Jobcast-Client": "other"})[0] == 401
        assert one.ask("POST", "/v1/events", event, **{"X-Jobcast-Counted": "1"})[0] == 401
        assert ask("/v1/events", event, reads) == 403 and ask("/v1/events", event, writes) == 200
        asked = {**question, "as_of": 1}
        assert [ask(QUESTION, body, reads) for body in (question, asked, question)] == [200] * 3
        with one.owner.client(token=reads, retries=0) as client:
            for _ in range(3):
                client.runtime([JOB])
            with pytest.raises(ServiceError, match="429"):
                client.runtime([JOB])
        assert [ask(QUESTION, body, reads) for body in (question, asked)] == [429, 429]


def test_the_table_of_rates_is_shared_forgets_the_oldest_and_gives_back(tmp_path):
    one, other = Buckets(tmp_path / "b"), Buckets(tmp_path / "b")
    waits = [table.take("a", 1.0, 4.0, 100.0) for table in (one, other) * 3]
    assert waits == [0, 0, 0, 0, 1.0, 1.0] and one.take("b", 1.0, 4.0, 100.0) == 0
    assert other.take("a", 1.0, 4.0, 101.0) == 0 and one.take("a", 1.0, 4.0, 100.5) == 1.0  # a clock never goes back
    for n in range(MOST_CLIENTS):
        one.take(f"client {n}", 1.0, 4.0, 200.0 + n)
    assert other.take(f"client {MOST_CLIENTS - 1}", 1.0, 1.0, 200.0 + MOST_CLIENTS - 1) == 0
    assert other.take(f"client {MOST_CLIENTS - 1}", 1.0, 1.0, 200.0 + MOST_CLIENTS - 1) == 1.0


def test_a_body_of_untold_length_stays_one_request(tmp_path):
    """As it comes it would hold the next request, with headers by which the owner believes a reader."""
    smuggled = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-jobcast-counted: 1\r\n\r\n"
    came, told = [], []

    class Parsed:
        def on_body(self, body):
            came.append(body)

    async def owner(reader, writer):
        parser = httptools.HttpRequestParser(Parsed())
        while len(came) < 1:
            parser.feed_data(await reader.read(1000))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async def asked():
        messages = [{"type": "http.request", "body": smuggled}]

        async def receive():
            return messages.pop() if messages else await asyncio.sleep(60)

        async def send(message):
            told.append(message)

        scope = {"method": "GET", "path": "/healthz", "headers": [(b"transfer-encoding", b"chunked")]}
        async with await asyncio.start_unix_server(owner, tmp_path / "s"):
            await asyncio.wait_for(Owner(tmp_path / "s")(scope, receive, send), 20)

    asyncio.run(asked())
    assert came == [smuggled] and told[0]["status"] == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # by what stands for _exit
def test_a_reader_told_while_it_begins_heeds_that_ends_with_its_owner_and_fails_aloud(tmp_path, monkeypatch, caplog):
    add_token(tmp_path / "tokens", "read", "me")
    ends, gone, may_fail = [], threading.Event(), threading.Event()
    monkeypatch.setattr(os, "_exit", lambda status: (ends.append(status), gone.set(), sys.exit()))
    reloaded = []
    monkeypatch.setattr(Questions, "reload", lambda _, tokens: reloaded.append(tokens))

    class Following:
        def begin(self):
            until(lambda: reloaded, 10)  # it is told while it still begins

        def run(self):
            may_fail.wait(20)
            raise ValueError("odd")

        def stop(self):
            pass

    tokens = read_tokens(tmp_path / "tokens")
    mine, its = multiprocessing.Pipe()
    plan = Plan(settings=None, listening=Listening(port=free_port()), loader=load, key=None, folder=tmp_path)
    mine.send_bytes(json.dumps([asdict(one) for one in tokens]).encode())

    def owner():
        until(lambda: reloaded, 10)
        mine.close()
        gone.wait(10)
        may_fail.set()

    thread = threading.Thread(target=owner)
    thread.start()
    with pytest.raises(SystemExit) as ended:
        _serve(Following(), plan, its)
    thread.join()
    assert reloaded == [tokens] and ends == [1] and ended.value.code == 1 and "cannot follow" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # by what stands for _exit
def test_a_reader_that_still_begins_ends_with_its_owner(tmp_path, monkeypatch):
    ends, gone = [], threading.Event()
    monkeypatch.setattr(os, "_exit", lambda status: (ends.append(status), gone.set(), sys.exit()))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    life, of_owner = os.pipe()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(sentinel=life))

    class Beginning:
        def __init__(self, *_):
            os.close(of_owner)

        def begin(self):
            gone.wait(10)
            raise JobcastError("it took long")

    monkeypatch.setattr("predictors.service.readers.process.Follower", Beginning)
    plan = Plan(settings=None, listening=Listening(port=0), loader=load, key=None, folder=tmp_path)
    mine, its = multiprocessing.Pipe()
    with pytest.raises(SystemExit) as ended:
        begin(packed(partial(run, plan)), its)
    os.close(life)
    assert ends == [1] and ended.value.code == 2
    mine.close()
    until(lambda: ends == [1, 1], 10)  # its other thread, before `_exit` is the real one again


OWNER = """
import multiprocessing, sys, time
from predictors.service.readers.entry import begin, packed

class Loads:
    def __reduce__(self):
        return time.sleep, (60,)

start = multiprocessing.get_context("spawn")
reader = start.Process(target=begin, args=(packed(Loads()), start.Pipe()[1]), daemon=True)
reader.start()
heavy = {"numpy", "numba", "sqlalchemy", "starlette", "uvicorn", "msgspec"}
print(reader.pid, *heavy & set(sys.modules), flush=True)
time.sleep(60)
"""


def test_a_reader_that_still_loads_what_it_is_made_of_ends_with_its_owner():
    """Its entry is light: only what it is told to do, here to load for a minute, brings the rest."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        reader, *heavy = owner.stdout.readline().split()
        assert not heavy
        time.sleep(0.5)
        assert is_there(int(reader))
        owner.kill()
    until(lambda: not is_there(int(reader)), 20)


def test_readers_are_begun_by_their_entry(tmp_path, short_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    readers = Readers(1, Settings(model="last-two", db=f"sqlite:///{tmp_path}/x.db"), Listening(port=0), load, None)
    begun = []

    def process(target, args, **_):
        begun.append((target, ForkingPickler.loads(args[0])))
        readers._stopping.set()
        return SimpleNamespace(start=lambda: None, pid=1, join=lambda: None, exitcode=0)

    monkeypatch.setattr(
        multiprocessing, "get_context", lambda _: SimpleNamespace(Process=process, Pipe=multiprocessing.Pipe)
    )
    readers._keep(0)
    [(target, work)] = begun
    assert target is begin and work.func is run and work.args == (readers._plan,)


@contextlib.contextmanager
def open_folder(path):
    handle = os.open(path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.fixture
def short_path(tmp_path_factory):
    """A folder whose path leaves room for that of a socket in it."""
    return tmp_path_factory.mktemp("r")


def test_readers_need_a_folder_with_room_and_leave_none_behind(tmp_path, short_path, monkeypatch):
    about = Settings(model="last-two", db=f"sqlite:///{tmp_path}/x.db"), Listening(port=0), load, None
    for folder, told in ((tmp_path / ("x" * 120), "shorter"), (tmp_path / "none", "No such file")):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        if told == "shorter":
            folder.mkdir()
        with pytest.raises(JobcastError, match=told):
            Readers(1, *about)
    assert not list((tmp_path / ("x" * 120)).iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    readers = Readers(1, *about)
    kept = (readers._plan.folder / "buckets").stat()
    assert kept.st_blocks * 512 >= kept.st_size  # a page without room would end the process, by a signal
    readers.beside(None, 0, Metrics.__new__(Metrics), lambda: True)
    readers._keep(0)  # the owner ends: none is begun
    assert not readers._processes
    left = short_path / f"{readers._plan.folder.name[:-8]}leftover"  # of an owner that was killed
    left.mkdir()
    (left / "buckets").write_text("x")
    others = Readers(1, *about)
    assert not left.exists() and readers._plan.folder.exists() and others._plan.folder.exists()
    with open_folder(readers._plan.folder) as tidier, pytest.raises(BlockingIOError):
        fcntl.flock(tidier, fcntl.LOCK_EX | fcntl.LOCK_NB)  # what tidies old files asks so first


def test_a_reader_that_falls_silent_is_ended_and_counts_no_more(tmp_path, short_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    monkeypatch.setattr("predictors.service.readers.pool._SILENCE", 0.05)
    readers = Readers(1, Settings(model="last-two", db=f"sqlite:///{tmp_path}/x.db"), Listening(port=0), load, None)
    mine, its = multiprocessing.Pipe()
    its.send_bytes(json.dumps({"requests": [], "predictions": [], "connections": 3}).encode())
    ended = []
    readers._listen_to(0, mine, SimpleNamespace(kill=lambda: ended.append(dict(readers._connections))))
    assert ended == [{0: 3}] and not readers._connections and mine.closed


def until(true, seconds=120):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.slow
def test_processes_that_are_killed_come_back_and_none_outlives_its_owner(tmp_path):
    port, token = free_port(), add_token(tmp_path / "tokens", "write", "me")
    server = start(
        "last-two", f"sqlite:///{tmp_path}/x.db", port, "--readers", "1", "--token-file", str(tmp_path / "tokens")
    )

    def answered(method, path, bearer, body=None):
        """Ask on a line of its own; again where that was reset, as it may be when a reader has ended just now."""
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        for _ in range(20):
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            with contextlib.suppress(ConnectionError, http.client.RemoteDisconnected):
                line.request(method, path, body, headers)
                answer = line.getresponse()
                return answer.status, answer.headers, answer.read().decode()
        raise AssertionError("reset again and again")

    def ask(count):
        """Return how many answers of so many came from readers."""
        found = [answered("POST", QUESTION, token, json.dumps({"jobs": [JOB], "now": 5})) for _ in range(count)]
        assert {status for status, *_ in found} == {200}
        return sum(headers[BEHIND] is not None for _, headers, _ in found)

    def metric(name):
        page = answered("GET", "/metrics", token)[2]
        return sum(float(row.split()[-1]) for row in page.splitlines() if row.startswith(name))

    try:
        until(lambda: metric("jobcast_readers") == 1)
        from_reader = ask(40)
        assert 5 <= from_reader <= 35
        until(lambda: metric("jobcast_predictions_total") == 40, 20)  # those of both processes
        before = readers_of(server.pid)
        (tmp_path / "tokens").unlink()
        old, token = token, add_token(tmp_path / "tokens", "write", "new")
        server.send_signal(signal.SIGHUP)
        until(lambda: {answered("POST", QUESTION, old, "{}")[0] for _ in range(20)} == {401}, 20)
        assert readers_of(server.pid) == before  # told, and not begun anew
        os.kill(*before, signal.SIGKILL)
        assert ask(10) >= 0  # by the owner
        until(lambda: metric("jobcast_readers") == 1 and not before & readers_of(server.pid))
        assert ask(40) >= 5
        readers = readers_of(server.pid)
        server.kill()
        server.wait(20)
        until(lambda: not any(Path(f"/proc/{pid}/fd/0").exists() for pid in readers), 20)
    finally:
        server.kill()


def test_readers_share_an_address_that_no_stranger_has():
    with bound("127.0.0.1", 0, shared=True) as first:
        port = first.getsockname()[1]
        bound("127.0.0.1", port, joins=True).close()
        first.listen()
        for shared in (False, True):
            with pytest.raises(JobcastError, match="is it taken"):
                bound("127.0.0.1", port, shared=shared)
