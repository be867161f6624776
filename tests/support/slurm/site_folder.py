"""The folder of a small site under Slurm: two partitions, GPUs, switches, accounts, a reservation, and a job log."""

import numpy as np

CONF = """ClusterName=big
SlurmctldHost=head
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
JobCompPass=secret
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=30,bf_busy_nodes,max_script_size=1000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TopologyPlugin=topology/tree
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=1000
GresTypes=gpu
Include nodes.conf
PartitionName=DEFAULT State=UP DefMemPerCPU=1024
PartitionName=batch Nodes=n[1-8],gpus MaxTime=1-0
PartitionName=gpu Nodes=gpus MaxTime=1-0 State=DRAIN
"""
NODES = """NodeSet=gpus Nodes=g[1-2]
NodeName=DEFAULT CPUs=8 RealMemory=16384
NodeName=n[1-8] Weight=10
NodeName=g[1-2] Gres=gpu:2 Features=v100 Weight=20
NodeName=spare CPUs=4
"""
GRES = "NodeName=g[1-2] Name=gpu Type=v100 File=/dev/nvidia[0-1]\n"
TOPOLOGY = (
    "SwitchName=s1 Nodes=n[1-8]\nSwitchName=s2 Nodes=g[1-2]\nSwitchName=top Switches=s[1-2]\nSwitchName=far Nodes=x1\n"
)
DUMP = """# To edit this file start with a cluster line for the new cluster
Cluster - 'big':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'phys':Fairshare=10
Account - 'chem':Fairshare=5
Parent - 'phys'
User - 'ann':DefaultAccount='phys':Fairshare=1
User - 'bob':DefaultAccount='phys':Fairshare=1
Parent - 'chem'
User - 'cy':DefaultAccount='chem':Fairshare=1
"""
QOS = "Name|Priority|MaxJobsPU|Flags\nnormal|0|8|\n"
SHOWN = """NodeName=n1 Arch=x86_64 CoresPerSocket=8
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.01
   AvailableFeatures=(null)
   Gres=(null)
   RealMemory=16384 AllocMem=0 Sockets=1 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=10
   Partitions=batch
   Reason=CPUTot=9 is wrong [root@2026-01-01T00:00:00]
"""
RESERVATIONS = """ReservationName=maint StartTime=2026-01-01T08:00:00 EndTime=2026-01-01T10:00:00 Duration=02:00:00
   Nodes=n[1-8] NodeCnt=8 CoreCnt=64 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE
"""
HEADER = (
    "JobIDRaw|JobID|Cluster|User|Account|Partition|QOS|ReqNodes|AllocNodes|ReqCPUS|AllocCPUS|ReqMem|TimelimitRaw|"
    "Submit|Eligible|Start|End|State|ReqTRES|Constraints"
)
BEGIN = 1_767_225_600  # 2026-01-01 00:00:00 UTC
FILES = {
    "slurm.conf": CONF, "nodes.conf": NODES, "gres.conf": GRES, "topology.conf": TOPOLOGY, "site.dump": DUMP,
    "qos.txt": QOS, "nodes.txt": SHOWN, "reservations.txt": RESERVATIONS,
}  # fmt: skip


def sacct(rows, cluster="big"):
    """Return sacct's text of jobs, given as dicts; what a job does not tell is usual."""
    lines = [HEADER]
    for number, given in enumerate(rows, 1):
        row = {
            "user": "ann", "account": "phys", "partition": "batch", "qos": "normal", "nodes": 1, "procs": 8,
            "memory": "", "limit": 3600, "submit": 0, "run": 1800, "tres": "", "constraint": "",
        } | given  # fmt: skip
        start = BEGIN + row["submit"] + row.get("wait", 0)
        eligible = BEGIN + row["submit"] + row.get("held", 0)
        cells = (
            number, number, cluster, row["user"], row["account"], row["partition"], row["qos"], row["nodes"],
            row["nodes"], row["procs"], row["procs"], row["memory"], row["limit"] // 60, BEGIN + row["submit"],
            eligible, start, start + row["run"], "COMPLETED", row["tres"], row["constraint"],
        )  # fmt: skip
        lines.append("|".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def some_jobs(n_jobs=80, seed=3):
    """Return jobs of three users, some of which ask for GPUs or memory."""
    random = np.random.default_rng(seed)
    rows = []
    for submit in np.cumsum(random.integers(0, 500, n_jobs)).tolist():
        user, account = (("ann", "phys"), ("bob", "phys"), ("cy", "chem"))[random.integers(3)]
        run = int(random.integers(60, 7000))
        row = {"user": user, "account": account, "submit": submit, "run": run, "limit": 60 * (run // 50), "wait": 5}
        if random.random() < 0.15:
            row |= {"partition": "gpu", "procs": 4, "tres": "cpu=4,gres/gpu=1,node=1"}
        else:
            row |= {"nodes": int(random.integers(1, 4))}
            row |= {"procs": 8 * row["nodes"], "memory": "16000M" if random.random() < 0.3 else ""}
        rows.append(row)
    return rows


def site_folder(folder, rows=None, **texts):
    """Write the folder, with a log of these jobs; other texts by file, `_` for a dot, None leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    given = FILES | {"jobs.txt": sacct(some_jobs() if rows is None else rows)}
    given |= {name.replace("_", "."): text for name, text in texts.items()}
    for name, text in given.items():
        if text is not None:
            (folder / name).write_text(text)
    return folder
