"""PBS and TORQUE accounting: which records make a job, and what their keys mean."""

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, read_log
from predictors.data.formats.detect import detect
from predictors.data.formats.pbs import parse_pbs
from predictors.data.report import ReadingReport
from tests.support.places import DATA

BASE = 1_616_835_600  # 27 March 2021, 09:00 UTC, 10:00 in Paris


def ended(job: str = "7.srv", at: str = "03/27/2021 10:03:00", **changed: str) -> str:
    pairs = {
        "user": "ana", "group": "lab", "account": "phys", "jobname": "run", "queue": "workq", "ctime": str(BASE),
        "qtime": str(BASE), "etime": str(BASE + 30), "start": str(BASE + 60), "exec_host": "n1/0*4",
        "Resource_List.ncpus": "4", "Resource_List.nodect": "1", "Resource_List.walltime": "00:10:00",
        "end": str(BASE + 180), "Exit_status": "0", "resources_used.walltime": "00:02:00",
        "resources_used.mem": "4096kb", "resources_used.cput": "00:07:20",
    } | {key.replace("__", "."): value for key, value in changed.items()}  # fmt: skip
    return f"{at};E;{job};" + " ".join(f"{key}={value}" for key, value in pairs.items() if value)


def read(*lines: str, **how: object) -> tuple[JobLog, ReadingReport]:
    return parse_pbs(("\n".join(lines) + "\n").encode(), "acct", **how)  # type: ignore[arg-type]


def named(log: JobLog, column: str) -> list[str | None]:
    return [None if code is np.ma.masked else log.names(column)[code] for code in log[column]]


def test_an_ended_job() -> None:
    log, account = read(ended())
    plain = [column for column in log.values if column not in log.categories and log.known(column)[0]]
    assert {column: log[column].tolist()[0] for column in plain} == {
        "job_id": 7, "submit": 0, "wait": 60, "run_time": 120, "requested_time": 600, "requested_procs": 4,
        "allocated_procs": 4, "cpu_time": 110, "used_memory": 1024, "used_job_memory": 4096, "status": 1,
        "exit_code": 0, "nodes": 1, "requested_nodes": 1, "eligible_wait": 30,
    }  # fmt: skip
    assert {column: named(log, column) for column in log.categories} == {
        "user": ["ana"], "group": ["lab"], "project": ["phys"], "executable": ["run"], "queue": ["workq"],
        "location": ["n1/0*4"], "label": ["7.srv"],
    }  # fmt: skip
    assert log.epoch == BASE
    assert not account.findings


def test_a_file_of_all_kinds_of_records() -> None:
    log, account = read_log(DATA / "pbs_accounting.txt")
    labels = named(log, "label")
    told = {
        label: (wait, run, status)
        for label, wait, run, status in zip(
            labels, log["wait"].tolist(), log["run_time"].tolist(), log["status"].tolist(), strict=True
        )
    }
    assert told == {
        "101.srv": (5, 600, 1),
        "102.srv": (1800, 0, 5),  # deleted while it waited, by the server's clock
        "103[1].srv": (10, 300, 0),
        "103[2].srv": (10, 300, 1),
        "104.srv": (1200, 600, 1),  # its last run
    }
    assert named(log, "executable")[0] == "my job"
    assert log["array"].tolist() == [None, None, 103, 103, None]
    assert log["restarts"].tolist() == [0, None, None, None, 1]
    assert {f.rule: (f.effect, f.count) for f in account.findings} == {
        "not-a-record": ("dropped", 1), "earlier-attempt": ("dropped", 1), "array-itself": ("noted", 2),
        "never-started": ("noted", 1), "ids": ("noted", 1), "unused": ("noted", 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "procs", "nodes", "given"),
    [
        ({"Resource_List__nodes": "2:ppn=12", "Resource_List__ncpus": "1", "Resource_List__nodect": "2"}, 24, 2, 4),
        ({"Resource_List__nodes": "n7:ppn=4+3:ppn=8:gpu", "Resource_List__nodect": ""}, 28, 4, 4),
        ({"Resource_List__select": "2:ncpus=8:mem=4gb+1:ncpus=2", "Resource_List__ncpus": "18"}, 18, 1, 4),
        ({"exec_vnode": "(n1:ncpus=8:mem=4gb)+(n2:ncpus=3)"}, 4, 1, 11),
        ({"exec_host": "n1/0-15"}, 4, 1, 16),
        ({"exec_host": "n1/1+n1/0+n2/3"}, 4, 1, 3),
        ({"exec_host": "n1/0,2-4"}, 4, 1, 4),
        ({"exec_host": "", "total_execution_slots": "48", "unique_node_count": "2"}, 48, 1, None),
    ],
)
def test_sizes(changed: dict[str, str], procs: int, nodes: int, given: int | None) -> None:
    log, _ = read(ended(**changed))
    columns = ("requested_procs", "requested_nodes", "allocated_procs")
    assert [log[column].tolist()[0] for column in columns] == [procs, nodes, given]


@pytest.mark.parametrize(
    ("told", "code", "status"), [("0", 0, 1), ("1", 1, 0), ("271", 143, 0), ("-11", -11, 0), ("", None, None)]
)
def test_exit_status(told: str, code: int | None, status: int | None) -> None:
    log, _ = read(ended(Exit_status=told))
    assert (log["exit_code"].tolist(), log["status"].tolist()) == ([code], [status])


def test_deleted_while_running_is_cancelled() -> None:
    log, _ = read("03/27/2021 10:02:59;D;7.srv;requestor=ana@login", ended(Exit_status="271"))
    assert (log["status"].tolist(), log["run_time"].tolist()) == ([5], [120])


def test_names_with_blanks_quotes_and_equals_signs() -> None:
    log, _ = read(ended(jobname='"my = job; two"'), ended("8.srv", jobname="x y=2"))
    assert named(log, "executable") == ["my = job; two", "x y=2"]


def test_a_forged_key_is_reported() -> None:
    log, account = read(ended(jobname="run user=root"))
    assert (named(log, "user"), named(log, "executable")) == (["ana"], ["run"])
    assert [(f.effect, f.rule, f.column) for f in account.findings] == [("changed", "repeated-key", "user")]
    log, account = read(ended(queue="a queue=b"))
    assert (named(log, "queue"), account.count("repeated-key")) == (["b"], 1)


def test_the_server_tells_its_zone_by_itself() -> None:
    # Paris goes from +1 to +2 in the night to 28 March; each Q record follows the E record that is nearest to it.
    summer = {
        key: str(BASE + 86_400 + more)
        for key, more in (("ctime", 0), ("qtime", 0), ("etime", 0), ("start", 60), ("end", 180))
    }
    log, _ = read(
        ended(),
        "03/27/2021 10:30:00;Q;8.srv;queue=workq",
        ended("9.srv", "03/28/2021 11:03:00", **summer),
        "03/28/2021 11:30:00;Q;10.srv;queue=workq",
    )
    assert dict(zip(named(log, "label"), log["submit"].tolist(), strict=True)) == {
        "7.srv": 0,
        "8.srv": 1800,
        "9.srv": 86_400,
        "10.srv": 86_400 + 1800,
    }


def test_without_e_records_the_zone_must_be_given() -> None:
    line = "03/27/2021 10:00:00;Q;8.srv;queue=workq"
    log, account = read(line)
    assert (log.epoch, account.count("local-time")) == (BASE + 3600, 1)
    log, account = read(line, time_zone="Europe/Paris")
    assert (log.epoch, account.count("local-time")) == (BASE, 0)


def test_running_and_waiting_jobs() -> None:
    started = ended("8.srv").replace(";E;", ";S;").split(" end=")[0]
    log, account = read(ended(), started, "03/27/2021 10:30:00;Q;9.srv;queue=workq")
    assert log["run_time"].tolist() == [120, None, None]
    assert log["wait"].tolist() == [60, 60, None]
    assert account.count("unfinished") == 2


def test_reruns_without_an_r_record_and_repeated_files() -> None:
    again = {key: str(BASE + more) for key, more in (("start", 600), ("end", 720))}
    log, account = read(ended(), ended(at="03/27/2021 10:12:00", **again))
    assert (log["wait"].tolist(), account.count("earlier-attempt")) == ([600], 1)
    log, account = read(ended(), ended("8.srv"), ended())
    assert (len(log), account.count("repeated-row")) == (2, 1)


def test_subjobs_that_run_at_once_are_different_jobs() -> None:
    log, account = read(*(ended(f"500[{number}].srv") for number in range(4)), ended("500-9.srv"))
    assert (len(log), account.dropped, account.count("earlier-attempt")) == (5, 0, 0)
    assert log["array"].tolist() == [500] * 5


def test_a_day_and_more() -> None:
    log, _ = read(ended(Resource_List__walltime="2-00:00:00"), ended("8.srv", Resource_List__walltime="120:00:00"))
    assert log["requested_time"].tolist() == [172_800, 432_000]
    log, account = read(ended(Resource_List__walltime="soon"))
    assert (log["requested_time"].tolist(), account.count("not-a-time")) == ([None], 1)


def test_what_is_no_job_is_left_out() -> None:
    others = ["03/27/2021 00:00:00;L;license;floating license hour:3", "03/27/2021 00:00:00;U;R12.srv;owner=ana"]
    log, account = read(*others, ended(), "")
    assert len(log) == 1
    assert not account.findings
    with pytest.raises(JobcastError, match="holds no record of a job"):
        read(*others)


def test_strict_names_the_line() -> None:
    with pytest.raises(JobcastError, match=r"acct:2: not-a-record, found 'torn li'"):
        read(ended(), "torn li", strict=True)


def test_detected() -> None:
    assert detect(ended().encode(), "a") == "pbs"
    assert detect(b"# moved here\n" + ended().encode(), "a") == "pbs"


def test_deleted_after_its_end_is_still_its_end() -> None:
    log, account = read(ended(), "03/27/2021 10:05:00;D;7.srv;requestor=ana@login")
    assert (log["run_time"].tolist(), log["status"].tolist(), account.dropped) == ([120], [1], 0)


def test_an_id_queued_again_after_its_end_is_another_job() -> None:
    log, account = read(ended(), "03/27/2021 12:00:00;Q;7.srv;queue=workq")
    assert (log["run_time"].tolist(), log["submit"].tolist()) == ([120, None], [0, 7200])
    assert (account.count("ids"), account.dropped) == (1, 0)


def test_more_processors_than_can_be_are_told() -> None:
    large = "+".join(["999999999:ppn=999999999"] * 20)
    log, account = read(ended(), ended("8.srv", Resource_List__nodes=large, Resource_List__ncpus=""))
    assert not log.known("requested_procs")[1] and log.known("requested_procs")[0]
    assert {f.column for f in account.findings if f.rule == "too-large"} >= {"requested_procs"}
    for hosts in ("n1/5-0", "n1/*²", "n1/²-3", "n1/1-", "n1/0*" + "9" * 30):
        log, _ = read(ended(exec_host=hosts, exec_vnode=""))
        assert int(log["allocated_procs"][0]) >= 1


def test_gpus_soft_walltime_and_dependencies() -> None:
    log, account = read(
        ended(
            Resource_List__select="2:ncpus=8:ngpus=2", Resource_List__place="scatter:excl",
            Resource_List__soft_walltime="00:05:00", Resource_List__mem="8gb",
            exec_vnode="(n1:ncpus=8:ngpus=2)+(n2:ncpus=8:ngpus=2)", depend="afterok:5.srv:6.srv", session="77",
        )
    )  # fmt: skip
    assert (log["requested_gpus"].tolist(), log["allocated_gpus"].tolist()) == ([4], [4])
    assert (log["exclusive"].tolist(), log["soft_walltime"].tolist()) == ([1], [300])
    assert log["requested_job_memory"].tolist() == [8 * 1024**2]
    assert (log.names("dependency"), log.names("parents")) == (("afterok",), ("5:6",))
    assert [f.text for f in account.findings if f.rule == "unused"] == ["columns of which nothing is used: session"]
