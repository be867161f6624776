"""Clients, clocks, disks and databases that misbehave: each has a stated answer, and harms nobody else."""

import json
import logging
import resource
import signal
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from predictors.service.api import events as event_routes
from predictors.service.api import server as lines
from predictors.service.api.auth import Limits
from predictors.service.api.server import Listening, ThrottledFilter
from predictors.service.client import Client, ServiceError
from predictors.service.state.jobs import ReadersWriterLock
from tests.support.killing import free_port, start
from tests.support.service_in_thread import running

EVENT = {"kind": "submitted", "job_id": 1, "time": 100, "requested_time": 600, "user": "alice"}


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(lines, "READ_SECONDS", 0.5)
    with running(tmp_path, listening=Listening(port=0, limits=Limits(at_once=8))) as one:
        yield one


@contextmanager
def line_to(one):
    host, port = one.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        yield line


def ended(line):
    """Return what still comes until the service hangs up."""
    found = b""
    try:
        while piece := line.recv(1 << 20):
            found += piece
    except ConnectionResetError:
        pass
    return found


def test_a_connection_that_says_nothing_is_hung_up_on(served):
    with line_to(served) as line:
        assert ended(line) == b""


def test_a_second_request_that_is_never_finished_is_hung_up_on(served):
    with line_to(served) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(0.7)  # a line may rest between two requests
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        begin = time.monotonic()
        assert ended(line) == b"" and time.monotonic() - begin > 0.3


def test_a_head_without_end_is_hung_up_on(served):
    with line_to(served) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\n")
        sent = 0
        try:
            for i in range(1000):
                sent += line.send(b"A%d: " % i + b"x" * 8000 + b"\r\n")
                time.sleep(0.001)
        except OSError:
            pass
        assert sent < 8_000_000
        assert ended(line) == b""


def test_a_client_that_leaves_before_it_has_asked_is_no_error_of_ours(served):
    for path in (b"/v1/events", b"/v1/telemetry", b"/v1/predictions/runtime"):
        with line_to(served) as line:
            line.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
    counted = 'route="/v1/predictions/runtime",status="4xx"'
    deadline = time.monotonic() + 10
    while counted not in (page := metrics(served)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert counted in page and 'status="5xx"' not in page


def metrics(one):
    with urllib.request.urlopen(one.url + "/metrics", timeout=10) as response:
        return response.read().decode()


def test_a_client_that_does_not_read_its_answers_is_hung_up_on_and_holds_up_nobody(served):
    body = json.dumps({"jobs": [{"user": i} for i in range(10_000)]}).encode()
    request = b"POST /v1/predictions/runtime HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with line_to(served) as line, served.client(timeout=10) as client:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(5)
        hung_up = False
        for _ in range(40):
            try:
                line.sendall(request)
            except OSError:
                hung_up = True
                break
            assert client.runtime([{}])
        assert hung_up


def test_the_clock_of_the_machine_may_jump(served, monkeypatch):
    now = int(time.time())
    with served.client(retries=0) as client:
        for i, jump in enumerate((0, 86_400, 0)):
            monkeypatch.setattr(event_routes, "time", SimpleNamespace(time=lambda jump=jump: time.time() + jump))
            assert client.send([{**EVENT, "job_id": f"jump{i}", "time": now}])[0]["status"] == "applied"
        monkeypatch.setattr(event_routes, "time", SimpleNamespace(time=lambda: time.time() - 86_400))
        with pytest.raises(ServiceError, match=r"422 .*ahead of the service's clock"):
            client.send([{**EVENT, "job_id": "back", "time": now}])
        assert client.send([{**EVENT, "job_id": "back", "time": now - 86_400}])[0]["status"] == "applied"


def test_a_database_that_is_taken_away_and_put_back(tmp_path):
    path, elsewhere = tmp_path / "service.db", tmp_path / "elsewhere.db"
    with running(tmp_path) as one, one.client(retries=0) as client:
        assert client.send([EVENT])[0]["sequence"] == 1
        one.learnt()
        path.rename(elsewhere)
        with pytest.raises(ServiceError, match="503"):
            client.send([{**EVENT, "job_id": 2}])
        assert client.runtime([{"requested_time": 60}])[0].seconds == 60.0
        path.write_bytes(b"")  # another file is not it either
        with pytest.raises(ServiceError, match="503"):
            client.send([{**EVENT, "job_id": 2}])
        elsewhere.rename(path)
        assert client.send([{**EVENT, "job_id": 2}])[0] == {"sequence": 2, "status": "applied"}
        assert client.ask("GET", "/readyz")["ready"]


@pytest.mark.slow
def test_a_full_disk_under_a_real_service(tmp_path):
    """Its files may not grow any more; then they may again."""
    port = free_port()
    server = start("last-two", f"sqlite:///{tmp_path}/full.db", port)
    try:
        with Client(f"http://127.0.0.1:{port}", retries=0, timeout=20) as client:
            assert client.send([EVENT])[0]["sequence"] == 1
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
            stored = 1
            with pytest.raises(ServiceError, match="503 the database cannot be used now"):
                for i in range(2, 1000):
                    stored = client.send([{**EVENT, "job_id": i}])[0]["sequence"]
            assert client.runtime([{"requested_time": 60}])[0].seconds == 60.0
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert client.send([{**EVENT, "job_id": "room"}])[0] == {"sequence": stored + 1, "status": "applied"}
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) in (0, -signal.SIGTERM)  # it ends by the signal, after it has finished


def test_a_warning_that_repeats_is_written_once_in_a_while_with_its_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("predictors.service.api.server.time", SimpleNamespace(monotonic=lambda: now[0]))
    sparing, written = ThrottledFilter(), []

    def warn(text):
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, None, None)
        if sparing.filter(record):
            written.append(record.getMessage())

    for _ in range(2000):
        warn("too much")
    warn("something else")
    now[0] = 11.0
    warn("too much")
    assert written == ["too much", "something else", "too much (1,999 more times since the last line)"]


def test_readers_do_not_wait_for_one_another_and_writers_are_alone():
    lock, log = ReadersWriterLock(), []
    inside = threading.Event()

    def write():
        with lock.writing():
            log.append("written")

    def read():
        with lock.reading():
            log.append("read")
            inside.set()

    with lock.reading():
        writer, reader = threading.Thread(target=write), threading.Thread(target=read)
        writer.start()
        reader.start()
        assert inside.wait(10) and log == ["read"]
    writer.join(10)
    assert log == ["read", "written"]
    with lock.writing():
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.1)
        assert log == ["read", "written"]
    reader.join(10)
    assert log == ["read", "written", "read"]
