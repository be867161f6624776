"""What a production cluster must never see: a user's soft limit overwritten, one of ours left behind or not known."""

import json
import sqlite3

import pytest

from predictors.core.errors import JobcastError
from predictors.probes.commands import run
from predictors.schedulers.adapter import Adapter
from predictors.schedulers.journal import Journal
from predictors.schedulers.operation import check_site, clear_all
from predictors.schedulers.slurm import FILTERS, Slurm
from predictors.schedulers.soft_limit import SiteRules
from predictors.schedulers.submission import TablePlan
from predictors.schedulers.table import Row, parse, table_of
from tests.predictors.schedulers.conftest import CONFIG, Forecasts

NO_OPTION = CONFIG | {"SchedulerParameters": "bf_interval=30"}
NEAR = "ReservationName=m StartTime=20000 EndTime=30000 Nodes=n1 Flags=MAINT"


def array(cluster, *tasks, **fields):
    """Add tasks of an array 5, as `squeue -r` shows them: job 5 is its last, each other has a number of its own."""
    for task in tasks:
        cluster.job(f"{50 + task}", ArrayJobID="5", ArrayTaskID=str(task), **fields)


def test_each_task_of_an_array_is_asked_for(cluster):
    Slurm().queue()
    assert " -r " in cluster.calls("squeue")[0]


def test_a_task_with_a_users_own_soft_limit_keeps_it_and_the_others_are_named(cluster, adapter):
    array(cluster, 1, 2, 3)
    forecasts = Forecasts()
    one = adapter(forecasts=forecasts)
    one.cycle()
    cluster.job(52, MinTime="60:00")
    forecasts.seconds = 1200.0
    assert one.cycle().changed == {"set": 1}
    assert [cluster.time_min(n) for n in (51, 52, 53)] == ["35:00", "60:00", "35:00"]
    done = clear_all(Slurm(), one.journal)
    assert (done.cleared, done.left, done.others) == (2, {}, 1)
    assert [cluster.time_min(n) for n in (51, 52, 53)] == ["0:00", "60:00", "0:00"]


def test_a_held_task_with_a_users_own_soft_limit_keeps_it(cluster, adapter):
    """It is not pending, so nothing is decided on it; but the array's id would name it, too."""
    array(cluster, 1, 2)
    cluster.job(52, State="REQUEUE_HOLD", MinTime="60:00")
    one = adapter()
    assert one.cycle().changed == {"set": 1}
    assert (cluster.time_min(51), cluster.time_min(52)) == ("25:00", "60:00")
    assert clear_all(Slurm(), one.journal).left == {} and cluster.time_min(52) == "60:00"


def test_a_requeued_tasks_earlier_soft_limit_is_ours_still(cluster, adapter):
    array(cluster, 1, 2)
    one = adapter()
    one.cycle()
    cluster.job(51, State="RUNNING", StartTime="10000")
    cluster.change(reservations=[NEAR])
    assert one.cycle().changed == {"cleared": 1}
    assert (cluster.time_min(51), cluster.time_min(52)) == ("25:00", "0:00")
    cluster.job(51, State="PENDING", StartTime="N/A", SubmitTime="10150", RestartCnt="1")
    assert one.cycle().changed == {"cleared": 1} and cluster.time_min(51) == "0:00"
    assert adapter().journal.ours(Slurm().queue().jobs[0]) == {25}  # another process knows it, too


def test_an_array_outlives_its_first_task_by_months(cluster, adapter):
    array(cluster, 1, 2)
    one = adapter()
    one.cycle()
    cluster.job(51, State="COMPLETED", StartTime="10000", EndTime="11000")
    cluster.change(now=12_000)
    one.cycle()
    cluster.change(now=12_000 + 61 * 86_400)
    cluster.job(9)
    one.cycle()
    assert clear_all(Slurm(), adapter().journal).left == {} and cluster.time_min(52) == "0:00"


class Meanwhile(Forecasts):
    """Something happens while predictions are made."""

    def __init__(self, happens):
        super().__init__()
        self.happens = happens

    def runtime(self, jobs):
        """Answer, after it has happened."""
        self.happens()
        return super().runtime(jobs)


def test_what_changes_while_predictions_are_made_is_seen_before_writing(cluster, adapter):
    cluster.job(1)
    cluster.job(2)
    one = adapter(forecasts=Meanwhile(lambda: cluster.job(1, MinTime="60:00")))
    assert one.cycle().changed == {"set": 1}
    assert (cluster.time_min(1), cluster.time_min(2)) == ("60:00", "25:00")
    cluster.job(3)
    one = adapter(forecasts=Meanwhile(lambda: cluster.change(config=NO_OPTION)))
    assert one.cycle().changed == {} and cluster.time_min(3) == "0:00"
    array(cluster, 1, 2, 3)
    cluster.change(config=CONFIG)
    one = adapter(forecasts=Meanwhile(lambda: cluster.job(51, State="RUNNING", StartTime="10000")))
    assert one.cycle().changed == {"set": 2}  # job 3, and what still waits of the array
    assert (cluster.time_min(51), cluster.time_min(53)) == ("0:00", "25:00")


def test_clearing_has_no_bound(cluster, adapter):
    cluster.change(jobs={str(n): {} for n in range(1, 31)})
    adapter().cycle()
    cluster.change(config=NO_OPTION)
    assert adapter(most_changes=10).cycle().changed == {"cleared": 30}
    cluster.change(config=CONFIG)
    assert adapter(most_changes=10).cycle().changed == {"set": 10}


def test_without_the_option_held_jobs_are_cleared_too(cluster, adapter):
    cluster.job(1)
    array(cluster, 1, 2)
    one = adapter()
    one.cycle()
    for number in (1, 51):
        cluster.job(number, State="REQUEUE_HOLD", RestartCnt="1")
    cluster.change(config=NO_OPTION)
    assert one.cycle().changed == {"cleared": 3}
    assert [cluster.time_min(n) for n in (1, 51, 52)] == ["0:00"] * 3


def test_clear_reads_back_after_scontrol_gave_no_answer(cluster, adapter):
    cluster.job(1)
    one = adapter()
    one.cycle()

    class Late(Slurm):
        def write(self, minutes, marks):
            super().write(minutes, marks)
            raise JobcastError("scontrol: failed with status 124: gave no answer within 60 s.")

    done = clear_all(Late(), one.journal)
    assert (done.cleared, done.left) == (1, {}) and cluster.time_min(1) == "0:00"


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "SUSPENDED"])
def test_clear_names_what_runs_with_one_of_ours(state, cluster, adapter):
    cluster.job(1)
    one = adapter()
    one.cycle()
    cluster.job(1, State=state, StartTime="9000")
    done = clear_all(Slurm(), one.journal)
    assert (done.cleared, done.left, done.running) == (0, {}, {"1": state})


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
def test_clear_clears_held_jobs_too(state, cluster, adapter):
    cluster.job(1)
    one = adapter()
    one.cycle()
    cluster.job(1, State=state, RestartCnt="1")
    done = clear_all(Slurm(), one.journal)
    assert (done.cleared, done.left, done.running) == (1, {}, {}) and cluster.time_min(1) == "0:00"


@pytest.mark.parametrize("how", ["locked", "full"])
def test_a_journal_that_cannot_be_written_stops_setting_and_no_clearing(how, cluster, adapter, monkeypatch, tmp_path):
    for number in (1, 2, 3):
        cluster.job(number)
    one = adapter()
    one.cycle()
    cluster.job(1, Deadline="30000")
    cluster.job(4)
    if how == "full":

        def full(path, data):
            raise OSError(28, "no space left on device")

        monkeypatch.setattr("predictors.schedulers.journal._append", full)
    else:
        other = sqlite3.connect(tmp_path / "journal" / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        one.journal._base.execute("PRAGMA busy_timeout=10")
    done = one.cycle()
    assert done.changed == {"cleared": 1} and any("cannot be written" in trouble for trouble in done.troubles)
    assert [cluster.time_min(n) for n in (1, 2, 3, 4)] == ["0:00", "25:00", "25:00", "0:00"]
    one.journal.close()
    with Journal(tmp_path / "journal") as journal:  # another process begins while it is so
        done = clear_all(Slurm(), journal)
    assert (done.cleared, done.left) == (2, {}) and "cannot be written" in done.troubles[0]
    assert [cluster.time_min(n) for n in (2, 3)] == ["0:00", "0:00"]
    if how == "locked":
        other.close()


def test_the_table_is_taken_back_before_anything_else_is_asked(cluster, adapter, tmp_path):
    place = tmp_path / "table"
    cluster.job(1, State="COMPLETED", StartTime="9000", EndTime="9500")
    one = adapter("write", table=TablePlan(place, 600))
    one.cycle()
    assert parse(place.read_text(), "t", 10_100).sets
    cluster.change(config=NO_OPTION, faults={"squeue": "fails"})
    with pytest.raises(JobcastError, match="squeue"):
        one.cycle()
    table = parse(place.read_text(), "t", 10_100)
    assert not table.sets and not table.rows


def test_variables_that_hide_jobs_reach_no_command(cluster, monkeypatch):
    seen = {}
    monkeypatch.setenv("SQUEUE_USERS", "root")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/own.conf")

    def asked(command, **options):
        seen[command[0]] = run(["env"], environment=options["environment"], without=options["without"]).out
        return run(["false"])

    monkeypatch.setattr("predictors.schedulers.slurm.run", asked)
    for ask in (Slurm().queue, Slurm().config, lambda: Slurm().write({"1": 0})):
        with pytest.raises(JobcastError):
            ask()
    for printed in seen.values():
        assert "SLURM_CONF=/etc/own.conf" in printed and "SLURM_TIME_FORMAT=%s" in printed
        assert not any(line.startswith(FILTERS) for line in printed.splitlines())


def test_a_kill_before_the_reading_back_loses_no_outcome(cluster, adapter, records, monkeypatch):
    cluster.job(1)
    one = adapter()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Adapter, "_read_back", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        one.cycle()
    two = adapter()
    assert two.cycle().decisions == {"unchanged": 1}
    assert [r["why"] for r in records("set")] == ["the queue shows it"]
    cluster.job(1, State="COMPLETED", StartTime="10000", EndTime="11000")
    cluster.change(now=12_000)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # and one while outcomes are kept
        patched.setattr(Adapter, "_outcomes", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        two.cycle()
    assert adapter().cycle().ended == 1 and len(records("outcome")) == 1


def test_shadow_after_write_says_once_what_it_would_clear(cluster, adapter, records):
    cluster.job(1)
    adapter().cycle()
    cluster.job(1, Deadline="30000")
    one = adapter("shadow")
    for _ in range(3):
        one.cycle()
    assert len(records("would-clear")) == 1 and cluster.time_min(1) == "25:00"


def test_check_makes_nothing_and_takes_a_journal_in_use_for_good(cluster, adapter, tmp_path):
    def found(folder):
        return {one.what: one for one in check_site(Slurm(), folder)}["journal"]

    adapter()
    assert found(tmp_path / "journal").status == "ok" and "in use" in found(tmp_path / "journal").found
    assert found(tmp_path / "new").status == "ok" and not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    assert found(tmp_path / "file").status == "fail"


def test_the_books_say_the_same_by_text_and_base(cluster, adapter, tmp_path):
    """A base that is made anew from the text knows the same of arrays."""
    array(cluster, 1, 2)
    forecasts = Forecasts()
    one = adapter(forecasts=forecasts)
    for seconds in (600.0, 3600.0):
        forecasts.seconds = seconds
        one.cycle()
    job = Slurm().queue().jobs[0]
    assert one.journal.ours(job) == {25, 75}
    one.journal.close()
    (tmp_path / "journal" / "journal.db").unlink()
    with Journal(tmp_path / "journal") as journal:
        assert journal.ours(job) == {25, 75}
    assert json.loads(next((tmp_path / "journal").glob("*.jsonl")).read_text().splitlines()[0])["array"] is True


def test_a_table_serves_no_partition_that_the_rules_leave_out_and_the_longest_of_two_accounts(
    cluster, adapter, tmp_path
):
    rows = [Row("eve", "p", "4", 60, "fit", minutes, 500, 3, "m") for minutes in (30, 9)]
    made = table_of("c", 100, 900, None, 0, rows)
    assert (made.find("eve", "p", 4, 60, "fit").minutes, made.find("eve", "p", 4, 60, "fit").ended) == (30, 6)
    cluster.job(1, State="COMPLETED", StartTime="9000", EndTime="9500")
    place = tmp_path / "table"
    for rules, found in ((SiteRules(), 25), (SiteRules(without_partitions=("debug",)), None)):
        adapter(rules=rules, table=TablePlan(place, 600)).cycle()
        table = parse(place.read_text(), "t", 10_100)
        other = table.find("eve", "debug", 1, 240, "x")
        assert (other and other.minutes) == found and table.find("eve", "p", 8, 240, "fit").minutes == 25
