"""The job log: validated, immutable, sorted, rebased; unknown values masked."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.joblog import COLUMNS, UNKNOWN, JobLog


def a_log(**more: object) -> JobLog:
    values = {"job_id": [7, 5, 9], "submit": [130, 100, 130], "wait": [1, 2, 3], "user": [4, 99, 4], **more}
    return JobLog.from_columns(values, {"user": [False, True, False]}, epoch=1000)


def test_sorted_and_rebased() -> None:
    log = a_log()
    assert (log["submit"].tolist(), log["job_id"].tolist(), log["wait"].tolist()) == ([0, 30, 30], [5, 7, 9], [2, 1, 3])
    assert (log.origin, log.epoch, len(log)) == (100, 1000, 3)


def test_unknown_is_masked_and_hidden() -> None:
    log = a_log()
    assert log["user"].tolist() == [None, 4, 4]
    assert log.filled("user").tolist() == [UNKNOWN, 4, 4]
    assert log.filled("user", 0).tolist() == [0, 4, 4]
    assert log.known("user").tolist() == [False, True, True]
    assert not log.known("queue").any()
    assert log["queue"].tolist() == [None] * 3


def test_immutable_and_apart_from_what_it_was_made_of() -> None:
    wait = np.array([1, 2, 3])
    log = JobLog({"job_id": np.arange(3), "submit": np.arange(3), "wait": wait})
    wait[0] = 50
    assert log["wait"].tolist() == [1, 2, 3]
    for column in COLUMNS:
        for array in (log.values[column], log.unknown[column]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    with pytest.raises(TypeError):
        log.values["wait"] = wait  # type: ignore[index]


@pytest.mark.parametrize(
    ("values", "unknown", "says"),
    [
        ({"job_id": [1, 2], "submit": [0, 5], "wiat": [1, 1]}, {}, "did you mean 'wait'"),
        ({"job_id": [1, 2], "submit": [0]}, {}, r"shape \(1,\); all must have \(2,\)"),
        ({"job_id": [1, 2], "submit": [0, 5]}, {"wait": [True]}, "all must have"),
        ({"job_id": [1, 2], "submit": [3, 5]}, {}, "first submission must be at 0 s; got 3"),
        ({"job_id": [1, 2, 3], "submit": [0, 5, 4]}, {}, "sorted"),
        ({"job_id": [2, 1], "submit": [0, 0]}, {}, "sorted"),
        ({"job_id": [1, 1], "submit": [0, 0]}, {}, "sorted"),
        ({"job_id": [1, 2, 1], "submit": [0, 1, 2]}, {}, "twice"),
        ({"job_id": [1, 2], "submit": [0, 5]}, {"submit": [False, True]}, "'submit' must be known"),
    ],
)
def test_what_is_refused(values: dict[str, list[int]], unknown: dict[str, list[bool]], says: str) -> None:
    arrays = {column: np.array(array) for column, array in values.items()}
    masks = {column: np.array(array) for column, array in unknown.items()}
    with pytest.raises(JobcastError, match=says):
        JobLog(arrays, masks)


def test_unknown_columns_are_named_with_the_nearest() -> None:
    for ask in (a_log().__getitem__, a_log().filled, a_log().known):
        with pytest.raises(JobcastError, match="did you mean 'submit'"):
            ask("sumbit")


def test_processors() -> None:
    log = a_log(requested_procs=[0, 3, -1], allocated_procs=[4, 5, 6])
    assert log.procs.tolist() == [3, 4, 6]


def test_select_moves_the_clock() -> None:
    log = a_log().select(np.array([False, True, True]))
    assert (log["submit"].tolist(), log.origin, log.epoch) == ([0, 0], 130, 1030)
    assert log["user"].tolist() == [4, 4]
    empty = a_log().select(slice(0, 0))
    assert (len(empty), empty.origin) == (0, 100)


def test_frame() -> None:
    frame = a_log().to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["user"].isna().tolist() == [True, False, False]
    assert all(isinstance(kind, pd.Int64Dtype) for kind in frame.dtypes)


def test_digest_tells_values_and_unknowns_apart() -> None:
    same = a_log().digest()
    assert a_log().digest() == same
    assert a_log(wait=[1, 2, 4]).digest() != same
    known = JobLog.from_columns({"job_id": [1], "submit": [0], "user": [UNKNOWN]}, {})
    hidden = JobLog.from_columns({"job_id": [1], "submit": [0], "user": [UNKNOWN]}, {"user": [True]})
    assert known.digest() != hidden.digest()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10**6)), max_size=9, unique_by=lambda job: job[1]))
def test_order_of_rows_does_not_matter(jobs: list[tuple[int, int]]) -> None:
    def log_of(rows: list[tuple[int, int]]) -> JobLog:
        columns = {"submit": [row[0] for row in rows], "job_id": [row[1] for row in rows]}
        return JobLog.from_columns({name: np.array(column, dtype=np.int64) for name, column in columns.items()}, {})

    log = log_of(jobs)
    first = min((submit for submit, _ in jobs), default=0)
    assert list(zip(log["submit"].tolist(), log["job_id"].tolist(), strict=True)) == sorted(
        (s - first, j) for s, j in jobs
    )
    assert log.digest() == log_of(jobs[::-1]).digest() == log_of(sorted(jobs)).digest()


def test_columns_that_swf_has_no_place_for() -> None:
    log = a_log(project=[0, 1, 0], exit_code=[0, -1, 143])
    assert log["exit_code"].tolist() == [-1, 0, 143]
    assert (log["mode"].tolist(), log.known("mode").tolist()) == ([None] * 3, [False] * 3)
    assert list(log.to_frame().columns) == [*COLUMNS, "project", "exit_code"]
    assert log.select(np.array([1, 2]))["project"].tolist() == [0, 0]
    assert log.digest() not in (a_log().digest(), a_log(mode=[0, 1, 0], exit_code=[0, -1, 143]).digest())
    assert a_log(project=[0, 1, 0]).digest() != a_log(mode=[0, 1, 0]).digest()
    with pytest.raises(JobcastError, match="did you mean 'exit_code'"):
        log.filled("exitcode")


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf"), 2**63, 2.0**63, 2**64, -(2**63) - 1, "7", None])
@pytest.mark.parametrize("column", ["job_id", "submit", "run_time", "user"])
def test_values_that_are_no_whole_numbers_are_refused(column: str, value: object) -> None:
    columns = {"job_id": [1, 2], "submit": [0, 5], "run_time": [3, 4], "user": [1, 2]}
    with pytest.raises(JobcastError, match=f"Job log column '{column}' must be whole numbers from -2.63 to 2.63 - 1"):
        JobLog.from_columns(columns | {column: [3, value]}, {})  # type: ignore[list-item]


def test_whole_floats_and_unknown_values_are_taken() -> None:
    columns = {"job_id": np.array([1, 2**63 - 1], np.uint64), "submit": [0.0, 5.0], "run_time": [np.nan, 4.0]}
    log = JobLog.from_columns(columns, {"run_time": [True, False]})
    assert (log["job_id"].tolist(), log["run_time"].tolist()) == ([1, 2**63 - 1], [None, 4])


def test_a_frame_with_dates_and_empty_cells():
    frame = pd.DataFrame(
        {
            "job_id": [2, 1],
            "submit": pd.to_datetime(["2021-03-27T10:00:05+01:00", "2021-03-27T10:00:00+01:00"]),
            "run_time": pd.to_timedelta([60, None], unit="s"),
            "user": [7.0, None],
        }
    )
    log = JobLog.from_columns(frame, max_procs=4)
    assert (log.epoch, log["submit"].tolist(), log["job_id"].tolist()) == (1_616_835_600, [0, 5], [1, 2])
    assert (log["run_time"].tolist(), log["user"].tolist()) == ([None, 60], [None, 7])
    with pytest.raises(JobcastError, match="'procs'; did you mean 'requested_procs'"):
        JobLog.from_columns(frame.assign(procs=4))
    with pytest.raises(JobcastError, match="'wait' holds dates; only submit may"):
        JobLog.from_columns(frame.assign(wait=frame["submit"]))
