"""Probes measure waits without deadlock; control runs become rows, whatever goes wrong on the way."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.declarations import declared
from predictors.core.errors import JobcastError
from predictors.data.runs import PROBES, Runs
from predictors.probes.benchmark import allreduce, ring
from predictors.probes.measurements import (
    COLUMNS,
    RINGS,
    ProbeHistory,
    ProbeRow,
    Settings,
    nine,
    one_row,
    probes_as_used,
    read_probes,
    write_row,
)

SMALL = ["--ring-bytes=200000", "--ring-iterations=3", "--allreduce-bytes=80000", "--allreduce-iterations=2"]


def mpirun(ranks, *program, **how):
    """Run a program on several ranks, or skip where there is no MPI."""
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian: apt-get install openmpi-bin)")
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (pip install 'jobcast[probes]')")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable, *program]
    return subprocess.run(
        command, env={**os.environ, **allowed}, capture_output=True, text=True, timeout=120, check=False, **how
    )


def some_row(time=100.0, value=0.5, job="", **rest):
    return ProbeRow(time=time, waits=(value,) * 9, hosts=("node1", "node2"), ranks=4, job=job, **rest)


def sizes(*values):
    """Return settings, their values in order."""
    return Settings(**dict(zip(Settings.model_fields, values, strict=True)))


# What the waits become


def test_nine_numbers_stand_in_the_order_of_the_inputs():
    send, recv, together = [[1, 2], [3, 6]], [[10, 20], [30, 60]], [[0.5], [0.25]]
    found = dict(zip(PROBES, nine(send, recv, together), strict=True))
    assert found == {
        "min_send_wait": 1, "max_send_wait": 6, "mean_send_wait": 3, "min_recv_wait": 10, "max_recv_wait": 60,
        "mean_recv_wait": 30, "min_allreduce_wait": 0.25, "max_allreduce_wait": 0.5, "mean_allreduce_wait": 0.375,
    }  # fmt: skip


@pytest.mark.parametrize("bad", [[], [[np.nan]], [[-1.0]], [[np.inf]]])
def test_waits_that_cannot_be_are_refused(bad):
    with pytest.raises(JobcastError, match="Recv"):
        nine([[1.0]], bad, [[1.0]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ring": "tokn"}, "did you mean 'token'"),
        ({"ring_bytes": 7}, "ring_bytes must be at least 8; got 7"),
        ({"ring_bytes": 2**31}, "ring_bytes must be at most"),
        ({"allreduce_bytes": 12}, "allreduce_bytes must be a multiple of 8; got 12"),
        ({"ring_iterations": 0}, "at least 1"),
        ({"allreduce_iterations": 1.5}, "whole number"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, said):
    with pytest.raises(JobcastError, match=said):
        declared(Settings, change, "[probes]")


# The program, over ranks that are threads: a send waits until it is received, the worst that MPI allows


class _Rank:
    """One rank of a communicator of threads."""

    def __init__(self, rank, size, wires, shared):
        self.rank, self.size, self.wires, self.shared = rank, size, wires, shared

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def Barrier(self):
        self.shared["barrier"].wait(60)

    def Send(self, message, to):
        taken = threading.Event()
        self.wires[self.rank, to].put((message, taken))
        assert taken.wait(60), f"rank {self.rank} waits for ever in Send"

    def Recv(self, message, source):
        sent, taken = self.wires[source, self.rank].get(timeout=60)
        message[:] = sent
        taken.set()

    def Allreduce(self, mine, total):
        self.shared[self.rank] = mine
        self.Barrier()
        total[:] = sum(self.shared[rank] for rank in range(self.size))
        self.Barrier()

    def allreduce(self, value):
        total = np.zeros(1)
        self.Allreduce(np.array([value]), total)
        return float(total[0])


def on_ranks(size, program):
    wires = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    shared, found = {"barrier": threading.Barrier(size)}, [None] * size

    def run(rank):
        try:
            found[rank] = program(_Rank(rank, size, wires, shared))
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(isinstance(one, BaseException) or one is None for one in found), found
    return found


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("pattern", RINGS)
def test_the_ring_never_deadlocks_and_its_messages_arrive(pattern, size):
    found = on_ranks(size, lambda comm: ring(comm, sizes(pattern, 1000, 4, 80, 2)))
    assert all(send.shape == recv.shape == (4,) and (send >= 0).all() and (recv >= 0).all() for send, recv in found)


def test_all_ranks_add_up():
    found = on_ranks(3, lambda comm: allreduce(comm, sizes("token", 1000, 4, 80, 2)))
    assert all(waits.shape == (2,) and (waits > 0).all() for waits in found)


def test_a_message_that_arrives_changed_is_not_taken_for_a_measurement():
    class Wrong(_Rank):
        def Recv(self, message, source):
            super().Recv(message, source)
            message[-1] ^= 1

    def program(comm):
        comm.__class__ = Wrong
        with pytest.raises(JobcastError, match="is not the one"):
            ring(comm, sizes("exchange", 1000, 1, 80, 1))
        return True

    assert on_ranks(2, program) == [True, True]


# The program itself, under MPI


@pytest.mark.parametrize(("ranks", "pattern"), [(2, "token"), pytest.param(3, "exchange", marks=pytest.mark.slow)])
def test_the_program_writes_one_row_under_mpi(tmp_path, ranks, pattern):
    out = tmp_path / "probes.csv"
    for _ in range(2):
        done = mpirun(ranks, "-m", "predictors.probes", "--out", str(out), "--ring", pattern, "--job=7", *SMALL)
        assert done.returncode == 0, done.stderr
    rows, account = read_probes(out, strict=True)
    assert len(rows) == 2 and not account.findings
    row = rows[0]
    assert (row.ranks, row.job, len(row.hosts)) == (ranks, "7", 1)
    assert row.settings == sizes(pattern, 200_000, 3, 80_000, 2)
    low, high, mean = (np.array(row.waits[k::3]) for k in range(3))
    assert (low > 0).all() and (low <= mean).all() and (mean <= high).all() and high.max() < row.seconds


def test_one_rank_that_fails_ends_them_all(tmp_path):
    done = mpirun(2, "-m", "predictors.probes", "--out", str(tmp_path / "no" / "probes.json"), *SMALL)
    assert done.returncode != 0
    assert "cannot be written" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_one_rank_is_no_ring():
    done = mpirun(1, "-m", "predictors.probes", *SMALL)
    assert done.returncode == 2
    assert "at least two ranks" in done.stderr


def test_without_mpi_the_program_says_what_to_install(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('none')")
    done = subprocess.run(
        [sys.executable, "-m", "predictors.probes", *SMALL], env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "jobcast[probes]" in done.stderr


# Rows in files


@pytest.mark.parametrize("name", ["row.json", "row.csv"])
def test_rows_come_back_as_they_were_written(tmp_path, name):
    row = some_row(1_234_567.891, 0.1 + 0.2, "42", seconds=3.25, settings=sizes("exchange", 800, 3, 80, 2))
    write_row(row, tmp_path / name)
    assert read_probes(tmp_path / name, strict=True)[0] == [row]


def test_a_table_gains_a_row_and_a_wrong_one_stays_as_it_was(tmp_path):
    path = tmp_path / "rows.csv"
    for time in (300.0, 100.0, 200.0):
        write_row(some_row(time), path)
    assert [row.time for row in read_probes(path)[0]] == [100, 200, 300]
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(JobcastError, match="no table of probes"):
        write_row(some_row(), other)
    assert other.read_text() == "a,b\n1,2\n"
    assert not [one for one in tmp_path.iterdir() if one.suffix == ".csv" and one.name[0] == "."]


def test_rows_that_cannot_be_read_or_compared_are_counted(tmp_path):
    path = tmp_path / "rows.csv"
    write_row(some_row(100.0), path)
    write_row(some_row(200.0, settings=Settings(ring_bytes=800)), path)
    with path.open("a") as table:
        table.write(path.read_text().splitlines()[1].replace("100.0", "soon") + "\n")
        table.write("1,2,3\n")
    rows, account = read_probes(path)
    assert [row.time for row in rows] == [100]
    assert (account.count("unreadable"), account.count("other-settings")) == (2, 1)
    assert read_probes(path, Settings(ring_bytes=800))[0][0].time == 200
    with pytest.raises(JobcastError, match=r"rows\.csv:3"):
        read_probes(path, strict=True)
    with pytest.raises(JobcastError, match="no row of probes"):
        read_probes(path, Settings(ring_iterations=1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": "x"}, "time must be a number; got 'x'"),
        ({"time": float("nan")}, "time must be a finite number"),
        ({"min_send_wait": -1}, "min_send_wait must be at least 0.0; got -1"),
        ({"max_recv_wait": None}, "'max_recv_wait' is missing"),
        ({"colour": "red"}, "No key 'colour'"),
        ({"ranks": 1}, "ranks must be at least 2; got 1"),
        ({"ranks": "4.5"}, "ranks must be a whole number; got '4.5'"),
        ({"hosts": []}, "hosts must be a list of 1 or more; got"),
        ({"hosts": ["a b"]}, "hosts must be names without blanks"),
        ({"hosts": ["a", "b", "c", "d", "e"]}, "at least one for each of the 5 hosts; got 4"),
        ({"ring": "star"}, "No ring 'star'. Known: token, exchange"),
    ],
)
def test_rows_that_cannot_be_are_refused(tmp_path, change, said):
    (tmp_path / "row.json").write_text(json.dumps({**some_row().to_dict(), **change}))
    with pytest.raises(JobcastError, match=said):
        one_row(tmp_path / "row.json")


def test_files_that_are_no_rows_are_refused(tmp_path):
    (tmp_path / "row.json").write_text("[1]")
    with pytest.raises(JobcastError, match="must be a table; got"):
        one_row(tmp_path / "row.json")
    (tmp_path / "row.json").write_text("{")
    with pytest.raises(JobcastError, match=r"row\.json"):
        one_row(tmp_path / "row.json")
    with pytest.raises(JobcastError, match="cannot be read"):
        one_row(tmp_path / "none.json")


def test_columns_name_the_nine_inputs_last():
    assert COLUMNS[-9:] == PROBES


# As of a start


@given(
    times=st.lists(st.integers(0, 50), max_size=8),
    starts=st.lists(st.integers(0, 60), max_size=8),
    oldest=st.sampled_from([0, 5, 20, np.inf]),
)
def test_the_last_known_is_the_newest_that_was_there_and_not_too_old(times, starts, oldest):
    times = sorted(times)
    known = ProbeHistory(np.array(times, dtype=float), np.array([[k] * 9 for k in range(len(times))]).reshape(-1, 9))
    waits, age = known.last_known(np.array(starts, dtype=float), oldest)
    for row, start in enumerate(starts):
        before = [k for k, time in enumerate(times) if time < start and start - time <= oldest]
        if before:
            assert waits[row].tolist() == [before[-1]] * 9
            assert age[row] == start - times[before[-1]]
        else:
            assert np.isnan(waits[row]).all() and np.isnan(age[row])


def test_probes_are_used_live_last_known_or_not_at_all():
    probes = np.array([[1.0] * 9, [np.nan] * 9, [3.0] * 9, [4.0] * 9])
    runs = Runs.of(
        job_id=[1, 2, 3, 4], application=["a"] * 4, node_count=[1] * 4, start=[0, 100, 200, 200],
        end=[50, 150, 250, 260], workload=["io"] * 4, probes=probes,
    )  # fmt: skip
    live, age = probes_as_used(runs, "live")
    np.testing.assert_array_equal(live, probes)
    np.testing.assert_array_equal(age, [0, np.nan, 0, 0])
    known, age = probes_as_used(runs, "last-known")
    np.testing.assert_array_equal(known[:, 0], [np.nan, 1, 1, 1])
    np.testing.assert_array_equal(age, [np.nan, 100, 200, 200])
    known, age = probes_as_used(runs, "last-known", oldest=150)
    np.testing.assert_array_equal(age, [np.nan, 100, np.nan, np.nan])
    measured = ProbeHistory.of_rows([some_row(199, 9.0), some_row(10, 7.0)])
    np.testing.assert_array_equal(probes_as_used(runs, "last-known", measured)[0][:, 4], [np.nan, 7, 9, 9])
    absent, age = probes_as_used(runs, "absent")
    assert np.isnan(absent).all() and np.isnan(age).all()
    with pytest.raises(JobcastError, match="did you mean 'last-known'"):
        probes_as_used(runs, "last_known")
