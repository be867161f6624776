"""Orders: each key is its formula, ties go to (submit, job id), a user's own function is asked and checked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import Easy, JobcastError, Order, Policy, Simulation, Workload, make_policy, simulate
from predictors.core.hash_random import mixed
from schedsim.kernels.keys import F1, F2, F3, F4, dynamic_key, sortable, static_key
from schedsim.policies.backfilling import Promise
from schedsim.policies.orders import ORDERS, random_order
from schedsim.policies.orders import sortable as sortable_keys
from schedsim.policies.policy import POLICIES
from tests.oracle.orders import ORDERS as FORMULAS
from tests.support.engine_runs import workload_of
from tests.support.strategies import crowded_workload, workloads

FINITE = st.floats(allow_nan=False, width=64)


@given(x=FINITE, y=FINITE)
def test_sortable_sorts_like_the_numbers(x, y):
    a, b = sortable(x), sortable(y)
    assert (a < b, a == b) == (x < y, x == y)
    assert sortable_keys(np.array([x, y])).tolist() == [a, b]


@given(
    p=st.integers(1, 10**7),
    n=st.integers(1, 10**6),
    s=st.integers(1, 10**9),
    r=st.integers(1, 10**7),
    w=st.integers(0, 10**8),
)
def test_keys_are_their_formulas_to_the_last_bit(p, n, s, r, w):
    for name in ORDERS.keys() - {"fcfs"}:
        expected, code = FORMULAS[name](n, p, r, w, 5, s), ORDERS[name].code
        if name in ("wfp3", "unicep"):
            assert dynamic_key(code, w, n, r) == sortable(expected)
        else:
            key = static_key(code, 5, s, n, p, 0, 77)
            assert key == (sortable(expected) if code in (F1, F2, F3, F4) else expected), name
    assert static_key(ORDERS["fcfs"].code, 5, 9, 9, 9, 0, 77) == 5  # the row: they are sorted by (submit, job id)


def test_mixing_depends_on_each_part_and_is_stable():
    """These numbers must never change: published schedules hang on them."""
    fixed = {
        (0, 1, 0): 2_482_289_063_980_384_216,
        (1, 1, 0): 3_150_992_677_718_134_148,
        (0, 2, 0): 7_707_993_040_052_960_274,
        (0, 1, 1): 2_533_777_038_635_110_281,
    }
    assert {parts: mixed(*parts) for parts in fixed} == fixed
    draws = np.array([mixed(7, job, 0) for job in range(4000)]) / 2.0**63
    assert abs(draws.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.05


def blocked_queue(procs, requested, submit=None):
    """A job that fills the machine of 8 for 100 s, then a queue of jobs that each fill it; they start in order."""
    n = len(procs)
    return Workload.from_columns(
        range(n + 1),
        submit=[0, *(submit or [1] * n)],
        procs=[8, *procs],
        requested=[100, *requested],
        run_time=[100, *[1] * n],
        machine_procs=8,
    )


def two_ways(workload, name):
    """Return two simulations of an order: one finds the first of the queue, one sorts the whole queue at every pass."""
    quick, plain = (Simulation(workload, make_policy(name)) for _ in range(2))
    assert quick._state.record.queue.finds_first
    plain._state.record.queue.finds_first = False
    return quick, plain


def finish_alike(quick, plain):
    for simulation in (quick, plain):
        simulation.run()
    assert np.array_equal(quick.events(), plain.events())


@pytest.mark.parametrize("name", ["wfp3", "unicep"])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), jobs=workloads(most=40, least_run=0))
def test_the_first_of_a_queue_is_found_as_by_sorting(name, seed, jobs):
    """Also where jobs tie in everything, where the simulation stops, is copied or notes reasons."""
    crowd, procs = crowded_workload(seed, n_jobs=100)
    for workload in (workload_of(jobs), workload_of(crowd, procs)):
        quick, plain = two_ways(workload, name)
        last = int(workload.submit[-1])
        for until in (last // 3, 2 * last // 3, last + 5):
            quick.run(until=until)
            plain.run(until=until)
            assert quick.queued.tolist() == plain.queued.tolist()
            finish_alike(quick.fork(), plain.fork())
        quick.run_noting(until=last + 900)
        finish_alike(quick, plain)


def test_the_first_of_a_long_queue_of_ties_is_found_as_by_sorting():
    """Hundreds of leaves; many jobs gain at one rate, since 8 times the processors make up for twice the request."""
    random = np.random.default_rng(5)
    wide = random.choice([1, 2, 4, 8], 3000)
    jobs = Workload.from_columns(
        range(3000), submit=np.sort(random.choice([0, 600, 601, 5000], 3000)), procs=wide,
        requested=random.choice([60, 120, 180, 240, 7200], 3000), run_time=random.integers(1, 60, 3000),
        machine_procs=8,
    )  # fmt: skip
    for name in ("wfp3", "unicep"):
        finish_alike(*two_ways(jobs, name))


# --- a user's own order -------------------------------------------------------------------------------------------


def test_a_users_order_sees_what_waits_and_decides():
    seen = []

    def widest_first(waiting):
        seen.append((waiting.now, waiting.row.tolist(), waiting.wait.tolist(), waiting.requested.tolist()))
        return -waiting.procs

    jobs = blocked_queue([5, 8, 7], [10, 10, 10])
    schedule = simulate(jobs, Policy(Order.by(widest_first)))
    assert (1 + np.argsort(schedule.start[1:])).tolist() == [2, 3, 1]
    assert seen[1] == (1, [1, 2, 3], [0, 0, 0], [10, 10, 10])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda waiting: waiting.nodes, "Order '<lambda>' failed at 0 s: AttributeError"),
        (lambda waiting: waiting.wait / 0.0 * 0.0, "gave NaN at 0 s"),
        (lambda waiting: 3.0, r"keys of shape \(\) at 0 s; one number for each of 1 jobs is \(1,\)"),
        (lambda waiting: ["a"] * len(waiting.row), "failed at 0 s: ValueError"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_users_broken_order_is_an_error(function, text):
    with pytest.raises(JobcastError, match=text):
        simulate(blocked_queue([5], [10]), Policy(Order.by(function)))


# --- names --------------------------------------------------------------------------------------------------------


def test_names():
    assert make_policy("easy") == make_policy("fcfs-easy") == Policy(backfill=Easy())
    assert make_policy("hybrid-4+promise") == Policy(backfill=Easy(depth=4, replan=True), promise=Promise())
    assert make_policy("wfp3-easy+promise").promise
    assert make_policy("easy-sjbf").backfill_order is ORDERS["sjf"]
    assert make_policy("f2-easy").backfill_order is ORDERS["f2"]
    assert {"fcfs", "unicep", "f4-easy", "conservative-compress", "binpacking", "random", "knapsack"} <= set(POLICIES)
    assert random_order(3).seed == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("esy", "No policy 'esy'; did you mean 'easy'"),
        ("hybrid-0", "holds at least 1 reservation; got 0"),
        ("hybrid-99999999999999999999", "holds at most 1,000,000 reservations"),
        ("hybrid--2", "holds at least 1 reservation; got -2"),
        ("fcfs+promise", "only the head of EASY or a hybrid is promised"),
        ("conservative-replan+promise", "only the head of EASY or a hybrid is promised"),
        ("easy+promises", r"No policy 'easy\+promises'; did you mean 'easy\+promise'"),
    ],
)
def test_wrong_names_are_an_error(name, text):
    with pytest.raises(JobcastError, match=text):
        make_policy(name)


def test_two_random_orders_draw_from_their_own_seeds():
    """The queue's seed decides who is the head, the other one who passes it."""
    width = [6] + [5] * 20 + [1] * 20
    workload = Workload.from_columns(
        range(1, 42), submit=[0] + [1] * 40, procs=width, requested=[100] * 41, run_time=[100] * 41, machine_procs=10
    )

    def passing(first, second):
        start = simulate(workload, Policy(random_order(first), Easy(random_order(second)))).start
        return tuple(np.flatnonzero(start == 1).tolist())

    assert len({passing(9, second) for second in range(5)}) > 1
    assert len({passing(first, 9) for first in range(5)}) > 1
