"""Sweeps, advice and the study of backfilling on machines of nodes with GPUs and memory."""

import json

import numpy as np
import pandas as pd
import pytest

from experiments.registry import _facts
from experiments.runs.checkpoints import with_checkpoints
from experiments.runs.setting import Setting
from experiments.sweeps.plan import plan
from experiments.sweeps.sweep import LogFile
from jobcast import JobcastError, JobLog, Sweep, read_results, run_sweep
from predictors.data.formats.detect import writer_for
from schedsim.machine.node_groups import Machine, NodeGroup
from tests.support.commands import invoke

MACHINE = """
[[nodes]]
name = "thin"
count = 2
processors = 8
[[nodes]]
name = "gpu"
count = 2
processors = 4
gpus = 2
"""
NODES = Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 2, 4, gpus=2)))


def log_of(n=120, seed=3, name="site"):
    """Jobs that want one to four GPUs or none, submitted faster than the GPUs can serve them."""
    random = np.random.default_rng(seed)
    gpus = random.choice([0, 0, 1, 2, 4], n)
    run = random.integers(60, 4000, n)
    columns = {
        "job_id": np.arange(1, n + 1), "submit": np.sort(random.integers(0, 200 * n, n)),
        "wait": np.zeros(n, dtype=int), "run_time": run, "requested_time": run * random.integers(1, 5, n),
        "requested_procs": np.where(gpus > 0, gpus, random.choice([1, 2, 8], n)), "requested_gpus": gpus,
        "user": random.integers(0, 6, n),
    }  # fmt: skip
    return JobLog.from_columns({key: value.tolist() for key, value in columns.items()}, {}, name=name)


@pytest.fixture
def place(tmp_path):
    """A log and a machine file side by side."""
    (tmp_path / "machine.toml").write_text(MACHINE)
    writer_for(tmp_path / "site.parquet")(log_of(), tmp_path / "site.parquet")
    return tmp_path


def test_each_row_is_what_simulate_prints_and_tells_of_the_machine(place, monkeypatch):
    monkeypatch.chdir(place)
    swept = invoke("sweep site.parquet --machine machine.toml --policies easy,easy-sjbf --seeds 1 --json")
    assert swept.exit_code == 0, swept.output
    found = json.loads(swept.stdout)
    table = read_results(place / found["folder"]).runs
    one = json.loads(invoke("simulate site.parquet --machine machine.toml --shake 1 --json").stdout)
    row = table[(table["case"] == "easy") & (table["seed"] == 1)].iloc[0]
    assert row["mean_wait_s"] == one["mean_wait_s"]
    assert row["gpus_utilisation"] == one["resources"]["gpus"]["utilisation"]
    assert row["gpus_mean_wait_s"] == one["by_dominant"]["gpus"]["mean_wait_s"]
    assert found["tables"]["by case and log"][0]["gpus_utilisation"] > 0
    assert json.loads((place / found["folder"] / "report.json").read_text())["facts"]["nodes"] == f"site: {NODES.words}"
    machine = found["about"]["logs"][0]["machine"]
    assert [group["name"] for group in machine["nodes"]] == ["thin", "gpu"]


def test_another_machine_is_another_sweep_and_the_same_file_is_the_same():
    sweep, log = Sweep(seeds=(1,)), log_of()
    assert plan(sweep, [log], NODES).identity() == plan(sweep, [log], Machine(NODES.nodes, "elsewhere")).identity()
    larger = Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 2, 4, gpus=4)))
    assert plan(sweep, [log], NODES).identity() != plan(sweep, [log], larger).identity()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "sweep site.parquet --machine machine.toml --policies easy,knapsack",
            "Case 'knapsack': nodes with GPUs and memory and a knapsack do not compose",
        ),
        ("sweep site.parquet --machine machine.toml --procs 5", "have 24 processors; leave --procs out"),
        ("sweep site.parquet --machine machine.toml --predictors last-two --kind evaluate", "machine is for sweeps"),
        ("sweep site.parquet --machine gone.toml", "gone.toml"),
    ],
)
def test_what_does_not_go_on_nodes_is_refused_in_one_line(place, monkeypatch, words, says):
    monkeypatch.chdir(place)
    refused = invoke(words)
    assert isinstance(refused.exception, JobcastError)
    with pytest.raises(JobcastError, match=says):
        raise refused.exception


def test_a_declared_sweep_names_the_machine_beside_its_file(place):
    text = 'logs = [{path = "site.parquet", machine = "machine.toml"}]\nseeds = 1\n'
    sweep = Sweep.from_toml(text, "sweep.toml", place)
    assert plan(sweep).logs[next(iter(plan(sweep).logs))].machine.gpus == 4


@pytest.mark.slow
def test_the_study_of_backfilling_runs_on_nodes(place, monkeypatch):
    monkeypatch.chdir(place)
    words = ["experiment", "backfilling", "--log", "site.parquet", "--machine", "machine.toml", "--quick", "--json"]
    found = invoke(*words)
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert {row["case"] for row in told["tables"]["medians"]} >= {"EASY", "careful", "balanced"}
    facts = json.loads(next(place.rglob("report.json")).read_text())["facts"]
    assert facts["processors"] == 24 and facts["nodes"] == NODES.words
    assert f'"{NODES.words}"' in next(place.rglob("runs_site.csv")).read_text()  # pooled with no runs without nodes


def test_an_experiment_is_kept_beside_that_of_another_machine(tmp_path):
    folders = set()
    for gpus in (None, 2, 4):
        machine = None if gpus is None else Machine((NodeGroup("gpu", 2, 4, gpus=gpus),))
        with with_checkpoints("backfilling", Setting(log_of(5), tmp_path, machine=machine)) as kept:
            folders.add(kept.checkpoints)
    assert len(folders) == 3
    source = Machine(NODES.nodes, "elsewhere")
    facts = _facts("backfilling", Setting(log_of(5), tmp_path, machine=source))
    assert (facts["processors"], facts["nodes"]) == (
        24, "thin: count 2, processors 8; gpu: count 2, processors 4, gpus 2",
    )  # fmt: skip


def test_one_log_on_several_machines_stands_in_a_row_for_each(place):
    """On nodes, on nodes with fewer GPUs and on processors alone; each run is what it is without the others."""
    (place / "fewer.toml").write_text(MACHINE.replace("gpus = 2", "gpus = 1"))
    names = (", machine = 'machine.toml'", ", machine = 'fewer.toml'", ", procs = 24", ", procs = 64")
    text = "policies = ['easy', 'careful']\nseeds = 1\n"

    def ran(*more):
        logs = ", ".join(f"{{path = 'site.parquet'{one}}}" for one in more)
        return run_sweep(Sweep.from_toml(f"{text}logs = [{logs}]\ndrop_wide = true\n", "a.toml", place)).runs

    together = ran(*names)
    assert list(dict.fromkeys(together["log"])) == [
        f"site on {one}" for one in ("machine", "fewer", "24 processors", "64 processors")
    ]
    alone = pd.concat([ran(one) for one in names], ignore_index=True)
    assert set(alone["log"]) == {"site"}
    figures = ["log_sha256", "case", "seed", "n_jobs", "mean_wait_s", "mean_bounded_slowdown", "makespan_s"]
    assert together[figures].equals(alone[figures])
    with pytest.raises(JobcastError, match="holds the same jobs as site on fewer; give it once"):
        ran(*names, names[1])
    (place / "other").mkdir()
    (place / "other" / "fewer.toml").write_text(MACHINE)
    with pytest.raises(JobcastError, match="another log of this sweep is called site on fewer; rename one"):
        ran(names[1], ", machine = 'other/fewer.toml'")


def test_machines_that_differ_in_their_switches_are_two(tmp_path):
    text = '[[nodes]]\nname = "a"\ncount = 4\nprocessors = 9\ngpus = 4\nswitch = "leaf[1-2]"\n'
    for name, parents in (("one", ("top", "top")), ("two", ("top", "other"))):
        switches = [f'[[switches]]\nname = "leaf{k}"\nparent = "{parent}"\n' for k, parent in enumerate(parents, 1)]
        above = [f'[[switches]]\nname = "{parent}"\n' for parent in dict.fromkeys(parents)]
        (tmp_path / f"{name}.toml").write_text(text + "".join((*switches, *above)))
    path = tmp_path / "site.swf.gz"
    writer_for(path)(log_of(), path)
    files = [LogFile(str(path), machine=str(tmp_path / f"{name}.toml")) for name in ("one", "two")]
    assert list(plan(Sweep(logs=tuple(files), policies=("easy",), seeds=(1,))).logs) == ["site on one", "site on two"]
    alone = [plan(Sweep(logs=(file,), policies=("easy",), seeds=(1,))).identity() for file in files]
    assert alone[0] != alone[1]
