"""The study of stress: each scenario changes one thing of the same jobs, and is told beside EASY in the same one."""

import numpy as np
import pytest

from experiments.runs.setting import Setting
from experiments.runs.simulate import run_by_name
from experiments.studies.stress import (
    ALONE,
    DOUBLED,
    EASY,
    GAMING,
    HALVED,
    RATIOS,
    SCENARIOS,
    USUAL,
    WITHIN,
    at_load,
    gamers,
    offered_load,
    run,
    runs_of,
    weeks_of,
    with_requests,
)
from jobcast import JobcastError, JobLog, clean, generate_log
from schedsim.workload.shaking import shaken


@pytest.fixture(scope="module")
def log():
    return clean(generate_log(400, seed=4, procs=64, users=30))[0]


def test_a_tenth_of_the_users_game_all_their_jobs_and_others_none(log):
    chosen = gamers(log, seed=3)
    users = log.values["user"]
    assert len(set(users[chosen])) == round(0.1 * len(set(users)))
    assert not set(users[chosen]) & set(users[~chosen])
    assert (chosen == gamers(log, seed=3)).all()
    assert any((chosen != gamers(log, seed=seed)).any() for seed in (4, 5, 6))
    few = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 1], "user": [7, 8]}, {"user": [False, True]})
    assert gamers(few, seed=1).tolist() == [True, False]  # at least one user, and nobody is none


@pytest.mark.parametrize(("factor", "asked"), [(0.5, [50, 1, 200]), (2.0, [200, 2, 200])])
def test_only_the_requests_of_those_who_game_change(factor, asked):
    columns = {"job_id": [1, 2, 3], "submit": [0, 1, 2], "requested_time": [100, 1, 200], "run_time": [90, 1, 50]}
    before = JobLog.from_columns(columns, {})
    after = with_requests(before, np.array([True, True, False]), factor)
    assert after["requested_time"].tolist() == asked
    assert after["run_time"].tolist() == before["run_time"].tolist()


@pytest.mark.parametrize("load", [0.3, 0.95, 1.05])
def test_the_offered_load_is_what_was_asked_for_and_the_jobs_are_the_same(log, load):
    moved = at_load(log, load)
    work = sum(n * min(run_time, asked) for n, run_time, asked in zip(
        moved.procs.tolist(), moved["run_time"].tolist(), moved["requested_time"].tolist(), strict=True))  # fmt: skip
    assert offered_load(moved) == pytest.approx(load, rel=1e-4)
    assert work / (64 * int(moved["submit"][-1])) == pytest.approx(load, rel=1e-4)
    assert sorted(moved["job_id"].tolist()) == sorted(log["job_id"].tolist())
    order = np.argsort(moved["job_id"])
    assert (moved["run_time"][order] == log["run_time"][np.argsort(log["job_id"])]).all()


def test_weeks_lie_in_the_middle_and_are_at_most_a_quarter_of_the_log(log):
    submit = log.values["submit"]
    rows = weeks_of(log)
    assert submit[rows].min() >= submit[-1] // 2
    assert submit[rows].max() - submit[-1] // 2 <= min(28 * 86_400, submit[-1] // 4)
    assert weeks_of(log, length=3600).sum() < rows.sum()


def test_rows_are_the_schedules_of_the_changed_jobs(log):
    """One shake, recomputed setting by setting from what each scenario says that it changes."""
    runs = runs_of(log, 2).set_index(["scenario", "case"])
    assert list(runs.index.unique("scenario")) == list(SCENARIOS)
    jobs = shaken(log, 2)
    games, weeks = gamers(jobs, 2), weeks_of(jobs)
    changed = {
        USUAL: jobs,
        HALVED: with_requests(jobs, games, 0.5),
        "load 1.05": at_load(jobs, 1.05),
        ALONE: jobs.select(weeks),
    }
    for scenario, one in changed.items():
        easy = run_by_name(one, "easy")[0]
        own = run_by_name(one, "balanced", "balanced")[0]
        row = runs.loc[scenario, "balanced"]
        assert row["wait"] == pytest.approx(own.wait.mean() / easy.wait.mean())
        assert row["killed"] == own.killed.sum()
        if scenario == HALVED:
            before = run_by_name(jobs, "balanced", "balanced")[0]
            assert row["gamers"] == pytest.approx(own.wait[games].mean() / before.wait[games].mean())
            assert row["others"] == pytest.approx(own.wait[~games].mean() / before.wait[~games].mean())
            assert row["killed"] > runs.loc[USUAL, "balanced"]["killed"]
    easy, own = (run_by_name(jobs, *names)[0] for names in (("easy",), ("balanced", "balanced")))
    assert runs.loc[WITHIN, "balanced"]["wait"] == pytest.approx(own.wait[weeks].mean() / easy.wait[weeks].mean())
    assert runs.loc[WITHIN, "balanced"]["n_jobs"] == runs.loc[ALONE, "balanced"]["n_jobs"] == weeks.sum()
    assert (runs.xs(EASY, level="case")[list(RATIOS)].dropna() == 1.0).all().all()
    assert runs.loc[DOUBLED][list(GAMING)].notna().all().all() and runs.loc[USUAL]["gamers"].isna().all()


def test_a_log_without_users_has_no_games(log):
    alone = log.replaced({}).select(slice(0, 120))
    nobody = JobLog.from_columns(
        {name: alone.values[name] for name in ("job_id", "submit", "run_time", "requested_time", "requested_procs")},
        {}, max_procs=64,
    )  # fmt: skip
    assert not {HALVED, DOUBLED} & set(runs_of(nobody, 1)["scenario"])


def test_a_log_of_one_second_is_refused(tmp_path):
    columns = {"job_id": [1, 2], "submit": [5, 5], "run_time": [9, 9], "requested_time": [9, 9]}
    one = JobLog.from_columns(columns | {"requested_procs": [1, 1], "user": [1, 1]}, {}, max_procs=4)
    with pytest.raises(JobcastError, match="all jobs are submitted at one second"):
        run(Setting(one, tmp_path))
