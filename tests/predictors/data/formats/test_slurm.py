"""Slurm's records, of a real cluster (tests/data/make_sacct.sh) and by hand: what becomes a job, and what is said."""

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, read_log
from predictors.data.formats.detect import detect
from predictors.data.formats.sacct_json import parse_sacct_json
from predictors.data.formats.slurm import dependency_of, memory_of, parse_sacct, submit_options
from predictors.data.report import ReadingReport
from predictors.data.summary import lacks_of_reading
from tests.support.places import DATA

HEAD = (
    "JobIDRaw|JobID|User|Account|Partition|ReqCPUS|AllocCPUS|AllocNodes|ReqMem|TimelimitRaw|Submit|Eligible|Start|End|"
    "ElapsedRaw|State|ExitCode|JobName|WorkDir|NodeList"
)
PLAIN = {
    "JobIDRaw": "7", "User": "ana", "Account": "phys", "Partition": "batch", "ReqCPUS": "4", "AllocCPUS": "4",
    "AllocNodes": "1", "ReqMem": "4000M", "TimelimitRaw": "10", "Submit": "2021-03-27T10:00:00",
    "Eligible": "2021-03-27T10:00:00", "Start": "2021-03-27T10:01:00", "End": "2021-03-27T10:03:00",
    "ElapsedRaw": "120", "State": "COMPLETED", "ExitCode": "0:0", "JobName": "run", "WorkDir": "/home/ana",
    "NodeList": "n1",
}  # fmt: skip


def row(**changed: str) -> str:
    told = PLAIN | {"JobID": changed.get("JobIDRaw", "7")} | changed
    return "|".join(told[name] for name in HEAD.split("|"))


def read(*rows: str, head: str = HEAD, **how: object) -> tuple[JobLog, ReadingReport]:
    text = "\n".join((head, *rows)) + "\n"
    return parse_sacct(text.encode(), "a.txt", **how)  # type: ignore[arg-type]


def named(log: JobLog, column: str) -> list[str | None]:
    names = log.names(column)
    return [None if code is np.ma.masked else names[code] for code in log[column]]


def by_id(log: JobLog, column: str) -> dict[int, object]:
    values = named(log, column) if log.names(column) else log[column].tolist()
    return dict(zip(log["job_id"].tolist(), values, strict=True))


# a real cluster -------------------------------------------------------------------------------------------------------


def test_a_real_cluster() -> None:
    log, account = read_log(DATA / "sacct_unix.txt")
    assert len(log) == 48 - 3  # 46 records with 2 line breaks in one of them, of which one job twice
    assert {f.rule: f.count for f in account.findings} == {
        "earlier-attempt": 1, "component": 2, "rejoined": 3, "no-limit": 1, "array-itself": 1, "unused": 5,
        "never-started": 1, "unfinished": 3,
    }  # fmt: skip
    name, state = by_id(log, "executable"), by_id(log, "state")
    assert (name[3], name[4], name[5]) == ("pipe|in|name", "line\nbreak", "quote`comma,")
    told = {
        name[job]: (state[job], code, status)
        for job, code, status in zip(
            log["job_id"].tolist(), log["exit_code"].tolist(), log["status"].tolist(), strict=True
        )
    }
    assert told["plain"] == ("COMPLETED", 0, 1)
    assert told["fails"] == ("FAILED", 3, 0)
    assert told["signalled"] == ("FAILED", 128 + 11, 0)
    assert told["timeout"] == ("TIMEOUT", 0, 0)
    assert told["node-fails"] == ("NODE_FAIL", 0, 0)
    assert told["cancelled-running"][::2] == ("CANCELLED", 5)
    assert told["still-running"] == ("RUNNING", None, None)
    assert told["pending-begin"] == ("PENDING", None, None)


def test_jobs_of_a_real_cluster() -> None:
    log, _ = read_log(DATA / "sacct_unix.txt")
    job = {name: number for number, name in by_id(log, "executable").items()}

    def of(name: str, *columns: str) -> list[object]:
        return [by_id(log, column)[job[name]] for column in columns]

    assert of("plain", "requested_time", "requested_procs", "allocated_procs", "nodes") == [300, 4, 4, 1]
    assert of("two nodes", "requested_time", "nodes", "location") == [86_400, 2, "n[1-2]"]
    assert of("exclusive", "requested_procs", "allocated_procs", "requested_nodes", "nodes") == [3, 24, 3, 3]
    assert of("endless", "requested_time", "run_time") == [None, 2]  # UNLIMITED
    assert of("timeout", "requested_time", "run_time") == [60, 87]
    assert of("cancelled-eligible", "run_time", "wait", "allocated_procs", "status") == [0, 19, None, 5]
    assert of("pending-begin", "run_time", "wait", "allocated_procs", "location") == [None, None, None, None]
    assert of("requeued", "run_time", "status", "wait") == [5, 1, 20]  # the run before took 18 s
    assert of("mem", "requested_memory") == [500 * 1024]
    assert of("second", "eligible_wait") == [0]  # it waited for the job before it, not for processors
    waited = dict(zip(log["job_id"].tolist(), log["wait"].tolist(), strict=True))[job["second"]]
    assert waited > 0
    arrays = by_id(log, "array")
    assert sum(number == 11 for number in arrays.values()) == 8
    assert sum(name == "het" for name in by_id(log, "executable").values()) == 2
    assert set(named(log, "user")) == {"ana", "ben"}
    assert set(named(log, "project")) == {"physics", "chem_bio"}


def test_steps_are_no_jobs() -> None:
    jobs, _ = read_log(DATA / "sacct_jobs.txt")
    steps, account = read_log(DATA / "sacct_steps.txt")
    assert steps.digest() == jobs.digest()
    assert account.count("step") == 44
    assert account.dropped == 1


def test_local_times_with_their_zone_are_unix_time() -> None:
    local, account = read_log(DATA / "sacct_jobs.txt", time_zone="Europe/Paris")
    unix, _ = read_log(DATA / "sacct_unix.txt")
    assert (local.digest(), local.epoch) == (unix.digest(), unix.epoch)
    assert local.time_zone == "Europe/Paris"
    assert not account.count("local-time")
    taken_as_utc, account = read_log(DATA / "sacct_jobs.txt")
    assert taken_as_utc.epoch == unix.epoch + 3600
    assert account.count("local-time") == 1


def test_json_tells_the_same_as_text() -> None:
    text, _ = read_log(DATA / "sacct_unix.txt")
    found, account = read_log(DATA / "sacct.json.gz")
    for column in text.values:
        if column not in ("exit_code", "command", "exclusive", "dependency", "parents", "constraint"):  # not in 22.05's
            assert by_id(found, column) == by_id(text, column), column
    failed = by_id(text, "state")
    assert all(code in (None, 0, 139) for code in by_id(found, "exit_code").values())
    assert all(by_id(found, "exit_code")[job] != 0 for job, state in failed.items() if state == "FAILED")
    assert account.count("array-itself") == 1
    assert "50" not in str(account.count("array-itself"))


def test_sacct_without_times_says_how_to_export() -> None:
    with pytest.raises(JobcastError, match=r"lacks the column Submit, Start, End .*--parsable2 --format=JobIDRaw"):
        read_log(DATA / "sacct_default.txt")


# by hand --------------------------------------------------------------------------------------------------------------


def test_elapsed_with_days_and_limits_in_words() -> None:
    head = HEAD.replace("ElapsedRaw", "Elapsed").replace("TimelimitRaw", "Timelimit")
    more = {"TimelimitRaw": "2-12:00:00", "ElapsedRaw": "1-02:03:04", "End": "2021-03-28T12:04:04"}
    rows = [row(**more)]
    for number, limit in enumerate(("UNLIMITED", "Partition_Limit", "00:10:00.5", "soon"), 8):
        rows.append(row(JobIDRaw=str(number), TimelimitRaw=limit))
    log, account = read(*rows, head=head)
    assert log["run_time"].tolist()[0] == 93_784
    assert log["requested_time"].tolist() == [216_000, None, None, 600, None]
    assert account.count("no-limit") == 2
    assert [(f.rule, f.column, f.example) for f in account.findings if f.effect == "changed"] == [
        ("not-a-time", "requested_time", "soon")
    ]
    # 26 h by the spans, but the clocks went forward in between: the span counts
    assert account.count("run-time-differs") + account.count("clock-change") == 0


@pytest.mark.parametrize(
    ("asked", "kilobytes"),
    [("4000M", 1_024_000), ("4Gn", 1_048_576), ("1Gc", 1_048_576), ("2000K", 500), ("?", None), ("4", 1024), ("0n", 0)],
)
def test_memory_of_old_and_new_slurm(asked: str, kilobytes: int | None) -> None:
    log, account = read(row(ReqMem=asked))
    assert log["requested_memory"].tolist() == [kilobytes]
    assert account.count("not-a-memory") == (kilobytes is None)


@pytest.mark.parametrize("put_back", ["REQUEUED", "REQUEUE_HOLD"])
def test_a_requeued_job_is_its_last_run(put_back: str) -> None:
    back = {"Submit": "2021-03-27T10:03:00", "Eligible": "2021-03-27T10:05:00"}
    log, account = read(
        row(State=put_back),
        row(
            State="NODE_FAIL",
            **back | {"Start": "2021-03-27T10:05:00", "End": "2021-03-27T10:06:00", "ElapsedRaw": "60"},
        ),
        row(
            State="COMPLETED", Submit="2021-03-27T10:06:00", Start="2021-03-27T10:09:00", End="2021-03-27T10:10:00",
            ElapsedRaw="60",
        ),
    )  # fmt: skip
    assert (len(log), log["wait"].tolist(), log["status"].tolist()) == (1, [180], [1])
    (finding,) = [f for f in account.findings if f.effect == "dropped"]
    assert (finding.rule, finding.count, finding.places) == ("earlier-attempt", 2, (2, 3))


def test_an_id_that_comes_again_is_another_job() -> None:
    log, account = read(
        row(),
        row(Submit="2023-01-01T00:00:00", Start="2023-01-01T00:00:10", End="2023-01-01T00:02:10"),
        row(JobIDRaw="9"),
    )
    assert len(log) == 3
    assert account.count("ids") == 1
    assert named(log, "label") == ["7", "9", "7"]
    assert log["job_id"].tolist() == [1, 2, 3]


def test_the_same_row_twice_is_one_job() -> None:
    log, account = read(row(), row(JobIDRaw="8"), row())
    assert (len(log), account.count("repeated-row"), account.dropped) == (2, 1, 1)


def task(number: int, **changed: str) -> str:
    """Return the record of a task of array 500, which ends in minute `number` after 10:03."""
    end = {"End": f"2021-03-27T10:{3 + number:02}:00", "ElapsedRaw": str(120 + 60 * number)}
    return row(**{"JobIDRaw": "500", "JobID": f"500_{number}"} | end | changed)


def test_tasks_of_an_array_under_one_raw_id_are_different_jobs() -> None:
    log, account = read(*(task(number) for number in range(5)))
    assert (len(log), account.dropped, account.count("earlier-attempt")) == (5, 0, 0)
    assert named(log, "label") == [f"500_{number}" for number in range(5)]
    assert log["array"].tolist() == [500] * 5
    later = {"Submit": "2021-03-27T10:04:00", "Start": "2021-03-27T10:05:00", "End": "2021-03-27T10:07:00"}
    log, account = read(task(0), task(1, State="NODE_FAIL"), task(1, ElapsedRaw="120", **later))
    assert (named(log, "label"), account.count("earlier-attempt")) == (["500_0", "500_1"], 1)


@pytest.mark.parametrize("state", ["COMPLETED", "NODE_FAIL"])
def test_runs_of_one_id_that_overlap_are_different_jobs(state: str) -> None:
    """Tasks whose numbers the export lacks; they may end together, and the file may hold them twice."""
    bare = [task(number, JobID="500", State=state) for number in range(5)]
    bare += [task(0, JobID="500", State=state, NodeList=f"n{node}") for node in (2, 3)]
    log, account = read(*bare)
    assert (len(log), account.dropped) == (7, 0)
    log, account = read(*bare, *bare)
    assert (len(log), account.count("repeated-row"), account.dropped) == (7, 7, 7)


def test_equal_tasks_among_others_are_no_repeated_rows() -> None:
    """Two tasks may begin and end in the same second; a file that holds all rows twice holds them again."""
    bare = [task(number, JobID="500") for number in (0, 0, 1, 2)]
    log, account = read(*bare)
    assert (len(log), account.dropped) == (4, 0)


def test_a_requeued_run_that_overlaps_the_next_one_is_no_attempt() -> None:
    next_one = {"Submit": "2021-03-27T10:02:00", "Start": "2021-03-27T10:02:30", "End": "2021-03-27T10:04:30"}
    log, account = read(row(State="NODE_FAIL"), row(**next_one))
    assert (len(log), account.dropped) == (2, 0)


def test_components_of_heterogeneous_jobs_are_told_first() -> None:
    log, account = read(row(JobID="7+0"), row(JobIDRaw="8", JobID="7+1"), row(JobIDRaw="9"))
    assert (len(log), account.count("component")) == (3, 2)
    (lack,) = lacks_of_reading(log, account)
    assert (lack.name, lack.forbids_verdict) == ("components", False) and "2 of 3 jobs" in lack.text
    job = {"job_id": 8, "het": {"job_id": {"set": True, "number": 7}, "job_offset": {"set": True, "number": 1}},
           "time": {"submission": 1_000, "start": 1_010, "end": 1_100, "elapsed": 90},
           "state": {"current": ["COMPLETED"]}}  # fmt: skip
    _, account = parse_sacct_json(json.dumps({"jobs": [job]}).encode(), "a.json")
    assert (account.count("component"), account.count("unused")) == (1, 0)


def test_a_nul_in_a_name_is_told() -> None:
    log, account = read(row(User="a\0b"), row(JobIDRaw="8"))
    assert named(log, "user") == ["a\ufffdb", "ana"]
    assert (account.count("control-character"), account.changed) == (1, 1)
    with pytest.raises(JobcastError, match="control-character user"):
        read(row(User="a\0b"), strict=True)


def test_local_times_in_the_hour_that_comes_twice_are_counted() -> None:
    twice = {"Submit": "2021-10-31T02:10:00", "Eligible": "2021-10-31T02:10:00", "Start": "2021-10-31T04:00:00",
             "End": "2021-10-31T04:02:00"}  # fmt: skip
    _, account = read(row(**twice), row(JobIDRaw="8"), time_zone="Europe/Paris")
    assert {f.column: f.count for f in account.findings if f.rule == "hour-comes-twice"} == {"submit": 1, "eligible": 1}


BARE = (
    "977669|977669|site|black|normal|phys|phys|500|ana|1000|2016-12-21T21:43:34|2016-12-21T21:43:34|"
    "2016-12-22T07:03:30|2016-12-22T08:03:30|01:00:00|0:0|COMPLETED|1|8|8|2147486448Mn|cpu=8,mem=22400M,node=1,"
    "gres/gpu=2|billing=8,cpu=8,mem=22400M,node=1,gres/gpu=2|3-00:00:00|n1|a|job"
)


def test_sacct_without_a_header_is_told_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "day.log"
    file.write_text(f"{BARE}\n{BARE.replace('977669', '977670').replace('a|job', 'b')}\n")
    log, account = read_log(file)
    assert (log["job_id"].tolist(), named(log, "executable")) == ([977669, 977670], ["a|job", "b"])
    assert (log["wait"].tolist(), log["requested_gpus"].tolist()) == ([33_596] * 2, [2, 2])
    assert log["requested_job_memory"].tolist() == [22_400 * 1024] * 2, "2,800 MB of each processor, with a flag"
    assert [f.places for f in account.findings if f.rule == "rejoined"] == [(1,)]
    file.write_text("12|COMPLETED|2021-03-27T10:00:00\n13|FAILED|2021-03-27T10:00:00\n")
    with pytest.raises(JobcastError, match=r"without a header.*--noheader"):
        read_log(file)


def test_the_file_that_a_site_keeps_for_xdmod(trace) -> None:  # type: ignore[no-untyped-def]
    """ReqMem, with its flag, says in each row what ReqTRES says."""
    file = trace("modern/xdmod-pozidriv.sacct.gz")
    log, account = read_log(file)
    assert (len(log), account.dropped, account.changed) == (11_704, 0, 0)
    rows = [line.split("|") for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    told = {int(fields[1]): memory_of(fields[21]) for fields in rows}
    assert dict(zip(log["job_id"].tolist(), log["requested_job_memory"].tolist(), strict=True)) == told


def test_tasks_of_one_array_in_the_sample_of_eagle(trace) -> None:  # type: ignore[no-untyped-def]
    """1,000 rows, 452 of them tasks of one array under its id, 41 of these equal to another in each column."""
    log, account = read_log(trace("modern/NREL-Eagle-sample.csv"))
    assert (len(log), account.dropped) == (1000, 0)


@pytest.mark.parametrize(
    "states", [["COMPLETED"] * 5, ["COMPLETED", "FAILED"], ["FAILED", "TIMEOUT", "COMPLETED"], ["CANCELLED by 5"] * 3]
)
def test_runs_without_a_requeue_that_follow_one_another_are_tasks(states: list[str]) -> None:
    """Tasks of an array that runs one at a time, written without their numbers."""
    rows = []
    for number, state in enumerate(states):
        clock = {"Start": f"2021-03-27T10:{10 + 3 * number}:00", "End": f"2021-03-27T10:{12 + 3 * number}:00"}
        rows.append(task(0, JobID="500", State=state, ElapsedRaw="120", **clock))
    log, account = read(*rows)
    assert (len(log), account.dropped) == (len(states), 0)


def test_each_of_several_requeued_tasks_is_its_last_run() -> None:
    again = {"Start": "2021-03-27T10:10:00", "End": "2021-03-27T10:20:00", "ElapsedRaw": "600"}
    rows = [task(number, JobID="500", State="REQUEUED") for number in (0, 1)]
    rows += [task(0, JobID="500", NodeList=node, **again) for node in ("n1", "n2")]
    log, account = read(*rows)
    assert (len(log), account.count("earlier-attempt")) == (2, 2)


def test_a_task_that_ran_again_beside_others_is_its_last_run() -> None:
    later = {"Start": "2021-03-27T10:05:00", "End": "2021-03-27T10:06:00", "ElapsedRaw": "60"}
    log, account = read(task(0, JobID="500", State="NODE_FAIL"), task(9, JobID="500"), task(1, JobID="500", **later))
    assert (len(log), account.count("earlier-attempt")) == (2, 1)
    assert sorted(log["run_time"].tolist()) == [60, 660]


def test_tasks_under_one_id_in_json() -> None:
    times = {"submission": 1_000, "start": 1_010, "end": 1_100, "elapsed": 90}
    jobs = [
        {"job_id": 500, "array": {"job_id": 500, "task_id": {"set": True, "number": number}}, "time": times,
         "state": {"current": ["COMPLETED"]}}
        for number in range(4)
    ]  # fmt: skip
    log, account = parse_sacct_json(json.dumps({"jobs": jobs}).encode(), "a.json")
    assert (named(log, "label"), account.dropped) == ([f"500_{number}" for number in range(4)], 0)


def test_cancelled_by_somebody_and_unknown_states() -> None:
    log, account = read(
        row(State="CANCELLED by 1004"), row(JobIDRaw="8", State="CANCELLED by 0"), row(JobIDRaw="9", State="BLESSED")
    )
    assert named(log, "state") == ["CANCELLED", "CANCELLED", "BLESSED"]
    assert log["status"].tolist() == [5, 5, None]
    assert "BLESSED" in next(f.text for f in account.findings if f.rule == "columns")


def test_counts_with_suffixes_and_cut_names() -> None:
    log, account = read(row(AllocCPUS="2K", User="longname+"), row(JobIDRaw="8", AllocCPUS="1.5M"))
    assert log["allocated_procs"].tolist() == [2000, 1_500_000]
    assert account.count("truncated-name") == 1


def test_bars_where_nobody_can_tell() -> None:
    head = HEAD.replace("WorkDir", "Comment")
    log, account = read(row(JobName="a|b", WorkDir="c"), row(JobIDRaw="8"), head=head)
    assert named(log, "executable") == [None, "run"]
    assert log["run_time"].tolist() == [120, 120]
    assert named(log, "location") == ["n1", "n1"]
    assert [(f.rule, f.effect, f.places) for f in account.findings if f.rule not in ("local-time", "unused")] == [
        ("delimiter-in-text", "changed", (2,))
    ]


def test_torn_lines() -> None:
    log, account = read(row(), row(JobIDRaw="8")[:40], row(JobIDRaw="9"), "|".join("x" * 30))
    assert log["job_id"].tolist() == [7, 9]
    assert {(f.rule, f.places) for f in account.findings if f.effect == "dropped"} == {
        ("too-few-fields", (3,)),
        ("surplus-fields", (5,)),
    }
    with pytest.raises(JobcastError, match=r"a.txt:3: too-few-fields"):
        read(row(), row(JobIDRaw="8")[:40], strict=True)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ReqCPUS": "four"}, r"a.txt:3: not-a-number requested_procs, found 'four'"),
        ({"ReqCPUS": "-4"}, r"a.txt:3: negative requested_procs, found '\[?-4"),
        ({"End": "yesterday"}, r"a.txt:3: not-a-time end, found 'yesterday'"),
        ({"Submit": "Unknown"}, r"a.txt:3: no-submission submit"),
        ({"Start": "2021-03-27T09:00:00"}, r"a.txt:3: start-before-submission wait"),
    ],
)
def test_strict_names_line_column_and_value(changed: dict[str, str], says: str) -> None:
    bad = row(JobIDRaw="8", **changed)
    with pytest.raises(JobcastError, match=says):
        read(row(), bad, row(JobIDRaw="9"), strict=True)
    assert read(row(), bad, row(JobIDRaw="9"))[1].changed + read(row(), bad)[1].dropped >= 1


def test_one_log_one_way_of_writing_times() -> None:
    with pytest.raises(JobcastError, match=r"a.txt:2: submit '2021-03-27T10:00:00' has no time zone, but a.txt:3: "):
        read(row(), row(JobIDRaw="8", Submit="1616835600", Start="1616835660", End="1616835780"))
    offsets = {"Submit": "2021-03-27T10:00:00+0100", "Start": "2021-03-27T10:01:00+01:00", "Eligible": "Unknown"}
    log, account = read(row(**offsets, End="2021-03-27T09:03:00Z"))
    assert (log.epoch, log["run_time"].tolist(), log["wait"].tolist()) == (1_616_835_600, [120], [60])
    assert not account.findings


def test_an_hour_lost_in_spring() -> None:
    # 01:30 to 03:30 by the clock is one hour on 28 March 2021 in Paris.
    times = {"Submit": "2021-03-28T01:00:00", "Start": "2021-03-28T01:30:00", "End": "2021-03-28T03:30:00"}
    night = row(**times, Eligible="Unknown", ElapsedRaw="3600")
    log, account = read(night)
    assert (log["run_time"].tolist(), account.count("clock-change")) == ([3600], 1)
    log, account = read(night, time_zone="Europe/Paris")
    assert (log["run_time"].tolist(), account.count("clock-change"), log.epoch) == ([3600], 0, 1_616_889_600)
    with pytest.raises(JobcastError, match=r"No time zone 'Paris'"):
        read(night, time_zone="Paris")


def test_a_name_in_another_encoding() -> None:
    text = (HEAD + "\n" + row(JobName="Größe")).encode("latin-1")
    log, account = parse_sacct(text, "a.txt")
    assert named(log, "executable") == ["Größe"]
    assert account.count("text") == 1


def test_forms_that_are_not_parsable2() -> None:
    with pytest.raises(JobcastError, match="--parsable2, not --parsable"):
        read(row() + "|", head=HEAD + "|")
    with pytest.raises(JobcastError, match="sacct's table for people"):
        detect(b"JobID           JobName  Partition\n------------ ---------- ----------\n7 run batch\n", "a.txt")
    with pytest.raises(JobcastError, match="none of its 1 record is a job"):
        read(row(Submit="Unknown"))
    with pytest.raises(JobcastError, match="has State twice"):
        read(row(), head=HEAD.replace("ExitCode", "State"))


# JSON of other Slurms -------------------------------------------------------------------------------------------------


def as_json(*jobs: object) -> tuple[JobLog, ReadingReport]:
    return parse_sacct_json(json.dumps({"meta": {}, "jobs": jobs}).encode(), "a.json")


NEW = {
    "job_id": 9,
    "array": {"job_id": 8, "task_id": {"set": True, "infinite": False, "number": 3}},
    "association": {"user": "ana", "account": "phys"},
    "time": {
        "submission": 1_700_000_000, "eligible": 1_700_000_010, "start": 1_700_000_100, "end": 1_700_000_400,
        "elapsed": 300, "limit": {"set": True, "infinite": False, "number": 10},
    },
    "exit_code": {
        "status": ["SIGNALED"],
        "return_code": {"set": False, "infinite": False, "number": 0},
        "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "KILL"},
    },
    "state": {"current": ["OUT_OF_MEMORY"], "reason": "None"},
    "required": {"CPUs": 8},
    "tres": {"allocated": [{"type": "cpu", "count": 8}, {"type": "node", "count": 2}], "requested": []},
    "submit_line": "sbatch x.sh",
    "restart_cnt": 2,
}  # fmt: skip


def test_json_of_a_newer_slurm() -> None:
    log, account = as_json(
        NEW, {**NEW, "job_id": 10, "time": {**NEW["time"], "limit": {"set": True, "infinite": True}}}
    )
    assert log["requested_time"].tolist() == [600, None]
    assert log["exit_code"].tolist() == [137, 137]
    assert log["allocated_procs"].tolist() == [8, 8]
    assert (log["nodes"].tolist(), log["restarts"].tolist(), log["array"].tolist()) == ([2, 2], [2, 2], [8, 8])
    assert (named(log, "state"), log["status"].tolist()) == (["OUT_OF_MEMORY"] * 2, [0, 0])
    assert named(log, "command") == ["sbatch x.sh"] * 2
    assert log["eligible_wait"].tolist() == [90, 90]
    assert account.count("no-limit") == 1


@pytest.mark.parametrize("put_back", ["REQUEUED", "REQUEUE_HOLD", "RESIZING"])
def test_a_run_before_a_requeue_in_json_has_two_states(put_back) -> None:
    """As Slurm 26.05 writes it: the first of them is PENDING, and the run is no job of its own."""
    later = {name: 1_700_000_500 + number for number, name in enumerate(("submission", "eligible", "start", "end"))}
    run = {**NEW, "state": {"current": ["PENDING", put_back], "reason": "None"}, "restart_cnt": 0}
    log, account = as_json(run, {**NEW, "time": {**NEW["time"], **later}, "restart_cnt": 1})
    assert (len(log), named(log, "state")) == (1, ["OUT_OF_MEMORY"])
    assert account.count("earlier-attempt") == 1


def test_json_that_holds_no_jobs() -> None:
    for text, says in (
        (b'{"jobs": [', "no whole JSON"),
        (b'{"jobs": []}', "no list of jobs"),
        (b'{"jobs": {}}', "no list of jobs"),
        (b'{"jobs": [7, {}]}', "is a job"),
    ):
        with pytest.raises(JobcastError, match=says):
            parse_sacct_json(text, "a.json")
    log, account = as_json(NEW, 7, {"job_id": None})
    assert (len(log), account.count("no-job-id")) == (1, 2)


# what nobody should write ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"AllocCPUS": "9" * 400 + "G"}, {"not-a-number"}),
        ({"AllocCPUS": "999999999999999G"}, {"too-large"}),
        ({"AllocCPUS": "²"}, {"not-a-number"}),
        ({"AllocCPUS": "-3", "ReqCPUS": "4K"}, {"negative"}),
        ({"ExitCode": "²:0"}, set()),
        ({"ExitCode": "9" * 30 + ":0"}, set()),
        ({"JobID": "9" * 40 + "_3"}, set()),
        ({"JobID": "7_[1-99999999999999999999999]"}, {"array-itself"}),
        ({"End": "9999-12-31T23:59:59"}, {"run-time-differs"}),
        ({"Submit": "0000-00-00T00:00:00"}, {"not-a-time", "no-submission"}),
    ],
)
def test_odd_values_are_told_and_never_a_traceback(changed: dict[str, str], rules: set[str]) -> None:
    log, account = read(row(JobIDRaw="5"), row(**changed))
    found = {finding.rule for finding in account.findings}
    assert len(log) + account.dropped == 2 and rules - {"array-itself"} <= found


def test_a_line_of_many_bars_is_given_up_in_no_time() -> None:
    """By trying each way, sixty bars between seven free fields would take minutes a line."""
    names = "JobID|JobName|Comment|AdminComment|SystemComment|SubmitLine|Reason|Extra|Submit|Start|End|State"
    bars = [f"{k}|" + "a|" * 60 + "||||||2021-03-27T10:00:00|2021-03-27T10:01:00|never|COMPLETED" for k in range(300)]
    sound = "7|run|||||||2021-03-27T10:00:00|2021-03-27T10:01:00|2021-03-27T10:03:00|COMPLETED"
    begin = time.process_time()
    log, account = read(sound, *bars, head=names)
    assert (len(log), account.count("surplus-fields")) == (1, 300)
    assert time.process_time() - begin < 10


def test_a_carriage_return_in_a_name_breaks_no_line() -> None:
    log, account = read(row(), row(JobIDRaw="8", JobName="a\rb"))
    assert named(log, "executable") == ["run", "a\rb"] and account.count("rejoined") == 1


def test_a_first_line_of_very_many_names_is_read_at_once() -> None:
    begin = time.process_time()
    with pytest.raises(JobcastError, match="lacks the column"):
        read(head="|".join(["JobID", "Submit", *map(str, range(60_000))]))
    assert time.process_time() - begin < 10


def test_tasks_written_as_bits() -> None:
    job = {"job_id": 7, "array": {"job_id": 7, "task": "0x" + "f" * 50_000}, "state": {"current": ["PENDING"]}}
    odd = {"job_id": "²", "time": {"submission": 1}}
    text = json.dumps({"jobs": [job | {"time": {"submission": 1_616_835_600}}, odd]}).encode()
    log, account = parse_sacct_json(text, "a.json")
    assert len(log) == 1 and account.count("array-itself") == 1 and account.count("no-job-id") == 1


# what today's jobs ask for --------------------------------------------------------------------------------------------


def test_gpus_memory_constraints_and_dependencies() -> None:
    head = f"{HEAD}|ReqTRES|AllocTRES|Constraints|Reservation|Licenses|SubmitLine|MaxRSS"
    tail = "billing=8,cpu=4,gres/gpu=2,mem=8000M,node=1|cpu=4,gres/gpu:a100=2,mem=8000M,node=1|h100&ib|maint|lic@db:2|"
    log, account = read(
        row() + "|" + tail + "sbatch --exclusive -d afterok:5:6,afterany:5 job.sh|",
        row(JobIDRaw="8", ReqMem="2Gc", Start="Unknown", End="Unknown", State="PENDING") + "|cpu=4|cpu=4||||sbatch x|",
        row(JobIDRaw="9", ReqMem="3Gn", AllocNodes="2") + "||||||sbatch --exclusive=user x|",
        row(JobIDRaw="10", ReqMem="") + "|cpu=4,mem=7M||||||",
        head=head,
    )
    gb = 1024**2
    assert log["requested_gpus"].tolist() == [2, 0, None, 0]
    assert log["allocated_gpus"].tolist() == [2, None, None, None]  # the second has not started
    assert log["requested_job_memory"].tolist() == [4_096_000, 8 * gb, 6 * gb, 7168]
    assert (named(log, "constraint")[0], named(log, "reservation")[0]) == ("h100&ib", "maint")
    assert (named(log, "licenses")[0], log["exclusive"].tolist()) == ("lic@db:2", [1, None, 2, None])
    assert (named(log, "dependency")[0], named(log, "parents")[0]) == ("afterany,afterok", "5:6")
    assert [(f.text, f.count) for f in account.findings if f.rule == "unused"] == [
        ("columns of which nothing is used: MaxRSS", 1)
    ]


def test_types_of_gpus_come_from_the_list_of_resources_else_from_the_submit_line() -> None:
    jobs = [
        ("cpu=4,gres/gpu:a100=2,gres/gpu=2", "sbatch --gres=gpu:v100:1 x"), ("cpu=4,gres/gpu=2", "sbatch -G h100:2 x"),
        ("cpu=4", "sbatch --gres=shard:2,gpu:mi300:1 x"), ("cpu=4", "srun --gpus-per-task v100:1,a100:1 x"),
        ("cpu=4", "sbatch --gres=gpu:2 --gpus=4 x"), ("cpu=4,gres/gpu:a100=1,gres/gpu:1g.5gb=1", ""),
        ("", "sbatch --tres-per-task=cpu:2,gres/gpu:h100:1 x"), ("cpu=4,gres/gpu=2", "sbatch x --gres=gpu:a100"),
    ]  # fmt: skip
    rows = [row(JobIDRaw=str(number)) + f"|{tres}|{line}" for number, (tres, line) in enumerate(jobs, 1)]
    log, _ = read(*rows, head=f"{HEAD}|ReqTRES|SubmitLine")
    types = ["a100", "h100", "mi300", "a100,v100", None, "1g.5gb,a100", "h100", None]
    assert named(log, "gpu_type") == types
    log, _ = read(*(line.rpartition("|")[0] for line in rows), head=f"{HEAD}|ReqTRES")
    assert named(log, "gpu_type") == ["a100", None, None, None, None, "1g.5gb,a100", None, None]
    log, _ = read(*(line.rpartition("|")[0] for line in rows[1:5]), head=f"{HEAD}|ReqTRES")
    assert "gpu_type" not in log.values


def test_json_has_gpus_and_unused_keys() -> None:
    tres = {"requested": [{"type": "gres", "name": "gpu", "count": 4}, {"type": "mem", "count": 512}], "allocated": []}
    log, account = as_json({**NEW, "tres": tres, "constraints": "bigmem", "wckey": "x"})
    assert (log["requested_gpus"].tolist(), named(log, "constraint")) == ([4], ["bigmem"])
    assert log["requested_job_memory"].tolist() == [512 * 1024] and "gpu_type" not in log.values
    typed = {"requested": [*tres["requested"], {"type": "gres", "name": "gpu:a100", "count": 4}], "allocated": []}
    assert named(as_json({**NEW, "tres": typed})[0], "gpu_type") == ["a100"]
    assert any("wckey" in f.text for f in account.findings if f.rule == "unused")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("sbatch --nice --exclusive a.sh", {"exclusive": ""}),
        ("srun --pty --exclusive bash", {"exclusive": ""}),
        ("sbatch --reboot -d afterok:12 a.sh", {"dependency": "afterok:12"}),
        ("srun -l -u -E -d afterok:12 a", {"dependency": "afterok:12"}),
        ("sbatch -Hd afterok:12 a.sh", {"dependency": "afterok:12"}),
        ("sbatch --nice job.sh --exclusive", {}),
        ("sbatch --new-flag --exclusive a.sh", {"exclusive": ""}),
        ("sbatch --comment='a b' -C \"h100 & nvme\" a.sh", {"constraint": "h100 & nvme"}),
        ("sbatch --comment='open -d afterok:12 a.sh", {"dependency": "afterok:12"}),
        ("sbatch -d", {"dependency": ""}),
    ],
)
def test_flags_of_a_submit_line_have_no_value(line, found):
    assert submit_options(line) == found


def test_a_count_of_others_is_no_parent():
    assert dependency_of("on:2,afterok:7") == ("afterok,on", "7")
