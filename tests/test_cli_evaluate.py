"""`jobcast evaluate` as a user types it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from experiments.cli_evaluate import evaluate
from predictors.data.detect import write_log
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "small.swf.gz"
    write_log(generate_log(300, seed=3, users=6), path)
    return path


def run(*arguments):
    app = typer.Typer()
    app.command()(evaluate)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_document_and_nothing_else(log):
    document = json.loads(run(log, "--predictors", "requested,tsafrir", "--json"))
    assert [one["name"] for one in document["predictors"]] == ["last-two", "requested", "tsafrir"]
    assert document["log"].startswith("small") and document["split"] == "train 0.8"
    assert "slices" not in document["predictors"][0]
    assert "slices" in json.loads(run(log, "--predictors", "tsafrir", "--json", "--details"))["predictors"][0]


def test_the_tables(log):
    text = run(log, "--predictors", "requested", "--protocol", "reis", "--train", "0.5", "--details")
    for part in (
        "150 jobs predicted, learnt from 150",
        "protocol reis",
        "last-two",
        "requested",
        "by run time",
        "warm",
    ):
        assert part in text
    assert "predicted at submission" in run(log, "--predictors", "requested", "--prequential")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--predictors", "forrest"), "did you mean 'forest'"),
        (("--protocol", "strickt"), "did you mean 'strict'"),
        (("--train", "2"), "between 0 and 1"),
        (("--predictors", "requested", "--partition", "77"), "no job in partition 77"),
    ],
)
def test_bad_input_is_said(log, arguments, message):
    with pytest.raises(JobcastError, match=message):
        run(log, *arguments)


def test_a_wrong_name_is_said_before_the_log_is_read(tmp_path):
    with pytest.raises(JobcastError, match="No predictor 'oracle'"):
        run(tmp_path / "nowhere.swf", "--predictors", "oracle")
