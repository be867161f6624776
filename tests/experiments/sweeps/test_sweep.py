"""Sweeps: declared without doubt, the same table however they are run, and nothing done twice."""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.compare.measures import AS_LOGGED
from experiments.reports.provenance import code_digest
from experiments.runs.checkpoints import run_directory
from experiments.runs.simulate import run_by_name
from experiments.sweeps import plan as sweep_plan
from experiments.sweeps import run as sweep_run
from experiments.sweeps.plan import plan
from experiments.sweeps.report import as_table, compared
from experiments.sweeps.results import TIMES, read_results
from experiments.sweeps.run import evaluate_many, run_sweep, simulate_many
from experiments.sweeps.sweep import Case, LogFile, Sweep
from predictors.core.errors import JobcastError
from predictors.data.cleaning import clean
from predictors.data.formats.detect import write_log
from predictors.data.synthetic.generate import generate_log
from predictors.evaluation.evaluate import evaluate
from predictors.models.similar_jobs import SimilarRuns
from schedsim.workload.shaking import shaken
from tests.support.commands import invoke

LOG = generate_log(300, seed=3)
OTHER = generate_log(250, seed=4)
WAYS = (Case("EASY", "easy"), Case("careful", "careful", "careful"), Case("last-two", "easy-sjbf", "last-two"))


def untimed(runs):
    return runs.drop(columns=[name for name in TIMES if name in runs])


# ---------------------------------------------------------------- declarations


def test_a_toml_file_sets_the_fields(tmp_path):
    text = """
        logs = ["a.swf", {path = "~/b.swf", procs = 100}]
        policies = ["easy", "easy-sjbf"]
        estimates = ["requested", "tsafrir"]
        corrections = ["requested", "incremental"]
        seeds = 3
        by = ["size"]
        beside = "easy, requested"
    """
    made = Sweep.from_toml(text, "s.toml", tmp_path)
    assert made.logs == (LogFile(str(tmp_path / "a.swf")), LogFile(str(Path("~/b.swf").expanduser()), 100))
    assert [case.name for case in made.all_cases] == [
        f"{policy}, {rest}"
        for policy in ("easy", "easy-sjbf")
        for rest in ("requested", "tsafrir, requested", "tsafrir, incremental")  # a request never expires
    ]
    assert len(made.runs_of_a_log) == 6 * (3 + 1)
    cases = Sweep.from_toml('cases = [{name = "x", policy = "easy"}]\nseeds = [4, 2]', "s.toml")
    assert (cases.all_cases, cases.seeds) == ((Case("x", "easy"),), (4, 2))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('polices = ["easy"]', "did you mean 'policies'"),
        ('logs = [{path = "a", proc = 3}]', "did you mean 'procs'"),
        ('cases = [{name = "x", policy = "easy", estimate = "y"}]', "did you mean 'estimates'"),
        ('cases = [{name = "x"}]', "cases 1 .*: 'policy' is missing"),
        ("cases = [3]", "must be a table"),
        ('policies = ["eazy"]', "did you mean 'easy'"),
        ('policies = "easy"', "policies must be a list; got 'easy'"),
        ('estimates = ["forrest"]', "did you mean 'forest'"),
        ('corrections = ["none"]', "No correction 'none'"),
        ('kind = "simulat"', "did you mean 'simulate'"),
        ('predictors = ["forest"]', "predictors is for sweeps that evaluate"),
        ('kind = "evaluate"\npredictors = ["forest"]\npolicies = ["easy"]', "policies is for sweeps that simulate"),
        ('kind = "evaluate"', "needs predictors"),
        ('kind = "evaluate"\npredictors = ["forrest"]', "did you mean 'forest'"),
        ('kind = "train"\npredictors = ["forest"]\nprotocol = "reis"', "protocol is for sweeps that evaluate"),
        ('policies = ["conservative-compress"]\nestimates = ["default"]', "and revised estimates do not compose"),
        ('estimates = ["clairvoyant"]\nbudget = 0.1', "A budget cannot go with"),
        ('estimates = ["careful"]\nsoft_limits = "slurm"', "careful are several: name one predictor"),
        ('estimates = ["tsafrir"]\nsoft_limits = "slrum"', "did you mean 'slurm'"),
        ('kind = "evaluate"\npredictors = ["cesnet"]\nsoft_limits = "pbs"', "soft_limits is for sweeps that simulate"),
        ('estimates = ["tsafrir"]\nbudget = 3', "budget"),
        ('corrections = ["incremental"]\nestimates = ["tsafrir"]\nkill = false', "does not go with kill = false"),
        ('policies = ["easy"]\ncases = [{name = "x", policy = "easy"}]', "not both"),
        ('cases = [{name = "x", policy = "easy"}, {name = "x", policy = "sjf"}]', "are called 'x'"),
        ("as_logged = false", "runs nothing"),
        ("seeds = [1, 1]", "must differ"),
        ("seeds = [-1]", "seeds 1 must be at least 0; got -1"),
        ("seeds = -3", "whole numbers from 0, or how many; got -3"),
        ('seeds = 2\nbeside = "x"\n'
         'cases = [{name = "x", policy = "easy", shaken = false}, {name = "y", policy = "sjf"}]',
         "nothing can be compared with it"),
        ("seeds = 1e3", "whole numbers from 0"),
        ("as_logged = 1", "true or false"),
        ("train = 0.8\nbeside = 'esy'", "No case to compare with 'esy'"),
        ('kind = "evaluate"\npredictors = ["forest"]\ntrain = 80', "train must be below 1.0; got 80"),
        ('by = ["sice"]', "did you mean 'size'"),
        ('measure = "mean_wait"', "did you mean 'mean_wait_s'"),
        ('logs = [{path = "a", procs = 0}]', "logs 1: procs must be at least 1; got 0"),
        ("policies = [", "is no TOML"),
        ("kind = 1", "kind must be a text; got 1"),
        ("protocol = []", "protocol must be a text"),
        ("beside = {a = 1}", "beside must be a text"),
        ("measure = 1979-05-27", "No measure '1979-05-27'"),
        ('cases = "easy"', "cases must be a list; got 'easy'"),
        ("cases = 3", "cases must be a list; got 3"),
        (r'cases = [{name = "a\u001b[2J", policy = "easy"}]', "no line breaks or control characters"),
        ('logs = ["~no-such-user/a.swf"]', "there is no such user"),
        ("seeds = 1000000000", "at most 100,000 seeds"),
        ("seeds = [4294967296]", "at most 4294967295; got 4294967296"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told_before_anything_is(text, told):
    with pytest.raises(JobcastError, match=told) as caught:
        Sweep.from_toml(text, "s.toml")
    assert str(caught.value).startswith("s.toml: ")


def test_logs_must_differ_in_name_and_jobs():
    with pytest.raises(JobcastError, match="same jobs"):
        simulate_many([LOG, LOG])
    renamed = LOG.select(slice(0, 200))
    with pytest.raises(JobcastError, match="another log of this sweep is called"):
        simulate_many([LOG, renamed])
    with pytest.raises(JobcastError, match="needs logs"):
        simulate_many([])


# ---------------------------------------------------------------- what is run


@pytest.fixture(scope="module")
def table():
    return simulate_many([LOG, OTHER], seeds=[5, 6], cases=WAYS, by=["size"])


def test_each_row_is_the_run_that_it_names(table):
    runs = table.runs.set_index(["log", "case", "seed"])
    assert list(runs.index.unique(2)) == [5, 6, AS_LOGGED]
    assert len(runs) == 2 * 3 * 3
    for log in (LOG, OTHER):
        cleaned = clean(log)[0]
        for case in WAYS:
            for seed in (5, AS_LOGGED):
                jobs = cleaned if seed == AS_LOGGED else shaken(cleaned, seed)
                alone = run_by_name(jobs, case.policy, case.estimates, case.correction)[1]
                row = runs.loc[log.name, case.name, seed]
                for name in ("mean_bounded_slowdown", "mean_wait_s", "max_wait_s", "p99_wait_s", "killed", "procs"):
                    assert row[name] == alone[name], (log.name, case, seed, name)
                assert row["log_sha256"] == cleaned.digest()


def test_groups_add_up_to_the_runs(table):
    groups = table.groups.set_index(["log", "case", "seed"]).sort_index()
    for key, run in table.runs.set_index(["log", "case", "seed"]).iterrows():
        part = groups.loc[key]
        assert set(part["by"]) == {"size"}
        assert part["n_jobs"].sum() == run["n_jobs"]
        assert np.isclose((part["n_jobs"] * part["mean_wait_s"]).sum() / run["n_jobs"], run["mean_wait_s"])


def test_the_table_says_where_it_comes_from(table, tmp_path):
    run_sweep(Sweep(cases=WAYS[:1], seeds=(1,)), [LOG], folder=tmp_path)
    about = read_results(tmp_path).about
    assert about["sweep"]["seeds"] == [1]
    assert about["logs"][0]["name"] == LOG.name
    assert about["logs"][0]["sha256"] == clean(LOG)[0].digest()
    assert {"jobcast", "numpy", "numba"} <= set(about["versions"])
    assert about["seconds"] > 0
    assert "git_commit" in about


def test_a_cleaned_log_in_memory_is_the_same_as_the_log():
    cleaned = clean(LOG)[0]
    assert untimed(simulate_many([cleaned], seeds=1).runs).equals(untimed(simulate_many([LOG], seeds=1).runs))


def test_cases_that_are_not_shaken_run_once_and_rules_without_a_name_run():
    cases = (Case("EASY", "easy"), Case("mine", "default", SimilarRuns(factor=0.7), shaken=False))
    runs = simulate_many([LOG], seeds=2, cases=cases).runs
    assert list(zip(runs["case"], runs["seed"], strict=True)) == [("EASY", 1), ("EASY", 2), ("EASY", -1), ("mine", -1)]
    assert runs["estimates"].iloc[-1] == repr(SimilarRuns(factor=0.7))
    with pytest.raises(JobcastError, match="seeds 1 must be at least 0; got -2"):
        simulate_many([LOG], seeds=-2)


def test_evaluations_are_those_of_evaluate_and_told_by_user():
    found = evaluate_many([LOG], ["last-two", "user-mean"], seeds=(0, 1))
    direct = evaluate(LOG, ["user-mean"], seed=1)["user-mean"].figures
    row = found.runs[(found.runs["case"] == "user-mean") & (found.runs["seed"] == 1)].iloc[0]
    assert row["sse_s2"] == direct.sse_s2
    part = found.groups[(found.groups["case"] == "user-mean") & (found.groups["seed"] == 1)]
    assert np.isclose(part["sse_s2"].sum(), direct.sse_s2)
    assert np.isclose(part["error_s"].sum() / part["n_jobs"].sum(), direct.mae_s)
    assert part["underestimated"].sum() == round(direct.underestimation_rate * direct.n_test)


def test_a_run_that_cannot_be_done_is_told_and_the_others_are_kept(tmp_path, monkeypatch):
    from experiments.sweeps import work as sweep_work

    def sometimes(log, policy, *more, **options):
        if policy.name == "sjf":
            raise JobcastError("this one is odd.")
        return run_by_name(log, policy, *more, **options)

    monkeypatch.setattr(sweep_work, "run_by_name", sometimes)
    ways = [Case("EASY", "easy"), Case("odd", "sjf")]
    with pytest.raises(
        JobcastError, match=r"2 runs of 4 could not be done\. odd on .* seed 1: this one is odd\. 2 of 4 runs"
    ):
        simulate_many([LOG], cases=ways, seeds=1, folder=tmp_path)
    monkeypatch.undo()
    assert len(simulate_many([LOG], cases=ways, seeds=1, folder=tmp_path).runs) == 4


# ---------------------------------------------------------------- going on


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sweep_plan, "LEAST", 1.0)


def test_only_what_is_missing_is_run_again(tmp_path, small_batches, monkeypatch):
    sweep, done = Sweep(cases=WAYS, seeds=tuple(range(1, 9))), []

    def stops(log, batch):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(batch)
        return do(log, batch)

    do = sweep_run.do
    monkeypatch.setattr(sweep_run, "do", stops)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, [LOG], folder=tmp_path)
    kept = {(c.case.name, c.seed) for batch in done for c in batch.cells}
    assert 0 < len(kept) < 27
    assert not (tmp_path / "results.parquet").exists()
    again = []
    monkeypatch.setattr(sweep_run, "do", lambda log, batch: again.append(batch) or do(log, batch))
    found = run_sweep(sweep, [LOG], folder=tmp_path)
    repeated = {(c.case.name, c.seed) for batch in again for c in batch.cells}
    assert not repeated & kept
    assert len(repeated | kept) == 27
    assert untimed(found.runs).equals(untimed(run_sweep(sweep, [LOG]).runs))
    again.clear()
    assert run_sweep(sweep, [LOG], folder=tmp_path).runs.equals(found.runs)  # finished: nothing is run, times and all
    assert not again


def test_a_sweep_stopped_between_its_two_tables_is_not_finished(tmp_path, monkeypatch):
    """Without its groups a finished evaluation would be judged by its seeds, which hardly differ, instead of users."""
    from experiments.sweeps import results as sweep_results

    sweep, tables = Sweep(kind="evaluate", predictors=("last-two", "user-mean"), seeds=(0,)), []

    def stops(table, path, *about):
        if tables:
            raise KeyboardInterrupt
        tables.append(path)
        return write(table, path, *about)

    write = sweep_results._write
    monkeypatch.setattr(sweep_results, "_write", stops)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, [LOG], folder=tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(sweep_run, "do", None)  # all runs are kept: none is done again
    assert len(run_sweep(sweep, [LOG], folder=tmp_path).groups)
    assert len(read_results(tmp_path).groups)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seeds": (1, 2, 3)}, "differs in seeds"),
        ({"cases": WAYS[:2]}, "differs in cases"),
        ({"kill": False}, "differs in kill"),
    ],
)
def test_a_folder_of_another_sweep_is_refused_and_left_alone(tmp_path, change, told):
    sweep = Sweep(cases=WAYS[:1], seeds=(1,))
    run_sweep(sweep, [LOG], folder=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(JobcastError, match=told):
        run_sweep(Sweep(**{"cases": WAYS[:1], "seeds": (1,), **change}), [LOG], folder=tmp_path)
    for other in (OTHER, replace(LOG, epoch=86_400), replace(LOG, time_zone="Europe/Paris")):
        with pytest.raises(JobcastError, match=r"differs in (its )?logs"):
            run_sweep(sweep, [other], folder=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_folder_of_other_edits_is_refused(tmp_path, monkeypatch):
    checkout, sweep = tmp_path / "checkout", Sweep(cases=WAYS[:1], seeds=(1,))
    (checkout / "schedsim").mkdir(parents=True)
    digests = []
    for line in ("SPEED = 1", "SPEED = 2", "SPEED = 1"):
        (checkout / "schedsim" / "engine.py").write_text(line)
        code_digest.cache_clear()
        digests.append(code_digest(checkout))
    assert digests[0] == digests[2] != digests[1]
    run_sweep(sweep, [LOG], folder=tmp_path / "out")
    monkeypatch.setattr("experiments.runs.checkpoints.code_digest", lambda: digests[1])
    with pytest.raises(JobcastError, match="differs in code"):
        run_sweep(sweep, [LOG], folder=tmp_path / "out")


def test_other_folders_are_refused(tmp_path):
    sweep = Sweep(cases=WAYS[:1])
    (tmp_path / "thesis.tex").write_text("…", encoding="utf-8")
    with pytest.raises(JobcastError, match=r"holds thesis\.tex, but no sweep"):
        run_sweep(sweep, [LOG], folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]  # not even a lock is left
    with pytest.raises(JobcastError, match="no folder of results can be made"):
        run_sweep(sweep, [LOG], folder=tmp_path / "thesis.tex")
    with (
        run_directory(tmp_path / "busy", "sweep", "mine", {}),
        pytest.raises(JobcastError, match="another process is at work"),
    ):
        run_sweep(sweep, [LOG], folder=tmp_path / "busy")


def test_damaged_parts_and_tables_are_told(tmp_path):
    sweep = Sweep(cases=WAYS[:1], seeds=(1,))
    run_sweep(sweep, [LOG], folder=tmp_path)
    (tmp_path / "results.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(JobcastError, match="damaged"):
        read_results(tmp_path)
    (tmp_path / "results.parquet").unlink()
    with pytest.raises(JobcastError, match="let `jobcast sweep"):
        read_results(tmp_path)
    for sheet in ("[" * 200_000, "{}", '{"identity": 1}'):
        (tmp_path / "sweep.json").write_text(sheet)
        with pytest.raises(JobcastError, match=r"sweep\.json: (cannot be read|does not say)"):
            run_sweep(sweep, [LOG], folder=tmp_path)


def test_a_table_of_groups_that_is_damaged_or_gone_is_told_and_the_way_out_leads_out(tmp_path):
    sweep = Sweep(cases=WAYS[:1], seeds=(1,), by=("size",))
    groups = run_sweep(sweep, [LOG], folder=tmp_path).groups
    (tmp_path / "groups.parquet").write_bytes(b"PAR1 cut short")
    for _ in range(2):
        with pytest.raises(
            JobcastError, match=r"groups\.parquet: .*; delete .*results\.parquet and run the same command"
        ):
            run_sweep(sweep, [LOG], folder=tmp_path)
        (tmp_path / "groups.parquet").unlink(missing_ok=True)
    (tmp_path / "results.parquet").unlink()
    assert run_sweep(sweep, [LOG], folder=tmp_path).groups.equals(groups)
    assert read_results(tmp_path).groups.equals(groups)


def test_a_part_that_is_cut_short_changed_or_another_sweeps_is_told(tmp_path, small_batches, monkeypatch):
    sweep = Sweep(cases=WAYS[:1], seeds=(1, 2))
    monkeypatch.setattr(sweep_run, "write_results", None)  # killed before the table
    for folder, log in (("a", LOG), ("b", OTHER)):
        with pytest.raises(TypeError):
            run_sweep(sweep, [log], folder=tmp_path / folder)
    monkeypatch.undo()
    part, *_ = parts = sorted((tmp_path / "a" / "parts").iterdir())
    content = part.read_bytes()
    for changed in (content[:-20], content[:200] + bytes([content[200] ^ 1]) + content[201:]):
        part.write_bytes(changed)
        with pytest.raises(
            JobcastError, match=rf"{part.name}: is (a damaged|no) Parquet file.*; delete it, and it is done again"
        ):
            run_sweep(sweep, [LOG], folder=tmp_path / "a")
    part.write_bytes(content)
    foreign = min((tmp_path / "b" / "parts").iterdir())
    shutil.copy(foreign, tmp_path / "a" / "parts")
    with pytest.raises(JobcastError, match=rf"{foreign.name}: holds runs of another sweep"):
        run_sweep(sweep, [LOG], folder=tmp_path / "a")
    (tmp_path / "a" / "parts" / foreign.name).unlink()
    parts[-1].unlink()
    half = tmp_path / "a" / "parts" / f".{parts[-1].name}.k3j_9a0b.parquet"  # a kill in the middle of writing
    half.write_bytes(content[:100])
    assert untimed(run_sweep(sweep, [LOG], folder=tmp_path / "a").runs).equals(untimed(run_sweep(sweep, [LOG]).runs))
    assert not half.exists()


def test_batches_hold_every_cell_once_whatever_the_number_of_workers():
    planned = plan(Sweep(cases=WAYS, seeds=tuple(range(1, 40))), [LOG, OTHER])
    for workers in (1, 2, 64):
        dealt = sweep_plan.batches(planned, planned.cells, workers)
        assert sorted(c.key for batch in dealt for c in batch) == sorted(c.key for c in planned.cells)
        assert all(len({c.log for c in batch}) == 1 for batch in dealt)


# ---------------------------------------------------------------- MLflow


def test_a_sweep_is_a_parent_run_with_children_written_once(home, tmp_path):
    from mlflow import MlflowClient

    from experiments.sweeps.tracking import track_sweep
    from predictors.tracking.store import Store

    folder, sweep = tmp_path / "out", Sweep(cases=WAYS[:2], seeds=(1, 2, 3))
    planned, found = plan(sweep, [LOG]), run_sweep(sweep, [LOG], folder=folder)
    parent = track_sweep(found, planned, folder)
    assert track_sweep(found, planned, folder) == parent
    client = MlflowClient(Store.current().uri)
    runs = client.search_runs([client.get_run(parent).info.experiment_id])
    assert len(runs) == 1 + 2
    children = {run.info.run_name: run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent}
    easy = children[f"EASY on {LOG.name}"]
    assert easy.data.params["policy"] == "easy"
    steps = {m.step: m.value for m in client.get_metric_history(easy.info.run_id, "mean_wait_s")}
    rows = found.runs[found.runs["case"] == "EASY"].set_index("seed")["mean_wait_s"]
    assert steps == rows.to_dict()
    assert all(run.info.status == "FINISHED" for run in runs)
    assert [file.path for file in client.list_artifacts(parent)] == ["results.parquet"]
    whole = client.get_run(parent).info
    assert (whole.end_time - whole.start_time) / 1000 >= found.about["seconds"] > 0
    assert all(whole.start_time <= run.info.start_time for run in children.values())
    took = found.runs[found.runs["case"] == "EASY"]["seconds"].sum()
    assert (easy.info.end_time - easy.info.start_time) / 1000 >= took - 0.001 > 0


def test_trained_models_come_back_from_the_store_as_children(home, tmp_path):
    from mlflow import MlflowClient

    from experiments.sweeps.tracking import track_sweep
    from predictors.registry import make_predictor
    from predictors.tracking.client import load_model
    from predictors.tracking.store import Store

    sweep = Sweep(kind="train", predictors=("user-mean", "online-linear"), seeds=(0,))
    planned, found = plan(sweep, [LOG]), run_sweep(sweep, [LOG], folder=tmp_path / "out")
    parent = track_sweep(found, planned, tmp_path / "out")
    client = MlflowClient(Store.current().uri)
    runs = client.search_runs([client.get_run(parent).info.experiment_id])
    children = {run.data.params["predictor"]: run for run in runs if "mlflow.parentRunId" in run.data.tags}
    assert set(children) == {"user-mean", "online-linear"}
    for name, run in children.items():
        model = load_model(f"runs:/{run.info.run_id}")
        np.testing.assert_array_equal(model.predictor.predict(LOG), make_predictor(name).fit(LOG).predict(LOG))
        assert model.sha256 == found.runs.set_index("case").loc[name, "model_sha256"]


def test_models_are_given_back_where_there_is_no_folder():
    found = run_sweep(Sweep(kind="train", predictors=("user-mean",)), [LOG])
    (files,) = found.models.values()
    assert "manifest.json" in files


# ---------------------------------------------------------------- the command


def test_the_command_judges_and_leaves_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(LOG, tmp_path / "log.swf")
    (tmp_path / "mine.toml").write_text(
        'logs = ["log.swf"]\nseeds = 6\nbeside = "easy"\npolicies = ["fcfs", "easy", "easy-sjbf"]\n'
    )
    told = invoke("sweep", "mine.toml", "--json")
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout)
    assert {one["case"]: one["beside"] for one in document["judgements"]} == {"fcfs": "easy", "easy-sjbf": "easy"}
    assert document["runs"] == 21
    folder = Path(document["folder"])
    assert folder.parent == Path("reports")
    assert {"results.parquet", "report.html", "ratios.png", "runs.csv", "sweep.json"} <= {
        p.name for p in folder.iterdir()
    }
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert document["judgements"][0]["sentence"].split(":")[0] in page
    again = invoke("sweep", "mine.toml", "--beside", "fcfs")  # judged again, nothing run
    assert again.exit_code == 0
    assert "easy is better than fcfs" in again.output or "makes others wait" in again.output


def test_cases_that_are_not_shaken_are_shown_but_not_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(LOG, tmp_path / "log.swf")
    (tmp_path / "mine.toml").write_text(
        'logs = ["log.swf"]\nseeds = 5\n[[cases]]\nname = "look"\npolicy = "sjf"\nshaken = false\n'
        '[[cases]]\nname = "easy"\npolicy = "easy"\n[[cases]]\nname = "fcfs"\npolicy = "fcfs"\n'
    )
    told = invoke("sweep", "mine.toml", "--out", "out", "--json")
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout)
    assert [(one["case"], one["beside"]) for one in document["judgements"]] == [("fcfs", "easy")]
    runs = read_results(tmp_path / "out").runs
    (shown,) = [row for row in document["tables"]["by case"] if row["case"] == "look"]
    assert shown["mean_wait_s"] == runs.loc[runs["case"] == "look", "mean_wait_s"].item()
    assert "alone, and so not judged: look." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("no.swf",), "no.swf"),
        (("no.toml",), "no.toml"),
        (("s.toml", "--policies", "easy"), "leave out --policies"),
        (("s.toml", "log.swf"), "leave out log.swf"),
        (("log.swf", "--policies", "eazy"), "did you mean 'easy'"),
        (("log.swf", "--queue", "slrm"), "did you mean 'slurm'"),
        (("log.swf", "--queue", "slurm"), "--memory 4GB"),
        (("log.swf", "--memory", "much"), "must be a size"),
        (("log.swf", "--scheduler", "nowhere"), "no address of a scheduler"),
        (("log.swf", "--scheduler", "a:1", "--queue", "pbs", "--memory", "1GB"), "not both"),
        (("log.swf", "--walltime", "1:00"), "for workers of a batch system"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(tmp_path, monkeypatch, command, arguments, told):
    monkeypatch.chdir(tmp_path)
    write_log(LOG, tmp_path / "log.swf")
    (tmp_path / "s.toml").write_text('logs = ["log.swf"]')
    status, out, err = command(" ".join(["sweep", *arguments]))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert told in err
    assert not (tmp_path / "reports").exists()


def test_progress_is_shown_on_terminals_only(capsys):
    simulate_many([LOG], seeds=1)
    assert capsys.readouterr() == ("", "")


def test_numbers_survive_being_kept(tmp_path):
    """Figures that do not exist, and floats to the last digit, come back from parts as they went in."""
    from experiments.sweeps.results import SweepFolder
    from experiments.sweeps.work import Done

    planned = plan(Sweep(cases=WAYS[:1]), [LOG])
    place, cell = SweepFolder(tmp_path, planned), planned.cells[0]
    told = {"log": cell.log, "case": cell.case.name, "seed": cell.seed}
    rows = [told | {"a": 0.1 + 0.2, "b": float("nan"), "c": float("inf"), "d": None, "e": 2**53 - 1, "f": True}]
    place.keep(Done(rows=rows))
    pd.testing.assert_frame_equal(pd.DataFrame(place.kept().rows), pd.DataFrame(rows))
    assert place.kept().rows[0]["a"] == 0.1 + 0.2


def test_older_names_are_those_of_today():
    """So that the same sweep goes on in the same folder, and its tables say the speaking names."""
    older = Sweep(policies=("easy", "default"), estimates=("default", "bold"), beside="default, default")
    today = Sweep(policies=("easy", "careful"), estimates=("careful", "bold"), beside="careful, careful")
    assert older.all_cases == today.all_cases
    assert older.beside == today.beside == "careful, careful"


def test_with_figures_by_user_verdicts_tell_the_share_of_users_who_are_worse_off():
    """The table of judgements has it, recomputed here user by user; without figures by user there is no such column."""
    log, _ = clean(generate_log(150, seed=5, procs=64, users=6))
    found = simulate_many([log], ["easy", "sjf"], seeds=2, by=("user",))
    (judged,) = compared(found)[0]
    shares = []
    for seed in (1, 2):
        waits = {name: run_by_name(shaken(log, seed), name)[0] for name in ("easy", "sjf")}
        users = shaken(log, seed).values["user"]
        means = [[one.wait[users == user].mean() for user in np.unique(users)] for one in waits.values()]
        worse = [now > 1.05 * before and now > before + 600 for before, now in zip(*means, strict=True)]
        shares.append(sum(worse) / len(worse))
    assert judged.worse_off.share == np.median(shares)
    assert as_table((judged,))["users worse off"].tolist() == [judged.worse_off.share]
    bare = compared(simulate_many([log], ["easy", "sjf"], seeds=2))[0]
    assert bare[0].worse_off is None and "users worse off" not in as_table(bare)


@pytest.mark.slow
def test_a_sweep_killed_outright_goes_on(tmp_path):
    """SIGKILL in the middle, no goodbye: what was written is whole, and the table is that of an undisturbed run."""
    write_log(generate_log(3000, seed=1), tmp_path / "log.swf")
    out, command = tmp_path / "out", [sys.executable, "-m", "experiments.cli", "sweep", str(tmp_path / "log.swf")]
    command += ["--policies", "easy,easy-sjbf,default", "--estimates", "default", "--seeds", "60", "--out", str(out)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    while not list(out.glob("parts/[!.]*.parquet")) and time.monotonic() - begin < 60 and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = len(list(out.glob("parts/[!.]*.parquet")))
    assert kept > 0
    assert not (out / "results.parquet").exists(), "killed too late to tell anything"
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(told)["runs"] == 183
    direct = simulate_many([str(tmp_path / "log.swf")], ["easy", "easy-sjbf", "default"], ["default"], seeds=60)
    assert untimed(read_results(out).runs).equals(untimed(direct.runs))
