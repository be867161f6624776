"""Many events at once equal one after the other, to the last bit."""

import numpy as np
import pytest

from predictors._history_bulk import fits, rows_of_many, take_in_many
from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, STARTED, SUBMITTED
from predictors.data.synthetic import generate_log
from predictors.features import FEATURES
from predictors.history import Job, JobHistory
from predictors.replay import LogHistory, log_events, replay


@pytest.mark.parametrize("size", [1, 7, 400, 10_000])
@pytest.mark.parametrize("as_of", ["strict", "reis"])
def test_slices_equal_a_replay(size, as_of):
    log = generate_log(700, seed=3)
    events, names = log_events(log), list(FEATURES)
    expected = replay(log, names, as_of)
    about = {"epoch": log.epoch, "time_zone": log.time_zone, "machine_procs": log.max_procs}
    history = JobHistory(names, as_of=as_of, **about)
    columns = ("requested_time", "user", "group", "executable", "queue", "partition")
    described = np.stack([log.filled("submit"), log.procs, *(log.filled(name) for name in columns)], axis=1)
    ids, status = log.filled("job_id"), log.filled("status")
    rows, ran = np.full_like(expected, np.nan), np.full(len(log), -1)
    for i in range(0, len(events), size):
        part = events[i : i + size]
        time, kind, job = (np.ascontiguousarray(part[:, k]) for k in range(3))
        found, seconds = take_in_many(history, time, kind, ids[job].tolist(), described[job], status[job])
        told = job[(kind == SUBMITTED) | (kind == ENDED)]
        rows[told] = found
        ran[told] = seconds
    assert np.array_equal(rows, expected, equal_nan=True)
    assert np.array_equal(ran, log.filled("run_time"))


def test_many_questions_equal_those_one_by_one():
    log = generate_log(300, seed=2)
    history = LogHistory(log, list(FEATURES))
    rows = np.full((len(log), len(FEATURES)), np.nan)
    history.consume(log_events(log)[:700], rows)
    live = history.live(rows)
    columns = ("requested_time", "user", "group", "executable", "queue", "partition")
    described = np.stack([log.filled("submit"), log.procs, *(log.filled(name) for name in columns)], axis=1)
    jobs = [Job(0, *(None if value < 0 else value for value in row)) for row in described.tolist()]
    jobs.append(Job(0, 5, user=10**6))
    described = np.concatenate([described, [[5, -1, -1, 10**6, -1, -1, -1, -1]]])
    now = live.now + 100
    assert np.array_equal(rows_of_many(live, described, now), live.rows(jobs, now), equal_nan=True)


def one(history, kind, job, time=0):
    columns = np.array([[time, 1, 60, 7, -1, -1, -1, -1]])
    return take_in_many(history, np.array([time]), np.array([kind]), [job], columns, np.array([-1]))


def test_what_cannot_be_is_refused():
    history = JobHistory(list(FEATURES))
    with pytest.raises(JobcastError, match="neither queued nor running"):
        one(history, STARTED, 1)
    one(history, SUBMITTED, 1)
    with pytest.raises(JobcastError, match="second time"):
        one(history, SUBMITTED, 1)
    with pytest.raises(JobcastError, match="cannot follow"):
        one(history, ENDED, 1)
    with pytest.raises(JobcastError, match="keeps no ended jobs"):
        one(JobHistory(keep_ended=1), SUBMITTED, 1)


def test_a_full_history_asks_for_one_at_a_time():
    history = JobHistory(capacity=2)
    assert fits(history, 2) and not fits(history, 3)
