"""Priorities and fair-share of a real Slurm beside ours; and that without slurmdbd it leaves the age out."""

import os
import time

import numpy as np
import pytest

from predictors.data.joblog import JobLog
from schedsim.sites.slurm.files import slurm_policy_of
from schedsim.sites.slurm.multifactor import Multifactor
from tests.bench.bench_priorities import PACE, PRIORITIES, QOS, SHARES, USERS, files_of, opened
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


def test_fair_share_and_qos_of_waiting_jobs_are_those_of_the_files(tmp_path, monkeypatch):
    """Of usage that the cluster tells, the tree of its dump gives its factors; priorities are the sum of the parts."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    cluster = opened("accounts", tmp_path / "bin", SPEED)
    try:
        for k, (user, (account, _)) in enumerate(USERS.items()):  # they use 8, 16, … processors for a while
            first = cluster.submit(f"-n{8 * (k + 1)}", "-t", 600, "-A", account, seconds=3, user=user)
            cluster.wait_for(first, "COMPLETED")
        cluster.wait_for(cluster.submit("-N4", "-n32", "-t", 6000, "-A", "physics", user="bea"), "RUNNING")
        waiting = {
            cluster.submit("-n32", "-t", 60, "-A", account, "--qos", qos, user=user): (user, qos)
            for user, (account, _) in USERS.items()
            for qos in QOS
        }
        time.sleep(1200 / SPEED)
        shares = cluster.run("sshare", "-P", "-n", "-a", "-o", "Account,User,RawUsage,FairShare").splitlines()
        told = cluster.run("sprio", "-h", "-o", "%i %F %Q %Y %A %P %J %N").splitlines()
        files = files_of(cluster, "accounts", tmp_path)
    finally:
        cluster.down()

    users = list(USERS)
    columns = {
        "job_id": np.array(list(waiting)), "submit": np.zeros(12, dtype=int), "run_time": np.full(12, 60),
        "requested_time": np.full(12, 3600), "requested_procs": np.full(12, 32),
        "user": np.array([users.index(user) for user, _ in waiting.values()]),
        "qos": np.array([list(QOS).index(qos) for _, qos in waiting.values()]),
    }  # fmt: skip
    log = JobLog.from_columns(columns, {}, max_procs=32, categories={"user": tuple(users), "qos": tuple(QOS)})
    order = slurm_policy_of(f"slurm:{','.join(map(str, files))}", log)[0].order.ranking
    tree, user_of = order.fair_share.tree, order.fair_share.user_of
    assert tree.n_users == len(USERS) + 1  # root is a user of root
    place = {user: int(user_of[i]) for i, (user, _) in enumerate(waiting.values())}
    usage, factor = np.zeros(len(tree)), {}
    for line in shares:
        account, user, raw, share = line.split("|")
        if user in place:
            assert account.strip() in SHARES
            usage[place[user]], factor[user] = float(raw), float(share)
    assert (usage[list(place.values())] > 0).all()
    ours = tree.factors(usage)
    assert {user: round(float(ours[i]), 6) for user, i in place.items()} == factor
    jobs = {int(number): [int(part) for part in parts] for number, *parts in (line.split() for line in told)}
    assert jobs.keys() == waiting.keys()
    for row, (job, (user, _)) in enumerate(waiting.items()):
        share, by_qos, whole, age, *others = jobs[job]
        assert share == int(order.rule.fair_share * ours[place[user]] + 0.5)
        assert by_qos == int(order.parts["qos"][row] + 0.5)
        assert abs(whole - (share + by_qos + age)) <= 1
        assert not any(others)


PARTS = """PriorityWeightAssoc=700
PriorityWeightJobSize=400
PriorityWeightPartition=300
PriorityWeightTRES=CPU=2000,Mem=3000,Node=50
PriorityFlags={flags}
PartitionName=urgent Nodes=n[1-2] Priority=3 PriorityJobFactor=1 MaxTime=INFINITE State=UP
"""
WAITING = (  # user, QOS, partition, processors, nodes, memory of a node [MB], minutes, nice value, site factor
    ("ann", "normal", "p", 8, 1, 1000, 60, 0, 0), ("bea", "high", "p", 17, 3, 500, 90, 40, 0),
    ("cid", "low", "urgent", 9, 2, 2000, 5, 0, 77), ("dan", "high", "urgent", 2, 1, 100, 60, -30, -5),
    ("ann", "low", "p", 32, 4, 3900, 600, 100_000, 0),
)  # fmt: skip


@pytest.mark.parametrize("flags", ["FAIR_TREE", "NO_NORMAL_ALL,SMALL_RELATIVE_TO_TIME,NO_FAIR_TREE"])
def test_all_parts_of_a_priority_are_those_that_sprio_tells(flags, tmp_path, monkeypatch):
    """Association, size, partition, QOS, TRES, site factor and nice value of each job, and the priority as a whole."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    cluster = opened("accounts", tmp_path / "bin", SPEED, PARTS.format(flags=flags))
    try:
        cluster.sacctmgr("modify", "account", "physics", "set", "priority=20")
        cluster.sacctmgr("modify", "user", "bea", "where", "account=physics", "set", "priority=50")
        cluster.wait_for(cluster.submit("-N4", "-n32", "-t", 6000, "-A", "physics", user="bea"), "RUNNING")
        numbers = []
        for user, qos, partition, procs, nodes, memory, minutes, nice, site in WAITING:
            options = [f"-n{procs}", f"-N{nodes}", f"--mem={memory}", "-t", minutes, "-p", partition, "--qos", qos]
            numbers.append(cluster.submit(*options, "-A", USERS[user][0], user=user))
            cluster.run("scontrol", "update", f"JobId={numbers[-1]}", f"Nice={nice}", f"SiteFactor={site}")
        time.sleep(1200 / SPEED)
        told = cluster.run("sprio", "-h", "-o", "%i|%Y|%A|%F|%B|%J|%P|%Q|%S|%N|%T").splitlines()
        files = files_of(cluster, "accounts", tmp_path)
    finally:
        cluster.down()

    users, groups, names = list(USERS), [account for account, _ in USERS.values()], ("p", "urgent")
    rows = list(zip(*WAITING, strict=True))
    codes = [users.index(one) for one in rows[0]]
    columns = {
        "job_id": numbers, "submit": [0] * 5, "run_time": [60] * 5, "user": codes, "group": codes,
        "qos": [list(QOS).index(one) for one in rows[1]], "queue": [names.index(one) for one in rows[2]],
        "requested_procs": rows[3], "requested_nodes": rows[4],
        "requested_job_memory": [1024 * row[4] * row[5] for row in WAITING],
        "requested_time": [60 * one for one in rows[6]], "nice": rows[7], "site_factor": rows[8],
    }  # fmt: skip
    log = JobLog.from_columns(columns, {}, max_procs=32, categories={
        "user": tuple(users), "group": tuple(groups), "qos": tuple(QOS), "queue": names,
    })  # fmt: skip
    ours = slurm_policy_of(f"slurm:{','.join(map(str, files))}", log)[0].order.ranking.parts
    jobs = {int(number): rest for number, *rest in (line.replace(" ", "").split("|") for line in told)}
    assert sorted(jobs) == sorted(numbers)
    for row, number in enumerate(numbers):
        whole, age, share, *parts, tres = jobs[number]
        fields = ("association", "size", "partition", "qos", "site", "nice")
        assert [int(part) for part in parts] == [round(float(ours[field][row])) for field in fields], jobs
        by_resource = [float(one.partition("=")[2]) for one in tres.split(",") if one]
        assert abs(sum(by_resource) - ours["tres"][row]) <= 2, (jobs, ours["tres"])
        known = sum(ours[field][row] for field in (*fields[:-1], "tres")) - ours["nice"][row]
        assert abs(int(whole) - max(1, known + int(age) + int(share))) <= 2, (jobs, ours)


TREE = (
    ("m", "root", 1, (1, 0)), ("z", "root", 1, (1, 0)), ("b", "root", 1, (0, 1, 1)),  # equal, and not made by name
    ("par", "root", "parent", (2,)), ("k", "par", 1, (1, 0)), ("c", "par", 1, (0, 1)),
    ("tied", "root", 0, (0,)), ("none", "tied", 0, ()), ("hollow", "none", 1, ()), ("some", "tied", 0, (0,)),
    ("last", "root", 0, ("parent", 0)), ("of", "last", "parent", (0,)), ("under", "last", 0, (1,)),
    ("first", "under", "parent", ()), ("zero", "under", 0, (0,)),
)  # fmt: skip
"""Accounts, their parents, their shares, and those of their users."""


def test_fair_tree_ranks_equal_entries_as_slurm_does(tmp_path):
    """Accounts without users, with their parent's shares, and equal ones: nothing is used, so that shares alone count.

    The tree of the dump has the factors that sshare tells.
    """
    priority = "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nPriorityCalcPeriod=1\n"
    cluster = SlurmCluster("26.05", tmp_path / "bin", speed=30, more=priority, accounting=True)
    try:
        cluster.up()
        for account, parent, shares, held in TREE:
            cluster.add_account(account, f"parent={parent}", f"fairshare={shares}")
            for k, own in enumerate(held):
                cluster.add_user(f"u{k}", account, f"fairshare={own}")
        files = files_of(cluster, "accounts", tmp_path)
        expected = {(account, f"u{k}") for account, *_, held in TREE for k in range(len(held))} | {("root", "root")}
        factors, before, end = {}, {}, time.monotonic() + 60
        while factors.keys() != expected or factors != before:  # they come with the ticks, each of two seconds
            assert time.monotonic() < end, factors
            time.sleep(150 / 30)
            rows = cluster.run("sshare", "-P", "-n", "-a", "-o", "Account,User,FairShare").splitlines()
            before = factors
            factors = {(a.strip(), user): float(f) for a, user, f in (row.split("|") for row in rows) if user}
    finally:
        cluster.down()

    owners, n = sorted(expected), len(expected)
    accounts, users = (tuple(sorted({one[part] for one in owners})) for part in (0, 1))
    columns = {
        "job_id": np.arange(n), "submit": np.zeros(n, dtype=int), "run_time": np.full(n, 60),
        "requested_time": np.full(n, 3600), "requested_procs": np.ones(n, dtype=int),
        "user": np.array([users.index(user) for _, user in owners]),
        "group": np.array([accounts.index(account) for account, _ in owners]),
    }  # fmt: skip
    log = JobLog.from_columns(columns, {}, max_procs=32, categories={"user": users, "group": accounts})
    share = slurm_policy_of(f"slurm:{','.join(map(str, files))}", log)[0].order.ranking.fair_share
    ours = share.tree.factors(np.zeros(len(share.tree)))[share.user_of]
    assert dict(zip(owners, ours.round(6).tolist(), strict=True)) == factors
