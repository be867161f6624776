"""The engine equals the oracle, and keeps the laws of any schedule, under every registered policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedsim.engine import simulate as simulate_fast
from schedsim.estimates import Separate
from schedsim.orders import ORDERS, Order
from schedsim.policy import POLICIES, Policy, make_policy
from tests import oracle_orders
from tests.engine_runs import EVERY_POLICY, engine, rule_of, workload_of
from tests.oracle import Job, Rule, simulate
from tests.oracle_laws import Run, check
from tests.strategies import (
    PROCS,
    crowded_workload,
    seeded_estimates,
    seeded_workload,
    workloads,
    workloads_with_estimates,
)
from tests.test_broken_engines import sees_the_future

NAMED = ["requested", "clairvoyant", "tsafrir"]
CORRECTIONS = ["requested", "incremental", "doubling"]


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_engine_equals_oracle(name):
    """Starts, estimates, corrections and kinds of start, job for job, with jobs that are killed and that are not."""
    for seed in range(24):
        kill = seed % 4 > 0
        jobs = seeded_workload(seed, kill=kill, least_run=min(1, seed % 3))
        rule = rule_of(name, jobs)
        for estimates in (*NAMED, seeded_estimates(seed, jobs)):
            correction = CORRECTIONS[seed % 3]
            expected = simulate(jobs, PROCS, rule, estimates, correction, kill)
            assert engine(jobs, name, estimates, correction, kill) == expected, (
                f"seed {seed}, {estimates}, {correction}"
            )


@settings(max_examples=200, deadline=None)
@given(
    case=workloads_with_estimates(least_run=0),
    name=st.sampled_from(EVERY_POLICY),
    correction=st.sampled_from(CORRECTIONS),
)
def test_engine_equals_oracle_on_small_workloads(case, name, correction):
    """The same where Hypothesis can shrink what it finds."""
    jobs, estimates = case
    assert engine(jobs, name, estimates, correction) == simulate(
        jobs, PROCS, rule_of(name, jobs), estimates, correction
    )


@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if name not in ("random", "knapsack")])
def test_engine_equals_oracle_with_separate_estimates(name):
    """One estimate for running jobs, one for candidates, one for the order."""
    for seed in range(12):
        jobs = seeded_workload(seed)
        running, candidates, ordering = (seeded_estimates(31 * seed + i, jobs) for i in range(3))
        roles = {"running": running, "candidates": candidates, "ordering": ordering}
        expected = simulate(jobs, PROCS, rule_of(name, jobs), correction="doubling", **roles)
        separate = Separate(running=np.array(running), candidates=np.array(candidates), order=np.array(ordering))
        found = simulate_fast(workload_of(jobs), make_policy(name), separate, "doubling")
        assert found.start.tolist() == expected.start, f"seed {seed}"
        assert found.last_estimate.tolist() == expected.last_estimate, f"seed {seed}"


@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if name != "knapsack"])
def test_engine_equals_oracle_with_a_long_queue(name):
    """A hundred jobs waiting on machines of 16 to 300 processors: whatever the engine indexes is used."""
    for seed in range(3):
        jobs, procs = crowded_workload(seed)
        for estimates in ("requested", seeded_estimates(seed, jobs)):
            expected = simulate(jobs, procs, rule_of(name, jobs), estimates, CORRECTIONS[seed % 3])
            assert engine(jobs, name, estimates, CORRECTIONS[seed % 3], procs=procs) == expected, f"seed {seed}"


COMBINATIONS = {
    "sjf, saf behind the head": (Policy(ORDERS["sjf"], ORDERS["saf"], depth=1), Rule("sjf", "saf", depth=1)),
    "wfp3, sjf behind the head": (Policy(ORDERS["wfp3"], ORDERS["sjf"], depth=1), Rule("wfp3", "sjf", depth=1)),
    "f1, unicep behind the head": (Policy(ORDERS["f1"], ORDERS["unicep"], depth=1), Rule("f1", "unicep", depth=1)),
    "2 reservations, sjf behind the head": (
        Policy(backfill=ORDERS["sjf"], depth=2, kind="profile"),
        Rule(backfill_order="sjf", depth=2),
    ),
    "3 reservations, wfp3": (Policy(ORDERS["wfp3"], depth=3, kind="profile"), Rule("wfp3", depth=3)),
    "saf, all replanned": (Policy(ORDERS["saf"], depth=None, kind="profile"), Rule("saf", depth=None)),
    "unicep, all kept": (Policy(ORDERS["unicep"], depth=None, kind="compress"), Rule("unicep", depth=None, keeps=True)),
    "laf, all kept": (Policy(ORDERS["laf"], depth=None, kind="compress"), Rule("laf", depth=None, keeps=True)),
    "a promise with little slack": (
        Policy(depth=1, promise=True, promise_slack=20),
        Rule(depth=1, promise=True, slack=20),
    ),
    "2 reservations, a promise with slack": (
        Policy(depth=2, kind="profile", promise=True, promise_slack=90),
        Rule(depth=2, promise=True, slack=90),
    ),
    "a window of 3, capacity": (
        Policy(kind="knapsack", window=3, reward="capacity"),
        Rule(greedy="knapsack", window=3, reward="capacity"),
    ),
    "a window of 5, capability": (Policy(kind="knapsack", window=5), Rule(greedy="knapsack", window=5)),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_engine_equals_oracle_beyond_the_registered_names(name):
    policy, rule = COMBINATIONS[name]
    for seed in range(40):
        jobs = seeded_workload(seed, least_run=seed % 2)
        for estimates in ("requested", "tsafrir", seeded_estimates(seed, jobs)):
            found = engine(jobs, policy, estimates, CORRECTIONS[seed % 3])
            assert found == simulate(jobs, PROCS, rule, estimates, CORRECTIONS[seed % 3]), f"seed {seed}, {estimates}"


def test_a_users_own_order_equals_the_oracles(monkeypatch):
    """Widest-and-longest-waiting first, written twice."""
    monkeypatch.setitem(oracle_orders.ORDERS, "own", lambda n, p, r, wait, submit, age: -n * (wait + 10))
    monkeypatch.setattr("tests.oracle_site.MOVING", ("own",))
    own = Order.by(lambda waiting: -waiting.procs * (waiting.wait + 10))
    for depth in (0, 1, 3):
        policy = Policy(own, depth=depth, kind="profile" if depth > 1 else "counts")
        for seed in range(30):
            jobs = seeded_workload(seed)
            assert engine(jobs, policy) == simulate(jobs, PROCS, Rule("own", depth=depth)), (
                f"depth {depth}, seed {seed}"
            )


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_engine_keeps_every_law(name):
    """Laws that no comparison is needed for; see `oracle_laws.py`."""
    for seed in range(16):
        kill = seed % 4 > 0
        jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
        for estimates in NAMED:
            outcome = engine(jobs, name, estimates, CORRECTIONS[seed % 3], kill)
            check(Run(jobs, PROCS, rule_of(name, jobs), estimates, outcome, kill))


@settings(max_examples=120, deadline=None)
@given(jobs=workloads(), name=st.sampled_from(EVERY_POLICY), estimates=st.sampled_from(NAMED))
def test_engine_keeps_every_law_on_small_workloads(jobs, name, estimates):
    outcome = engine(jobs, name, estimates)
    check(Run(jobs, PROCS, rule_of(name, jobs), estimates, outcome))


@pytest.mark.parametrize("estimates", ["requested", "clairvoyant"])
def test_no_job_starts_after_its_first_reservation(estimates):
    """`conservative-compress` with estimates that hold: reservations only come nearer."""
    for seed in range(150):
        jobs = seeded_workload(seed)
        outcome = engine(jobs, "conservative-compress", estimates)
        first = simulate(jobs, PROCS, rule_of("conservative-compress", jobs), estimates).first_booked
        assert all(outcome.start[row] <= booked for row, booked in first.items()), f"seed {seed}"


def test_replanned_reservations_may_be_missed():
    """That law is `compress`'s own: under `replan` some job starts after its first planned start."""
    late = 0
    for seed in range(150):
        jobs = seeded_workload(seed)
        first = simulate(jobs, PROCS, rule_of("conservative-compress", jobs)).first_booked
        start = engine(jobs, "conservative-replan").start
        late += any(start[row] > booked for row, booked in first.items())
    assert late > 0


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_engine_does_not_look_ahead(name):
    """Changing a run time moves no start before the earlier of the two ends."""
    for seed in range(4):
        jobs = seeded_workload(seed)
        for estimates in ("requested", "tsafrir"):
            assert not sees_the_future(lambda some: engine(some, name, estimates).start, jobs), f"seed {seed}"  # noqa: B023


@pytest.mark.parametrize("promise", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_profile_at_depth_one_is_counts(order, promise):
    """The planned pass with one reservation and the pass that only counts processors are one rule."""
    for seed in range(24):
        kill = seed % 4 > 0
        jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
        backfill = [None, *ORDERS.values()][seed % 12]
        counts = Policy(ORDERS[order], backfill, depth=1, promise=promise)
        for estimates in ("tsafrir", seeded_estimates(seed, jobs)):
            about = (estimates, CORRECTIONS[seed % 3], kill)
            assert engine(jobs, replace(counts, kind="profile"), *about) == engine(jobs, counts, *about), f"seed {seed}"


def test_hybrid_1_is_easy_and_a_deep_hybrid_is_conservative():
    for seed in range(100):
        jobs = seeded_workload(seed)
        assert engine(jobs, "hybrid-1", "tsafrir") == engine(jobs, "easy", "tsafrir")
        assert engine(jobs, "hybrid-99", "tsafrir") == engine(jobs, "conservative-replan", "tsafrir")


@settings(max_examples=60, deadline=None)
@given(jobs=workloads(), name=st.sampled_from(["easy", "easy-sjbf", "hybrid-1"]))
def test_a_promise_by_requested_times_changes_nothing_when_they_are_the_estimates(jobs, name):
    """Only where nobody overtakes the head: under WFP3 a job can be promised, overtaken, and head the queue again."""
    assert engine(jobs, f"{name}+promise") == engine(jobs, name)


@settings(max_examples=60, deadline=None)
@given(jobs=workloads(), name=st.sampled_from(EVERY_POLICY), factor=st.sampled_from([2, 3]))
def test_time_has_no_unit(jobs, name, factor):
    """All times stretched alike: all starts stretched alike (but for F1 to F4 and rungs, which count in seconds)."""
    if name.startswith(("f1", "f2", "f3", "f4")):
        name = "easy"
    stretched = [
        replace(job, submit=factor * job.submit, requested=factor * job.requested, run_time=factor * job.run_time)
        for job in jobs
    ]
    assert engine(stretched, name).start == [factor * start for start in engine(jobs, name).start]


def test_the_laws_cover_every_registered_name():
    """No registered policy is left out of this file."""
    assert set(POLICIES) <= set(EVERY_POLICY)


UNPUBLISHED = [name for name in POLICIES if name not in ("random", "knapsack")]  # the oracle's knapsack tries all sets
LONG = [*UNPUBLISHED, "hybrid-4", "easy-sjbf+promise", "default"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_engine_equals_oracle_on_a_real_log(name, reference):
    """KTH-SP2 whole, with Tsafrir's estimates, for the policies that have no published schedule."""
    from tests.test_oracle import jobs_of

    jobs = jobs_of(reference("kth.swf.gz"))
    jobs = [replace(job, submit=job.submit - jobs[0].submit) for job in jobs]
    found = engine(jobs, name, "tsafrir", "incremental", procs=100)
    assert found == simulate(jobs, 100, rule_of(name, jobs), "tsafrir", "incremental")


def test_a_blocked_job_holds_its_reservation_whatever_the_promise_says():
    """The promise is a second test for starts, never a reason to hold nothing: job 18 would delay the third, 14."""
    rows = [(13, 0, 4, 3600, 2400), (16, 0, 7, 1200, 600), (9, 600, 5, 1800, 1200), (14, 600, 3, 3600, 1800)]
    jobs = [Job(*row) for row in [*rows, (18, 1800, 1, 2400, 2400)]]
    outcome = engine(jobs, "hybrid-3+promise", [2400, 600, 1043, 1800, 2400])
    assert outcome.start == [0, 2400, 3000, 3000, 4200]
