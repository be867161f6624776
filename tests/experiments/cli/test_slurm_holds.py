"""`jobcast slurm shadow --variability`: a classifier that was trained and registered, telemetry in files, a queue."""

import json
import time

import numpy as np
import pytest

from predictors.schedulers.journal import read_journal
from tests.experiments.cli.test_variability import data, home, jobcast
from tests.predictors.schedulers.conftest import cluster, cluster_on_path
from tests.support.variability_data import load_at

__all__ = ["cluster", "cluster_on_path", "data", "home"]

MODEL = "models:/whole-machine@champion"
TIMES = np.arange(6_000, 20_000, 50)
BUSY, CALM = int(TIMES[np.argmax(load_at(TIMES - 150))]), int(TIMES[np.argmin(load_at(TIMES - 150))])


@pytest.fixture(scope="module")
def telemetry(home, data):
    """The folder of the counters; a classifier by the whole machine's counters has been trained and registered."""
    jobcast("train", home / "all.parquet", "--classifier", "extra-trees", "--quick", "--register", "whole-machine",
            "--alias", "champion")  # fmt: skip
    return home / "ldms"


@pytest.mark.slow
def test_the_command_notes_whose_start_it_would_delay(
    telemetry, cluster_on_path, cluster, command, monkeypatch, tmp_path
):
    """A job that starts between two looks while the machine is busy would be held; another one, later, would not."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[variability]\nmost_minutes = 30\n[variability.workloads]\n"LBANN*" = "io"\n')
    line = (f"slurm shadow --model last-two --db sqlite:///{tmp_path}/own.db --journal {tmp_path / 'j'} --cycles 2 "
            f"--json --rules {rules} --variability {MODEL} --telemetry {telemetry}")  # fmt: skip
    sleep = time.sleep
    for number, now in (("1", BUSY), ("2", CALM)):
        seen = {"SubmitTime": str(now - 100), "EligibleTime": str(now - 100), "Name": "LBANN-7"}
        cluster_on_path.change(now=now, jobs={number: seen})

        def begin(seconds, number=number, now=now):
            if seconds < 30:  # somebody else's
                return sleep(seconds)
            cluster_on_path.job(number, State="RUNNING", StartTime=str(now + 20))
            return cluster_on_path.change(now=now + 60)

        monkeypatch.setattr("time.sleep", begin)
        code, out, err = command(line)
        assert code == 0, err
        assert [json.loads(one)["troubles"] for one in out.splitlines()] == [[], []]
    found = {one["job"]: one for one in read_journal(tmp_path / "j") if one["what"] in ("would-hold", "would-start")}
    assert found["1"]["what"] == "would-hold" and found["1"]["probability"] > 0.5
    assert (found["1"]["model"], found["1"]["version"]) == ("whole-machine", "1")
    assert found["2"]["what"] == "would-start" and found["2"]["code"] == "quiet"
    assert all("hold" not in call and "update" not in call for call in cluster_on_path.calls("scontrol"))


REFUSED = {
    "write --all --url http://127.0.0.1:9 --variability knn": "--variability delays no job",
    "shadow --url http://127.0.0.1:9 --telemetry FOLDER": "name it by --variability",
    "shadow --url http://127.0.0.1:9 --variability knn": "needs --telemetry, the folder",
    "shadow --model last-two --variability service": "asks the service at --url",
    "shadow --url http://127.0.0.1:9 --variability FOLDER --telemetry FOLDER": "FOLDER",
}


@pytest.mark.parametrize("line", REFUSED)
def test_options_on_holds_that_do_not_go_together(line, cluster_on_path, command, tmp_path):
    words = line.replace("FOLDER", str(tmp_path))
    code, _, err = command(f"slurm {words} --journal {tmp_path / 'j'} --cycles 1")
    assert code == 2 and REFUSED[line].replace("FOLDER", tmp_path.name) in " ".join(err.split()).replace("\n", "")
    assert not cluster_on_path.calls("scontrol")


RULES = {
    "most_minutes = 0": "most_minutes must be from 1 to 1440; got 0",
    "least_probability = 1.5": "least_probability must be above 0 and at most 1; got 1.5",
    "most_minute = 5": "did you mean 'most_minutes'",
    'most_minutes = "5"': "most_minutes",
    '[variability.workloads]\n"amg*" = "netwrk"': "'amg*' must be one of compute, network, io; got 'netwrk'",
}


@pytest.mark.parametrize("text", RULES)
def test_a_rule_for_holds_that_is_none_is_refused_by_name(text, cluster_on_path, command, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[variability]\n{text}\n")
    code, _, err = command(
        f"slurm shadow --url http://127.0.0.1:9 --rules {rules} --journal {tmp_path / 'j'} --cycles 1"
    )
    told = " ".join(err.split())
    assert code == 2 and RULES[text] in told and "[variability]" in told and "rules.toml" in told
