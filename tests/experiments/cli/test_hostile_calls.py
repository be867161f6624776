"""Hostile calls end with one line and status 2, or a status that is documented; never with a traceback."""

import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from predictors.core import compressed
from predictors.data.formats.parquet import write_parquet
from predictors.data.formats.swf import write_swf
from predictors.data.synthetic.generate import generate_log
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small log."""
    place = tmp_path_factory.mktemp("hostile")
    log = generate_log(100, seed=1, procs=64)
    write_swf(log, place / "log.swf")
    write_parquet(log, place / "log.parquet")
    (place / "late.csv").write_text("time,until,kind\n100,50,maintenance\n")
    (place / "late.toml").write_text(
        '[[window]]\nkind = "maintenance"\ntime = 100\nhours = 1\nevery_days = 7\nuntil = 50\n'
    )
    (place / "twice.conf").write_text("NodeName=n[1-4] CPUs=8\nNodeName=x,n4 CPUs=8\n")
    (place / "misspelt.conf").write_text(
        "NodeName=n[1-8] CPUs=8\nSchedulerParameters=bf_max_job_start=9,bf_intervall=30\n"
    )
    (place / "weight.conf").write_text("NodeName=n[1-8] CPUs=8\nPriorityWeigthAge=1000\n")
    (place / "none.toml").write_text('[[nodes]]\nname = "n"\ncount = 4\nprocessors = 64\npartitions = []\n')
    return place


def shell(folder, line, **more):
    """Run a line of bash in which $J is the command; return the finished process."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "J": f"{sys.executable} -m experiments.cli"} | more
    return subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("simulate log.swf --by nonsense --schedule z.csv", "No table by 'nonsense'"),
        ("replay log.swf --url http://[::1", "'http://[::1': is no address"),
        ("replay log.swf --url http://localhost:99999", "Port out of range"),
        ("replay log.swf --url ftp://localhost", "begins with http:// or https://"),
        ("replay log.swf --token ²", "is no token"),
        ("serve last-two --db postgresql+psycopg://me@[::1/x", "is no database"),
        ("serve last-two --machine-procs 9223372036854775808 --db sqlite:///z.db", "machine_procs must be from"),
        ("serve last-two --db sqlite:///log.swf", "sqlite:///log.swf: the database cannot be used: file is not a data"),
        ("log info log.swf --time-zone=", "leave the time zone out"),
        ("log import log.swf --propose", "log.swf: is a job log (Standard Workload Format), which needs no map"),
        ("simulate log.swf --schedule y.csv --schedule z.csv", "--schedule names one output, and is given more"),
        ("replay log.swf --out y.csv --out=z.csv", "--out names one output, and is given more"),
        ("slurm watch --model last-two --journal= --cycles 1", "--journal is empty; name a file or a folder"),
        ("log info /dev/zero", "is a device"),
        ("simulate log.swf --commands /dev/zero", "is a device"),
        ("probes last /dev/zero", "is a device"),
        ("token a --file /dev/zero", "is a device"),
        ("simulate log.swf --policy slurm", "write slurm:FILE for a site's slurm.conf"),
        ("simulate log.swf --policy agent", "write agent:FILE"),
        ("simulate log.swf --outages late.csv", "late.csv:2: until '50' must be later than time '100'"),
        ("simulate log.swf --outages late.toml", "window 1: until '50' must be later than time '100'"),
        ("simulate log.swf --policy slurm:twice.conf", "twice.conf:2: node 'n4' is named twice, first at twice.conf:1"),
        (
            "simulate log.swf --policy slurm:misspelt.conf",
            "misspelt.conf:2: 'bf_intervall' is nothing that Slurm knows",
        ),
        ("simulate log.swf --policy slurm:weight.conf", "did you mean 'priorityweightage'?"),
        ("simulate log.swf --machine none.toml", "none.toml: nodes 1 ('n'): partitions names none; leave it out"),
        ("simulate log.swf --polcy easy", "No such option: --polcy"),
        ("simulate", "Name a LOG, or a --site by jobcast site import FOLDER."),
        ("simulat log.swf", "No such command 'simulat'. Did you mean 'simulate'? See `jobcast --help`."),
        ("log generate new.swf --jobs many", "Invalid value for '--jobs'"),
    ],
)
def test_it_is_refused_before_anything_is_written(line, told, folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    status, out, err = command(line)
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert told in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("line", "package", "extra"),
    [
        ("experiment reis --log none.swf", "sklearn", "models"),
        ("experiment dras --log none.swf", "cma", "rl"),
        ("sweep none.swf --workers 2", "distributed", "cluster"),
        ("sweep none.swf --queue slurm --memory 4GB", "dask_jobqueue", "cluster"),
        ("evaluate none.swf --predictors last-two,boosted", "xgboost", "models"),
        ("evaluate none.swf --predictors online-tree", "river", "online"),
        ("train none.swf --predictor forest", "sklearn", "models"),
        ("train none.swf --predictor last-two", "mlflow", "tracking"),
        ("simulate none.swf --figures drawn", "matplotlib", "plots"),
    ],
)
def test_an_extra_that_is_missing_is_named_before_the_log_is_read(line, package, extra, folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, package, None)
    before = sorted(folder.iterdir())
    assert command(line) == (
        2, "", f"jobcast: This needs the package {package}, which is missing: pip install 'jobcast[{extra}]'.\n"
    )  # fmt: skip
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "line",
    ["evaluate log.swf", "train log.swf", "demo", "experiment rush", "log generate new.swf", "variability train x",
     "variability select x"],
)  # fmt: skip
def test_a_seed_beyond_what_libraries_take_is_refused(line, folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    status, _, err = command(f"{line} --seed 4294967296")
    assert status == 2 and "4294967295" in err


def test_the_address_of_a_model_store_that_is_none_is_told(folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://[::1")
    status, _, err = command("predict models:/x/1 log.swf --out new.csv")
    assert (status, len(err.splitlines())) == (2, 1) and "is no address" in err


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"time_zone": "Mars/Base"}, "No time zone"), ({"time_zone": "../../x"}, "No time zone"),
     ({"origin": 2**70}, "The origin in its metadata"), ({"epoch": -(10**18)}, "The epoch in its metadata")],
    ids=str,
)  # fmt: skip
def test_metadata_of_parquet_that_cannot_be_are_told(changed, told, folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    table = pq.read_table("log.parquet")
    about = json.loads(table.schema.metadata[b"jobcast"]) | {"epoch": 10**9} | changed
    pq.write_table(table.replace_schema_metadata({b"jobcast": json.dumps(about)}), "odd.parquet")
    status, _, err = command("log info odd.parquet")
    assert (status, len(err.splitlines())) == (2, 1) and told in err, err


def test_a_pipe_is_read_to_a_bound(folder, monkeypatch):
    reader, writer = os.pipe()
    os.write(writer, b"x" * 100)
    os.close(writer)
    monkeypatch.setattr(compressed, "MOST_PIPED", 10)
    with pytest.raises(compressed.JobcastError, match="more than 10 bytes"):
        compressed.read_bytes(f"/dev/fd/{reader}")
    os.close(reader)
    whole = shell(folder, "cat log.swf | $J log info /dev/stdin")
    assert whole.returncode == 0 and b"100" in whole.stdout, whole.stderr


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "gbk", "shift_jis", "euc_jp"])
@pytest.mark.parametrize("line", ["evaluate log.swf --predictors last-two", "sweep --help", "log info log.swf --json"])
def test_a_terminal_that_knows_no_superscript_gets_plain_letters(encoding, line, folder):
    done = shell(folder, f"$J {line}", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--help", "log info --help", "log info log.swf", "log info log.swf --json"])
def test_a_broken_pipe_has_one_status(line, folder):
    done = shell(folder, f"$J {line} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b""), done.stderr


@pytest.mark.parametrize("name", ["c.parquet", "c.swf.gz"])
def test_names_of_files_and_folders_that_are_not_utf_8(name, folder, tmp_path, command, monkeypatch):
    place = tmp_path / os.fsdecode(b"d\xff")
    place.mkdir()
    (place / os.fsdecode(b"a\xff.swf")).write_bytes((folder / "log.swf").read_bytes())
    monkeypatch.chdir(place)
    told = command(f"log convert {os.fsdecode(bytes([97, 255]))}.swf {os.fsdecode(bytes([98, 255]))}{name}")
    assert told[0] == 0, told
    assert command(f"log info {os.fsdecode(bytes([98, 255]))}{name} --json")[0] == 0


def test_a_name_that_the_locale_cannot_write(folder, tmp_path):
    (tmp_path / "j€.swf").write_bytes((folder / "log.swf").read_bytes())
    done = shell(tmp_path, "$J log info j€.swf", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_without_a_writer(tmp_path, command, monkeypatch):
    monkeypatch.setattr(compressed, "LONGEST_WAIT", 0.1)
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    status, _, err = command("log info pipe")
    assert status == 2 and "pipe: is a pipe without a writer" in err
