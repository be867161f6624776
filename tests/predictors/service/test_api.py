"""The web API over a real socket: events, predictions, jobs, models; bad input of every kind has a stated answer."""

import json
import select
import socket
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from predictors.service.api.admission import Limits
from predictors.service.api.lifecycle import Listening
from predictors.service.client import Client, ServiceError
from predictors.service.pseudonyms import Pseudonymiser
from tests.support.service_in_thread import running

SUBMITTED = {"kind": "submitted", "job_id": 1, "time": 100, "procs": 4, "requested_time": 600, "user": "alice"}
STARTED = {"kind": "started", "job_id": 1, "time": 160}
ENDED = {"kind": "ended", "job_id": 1, "time": 260, "status": 1}
HOME = b"Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    limits = Limits(body_bytes=4 * 2**20, at_once=50)
    with running(
        tmp_path_factory.mktemp("api"),
        key=Pseudonymiser(b"0123456789abcdef"),
        listening=Listening(port=0, limits=limits),
    ) as one:
        yield one


@pytest.fixture
def client(served):
    with served.client(retries=0, timeout=60) as client:
        yield client


def raw(served, method, path, body=None, headers=None):
    headers = {"Content-Type": "application/json"} | (headers or {})
    request = urllib.request.Request(served.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read() or b"null"), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null"), error.headers


def test_a_job_from_its_submission_to_its_end(served, client):
    receipts = client.send([SUBMITTED, STARTED, ENDED])
    assert [one["status"] for one in receipts] == ["applied"] * 3
    last = receipts[-1]["sequence"]
    asked = {"procs": 4, "requested_time": 600, "user": "alice"}
    answer = client.runtime([asked, {**asked, "user": "bob"}], as_of=last, now=300)
    assert [(one.seconds, one.answered_by, one.fallback) for one in answer] == [
        (100.0, "last-two", False),
        (600.0, "requested", True),
    ]
    assert answer[1].why == "nothing learnt yet" and answer[0].sequence >= last and answer[0].model == "last-two"
    told = client.recorded([1, 987_654], as_of=last)
    assert [one.seconds for one in told] == [600.0, None]
    job = client.job(1)
    assert job["state"] == "over" and job["run_time"] == 100 and job["status"] == 1
    assert job["predictions"][0]["seconds"] == 600.0 and job["predictions"][0]["name"] == "last-two"


def test_a_wrong_end_is_in_nobodys_way_and_the_job_runs_until_the_right_one(client):
    about = {"job_id": "wrong"}
    told = client.send([{**one, **about} for one in (SUBMITTED, STARTED, {**ENDED, "time": 150})])
    assert [one["status"] for one in told] == ["applied", "applied", "refused"]
    job = client.job("wrong")
    assert job["state"] == "running" and job["ended"] is None and job["refused"] == 1
    assert client.send([{**ENDED, **about, "time": 150}])[0] == told[-1]  # the same again is the same
    assert client.send([{**ENDED, **about}])[0]["status"] == "applied"
    job = client.job("wrong")
    assert job["state"] == "over" and job["run_time"] == 100
    assert client.send([{**ENDED, **about, "time": 150}])[0]["status"] == "conflict"
    queued = {**SUBMITTED, "job_id": "gone"}
    client.send([queued, {"kind": "cancelled", "job_id": "gone", "time": 120}, {**STARTED, "job_id": "gone"}])
    assert client.job("gone")["state"] == "cancelled"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": 1}, "colour: unknown field"),
        ({"time": -1}, "time: expected a whole number >= 0; got -1"),
        ({"time": 1.5}, "time: expected a whole number; got 1.5"),
        ({"time": True}, "time: expected a whole number; got true"),
        ({"time": 2**62}, f"time: expected a whole number <= {2**40 - 1}; got {2**62}"),
        ({"time": 10**300}, f"time: expected a whole number <= {2**40 - 1}; got 1{'0' * 39}…"),
        ({"time": 4 * 10**9}, "time: lies more than an hour ahead of the service's clock; got 4000000000"),
        ({"submission": 4 * 10**9}, "submission: lies more than an hour ahead of the service's clock; got 4000000000"),
        ({"job_id": ""}, 'job_id: expected text of length >= 1; got ""'),
        ({"job_id": None}, "job_id: expected a whole number or text; got null"),
        ({"job_id": 2**52}, f"job_id: expected a whole number <= {2**52 - 1}; got {2**52}"),
        ({"user": "x" * 257}, f'user: expected text of length <= 256; got "{"x" * 39}…'),
        ({"procs": 2**31}, f"procs: expected a whole number <= {2**31 - 1}; got {2**31}"),
        ({"kind": "exploded"}, 'kind: expected one of submitted, started, ended, cancelled; got "exploded"'),
        ({"status": 1}, "status: does not belong to an event of the kind submitted; got 1"),
        ({"kind": "started"}, "procs: does not belong to an event of the kind started; got 4"),
        ({"kind": "ended", "status": 9}, "status: expected a whole number <= 5; got 9"),
    ],
)
def test_events_that_cannot_be_are_refused_with_field_rule_and_value(served, change, told):
    event = {**SUBMITTED, "job_id": 77, **change}
    assert raw(served, "POST", "/v1/events", json.dumps(event).encode())[:2] == (422, {"error": told})
    good = {**SUBMITTED, "job_id": "good"}
    batch = json.dumps({"events": [good, event]}).encode()
    assert raw(served, "POST", "/v1/events", batch)[:2] == (422, {"error": f"events.1.{told}"})
    assert raw(served, "GET", "/v1/jobs/good")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("events", b"{}", "kind: is missing"),
        ("events", b'{"kind":"ended","job_id":1,"time":1,"time":2}', "time: an object has each key once; got it 2"),
        ("events", rb'{"events":[{"kind":"ended","job_id":1,"time":1,"t\u0069me":1}]}', "time: an object has each key"),
        ("predictions/runtime", b"[]", "expected an object; got []"),
        ("predictions/runtime", b'{"jobs":[{}],"jobs":[{}]}', "jobs: an object has each key once; got it 2 times"),
        ("predictions/runtime", b'{"jobs":[{"user":1,"user":1}]}', "user: an object has each key once; got it 2 times"),
        ("predictions/runtime", b"{}", "give either jobs or job_ids; got neither"),
        ("predictions/runtime", b'{"jobs":[]}', "jobs: expected a list of length >= 1; got []"),
        ("predictions/runtime", b'{"job_ids":[7,{"cluster":"a"}]}', "job_ids.1.job_id: is missing"),
        ("predictions/runtime", b'{"job_ids":[[]]}', "job_ids.0: expected a whole number or text or an object; got []"),
        ("jobs/forget", b'{"older_than":3600,"older_than":7200}', "older_than: an object has each key once"),
    ],
)
def test_questions_that_cannot_be_are_refused_with_field_rule_and_value(served, path, body, told):
    status, answer, _ = raw(served, "POST", f"/v1/{path}", body)
    assert status == 422 and answer["error"].startswith(told)


@pytest.mark.parametrize("body", [b"", b"{", b"[1", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b"null", b"7", b'"x"'])
@pytest.mark.parametrize("path", ["/v1/events", "/v1/predictions/runtime"])
def test_bodies_that_are_no_request(served, path, body):
    status, answer, _ = raw(served, "POST", path, body)
    assert status in (400, 422) and list(answer) == ["error"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"jobs": [{}], "job_ids": [1]}, 422),
        ({"jobs": [{}], "as_of": -1}, 422),
        ({"jobs": [{}], "as_of": 10**9}, 409),
        ({"jobs": [{"time": 4}]}, 422),
        ({"jobs": [{}] * 10_001}, 422),
        ({"jobs": [{}]}, 200),
        ({"job_ids": ["nobody"]}, 200),
    ],
)
def test_questions(served, asked, status):
    assert raw(served, "POST", "/v1/predictions/runtime", json.dumps(asked).encode())[0] == status


def test_ten_thousand_at_once_are_those_one_by_one(client):
    client.send(
        {"kind": kind, "job_id": f"many{i}", "time": 1000 + 10 * i + step, **({"user": i % 50} if not step else {})}
        for i in range(300)
        for step, kind in enumerate(("submitted", "started", "ended"))
    )
    jobs = [{"user": i % 60, "requested_time": 100 + i, "procs": 1 + i % 7} for i in range(10_000)]
    at_once = client.runtime(jobs, now=9_000)
    assert len(at_once) == 10_000
    for i in (0, 59, 4321, 9_999):
        alone = client.runtime([jobs[i]], now=9_000)[0]
        assert (alone.seconds, alone.p50, alone.answered_by) == (
            at_once[i].seconds,
            at_once[i].p50,
            at_once[i].answered_by,
        )
    assert at_once[0].p10 is not None


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(served):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(b"POST /v1/events HTTP/1.1\r\n" + HOME + b"Content-Length: 104857600\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_that_grows_too_large_in_pieces_is_refused(served):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(b"POST /v1/events HTTP/1.1\r\n" + HOME + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
        try:
            for _ in range(40):
                line.sendall(piece)
        except OSError:
            pass  # the service has hung up already
        assert line.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_slow_client_is_hung_up_on_and_holds_up_nobody(tmp_path):
    with running(tmp_path, listening=Listening(port=0, limits=Limits(body_seconds=3.0))) as one, one.client() as client:
        client.runtime([{}])  # compiled
        host, port = one.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as line:
            line.sendall(b"POST /v1/events HTTP/1.1\r\n" + HOME + b"Content-Length: 1000\r\n\r\n{")
            assert client.runtime([{}])
            assert select.select([line], [], [], 0)[0] == []  # it is still waited for
            assert line.recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("name", [4711, "4711", "0042", 2**52 - 1, "a/b", "ä #1", "1" * 20])
def test_a_job_is_found_by_the_id_that_it_was_given(client, name):
    assert client.send([{**SUBMITTED, "job_id": name}])[0]["status"] == "applied"
    assert client.job(name)["submitted"] == 100
    client.send([{**STARTED, "job_id": name}, {**ENDED, "job_id": name}])


def test_an_id_that_begins_anew_is_another_job_with_its_submission(client):
    """As in sacct: a requeued job, a scheduler whose ids wrapped, another cluster."""
    told = {}
    for cluster, submission in (("a", 100), ("a", 900), ("b", 100), (None, 100)):
        about = {"job_id": 88, "submission": submission} | ({} if cluster is None else {"cluster": cluster})
        events = [{**one, **about, "time": one["time"] + submission} for one in (SUBMITTED, STARTED, ENDED)]
        receipts = client.send(events)
        assert [one["status"] for one in receipts] == ["applied"] * 3
        job = client.job(88, cluster=cluster, submission=submission)
        assert job["submitted"] == submission + 100 and job["run_time"] == 100
        told[cluster, submission] = {name: about[name] for name in about}
    answers = client.recorded([*told.values(), 88], as_of=receipts[-1]["sequence"])
    assert [one.seconds is None for one in answers] == [False] * 4 + [True]


def test_head_and_allow(served):
    assert raw(served, "HEAD", "/healthz")[0] == 200
    status, _, headers = raw(served, "POST", "/healthz")
    assert status == 405 and "GET" in headers["Allow"]
    assert raw(served, "POST", "/v1/models", b"x", {"Content-Type": "text/plain"})[0] == 405
    assert raw(served, "POST", "/v1/nothing", b"x", {"Content-Type": "text/plain"})[0] == 404
    assert raw(served, "POST", "/v1/models/reload", b"x", {"Content-Type": "text/plain"})[0] == 415


def test_what_is_not_there(served):
    assert raw(served, "GET", "/v1/jobs/never")[0] == 404
    assert raw(served, "GET", "/v1/nothing")[0] == 404
    assert raw(served, "GET", "/v1/events")[0] == 405
    assert raw(served, "GET", "/v1/start-time/1")[0] == 404
    assert raw(served, "GET", "/docs")[0] == 404
    assert raw(served, "GET", f"/v1/jobs/1?submission={2**40 - 1}")[0] == 404
    most = 2**40
    for address, told in (("9" * 300, f"job_id: expected 1 to 256 characters in the address; got '{'9' * 40}'"),
                          ("1?cluster=", "cluster: expected 1 to 256 characters in the address; got ''"),
                          (f"1?submission={most}", f"submission: expected a whole number below {most}; got '{most}'"),
                          ):  # fmt: skip
        assert raw(served, "GET", f"/v1/jobs/{address}")[:2] == (422, {"error": told})


def test_models_health_and_metrics(served, client):
    about = client.models()
    assert about["models"][0]["role"] == "champion" and about["history"][0]["why"] == "the service was started with it"
    assert raw(served, "GET", "/healthz")[:2] == (200, {"alive": True})
    assert raw(served, "GET", "/readyz")[:2] == (200, {"ready": True, "trouble": [], "worse_than_last_two": []})
    assert client.reload() == {"changed": [], "trouble": {}}
    with urllib.request.urlopen(served.url + "/metrics", timeout=60) as response:
        page = response.read().decode()
    for name in (
        "jobcast_request_seconds_bucket",
        "jobcast_events_total",
        "jobcast_learnt_sequence",
        "jobcast_recent_outcomes",
    ):
        assert name in page
    assert 'jobcast_model_worse{role="champion"} 0.0' in page
    assert "alice" not in page and "/v1/jobs/never" not in page


def test_names_are_never_stored(served, client):
    client.send([{**SUBMITTED, "job_id": "secret-job", "user": "mallory", "queue": "private"}])
    served.learnt()
    served.service.store.engine.dispose()
    files = list(served.service.store.engine.url.database.rpartition("/")[0:1])
    stored = b"".join(path.read_bytes() for path in __import__("pathlib").Path(files[0]).glob("service.db*"))
    assert b"mallory" not in stored and b"secret-job" not in stored and b"private" not in stored


def test_too_many_requests_at_once_are_turned_away(tmp_path):
    listening = Listening(port=0, limits=Limits(rate=5, burst=3))
    with running(tmp_path, listening=listening) as one:
        statuses = [raw(one, "GET", "/v1/models") for _ in range(6)]
        assert [status for status, _, _ in statuses].count(429) >= 2
        assert int(statuses[-1][2]["Retry-After"]) >= 1
        assert raw(one, "GET", "/healthz")[0] == 200
        with one.client(retries=5) as patient:
            assert patient.models()


def test_overload_is_told_quickly_and_passes(tmp_path):
    with running(tmp_path, most_pending=100) as one, one.client(retries=0) as client:
        with pytest.raises(ServiceError, match="503 too many events wait"):
            client.send([{**SUBMITTED, "job_id": i} for i in range(101)])
        assert client.send([{**SUBMITTED, "job_id": i} for i in range(100)])[-1]["status"] == "applied"
        one.learnt()
        assert client.send([{**SUBMITTED, "job_id": i} for i in range(100, 180)])[-1]["status"] == "applied"


def test_a_service_that_rebuilds_says_so(tmp_path):
    with running(tmp_path) as one:
        one.service._ready.clear()
        assert raw(one, "GET", "/readyz")[0] == 503
        assert raw(one, "POST", "/v1/events", json.dumps(SUBMITTED).encode())[0] == 503
        assert raw(one, "GET", "/healthz")[0] == 200
        one.service._ready.set()


def test_many_clients_at_once(served):
    def go(number):
        with served.client(retries=5, timeout=60) as client:
            for i in range(20):
                job = f"c{number}-{i}"
                client.send([{**SUBMITTED, "job_id": job}, {**STARTED, "job_id": job}])
                client.runtime([{"user": number}])
        done.append(number)

    done = []
    threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == list(range(8))


def test_the_client_fails_open_only_when_asked():
    nobody = Client("http://127.0.0.1:9", timeout=0.2, retries=1)
    with pytest.raises(ServiceError) as error:
        nobody.runtime([{"requested_time": 60}])
    assert error.value.status == 0
    with pytest.raises(ServiceError):
        nobody.send([SUBMITTED])
    open_ = Client("http://127.0.0.1:9", timeout=0.2, retries=0, fail_open=True)
    assert [one.seconds for one in open_.runtime([{"requested_time": 60}, {}])] == [60.0, 3600.0]
    with pytest.raises(ServiceError):
        open_.send([SUBMITTED])


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]"])
def test_an_address_of_something_else_is_told(body):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with (
            pytest.raises(ServiceError, match="200 is no answer of jobcast's service"),
            Client(f"http://127.0.0.1:{server.server_port}", timeout=60) as client,
        ):
            client.models()
