"""The live history: pure questions, refused events, late events, forgetting, snapshots."""

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import JobcastError, JobHistory, generate_log, replay
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.history.features import FEATURES
from predictors.history.history import AS_OF_RULES, AsOfRule, Job, fits, rows_of_many, take_in_many
from predictors.history.replay import LogHistory, log_events
from tests.oracle.history import as_log, logged_jobs
from tests.predictors.history.test_replay import same_bits, stream
from tests.support.slow import slow_but

RULES = list(AS_OF_RULES)
USER_FACTS = ("last_two_mean", "think_time", "longest_running", "running_sum", "running_count", "pending_count")


def stored_and_read(history):
    """Send a snapshot through a file, where pickled objects are not allowed."""
    file = io.BytesIO()
    np.savez(file, **history.snapshot())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return JobHistory.restore(dict(arrays))


def state(history):
    """Everything that a history knows, comparable."""
    return {name: array.tobytes() for name, array in history.snapshot().items()}


@pytest.mark.parametrize("rule", slow_but(RULES, "strict"))
@given(jobs=logged_jobs(), cut=st.integers(0, 42), capacity=st.integers(1, 3))
def test_restored_history_continues_bit_for_bit(rule, jobs, cut, capacity):
    """Stored at any event, read again: the rows, outcomes and memory to come are the same."""
    events = log_events(as_log(jobs))
    one = JobHistory(tuple(FEATURES), as_of=rule, epoch=0, capacity=capacity, keep_ended=3)
    stream(one, jobs, events[:cut])
    other = stored_and_read(one)
    assert state(other) == state(one)
    assert same_bits(stream(one, jobs, events[cut:]), stream(other, jobs, events[cut:]))
    assert state(other) == state(one)
    left, right = one.training_set(99), other.training_set(99)
    assert all(same_bits(getattr(left, c), getattr(right, c)) for c in ("rows", "issued", "seconds"))
    assert left.observed.tolist() == right.observed.tolist()


@pytest.mark.parametrize("rule", slow_but(RULES, "strict"))
@settings(max_examples=50)
@given(jobs=logged_jobs(), later=st.integers(0, 9))
def test_questions_change_nothing(rule, jobs, later):
    """A row for now, for later, for unseen users: the history stays the same to the last byte."""
    history = JobHistory(tuple(FEATURES), as_of=rule)

    def ask(job, now):
        before = state(history)
        history.rows([job, Job(999, now), Job(998, now, user=77)], now + later)
        history.training_set(now + later)
        assert state(history) == before

    stream(history, jobs, log_events(as_log(jobs)), ask)


def test_answers_about_later_count_the_ends_until_then():
    """By the rule of Reis a job that ends at 10 counts at 11, and asking so does not make it count at 10."""
    history = JobHistory(["last_run_time", "running_count"], as_of=AsOfRule(same_second=False))
    history.submitted(Job(1, 0, user=1), 0)
    history.started(1, 0)
    history.ended(1, 10)
    asked = Job(2, 10, user=1)
    assert history.row(asked, 11).tolist() == [10, 0]
    np.testing.assert_array_equal(history.row(asked, 10), [np.nan, 1])
    np.testing.assert_array_equal(history.submitted(asked, 10), [np.nan, 1])


def test_unknown_user_is_nobody_and_a_new_one_has_nothing_running():
    history = JobHistory(USER_FACTS)
    for i in (1, 2):  # two jobs of nobody do not become each other's history
        row = history.submitted(Job(i, 0, user=None), 0)
        assert np.isnan(row).all()
        history.started(i, 0)
    history.ended(1, 5)
    assert np.isnan(history.row(Job(3, 9, user=None), 9)).all()
    np.testing.assert_array_equal(history.row(Job(3, 9, user=4), 9), [np.nan, np.nan, np.nan, 0, 0, 0])


def test_unknown_processors_hold_nothing():
    history = JobHistory(["procs", "procs_held", "requested_time"])
    for i, procs in enumerate([None, 4]):
        history.submitted(Job(i, 0, procs=procs, user=1), 0)
        history.started(i, 0)
    np.testing.assert_array_equal(history.row(Job(9, 1, user=1), 1), [np.nan, 4, np.nan])


@pytest.mark.filterwarnings("ignore::predictors.history._tables.LateEventWarning")
def test_outcomes_carry_row_and_issued_prediction():
    history = JobHistory(["requested_time", "running_count"], keep_ended=1)
    for i, requested in enumerate([60, 600, 900], start=1):
        history.submitted(Job(i, i, requested_time=requested, user=1), i, issued=50.0)
    for i in (1, 2, 3):
        history.started(i, 10 * i)
    history.issue(2, 70.0)
    outcome = history.ended(2, 25)
    about = (outcome.row.tolist(), outcome.issued, outcome.seconds, outcome.observed, outcome.time)
    assert about == ([600, 0], 70, 5, True, 25)
    history.ended(1, 26)
    known = history.training_set(now=100)  # one ended job is kept: the newest; job 3 still runs
    assert known.seconds.tolist() == [16, 70]
    assert known.observed.tolist() == [True, False]
    assert known.time.tolist() == [26, 100]
    assert known.rows.tolist() == [[60, 0], [900, 0]]


def test_cancelled_job_leaves_no_trace():
    history = JobHistory(USER_FACTS)
    history.submitted(Job(1, 0, user=1), 0)
    assert history.row(Job(2, 0, user=1), 0)[-1] == 1
    history.cancelled(1, 5)
    np.testing.assert_array_equal(history.row(Job(2, 5, user=1), 5), [np.nan, np.nan, np.nan, 0, 0, 0])
    assert len(history) == 0


@pytest.mark.filterwarnings("ignore::predictors.history._tables.LateEventWarning")
def test_late_events_count_from_their_arrival_with_their_own_time():
    """A start of second 20 that is told after second 50: elapsed times and their longest are right from then on."""
    history = JobHistory(["longest_running", "running_sum", "last_run_time", "think_time"])
    for i in range(3):
        history.submitted(Job(i, 0, user=1), 0)
    for i, start in enumerate([40, 50, 20]):
        history.started(i, start)
    assert history.late_events == 1
    assert history.row(Job(9, 60, user=1), 60).tolist()[:2] == [40, 20 + 10 + 40]
    assert history.row(Job(9, 30, user=1), 30).tolist()[:2] == [30, 10 + 0 + 30], "answered as of the newest event, 50"
    history.ended(2, 45)
    assert history.row(Job(9, 60, user=1), 60).tolist() == [20, 30, 25, 15]


def prepared():
    """Job 1 waits, job 2 runs since 10, job 3 has ended."""
    history = JobHistory(["running_count", "ended_count"])
    for i in (1, 2, 3):
        history.submitted(Job(i, 0, user=1), 0)
    history.started(2, 10)
    history.started(3, 10)
    history.ended(3, 20)
    return history


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (lambda h: h.submitted(Job(2, 30), 30), "Job 2 is submitted a second time, at 30 s"),
        (lambda h: h.started(2, 30), "Job 2 starts at 30 s, but runs since 10 s"),
        (lambda h: h.started(3, 30), r"Job 3 starts at 30 s, but is neither queued nor running: call submitted\(\)"),
        (lambda h: h.ended(1, 30), r"Job 1 ends at 30 s, but has not started: call started\(\) first"),
        (lambda h: h.ended(3, 30), "Job 3 ends at 30 s, but is neither"),
        (lambda h: h.ended(4, 30), "Job 4 ends at 30 s, but is neither"),
        (lambda h: h.ended(2, 9), "Job 2 ends at 9 s, before its start at 10 s"),
        (lambda h: h.cancelled(2, 30), r"Job 2 is cancelled at 30 s while it runs: call ended\(\)"),
        (lambda h: h.cancelled(4, 30), "Job 4 is cancelled at 30 s, but is neither"),
        (lambda h: h.issue(4, 1.0), "Job 4 gets a prediction, but is neither"),
    ],
)
def test_impossible_events_are_refused_and_change_nothing(event, told):
    history = prepared()
    before = state(history)
    with pytest.raises(JobcastError, match=told):
        event(history)
    assert state(history) == before


def live_through(history, job_id, user, now):
    """Let a job of one second come and go; return its row."""
    row = history.submitted(Job(job_id, now, user=user), now)
    history.started(job_id, now)
    history.ended(job_id, now + 1)
    return row


def test_user_without_events_for_longest_is_forgotten():
    history = JobHistory(["ended_count"], capacity=2)
    for now, user in enumerate([1, 2, 1, 3]):  # 3 takes the place of 2: user 1 was active after it
        live_through(history, now, user, now)
    assert history.n_users == 2
    assert [history.row(Job(9, 9, user=user), 9).item() for user in (1, 2, 3)] == [2, 0, 1]


def test_user_with_a_live_job_is_never_forgotten():
    history = JobHistory(["ended_count", "running_count"], capacity=1)
    history.submitted(Job(1, 0, user=1), 0)
    history.started(1, 0)
    live_through(history, 2, 2, 1)
    assert history.n_users == 2, "the history grows while all its users have live jobs"
    live_through(history, 3, 3, 5)
    assert history.n_users == 2
    assert history.row(Job(9, 9, user=1), 9).tolist() == [0, 1]
    assert history.row(Job(9, 9, user=2), 9).tolist() == [0, 0]


def test_snapshot_keeps_a_history_that_grew_beyond_its_capacity():
    """Two users live at once with room for one: after their jobs neither is forgotten by being stored."""
    history = JobHistory(["ended_count"], capacity=1)
    for user in (1, 2):
        history.submitted(Job(user, 0, user=user), 0)
        history.started(user, 0)
    for user in (1, 2):
        history.ended(user, 9)
    again = stored_and_read(history)
    assert [again.row(Job(9, 9, user=user), 9).item() for user in (1, 2)] == [1, 1]


def test_memory_stays_bounded():
    """Ten thousand jobs of as many users, eight live at a time: neither job nor user tables grow with them."""
    history = JobHistory(["ended_count"], capacity=100)
    for i in range(10_000):
        history.submitted(Job(i, i, user=i), i)
        history.started(i, i)
        if i >= 8:
            history.ended(i - 8, i)
    assert (len(history), history.n_users) == (8, 100)
    assert len(history.tables.jobs) <= 64
    assert len(history.tables.users) <= 128


def test_weekday_and_hour_are_the_time_zones():
    """31 October 2011, 00:30 in Paris is a Monday there and still Sunday in UTC; summer time ended the day before."""
    job, monday = Job(1, 0), 1_320_017_400
    there = JobHistory(["weekday", "hour"], epoch=0, time_zone="Europe/Paris")
    utc = JobHistory(["weekday", "hour"], epoch=0)
    assert there.row(job, monday).tolist() == [0, 0.5]
    assert utc.row(job, monday).tolist() == [6, 23.5]
    assert there.row(job, monday - 86400).tolist() == [6, 1.5], "clocks were one hour further a day before"
    assert JobHistory(["hour"], epoch=monday, time_zone="Europe/Paris").row(job, 0).tolist() == [0.5]
    assert np.isnan(JobHistory(["weekday", "hour"]).row(job, monday)).all()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: JobHistory(["last_too_mean"]), "No feature 'last_too_mean'; did you mean 'last_two_mean'"),
        (lambda: JobHistory([]), "at least one name"),
        (lambda: JobHistory(["procs", "procs"]), "none twice; got procs, procs"),
        (lambda: JobHistory(as_of="strickt"), "No as-of rule 'strickt'; did you mean 'strict'"),
        (lambda: JobHistory(time_zone="Europe/Pariss"), "No time zone 'Europe/Pariss'"),
        (lambda: JobHistory(capacity=0), "capacity ≥ 1 .* got 0"),
        (lambda: AsOfRule(least_ended=3), "must be 1 or 2; got 3"),
        (lambda: JobHistory.restore({}), "snapshot cannot be used"),
        (lambda: JobHistory.restore({**JobHistory().snapshot(), "users": np.zeros((1, 3))}), "snapshot cannot be used"),
    ],
)
def test_bad_parameters_are_refused(make, told):
    with pytest.raises(JobcastError, match=told):
        make()


def test_new_history_is_empty():
    history = JobHistory()
    assert (len(history), history.n_users, history.now, history.late_events) == (0, 0, None, 0)
    assert len(history.training_set(0)) == 0
    assert history.rows([], 0).shape == (0, 16)
    assert state(stored_and_read(history)) == state(history)
    assert SUBMITTED == 0 and math.isnan(history.row(Job(1, 0), 0)[2])


def test_groups_are_forgotten_like_users():
    """Three thousand kinds of jobs of one user: the groups stay bounded, the newest remain, and so does the user."""
    history = JobHistory(["of_user_request_count", "ended_count"], capacity=50)
    for i in range(3000):
        history.submitted(Job(i, 2 * i, requested_time=1 + i, user=1), 2 * i)
        history.started(i, 2 * i)
        history.ended(i, 2 * i + 1)
    asked = [Job(9999, 9999, requested_time=seconds, user=1) for seconds in (3000, 2951, 2950, 1)]
    np.testing.assert_array_equal(history.rows(asked, 9999), [[1, 3000], [1, 3000], [np.nan, 3000], [np.nan, 3000]])
    assert len(history.tables.users) <= 256


@pytest.mark.parametrize("size", slow_but((1, 7, 400, 10_000), 7, 10_000))
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
