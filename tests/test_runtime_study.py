"""The study of predictors: its tables agree with one another, and every picture is there."""

from pathlib import Path

import numpy as np
import pytest

from experiments.experiment import Setting
from experiments.runtime import QUICK, run
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run(Setting(generate_log(800, seed=4), tmp_path_factory.mktemp("runtime"), quick=True))


def test_every_predictor_is_scored_and_simulated(report):
    assert set(report.tables["errors"]["predictor"]) == set(QUICK)
    assert set(report.tables["scheduling"]["predictor"]) == {*QUICK, "clairvoyant"}


def test_signed_errors_divide_all_jobs(report):
    signed = report.tables["signed_errors"]
    assert (signed["too_long"] + signed["too_short"] <= 1).all()
    assert signed["squared_error_from_too_short"].between(0, 1).all()
    request = signed.set_index("predictor").loc["requested"]
    assert request["too_short"] == 0 and request["bias_s"] > 0


def test_perfect_knowledge_closes_the_whole_gap(report):
    gain = report.tables["scheduling"].set_index("predictor")["gap_closed"]
    assert gain["clairvoyant"] == pytest.approx(1)


def test_slices_hold_each_test_job_once(report):
    by = report.tables["by_run_time"]
    assert by[by["predictor"] == "forest"]["jobs"].sum() == 160


def test_every_picture_is_drawn(report):
    names = {path.name for path in report.figures}
    for stem in ("figure_errors", "figure_by_run_time", "figure_cost", "figure_error_and_gain", "figure_calibration"):
        assert {f"{stem}.png", f"{stem}.svg", f"{stem}.csv"} <= names


def test_only_the_jobs_of_the_partition_are_simulated():
    log = generate_log(200, seed=4).replaced({"partition": np.arange(200) % 2})
    jobs = Setting(log, Path(), partition=1).jobs()
    assert jobs.filled("job_id").tolist() == log.filled("job_id")[1::2].tolist()
    with pytest.raises(JobcastError, match="no job in partition 7"):
        Setting(log, Path(), partition=7).jobs()
