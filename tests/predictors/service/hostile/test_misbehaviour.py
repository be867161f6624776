"""Clients, clocks, disks and databases that misbehave: each has a stated answer, and harms nobody else."""

import http.client
import json
import logging
import resource
import signal
import socket
import ssl
import threading
import time
import tracemalloc
import urllib.request
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from predictors.service.api import connections as lines
from predictors.service.api import events as event_routes
from predictors.service.api.admission import Limits, read_tokens
from predictors.service.api.connections import Connections, LimitedConnection
from predictors.service.api.errors import MOST_VALUES, Refusal, valid
from predictors.service.api.lifecycle import Listening
from predictors.service.api.schema import MOST_NODES, N_COUNTERS, RuntimeIn, TelemetryIn
from predictors.service.client import Client, ServiceError
from predictors.service.operation.logs import ThrottledFilter
from predictors.service.state.jobs import ReadersWriterLock
from tests.predictors.service.test_admission import tokens_in
from tests.support.certificates import self_signed
from tests.support.killing import free_port, start
from tests.support.service_in_thread import running
from tests.support.waiting import until

HOME = b"Host: localhost\r\nContent-Type: application/json\r\n"
EVENT = {"kind": "submitted", "job_id": 1, "time": 100, "requested_time": 600, "user": "alice"}


@pytest.fixture
def impatient(monkeypatch):
    """The service waits a second for a head, and for a client to read."""
    monkeypatch.setattr(lines, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(lines, "READ_SECONDS", 1.0)


@pytest.fixture
def served(tmp_path):
    with running(tmp_path, listening=Listening(port=0, limits=Limits(at_once=8))) as one:
        yield one


@contextmanager
def line_to(one):
    host, port = one.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
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


def test_a_connection_that_says_nothing_is_hung_up_on(impatient, served):
    with line_to(served) as line:
        assert ended(line) == b""


def test_a_second_request_that_is_never_finished_is_hung_up_on(impatient, served):
    with line_to(served) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(1.2)  # a line may rest between two requests
        begin = time.monotonic()
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        assert ended(line) == b"" and time.monotonic() - begin > 0.3


def drip(line, piece):
    """Send a piece again and again until the service hangs up, for 20 s at most; return what it answered."""
    found, deadline = b"", time.monotonic() + 20
    line.settimeout(0.05)
    with suppress(ConnectionError):
        while time.monotonic() < deadline:
            line.sendall(piece)
            with suppress(TimeoutError):
                if not (came := line.recv(4096)):
                    return found
                found += came
        raise AssertionError("the connection is still open")
    return found


LATE = b"Content-Length: 10000\r\n\r\n"
EARLY = {
    b"403": b"POST /v1/events HTTP/1.1\r\nHost: evil.example\r\n",
    b"404": b"POST /nowhere HTTP/1.1\r\n" + HOME,
    b"405": b"PUT /v1/events HTTP/1.1\r\n" + HOME,
    b"415": b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\n",
    b"200": b"GET /healthz HTTP/1.1\r\n" + HOME,
}


@pytest.mark.parametrize("status", EARLY)
def test_the_body_of_a_request_that_was_answered_early_has_an_end(impatient, served, status):
    with line_to(served) as line:
        line.sendall(EARLY[status] + LATE)
        assert drip(line, b"x").startswith(b"HTTP/1.1 " + status)
    with line_to(served) as line:
        line.sendall(EARLY[status] + LATE)
        assert ended(line).startswith(b"HTTP/1.1 " + status)  # nor may it stay away


def test_blank_lines_keep_no_connection(impatient, served):
    with line_to(served) as line:
        line.sendall(EARLY[b"200"] + b"\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.sendall(b"\r\n")
        assert ended(line) == b""
    with line_to(served) as line:
        line.sendall(EARLY[b"200"] + b"\r\n")
        assert drip(line, b"\r\n").count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("n", [1, 20])
def test_a_client_that_closes_its_side_gets_its_last_answers(served, n):
    body = json.dumps({"jobs": [{"requested_time": 60}] * 2000}).encode()
    request = b"POST /v1/predictions/runtime HTTP/1.1\r\n" + HOME + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with line_to(served) as line:
        line.sendall(request * n)
        line.shutdown(socket.SHUT_WR)
        assert ended(line).count(b"HTTP/1.1 200") == n
    with line_to(served) as line:
        line.sendall(request[:-1])
        line.shutdown(socket.SHUT_WR)
        assert ended(line) == b""


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET /" + "x" * 70_000 + " HTTP/1.1", 431), ("GET /?" + "x" * 200_000 + " HTTP/1.1", 431),
     ("GET / HTTP/1.9", 400), ("GET / HTTP/2.0", 400), ("nothing of HTTP", 400)],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_the_form_of_all_answers(served, request_line, status):
    with line_to(served) as line:
        line.sendall(request_line.encode() + b"\r\n" + HOME + b"\r\n")
        head, _, body = ended(line).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"\r\nconnection: close" in head
    assert list(json.loads(body)) == ["error"]


def test_a_client_that_leaves_before_it_has_asked_is_no_error_of_ours(served):
    for path in (b"/v1/events", b"/v1/telemetry", b"/v1/predictions/runtime"):
        with line_to(served) as line:
            line.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOME + b"Content-Length: 50\r\n\r\n{")
    counted = 'route="/v1/predictions/runtime",status="4xx"'
    page = until(lambda: counted in (page := metrics(served)) and page)
    assert 'status="5xx"' not in page


def metrics(one):
    with urllib.request.urlopen(one.url + "/metrics", timeout=60) as response:
        return response.read().decode()


def test_a_client_that_does_not_read_its_answers_is_hung_up_on_and_holds_up_nobody(impatient, served):
    body = json.dumps({"jobs": [{"user": i} for i in range(10_000)]}).encode()
    request = b"POST /v1/predictions/runtime HTTP/1.1\r\n" + HOME + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with line_to(served) as line, served.client(timeout=60) as client:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(5)
        hung_up, deadline = False, time.monotonic() + 30  # by the clock: a fast machine asks often before that
        while not hung_up and time.monotonic() < deadline:
            try:
                line.sendall(request)
            except OSError:
                hung_up = True
            assert client.runtime([{}])
        assert hung_up


def rubbish(form, size):
    """Return a body of about so many bytes that cannot be answered."""
    piece, begin, end = {
        "unknown keys of one job": (None, b'{"jobs":[{', b"}]}"),
        "too many empty jobs": (b"{}", b'{"jobs":[', b"]}"),
        "too many ids": (b'"a"', b'{"job_ids":[', b"]}"),
        "unknown keys of every job": (b'{"x":0,"y":0,"z":0}', b'{"jobs":[', b"]}"),
        "lists in an unknown field": (b"[[],[]]", b'{"x":[', b"]}"),
        "numbers for rates": (b"1", b'{"time":1,"nodes":[1],"rates":[[', b"]]}"),
        "one long name": (b"a" * (size - 30), b'{"jobs":[{"user":"', b'"}]}'),
        "blanks": (b" " * (size - 1), b"", b"]"),
        "nothing closed": (b'{"jobs":' * (size // 8), b"", b""),
    }[form]
    if piece is None:
        return begin + b",".join(b'"%x":0' % i for i in range(size // 9)) + end
    return begin + b",".join([piece] * max(1, size // (len(piece) + 1))) + end


FORMS = ["unknown keys of one job", "too many empty jobs", "too many ids", "unknown keys of every job",
         "lists in an unknown field", "numbers for rates", "one long name", "blanks", "nothing closed"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rubbish_costs_next_to_nothing(form):
    """The largest body that a route reads is refused within 50 ms of CPU and 100 MB."""
    kind, size, values = RuntimeIn, Limits().most_bytes("/v1/predictions/runtime"), MOST_VALUES
    if form == "numbers for rates":
        kind, size, values = TelemetryIn, Limits().most_bytes("/v1/telemetry"), MOST_NODES * (N_COUNTERS + 1)
    body = rubbish(form, size)
    tracemalloc.start()
    with pytest.raises(Refusal) as refusal:
        valid(kind, body, values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refusal.value.status in (400, 422) and peak < 100e6
    cost = min(timed(lambda: valid(kind, body, values)) for _ in range(3))
    assert cost < 0.05


def timed(refused):
    begin = time.thread_time()
    with pytest.raises(Refusal):
        refused()
    return time.thread_time() - begin


def test_a_body_beyond_its_route_s_limit_is_answered_413_also_to_one_who_sends_it_all(served):
    host, port = served.url.removeprefix("http://").split(":")
    for size in (5 * 2**20, 17 * 2**20):
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("POST", "/v1/events", b" " * size, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 413 and b"at most 4194304 bytes here" in response.read()
        connection.close()


def test_bodies_in_work_are_bounded_together(tmp_path):
    limits, some = Limits(bytes_at_once=2**20), b"Content-Length: 2000000\r\n\r\n" + b" " * 900_000
    with running(tmp_path, listening=Listening(port=0, limits=limits)) as one, one.client(retries=0) as client:
        for _ in range(100):  # where the client's bytes come first, this body is the one that is refused
            with line_to(one) as line:
                line.sendall(b"POST /v1/events HTTP/1.1\r\n" + HOME + some)
                found = {refusal_of(client) for _ in range(20)}
            if any("503 too many bytes" in told for told in found):
                break
        else:
            pytest.fail(f"the bodies were never too many: {found}")
        assert any("422" in refusal_of(client) for _ in range(1000))


def refusal_of(client):
    """Send events that are none; return why they are refused."""
    with pytest.raises(ServiceError) as refusal:
        client.ask("POST", "/v1/events", {"events": ["x" * 200_000]})
    return str(refusal.value)


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


def test_a_warning_that_repeats_is_written_once_in_a_while_with_its_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("predictors.service.operation.logs.time", SimpleNamespace(monotonic=lambda: now[0]))
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


def test_idle_connections_keep_out_nobody(tmp_path):
    """One host with far more idle lines than there may be; those that asked once are the last to make room."""
    (writes,), file = tokens_in(tmp_path, "write")
    listening = Listening(port=0, tokens=read_tokens(file), limits=Limits(at_once=8))
    with running(tmp_path, listening=listening) as one, one.client(token=writes, retries=0) as good:
        assert good.send([EVENT])[0]["sequence"] == 1
        host, port = one.url.removeprefix("http://").split(":")
        lines, at_once = [], one.api.metrics.connections
        for i in range(120):
            lines.append(socket.create_connection((host, int(port)), timeout=60))
            if i % 20 == 0:
                with urllib.request.urlopen(one.url + "/healthz", timeout=60) as answer:
                    assert answer.status == 200
                assert good.send([{**EVENT, "job_id": 100 + i}])[0]["status"] == "applied"
        assert at_once() <= 17
        for line in lines:
            line.close()


def test_connections_at_work_are_refused_and_counted_beyond_the_limit():
    told = []

    class Line:
        def __init__(self, address):
            self.address, self.hang_up = address, lambda: told.append(address)

    among, ours = Connections(4, lambda: told.append("refused")), [Line("a") for _ in range(4)]
    for one in ours[:2]:
        assert among.admit(one)
        among.at_work(one, True)
    assert not among.admit(ours[2]) and told == ["refused"]  # half of all is one address's share
    assert among.admit(Line("b")) and among.admit(Line("c")) and told == ["refused"]
    among.at_work(ours[0], False)
    assert among.admit(ours[3]) and told == ["refused", "a"]  # the one that rests makes room
    assert among.admit(Line("d")) and told == ["refused", "a", "a"]  # of the address that has most
    for one in ours:
        among.leave(one)
    assert among._n == 3 and set(among._hosts) == {"b", "c", "d"}


def test_a_handshake_that_is_never_finished_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "HANDSHAKE_SECONDS", 0.5)
    certificate, key = self_signed(tmp_path)
    with running(tmp_path, listening=Listening(port=0, certificate=certificate, key=key)) as one, line_to(one) as line:
        assert ended(line) == b""


def test_handshakes_that_are_not_finished_count_in_the_limit_of_their_address(tmp_path):
    """Sixty that never shake hands: one address has sixteen at most, the oldest go, and a client comes through."""
    certificate, key = self_signed(tmp_path)
    listening = Listening(port=0, certificate=certificate, key=key, limits=Limits(at_once=8))
    with running(tmp_path, listening=listening) as one:
        host, port = one.url.removeprefix("http://").split(":")
        idle = [socket.create_connection((host, int(port)), timeout=60) for _ in range(60)]
        trusted = ssl.create_default_context(cafile=certificate)
        with Client(one.url.replace("http:", "https:"), tls=trusted, timeout=60, retries=0) as client:
            assert client.ask("GET", "/readyz")["ready"]
            assert sum(ended(line) == b"" for line in idle[:45]) == 45
            for line in idle[45:]:
                line.settimeout(0.01)
                with suppress(TimeoutError):
                    line.recv(1)
            assert client.ask("GET", "/readyz")["ready"]
        for line in idle:
            line.close()


def test_requests_in_one_piece_are_all_answered_unless_too_many_wait(served):
    request = b"GET /healthz HTTP/1.1\r\n" + HOME + b"X: " + b"x" * 400 + b"\r\n\r\n"
    with line_to(served) as line:
        line.sendall(request * lines.MOST_WAITING)
        found = b""
        while found.count(b"HTTP/1.1 200") < lines.MOST_WAITING:
            found += line.recv(1 << 20)
        assert b"HTTP/1.1 503" not in found
    with line_to(served) as line, suppress(OSError):
        line.sendall(request * 10 * lines.MOST_WAITING)
        assert ended(line).count(b"HTTP/1.1 200") < 10 * lines.MOST_WAITING


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:8571"}, 200),
        ({"Host": "[::1]:8571", "Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_a_page_of_another_site_cannot_send_events_where_there_are_no_tokens(served, headers, status):
    host, port = served.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("POST", "/v1/events", json.dumps(EVENT), {"Content-Type": "application/json"} | headers)
    assert connection.getresponse().status == status
    connection.close()


def test_the_client_has_one_deadline(tmp_path):
    """Whatever it is told, and however often it asks again."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3, fail_open=True)
        assert client.runtime([{"requested_time": 60}])[0].answered_by == "client"
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it has not asked again
            silent.accept()
    with running(tmp_path, listening=Listening(port=0, limits=Limits(rate=0.05, burst=1))) as one:
        one.client().runtime([{}])
        client = one.client(timeout=0.5, fail_open=True)
        begin = time.monotonic()
        assert client.runtime([{}])[0].answered_by == "client"
        assert time.monotonic() - begin < 10  # the service says: ask again in 20 s


@pytest.mark.parametrize("n_waiting", [0, 1])
def test_a_connection_whose_next_request_came_early_does_not_rest(n_waiting):
    told, one = [], LimitedConnection.__new__(LimitedConnection)
    one.among = SimpleNamespace(at_work=lambda which, working: told.append(working))
    one.pipeline, one.server_state = [None] * n_waiting, SimpleNamespace(total_requests=0)
    one.cycle = SimpleNamespace(more_body=False)
    one.transport = SimpleNamespace(is_closing=lambda: True)
    one.on_response_complete()
    assert told == [bool(n_waiting)]


@pytest.mark.slow
def test_a_full_disk_under_a_real_service(tmp_path):
    """Its files may not grow any more; then they may again."""
    port = free_port()
    server = start("last-two", f"sqlite:///{tmp_path}/full.db", port)
    try:
        with Client(f"http://127.0.0.1:{port}", retries=0, timeout=60) as client:
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
