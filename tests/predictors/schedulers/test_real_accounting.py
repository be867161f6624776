"""A real Slurm 26.05 with slurmdbd: what sacct tells, who may change what, and what accounts do to priorities.

`make test-slurm` runs these tests; `finding` in a name is told in `test_real_slurm.py`.
"""

import os
import re
import subprocess
import time
from collections import Counter

import pytest

from predictors.data.formats.detect import read_log
from predictors.schedulers.journal import read_journal
from predictors.schedulers.operation import check_site, clear_all
from predictors.schedulers.slurm import Slurm
from tests.predictors.schedulers.conftest import Forecasts
from tests.predictors.schedulers.test_real_slurm import BF, beside, slurm
from tests.support.commands import invoke
from tests.support.places import ROOT
from tests.support.waiting import until

__all__ = ["slurm"]

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SOFT = f"time_min_as_soft_limit,{BF}"
AGE = "PriorityType=priority/multifactor\nPriorityWeightAge=100000\nPriorityMaxAge=0-1\nPriorityCalcPeriod=1"


@pytest.fixture
def accounts(slurm):
    """A cluster with accounts: alice and bob may run jobs, oper is an operator."""

    def start(**options):
        cluster = slurm(accounting=True, **options)
        cluster.add_account("physics")
        for name, *more in (("alice",), ("bob",), ("oper", "adminlevel=Operator")):
            cluster.add_user(name, "physics", *more)
        return cluster

    return start


def exported(folder, *form):
    """Return what the sacct command of docs/logs.md writes; with another form, what that one does."""
    page = (ROOT / "docs" / "logs.md").read_text()
    line = re.search(r"sacct -a -X -D .*? > log.txt", page, re.DOTALL)[0].replace("\\\n", "").split()
    words = [folder / "sacct", *line[1 : line.index("--parsable2")], *(form or line[line.index("--parsable2") : -2])]
    about = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    return subprocess.run(words, env=about, check=True, capture_output=True).stdout


def test_what_a_real_sacct_tells_is_read_told_on_and_a_log(accounts, tmp_path, monkeypatch):
    """Jobs of every kind end and leave the queue; the adapter, the reader of logs and the backtest agree on them."""
    cluster = accounts(speed=60, parameters=SOFT, more="MinJobAge=10")
    scheduler = Slurm()
    begin = scheduler.config().now
    odd = cluster.submit("-n4", "-t", 60, "-J", "a|b ü,c", seconds=1)
    array = cluster.submit("-n1", "-t", 60, "--array=1-3", seconds=1)
    het = cluster.submit("-n1", "-t", 10, ":", "-n2", "-t", 10, seconds=1)
    late = cluster.submit("-n1", "-t", 1, seconds=30)
    free = cluster.submit("-n1", "-t", "UNLIMITED", seconds=1)
    again = cluster.submit("-n1", "-t", 60, "--requeue", seconds=1)
    cluster.wait_for(again, "RUNNING")
    cluster.run("scontrol", "requeue", str(again))
    held = cluster.submit("-n1", "--hold", "-t", 10)
    blocker = cluster.submit("-N4", "-n32", "-t", 60, seconds=1)
    never = cluster.submit("-N4", "-n32", "-t", 60)
    with beside(tmp_path / "j", mode="shadow") as one:
        seen = one.cycle()
        assert seen.changed["would-set"] >= 1
    cluster.run("scancel", str(held), str(never))
    until(lambda: not scheduler.queue().jobs, 40)  # slurmctld forgets what ended

    rows = scheduler.ended_since(begin - 60)
    states = {(job.key, job.restarts): job.state for job in rows.jobs}
    done = {(str(job), 0): "COMPLETED" for job in (odd, het, het + 1, free, blocker)}
    done |= {(f"{array}_{task}", 0): "COMPLETED" for task in (1, 2, 3)}
    done |= {(str(late), 0): "TIMEOUT", (str(again), 0): "REQUEUED", (str(again), 1): "COMPLETED"}
    assert rows.bad == {}
    assert states == done | {(str(held), 0): "CANCELLED", (str(never), 0): "CANCELLED"}
    jobs = {job.key: job for job in rows.jobs}
    assert jobs[str(odd)].name == "a|b ü,c" and jobs[str(odd)].limit == 3600 and jobs[str(free)].limit is None
    assert jobs[str(het)].is_het and jobs[str(het + 1)].is_het and not jobs[str(odd)].is_het
    (first, second) = sorted((job for job in rows.jobs if job.job_id == again), key=lambda job: job.restarts)
    assert first.submit < first.end <= second.submit and second.eligible - second.submit >= 120  # two submissions
    assert jobs[str(held)].eligible is None and jobs[str(held)].start is None

    forecasts = Forecasts()
    with beside(tmp_path / "j", forecasts, mode="watch") as one:  # it began again, and squeue knows nothing
        first, second = one.cycle(), one.cycle()
    assert (seen.ended + first.ended, second.ended, second.events) == (len(rows.jobs), 0, 0)  # each once
    assert Counter(one["kind"] for one in forecasts.events)["ended"] == len(done)
    outcomes = {one["job"]: one for one in read_journal(tmp_path / "j") if one["what"] == "outcome"}
    assert outcomes[str(blocker)]["ran"] == jobs[str(blocker)].end - jobs[str(blocker)].start

    text, json = tmp_path / "log.txt", tmp_path / "log.json"
    text.write_bytes(exported(tmp_path / "bin"))
    json.write_bytes(exported(tmp_path / "bin", "--json"))
    log, _ = read_log(text)
    same, _ = read_log(json)
    assert len(log) == len(same) == len(rows.jobs) - 2  # a job's two runs are one; the held one is in the next test
    ran = {int(number): int(run) for number, run in zip(log.values["job_id"], log.values["run_time"], strict=True)}
    assert ran[odd] == jobs[str(odd)].end - jobs[str(odd)].start
    for column in ("submit", "run_time", "wait", "requested_time"):
        assert sorted(log.values[column].tolist()) == sorted(same.values[column].tolist()), column

    monkeypatch.chdir(tmp_path)
    found = invoke("backtest", text, "--procs", "32", "--seeds", "5", "--json")
    assert found.exit_code == 0, found.output
    assert '"2026-01"' in found.output


def test_finding_a_job_that_was_never_eligible_is_told_by_state_alone(accounts):
    cluster = accounts()
    held = cluster.submit("-n1", "--hold", "-t", 10)
    cluster.run("scancel", str(held))
    sacct = ("sacct", "-n", "-a", "-X", "-o", "JobID", "-S", "now-1hour", "-E", "now")
    until(lambda: str(held) in cluster.run(*sacct, "-s", "CA"), 15)
    assert str(held) not in cluster.run(*sacct)


def test_an_operator_sets_soft_limits_and_another_user_does_not(accounts, tmp_path, monkeypatch):
    """The adapter as oper: it checks, sets, reads back and clears. As bob it is told so, and changes nothing."""
    cluster = accounts()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", 60)
    for name, right, changed in (("bob", "fail", {"not-done": 1}), ("oper", "ok", {"set": 1})):
        cluster.commands(tmp_path / "bin", name)
        monkeypatch.setenv("LOGNAME", name)
        found = {one.what: one for one in check_site(Slurm(), tmp_path / name)}
        assert found["rights"].status == right and name in found["rights"].found
        assert found["accounts"].found == "sacct answers"
        with beside(tmp_path / name) as one:
            done = one.cycle()
            assert done.changed == changed
            assert cluster.show(job, "TimeMin", "TimeLimit") == ["00:11:00" if name == "oper" else "N/A", "01:00:00"]
            if name == "bob":
                assert "Invalid user id" in done.troubles[0]
            else:
                assert clear_all(Slurm(), one.journal).left == {}
    assert cluster.show(job, "TimeMin") == "N/A"


def test_finding_what_an_operator_may_and_may_not(accounts):
    """Of other users' jobs TimeMin and far more; not AdminComment, no node, no reconfiguration."""
    cluster = accounts()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", 60)
    may = ("TimeMin=30", "TimeMin=0", "Comment=x", "Extra=x", "TimeLimit=50", "TimeLimit=70", "Priority=5", "Nice=-5")
    for change in (*may, "AdminComment=x"):
        told = {user: cluster.run("scontrol", "update", f"JobId={job}", change, user=user, check=False)
                for user in ("bob", "oper")}  # fmt: skip
        assert "Invalid user id" in told["bob"], change
        assert (told["oper"] == "") == (change in may), (change, told)
    together = cluster.run(
        "scontrol", "update", f"JobId={job}", "TimeMin=20", "AdminComment=x", user="oper", check=False
    )
    assert "denied" in together and cluster.show(job, "TimeMin") == "N/A"  # whole or not at all
    for words in (("hold", str(job)), ("release", str(job)), ("requeue", str(blocker))):
        assert cluster.run("scontrol", *words, user="oper", check=False) == ""
    assert "TimeMin" not in cluster.run("sacct", "-e")  # the journal alone says what was set
    for words in (("reconfigure",), ("update", "NodeName=n1", "AvailableFeatures=quiet")):
        assert "Invalid user id" in cluster.run("scontrol", *words, user="oper", check=False)


@pytest.mark.parametrize("accounting", [False, True])
def test_finding_age_counts_only_where_slurmdbd_is(accounting, slurm):
    """Without slurmdbd Slurm takes the weight of age for 0, whatever slurm.conf says, and says nothing."""
    cluster = slurm(speed=60, parameters=SOFT, accounting=accounting, more=AGE)
    blocker = cluster.submit("-N4", "-n32", "-t", 60, seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", "2:00:00")
    time.sleep(2.5)  # at least two minutes of the cluster
    age = int(cluster.run("sprio", "-h", "-j", str(job), "-o", "%A"))
    assert age >= 100_000 * 100 / 3600 if accounting else age == 0
    assert "100000" in cluster.run("sprio", "-h", "-w", "-o", "%A")


def test_finding_a_hold_waits_mildly_and_a_feature_does_not(slurm):
    """A job may be held by `uhold`, which its owner takes back. A feature that no node has active refuses others' jobs.

    So a start is delayed by a hold, where it ever is: a job with such a feature loses its priority, and whoever submits
    one is refused.
    """
    cluster = slurm(speed=60, parameters=SOFT)
    cluster.run("scontrol", "update", "NodeName=n[1-4]", "AvailableFeatures=quiet,any", "ActiveFeatures=quiet,any")
    blocker = cluster.submit("-N4", "-n32", "-t", 60, seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    job, other = cluster.submit("-n1", "-t", 60), cluster.submit("-n1", "-t", 60)
    for how, reason, answer in (("hold", "JobHeldAdmin", "denied"), ("uhold", "JobHeldUser", "")):
        cluster.run("scontrol", how, str(job))
        assert cluster.show(job, "Reason", "Priority", "JobState") == [reason, "0", "PENDING"]
        told = cluster.run("scontrol", "release", str(job), user="alice", check=False)
        assert answer in told and bool(told) == bool(answer)
        cluster.run("scontrol", "release", str(job))
        assert cluster.show(job, "Priority") != "0"
    cluster.run("scontrol", "update", f"JobId={other}", "Features=quiet")
    cluster.run("scontrol", "update", "NodeName=n[1-4]", "ActiveFeatures=any")
    until(lambda: cluster.show(other, "Reason") == "BadConstraints", 20)
    assert cluster.show(other, "Priority") == "0"
    refused = cluster.run("sbatch", "-C", "quiet", "--wrap", "true", user="alice", check=False)
    assert "not available" in refused


def test_marks_know_what_is_ours_without_a_journal(accounts, tmp_path, monkeypatch):
    """SlurmUser marks by AdminComment, an operator by Comment alone; a new journal clears both by their marks."""
    cluster = accounts()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    first = cluster.submit("-n1", "-t", 60, "--array=1-3")
    with beside(tmp_path / "first", mark="admin-comment") as one:
        assert one.cycle().changed == {"set": 1}
    second, kept = cluster.submit("-n1", "-t", 60), cluster.submit("-n1", "-t", 60, "--comment", "my own")
    cluster.commands(tmp_path / "bin", "oper")
    monkeypatch.setenv("LOGNAME", "oper")
    with beside(tmp_path / "second", mark="comment") as one:
        done = one.cycle()
        assert (done.changed, done.troubles) == ({"set": 2}, [])
    third = cluster.submit("-n1", "-t", 60)
    with beside(tmp_path / "third", mark="admin-comment") as one:
        done = one.cycle()
        assert done.changed == {"set": 1} and "AdminComment was refused" in done.troubles[0]
    marks = {job.job_id: (job.mark, job.comment) for job in Slurm().queue().jobs}
    assert marks[first] == ("jobcast:soft=11m", "") and marks[second] == ("", "jobcast:soft=11m")
    assert marks[kept] == ("", "my own") and marks[third] == ("", "")
    cluster.commands(tmp_path / "bin", "root")
    with beside(tmp_path / "lost") as one:
        done = clear_all(Slurm(), one.journal)
    assert (done.cleared, done.left, done.others) == (4, {}, 2)  # three tasks and a job; two are not marked
    assert not any(job.marked for job in Slurm().queue().jobs)
