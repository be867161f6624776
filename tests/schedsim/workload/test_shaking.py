"""Shaken logs: bounded, centred, by seed and job id alone."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, clean, generate_log
from predictors.data.cleaning import within_requests
from schedsim.workload.shaking import MOVE, STRETCH, shaken


@pytest.fixture(scope="module")
def log():
    return clean(generate_log(3000, seed=4))[0]


def by_id(log, column):
    """Return a column in the order of the job ids, submissions on the log's own clock."""
    values = log.values[column] + (log.origin if column == "submit" else 0)
    return values[np.argsort(log.values["job_id"])]


def test_moves_are_small_uniform_and_centred(log):
    new = shaken(log, 7)
    move = by_id(new, "submit") - by_id(log, "submit")
    assert move.min() >= -MOVE
    assert move.max() <= MOVE
    assert abs(move.mean()) < 4 * MOVE / np.sqrt(3 * len(log))
    assert len(np.unique(move)) == 2 * MOVE + 1


def test_run_times_change_a_little_and_stay_in_range(log):
    old, new, asked = by_id(log, "run_time"), by_id(shaken(log, 7), "run_time"), by_id(log, "requested_time")
    assert (new >= 1).all()
    assert (new <= asked).all()
    long = (old > 1000) & (old * (1 + STRETCH) < asked)
    ratio = new[long] / old[long]
    assert ratio.min() > 0.969
    assert ratio.max() < 1.031
    assert abs(ratio.mean() - 1) < 4 * STRETCH / np.sqrt(3 * long.sum())


def test_depends_on_seed_and_job_id_alone(log):
    assert shaken(log, 7).digest() == shaken(log, 7).digest()
    assert shaken(log, 7).digest() != shaken(log, 8).digest()
    half = log.select(np.arange(len(log)) % 2 == 0)
    chosen = np.isin(shaken(log, 7).values["job_id"], half.values["job_id"])
    assert by_id(shaken(half, 7), "submit").tolist() == by_id(shaken(log, 7).select(chosen), "submit").tolist()


def test_other_columns_move_with_their_jobs(log):
    new = shaken(log, 3)
    assert by_id(new, "user").tolist() == by_id(log, "user").tolist()
    assert (np.diff(new.values["submit"]) >= 0).all()
    assert new.values["submit"][0] == 0


def test_jobs_that_overran_are_shaken_as_they_are_simulated(log):
    """Who kills sees the shaken time until the kill, whatever came after it; who does not, the shaken logged time."""
    values, overrun = dict(log.values), log.values["run_time"] % 3 == 0
    values["run_time"] = np.where(overrun, 2 * values["requested_time"], values["run_time"])
    longer = replace(log, values=values)
    asked, old, killed, not_killed = (
        by_id(longer, "requested_time"), by_id(longer, "run_time"), by_id(shaken(longer, 7), "run_time"),
        by_id(shaken(longer, 7, kill=False), "run_time"),
    )  # fmt: skip
    overrun = old > asked
    assert np.minimum(killed, asked).tolist() == by_id(shaken(within_requests(longer), 7), "run_time").tolist()
    assert 0.4 < (killed > asked)[overrun].mean() < 0.6
    assert killed[~overrun].tolist() == not_killed[~overrun].tolist()
    long = overrun & (old > 1000)
    assert abs(not_killed[long] / old[long] - 1).max() < 1.03 * STRETCH


def test_an_empty_log_stays_empty():
    assert len(shaken(JobLog.from_columns({"job_id": [], "submit": []}, {}), 1)) == 0


@pytest.mark.parametrize("seed", [-1, 1 << 70, 1.5])
def test_a_seed_is_a_whole_number_that_fits(seed):
    log, _ = clean(generate_log(20, seed=1))
    with pytest.raises(JobcastError, match="The seed of a shake must be"):
        shaken(log, seed)
