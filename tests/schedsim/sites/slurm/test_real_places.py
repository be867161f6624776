"""Nodes that a real Slurm gives to jobs, with topology/tree and without, next to those of the simulation."""

import os
import time
from random import Random

import pytest

from jobcast import Policy, simulate
from predictors.data.slurm.hosts import hostnames
from schedsim.policies.policy import FCFS
from schedsim.sites.slurm.loops import Loops
from tests.oracle.machine import Box
from tests.support.nodes import job_on, workload_on
from tests.support.slurm.cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
PROCS, STEPS, LONG = 4, 60, 10**6
A, B, C, D = (0, 0), (0, 1), (1, 0), (1, 1)
WAYS = (B, C, C, D, A, A, A, D, B, C, D, C)  # of n1 to n12; two leaf switches below each of two switches
TOPOLOGY = """SwitchName=leaf00 Nodes=n[5-7]
SwitchName=leaf01 Nodes=n1,n9
SwitchName=leaf10 Nodes=n[2-3],n10,n12
SwitchName=leaf11 Nodes=n4,n8,n11
SwitchName=spine0 Switches=leaf0[0-1]
SwitchName=spine1 Switches=leaf1[0-1]
SwitchName=top Switches=spine[0-1]
"""


@pytest.mark.parametrize("has_tree", [True, False])
@pytest.mark.parametrize("weights", [(1,) * 12, (1, 1, 1, 1, 5, 1, 1, 1, 1, 5, 5, 1)])
def test_nodes_of_jobs_are_those_of_slurm(weights, has_tree, tmp_path, monkeypatch):
    """Jobs of whole nodes, of parts of nodes and of processors start at once on what others leave, or are cancelled."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    nodes = tuple(f"CPUs={PROCS} RealMemory=1000 Weight={weight}" for weight in weights)
    more = "TopologyPlugin=topology/tree\n" if has_tree else ""
    more += "PartitionName=all Nodes=n[1-12] MaxTime=INFINITE State=UP\n"
    cluster = SlurmCluster("26.05", tmp_path / "bin", more=more, nodes=nodes)
    if has_tree:
        (cluster.home / "topology.conf").write_text(TOPOLOGY)
    try:
        cluster.up()
        jobs = run_jobs(cluster, Random(7))
    finally:
        cluster.down()
    assert len(jobs) > STEPS / 2
    ways = WAYS if has_tree else [None] * len(WAYS)
    boxes = [Box((PROCS, 0, 0), weight=weight, way=way) for weight, way in zip(weights, ways, strict=True)]
    ours = [
        job_on(k, submit, LONG, end - submit, pieces, (piece, 0, 0), spread, nodes=tuple(range(12)))
        for k, (submit, end, pieces, piece, spread, _) in enumerate(jobs, 1)
    ]
    spots = simulate(workload_on(boxes, ours), Policy(FCFS, Loops(backfills=False))).placements
    found = [spots.node[spots.offsets[k] : spots.offsets[k + 1]].tolist() for k in range(len(jobs))]
    assert found == [nodes for *_, nodes in jobs]


def run_jobs(cluster, random):
    """Submit jobs and cancel some; return those that started: (submit, end, pieces, piece, spread, nodes from 0 on)."""
    jobs, running = [], {}
    for step in range(STEPS):
        if running and random.random() < 0.6:
            gone = random.choice(sorted(running))
            cluster.run("scancel", str(gone))
            wait_until(
                lambda one=gone: not cluster.run("squeue", "-h", "-j", str(one), "-o", "%i", check=False).isdigit()
            )
            row = running.pop(gone)
            jobs[row][1] = 10 * step
        spread = random.random() < 0.6
        pieces = random.choice([1, 2, 2, 3, 4, 5, 6]) if spread else random.choice([1, 2, 3, 5, 7, 10, 14])
        piece = random.choice([1, 2, 4]) if spread else 1
        options = (f"-N{pieces}", f"--ntasks-per-node={piece}") if spread else (f"-n{pieces}",)
        job = cluster.submit(*options, "-p", "all", "-t", 600, seconds=3600)
        wait_until(lambda one=job: cluster.show(one, "JobState", "Reason") != ["PENDING", "None"])
        if cluster.show(job, "JobState") == "RUNNING":
            running[job] = len(jobs)
            nodes = sorted(int(name[1:]) - 1 for name in hostnames(cluster.show(job, "NodeList")))
            jobs.append([10 * step + 5, LONG, pieces, piece, spread, nodes])
        else:
            cluster.run("scancel", str(job))
    return jobs


def wait_until(happens, seconds=20.0):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)
