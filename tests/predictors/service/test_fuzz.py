"""Thousands of requests of every kind, good, damaged and absurd: each has an answer, and none is an error of ours."""

import http.client
import json
import random
from collections import Counter

import pytest

from experiments.runs.live_starts import LiveStarts
from tests.predictors.service.test_variability import variability_state
from tests.support.service_in_thread import running

VALUES = ["submitted", "ended", "forgotten", "alice", "", None, 0, 1, -1, 2**31, 2**52, 2**63, 1e400, 1.5, True, [], {},
          "\ud800", "x" * 300, "~12345678901234", "a/b", "0042", 10**30, float("nan")]  # fmt: skip
KEYS = ["kind", "job_id", "time", "user", "executable", "procs", "requested_time", "status", "cluster", "submission",
        "events", "jobs", "job_ids", "as_of", "now", "older_than", "dry_run", "starts", "nodes", "rates",
        "probes", "x"]  # fmt: skip
IDS = ["1", "j3", "0042", "a%2Fb", "..%2f..", "%00", "9" * 20, "%ff", "x" * 300]
QUERIES = ["", "?submission=1", "?submission=-1", "?cluster=", "?submission=x&cluster=%00"]
ROUTES = {("POST", "/v1/events"): 9, ("POST", "/v1/predictions/runtime"): 6, ("POST", "/v1/predictions/variability"): 3,
          ("POST", "/v1/telemetry"): 3, ("POST", "/v1/jobs/forget"): 1, ("GET", "/v1/jobs/"): 4,
          ("GET", "/v1/start-time/"): 2, ("GET", "/v1/models"): 0.4, ("POST", "/v1/models/reload"): 0.3,
          ("GET", "/healthz"): 1, ("GET", "/readyz"): 1, ("GET", "/metrics"): 0.3,
          ("GET", "/openapi.json"): 0.3}  # fmt: skip


class Requests:
    """Random requests, the same ones from the same seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def value(self, depth=0):
        """Return any value of JSON, and some that are none."""
        draw = self.chance.random()
        if draw < 0.55 or depth > 3:
            return self.chance.choice([*VALUES, self.chance.randrange(50), 1_700_000_000 + self.chance.randrange(1000)])
        if draw < 0.75:
            return [self.value(depth + 1) for _ in range(self.chance.randrange(4))]
        return {self.chance.choice(KEYS): self.value(depth + 1) for _ in range(self.chance.randrange(5))}

    def event(self):
        """Return an event, now and then with something odd."""
        chance, kind = self.chance, self.chance.choice(["submitted", "started", "ended", "cancelled"])
        found = {"kind": kind, "job_id": chance.randrange(60), "time": 1_700_000_000 + chance.randrange(2000)}
        if chance.random() < 0.3:
            found["submission"] = chance.randrange(3)
        if kind == "submitted":
            found |= {"user": chance.choice(["a", 3]), "procs": chance.randrange(1, 9), "requested_time": 600}
        return found | ({chance.choice(KEYS): self.value()} if chance.random() < 0.15 else {})

    def next(self):
        """Return method, path, body and headers of a request."""
        chance = self.chance
        ((method, path),) = chance.choices(list(ROUTES), list(ROUTES.values()))
        if path.endswith("/"):
            path += chance.choice([*IDS, str(chance.randrange(60))]) + chance.choice(QUERIES)
        document, draw = self.value(), chance.random()
        if path == "/v1/events" and draw < 0.7:
            document = {"events": [self.event() for _ in range(chance.randrange(1, 6))]}
        elif path == "/v1/jobs/forget":
            document = {"older_than": chance.choice([3600, 10**9, 0, "x"]), "dry_run": chance.choice([True, False])}
        elif path == "/v1/predictions/runtime" and draw < 0.5:
            jobs = [{"user": "a", "requested_time": chance.randrange(1, 999)}] * chance.randrange(1, 20)
            document = chance.choice([{"jobs": jobs}, {"job_ids": [1, "j1", {"job_id": 3, "submission": 1}]}])
        body = bytearray(json.dumps(document).encode("utf-8", "surrogatepass")) if method == "POST" else None
        if body and draw > 0.9:
            body[chance.randrange(len(body))] = chance.randrange(256)
        if body and draw > 0.97:
            del body[len(body) // 2 :]
        method = chance.choice([*[method] * 30, "PUT", "DELETE", "HEAD", "PATCH"])
        kind = chance.choice([*["application/json"] * 20, "text/plain", ""])
        return method, path, None if body is None else bytes(body), {"Content-Type": kind}


@pytest.mark.parametrize("n", [150, pytest.param(8000, marks=pytest.mark.slow)])
def test_no_request_is_an_error_of_ours(tmp_path, n):
    about = {"machine_procs": 64, "starts": LiveStarts("easy", 64), "variability_state": variability_state()}
    requests, statuses = Requests(7), Counter()
    with running(tmp_path, "online-linear", **about) as one:
        host, port = one.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        for _ in range(n):
            asked = requests.next()
            connection.request(*asked)
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
            assert answer.status < 500, asked
        connection.close()
        assert one.service.failed is None
    assert {200, 404, 405, 415, 422} <= set(statuses) and statuses[200] > n // 5
