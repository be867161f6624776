"""Starts of a shape: in each partition that it may use, and with less time; and why not in others."""

import json

import pytest

from experiments.site.live.queue import LiveQueue
from experiments.site.live.shapes import Places, Shape, answer
from experiments.site.live.starts import Past
from jobcast import JobcastError
from predictors.data.slurm.site import read_site
from predictors.schedulers.soft_limit import QueuedJob, Reservation
from schedsim.machine.slurm_nodes import machine_of
from tests.support.commands import invoke, printed
from tests.support.slurm.site_folder import CONF, site_folder

NOW, HOUR = 1_767_300_000, 3600
PARTITIONS = CONF.replace("gpu Nodes=gpus MaxTime=1-0 State=DRAIN", "gpu Nodes=gpus MaxTime=4:00:00")


def job(number, state="PENDING", **about):
    about = {"limit": HOUR, "procs": 8, "user": "ann", "partition": "batch", "submit": NOW - 50} | about
    return QueuedJob(number, state, array_id=number, **{"eligible": about["submit"]} | about)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Ten nodes of eight processors, which run jobs for two hours more; the partition gpu is on two of them."""
    monkeypatch.chdir(tmp_path)
    site_folder(tmp_path / "big", slurm_conf=PARTITIONS, nodes_txt=None)
    printed("site import big")
    running = [job(one, "RUNNING", procs=8, start=NOW - HOUR, limit=3 * HOUR) for one in range(1, 11)]
    waiting = job(20, procs=16, nodes=2, limit=HOUR)
    queue = LiveQueue(NOW, (*running, waiting), {"batch": 80, "gpu": 16}, {"batch": frozenset(("n1",))})
    queue.write(tmp_path / "queue.json")
    return read_site("big.site"), queue


def places(site, queue):
    return Places(site.conf, machine_of(site, "big.site").machine, queue, Past(None))


def test_the_partition_that_starts_first_is_the_best(site):
    found = answer(places(*site), "x", Shape.of("1 node, 2 GPUs, 3 h"))
    assert list(found.starts) == ["gpu", "batch"]
    assert found.starts["gpu"].p50 == NOW and found.starts["batch"].p50 == NOW + 2 * HOUR
    assert found.less == [], "it starts now as it is"


def test_partitions_that_do_not_take_a_shape_say_why(site):
    found = answer(places(*site), "x", Shape.of("1 node, 5 h"))
    assert found.refused == {"gpu": "its MaxTime is 4:00:00"}
    assert [(limit, where) for limit, where, _ in found.less] == [(13_500, "gpu")], "with 3.75 h it may run there"
    assert answer(places(*site), "x", Shape.of("4 nodes, 1 GPU each, 1 h")).refused["gpu"].startswith("fewer than 4")


def test_a_gpu_counts_with_its_share_of_the_node(site):
    one = places(*site)
    assert one.procs_of(Shape.of("1 node, 1 GPU, 1 h"), "gpu") == 4
    assert one.procs_of(Shape.of("2 nodes, 2 GPUs each, 1 h"), "gpu") == 16
    assert one.procs_of(Shape.of("1 node, 3 processors, 1 h"), "batch") == 3


def test_what_fits_before_maintenance_starts_at_once(site):
    conf, queue = site
    idle = LiveQueue(NOW, (), queue.procs, {}, (Reservation("maint", NOW + 2 * HOUR, NOW + 9 * HOUR),))
    found = answer(places(conf, idle), "x", Shape.of("1 node, 3 h"))
    assert found.starts["batch"].p50 == NOW + 9 * HOUR
    assert [(limit, one.p50 - NOW) for limit, _, one in found.less] == [(7200, 0)], "8,100 s do not fit"


def test_the_command_answers_for_jobs_and_shapes(site):
    text = printed("site", "start", "big.site", "20", "--if", "1 node, 2 GPUs, 3 h", "--queue", "queue.json")
    assert "Best: partition gpu, now (P50)." in text and "job 20: starts in" in text
    found = json.loads(printed("site start big.site 20 --queue queue.json --json"))["answers"][0]
    assert [one["partition"] for one in found["partitions"]] == ["gpu", "batch"] and found["not_in"] == {}
    assert found["partitions"][1]["by_requests"] == NOW + 2 * HOUR


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Name a JOB that waits, or a shape"),
        (("99",), "has no job '99'"),
        (("1",), "No start can be forecast for job 1: it is RUNNING"),
        (("--if", "2 nodes"), "names no time"),
        (("--if", "2 nodes, 3 h, 4 h"), "or named twice"),
        (("--if", "3 h, some GPUs"), "'some GPUs' is no part of a shape"),
    ],
)
def test_what_is_no_job_or_shape_is_refused_in_a_line(site, words, message):
    error = invoke("site", "start", "big.site", *words, "--queue", "queue.json").exception
    assert isinstance(error, JobcastError) and message in str(error) and "\n" not in str(error)
