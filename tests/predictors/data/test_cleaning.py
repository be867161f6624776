"""The cleaning of a log for simulation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, clean, read_log
from predictors.data.cleaning import of_partition, within_requests
from predictors.data.formats.swf import parse_swf


def log_of(*jobs: tuple[int, int, int, int], max_procs: int | None = 8, max_nodes: int | None = None) -> JobLog:
    """Return a log of (run time, requested time, requested processors, allocated processors); -1 is unknown."""
    columns = ("run_time", "requested_time", "requested_procs", "allocated_procs")
    values = {column: np.array([job[k] for job in jobs], dtype=np.int64) for k, column in enumerate(columns)}
    unknown = {column: array == -1 for column, array in values.items()}
    about = {"job_id": np.arange(len(jobs)) + 11, "submit": np.arange(len(jobs)) * 10 + 1000}
    return JobLog.from_columns(values | about, unknown, max_procs=max_procs, max_nodes=max_nodes, epoch=5000)


def test_every_rule_drops_its_jobs_and_tells() -> None:
    jobs = [(0, 9, 1, 1), (-1, 9, 1, 1), (5, 9, 0, -1), (5, 9, -1, 0), (5, -1, 1, 1), (5, 0, 1, 1), (5, 9, 2, 4)]
    log, account = clean(log_of(*jobs))
    assert log["job_id"].tolist() == [17]
    told = {finding.rule: (finding.count, finding.places, finding.place) for finding in account.findings}
    assert told == {
        "no-run-time": (2, (11, 12), "job"),
        "no-processors": (2, (13, 14), "job"),
        "no-request": (2, (15, 16), "job"),
    }


def test_kept_jobs_keep_their_ids_and_clock() -> None:
    before = log_of((0, 9, 1, 1), (5, 9, 1, 1), (6, 9, 1, 1))
    log, _ = clean(before)
    assert log["submit"].tolist() == [0, 10]
    assert (log.origin, log.epoch) == (1010, 5010)
    assert (log["submit"] + log.origin).tolist() == [1010, 1020]


def test_processors_are_the_requested_else_the_allocated() -> None:
    log, account = clean(log_of((5, 9, 3, 4), (5, 9, -1, 4), (5, 9, 0, 2), (5, 9, 2, -1)))
    assert log["requested_procs"].tolist() == [3, 4, 2, 2]
    assert account.count("allocated") == 2


def test_run_times_stay_as_logged_and_overruns_are_told() -> None:
    log, account = clean(log_of((50, 9, 1, 1), (9, 9, 1, 1)))
    assert log["run_time"].tolist() == [50, 9]
    assert [(finding.rule, finding.effect, finding.places) for finding in account.findings] == [
        ("overrun", "noted", (11,))
    ]
    assert within_requests(log)["run_time"].tolist() == [9, 9]
    without_request = log_of((50, -1, 1, 1), (9, 0, 1, 1))
    assert within_requests(without_request)["run_time"].tolist() == [50, 9]


def test_wide_jobs_are_refused_with_the_way_out_or_dropped() -> None:
    log = log_of((5, 9, 9, 9), (5, 9, 12, 9), (5, 9, 8, 8))
    with pytest.raises(JobcastError, match=r"2 jobs are wider than the machine of 8 .*has 12.*--drop-wide"):
        clean(log)
    kept, account = clean(log, drop_wide=True)
    assert (kept["job_id"].tolist(), account.count("too-wide")) == ([13], 2)
    assert len(clean(log, procs=12)[0]) == 3


def test_a_wide_job_that_is_dropped_anyway_is_not_refused() -> None:
    log, account = clean(log_of((0, 9, 99, 99), (5, 9, 1, 1)))
    assert (len(log), account.count("too-wide")) == (1, 0)


@pytest.mark.parametrize(
    ("procs", "max_procs", "max_nodes", "machine"), [(5, 6, 7, 5), (None, 6, 7, 6), (None, None, 7, 7)]
)
def test_machine_size(procs: int | None, max_procs: int | None, max_nodes: int | None, machine: int) -> None:
    log, _ = clean(log_of((5, 9, 1, 1), max_procs=max_procs, max_nodes=max_nodes), procs)
    assert log.max_procs == machine


def test_errors() -> None:
    with pytest.raises(JobcastError, match="--procs"):
        clean(log_of((5, 9, 1, 1), max_procs=None))
    with pytest.raises(JobcastError, match="at least 1 processor; got 0"):
        clean(log_of((5, 9, 1, 1)), procs=0)
    with pytest.raises(JobcastError, match=r"no jobs left.*2, the run time is 0 or unknown; 1, the requested time"):
        clean(log_of((0, 9, 1, 1), (5, -1, 1, 1), (-1, 9, 1, 1)))
    with pytest.raises(JobcastError, match=r"no jobs left.*holds none"):
        clean(replace(parse_swf(b"; MaxProcs: 4", "a.swf")[0]))


@given(st.lists(st.tuples(*[st.integers(-1, 12)] * 4), min_size=1, max_size=12))
def test_laws(jobs: list[tuple[int, int, int, int]]) -> None:
    log = log_of(*jobs)
    try:
        cleaned, account = clean(log, drop_wide=True)
    except JobcastError as error:
        assert "no jobs left" in str(error)
        return
    assert len(cleaned) + account.dropped == len(log)
    run_time, requested, procs = (cleaned[c].filled(-1) for c in ("run_time", "requested_time", "requested_procs"))
    assert (run_time >= 1).all()
    assert (run_time > requested).sum() == account.count("overrun")
    assert (within_requests(cleaned)["run_time"] <= requested).all()
    assert ((procs >= 1) & (procs <= 8)).all()
    again, nothing = clean(cleaned)
    assert again.digest() == cleaned.digest()
    assert {finding.rule for finding in nothing.findings} <= {"overrun"}


def test_curie(trace) -> None:  # type: ignore[no-untyped-def]
    log, _ = read_log(trace("CEA-Curie-2011-2.1-cln"))
    cleaned, account = clean(log, procs=80_640)
    assert (len(cleaned), account.dropped, cleaned.max_procs) == (295_540, 17_286, 80_640)


def test_a_log_without_requests(trace) -> None:  # type: ignore[no-untyped-def]
    log, _ = read_log(trace("NASA-iPSC-1993-3.1-cln"))
    with pytest.raises(JobcastError, match=r"no jobs left.*requested time"):
        clean(log)


def test_reference_inputs_are_already_clean(reference) -> None:  # type: ignore[no-untyped-def]
    for name, jobs, procs in (("kth.swf.gz", 28_481, 100), ("sdsc-sp2.swf.gz", 53_999, 128)):
        log, account = clean(read_log(reference(name))[0], procs=procs)
        assert (len(log), account.dropped) == (jobs, 0)


def test_partitions_by_name_in_slurms_logs_and_by_number_in_others() -> None:
    plain = {"job_id": [1, 2, 3], "submit": [0, 1, 2]}
    named = JobLog.from_columns({**plain, "queue": [0, 1, 0]}, categories={"queue": ("gpu", "cpu")})
    assert of_partition(named, "gpu")[0]["job_id"].tolist() == [1, 3]
    with pytest.raises(JobcastError, match="has no job in partition 0; its partitions are gpu, cpu"):
        of_partition(named, "0")
    numbered = JobLog.from_columns({**plain, "partition": [1, 2, 1]})
    assert of_partition(numbered, "2")[0]["job_id"].tolist() == of_partition(numbered, 2)[0]["job_id"].tolist() == [2]
    with pytest.raises(JobcastError, match="has no job in partition x; its partitions are 1, 2"):
        of_partition(numbered, "x")
