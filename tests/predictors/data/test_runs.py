"""Tables of runs are kept as they are, in memory and in files; bad rows are refused or counted."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.runs import PROBES, Runs, compact, expand, read_runs, write_runs


def some_runs(n=5, seed=0):
    rng = np.random.default_rng(seed)
    probes = rng.uniform(0, 1, (n, 9))
    probes[0] = np.nan
    start = np.sort(rng.uniform(0, 1e5, n))
    return Runs.of(
        job_id=np.arange(n) + 10,
        application=rng.choice(["AMG", "LBANN"], n),
        nodes=[rng.choice(64, int(size), replace=False) for size in rng.integers(1, 9, n)],
        start=start,
        end=start + rng.uniform(1, 500, n),
        workload=rng.choice(["compute", "network", "io", ""], n),
        region_time=np.where(rng.random(n) < 0.5, np.nan, rng.uniform(1, 500, n)),
        probes=probes,
        truth={"true_load": rng.normal(size=n)},
    )


def same(one, other):
    names = (
        "job_id", "application", "node_count", "start", "end", "workload", "node_ids", "node_offsets", "region_time",
        "probes",
    )  # fmt: skip
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert list(one.truth) == list(other.truth)
    for name in one.truth:
        np.testing.assert_array_equal(one.truth[name], other.truth[name])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("seed", range(3))
def test_files_give_back_what_was_written(tmp_path, suffix, seed):
    runs = some_runs(7, seed)
    write_runs(runs, tmp_path / f"runs.{suffix}")
    back, account = read_runs(tmp_path / f"runs.{suffix}", strict=True)
    same(runs, back)
    assert not account.findings


@given(st.sets(st.integers(0, 300)))
def test_node_sets_survive_their_writing(nodes):
    assert expand(compact(sorted(nodes))) == sorted(nodes)


def test_region_time_stands_for_the_jobs_only_where_all_runs_of_a_kind_have_it():
    """Runs of one application on as many nodes are measured against each other: one sort of time for all of them."""
    runs = Runs.of(
        job_id=range(1, 7),
        application=["a", "b", "a", "a", "b", "a"],
        node_count=[4, 4, 8, 4, 4, 8],
        start=[0] * 6,
        end=[100, 200, 300, 400, 500, 600],
        workload=["io"] * 6,
        region_time=[80, 180, 280, np.nan, 480, 580],
    )
    assert runs.run_time.tolist() == [100, 180, 280, 400, 480, 580]
    assert runs.nodes(0).size == 0
    assert runs.select(slice(0, 0)).run_time.size == 0


@pytest.mark.parametrize("again", [lambda runs: pickle.loads(pickle.dumps(runs)), copy.deepcopy, copy.copy])
def test_tables_go_to_other_processes_and_back(again):
    runs = some_runs(6)
    back = again(runs)
    same(back, runs)
    with pytest.raises(TypeError):
        back.truth["true_other"] = back.start
    for column in (back.start, back.truth["true_load"]):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_rows_are_chosen_and_joined_with_their_nodes():
    runs = some_runs(6)
    picked = runs.select(np.array([4, 1]))
    assert picked.nodes(0).tolist() == runs.nodes(4).tolist()
    same(Runs.joined([runs.select(slice(0, 2)), runs.select(slice(2, None))]), runs)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"job_id": [1, 1]}, "unique"),
        ({"application": ["a", ""]}, "name"),
        ({"end": [5, -1]}, "before start"),
        ({"start": [0, np.nan]}, "finite"),
        ({"workload": ["io", "gpu"]}, "workload"),
        ({"node_count": [1, 3]}, "node_count"),
        ({"region_time": [1, -2]}, "region_time"),
        ({"probes": np.full((2, 8), 1.0)}, "shape"),
        ({"probes": np.full((2, 9), -1.0)}, "probes"),
        ({"nodes": [[-1], [2]]}, "ascend"),
        ({"truth": {"load": [1, 2]}}, "true_"),
    ],
)
def test_what_cannot_be_a_run_is_refused(change, said):
    good = {
        "job_id": [1, 2],
        "application": ["a", "b"],
        "nodes": [[1], [2]],
        "start": [0, 0],
        "end": [5, 6],
        "workload": ["io", "io"],
    }
    with pytest.raises(JobcastError, match=said):
        Runs.of(**{**good, **change})


def test_bad_rows_of_a_file_are_counted_by_rule_and_strict_refuses_them(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "job_id,application,nodes,start,end,workload,region_time,max_send_wait\n"
        "1,AMG,0-3,0,300,compute,280,0.5\n"
        "x,AMG,0-3,0,300,compute,280,0.5\n"
        "2,,0-3,0,300,compute,280,0.5\n"
        "3,AMG,0-3,400,300,compute,280,0.5\n"
        "4,AMG,3-0,0,300,compute,280,0.5\n"
        "5,AMG,,0,300,compute,280,0.5\n"
        "6,AMG,7,0,300,gpu,slow,\n"
        "1,AMG,0-3,500,900,compute,280,0.5\n"
    )
    runs, account = read_runs(path)
    assert runs.job_id.tolist() == [1, 6]
    assert (account.dropped, account.changed) == (6, 2)
    assert np.isnan(runs.region_time[1]) and runs.workload[1] == ""
    assert runs.probes[0, PROBES.index("max_send_wait")] == 0.5
    with pytest.raises(JobcastError, match=r"runs\.csv:3.*job_id"):
        read_runs(path, strict=True)


def test_files_that_are_no_runs_are_refused_in_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("job_id,application,start\n1,AMG,3\n")
    with pytest.raises(JobcastError, match="no column 'end'"):
        read_runs(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("job_id,application,start,end,nodes,color\n1,AMG,3,4,1,red\n")
    with pytest.raises(JobcastError, match="'color' is not known"):
        read_runs(tmp_path / "b.csv")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(JobcastError, match="damaged"):
        read_runs(tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text("job_id,application,start,end,nodes\n")
    with pytest.raises(JobcastError, match="no run"):
        read_runs(tmp_path / "d.csv")


def test_tables_cannot_be_changed_behind_their_back():
    runs = some_runs()
    with pytest.raises(ValueError, match="read-only"):
        runs.start[0] = 0


@pytest.mark.parametrize(
    "row",
    [
        "1,AMG,1,99999999999999999999999,1400,1500,io",
        "99999999999999999999999999,AMG,1,1,1400,1500,io",
        "1,AMG,99999999999999999999,,1400,1500,io",
        "1,AMG,1,\u0663,1400,1500,io",
    ],
)
def test_numbers_beyond_what_a_column_holds_are_dropped_by_rule(tmp_path, row):
    path = tmp_path / "runs.csv"
    path.write_text(
        f"job_id,application,node_count,nodes,start,end,workload\n2,AMG,1,7,0,9,io\n{row}\n", encoding="utf-8"
    )
    runs, account = read_runs(path)
    assert runs.job_id.tolist() == [2] and account.dropped == 1
