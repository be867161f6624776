"""Counters in, verdicts out; and forecasts of starts."""

import numpy as np
import pytest

from experiments.runs.live_starts import LiveStarts
from predictors.service.client import ServiceError
from predictors.service.state.variability import VariabilityState
from predictors.tracking.describe import LoadedClassifier
from predictors.tracking.model_folder import ClassifierOrigin
from predictors.variability.classifiers.registry import make_classifier
from predictors.variability.features import FEATURES
from tests.support.service_in_thread import running


def variability_state(scope="all"):
    """Return the state of a service whose classifier says variation where the first counter is high."""
    rows = np.zeros((40, len(FEATURES)))
    rows[20:, :3] = 5.0
    model = make_classifier("adaboost").fit(rows, np.arange(40) // 20, features=FEATURES)
    about = {"classifier": "adaboost", "dataset": "made up", "dataset_sha256": "", "labels": "two classes"}
    origin = ClassifierOrigin(**about, scope=scope, window=300.0, n_runs=40, trained_until=0.0, norms={})
    return VariabilityState(
        LoadedClassifier(classifier=model, origin=origin, sha256="", uri="folder", name="moments", version=3)
    )


def sample(time, level, nodes=(0, 1, 2, 3)):
    return {"time": time, "nodes": list(nodes), "rates": [[level] * 90 for _ in nodes]}


def test_a_verdict_follows_the_counters(tmp_path):
    with running(tmp_path, variability_state=variability_state()) as one, one.client(retries=0) as client:
        asked = {"starts": [{"application": "AMG", "workload": "network"}]}
        first = client.ask("POST", "/v1/predictions/variability", asked)
        assert (
            first["predictions"][0]["abstained"] and first["predictions"][0]["why"] and first["newest_sample"] is None
        )
        for time in range(100, 400, 10):
            client.ask("POST", "/v1/telemetry", sample(float(time), 0.0))
        quiet = client.ask("POST", "/v1/predictions/variability", asked)
        assert quiet["predictions"][0]["label"] == "none" and quiet["newest_sample"] == 390.0
        assert (quiet["classifier"], quiet["version"]) == ("moments", 3)
        for time in range(1000, 1310, 10):
            client.ask("POST", "/v1/telemetry", sample(float(time), 5.0))
        loud = client.ask("POST", "/v1/predictions/variability", asked)["predictions"][0]
        assert loud["label"] == "variation" and loud["probability"] > 0.5 and not loud["abstained"]
        gone = client.ask("POST", "/v1/predictions/variability", {**asked, "now": 300.0})["predictions"][0]
        assert gone["abstained"]


def test_bad_telemetry_is_refused_and_changes_nothing(tmp_path):
    with running(tmp_path, variability_state=variability_state("job")) as one, one.client(retries=0) as client:
        client.ask("POST", "/v1/telemetry", sample(100.0, 1.0))
        for bad, told in (
            (sample(100.0, 1.0), "409 time: must be after the newest sample's, 100; got 100"),
            (sample(110.0, 1.0, (0, 9)), "409 nodes: expected those of the first sample; got 9"),
            (sample(110.0, 1.0, (0, 0)), r"409 nodes, rates: each node once with 90 rates; got nodes \[0, 0\]"),
            (sample(110.0, -1.0), "422 rates"),
            ({**sample(110.0, 1.0), "rates": [[1.0] * 90]}, "422 rates: as many rows as nodes, 4, are needed; got 1"),
            ({**sample(110.0, 1.0), "rates": [[1.0] * 89] * 4}, "422 rates"),
            ({**sample(110.0, 1.0), "more": 1}, "422 "),
            (sample(9e10, 1.0), "422 time: lies more than a minute ahead of the service's clock; got 90000000000"),
        ):
            with pytest.raises(ServiceError, match=told):
                client.ask("POST", "/v1/telemetry", bad)
        assert client.ask("POST", "/v1/telemetry", sample(110.0, 1.0, (2, 1)))["newest_sample"] == 110.0
        for start, told in (({}, "nodes: this classifier .* got none"), ({"nodes": [7]}, "nodes: expected .* got 7")):
            with pytest.raises(ServiceError, match=f"422 {told}"):
                client.ask("POST", "/v1/predictions/variability", {"starts": [start]})
        assert client.ask("POST", "/v1/predictions/variability", {"starts": [{"nodes": [2], "probes": [None] * 9}]})


def test_without_a_classifier_the_routes_say_so(tmp_path):
    with running(tmp_path) as one, one.client(retries=0) as client:
        for path, body in (("telemetry", sample(1.0, 1.0)), ("predictions/variability", {"starts": [{}]})):
            with pytest.raises(ServiceError, match="404 this service has no classifier"):
                client.ask("POST", f"/v1/{path}", body)


def test_starts_of_waiting_jobs_are_forecast(tmp_path):
    begin = 1_700_000_000
    with running(tmp_path, starts=LiveStarts("easy", 8), machine_procs=8, clock="log") as one, one.client() as client:
        for job, procs in ((1, 8), (2, 4), (3, 8)):
            client.send([{"kind": "submitted", "job_id": job, "time": begin, "procs": procs, "requested_time": 1000}])
        client.send([{"kind": "started", "job_id": 1, "time": begin + 10}])
        client.send([{"kind": "submitted", "job_id": "odd", "time": begin + 100, "procs": 99, "requested_time": 10}])
        one.learnt()
        running_now, second, third = (client.start_time(job) for job in (1, 2, 3))
        assert running_now["p10"] == running_now["p90"] == begin + 10
        assert begin + 100 < second["p10"] <= second["p50"] <= second["p90"] <= begin + 1010
        assert second["p50"] < third["p50"] and second["now"] == begin + 100
        with pytest.raises(ServiceError, match=r"422 job_id: the jobs may need the machine's 8 processors .* got 99"):
            client.start_time("odd")
        with pytest.raises(ServiceError, match="404"):
            client.start_time(77)
