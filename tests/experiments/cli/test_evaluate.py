"""`jobcast evaluate`, `train` and `predict` as a user types them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.cli import evaluate as cli
from experiments.cli.options.evaluate import Evaluate
from experiments.cli.options.shared import names_of
from jobcast import JobcastError, JobLog, generate_log, make_predictor, read_log, write_log
from predictors.evaluation.evaluate import evaluate as evaluate_log
from predictors.registry import seeded
from predictors.tracking import client as tracking
from predictors.tracking.client import load_model
from tests.support.commands import printed
from tests.support.named_logs import in_two, made_log, read_text, sacct_text


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "small.swf.gz"
    write_log(generate_log(300, seed=3, users=6), path)
    return path


def test_the_document_and_nothing_else(log):
    document = json.loads(printed("evaluate", log, "--predictors", "requested,tsafrir", "--json"))
    assert [one["name"] for one in document["predictors"]] == ["last-two", "requested", "tsafrir"]
    assert document["log"].startswith("small") and document["split"] == "train 0.8"
    assert [one["purpose"] for one in document["recommendations"]][:2] == ["squared error", "typical job"]
    assert all(one["sentence"].endswith(".") for one in document["recommendations"])
    assert "slices" not in document["predictors"][0]
    assert (
        "slices"
        in json.loads(printed("evaluate", log, "--predictors", "tsafrir", "--json", "--details"))["predictors"][0]
    )


def test_a_wrong_name_is_said_before_the_log_is_read(tmp_path):
    with pytest.raises(JobcastError, match="No predictor 'oracle'"):
        printed("evaluate", tmp_path / "nowhere.swf", "--predictors", "oracle")


def test_the_default_compares_what_wins_somewhere():
    assert set(names_of(Evaluate.predictors)) == {
        "average", "boosted", "forest", "similar-mean", "similar", "requested",
    }  # fmt: skip
    for name in names_of(Evaluate.predictors):
        make_predictor(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a store, in use, and two logs: one of 400 jobs, and what the same machine did next."""
    folder = tmp_path_factory.mktemp("home")
    log = generate_log(1500, seed=5)
    write_log(log.select(slice(0, 400)), folder / "first.swf")
    ends = (log.filled("submit") + log.filled("wait") + log.filled("run_time"))[:400]
    write_log(log.select(log.filled("submit") > ends.max()), folder / "later.swf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOBCAST_HOME", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


@pytest.fixture(scope="module")
def last_two(home):
    """Address of a last-two model of the first log."""
    trained = json.loads(
        printed("train", home / "first.swf", "--predictor", "last-two", "--register", "base", "--json")
    )
    return trained["model"]["uri"]


def test_train_keeps_the_champion_that_learnt_from_all_jobs_and_predict_uses_it(home):
    """What is written equals, to the last bit, a forest fitted on the whole log; the text says where it is kept."""
    log, _ = read_log(home / "first.swf")
    said = printed(
        "train", home / "first.swf", "--predictor", "forest", "--register", "runtime", "--alias", "champion", "--seed",
        3,
    )  # fmt: skip
    assert "Kept as models:/runtime@champion, version 1" in said and f"all {len(log)} jobs" in said
    said = printed("predict", "models:/runtime@champion", home / "first.swf", "--out", home / "p.csv")
    assert "models:/runtime@champion" in said and "history starts cold" in said and "this very log" in said
    written = pd.read_csv(home / "p.csv")
    columns = ["job_id", "predicted_seconds", "fallback", "requested_time", "answered_by", "p10", "p50", "p90"]
    assert list(written.columns) == columns
    np.testing.assert_array_equal(written["job_id"], log.filled("job_id"))
    expected = make_predictor("forest", **seeded("forest", 3)).fit(log).predict(log)
    np.testing.assert_array_equal(written["predicted_seconds"], expected)
    assert (expected != make_predictor("forest", **seeded("forest", 4)).fit(log).predict(log)).any(), (
        "the seed must matter"
    )


def test_the_run_shows_the_figures_of_the_evaluation(home):
    """Scored on the jobs that were not learnt from, as `jobcast evaluate` does; the document says the same."""
    from mlflow import MlflowClient

    log, _ = read_log(home / "first.swf")
    out = json.loads(
        printed("train", home / "first.swf", "--predictor", "tsafrir", "--register", "t", "--train", 0.7, "--json")
    )
    score = evaluate_log(log, ["tsafrir"], train=0.7)["tsafrir"]
    run = MlflowClient(f"sqlite:///{home}/mlruns/mlflow.db").get_run(out["model"]["run_id"])
    for name in ("mae_s", "rmse_s", "sse_s2", "sse_ratio_to_last_two", "r2", "mean_accuracy", "underestimation_rate"):
        assert run.data.metrics[name] == out["evaluation"][name] == score.figures.to_dict()[name]
    assert "fit_seconds" in run.data.metrics and run.data.metrics["sse_ratio_low"] == score.interval[0]
    assert out["evaluation"]["split"] in run.data.params["split"] and "all 400 jobs" in run.data.params["split"]


def test_the_document_says_what_was_kept(home, last_two):
    out = json.loads(printed("train", home / "first.swf", "--predictor", "last-two", "--register", "base", "--json"))
    loaded = load_model(out["model"]["uri"])
    assert (out["log"], out["predictor"]) == ("first", "last-two")
    assert out["model"]["uri"] == f"models:/base/{out['model']['version']}" and out["model"]["alias"] is None
    assert out["model"]["sha256"] == loaded.sha256
    log, _ = read_log(home / "first.swf")
    ends = log.filled("submit") + log.filled("wait") + log.filled("run_time")
    assert out["model"]["trained_until_s"] == loaded.trained_until == ends.max()
    assert out["store"] == f"sqlite:///{home}/mlruns/mlflow.db"


def test_predict_marks_what_nothing_learnt_stands_behind(home, last_two):
    """A user's first job is predicted by its request, and marked."""
    log, _ = read_log(home / "first.swf")
    document = json.loads(printed("predict", last_two, home / "first.swf", "--out", home / "f.csv", "--json"))
    written = pd.read_csv(home / "f.csv")
    first = ~pd.Series(log.filled("user")).duplicated()
    assert written["fallback"][first].eq(1).all() and written["fallback"].eq(0).any()
    marked = written[written["fallback"] == 1]
    assert (marked["predicted_seconds"] == marked["requested_time"]).all()
    assert document["n_fallback"] == len(marked) and document["n_jobs"] == len(log)
    assert document["learnt_from_this_log"] and document["model"]["name"] == "base"


def test_predict_leaves_an_unknown_request_empty(home, last_two, tmp_path):
    write_log(
        JobLog.from_columns(
            {"job_id": [1, 2], "submit": [0, 9], "requested_time": [60, 0]}, {"requested_time": [0, 1]}
        ),
        tmp_path / "two.swf",
    )
    printed("predict", last_two, tmp_path / "two.swf", "--out", tmp_path / "two.csv")
    rows = [line.split(",")[:5] for line in (tmp_path / "two.csv").read_text().splitlines()]
    assert rows[1:] == [["1", "60.0", "1", "60", "requested"], ["2", "3600.0", "1", "", "requested"]]


def test_predict_goes_on_from_the_models_history_if_asked(home, last_two):
    """Warm, the users of the first log are known in the later one; cold, they are not; both say which."""
    later, _ = read_log(home / "later.swf")
    model = load_model(last_two).predictor
    for flag, warm in (([], False), (["--warm"], True)):
        said = json.loads(printed("predict", last_two, home / "later.swf", "--out", home / "w.csv", *flag, "--json"))
        np.testing.assert_array_equal(pd.read_csv(home / "w.csv")["predicted_seconds"], model.predict(later, warm=warm))
        assert said["history"].startswith("goes on" if warm else "starts cold") and not said["learnt_from_this_log"]
    assert (model.predict(later, warm=True) != model.predict(later)).any(), "the history must matter"


def test_a_log_that_does_not_come_later_cannot_be_gone_on_to(home, last_two):
    with pytest.raises(JobcastError, match="before the newest event of the history"):
        printed("predict", last_two, home / "first.swf", "--out", home / "no.csv", "--warm")
    assert not (home / "no.csv").exists()


def test_a_file_stays_as_it_was_if_writing_fails_half_way(home, last_two, monkeypatch):
    def fail(path, *_):
        path.write_text("job_id,predicted_seconds\n1,")
        raise OSError(28, "No space left on device")

    (home / "old.csv").write_text("old")
    monkeypatch.setattr(cli, "write_predictions", fail)
    with pytest.raises(JobcastError, match=r"old.csv: cannot be written .No space left"):
        printed("predict", last_two, home / "first.swf", "--out", home / "old.csv")
    assert (home / "old.csv").read_text() == "old" and not list(home.glob(".old*"))


@pytest.fixture(scope="module")
def two_halves(tmp_path_factory):
    """Files of the first 1,200 jobs of a machine, and of those that were submitted when all of these had ended."""
    log, folder = generate_log(3000, seed=8), tmp_path_factory.mktemp("halves")
    first = log.select(slice(0, 1200))
    ends = first.filled("submit") + first.filled("wait") + first.filled("run_time")
    write_log(first, folder / "first.swf")
    write_log(log.select(log.filled("submit") > ends.max()), folder / "later.swf")
    return folder


def test_a_model_that_does_not_beat_last_two_gets_no_alias_unless_told(home, two_halves):
    """`requested` is refused before anything is kept, and promoted only if told; last-two itself is not refused."""
    train = ("train", two_halves / "first.swf", "--predictor", "requested", "--register", "poor")
    with pytest.raises(JobcastError, match=r"requested on the last 20 % of first \(240 jobs\): the squared error is"):
        printed(*train, "--alias", "champion")
    with pytest.raises(JobcastError, match="No registered model 'poor'"):
        tracking.version_of("models:/poor/1")
    assert "Kept as models:/poor/1" in printed(*train)
    with pytest.raises(JobcastError, match=r"models:/poor/1, requested, .* does not get the alias 'champion'"):
        tracking.promote("models:/poor/1", "champion", "why not")
    with pytest.raises(JobcastError, match="has no alias"):
        tracking.version_of("models:/poor@champion")
    assert tracking.promote("models:/poor/1", "champion", "wanted", even_if_worse=True).alias == "champion"
    assert "version 2" in printed(*train, "--alias", "champion", "--even-if-worse")
    plain = ("train", two_halves / "first.swf", "--predictor", "last-two", "--register", "plain")
    assert "models:/plain@champion" in printed(*plain, "--alias", "champion")


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_a_model_beside_a_faultless_last_two_gets_no_alias(home, tmp_path):
    """There is no ratio to an error of 0, and MLflow keeps none: that is not taken for a model that was not scored."""
    log, hundred = generate_log(60, seed=8, users=1), np.full(60, 100)
    write_log(
        replace(log, values={**log.values, "run_time": hundred, "requested_time": 2 * hundred}), tmp_path / "a.swf"
    )
    printed("train", tmp_path / "a.swf", "--predictor", "requested", "--register", "alike")
    with pytest.raises(JobcastError, match=r"last-two makes no error on the same jobs, so the model does not get"):
        tracking.promote("models:/alike/1", "champion", "why not")


def test_predict_says_that_a_model_has_become_worse_and_how_to_refit(home, two_halves):
    printed("train", two_halves / "first.swf", "--predictor", "requested", "--register", "stale")
    printed("train", two_halves / "first.swf", "--predictor", "similar-mean", "--register", "fresh")
    asked = two_halves / "later.swf", "--out", home / "s.csv", "--warm"
    said = printed("predict", "models:/stale/1", *asked)
    assert "models:/stale/1 is worse than last-two there." in said
    assert "Refit with: jobcast train LOG --predictor requested --register stale" in said
    told = json.loads(printed("predict", "models:/stale/1", *asked, "--json"))
    later, _ = read_log(two_halves / "later.swf")
    beside = load_model("models:/stale/1").predictor
    base = make_predictor("last-two").fit(read_log(two_halves / "first.swf")[0])
    run_time = later.filled("run_time")
    theirs, ours = base.predict(later, warm=True), beside.predict(later, warm=True)
    ended = run_time > 0
    ratio = ((ours - run_time)[ended] ** 2).sum() / ((theirs - run_time)[ended] ** 2).sum()
    found = told["beside_last_two"]
    assert found["squared_error_ratio_to_last_two"] == pytest.approx(ratio) and found["n_jobs"] == ended.sum()
    assert found["worse_than_last_two"] and told["beside_last_two_newest"]["n_jobs"] == min(ended.sum(), 2000)
    said = printed("predict", "models:/fresh/1", *asked)
    assert "Compared with last-two on all" in said and "worse" not in said and "Refit" not in said


def test_intervals_are_calibrated_kept_and_gone_on_from(home, two_halves):
    """Calibrated, the first later job has P10 to P90 already; not calibrated, only jobs after some have ended."""
    train = ("train", two_halves / "first.swf", "--predictor", "similar", "--json")
    document = json.loads(printed(*train, "--register", "calibrated", "--kill"))
    covered = document["evaluation"]["covered_share"]
    assert 0.6 < covered < 0.95, "240 jobs do not tell more"
    printed(*train, "--register", "bare", "--no-intervals")
    written, told = {}, {}
    for name in ("calibrated", "bare"):
        asked = ("predict", f"models:/{name}/1", two_halves / "later.swf", "--out", home / "q.csv", "--warm", "--json")
        told[name] = json.loads(printed(*asked))
        written[name] = pd.read_csv(home / "q.csv")
    first = written["calibrated"]
    assert first[["p10", "p50", "p90"]].notna().all(axis=None) and written["bare"]["p90"].isna().sum() >= 20
    assert (first["p10"] <= first["p50"]).all() and (first["p50"] <= first["p90"]).all()
    assert (first["p90"] <= first["requested_time"]).all() and (written["bare"]["p90"] > first["requested_time"]).any()
    assert told["calibrated"]["covered_share"] == pytest.approx(0.8, abs=0.1)
    np.testing.assert_array_equal(first["predicted_seconds"], written["bare"]["predicted_seconds"])
    with pytest.raises(JobcastError, match="leave --no-intervals out"):
        printed(*train, "--kill", "--no-intervals")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("LOG", "--predictor", "forst"), "No predictor 'forst'; did you mean 'forest'"),
        (("LOG", "--register", "run/time"), "may hold letters"),
        (("LOG", "--train", "1"), "between 0 and 1"),
        (("missing.swf",), r"missing.swf: cannot be read \(no such file\)"),
    ],
)
def test_train_refuses_before_it_makes_a_store(home, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path / "new"))
    with pytest.raises(JobcastError, match=message):
        printed("train", *(home / "first.swf" if argument == "LOG" else argument for argument in arguments))
    assert not (tmp_path / "new").exists()


def test_train_tells_at_once_that_the_store_cannot_be_written(home, tmp_path, monkeypatch):
    """Before it spends minutes on learning."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cli, "evaluate_log", lambda *args, **kwargs: pytest.fail("evaluated"))
    with pytest.raises(JobcastError, match="the model store cannot be made there"):
        printed("train", home / "first.swf")


@pytest.mark.parametrize(
    ("model", "out", "message"),
    [
        ("models:/base/1", "no/such/folder/x.csv", "cannot be written"),
        ("models:/base/1", ".", "is a folder"),
    ],
)
def test_predict_refuses_what_cannot_be_used(home, last_two, tmp_path, model, out, message):
    with pytest.raises(JobcastError, match=message):
        printed("predict", model, home / "first.swf", "--out", tmp_path / out)
    assert not list(tmp_path.iterdir())


def test_a_simulation_says_that_its_model_learnt_from_the_very_log(home, last_two):
    for name, learnt in (("first.swf", True), ("later.swf", False)):
        for as_json in (False, True):
            more = ["--json"] if as_json else []
            said = printed("simulate", home / name, "--policy", "easy-sjbf", "--estimates", last_two, *more)
            found = json.loads(said)["learnt_from_this_log"] if as_json else "learnt from this very log" in said
            assert found is learnt


def test_several_months_are_learnt_as_one_log(home, tmp_path):
    """In whatever order they are given, jobs that stand in two files counted once."""
    log = made_log()
    for name, rows in (("march", range(150)), ("april", range(140, 200))):
        (tmp_path / f"{name}.txt").write_text(sacct_text(log, rows))
    months = tmp_path / "april.txt", tmp_path / "march.txt"
    said = json.loads(printed("train", *months, "--predictor", "last-two", "--register", "months", "--json"))
    assert said["log"] == "march to april" and said["model"]["n_jobs"] == 200
    assert said["account"]["findings"][0]["rule"] == "in-two-files" and said["account"]["dropped"] == 10
    whole, later = read_text(sacct_text(log, range(200))), read_text(sacct_text(log, in_two(log, 200)[1]))
    expected = make_predictor("last-two").fit(whole).predict(later, warm=True)
    np.testing.assert_array_equal(load_model("models:/months/1").predictor.predict(later, warm=True), expected)


def test_next_months_sacct_file_is_predicted_by_name(home, tmp_path):
    """What sacct wrote of a month is learnt, the next goes on with it; who is new is told, and numbers are refused."""
    log = made_log()
    first, second = in_two(log, 150)
    for name, rows in (("march", first), ("april", second[::-1])):
        (tmp_path / f"{name}.txt").write_text(sacct_text(log, rows))
    printed("train", tmp_path / "march.txt", "--predictor", "last-two", "--register", "named")
    ask = ("predict", "models:/named/1", tmp_path / "april.txt", "--out", tmp_path / "p.csv", "--warm")
    found = json.loads(printed(*ask, "--json"))
    march, april = (read_log(tmp_path / f"{name}.txt")[0] for name in ("march", "april"))
    both = len(set(march.names("user")) & set(april.names("user")))
    assert found["names"]["user"] == {"known": both, "new": len(april.names("user")) - both} and both
    assert f"Of its {len(april.names('user'))} users the model knows {both} by name." in printed(*ask)
    expected = make_predictor("last-two").fit(march).predict(april, warm=True)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "p.csv")["predicted_seconds"], expected)
    write_log(april, tmp_path / "numbers.swf")
    with pytest.raises(JobcastError, match=r"numbers: has numbers for its users where this last-two goes by names"):
        printed("predict", "models:/named/1", tmp_path / "numbers.swf", "--out", tmp_path / "no.csv", "--warm")
