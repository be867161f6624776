"""Drift: no more false alarms than stated, whatever the errors look like; what is planted is found; states go on."""

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.evaluation.drift import BLOCK, Drift, DriftTest, checked_rate

BLOCKS_PER_YEAR = 365.25 * 86_400 / BLOCK


def errors(random, n_blocks, scale=1.0, per_block=3):
    """Heavy-tailed errors; those of a block share a user, so that they are large or small together."""
    whose = np.exp(random.normal(0, 1, (n_blocks, 2, 1)))
    found = whose * random.standard_t(3, (n_blocks, 2, per_block)) * 100
    found[:, 0] *= scale
    return found


def follow(test, found, begin=0):
    """Return the numbers of the blocks at whose end an alarm began."""
    alarms, stood = [], test.now.stands
    for block, (ours, theirs) in enumerate(found.tolist(), start=begin):
        for one, other in zip(ours, theirs, strict=True):
            test.add(block * BLOCK, one, other)
        if test.now.stands and not stood:
            alarms.append(block)
        stood = test.now.stands
    return alarms


def test_a_model_as_good_as_last_two_alarms_no_more_often_than_stated():
    """The chance within n blocks is at most n over the threshold; heavy tails and blocks of one user do not matter."""
    rate, n_blocks, lives = 4.0, 150, 60
    bound = n_blocks * rate / BLOCKS_PER_YEAR
    alarmed = sum(bool(follow(DriftTest(rate), errors(np.random.default_rng(seed), n_blocks))) for seed in range(lives))
    assert bound < 0.5 and alarmed / lives <= bound


@pytest.mark.parametrize("scale", [3.0, 5.0])
def test_what_is_planted_is_found_with_its_beginning_and_cleared_when_it_is_over(scale):
    for seed in range(3):
        random, test = np.random.default_rng(seed), DriftTest()
        assert not follow(test, errors(random, 400, 0.7))
        alarms = follow(test, errors(random, 120, scale), begin=400)
        assert alarms and alarms[0] < 500
        assert abs(test.now.since / BLOCK - 400) < 20 and test.now.alarm_at == alarms[0] * BLOCK
        assert test.now.squared > 1 and test.now.absolute > 1 and test.now.evidence >= 1
        follow(test, errors(random, 600, 0.3), begin=520)
        assert not test.now.stands and test.now.alarm_at is None


def test_a_model_that_is_better_by_one_kind_of_error_is_not_worse():
    """It errs by 100 s on one job of ten and by nothing on the others, last-two by 20 s on each."""
    test = DriftTest(12.0)
    for job in range(10_000):
        test.add(job * 1000, 100.0 * (job % 10 == 0), 20.0)
    assert not test.now.stands and test.now.evidence < 0.5


def test_one_job_is_one_block_whatever_its_error():
    test = DriftTest(12.0)
    for job in range(400):
        test.add(job * BLOCK, 1e9 if job == 200 else 9.0, 10.0)
        assert not test.now.stands


def test_a_test_goes_on_where_it_was_and_foreign_states_are_refused():
    found = errors(np.random.default_rng(5), 200, 3.0)
    one, other = DriftTest(), DriftTest()
    follow(one, found[:80])
    other.set_state(one.get_state())
    assert follow(one, found[80:], 80) == follow(other, found[80:], 80)
    assert (
        one.now == other.now and one.now.stands and np.array_equal(one.get_state(), other.get_state(), equal_nan=True)
    )
    assert Drift.from_json(one.now.to_json()) == one.now
    with pytest.raises(ValueError, match="no state"):
        other.set_state(one.get_state()[1:])


def test_errors_that_are_no_numbers_are_left_out_and_the_rate_is_checked():
    test = DriftTest()
    for job in range(50):
        test.add(job * BLOCK, float("nan"), 1.0)
    assert not test.now.stands and test.now.evidence == 0 and test.now.since is None
    for rate in (0.0, -1.0, 13.0, float("nan")):
        with pytest.raises(JobcastError, match="false drift alarms lies above 0"):
            checked_rate(rate)
