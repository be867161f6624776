"""Laws of the decision on a soft limit, and faults of the journal that it rests on."""

import dataclasses
import errno
import json
import os
import random
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.schedulers.journal import Journal, read_journal
from predictors.schedulers.soft_limit import (
    CLEAR,
    LEAST,
    LEAVE,
    SET,
    Bound,
    Outlived,
    QueuedJob,
    Reservation,
    SiteRules,
    SiteState,
    decide,
)

NODES = {"p": frozenset({"n1", "n2"}), "q": frozenset({"m1"})}
USUAL = st.builds(QueuedJob, st.just(1), limit=st.integers(7200, 100_000), user=st.just("eve"), partition=st.just("p"))
ODD = st.sampled_from(
    [{}, {}, {"state": "RUNNING"}, {"limit": None}, {"limit": 59}, {"soft": 1200}, {"soft": 1201}, {"soft": 60_000},
     {"is_het": True}, {"user": "root"}, {"deadline": 5000}, {"reservation": "course"}, {"partition": "q"},
     {"partition": "p,q"}, {"partition": "unknown"}, {"soft": 1200, "is_het": True}]
)  # fmt: skip
jobs = st.builds(lambda job, odd: dataclasses.replace(job, **odd), USUAL, ODD)  # most of them may have a soft limit
seconds = st.floats(1, 4000) | st.none() | st.floats(-1, 1e6) | st.sampled_from([float("nan"), float("inf")])
bounds_ = st.builds(Bound, seconds)
reservations = st.lists(
    st.builds(
        lambda start, length, nodes, flags: Reservation("r", start, start + length, nodes, flags),
        st.integers(0, 300_000),
        st.integers(1, 90_000),
        st.sampled_from([None, frozenset({"n1"}), frozenset({"m1"}), frozenset({"far"})]),
        st.sampled_from([frozenset(), frozenset({"DAILY", "MAINT"})]),
    ),
    max_size=2,
)
rules_ = st.builds(
    SiteRules, pad_minutes=st.integers(1, 60), factor=st.floats(1, 3), least_gain_minutes=st.integers(1, 9),
    lower_share=st.floats(0, 0.9), reservation_margin_minutes=st.integers(1, 2000),
    without_users=st.sampled_from([(), ("root",)]),
)  # fmt: skip


@settings(max_examples=400)
@given(jobs, bounds_, reservations, rules_, st.sampled_from([frozenset(), {20}, {20, 31}]), st.integers(0, 200_000))
def test_laws_of_the_decision(job, bound, ahead, rules, ours, now):
    site = SiteState(now, ahead, NODES)
    one = decide(job, bound, site, rules, frozenset(ours))
    assert one == decide(job, bound, site, rules, frozenset(ours))  # of its arguments alone
    mine = bool(job.soft) and job.soft % 60 == 0 and job.soft // 60 in ours
    if job.state != "PENDING" or (job.soft and not mine):
        assert one.action == LEAVE
    if one.action == CLEAR:
        assert mine
    never = job.is_het or job.deadline is not None or job.reservation or job.limit is None
    if never or (rules.without_users and job.user == "root"):
        assert one.action != SET
    if one.action == SET:
        assert 1 <= one.minutes <= job.limit // 60 - rules.least_gain_minutes
        assert 60 * one.minutes >= bound.seconds + 60 * rules.pad_minutes
        own = site.nodes_of(job.partition)
        for reservation in ahead:
            shared = reservation.nodes is None or own is None or reservation.nodes & own
            start = reservation.next_start(now)
            assert not shared or start is None or now + job.limit + 60 * rules.reservation_margin_minutes < start


def test_rules_that_cannot_be_are_refused():
    for name, value in (("pad_minutes", 0), ("factor", 0.5), ("lower_share", 1.0), ("long_hours", 0.0)):
        with pytest.raises(ValueError, match=name):
            SiteRules(**{name: value})


def record(what, minutes, job=1, at=1_700_000_000):
    return {"at": at, "what": what, "job": job, "submission": 5, "minutes": minutes}


def test_a_line_that_was_cut_is_dropped_and_the_base_is_made_anew(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add([record("intended", 20), record("set", 20), record("intended", 30, job=2)])
        assert journal.open_jobs() == {1, 2}
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("a") as file:
        file.write('{"at": 1700000000, "what": "cle')  # the system went down within a write
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "journal.db").write_text("this is no database, and longer than a page's head" * 9)
    with Journal(tmp_path) as journal:
        assert journal.open_jobs() == {1, 2}
        journal.add([record("cleared", 0)])
    with Journal(tmp_path) as journal:
        assert journal.open_jobs() == {2}
        assert journal.ours(QueuedJob(2, submit=5)) == {30}
    assert [one["what"] for one in read_journal(tmp_path)] == ["intended", "set", "intended", "cleared"]
    assert oct(path.stat().st_mode)[-3:] == "600"


def test_months_have_files_of_their_own_and_the_newest_record_counts(tmp_path):
    with Journal(tmp_path) as journal:
        for at, minutes in ((1_700_000_000, 20), (1_702_000_000, 40)):
            journal.add([record("set", minutes, at=at)])
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["journal-2023-11.jsonl", "journal-2023-12.jsonl"]
    (tmp_path / "journal.db").unlink()
    with Journal(tmp_path) as journal:
        assert journal.ours(QueuedJob(1, submit=5)) == {40}
        assert journal.ours(QueuedJob(1, submit=6)) == frozenset()  # the number was given anew
        assert journal.ours(QueuedJob(1, submit=6, restarts=1)) == {40}


def test_a_full_disk_adds_nothing_and_says_so(tmp_path, monkeypatch):
    with Journal(tmp_path) as journal:
        journal.add([record("set", 20)])
        before = next(tmp_path.glob("*.jsonl")).read_bytes()
        real = os.write

        def half(file, data):
            if data.startswith(b'{"at"'):
                real(file, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "no space left on device")
            return real(file, data)

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(JobcastError, match="no space left on device"):
            journal.add([record("intended", 30)])
        assert next(tmp_path.glob("*.jsonl")).read_bytes() == before
        assert journal.ours(QueuedJob(1, submit=5)) == {20}


@pytest.mark.parametrize(
    "line",
    [
        '{"at":1,"what":"set"}', '{"at":1,"what":"outcome","job":"7"}', "[" * 100_000,
        '{"at":1,"what":"set","job":7,"submission":1,"minutes":[1]}',
        '{"at":1,"what":"set","job":99999999999999999999999,"submission":1,"minutes":1}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_whole_record_is_told(line, tmp_path):
    (tmp_path / "journal-1970-01.jsonl").write_text(line + "\n")
    with pytest.raises(JobcastError, match="a line that is no record"):
        Journal(tmp_path)


def test_a_journal_that_is_none_is_named(tmp_path):
    (tmp_path / "journal-2023-11.jsonl").write_text(json.dumps({"what": 3}) + "\n")
    with pytest.raises(JobcastError, match="no record of a journal"):
        Journal(tmp_path)


def test_a_base_that_cannot_be_written_follows_later(tmp_path):
    """The text is the truth: what it has and the base has not is made up for as soon as the base can be written."""
    with Journal(tmp_path) as journal:
        journal.add([record("intended", 20)])
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # somebody else writes, and does not end
        journal._base.execute("PRAGMA busy_timeout=10")
        with pytest.raises(JobcastError, match=r"journal\.db: cannot be written"):
            journal.add([record("intended", 30, job=2)])
        other.execute("ROLLBACK")
        journal.add([record("intended", 40, job=3)])
        assert journal.open_jobs() == {1, 2, 3}
        assert other.execute("SELECT count(*) FROM soft_limits").fetchone() == (3,)
        other.close()


def test_what_a_month_tells_is_known_though_the_base_lacks_the_month_before(tmp_path):
    """The base cannot be written from the end of a month on: the jobs of the next month are known all the same."""
    month = 31 * 86_400
    with Journal(tmp_path) as journal:
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        journal._base.execute("PRAGMA busy_timeout=10")
        for job, second in ((1, month - 1), (2, month)):
            with pytest.raises(JobcastError, match="cannot be written"):
                journal.add([record("intended", 30, job=job, at=second)])
            assert journal.open_jobs() == set(range(1, job + 1))
        with pytest.raises(JobcastError, match="cannot be written"):
            journal.catch_up()
        assert journal.open_jobs() == {1, 2}
        other.execute("ROLLBACK")
        journal.catch_up()
        assert other.execute("SELECT count(*) FROM soft_limits").fetchone() == (2,)
        other.close()


def ends(outlived, jobs, quantile=600.0):
    """Let jobs of users wait and end, one after the other; return which had a soft limit, and which outlived it."""
    found = []
    for job, ran in jobs:
        outlived.asked(job, Bound(quantile))
        decision = decide(job, outlived.raised(job, Bound(quantile)), SiteState(0), outlived.rules)
        found.append((decision.action == SET, decision.action == SET and ran > decision.minutes * 60))
        outlived.ended(job, ran)
    return found


@pytest.mark.parametrize("most", [0.1, 0.3, 1.0])
def test_few_of_the_jobs_whose_limit_is_set_outlive_it(most):
    """A third of the users need most of their limits, the others 10 min: P90 of all is set for both."""
    draw, jobs = random.Random(3), []
    for number in range(3000):
        user = draw.randrange(9)
        share = draw.uniform(0.5, 0.9) if user < 3 or draw.random() < 0.05 else draw.uniform(0.01, 0.05)
        jobs.append((QueuedJob(number, limit=14_400, user=f"u{user}"), int(14_400 * share)))
    found = ends(Outlived(SiteRules(most_outlived=most)), jobs)[500:]
    is_set = sum(one for one, _ in found)
    short = sum(late for _, late in found) / is_set
    assert short <= most + 0.02 and is_set > 1000
    assert most < 1 or (is_set == len(found) and short > 0.3)


def test_without_a_count_that_is_good_enough_no_limit_is_set():
    outlived = Outlived(SiteRules())
    jobs = [(QueuedJob(number, limit=14_400, user=f"u{number}"), 14_400) for number in range(60)]
    found = ends(outlived, jobs)
    assert all(one for one, _ in found[:LEAST]) and not any(one for one, _ in found[LEAST:])
    standing = dataclasses.replace(jobs[0][0], soft=1500)
    bound = outlived.raised(standing, Bound(600.0))
    assert decide(standing, bound, SiteState(0), outlived.rules, frozenset({25})).action == CLEAR
    outlived.asked(jobs[0][0], Bound(600.0))
    assert outlived.judged(jobs[0][0], None) is None, "of a job that never ran nothing is learnt"
    assert outlived.judged(dataclasses.replace(jobs[0][0], state="NODE_FAIL"), 60) is None, (
        "nor of one that others ended"
    )


def test_the_tasks_of_an_array_are_judged_by_what_they_waited_with_together():
    outlived = Outlived(SiteRules())
    for array in (100, 200):  # the second waits with what the first has told
        waiting = QueuedJob(array, limit=14_400, user="eve", array_id=array, task="1-20%3")
        outlived.asked(waiting, Bound(600.0))
        for task in range(1, LEAST + 1):
            ended = dataclasses.replace(waiting, job_id=1000 + array + task, task=str(task), state="COMPLETED")
            assert outlived.judged(ended, 7200).minutes
            outlived.ended(ended, 7200)
    assert outlived.raised(waiting, Bound(600.0)).seconds == 7200.0
    outlived.forget([waiting], 0)
    outlived.forget([], 86_400)
    assert outlived.judged(ended, 7200).minutes
    outlived.forget([], 86_401)
    assert not outlived.judged(ended, 7200).minutes
