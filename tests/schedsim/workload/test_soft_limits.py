"""Soft limits: whole minutes, the roles before and from Slurm 25.05.4 on, and what cannot be one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.synthetic.generate import generate_log
from predictors.models.similar_jobs import make_revised_estimates
from predictors.models.stream import forecast
from predictors.registry import make_predictor
from schedsim.engine.simulation import Simulation, simulate
from schedsim.policies.policy import make_policy
from schedsim.workload.estimates import Separate
from schedsim.workload.soft_limits import SOFT_LIMITS, Rounded, rounded_up, soft_limits_named
from schedsim.workload.workload import Workload


@given(jobs=st.lists(st.tuples(st.floats(0.1, 1e6), st.integers(1, 10**6)), min_size=1), step=st.sampled_from([1, 60]))
def test_rounding_up_is_the_least_step_that_is_enough_and_within_the_request(jobs, step):
    seconds, requested = np.array(jobs).T
    up = rounded_up(seconds, step, requested.astype(np.int64))
    assert (up <= requested).all() and (up >= np.minimum(seconds, requested)).all()
    whole = up < requested
    assert (up[whole] % step == 0).all() and (up[whole] - seconds[whole] < step).all()


def workload():
    """Return jobs of which row 0 runs on 6 of 8 processors, row 1 is blocked, and row 2 would like to pass."""
    return Workload.from_columns(
        range(3), submit=[0, 1, 2], procs=[6, 8, 2], requested=[600, 60, 600], run_time=[100, 10, 200], machine_procs=8
    )


def test_running_jobs_are_planned_by_hard_limits_before_25_05_4():
    """By the soft limit of row 0 the head starts at 120 s, and row 2 (240 s) must not pass; by the hard one it may."""
    soft = np.array([100, 60, 200])
    starts = {}
    for name in ("slurm", "slurm-23.11", "pbs"):
        limits = SOFT_LIMITS[name]
        given = limits.of(soft, workload())
        starts[name] = simulate(workload(), make_policy("easy"), given.estimates, limits.correction).start.tolist()
    assert starts == {"slurm": [0, 100, 110], "slurm-23.11": [0, 202, 2], "pbs": [0, 100, 110]}


def test_forecasts_are_rounded_and_asked_once_for_two_roles():
    log = generate_log(120, seed=3, users=5)
    jobs = Workload.from_log(log)
    by_role = soft_limits_named("slurm-23.11").of(forecast(make_predictor("last-two"), log), jobs)
    assert isinstance(by_role.estimates, Separate) and by_role.estimates.candidates is by_role.estimates.order
    simulate(jobs, make_policy("easy"), by_role.estimates, "slurm")
    given = by_role.seconds
    assert ((given % 60 == 0) | (given == jobs.requested)).all()
    found = by_role.figures(jobs.run_time)
    assert found["soft_too_short"] == (jobs.run_time > given).mean() > 0


def test_a_forecast_goes_on_by_itself_in_a_copy():
    log = generate_log(80, seed=4, users=4)
    jobs = Workload.from_log(log)

    def started():
        given = soft_limits_named("slurm").of(forecast(make_predictor("cesnet"), log), jobs)
        return Simulation(jobs, make_policy("easy"), given.estimates, "slurm")

    whole, part = started(), started()
    whole.run()
    part.run(until=int(jobs.submit[40]))
    twin = part.fork()
    part.run()
    twin.run()
    assert twin.schedule().start.tolist() == part.schedule().start.tolist() == whole.schedule().start.tolist()


def test_what_is_no_soft_limit_is_refused():
    jobs, log = workload(), generate_log(3, seed=1)
    with pytest.raises(JobcastError, match="one soft limit per job; revised estimates"):
        soft_limits_named("slurm").of(make_revised_estimates("careful").forecast(log), jobs)
    with pytest.raises(JobcastError, match="not an estimate for each role"):
        soft_limits_named("slurm").of(Separate(*(jobs.requested,) * 3), jobs)
    with pytest.raises(JobcastError, match="No kind of soft limits 'slrum'; did you mean 'slurm'"):
        soft_limits_named("slrum")
    with pytest.raises(JobcastError, match="has no fork"):
        Rounded(type("Deaf", (), {"advance": lambda self, events, seconds: None})(), 60, jobs.requested).fork()
