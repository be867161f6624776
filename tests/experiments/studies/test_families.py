"""The small copy of `balanced` with its families: it is the engine's rule, and each family keeps what it says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.data.cleaning import clean
from predictors.data.synthetic.generate import generate_log
from predictors.models.similar_jobs import make_revised_estimates
from schedsim.engine.simulation import simulate
from schedsim.policies.policy import BALANCED
from schedsim.validate.bounds import latest_starts
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload
from tests.bench.balanced_alone import BINS, CLASSES, Rule, beyond, class_of, middle_of, starts
from tests.bench.families import FAMILIES, PLANNERS, ends

pytestmark = pytest.mark.slow


def queue(seed, jobs=400, load=1.0):
    log, _ = clean(generate_log(jobs, seed=seed, load=load))
    return log, Workload.from_log(log)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), load=st.sampled_from([0.6, 0.9, 1.0]))
def test_without_a_family_it_is_the_engines_rule_and_with_true_run_times_too(seed, load):
    log, workload = queue(seed, 250, load)
    found = simulate(workload, BALANCED, make_revised_estimates("balanced").forecast(log))
    assert np.array_equal(starts(workload, Rule()), found.start)
    known = simulate(workload, BALANCED, clairvoyant(workload))
    assert np.array_equal(starts(workload, Rule(known=7)), known.start)


def test_families_differ_fit_the_machine_and_keep_the_bound_on_every_wait():
    _, workload = queue(3, 1500)
    found = {name: starts(workload, rule) for name, rule in FAMILIES.items()}
    assert len({start.tobytes() for start in found.values()}) >= len(FAMILIES) - 2
    any_schedule, run_time = simulate(workload, BALANCED), clairvoyant(workload)
    for name, start in found.items():
        assert (start >= workload.submit).all()
        if FAMILIES[name].grace == Rule().grace:
            schedule = replace(any_schedule, start=start, end=start + run_time)
            assert (start <= latest_starts(schedule, BALANCED)).all()
        moments = np.concatenate([start, start + run_time])
        change = np.concatenate([workload.procs, -workload.procs])
        in_use = change[np.lexsort((change, moments))].cumsum()  # ends before starts
        assert in_use.max() <= workload.machine_procs


def test_a_protection_of_nobody_and_a_bound_that_nobody_reaches_change_nothing():
    _, workload = queue(5)
    plain = starts(workload, Rule())
    for rule in (Rule(protected=4, protected_after=1e9), Rule(bound=1e9), Rule(overrun=0.0, caution_after=1.0)):
        assert np.array_equal(starts(workload, rule), plain)
    nobody = replace(workload, user=None)
    by_request = starts(nobody, Rule())
    assert np.array_equal(starts(nobody, Rule(pooled=10.0, own_first=True)), by_request)
    assert not np.array_equal(starts(nobody, Rule(pooled=10.0)), by_request)
    first = starts(workload, Rule(bound=1e-12))
    assert not np.array_equal(first, plain)


def test_what_is_left_of_a_running_job_is_read_from_its_sample_and_from_everybody():
    pool, values, weights = np.zeros((CLASSES, BINS)), np.array([100, 200, 1000]), np.array([1.0, 1.0, 0.1])

    def left(elapsed, quantile=0.5, pooled=3.0):
        return beyond(elapsed, 1000, values, weights, 3, quantile, pool, pooled)

    assert [left(elapsed) for elapsed in (0, 100, 200, 999)] == [200, 200, 1000, 1000]
    pool[class_of(1000), BINS - 3] = 8.0  # everybody ran for about .6 of the request
    middle = middle_of(BINS - 3, 1000)
    assert 200 < middle < 1000
    assert [left(elapsed) for elapsed in (0, 200, middle)] == [middle, middle, 1000]
    assert left(0, 0.15) == 100 and left(0, 0.5, pooled=0.01) == 200
    assert left(200, 0.99) == 1000


def test_planned_ends_by_request_are_never_too_early_and_higher_quantiles_are_so_less_often():
    log, _ = queue(7, 2000)
    share = ends(log, 1).set_index("planner")["ended_by_it"]
    assert list(share.index) == list(PLANNERS) and share["request"] == 1.0
    for first in (3, 6):  # median, .75 and .9 quantile
        assert share.iloc[first] < share.iloc[first + 1] < share.iloc[first + 2] < 1.0
