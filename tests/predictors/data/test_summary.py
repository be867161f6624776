"""What a log lacks for an answer, and the rules by which requested times are made."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, clean
from predictors.data.cleaning import RequestsFrom
from predictors.data.report import Finding, ReadingReport
from predictors.data.summary import (
    lacks_for_predictions,
    lacks_for_schedules,
    lacks_of,
    lacks_of_reading,
    next_command,
    prepare,
)


def log_of(n=100, max_procs=8, **columns):
    """Return a log in which jobs wait and users are many; a column of -1 is unknown."""
    usual = {
        "job_id": np.arange(n) + 1, "submit": np.arange(n) * 10, "wait": np.arange(n) * 20, "run_time": np.full(n, 60),
        "requested_time": np.full(n, 90), "requested_procs": np.full(n, 4), "user": np.arange(n) % 9,
    }  # fmt: skip
    values = {name: np.asarray(column) for name, column in (usual | columns).items()}
    return JobLog.from_columns(values, {name: column == -1 for name, column in values.items()}, max_procs=max_procs)


def lacking(log, kill=True, **options):
    return [lack.name for lack in prepare(log, **options).lacks(kill)]


some = np.arange(100)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({}, []),
        ({"wait": np.full(100, -1)}, ["no-waits"]),
        ({"wait": np.where(some < 49, 5, -1)}, ["no-waits"]),
        ({"wait": np.where(some < 50, 5, -1)}, []),
        ({"user": np.full(100, -1)}, ["no-users"]),
        ({"user": np.full(100, 4)}, ["one-user"]),
        ({"submit": some * 100, "wait": some * 0}, ["no-queue"]),
        ({"requested_procs": np.full(100, 8), "submit": some * 60}, ["no-queue"]),
        ({"requested_procs": np.full(100, 8), "submit": some * 59}, []),
        ({"run_time": np.where(some < 20, 0, 60)}, []),
        ({"run_time": np.where(some < 21, 0, 60)}, ["dropped"]),
        ({"requested_time": np.where(some < 30, -1, 90)}, ["dropped", "utilisation"]),
        ({"requested_time": np.where(some < 15, -1, 90), "run_time": np.where(some < 15, 600, 60)}, ["utilisation"]),
        ({"requested_time": np.full(100, 30), "submit": some * 12}, ["utilisation"]),
    ],
)
def test_each_lack_has_its_limit(columns, names):
    assert lacking(log_of(**columns)) == names


def test_a_machine_of_another_size_and_a_scheduler_that_does_not_kill():
    assert lacking(log_of(), procs=16) == ["utilisation"]
    assert lacking(log_of(requested_time=np.full(100, 30)), kill=False) == []
    assert lacking(log_of(partition=some % 4), partition=1) == ["no-queue"]


def test_a_machine_that_the_log_would_overfill_is_too_small_wherever_its_size_comes_from():
    crowded = {"wait": some * 0 + 1, "submit": some * 10}
    for log, options in ((log_of(**crowded), {}), (log_of(max_procs=None, **crowded), {"procs": 8})):
        (lack,) = prepare(log, **options).lacks()
        assert (lack.name, lack.forbids_verdict) == ("utilisation", True)
        assert "filled 285 % of 8 processors, more than there are" in lack.text
    assert lacking(log_of(max_procs=None), procs=8) == []
    overran = log_of(max_procs=None, requested_time=np.full(100, 30))
    assert lacking(overran, procs=8) == ["utilisation"]


def test_rows_that_were_dropped_in_reading_are_told_with_their_share_and_rule():
    dropped = Finding("earlier-attempt", "dropped", "its last run is kept", 25)
    (lack,) = lacks_of_reading(log_of(), ReadingReport("a.csv", (dropped,)))
    assert (lack.name, lack.forbids_verdict) == ("dropped-rows", False)
    assert "25 of 125 rows (20.0 %) were dropped in reading: 25 by the rule earlier-attempt" in lack.text
    assert lacks_of_reading(log_of(), ReadingReport("a.csv", (replace(dropped, count=1),))) == ()


def test_a_verdict_is_forbidden_where_it_would_mislead():
    for columns, forbidden in (
        ({"wait": np.full(100, -1)}, True),
        ({"submit": some * 100, "wait": some * 0}, True),
        ({"run_time": np.where(some < 21, 0, 60)}, True),
        ({"user": np.full(100, 4)}, False),
    ):
        (lack,) = prepare(log_of(**columns)).lacks()
        assert lack.forbids_verdict == forbidden and lack.remedy, lack.name


def test_made_requests_are_told_and_those_that_know_the_run_time_forbid_a_verdict():
    log = log_of(requested_time=np.where(some < 50, -1, 90))
    for rule, made, forbidden in (("run-time*1.5", 90, True), ("0:02:00", 120, False), ("100", 100, False)):
        ready = prepare(log, requests_from=rule)
        assert ready.used["requested_time"].tolist() == [made] * 50 + [90] * 50
        (lack,) = ready.lacks()
        assert (lack.name, lack.forbids_verdict) == ("made-requests", forbidden)
        assert (ready.account.read, ready.account.used, ready.account.changed) == (100, 100, 50)
    few = prepare(log_of(requested_time=np.where(some < 5, -1, 90)), requests_from="run-time*1.5")
    assert few.lacks() == () and few.account.count("made-request") == 5


@pytest.mark.parametrize(
    "rule",
    ["", "run-time*0.5", "run-time*-1", "-5", "0", "1:2", "x", "run-time", "1-5", "9" * 20, "25:61:00", "1-00:00:60"],
)
def test_rules_that_make_no_request_are_refused(rule):
    with pytest.raises(JobcastError, match=r"run-time\*F.*24:00:00"):
        RequestsFrom(rule)


def test_predictors_are_judged_by_other_lacks():
    nothing = ReadingReport("log")
    assert lacks_for_predictions(log_of(), nothing) == ()
    for columns, name in (
        ({"wait": np.full(100, -1)}, "no-waits"),
        ({"requested_time": np.full(100, -1)}, "no-requests"),
        ({"user": np.full(100, -1)}, "no-users"),
    ):
        found = lacks_for_predictions(log_of(**columns), nothing)
        assert [lack.name for lack in found] == [name]
        assert [lack.name for lack in lacks_for_predictions(log_of(**columns), nothing, scored=False)] == [name]
        if name == "no-waits":
            unscored = lacks_for_predictions(log_of(**columns), nothing, scored=False)
            assert "too good" in found[0].remedy and "scores" not in unscored[0].remedy
        if name == "no-requests":
            assert found[0].remedy.startswith("Export them"), "train, predict and replay take no --requests-from"


def test_the_next_command_names_what_the_log_needs():
    for log, told in (
        (log_of(), "jobcast advise LOG"),
        (log_of(max_procs=None), "jobcast advise LOG --procs N"),
        (log_of(requested_time=np.full(100, -1)), "jobcast advise LOG --requests-from 24:00:00"),
        (log_of(requested_procs=np.where(some == 9, 99, 4)), "jobcast advise LOG --drop-wide"),
        (log_of(requested_procs=np.where(some % 2, 99, 4)), "jobcast advise LOG --procs N"),
        (log_of(requested_procs=np.full(100, 99)), "jobcast advise LOG --procs N"),
        (log_of(wait=np.full(100, -1)), "jobcast evaluate LOG"),
        (log_of(run_time=np.full(100, 180), wait=some * 80), "jobcast simulate LOG --no-kill"),
        (log_of(requested_time=np.where(some % 2, -1, 600)), "jobcast advise LOG --requests-from 24:00:00"),
    ):
        assert next_command(log, "LOG", lacks_of(log)) == told
    assert lacks_of(log_of(run_time=np.full(100, -1)))[0].name == "no-run-times"
    assert lacks_for_schedules(log_of(), *clean(log_of())) == lacks_of(log_of()) == ()
