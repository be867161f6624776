"""`jobcast variability …`: from runs and telemetry files to a dataset, a kept model, and the answer before a start."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

from experiments.cli.variability import _print_winner
from predictors.core.errors import JobcastError
from predictors.variability.dataset import read_dataset
from tests.support.commands import printed
from tests.support.variability_data import load_at, write_machine

JOBS = 90


jobcast = partial(printed, "variability")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A machine's files: six nodes' telemetry, and control runs that take longer when the network is busy."""
    folder = tmp_path_factory.mktemp("home")
    write_machine(folder, nodes=6, n_jobs=JOBS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOBCAST_HOME", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


@pytest.fixture(scope="module")
def data(home):
    """Both datasets, and what the command said of the first."""
    said = [
        json.loads(jobcast("dataset", home / "runs.csv", "--telemetry", home / "ldms", "--scope", scope,
                           "--out", home / f"{scope}.parquet", "--json"))
        for scope in ("job", "all")
    ]  # fmt: skip
    return said[0]


@pytest.fixture(scope="module")
def trained(home, data):
    return json.loads(
        jobcast(
            "train", home / "job.parquet", "--classifier", "extra-trees", "--quick", "--alias", "champion", "--json"
        )
    )


def test_a_dataset_has_a_row_a_run_and_says_where_it_came_from(home, data):
    assert (data["n_runs"], data["n_rows"], data["n_inputs"]) == (JOBS, JOBS, 282)
    assert data["dropped"] == {} and data["n_variation"] > 3
    made = read_dataset(home / "job.parquet")
    assert made.digest() == data["sha256"] and made.about["runs"] == "runs.csv" and made.window == 300
    wait = [k for k, name in enumerate(made.to_frame()) if name == "mean_PortXmitWait"]
    assert np.corrcoef(made.rows[:, wait[0]], load_at(made.runs.start))[0, 1] > 0.9


def test_runs_outside_the_telemetry_have_no_row_and_are_counted(home, tmp_path):
    table = pd.read_csv(home / "runs.csv")
    table.loc[:4, ["start", "end"]] += 1e7
    table.loc[5:6, "nodes"] = "40-41"
    table.loc[7, "workload"] = ""
    table.to_csv(tmp_path / "runs.csv", index=False)
    out = json.loads(jobcast("dataset", tmp_path / "runs.csv", "--telemetry", home / "ldms", "--out",
                             tmp_path / "d.parquet", "--json"))  # fmt: skip
    assert out["dropped"] == {"empty-window": 7, "unknown-workload": 1} and out["n_rows"] == JOBS - 8
    said = jobcast("dataset", tmp_path / "runs.csv", "--telemetry", home / "ldms", "--out", tmp_path / "d.parquet",
                   "--account")  # fmt: skip
    assert "82 rows of 282 inputs" in said and "empty-window" in said


def test_training_shows_its_figures_and_keeps_the_model(home, trained):
    assert trained["n_runs"] == JOBS and trained["classes"] == ["none", "little", "variation"]
    rows = {(row["split"], row["model"]): row for row in trained["evaluation"]}
    assert rows["applications", "always none"]["f1"] == 0
    assert rows["applications", "oracle"]["pr_auc"] > 0.5
    assert trained["model"]["uri"] == "models:/variability@champion"
    assert "max_send_wait" in trained["ignored"]
    said = jobcast("train", home / "job.parquet", "--classifier", "knn", "--register", "other")
    assert "Kept as models:/other/1" in said and "9 inputs were known for no run" in said


def test_the_question_before_a_start_is_answered_from_files(home, trained):
    """At a busy and at a calm moment; the answer names the model's version."""
    common = ["predict", "models:/variability@champion", "--telemetry", home / "ldms", "--job", "LBANN",
              "--nodes", "0-1", "--workload", "io", "--json"]  # fmt: skip
    times = np.arange(400.0, 20_000.0, 50)
    busy, calm = times[np.argmax(load_at(times - 150))], times[np.argmin(load_at(times - 150))]
    high, low = (json.loads(jobcast(*common, "--now", time)) for time in (busy, calm))
    assert high["probability"] > 0.5 > low["probability"] and high["label"] == "variation"
    assert high["model"]["version"] == 1 and high["n_samples"] == 12 and high["silent_nodes"] == 0
    assert not high["abstained"] and high["why"] is None
    newest = json.loads(jobcast(*common, "--now", "newest"))
    assert newest["now"] > 350.0 * (JOBS - 1) and not newest["abstained"]


def test_an_answer_equals_the_row_of_the_dataset(home, trained):
    from predictors.tracking.client import load_classifier
    from predictors.variability.features import FEATURES

    made = read_dataset(home / "job.parquet")
    model = load_classifier("models:/variability@champion").classifier
    for row in (0, 40, 89):
        runs = made.runs
        found = json.loads(jobcast(
            "predict", "models:/variability@champion", "--telemetry", home / "ldms", "--job", runs.application[row],
            "--nodes", " ".join(map(str, runs.nodes(row))), "--workload", runs.workload[row], "--now", runs.start[row],
            "--json"))  # fmt: skip
        assert found["probability"] == model.judge_one(made.rows[row], features=FEATURES).probability


def test_a_live_machine_without_telemetry_gets_an_abstention_not_a_guess(home, trained):
    common = ["predict", "models:/variability@champion", "--telemetry", home / "ldms", "--job", "LBANN", "--nodes"]
    clock = json.loads(jobcast(*common, "0-1", "--workload", "io", "--json"))  # the files are of 1970
    assert (clock["class"], clock["abstained"], clock["why"]) == (0, True, "silent")
    unknown = jobcast(*common, "0-1", "--now", 5000)
    assert "class 0, abstained: the workload type is not known" in unknown
    far = json.loads(jobcast(*common, "0 70-73", "--workload", "io", "--now", 5000, "--json"))
    assert far["why"] == "silent" and far["silent_nodes"] == 4


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_selection_compares_draws_and_keeps_the_best(home, data, workers):
    said = json.loads(
        jobcast(
            "select", home / "job.parquet", "--models", "extra-trees,knn", "--quick", "--keep-all", "--probes",
            "absent", "--out", home / "reports", "--register", "selected", "--alias", "shadow", "--workers", workers,
            "--json",
        )
    )  # fmt: skip
    assert len(said["models"]) == 3 * 4 and said["winner"]["model"] in ("extra-trees", "knn")
    assert len(said["inputs"]) == said["winner"]["n_inputs"] <= 282 and said["elimination"] is None
    assert said["model"]["uri"] == "models:/selected@shadow" and len(said["three_classes"]) == 3


@pytest.mark.parametrize("eliminated", [False, True])
def test_the_printed_line_says_whether_the_three_class_figure_is_optimistic(capsys, eliminated):
    winner = {"model": "knn", "scope": "job", "n_inputs": 9, "f1_leave_one_application_out": 0.5, "f1_low": 0.4,
              "f1_high": 0.6, "f1_selected_inputs": 0.5, "f1_selected_inputs_optimistic": 0.7,
              "three_f1_optimistic" if eliminated else "three_f1": 0.8}  # fmt: skip
    document = {"winner": winner, "elimination": [{}] if eliminated else None, "files": ["a.csv"],
                "model": {"uri": "models:/a/1", "version": 1}}  # fmt: skip
    _print_winner(document)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Three classes"))
    assert "0.80" in line and ("optimistic" in line) == eliminated


def test_a_model_of_all_nodes_needs_no_nodes(home, data):
    jobcast("train", home / "all.parquet", "--classifier", "knn", "--register", "everywhere")
    found = json.loads(jobcast("predict", "models:/everywhere/1", "--telemetry", home / "ldms", "--job", "AMG",
                               "--workload", "compute", "--now", 5000, "--json"))  # fmt: skip
    assert not found["abstained"] and found["n_samples"] == 36


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dataset", "{home}/runs.csv", "--telemetry", "{home}/ldms", "--out", "{home}/x", "--scope", "on"], "'on'"),
        (["dataset", "{home}/no.csv", "--telemetry", "{home}/ldms", "--out", "{home}/x"], r"no\.csv"),
        (["dataset", "{home}/runs.csv", "--telemetry", "{home}/reports", "--out", "{home}/x"], "telemetry|reports"),
        (["select", "{home}/runs.csv"], "no Parquet"),
        (["select", "{home}/job.parquet", "{home}/job.parquet", "--quick"], "one dataset a node scope"),
        (["select", "{home}/job.parquet", "--models", "adabost"], "did you mean 'adaboost'"),
        (["select", "{home}/job.parquet", "--probes", "now"], "'now'"),
        (["train", "{home}/job.parquet", "--classes", "four"], "'four'"),
        (["train", "{home}/job.parquet", "--alias", "best"], "No alias 'best'"),
        (["predict", "models:/nothing@champion", "--telemetry", "{home}/ldms", "--job", "A"], "No registered model"),
        (["predict", "models:/variability@champion", "--telemetry", "{home}/ldms", "--job", "A"], "--nodes"),
        (["predict", "models:/variability@champion", "--telemetry", "{home}/ldms", "--job", "A", "--nodes", "4-1"],
         "does not ascend"),
        (["predict", "models:/variability@champion", "--telemetry", "{home}/ldms", "--job", "A", "--nodes", "1",
          "--now", "soon"], "clock, newest"),
        (["predict", "models:/variability@champion", "--telemetry", "{home}/ldms", "--job", "A", "--nodes", "1",
          "--now", "5000", "--workload", "gpu"], "'gpu'"),
        (["predict", "models:/variability@champion", "--telemetry", "{home}/ldms", "--job", "A", "--nodes", "1",
          "--probes", "1,2"], "nine waits"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_line(home, trained, arguments, said):
    with pytest.raises(JobcastError, match=said):
        jobcast(*[argument.replace("{home}", str(home)) for argument in arguments])
    assert not (home / "x").exists()
