"""Jobs that ran past their requested time: killed there by default, and running on where nobody kills."""

import json

import numpy as np
import pytest

from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation
from predictors.data.cleaning import clean, overran, within_requests
from predictors.data.formats.swf import write_swf
from predictors.data.joblog import JobLog
from tests.oracle.easy import Job, rule_named
from tests.oracle.easy import simulate as oracle
from tests.support.strategies import PROCS, seeded_workload


def log_with_overruns(seed):
    """Return a log in which about every third job ran past its request, and its jobs as the oracle takes them."""
    jobs = [job for job in seeded_workload(seed, kill=False) if job.user >= 0]
    values = {name: [getattr(job, name) for job in jobs] for name in ("job_id", "submit", "run_time", "user")}
    asked = {"requested_time": [job.requested for job in jobs], "requested_procs": [job.procs for job in jobs]}
    log = clean(JobLog.from_columns(values | asked, {}, max_procs=PROCS))[0]
    columns = (log.values[name].tolist() for name in ("job_id", "submit", "requested_procs", "requested_time"))
    rest = (log.values[name].tolist() for name in ("run_time", "user"))
    return log, [Job(*row) for row in zip(*columns, *rest, strict=True)]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "running on"])
@pytest.mark.parametrize("estimates", ["requested", "clairvoyant", "tsafrir"])
@pytest.mark.parametrize("policy", ["easy", "easy-sjbf"])
def test_the_oracle_agrees_with_and_without_killing(policy, estimates, kill):
    for seed in range(30):
        log, jobs = log_with_overruns(seed)
        given = [max(1, min(job.run_time, job.requested)) for job in jobs] if estimates == "clairvoyant" else estimates
        correction = "requested" if kill else "doubling"
        expected = oracle(jobs, PROCS, rule_named(policy), given, correction, kill)
        schedule, _ = NamedSimulation(log, NamedPolicy.of(policy), estimates, correction, kill=kill).run()
        assert schedule.start.tolist() == expected.start, f"seed {seed}"
        assert schedule.run_time.tolist() == [
            min(job.run_time, job.requested) if kill else job.run_time for job in jobs
        ], f"seed {seed}"
        assert schedule.killed.tolist() == (overran(log) if kill else np.zeros(len(log), bool)).tolist()


@pytest.mark.parametrize("estimates", ["requested", "tsafrir", "default", "user-mean"])
def test_with_killing_nothing_depends_on_what_came_after_the_request(estimates):
    """Neither starts nor estimates: who learns in the loop sees the killed run time."""
    for seed in range(10):
        log, _ = log_with_overruns(seed)
        policy = "default" if estimates == "default" else "easy-sjbf"
        schedule, cut = (
            NamedSimulation(one, NamedPolicy.of(policy), estimates, "incremental").run()[0]
            for one in (log, within_requests(log))
        )
        for column in ("start", "end", "estimate", "last_estimate"):
            assert getattr(schedule, column).tolist() == getattr(cut, column).tolist(), f"seed {seed}: {column}"
        assert schedule.killed.sum() == overran(log).sum() > 0 == cut.killed.sum()


def test_the_command_gives_both_figures(tmp_path, monkeypatch, command):
    log, _ = log_with_overruns(5)
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
