"""Workloads refuse what the engine cannot hold."""

import pytest

from jobcast import JobcastError, Workload, clean, generate_log, make_policy, simulate
from schedsim.workload.workload import MOST_PROCS
from tests.support.engine_runs import jobs_of


def workload(machine_procs):
    return jobs_of((0, machine_procs, 9, 9), (0, 1, 9, 9), machine=machine_procs)


@pytest.mark.parametrize("policy", ["easy", "careful", "conservative-replan"])
def test_the_largest_machine_is_simulated(policy):
    assert simulate(workload(MOST_PROCS), make_policy(policy)).start.tolist() == [0, 9]


@pytest.mark.parametrize("procs", [MOST_PROCS + 1, 1 << 31, 10**12, 10**23])
def test_a_larger_machine_is_refused(procs):
    """The ordered lists have so many classes of width; more would write beside them."""
    log = generate_log(20, seed=1)
    with pytest.raises(JobcastError, match=r"at most .* processors; got"):
        Workload.from_log(clean(log, procs)[0])


@pytest.mark.parametrize("value", [2.5, float("nan"), 2**63, 2**64, "7"])
@pytest.mark.parametrize("column", ["job_id", "submit", "procs", "requested", "run_time", "user"])
def test_columns_that_are_no_whole_numbers_are_refused(column, value):
    columns = {"submit": [0, 0], "procs": [1, 1], "requested": [9, 9], "run_time": [5, 5], "user": [1, 1]}
    ids = [1, value] if column == "job_id" else [1, 2]
    columns |= {} if column == "job_id" else {column: [1, value]}
    with pytest.raises(JobcastError, match=f"{column} must be whole numbers"):
        Workload.from_columns(ids, machine_procs=8, **columns)


@pytest.mark.parametrize("procs", [float("nan"), float("inf"), 8.5, "8", None, True])
def test_a_machine_has_a_whole_number_of_processors(procs):
    columns = {"submit": [0], "procs": [1], "requested": [9], "run_time": [5]}
    with pytest.raises(JobcastError, match="machine_procs must be a whole number"):
        Workload.from_columns([1], machine_procs=procs, **columns)
