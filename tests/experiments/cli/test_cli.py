"""The command line: bad input is one clear line and status 2, no option is without effect, explanations, budgets."""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import is_dataclass
from importlib import import_module
from inspect import getsource, signature
from typing import get_type_hints

import pytest
from typer.main import get_command

from experiments.cli import commands, set_up
from experiments.cli.commands import options_of, work_of
from experiments.cli.main import STUDIES, app
from experiments.cli.main import _fail as fail
from experiments.cli.options.experiment import FromLog, Shared
from experiments.registry import EXPERIMENTS, MANY
from experiments.runs.setting import WITHOUT_LOG
from experiments.runs.simulate import run_by_name
from jobcast import JobcastError, clean, generate_log
from predictors.core.compressed import read_text
from predictors.data.formats.swf import write_swf
from tests.support.places import ROOT


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
    return place


def commands_of(group):
    """Yield the name of each command below a group, and where its work stands."""
    for name, home in get_command(group).commands.data.items():
        yield from ((name, home),) if isinstance(home, str) else commands_of(home)


def test_every_option_of_a_command_is_read():
    """By its name, or with all others of its class: `vars(args.pool)`."""

    def unread(kind, text, within=""):
        for name, hint in get_type_hints(kind).items():
            if is_dataclass(hint):
                yield from unread(hint, text, name)
            elif not re.search(rf"\b\w+\.{name}\b|vars\((args\.)?{within or 'args'}\)", text):
                yield f"{kind.__name__}: {name}"

    found = []
    for name, home in commands_of(app):
        own, shared = (getsource(module) for module in (import_module(work_of(name, home).__module__), set_up))
        found += unread(options_of(name, home), own + shared + getsource(commands))
    assert found == []


def test_every_experiment_is_a_command_with_options_of_its_own():
    kinds = {name: options_of(name, "experiment:experiment") for name in STUDIES}
    assert {kind().name: kind for kind in kinds.values()} == kinds and list(kinds) == list(EXPERIMENTS)
    assert {name for name, kind in kinds.items() if not issubclass(kind, FromLog)} == WITHOUT_LOG
    assert {name for name, kind in kinds.items() if issubclass(kind, Shared)} == {*MANY}


@pytest.fixture
def jobcast(folder, monkeypatch, command):
    """Run the command in the folder; return its exit status and what it printed."""
    monkeypatch.chdir(folder)
    for variable in ("JOBCAST_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    return command


BAD = {
    "missing file": ("log info nowhere.swf", "nowhere.swf"), "directory": ("log info .", "."),
    "binary file": ("log info binary", "binary"), "gzip cut short": ("log info cut.swf.gz", "cut"),
    "empty file": ("log info empty.swf", "empty"),
    "unknown predictor": ("evaluate log.swf --predictors forrest", "did you mean 'forest'"),
    "unknown protocol": ("evaluate log.swf --protocol rais", "did you mean 'reis'"),
    "training share": ("evaluate log.swf --train 1.5", "1.5"),
    "unknown policy": ("simulate log.swf --policy eazy", "did you mean 'easy'"),
    "unknown estimates": ("simulate log.swf --estimates last-tow", "did you mean 'last-two'"),
    "unknown correction": ("simulate log.swf --correction doublin", "did you mean 'doubling'"),
    "job wider than the machine": ("simulate log.swf --procs 1", "--drop-wide"),
    "unknown partition": ("simulate log.swf --partition 77", "no job in partition 77"),
    "no processors": ("simulate log.swf --procs 0", "processor"), "no jobs left": ("simulate never.swf", "no job"),
    "unknown job to explain": ("simulate log.swf --explain 999", "has no job 999; its 200 jobs are 1 to 200"),
    "unwritable schedule": ("simulate log.swf --schedule missing/out.csv", "missing"),
    "schedule onto a folder": ("simulate log.swf --schedule .", "name of a file"),
    "unknown model": ("simulate log.swf --estimates models:/nothing@champion", "no model store"),
    "folder without a report": ("report .", "no report.json"),
    "report of no folder": ("report log.swf", "is no folder"),
    "unknown format to write": ("log convert log.swf out.csv", "out.csv"),
}  # fmt: skip


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


@pytest.mark.parametrize("package", ["experiments", "schedsim", "predictors"])
def test_a_folder_that_hides_one_of_our_packages_is_named(package, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    call = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; from jobcast.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", call, "simulate", "x.swf"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert f"{str(tmp_path / package / '__init__.py')!r} hides the package {package}" in done.stderr


def test_tune_without_its_package_is_refused_before_the_log_is_read(jobcast, monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    status, _, err = jobcast("tune nowhere.swf")
    assert status == 2 and "needs the package cma" in err, err


def shell(folder, line, **more):
    """Run `jobcast LINE` in a real shell, redirections and all; return the finished process."""
    env = os.environ | {"PYTHONPATH": str(ROOT)} | more
    line = f"{sys.executable} -m experiments.cli {line}"
    return subprocess.run(line, shell=True, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [pytest.param("log info --help >&-", 2, "jobcast: standard output: Bad file descriptor.\n", marks=pytest.mark.slow),
     pytest.param("log info log.swf >&- 2>&-", 2, "", marks=pytest.mark.slow),
     ("log info --help | true", 0, ""),
     ("log info log.swf --json >&-", 2, "jobcast: standard output: Bad file descriptor.\n"),
     ("log info log.swf >/dev/full", 2, "jobcast: standard output: No space left on device.\n")],
    ids=str,
)  # fmt: skip
def test_closed_and_broken_streams_end_in_one_line(folder, line, status, told):
    done = shell(folder, line)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", told)


@pytest.mark.slow
def test_answers_do_not_depend_on_the_hash_seed(folder):
    """Sets and dictionaries must not decide anything."""
    line, found = "simulate log.swf --policy default --estimates default --by user --json", []
    for seed in ("1", "2"):
        document = json.loads(shell(folder, line, PYTHONHASHSEED=seed).stdout)
        found.append({key: value for key, value in document.items() if "second" not in key})
    assert found[0] == found[1]


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


HEAVY = {"numpy", "pandas", "numba", "sklearn", "mlflow", "matplotlib", "xgboost", "starlette", "sqlalchemy", "uvicorn",
         "scipy.special", "rich.progress"}  # fmt: skip


def loaded_by(words, folder, **env):
    """Return what a command prints, and which heavy packages it has loaded in the end."""
    code = f"""
        import sys
        from experiments.cli.main import main

        sys.argv = ["jobcast", *{words!r}]
        try:
            main()
        finally:
            sys.stderr.write(" ".join(sorted({HEAVY!r} & sys.modules.keys())))
    """
    env = os.environ | {"PYTHONPATH": str(ROOT)} | env
    line = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout, done.stderr.split()


@pytest.mark.parametrize("words", [["--help"], ["simulate", "--help"], ["variability", "train", "--help"]], ids=str)
def test_help_imports_nothing_heavy(words, tmp_path):
    """It must answer at once: heavy libraries are imported by the work of the commands."""
    said, loaded = loaded_by(words, tmp_path)
    assert "Usage: " in said and loaded == []


def test_completion_imports_nothing_heavy_and_knows_options_and_names(tmp_path):
    def completed(line):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_JOBCAST_COMPLETE": "complete_bash"}
        said, loaded = loaded_by([], tmp_path, **words)
        return said.split(), loaded

    assert completed("jobcast sim") == (["simulate"], [])
    assert completed("jobcast simulate --pol") == (["--policy"], [])
    assert "easy-sjbf" in completed("jobcast simulate --policy easy")[0]
    assert completed("jobcast evaluate --predictors last-two,for")[0] == ["last-two,forest"]


@pytest.mark.parametrize("words", [["simulate"], ["log", "info"]], ids=str)
def test_a_command_loads_no_package_that_it_does_not_need(words, folder):
    said, loaded = loaded_by([*words, "log.swf", "--json"], folder)
    assert "log.swf" in said and not set(loaded) - {"numpy", "numba"}


def test_the_work_of_every_command_takes_its_options():
    for name, home in commands_of(app):
        takes = signature(work_of(name, home)).parameters["args"].annotation
        assert issubclass(options_of(name, home), takes), name


def test_quiet_prints_results_alone_and_verbose_what_is_done(jobcast):
    usual, quiet, verbose = (jobcast(f"log convert log.swf {n}.swf {more}") for n, more in enumerate(("", "-q", "-v")))
    assert usual == (0, "0.swf: 200 jobs\nlog.swf: 200 jobs read, 200 used, nothing dropped\n", "")
    assert quiet == (0, "1.swf: 200 jobs\n", "")
    assert verbose[:2] == (0, usual[1].replace("0.swf", "2.swf"))
    assert "jobcast: Converting log.swf: done in" in verbose[2]
    assert jobcast("log info log.swf -q -v")[0] == 2


def test_ctrl_c_while_the_command_is_loaded_is_no_traceback():
    """Most of a short command is spent on imports."""
    code = """
        import signal, sys
        from experiments.cli import __main__ as cli

        class Interrupted:
            def find_spec(self, name, *more):
                if name == "typer":
                    signal.raise_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Interrupted())
        cli.main()
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("ending", "then"),
    [(signal.SIGINT, "1 / 0"), *((one, "time.sleep(600)") for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))],
)
def test_a_signal_in_a_finaliser_ends_the_command_too(ending, then):
    """Python prints and drops what is raised there; numba and matplotlib have such code."""
    code = f"""
        import signal, sys, time
        from experiments.cli import __main__ as start, main as cli

        class Odd:
            def __del__(self):
                signal.raise_signal({int(ending)})

        def command(**how):
            Odd()
            {then}

        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        cli.app = command
        start.main()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (130 if ending == signal.SIGINT else -ending, "")


@pytest.mark.slow
def test_the_first_run_says_that_it_compiles_and_a_later_one_nothing(folder, tmp_path):
    first, second = (shell(folder, "log info log.swf", NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2))
    assert first.stderr == "jobcast: compiling for this machine; it takes up to half a minute, once.\n"
    assert second.stderr == ""
    assert first.stdout == second.stdout != ""


@pytest.mark.slow
def test_a_terminal_shows_what_is_compiled_and_is_left_clean(folder, tmp_path):
    ours, theirs = pty.openpty()
    env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    line = [sys.executable, "-m", "experiments.cli", "log", "info", "log.swf"]
    with subprocess.Popen(line, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=theirs) as running:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the other side is closed
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    assert running.returncode == 0
    assert said.count(b"jobcast: compiling for this machine") == 1
    assert b"Reading log.swf (compiling _swf_scan." in said
    assert said.endswith(b"\x1b[2K")  # the line is empty again


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing_half_done(ending, tmp_path):
    """A batch system at its walltime, a terminal that goes away: what Ctrl-C would tidy up is tidied up."""
    code = f"""
        import signal, sys
        from experiments.cli import main as cli
        from predictors.core.files import whole_file

        def command(**how):
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


@pytest.mark.parametrize(
    ("how", "holds", "why_not"),
    [
        ("--estimates tsafrir --correction incremental", "never more processors than the machine has",
         "nothing is promised"),
        ("--policy default --estimates default", "the head starts by its promise",
         "estimates are revised while jobs wait and run"),
    ],
)  # fmt: skip
def test_the_laws_are_printed(jobcast, how, holds, why_not):
    code, out, _ = jobcast(f"simulate log.swf {how} --paranoid")
    assert code == 0 and f"holds: {holds}" in out and f"not checked, since {why_not}" in out


COUNTED = "time,kind,count,nodes\n5000,fail,8,\n9000,repair,8,\n"
NAMED = "time,kind,count,nodes\n5000,fail,,0-7\n9000,repair,,0-7\n"
RESERVED = "time,until,kind,count\n5000,9000,reserve,8\n"
PARTITIONS = "nodes = {nodes}\n[[level]]\nsize = {size}\n[[level]]\nsize = {nodes}\n"


@pytest.fixture
def machine_files(tmp_path, monkeypatch):
    """A folder with a log and files that go with it."""
    write_swf(generate_log(80, seed=1, procs=64), tmp_path / "log.swf")
    for name, text in {"counted.csv": COUNTED, "named.csv": NAMED, "reserved.csv": RESERVED}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "vast.toml").write_text(PARTITIONS.format(nodes=10**12, size=10**6))
    (tmp_path / "fine.toml").write_text(PARTITIONS.format(nodes=10**7, size=4))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("simulate log.swf --machine-seed 0", "--machine-seed is for --allocator scattered"),
        ("simulate log.swf --machine-seed 3 --allocator first-fit", "here nothing is drawn"),
        ("simulate log.swf --machine-seed 3 --allocator first-fit --outages named.csv", "here nothing is drawn"),
        ("simulate log.swf --machine-seed 3 --outages reserved.csv", "here nothing is drawn"),
        ("simulate log.swf --outages reserved.csv --interrupted drop", "reserved.csv tells of no failure"),
        ("simulate log.swf --allocator partitions --partitions vast.toml", "vast.toml: a machine has at most"),
        ("simulate log.swf --allocator partitions --partitions fine.toml", "fine.toml: level 1: 2,500,000 parti"),
        ("evaluate log.swf --prequential --train 0.8", "--train is the share"),
        ("serve tsafrir --policy easy-sjbf", "--policy is for forecasts of starts"),
        ("log fetch --base-url http://localhost", "name the log too"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_refused(line, says, machine_files, command):
    code, out, err = command(line)
    assert (code, out, err.count("\n")) == (2, "", 1) and says in err


@pytest.mark.parametrize(
    "line", ["--allocator scattered --machine-seed 3", "--outages counted.csv --machine-seed 3 --interrupted drop"]
)
def test_where_something_is_drawn_the_seed_is_taken(line, machine_files, command):
    code, _, err = command(f"simulate log.swf {line} --json")
    assert code == 0, err


@pytest.mark.parametrize(
    ("option", "name", "text"),
    [
        ("--commands", "c.csv", "time,job,action\n1000,8,hold\n90000,8,release\n"),
        ("--outages", "o.csv", COUNTED),
        ("--outages", "o.toml", '[[window]]\nkind = "maintenance"\ntime = 5000\nhours = 2\n'),
        ("--site", "s.toml", 'queues = "mira"\n'),
        ("--allocator partitions --partitions", "p.toml", PARTITIONS.format(nodes=64, size=8)),
        ("--policy ceil --postponable", "d.csv", "job_id,deadline\n8,9999999\n"),
    ],
)
def test_a_byte_order_mark_before_a_file_changes_nothing(option, name, text, machine_files, command):
    said = []
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16")):
        (machine_files / name).write_bytes(data)
        said.append(command(f"simulate log.swf {option} {name} --json"))
    plain, marked = ({**json.loads(out), "engine_seconds": 0, "jobs_per_second": 0} for _, out, _ in said[:2])
    assert plain == marked
    code, out, err = said[2]
    assert (code, out, err.count("\n")) == (2, "", 1) and f"{name}: is no text in UTF-8 (line 1)" in err


def test_groups_that_the_log_has_not_are_noted(machine_files, command):
    (machine_files / "s.toml").write_text(
        '[[project]]\nname = "climate"\nprogram = "alcc"\ngroups = [1, 99]\ngranted = 9e9\n'
    )
    code, out, err = command("simulate log.swf --site s.toml --json")
    assert code == 0, err
    (note,) = (one for one in json.loads(out)["account"]["findings"] if one["rule"] == "unknown-group")
    assert "[[project]] climate: no job of the log is of group 99" in note["text"]


def test_the_line_that_is_no_utf_8_is_told(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"time,job\n1,\xff\n")
    with pytest.raises(JobcastError, match=r"a\.csv: is no text in UTF-8 \(line 2\); save a CSV file as UTF-8\."):
        read_text(tmp_path / "a.csv", "a CSV file")


@pytest.fixture(scope="module")
def cleaned():
    return clean(generate_log(1500, seed=11, users=10), None)[0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("requested", "nowhere to move it"),
        ("clairvoyant", "given, not learnt"),
        ("careful", "many estimates"),
        ("default", "many estimates"),
        ("with-budget", "name the predictor inside"),
        ("models:/runtime@champion", "a kept model is served as it is"),
        ("simlar", "did you mean 'similar'"),
    ],
)
def test_who_cannot_have_a_budget_is_told_why(name, told, cleaned):
    with pytest.raises(JobcastError, match=told):
        run_by_name(cleaned, "easy", name, budget=0.05)


@pytest.mark.parametrize("policy", ["{}", "{}+ceil"])
def test_default_is_another_name_of_careful(policy, jobcast):
    """The older name gives the same schedule, and the results say the name of today."""
    found = {}
    for name in ("careful", "default"):
        code, out, _ = jobcast(f"simulate log.swf --policy {policy.format(name)} --estimates {name} --json")
        assert code == 0
        found[name] = json.loads(out)
        for timed in ("engine_seconds", "jobs_per_second"):
            del found[name][timed]
    assert found["default"] == found["careful"]
    assert (found["default"]["policy"], found["default"]["estimates"]) == (policy.format("careful"), "careful")


def test_bold_is_estimates_alone(jobcast):
    code, _, err = jobcast("simulate log.swf --policy bold")
    assert code == 2
    assert "--policy careful --estimates bold" in err
