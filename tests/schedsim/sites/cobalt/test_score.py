"""The score of Cobalt: its formula, its closed form, and what holds and alterations do to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.kernels.keys import squares
from schedsim.machine.partitions import Hierarchy, Partitions, widened
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.cobalt.score import Score
from tests.support.cobalt_runs import score_of, two_jobs, waiting
from tests.support.engine_runs import jobs_of


def test_the_score_of_a_full_machine_after_an_hour():
    assert round(Score().gained(3600, 49_152, 3600, 49_152), 5) == 1.34168


def test_the_floor_and_the_ceiling_give_one_trajectory():
    for eligible in (600, 7200, 90_000):
        five, hour, twelve, day = (
            Score().gained(eligible, 512, asked, 49_152) for asked in (300, 3600, 43_200, 86_400)
        )
        assert five == hour > twelve == day
    assert Score().gained(7200, 512, 3600, 49_152) > Score().gained(7200, 512, 3661, 49_152)


def test_an_increment_is_the_share_of_the_machine_after_the_walltime_to_the_three_halves():
    """After 60^1.5 = 464.8 minutes for walltimes of an hour and less."""
    minutes = 60**1.5
    growth = Score().growth(np.array([8192]), np.array([1800]), 49_152)[0]
    assert growth * (minutes * 60) ** 2 == pytest.approx(8192 / 49_152)
    assert minutes == pytest.approx(464.8, abs=0.05)


@given(
    since=st.integers(0, 10**6),
    held=st.integers(0, 10**5),
    lasts=st.integers(0, 3 * 10**5),
    tick=st.sampled_from([1, 7, 15, 60]),
)
def test_the_closed_form_is_the_sum_over_the_ticks(since, held, lasts, tick):
    begin, now = since + held, since + held + lasts
    ticks = range(-(-begin // tick) * tick, now + 1, tick)
    assert squares(tick, since, begin, now) == float(sum((t - since) ** 2 for t in ticks))


def test_far_beyond_whole_numbers_the_closed_form_stays_close():
    e = 4_000_000
    exact = sum(t * t for t in range(0, e + 15 * 10_000 + 1, 15))
    assert squares(15, 0, 0, e + 15 * 10_000) == pytest.approx(float(exact), rel=1e-14)


def test_ten_hours_of_hold_gain_nothing():
    plain = waiting((), 3600)
    held = waiting((Command(0, "hold", 2), Command(36_000, "release", 2)), 36_000 + 3600)
    assert score_of(held, 2) == score_of(plain, 2) > 1
    later = waiting((Command(3600, "hold", 2), Command(39_600, "release", 2)), 39_601)
    assert score_of(later, 2) == pytest.approx(score_of(plain, 2), rel=0.02)


def test_an_alteration_to_another_queue_resets_the_score_and_one_within_the_queue_does_not():
    before = score_of(waiting((), 7200), 2)
    alter = Command(7200, "alter", 2, procs=512, requested=43_200)
    reset = waiting((alter,), 7200)
    assert score_of(reset, 2) == 0
    reset.run(until=7200 + 3600)
    assert score_of(reset, 2) == Score().gained(3600, 512, 43_200, 49_152)
    within = waiting((Command(7200, "alter", 2, procs=16_384, requested=600),), 7200)
    assert score_of(within, 2) == pytest.approx(before, rel=0.01)


def test_the_score_counts_the_nodes_asked_for_not_those_of_the_partition():
    asked = jobs_of((0, 49152, 7200, 7200), (0, 4097, 3600, 60), machine=49152)
    wide = widened(asked, Partitions(Hierarchy.mira()))
    assert wide.procs.tolist() == [49_152, 8_192] and wide.asked_procs.tolist() == [49_152, 4_097]
    gains = Rules(mira_router()).table(wide)["score_gain"]
    assert gains.tolist() == Rules(mira_router()).table(asked)["score_gain"].tolist()
    assert gains[1] == Score().growth(np.array([4_097]), np.array([3600]), 49_152)[0]


def test_a_capability_job_of_more_than_a_day_has_no_queue_on_mira():
    jobs = two_jobs(blocked_for=86_401)
    with pytest.raises(JobcastError, match="no queue takes job 1 with 49152 processors for 86401 s"):
        Rules(mira_router()).routes(jobs)
