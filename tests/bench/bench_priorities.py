"""`simulate --policy slurm:CONF,…` next to a real Slurm: multifactor priorities, fair-share, QOS and limits.

    python -m tests.bench.bench_priorities --out FILE [--kind KIND] [--jobs N] [--speed N] [--again] SEED…

Synthetic jobs wait on four nodes of a Slurm in accelerated time. Then the same jobs, with the submissions and run times
of the cluster, are simulated by the cluster's own files, by processors and on nodes, and by submission alone. The kinds
of cluster:

- `size`: size and partition; jobs take whole nodes.
- `parts`: the same, but jobs take processors, and share nodes.
- `preemption`: as `size`, but jobs of the partition `urgent` preempt those of the other, which are requeued. What comes
  out tells how many jobs were preempted on the cluster, in the simulation, and in both.
- `accounts`: a slurmdbd; age, fair-share and QOS, with limits; jobs take whole nodes.

With `--again` the same jobs run on the cluster twice: how far its starts lie from one another. About two minutes a
seed; it needs what the tests with the mark `slurm` need. One JSON document a line and seed.
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
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from tests.support.slurm.cluster import SlurmCluster

PARTITIONS = ("p", "urgent")
SHARE_URGENT = 0.3
PER_NODE = 8
MACHINE = Machine((NodeGroup("n", 4, PER_NODE),))
TOLERANCE = 120
"""How far two starts may lie apart and count as equal [s of the cluster]: half a real second at the usual speed."""
# No age: a Slurm without slurmdbd was seen to take PriorityWeightAge for 0.
PRIORITIES = """PriorityType=priority/multifactor
PriorityWeightJobSize=400
PriorityWeightPartition=300
PriorityCalcPeriod=1
PartitionName=urgent Nodes=n[1-4] PriorityJobFactor=2 MaxTime=INFINITE State=UP
MinJobAge=8640000
MaxJobCount=5000"""
PREEMPTING = PRIORITIES.replace("PriorityJobFactor=2", "PriorityJobFactor=2 PriorityTier=2")
PREEMPTING += "\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE"
WITH_ACCOUNTS = """PriorityType=priority/multifactor
PriorityWeightAge=300
PriorityMaxAge=0-6
PriorityWeightFairshare=1000
PriorityWeightQOS=400
PriorityDecayHalfLife=0-2
PriorityCalcPeriod=1
AccountingStorageEnforce=associations,limits,qos
MinJobAge=8640000
MaxJobCount=5000"""
PACE = "bf_interval=10,bf_resolution=60,bf_window=5760,sched_interval=10,batch_sched_delay=0"
USERS = {"ann": ("physics", 5), "bea": ("physics", 1), "cid": ("biology", 2), "dan": ("biology", 1)}
"""Accounts and shares of users."""
SHARES = {"physics": 3, "biology": 1}
QOS = {"normal": "priority=10", "high": "priority=100 maxjobsperuser=1", "low": "priority=0 grptres=cpu=16"}
CHANCES = (0.6, 0.2, 0.2)


def made(seed, jobs):
    """Return a workload that makes jobs wait, and the partition of each job."""
    log = Cluster(jobs=jobs, load=2.0, median_s=900.0).workload(seed)
    urgent = np.random.default_rng((seed, 7)).random(len(log)) < SHARE_URGENT
    return log, np.where(urgent, 1, 0)


def opened(kind, folder, speed, lines=""):
    """Return a cluster of a kind, up and with its accounts; further lines stand in its slurm.conf."""
    accounts = kind == "accounts"
    more = {"accounts": WITH_ACCOUNTS, "preemption": PREEMPTING}.get(kind, PRIORITIES) + f"\n{lines}"
    cluster = SlurmCluster("26.05", folder, speed=speed, parameters=PACE, more=more, accounting=accounts)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    try:
        cluster.up()
        if accounts:
            for name, words in QOS.items():
                cluster.sacctmgr("modify" if name == "normal" else "add", "qos", name, *_set(name, words))
            for name, shares in SHARES.items():
                cluster.add_account(name, f"fairshare={shares}")
            for name, (account, shares) in USERS.items():
                cluster.add_user(name, account, f"fairshare={shares}", f"qos={','.join(QOS)}", "defaultqos=normal")
    except BaseException:
        cluster.down()
        raise
    return cluster


def _set(name, words):
    return (["set"] if name == "normal" else []) + words.split()


def files_of(cluster, kind, folder):
    """Write the files of a cluster that a policy is made from; return their paths."""
    paths = [Path(folder) / "slurm.conf"]
    paths[0].write_text((cluster.home / "slurm.conf").read_text())
    if kind == "accounts":
        inside = f"{cluster.place}/jobs/dump"
        cluster.sacctmgr("dump", "t", f"file={inside}")
        tables = ((cluster.home / "jobs" / "dump").read_text(), cluster.run("sacctmgr", "-P", "show", "qos") + "\n")
        for name, text in zip(("accounts.dump", "qos.txt"), tables, strict=True):
            paths.append(Path(folder) / name)
            paths[-1].write_text(text)
    return paths


def options_of(kind, log, seed):
    """Return the user and QOS of each job, and whether it takes whole nodes."""
    rng = np.random.default_rng((seed, 11))
    return rng.integers(0, len(USERS), len(log)), rng.choice(len(QOS), len(log), p=CHANCES), kind != "parts"


def played(kind, log, partition, seed, speed, folder):
    """Run a workload on a cluster; return the log of what ran, its starts [s] and restarts, and the cluster's files."""
    user, qos, whole = options_of(kind, log, seed)
    procs = PER_NODE * -(-log.procs // PER_NODE) if whole else log.procs
    cluster = opened(kind, Path(folder) / "bin", speed)
    try:
        slurm, row_of, sent = Slurm(), {}, []
        begin = time.monotonic()
        columns = [log.values[name].tolist() for name in ("submit", "run_time", "requested_time")]
        for row, (submit, run, asked) in enumerate(zip(*columns, strict=True)):
            time.sleep(max(0.0, begin + submit / speed - time.monotonic()))
            sent.append(speed * (time.monotonic() - begin))
            options = [f"-n{int(procs[row])}", "-t", math.ceil(asked / 60)]
            options += [f"-N{int(procs[row]) // PER_NODE}", "--exclusive"] if whole else []
            if kind == "accounts":
                one = list(USERS)[user[row]]
                options += ["-A", USERS[one][0], "--qos", list(QOS)[qos[row]]]
                row_of[cluster.submit(*options, seconds=run / speed, user=one)] = row
            else:
                options += ["-p", PARTITIONS[partition[row]]]
                row_of[cluster.submit(*options, seconds=run / speed)] = row
        files = files_of(cluster, kind, folder)
        while True:
            jobs = [job for job in slurm.queue().jobs if job.job_id in row_of]
            if len(jobs) == len(log) and all(job.state not in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
                break
            time.sleep(1)
        restarts = restarts_of(cluster)
    finally:
        cluster.down()
    odd = [f"{job.job_id} {job.state}" for job in jobs if job.state != "COMPLETED"]
    assert not odd, odd
    jobs.sort(key=lambda job: job.job_id)  # in the order of submission
    rows = np.array([row_of[job.job_id] for job in jobs])
    submit, start, end = np.array([(job.submit, job.start, job.end) for job in jobs], dtype=np.int64).T
    again = np.array([restarts.get(job.job_id, 0) for job in jobs])
    offset = np.median((submit - np.array(sent)[rows])[again == 0])  # requeued jobs have another submission
    submit = np.maximum.accumulate(
        np.where(again > 0, np.round(offset + np.array(sent)[rows]), submit).astype(np.int64)
    )
    asked = 60 * -(-log.values["requested_time"][rows] // 60)
    ran = {
        "job_id": rows + 1, "submit": submit, "requested_time": asked,
        "run_time": np.minimum(end - start, asked), "requested_procs": procs[rows],
        "user": user[rows], "group": user[rows], "qos": qos[rows], "queue": partition[rows],
    }  # fmt: skip
    if whole:  # else they ask for no number of nodes
        ran["requested_nodes"] = procs[rows] // PER_NODE
    if kind == "accounts":
        ran["queue"] = np.zeros_like(rows)
    names = {
        "queue": PARTITIONS, "user": tuple(USERS), "group": tuple(one for one, _ in USERS.values()), "qos": tuple(QOS),
    }  # fmt: skip
    found = JobLog.from_columns(ran, {}, max_procs=log.max_procs, name=log.name, categories=names)
    return found, start - submit.min(), again, files


def restarts_of(cluster):
    """Return how often each job was requeued, by its id."""
    fields = (dict(w.split("=", 1) for w in line.split() if "=" in w)
              for line in cluster.run("scontrol", "-o", "show", "job").splitlines())  # fmt: skip
    return {int(one["JobId"]): int(one["Restarts"]) for one in fields if "JobId" in one}


def compared(start, other, submit):
    """Return how far the starts of a simulation lie from those of the cluster; in words, where nothing waits."""
    waits = np.maximum(start - submit, other - submit) > TOLERANCE
    if not waits.any():
        return {"waiting": 0, "says": f"no job waits longer than {TOLERANCE} s: there is no start to compare"}
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
        "inverted_pairs": float((apart[clear] * apart_too[clear] < 0).mean()) if clear.any() else None,
    }


def next_to(ran, start, restarts, files, folder):
    """Return the comparison of the cluster's starts with those by its files, and by submission alone."""
    submit = ran.values["submit"]
    found = {"real_mean_wait_s": float((start - submit).mean())}
    plain = Path(folder) / "plain.conf"
    plain.write_text(files[0].read_text().replace("priority/multifactor", "priority/basic"))
    names = {"slurm.conf": files[:1], "by submission": [plain]}
    if len(files) > 1:
        names = {"with accounts": files, "without accounts": files[:1], "by submission": [plain]}
    for name, paths in names.items():
        schedule = run_by_name(ran, f"slurm:{','.join(map(str, paths))}")[0]
        found[name] = compared(start, schedule.start, submit) | preempted(schedule, restarts)
    first, paths = next(iter(names.items()))
    policy, demands = f"slurm:{','.join(map(str, paths))}", demands_of(ran, MACHINE)[1]
    schedule = run_by_name(ran, policy, demands=demands)[0]
    found[f"{first}, on nodes"] = compared(start, schedule.start, submit) | preempted(schedule, restarts)
    return found


def preempted(schedule, restarts):
    """Return how many jobs were preempted on the cluster and in a simulation, and how often; nothing without any."""
    if schedule.preempted is None:
        return {}
    ours, real = schedule.preempted.times, restarts
    return {
        "preempted_jobs": int((ours > 0).sum()), "really_preempted_jobs": int((real > 0).sum()),
        "preempted_in_both": int(((ours > 0) & (real > 0)).sum()),
        "preemptions": int(ours.sum()), "real_preemptions": int(real.sum()),
    }  # fmt: skip


def once_more(ran, start, other, other_start):
    """Return how far the starts of two runs on the cluster lie apart, each from its own submissions."""
    order, other_order = (np.argsort(log.values["job_id"]) for log in (ran, other))
    submit = ran.values["submit"][order]
    moved = (other_start - other.values["submit"])[other_order] + submit
    return compared(start[order], moved, submit)


def main():
    """Play each seed, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int)
    parser.add_argument("--kind", choices=("size", "parts", "preemption", "accounts"), default="size")
    parser.add_argument("--jobs", type=int, default=80)
    parser.add_argument("--speed", type=int, default=240)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the logs and the files of the clusters")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if not given.seeds or given.out is None:
        sys.stdout.write("Left out: minutes of a real Slurm. Name the seeds, and --out FILE.\n")
        return
    warnings.simplefilter("ignore")
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            begin = time.monotonic()
            log, partition = made(seed, given.jobs)
            ran, start, restarts, files = played(given.kind, log, partition, seed, given.speed, scratch)
            row = {"seed": seed, "kind": given.kind, "jobs": given.jobs, "speed": given.speed,
                   "seconds": time.monotonic() - begin}  # fmt: skip
            if given.keep is not None:
                kept(given.keep / f"{given.kind}-{seed}", ran, start, files)
            row |= next_to(ran, start, restarts, files, scratch)
            if given.again:
                other, other_start, again, _ = played(given.kind, log, partition, seed, given.speed, scratch)
                row["the cluster again"] = once_more(ran, start, other, other_start)
                if given.kind == "preemption":
                    row["the cluster again"]["preempted_again"] = [int((one > 0).sum()) for one in (restarts, again)]
        with given.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()


def kept(folder, ran, start, files):
    """Keep what a cluster did and was told."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "ran.npz", start=start, **{name: ran.values[name] for name in ran.values})
    for path in files:
        (folder / path.name).write_text(path.read_text())


if __name__ == "__main__":
    main()
