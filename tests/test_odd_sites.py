"""Odd files about a site and its machine: each is refused in one line, and nothing of it is silently repaired."""

import sys

import pytest

from experiments.cli import main
from predictors.data.swf import write_swf
from predictors.data.synthetic import generate_log
from schedsim.engine import simulate
from schedsim.outages import Change, Outages, Reservation
from schedsim.partitions import allocator_named
from schedsim.policy import make_policy
from schedsim.workload import Workload

QUEUE = '[[queue]]\nname = "a"\n'
PROJECT = '[[project]]\nname = "x"\nprogram = "incite"\n'
COMMANDS = "time,job,action,procs,requested\n"
OUTAGES = "time,until,kind,count,nodes\n"
WINDOW = '[[window]]\nkind = "maintenance"\ntime = 5\nhours = 1\n'

ODD = [
    ("--commands", "c.csv", COMMANDS + "9,17\n", "c.csv:2: has not one value for each of the 5 columns"),
    ("--commands", "c.csv", COMMANDS + "\n\n9,17,hold,,,5\n", "c.csv:4: has not one value for each"),
    ("--commands", "c.csv", "time,job,action,proc\n9,17,alter,4\n", "c.csv:1: No column 'proc'; did you mean 'procs'?"),
    ("--commands", "c.csv", "time,time,job,action\n9,9,17,hold\n", "names the column 'time' 2 times"),
    ("--commands", "c.csv", COMMANDS + "9" * 30 + ",17,hold,,\n", "c.csv:2: The second of a command must be from"),
    ("--commands", "c.csv", COMMANDS + "9999999999,17,alter,," + "9" * 20 + "\n", "requested time that a command"),
    ("--commands", "c.csv", COMMANDS + "1," + "x" * 200_000 + ",hold,,\n", "is not CSV: field larger"),
    ("--postponable", "d.csv", "job_id,deadline\n5," + "9" * 30 + "\n", "d.csv:2: job 5 has a deadline that no log"),
    ("--postponable", "d.csv", "job_id,deadline\n5,9999999999,3\n", "d.csv:2: has not one value for each column"),
    ("--postponable", "d.csv", "job_id,deadline,deadline\n5,9,9\n", "each once"),
    ("--postponable", "d.csv", "job_id,deadline\n5," + "1" * 200_000 + "\n", "d.csv: is not CSV"),
    ("--site", "s.toml", QUEUE + "least_procs = 1.5\n", "least_procs must be a whole number; got 1.5"),
    ("--site", "s.toml", QUEUE + "longer_than = nan\n", "longer_than must be a whole number; got nan"),
    ("--site", "s.toml", QUEUE + "up_to = " + "9" * 30 + "\n", "up_to must be from"),
    ("--site", "s.toml", QUEUE + 'capability = "yes"\n', "capability is true or false; got 'yes'"),
    ("--site", "s.toml", "[[queue]]\nname = 5\n", "A queue needs a name, a text; got 5"),
    ("--site", "s.toml", "[score]\ntick = 15.5\n", "tick must be a whole number; got 15.5"),
    ("--site", "s.toml", "[score]\ntick = nan\n", "tick must be a whole number; got nan"),
    ("--site", "s.toml", '[dependencies]\non_failure = "runs"\n', "No rule on failure 'runs'; did you mean 'run'?"),
    ("--site", "s.toml", "partitions = [16]\n", "give [[queue]] sections too"),
    ("--site", "s.toml", f"partitions = [{'9' * 30}]\n" + QUEUE, "jobs are routed by must be from"),
    ("--site", "s.toml", PROJECT + "granted = 1e308\ngroups = [1]\n", "granted must be from 0 to 1e+15"),
    ("--site", "s.toml", PROJECT + "granted = 10\nspent = 1e300\ngroups = [1]\n", "spent must be from 0 to 1e+15"),
    ("--site", "s.toml", PROJECT + "granted = 10\ngroups = [1, 1]\n", "group 1 is charged to 'x' already"),
    ("--site", "s.toml", "queue = " + "[" * 5000 + "]" * 5000, "s.toml: is no TOML file"),
    ("--outages", "o.csv", OUTAGES + "²,5,maintenance,,\n", "time '²' is neither seconds nor a date"),
    ("--outages", "o.csv", OUTAGES + "--5,50,maintenance,,\n", "time '--5' is neither seconds nor a date"),
    ("--outages", "o.csv", OUTAGES + "5,50,reserve,²,\n", "count '²' is no number of nodes"),
    ("--outages", "o.csv", OUTAGES + "5,50,reserve,,²\n", "nodes '²' are unknown"),
    ("--outages", "o.csv", "time,time,until,kind\n5,6,50,maintenance\n", "names the column 'time' 2 times"),
    ("--outages", "o.toml", "window = [1, 2]\n", "windows are written [[window]]"),
    ("--outages", "o.toml", "failures = 3\n", "failures names a CSV file beside this one; got 3"),
    ("--outages", "o.toml", WINDOW + "until = 9000\n", "until is for windows that are repeated"),
    ("--allocator", "p.toml", "nodes = 64\nlevel = [1]\n", "needs `nodes = N` and a `[[level]]`"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log."""
    place = tmp_path_factory.mktemp("odd")
    write_swf(generate_log(60, seed=1, procs=64), place / "log.swf")
    return place


def refusal(line, monkeypatch, capsys):
    """Return what the command says, which must refuse its input in one line."""
    monkeypatch.setattr(sys, "argv", ["jobcast", *line])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(("option", "name", "text", "message"), ODD)
def test_odd_files_are_refused_in_one_line(option, name, text, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / name).write_text(text)
    value = ["partitions", "--partitions", name] if option == "--allocator" else [name]
    assert message in refusal(["simulate", "log.swf", option, *value], monkeypatch, capsys)


@pytest.mark.parametrize("option", ["--postpone-seed", "--dilation-seed"])
def test_seeds_beyond_what_is_hashed_are_refused(option, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    line = ["simulate", "log.swf", "--postponable", "0.5", "--dilation", "start", option, "9" * 20]
    assert "must be from 0 to" in refusal(line, monkeypatch, capsys)


@pytest.mark.parametrize("allocator", [None, "first-fit", "contiguous"])
@pytest.mark.parametrize(("policy", "expected"), [("easy", [200, 230, 5]), ("cobalt", [230, 200, 5])])
def test_what_failed_before_the_first_submission_is_down(allocator, policy, expected):
    """Under Cobalt's score the wider job comes first."""

    def starts(later):
        submit = [later, later, later + 5]
        work = Workload.from_columns(
            range(1, 4), submit=submit, procs=[6, 8, 2], requested=[30] * 3, run_time=[30] * 3, machine_procs=8
        )
        place = None if allocator is None else allocator_named(allocator, 8, None, 0, None)
        broken = Outages(
            [Reservation(-40, 10, 2)],
            [Change(-50, "fail", 4), Change(-20, "repair", 1), Change(200, "repair", 3)],
        )
        found = simulate(work, make_policy(policy), allocator=place, outages=broken.shifted(later))
        return (found.start - later).tolist()

    assert starts(0) == starts(900) == expected
