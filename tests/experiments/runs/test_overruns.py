"""Jobs that ran past their requested time: killed there by default, and running on where nobody kills."""

import json

import pytest

from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation
from predictors.data.cleaning import clean, overran, within_requests
from predictors.data.formats.swf import write_swf
from predictors.data.joblog import JobLog
from tests.support.strategies import PROCS, seeded_workload


def log_with_overruns(seed):
    """Return a log in which about every third job ran past its request."""
    jobs = [job for job in seeded_workload(seed, kill=False) if job.user >= 0]
    values = {name: [getattr(job, name) for job in jobs] for name in ("job_id", "submit", "run_time", "user")}
    asked = {"requested_time": [job.requested for job in jobs], "requested_procs": [job.procs for job in jobs]}
    return clean(JobLog.from_columns(values | asked, {}, max_procs=PROCS))[0]


@pytest.mark.parametrize("estimates", ["requested", "tsafrir", "default", "user-mean"])
def test_with_killing_nothing_depends_on_what_came_after_the_request(estimates):
    """Neither starts nor estimates: who learns in the loop sees the killed run time."""
    for seed in range(10):
        log = log_with_overruns(seed)
        policy = "default" if estimates == "default" else "easy-sjbf"
        schedule, cut = (
            NamedSimulation(one, NamedPolicy.of(policy), estimates, "incremental").run()[0]
            for one in (log, within_requests(log))
        )
        for column in ("start", "end", "estimate", "last_estimate"):
            assert getattr(schedule, column).tolist() == getattr(cut, column).tolist(), f"seed {seed}: {column}"
        assert schedule.killed.sum() == overran(log).sum() > 0 == cut.killed.sum()


def test_the_command_gives_both_figures(tmp_path, monkeypatch, command):
    log = log_with_overruns(5)
    n_over = int(overran(log).sum())
    monkeypatch.chdir(tmp_path)
    write_swf(log, tmp_path / "log.swf")
    found = {}
    for option in ("--kill", "--no-kill"):
        for more in ("", "--shake 1"):
            status, out, err = command(f"simulate log.swf {option} {more} --json")
            assert status == 0, err
            found[option, more] = json.loads(out)
    killed, running_on = found["--kill", ""], found["--no-kill", ""]
    assert (killed["killed"], killed["past_request"]) == (n_over, 0)
    assert (running_on["killed"], running_on["past_request"]) == (0, n_over)
    assert running_on["makespan_s"] > killed["makespan_s"]
    assert found["--no-kill", "--shake 1"]["past_request"] > 0.9 * n_over
    assert found["--kill", "--shake 1"]["past_request"] == 0
    status, out, _ = command("simulate log.swf")
    assert f"{n_over:,}" in next(line for line in out.splitlines() if "killed at the requested time" in line)
