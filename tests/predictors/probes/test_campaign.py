"""Control jobs are submitted when due and become rows; nothing that fails on the way costs a row that is there."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.data.runs import Runs, read_runs, write_runs
from predictors.probes.campaign import Campaign, add_run
from predictors.probes.campaign_file import DAY, due, read_control, start_times
from predictors.probes.measurements import ProbeRow, hosts_to_nodes, row_text
from tests.support.places import ROOT
from tests.support.waiting import until

ROW = ProbeRow(time=50.0, waits=tuple(k / 10 for k in range(1, 10)), hosts=("n3", "n4"), ranks=2)

# Stand-ins for the commands of Slurm and LSF: jobs run on this machine, a moment later, in the background.
SUBMIT = """\
echo "$@" >> "$STAND_IN/submitted"
[ -e "$STAND_IN/refuse" ] && {{ echo "error: queue is closed" >&2; exit 1; }}
id=$(( $(cat "$STAND_IN/last" 2>/dev/null || echo 1000) + 1 )); echo $id > "$STAND_IN/last"
for script; do :; done
[ -e "$STAND_IN/lose" ] && script=/bin/true
export SLURM_JOB_NODELIST='n[3-4]' LSB_DJOB_HOSTFILE="$STAND_IN/hosts"
printf 'n4\\nn4\\nn3\\n' > "$STAND_IN/hosts"
( bash "$script" > /dev/null 2>&1; touch "$STAND_IN/ended-$id" ) > /dev/null 2>&1 < /dev/null &
{reply}
"""
LAUNCH = """\
while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
[ -e "$STAND_IN/no-probes" ] && { echo "fabric is down" >&2; exit 1; }
cp "$STAND_IN/row.json" "$out"
"""
COMMANDS = {
    "sbatch": SUBMIT.format(reply='echo "$id;cluster"'),
    "squeue": 'id=$(printf "%s\\n" "$@" | sed -n s/--jobs=//p); [ -e "$STAND_IN/mute" ] && exit 1\n'
    'if [ -e "$STAND_IN/ended-$id" ]; then echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; fi\n'
    "echo RUNNING\n",
    "sacct": 'echo "NODE_FAIL|0:0"\n',
    "scontrol": 'printf "n3\\nn4\\n"\n',
    "srun": LAUNCH,
    "bsub": SUBMIT.format(reply='echo "Job <$id> is submitted to queue <normal>."'),
    "bjobs": 'for id; do :; done; if [ -e "$STAND_IN/ended-$id" ]; then echo "EXIT 1"; else echo RUN; fi\n',
    "mpirun": LAUNCH,
}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A folder of stand-in commands that come first on the PATH; files in it tell them to misbehave."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name, script in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}")
        (folder / name).chmod(0o755)
    (folder / "row.json").write_text(row_text(ROW))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(folder))
    return folder


def control_file(tmp_path, scheduler="slurm", extra="", apps=("AMG", "LBANN"), **keys):
    """Write a control file of applications that tell their region's time; keys overwrite an application's."""
    tables = ""
    for number, name in enumerate(apps, start=1):
        told = {"command": f"echo Solve time: {number}.5", "nodes": 2, "workload": "network",
                "region": r"Solve time: ([0-9.]+)", **keys}  # fmt: skip
        lines = "\n".join(f"{key} = {value!r}" for key, value in told.items())
        tables += f'[[application]]\nname = "{name}"\n{lines}\n'
    path = tmp_path / "control.toml"
    for file in (ROOT / "docs" / "examples").glob("*.toml"):
        shutil.copy(file, tmp_path)
    path.write_text(
        f'[control]\nruns = "runs.csv"\nfolder = "runs"\nscheduler = "{scheduler}"\npoll = 0.05\ngrace = 0\n'
        f"{extra}\n{tables}"
    )
    return path


def once(path, names=None):
    control = read_control(path)
    with Campaign(control) as campaign:
        return campaign.keep(0, names or [one.name for one in control.applications], by_schedule=False, wait=True)


def jobcast(*words, wait=True):
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "probes", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return (*process.communicate(timeout=300), process.returncode) if wait else process


# What may stand in a control file


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("seed = 1", "sede = 1"), "did you mean 'seed'"),
        (("[control]", "[controls]"), "did you mean 'control'"),
        (('"io"', '"disk"'), "workload 'disk'"),
        (("nodes = 16", "nodes = 0"), "at least 1"),
        (("nodes = 16", 'nodes = "16"'), "whole number"),
        (("nodes = 16", "node = 16"), "did you mean 'nodes'"),
        (("nodes = 16\n", ""), "'nodes'"),
        (("([0-9.]+)", "[0-9.]+"), "one group"),
        (("([0-9.]+)", "([0-9.]+"), "no regular expression"),
        (('"AMG"', '"A M G"'), "letters"),
        (('"slurm"', '"slrum"'), "did you mean 'slurm'"),
        (("seed = 1", "runs_per_day = [3, 2]"), "runs_per_day"),
        (("seed = 1", "runs_per_day = 3"), "runs_per_day"),
        (("seed = 1", "most_queued = 0"), "most_queued"),
        (("seed = 1", 'launcher = "srun {tasks}"'), "tasks"),
        (('"slurm"', '"none.toml"'), "none.toml"),
        (('"slurm"', '"control.toml"'), "No key 'control'"),
        (("seed = 1", 'options = "-p x"'), "must be a list"),
        (("seed = 1", "applications = []"), "No key 'applications'"),
        (("ring_iterations = 3", "ring_turns = 3"), "ring_turns"),
        (("ring_iterations = 3", "ring_iterations = 0"), "at least 1"),
        (("login = 900", "login = -1"), "id"),
        (("[[application]]", "[application]"), "tables"),
        (("[control]", "control ["), "no TOML"),
    ],
)
def test_a_control_file_is_checked_whole_before_anything_runs(tmp_path, change, said):
    good = (
        '[control]\nruns = "runs.csv"\nfolder = "runs"\nscheduler = "slurm"\nseed = 1\n'
        "[probes]\nring_iterations = 3\n[nodes]\nlogin = 900\n"
        '[[application]]\nname = "AMG"\ncommand = "amg"\nnodes = 16\nworkload = "io"\nregion = "time ([0-9.]+)"\n'
    )
    path = tmp_path / "control.toml"
    path.write_text(good)
    control = read_control(path)
    assert control.runs == tmp_path / "runs.csv" and control.probes.ring_iterations == 3
    assert change[0] in good
    path.write_text(good.replace(*change))
    with pytest.raises(JobcastError, match=said) as caught:
        read_control(path)
    assert "control.toml" in str(caught.value)


def test_the_last_time_in_the_output_counts_and_must_be_one(tmp_path):
    amg = read_control(control_file(tmp_path, region="^time: (.*)$")).named("AMG")
    assert amg.region_time("time: 3\nother time: 9\ntime: 4.5e1\n") == 45
    for output in ("", "time: soon", "time: -1", "time: nan", "time: inf"):
        assert amg.region_time(output) is None


@pytest.mark.parametrize("hosts", [["n1", "m1"], ["login"], [], ["n1", "n2x"]])
def test_nodes_are_not_known_unless_each_host_has_an_id_of_its_own(hosts):
    assert hosts_to_nodes(hosts) == []


# When


def test_every_application_runs_two_to_three_times_a_day_at_times_that_a_seed_fixes():
    names = ["AMG", "Kripke", "Laghos"]
    found = due(7, names, 100 * DAY - 1, 160 * DAY - 1)
    for name in names:
        of_one = [second for second, one in found if one == name]
        counts = np.bincount([second // DAY - 100 for second in of_one], minlength=60)
        assert set(counts) == {2, 3}
        assert len({second % DAY for second in of_one}) > 0.9 * len(of_one)
        hours = np.bincount([second % DAY // 21_600 for second in of_one], minlength=4)
        assert (hours > 15).all()
    assert [one for one in found if one[1] == "AMG"] == due(7, ["AMG"], 100 * DAY - 1, 160 * DAY - 1)
    assert found != due(8, names, 100 * DAY - 1, 160 * DAY - 1)
    assert start_times(7, "AMG", 100, (0, 0)) == []


@pytest.mark.parametrize("cuts", [[130.3], [100.1, 129.999, 150.0]])
def test_no_run_is_due_twice_or_lost_between_two_looks(cuts):
    edges = [100 * DAY, *(int(cut * DAY) for cut in cuts), 160 * DAY]
    pieces = [one for low, high in itertools.pairwise(edges) for one in due(1, ["A", "B"], low, high)]
    assert pieces == due(1, ["A", "B"], edges[0], edges[-1])


class _Instant:
    """A scheduler whose jobs end at once, and some never."""

    def __init__(self, stuck=()):
        self.stuck, self.submitted = stuck, []

    def check(self):
        """Nothing is needed."""

    def start(self, request):
        """End the job well, unless it is one that hangs."""
        self.submitted.append(request.name)
        folder = request.script.parent
        (folder / "application.out").write_text("Solve time: 12.5\n")
        if request.name not in self.stuck:
            (folder / "result").write_text(f"{len(self.submitted)}\n2\n30\n0\n")
        return str(500 + len(self.submitted))

    def queued(self, job):
        """All that has no result runs."""
        return True


def test_the_schedule_is_kept_and_an_application_that_hangs_gets_no_second_run(tmp_path):
    clock = [200.0 * DAY]
    campaign = Campaign(
        read_control(control_file(tmp_path, extra="seed = 3")),
        clock=lambda: clock[0],
        sleep=lambda _: clock.__setitem__(0, clock[0] + 300),
    )
    campaign._scheduler = _Instant(stuck=["jobcast-LBANN"])
    with campaign:
        told = campaign.keep(202.0 * DAY)
    expected = [name for _, name in due(3, ["AMG", "LBANN"], 200 * DAY, 202 * DAY)]
    assert campaign._scheduler.submitted.count("jobcast-AMG") == expected.count("AMG") == len(told.added)
    assert campaign._scheduler.submitted.count("jobcast-LBANN") == 1
    assert [name for name, _ in told.skipped] == ["LBANN"] * (expected.count("LBANN") - 1)
    runs, _ = read_runs(tmp_path / "runs.csv", strict=True)
    assert set(runs.application) == {"AMG"} and set(runs.region_time) == {12.5}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("(\\d+)", "\\d+"), "job: must have one group"),
        (("{job}", "{jobs}"), "a command holds 'jobs' in braces"),
        (("is not found", "is ("), "gone: is no regular expression"),
        (("ended", "over"), "No key 'over'"),
    ],
)
def test_a_file_of_commands_is_checked_before_anything_runs(tmp_path, change, said):
    path = control_file(tmp_path, "lsf.toml")
    text = (tmp_path / "lsf.toml").read_text()
    assert change[0] in text
    (tmp_path / "lsf.toml").write_text(text.replace(*change))
    with pytest.raises(JobcastError, match=said) as caught:
        read_control(path)
    assert "\n" not in str(caught.value)


# Slurm and LSF


@pytest.mark.parametrize("scheduler", ["slurm", "lsf.toml"])
def test_a_job_becomes_a_row_with_its_probes_nodes_and_times(tmp_path, stand_in, scheduler):
    before = time.time()
    path = control_file(tmp_path, scheduler, 'options = ["--account=x", "-q{nodes}"]', options=["--exclusive"])
    told = once(path)
    assert len(told.added) == 2 and not told.failed
    runs, _ = read_runs(tmp_path / "runs.csv", strict=True)
    runs = runs.select(np.argsort(runs.application))
    assert runs.application.tolist() == ["AMG", "LBANN"]
    assert runs.region_time.tolist() == [1.5, 2.5]
    assert runs.nodes(0).tolist() == [3, 4]
    assert sorted(runs.job_id.tolist()) == [1001, 1002]
    assert runs.probes[1].tolist() == list(ROW.waits)
    assert runs.workload.tolist() == ["network"] * 2
    assert (before <= runs.start).all() and (runs.start < runs.end).all() and (runs.end <= time.time()).all()
    asked = (stand_in / "submitted").read_text()
    assert "--account=x -q2 --exclusive" in asked
    assert ("--nodes=2" if scheduler == "slurm" else "-nnodes 2") in asked
    assert len(list((tmp_path / "runs" / "done").iterdir())) == 2
    assert not list((tmp_path / "runs" / "queued").iterdir())


def test_a_refusal_is_said_and_costs_no_row(tmp_path, stand_in):
    path = control_file(tmp_path)
    once(path)
    table = (tmp_path / "runs.csv").read_bytes()
    (stand_in / "refuse").touch()
    _out, said, code = jobcast("control", path, "--once")
    assert code == 2
    assert said.splitlines()[-1].startswith("jobcast: 2 runs failed, first AMG-")
    assert "refused with status 1: error: queue is closed" in said
    assert (tmp_path / "runs.csv").read_bytes() == table
    (stand_in / "refuse").unlink()
    assert len(once(path).added) == 2
    assert len(read_runs(tmp_path / "runs.csv", strict=True)[0]) == 4


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"command": "echo bad node; exit 3"}, "status 3; its last line: bad node"),
        ({"command": "sleep 30", "walltime": 1}, "walltime of 1 s"),
        ({"command": "echo nothing"}, "no time in its output"),
    ],
)
def test_a_run_that_failed_gives_no_row(tmp_path, stand_in, keys, said):
    told = once(control_file(tmp_path, apps=["AMG"], **keys))
    assert not told.added and said in told.failed[0][1]
    assert not (tmp_path / "runs.csv").exists()
    (folder,) = (tmp_path / "runs" / "failed").iterdir()
    assert said in (folder / "problem").read_text()


@pytest.mark.parametrize(("scheduler", "said"), [("slurm", "Slurm says NODE_FAIL"), ("lsf.toml", "LSF says EXIT 1")])
def test_a_job_that_vanished_is_told_with_the_schedulers_last_message(tmp_path, stand_in, scheduler, said):
    (stand_in / "lose").touch()
    told = once(control_file(tmp_path, scheduler, apps=["AMG"]))
    assert said in told.failed[0][1]


def test_a_scheduler_that_does_not_answer_is_asked_again(tmp_path, stand_in):
    (stand_in / "mute").touch()
    told = once(control_file(tmp_path, apps=["AMG"], command="sleep 0.5; echo Solve time: 1"))
    assert len(told.added) == 1 and not told.failed


def test_probes_that_failed_leave_their_columns_empty(tmp_path, stand_in):
    (stand_in / "no-probes").touch()
    once(control_file(tmp_path, apps=["AMG"]))
    runs, _ = read_runs(tmp_path / "runs.csv", strict=True)
    assert np.isnan(runs.probes).all() and runs.nodes(0).tolist() == [3, 4]
    (folder,) = (tmp_path / "runs" / "done").iterdir()
    assert "fabric is down" in (folder / "problem").read_text()


def test_without_a_region_the_command_is_timed_and_the_probes_are_not(tmp_path, stand_in):
    (stand_in / "srun").write_text(f"#!/bin/bash\nsleep 1\n{LAUNCH}")
    once(control_file(tmp_path, apps=["AMG"], region="", command="sleep 0.2"))
    runs, _ = read_runs(tmp_path / "runs.csv", strict=True)
    assert 0.2 <= runs.run_time[0] < runs.end[0] - runs.start[0] - 0.9


def test_missing_commands_are_named_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobcastError, match="sbatch: no such command"):
        once(control_file(tmp_path))
    assert not (tmp_path / "runs").exists()


# Interrupted


@pytest.mark.slow
def test_a_program_that_was_killed_loses_no_job_and_counts_none_twice(tmp_path, stand_in):
    path = control_file(tmp_path, apps=["AMG"], command="sleep 1; echo Solve time: 4")
    program = jobcast("control", path, "--once", wait=False)
    queued = tmp_path / "runs" / "queued"
    until(lambda: any('"job": "1001"' in one.read_text() for one in queued.glob("[!.]*/run.json")))
    program.kill()
    program.communicate()
    until(lambda: list(queued.glob("[!.]*/result")))
    saved = tmp_path / "saved"
    shutil.copytree(queued, saved)
    out, said, code = jobcast("collect", path)
    assert (code, out.split(": ")[1]) == (0, "1 run added, 0 failed\n"), said
    assert len(read_runs(tmp_path / "runs.csv", strict=True)[0]) == 1
    # as if it had been killed between the row and the move of the folder
    shutil.rmtree(tmp_path / "runs" / "done")
    shutil.copytree(saved, queued, dirs_exist_ok=True)
    assert jobcast("collect", path)[2] == 0
    assert len(read_runs(tmp_path / "runs.csv", strict=True)[0]) == 1


def test_a_submission_that_was_cut_short_is_told(tmp_path, stand_in):
    path = control_file(tmp_path, apps=["AMG"])
    once(path)
    (folder,) = (tmp_path / "runs" / "done").iterdir()
    again = folder.rename(tmp_path / "runs" / "queued" / "AMG-cut")
    (again / "result").unlink()
    (again / "run.json").write_text((again / "run.json").read_text().replace('"1001"', '""'))
    (tmp_path / "runs" / "queued" / ".new-x").mkdir()
    with Campaign(read_control(path)) as campaign:
        campaign.collect()
    assert "cut short" in campaign.result.failed[0][1]


def test_two_at_once_are_refused(tmp_path, stand_in):
    path = control_file(tmp_path)
    with Campaign(read_control(path)):
        _out, said, code = jobcast("collect", path)
        assert code == 2 and "another jobcast keeps these runs" in said
    assert jobcast("collect", path)[2] == 0


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_jobs_at_the_scheduler_for_the_next_call(tmp_path, stand_in, how):
    path = control_file(tmp_path, apps=["AMG"], command="sleep 1; echo Solve time: 4")
    program = jobcast("control", path, "--once", wait=False)
    until(lambda: (stand_in / "last").exists())
    time.sleep(0.2)
    program.send_signal(how)
    _, said = program.communicate(timeout=120)
    assert program.returncode == 130 and "the next call collects" in said
    until(lambda: list((tmp_path / "runs" / "queued").glob("*/result")))
    assert "1 run added" in jobcast("collect", path)[0]


# The table


def one_run(job_id=1, start=0.0):
    return Runs.of(
        job_id=[job_id], application=["AMG"], node_count=[2], start=[start], end=[start + 1], workload=["io"]
    )


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_a_run_is_added_once_and_a_job_id_that_is_taken_is_replaced(tmp_path, name):
    path = tmp_path / name
    start = 1_795_240_365.123456789
    assert add_run(path, one_run(5, start))
    assert not add_run(path, one_run(5, start))
    assert add_run(path, one_run(5, start + 1e-3))
    assert add_run(path, one_run(3, start + 2))
    assert read_runs(path, strict=True)[0].job_id.tolist() == [5, 6, 3]


def test_a_table_that_would_lose_rows_is_refused_at_once(tmp_path, stand_in):
    path = control_file(tmp_path)
    write_runs(one_run(), tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open("a") as table:
        table.write("x,y\n")
    before = (tmp_path / "runs.csv").read_bytes()
    with pytest.raises(JobcastError, match=r"runs\.csv:3"):
        once(path)
    assert (tmp_path / "runs.csv").read_bytes() == before
    assert not (stand_in / "submitted").exists()


# For real


def test_plain_mpirun_gives_a_row_with_probes_measured_here(tmp_path, monkeypatch):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian: apt-get install openmpi-bin)")
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (pip install 'jobcast[probes]')")
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    sizes = "[probes]\nring_bytes = 200000\nallreduce_bytes = 80000\n"
    path = control_file(tmp_path, "this-machine.toml", 'launcher = "mpirun --oversubscribe -n 2"\n' + sizes, nodes=1)
    _out, said, code = jobcast("control", path, "--once", "--json")
    assert code == 0, said
    runs, _ = read_runs(tmp_path / "runs.csv", strict=True)
    assert runs.application.tolist() == ["AMG", "LBANN"]
    assert runs.start[1] > runs.end[0], "they must not run at once"
    assert (runs.probes > 0).all()


def test_the_command_tells_the_last_known_probes(tmp_path, command):
    (tmp_path / "row.json").write_text(row_text(ROW))
    code, out, _ = command(f"probes last {tmp_path}/row.json --as-of 80 --json")
    assert code == 0 and '"age_s": 30.0' in out and '"mean_allreduce_wait": 0.9' in out
    _, out, _ = command(f"probes last {tmp_path}/row.json --as-of 80 --oldest 20 --json")
    assert '"age_s": null' in out
