"""`jobcast simulate --policy ceil` and its options: marks, ceilings, dilation; bad input is one clear line."""

import json

import numpy as np
import pytest

from jobcast import JobcastError, clean, generate_log
from predictors.data.formats.swf import write_swf
from schedsim.workload.deadlines import deadlines_by


@pytest.fixture
def jobcast(tmp_path, monkeypatch, command):
    """Run the command beside a small log; return its exit status and what it printed."""
    write_swf(generate_log(300, seed=1, procs=64), tmp_path / "log.swf")
    monkeypatch.chdir(tmp_path)
    return command


def test_a_ceiling_of_its_own_and_the_queue_only(jobcast):
    assert json.loads(jobcast("simulate log.swf --ceiling 0.5 --json")[1])["users"]["postponable"] == 0
    waits = {
        line: json.loads(jobcast(f"simulate log.swf --policy ceil --postponable 0.5 {line} --json")[1])["mean_wait_s"]
        for line in ("", "--queue-only", "--release-below 0.9", "--ceiling 0.8", "--postpone-seed 5")
    }
    assert len(set(waits.values())) == 5


def test_marks_by_rule_and_from_a_file(jobcast, tmp_path):
    log = clean(generate_log(300, seed=1, procs=64))[0]
    assert ((deadlines_by("procs>=8", log) >= 0) == (log.procs >= 8)).all()
    assert ((deadlines_by("queue=1", log) >= 0) == (log["queue"] == 1)).all()
    assert ((deadlines_by("1", log) - log["submit"]) == np.maximum(86400, 10 * log["requested_time"])).all()
    job, submit = int(log["job_id"][7]), int(log["submit"][7])
    (tmp_path / "by.csv").write_text(f"job_id,deadline\n{job},{submit + log.origin + 500}\n")
    found = deadlines_by(str(tmp_path / "by.csv"), log)
    assert found[7] == submit + 500 and (np.delete(found, 7) == -1).all()
    assert jobcast("simulate log.swf --policy ceil --postponable by.csv")[0] == 0


def test_a_rule_that_marks_nobody_is_noted(jobcast):
    found = json.loads(jobcast("simulate log.swf --policy ceil --postponable procs>=1000 --json")[1])
    (note,) = (one for one in found["account"]["findings"] if one["rule"] == "postponable")
    assert note["text"] == "--postponable procs>=1000 marks no job of this log: none is postponed"
    assert (
        '"postponable"'
        not in jobcast("simulate log.swf --policy ceil --postponable procs>=2 --json")[1].split("account")[1]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("job_id,deadline\n8,5\n", "by.csv:2: job 8 has the deadline 5 s, before its submission at"),
        ("job_id,deadline\n999,5\n", "by.csv:2: synthetic-1 has no job 999"),
        ("job_id,deadline\n8,soon\n", "by.csv:2: job_id and deadline must be whole numbers"),
        ("job_id,until\n8,5\n", "must name the columns job_id and deadline"),
        ("job_id,deadline\n8,9999999999\n8,9999999999\n", "by.csv:3: job 8 has a deadline already"),
        ("", "must name the columns"),
    ],
)
def test_bad_files_of_deadlines(tmp_path, text, says):
    (tmp_path / "by.csv").write_text(text)
    with pytest.raises(JobcastError, match=says):
        deadlines_by(str(tmp_path / "by.csv"), clean(generate_log(300, seed=1, procs=64))[0])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--postponable 1.3", "from 0 to 1; got 1.3"),
        ("--postponable nan", "from 0 to 1; got nan"),
        ("--postponable nope=3", "No column 'nope'"),
        ("--postponable used_memory>3", "tells used_memory of no job"),
        ("--postponable some", "a share (0.3), a rule (queue=2, procs<=64), or a file"),
        ("--postponable none.csv", "none.csv: cannot be read (no such file)"),
        ("--ceiling 1.2", "above 0 and at most 1; got 1.2"),
        ("--ceiling 0", "above 0 and at most 1; got 0"),
        ("--release-below 0.5 --postponable 0.3", "take ceil, or a policy followed by +ceil"),
        ("--queue-only --postponable 0.3", "take ceil, or a policy followed by +ceil"),
        ("--policy ceil --release-below 0.5", "--release-below is about postponed jobs; say which may be"),
        ("--policy ceil --postponable 0.3 --release-below 7", "0 to 1; got 7"),
        ("--postpone-seed 5", "--postpone-seed draws a share"),
        ("--postpone-seed 0 --postponable procs<=8", "--postpone-seed draws a share"),
        ("--dilation-seed 0", "--dilation-seed draws by how much runs take longer"),
        ("--dilation stat", "did you mean 'start'?"),
        ("--policy binpacking --ceiling 0.9", "and greedy backfilling do not compose"),
        ("--policy conservative-replan+ceil", "and a plan of several jobs do not compose"),
        ("--policy ceil --allocator contiguous", "and a ceiling on utilisation do not compose"),
    ],
)
def test_bad_options_are_one_clear_line(jobcast, line, says):
    code, out, err = jobcast(f"simulate log.swf {line}")
    assert code == 2 and says in err and "Traceback" not in err and not out
