"""The commands serve, replay, promote: on a real registry, and against a service at work."""

import json

import numpy as np
import pandas as pd
import pytest

from jobcast import JobcastError, generate_log, make_predictor
from predictors.data.formats.swf import write_swf
from predictors.service import client
from predictors.tracking import client as tracking
from predictors.tracking.store import Store
from tests.support.commands import invoke
from tests.support.killing import free_port
from tests.support.named_logs import in_two, made_log, sacct_text
from tests.support.service_in_thread import running

LOG = generate_log(120, seed=6)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def registered(name, alias=None):
    run = tracking.log_run(make_predictor(name).fit(LOG), LOG, {"mae_s": 1.0}, split="all", trained_until=900)
    return tracking.register(run, "runtime", alias)


def test_a_log_replayed_equals_its_evaluation(tmp_path):
    file, out = tmp_path / "log.swf", tmp_path / "out.csv"
    write_swf(LOG, file)
    about = {"time_zone": LOG.time_zone, "machine_procs": LOG.max_procs}
    with running(tmp_path, "online-linear", **about) as one:
        done = invoke(
            "replay", file, "--url", one.url, "--check", "online-linear", "--out", out, "--json", "--batch", 50
        )
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        assert document["check"] == {
            "predictor": "online-linear", "with": "`evaluate --prequential`", "n_jobs": len(LOG), "equal": len(LOG),
            "greatest_difference_s": 0.0,
        }  # fmt: skip
        assert document["n_events"] == 3 * len(LOG)
        table = pd.read_csv(out)
        assert table["job_id"].tolist() == LOG["job_id"].tolist() and np.isfinite(table["predicted_seconds"]).all()
        again = invoke("replay", file, "--url", one.url)
        assert isinstance(again.exception, JobcastError) and "empty database" in str(again.exception)
    with running(tmp_path / "other", "last-two", **about) as one:
        done = invoke("replay", file, "--url", one.url, "--check", "online-linear", "--batch", 50)
        assert done.exit_code == 1 and "predictions equal" in done.stdout


def test_a_month_is_learnt_and_the_next_is_served_warm(home):
    """By name, from two files of sacct's: what the service says is what `predict --warm` does, to the last bit."""
    log = made_log()
    first, later = in_two(log, 150)
    (home / "march.txt").write_text(sacct_text(log, first))
    (home / "april.txt").write_text(sacct_text(log, later, shuffle=2))
    assert invoke("train", home / "march.txt", "--predictor", "last-two", "--register", "runtime").exit_code == 0
    with running(home, "models:/runtime/1", warm=True) as one, one.client() as client:
        assert client.models()["began"]["uri"] == "models:/runtime/1"
        asked = ("--check", "models:/runtime/1", "--batch", 50)
        done = invoke("replay", home / "april.txt", "--url", one.url, *asked, "--json")
        assert done.exit_code == 0, done.output
        check = json.loads(done.stdout)["check"]
        assert check["with"] == "`predict --warm`" and check["equal"] == check["n_jobs"] == len(later)


def test_a_service_follows_the_registry(home):
    registered("last-two", "champion")
    second = registered("online-linear")
    assert tracking.version_of("models:/runtime@champion") == 1 and tracking.version_of(str(home)) is None
    with running(home, "models:/runtime@champion", poll=0.2) as one, one.client() as client:
        about = client.models()["models"][0]
        assert (about["name"], about["version"], about["predictor"]) == ("runtime", 1, "last-two")
        assert about["trained_until"].endswith("Z")
        refused = invoke("promote", "models:/runtime/2", "--why", "half the error")
        assert isinstance(refused.exception, JobcastError) and "no squared error relative to" in str(refused.exception)
        done = invoke("promote", "models:/runtime/2", "--why", "half the error", "--even-if-worse", "--json")
        assert done.exit_code == 0 and json.loads(done.stdout)["version"] == 2
        for _ in range(200):
            if client.models()["models"][0]["version"] == 2:
                break
            one.service._stopping.wait(0.1)
        history = client.models()["history"]
        assert [row["version"] for row in history] == [1, 2] and "moved to version 2" in history[1]["why"]
        from mlflow import MlflowClient

        store = MlflowClient(Store.current().uri)
        tags = store.get_model_version("runtime", "2").tags
        assert any(k.startswith("jobcast.promoted.") and v.startswith("champion: half") for k, v in tags.items())
        location = store.get_model_version_download_uri("runtime", "1")
        next(__import__("pathlib").Path(location.removeprefix("file://")).rglob("predictor.json")).write_text("{}")
        invoke("promote", "models:/runtime/1", "--why", "back")
        one.service.settings.__dict__["poll"] = 0
        answer = client.reload()
        assert answer["changed"] == [] and "was changed" in answer["trouble"]["champion"]
        assert client.runtime([{}])[0].version == 2 == second.version


def test_what_cannot_be_promoted(home):
    registered("last-two")
    for words, told in (
        (("models:/runtime/9",), "no version 9"),
        (("models:/runtime/1", "--alias", "winner"), "No alias 'winner'"),
        ((str(home),), "only registered versions"),
    ):
        done = invoke("promote", *words, "--why", "w")
        assert isinstance(done.exception, JobcastError) and told in str(done.exception)
    done = invoke("promote", "models:/runtime/1", "--why", " ")
    assert isinstance(done.exception, JobcastError) and "--why is empty" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("last-two", "--host", "0.0.0.0"), "give --token-file"),
        (("last-two", "--tls-key", "k"), "TLS needs both"),
        (("last-two", "--clock", "sundial"), "'unix' or 'log'"),
        (("last-two", "--db", "mysql://x/y"), "give sqlite:///FILE"),
        (("last-two", "--policy", "eazy", "--machine-procs", 8), "No policy 'eazy'"),
        (("last-tow",), "No model 'last-tow'"),
    ],
)
def test_serve_says_at_once_what_cannot_be(tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    done = invoke("serve", *words)
    assert isinstance(done.exception, JobcastError) and told in str(done.exception)


def test_a_replay_without_a_service_ends_at_once(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(client.time, "sleep", waits.append)
    with pytest.raises(JobcastError, match="no service is there; start it with `jobcast serve`"):
        raise invoke("replay", tmp_path / "log.swf", "--url", f"http://127.0.0.1:{free_port()}").exception
    assert waits == []
