"""The experiment on learning run times: its tables hold what they say, and its files are all there."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from experiments.papers.reis.study import ONE_HOT, PAPER, PAPERS_FOREST, _over_seeds, papers_forest_of, ratios, times
from experiments.registry import perform
from experiments.runs.setting import Setting
from jobcast import JobLog, evaluate, generate_log, read_log
from predictors.evaluation.importances import importances
from predictors.history.features import CATEGORIES
from predictors.models.forest import Forest, fit_encoding


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return perform("reis", Setting(generate_log(1500, seed=3), tmp_path_factory.mktemp("reis"), quick=True))


def test_both_protocols_stand_side_by_side(report):
    table = report.tables["table2"]
    assert table[["protocol", "predictor"]].to_numpy().tolist() == [
        ["reis", "last-two"], ["reis", "forest"], ["reis", "the paper's forest, mean of 2 seeds"],
        ["strict", "last-two"], ["strict", "forest"],
    ]  # fmt: skip
    assert table["n_test"].iloc[0] == 300
    assert (table["sse_s2"] > 0).all() and table["paper_sse_s2"].isna().all()


def test_the_papers_forest_is_scikit_learns_of_ten_full_trees(report):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 30, (300, len(Forest.features))).astype(float)
    seconds = rng.uniform(1, 9, 300)
    grown = papers_forest_of(4, 300).learn(rows, seconds)
    encoded = fit_encoding(rows, [name in CATEGORIES for name in Forest.features], ONE_HOT).transform(rows)
    own = RandomForestRegressor(10, random_state=4).fit(encoded, seconds)
    assert np.array_equal(grown.predict(rows), own.predict(encoded))
    by_seed = report.tables["papers_forest"]
    row = report.tables["table2"].set_index("predictor").loc["the paper's forest, mean of 2 seeds"]
    assert row["ratio_to_last_two"] == pytest.approx(by_seed["ratio_to_last_two"].mean())
    assert (row["seed_low"], row["seed_high"]) == (
        by_seed["ratio_to_last_two"].min(),
        by_seed["ratio_to_last_two"].max(),
    )
    others = report.tables["table2"].drop(index=2)
    assert np.isnan(row["ratio_low"]) and others["seed_low"].isna().all(), "users resampled, and seeds: two things"
    assert by_seed["seed"].tolist() == list(report.seeds) == [0, 1] and by_seed["sse_s2"].nunique() == 2


def test_importances_sum_to_one_and_rank_what_matters():
    """The run time is made of one attribute alone: it must come first both ways."""
    rng = np.random.default_rng(0)
    forest = Forest(n_estimators=10)
    rows = rng.uniform(0, 1000, (400, len(forest.features)))
    table = importances(forest.fit_rows(rows, 10 * rows[:, 4]))
    assert table["importance"].sum() == pytest.approx(1) and table["height"].sum() == pytest.approx(1)
    assert table["attribute"].iloc[0] == forest.features[4]
    assert table.set_index("attribute")["first_depth"].idxmin() == forest.features[4]


def test_histograms_count_every_job_once():
    log = JobLog.from_columns(
        {"job_id": [1, 2, 3], "submit": [0, 1, 2], "run_time": [50, 100, 400], "requested_time": [100, 100, 200]}, {}
    )
    assert ratios(log)["jobs"].sum() == 3 and ratios(log)["jobs"].iloc[-1] == 2
    assert times(log)[["requested_time", "run_time"]].sum().tolist() == [3, 3]


def test_last_two_on_curie_is_the_published_sum(trace):
    """V. Reis, Table 2: 1.24186e13 s²; recomputed 1.241909e13."""
    log, _ = read_log(trace("CEA-Curie-2011-2.1-cln"))
    found = evaluate(log, ["last-two"], protocol="reis")
    assert found.n_test == 62_566
    assert found["last-two"].figures.sse_s2 == pytest.approx(1.241909e13, rel=1e-4)


def test_the_papers_sum_stands_beside_the_papers_forest(report):
    found = evaluate(generate_log(300, seed=3), ["last-two"], protocol="reis")
    by_seed = report.tables["papers_forest"]
    assert np.isnan(_over_seeds(by_seed, found)["paper_sse_s2"])
    assert _over_seeds(by_seed, replace(found, log=PAPER["log"]))["paper_sse_s2"] == 9.897605e12
    assert set(PAPER) == {"log", "last-two", PAPERS_FOREST}


def test_paper_figures_are_shown_only_for_the_papers_log(report):
    assert not any("0.797" in note for note in report.verdict)
    assert isinstance(report.tables["stretch"], pd.DataFrame)
