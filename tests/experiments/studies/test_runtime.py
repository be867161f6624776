"""The study of predictors: its tables agree with one another, and every picture is there."""

from pathlib import Path

import numpy as np
import pytest

from experiments.runs import clusters as hiring
from experiments.runs.clusters import PoolError
from experiments.runs.setting import Setting
from experiments.studies.reis_open_questions import SPLITS as SPLITS_ON_CATEGORIES
from experiments.studies.runtime import QUICK, run
from experiments.studies.runtime_scheduling import WAYS, _cases
from jobcast import JobcastError, Pool, generate_log, replay
from predictors.evaluation.importances import permuted
from predictors.models.baselines import Requested


@pytest.fixture(scope="module", params=[pytest.param(800, marks=pytest.mark.slow, id="800 jobs")])
def report(request, tmp_path_factory):
    """The whole study, quickly: a quarter of a minute."""
    return run(Setting(generate_log(request.param, seed=4), tmp_path_factory.mktemp("runtime"), quick=True))


def test_on_a_large_log_predictors_with_refits_go_one_way(monkeypatch):
    monkeypatch.setattr("experiments.studies.runtime_scheduling.SOME", 10)
    ways = [(name, way[0]) for name, way in _cases(["forest", "similar", "online-linear"], 50)]
    assert [way for name, way in ways if name == "forest"] == ["request"]
    assert len([way for name, way in ways if name == "similar"]) == len(WAYS)


@pytest.mark.slow
def test_on_a_larger_log_the_slowest_are_not_followed_job_by_job(monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.studies.runtime.LARGE", 100)
    found = run(Setting(generate_log(300, seed=4), tmp_path, predictors=("similar", "online-tree")))
    by_split = found.tables["errors"].groupby("split")["predictor"].agg(set)
    assert by_split["strict"] == {"last-two", "similar", "online-tree"}
    assert by_split["prequential"] == {"last-two", "similar"}
    assert "online-tree" not in set(found.tables["scheduling"]["predictor"])
    assert found.tables["costs"].set_index("predictor")["stream_us"].isna().to_dict()["online-tree"]
    assert any("online-tree" in note for note in found.notes)


def test_workers_that_fail_are_no_note(tmp_path, monkeypatch):
    """A table that a log does not allow is left out; one that workers failed to make can still be made."""
    monkeypatch.setattr(hiring, "PATIENCE", 0.5)
    setting = Setting(generate_log(300, seed=4), tmp_path, predictors=("last-two",), pool=Pool(scheduler="127.0.0.1:9"))
    with pytest.raises(PoolError, match="does not answer"):
        run(setting)


def test_signed_errors_divide_all_jobs(report):
    signed = report.tables["signed_errors"]
    assert (signed["too_long"] + signed["too_short"] <= 1).all()
    assert signed["squared_error_from_too_short"].between(0, 1).all()
    request = signed.set_index("predictor").loc["requested"]
    assert request["too_short"] == 0 and request["bias_s"] > 0


def test_perfect_knowledge_closes_the_whole_gap_and_nobody_is_planned_too_short(report):
    table = report.tables["scheduling"]
    perfect = table[(table["predictor"] == "clairvoyant") & (table["way"] == "request")].iloc[0]
    assert perfect["gap_closed"] == pytest.approx(1)
    assert perfect["too_short"] == 0 and perfect["rmse_s"] < 1
    requested = table[(table["predictor"] == "requested") & (table["way"] == "request")].iloc[0]
    assert requested["too_short"] == 0 and requested["bias_s"] > 0


def test_costs_are_told_for_every_predictor(report):
    costs = report.tables["costs"].set_index("predictor")
    assert set(costs.index) == set(QUICK)
    assert (costs > 0).all(axis=None)
    assert costs.loc["forest", "stream_us"] > costs.loc["last-two", "stream_us"]


def test_errors_made_to_order(report):
    table = report.tables["errors_to_order"]
    none = table[(table["spread"] == 0) & (table["factor"] == 1)]
    assert (none[["slowdown", "mean_stretch", "max_stretch"]] == 1).all(axis=None) and (none["rmse_s"] < 1).all()
    plain = table[(table["policy"] == "easy") & (table["spread"] == 0)].set_index("factor")
    assert plain.loc[0.25, "bias_s"] < 0 < plain.loc[2.0 if 2.0 in plain.index else 4.0, "bias_s"]


def test_the_open_questions_are_answered_with_figures(report):
    splits = report.tables["category_splits"]
    assert list(splits["splits"]) == list(SPLITS_ON_CATEGORIES)
    assert splits["ratio_to_last_two"].nunique() >= 4  # a few jobs give no user a forest of their own
    told = report.tables["distributions"].set_index("predictor")
    assert told.loc["last-two", "relative_crps"] == 1 and told["crps_s"].gt(0).all()
    assert told["covered_90"].between(0.5, 1).all()
    online = report.tables["online_forests"].set_index("predictor")
    assert online.loc["last-two", "ratio_to_last_two"] == 1 and (online["jobs"] == 600).all()


def test_named_predictors_are_studied_alone(tmp_path):
    found = run(Setting(generate_log(300, seed=4), tmp_path, predictors=("similar",)))
    assert set(found.tables["errors"]["predictor"]) == {"last-two", "similar"}
    assert "online_forests" not in found.tables
    with pytest.raises(JobcastError, match="did you mean 'similar'"):
        run(Setting(generate_log(300, seed=4), tmp_path, predictors=("similer",)))


def test_permuting_shows_the_one_attribute_that_is_used():
    log = generate_log(400, seed=4)
    rows = replay(log, Requested.features)
    table = permuted(Requested().fit(log), rows, log.filled("run_time").astype(float))
    assert table.iloc[0]["attribute"] == "requested_time" and table.iloc[0]["growth"] != 0
    assert (table["growth"][1:] == 0).all()


def test_only_the_jobs_of_the_partition_are_simulated():
    log = generate_log(200, seed=4).replaced({"partition": np.arange(200) % 2})
    jobs = Setting(log, Path(), partition=1).jobs()
    assert jobs.filled("job_id").tolist() == log.filled("job_id")[1::2].tolist()
    with pytest.raises(JobcastError, match="no job in partition 7"):
        Setting(log, Path(), partition=7).jobs()
