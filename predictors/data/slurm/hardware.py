"""A site's nodes beyond its slurm.conf: gres.conf, topology.conf, `scontrol show node` and `scontrol show res`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from predictors.core.errors import JobcastError, printable
from predictors.data.slurm.conf import Setting, lines_of, names_of, pairs_of, whole_of
from predictors.data.slurm.hosts import host_count

GPU: Final = "gpu"
NONE: Final = ("", "(null)", "N/A", "n/a")  # how scontrol writes nothing
NO_RESERVATIONS: Final = "No reservations in the system"
_KEY: Final = re.compile(r"(?<!\S)(\w+)=(\S*)")
_GPUS: Final = re.compile(r"gpu(?::(?!\d+(?:\(|$))([\w.-]+))?(?::(\d{1,6}))?(?:\(.*\))?", re.IGNORECASE)
_DOWN: Final = frozenset(
    ("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL", "MAINT", "NOT_RESPONDING")
)


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a node: how many, and the types that the files name."""

    count: int = 0
    types: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class ShownNode:
    """A node as scontrol shows it: what a NodeName line would say of it, and its state."""

    row: Mapping[str, Setting]
    partitions: tuple[str, ...]
    state: str
    place: str


@dataclass(frozen=True)
class ShownReservation:
    """A reservation as scontrol shows it; times are Unix time, those without a zone taken as UTC."""

    name: str
    start: int
    end: int
    nodes: str  # a list of hosts; empty where it holds none
    flags: tuple[str, ...]
    place: str

    @property
    def hosts(self) -> set[str]:
        return set(names_of(Setting("Nodes", self.nodes, self.place)))


def is_down(state: str) -> bool:
    """Return whether a node in a state takes no job; one that is switched off does.

    >>> is_down("IDLE+DRAIN"), is_down("DOWN*"), is_down("IDLE+CLOUD+POWERED_DOWN")
    (True, True, False)
    """
    return not _DOWN.isdisjoint(re.split(r"[+*]", state.upper()))


def gpus_of(gres: str, place: str = "") -> Gpus:
    """Return the GPUs in a node's list of GRES.

    >>> [(one.count, one.types) for one in map(gpus_of, ("gpu:a100:4(S:0-1),nvme:1", "gpu:2", "gpu:a:1,gpu:b:1"))]
    [(4, ('a100',)), (2, ()), (2, ('a', 'b'))]
    """
    found = [one for one in (_GPUS.fullmatch(part) for part in re.split(r",(?![^(]*\))", gres)) if one is not None]
    types = dict.fromkeys(one[1] for one in found if one[1])
    return Gpus(sum(int(one[2] or 1) for one in found), tuple(types), place)


def parse_gres(source: str, text: str) -> dict[str, Gpus]:
    """Return the GPUs of nodes by name; under "" those of lines that name no node.

    >>> parse_gres("gres.conf", "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]")["n2"].count
    4
    """
    found: dict[str, Gpus] = {}
    for place, row in _rows(source, text, "gres.conf"):
        if "name" not in row or row["name"].value.lower() != GPU:
            continue
        files = row.get("file", row.get("multiplefiles"))
        count = whole_of(row["count"]) if "count" in row else host_count(files.value) if files is not None else 1
        types = (row["type"].value,) if "type" in row else ()
        for name in names_of(row["nodename"]) if "nodename" in row else [""]:
            own = found.get(name, Gpus())
            found[name] = Gpus(own.count + count, tuple(dict.fromkeys((*own.types, *types))), place)
    return found


def parse_topology(source: str, text: str) -> dict[str, Mapping[str, Setting]]:
    """Return the lines of a topology.conf by the names of their switches.

    >>> parse_topology("topology.conf", "SwitchName=leaf1 Nodes=n[1-4]")["leaf1"]["nodes"].value
    'n[1-4]'
    """
    switches: dict[str, Mapping[str, Setting]] = {}
    for place, row in _rows(source, text, "topology.conf"):
        if "switchname" not in row:
            raise JobcastError(f"{place}: names no SwitchName: only trees are read; leave the file out.")
        for name in names_of(row["switchname"]):
            if name in switches:
                first = switches[name]["switchname"].place
                raise JobcastError(
                    f"{place}: switch {printable(name)[:40]!r} is named twice, first at {first}; leave one out."
                )
            switches[name] = row
    return switches


def _rows(source: str, text: str, what: str) -> Iterator[tuple[str, dict[str, Setting]]]:
    """Give the lines of a file as settings by their names in small letters, with their places."""
    for place, line in lines_of(source, text):
        yield place, {one.name.lower(): one for one in pairs_of(place, line, what)}


def _records(source: str, text: str, key: str) -> Iterator[tuple[str, str]]:
    """Give the records that begin with a key, each on one line, with their places."""
    begin, *records = re.split(rf"(?m)^(?={key}=)", text)
    number = 1 + begin.count("\n")
    for record in records:
        yield f"{source}:{number}", " ".join(record.split())
        number += record.count("\n")


_OF_A_NODE: Final = {
    "cpus": "CPUTot", "realmemory": "RealMemory", "gres": "Gres", "feature": "AvailableFeatures", "weight": "Weight",
    "threadspercore": "ThreadsPerCore", "memspeclimit": "MemSpecLimit", "corespeccount": "CoreSpecCount",
}  # fmt: skip
"""What scontrol calls the keys of a NodeName line."""


def parse_nodes(source: str, text: str) -> dict[str, ShownNode]:
    r"""Return the nodes that `scontrol show node` shows, by name.

    >>> text = "NodeName=n1 Arch=x86_64 CPUTot=8\n   RealMemory=4000 Gres=(null)\n   State=IDLE+DRAIN Partitions=a,b"
    >>> node = parse_nodes("nodes.txt", text)["n1"]
    >>> {key: one.value for key, one in node.row.items()}, node.partitions, is_down(node.state)
    ({'cpus': '8', 'realmemory': '4000'}, ('a', 'b'), True)
    """
    found: dict[str, ShownNode] = {}
    for place, record in _records(source, text, "NodeName"):
        told = dict(reversed(_KEY.findall(record)))  # the first of equal keys: Reason and Comment hold any text
        if "CPUTot" not in told:
            name = printable(told["NodeName"])[:40]
            raise JobcastError(f"{place}: node {name!r} has no CPUTot; write the file again: scontrol show node.")
        row = {
            key: Setting(shown, told[shown], place)
            for key, shown in _OF_A_NODE.items()
            if told.get(shown, "") not in NONE
        }
        parts = tuple(one for one in told.get("Partitions", "").split(",") if one not in NONE)
        found[told["NodeName"]] = ShownNode(row, parts, told.get("State", ""), place)
    return found


def parse_reservations(source: str, text: str) -> list[ShownReservation]:
    r"""Return the reservations that `scontrol show res` shows.

    >>> text = "ReservationName=maint StartTime=2027-01-10T08:00:00 EndTime=2027-01-10T09:00:00\n   Nodes=n[1-4]"
    >>> found = parse_reservations("res.txt", text)[0]
    >>> found.name, found.end - found.start, found.nodes
    ('maint', 3600, 'n[1-4]')
    """
    found = []
    for place, record in _records(source, text, "ReservationName"):
        told = dict(reversed(_KEY.findall(record)))
        times = [unix_of(told.get(key, ""), key, place) for key in ("StartTime", "EndTime")]
        if times[1] <= times[0]:
            raise JobcastError(
                f"{place}: the reservation ends at {told['EndTime']}, not after its begin; write it again."
            )
        nodes = "" if told.get("Nodes", "") in NONE else told["Nodes"]
        flags = tuple(one for one in told.get("Flags", "").split(",") if one not in NONE)
        found.append(ShownReservation(told["ReservationName"], times[0], times[1], nodes, flags, place))
    return found


def unix_of(text: str, key: str, place: str) -> int:
    """Return the Unix time of a date, or of such a time; without a zone it is taken as UTC."""
    if re.fullmatch(r"\d{9,11}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise JobcastError(f"{place}: {key} {printable(text)[:40]!r} is no date such as 2027-01-10T08:00:00.") from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
