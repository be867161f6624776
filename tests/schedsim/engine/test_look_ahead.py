"""Look-ahead: one order alone is that order, the best of a plain drain is taken, and nothing unknown is read."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.cleaning import clean
from predictors.data.formats.detect import read_log
from predictors.data.synthetic.generate import generate_log
from predictors.models.similar_jobs import REVISED_ESTIMATES
from predictors.models.stream import forecast
from predictors.registry import make_predictor
from schedsim.engine import look_ahead
from schedsim.engine.look_ahead import rank_by_look_ahead
from schedsim.engine.simulation import Simulation, simulate
from schedsim.kernels import dissolve_groups
from schedsim.machine.outages import Outages, Reservation
from schedsim.policies.agents import OLDEST_FIRST
from schedsim.policies.backfilling import Conservative, Easy, NoBackfilling, Promise
from schedsim.policies.ceil import Ceiling
from schedsim.policies.orders import AIMS, ORDERS, LookAhead, Order
from schedsim.policies.policy import Policy, make_policy
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.checks import busy_workload, check_no_start_looks_ahead
from schedsim.validate.validate import check
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "ALCF-Theta-2022.cqsim"])
def test_one_order_alone_is_that_order_on_real_logs(trace, name):
    jobs = Workload.from_log(clean(read_log(trace(name))[0])[0])
    for order in ("sjf", "wfp3"):
        one, plain = simulate(jobs, looking(order)), simulate(jobs, make_policy(f"{order}-easy"))
        assert np.array_equal(one.start, plain.start)


def drained(workload, rows, order, now, ends):
    """Return the starts of waiting jobs under an order and EASY, worked out by a plain simulation of those alone.

    Running jobs are given as (planned end, processors); they run first, from second 0 on.
    """
    waiting = [(int(workload.procs[row]), int(workload.requested[row])) for row in rows]
    table = np.array([(procs, end - now) for end, procs in ends] + waiting)
    order_of = {"fcfs": lambda w: w.row, "sjf": lambda w: w.estimate, "ljf": lambda w: -w.estimate}[order]
    first = len(ends)
    jobs = Workload.from_columns(
        range(len(table)), submit=np.zeros(len(table), int), procs=table[:, 0], requested=table[:, 1],
        run_time=table[:, 1], machine_procs=workload.machine_procs,
    )  # fmt: skip
    rank = Order.by(lambda w: np.where(w.row < first, -np.inf, order_of(w)))
    return simulate(jobs, Policy(rank, Easy())).start[first:] + now


COST = {
    "wait": lambda wait, length: wait,
    "slowdown": lambda wait, length: np.maximum(1, (wait + length) / np.maximum(length, 10)),
    "squared-wait": lambda wait, length: wait**2,
    "wait-slowdown": lambda wait, length: wait**2 / np.maximum(length, 10),
}


@pytest.mark.parametrize("aim", [AIMS[0], *(pytest.param(aim, marks=pytest.mark.slow) for aim in AIMS[1:])])
def test_the_order_is_taken_that_costs_least_in_a_plain_drain(aim):
    """Before each instant with a choice, the starts are those of the order that a simulation of its own finds best."""
    orders, taken = ("fcfs", "sjf", "ljf"), set()
    for seed in range(2):
        jobs = busy_workload(24, seed)
        whole = simulate(jobs, looking(*orders, aim=aim))
        simulation, before = Simulation(jobs, looking(*orders, aim=aim)), 0
        for instant in np.unique(np.concatenate([jobs.submit, whole.end])).tolist():
            simulation.run(until=instant - 1)
            branches = {}
            for order in orders:
                branch = simulation.fork()
                branch.policy = looking(order)
                branch.run(until=instant)
                branches[order] = set(branch.running.tolist())
            simulation.run(until=instant)
            if simulation.look_aheads == before:
                continue
            before = simulation.look_aheads
            started = [row for row in simulation.running if whole.start[row] == instant]
            rows = np.sort(np.concatenate([simulation.queued, np.array(started, int)]))
            others = [row for row in simulation.running if row not in started]
            ends = [(int(whole.start[row] + jobs.requested[row]), int(jobs.procs[row])) for row in others]
            cost = {}
            for order in orders:
                wait = drained(jobs, rows, order, instant, ends) - jobs.submit[rows]
                cost[order] = float(COST[aim](wait.astype(float), jobs.requested[rows]).sum())
            best = min(orders, key=lambda order: cost[order])
            taken.add(best)
            if sorted(cost.values())[0] < sorted(cost.values())[1] * (1 - 1e-12):
                assert set(simulation.running.tolist()) == branches[best], (seed, instant, cost)
    assert len(taken) > 1


@given(seed=st.integers(0, 10**9), aim=st.sampled_from(AIMS))
def test_no_order_depends_on_how_long_a_job_that_has_not_ended_will_run(seed, aim):
    check_no_start_looks_ahead(looking("fcfs", "sjf", "saf", "wfp3", aim=aim), random_workload(seed))


def test_with_true_run_times_as_estimates_the_audit_finds_the_future():
    policy = looking("fcfs", "sjf", "ljf")
    assert any(knows_the_future(random_workload(seed), policy, clairvoyant) for seed in range(20))


@pytest.mark.parametrize("stop", [40, 300])
def test_forks_and_stops_change_nothing(stop):
    jobs = busy_workload(120)
    whole = simulate(jobs, ALL)
    simulation = Simulation(jobs, ALL)
    simulation.run(until=stop)
    fork = simulation.fork()
    for one in (fork, simulation):
        one.run()
        assert np.array_equal(one.schedule().start, whole.start)
    assert simulation.look_aheads > 0


@pytest.mark.parametrize("estimates", ["last-two", "careful"])
def test_it_drains_by_estimates_that_are_learnt_on_the_way(estimates):
    log = clean(generate_log(400, seed=3, procs=64, load=1.0))[0]
    jobs = Workload.from_log(log)

    def told():
        if estimates in REVISED_ESTIMATES:
            return REVISED_ESTIMATES[estimates].forecast(log)
        return forecast(make_predictor(estimates), log)

    simulation = Simulation(jobs, ALL, told())
    simulation.run()
    assert simulation.look_aheads > 20
    one = simulate(jobs, looking("sjf"), told())
    assert np.array_equal(one.start, simulate(jobs, make_policy("sjf-easy"), told()).start)
    assert not np.array_equal(simulation.schedule().start, one.start)


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


def test_its_schedules_keep_the_laws():
    jobs = busy_workload(200, 3)
    kept = check(simulate(jobs, ALL), ALL).kept
    assert any("processors" in law for law in kept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LookAhead(()), "orders, each once"),
        (lambda: LookAhead(("sjf", "sjf")), "orders, each once"),
        (lambda: LookAhead(("sfj",)), "did you mean 'sjf'"),
        (lambda: LookAhead(aim="wiat"), "did you mean 'wait'"),
        (lambda: looking("sjf", backfill=Conservative()), "a plan of several jobs"),
        (lambda: looking("sjf", backfill=Easy(depth=2)), "a plan of several jobs"),
        (lambda: looking("sjf", backfill=Easy(ORDERS["sjf"])), "an order of its own for backfills"),
        (lambda: looking("sjf", agent=OLDEST_FIRST), "an agent"),
        (lambda: looking("sjf", ceiling=Ceiling(0.9)), "a ceiling"),
        (lambda: Policy(backfill=Easy(ALL.order)), "as the order alone"),
        (lambda: make_policy("look-ahead+ceil"), "and a ceiling on utilisation do not compose"),
    ],
)
def test_what_does_not_go_with_it_is_refused(make, message):
    with pytest.raises(JobcastError, match=message):
        make()


def test_a_machine_whose_parts_count_is_refused():
    jobs = busy_workload(20)
    outages = Outages((Reservation(10, 20, 1),))
    for about in ({"outages": outages}, {"rules": Rules()}):
        with pytest.raises(JobcastError, match="by what jobs take and by their estimates alone"):
            Simulation(jobs, ALL, **about)
