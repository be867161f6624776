"""`jobcast simulate --explain` and `--paranoid`: the chain in plain words and in JSON; bad input is one clear line."""

import json

import pytest

from predictors.data.swf import write_swf
from predictors.data.synthetic import generate_log


@pytest.fixture
def jobcast(tmp_path, monkeypatch, command):
    """Run the command beside a small log; return its exit status and what it printed."""
    write_swf(generate_log(200, seed=1, procs=64), tmp_path / "log.swf")
    monkeypatch.chdir(tmp_path)
    return command


@pytest.mark.parametrize("estimates", ["requested", "tsafrir", "default"])
def test_the_chain_is_printed(jobcast, estimates):
    code, out, _ = jobcast(f"simulate log.swf --policy easy-sjbf --estimates {estimates} --explain 150")
    assert code == 0
    assert "Job 150 (" in out and ": started, " in out


def test_json_holds_the_chain_and_the_laws(jobcast):
    code, out, _ = jobcast("simulate log.swf --explain 150 --paranoid --json")
    found = json.loads(out)
    assert code == 0
    assert found["explanation"]["job_id"] == 150
    assert found["explanation"]["chain"][-1]["finding"]["rule"] == "starts"
    assert "never more processors than the machine has" in found["paranoid"]["kept"]


def test_the_laws_are_printed(jobcast):
    code, out, _ = jobcast("simulate log.swf --estimates tsafrir --correction incremental --paranoid")
    assert code == 0
    assert "holds: never more processors than the machine has" in out
    assert "not checked, since nothing is promised" in out


def test_the_default_is_held_to_its_promise(jobcast):
    code, out, _ = jobcast("simulate log.swf --policy default --estimates default --paranoid")
    assert code == 0
    assert "holds: the head starts by its promise" in out
    assert "not checked, since estimates are revised while jobs wait and run" in out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("simulate log.swf --explain 999", "has no job 999; its 200 jobs are 1 to 200"),
        ("simulate log.swf --policy hybrid-0", "at least 1 reservation; got 0"),
        ("simulate log.swf --policy hybrid--2", "at least 1 reservation; got -2"),
    ],
)
def test_bad_input_is_one_line_and_status_2(jobcast, line, says):
    code, out, err = jobcast(line)
    assert code == 2 and says in err and err.count("\n") == 1 and "Traceback" not in err
    assert out == ""


def test_a_broken_law_is_reported(jobcast, monkeypatch):
    """What the engine gives back is not trusted."""
    from dataclasses import replace

    from schedsim.engine import Simulation

    true = Simulation.schedule

    def late(self):
        schedule = true(self)
        return replace(schedule, start=schedule.start + 1, end=schedule.end + 1)

    monkeypatch.setattr(Simulation, "schedule", late)
    code, _, err = jobcast("simulate log.swf --paranoid")
    assert code == 2 and "breaks the law" in err
