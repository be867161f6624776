"""`jobcast slurm`: a stand-in's commands on the PATH, a service at work or a model in the process."""

import json
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from predictors.core.errors import JobcastError
from predictors.schedulers.journal import Journal
from predictors.schedulers.table import parse
from tests.predictors.schedulers.conftest import CONFIG, adapter, cluster, cluster_on_path, endless_adapter, records
from tests.support.service_in_thread import running

__all__ = ["adapter", "cluster", "cluster_on_path", "records"]

T = 1_700_000_000
SHORT = {"State": "COMPLETED", "StartTime": "9000", "EndTime": "9300"}


@pytest.fixture
def busy(cluster_on_path, cluster):
    """A cluster where 60 jobs of eve's have ended, each after five minutes, and one waits."""
    cluster_on_path.change(jobs={str(n): SHORT | {"SubmitTime": str(1000 + n)} for n in range(1, 61)})
    cluster_on_path.job(100, SubmitTime="9900")
    return cluster_on_path


@pytest.mark.slow
def test_shadow_by_a_service_that_learns_from_the_queue(busy, command, tmp_path):
    with running(tmp_path, "last-two", machine_procs=64) as one:
        line = f"slurm shadow --url {one.url} --journal {tmp_path / 'j'} --cycles 1 --json --table {tmp_path / 't'}"
        code, out, err = command(line)
        assert code == 0, err
        first = json.loads(out)
        assert (first["jobs"], first["pending"], first["events"], first["ended"]) == (61, 1, 181, 60)
        one.learnt()
        second = json.loads(command(line)[1])
        assert first["changed"] | second["changed"] == {"would-set": 1}  # as soon as the service has learnt
        assert second["decisions"] in ({"predicted": 1}, {"unchanged": 1})
        assert second["events"] == 181  # told again by a new process: the service keeps the first
    assert (tmp_path / "t").read_text().startswith("jobcast-table 1 t advise ")
    assert busy.time_min(100) == "0:00"


def test_write_by_a_model_in_the_process_then_clear(busy, command, tmp_path):
    (tmp_path / "users").write_text("# ours\neve  # and nobody else\n")
    options = f"--model last-two --db sqlite:///{tmp_path}/own.db --journal {tmp_path / 'j'} --every 1"
    metrics = tmp_path / "jobcast.prom"
    code, out, err = command(f"slurm write --whitelist {tmp_path / 'users'} {options} --cycles 2 --metrics {metrics}")
    assert code == 0, err
    assert "1 set; reasons: 1 predicted" in out
    told = dict(line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#"))
    assert told['jobcast_slurm_looks_total{result="done"}'] == "2.0"
    assert told['jobcast_slurm_changes_total{what="set"}'] == told['jobcast_slurm_jobs{state="pending"}'] == "1.0"
    assert sum(float(n) for name, n in told.items() if name.startswith("jobcast_slurm_decisions{")) == 1
    minutes = int(busy.time_min(100).removesuffix(":00"))
    assert minutes == 20  # five minutes, and 15 to be sure
    code, out, _ = command(f"slurm clear --journal {tmp_path / 'j'}")
    assert code == 0 and out.startswith("1 soft limit cleared, 0 left.")
    assert busy.time_min(100) == "0:00"
    assert command(f"slurm clear --journal {tmp_path / 'j'}")[1].startswith("0 soft limits cleared")
    with Journal(tmp_path / "j") as journal:
        assert journal.open_jobs() == frozenset()


def test_systemd_hears_of_the_adapter_also_while_it_waits(cluster_on_path, command, tmp_path, monkeypatch):
    naps, asleep = [], time.sleep

    def sleep(seconds):
        if seconds != 30:  # of another's
            return asleep(seconds)
        naps.append(seconds)
        if len(naps) == 3:
            raise JobcastError("enough")
        return None

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "90000000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        monkeypatch.setattr(time, "sleep", sleep)
        options = f"--model last-two --db sqlite:///{tmp_path}/own.db --journal {tmp_path / 'j'} --every 3600"
        assert command(f"slurm watch {options}")[0] == 2
        assert [systemd.recv(64) for _ in range(4)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]


def test_clear_says_what_it_could_not_clear(cluster_on_path, adapter, command, tmp_path):
    cluster_on_path.job(1)
    one = adapter()
    one.cycle()
    one.journal.close()
    cluster_on_path.change(faults={"scontrol": "lies"})
    cluster_on_path.job(2, MinTime="9:00")
    code, out, _ = command(f"slurm clear --journal {tmp_path / 'journal'}")
    assert code == 1
    assert (
        "0 soft limits cleared, 1 left." in out and "did not make it" in out and "1 waiting job with a TimeMin" in out
    )


def test_clear_needs_the_journal_that_knows_and_names_what_runs(cluster_on_path, adapter, command, tmp_path):
    cluster_on_path.job(1)
    one = adapter()
    one.cycle()
    one.journal.close()
    (tmp_path / "empty").mkdir()
    code, _, err = command(f"slurm clear --journal {tmp_path / 'empty'}")
    assert code == 2 and "nothing was cleared" in " ".join(err.split())
    assert command("slurm clear")[0] == 2
    cluster_on_path.job(1, State="RUNNING", StartTime="9000")
    code, out, _ = command(f"slurm clear --journal {tmp_path / 'journal'}")
    text = " ".join(out.split())
    assert code == 1 and "leave the option until these have ended" in text and "job 1: RUNNING" in text
    assert "Now take" not in text


def test_check_names_what_is_wrong_a_line_each(cluster_on_path, cluster, command, tmp_path):
    table = tmp_path / "table"
    table.write_text("jobcast-table 1 other set 0 99999 0 0 0\nend 0\n")
    code, out, _ = command(f"slurm check --journal {tmp_path / 'j'}")
    assert code == 0, out
    assert "no accounts are kept" in out and "warn  clock" in out
    cluster_on_path.change(config=CONFIG | {"SLURM_VERSION": "22.05.8", "SchedulerType": "sched/builtin"})
    code, out, _ = command(f"slurm check --journal {tmp_path / 'j'} --table {table} --json")
    failed = {one["what"]: one["found"] for one in json.loads(out)["findings"] if one["status"] == "fail"}
    assert code == 1 and failed.keys() == {"soft limits", "scheduler", "table"}
    assert "is of the cluster other, not of t" in failed["table"]
    cluster_on_path.change(faults={"scontrol": "fails"})
    code, out, _ = command(f"slurm check --journal {tmp_path / 'j'}")
    assert code == 1 and "Unable to contact slurm controller" in out


@pytest.mark.slow
def test_a_table_comes_of_a_log_too(command, tmp_path):
    log, out = tmp_path / "sacct.txt", tmp_path / "table"
    lines = [
        f"{n}|eve|bio|p|8|60|{T + n}|{T + 9000 + 100 * n}|{T + 9300 + 100 * n}|COMPLETED|fit" for n in range(1, 80)
    ]
    log.write_text("JobID|User|Account|Partition|ReqCPUS|TimelimitRaw|Submit|Start|End|State|JobName\n"
                   + "\n".join(lines) + "\n")  # fmt: skip
    with running(tmp_path, "last-two") as one, one.client() as client:
        for n in range(40):
            client.send([{"kind": "submitted", "job_id": n, "time": 1000 * n, "procs": 8, "requested_time": 3600,
                          "user": "eve", "group": "bio", "queue": "p", "executable": "fit"},
                         {"kind": "started", "job_id": n, "time": 1000 * n + 1},
                         {"kind": "ended", "job_id": n, "time": 1000 * n + 301, "status": 1}])  # fmt: skip
        one.learnt()
        code, text, err = command(f"slurm table {log} --url {one.url} --out {out} --cluster big --hours 2 --set")
    assert code == 0, err
    assert "2 rows, from 1 classes of jobs" in text
    table = parse(out.read_text(), "big", int(time.time()))
    row = table.find("eve", "p", 8, 60, "fit")
    assert table.sets and (row.minutes, row.seconds, row.ended) == (20, 300, 79)
    code, _, err = command(f"slurm table {log} --url http://127.0.0.1:9 --out {log} --cluster big")
    assert code == 2 and "the very file that is read" in err


REFUSED = {
    "slurm write --url http://127.0.0.1:9": "--whitelist FILE, the users",
    "slurm write --all": "Give --url of a service, or --model",
    "slurm shadow --url http://127.0.0.1:9 --model last-two": "not both",
    "slurm shadow --url 127.0.0.1": "begins with http",
    "slurm shadow --url http://127.0.0.1:9 --rules RULES": "pad_minutes must be at least 1; got 0",
    "slurm write --whitelist EMPTY --url http://127.0.0.1:9": "names no user",
    "slurm shadow --url http://127.0.0.1:9 --table RULES/x": "cannot be written",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused(line, cluster_on_path, command, tmp_path):
    (tmp_path / "rules.toml").write_text("[soft_limits]\npad_minutes = 0\n")
    (tmp_path / "empty").write_text("# nobody\n")
    words = line.replace("RULES", str(tmp_path / "rules.toml")).replace("EMPTY", str(tmp_path / "empty"))
    code, _, err = command(f"{words} --journal {tmp_path / 'j'} --cycles 1")
    assert code == 2 and REFUSED[line] in " ".join(err.split()), err


def test_write_does_not_begin_without_the_option(cluster_on_path, cluster, command, tmp_path):
    cluster_on_path.change(config=CONFIG | {"SchedulerParameters": "bf_interval=30"})
    line = f"slurm write --all --url http://127.0.0.1:9 --journal {tmp_path / 'j'} --cycles 1"
    code, _, err = command(line)
    assert code == 2 and "SchedulerParameters lacks time_min_as_soft_limit" in err


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_journal_that_knows_what_is_ours(cluster_on_path, tmp_path):
    """The processes are killed ever later; afterwards every soft limit that is there can be cleared."""

    def limited():
        shown = json.loads(cluster_on_path.file.read_text())["jobs"]
        return {int(job) for job, one in shown.items() if one.get("MinTime", "0:00") != "0:00"}

    for n in range(1, 40):
        cluster_on_path.job(n)
    set_at_kill = 0
    for late in range(8):
        process = endless_adapter(tmp_path / "j")
        latest = time.monotonic() + 60  # a busy machine takes its time
        while len(limited()) < late and time.monotonic() < latest:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.3)  # a scontrol that was running comes to its end
        have = limited()
        set_at_kill = max(set_at_kill, len(have))
        with Journal(tmp_path / "j") as journal:
            assert have <= journal.open_jobs()
    assert set_at_kill >= 3
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", "slurm", "clear", "--journal", str(tmp_path / "j")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert re.match(r"\d+ soft limits cleared, 0 left", done.stdout), done.stdout + done.stderr
    assert 'MinTime": "25' not in cluster_on_path.file.read_text()


def test_the_table_says_when_a_job_submitted_now_would_start(cluster_on_path, cluster, command, tmp_path):
    """Sixteen processors run an hour's job with all of them; jobs of that user have needed half their requests."""
    log, now = tmp_path / "sacct.txt", T + 100_000
    lines = [f"{n}|eve|bio|p|16|60|{T + 10 * n}|{T + 20 * n}|{T + 20 * n + 1800}|COMPLETED|fit" for n in range(1, 40)]
    log.write_text("JobID|User|Account|Partition|ReqCPUS|TimelimitRaw|Submit|Start|End|State|JobName\n"
                   + "\n".join(lines) + "\n")  # fmt: skip
    run = {"State": "RUNNING", "NumCPUs": "16", "TimeLimit": "1:00:00", "StartTime": str(now - 600)}
    cluster_on_path.change(now=now, jobs={"1": run | {"SubmitTime": str(now - 900), "EligibleTime": str(now - 900)}})
    line = (f"slurm watch --model last-two --db sqlite:///{tmp_path}/own.db --journal {tmp_path / 'j'} --cycles 1 "
            f"--json --table {tmp_path / 'table'}")  # fmt: skip
    code, out, err = command(f"{line} --starts {log}")
    assert code == 0 and json.loads(out)["troubles"] == [], out + err
    found = parse((tmp_path / "table").read_text(), "t", now)
    assert [(one.partition, one.procs, one.limit, one.p50 - now, one.asked) for one in found.starts] == [
        ("p", 16, 60, 1200, now), ("", 16, 60, 1200, now)]  # fmt: skip
    assert command(line)[0] == 0 and parse((tmp_path / "table").read_text(), "t", now).starts == ()
    code, _, err = command(f"slurm watch --model last-two --journal {tmp_path / 'j'} --starts {log} --cycles 1")
    assert code == 2 and "name it by --table" in " ".join(err.split())


def test_clear_goes_by_marks_where_the_journal_is_lost(cluster_on_path, command, tmp_path):
    cluster_on_path.job(1, MinTime="25:00", admin_comment="jobcast:soft=25m")
    code, out, _ = command(f"slurm clear --journal {tmp_path / 'lost'}")
    assert code == 0 and out.startswith("1 soft limit cleared, 0 left.")
    assert cluster_on_path.time_min(1) == "0:00"
