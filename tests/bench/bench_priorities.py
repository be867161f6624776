"""`simulate --policy slurm:CONF` beside a real Slurm: multifactor priorities of size and partition.

    python -m tests.bench.bench_priorities --out FILE [--jobs N] [--speed N] SEED…

Synthetic jobs of eight users and two partitions wait on four nodes of a Slurm in accelerated time. Then the same jobs,
with the submissions and run times of the cluster, are simulated by the cluster's own slurm.conf, and by submission
alone. About two minutes a seed; it needs what the tests with the mark `slurm` need. One JSON document a line and seed.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from experiments.runs.simulate import run_by_name
from experiments.studies.closed_loop import Cluster
from predictors.data.joblog import JobLog
from predictors.schedulers.slurm import Slurm
from tests.support.slurm.cluster import SlurmCluster

PARTITIONS = ("p", "urgent")
SHARE_URGENT = 0.3
TOLERANCE = 120
"""How far two starts may lie apart and count as equal [s of the cluster]: half a real second at the usual speed."""
# No age: this Slurm, without slurmdbd, was seen to take PriorityWeightAge for 0.
PRIORITIES = """PriorityType=priority/multifactor
PriorityWeightJobSize=400
PriorityWeightPartition=300
PriorityCalcPeriod=1
PartitionName=urgent Nodes=n[1-4] PriorityJobFactor=2 MaxTime=INFINITE State=UP
MinJobAge=8640000
MaxJobCount=5000"""
PACE = "bf_interval=10,bf_resolution=60,bf_window=5760,sched_interval=10,batch_sched_delay=0"


def made(seed, jobs):
    """Return a workload that makes jobs wait, and the partition of each job."""
    log = Cluster(jobs=jobs, load=2.0, median_s=900.0).workload(seed)
    urgent = np.random.default_rng((seed, 7)).random(len(log)) < SHARE_URGENT
    return log, np.where(urgent, 1, 0)


def played(log, partition, speed, folder):
    """Run a workload on a cluster; return the log of what ran, its starts [s], and the cluster's slurm.conf."""
    cluster = SlurmCluster("26.05", folder, speed=speed, parameters=PACE, more=PRIORITIES)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    try:
        conf = (cluster.home / "slurm.conf").read_text()
        cluster.up()
        slurm, row_of = Slurm(), {}
        begin = time.monotonic()
        columns = [log.values[name].tolist() for name in ("submit", "run_time", "requested_time")]
        for row, (submit, run, asked) in enumerate(zip(*columns, strict=True)):
            time.sleep(max(0.0, begin + submit / speed - time.monotonic()))
            options = [f"-n{int(log.procs[row])}", "-t", math.ceil(asked / 60), "-p", PARTITIONS[partition[row]]]
            row_of[cluster.submit(*options, seconds=run / speed)] = row
        while True:
            jobs = [job for job in slurm.queue().jobs if job.job_id in row_of]
            if len(jobs) == len(log) and all(job.state not in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
                break
            time.sleep(1)
    finally:
        cluster.down()
    odd = [f"{job.job_id} {job.state}" for job in jobs if job.state != "COMPLETED"]
    assert not odd, odd
    jobs.sort(key=lambda job: (job.submit, job.job_id))
    rows = np.array([row_of[job.job_id] for job in jobs])
    submit, start, end = np.array([(job.submit, job.start, job.end) for job in jobs], dtype=np.int64).T
    asked = 60 * -(-log.values["requested_time"][rows] // 60)
    ran = {
        "job_id": np.array([job.job_id for job in jobs]), "submit": submit, "requested_time": asked,
        "run_time": np.minimum(end - start, asked), "requested_procs": log.procs[rows],
        "user": log.values["user"][rows], "queue": partition[rows], "requested_nodes": np.ones_like(rows),
    }  # fmt: skip
    found = JobLog.from_columns(ran, {}, max_procs=log.max_procs, name=log.name, categories={"queue": PARTITIONS})
    return found, start - submit.min(), conf


def compared(start, other, submit):
    """Return how far the starts of a simulation lie from those of the cluster."""
    waits = np.maximum(start - submit, other - submit) > TOLERANCE
    moved = np.abs(other - start)
    one, two = np.triu_indices(int(waits.sum()), 1)
    apart, apart_too = (at[waits][one] - at[waits][two] for at in (start, other))
    clear = (np.abs(apart) > TOLERANCE) & (np.abs(apart_too) > TOLERANCE)
    return {
        "waiting": int(waits.sum()),
        "equal_of_waiting": float((moved[waits] <= TOLERANCE).mean()),
        "mean_error_s": float(moved[waits].mean()),
        "median_error_s": float(np.median(moved[waits])),
        "mean_wait_s": float((other - submit).mean()),
        "inverted_pairs": float((apart[clear] * apart_too[clear] < 0).mean()),
    }


def beside(ran, start, conf, folder):
    """Return the comparison of the cluster's starts with those by its slurm.conf, and by submission alone."""
    found = {"real_mean_wait_s": float((start - ran.values["submit"]).mean())}
    for name, text in (
        ("slurm.conf", conf),
        ("by submission", conf.replace("PriorityType=priority/multifactor", "PriorityType=priority/basic")),
    ):
        path = Path(folder) / "slurm.conf"
        path.write_text(text)
        schedule = run_by_name(ran, f"slurm:{path}")[0]
        found[name] = compared(start, schedule.start, ran.values["submit"])
    return found


def main():
    """Play each seed, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    parser.add_argument("--jobs", type=int, default=80)
    parser.add_argument("--speed", type=int, default=240)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            begin = time.monotonic()
            ran, start, conf = played(*made(seed, given.jobs), given.speed, Path(scratch) / "bin")
            row = {"seed": seed, "jobs": given.jobs, "speed": given.speed, "seconds": time.monotonic() - begin,
                   **beside(ran, start, conf, scratch)}  # fmt: skip
        with given.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
