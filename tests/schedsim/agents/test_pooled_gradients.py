"""The pooled network: its scores follow the jobs, its gradient is that of differences, and it knows no future."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, make_policy, simulate
from schedsim.agents.pooled_gradients import PooledBatch, first_pooled
from schedsim.policies.agents import RESERVES
from schedsim.policies.pooled import Pooled
from schedsim.validate.checks import busy_workload, check_no_start_looks_ahead
from tests.support.engine_runs import random_workload

EASY = make_policy("easy")
NETWORK = first_pooled(3)
OF = np.array([7, 3, 1, 2, 5])


def drawn(seed=0, window=7):
    """Return windows of jobs, contexts and places."""
    random = np.random.default_rng(seed)
    jobs = random.normal(size=(len(OF), window, 12)).astype(np.float32)
    return jobs, random.normal(size=(len(OF), 27)).astype(np.float32), random.integers(0, OF)


def in_numpy(network, jobs, context):
    """Return the scores, written out with matrices."""
    begin, parts = 0, []
    for rows, columns in Pooled.sizes(network.hidden):
        parts.append(network.weights[begin : begin + rows * columns].reshape(rows, columns))
        begin += rows * columns
    inner, bias, own, mean, outer, second_bias, last = parts
    embedded = np.tanh(jobs @ inner + bias)
    layer = np.tanh(embedded @ own + embedded.mean(axis=0) @ mean + context @ outer + second_bias)
    return (layer @ last)[:, 0]


def test_its_layers_are_those_of_matrices():
    jobs, contexts, _ = drawn()
    for b, n in enumerate(OF):
        expected = in_numpy(NETWORK, jobs[b, :n].astype(float), contexts[b].astype(float))
        assert np.allclose(NETWORK.scores(jobs[b, :n], contexts[b]), expected, atol=1e-9)
    chances = PooledBatch(NETWORK.hidden).chances(NETWORK.weights, jobs, contexts, OF)
    scores = in_numpy(NETWORK, jobs[0].astype(float), contexts[0].astype(float))
    assert np.allclose(chances[0], np.exp(scores) / np.exp(scores).sum())
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-6)
    assert (chances[np.arange(7) >= OF[:, None]] == 0).all()


@given(seed=st.integers(0, 10**6))
def test_its_scores_follow_the_jobs_wherever_they_stand(seed):
    random = np.random.default_rng(seed)
    jobs, context = random.normal(size=(9, 12)).astype(np.float32), random.normal(size=27).astype(np.float32)
    order = random.permutation(9)
    assert np.allclose(NETWORK.scores(jobs[order], context), NETWORK.scores(jobs, context)[order], atol=1e-12)
    alone = NETWORK.scores(jobs[:1], context)[0]
    assert alone != pytest.approx(NETWORK.scores(jobs, context)[0]), "what else waits counts"


@pytest.mark.parametrize("entropy", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_the_gradient_is_that_of_differences(entropy):
    jobs, contexts, places = drawn(1)
    batch, worth = PooledBatch(NETWORK.hidden), np.random.default_rng(2).normal(size=len(OF))

    def aim(weights):
        total, chances = 0.0, batch.chances(weights, jobs, contexts, OF)
        for b in np.flatnonzero(OF > 1):
            chance = chances[b, : OF[b]]
            total += worth[b] * np.log(chance[places[b]]) - entropy * (chance * np.log(chance)).sum()
        return total

    weights = NETWORK.weights + 0.05
    gradient = batch.gradient(weights, jobs, contexts, OF, places, worth, entropy)
    for place in range(0, len(weights), 7):
        ends = []
        for step in (1e-6, -1e-6):
            moved = weights.copy()
            moved[place] += step
            ends.append(aim(moved))
        difference = (ends[0] - ends[1]) / 2e-6
        assert abs(gradient[place] - difference) <= 1e-4 * max(1, abs(difference)), place


def test_without_the_place_in_it_the_window_changes_no_pick_while_few_jobs_wait():
    jobs, weights = busy_workload(30), NETWORK.weights.copy()
    weights[11 * 16 : 12 * 16] = 0.0  # of the last feature, whose scale is the window
    starts = [simulate(jobs, replace(EASY, agent=Pooled(weights), window=window)).start for window in (30, 56)]
    assert np.array_equal(*starts)
    assert not np.array_equal(starts[0], simulate(jobs, EASY).start)


@given(seed=st.integers(0, 10**9), reserve=st.sampled_from(list(RESERVES)))
def test_no_pick_depends_on_how_long_a_job_that_has_not_ended_will_run(seed, reserve):
    check_no_start_looks_ahead(replace(EASY, agent=first_pooled(seed), reserve=reserve), random_workload(seed))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pooled(np.zeros(3)), "has 1184 weights in one row"),
        (lambda: Pooled(np.full(1184, np.nan)), "finite"),
        (lambda: Pooled(np.zeros(1184), (16,)), "two hidden layers"),
        (lambda: Pooled(np.zeros(1184), (0, 16)), "layer of a pooled network must be from 1"),
        (lambda: Pooled(["a"] * 1184), "are numbers"),
    ],
)
def test_what_is_no_network_is_refused(make, message):
    with pytest.raises(JobcastError, match=message):
        make()
