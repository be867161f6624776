"""Drift, training again, promotion, and the service that takes the new champion up."""

import json

import pytest

from jobcast import JobcastError, generate_log, write_log
from predictors.tracking import client as tracking
from tests.support.commands import printed
from tests.support.service_in_thread import running


def lived(days):
    """Events of jobs that run for a minute of their ten, for so many days."""
    events = []
    for job in range(days * 12):
        begin = job * 7200
        about = {"job_id": job, "time": begin}
        events += [
            {**about, "kind": "submitted", "procs": 1, "requested_time": 600, "user": job % 3},
            {**about, "kind": "started"},
            {**about, "kind": "ended", "time": begin + 60 + job % 5, "status": 1},
        ]
    return events


@pytest.mark.slow
def test_drift_trains_and_promotes_and_the_service_takes_it_up(home):
    write_log(generate_log(1200, seed=8), home / "log.swf")
    train = ("train", home / "log.swf", "--register", "runtime", "--alias", "champion")
    printed(*train, "--predictor", "requested", "--even-if-worse")
    with running(home, "models:/runtime@champion", clock="log", poll=0) as one, one.client() as client:
        asked = (*train, "--predictor", "similar-mean", "--if-drift", one.url)
        assert "has not become worse than last-two" in printed(*asked) and "Nothing was trained." in printed(*asked)
        events = lived(40)
        for first in range(0, len(events), 600):
            client.send(events[first : first + 600])
        one.learnt()
        drift = client.models()["models"][0]["drift"]
        assert drift["stands"] and drift["false_alarms_per_year"] == 0.05 and drift["squared_error_ratio_since"] > 1
        assert client.ask("GET", "/readyz")["worse_than_last_two"] == ["champion"]
        with pytest.raises(JobcastError, match=r"requested on the last 240 jobs .* 1\.000 times that of the champion"):
            refit_alike = (*train, "--predictor", "requested", "--if-drift", one.url)
            with pytest.MonkeyPatch.context() as patch:  # as good as last-two, no better than the champion
                patch.setattr("experiments.cli.evaluate.refuse_worse", lambda *_: None)
                printed(*refit_alike)
        assert tracking.version_of("models:/runtime@champion") == 1
        told = json.loads(printed(*asked, "--json"))
        assert told["trained"] and told["squared_error_ratio_to_champion"] < 1
        assert tracking.version_of("models:/runtime@champion") == 2
        assert client.reload()["changed"][0]["version"] == 2
        assert "Nothing was trained." in printed(*asked)  # the new one begins without evidence
        with pytest.raises(JobcastError, match="--register runtime"):
            printed("train", home / "log.swf", "--register", "other", "--alias", "champion", "--if-drift", one.url)
    with pytest.raises(JobcastError, match="--alias champion"):
        printed("train", home / "log.swf", "--if-drift", "http://127.0.0.1:9")
