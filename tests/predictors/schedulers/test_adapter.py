"""The adapter beside a stand-in for Slurm: what it sets, what it never touches, and what it does about faults."""

import json

import pytest

from predictors.core.errors import JobcastError
from predictors.schedulers.journal import Journal
from predictors.schedulers.operation import clear_all
from predictors.schedulers.slurm import Slurm
from predictors.schedulers.soft_limit import SiteRules
from predictors.schedulers.submission import TablePlan
from predictors.schedulers.table import parse
from tests.predictors.schedulers.conftest import CONFIG, Forecasts

MAINTENANCE = "ReservationName=maint StartTime={} EndTime=99999 Nodes=n[1-2] Flags=MAINT State=INACTIVE"


def test_a_pending_job_gets_its_padded_quantile_and_the_journal_says_why(cluster, adapter, records):
    cluster.job(1)
    one = adapter()
    assert one.cycle().changed == {"set": 1}
    assert cluster.time_min(1) == "25:00"  # 600 s are 10 min, and 15 to be sure
    intended, was_set = records("intended", "set")
    assert (was_set["minutes"], was_set["limit"], was_set["quantile"]) == (25, 240, 600.0)
    assert (was_set["model"], was_set["version"]) == ("m", 3)
    assert intended["what"] == "intended"
    assert one.cycle().changed == {}  # nothing is written twice
    assert len([call for call in cluster.calls("scontrol") if call == "scontrol "]) == 1


def test_shadow_changes_nothing_and_keeps_what_it_would_do_once(cluster, adapter, records):
    cluster.job(1)
    forecasts = Forecasts()
    one = adapter("shadow", forecasts)
    one.cycle(), one.cycle()
    forecasts.seconds = 500.0  # a little less: what it would have set would stand
    assert one.cycle().decisions == {"unchanged": 1}
    assert [r["minutes"] for r in records("would-set")] == [25]
    cluster.change(reservations=[MAINTENANCE.format(30_000)])
    assert one.cycle().changed == {"would-clear": 1}
    assert one.cycle().changed == {} and cluster.time_min(1) == "0:00"
    assert "scontrol " not in cluster.calls("scontrol")


NEVER = {
    "het": {"HetJobID": "1"}, "deadline": {"Deadline": "20000"}, "in-reservation": {"Reservation": "course"},
    "no-limit": {"TimeLimit": "UNLIMITED"}, "user-soft-limit": {"MinTime": "30:00"},
    "user-not-chosen": {"UserName": "root"},
}  # fmt: skip


@pytest.mark.parametrize("code", NEVER)
def test_what_is_never_touched(code, cluster, adapter, records):
    before = NEVER[code].get("MinTime", "0:00")
    cluster.job(1, **NEVER[code])
    one = adapter(rules=SiteRules(without_users=("root",)))
    assert one.cycle().decisions == {code: 1}
    assert cluster.time_min(1) == before
    assert [r["code"] for r in records("left")] == [code]


def test_a_reservation_that_comes_near_clears_what_was_set(cluster, adapter, records):
    cluster.job(1)
    one = adapter(rules=SiteRules(reservation_margin_minutes=10))
    one.cycle()
    cluster.change(reservations=[MAINTENANCE.format(10_000 + 4 * 3600 + 700)])
    assert one.cycle().decisions == {"unchanged": 1}  # it ends 700 s before
    cluster.change(now=10_200)
    assert one.cycle().changed == {"cleared": 1}
    assert cluster.time_min(1) == "0:00"
    assert records("cleared")[0]["why"] == "its limit reaches the reservation maint, or comes near to it"
    cluster.job(2, Partition="other")  # whose nodes are not known
    cluster.job(3, Partition="far")
    cluster.change(partitions={"p": ["n1", "n2"], "far": ["m1"]})
    assert one.cycle().changed == {"set": 1}
    assert (cluster.time_min(2), cluster.time_min(3)) == ("0:00", "25:00")


def test_without_the_option_nothing_is_set_and_ours_is_cleared(cluster, adapter, records):
    cluster.job(1)
    cluster.job(2, MinTime="30:00")
    one = adapter()
    one.cycle()
    cluster.change(config=CONFIG | {"SchedulerParameters": "bf_interval=30"})
    cluster.job(3)
    done = one.cycle()
    assert "time_min_as_soft_limit" in done.refusal
    assert [cluster.time_min(n) for n in (1, 2, 3)] == ["0:00", "30:00", "0:00"]
    assert done.decisions == {"option-gone": 1, "user-soft-limit": 1, "refused": 1}
    assert "time_min_as_soft_limit" in records("gate")[0]["why"]


@pytest.mark.parametrize(("version", "refused", "warned"), [
    ("22.05.8", True, False), ("23.11.0", False, True), ("25.05.3", False, True), ("25.05.4", False, False),
])  # fmt: skip
def test_the_version_decides(version, refused, warned, cluster):
    cluster.change(config=CONFIG | {"SLURM_VERSION": version})
    found = Slurm().config()
    assert (bool(found.refusal), bool(found.warning)) == (refused, warned)


def test_status_0_is_no_proof(cluster, adapter, records):
    cluster.job(1)
    cluster.change(faults={"scontrol": "lies"})
    one = adapter()
    cycles = [one.cycle().changed for _ in range(5)]
    assert cycles == [{"not-done": 1}] * 3 + [{}] * 2  # it does not go on for ever
    assert records("not-done")[0]["why"] == "the scheduler took the change and did not make it"
    assert records("set") == []


def test_a_refusal_is_kept_with_the_schedulers_words(cluster, adapter, records):
    cluster.job(1)
    cluster.change(faults={"scontrol": "refuses"})
    done = adapter().cycle()
    assert records("not-done")[0]["why"] == "Access/permission denied"
    assert "job 1: Access/permission denied" in done.troubles


def test_a_job_that_starts_because_of_its_soft_limit_is_set(cluster, adapter, records):
    cluster.job(1)
    cluster.change(starts_with_it=["1"])
    assert adapter().cycle().changed == {"set": 1}


def test_a_job_that_starts_meanwhile_is_not_taken_for_set(cluster, adapter, records):
    cluster.job(1)
    cluster.change(starts_while_written=["1"])
    assert adapter().cycle().changed == {"not-done": 1}
    assert records("not-done")[0]["why"] == "it is not pending any more"


@pytest.mark.parametrize("fault", ["fails", "cut"])
def test_a_queue_that_cannot_be_read_changes_nothing(fault, cluster, adapter):
    cluster.job(1)
    cluster.change(faults={"squeue": fault})
    with pytest.raises(JobcastError, match="squeue"):
        adapter().cycle()
    assert cluster.time_min(1) == "0:00"


def test_where_reservations_are_not_known_nothing_is_set(cluster, adapter):
    cluster.job(1)
    cluster.change(reservations=["ReservationName=odd StartTime=soon EndTime=later Nodes=n1"])
    done = adapter().cycle()
    assert done.changed == {} and "no times that can be read" in done.troubles[0]


def test_a_clock_that_goes_back_sets_nothing_until_the_next_look(cluster, adapter):
    one = adapter()
    one.cycle()
    cluster.job(1)
    cluster.change(now=5_000)
    assert one.cycle().changed == {}
    assert one.cycle().changed == {"set": 1}


def test_odd_names_are_read_and_forge_no_row(cluster, adapter):
    names = ["a|b", "two\nlines", "ü\udcff", "|x0|\n9|x0|9|x0|", "", "7\n8|9|"]
    for number, name in enumerate(names, 1):
        cluster.job(number, Name=name)
    found = Slurm().queue()
    assert [job.job_id for job in found.jobs] == [1, 2, 3, 4, 5, 6]
    assert [job.name for job in found.jobs][:2] == ["a|b", "two\nlines"]
    assert found.bad == {}
    assert adapter().cycle().changed == {"set": 6}


def test_rows_that_cannot_be_read_are_counted(cluster, adapter):
    cluster.job(1, TimeLimit="soon")
    cluster.job(2)
    done = adapter().cycle()
    assert done.troubles == ["squeue: rows that cannot be read: 1 x TimeLimit is no span of time: 'soon'"]
    assert done.changed == {"set": 1}


def test_an_array_is_changed_once_by_its_own_id(cluster, adapter):
    cluster.job(5, ArrayJobID="5", ArrayTaskID="3-20%3")
    cluster.job(6, ArrayJobID="5", ArrayTaskID="1", State="RUNNING", StartTime="9000")
    cluster.job(7, ArrayJobID="5", ArrayTaskID="2", RestartCnt="1", SubmitTime="9500")  # requeued: a row of its own
    one = adapter()
    assert one.cycle().changed == {"set": 1}
    assert (cluster.time_min(5), cluster.time_min(7)) == ("25:00", "25:00")
    assert one.cycle().changed == {}


def test_a_user_who_sets_his_own_soft_limit_keeps_it(cluster, adapter):
    cluster.job(1)
    one = adapter()
    one.cycle()
    cluster.job(1, MinTime="40:00")
    assert one.cycle().decisions == {"user-soft-limit": 1}


def test_a_soft_limit_is_raised_at_once_and_lowered_only_by_much(cluster, adapter):
    cluster.job(1)
    forecasts = Forecasts(3600.0)
    one = adapter(forecasts=forecasts)
    for seconds, then in ((3600.0, "75:00"), (3660.0, "76:00"), (3300.0, "76:00"), (1200.0, "35:00")):
        forecasts.seconds = seconds
        one.cycle()
        assert cluster.time_min(1) == then


def test_what_a_plug_in_has_set_at_submission_is_ours(cluster, adapter):
    cluster.job(1, MinTime="50:00", admin_comment="jobcast soft=50m asked=240m model=m@3", Deadline="30000")
    assert adapter().cycle().changed == {"cleared": 1}


@pytest.mark.parametrize(("mark", "field"), [("admin-comment", "admin_comment"), ("comment", "Comment")])
def test_a_lost_journal_orphans_no_soft_limit(mark, field, cluster, adapter):
    """A new journal knows by the mark what is ours: it raises and clears that, and leaves what users have set."""
    cluster.job(1)
    cluster.job(2, MinTime="25:00")
    cluster.job(3, **{field: "see ticket 9"})
    forecasts = Forecasts()
    adapter(forecasts=forecasts, mark=mark).cycle()
    jobs = json.loads(cluster.file.read_text())["jobs"]
    assert [jobs[n].get(field) for n in "123"] == ["jobcast:soft=25m", None, "see ticket 9"]
    forecasts.seconds = 1200.0
    again = adapter(forecasts=forecasts, folder="another", mark=mark)
    assert again.cycle().decisions == {
        "predicted": 1,
        "user-soft-limit": 2,
    }  # what has no mark is lost with the journal
    assert [cluster.time_min(n) for n in (1, 2, 3)] == ["35:00", "25:00", "25:00"]
    done = clear_all(Slurm(), again.journal)
    assert (done.cleared, done.left, done.others) == (1, {}, 2)
    assert json.loads(cluster.file.read_text())["jobs"]["1"][field] == ""
    assert [cluster.time_min(n) for n in (1, 2, 3)] == ["0:00", "25:00", "25:00"]


def test_where_marks_are_refused_soft_limits_are_set_and_it_is_said_once(cluster, adapter):
    cluster.job(1)
    cluster.change(faults={"scontrol": "refuses-comments"})
    one = adapter(mark="admin-comment")
    done = one.cycle()
    assert done.changed == {"set": 1} and cluster.time_min(1) == "25:00"
    (trouble,) = done.troubles
    assert trouble.startswith("job 1: AdminComment was refused: jobs are not marked")
    cluster.job(2)
    assert one.cycle().troubles == []


def test_no_quantile_lies_above_the_limit_and_such_jobs_are_counted(cluster, adapter, records):
    cluster.job(1, Name="short", TimeLimit="1:00:00")
    cluster.job(2, Name="long", TimeLimit="1:00:00")
    done = adapter(forecasts=Forecasts(short=600.0, long=401 * 3600.0)).cycle()
    assert (done.capped, done.decisions) == (1, {"predicted": 1, "no-gain": 1})
    assert [one["quantile"] for one in records("left")] == [3600]


def test_without_an_answer_what_stands_stays_and_what_must_go_goes(cluster, adapter):
    forecasts = Forecasts()
    cluster.job(1)
    cluster.job(2)
    one = adapter(forecasts=forecasts)
    one.cycle()
    forecasts.trouble = "no route to the service"
    cluster.job(2, Deadline="20000")
    cluster.job(3)
    done = one.cycle()
    assert done.troubles == [
        "the service did not receive the events: no route to the service",
        "no predictions: no route to the service",
    ]
    assert [cluster.time_min(n) for n in (1, 2, 3)] == ["25:00", "0:00", "0:00"]
    forecasts.trouble = ""
    assert one.cycle().changed == {"set": 1}


def test_a_fallback_is_no_quantile(cluster, adapter):
    cluster.job(1)
    assert adapter(forecasts=Forecasts(None)).cycle().decisions == {"no-prediction": 1}


def test_a_requeued_job_is_ours_still_and_a_number_given_anew_is_not(cluster, adapter):
    cluster.job(1)
    cluster.job(2)
    adapter().cycle()
    cluster.job(1, SubmitTime="9000", RestartCnt="1", Deadline="20000")
    cluster.job(2, SubmitTime="9000", Deadline="20000")
    assert adapter().cycle().changed == {"cleared": 1}  # by another process, from the journal
    assert (cluster.time_min(1), cluster.time_min(2)) == ("0:00", "25:00")


def test_what_became_of_each_job_is_kept(cluster, adapter, records, tmp_path):
    cluster.job(1)
    cluster.job(2)
    one = adapter()
    one.cycle()
    cluster.job(1, State="COMPLETED", StartTime="10000", EndTime="11000")
    cluster.job(2, State="TIMEOUT", StartTime="10000", EndTime="24400")
    cluster.change(now=25_000)
    assert one.cycle().ended == 2
    one.cycle()  # once
    found = {r["job"]: r for r in records("outcome")}
    assert len(records("outcome")) == 2
    assert (found["1"]["ran"], found["1"]["too_short"], found["1"]["wait"]) == (1000, 0, 9000)
    assert (found["2"]["ran"], found["2"]["too_short"], found["2"]["state"]) == (14400, 1, "TIMEOUT")


def test_ends_that_squeue_has_forgotten_come_from_sacct(cluster, adapter, records):
    cluster.job(1)
    cluster.change(ended=[])
    adapter().cycle()
    row = {"JobIDRaw": 1, "JobID": "1", "User": "eve", "Account": "", "Partition": "p", "QOS": "normal",
           "State": "COMPLETED", "Submit": 1000, "Eligible": 1000, "Start": 10_000, "End": 10_900, "TimelimitRaw": 240,
           "ReqCPUS": 8, "NNodes": 1, "Restarts": 0, "JobName": "a|b\nc"}  # fmt: skip
    cluster.change(jobs={}, ended=[row, row | {"JobIDRaw": 9, "JobID": "8_1", "TimelimitRaw": "UNLIMITED"}], now=20_000)
    forecasts = Forecasts()
    assert adapter(forecasts=forecasts).cycle().ended == 2
    assert [r["ran"] for r in records("outcome")] == [900]
    kinds = [(event["job_id"], event["kind"]) for event in forecasts.events]
    assert kinds.count((1, "ended")) == 1 and ("8_1", "ended") in kinds


def test_events_are_told_once_and_a_requeue_ends_the_run_before(cluster, adapter):
    forecasts = Forecasts()
    one = adapter("watch", forecasts)
    cluster.job(1, Account="bio", TimeLimit="1-00:00:00")
    cluster.job(2, ArrayJobID="2", ArrayTaskID="1-9")
    cluster.job(3, State="CANCELLED", StartTime="9000", EndTime="9000")
    assert one.cycle().events == 3
    submitted = next(event for event in forecasts.events if event["job_id"] == 1)
    assert submitted == {"kind": "submitted", "time": 1000, "job_id": 1, "submission": 1000, "cluster": "t", "procs": 8,
                         "requested_time": 86_400, "user": "eve", "group": "bio", "executable": "fit",
                         "queue": "p"}  # fmt: skip
    cluster.job(1, State="RUNNING", StartTime="9500")
    cluster.job(4, ArrayJobID="2", ArrayTaskID="1", State="COMPLETED", StartTime="9500", EndTime="9600")
    one.cycle()
    cluster.job(1, State="PENDING", StartTime="N/A", SubmitTime="9700", RestartCnt="1")
    one.cycle()
    kinds = [(event["job_id"], event["kind"], event["submission"]) for event in forecasts.events]
    assert kinds == [
        (1, "submitted", 1000), (3, "submitted", 1000), (3, "cancelled", 1000),
        ("2_1", "submitted", 1000), (1, "started", 1000), ("2_1", "started", 1000), ("2_1", "ended", 1000),
        (1, "submitted", 9700), (1, "cancelled", 1000),
    ]  # fmt: skip


def test_a_second_adapter_is_refused(cluster, adapter, tmp_path):
    adapter()
    with pytest.raises(JobcastError, match="another adapter writes this journal"):
        Journal(tmp_path / "journal")


def test_two_adapters_with_a_journal_each_leave_one_another_alone(cluster, adapter, tmp_path):
    cluster.job(1)
    adapter(folder="first").cycle()
    assert adapter(folder="second", forecasts=Forecasts(6000.0)).cycle().decisions == {"user-soft-limit": 1}
    assert cluster.time_min(1) == "25:00"


def test_the_table_for_submission_is_of_the_jobs_that_ended(cluster, adapter, tmp_path):
    place = tmp_path / "table"
    cluster.job(1, State="COMPLETED", StartTime="9000", EndTime="9500")
    cluster.job(2, State="COMPLETED", StartTime="9000", EndTime="9700")
    cluster.job(3, State="COMPLETED", StartTime="9000", EndTime="9700", Name="odd\tname")
    cluster.change(reservations=[MAINTENANCE.format(50_000)])
    for mode, sets in (("shadow", False), ("write", True)):
        adapter(mode, table=TablePlan(place, 600)).cycle()
        table = parse(place.read_text(), "t", 10_100)
        assert (table.sets, table.reservation, table.expires, table.margin) == (sets, 50_000, 10_600, 86_400)
        row = table.find("eve", "p", 8, 240, "fit")
        assert (row.minutes, row.seconds, row.ended, row.model) == (25, 600, 2, "m@3")
        assert table.find("eve", "p", 64, 240, "else").minutes == 25
        assert table.find("bob", "p", 8, 240, "fit") is None
    assert len(table.rows) == 2
    cluster.change(config=json.loads(cluster.file.read_text())["config"] | {"SchedulerParameters": ""})
    adapter("write", table=TablePlan(place, 600)).cycle()
    assert not parse(place.read_text(), "t", 10_100).sets


def test_jobs_that_outlived_their_limit_count_after_a_restart(cluster, adapter, records):
    """Twenty users' first jobs outlive P90; of whom nothing is known gets none after that, also by a new adapter."""
    for number in range(1, 21):
        cluster.job(number, UserName=f"u{number}")
    one = adapter()
    assert one.cycle().changed == {"set": 20}
    for number in range(1, 21):
        cluster.job(number, State="TIMEOUT", StartTime="10000", EndTime="24400")
    cluster.job(30, UserName="new")
    assert one.cycle().decisions["no-gain"] == 1 and len(records("judged")) == 20
    assert adapter().cycle().decisions["no-gain"] == 1


def end_and_queue(cluster, ended, queued):
    for number in ended:
        cluster.job(number, State="COMPLETED", StartTime="10000", EndTime="17200")
    for number in queued:
        cluster.job(number)


def test_a_restart_keeps_the_users_shares_and_their_soft_limits(cluster, adapter, records):
    """A user's jobs take half their limit; the second twenty show that the user's shares suffice."""
    one, first, second = adapter(), range(1, 21), range(21, 41)
    for ended, queued in (((), first), (first, second), (second, (50,))):
        end_and_queue(cluster, ended, queued)
        done = one.cycle()
    assert done.changed == {"set": 1} and cluster.time_min(50) == "135:00"
    one = adapter()
    assert one.cycle().decisions == {"unchanged": 1}
    known = records("judged")[0]
    without = {name: value for name, value in known.items() if name != "user"}
    one.journal.add([known | {"by_count": [7]}, without])  # of earlier versions: left out
    assert adapter().cycle().decisions == {"unchanged": 1}


def test_what_the_journal_does_not_take_is_learnt_when_it_does(cluster, adapter, records, monkeypatch):
    one, first, second = adapter(), range(1, 21), range(21, 41)
    for ended, queued in (((), first), (first, second)):
        end_and_queue(cluster, ended, queued)
        one.cycle()
    end_and_queue(cluster, second, (50,))
    with monkeypatch.context() as broken:
        broken.setattr(Journal, "add", fail)
        assert one.cycle().troubles
    assert len(records("judged")) == 20
    one.cycle()
    assert len(records("judged")) == 40 and cluster.time_min(50) == "135:00"


def fail(*_):
    raise JobcastError("it cannot be written.")
