"""The command line: bad input ends with one clear line and status 2, never a traceback, never a half-written file."""

import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from experiments.cli import _fail as fail
from predictors.data.swf import write_swf
from predictors.data.synthetic import generate_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small log and with every kind of file that is none."""
    place = tmp_path_factory.mktemp("logs")
    write_swf(generate_log(200, seed=1, procs=64), place / "log.swf")
    (place / "empty.swf").write_bytes(b"")
    (place / "binary").write_bytes(bytes(range(256)) * 20)
    whole = gzip.compress((place / "log.swf").read_bytes())
    (place / "cut.swf.gz").write_bytes(whole[: len(whole) // 2])
    (place / "never.swf").write_text("; MaxProcs: 8\n1 0 0 -1 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1\n")
    (place / "wide.swf").write_text("; MaxProcs: 8\n1 0 0 10 16 -1 -1 16 100 -1 1 1 1 1 1 1 -1 -1\n")
    return place


@pytest.fixture
def jobcast(folder, monkeypatch, command):
    """Run the command in the folder; return its exit status and what it printed."""
    monkeypatch.chdir(folder)
    for variable in ("JOBCAST_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    return command


BAD = {
    "missing file": ("log info nowhere.swf", "nowhere.swf"),
    "directory": ("log info .", "."),
    "binary file": ("log info binary", "binary"),
    "gzip cut short": ("log info cut.swf.gz", "cut"),
    "empty file": ("log info empty.swf", "empty"),
    "unknown predictor": ("evaluate log.swf --predictors forrest", "did you mean 'forest'"),
    "unknown protocol": ("evaluate log.swf --protocol rais", "did you mean 'reis'"),
    "training share": ("evaluate log.swf --train 1.5", "1.5"),
    "unknown policy": ("simulate log.swf --policy eazy", "did you mean 'easy'"),
    "unknown estimates": ("simulate log.swf --estimates last-tow", "did you mean 'last-two'"),
    "unknown correction": ("simulate log.swf --correction doublin", "did you mean 'doubling'"),
    "job wider than the machine": ("simulate log.swf --procs 1", "--drop-wide"),
    "unknown partition": ("simulate log.swf --partition 77", "no job in partition 77"),
    "no processors": ("simulate log.swf --procs 0", "processor"),
    "wide": ("simulate wide.swf", "--drop-wide"),
    "no jobs left": ("simulate never.swf", "no job"),
    "unwritable schedule": ("simulate log.swf --schedule missing/out.csv", "missing"),
    "schedule without a format": ("simulate log.swf --schedule .", "choose a name"),
    "unknown model": ("simulate log.swf --estimates models:/nothing@champion", "no model store"),
    "folder without a report": ("report .", "no report.json"),
    "report of no folder": ("report log.swf", "is no folder"),
    "unknown experiment": ("experiment ries", "did you mean 'reis'"),
    "workers for one long run": ("experiment start-times --log log.swf --workers 2", "several workers cannot share"),
    "a queue without memory": ("experiment ceil --queue slurm", "--memory 4GB"),
    "advice by an unknown queue": ("advise log.swf --queue slrm", "did you mean 'slurm'"),
    "output onto input": ("log convert log.swf log.swf", "very file"),
    "schedule onto input": ("simulate log.swf --schedule ./log.swf", "very file"),
    "predictions onto input": ("predict models:/x/1 log.swf --out log.swf", "very file"),
    "unknown format to write": ("log convert log.swf out.csv", "out.csv"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_and_status_2(case, folder, jobcast):
    line, told = BAD[case]
    before = {path.name for path in folder.iterdir()}
    status, out, err = jobcast(line)
    assert status == 2, err
    assert len(err.strip().splitlines()) == 1, err
    assert told.lower() in err.lower()
    assert out == ""
    assert {path.name for path in folder.iterdir()} - before <= {"mlruns"}


def test_a_failure_after_reading_tells_what_reading_dropped(folder, jobcast):
    row = "0 10 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1"
    (folder / "odd.swf").write_text(
        f"; MaxProcs: 8\n1 0 {row}\n2 x {row}\n3 5 0 -1 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n"
    )
    for line in ("evaluate odd.swf", "simulate odd.swf --procs 2"):
        status, _, err = jobcast(line)
        assert status == 2 and "1 dropped by rule no-submission" in err and len(err.strip().splitlines()) == 1, err
    assert "While" not in jobcast("simulate log.swf --policy eazy")[2]


def test_no_traceback_reaches_a_real_shell(folder):
    command = [sys.executable, "-m", "experiments.cli", "log", "info", "binary"]
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("jobcast: ") and "Traceback" not in done.stderr


def shell(folder, line, **more):
    """Run `jobcast LINE` in a real shell, redirections and all; return the finished process."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)} | more
    line = f"{sys.executable} -m experiments.cli {line}"
    return subprocess.run(line, shell=True, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("redirected", "status"), [(">&-", 0), (">&- 2>&-", 0), ("| true", 0), (">/dev/full", 2)], ids=str
)
def test_closed_and_broken_streams_end_without_a_traceback(folder, redirected, status):
    done = shell(folder, f"log info log.swf {redirected}")
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (status, "", False), done.stderr


def test_answers_do_not_depend_on_the_hash_seed(folder):
    """Sets and dictionaries must not decide anything."""
    line, found = "simulate log.swf --policy default --estimates default --by user --json", []
    for seed in ("1", "2"):
        document = json.loads(shell(folder, line, PYTHONHASHSEED=seed).stdout)
        found.append({key: value for key, value in document.items() if "second" not in key})
    assert found[0] == found[1]


def test_json_is_the_only_thing_on_stdout(jobcast):
    status, out, _ = jobcast("simulate log.swf --policy easy-sjbf --estimates tsafrir --json")
    document = json.loads(out)
    assert status == 0
    assert document["n_jobs"] == 200
    assert {"log", "policy", "estimates", "correction", "procs", "mean_wait_s", "mean_bounded_slowdown",
            "median_bounded_slowdown", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s", "makespan_s", "utilisation",
            "engine_seconds", "jobs_per_second"} <= set(document)  # fmt: skip


def test_a_shaken_log_is_told_and_is_the_same_for_every_policy(jobcast):
    def simulated(more):
        status, out, err = jobcast(f"simulate log.swf {more} --json")
        assert status == 0, err
        return json.loads(out)

    plain, one, again, other = map(simulated, ("", "--shake 1", "--shake 1 --by run-time", "--shake 2"))
    assert (plain["shake"], one["shake"]) == (None, 1)
    figures = [{key: value for key, value in found.items() if key.startswith(("m", "p99", "w"))}
               for found in (plain, one, again, other)]  # fmt: skip
    assert figures[1] == figures[2] != figures[3] != figures[0]
    assert sum(row["n_jobs"] for row in again["by"].values()) == 200


def test_help_imports_nothing_heavy():
    """`jobcast --help` must answer at once: the heavy libraries are imported by the commands that need them."""
    heavy = {"numpy", "pandas", "numba", "sklearn", "mlflow", "matplotlib", "xgboost"}
    code = (
        f"import sys, typer, experiments.cli as c; typer.main.get_command(c.app); print({heavy} & sys.modules.keys())"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing_half_done(ending, tmp_path):
    """A batch system at its walltime, a terminal that goes away: what Ctrl-C would tidy up is tidied up."""
    code = f"""
        import signal, sys
        from experiments import cli
        from predictors.data.files import whole_file

        def command():
            with whole_file({str(tmp_path / "table.csv")!r}) as part:
                part.write_text("half")
                signal.raise_signal({int(ending)})

        signal.signal({int(ending)}, signal.SIG_DFL)  # whatever those who run tests do with it
        cli.app = command
        cli.main()
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert ended.returncode == -ending, ended.stderr  # who waits for it sees how it ended
    assert not ended.stderr
    assert not list(tmp_path.iterdir())


def test_errors_do_nothing_to_the_terminal(capsys):
    with pytest.raises(SystemExit):
        fail("log '\x1b[2J\u202e'\n is odd.")
    assert capsys.readouterr().err == "jobcast: log '\ufffd[2J\ufffd' is odd.\n"
