"""ALCF's public job logs: columns by name, what is odd in them, and what is said of it."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, clean, read_log
from predictors.data.formats.alcf import parse_alcf
from predictors.data.formats.detect import detect
from predictors.data.report import ReadingReport

MIRA = {
    "JOB_NAME": "1001.mira", "COBALT_JOBID": "1001", "MACHINE_NAME": "mira", "QUEUED_TIMESTAMP": "2016-11-05 10:00:00",
    "START_TIMESTAMP": "2016-11-05 11:00:00.25", "END_TIMESTAMP": "2016-11-05 12:00:00.75",
    "USERNAME_GENID": "15303315089691", "PROJECT_NAME_GENID": "902672531503", "QUEUE_NAME": "prod-short",
    "WALLTIME_SECONDS": "7200", "RUNTIME_SECONDS": "3600.0", "NODES_USED": "512", "NODES_REQUESTED": "500",
    "CORES_USED": "8192", "LOCATION": "MIR-00000-33331-512", "EXIT_STATUS": "0", "ELIGIBLE_WAIT_SECONDS": "1800.4",
    "MODE": "c16", "IS_OVERBURN": "0",
}  # fmt: skip


def row(**changed: str) -> dict[str, str]:
    return {**MIRA, **changed}


def text_of(*rows: dict[str, str], names: list[str] | None = None) -> bytes:
    names = names or list(rows[0])
    lines = [",".join(names)] + [",".join(one.get(name, "") for name in names) for one in rows]
    return ("\n".join(lines) + "\n").encode()


def read(*rows: dict[str, str], **how: object) -> tuple[JobLog, ReadingReport]:
    return parse_alcf(text_of(*rows), "a.csv", **how)  # type: ignore[arg-type]


def named(log: JobLog, column: str) -> list[str | None]:
    return [None if code is np.ma.masked else log.names(column)[code] for code in log[column]]


def another(number: int, **changed: str) -> dict[str, str]:
    return row(JOB_NAME=f"{number}.mira", COBALT_JOBID=str(number), **changed)


def test_a_row() -> None:
    log, account = read(row())
    assert {
        column: log[column].tolist()[0]
        for column in log.values
        if column not in log.categories and log.known(column)[0]
    } == {
        "job_id": 1001, "submit": 0, "wait": 3600, "run_time": 3600, "requested_time": 7200, "requested_procs": 500,
        "allocated_procs": 512, "status": 1, "exit_code": 0, "nodes": 512, "requested_nodes": 500, "cores": 8192,
        "eligible_wait": 1800, "overburn": 0,
    }  # fmt: skip
    names = {column: named(log, column)[0] for column in log.categories}
    assert names == {
        "user": "15303315089691", "group": "902672531503", "project": "902672531503", "queue": "prod-short",
        "mode": "c16", "location": "MIR-00000-33331-512",
    }  # fmt: skip
    assert log.epoch == 1_478_340_000
    assert dict(log.header) == {"Computer": "mira"}
    assert {(f.effect, f.rule) for f in account.findings} == {("noted", "local-time"), ("noted", "fraction")}


def test_names_in_any_order_and_case_and_the_older_schema() -> None:
    old = {
        "jobid": "77", "used_nodes": "1024", "Requested_Nodes": "1024", "queued_timestamp": "2014-01-01 00:00:00",
        "start_timestamp": "2014-01-01 00:00:10", "end_timestamp": "2014-01-01 00:01:10", "cobalt_user_name_genid": "5",
        "cobalt_project_name_genid": "6", "queue_genid": "7", "walltime_seconds": "90", "deleted_by_genid": "",
        "exit_code": "1",
    }  # fmt: skip
    names = sorted(old, reverse=True)
    log, _ = parse_alcf(text_of(old, old | {"jobid": "78", "deleted_by_genid": "5"}, names=names), "a.csv")
    assert log["job_id"].tolist() == [77, 78]
    assert log["run_time"].tolist() == [60, 60]
    assert log["status"].tolist() == [0, 5]
    assert (named(log, "user"), named(log, "project"), named(log, "queue")) == (["5"] * 2, ["6"] * 2, ["7"] * 2)
    turned, _ = parse_alcf(text_of(old, old | {"jobid": "78", "deleted_by_genid": "5"}), "a.csv")
    assert turned.digest() == log.digest()


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("QUEUED_TIMESTAMP", "QUEUED_TIMESTAMP"),
        ("START_TIMESTAMP", "START_TIMESTAMP"),
        ("NODES_USED,NODES_REQUESTED", "NODES_USED"),
        ("RUNTIME_SECONDS,END_TIMESTAMP", "END_TIMESTAMP"),
    ],
)
def test_columns_that_must_be_there(gone: str, says: str) -> None:
    names = [name for name in MIRA if name not in gone.split(",")]
    with pytest.raises(JobcastError, match=rf"a.csv: lacks the column {says} \(it has JOB_NAME"):
        parse_alcf(text_of(row(), names=names), "a.csv")


def test_columns_that_may_be_missing_are_noted() -> None:
    names = [name for name in MIRA if name not in ("COBALT_JOBID", "JOB_NAME", "USERNAME_GENID", "WALLTIME_SECONDS")]
    log, account = parse_alcf(text_of(row(), row(), names=names), "a.csv")
    assert log["job_id"].tolist() == [1, 2]
    texts = [f.text for f in account.findings if f.rule == "columns"]
    assert len(texts) == 3
    assert any("WALLTIME_SECONDS" in text for text in texts)


def test_an_id_that_is_the_same_throughout_is_none() -> None:
    log, account = read(*[row(JOB_NAME=f"{n}.polaris", COBALT_JOBID="0") for n in (5, 6, 7)])
    assert log["job_id"].tolist() == [5, 6, 7]
    assert named(log, "label") == ["5.polaris", "6.polaris", "7.polaris"]
    assert "JOB_NAME" in next(f.text for f in account.findings if f.rule == "columns")


def test_duplicates_of_a_job() -> None:
    failed = row(EXIT_STATUS="1")
    later = another(1001, START_TIMESTAMP="2016-11-05 13:00:00", END_TIMESTAMP="2016-11-05 15:00:00",
                    RUNTIME_SECONDS="7200")  # fmt: skip
    log, account = read(failed, failed, later, another(1002))
    assert log["run_time"].tolist() == [7200, 3600]
    assert (account.count("repeated-row"), account.count("earlier-attempt"), account.dropped) == (1, 1, 2)


def test_runs_past_the_limit_and_negative_core_hours_do_no_harm() -> None:
    log, account = read(row(RUNTIME_SECONDS="14400", END_TIMESTAMP="2016-11-05 15:00:00", USED_CORE_HOURS="-5"))
    assert log["run_time"].tolist() == [14_400]
    assert not account.changed
    cleaned, said = clean(log, 512)
    assert (cleaned["run_time"].tolist(), said.count("overrun")) == ([14_400], 1)


def test_the_hour_that_comes_twice_in_autumn() -> None:
    # Chicago went back from 02:00 to 01:00 on 6 November 2016; the run took two hours and shows as one.
    night = row(
        QUEUED_TIMESTAMP="2016-11-05 23:00:00",
        START_TIMESTAMP="2016-11-06 00:30:00",
        END_TIMESTAMP="2016-11-06 01:30:00",
        RUNTIME_SECONDS="7200",
    )
    for zone in (None, "America/Chicago"):
        log, account = read(night, time_zone=zone)
        assert log["run_time"].tolist() == [7200]
        assert account.count("clock-change") == 1
        assert log["wait"].tolist() == [5400]
    assert log.epoch == 1_478_404_800


def test_mixed_time_zones_are_refused() -> None:
    with pytest.raises(JobcastError, match=r"a.csv:2: submit '2016-11-05 10:00:00' has no time zone, but a.csv:4: "):
        read(row(), another(2), another(3, QUEUED_TIMESTAMP="2016-11-05T10:00:00Z"))
    log, account = read(
        *[another(n, **{c: "2016-11-05 10:00:00-06:00" for c in MIRA if "TIMESTAMP" in c}) for n in (1, 2)]
    )
    assert log.epoch == 1_478_361_600
    assert not account.count("local-time")


def test_fields_in_quotes_with_commas_and_line_breaks() -> None:
    log, account = read(row(LOCATION='"1,2,\n7"'), another(1002, NODES_USED="many"), another(1003))
    assert named(log, "location") == ["1,2,\n7", "MIR-00000-33331-512", "MIR-00000-33331-512"]
    (finding,) = [f for f in account.findings if f.effect == "changed"]
    assert (finding.rule, finding.places, finding.example) == ("not-a-number", (4,), "many")


def test_torn_rows_and_blank_lines() -> None:
    text = text_of(row(), another(1002)).replace(b"\n1002", b"\n\n77,cut short\n1002") + b",".join([b"x"] * 40) + b"\n"
    log, account = parse_alcf(text, "a.csv")
    assert len(log) == 2
    assert {(f.rule, f.places) for f in account.findings if f.effect == "dropped"} == {
        ("too-few-fields", (4,)),
        ("surplus-fields", (6,)),
    }


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"NODES_USED": "many"}, r"a.csv:3: not-a-number nodes, found 'many'"),
        ({"WALLTIME_SECONDS": "-5"}, r"a.csv:3: not-a-time requested_time, found '-5'"),
        ({"NODES_REQUESTED": "-1"}, r"a.csv:3: negative requested_"),
        ({"RUNTIME_SECONDS": "x"}, r"a.csv:3: not-a-time run_time, found 'x'"),
        ({"END_TIMESTAMP": "2016-02-31 00:00:00"}, r"a.csv:3: not-a-time end, found '2016-02-31 00:00:00'"),
        ({"QUEUED_TIMESTAMP": ""}, r"a.csv:3: no-submission submit"),
        ({"START_TIMESTAMP": "2016-11-05 09:00:00"}, r"a.csv:3: start-before-submission wait"),
        ({"COBALT_JOBID": "", "JOB_NAME": ""}, r"a.csv:3: no-job-id"),
    ],
)
def test_strict_names_line_column_and_value(changed: dict[str, str], says: str) -> None:
    rows = row(), another(1002) | changed, another(1003)
    with pytest.raises(JobcastError, match=says):
        read(*rows, strict=True)
    log, account = read(*rows)
    assert len(log) == 3 - account.dropped
    assert account.dropped + account.changed >= 1


def test_exit_codes_and_status() -> None:
    log, _ = read(*[another(n, EXIT_STATUS=code) for n, code in enumerate(("0", "143", "-9", "", "1.0"), 1)])
    assert log["exit_code"].tolist() == [0, 143, -9, None, 1]
    assert log["status"].tolist() == [1, 0, 0, None, 0]


def test_told_by_content_and_packed(tmp_path: Path) -> None:
    text = text_of(row(), another(1002))
    assert detect(text, "a") == "alcf"
    (tmp_path / "x.swf").write_bytes(gzip.compress(text))
    log, _ = read_log(tmp_path / "x.swf")
    assert log.digest() == parse_alcf(text, "x")[0].digest()
    for ending in (b"\r\n", b"\n"):
        changed = b"\xef\xbb\xbf" + text.replace(b"\n", ending)
        assert parse_alcf(changed, "x")[0].digest() == log.digest()


def test_several_machines_are_noted() -> None:
    _, account = read(row(), another(1002, MACHINE_NAME="cetus"))
    assert "mira, cetus" in next(f.text for f in account.findings if f.rule == "columns")


def test_runs_of_one_id_that_overlap_or_follow_a_completed_one_are_different_jobs() -> None:
    beside = row(START_TIMESTAMP="2016-11-05 11:30:00", END_TIMESTAMP="2016-11-05 13:00:00", RUNTIME_SECONDS="5400")
    then = row(START_TIMESTAMP="2016-11-05 13:00:00", END_TIMESTAMP="2016-11-05 14:00:00")
    for more in (beside, then):
        log, account = read(row(), more)
        assert (len(log), account.dropped) == (2, 0)
