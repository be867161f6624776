"""What was understood of a site's folder, and what is missing, with the command that gets it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.site.inventory.gaps import Gap, gaps_of
from predictors.data.joblog import JobLog
from predictors.data.slurm.accounts import ROOT
from predictors.data.slurm.folder import Imported
from predictors.data.slurm.site import CONF, GRES, KINDS, RESERVATIONS, Site
from predictors.data.summary import date_of
from schedsim.machine.slurm_nodes import SlurmMachine, machine_of

NODES_NOW: Final = "nodes as they are now"
SACCT: Final = (
    "SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S now-180days -E now -o JobIDRaw,JobID,Cluster,User,Account,Partition,QOS,"
    "ReqNodes,AllocNodes,ReqCPUS,AllocCPUS,ReqMem,TimelimitRaw,Submit,Eligible,Start,End,ElapsedRaw,State,ExitCode,"
    "Restarts,ReqTRES,AllocTRES,Constraints,Reservation,SubmitLine > jobs.txt"
)


@dataclass(frozen=True, eq=False)
class Inventory:
    """What the folder of a site holds."""

    imported: Imported
    made: SlurmMachine | None
    gaps: list[Gap]
    missing: list[tuple[str, str]] = field(default_factory=list)  # what is missing, and the command that gets it

    @classmethod
    def of(cls, imported: Imported, out: Path) -> "Inventory":
        """Return the inventory of what was imported into a file."""
        made = machine_of(imported.site, str(out))
        missing = list(missing_of(imported.site, made))
        if imported.log is None:
            missing.append(("the job log", SACCT))
        elif not imported.log.known("wait").any():
            missing.append(("waits: the log has none, and cannot be graded", SACCT))
        return cls(imported, made, gaps_of(imported.site, made, imported.log), missing)

    def files(self) -> list[tuple[str, str]]:
        """Return each file and what it is."""
        rows = [(one.name, KINDS[one.kind]) for one in self.imported.site.source]
        if self.imported.log_path is not None:
            rows.append((self.imported.log_path.name, "job log"))
        return rows + [(name, f"not used: {why}") for name, why in self.imported.left.items()]

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes by kind: groups that are equal but for their names and switches are one."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for one in () if self.made is None else self.made.machine.nodes:
            memory = None if one.memory_gb is None else round(one.memory_gb, 1)
            kind = (
                one.processors,
                one.gpus,
                one.gpu_type,
                memory,
                one.partitions,
                one.features,
                one.weight,
                one.one_job,
            )
            row = found.setdefault(
                kind,
                {
                    "nodes": "", "count": 0, "processors": one.processors, "gpus": one.gpus, "gpu_type": one.gpu_type,
                    "memory_gb": memory, "partitions": list(one.partitions), "features": list(one.features),
                    "weight": one.weight,
                },
            )  # fmt: skip
            row["nodes"] += ("," if row["nodes"] else "") + one.name
            row["count"] += one.count
        return list(found.values())

    def partitions(self) -> list[dict[str, Any]]:
        """Return the partitions: their nodes and processors, the longest run, tier and factor as written."""
        conf, groups = self.imported.site.conf, () if self.made is None else self.made.machine.nodes
        rows = []
        for name, row in ({} if conf is None else conf.partitions).items():
            own = [one for one in groups if name in one.partitions]
            told = {key: one.value for key, one in row.items()}
            older = told.get("priority")
            rows.append(
                {
                    "partition": name,
                    "nodes": sum(one.count for one in own),
                    "processors": sum(one.count * one.processors for one in own),
                    "longest_run": told.get("maxtime"),
                    "tier": older or told.get("prioritytier"),
                    "factor": older or told.get("priorityjobfactor"),
                    "qos": told.get("qos"),
                }
            )
        return rows

    def accounts(self) -> dict[str, Any]:
        """Return what sacctmgr's files hold."""
        found = self.imported.site.accounts
        if found is None:
            return {"qos": [], "accounts": 0, "users": 0}
        users = {one.user for one in found.associations if one.user}
        return {
            "qos": list(found.qos),
            "accounts": len({one.account for one in found.associations if not one.user} - {ROOT}),
            "users": len(users),
        }

    def reservations(self) -> list[dict[str, Any]]:
        """Return the reservations."""
        return [
            {"reservation": one.name, "from": _date(one.start), "until": _date(one.end), "nodes": one.nodes,
             "flags": list(one.flags)}
            for one in self.imported.site.reservations
        ]  # fmt: skip

    def jobs(self) -> dict[str, Any] | None:
        """Return how many jobs the log has, and when they were submitted."""
        log = self.imported.log
        if log is None:
            return None
        last = int(log.filled("submit").max(initial=0))
        return {
            "jobs": len(log), "users": _distinct(log, "user"), "days": last / 86_400, "from": date_of(log, 0),
            "until": date_of(log, last), "with_waits": int(log.known("wait").sum()),
            "ask_for_gpus": int((log.filled("requested_gpus") > 0).sum()),
            "ask_for_features": int(log.known("constraint").sum()),
            "exclusive": int((log.filled("exclusive") > 0).sum()),
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "files": [{"file": name, "is": what} for name, what in self.files()], "nodes": self.nodes(),
            "partitions": self.partitions(), **self.accounts(), "reservations": self.reservations(),
            "jobs": self.jobs(), "not_simulated": [gap.to_dict() for gap in self.gaps],
            "missing": [{"what": what, "command": command} for what, command in self.missing],
        }  # fmt: skip


def _distinct(log: JobLog, column: str) -> int:
    return len(np.unique(log.filled(column)[log.known(column)]))


def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def what_helps(site: Site) -> str:
    """Return the input that would help a twin most: what is missing first, then what is not simulated."""
    made = machine_of(site, site.name)
    for what, command in missing_of(site, made):
        if what != NODES_NOW or made is None:
            return f"{what}: {command}"
    for gap in gaps_of(site, made, None):
        return f"{gap.setting} is not simulated ({gap.text}); leave out the time in which it held."
    return (
        "no file is missing; the usage of accounts before the log, and jobs that were held or changed, are not known."
    )


def missing_of(site: Site, made: SlurmMachine | None) -> Iterator[tuple[str, str]]:
    """Give what of Slurm's own files is missing, and the command that gets it."""
    conf, accounts = site.conf, site.accounts
    cluster = "CLUSTER" if conf is None else conf.text("ClusterName", "CLUSTER")
    if conf is None:
        yield KINDS[CONF], "cp $(scontrol show config | awk '/^SLURM_CONF/ {print $3}') ."
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
