"""A slurm.conf, read as it stands: parameters, partitions and the processors of the nodes; see slurm.conf(5).

Keys are compared without case, lines that end with a backslash go on, `#` begins a comment, and `Include` reads another
file, from the folder of the one that names it; one with a whole path that is not there counts as copied to that folder.
`DEFAULT` lines give values to the nodes and partitions after them.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Final

from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, printable
from predictors.data.formats.columns import span
from predictors.data.slurm.hosts import host_count, hostnames

MOST_INCLUDES: Final = 8  # files that include one another, at most so deep
MOST_FILES: Final = 256  # files that one includes in all
MOST_NAMES: Final = 1_000_000  # names of nodes to compare; no cluster has more
# possessive, from the begin of a word alone: a damaged line of a megabyte takes no longer than others
_PAIR: Final = re.compile(r'(?<![\w.-])(\w[\w.-]*+)\s*+=\s*("[^"]*"|\S*)')
ENDLESS: Final = frozenset(("INFINITE", "UNLIMITED"))
_BIGGEST: Final = 1 << 32


@dataclass(frozen=True)
class Setting:
    """A parameter: its name and value as written, and the file and line."""

    name: str
    value: str
    place: str


@dataclass(frozen=True, eq=False)
class SlurmConf:
    """What a slurm.conf says.

    >>> conf = SlurmConf.of_lines("slurm.conf", [("a:1", "PriorityMaxAge=1-0"), ("a:2", "NodeName=n[1-4] CPUs=8")])
    >>> conf.seconds("PriorityMaxAge", 604800), conf.whole("PriorityWeightAge", 0), conf.nodes, conf.procs
    (86400, 0, 4, 32)
    """

    source: str  # the file
    settings: Mapping[str, Setting]  # parameters by their names in small letters; of two equal ones the last
    partitions: Mapping[str, Mapping[str, Setting]]  # partitions by name, each with its own and the default values
    # nodes, procs: nodes and their processors; 0 where the file has none
    nodes: int
    procs: int
    # nodes of each NodeName line, and what it says of them; lists of nodes by the name of a NodeSet
    node_lines: tuple[tuple[Setting, Mapping[str, Setting]], ...] = ()
    node_sets: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_lines(cls, source: str, lines: list[tuple[str, str]]) -> "SlurmConf":
        """Return what lines say, each with its place."""
        settings: dict[str, Setting] = {}
        partitions: dict[str, Mapping[str, Setting]] = {}
        defaults: dict[str, dict[str, Setting]] = {"nodename": {}, "partitionname": {}}
        nodes = procs = 0
        seen: dict[tuple[str, str], str] = {}  # where each node and partition is named
        node_lines = list[tuple[Setting, Mapping[str, Setting]]]()
        node_sets = dict[str, dict[str, Setting]]()

        def name_once(kind: str, name: str, place: str) -> None:
            if seen.setdefault((kind, name), place) != place:
                raise JobcastError(
                    f"{place}: {kind} {printable(name)[:40]!r} is named twice, first at {seen[kind, name]}; leave one "
                    "out."
                )

        for place, line in lines:
            pairs = pairs_of(place, line, "slurm.conf")
            kind, row = pairs[0].name.lower(), {one.name.lower(): one for one in pairs[1:]}
            if kind == "nodeset":
                node_sets[pairs[0].value] = row
                continue
            if kind not in defaults:
                settings |= {one.name.lower(): one for one in pairs}
                continue
            if pairs[0].value.upper() == "DEFAULT":
                defaults[kind] |= row
                continue
            row = defaults[kind] | row
            if kind == "partitionname":
                name_once("partition", pairs[0].value, place)
                partitions[pairs[0].value] = MappingProxyType(row)
                continue
            count = _nodes_of(pairs[0])
            nodes += count
            for name in hostnames(pairs[0].value) if nodes <= MOST_NAMES else ():
                name_once("node", name, place)
            procs += count * processors_of(row)
            node_lines.append((pairs[0], MappingProxyType(row)))
        tables = MappingProxyType(settings), MappingProxyType(partitions)
        sets = {name: _node_set(row, node_lines) for name, row in node_sets.items()}
        return cls(source, *tables, nodes, procs, tuple(node_lines), MappingProxyType(sets))

    def resources(self, partition: str) -> dict[str, float]:
        """Return how much of each trackable resource the nodes of a partition have; memory in MB.

        >>> lines = ["NodeName=n[1-4] CPUs=8 RealMemory=4000 Gres=gpu:a100:2", "PartitionName=p Nodes=n[1-3]"]
        >>> SlurmConf.of_lines("slurm.conf", [("slurm.conf:1", line) for line in lines]).resources("p")
        {'node': 3.0, 'cpu': 24.0, 'mem': 12000.0, 'gres/gpu': 6.0, 'gres/gpu:a100': 6.0}
        """
        found: dict[str, float] = {}
        wanted = self.hosts(partition)
        self._check(partition, wanted, {name for names, _ in self.node_lines for name in hostnames(names.value)})
        for names, row in self.node_lines:
            count = host_count(names.value) if wanted is None else len(wanted & set(hostnames(names.value)))
            for tres, amount in _resources_of(row).items() if count else ():
                found[tres] = found.get(tres, 0.0) + count * amount
        return found

    def check_nodes(self) -> None:
        """Refuse partitions of nodes without a NodeName, as Slurm does; a file without any NodeName has them elsewhere.

        >>> lines = ["NodeName=n[1-4] CPUs=8", "PartitionName=p Nodes=n[1-5]"]
        >>> SlurmConf.of_lines("slurm.conf", [("slurm.conf:1", line) for line in lines]).check_nodes()
        Traceback (most recent call last):
        ...
        predictors.core.errors.JobcastError: slurm.conf:1: Nodes of partition p names 'n5', for which slurm.conf has \
no NodeName, and no NodeSet; name the nodes.
        """
        if not 0 < self.nodes <= MOST_NAMES:
            return
        known = {name for names, _ in self.node_lines for name in hostnames(names.value)}
        for partition in self.partitions:
            self._check(partition, self.hosts(partition), known)

    def _check(self, partition: str, named: set[str] | None, known: set[str]) -> None:
        told = self.partitions[partition].get("nodes")
        if told is None or named is None:
            return
        if unknown := min(named - known, default="") if named else told.value:
            raise JobcastError(
                f"{told.place}: Nodes of partition {printable(partition)} names {printable(unknown)[:40]!r}, for which "
                f"{self.source} has no NodeName, and no NodeSet; name the nodes."
            )

    def hosts(self, partition: str) -> set[str] | None:
        """Return the names of a partition's nodes, those of its NodeSets too; None for all of the cluster."""
        told = self.partitions[partition].get("nodes", Setting("Nodes", "", ""))
        lists = self.lists_of(told)
        takes_all = any(one.upper() == "ALL" for one in lists)
        return None if takes_all else set(names_of(Setting(told.name, ",".join(lists), told.place)))

    def lists_of(self, nodes: Setting) -> list[str]:
        """Return the lists of nodes that a partition's Nodes names, its NodeSets by their nodes."""
        return [self.node_sets.get(one, one) for one in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodes.value)]

    def text(self, name: str, usual: str) -> str:
        """Return a parameter, or what Slurm takes without it."""
        found = self.settings.get(name.lower())
        return usual if found is None else found.value

    def whole(self, name: str, usual: int) -> int:
        """Return a whole number."""
        return whole_of(self.settings.get(name.lower()), usual)

    def seconds(self, name: str, usual: int, *, may_be_0: bool = False) -> int:
        """Return a time, which Slurm writes in minutes or as `[days-]hours:minutes:seconds`, in seconds."""
        found = self.settings.get(name.lower())
        return usual if found is None else seconds_of(found, may_be_0=may_be_0)

    def options(self, name: str) -> dict[str, str]:
        """Return the comma-separated options of a parameter, by name in small letters; the value is empty for a flag.

        >>> lines = [("slurm.conf:1", "SchedulerParameters=bf_window=2880,defer")]
        >>> SlurmConf.of_lines("slurm.conf", lines).options("SchedulerParameters")
        {'bf_window': '2880', 'defer': ''}
        """
        parts = (part.partition("=") for part in self.text(name, "").split(",") if part.strip())
        return {key.strip().lower(): value.strip() for key, _, value in parts}


def _node_set(row: Mapping[str, Setting], node_lines: list[tuple[Setting, Mapping[str, Setting]]]) -> str:
    """Return the nodes of a NodeSet: those that it names, and those with its feature."""
    lists = [row["nodes"].value] if "nodes" in row else []
    if "feature" in row:
        lists += [names.value for names, told in node_lines if row["feature"].value in features_of(told)]
    return ",".join(lists)


def features_of(row: Mapping[str, Setting]) -> list[str]:
    """Return the features of a NodeName line."""
    told = row.get("features", row.get("feature"))
    return [] if told is None else [one.strip() for one in told.value.split(",")]


def processors_of(row: Mapping[str, Setting]) -> int:
    """Return the processors of each node of a NodeName line."""
    if "cpus" in row:
        return whole_of(row["cpus"], 1)
    parts = ("sockets",) if "sockets" in row else ("boards", "socketsperboard")
    procs = prod(whole_of(row.get(name), 1) for name in (*parts, "corespersocket", "threadspercore"))
    if procs >= _BIGGEST:
        place = next(iter(row.values())).place
        raise JobcastError(f"{place}: a node has at most {_BIGGEST - 1:,} processors; found {procs:,}.")
    return procs


def _resources_of(row: Mapping[str, Setting]) -> dict[str, float]:
    found = {"node": 1.0, "cpu": float(processors_of(row)), "mem": float(whole_of(row.get("realmemory"), 1))}
    if "gres" in row:
        for one in re.sub(r"\([^)]*\)", "", row["gres"].value).split(","):
            match = re.fullmatch(
                r"([\w-]+)((?::(?!\d+[KMGT]?$)[\w.-]+)?)(?::(\d{1,9})([KMGT]?))?", one.strip(), re.IGNORECASE
            )
            if match is None:
                place = row["gres"].place
                raise JobcastError(f"{place}: Gres is a list such as gpu:a100:4; found {printable(one)[:40]!r}.")
            amount = float(match[3] or 1) * 1024.0 ** "_KMGT".index((match[4] or "_").upper())
            for name in dict.fromkeys((f"gres/{match[1]}", f"gres/{match[1]}{match[2]}")):
                found[name.lower()] = found.get(name.lower(), 0.0) + amount
    return found


def _nodes_of(names: Setting) -> int:
    count = host_count(names.value)
    if not 0 < count < _BIGGEST or names.value.count("[") != names.value.count("]"):
        raise JobcastError(
            f"{names.place}: {names.name} is a list of nodes such as n[1-64], of 1 to {_BIGGEST - 1:,}; found "
            f"{printable(names.value)[:40]!r}."
        )
    return count


def names_of(found: Setting) -> list[str]:
    """Return the names in a list of nodes or switches."""
    if host_count(found.value) > MOST_NAMES:
        raise JobcastError(
            f"{found.place}: {found.name} names more than {MOST_NAMES:,}: {printable(found.value)[:40]!r}; correct it."
        )
    return hostnames(found.value)


def seconds_of(found: Setting, *, may_be_0: bool = False) -> int:
    """Return a time, which Slurm writes in minutes or as `[days-]hours:minutes:seconds`, in seconds.

    >>> seconds_of(Setting("MaxTime", "1-12", "slurm.conf:3")), seconds_of(Setting("MaxTime", "90", "slurm.conf:3"))
    (129600, 5400)
    """
    if found.value.upper() in ENDLESS:
        return _BIGGEST
    seconds = 60 * int(found.value) if re.fullmatch(r"\d{1,9}", found.value) else span(found.value)
    if seconds is None or (seconds == 0 and not may_be_0):
        least = "from 0 on" if may_be_0 else "above 0"
        raise JobcastError(
            f"{found.place}: {found.name} is a time {least}, such as 7-0 (days-hours) or 5 (minutes); found "
            f"{printable(found.value)[:40]!r}."
        )
    return seconds


def whole_of(found: Setting | None, usual: int = 0) -> int:
    """Return a whole number; `usual` where none is set."""
    if found is None:
        return usual
    if re.fullmatch(r"\d{1,10}", found.value) is None or int(found.value) >= _BIGGEST:
        raise JobcastError(
            f"{found.place}: {found.name} is a whole number from 0 to {_BIGGEST - 1:,}; found "
            f"{printable(found.value)[:40]!r}."
        )
    return int(found.value)


Texts = Mapping[str, str] | None
"""Texts by the paths of their files; None: the files themselves count."""


def read_slurm_conf(path: str | Path, texts: Texts = None) -> SlurmConf:
    r"""Read a slurm.conf and what it includes.

    >>> texts = {"slurm.conf": "ClusterName=big\nInclude more.conf", "more.conf": "PriorityMaxAge=5"}
    >>> read_slurm_conf("slurm.conf", texts).settings["prioritymaxage"].place
    'more.conf:1'
    """
    found = SlurmConf.of_lines(str(path), list(_lines(Path(path), (), [], texts)))
    if not found.settings and not found.partitions:
        raise JobcastError(f"{path}: holds no parameter of Slurm; name the site's slurm.conf.")
    return found


def files_of(path: str | Path) -> tuple[Path, ...]:
    """Return a slurm.conf and the files that it includes."""
    files: list[Path] = []
    for _ in _lines(Path(path), (), files, None):
        pass
    return tuple(files)


def _lines(path: Path, above: tuple[Path, ...], files: list[Path], texts: Texts) -> Iterator[tuple[str, str]]:
    """Give the lines of a file, without comments, and those of included files; each with its place.

    Each file is added to `files`, all that are read.
    """
    if os.path.realpath(path) in map(os.path.realpath, above) or len(above) > MOST_INCLUDES:
        raise JobcastError(f"{path}: is included in a circle, or more than {MOST_INCLUDES} deep; take that line out.")
    if len(files) >= MOST_FILES:
        raise JobcastError(f"{path}: is included behind {MOST_FILES} other files; take that line out.")
    files.append(path)
    try:
        if texts is not None and str(path) not in texts:
            raise JobcastError(f"{path}: is not among the site's texts; import its folder again.")
        text = read_text(path, "a slurm.conf") if texts is None else texts[str(path)]
    except JobcastError as error:
        if not above:
            raise
        raise JobcastError(f"{error} {above[-1]} includes it.") from error
    for place, line in lines_of(str(path), text):
        included = re.fullmatch(r"\s*include\s+(\S+)\s*", line, re.IGNORECASE)
        if included is None:
            yield place, line
            continue
        if "\0" in included[1]:
            raise JobcastError(f"{place}: {printable(included[1])[:60]!r} is no name of a file.")
        other = path.parent / included[1]
        copied = path.parent / other.name
        if other.is_absolute() and not _is_there(other, texts) and _is_there(copied, texts):
            other = copied
        yield from _lines(other, (*above, path), files, texts)


def _is_there(path: Path, texts: Texts) -> bool:
    return path.is_file() if texts is None else str(path) in texts


def lines_of(source: str, text: str) -> Iterator[tuple[str, str]]:
    """Give the lines of a file of Slurm's with their places, without comments; those that go on are joined."""
    begun, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = begun + re.split(r"(?<!\\)#", raw)[0].rstrip()
        first = first if begun else number
        begun = ""
        if line.endswith("\\"):
            begun = line[:-1]
        elif line.strip():
            yield f"{source}:{first}", line


def pairs_of(place: str, line: str, what: str) -> list[Setting]:
    """Return the pairs KEY=VALUE of a line; `what` names the file that has such lines."""
    pairs = [Setting(key, value.strip('"'), place) for key, value in _PAIR.findall(line)]
    if not pairs or _PAIR.sub("", line).strip():
        raise JobcastError(
            f"{place}: {printable(line)[:60]!r} is no line of a {what}, which has KEY=VALUE; name the site's {what}."
        )
    return pairs
