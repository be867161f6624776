"""`jobcast simulate` with a site's rules: queues, commands, dependencies, and what is wrong with them, in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from jobcast import generate_log, read_log
from predictors.data.formats.swf import write_swf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log whose 40th job waits for the 39th."""
    place = tmp_path_factory.mktemp("site")
    log = generate_log(300, seed=1, procs=64)
    values, unknown, n = dict(log.values), dict(log.unknown), len(log)
    values["preceding_job"], values["think_time"] = np.zeros((2, n), dtype=np.int64)
    values["preceding_job"][39], values["think_time"][39] = values["job_id"][38], 600
    values["status"] = np.ones(n, dtype=np.int64)
    unknown["preceding_job"] = unknown["think_time"] = np.arange(n) != 39
    write_swf(replace(log, values=values, unknown=unknown), place / "log.swf")
    begin = int(log.values["submit"][39]) + log.origin
    orders = f"time,job,action,procs,requested\n{begin},40,hold,,\n{begin + 900_000},40,release,,\n"
    (place / "orders.csv").write_text(orders)
    (place / "late.csv").write_text("time,job,action\n1900000000,40,hold\n")
    queues = '[[queue]]\nname = "a"\nmost_procs = 32\n[[queue]]\nname = "b"\nleast_procs = 20\n'
    (place / "site.toml").write_text(queues)
    return place


@pytest.fixture
def jobcast(folder, monkeypatch, command):
    """Run the command in the folder; return its exit status and what it printed."""
    monkeypatch.chdir(folder)
    return command


def test_the_waits_of_the_log_stand_beside_the_simulated_ones(jobcast, folder):
    log, _ = read_log(folder / "log.swf")
    status, out, _ = jobcast("simulate log.swf --policy cobalt --by queue --json")
    assert status == 0
    wide = log["requested_procs"] >= 64 / 5
    short = ~wide & (log["requested_time"] <= 6 * 3600)
    found = {name: row["mean_wait_in_the_log_s"] for name, row in json.loads(out)["by"].items()}
    assert found["prod-capability"] == pytest.approx(log["wait"][wide].mean())
    assert found["prod-short"] == pytest.approx(log["wait"][short].mean())


@pytest.mark.parametrize("policy", ["cobalt", "easy"])
def test_commands_from_a_file(jobcast, policy):
    status, out, _ = jobcast(f"simulate log.swf --policy {policy} --commands orders.csv --explain 40 --json")
    found = json.loads(out)["explanation"]
    assert status == 0
    assert found["start"] >= found["submit"] + 900_000
    assert found["chain"][0]["finding"]["reason"] == "its user holds it"
    status, out, _ = jobcast(f"simulate log.swf --policy {policy} --commands late.csv --json")
    assert json.loads(out)["commands_too_late"] == 1


BAD = {
    "overlapping routes": ("simulate log.swf --policy cobalt --site site.toml", "'a' and 'b' overlap"),
    "missing site": ("simulate log.swf --policy cobalt --site nowhere.toml", "nowhere.toml: cannot be read"),
    "missing commands": ("simulate log.swf --commands nowhere.csv", "nowhere.csv: cannot be read"),
    "no queues": ("simulate log.swf --by queue", "needs queues"),
    "no reservation": ("simulate log.swf --policy cobalt-0", "cobalt-0"),
}


@pytest.mark.parametrize("line, what", BAD.values(), ids=BAD)
def test_bad_input_ends_with_one_line(jobcast, line, what):
    status, _, err = jobcast(line)
    assert status == 2
    assert what in err
    assert "Traceback" not in err
