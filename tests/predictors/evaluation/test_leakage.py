"""The audit finds every broken twin, and nothing in honest features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, audit_leakage, replay
from predictors.data.joblog import COLUMNS
from predictors.evaluation.leakage import different_future
from predictors.history.features import FEATURES, REIS_FEATURES
from tests.oracle.history import LoggedJob, as_log, logged_jobs


def busy_log(n_jobs=120, seed=1):
    """A log of three users whose jobs overlap and often share their seconds."""
    random = np.random.default_rng(seed)
    columns = {"job_id": np.arange(1, n_jobs + 1), "submit": np.sort(random.integers(0, 400, n_jobs) // 5 * 5)}
    ranges = {"wait": (0, 9), "run_time": (0, 60), "user": (0, 3), "group": (0, 2), "status": (0, 2)}
    columns |= {name: random.integers(*limits, n_jobs) // 5 * 5 if limits[1] > 5 else random.integers(*limits, n_jobs)
                for name, limits in ranges.items()}  # fmt: skip
    columns |= {"requested_procs": random.integers(1, 9, n_jobs), "requested_time": random.integers(60, 90, n_jobs)}
    return JobLog.from_columns(columns, {}, epoch=0)


def times(log):
    """Submission, start, end and run time of each job, and who submitted it."""
    start = log.filled("submit") + log.filled("wait")
    return log.filled("submit"), start, start + log.filled("run_time"), log.filled("run_time"), log.filled("user")


def last_two_submitted(log):
    """Broken: the run times of the user's last two jobs, whether they have ended or not."""
    _, _, _, run_time, user = times(log)
    return [np.mean([run_time[j] for j in range(i) if user[j] == user[i]][-2:] or [-1]) for i in range(len(log))]


def final_length_of_running(log):
    """Broken: how long the user's running jobs will have run in the end."""
    submit, start, end, run_time, user = times(log)
    rows = range(len(log))
    return [
        max((run_time[j] for j in rows if user[j] == user[i] and start[j] < submit[i] < end[j]), default=-1)
        for i in rows
    ]


def ended_in_this_second_or_this_very_job(log):
    """Broken: counts a job that starts and ends in the second of the submission, which comes after it."""
    submit, _, end, _, user = times(log)
    return [sum(user[j] == user[i] and end[j] <= submit[i] for j in range(len(log))) for i in range(len(log))]


BROKEN = {
    "last two submitted jobs": last_two_submitted,
    "final length of a running job": final_length_of_running,
    "the job's own status": lambda log: log.filled("status"),
    "zero-length jobs of the same second": ended_in_this_second_or_this_very_job,
    "the job's own run time": lambda log: log.filled("run_time") // 40,
    "the job's own wait": lambda log: log.filled("wait") > 0,
    "scaled by the longest run time of the log": lambda log: log.filled("submit") / log.filled("run_time").max(),
    "mean user code of the whole log": lambda log: log.filled("user") - log.filled("user").mean(),
    "when the next job is submitted": lambda log: np.append(log.filled("submit")[1:], 0),
    "processor-seconds used": lambda log: log.filled("cpu_time"),
    "memory used": lambda log: log.filled("used_memory"),
    "processors given, where others were asked for": lambda log: log.filled("allocated_procs"),
}  # fmt: skip


@pytest.mark.parametrize("twin", BROKEN)
def test_broken_twin_is_caught(twin):
    report = audit_leakage(BROKEN[twin], busy_log(), columns=[twin])
    assert not report.clean, report
    assert report.columns == (twin,)


@pytest.mark.parametrize("rule", ["strict", "reis"])
def test_every_feature_is_clean(rule):
    log = busy_log()
    report = audit_leakage(lambda log: replay(log, tuple(FEATURES), rule), log, instants=40)
    assert report.clean, report
    assert report.n_compared > 40 * 20 * len(FEATURES)


@given(jobs=logged_jobs(), seed=st.integers(0, 99))
def test_replay_never_looks_ahead(jobs, seed):
    """Random logs with unknown values, ties and zero-length jobs, changed after every second."""
    report = audit_leakage(lambda log: replay(log, tuple(FEATURES)), as_log(jobs), instants=range(10), seed=seed)
    assert report.clean, report


def test_report_names_job_time_and_feature():
    """A feature row of which one column is replaced by the job's own status."""

    def rows(log):
        table = replay(log)
        table[:, REIS_FEATURES.index("last_status")] = log.filled("status")
        return table

    log = as_log([LoggedJob(11, 0, 0, 9, 1, 60, 1, 1, 1), LoggedJob(12, 50, 0, 30, 1, 60, 1, 1, 1)])
    report = audit_leakage(rows, log, instants=[50], columns=REIS_FEATURES)
    (leak,) = report.leaks
    assert (leak.job_id, leak.submit, leak.column, leak.before, leak.instant) == (12, 50, "last_status", 1, 50)
    assert leak.after != 1
    assert str(report).startswith(
        "Look-ahead: of 32 values compared over 1 changed futures, 1 moved; last_status of job 12, submitted at 50 s, "
        "moved from 1 to "
    )


class Stateful:
    """An object with predict(log), as predictors are."""

    def __init__(self, values):
        self.values = values

    def predict(self, log):
        """Return the next values."""
        return self.values.pop(0) if isinstance(self.values, list) else log.filled(self.values)


def test_objects_with_predict_are_audited():
    assert audit_leakage(Stateful("requested_time"), busy_log()).clean
    assert not audit_leakage(Stateful("run_time"), busy_log()).clean


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([np.zeros(2), np.ones(2)], "other values when asked twice"),
        ([np.zeros(3)], r"for 2 jobs must have one row each; got shape \(3,\)"),
        ([np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 1))], "gives 2 columns for a log and 1 for another"),
    ],
)
def test_unusable_predictions_are_refused(values, told):
    log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9]}, {})
    with pytest.raises(JobcastError, match=told):
        audit_leakage(Stateful(values), log)


@given(jobs=logged_jobs(), instant=st.integers(0, 10), seed=st.integers(0, 99))
def test_different_future_keeps_the_past_and_changes_the_rest(jobs, instant, seed):
    log = as_log(jobs)
    other = different_future(log, instant, seed)
    assert other.filled("job_id").tolist() == log.filled("job_id").tolist()
    for i, job in enumerate(jobs):
        old, new = ({c: int(side.filled(c)[i]) for c in COLUMNS} for side in (log, other))
        start, end = job.start, job.end
        if start is not None and start < instant and end is not None and end <= instant:
            assert new == old
            continue
        assert new["status"] != old["status"]
        assert new["run_time"] != old["run_time"]
        later_start = new["submit"] + max(new["wait"], 0)
        if job.submit > instant:
            assert new["submit"] > instant
        elif start is not None and start < instant:
            assert (new["wait"], new["submit"]) == (old["wait"], old["submit"])
            assert later_start + new["run_time"] > instant
        else:
            assert later_start >= instant


def test_nothing_to_audit_in_an_empty_log():
    report = audit_leakage(lambda log: np.zeros(len(log)), JobLog.from_columns({"job_id": [], "submit": []}, {}))
    assert report.clean
    assert report.n_compared == 0
