"""The oracle itself, on cases small enough to check by eye; whole logs: see test_reference_schedules."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.easy import Job, Rule, simulate
from tests.oracle.machine import Counts, Plan, Span
from tests.oracle.passes import reservation
from tests.oracle.site import Site
from tests.support.strategies import PROCS, workloads, workloads_with_estimates


def test_shadow_counts_all_ends_of_its_second():
    """Two jobs end at 100: the head needs one of them only, the other's processors are extra."""
    assert reservation(0, 4, [(100, 4), (100, 3), (90, 0), (300, 2)]) == (100, 3)
    with pytest.raises(ValueError, match="never free"):
        reservation(1, 9, [(100, 7)])


def job(procs):
    return SimpleNamespace(procs=procs, requested=0)


def plan_of(free, *taken):
    """A plan of eight processors, of which `free` are free until 20, less what is taken: (begin, end, processors)."""
    plan = Plan(Counts(procs=8), [Span(0, 20, job(8 - free), {})], now=0)
    for begin, end, procs in taken:
        plan.take(Span(begin, end, job(procs), {}))
    return plan


def earliest(plan, procs, length):
    return Site(Rule(), plan.machine).earliest(job(procs), length, plan).begin


def test_a_hole_must_last():
    plan = plan_of(8, (0, 20, 4), (20, 30, 8), (30, 50, 4))  # free: 4 until 20, 0 until 30, 4 until 50, 8 from then on
    assert [earliest(plan, *hole) for hole in ((4, 20), (4, 21), (5, 1), (1, 20))] == [0, 30, 50, 0]
    plan.give(plan.spans[-1])
    assert earliest(plan, 5, 1) == 30


@given(
    free=st.integers(0, 8),
    blocks=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(1, 8)), max_size=6),
    procs=st.integers(1, 8),
    length=st.integers(1, 8),
)
def test_earliest_hole_is_what_counting_seconds_finds(free, blocks, procs, length):
    """The plan against a list with one cell a second."""
    cells = [free] * 20 + [8] * 20
    for begin, seconds, width in blocks:
        for second in range(begin, begin + seconds):
            cells[second] -= width
    begin = next(t for t in range(32) if min(cells[t : t + length]) >= procs)
    plan = plan_of(free, *((begin, begin + seconds, width) for begin, seconds, width in blocks))
    assert earliest(plan, procs, length) == begin


def test_an_instant_is_a_batch():
    """Ends free processors before the second's submissions are tried, and all submissions share one pass."""
    jobs = [Job(1, 0, 8, 10, 10), Job(3, 10, 8, 9, 9), Job(2, 10, 8, 5, 5)]
    assert simulate(jobs, 8, Rule(order="sjf")).start == [0, 15, 10]


def test_a_zero_length_job_gives_way_at_once():
    jobs = [Job(1, 0, 8, 10, 0), Job(2, 0, 8, 10, 10), Job(3, 0, 1, 10, 0)]
    assert simulate(jobs, 8, Rule()).start == [0, 0, 10]


def test_a_job_that_ends_in_the_second_of_a_submission_is_already_known():
    """Tsafrir's estimate of job 3 is the mean of 10 s and 15 s; the next user has no history and gets the request."""
    jobs = [Job(1, 0, 1, 100, 10, 7), Job(2, 0, 1, 100, 15, 7), Job(3, 15, 1, 100, 5, 7), Job(4, 15, 1, 90, 5, 8)]
    outcome = simulate(jobs, 8, Rule(), "tsafrir")
    assert outcome.estimate == [100, 100, 12, 90]
    nobody = [replace(job, user=-1) for job in jobs]
    assert simulate(nobody, 8, Rule(), "tsafrir").estimate == [100, 100, 100, 90]


@given(case=workloads_with_estimates(), backfill=st.sampled_from([None, "sjf", "saf"]), promise=st.booleans())
def test_the_plan_at_depth_one_is_easy(case, backfill, promise):
    """Shadow time and extra processors say the same as the earliest hole beside the head's reservation."""
    jobs, estimates = case
    rule = Rule(depth=1, backfill_order=backfill, promise=promise)
    counted = simulate(jobs, PROCS, rule, estimates, "incremental")
    assert simulate(jobs, PROCS, replace(rule, family="planned"), estimates, "incremental") == counted


@given(jobs=workloads())
def test_deeper_than_the_queue_is_conservative(jobs):
    assert simulate(jobs, PROCS, Rule(depth=len(jobs))).start == simulate(jobs, PROCS, Rule(depth=None)).start
