"""The priorities of a real Slurm beside those of `schedsim.policies.multifactor`, and that it leaves the age out."""

import os
import time

import numpy as np
import pytest

from schedsim.policies.multifactor import Multifactor
from tests.bench.bench_priorities import PACE, PRIORITIES
from tests.support.slurm.cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SPEED = 240
JOBS = ((32, 4, "p"), (8, 1, "p"), (1, 1, "p"), (16, 2, "urgent"), (10, 2, "urgent"))
"""Processors, nodes and partition."""


@pytest.mark.parametrize("favour_small", [False, True])
def test_priorities_of_waiting_jobs_are_those_of_the_formula(favour_small, tmp_path, monkeypatch):
    """After half an hour on the cluster: no job has an age, as there is no slurmdbd, although age has a weight."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    more = f"PriorityWeightAge=1000\nPriorityMaxAge=0-1\nPriorityFavorSmall={'yes' if favour_small else 'no'}\n"
    cluster = SlurmCluster("26.05", tmp_path / "bin", speed=SPEED, parameters=PACE, more=more + PRIORITIES)
    try:
        cluster.up()
        first = cluster.submit("-N4", "-n32", "-t", 1000)
        cluster.wait_for(first, "RUNNING")
        jobs = [
            cluster.submit(f"-n{procs}", f"-N{nodes}-4", "-t", 60, "-p", name, seconds=10)
            for procs, nodes, name in JOBS
        ]
        time.sleep(1800 / SPEED)
        told = dict(line.split() for line in cluster.run("squeue", "-h", "-t", "PD", "-o", "%i %Q").splitlines())
    finally:
        cluster.down()
    procs, nodes = (np.array(column) for column in list(zip(*JOBS, strict=True))[:2])
    rule = Multifactor(size=400, partition=300, favour_small=favour_small)
    part = np.array([1.0 if name == "urgent" else 0.5 for *_, name in JOBS])
    factors = rule.sizes(procs, nodes, np.full(len(JOBS), 3600), 32, 4)
    expected = np.floor(rule.size * factors + rule.partition * part).astype(int)
    assert [int(told[str(job)]) for job in jobs] == expected.tolist()
