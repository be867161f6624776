"""Estimates that keep a budget in the simulator's loop, and who cannot have one."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.cli import app
from experiments.simulation import run_by_name
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log


@pytest.fixture(scope="module")
def cleaned():
    return generate_log(1500, seed=11, users=10).for_simulation(None)[0]


def too_short(schedule, log):
    return float(np.mean(schedule.estimate < log.filled("run_time")))


def test_fewer_jobs_outrun_their_estimate(cleaned):
    plain, _ = run_by_name(cleaned, "easy-sjbf", "similar")
    careful, found = run_by_name(cleaned, "easy-sjbf", "similar", budget=0.1)
    assert found["budget"] == 0.1
    assert too_short(careful, cleaned) < 0.2 < too_short(plain, cleaned)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("requested", "nowhere to move it"),
        ("clairvoyant", "given, not learnt"),
        ("default", "many estimates"),
        ("with-budget", "name the predictor inside"),
        ("models:/runtime@champion", "a kept model is served as it is"),
        ("simlar", "did you mean 'similar'"),
    ],
)
def test_who_cannot_have_a_budget_is_told_why(name, told, cleaned):
    with pytest.raises(JobcastError, match=told):
        run_by_name(cleaned, "easy", name, budget=0.05)


def test_a_budget_that_is_no_share_is_refused(cleaned):
    with pytest.raises(JobcastError, match="budget must be a share"):
        run_by_name(cleaned, "easy", "similar", budget=5.0)


def test_the_command_takes_a_budget_and_checks_the_schedule(tmp_path):
    from predictors.data.swf import write_swf

    write_swf(generate_log(200, seed=3, users=5), tmp_path / "log.swf")
    told = ["simulate", str(tmp_path / "log.swf"), "--estimates", "similar", "--budget", "0.1", "--paranoid"]
    found = CliRunner().invoke(app, [*told, "--json"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["budget"] == 0.1 and document["paranoid"]["kept"]
    shown = CliRunner().invoke(app, told)
    assert "estimates similar within a budget of 0.1" in " ".join(shown.stdout.split())
