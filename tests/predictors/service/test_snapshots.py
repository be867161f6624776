"""Snapshots: their form, what they and a restart take of memory, and what a kill or a full disk leaves of them."""

import gc
import io
import multiprocessing
import os
import signal
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.history._rows import Rows
from predictors.service.event import Event
from predictors.service.state.jobs import ROWS, JobState
from predictors.service.state.learner import Learner
from predictors.service.state.model import Model, load
from predictors.service.state.recovery import rebuild, snapshot_of
from predictors.service.storage import store as stores
from predictors.service.storage.snapshots import packed, unpacked
from predictors.service.storage.store import Store

N = 6_000
MIB = 1 << 20


def learner() -> Learner:
    """Return one with a model, as a service has it."""
    found = Learner(lambda _: None, print)
    found.models = {"champion": Model(*load("online-linear"))}
    return found


def events(first: int, last: int, end: bool = False) -> np.ndarray:
    """Return the events of jobs that wait, or run, or end; of few groups, whose number does not grow with them."""
    found = []
    for job in range(first, last):
        at, user = 10 * (job + 1000), job % 10
        found.append(Event(job, SUBMITTED, at, -1, 1 + user % 5, 600 + 60 * user, user, sequence=1))
        if end or job % 2:
            found.append(Event(job, STARTED, at + 5, sequence=1))
        if end:
            found.append(Event(job, ENDED, at + 5 + job * 7 % 3000, 1, sequence=1))
    return np.array(found, dtype=np.int64)


def test_a_million_live_jobs_fit_with_a_snapshot_and_a_restart(tmp_path):
    """2.5 GB for a million: 2,100 bytes a job live, some 300 more while a snapshot is made, or at a restart.

    What does not grow with the jobs is some 3 MiB, of weights and of pieces that are moved at once. A copy of the rows
    would be 1,200 bytes a job more.
    """
    store, first, job_state = Store(f"sqlite:///{tmp_path}/s.db"), learner(), JobState()
    first.follow(job_state.take_table(events(-1000, 0, end=True)), 1)
    for begin in range(0, N, 1000):
        first.follow(job_state.take_table(events(begin, begin + 1000)), 1)
    tracemalloc.start()
    try:
        sequence, written = snapshot_of(*job_state.streamed_snapshot(), first.models.values(), store)
        with written:
            store.keep_snapshot(sequence, written)
        for_snapshot = tracemalloc.get_traced_memory()[1]
        del written
        gc.collect()
        tracemalloc.clear_traces()
        tracemalloc.reset_peak()
        again, state = learner(), JobState()
        assert rebuild(store, state, again, threading.Event()).snapshot == sequence
        gc.collect()
        live, for_restart = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    store.close()
    assert state.live == N
    assert for_snapshot < 4 * MIB + 300 * N
    assert live < 3 * MIB + 2200 * N
    assert for_restart < 4 * MIB + 2700 * N
    one, other = job_state.snapshot()[1], state.snapshot()[1]
    assert all(np.array_equal(one[name], other[name], equal_nan=one[name].dtype == float) for name in one)


def test_a_snapshot_passes_through_memory_in_pieces_both_ways(tmp_path):
    """Here of noise, which does not become smaller: 9 MiB."""
    store, noise = Store(f"sqlite:///{tmp_path}/s.db"), Rows(148)
    noise.put(range(8000), np.random.default_rng(0).random((8000, 148)))
    tracemalloc.start()
    try:
        _, written = snapshot_of(5, {ROWS: noise}, (), store)
        with written:
            assert written.seek(0, os.SEEK_END) > 7 * MIB
            store.keep_snapshot(5, written)
        for _, file in store.snapshots():
            assert unpacked(file, "ledger_") == {}
        assert tracemalloc.get_traced_memory()[1] < 5 * MIB
    finally:
        tracemalloc.stop()
    store.close()


def test_the_form_is_that_of_an_npz_file():
    """So that an older version reads what a newer one wrote; and part of it is read without the rest."""
    rows = np.array([[1.0, np.nan], [-0.0, 1e300], [0.1, 7.0]])
    arrays = {"a": np.arange(5), "b": np.array("text"), ROWS: rows, "none": np.empty((0, 3)), "c": np.array(True)}
    kept = packed(dict(arrays))
    plain = pyarrow.CompressedInputStream(pyarrow.BufferReader(kept[51:]), "zstd").read()
    with np.load(io.BytesIO(plain)) as file:
        assert all(np.array_equal(file[name], array, equal_nan=name == ROWS) for name, array in arrays.items())
    found = unpacked(io.BytesIO(kept), as_rows=[ROWS])
    assert list(found) == list(arrays) and isinstance(found[ROWS], Rows)
    assert np.array_equal(found[ROWS].whole().view(np.int64), rows.view(np.int64))
    by_column = unpacked(packed({ROWS: np.asfortranarray(rows)}), as_rows=[ROWS])[ROWS]
    assert np.array_equal(by_column.whole().view(np.int64), rows.view(np.int64))
    assert unpacked(kept, begins="c") == {"c": True}
    for end in (20, len(kept) - 1):
        with pytest.raises(JobcastError, match="damaged"):
            unpacked(kept[:end])


@pytest.mark.parametrize("change", ["text", "one number", "flat", "none"])
def test_a_whole_snapshot_of_another_layout_is_passed_over_for_an_older_one(tmp_path, caplog, change):
    store, first, job_state = Store(f"sqlite:///{tmp_path}/s.db"), learner(), JobState()
    first.follow(job_state.take_table(events(0, 50)), 1)
    _, good = snapshot_of(*job_state.streamed_snapshot(), first.models.values(), store)
    with good:
        store.keep_snapshot(1, good)
        arrays = unpacked(good)
    changes = {"text": np.array("x"), "one number": np.array(3), "flat": np.arange(4.0), "none": np.array([])}
    for name in ("ledger_counts", "history_jobs", "history_rows", f"model{first.champion.number}_monitor_recent"):
        assert name in arrays
        store.keep_snapshot(2, packed(arrays | {name: changes[change]}))
        caplog.clear()
        assert rebuild(store, JobState(), learner(), threading.Event()).snapshot in (1, 2)
        assert name.startswith("model") or "the snapshot behind event 2 is passed over" in caplog.text
    store.close()


def killed_while_it_is_kept(url: str) -> None:
    """Keep a snapshot of three pieces, and be killed after the first."""
    store = Store(url)

    def fill(connection, sequence, file):
        with connection.connection.driver_connection.blobopen("snapshots", "arrays", sequence) as room:
            room.write(file.read(stores.PIECE))
            os.kill(os.getpid(), signal.SIGKILL)

    stores._fill = fill
    with store.scratch() as file:
        file.write(bytes(3 * stores.PIECE))
        store.keep_snapshot(2, file)


def test_a_kill_while_a_snapshot_is_kept_leaves_the_older_one_and_no_file(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    store = Store(url)
    store.keep_snapshot(1, packed({"a": np.arange(3)}))
    store.close()
    process = multiprocessing.get_context("fork").Process(target=killed_while_it_is_kept, args=(url,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store = Store(url)
    assert [(n, unpacked(file)["a"].tolist()) for n, file in store.snapshots()] == [(1, [0, 1, 2])]
    store.close()
    assert {path.name for path in tmp_path.iterdir()} <= {"s.db", "s.db-wal", "s.db-shm"}


def test_a_snapshot_that_finds_no_room_is_left_out_and_told_of(tmp_path, caplog):
    store = Store(f"sqlite:///{tmp_path}/s.db")
    store.scratch = lambda: Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115
    assert snapshot_of(7, {"a": np.arange(9)}, (), store) == (7, None)
    assert "the snapshot behind event 7 cannot be written: No space left on device" in caplog.text
    store.close()
