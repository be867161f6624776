"""Look-ahead: one order alone is that order, the best of a plain drain is taken, and nothing unknown is read."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import Easy, JobcastError, Order, Policy, Simulation, Workload, clean, generate_log, make_policy, simulate
from predictors.models.similar_jobs import REVISED_ESTIMATES
from schedsim.engine import look_ahead
from schedsim.engine.look_ahead import rank_by_look_ahead
from schedsim.kernels import dissolve_groups
from schedsim.policies.backfilling import NoBackfilling, Promise
from schedsim.policies.orders import AIMS, ORDERS, LookAhead
from schedsim.validate.checks import check_no_start_looks_ahead
from schedsim.workload.estimates import clairvoyant
from tests.support.engine_runs import knows_the_future, random_workload

ALL = make_policy("look-ahead")


def looking(*orders, aim="wait-slowdown", **about):
    """Return a policy that tries these orders."""
    return Policy(**({"backfill": Easy()} | about), order=Order.by_look_ahead(LookAhead(orders, aim)))


@pytest.mark.parametrize("name", ORDERS)
def test_one_order_alone_is_that_order(name):
    for seed in range(4):
        jobs = random_workload(seed)
        assert np.array_equal(simulate(jobs, looking(name)).start, simulate(jobs, make_policy(f"{name}-easy")).start)
    plain = replace(make_policy(f"{name}-easy"), promise=Promise(slack=60))
    assert np.array_equal(simulate(jobs, looking(name, promise=Promise(slack=60))).start, simulate(jobs, plain).start)
    without = looking(name, backfill=NoBackfilling())
    assert np.array_equal(simulate(jobs, without).start, simulate(jobs, make_policy(name)).start)


@given(seed=st.integers(0, 10**9), aim=st.sampled_from(AIMS))
def test_no_order_depends_on_how_long_a_job_that_has_not_ended_will_run(seed, aim):
    check_no_start_looks_ahead(looking("fcfs", "sjf", "saf", "wfp3", aim=aim), random_workload(seed))


def test_with_true_run_times_as_estimates_the_audit_finds_the_future():
    policy = looking("fcfs", "sjf", "ljf")
    assert any(knows_the_future(random_workload(seed), policy, clairvoyant) for seed in range(20))


def test_revised_estimates_count_in_a_drain_as_soon_as_they_are_known(monkeypatch):
    """Jobs of a group whose estimate was revised as one cost what they do where each is brought up to date first."""
    log = clean(generate_log(200, seed=3, procs=64, load=1.0))[0]
    simulation = Simulation(Workload.from_log(log), ALL, REVISED_ESTIMATES["careful"].forecast(log))
    costs = []

    def ranked(state, estimates, placing, look):
        single = state.copy()
        dissolve_groups(single.arrays(), int(single.record.queue.candidates))
        for code in (ORDERS["fcfs"].code, ORDERS["sjf"].code):
            costs.append(
                [look_ahead._cost(one, estimates, None, code, look_ahead.WAIT_SLOWDOWN) for one in (state, single)]
            )
        return rank_by_look_ahead(state, estimates, placing, look)

    monkeypatch.setattr("schedsim.engine.simulation.rank_by_look_ahead", ranked)
    simulation.run()
    grouped, singly = np.transpose(costs)
    assert len(costs) > 100 and np.array_equal(grouped, singly)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LookAhead(()), "orders, each once"),
        (lambda: LookAhead(("sjf", "sjf")), "orders, each once"),
        (lambda: LookAhead(("sfj",)), "did you mean 'sjf'"),
        (lambda: LookAhead(aim="wiat"), "did you mean 'wait'"),
        (lambda: Policy(backfill=Easy(ALL.order)), "as the order alone"),
    ],
)
def test_what_does_not_go_with_it_is_refused(make, message):
    with pytest.raises(JobcastError, match=message):
        make()
