"""The 282 inputs, and datasets of them: exact order, counted losses, nothing filled in, files that keep all."""

import copy
import pickle

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.data.runs import PROBES, Runs
from predictors.variability.dataset import Dataset, read_dataset, write_dataset
from predictors.variability.features import FEATURES, feature_row
from predictors.variability.windows import WINDOW_FEATURES, Windows


def some(n=12, seed=0):
    rng = np.random.default_rng(seed)
    start = np.round(rng.uniform(0, 1e5, n))
    probes = rng.uniform(0, 1, (n, 9))
    probes[1] = np.nan
    runs = Runs.of(
        job_id=np.arange(n),
        application=rng.choice(["AMG", "LBANN"], n),
        nodes=[sorted(rng.choice(64, 4, replace=False)) for _ in range(n)],
        start=start,
        end=start + rng.uniform(100, 500, n),
        workload=rng.choice(["compute", "io"], n),
        probes=probes,
        truth={"true_load": rng.uniform(size=n)},
    )
    windows = rng.normal(size=(n, 270))
    windows[2, :5] = np.nan
    return runs, windows


def test_there_are_exactly_282_inputs_in_the_papers_order():
    assert len(FEATURES) == 282 == len(set(FEATURES))
    assert len(WINDOW_FEATURES) == 66 + 102 + 102
    assert FEATURES[:4] == ("min_symbol_error", "max_symbol_error", "mean_symbol_error", "min_link_error_recovery")
    assert FEATURES[66] == "min_PortXmitData" and FEATURES[168] == "min_dirty_pages_hits"
    assert FEATURES[270:279] == PROBES
    assert PROBES[:4] == ("min_send_wait", "max_send_wait", "mean_send_wait", "min_recv_wait")
    assert FEATURES[279:] == ("is_compute", "is_network", "is_io")


def test_a_row_joins_window_probes_and_workload():
    window = np.arange(270.0)
    row = feature_row(window, np.arange(9.0), "network")
    np.testing.assert_array_equal(row, np.concatenate([window, np.arange(9.0), [0, 1, 0]]))
    absent = feature_row(window, None, "")
    assert np.isnan(absent[270:]).all()
    with pytest.raises(JobcastError, match="workload"):
        feature_row(window, None, "gpu")
    with pytest.raises(JobcastError, match=r"\(1, 270\)"):
        feature_row(window[:-1], None, "io")


def test_a_dataset_is_sorted_and_keeps_each_runs_row():
    runs, windows = some()
    dataset, account = Dataset.build(runs, windows, "all")
    assert not account.findings and (np.diff(dataset.runs.start) >= 0).all()
    for k, job in enumerate(dataset.runs.job_id):
        np.testing.assert_array_equal(dataset.rows[k, :270], windows[job])
        np.testing.assert_array_equal(dataset.rows[k, 270:279], runs.probes[job])
        assert dataset.runs.truth["true_load"][k] == runs.truth["true_load"][job]
    assert not set(dataset.runs.truth) & set(dataset.to_frame().columns)


def test_rows_that_cannot_be_built_are_counted_by_reason_never_filled():
    runs, windows = some()
    windows[[0, 5]] = np.nan
    nodes = [runs.nodes(k) if k != 7 else [] for k in range(12)]
    workload = [word if k not in (5, 8) else "" for k, word in enumerate(runs.workload.tolist())]
    runs = Runs.of(
        job_id=runs.job_id, application=runs.application, nodes=nodes, node_count=[4] * 12, start=runs.start,
        end=runs.end, workload=workload,
    )  # fmt: skip
    dataset, account = Dataset.build(runs, windows, "job")
    assert {f.rule: (f.count, f.places) for f in account.findings} == {
        "empty-window": (2, (0, 5)),
        "unknown-nodes": (1, (7,)),
        "unknown-workload": (1, (8,)),
    }
    assert sorted(dataset.runs.job_id) == [1, 2, 3, 4, 6, 9, 10, 11]
    assert dataset.about["dropped"] == {"empty-window": 2, "unknown-nodes": 1, "unknown-workload": 1}
    assert np.isnan(dataset.rows[:, 270:279]).all()
    assert np.isnan(dataset.rows[list(dataset.runs.job_id).index(2), :5]).all()
    assert len(Dataset.build(runs, windows, "all")[0]) == 9
    with pytest.raises(JobcastError, match="Not one of 12 runs"):
        Dataset.build(runs, np.full((12, 270), np.nan), "all")
    with pytest.raises(JobcastError, match="Windows must be"):
        Dataset.build(runs, windows[:, :-1], "all")


def test_runs_whose_nodes_are_mostly_silent_have_no_row():
    """Of four nodes one is a quarter: too many; over all nodes of a machine it does not matter."""
    runs, values = some()
    silent = np.zeros(12, dtype=np.int64)
    silent[4] = 1
    windows = Windows(runs.start, values, np.ones((12, 90), dtype=np.int64), silent)
    dataset, account = Dataset.build(runs, windows, "job")
    assert account.count("silent-nodes") == 1 and 4 not in dataset.runs.job_id
    assert len(Dataset.build(runs, windows, "all")[0]) == 12


def test_the_last_known_probes_are_those_of_a_run_that_began_before():
    runs = Runs.of(
        job_id=[1, 2, 3, 4], application=["a"] * 4, node_count=[1] * 4, start=[0, 10, 10, 20], end=[90] * 4,
        workload=["io"] * 4, probes=[[1.0] * 9, [np.nan] * 9, [3.0] * 9, [4.0] * 9],
    )  # fmt: skip
    dataset, _ = Dataset.build(runs, np.zeros((4, 270)), "all")
    first = dataset.with_probes("last-known").rows[:, 270]
    np.testing.assert_array_equal(first, [np.nan, 1, 1, 3])
    assert np.isnan(dataset.with_probes("absent").rows[:, 270:279]).all()
    np.testing.assert_array_equal(dataset.with_probes("live").rows, dataset.rows)
    assert dataset.with_probes("last-known").about["probes"] == "last-known"
    with pytest.raises(JobcastError, match="'now'"):
        dataset.with_probes("now")


@pytest.mark.parametrize("seed", range(3))
def test_a_file_gives_back_what_was_written(tmp_path, seed):
    dataset, _ = Dataset.build(*some(20, seed), "job", {"runs": "control.csv"})
    write_dataset(dataset, tmp_path / "data.parquet")
    back = read_dataset(tmp_path / "data.parquet")
    np.testing.assert_array_equal(back.rows, dataset.rows)
    assert back.digest() == dataset.digest() and dict(back.about) == dict(dataset.about) and back.scope == "job"
    for name in ("job_id", "application", "node_ids", "node_offsets", "start", "end", "probes", "workload"):
        np.testing.assert_array_equal(getattr(back.runs, name), getattr(dataset.runs, name))
    np.testing.assert_array_equal(back.runs.truth["true_load"], dataset.runs.truth["true_load"])


@pytest.mark.parametrize("again", [lambda data: pickle.loads(pickle.dumps(data)), copy.deepcopy])
def test_a_dataset_goes_to_another_process_and_back(again):
    dataset, _ = Dataset.build(*some(20), "job", {"runs": "control.csv"})
    back = again(dataset)
    assert back.digest() == dataset.digest() and dict(back.about) == dict(dataset.about)
    np.testing.assert_array_equal(back.runs.truth["true_load"], dataset.runs.truth["true_load"])
    assert not back.rows.flags.writeable
    with pytest.raises(TypeError):
        back.about["runs"] = "other.csv"


def test_a_digest_tells_inputs_times_and_scopes_apart():
    runs, windows = some()
    seen = {Dataset.build(runs, windows, scope)[0].digest() for scope in ("all", "job")}
    seen.add(Dataset.build(runs, windows + 1e-9, "all")[0].digest())
    assert len(seen) == 3


def test_files_that_are_no_datasets_are_refused(tmp_path):
    import pandas as pd

    with pytest.raises(JobcastError, match=r"no\.parquet"):
        read_dataset(tmp_path / "no.parquet")
    (tmp_path / "text.parquet").write_text("job_id")
    with pytest.raises(JobcastError, match="no Parquet"):
        read_dataset(tmp_path / "text.parquet")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(JobcastError, match="no dataset of `jobcast variability dataset`"):
        read_dataset(tmp_path / "other.parquet")
    dataset, _ = Dataset.build(*some(), "job")
    write_dataset(dataset, tmp_path / "cut.parquet")
    data = bytearray((tmp_path / "cut.parquet").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "cut.parquet").write_bytes(bytes(data))
    with pytest.raises(JobcastError, match=r"cut\.parquet"):
        read_dataset(tmp_path / "cut.parquet")


def test_labels_of_a_dataset_do_not_look_at_the_test_part():
    runs, windows = some(60)
    dataset, _ = Dataset.build(runs, windows, "all")
    train = np.arange(60) < 40
    later = np.where(train, dataset.runs.end, dataset.runs.end + 1e4)
    moved, _ = Dataset.build(
        Runs.of(
            job_id=dataset.runs.job_id, application=dataset.runs.application, node_count=dataset.runs.node_count,
            start=dataset.runs.start, end=later, workload=dataset.runs.workload,
        ),
        dataset.rows[:, :270],
        "all",
    )  # fmt: skip
    one, two = dataset.labels(train), moved.labels(train)
    np.testing.assert_array_equal(one.classes[train], two.classes[train])
    assert (dataset.labels().classes[train] != moved.labels().classes[train]).any()
