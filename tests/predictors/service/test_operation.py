"""What operators see: the log and its fields, the audit log, systemd's notifications, traces, SIGHUP."""

import io
import json
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from predictors.core.errors import JobcastError
from predictors.service.api.admission import Limits, add_token, read_tokens
from predictors.service.api.lifecycle import EarlyHangUps, Listening
from predictors.service.client import Client, ServiceError
from predictors.service.operation import systemd
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import JsonFormatter, TextFormatter, ThrottledFilter, request_id, set_up_logs
from predictors.service.operation.tracing import Tracing, configured_tracing
from tests.support.certificates import self_signed
from tests.support.killing import free_port
from tests.support.service_in_thread import running
from tests.support.waiting import until

EVENT = {"kind": "submitted", "job_id": 1, "time": 100, "requested_time": 600, "user": "alice"}


def answered(url, path, token=None, headers=None, body=None):
    """Return status and headers of an answer."""
    told = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, body, told), timeout=60) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


@pytest.fixture
def written(monkeypatch):
    """What the service's log holds, line by line, as JSON."""
    stream = io.StringIO()
    monkeypatch.setattr("predictors.service.operation.logs.sys", SimpleNamespace(stderr=stream))
    undo = set_up_logs("json", "info")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    undo()


# --- the log ---------------------------------------------------------------------------------------------------------


def record(message="%d of %s", values=(3, "a\nb"), **more):
    one = logging.LogRecord("jobcast.x", logging.WARNING, "", 0, message, values, None)
    one.created = 1700000000.25
    vars(one).update(more)
    return one


def test_a_line_is_one_line_with_its_fields_in_both_formats():
    one, mark = record(fields={"client": "two words", "n": 4}), request_id.set("r-1")
    assert json.loads(JsonFormatter().format(one)) == {
        "time": "2023-11-14T22:13:20.250Z", "level": "warning", "logger": "jobcast.x", "message": "3 of a\nb",
        "request_id": "r-1", "client": "two words", "n": 4,
    }  # fmt: skip
    assert "\n" not in JsonFormatter().format(one)
    assert TextFormatter().format(one) == (
        '2023-11-14T22:13:20.250Z warning jobcast.x: 3 of a b request_id=r-1 client="two words" n=4'
    )
    request_id.reset(mark)


def test_a_traceback_is_kept_in_both_formats():
    try:
        raise ValueError("odd")
    except ValueError:
        one = record(exc_info=sys.exc_info())
    assert "ValueError: odd" in json.loads(JsonFormatter().format(one))["exception"]
    assert TextFormatter().format(one).endswith("ValueError: odd")


@pytest.mark.parametrize(("how", "level"), [("xml", "info"), ("json", "loud")])
def test_formats_and_levels_that_are_not_there_are_named(how, level):
    with pytest.raises(JobcastError, match="is one of"):
        set_up_logs(how, level)


def test_levels_and_what_was_set_up_before(capsys):
    logger = logging.getLogger("jobcast.service")
    before = logging.getLogger("jobcast").propagate
    undo = set_up_logs("text", "warning")
    logger.info("quiet")
    logger.warning("loud")
    undo()
    assert "loud" in (told := capsys.readouterr().err) and "quiet" not in told
    assert logging.getLogger("jobcast").propagate is before


def test_what_repeats_is_told_apart_by_its_field_and_memory_is_bounded(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("predictors.service.operation.logs.time", SimpleNamespace(monotonic=lambda: now[0]))
    throttled = ThrottledFilter()
    assert [throttled.filter(record(same=who)) for who in ("a", "a", "b")] == [True, False, True]
    for who in range(5000):
        throttled.filter(record(same=str(who)))
    assert len(throttled._throttle._last) <= 1000 and len(throttled._throttle._left_out) <= 1000


def test_a_log_on_a_full_disk_harms_nobody():
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("there is no /dev/full here")
    code = (
        "import logging, sys; from predictors.service.operation.logs import set_up_logs; set_up_logs();"
        "logging.getLogger('jobcast.x').warning('told'); print('went on')"
    )
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True)
    assert done.stdout == "went on\n"


def test_each_request_has_an_id_and_a_refusal_is_told_once_with_it(tmp_path, written):
    file = tmp_path / "tokens"
    token = add_token(file, "read", "dashboard")
    listening = Listening(port=0, tokens=read_tokens(file), limits=Limits(rate=0.01, burst=6.0))
    with running(tmp_path, listening=listening) as one:
        status, headers = answered(one.url, "/v1/models", token, {"X-Request-ID": "from-me-1"})
        assert status == 200 and headers["X-Request-ID"] == "from-me-1"
        other = answered(one.url, "/healthz", headers={"X-Request-ID": "a b\tc"})[1]["X-Request-ID"]
        assert other != "a b\tc" and len(other) > 8
        assert answered(one.url, "/v1/events", token, {"X-Request-ID": "no-role"}, b"{}")[0] == 403
        for _ in range(3):
            assert answered(one.url, "/v1/models", "wrong" * 8)[0] in (401, 429)
        while answered(one.url, "/v1/models", token)[0] != 429:
            pass
    told = [line for line in written() if line["logger"] == "jobcast.access"]
    assert {line["message"].partition(":")[0].removesuffix(" (1 more times since the last line)") for line in told} >= {
        "Refused with 403", "Refused with 401", "Refused with 429",
    }  # fmt: skip
    forbidden = next(line for line in told if "403" in line["message"])
    assert forbidden["request_id"] == "no-role" and forbidden["token"] == "dashboard"
    assert forbidden["address"] == "127.0.0.1" and "may not" in forbidden["message"]
    assert sum("401" in line["message"] for line in told) == 1
    assert token not in json.dumps(written()) and "wrongwrong" not in json.dumps(written())


def test_trouble_with_the_database_is_told_with_its_reason_and_when_it_passes(tmp_path, written):
    with running(tmp_path) as one, one.client(retries=0) as client:
        file = tmp_path / "service.db"
        away = file.rename(tmp_path / "away")
        with pytest.raises(ServiceError):
            client.send([EVENT])
        come = until(lambda: [line for line in written() if line.get("trouble") == "storage"])[0]
        assert come["level"] == "error" and "taken away or replaced" in come["message"]
        away.rename(file)
        client.send([EVENT])
        until(lambda: any("written again" in line["message"] for line in written()))


def test_an_end_that_stands_against_another_is_told_with_its_number_and_the_way_out(tmp_path, written):
    with running(tmp_path) as one, one.client() as client:
        end = {"kind": "ended", "job_id": 1, "time": 150}
        client.send([EVENT, {"kind": "started", "job_id": 1, "time": 120}, end])
        receipt = client.send([{**end, "time": 190}])[0]
    assert receipt == {"sequence": 3, "status": "conflict"}
    told = [line["message"] for line in written() if "stands" in line["message"]]
    assert len(told) == 1 and "event 3," in told[0] and "jobcast correct --withdraw NUMBER " in told[0]


def test_a_model_that_cannot_be_loaded_is_told(tmp_path, written):
    with running(tmp_path) as one, one.client() as client:
        one.service.roles.trouble["champion"] = "models:/runtime@champion: no file predictor.json"
        until(lambda: any("no file predictor.json" in line["message"] for line in written()))
        assert client.ask("GET", "/readyz") == {"ready": True, "trouble": ["model"], "worse_than_last_two": []}


@pytest.mark.slow
def test_no_password_reaches_the_log(tmp_path):
    """Of a database that cannot be reached; its URL comes by the environment."""
    url = "postgresql+psycopg://me@127.0.0.1:1/x?password=hunter2"
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", "serve", "last-two", "--port", "0"],
        env={**os.environ, "JOBCAST_DB": url}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and "127.0.0.1" in done.stderr and "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


# --- the audit log ---------------------------------------------------------------------------------------------------


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_audit_log_says_who_did_what(tmp_path):
    tokens, file = tmp_path / "tokens", tmp_path / "audit.jsonl"
    reads, writes = add_token(tokens, "read", "dashboard"), add_token(tokens, "write", "slurmctld")
    with running(tmp_path, listening=Listening(port=0, tokens=read_tokens(tokens), audit_log=file)) as one:
        writer, reader = one.client(token=writes), one.client(token=reads, retries=0)
        writer.send([EVENT, {"kind": "started", "job_id": 1, "time": 110}])
        writer.send([EVENT])
        writer.reload()
        for _ in range(3):
            with pytest.raises(ServiceError):
                reader.send([EVENT])
    assert file.stat().st_mode & 0o777 == 0o600
    found = lines_of(file)
    assert [line["action"] for line in found] == [
        "service started", "events", "events", "models reloaded", "refused", "service stopped",
    ]  # fmt: skip
    one = {k: v for k, v in found[1].items() if k not in ("time", "request_id")}
    assert one == {
        "action": "events", "token": "slurmctld", "address": "127.0.0.1", "n": 2, "first": 1, "last": 2,
        "effects": {"applied": 2},
    }  # fmt: skip
    assert found[2]["effects"] == {"duplicate": 1} and found[4]["token"] == "dashboard" and found[4]["status"] == 403
    assert found[1]["request_id"] != found[2]["request_id"] and found[1]["time"].endswith("Z")
    assert "alice" not in file.read_text() and writes not in file.read_text()


def test_events_that_became_durable_after_the_answer_are_told_when_they_did(tmp_path, monkeypatch):
    """The client was told 503 and may send them again; what it did is in the audit log, with its request's id."""
    monkeypatch.setattr("predictors.service.api.context.PATIENCE", 0.2)
    file, body = tmp_path / "audit.jsonl", json.dumps(EVENT).encode()
    told = {"Content-Type": "application/json", "X-Request-ID": "late-1"}
    with running(tmp_path, listening=Listening(port=0, audit_log=file)) as one:
        release = threading.Event()
        one.service.writer.do(lambda: release.wait(120))
        assert answered(one.url, "/v1/events", headers=told, body=body)[0] == 503
        assert "events" not in [line["action"] for line in lines_of(file)]
        release.set()
        late = until(lambda: [line for line in lines_of(file) if line["action"] == "events"])[0]
        again = one.client().send([EVENT])
        counted = metrics_of(one)
    assert (late["n"], late["first"], late["answered"], late["request_id"]) == (1, 1, 503, "late-1")
    assert again == [{"sequence": 1, "status": "duplicate"}]
    assert 'jobcast_events_total{kind="submitted",what="applied"} 1.0' in counted


def test_the_audit_log_is_rotated(tmp_path):
    file = tmp_path / "audit"
    audit = AuditLog(file)
    audit.write("one")
    until(lambda: file.read_text())
    file.rename(tmp_path / "audit.1")
    audit.write("two")
    until(lambda: "two" in (tmp_path / "audit.1").read_text())
    audit.reopen()
    audit.write("three")
    audit.close()
    assert [line["action"] for line in lines_of(file)] == ["three"]


def test_the_audit_log_outlives_a_disk_that_fails(tmp_path, monkeypatch, written):
    file, real, full = tmp_path / "audit", os.write, [True]

    def write(handle, data):
        if full[0] and len(data) > 20:
            raise OSError(28, "No space left on device")
        return real(handle, data)

    audit = AuditLog(file)
    monkeypatch.setattr("predictors.service.operation.audit.os.write", write)
    monkeypatch.setattr("predictors.service.operation.audit.MOST_KEPT", 10)
    for number in range(20):
        audit.write("event", number=number)
    until(lambda: any("No space left" in line["message"] for line in written()))
    full[0] = False
    audit.close()
    kept = [line["number"] for line in lines_of(file)]
    assert kept == sorted(kept) and kept[0] == 0 and len(kept) + audit.dropped == 20


def test_a_flood_of_refusals_is_few_lines(tmp_path):
    file = tmp_path / "audit"
    audit = AuditLog(file)
    for _ in range(500):
        audit.refused(401, "a bearer token is needed", "", "10.0.0.7", "GET other")
    audit.refused(401, "a bearer token is needed", "", "10.0.0.8", "GET other")
    audit.close()
    assert [line["address"] for line in lines_of(file)] == ["10.0.0.7", "10.0.0.8"]


def test_an_audit_log_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    with pytest.raises(JobcastError, match="audit log cannot be written"):
        AuditLog(tmp_path / "nowhere" / "audit")


# --- systemd ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def systemd_socket(tmp_path, monkeypatch):
    """A socket as systemd's; what is sent to it, message by message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "notify"))
        one.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield one


def test_systemd_is_told_of_the_start_the_watchdog_and_the_end(tmp_path, systemd_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with running(tmp_path):
        found = []
        while "WATCHDOG=1" not in found or not any(one.startswith("READY=1") for one in found):
            found.append(systemd_socket.recv(4096).decode())
        assert "READY=1\nSTATUS=Serving predictions." in found
    while found[-1] != "STOPPING=1":
        found.append(systemd_socket.recv(4096).decode())


def test_the_watchdog_is_not_fed_while_the_database_hangs(tmp_path, systemd_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    monkeypatch.setattr("predictors.service.api.lifecycle.MOST_STUCK", 0.3)
    with running(tmp_path) as one:
        release = threading.Event()
        one.service.writer.do(lambda: release.wait(120))
        sender = threading.Thread(target=lambda: one.client(retries=0).send([EVENT]))
        sender.start()
        systemd_socket.settimeout(1.0)
        deadline = time.monotonic() + 60
        with pytest.raises(TimeoutError):  # nothing came for five times its share
            while time.monotonic() < deadline:
                systemd_socket.recv(4096)
        release.set()
        sender.join()


def test_without_systemd_nothing_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not systemd.notify("READY=1")
    for usec, pid in (("", ""), ("0", ""), ("x", ""), ("1000000", "1")):
        monkeypatch.setenv("WATCHDOG_USEC", usec)
        monkeypatch.setenv("WATCHDOG_PID", pid)
        assert systemd.watchdog_seconds() is None


# --- SIGHUP ----------------------------------------------------------------------------------------------------------


def shown_certificate(port):
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def test_tokens_and_certificate_are_read_anew_and_bad_ones_leave_the_old(tmp_path, written):
    certificate, key = self_signed(tmp_path, "first")
    tokens = tmp_path / "tokens"
    old = add_token(tokens, "read", "old")
    listening = Listening(
        port=0, tokens=read_tokens(tokens), token_file=tokens, certificate=certificate, key=key
    )  # fmt: skip
    with running(tmp_path, listening=listening) as one:
        address = one.url.replace("http:", "https:")
        port = int(one.url.rpartition(":")[2])
        first = shown_certificate(port)
        trusted = ssl.create_default_context(cafile=certificate)
        with Client(address, token=old, tls=trusted, retries=0) as client:
            assert client.models()
        tokens.write_text("")
        new = add_token(tokens, "read", "new")
        self_signed(tmp_path, "second")
        assert one.api.lifecycle.reload() == []
        assert shown_certificate(port) != first
        trusted = ssl.create_default_context(cafile=certificate)
        with pytest.raises(ServiceError, match="401"), Client(address, token=old, tls=trusted, retries=0) as client:
            client.models()
        with Client(address, token=new, tls=trusted, retries=0) as client:
            assert client.models()
        second = shown_certificate(port)
        tokens.write_text("")
        trusted = ssl.create_default_context(cafile=certificate)
        self_signed(tmp_path, "third")
        key.write_text("no key")
        failed = one.api.lifecycle.reload()
        assert len(failed) == 2 and "holds no token" in failed[0]
        assert shown_certificate(port) == second
        with Client(address, token=new, tls=trusted, retries=0) as client:
            assert client.models()
        assert any("Not reloaded" in line["message"] and line["level"] == "error" for line in written())


def test_a_sighup_before_the_event_loop_stands_is_kept_until_then(tmp_path):
    """It would end the process while the state is rebuilt; the files are read anew as soon as the server runs."""
    before, file = signal.getsignal(signal.SIGHUP), tmp_path / "audit"
    try:
        early = EarlyHangUps()
        os.kill(os.getpid(), signal.SIGHUP)
        assert until(lambda: early.came)
    finally:
        signal.signal(signal.SIGHUP, before)
    with running(tmp_path, listening=Listening(port=0, audit_log=file, early=early)):
        until(lambda: [line["action"] for line in lines_of(file)] == ["service started", "files read again"])


def test_what_is_no_http_is_told_in_the_log_as_all_else(tmp_path, written, capfd):
    with running(tmp_path) as one, socket.create_connection(("127.0.0.1", int(one.url.rpartition(":")[2]))) as line:
        line.sendall(b"no http at all\r\n\r\n")
        line.settimeout(20)
        assert b"400" in line.recv(4096)
        until(lambda: any(entry["logger"] == "uvicorn.error" for entry in written()))
    assert "Invalid HTTP" not in capfd.readouterr().err


@pytest.mark.slow
def test_sighup_reloads_and_breaks_no_request(tmp_path):
    """A real server, hung up on twenty times under load; then a token that is taken out of the file is refused."""
    tokens, port = tmp_path / "tokens", free_port()
    old, kept = add_token(tokens, "read", "old"), add_token(tokens, "write", "kept")
    command = [sys.executable, "-m", "experiments.cli", "serve", "last-two", "--port", str(port), "--poll", "0"]
    command += ["--db", f"sqlite:///{tmp_path}/service.db", "--token-file", str(tokens), "--log-format", "json"]
    command += ["--audit-log", str(tmp_path / "audit")]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: ready(url), 120)
        failures, stop = [], threading.Event()

        def ask():
            with Client(url, token=kept, retries=0, timeout=60) as asking:
                while not stop.is_set():
                    try:
                        asking.runtime([{"requested_time": 600}])
                    except ServiceError as error:
                        failures.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        for _ in range(20):
            server.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        stop.set()
        thread.join(120)
        assert failures == [] and server.poll() is None
        tokens.write_text("".join(f"{line}\n" for line in tokens.read_text().splitlines() if line.split()[2] != "old"))
        server.send_signal(signal.SIGHUP)
        until(lambda: answered(url, "/v1/models", old)[0] == 401)
        with Client(url, token=kept, retries=0, timeout=60) as client:
            assert client.models()
        server.send_signal(signal.SIGTERM)
        told = server.communicate(timeout=60)[1].splitlines()
        assert server.returncode in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()
    assert all(json.loads(line) for line in told) and "Traceback" not in "".join(told)
    assert [line["action"] for line in lines_of(tmp_path / "audit")].count("files read again") == 21


def ready(url):
    try:
        with urllib.request.urlopen(url + "/readyz", timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


# --- traces ----------------------------------------------------------------------------------------------------------


def test_requests_are_traced_without_names(tmp_path, monkeypatch):
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    tracing = Tracing(exporter)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    monkeypatch.setattr("predictors.service.api.server.configured_tracing", lambda: tracing)
    with running(tmp_path) as one:
        answered(one.url, "/v1/jobs/alice", headers={"traceparent": parent, "X-Request-ID": "r-7"})
        one.client().send([EVENT])
        tracing._provider.force_flush()
        spans = {span.name: span for span in exporter.get_finished_spans()}
    span = spans["GET /v1/jobs/{job_id}"]
    assert format(span.context.trace_id, "032x") == parent.split("-")[1]
    assert span.attributes["http.response.status_code"] == 404 and span.attributes["jobcast.request_id"] == "r-7"
    assert spans["POST /v1/events"].attributes["http.route"] == "/v1/events"
    assert "alice" not in str([span.to_json() for span in spans.values()])


def test_traces_come_with_an_endpoint_only_and_name_the_missing_package(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert configured_tracing() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(JobcastError, match="jobcast\\[traces\\]"):
        configured_tracing()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert configured_tracing() is None


# --- metrics ---------------------------------------------------------------------------------------------------------


def metrics_of(one):
    with urllib.request.urlopen(one.url + "/metrics", timeout=60) as response:
        return response.read().decode()


def values_of(page, name):
    return [float(line.rpartition(" ")[2]) for line in page.splitlines() if line.split("{")[0].split(" ")[0] == name]


def test_metrics_say_what_the_service_is_and_how_far_it_is(tmp_path):
    with running(tmp_path) as one, one.client() as client:
        begin = time.time()
        client.send([EVENT, {"kind": "started", "job_id": 1, "time": 110}, {"kind": "ended", "job_id": 1, "time": 90}])
        page = metrics_of(one)
        for name, value in (
            ("jobcast_newest_event_timestamp_seconds", 110.0), ("jobcast_refused_events_total", 1.0),
            ("jobcast_oldest_waiting_event_seconds", 0.0), ("jobcast_held_jobs_dropped_total", 0.0),
            ("jobcast_snapshot_sequence", 0.0), ("jobcast_build_info", 1.0), ("jobcast_audit_lines_dropped_total", 0.0),
        ):  # fmt: skip
            assert values_of(page, name) == [value], name
        assert begin - 1 < values_of(page, "jobcast_last_commit_timestamp_seconds")[0] < time.time() + 1
        assert values_of(page, "jobcast_connections")[0] >= 1
        assert values_of(page, "jobcast_snapshot_timestamp_seconds") == [] and "_created" not in page
        assert 'jobcast_trouble{kind="storage"} 0.0' in page
        if sys.platform == "linux":
            assert values_of(page, "process_resident_memory_bytes")[0] > 1e7 and values_of(page, "python_info")
    with running(tmp_path) as one:  # from the snapshot that the first one kept
        page = metrics_of(one)
        assert values_of(page, "jobcast_snapshot_sequence") == [3.0]
        assert begin - 1 < values_of(page, "jobcast_snapshot_timestamp_seconds")[0] < time.time() + 1


def test_an_event_that_waits_shows_in_the_metrics_and_makes_the_service_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr("predictors.service.state.health.MOST_WAIT", 0.2)
    with running(tmp_path) as one:
        release = threading.Event()
        one.service.writer.do(lambda: release.wait(120))
        sender = threading.Thread(target=lambda: one.client(retries=0).send([EVENT]))
        sender.start()
        until(lambda: answered(one.url, "/readyz")[0] == 503)
        assert values_of(metrics_of(one), "jobcast_oldest_waiting_event_seconds")[0] > 0.2
        release.set()
        sender.join()
        assert answered(one.url, "/readyz")[0] == 200


def test_promtool_finds_nothing_to_mend(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    with running(tmp_path) as one, one.client() as client:
        client.send([EVENT])
        client.runtime([{}])
        page = metrics_of(one)
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "jobcast" in line]
    assert ours == [] and done.returncode in (0, 3), done.stderr


def test_a_request_that_fails_counts_as_an_error_and_is_told(tmp_path, written):
    """The alert on the share of errors sees it."""
    with running(tmp_path) as one, one.client(retries=0) as client:
        one.service.store.events_of = lambda job: 1 / 0
        with pytest.raises(ServiceError, match="500"):
            client.job(7)
        assert 'jobcast_request_seconds_count{route="/v1/jobs/{job_id}",status="5xx"} 1.0' in metrics_of(one)
    assert any("A request failed: ZeroDivisionError" in line["message"] for line in written())
