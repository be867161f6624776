"""An option that would do nothing is refused in one line, and a file with a byte order mark is as one without."""

import json

import pytest

from predictors.data.errors import JobcastError
from predictors.data.sources import read_text
from predictors.data.swf import write_swf
from predictors.data.synthetic import generate_log

COUNTED = "time,kind,count,nodes\n5000,fail,8,\n9000,repair,8,\n"
NAMED = "time,kind,count,nodes\n5000,fail,,0-7\n9000,repair,,0-7\n"
RESERVED = "time,until,kind,count\n5000,9000,reserve,8\n"
PARTITIONS = "nodes = {nodes}\n[[level]]\nsize = {size}\n[[level]]\nsize = {nodes}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
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
        ("experiment reis --procs 64", "reis has no use for --procs"),
        ("experiment rush --partition 1", "rush has no use for --partition"),
        ("experiment ceil --predictors forest", "ceil has no use for --predictors"),
        ("experiment runtime --failures ras.csv", "runtime has no use for --failures, which is for logstudy"),
        ("serve tsafrir --policy easy-sjbf", "--policy is for forecasts of starts"),
        ("log fetch --base-url http://localhost", "name the log too"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_refused(line, says, folder, command):
    code, out, err = command(line)
    assert (code, out, err.count("\n")) == (2, "", 1) and says in err


@pytest.mark.parametrize(
    "line", ["--allocator scattered --machine-seed 3", "--outages counted.csv --machine-seed 3 --interrupted drop"]
)
def test_where_something_is_drawn_the_seed_is_taken(line, folder, command):
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
def test_a_byte_order_mark_before_a_file_changes_nothing(option, name, text, folder, command):
    said = []
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16")):
        (folder / name).write_bytes(data)
        said.append(command(f"simulate log.swf {option} {name} --json"))
    plain, marked = ({**json.loads(out), "engine_seconds": 0, "jobs_per_second": 0} for _, out, _ in said[:2])
    assert plain == marked
    code, out, err = said[2]
    assert (code, out, err.count("\n")) == (2, "", 1) and f"{name}: is no text in UTF-8 (line 1)" in err


def test_groups_that_the_log_has_not_are_noted(folder, command):
    (folder / "s.toml").write_text('[[project]]\nname = "climate"\nprogram = "alcc"\ngroups = [1, 99]\ngranted = 9e9\n')
    code, out, err = command("simulate log.swf --site s.toml --json")
    assert code == 0, err
    (note,) = (one for one in json.loads(out)["account"]["findings"] if one["rule"] == "unknown-group")
    assert "[[project]] climate: no job of the log is of group 99" in note["text"]


def test_the_line_that_is_no_utf_8_is_told(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"time,job\n1,\xff\n")
    with pytest.raises(JobcastError, match=r"a\.csv: is no text in UTF-8 \(line 2\); save a CSV file as UTF-8\."):
        read_text(tmp_path / "a.csv", "a CSV file")
