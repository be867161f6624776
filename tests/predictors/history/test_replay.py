"""Rows of a replayed log: as the definitions say, and the same to the last bit however the events are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobHistory, JobLog, replay
from predictors.core.events import ENDED, RETURNED, STARTED, SUBMITTED
from predictors.history import _layout as layout
from predictors.history.features import FEATURES, REIS_FEATURES
from predictors.history.history import AS_OF_RULES, Job
from predictors.history.replay import LogHistory, log_events
from tests.oracle.history import LoggedJob, as_log, expected_row, logged_jobs

RULES = list(AS_OF_RULES)
REST = ("wait", "run_time", "procs", "requested_time", "user", "group", "status")
TIMELESS = tuple(expected_row([], LoggedJob(1, 0, *[None] * 7)))
NAN = np.nan

# One user unless said otherwise; the machine's clock: second 0 is Thursday 1 January 1970, 00:00 UTC.
SIX = [
    LoggedJob(1, 0, 0, 100, 4, 600, 7, 1, 1),  # runs 0 to 100
    LoggedJob(2, 10, 10, 80, 2, 300, 7, 1, 0),  # runs 20 to 100: ends with job 1, after it by start
    LoggedJob(3, 50, 10, 500, 8, 900, 7, 1, 1),  # runs 60 to 560
    LoggedJob(4, 100, 0, 0, 1, 60, 7, 2, 5),  # submitted as 1 and 2 end; starts and ends in the same second
    LoggedJob(5, 100, 50, 20, 1, 60, 9, 1, 1),  # another user
    LoggedJob(6, 130, 0, 40, 16, 700, 7, 1, 1),
]
ROWS = {  # row 4 by `strict`: of the two that ended at 100, job 2 is the last
    "strict": [
        # procs, request, mean, last, second, think, longest, sum, number, mean, held, user, group, day, status, second
        [4, 600, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN, 0, 7, 1, 3, NAN, NAN],
        [2, 300, NAN, NAN, NAN, NAN, 10, 10, 1, 10, 4, 7, 1, 3, NAN, NAN],
        [8, 900, NAN, NAN, NAN, NAN, 50, 80, 2, 40, 6, 7, 1, 3, NAN, NAN],
        [1, 60, 90, 80, 100, 0, 40, 40, 1, 40, 8, 7, 2, 3, 0, 1],
        [1, 60, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN, 0, 9, 1, 3, NAN, NAN],
        [16, 700, 40, 0, 80, 30, 70, 70, 1, 70, 8, 7, 1, 3, 5, 0],
    ],
    "reis": [
        [4, 600, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN, 0, 7, 1, 3, NAN, NAN],
        [2, 300, NAN, NAN, NAN, NAN, 10, 10, 1, 10, 4, 7, 1, 3, NAN, NAN],
        [8, 900, NAN, NAN, NAN, NAN, 50, 80, 2, 40, 6, 7, 1, 3, NAN, NAN],
        [1, 60, NAN, NAN, NAN, NAN, 100, 220, 3, 220 / 3, 14, 7, 2, 3, NAN, NAN],
        [1, 60, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN, 0, 9, 1, 3, NAN, NAN],
        [16, 700, 40, 0, 80, 30, 70, 70, 1, 70, 8, 7, 1, 3, 5, 0],
    ],
}


def same_bits(left, right):
    """Whether two float arrays are equal bit for bit, missing values included."""
    return left.shape == right.shape and (left.view(np.int64) == right.view(np.int64)).all()


@pytest.mark.parametrize("rule", RULES)
def test_sixteen_features_by_hand(rule):
    """Six jobs that overlap and end in the second of a submission, worked on paper."""
    rows = replay(as_log(SIX, epoch=0), REIS_FEATURES, rule)
    np.testing.assert_array_equal(rows, np.array(ROWS[rule], dtype=float))


def test_single_ended_job_stands_for_the_mean_only_by_the_strict_rule():
    jobs = [LoggedJob(1, 0, 0, 30, 1, 60, 1, None, 1), LoggedJob(2, 40, 0, 5, 1, 60, 1, None, 1)]
    assert replay(as_log(jobs), ["last_two_mean", "last_run_time"], "strict")[1].tolist() == [30, 30]
    np.testing.assert_array_equal(replay(as_log(jobs), ["last_two_mean", "last_run_time"], "reis")[1], [NAN, 30])


@pytest.mark.parametrize("rule", RULES)
@given(jobs=logged_jobs())
def test_rows_are_those_of_the_definitions(rule, jobs):
    """Every user feature equals the one computed by looking at the whole log anew."""
    as_of = AS_OF_RULES[rule]
    rows = replay(as_log(jobs), TIMELESS, rule)
    for job, row in zip(jobs, rows, strict=True):
        expected = expected_row(jobs, job, as_of.same_second, as_of.least_ended)
        told = [expected[name] for name in TIMELESS]
        np.testing.assert_allclose(row, told, rtol=1e-12, atol=0, err_msg=f"{job} of {jobs}")


def test_groups_remember_their_last_ten():
    """Twelve jobs of one kind: the weighted mean forgets slowly, quartiles and extremes are those of the last ten."""
    jobs = [LoggedJob(i, 100 * i, 0, 3 * i % 29 + 1, 1, 90, 1, 1, 1) for i in range(1, 14)]
    row = replay(as_log(jobs), TIMELESS)[-1]
    expected = expected_row(jobs, jobs[-1])
    np.testing.assert_allclose(row, [expected[name] for name in TIMELESS], rtol=1e-12)
    assert expected["similar_count"] == 12 and expected["similar_rank"] == 0


def test_kernel_means_look_at_the_last_sixty_four_runs():
    """Eighty jobs of one user, of three sizes: the oldest sixteen count no more."""
    jobs = [LoggedJob(i, 1000 * i, 0, 7 * i % 53 + 1, 2 ** (i % 3), 60 * (1 + i % 5), 1, 1, 1) for i in range(1, 82)]
    names = ("kernel_near", "kernel_wide", "kernel_timed")
    expected = expected_row(jobs, jobs[-1])
    row = replay(as_log(jobs), names)[-1]
    np.testing.assert_allclose(row, [expected[name] for name in names], rtol=1e-12)
    changed = [LoggedJob(1, 1000, 0, 999, 2, 120, 1, 1, 1), *jobs[1:]]
    assert same_bits(replay(as_log(changed), names)[-1], row)


def test_production_features_look_at_queue_age_and_the_newest_runs():
    """Job 80 asks as every fifth before: only runs of its queue, of 90 days and among the last 64 are alike."""
    n, day = 81, 86400
    columns = {
        "job_id": np.arange(n), "submit": np.arange(n) * 2 * day, "wait": np.zeros(n), "run_time": np.arange(n) + 1,
        "requested_procs": np.ones(n), "requested_time": np.full(n, 600), "user": np.zeros(n),
        "queue": np.arange(n) % 2,
    }  # fmt: skip
    log = JobLog.from_columns({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()}, {})
    names = ("worst_ratio", "alike_mean", "place_mean")
    worst, alike, place = replay(log, names)[-1]
    even = [i + 1 for i in range(80) if i % 2 == 0]
    fresh = [i + 1 for i in range(16, 80) if i % 2 == 0 and 160 * day - (2 * i * day + i + 1) <= 90 * day]
    assert worst == 80 / 600
    assert alike == np.mean(fresh) and len(fresh) == 22
    assert place == np.mean(even[-10:])
    other = JobLog.from_columns(log.values | {"queue": np.where(np.arange(n) == 80, 7, log.values["queue"])}, {})
    assert np.isnan(replay(other, names)[-1][1:]).all(), "nothing has run in that queue"


def test_free_processors_are_those_that_no_running_job_has():
    names = ("machine_free_procs", "machine_running_procs")
    rows = replay(as_log(SIX, max_procs=20), names)
    assert (rows.sum(axis=1) == 20).all() and rows[2].tolist() == [14, 6]
    assert replay(as_log(SIX, max_procs=8), names)[5].tolist() == [0, 8]
    assert np.isnan(replay(as_log(SIX), names)[:, 0]).all(), "of a machine whose size is not known"


def stream(history, jobs, events, before_submission=None):
    """Feed a history with the events one by one; return the rows that it gave."""
    rows = np.full((len(jobs), len(history.features)), NAN)
    for time, kind, i in events.tolist():
        job = jobs[i]
        if kind == SUBMITTED:
            described = Job(job.job_id, job.submit, job.procs, job.requested_time, job.user, job.group)
            if before_submission is not None:
                before_submission(described, time)
            rows[i] = history.submitted(described, time)
        elif kind == STARTED:
            history.started(job.job_id, time)
        else:
            history.ended(job.job_id, time, job.status)
    return rows


@pytest.mark.parametrize("rule", RULES)
@given(jobs=logged_jobs(), cuts=st.lists(st.integers(0, 40)))
def test_bulk_slices_and_single_events_agree_bit_for_bit(rule, jobs, cuts):
    """One call for a log, a call a slice, a call an event: one step, one result; a question before gives it, too."""
    log = as_log(jobs, epoch=1_300_000_000, time_zone="Europe/Paris")
    features, events = tuple(FEATURES), log_events(log)
    bulk = replay(log, features, rule)
    sliced, bound = np.full_like(bulk, NAN), LogHistory(log, features, rule)
    for part in np.split(events, sorted(cuts)):
        bound.consume(part, sliced)
    live = JobHistory(features, as_of=rule, epoch=log.epoch, time_zone=log.time_zone)
    asked = []
    streamed = stream(live, jobs, events, lambda job, now: asked.append((job, live.row(job, now))))
    assert same_bits(bulk, sliced)
    assert same_bits(bulk, streamed)
    assert all(same_bits(row, bulk[[j.job_id for j in jobs].index(job.job_id)]) for job, row in asked)


@given(jobs=logged_jobs())
def test_events_stand_in_the_order_of_the_definition(jobs):
    """Ends by (start, job id), submissions by job id, starts by job id with zero-length jobs' ends behind them."""
    expected = []
    for i, job in enumerate(jobs):
        expected.append((job.submit, 1, job.job_id, 0, SUBMITTED, i))
        if job.start is not None:
            expected.append((job.start, 2, job.job_id, 0, STARTED, i))
        if job.end is not None and job.end > job.start:
            expected.append((job.end, 0, job.start, job.job_id, ENDED, i))
        elif job.end is not None:
            expected.append((job.end, 2, job.job_id, 1, ENDED, i))
    assert log_events(as_log(jobs)).tolist() == [[e[0], e[4], e[5]] for e in sorted(expected)]


def test_whole_log_in_several_slices(monkeypatch):
    """A log longer than the buffer of events gives the same rows."""
    log = as_log(SIX)
    whole = replay(log)
    monkeypatch.setattr("predictors.history.replay._SLICE", 5)
    assert same_bits(replay(log), whole)


@pytest.mark.parametrize("rule", RULES)
@given(jobs=logged_jobs(), cut=st.integers(0, 42))
def test_live_history_goes_on_where_the_log_stood(rule, jobs, cut):
    """A history taken over from a log amid its events gives the rest of the rows, bit for bit."""
    log, features = as_log(jobs, epoch=0), tuple(FEATURES)
    events, expected = log_events(log), replay(as_log(jobs, epoch=0), tuple(FEATURES), rule)
    bound, rows = LogHistory(log, features, rule), np.full((len(log), len(features)), NAN)
    bound.consume(events[:cut], rows)
    rest = stream(bound.live(rows), jobs, events[cut:])
    later = events[cut:][events[cut:, 1] == SUBMITTED, 2]
    assert same_bits(rest[later], expected[later])


def test_live_history_of_a_log_keeps_its_capacity():
    """Room for one: user 7, who has a job running; user 9, who has none, is left out."""
    log = as_log(SIX)
    bound, rows = LogHistory(log), np.full((6, 16), NAN)
    bound.consume(log_events(log)[:-1], rows)
    assert bound.live(rows, capacity=1).n_users == 1
    assert bound.live(rows).n_users == 2
    assert len(bound.live(rows, keep_ended=2).training_set(300)) == 3


def test_log_continues_an_earlier_history():
    """Ended jobs are remembered on the new log's clock; running ones are not, since their end is not told."""
    first = as_log(SIX[:2] + SIX[2:3], epoch=1000)
    bound = LogHistory(first, REIS_FEATURES)
    rows = np.full((3, 16), NAN)
    bound.consume(log_events(first)[:-1], rows)  # job 3 still runs
    later = as_log([LoggedJob(9, 0, 0, 5, 1, 60, 7, 1, 1), LoggedJob(10, 20, 0, 5, 1, 60, 3, 1, 1)], epoch=1200)
    row = replay(later, ["last_two_mean", "think_time", "running_count"], after=bound.live(rows))
    np.testing.assert_array_equal(row, [[90, 100, 0], [NAN, NAN, 0]])


def test_kernel_means_go_on_from_an_earlier_history():
    """A log cut in two, the second half after the first: the same means as in one go, to the last bit."""
    jobs = [LoggedJob(i, 50 * i, 0, 3 * i % 29 + 1, 1 + i % 4, 60 + i % 3, i % 2, 1, 1) for i in range(80)]
    names = ("kernel_near", "kernel_timed", "requested_time", "worst_ratio", "alike_mean", "place_mean")
    whole = replay(as_log(jobs, epoch=5000), names)
    first, later = (
        as_log(jobs[:50], epoch=5000),
        as_log(
            [LoggedJob(job.job_id, job.submit - 2500, *[getattr(job, a) for a in REST]) for job in jobs[50:]],
            epoch=7500,
        ),
    )
    bound, rows = LogHistory(first, names), np.full((50, len(names)), NAN)
    bound.consume(log_events(first), rows)
    assert same_bits(replay(later, names, after=bound.live(rows)), whole[50:])
    without = LogHistory(first, ["similar_mean"])
    without.consume(log_events(first), rows[:, :1].copy())
    with pytest.raises(JobcastError, match="kept no single runs"):
        replay(later, names, after=without.live(rows[:, :1]))


@pytest.mark.parametrize(("what", "own", "other"), [("max_procs", 100, 256), ("time_zone", "UTC", "Europe/Oslo")])
def test_a_log_of_another_machine_does_not_continue_a_history(what, own, other):
    first = as_log(SIX[:2], epoch=1000, **{what: own})
    bound, rows = LogHistory(first, REIS_FEATURES), np.full((2, 16), NAN)
    bound.consume(log_events(first), rows)
    later = [LoggedJob(9, 0, 0, 5, 1, 60, 7, 1, 1)]
    for same in (own, None):
        replay(as_log(later, epoch=90_000, **{what: same}), REIS_FEATURES, after=bound.live(rows))
    with pytest.raises(JobcastError, match=f"of {other}, the history before it of one with {own}: begin"):
        replay(as_log(later, epoch=90_000, **{what: other}), REIS_FEATURES, after=bound.live(rows))


def test_log_must_not_begin_before_the_history_that_it_continues():
    """Predicting a log with what was learnt from its own end would look ahead."""
    log = as_log(SIX, epoch=1000)
    bound, rows = LogHistory(log), np.full((6, 16), NAN)
    bound.consume(log_events(log), rows)
    with pytest.raises(JobcastError, match=r"begins 560 s before the newest event .* look ahead"):
        replay(log, after=bound.live(rows))
    with pytest.raises(JobcastError, match="epoch of one is not known"):
        replay(as_log(SIX), after=bound.live(rows))
    assert same_bits(replay(log, after=JobHistory()), replay(log))


def test_training_set_censors_running_jobs():
    log = as_log(SIX, epoch=0)
    bound, rows = LogHistory(log), np.full((6, 16), NAN)
    events = log_events(log)
    bound.consume(events[events[:, 0] <= 160], rows)
    known = bound.training_set(rows, now=165, issued=np.arange(6.0))
    assert known.seconds.tolist() == [100, 80, 0, 105, 35, 15]  # 1, 2, 4 ended; 3, 6, 5 run since 60, 130, 150
    assert known.observed.tolist() == [True, True, True, False, False, False]
    assert known.time.tolist() == [100, 100, 100, 165, 165, 165]
    assert known.issued.tolist() == [0, 1, 3, 2, 5, 4]
    assert same_bits(known.rows, rows[[0, 1, 3, 2, 5, 4]])


@pytest.mark.parametrize("rule", RULES)
def test_a_run_that_was_stopped_is_as_if_it_had_not_been(rule):
    """While it lasts the job runs; then it waits again, and its run time is that of the run that ended."""
    log = as_log(SIX, epoch=0)
    events = log_events(log)
    at = int(np.flatnonzero((events[:, 1] == STARTED) & (events[:, 2] == 2))[0])
    time = int(events[at, 0])
    twice = np.insert(events, at, [(time, STARTED, 2), (time, RETURNED, 2)], axis=0)
    found = []
    for one in (events, twice):
        bound, rows = LogHistory(log, list(FEATURES), rule), np.full((6, len(FEATURES)), NAN)
        bound.consume(one, rows)
        found.append((rows, bound.training_set(rows, now=1000).seconds))
    assert same_bits(found[0][0], found[1][0]) and found[0][1].tolist() == found[1][1].tolist()
    bound = LogHistory(log, REIS_FEATURES, rule)
    bound.consume(twice[: at + 2], np.full((6, 16), NAN))
    assert 2 not in np.flatnonzero(bound.arrays[0][:, layout.START] != layout.NONE)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([(5, STARTED, 0)], "Event 0: job 1 of log starts at 5 s"),
        ([(0, SUBMITTED, 0), (1, ENDED, 0)], "Event 1: job 1 of log ends at 1 s"),
        ([(0, SUBMITTED, 0), (0, SUBMITTED, 0)], "Event 1: job 1 of log is submitted at 0 s"),
        ([(0, SUBMITTED, 0), (4, RETURNED, 0)], "Event 1: job 1 of log is to run again at 4 s"),
        ([(0, SUBMITTED, 0), (5, STARTED, 0), (4, ENDED, 0)], "Event 2: job 1 of log ends at 4 s"),
        ([(0, SUBMITTED, 0), (5, STARTED, 0), (6, ENDED, 0), (6, ENDED, 0)], "Event 3: job 1 of log ends at 6 s"),
        ([(0, SUBMITTED, 0), (5, STARTED, 0), (6, 7, 0)], r"Event 2 is \(6, 7, 0\)"),
        ([(0, SUBMITTED, 6)], r"Event 0 is \(0, 0, 6\)"),
        ([(0, SUBMITTED, -1)], r"Event 0 is \(0, 0, -1\)"),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_impossible_events_are_refused(rule, events, told):
    with pytest.raises(JobcastError, match=told):
        LogHistory(as_log(SIX), REIS_FEATURES, rule).consume(np.array(events), np.empty((6, 16)))


@pytest.mark.parametrize("column", ["wait", "run_time"])
def test_negative_times_are_refused(column):
    times = {"submit": [0, 1], "wait": [0, 0], "run_time": [1, 1]}
    log = JobLog.from_columns({"job_id": [3, 4], **times, column: [1, -7]}, {})
    with pytest.raises(JobcastError, match=f"log: {column} of job 4 must not be negative; got -7 s"):
        log_events(log)


def test_empty_log():
    log = JobLog.from_columns({"job_id": [], "submit": []}, {})
    assert replay(log).shape == (0, 16)
    assert log_events(log).shape == (0, 3)


def test_last_two_of_curie_as_in_the_paper(trace):
    """V. Reis, Learning job run-times in HPC systems, Table 2: 1.24186e13 s²; recomputed: 1.241909e13 s²."""
    from predictors.data.formats.detect import read_log

    log, _ = read_log(trace("CEA-Curie-2011-2.1-cln"))
    assert len(log) == 312_826
    mean, requested = replay(log, ["last_two_mean", "requested_time"], "reis").T
    error = np.where(np.isnan(mean), requested, mean) - log.filled("run_time")
    assert (error[-62_566:] ** 2).sum() == pytest.approx(1.241909e13, rel=1e-6)
