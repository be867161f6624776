"""Due dates bound every wait, whatever is estimated: the theorem of `schedsim.validate.bounds` on random logs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import Easy, JobcastError, Order, Policy, Workload, make_policy, simulate
from schedsim.policies.backfilling import Promise
from schedsim.policies.orders import Priority
from schedsim.validate.bounds import latest_starts
from schedsim.validate.laws import BOUND
from schedsim.validate.validate import check
from schedsim.workload.estimates import Separate
from tests.support.engine_runs import workload_of
from tests.support.strategies import seeded_workload

POLICIES = st.builds(
    lambda head_start, estimate, procs, grace, share, slack, growth, less, more, order: Policy(
        Order.by_priority(Priority(head_start, estimate, procs, grace, share)),
        Easy(order),
        Promise(slack, growth, max(0, slack - less), slack + more, kept=True),
    ),
    st.sampled_from([1.0, 60.0, 3600.0]),
    st.sampled_from([-1.0, 0.0, 0.7, 3.0]),
    st.sampled_from([-1.0, 0.0, 0.5]),
    st.integers(0, 200),
    st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    st.integers(0, 300),
    st.sampled_from([-0.4, 0.0, 0.2, 5.0]),
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([None, make_policy("easy-sjbf").backfill.order]),
)


@given(policy=POLICIES, seed=st.integers(0, 10**6), wrong=st.integers(0, 10**6))
def test_every_job_starts_by_its_bound_however_wrong_the_estimates_are(policy, seed, wrong):
    workload = workload_of(seeded_workload(seed))
    draw = np.random.default_rng(wrong)
    roles = [draw.integers(1, workload.requested, endpoint=True) for _ in range(3)]
    schedule = simulate(workload, policy, Separate(*roles))
    assert (schedule.start <= latest_starts(schedule, policy)).all()
    assert BOUND in check(schedule, policy, Separate(*roles)).kept


def crowd():
    """Short jobs without end, and one long job among them: by its priority it would come last."""
    n = 400
    submit, run = np.arange(n) * 10, np.full(n, 60)
    run[5] = 4000
    return Workload.from_columns(
        np.arange(n), submit=submit, procs=np.full(n, 2), requested=run, run_time=run, machine_procs=8
    )


def test_without_due_dates_a_long_job_waits_beyond_it_and_the_law_sees_that():
    workload, policy = crowd(), make_policy("balanced")
    due = replace(policy, order=Order.by_priority(Priority(60.0, 2.0, 0.0, grace=300, share=0.5)))
    never = replace(policy, order=Order.by_priority(Priority(60.0, 2.0)))
    kept, starved = simulate(workload, due), simulate(workload, never)
    assert kept.start[5] <= latest_starts(kept, due)[5]
    assert starved.start[5] > kept.start[5]
    late = replace(kept, start=kept.start + 10**6 * (np.arange(400) == 5))
    assert (late.start > latest_starts(late, due)).any()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Priority(estimate=float("nan")), "estimate lies within -100 and 100; got nan"),
        (lambda: Priority(head_start=0), "head_start lies within"),
        (lambda: Priority(procs=float("inf")), "procs lies within"),
        (lambda: Priority(grace=-1), "grace lies within 0"),
        (lambda: Priority(grace=10, share=-0.5), "share lies within 0"),
        (lambda: Priority(share=0.5), "needs a grace"),
        (lambda: Policy(backfill=Easy(Order.by_priority(Priority(grace=60)))), "has grace=None"),
        (lambda: Promise(slack=-1), "slack is a whole number of seconds from 0"),
        (lambda: Promise(least=-1), "least is a whole number of seconds from 0"),
        (lambda: Promise(growth=-2e6), "growth is a number from -1,000,000"),
        (lambda: Promise(growth=float("nan")), "growth is a number from -1,000,000"),
        (lambda: Promise(slack=10, most=5), "got least=0, slack=10, most=5"),
        (lambda: Promise(slack=10, least=20), "got least=20, slack=10"),
    ],
)
def test_what_makes_no_bound_is_refused(made, says):
    with pytest.raises(JobcastError, match=says):
        made()
