"""Starts that a classifier of variability would delay: judged before they happen, noted, and never held."""

import dataclasses
import json
import os
import sqlite3

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTERS
from predictors.schedulers import journal as journal_module
from predictors.schedulers.hold import Answer, HoldRules, decide_start
from predictors.schedulers.judge import Asked, LocalJudge, ServiceJudge
from predictors.schedulers.shadowed_holds import ShadowedHolds
from predictors.schedulers.soft_limit import QueuedJob, Reservation, SiteRules, SiteState
from predictors.service.api.schema import MOST_STARTS
from predictors.service.client import Client
from tests.predictors.schedulers.conftest import Forecasts
from tests.predictors.service.test_variability import sample, variability_state
from tests.support.ldms_writer import write_ldms
from tests.support.service_in_thread import running

RULES = HoldRules(most_minutes=10, workloads={"fit*": "network"})


class Moods:
    """Answers as it is told to, and keeps what it was asked."""

    def __init__(self, label="variation"):
        self.label, self.asked, self.trouble = label, [], ""

    def answers(self, starts, now):
        """Answer all alike."""
        if self.trouble:
            raise JobcastError(self.trouble)
        self.asked.append((now, list(starts)))
        return [Answer(0.9 if self.label == "variation" else 0.1, self.label, "moods", "3")] * len(starts)


@pytest.fixture
def shadow(adapter):
    """Makes an adapter in shadow that judges starts."""

    def make(judge, forecasts=None, rules=None):
        forecasts = forecasts or Forecasts()
        plain = adapter("shadow", forecasts, rules)
        plain._holds = ShadowedHolds(judge, RULES, rules or SiteRules(), plain.journal, forecasts)
        return plain

    return make


def started(cluster, number, now, **more):
    cluster.job(number, State="RUNNING", StartTime=str(now - 20), **more)
    cluster.change(now=now)


def test_a_start_that_would_be_held_is_noted_with_its_delay_and_what_became_of_it(cluster, shadow, records):
    cluster.job(1)
    judge = Moods()
    one = shadow(judge)
    one.cycle()
    assert judge.asked == [(10_000, [Asked("fit", "network")])]
    judge.label = "none"  # after the last look before the start: it does not count for it
    started(cluster, 1, 10_060)
    judge.label = "variation"
    one.cycle()
    held = records("would-hold")[0]
    assert (held["job"], held["start"], held["asked"], held["code"]) == ("1", 10_040, 10_000, "variation")
    assert (held["probability"], held["model"], held["expected"]) == (0.9, "moods", 300.0)
    one = shadow(judge)  # the adapter begins again: the hold goes on
    cluster.change(now=10_120)
    assert "would-have-started" not in one.cycle().changed
    judge.label = "none"
    cluster.change(now=10_180)
    one.cycle()
    assert [(r["delay"], r["code"]) for r in records("would-have-started")] == [(140, "quiet")]
    cluster.job(1, State="COMPLETED", EndTime="10640")
    cluster.change(now=10_700)
    one.cycle(), one.cycle()
    assert [(r["ran"], r["expected"], r["held"], r["state"]) for r in records("hold-outcome")] == [
        (600, 300.0, 1, "COMPLETED")
    ]
    base = one.journal._base.execute("SELECT held, delay, ran, expected, code FROM starts").fetchall()
    assert base == [(1, 140, 600, 300.0, "variation")]
    assert not [call for call in cluster.calls("scontrol") if call.startswith(("scontrol hold", "scontrol update"))]
    assert "scontrol " not in cluster.calls("scontrol")  # nothing was written


def test_no_job_would_be_held_longer_than_the_site_says(cluster, shadow, records):
    cluster.job(1)
    one = shadow(Moods())
    one.cycle()
    started(cluster, 1, 10_060)
    for now in range(10_060, 10_800, 60):
        cluster.change(now=now)
        one.cycle()
    assert [(r["delay"], r["code"]) for r in records("would-have-started")] == [(600, "long-enough")]


def test_a_judge_that_is_gone_holds_nothing_and_stops_nothing(cluster, shadow, records):
    cluster.job(1)
    judge = Moods()
    judge.trouble = "the classifier's service is gone"
    one = shadow(judge)
    found = one.cycle()
    assert "the classifier's service is gone" in found.troubles[0] and found.changed == {"would-set": 1}
    started(cluster, 1, 10_060)
    one.cycle()
    assert [(r["what"], r["code"]) for r in records("would-hold", "would-start")] == [("would-start", "no-answer")]


@pytest.mark.parametrize("how", ["full", "locked"])
def test_on_a_full_disk_records_on_starts_wait_and_that_is_said(how, cluster, shadow, records, monkeypatch, tmp_path):
    """A start happens once: what cannot be written then is written later, in order; beyond a bound its loss is."""
    cluster.job(1)
    judge, real = Moods(), journal_module._append
    one = shadow(judge)
    one.cycle()
    started(cluster, 1, 10_060)
    if how == "full":

        def full(path, data):
            raise OSError(28, "no space left on device")

        monkeypatch.setattr(journal_module, "_append", full)
    else:  # the base alone cannot be written: the text has all
        other = sqlite3.connect(tmp_path / "journal" / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        one.journal._base.execute("PRAGMA busy_timeout=10")
    found = one.cycle()
    assert any("cannot be written" in trouble for trouble in found.troubles)
    judge.label = "none"
    cluster.change(now=10_180)
    found = one.cycle()
    if how == "full":
        assert found.changed == {} and records("would-hold") == []
        assert any("2 records on starts wait in memory" in trouble for trouble in found.troubles)
        monkeypatch.setattr(journal_module, "_append", real)
    else:
        other.execute("ROLLBACK")
        other.close()
    cluster.job(1, State="COMPLETED", EndTime="10640")
    cluster.change(now=10_700)
    found = one.cycle()
    assert found.troubles == [] and "hold-outcome" in found.changed
    kinds = [one["what"] for one in records("would-hold", "would-have-started", "hold-outcome")]
    assert kinds == ["would-hold", "would-have-started", "hold-outcome"]
    assert one.journal._base.execute("SELECT held, delay, ran FROM starts").fetchall() == [(1, 140, 600)]


def test_what_no_memory_holds_is_counted_as_lost(cluster, shadow, records, monkeypatch):
    monkeypatch.setattr("predictors.schedulers.adapter.MOST_WAITING", 3)
    for number in range(1, 6):
        cluster.job(number)
    one, real = shadow(Moods()), journal_module._append
    one.cycle()
    monkeypatch.setattr(journal_module, "_append", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    for number in range(1, 6):
        started(cluster, number, 10_060)
    assert any("lost so far: 2." in trouble for trouble in one.cycle().troubles)
    monkeypatch.setattr(journal_module, "_append", real)
    cluster.change(now=10_120)
    one.cycle()
    assert [r["records"] for r in records("lost")] == [2] and len(records("would-hold")) == 3


def test_after_a_long_break_a_hold_was_no_longer_than_the_rules_allow(cluster, shadow, records):
    cluster.job(1)
    one = shadow(Moods())
    one.cycle()
    started(cluster, 1, 10_060)
    one.cycle()
    cluster.change(now=20_000)
    shadow(Moods("none")).cycle()
    assert [(r["delay"], r["code"]) for r in records("would-have-started")] == [(600, "quiet")]


def test_an_answer_of_any_other_form_stops_nothing_and_nothing_is_kept_for_ever(cluster, shadow):
    class Odd:
        def answers(self, starts, now):
            raise KeyError("newest_sample")

    cluster.job(1)
    one = shadow(Odd())
    assert "KeyError" in one.cycle().troubles[0]
    started(cluster, 1, 10_060)
    one.cycle()
    assert len(one._holds._begun) == 1
    cluster.change(now=10_000 + 61 * 86_400, jobs={})  # its end was never told
    one.cycle()
    assert not one._holds._begun


def test_more_starts_than_a_service_takes_at_once_are_asked_in_parts():
    class Takes1000:
        def ask(self, method, path, body):
            assert len(body["starts"]) <= MOST_STARTS
            told = [{"probability": 0.1, "label": one["application"], "why": None} for one in body["starts"]]
            return {"newest_sample": 5.0, "classifier": "m", "version": 1, "predictions": told}

    found = ServiceJudge(Takes1000()).answers([Asked(f"job{i}", "io") for i in range(2500)], 10)
    assert [one.label for one in found] == [f"job{i}" for i in range(2500)]


@pytest.mark.parametrize("kind", ["het", "deadline", "in-reservation", "reservation-ahead", "user-not-chosen"])
def test_whose_start_is_never_delayed(kind):
    job = QueuedJob(1, limit=3600, user="eve", partition="p")
    job = {"het": dataclasses.replace(job, is_het=True), "deadline": dataclasses.replace(job, deadline=9),
           "in-reservation": dataclasses.replace(job, reservation="course")}.get(kind, job)  # fmt: skip
    ahead = [Reservation("maint", 3000, 9000)] if kind == "reservation-ahead" else []
    rules = SiteRules(without_users=("eve",)) if kind == "user-not-chosen" else SiteRules()
    found = decide_start(job, Answer(0.9, "variation"), 0, SiteState(0, ahead), rules, RULES)
    assert (found.action, found.code) == ("start", kind)


def test_a_trained_classifier_answers_from_the_files_and_from_a_service(tmp_path):
    loaded = variability_state().loaded
    names = [counter.name for counter in COUNTERS]
    assert len(names) == 90
    starts = [Asked("fit", "network"), Asked("fit", "")]
    with pytest.raises(JobcastError, match="judges by the job's own nodes"):
        LocalJudge(variability_state("job").loaded, tmp_path)
    with pytest.raises(JobcastError):
        LocalJudge(loaded, tmp_path / "nothing").answers(starts, 1000)
    with running(tmp_path, variability_state=variability_state()) as service, service.client(retries=0) as client:
        judge = ServiceJudge(client)
        assert [one.probability for one in judge.answers(starts, 1310)] == [None, None]
        for time in range(1000, 1310, 10):
            client.ask("POST", "/v1/telemetry", sample(float(time), 5.0))
        loud, unknown = judge.answers(starts, 1310)
        assert (loud.label, loud.model, loud.version) == ("variation", "moments", "3")
        assert unknown.probability is None and unknown.why == "the workload type is not known"
        old = judge.answers(starts, 2000)[0]
        assert old.probability is None and "700 s before now" in old.why
    assert isinstance(client, Client) and not np.isnan(loud.probability)


def test_files_with_old_counters_give_no_answer_and_are_not_read_again(tmp_path, monkeypatch):
    """As a service's judge: what is older than two minutes says nothing about now."""
    samples = [(float(time), np.full((4, len(COUNTERS)), 5.0)) for time in range(1000, 1310, 10)]
    write_ldms(tmp_path / "ldms", range(4), samples)
    judge, starts, newest = LocalJudge(variability_state().loaded, tmp_path / "ldms"), [Asked("fit", "network")], 1300
    (early,) = judge.answers(starts, 900)  # a clock behind that of the counters
    assert early.probability is None and "no counters near 900" in early.why
    (fresh,) = judge.answers(starts, newest + 60)
    assert fresh.probability is not None
    (old,) = judge.answers(starts, newest + 200)
    assert old.probability is None and "200 s before now" in old.why and old.model == "moments"
    monkeypatch.setattr("predictors.schedulers.judge.Scan", None)  # no file has changed: none is read
    assert "900 s before now" in judge.answers(starts, newest + 900)[0].why
    monkeypatch.undo()
    (later,) = judge.answers(starts, newest + 10_000)
    assert later.probability is None
    os.utime(next((tmp_path / "ldms").rglob("*[!R]")), (1, 1))
    assert judge.answers(starts, newest + 60)[0].probability == fresh.probability


def test_holds_are_refused_where_soft_limits_are_written(adapter):
    one = adapter("shadow")
    with pytest.raises(JobcastError, match="in shadow alone"):
        adapter("write", holds=ShadowedHolds(Moods(), RULES, SiteRules(), one.journal, Forecasts()))


@pytest.mark.parametrize("more", [{}, {"start": 1, "held": 1, "expected": {}}, {"start": 1, "held": 1, "code": [1]}])
def test_a_line_on_a_start_without_what_the_base_can_hold_is_no_record(more, cluster, shadow, tmp_path):
    shadow(Moods()).journal.close()
    file = tmp_path / "journal" / "journal-1970-01.jsonl"
    file.write_text(json.dumps({"at": 1, "what": "would-hold", "job": "1", "submission": 1} | more) + "\n")
    with pytest.raises(JobcastError, match="is no record"):
        shadow(Moods())
