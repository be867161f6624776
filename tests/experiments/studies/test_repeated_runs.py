"""The study on repeated runs: planted storms and drift come back, nothing looks ahead, bad tables are refused."""

import numpy as np
import pandas as pd
import pytest

from experiments.studies.repeated_runs import check, coincidence, foreseen_by, inputs_of, last_runs, slow, without_drift
from predictors.core.errors import JobcastError
from predictors.data.runs import read_runs
from predictors.variability.splits import days_left_out
from tests.support.commands import invoke
from tests.support.repeated_runs import table


def runs_of(frame, tmp_path):
    frame.to_csv(tmp_path / "runs.csv", index=False)
    return read_runs(tmp_path / "runs.csv")[0]


def test_storms_of_hours_are_shared_at_short_lags_and_gone_at_long_ones(tmp_path):
    storms = [(k, k + 0.3) for k in (3.2, 9.1, 17.4, 26.0, 33.3, 41.7, 52.5)]
    runs = runs_of(table(a_day=40, storms=storms), tmp_path)
    assert slow(runs)[0].mean() < 0.1
    found = coincidence(runs, 0).set_index(["pairs of", "lag_from_s"])
    other = found.loc["another application"]
    assert other.loc[0, "p_slow_after_slow"] > 0.8 and other.loc[172_800, "p_slow_after_slow"] < 0.15
    assert other.loc[0, "low"] > other.loc[0, "base"]
    counted = [(int((runs.start[j] - runs.start[i] < 900) & (runs.application[i] != runs.application[j])))
               for i in np.flatnonzero(slow(runs)[0]) for j in range(i + 1, min(i + 40, len(runs)))]  # fmt: skip
    assert other.loc[0, "pairs"] == sum(counted)


def test_runs_without_a_label_are_counted_and_in_no_figure(tmp_path):
    """Three runs on 99 nodes, whatever they took, and six of equal length on 98: neither pairs nor base move."""
    frame = table(a_day=20, days=30, storms=[(3, 4), (20, 20.5)])
    runs = runs_of(frame, tmp_path)
    odd = frame.head(9).assign(job_id=range(9001, 9010), node_count=[99] * 3 + [98] * 6)
    odd["application"], odd["end"] = "alpha", odd["start"] + 700
    more = runs_of(pd.concat([frame, odd]).sort_values("start"), tmp_path)
    pd.testing.assert_frame_equal(coincidence(more, 0), coincidence(runs, 0))
    account = {one.rule: one.count for one in check(more, "x").findings}
    assert account == {"no-label-few": 3, "no-label-constant": 6}
    assert not check(runs, "x").findings
    with pytest.raises(JobcastError, match="has 0 of 600 runs, of 0 applications"):
        each = frame.assign(node_count=range(1, len(frame) + 1))
        check(runs_of(each, tmp_path), "x")


def test_drift_is_taken_out(tmp_path):
    runs = runs_of(table(steps=[("beta", 48)]), tmp_path)
    mean = {out: slow(without_drift(runs) if out else runs)[0][runs.application == "beta"][-60:].mean()
            for out in (False, True)}  # fmt: skip
    assert mean[False] > 0.9 and mean[True] < 0.2


def test_last_runs_know_only_what_had_ended(tmp_path):
    """Whatever comes after a moment, the rows of the starts before it stay as they are."""
    frame = table(days=20)
    whole, _ = last_runs(runs_of(frame, tmp_path))
    changed = frame.copy()
    later = changed["start"] > 10 * 86_400
    changed.loc[later, "end"] += 5_000
    again, _ = last_runs(runs_of(changed, tmp_path))
    before = (~later).to_numpy()
    assert np.array_equal(whole[before], again[before], equal_nan=True)
    assert not np.array_equal(whole[~before], again[~before], equal_nan=True)


@pytest.mark.slow
def test_what_is_beside_a_run_foresees_a_storm_and_days_stay_together(tmp_path):
    runs = runs_of(table(a_day=16, storms=[(k, k + 0.8) for k in range(2, 60, 14)]), tmp_path)
    folds = days_left_out(runs, 5, 0)
    for fold in folds:
        days = runs.start // 86_400
        assert not set(days[fold.train]) & set(days[fold.test])
    assert np.sum([fold.test for fold in folds], axis=0).max() == 1
    assert list(inputs_of(runs)) == ["beside", "last runs", "both"]
    found = foreseen_by(runs, 0, quick=True).set_index(["inputs", "model", "split"])["f1"]
    assert found["beside", "decision-forest", "days left out"] > 0.9


@pytest.mark.slow
def test_the_command_and_its_refusals(tmp_path):
    frame = table(days=30, storms=[(3, 4), (20, 20.5), (27, 27.5)])
    frame.to_csv(tmp_path / "runs.csv", index=False)
    about = ["--out", str(tmp_path / "out")]
    done = invoke("experiment", "repeated-runs", "--runs", tmp_path / "runs.csv", "--quick", *about)
    assert done.exit_code == 0, done.output
    assert {"runs.csv", "coincidence_by_lag.csv", "F1_of_slow_runs.csv", "report.json"} <= {
        path.name for path in (tmp_path / "out" / "repeated-runs").iterdir()
    }
    frame.head(20).to_csv(tmp_path / "few.csv", index=False)
    for given, says in (
        ([], "give it with --runs TABLE"),
        (["--runs", str(tmp_path / "few.csv")], "the study needs 50 runs"),
        (["--runs", str(tmp_path / "none.csv")], "none.csv"),
    ):
        refused = invoke("experiment", "repeated-runs", *given, *about)
        assert refused.exit_code != 0 and isinstance(refused.exception, JobcastError | SystemExit)
        assert says in str(refused.exception) + refused.output
    with pytest.raises(JobcastError, match="cannot be dealt into 5 parts"):
        days_left_out(runs_of(table(days=2), tmp_path), 5, 0)
