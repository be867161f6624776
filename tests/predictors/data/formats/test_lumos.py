"""CSV files of the LUMOS collection: columns by name, sizes, words for how jobs ended, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, clean, read_log
from predictors.data.formats.detect import detect
from predictors.data.formats.tables.known import KNOWN
from predictors.data.report import ReadingReport

ROW = {
    "": "0", "job": "1001", "user": "35012304659472", "project": "45081100820135", "state": "0", "gpu_num": "0",
    "cpu_num": "8192.0", "node_num": "512.0", "submit_time": "1535348017.0", "wait_time": "3600", "run_time": "1800.0",
    "wall_time": "7200.0", "node_hour": "256.0", "new_status": "Pass",
}  # fmt: skip


def another(number: int, **changed: str) -> dict[str, str]:
    return {**ROW, "job": str(number), **changed}


def text_of(*rows: dict[str, str], names: list[str] | None = None) -> bytes:
    names = names or list(ROW)
    return (
        "\n".join([",".join(names), *(",".join(row.get(name, "") for name in names) for row in rows)]) + "\n"
    ).encode()


def read(*rows: dict[str, str], names: list[str] | None = None, **how: object) -> tuple[JobLog, ReadingReport]:
    return KNOWN["lumos"].parse(text_of(*rows, names=names), "a.csv", **how)  # type: ignore[arg-type]


def test_a_row() -> None:
    log, account = read(ROW)
    plain = {c: log[c].tolist()[0] for c in log.values if c not in log.categories and log.known(c)[0]}
    assert plain == {
        "job_id": 1001, "submit": 0, "wait": 3600, "run_time": 1800, "requested_time": 7200, "requested_procs": 512,
        "status": 1, "exit_code": 0, "requested_nodes": 512, "cores": 8192, "requested_gpus": 0,
    }  # fmt: skip
    assert (log.names("user"), log.names("group")) == (("35012304659472",), ("45081100820135",))
    assert log.epoch == 1_535_348_017
    assert [f.text for f in account.findings] == [
        "columns of which nothing is used: node_hour",
        "no processors are known; a processor is a node",
    ]


def test_recognised_by_its_names_in_any_order_and_case(tmp_path: Path) -> None:
    text = text_of(ROW, another(7), names=sorted(ROW, reverse=True)).replace(b"wait_time", b"WAIT_TIME")
    assert detect(text, "a.csv") == "lumos"
    (tmp_path / "a.csv").write_bytes(text)
    log, _ = read_log(tmp_path / "a.csv")
    assert log.digest() == read(ROW, another(7))[0].digest()


@pytest.mark.parametrize(
    ("changed", "status", "exit_code"),
    [
        ({"new_status": "Pass", "state": "1000"}, 1, 1000),
        ({"new_status": "Failed", "state": "139"}, 0, 139),
        ({"new_status": "Killed", "state": "1143.0"}, 5, 1143),
        ({"new_status": "strange"}, -1, 0),
        ({"new_status": "", "state": ""}, -1, -1),
        ({"new_status": "Pass", "state": "COMPLETED"}, 1, -1),
    ],
)
def test_how_a_job_ended(changed: dict[str, str], status: int, exit_code: int) -> None:
    log, _ = read(another(1, **changed))
    assert (log.filled("status")[0], log.filled("exit_code")[0]) == (status, exit_code)


def test_words_in_state_count_where_there_is_no_new_status() -> None:
    log, _ = read(
        *(another(k, state=s) for k, s in enumerate(["COMPLETED", "TIMEOUT", "CANCELLED"], 1)), names=list(ROW)[:-1]
    )
    assert log["status"].tolist() == [1, 0, 5]


def test_cores_count_where_no_nodes_are_known_and_gpus_are_told() -> None:
    rows = [another(k, node_num="", gpu_num=str(k - 1), cpu_num=str(4 * k)) for k in (1, 2, 3)]
    log, account = read(*rows)
    assert log["requested_procs"].tolist() == [4, 8, 12]
    assert log["requested_gpus"].tolist() == [0, 1, 2]
    assert [f.text for f in account.findings] == [
        "columns of which nothing is used: node_hour",
        "no processors are known; a processor is a core",
    ]


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("submit_time", "submit"),
        ("wait_time,run_time", r"start \(or wait\), end \(or run_time\)"),
    ],
)
def test_columns_that_must_be_there(gone: str, says: str) -> None:
    with pytest.raises(JobcastError, match=rf"a.csv: its map names no column for {says}\."):
        read(ROW, names=[name for name in ROW if name not in gone.split(",")])


def test_columns_that_may_be_missing_are_noted() -> None:
    log, account = read(
        ROW, ROW, names=[name for name in ROW if name not in ("job", "user", "wall_time", "new_status")]
    )
    assert log["job_id"].tolist() == [1, 2]
    told = [f.text for f in account.findings if f.rule == "columns"]
    assert told[:2] == [
        "no column job, user, wall_time, new_status",
        "no column of ids; jobs are numbered by their rows",
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"node_num": "many"}, r"a.csv:3: not-a-number requested_nodes, found 'many'"),
        ({"wall_time": "-5"}, r"a.csv:3: not-a-time requested_time, found '-5'"),
        ({"run_time": "soon"}, r"a.csv:3: not-a-time run_time, found 'soon'"),
        ({"submit_time": ""}, r"a.csv:3: no-submission submit"),
        ({"wait_time": "-9"}, r"a.csv:3: not-a-time wait, found '-9'"),
        ({"job": ""}, r"a.csv:3: no-job-id"),
    ],
)
def test_strict_names_line_column_and_value(changed: dict[str, str], says: str) -> None:
    with pytest.raises(JobcastError, match=says):
        read(ROW, {**another(1002), **changed}, another(1003), strict=True)


@given(st.binary(max_size=300))
def test_any_rows_are_read_or_refused(rows: bytes) -> None:
    text = (",".join(list(ROW)[1:]) + "\n").encode() + rows
    try:
        log, _ = KNOWN["lumos"].parse(text, "a.csv")
    except JobcastError as error:
        assert str(error).startswith("a.csv")
    else:
        assert (log["submit"] >= 0).all()


@pytest.mark.skipif("JOBCAST_TRACES" not in os.environ, reason="JOBCAST_TRACES names no folder of real logs")
def test_miras_log_is_read_whole() -> None:
    file = Path(os.environ["JOBCAST_TRACES"], "ALCF-Mira-2018-lumos.csv")
    if not file.exists():
        pytest.skip(f"{file.name} is not among the real logs")
    log, account = read_log(file)
    assert (len(log), account.dropped, account.changed) == (22_508, 0, 0)
    assert np.ma.max(log["requested_procs"]) == 49_152
    cleaned, said = clean(log, 49_152)
    assert len(cleaned) == 22_508 - said.dropped
