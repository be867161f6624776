"""What is read is never written over, and what cannot be written is told before anything is computed."""

import os

import pytest
from typer.main import get_command

from experiments.cli.main import app
from experiments.cli.outputs import CheckedCommand
from jobcast import JobcastError, generate_log
from predictors.core.files import kept, whole_file
from predictors.data.formats.swf import write_swf

OUTPUTS = {"out", "schedule", "table", "figures", "metrics", "report", "save"}
"""Names of parameters that are written; `token --file` is added to, which has rules of its own."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in use, with a log and files of every kind that commands read."""
    write_swf(generate_log(50, seed=1, procs=64), tmp_path / "log.swf")
    (tmp_path / "key.swf").write_bytes(b"k" * 20)
    (tmp_path / "key.swf").chmod(0o600)
    (tmp_path / "runs.csv").write_text("time,job_id,command\n")
    (tmp_path / "link.swf").symlink_to("log.swf")
    os.link(tmp_path / "log.swf", tmp_path / "second.swf")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("kept")
    (tmp_path / "telemetry").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    """Return what lies in a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def commands(group):
    """Return every command below a group."""
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else (command,)


def test_every_command_declares_what_it_writes():
    for command in commands(get_command(app)):
        assert isinstance(command, CheckedCommand), command.name
        for parameter in command.params:
            about = parameter.type_descriptor.parameter_info
            assert about.writable == (parameter.name in OUTPUTS), (command.name, parameter.name)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("log convert log.swf key.swf --name-key key.swf", "very file"),
        ("log convert log.swf link.swf", "very file"),
        ("log convert link.swf second.swf", "very file"),
        ("log join log.swf key.swf second.swf", "very file"),
        ("slurm table log.swf --model last-two --db sqlite:///runs.csv --cluster c --out runs.csv", "very file"),
        ("slurm shadow --model last-two --db sqlite:///runs.csv --table ./runs.csv --cycles 1", "very file"),
        ("simulate log.swf --commands runs.csv --schedule runs.csv", "very file"),
        ("simulate log.swf --outages runs.csv --schedule runs.csv", "very file"),
        ("simulate log.swf --partitions runs.csv --schedule runs.csv", "very file"),
        ("simulate log.swf --site runs.csv --schedule ./runs.csv", "very file"),
        ("simulate log.swf --postponable runs.csv --schedule ./runs.csv", "very file"),
        ("replay log.swf --out second.swf", "very file"),
        ("predict model log.swf --out model/MLmodel", "lies in the folder"),
        ("predict model log.swf --out ./model/new.csv", "lies in the folder"),
        ("simulate log.swf --estimates ./model --schedule model/new.csv", "lies in the folder"),
        ("experiment rush --predictors ./model --out model/reports", "lies in the folder"),
        ("variability dataset runs.csv --telemetry telemetry --out telemetry/new.parquet", "lies in the folder"),
        ("variability dataset runs.csv --telemetry telemetry --out runs.csv", "very file"),
        ("simulate log.swf --schedule a.csv --figures ./a.csv", "twice"),
        ("simulate log.swf --policy easy --policy fcfs", "--policy takes one value, and is given 2"),
        ("sweep log.swf --policies=", "--policies names nothing"),
        ("simulate log.swf --schedule none/a.csv", "does not exist"),
        ("advise log.swf --out log.swf/below", "no folder"),
        ("token a --file log.swf", "log.swf:1: not ROLE"),
    ],
)
def test_an_output_that_is_an_input_or_cannot_be_is_refused(line, told, place, command):
    before = contents(place)
    status, out, err = command(line)
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert told in err
    assert contents(place) == before


@pytest.mark.parametrize("line", ["backtest log.swf --out new", "advise log.swf --out new"])
def test_a_refused_run_leaves_no_folder(line, place, command, monkeypatch):
    def refuse(*_):
        raise JobcastError("no")

    monkeypatch.setattr("experiments.site.backtest.backtest.Backtest.run", refuse)
    monkeypatch.setattr("experiments.site.advise.advise.Question.run", refuse)
    before = contents(place)
    assert command(line)[0] == 2
    assert contents(place) == before


def test_a_file_in_a_folder_of_results_is_not_replaced_while_it_is_read(place, command):
    (place / "figures").mkdir()
    (place / "log.swf").rename(place / "figures" / "gantt.csv")
    log = (place / "figures" / "gantt.csv").read_bytes()
    status, _, err = command("simulate figures/gantt.csv --figures figures")
    assert status == 2 and "very file" in err
    assert (place / "figures" / "gantt.csv").read_bytes() == log


def test_what_was_read_may_be_replaced_afterwards(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    with kept([out]), pytest.raises(JobcastError, match="very file"), whole_file(out) as part:
        part.write_text("new")
    with whole_file(out) as part:
        part.write_text("new")
    assert out.read_text() == "new"


def test_a_token_goes_onto_a_line_of_its_own(place, command):
    assert command("token first --file tokens")[0] == 0
    (place / "tokens").write_text((place / "tokens").read_text().rstrip("\n"))
    assert command("token second --file tokens")[0] == 0
    assert [line.split()[2] for line in (place / "tokens").read_text().splitlines()] == ["first", "second"]
