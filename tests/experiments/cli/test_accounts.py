"""Every command's account adds up, and what a log lacks is said first; on logs that are odd in one way each."""

import json
import re

import numpy as np
import pytest

from jobcast import JobLog, generate_log
from predictors.data.formats.swf import write_swf
from tests.support.service_in_thread import running
from tests.support.slow import slow_but

N = 240
SACCT = "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State|Partition"


def changed(log, **columns):
    """Return a log with other columns; -1 is unknown."""
    values = {name: log.filled(name) for name in log.values} | columns
    unknown = {name: column == -1 for name, column in values.items()}
    about = {"max_procs": log.max_procs, "epoch": log.epoch}
    return JobLog.from_columns(values, unknown, **about)


def sacct(log):
    """Return rows of sacct with a step for each second job; a fifth was cancelled while it waited."""
    rows = [SACCT]
    for i in range(N):
        submit = np.datetime64("2025-01-01T00:00:00") + int(log.values["submit"][i])
        start, run = submit + int(log.filled("wait", 0)[i]), int(log.values["run_time"][i])
        procs, limit = int(log.procs[i]), -(-int(log.values["requested_time"][i]) // 60)
        if i % 5 == 0:
            rows.append(f"{i + 1}|u{i % 7}|{submit}|Unknown|{start}|0|{limit}|0|{procs}|CANCELLED|p{i % 2}")
            continue
        rows.append(f"{i + 1}|u{i % 7}|{submit}|{start}|{start + run}|{run}|{limit}|{procs}|{procs}|COMPLETED|p{i % 2}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six odd logs of 240 rows each."""
    place = tmp_path_factory.mktemp("odd")
    log = generate_log(N, seed=5, procs=64, load=1.0, users=9)
    row, asked, run = np.arange(N), log.filled("requested_time"), log.filled("run_time")
    odd = {
        "overruns": changed(log, run_time=np.where(row % 4 == 0, 2 * asked, run)),
        "requestless": changed(
            log, requested_time=np.where(row % 3 == 0, -1, asked), run_time=np.where(row % 10 == 1, -1, run)
        ),
        "waitless": changed(log, wait=np.full(N, -1), run_time=np.where(row % 12 == 0, 0, run)),
        "alone": changed(log, user=np.full(N, 3), partition=1 + row % 2),
    }
    for name, one in odd.items():
        write_swf(one, place / f"{name}.swf")
    write_swf(log, place / "torn.swf")
    lines = (place / "torn.swf").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith(";"))
    lines[first + 3] = "4 100 7"
    lines[first + 9] = lines[first + 8]
    lines[first + 20] = lines[first + 20].replace(lines[first + 20].split()[1], "-1", 1)
    (place / "torn.swf").write_text("\n".join(lines) + "\n")
    (place / "slurm.txt").write_text(sacct(log))
    return place


LOGS = ("overruns.swf", "requestless.swf", "waitless.swf", "alone.swf", "torn.swf", "slurm.txt")
COMMANDS = {
    "info": "log info {log}", "convert": "log convert {log} out.swf", "join": "log join out2.swf {log}",
    "evaluate": "evaluate {log} --predictors user-mean",
    "prequential": "evaluate {log} --predictors user-mean --prequential", "simulate": "simulate {log} {procs}",
    "cobalt": "simulate {log} {procs} --policy cobalt",
    "sweep": "sweep {log} {procs} --policies easy --seeds 1 --out sweep-{log}",
    "sweep evaluate": "sweep {log} --kind evaluate --predictors user-mean --out scores-{log}",
}  # fmt: skip


def used_by(name, document):
    """Return how many jobs a command says that it used."""
    if name in ("info", "convert", "join"):
        return document["jobs"]
    if name in ("evaluate", "prequential"):
        noted = [f["count"] for f in document["account"]["findings"] if f["rule"] == "not-ended"]
        return document["n_train"] + document["n_test"] + sum(noted)
    return document.get("n_jobs")


def adds_up(account):
    """Hold an account against the rows of the file."""
    dropped = sum(f["count"] for f in account["findings"] if f["effect"] == "dropped")
    assert account["read"] == account["used"] + account["dropped"] == N
    assert dropped == account["dropped"]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("name", COMMANDS)
def test_read_is_used_and_dropped(name, log, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    procs = "--procs 64" if log == "slurm.txt" else ""
    status, out, err = command(f"{COMMANDS[name].format(log=log, procs=procs)} --json")
    assert status == 0, err
    document = json.loads(out)
    account = document["account"] if "account" in document else document["about"]["logs"][0]["account"]
    adds_up(account)
    if used_by(name, document) is not None:
        assert account["used"] == used_by(name, document)


@pytest.mark.parametrize("log", LOGS)
def test_a_replay_adds_up(log, folder, tmp_path, monkeypatch, command):
    monkeypatch.chdir(folder)
    procs = None if log == "slurm.txt" else 64
    with running(tmp_path, machine_procs=procs) as one:
        status, out, err = command(f"replay {log} --url {one.url} --batch 500 --json")
    assert status == 0, err
    document = json.loads(out)
    adds_up(document["account"])
    assert document["account"]["used"] == document["n_jobs"]


@pytest.mark.parametrize("log", slow_but(LOGS, "requestless.swf", "slurm.txt"))
def test_training_and_predicting_add_up(log, folder, home, monkeypatch, command):
    monkeypatch.chdir(folder)
    status, out, err = command(f"train {log} --predictor user-mean --register odd --json")
    assert status == 0, err
    trained = json.loads(out)
    adds_up(trained["account"])
    assert trained["account"]["used"] == trained["model"]["n_jobs"]
    status, out, err = command(f"predict models:/odd/1 {log} --out out.csv --json")
    assert status == 0, err
    predicted = json.loads(out)
    adds_up(predicted["account"])
    assert predicted["account"]["used"] == predicted["n_jobs"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reis", "logstudy"])
def test_an_experiment_adds_up(name, folder, tmp_path, monkeypatch, command):
    monkeypatch.chdir(folder)
    status, out, err = command(f"experiment {name} --log overruns.swf --quick --out {tmp_path} --json")
    assert status == 0, err
    adds_up(json.loads(out)["account"])


def test_an_experiment_has_requested_times_made(folder, tmp_path, monkeypatch, command):
    monkeypatch.chdir(folder)
    line = f"experiment start-times --log requestless.swf --quick --out {tmp_path} --json"
    status, out, err = command(f"{line} --requests-from 24:00:00")
    assert status == 0, err
    found = json.loads(out)
    adds_up(found["account"])
    made = next(f for f in found["account"]["findings"] if f["rule"] == "made-request")
    assert made["count"] == 72 and found["account"]["used"] == N - N // 10
    assert found["lacks"][0]["name"] == "made-requests" and "24:00:00" in found["lacks"][0]["text"]
    assert "requested times made from" in next(tmp_path.rglob("report.html")).read_text(encoding="utf-8")


FIRST = {
    "overruns.swf": set(), "requestless.swf": {"dropped", "utilisation"}, "waitless.swf": {"no-waits"},
    "alone.swf": {"one-user"}, "torn.swf": {"dropped-rows"},
}  # fmt: skip


@pytest.mark.parametrize("log", FIRST)
def test_the_first_line_says_what_the_log_lacks(log, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    document = json.loads(command(f"simulate {log} --json")[1])
    names = [lack["name"] for lack in document["lacks"]]
    assert set(names) - {"utilisation"} == FIRST[log] - {"utilisation"}
    first = command(f"simulate {log}")[1].splitlines()[0]
    told = command(f"log info {log}")[1].splitlines()
    if names:
        assert (
            first == told[0] == "Caution: " + " ".join((document["lacks"][0]["text"], document["lacks"][0]["remedy"]))
        )
    else:
        assert not first.startswith("Caution") and not told[0].startswith("Caution")
    assert told[-1].startswith("Next: jobcast ") and log in told[-1]


def test_requests_are_made_where_the_log_has_none(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    without = json.loads(command("simulate requestless.swf --json")[1])
    for rule in ("24:00:00", "run-time*2"):
        found = json.loads(command(f"simulate requestless.swf --requests-from {rule} --json")[1])
        adds_up(found["account"])
        made = next(f for f in found["account"]["findings"] if f["rule"] == "made-request")
        assert found["n_jobs"] == without["n_jobs"] + made["count"]
        assert found["lacks"][0]["name"] == "made-requests" and rule in found["lacks"][0]["text"]
        assert found["lacks"][0]["forbids_verdict"] == (rule == "run-time*2")
    status, _, err = command("simulate requestless.swf --requests-from walltime")
    assert status == 2 and "run-time*2" in err and "24:00:00" in err


def test_no_advice_from_a_log_that_carries_none(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    status, out, err = command("advise waitless.swf --seeds 5 --out reports --json")
    assert status == 0, err
    document = json.loads(out)
    assert document["advice"]["choice"] is None and document["advice"]["no_verdict_since"] == ["no-waits"]
    said = "No verdict: this log carries none. The log records no waits."
    assert " ".join(document["verdict"]).startswith(said), "the first lines of the answer"
    adds_up(document["account"])


def test_what_is_wrong_with_the_options_is_said_before_the_log_is_read(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    for line, told in (
        ("evaluate nowhere.swf --budget 5", "budget"),
        ("evaluate nowhere.swf --requests-from x", "run-time"),
        ("replay nowhere.swf --check forrest", "did you mean 'forest'"),
        ("advise nowhere.swf --requests-from x", "run-time"),
        ("experiment reis --log nowhere.swf --requests-from x", "run-time"),
        ("log convert nowhere.swf new.swf --requests-from x", "run-time"),
    ):
        status, _, err = command(line)
        assert status == 2 and told in err and "nowhere" not in err


def test_an_explanation_has_the_dates_of_its_log(tmp_path, command):
    """Also where the log's own clock does not begin with its first job, as in sacct."""
    (tmp_path / "a.txt").write_text(sacct(generate_log(N, seed=5, procs=64, load=1.0, users=9)))
    done, out, _ = command(f"simulate {tmp_path}/a.txt --procs 64 --explain 3".split())
    assert done == 0 and "2025-01-0" in out
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d\b", out)) <= {f"2025-01-{day:02}" for day in range(1, 32)}
