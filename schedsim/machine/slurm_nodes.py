"""The machine of a site under Slurm, from its slurm.conf, gres.conf, topology.conf and what scontrol shows.

Nodes come in the order of the slurm.conf, then those that scontrol alone shows. Neighbours that are equal in all that
counts are a group, with Slurm's list of their names as its name. Nodes in no partition run no job, and are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final

from predictors.core.errors import JobcastError, counted, printable
from predictors.data.slurm.conf import MOST_NAMES, Setting, SlurmConf, features_of, names_of, processors_of, whole_of
from predictors.data.slurm.hardware import Gpus, gpus_of
from predictors.data.slurm.hosts import host_list
from predictors.data.slurm.site import Site
from schedsim.machine.constraints import NAME
from schedsim.machine.node_groups import Machine, NodeGroup
from schedsim.machine.outages import Outages, Reservation
from schedsim.machine.topology import Switch

MB_OF_GB: Final = 1024
NOT_THERE: Final = ("FUTURE",)  # states of NodeName lines for nodes that do not exist yet


@dataclass(frozen=True)
class SlurmMachine:
    """A site's machine, the names of its nodes in the order of their numbers, and what of the files is not in it."""

    machine: Machine
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[NodeGroup, list[str]]:
        """The names of its nodes by kind: nodes that are equal but for their names and switches."""
        found: dict[NodeGroup, list[str]] = {}
        names = iter(self.names)
        for group in self.machine.nodes:
            kind = replace(group, name="node", count=1, switch=None)
            found.setdefault(kind, []).extend(islice(names, group.count))
        return found


def machine_of(site: Site, source: str) -> SlurmMachine | None:
    r"""Return the machine of a site; None where its files name no node.

    Parameters
    ----------
    source : str
        The site's file, for messages.

    Examples
    --------
    >>> from predictors.data.slurm.site import Source
    >>> text = "NodeName=n[1-4] CPUs=8\nPartitionName=a Nodes=n[1-2]\nPartitionName=b Nodes=n[1-3]"
    >>> machine_of(Site("big", (Source("slurm.conf", "slurm.conf", text),)), "big.site").machine.words
    'n[1-2]: count 2, processors 8, partitions a b; n3: count 1, processors 8, partitions b'
    """
    conf = site.conf if site.conf is not None else SlurmConf.of_lines(source, [])
    conf.check_nodes()
    rows = dict(_rows(site, conf))
    if not rows:
        return None
    serving, notes = _partitions(site, conf, rows), list[str]()
    one_job = conf.text("SelectType", "").lower().endswith("linear")
    nodes: dict[str, NodeGroup] = {}  # each as a group of its own, by the node's name
    types = set[str]()
    for name, row in rows.items():
        gpus = _gpus(name, row, site.gpus)
        types |= {name} if len(gpus.types) > 1 else set()
        nodes[name] = NodeGroup(
            "node", 1, _processors(row), gpus.count, _memory_gb(row), serving[name], one_job,
            whole_of(row.get("weight"), 1),
            tuple(dict.fromkeys(filter(NAME.fullmatch, features_of(row)))),
            gpus.types[0] if len(gpus.types) == 1 and gpus.count else None,
        )  # fmt: skip
    if conf.partitions or any(serving.values()):
        idle = [name for name, node in nodes.items() if not node.partitions]
        nodes = {name: node for name, node in nodes.items() if node.partitions}
        notes += [f"{counted(len(idle), 'node')} in no partition, left out: {host_list(idle)[:80]}"] if idle else []
    notes += [f"GPUs of several types count as of none: {host_list(sorted(types))[:80]}"] if types else []
    if not nodes:
        raise JobcastError(f"{source}: none of its nodes is in a partition; name Nodes of a PartitionName.")
    switches, leaf_of, told = _tree(site, conf, nodes)
    nodes = {name: replace(node, switch=leaf_of.get(name)) for name, node in nodes.items()}
    groups = []
    for node, own in groupby(nodes, nodes.__getitem__):
        names = list(own)
        groups.append(replace(node, name=host_list(names), count=len(names)))
    return SlurmMachine(Machine(tuple(groups), source, switches), tuple(nodes), (*notes, *told))


def _rows(site: Site, conf: SlurmConf) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    """Give each node with what is said of it; what the slurm.conf lacks scontrol has."""
    known = set[str]()
    if conf.nodes > MOST_NAMES:
        raise JobcastError(f"{conf.source}: has {conf.nodes:,} nodes; a machine has at most {MOST_NAMES:,}.")
    counting = {"cpus", "sockets", "socketsperboard", "boards", "corespersocket"}
    for line, row in conf.node_lines:
        if "state" in row and row["state"].value.upper() in NOT_THERE:
            continue
        for name in names_of(line):
            known.add(name)
            shown = site.nodes.get(name)
            if shown is None:
                yield name, row
                continue
            counts = not counting.isdisjoint(row)
            if counts and processors_of(row) != processors_of(shown.row):
                raise JobcastError(
                    f"{shown.place}: node {printable(name)[:40]} has {processors_of(shown.row)} processors, and "
                    f"{processors_of(row)} by {line.place}; write both files again."
                )
            yield name, {**{key: one for key, one in shown.row.items() if not (counts and key == "cpus")}, **row}
    for name, shown in site.nodes.items():
        if name not in known:
            yield name, shown.row


def _processors(row: Mapping[str, Setting]) -> int:
    """Return the processors of a node for jobs, without the cores that Slurm keeps for itself."""
    kept = whole_of(row.get("threadspercore"), 1) * whole_of(row.get("corespeccount"))
    return max(1, processors_of(row) - kept)


def _memory_gb(row: Mapping[str, Setting]) -> float | None:
    if "realmemory" not in row:
        return None
    return max(1, whole_of(row["realmemory"]) - whole_of(row.get("memspeclimit"))) / MB_OF_GB


def _gpus(name: str, row: Mapping[str, Setting], told: Mapping[str, Gpus]) -> Gpus:
    """Return the GPUs of a node, those of `Gres=`; the gres.conf has the types that it does not name."""
    found = gpus_of(row["gres"].value, row["gres"].place) if "gres" in row else Gpus()
    other = told.get(name, told.get(""))
    if other is None or not found.count:
        return found
    if other.count != found.count:
        raise JobcastError(
            f"{other.place}: node {printable(name)[:40]} has {counted(other.count, 'GPU')}, and {found.count} by "
            f"{found.place}; correct one."
        )
    return found if found.types else replace(found, types=other.types)


def _partitions(site: Site, conf: SlurmConf, rows: Mapping[str, Mapping[str, Setting]]) -> dict[str, tuple[str, ...]]:
    """Return the partitions that each node serves, in the order of the slurm.conf, else as scontrol shows them."""
    found: dict[str, list[str]] = {name: [] for name in rows}
    for partition in conf.partitions:
        names = conf.hosts(partition)
        for name in rows if names is None else names & rows.keys():
            found[name].append(partition)
    for name, shown in site.nodes.items():
        if name in found:
            others = [one for one in shown.partitions if one not in found[name]]
            is_new = rows[name] is shown.row  # the slurm.conf does not name it
            found[name] += [one for one in others if is_new or one not in conf.partitions]
    return {name: tuple(partitions) for name, partitions in found.items()}


def _tree(
    site: Site, conf: SlurmConf, nodes: Mapping[str, NodeGroup]
) -> tuple[tuple[Switch, ...], dict[str, str], list[str]]:
    """Return the switches that lead to nodes of the machine, the leaf switch of each node, and what does not count."""
    if not site.switches:
        return (), {}, []
    first = next(iter(site.switches.values()))["switchname"].place
    if not conf.text("TopologyPlugin", "").lower().endswith("tree"):
        return (), {}, [f"{first}: not used, as TopologyPlugin is not topology/tree"]
    leaf_of: dict[str, str] = {}
    above: dict[str, str] = {}
    for switch, row in site.switches.items():
        for kind, key, place_of in (("node", "nodes", leaf_of), ("switch", "switches", above)):
            told = row.get(key, Setting(key, "", ""))
            for name in nodes if told.value.upper() == "ALL" else names_of(told):
                if (kind == "switch" or name in nodes) and place_of.setdefault(name, switch) != switch:
                    raise JobcastError(
                        f"{told.place}: {kind} {name} lies below {place_of[name]} already; name it once."
                    )
    without = [name for name in nodes if name not in leaf_of]
    if without:
        text = f"{first}: not used, as {counted(len(without), 'node')} have no switch there"
        return (), {}, [f"{text}: {host_list(without)[:80]}"]
    used = set(leaf_of.values())
    while more := {above[name] for name in used if name in above} - used:
        used |= more  # other switches lead nowhere
    return tuple(Switch(name, above.get(name)) for name in site.switches if name in used), leaf_of, []


def outages_of(site: Site, source: str, epoch: int | None) -> Outages:
    """Return the reservations of nodes of a site's machine, on the clock of a log that begins at `epoch`."""
    made = machine_of(site, source)
    number = {} if made is None else {name: i for i, name in enumerate(made.names)}
    kept = []
    for one in site.reservations:
        pieces = tuple((at, at + 1) for at in sorted(number[name] for name in number.keys() & one.hosts))
        if pieces and epoch is None:
            raise JobcastError(
                f"{source}: reservation {printable(one.name)[:40]!r} has a date, and the log has no start date; name "
                "other --outages."
            )
        if pieces and epoch is not None:
            kept.append(Reservation(one.start - epoch, one.end - epoch, nodes=pieces, at=f"{source}: {one.place}"))
    return Outages(tuple(kept))
