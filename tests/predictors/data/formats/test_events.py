"""Workloads of slurm_sim_tools, as sbatch would have their jobs."""

import gzip

import pytest

from jobcast import JobcastError
from predictors.data.formats.detect import read_log
from predictors.data.joblog import NODES_OF_USER, OWN_NODES

LINES = """# a comment
-dt 10.50 -e submit_batch_job | -sim-walltime 84805.00 --uid=ann -J jobid_7 -N 2 -n 32 -t 3-00:00:00 -q high -p all \
--mem=10G --gres=gpu:a100:2 pseudo.job
-dt 11.00 -e submit_batch_job | -sim-walltime 0.00 --uid=bob -J jobid_9 -n 4 -c 2 -t 90 -p all --exclusive=user \
--constraint=ib --mem-per-cpu=500M pseudo.job
-dt 12.00 -e submit_batch_job | -sim-walltime 60 --uid=bob -J jobid_8 -N 3-4 -A phys -G 6 --exclusive pseudo.job
-dt 13.00 -e cancel_job | -j 7
"""


def test_a_workload_is_read_by_its_content_and_memory_and_gpus_are_those_of_nodes(tmp_path):
    (tmp_path / "w.bin").write_bytes(gzip.compress(LINES.encode()))
    log, account = read_log(tmp_path / "w.bin")
    assert log.epoch is None and log["submit"].tolist() == [0, 0, 1]
    assert log["run_time"].tolist() == [84_805, 0, 60]
    assert log["requested_procs"].tolist() == [32, 8, 3]
    assert log["requested_nodes"].tolist() == [2, None, 3]
    assert log["requested_time"].tolist() == [259_200, 5_400, None]
    assert log["requested_job_memory"].tolist() == [20 << 20, None, None]
    assert log["requested_memory"].tolist() == [None, 500 << 10, None]
    assert log["requested_gpus"].tolist() == [4, 0, 6]
    assert log["exclusive"].tolist() == [None, NODES_OF_USER, OWN_NODES]
    assert log.names("user") == ("ann", "bob") and log.names("qos") == ("high",)
    assert log.names("constraint") == ("ib",) and log.names("gpu_type") == ("a100",)
    assert log.names("project") == ("phys",) and log.names("label") == ("jobid_7", "jobid_9", "jobid_8")
    assert account.count("not-a-record") == 1 and account.count("no-limit") == 1


def test_a_number_that_is_none_is_unknown_and_told(tmp_path):
    (tmp_path / "w.events").write_text(LINES.replace("84805.00", "soon"))
    log, account = read_log(tmp_path / "w.events")
    assert log["run_time"].tolist() == [None, 0, 60] and account.count("not-a-number") == 1
    with pytest.raises(JobcastError, match="run_time, found 'soon'"):
        read_log(tmp_path / "w.events", strict=True)
