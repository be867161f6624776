"""Experiments of many runs: the same files from any number of workers and after a kill, and nothing done twice."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from experiments.papers.ceil import study as ceil
from experiments.papers.ceil.cases import busiest
from experiments.papers.cobalt import cases as cobalt_cases
from experiments.papers.rush import dose as rush_dose
from experiments.registry import EXPERIMENTS, MANY, perform
from experiments.reports import page
from experiments.reports.figures import write_table
from experiments.reports.report import Report
from experiments.runs import checkpoints as trials
from experiments.runs.checkpoints import run_all, run_directory, with_checkpoints
from experiments.runs.setting import Setting
from jobcast import JobcastError, Pool, clean, generate_log, read_log, write_log
from predictors.core.files import whole_file
from predictors.data.synthetic.capability import generate_capability_log

LOG = generate_log(60, seed=1)
TOLD = ({"epoch": 86_400}, {"time_zone": "Europe/Paris"}, {"categories": {"user": ("ana",)}}, {"max_nodes": 7})
"""What a log may tell beside its values."""
TWO_MONTHS = generate_capability_log([(500, 0.1), (700, 0.2)], seed=3)


def squares(shared, task):
    """One row a task, with what is hard to write down exactly."""
    if task in shared:
        raise JobcastError(f"{task} cannot be squared.")
    return pd.DataFrame(
        {"task": [task], "square": task * task / 3, "none": float("nan"), "text": "Köln", "big": 2**53 + 1, "yes": True}
    )


def test_a_page_that_another_run_writes_is_left_alone(tmp_path):
    """A report is written without the lock; what a kill cut short lies among the parts."""
    cut_short = tmp_path / "parts" / ".table.csv.k3j_9a0b.csv"
    with run_directory(tmp_path, "sweep", "mine", {}):
        cut_short.parent.mkdir()
        cut_short.touch()
    with whole_file(tmp_path / "report.html") as page, run_directory(tmp_path, "sweep", "mine", {}):
        assert page.exists() and not cut_short.exists()


@pytest.fixture
def counts(monkeypatch):
    """How often a task is done."""
    done = []

    def counted(shared, task):
        done.append(task)
        return squares(shared, task)

    return done, counted


# ---------------------------------------------------------------- what is kept


def test_what_is_done_is_not_done_again(tmp_path, counts):
    done, function = counts
    setting = Setting(LOG, tmp_path, checkpoints=tmp_path)
    with pytest.raises(JobcastError, match=r"^3 cannot be squared\. 3 of 5 runs are kept in .*: the same command"):
        run_all(setting, "squares", function, {3}, range(5))
    with pytest.raises(JobcastError, match=r"^9 cannot be squared\.$"):
        run_all(setting, "squares", squares, {9}, [9])
    found = run_all(setting, "squares", function, set(), range(5))
    assert done == [0, 1, 2, 3, 3, 4]
    pd.testing.assert_frame_equal(pd.concat(found), pd.concat(squares((), task) for task in range(5)))
    run_all(setting, "squares", function, set(), [4, 0])
    assert len(done) == 6
    run_all(setting, "squares", function, set(), [0], {"model": "another"})
    run_all(setting, "other squares", function, set(), [0])
    assert done[6:] == [0, 0]


def test_without_a_folder_nothing_is_kept(tmp_path, counts):
    done, function = counts
    with pytest.raises(JobcastError, match=r"^1 cannot be squared\.$"):
        run_all(Setting(LOG, tmp_path), "squares", function, {1}, range(3))
    assert len(run_all(Setting(LOG, tmp_path), "squares", function, set(), range(3))) == 3
    assert len(done) == 5 and not list(tmp_path.iterdir())


def test_a_damaged_part_is_told(tmp_path):
    setting = Setting(LOG, tmp_path, checkpoints=tmp_path)
    run_all(setting, "squares", squares, set(), [1])
    (part,) = (tmp_path / trials.PARTS).iterdir()
    part.write_bytes(part.read_bytes()[:-200])
    with pytest.raises(
        JobcastError, match=rf"{part.name}: is (a damaged|no) Parquet file.*; delete it, and it is done again"
    ):
        run_all(setting, "squares", squares, set(), [1])


def test_another_experiment_begins_anew_and_leaves_this_one_alone(tmp_path):
    setting, folders = Setting(LOG, tmp_path, seed=1), []
    others = [replace(setting, seed=2), replace(setting, quick=True), replace(setting, procs=300),
              replace(setting, log=generate_log(60, seed=2)), replace(setting, predictors=("forest",)),
              *(replace(setting, log=replace(LOG, **told)) for told in TOLD)]  # fmt: skip
    for one in (setting, *others, replace(setting, pool=Pool(2))):
        with pytest.raises(KeyboardInterrupt), with_checkpoints("ceil", one) as kept:
            run_all(kept, "squares", squares, set(), [1])
            folders.append(kept.checkpoints)
            raise KeyboardInterrupt
    assert len(set(folders[:-1])) == 6 + len(TOLD)
    assert folders[-1] == folders[0]  # who works is no matter
    assert all(list((folder / trials.PARTS).iterdir()) for folder in folders)
    with with_checkpoints("ceil", setting) as kept:
        pass
    assert {path.name for path in tmp_path.iterdir()} == {folder.name for folder in folders[1:-1]}


def test_an_experiment_that_failed_at_once_leaves_no_folder(tmp_path):
    with pytest.raises(JobcastError), with_checkpoints("ceil", Setting(LOG, tmp_path)):
        raise JobcastError("No month has jobs.")
    assert not list(tmp_path.iterdir())


def test_the_same_twice_at_a_time_is_refused(tmp_path):
    with with_checkpoints("ceil", Setting(LOG, tmp_path)) as kept:
        busy = pytest.raises(JobcastError, match="another process is at work there")
        with busy, run_directory(kept.checkpoints, "experiment", "mine", {}):
            pass
        with with_checkpoints("ceil", Setting(LOG, tmp_path, seed=1)):
            pass
    (tmp_path / kept.checkpoints.name).mkdir()
    (tmp_path / kept.checkpoints.name / "thesis.tex").write_text("…", encoding="utf-8")
    with pytest.raises(JobcastError, match=r"holds thesis\.tex, but no experiment"), with_checkpoints("ceil", kept):
        pass
    assert (tmp_path / kept.checkpoints.name / "thesis.tex").exists()


# ---------------------------------------------------------------- experiments


def test_experiments_are_known():
    assert set(MANY) < set(EXPERIMENTS)


@pytest.mark.slow
def test_ceil_cobalt_and_the_dose_are_the_same_from_two_workers(scheduler, tmp_path):
    """Of each a few small trials, here and by workers, kept and read again."""
    there = Setting(LOG, tmp_path, pool=Pool(scheduler=scheduler.scheduler_address), checkpoints=tmp_path)
    months = busiest(TWO_MONTHS)[:1]
    small = clean(generate_log(80, seed=4, procs=96))[0]
    dose = rush_dose.Plan(seed=1, seeds=1, days=3)
    cases = {
        "ceil": (ceil.runs_of, ceil.Work(months, quick=True), (1, 2)),
        "cobalt": (cobalt_cases.runs_of, (small, True, 0), (1, 2)),
        "rush-dose": (rush_dose.trials_of, dose, [rush_dose.Case(placement="best-fit")]),
    }
    for name, (function, shared, tasks) in cases.items():
        found = run_all(there, name, function, shared, tasks)
        for table, task in zip(found, tasks, strict=True):
            pd.testing.assert_frame_equal(table, function(shared, task), obj=name, check_exact=True)


def files_of(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix == ".csv"}


@pytest.mark.slow
def test_an_experiment_killed_outright_goes_on_and_writes_the_same(tmp_path, scheduler, monkeypatch):
    """SIGKILL in the middle of ceil, the rest by two workers; byte for byte the files of an undisturbed run."""
    write_log(TWO_MONTHS, tmp_path / "log.swf")
    out = tmp_path / "killed" / "ceil"
    command = [sys.executable, "-m", "experiments.cli", "experiment", "ceil", "--quick", "--log",
               str(tmp_path / "log.swf"), "--out", str(out.parent)]  # fmt: skip
    first, begin = subprocess.Popen(command, stdout=subprocess.DEVNULL), time.monotonic()
    while not list(out.glob("unfinished-*/parts/[!.]*")) and time.monotonic() - begin < 60 and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    parts = list(out.glob("unfinished-*/parts/[!.]*"))
    assert 1 <= len(parts) < 5, "killed too early or too late to tell anything"
    before = {part.name: part.stat().st_mtime_ns for part in parts}
    jobs, undisturbed = read_log(tmp_path / "log.swf")[0], tmp_path / "undisturbed"
    undisturbed.mkdir()
    monkeypatch.setattr(
        page, "draw", lambda folder, name, table, *_, **__: [write_table(table, folder / f"{name}.csv")]
    )
    expected = page.write_report(undisturbed, ceil.run(Setting(jobs, undisturbed, quick=True)))
    seen = {}

    def looks(setting):
        report = ceil.run(setting)
        seen.update({part.name: part.stat().st_mtime_ns for part in (setting.checkpoints / "parts").iterdir()})
        return report

    monkeypatch.setattr("experiments.registry.experiment_by_name", lambda name: looks)
    pool = Pool(scheduler=scheduler.scheduler_address)
    report = perform("ceil", Setting(jobs, out, quick=True, pool=pool))
    assert len(seen) == 5 and before.items() <= seen.items()  # what was done was not done again
    assert not list(out.glob("unfinished-*"))
    assert report.verdict == expected.verdict
    made = files_of(out)
    assert {name: made.get(name) for name in files_of(undisturbed)} == files_of(undisturbed)


def test_what_is_kept_goes_only_when_the_report_stands(tmp_path, monkeypatch):
    def run(setting):
        (table,) = run_all(setting, "squares", squares, set(), [2])
        return Report(experiment="ceil", log="x", seeds=(1,), tables={"t": table}, data={"t": table})

    def interrupted(folder, report, begin):
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.registry.experiment_by_name", lambda name: run)
    with monkeypatch.context() as patch:
        patch.setattr("experiments.registry.write_report", interrupted)
        with pytest.raises(KeyboardInterrupt):
            perform("ceil", Setting(LOG, tmp_path))
    assert len(list(tmp_path.glob("unfinished-*/parts/*"))) == 1
    perform("ceil", Setting(LOG, tmp_path))
    assert not list(tmp_path.glob("unfinished-*")) and (tmp_path / "report.html").exists()
