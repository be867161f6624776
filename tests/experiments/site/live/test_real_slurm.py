"""Starts of jobs that wait on a real Slurm: its queue is read, and its own expectation is met where it has one."""

import json
import os

import pytest

from experiments.site.live.expected import ExpectedStarts
from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, starts_of
from tests.support.commands import printed
from tests.support.slurm.cluster import SlurmCluster
from tests.support.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster of four nodes of eight processors, its commands on the PATH."""
    one = SlurmCluster("26.05", tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    try:
        yield one.up()
    finally:
        one.down()


def test_starts_by_requests_are_those_that_slurm_expects(cluster, tmp_path):
    """A running job of an hour; behind it one of the whole machine, two small ones, an array and a held job."""
    running = cluster.submit("-N4", "-n32", "-t", "1:00:00")
    cluster.wait_for(running, "RUNNING")
    whole = cluster.submit("-N4", "-n32", "-t", "2:00:00")
    small = cluster.submit("-n4", "-t", "30:00")
    array = cluster.submit("-n16", "-t", "20:00", "--array=1-3")
    held = cluster.submit("-n1", "-t", "10", "--hold")
    until(lambda: cluster.show(small, "StartTime") not in ("Unknown", "N/A"), 30, "Slurm expects no start")
    queue = LiveQueue.from_slurm()
    assert queue.procs == {"p": 32}
    assert [queue.job(f"{array}_{task}").procs for task in (1, 2, 3)] == [16] * 3
    found = {one.job: one for one in starts_of(queue, Past(None), queue.jobs)}
    assert str(held) not in found
    for job in (whole, small):
        one = found[str(job)]
        assert one.by_scheduler is not None and abs(one.by_requests - one.by_scheduler) <= 60, one
    queue.write(tmp_path / "queue.json")
    called = ["why", str(small), "--queue", str(tmp_path / "queue.json"), "--json"]
    told = json.loads(printed(*called))
    assert f"job {whole} headed the queue" in told["reasons"][0]


def test_the_start_that_is_expected_of_a_job_is_the_one_that_slurm_tells_after_its_submission(cluster):
    """Behind a running job of the whole machine one more waits; a third one is asked about, and then submitted."""
    running = cluster.submit("-N4", "-n32", "-t", "1:00:00")
    cluster.wait_for(running, "RUNNING")
    cluster.submit("-N4", "-n32", "-t", "1:00:00")
    found = ExpectedStarts(Past(None)).expected([])
    assert [(one.partition, one.procs, one.limit) for one in found] == [("p", 64, 60), ("", 64, 60)]
    last = cluster.submit("-N4", "-n32", "-t", "1:00:00")
    told = until(lambda: LiveQueue.from_slurm().job(str(last)).start, 30, "Slurm expects no start")
    assert abs(found[0].p50 - told) <= 60 and found[0].p50 - found[0].asked > 7000
