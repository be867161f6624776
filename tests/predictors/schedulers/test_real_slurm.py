"""The adapter beside a real Slurm: 26.05, 24.11 and 22.05 in chroots. `make test-slurm` runs these tests.

`acceptance` in a name: the closed loop that takes half a minute. `finding` in a name: how Slurm itself behaves, which
the rules of the adapter rest on; where a later version behaves otherwise, such a test fails, and the rule can go.
"""

import os
import subprocess
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from predictors.core.errors import JobcastError
from predictors.schedulers.adapter import Adapter
from predictors.schedulers.journal import Journal, read_journal
from predictors.schedulers.operation import check_site, clear_all
from predictors.schedulers.slurm import Slurm
from predictors.schedulers.soft_limit import SiteRules
from predictors.schedulers.table import ExpectedStart, Row, table_of
from tests.predictors.schedulers.conftest import Forecasts, endless_adapter
from tests.support.places import ROOT
from tests.support.slurm.cluster import SUITES, SlurmCluster
from tests.support.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

QUICK = SiteRules(pad_minutes=1, least_minutes=1, reservation_margin_minutes=5)
BF = "bf_interval=10,bf_resolution=60,sched_interval=10,batch_sched_delay=0"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Starts clusters, whose commands stand on the PATH; they end with the test."""
    started = []

    def start(version="26.05", up=True, **options):
        one = SlurmCluster(version, tmp_path / "bin", **options)
        started.append(one)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return one.up() if up else one

    yield start
    for one in started:
        one.down()


@contextmanager
def beside(folder, forecasts=None, rules=QUICK, mode="write", mark="none", **options):
    with Journal(folder) as journal:
        one = Adapter(Slurm(mark=mark), forecasts or Forecasts(), journal, rules, mode, **options)
        one.journal = journal
        yield one


def seconds(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize("version", SUITES)
def test_each_version_is_read_and_judged(version, slurm, tmp_path):
    cluster = slurm(version)
    running = cluster.submit("-N4", "-n32", "-t", "1:00:00", "-J", "first")
    cluster.wait_for(running, "RUNNING")
    odd = cluster.submit("-n4", "-t", "1-02:00:00", "-J", "a|b\nü 7|x|")
    array = cluster.submit("-n1", "-t", 60, "--array=1-20%3")
    het = cluster.submit("-n1", "-t", 10, ":", "-n2", "-t", 10)
    late = cluster.submit("-n1", "-t", 10, "--deadline=now+3hours")
    own = cluster.submit("-n1", "-t", 30, "--time-min=5")
    free = cluster.submit("-n1", "--hold", "-t", "UNLIMITED")
    cluster.run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now+2hours", "duration=60",
                "nodes=n[1-2]", "users=root", "flags=maint")  # fmt: skip
    slurm_ = Slurm()
    config, rows = slurm_.config(), slurm_.queue()
    assert abs(config.now - time.time()) < 5 and config.cluster == "t"
    assert config.version[:2] == tuple(map(int, version.split(".")))
    assert bool(config.refusal) == (version == "22.05") and bool(config.warning) == (version == "24.11")
    jobs = {job.job_id: job for job in rows.jobs}
    assert rows.bad == {} and len(rows.jobs) == 7 + 20
    assert (jobs[running].state, jobs[running].limit, jobs[running].user) == ("RUNNING", 3600, "alice")
    assert (jobs[odd].name, jobs[odd].limit, jobs[odd].soft) == ("a|b\nü 7|x|", 93_600, None)
    tasks = [job for job in rows.jobs if job.array_id == array]
    assert {job.task for job in tasks} == {str(n) for n in range(1, 21)} and {job.target for job in tasks} == {array}
    assert jobs[het].is_het and jobs[het + 1].is_het and not jobs[odd].is_het
    assert abs(jobs[late].deadline - config.now - 3 * 3600) < 5
    assert jobs[own].soft == 300 and jobs[free].limit is None
    (maint,) = slurm_.reservations()
    assert maint.nodes == {"n1", "n2"} and abs(maint.start - config.now - 7200) < 5 and "MAINT" in maint.flags
    assert slurm_.partitions() == {"p": frozenset({"n1", "n2", "n3", "n4"})}
    assert slurm_.ended_since(config.now - 3600) is None  # no accounts are kept here
    found = {one.what: one.status for one in check_site(slurm_, tmp_path / "j")}
    assert found["soft limits"] == {"22.05": "fail", "24.11": "warn", "26.05": "ok"}[version]
    assert found["rights"] == "ok" and found["TimeMin"] == "warn"
    with beside(tmp_path / "j") as one:
        done = one.cycle()
    if version == "22.05":
        assert done.changed == {} and "22.05" in done.refusal
    else:
        assert done.changed == {"set": 1} and done.decisions["reservation-ahead"] == 1  # the array, and a day's job
        assert cluster.show(array, "TimeMin", "TimeLimit") == ["00:11:00", "01:00:00"]


def test_acceptance_a_soft_limit_lets_a_job_start_and_ends_none(slurm, tmp_path):
    """A job that may not overtake the head of the queue gets a soft limit, starts, and runs on past it."""
    cluster = slurm(speed=60, parameters=f"time_min_as_soft_limit,{BF}")
    node = ("-w", "n1", "-N1", "-t", 60)
    blocker = cluster.submit(*node, "-n4", seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    head = cluster.submit(*node, "-n8", "-J", "head", seconds=1)
    candidate = cluster.submit(*node, "-n4", "-J", "candidate", seconds=13)
    over = cluster.submit("-w", "n2", "-N1", "-n1", "-t", 4, "--time-min=2", "-J", "over", seconds=100)
    cluster.wait_for(over, "RUNNING")
    time.sleep(1.5)
    while cluster.show(head, "StartTime") == "Unknown":
        time.sleep(0.1)
    assert cluster.show(candidate, "JobState") == "PENDING"
    planned = seconds(cluster.show(head, "StartTime"))
    with beside(tmp_path / "j", Forecasts(540.0, head=None)) as one:
        assert one.cycle().changed == {"set": 1}
        cluster.wait_for(candidate, "RUNNING")
        assert cluster.show(candidate, "TimeLimit") == "01:00:00"
        time.sleep(0.5)
        assert seconds(cluster.show(head, "StartTime")) <= planned + 60
        cluster.wait_for(over, "TIMEOUT")
        start, end = map(seconds, cluster.show(over, "StartTime", "EndTime"))
        assert end - start >= 240  # its hard limit, not the soft one
        cluster.wait_for(candidate, "COMPLETED", 25)
        start, end = map(seconds, cluster.show(candidate, "StartTime", "EndTime"))
        assert end - start > 600
        one.cycle()
    (outcome,) = [r for r in read_journal(tmp_path / "j") if r["what"] == "outcome"]
    assert (outcome["job"], outcome["minutes"], outcome["too_short"]) == (str(candidate), 10, 1)
    assert cluster.show(candidate, "TimeLimit") == "01:00:00"


def test_each_never_is_provoked_once_and_nothing_is_touched(slurm, tmp_path):
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 600)
    cluster.wait_for(blocker, "RUNNING")
    cluster.run("scontrol", "create", "reservation", "reservationname=course", "starttime=now", "duration=600",
                "nodes=n4", "users=alice", "flags=ignore_jobs")  # fmt: skip
    time.sleep(1.1)  # it has begun, and is not ahead
    jobs = {
        "het": cluster.submit("-n1", "-t", 60, ":", "-n2", "-t", 60),
        "deadline": cluster.submit("-n1", "-t", 60, "--deadline=now+9hours"),
        "user-soft-limit": cluster.submit("-n1", "-t", 60, "--time-min=20"),
        "in-reservation": cluster.submit("-N1", "-n8", "-t", 60, "--reservation=course", "--hold"),
        "predicted": cluster.submit("-n1", "-t", 60),
    }
    with beside(tmp_path / "j") as one:
        done = one.cycle()
        assert done.decisions == {"het": 2, **dict.fromkeys(("deadline", "user-soft-limit", "in-reservation"), 1),
                                  "predicted": 1}  # fmt: skip
        minutes = {code: cluster.show(job, "TimeMin") for code, job in jobs.items()}
        assert minutes == {"het": "N/A", "deadline": "N/A", "user-soft-limit": "00:20:00", "in-reservation": "N/A",
                           "predicted": "00:11:00"}  # fmt: skip
        cluster.run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now+50minutes",
                    "duration=60", "nodes=all", "users=root", "flags=maint,ignore_jobs")  # fmt: skip
        done = one.cycle()
        assert done.changed == {"cleared": 1} and cluster.show(jobs["predicted"], "TimeMin") == "N/A"
        cluster.run("scontrol", "delete", "reservationname=maint")
        assert one.cycle().changed == {"set": 1}
        cluster.configure("bf_interval=1,bf_resolution=1,sched_interval=1")  # the option is gone: the dangerous order
        cluster.run("scontrol", "reconfigure")
        done = one.cycle()
        assert done.changed == {"cleared": 1} and done.refusal
        assert cluster.show(jobs["predicted"], "TimeMin", "TimeLimit") == ["N/A", "01:00:00"]
    assert cluster.show(jobs["user-soft-limit"], "TimeMin") == "00:20:00"


def test_the_controller_may_go_and_come_back(slurm, tmp_path):
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", 60)
    forecasts = Forecasts()
    with beside(tmp_path / "j", forecasts) as one:
        assert one.cycle().changed == {"set": 1}
        time.sleep(1)
        cluster.stop_controller()
        with pytest.raises(JobcastError, match=r"scontrol: failed|squeue: failed"):
            one.cycle()
        cluster.up()
        forecasts.trouble = "the service is gone"
        assert one.cycle().changed == {}
        forecasts.trouble = ""
        one.cycle()
        assert cluster.show(job, "TimeMin", "TimeLimit") == ["00:11:00", "01:00:00"]
        assert clear_all(Slurm(), one.journal).left == {}
    assert cluster.show(job, "TimeMin") == "N/A" and cluster.show(blocker, "JobState") == "RUNNING"


def test_a_killed_adapter_leaves_nothing_that_cannot_be_cleared(slurm, tmp_path):
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    jobs = [cluster.submit("-n1", "-t", 60, "-J", f"j{n}") for n in range(20)]
    rules = "SiteRules(pad_minutes=1, reservation_margin_minutes=5, lower_share=0.0)"
    up_and_down = "answers.seconds = 900.0 - answers.seconds + 600.0"
    for late in range(6):
        process = endless_adapter(tmp_path / "j", rules=rules, most=5, between=up_and_down)
        time.sleep(0.11 * (late + 1))
        process.kill()
        process.communicate()
        time.sleep(0.3)
        have = {job.job_id for job in Slurm().queue().jobs if job.soft}
        with Journal(tmp_path / "j") as journal:
            assert have <= journal.open_jobs()
    assert have
    with Journal(tmp_path / "j") as journal:
        done = clear_all(Slurm(), journal)
    assert done.left == {} and done.cleared == len(have)
    assert {job.soft for job in Slurm().queue().jobs} == {None}
    assert {job.limit for job in Slurm().queue().jobs} == {3600} and len(jobs) == 20


def test_two_thousand_pending_jobs_take_ten_seconds_a_cycle_at_most(slurm, tmp_path):
    cluster = slurm(parameters="time_min_as_soft_limit,bf_interval=30,defer")
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    loop = "for i in $(seq 500); do sbatch -Q -n1 -t 60 -J j$i -o /dev/null --wrap true || exit 1; done"
    place = f"cd {cluster.place}/jobs && "
    lanes = " & ".join([f"({place}{loop})"] * 4)
    cluster.run("sh", "-c", f"{lanes} & wait", user="alice")
    with beside(tmp_path / "j") as one:
        first = one.cycle()
        again = one.cycle()
    print(f"2,000 pending: first cycle {first.seconds:.1f} s, next {again.seconds:.1f} s")
    assert first.pending == 2000 and first.changed == {"set": 2000}
    assert again.changed == {} and again.decisions == {"unchanged": 2000}
    assert first.seconds <= 10 and again.seconds <= 10


def soft_limits(array):
    """Return the soft limit of each task of an array [min], None where there is none."""
    jobs = [job for job in Slurm().queue().jobs if job.array_id == array and job.task]
    return {int(job.task): job.soft and job.soft // 60 for job in jobs}


def test_the_tasks_of_an_array_are_told_apart(slurm, tmp_path):
    """A user's own soft limit of one task stays, in a cycle and in clearing; whatever is ours goes."""
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    array = cluster.submit("-n1", "-t", 60, "--array=1-4")
    forecasts = Forecasts()
    with beside(tmp_path / "j", forecasts) as one:
        assert one.cycle().changed == {"set": 1} and soft_limits(array) == dict.fromkeys(range(1, 5), 11)
        cluster.run("scontrol", "update", f"JobId={array}_2", "TimeMin=40", user="alice")
        assert soft_limits(array) == {1: 11, 2: 40, 3: 11, 4: 11}
        forecasts.seconds = 1200.0
        assert one.cycle().changed == {"set": 1} and soft_limits(array) == {1: 21, 2: 40, 3: 21, 4: 21}
        done = clear_all(Slurm(), one.journal)
        assert (done.left, done.running, done.others) == ({}, {}, 1)
        assert soft_limits(array) == {1: None, 2: 40, 3: None, 4: None}
        assert {job.limit for job in Slurm().queue().jobs} == {3600}


def test_what_runs_with_a_soft_limit_of_ours_is_named_and_cleared_when_it_comes_back(slurm, tmp_path):
    """An array's task and a job start with one; cleared is what waits. Requeued and held, theirs is cleared, too."""
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    array = cluster.submit("-n1", "-t", 60, "--requeue", "--array=1-3%1", seconds=60)
    single = cluster.submit("-n1", "-t", 60, "--requeue", seconds=60)
    with beside(tmp_path / "j") as one:
        assert one.cycle().changed == {"set": 2}
        cluster.run("scancel", str(blocker))
        cluster.wait_for(single, "RUNNING")
        tasks = lambda: [job for job in Slurm().queue().jobs if job.array_id == array and job.task]  # noqa: E731
        until(lambda: "RUNNING" in {job.state for job in tasks()}, 20)
        done = clear_all(Slurm(), one.journal)
        assert done.left == {} and done.running == {f"{array}_1": "RUNNING", str(single): "RUNNING"}
        assert soft_limits(array) == {1: 11, 2: None, 3: None}
        cluster.run("scontrol", "requeuehold", str(single))
        cluster.run("scontrol", "requeuehold", f"{array}_1")
        done = until(lambda: None if (done := clear_all(Slurm(), one.journal)).running else done, 30)
        assert done.left == {} and {job.soft for job in Slurm().queue().jobs} == {None}


# --- how Slurm behaves ------------------------------------------------------------------------------------------------


def test_finding_what_scontrol_says_of_time_min(slurm):
    """A running job: status 0 and no change. Too long: refused. 0 clears. The owner may not go below it."""
    cluster = slurm()
    running = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(running, "RUNNING")
    job = cluster.submit("-n1", "-t", 60)
    array = cluster.submit("-n1", "-t", 60, "--array=1-5")
    assert cluster.run("scontrol", "update", f"JobId={running}", "TimeMin=30") == ""
    assert cluster.show(running, "TimeMin") == "N/A"
    assert "Invalid time-min" in cluster.run("scontrol", "update", f"JobId={job}", "TimeMin=61", check=False)
    for given, shown in ((30, "00:30:00"), (0, "N/A"), (60, "01:00:00")):
        cluster.run("scontrol", "update", f"JobId={job}", f"TimeMin={given}")
        assert cluster.show(job, "TimeMin") == shown
    refused = cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=10", user="alice", check=False)
    assert "Invalid time-min" in refused
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=10", "TimeMin=0", user="alice")
    cluster.run("scontrol", "update", f"JobId={array}", "TimeMin=20")
    assert {one.soft for one in Slurm().queue().jobs if one.array_id == array} == {1200}
    other = cluster.run("scontrol", "update", f"JobId={array}", "TimeMin=10", user="nobody", check=False)
    assert other and cluster.show(array, "TimeMin") == "00:20:00"


def test_finding_without_the_option_backfill_lowers_the_hard_limit(slurm):
    cluster = slurm(speed=60, parameters=BF)
    blocker = cluster.submit("-w", "n1", "-N1", "-n4", "-t", 60, seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    cluster.submit("-w", "n1", "-N1", "-n8", "-t", 60)
    job = cluster.submit("-w", "n1", "-N1", "-n4", "-t", "3:00:00", "--time-min=10", seconds=60)
    cluster.wait_for(job, "RUNNING")
    hours, minutes, _ = map(int, cluster.show(job, "TimeLimit").split(":"))
    assert hours * 60 + minutes < 120


def test_finding_a_heterogeneous_job_is_ended_at_its_soft_limit(slurm):
    cluster = slurm(speed=60, parameters=f"time_min_as_soft_limit,{BF}")
    blocker = cluster.submit("-w", "n1", "-N1", "-n8", "-t", 6, seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    script = "#!/bin/sh\n#SBATCH -w n1 -N1 -n8 -t 10\n#SBATCH hetjob\n#SBATCH -w n2 -N1 -n8 -t 10\nexec sleep 60\n"
    (cluster.home / "jobs" / "het.sh").write_text(script)
    jobs = f"{cluster.place}/jobs"
    job = int(cluster.run("sbatch", "--parsable", "-D", jobs, "-o", "/dev/null", f"{jobs}/het.sh", user="alice"))
    for part in (job, job + 1):
        cluster.run("scontrol", "update", f"JobId={part}", "TimeMin=3")
    cluster.wait_for(job, "RUNNING", 20)
    assert cluster.show(job, "TimeLimit") == "00:03:00"
    cluster.wait_for(job, "TIMEOUT", 20)


def test_finding_a_soft_limit_lets_a_job_run_on_into_a_reservation(slurm):
    cluster = slurm(speed=60, parameters=f"time_min_as_soft_limit,{BF}")
    begin = datetime.fromtimestamp(Slurm().config().now + 600, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    cluster.run("scontrol", "create", "reservation", "reservationname=maint", f"starttime={begin}", "duration=120",
                "nodes=all", "users=root", "flags=maint")  # fmt: skip
    job = cluster.submit("-N1", "-n1", "-t", 60, seconds=14)
    time.sleep(1)
    assert cluster.show(job, "JobState") == "PENDING"
    start = Slurm().reservations()[0].start
    cluster.run("scontrol", "update", f"JobId={job}", "TimeMin=3")
    cluster.wait_for(job, "RUNNING")
    cluster.wait_for(job, "COMPLETED", 20)
    assert seconds(cluster.show(job, "EndTime")) > start


# --- plug-ins ---------------------------------------------------------------------------------------------------------


def test_the_plug_ins_of_slurm_set_advise_and_fail_open(slurm, tmp_path):
    """job_submit.lua sets a soft limit, which the adapter knows as ours; cli_filter.lua says a line."""
    cluster = slurm(more="JobSubmitPlugins=lua\nCliFilterPlugins=lua", up=False)
    place = cluster.home / "table"
    now = int(time.time())
    rows = [Row("alice", "p", "4", 60, "fit", 25, 600, 14, "m@3")]
    made = table_of("t", now, 900, None, 600, rows, sets=True).text()
    for name in ("job_submit.lua", "cli_filter.lua"):
        text = (ROOT / "deploy" / "slurm" / name).read_text().replace('local CLUSTER = ""', 'local CLUSTER = "t"')
        text = text.replace("/var/lib/jobcast/soft-limits", f"{cluster.place}/table")
        (cluster.home / name).write_text(text.replace("EVERY = 10", "EVERY = 0"))
    cluster.up()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")

    def sbatch(*options):
        words = ["chroot", "--userspec=alice:alice", str(cluster.root), "/usr/bin/env", "-i", "PATH=/usr/bin:/bin",
                 "USER=alice", f"SLURM_CONF={cluster.place}/slurm.conf", "sbatch", "--parsable", "-D",
                 f"{cluster.place}/jobs", "-o", "/dev/null", "-p", "p", "-n4", "-t", "1:00:00", *options]  # fmt: skip
        done = subprocess.run([*words, "--wrap", "sleep 1"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout), done.stderr.strip()

    for bad in (None, made[: len(made) // 2], made.replace(" t set", " other set"), "\0" * 100,
                made.replace(str(now + 900), str(now - 1))):  # fmt: skip
        place.unlink(missing_ok=True)
        if bad is not None:
            place.write_text(bad)
        job, said = sbatch("-J", "fit")
        assert (cluster.show(job, "TimeMin"), said) == ("N/A", "")
    place.write_text(made)
    job, said = sbatch("-J", "fit")
    line = "sbatch: jobs like this ran at most 10 min (9 of 10, 14 jobs); you asked for 1 h 00"
    assert said == f"{line}."
    assert cluster.show(job, "TimeMin", "TimeLimit") == ["00:25:00", "01:00:00"]
    starts = [ExpectedStart("p", 4, 60, now, now, now), ExpectedStart("p", 16, 60, now + 900, now + 900, now)]
    place.write_text(table_of("t", now, 900, None, 600, rows, sets=True, starts=starts).text())
    job, said = sbatch("-J", "fit")
    assert said.startswith(f"{line}; start expected now (as of ") and cluster.show(job, "TimeMin") == "00:25:00"
    own, _ = sbatch("-J", "fit", "--time-min=7")
    assert cluster.show(own, "TimeMin") == "00:07:00"
    array, _ = sbatch("-J", "fit", "--array=1-3")
    assert cluster.show(array, "TimeMin") == "N/A"
    late, _ = sbatch("-J", "fit", "--deadline=now+9hours")  # Lua cannot see it: the adapter clears
    assert cluster.show(late, "TimeMin") == "00:25:00"
    with beside(tmp_path / "j", Forecasts(None)) as one:
        assert one.cycle().changed == {"cleared": 1}
    assert cluster.show(late, "TimeMin") == "N/A" and cluster.show(job, "TimeMin") == "00:25:00"


def test_job_submit_is_taken_away_in_the_order_of_the_page(slurm, tmp_path):
    """First the table, then the soft limits, then the plug-in's name and the option; the file goes last."""
    cluster = slurm(more="JobSubmitPlugins=lua", up=False)
    place, text = cluster.home / "table", (ROOT / "deploy" / "slurm" / "job_submit.lua").read_text()
    rows = [Row("alice", "p", "1", 60, "fit", 25, 600, 14, "m@3")]
    place.write_text(table_of("t", int(time.time()), 900, None, 600, rows, sets=True).text())
    text = text.replace('local CLUSTER = ""', 'local CLUSTER = "t"').replace("EVERY = 10", "EVERY = 1")
    (cluster.home / "job_submit.lua").write_text(text.replace("/var/lib/jobcast/soft-limits", f"{cluster.place}/table"))
    cluster.up()
    blocker = cluster.submit("-N4", "-n32", "-t", 90)  # the table knows nothing of it
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", 60, "-J", "fit")
    assert cluster.show(job, "TimeMin") == "00:25:00"
    place.unlink()
    time.sleep(2.1)
    later = cluster.submit("-n1", "-t", 60, "-J", "fit")
    assert cluster.show(later, "TimeMin") == "N/A"
    with beside(tmp_path / "j") as one:
        done = clear_all(Slurm(), one.journal)
    assert (done.cleared, done.left, done.running) == (1, {}, {}) and cluster.show(job, "TimeMin") == "N/A"
    cluster.more = ""
    cluster.configure("bf_interval=1,bf_resolution=1,sched_interval=1")
    cluster.run("scontrol", "reconfigure")
    (cluster.home / "job_submit.lua").unlink()
    cluster.run("scontrol", "reconfigure")
    last = cluster.submit("-n1", "-t", 60, "-J", "fit")
    assert cluster.show(last, "TimeMin", "TimeLimit") == ["N/A", "01:00:00"]
