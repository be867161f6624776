"""The kind `everything` of `bench_priorities`: what sites have, all at once.

Five nodes of two kinds, one with GPUs; two partitions that overlap; features; priorities of all parts but the size;
a QOS that preempts another one; limits on the jobs and processors of users and of a QOS.
"""

from collections import Counter

import numpy as np

from experiments.studies.closed_loop import Cluster
from jobcast import Simulation, Workload
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from schedsim.sites.slurm.files import slurm_policy_of

NODES = ("CPUs=8 RealMemory=4000 Feature=old",) * 3
NODES += ("CPUs=12 RealMemory=8000 Feature=fast Gres=gpu:2 Weight=10",) * 2
CONF = """GresTypes=gpu
PriorityType=priority/multifactor
PriorityWeightAge=300
PriorityMaxAge=0-6
PriorityWeightFairshare=1000
PriorityWeightQOS=400
PriorityWeightPartition=300
PriorityDecayHalfLife=0-2
PriorityCalcPeriod=1
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
PreemptType=preempt/qos
PreemptMode=REQUEUE
PreemptExemptTime=00:10:00
PartitionName=q Nodes=n[3-5] PriorityJobFactor=2 MaxTime=INFINITE State=UP
MinJobAge=8640000
MaxJobCount=5000"""
PARTITIONS, FEATURES = ("p", "q"), ("old", "fast")
QOS = {
    "low": "priority=0 grptres=cpu=20",
    "normal": "priority=10 maxjobsperuser=4",
    "urgent": "priority=100 preempt=low maxtresperuser=cpu=16",
}
MOST = (20, 32, 16)
"""The processors of the widest job of each QOS: its limit, or those of a partition."""
REASONS = {"GrpTRES": "QOSGrpCpuLimit", "MaxJobsPU": "QOSMaxJobsPerUserLimit", "MaxTRESPU": "QOSMaxCpuPerUserLimit"}
"""How squeue calls the limits."""


def made(seed, jobs):
    """Return a workload that makes jobs wait."""
    return Cluster(jobs=jobs, procs=48, load=2.0, median_s=900.0).workload(seed)


def asked(log, seed, users):
    """Return columns of what jobs ask for, and the words of sbatch that ask for it."""
    rng, columns, words = np.random.default_rng((seed, 13)), [], []
    for width in log.procs.tolist():
        qos, partition = int(rng.choice(3, p=(0.3, 0.5, 0.2))), int(rng.integers(2))
        user, shape, most = int(rng.integers(len(users))), rng.random(), MOST[qos]
        feature = int(rng.choice((-1, 0, 1), p=(0.8, 0.1, 0.1)))
        procs, nodes, gpus = min(width, most), -1, 0
        if shape < 0.25:
            procs, nodes, gpus, feature = min(width, 6), 1, int(rng.integers(1, 3)), -1
        elif feature >= 0:
            procs = min(width, 8)
        elif shape < 0.5:
            nodes = int(rng.integers(1, 4))
            procs = nodes * max(1, min(width, most, 24) // nodes)
            procs = min(procs, 8 * nodes)
        asks = [f"-n{procs}", "-p", PARTITIONS[partition], "--qos", list(QOS)[qos], "-A", users[user][1]]
        asks += [f"-N{nodes}", f"--ntasks-per-node={procs // nodes}"] if nodes > 0 else []
        asks += [f"--gres=gpu:{gpus}"] if gpus else []
        asks += [f"--constraint={FEATURES[feature]}"] if feature >= 0 else []
        words.append((users[user][0], asks))
        columns.append((procs, nodes, gpus, feature, user, qos, partition))
    names = ("requested_procs", "requested_nodes", "requested_gpus", "constraint", "user", "qos", "queue")
    return dict(zip(names, np.array(columns, dtype=np.int64).T, strict=True)), words


def on_nodes(ran):
    """Return what the jobs of a log ask of the nodes: those of a partition, and of a feature."""
    groups = (
        NodeGroup("n1", 2, 8, partitions=("p",), features=("old",)),
        NodeGroup("n3", 1, 8, partitions=("p", "q"), features=("old",)),
        NodeGroup("n4", 1, 12, gpus=2, partitions=("p", "q"), features=("fast",), weight=10),
        NodeGroup("n5", 1, 12, gpus=2, partitions=("q",), features=("fast",), weight=10),
    )
    return demands_of(ran, Machine(groups))[1]


def held(ran, policy, demands, second):
    """Return which jobs each kind of limit holds at multiples of a second, as a set of job ids each."""
    simulation = Simulation(Workload.from_log(ran, demands), slurm_policy_of(policy, ran)[0])
    now, found = 0, {name: set() for name in REASONS}
    while not simulation.run(until=now):
        for row in simulation.queued.tolist():
            limit = simulation.limit_on(row)
            for name in REASONS if limit is not None else ():
                if name in limit:
                    found[name].add(int(ran.values["job_id"][row]))
        now += second
    return found


def bound(ours, real):
    """Return how many jobs each limit held in the simulation, on the cluster and in both."""
    told = {name: {job for job, why in real if why == reason} for name, reason in REASONS.items()}
    found = {name: [len(ours[name]), len(told[name]), len(ours[name] & told[name])] for name in REASONS}
    return found | {"reasons on the cluster": dict(Counter(why for _, why in real))}
