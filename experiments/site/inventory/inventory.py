"""What was understood of a site's folder, and what is missing, with the command that gets it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.site.inventory.gaps import gaps_of
from predictors.data.joblog import JobLog
from predictors.data.slurm.accounts import ROOT
from predictors.data.slurm.conf import Setting
from predictors.data.slurm.folder import Imported
from predictors.data.slurm.hosts import host_list
from predictors.data.slurm.site import CONF, GRES, RESERVATIONS, Site
from predictors.data.summary import date_of
from schedsim.machine.node_groups import NodeGroup
from schedsim.machine.slurm_nodes import SlurmMachine, machine_of

NODES_NOW: Final = "nodes as they are now"
SACCT: Final = (
    "SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S now-180days -E now -o JobIDRaw,JobID,Cluster,User,Account,Partition,QOS,"
    "ReqNodes,AllocNodes,ReqCPUS,AllocCPUS,ReqMem,TimelimitRaw,Submit,Eligible,Start,End,ElapsedRaw,State,ExitCode,"
    "Restarts,ReqTRES,AllocTRES,Constraints,Reservation,SubmitLine > jobs.txt"
)


def inventory_of(imported: Imported, out: Path) -> dict[str, Any]:
    """Return what the folder of a site holds, that was imported into a file: what is understood, and what is not."""
    site, log = imported.site, imported.log
    made, conf, accounts = machine_of(site, str(out)), site.conf, site.accounts
    groups = () if made is None else made.machine.nodes
    files = [(one.name, one.kind) for one in site.source]
    files += [] if imported.log_path is None else [(imported.log_path.name, "job log")]
    files += [(name, f"not used: {why}") for name, why in imported.left.items()]
    missing = list(missing_of(site, made))
    if log is None or not log.known("wait").any():
        missing.append(("the job log" if log is None else "waits: the log has none, and cannot be graded", SACCT))
    people = [] if accounts is None else accounts.associations
    return {
        "files": [{"file": name, "is": what} for name, what in files],
        "nodes": _nodes({} if made is None else made.kinds),
        "partitions": [] if conf is None else [_partition(*one, groups) for one in conf.partitions.items()],
        "qos": [] if accounts is None else list(accounts.qos),
        "accounts": len({one.account for one in people if not one.user} - {ROOT}),
        "users": len({one.user for one in people} - {""}),
        "reservations": [
            {"reservation": one.name, "from": _date(one.start), "until": _date(one.end), "nodes": one.nodes,
             "flags": list(one.flags)}
            for one in site.reservations
        ],
        "jobs": None if log is None else _jobs(log),
        "not_simulated": [asdict(gap) for gap in gaps_of(site, made, log)],
        "missing": [{"what": what, "command": command} for what, command in missing],
    }  # fmt: skip


def _nodes(kinds: Mapping[NodeGroup, list[str]]) -> list[dict[str, Any]]:
    return [
        {
            "nodes": host_list(names), "count": len(names),
            "processors": kind.processors, "gpus": kind.gpus, "gpu_type": kind.gpu_type,
            "memory_gb": None if kind.memory_gb is None else round(kind.memory_gb, 1), "weight": kind.weight,
            "features": list(kind.features), "partitions": list(kind.partitions),
        }
        for kind, names in kinds.items()
    ]  # fmt: skip


def _partition(name: str, row: Mapping[str, Setting], groups: Sequence[NodeGroup]) -> dict[str, Any]:
    """Return a partition's nodes and processors, the longest run, tier and factor as written."""
    own = [one for one in groups if name in one.partitions]
    told = {key: one.value for key, one in row.items()}
    older = told.get("priority")
    return {
        "partition": name, "nodes": sum(one.count for one in own),
        "processors": sum(one.count * one.processors for one in own), "longest_run": told.get("maxtime"),
        "tier": older or told.get("prioritytier"), "factor": older or told.get("priorityjobfactor"),
        "qos": told.get("qos"),
    }  # fmt: skip


def _jobs(log: JobLog) -> dict[str, Any]:
    """Return how many jobs the log has, and when they were submitted."""
    last = int(log.filled("submit").max(initial=0))
    return {
        "jobs": len(log), "users": len(np.unique(log.filled("user")[log.known("user")])), "days": last / 86_400,
        "from": date_of(log, 0), "until": date_of(log, last), "with_waits": int(log.known("wait").sum()),
        "ask_for_gpus": int((log.filled("requested_gpus") > 0).sum()),
        "ask_for_features": int(log.known("constraint").sum()),
        "exclusive": int((log.filled("exclusive") > 0).sum()),
    }  # fmt: skip


def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def what_helps(site: Site) -> str:
    """Return the input that would help a twin most: what is missing first, then what is not simulated."""
    made = machine_of(site, site.name)
    for what, command in missing_of(site, made):
        if what != NODES_NOW or made is None:
            return f"{what}: {command}"
    for gap in gaps_of(site, made, None):
        return f"{gap.setting} is not simulated{gap.text and f' ({gap.text})'}; leave out the time in which it held."
    return (
        "no file is missing; the usage of accounts before the log, and jobs that were held or changed, are not known."
    )


def missing_of(site: Site, made: SlurmMachine | None) -> Iterator[tuple[str, str]]:
    """Give what of Slurm's own files is missing, and the command that gets it."""
    conf, accounts = site.conf, site.accounts
    cluster = "CLUSTER" if conf is None else conf.text("ClusterName", "CLUSTER")
    if conf is None:
        yield CONF, "cp $(scontrol show config | awk '/^SLURM_CONF/ {print $3}') ."
    gpus = () if made is None else [one for one in made.machine.nodes if one.gpus]
    if not site.texts(GRES) and any(one.gpu_type is None for one in gpus):
        yield "gres.conf: the types of GPUs", "cp /etc/slurm/gres.conf ."
    if conf is not None and not site.switches and conf.text("TopologyPlugin", "").lower().endswith("tree"):
        yield "topology.conf: the switches", "cp /etc/slurm/topology.conf ."
    if accounts is None or not accounts.associations:
        yield "accounts, users and their limits", f"sacctmgr dump {cluster} file=site.dump"
    if accounts is None or not accounts.qos:
        yield "QOS", "sacctmgr -P show qos > qos.txt"
    if not site.nodes:
        yield NODES_NOW, "scontrol show node > nodes.txt"
    if not site.texts(RESERVATIONS):
        yield "reservations", "SLURM_TIME_FORMAT=%s scontrol show res > reservations.txt"
