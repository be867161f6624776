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
- `everything`: see `tests.bench.everything`; with `--jobs 150` five minutes a seed. What comes out also tells how many
  jobs each limit held.

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
from typing import NamedTuple

import numpy as np

from experiments.runs.simulate import run_by_name
from experiments.studies.closed_loop import Cluster
from predictors.data.joblog import JobLog
from predictors.data.slurm.hosts import hostnames
from predictors.schedulers.slurm import Slurm
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from tests.bench import everything
from tests.support.slurm.cluster import NODES, SlurmCluster

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
WITH_USERS = {"accounts": QOS, "everything": everything.QOS}
"""The QOS of kinds of cluster with a slurmdbd."""
CHANCES = (0.6, 0.2, 0.2)


class Ran(NamedTuple):
    """What a cluster has done."""

    log: JobLog
    start: np.ndarray  # [s], by row of the log
    again: np.ndarray  # how often each job was requeued
    nodes: list  # names of the nodes of each job's last run
    reasons: set  # (job id, why it waited), as squeue has told now and then
    files: list  # of which a policy is made


def made(kind, seed, jobs):
    """Return a workload that makes jobs wait."""
    if kind == "everything":
        return everything.made(seed, jobs)
    return Cluster(jobs=jobs, load=2.0, median_s=900.0).workload(seed)


def opened(kind, folder, speed, lines=""):
    """Return a cluster of a kind, up and with its accounts; further lines stand in its slurm.conf."""
    accounts = kind in WITH_USERS
    own = {"accounts": WITH_ACCOUNTS, "preemption": PREEMPTING, "everything": everything.CONF}
    more, nodes = own.get(kind, PRIORITIES) + f"\n{lines}", everything.NODES if kind == "everything" else NODES
    cluster = SlurmCluster("26.05", folder, speed=speed, parameters=PACE, more=more, accounting=accounts, nodes=nodes)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    try:
        cluster.up()
        if accounts:
            qos = WITH_USERS[kind]
            for name, words in qos.items():
                cluster.sacctmgr("modify" if name == "normal" else "add", "qos", name, *_set(name, words))
            for name, shares in SHARES.items():
                cluster.add_account(name, f"fairshare={shares}")
            for name, (account, shares) in USERS.items():
                cluster.add_user(name, account, f"fairshare={shares}", f"qos={','.join(qos)}", "defaultqos=normal")
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
    if kind in WITH_USERS:
        inside = f"{cluster.place}/jobs/dump"
        cluster.sacctmgr("dump", "t", f"file={inside}")
        tables = ((cluster.home / "jobs" / "dump").read_text(), cluster.run("sacctmgr", "-P", "show", "qos") + "\n")
        for name, text in zip(("accounts.dump", "qos.txt"), tables, strict=True):
            paths.append(Path(folder) / name)
            paths[-1].write_text(text)
    return paths


def asked(kind, log, seed):
    """Return columns of what jobs ask for, and of each job its user and the words of sbatch that ask for it."""
    if kind == "everything":
        return everything.asked(log, seed, [(user, account) for user, (account, _) in USERS.items()])
    rng, whole = np.random.default_rng((seed, 11)), kind != "parts"
    user, qos = rng.integers(0, len(USERS), len(log)), rng.choice(len(QOS), len(log), p=CHANCES)
    partition = (np.random.default_rng((seed, 7)).random(len(log)) < SHARE_URGENT).astype(np.int64)
    procs, words = PER_NODE * -(-log.procs // PER_NODE) if whole else log.procs, []
    for row, n in enumerate(procs.tolist()):
        asks = [f"-n{n}", *([f"-N{n // PER_NODE}", "--exclusive"] if whole else [])]
        one = "alice"
        if kind == "accounts":
            one = list(USERS)[user[row]]
            asks += ["-A", USERS[one][0], "--qos", list(QOS)[qos[row]]]
        else:
            asks += ["-p", PARTITIONS[partition[row]]]
        words.append((one, asks))
    columns = {"requested_procs": procs, "user": user, "qos": qos, "queue": partition * (kind != "accounts")}
    if whole:  # else they ask for no number of nodes
        columns["requested_nodes"] = procs // PER_NODE
    return columns, words


def played(kind, log, seed, speed, folder):
    """Run a workload on a cluster."""
    columns, words = asked(kind, log, seed)
    cluster = opened(kind, Path(folder) / "bin", speed)
    try:
        slurm, row_of, sent, reasons = Slurm(), {}, [], set()

        def look():
            lines = cluster.run("squeue", "-h", "-t", "PD", "-o", "%i %r").splitlines()
            reasons.update((row_of[int(job)] + 1, why) for job, why in (line.split(None, 1) for line in lines))

        begin = looked = time.monotonic()
        times = [log.values[name].tolist() for name in ("submit", "run_time", "requested_time")]
        for row, (submit, run, limit) in enumerate(zip(*times, strict=True)):
            time.sleep(max(0.0, begin + submit / speed - time.monotonic()))
            sent.append(speed * (time.monotonic() - begin))
            user, asks = words[row]
            row_of[cluster.submit(*asks, "-t", math.ceil(limit / 60), seconds=run / speed, user=user)] = row
            if kind == "everything" and time.monotonic() > looked + 2:
                look()
                looked = time.monotonic()
        files = files_of(cluster, kind, folder)
        while True:
            jobs = [job for job in slurm.queue().jobs if job.job_id in row_of]
            if len(jobs) == len(log) and all(job.state not in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
                break
            time.sleep(1)
            if kind == "everything":
                look()
        told = told_of(cluster)
    finally:
        cluster.down()
    odd = [f"{job.job_id} {job.state}" for job in jobs if job.state != "COMPLETED"]
    assert not odd, odd
    jobs.sort(key=lambda job: job.job_id)  # in the order of submission
    rows = np.array([row_of[job.job_id] for job in jobs])
    submit, start, end = np.array([(job.submit, job.start, job.end) for job in jobs], dtype=np.int64).T
    again = np.array([int(told[job.job_id]["Restarts"]) for job in jobs])
    offset = np.median((submit - np.array(sent)[rows])[again == 0])  # requeued jobs have another submission
    submit = np.maximum.accumulate(
        np.where(again > 0, np.round(offset + np.array(sent)[rows]), submit).astype(np.int64)
    )
    limit = 60 * -(-log.values["requested_time"][rows] // 60)
    ran = {name: column[rows] for name, column in columns.items()}
    ran |= {
        "job_id": rows + 1, "submit": submit, "requested_time": limit, "run_time": np.minimum(end - start, limit),
        "group": ran["user"],
    }  # fmt: skip
    names = {"user": tuple(USERS), "group": tuple(one for one, _ in USERS.values()), "queue": PARTITIONS}
    names["qos"] = tuple(WITH_USERS.get(kind, QOS))
    if kind == "everything":
        names |= {"queue": everything.PARTITIONS, "constraint": everything.FEATURES}
    found = JobLog.from_columns(ran, {}, max_procs=log.max_procs, name=log.name, categories=names)
    nodes = [frozenset(hostnames(told[job.job_id]["NodeList"])) for job in jobs]
    return Ran(found, start - submit.min(), again, nodes, reasons, files)


def told_of(cluster):
    """Return what `scontrol show job` tells of each job, by its id."""
    fields = (dict(w.split("=", 1) for w in line.split() if "=" in w)
              for line in cluster.run("scontrol", "-o", "show", "job").splitlines())  # fmt: skip
    return {int(one["JobId"]): one for one in fields if "JobId" in one}


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
        "near_of_waiting": float((moved <= np.maximum(TOLERANCE, 0.1 * (start - submit)))[waits].mean()),
        "mean_error_s": float(moved[waits].mean()),
        "median_error_s": float(np.median(moved[waits])),
        "mean_wait_s": float((other - submit).mean()),
        "inverted_pairs": float((apart[clear] * apart_too[clear] < 0).mean()) if clear.any() else None,
    }


def next_to(kind, ran, folder):
    """Return the comparison of the cluster's starts with those by its files, and by submission alone."""
    log, start = ran.log, ran.start
    submit, demands = log.values["submit"], nodes_of(kind, log)
    found = {"real_mean_wait_s": float((start - submit).mean())}
    plain = Path(folder) / "plain.conf"
    plain.write_text(ran.files[0].read_text().replace("priority/multifactor", "priority/basic"))
    names = {"slurm.conf": ran.files[:1], "by submission": [plain]}
    if kind in WITH_USERS:
        names = {"with accounts": ran.files, "without accounts": ran.files[:1], "by submission": [plain]}
    for name, paths in names.items():
        schedule = run_by_name(log, policy_of(paths))[0]
        found[name] = compared(start, schedule.start, submit) | preempted(schedule, ran.again)
    first, paths = next(iter(names.items()))
    schedule = run_by_name(log, policy_of(paths), demands=demands)[0]
    found[f"{first}, on nodes"] = compared(start, schedule.start, submit) | preempted(schedule, ran.again)
    if kind == "everything":
        job, node = schedule.placements.job, schedule.placements.node
        own = [frozenset(f"n{k + 1}" for k in node[job == row].tolist()) for row in range(len(log))]
        found[f"{first}, on nodes"] |= same_nodes(own, ran.nodes)
        found["jobs held (simulated, really, both)"] = everything.bound(
            everything.held(log, policy_of(paths), demands, 240), ran.reasons
        )
    return found


def policy_of(paths):
    """Return the policy of a cluster's files."""
    return f"slurm:{','.join(map(str, paths))}"


def nodes_of(kind, log):
    """Return what the jobs of a log ask of the nodes of a kind of cluster."""
    return everything.on_nodes(log) if kind == "everything" else demands_of(log, MACHINE)[1]


def same_nodes(one, other):
    """Return the share of jobs on the same nodes."""
    return {"same_nodes": float(np.mean([a == b for a, b in zip(one, other, strict=True)]))}


def preempted(schedule, restarts):
    """Return how many jobs were preempted on the cluster and in a simulation, and how often; nothing without any."""
    if schedule.preempted is None:
        return {}
    return of_both(schedule.preempted.times, restarts)


def of_both(ours, real):
    """Return how many jobs were preempted, and how often, in two runs."""
    return {
        "preempted_jobs": int((ours > 0).sum()), "really_preempted_jobs": int((real > 0).sum()),
        "preempted_in_both": int(((ours > 0) & (real > 0)).sum()),
        "preemptions": int(ours.sum()), "real_preemptions": int(real.sum()),
    }  # fmt: skip


def once_more(ran, other):
    """Return how far the starts of two runs on the cluster lie apart, each from its own submissions."""
    order, other_order = (np.argsort(one.log.values["job_id"]) for one in (ran, other))
    submit = ran.log.values["submit"][order]
    moved = (other.start - other.log.values["submit"])[other_order] + submit
    places = [[one.nodes[i] for i in rows] for one, rows in ((ran, order), (other, other_order))]
    found = compared(ran.start[order], moved, submit) | same_nodes(*places)
    return found | of_both(other.again[other_order], ran.again[order])


def main():
    """Play each seed, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int)
    parser.add_argument("--kind", choices=("size", "parts", "preemption", "accounts", "everything"), default="size")
    parser.add_argument("--jobs", type=int, default=80)
    parser.add_argument("--speed", type=int, default=240)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if not given.seeds or given.out is None:
        sys.stdout.write("Left out: minutes of a real Slurm. Name the seeds, and --out FILE.\n")
        return
    warnings.simplefilter("ignore")
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            begin = time.monotonic()
            log = made(given.kind, seed, given.jobs)
            ran = played(given.kind, log, seed, given.speed, scratch)
            row = {"seed": seed, "kind": given.kind, "jobs": given.jobs, "speed": given.speed,
                   "seconds": time.monotonic() - begin}  # fmt: skip
            if given.again:
                other = played(given.kind, log, seed, given.speed, scratch)
                row["the cluster again"] = once_more(ran, other)
            row |= next_to(given.kind, ran, scratch)
        with given.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
