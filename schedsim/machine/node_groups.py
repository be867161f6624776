"""Machines of nodes that differ: groups of nodes with processors, GPUs and memory, from a TOML file.

docs/how-to/gpus-and-memory.md shows the file. Nodes are numbered in its order, and jobs placed in that order by first
fit. A job asks for equal pieces:

* where the log has its nodes (asked for, else given), a piece for each, on separate nodes;
* else a piece for each GPU; without GPUs a piece for each processor. As many pieces lie on a node as fit.

Each piece takes its share of the job's processors, GPUs and memory, rounded up. Without GPUs, memory or exclusivity in
the log, a job asks for none. A job may use the nodes that serve its partition (its queue, where the log has no
partition), that have the features of its constraint (`schedsim.machine.constraints`) and GPUs of its type. What it does
not tell it does not ask for; and what no group of the file names, features or types, counts for no job.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import Field

import schedsim.kernels.places.records as of
from predictors.core.arrays import Bools, Ints
from predictors.core.declarations import STRICT, check_fields, declared, known_keys, read_toml
from predictors.core.errors import JobcastError, counted
from predictors.data.joblog import NODES_OF_USER, OWN_NODES, JobLog
from predictors.data.report import ReadingReport, ReportBuilder
from schedsim.kernels.records import NEVER
from schedsim.machine.constraints import NAME, Constraint, read_constraint
from schedsim.machine.topology import MOST_NODES, Switch, Tree, tree_of
from schedsim.workload.demands import KB_OF_GB, Demands, count_users
from schedsim.workload.workload import MOST_PROCS

RULES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "no-place": ("dropped", "it fits on no node of the machine, even when no other job runs"),
        "unknown-memory": ("noted", "memory asked for unknown; it takes none of the nodes' memory"),
        "unknown-partition": ("noted", "partition unknown; it may use every node"),
        "constraint": ("noted", "features that its nodes must have are ignored: the machine file has none"),
        "constraint-unread": (
            "noted",
            "its constraint is ignored: no expression of features, or brackets next to other terms",
        ),
        "feature-counts": (
            "noted",
            "counts of nodes with a feature are ignored: each of its nodes has one of the features; any node does "
            "where a single one counts fewer than it asks for",
        ),
        "matching-or": ("noted", "each of its nodes has one of the features in brackets, not all of them the same"),
        "gpu-type": ("noted", "the type of its GPUs is ignored: the machine file has none"),
        "gpu-types": ("noted", "it asks for GPUs of several types; nodes with any of them do"),
    }
)
MOST_IN_A_NODE: Final = 1_000_000
MOST_WEIGHT: Final = 1 << 32
MOST_MEMORY: Final = 1 << 62  # larger requests count as this [KB]: no machine has it


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: Annotated[str, Field(min_length=1)]  # its name in messages
    count: Annotated[int, Field(ge=1, le=MOST_NODES)]
    # processors, gpus: of each node
    processors: Annotated[int, Field(ge=1, le=MOST_IN_A_NODE)]
    gpus: Annotated[int, Field(ge=0, le=MOST_IN_A_NODE)] = 0
    # of each node, 1 GB being 2**20 KB; without it memory does not count on these nodes
    memory_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    partitions: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # the partitions that they serve; empty: every one
    one_job: bool = False  # whether a node serves one job at a time
    weight: Annotated[int, Field(ge=1, le=MOST_WEIGHT)] = 1  # Slurm's loops take nodes of the lowest weight first
    features: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # what they have, as constraints of jobs name it
    gpu_type: Annotated[str, Field(min_length=1)] | None = None  # the type of their GPUs
    # their leaf switch; a list such as `leaf[1-4]` has equal parts of them, in turn
    switch: Annotated[str, Field(min_length=1)] | None = None

    @property
    def words(self) -> str:
        """Its name and its keys, as in a machine file."""
        words = f"{self.name}: count {self.count}, processors {self.processors}"
        words += f", gpus {self.gpus}" if self.gpus else ""
        words += "" if self.gpu_type is None else f", gpu_type {self.gpu_type}"
        words += "" if self.memory_gb is None else f", memory_gb {self.memory_gb!r}"
        words += f", partitions {' '.join(self.partitions)}" if self.partitions else ""
        words += f", features {' '.join(self.features)}" if self.features else ""
        words += f", weight {self.weight}" if self.weight != 1 else ""
        words += "" if self.switch is None else f", switch {self.switch}"
        return words + (", one_job" if self.one_job else "")

    @property
    def memory(self) -> int:
        """Memory of each node [KB]."""
        return int(of.UNLIMITED) if self.memory_gb is None else int(self.memory_gb * KB_OF_GB)


@dataclass(frozen=True)
class Machine:
    """A machine of groups of nodes, numbered from 0 in their order.

    >>> machine = Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 1, 8, gpus=4, memory_gb=64)))
    >>> machine.procs, machine.gpus, machine.n_nodes
    (24, 4, 3)
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    nodes: tuple[NodeGroup, ...]
    source: str = "the machine"  # where it was read, for messages
    switches: tuple[Switch, ...] = ()  # those that the groups name, and those above them; empty: all below one
    # the site's rules on what jobs ask of nodes where the log does not tell, with a `digest`, as
    # `schedsim.sites.slurm.files.SlurmFiles` has them; they count under policies that have none
    asks: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise JobcastError(f"{self.source}: needs a [[nodes]] for each group of nodes.")
        for group in self.nodes:
            check_fields(group, f"{self.source}: nodes")
            _check_names(group, f"{self.source}: nodes {group.name!r}")
        for name, groups in Counter(group.name for group in self.nodes).items():
            if groups > 1:
                raise JobcastError(f"{self.source}: {groups} groups of nodes are called {name!r}; rename.")
        if self.n_nodes > MOST_NODES:
            raise JobcastError(f"{self.source}: a machine has at most {MOST_NODES:,} nodes; got {self.n_nodes:,}.")
        if self.procs > MOST_PROCS:
            raise JobcastError(
                f"{self.source}: a machine has at most {MOST_PROCS:,} processors; got {self.procs:,}. Count sockets or "
                "nodes in place of processors, in the log too."
            )
        for switch in self.switches:
            check_fields(switch, f"{self.source}: switches")
        _ = self.tree

    @property
    def n_nodes(self) -> int:
        """How many nodes it has."""
        return sum(group.count for group in self.nodes)

    @property
    def procs(self) -> int:
        """How many processors its nodes have."""
        return sum(group.count * group.processors for group in self.nodes)

    @property
    def gpus(self) -> int:
        """How many GPUs its nodes have."""
        return sum(group.count * group.gpus for group in self.nodes)

    @property
    def plain(self) -> object:
        """Its groups of nodes as plain values, with its switches where it has some."""
        declared: dict[str, Any] = {
            name: [asdict(one) for one in getattr(self, name)] for name in ("nodes", "switches")
        }
        if self.asks is not None:
            return declared | {"asks": self.asks.digest}
        return declared if self.switches else declared["nodes"]

    @property
    def words(self) -> str:
        """Everything that schedules depend on.

        >>> Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 1, 8, gpus=4, memory_gb=64, one_job=True))).words
        'thin: count 2, processors 8; gpu: count 1, processors 8, gpus 4, memory_gb 64, one_job'
        """
        return "; ".join([*(group.words for group in self.nodes), *(switch.words for switch in self.switches)])

    @cached_property
    def tree(self) -> Tree | None:
        """The switches of its nodes, if they have any."""
        return tree_of([(one.name, one.count, one.switch) for one in self.nodes], self.switches, self.source)

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that its groups name."""
        return tuple(dict.fromkeys(name for group in self.nodes for name in group.partitions))

    def table(self) -> Any:
        """Return a record of each node when no job runs, see `schedsim.kernels.places.records.Node`."""
        table = np.zeros(self.n_nodes, of.NODE)
        counts = [group.count for group in self.nodes]
        for name, values in (
            ("procs", [group.processors for group in self.nodes]),
            ("gpus", [group.gpus for group in self.nodes]),
            ("memory", [group.memory for group in self.nodes]),
            ("one_job", [group.one_job for group in self.nodes]),
            ("reserved_from", [NEVER] * len(counts)),
        ):
            table[name] = np.repeat(values, counts)
        table.flags.writeable = False
        return table

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The features that its groups name."""
        return tuple(dict.fromkeys(name for group in self.nodes for name in group.features))

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The types of GPUs that its groups name."""
        return tuple(dict.fromkeys(group.gpu_type for group in self.nodes if group.gpu_type is not None))


def _check_names(group: NodeGroup, where: str) -> None:
    """Refuse lists that name something twice, features that no constraint can name, and types of no GPUs."""
    for key, names in (("partitions", group.partitions), ("features", group.features)):
        for name, times in Counter(names).items():
            if times > 1:
                raise JobcastError(f"{where}: {key} names {name!r} {times} times; leave the others out.")
    for name in group.features:
        if NAME.fullmatch(name) is None:
            raise JobcastError(
                f"{where}: no constraint can name the feature {name!r}: it has a blank or one of & | , ( ) [ ] *; "
                "rename it."
            )
    if group.gpu_type is not None and not group.gpus:
        raise JobcastError(f"{where}: gpu_type {group.gpu_type!r} without GPUs; set gpus, or leave it out.")
    if group.gpu_type is not None and re.search(r"[\s,]", group.gpu_type):
        raise JobcastError(f"{where}: gpu_type {group.gpu_type!r} has a blank or a comma; make a group of each type.")


def read_machine(path: str | os.PathLike[str]) -> Machine:
    table = known_keys(read_toml(path, "a machine, a TOML file"), ("nodes", "switches"), os.fspath(path))
    made = declared(Machine, table, os.fspath(path))
    for number, (group, keys) in enumerate(zip(made.nodes, table["nodes"], strict=True), 1):
        for key, then in (("partitions", "they serve all"), ("features", "they have none")):
            if key in keys and not getattr(group, key):
                raise JobcastError(
                    f"{path}: nodes {number} ({group.name!r}): {key} names none; leave it out: then {then}."
                )
    return Machine(made.nodes, os.fspath(path), made.switches)


def demands_of(
    log: JobLog,  # cleaned by `predictors.data.cleaning.clean` for as many processors as the machine has
    machine: Machine,
    drop: bool = False,  # leave out jobs that fit on no node instead of refusing the log
    # the same jobs with the memory and exclusivity that they have by a site's rules; by default as in the log
    asking: JobLog | None = None,
) -> tuple[JobLog, Demands, ReadingReport]:
    """Return the jobs of a cleaned log that have a place on a machine, what they ask of its nodes, and the account.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "requested_procs": [12, 4],
    ...                            "requested_gpus": [0, 2], "requested_nodes": [2, 1]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("gpu", 2, 8, gpus=4),)))
    >>> demands.words(0), demands.words(1)
    ('2 nodes with 6 processors each', '1 node with 4 processors and 2 GPUs')
    """
    report = ReportBuilder(log.name, RULES, place="job")
    asking = log if asking is None else asking
    found, memory = _demands(asking, machine), _memory(asking)
    fits = found.fits
    if not fits.all():
        if not drop:
            raise _no_place(log, machine, found, int(np.argmin(fits)), int((~fits).sum()))
        report.add("no-place", log.values["job_id"][~fits])
        if not fits.any():
            raise JobcastError(
                f"{log.name}: no job fits on {machine.source}; compare its nodes with what the log asks."
            )
        log, found = log.select(fits), found.of_rows(np.flatnonzero(fits))
    job_id = log.values["job_id"]
    _note_ignored(report, log, machine, found.shapes["pieces"][found.shape_of])
    if (found.nodes["memory"] < of.UNLIMITED).any():
        report.add("unknown-memory", job_id[memory[fits] <= 0], "requested_memory")
    if machine.partitions:
        column = log.partition_column
        report.add("unknown-partition", job_id[~log.known(column)], column)
    return log, found, report.close()


def _demands(log: JobLog, machine: Machine) -> Demands:
    """Return what the jobs of a log ask for, including those that fit nowhere."""
    nodes, procs = machine.table(), log.procs
    gpus = first_known(log, "requested_gpus", "allocated_gpus")
    memory = _memory(log) if (nodes["memory"] < of.UNLIMITED).any() else np.zeros_like(procs)
    n_nodes = first_known(log, "requested_nodes", "nodes")
    pieces = np.where(n_nodes > 0, n_nodes, np.where(gpus > 0, gpus, procs))
    node_set, partition, sets = _node_sets(log, machine, n_nodes)
    exclusive, keeper = _exclusive(log)
    table = np.stack(
        [
            pieces,
            np.maximum(1, -(-procs // pieces)),
            -(-gpus // pieces),
            -(-memory // pieces),
            n_nodes > 0,
            exclusive > 0,
            node_set,
            partition,
            keeper,
        ],
        axis=1,
    )
    unique, shape_of = np.unique(table, axis=0, return_inverse=True)
    shapes = np.zeros(len(unique), of.DEMAND)
    names = ("pieces", "procs", "gpus", "memory", "spread", "exclusive", "node_set", "partition")
    for place, name in enumerate(names):
        shapes[name] = unique[:, place]
    users = count_users(shapes, unique[:, -1], int(nodes["procs"].max()))  # type: ignore[arg-type]
    ends = np.cumsum(sets.sum(axis=1))
    shapes["end_member"] = ends[shapes["node_set"]]
    shapes["first_member"] = shapes["end_member"] - sets.sum(axis=1)[shapes["node_set"]]
    members, shape_of = np.nonzero(sets)[1].astype(np.int64), shape_of.reshape(-1).astype(np.int64)
    for array in (members, sets, shapes, shape_of):
        array.flags.writeable = False
    weights = [group.weight for group in machine.nodes]
    weight_of = None if set(weights) == {1} else np.repeat(weights, [group.count for group in machine.nodes])
    tree = {} if machine.tree is None else machine.tree._asdict()
    return Demands(nodes, members, sets, shapes, shape_of, users, weight_of=weight_of, **tree)  # type: ignore[arg-type]


def _exclusive(log: JobLog) -> tuple[Ints, Ints]:
    """Return how exclusive each job is, and of the users that keep nodes to their own jobs the number, from 1 on.

    The number is 0 for other users, and for jobs that share nodes with none: so do jobs of unknown users that would
    keep them to their user.
    """
    exclusive, user = log.filled("exclusive"), log.filled("user")
    exclusive = np.where((exclusive == NODES_OF_USER) & ~log.known("user"), OWN_NODES, exclusive)
    users = np.unique(user[exclusive == NODES_OF_USER])
    keeps = np.isin(user, users) & log.known("user") & (exclusive != OWN_NODES)
    return exclusive, np.where(keeps, np.searchsorted(users, user) + 1, 0)


def first_known(log: JobLog, *columns: str) -> Ints:
    """Return the first value above 0 of some columns in each row, else 0."""
    found = np.zeros(len(log), dtype=np.int64)
    for column in columns:
        found = np.where(found > 0, found, np.maximum(0, log.filled(column)))
    return found


def _memory(log: JobLog) -> Ints:
    whole, by_processor = log.filled("requested_job_memory"), log.filled("requested_memory")
    most = np.maximum(0, by_processor)
    product = np.where(most > MOST_MEMORY // log.procs, MOST_MEMORY, most * log.procs)  # not beyond an int64
    return np.where(whole > 0, whole, product)


def _node_sets(
    log: JobLog,
    machine: Machine,
    n_nodes: Ints,  # shape (n_jobs,); how many nodes each job takes, 0 where that is unknown
) -> tuple[Ints, Ints, Bools]:
    """Return the numbers of each job's node set and of its partition's, (n_jobs,), and all sets, (n_sets, n_nodes)."""
    groups, kind = machine.nodes, np.zeros(len(log), dtype=np.int64)  # jobs of a kind have the same texts
    asked = []  # the groups of nodes that match each text of a column, and the number of each job's
    for column, matching in _filters(log, machine):
        number, texts = _texts(log, column)
        rows = [np.ones(len(groups), dtype=np.bool_) if text is None else matching(text) for text in (*texts, None)]
        if column == "constraint":
            read = [read_constraint(text or "") for text in texts]  # none matches with a feature that no node has
            covers = [one.covers if one is not None and row.any() else 0 for one, row in zip(read, rows, strict=False)]
            least = np.array(covers, dtype=np.int64)[number]
            number = np.where((least > 0) & (n_nodes > least), len(texts), number)
        asked.append((np.stack(rows), number))
        kind = np.unique(kind * len(rows) + number, return_inverse=True)[1].reshape(-1)
    one_each = np.unique(kind, return_index=True)[1]
    tables = [np.ones((len(one_each), len(groups)), dtype=np.bool_)]
    tables += [rows[number[one_each]] for rows, number in asked]
    of_kind = np.concatenate([np.logical_and.reduce(tables), tables[1 if machine.partitions else 0]])
    numbers: dict[bytes, int] = {}
    number = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in of_kind], dtype=np.int64)
    first = np.unique(number, return_index=True)[1]
    sets = np.repeat(of_kind[first], [group.count for group in groups], axis=1)
    return number[kind], number[kind + len(one_each)], sets


def _filters(log: JobLog, machine: Machine) -> list[tuple[str, Callable[[str], Bools]]]:
    """Return the columns of a log by which jobs use some nodes alone, and which groups match a text of each."""
    groups = machine.nodes

    def serving(text: str) -> Bools:
        names = _listed(text)
        return np.array([not names or not g.partitions or not set(names).isdisjoint(g.partitions) for g in groups])

    def having(text: str) -> Bools:
        asked, every = read_constraint(text), np.ones(len(groups), dtype=np.bool_)
        if asked is None:
            return every
        if not set(asked.names) <= set(machine.features):
            return ~every
        return every & asked.matched(lambda name: np.array([name in g.features for g in groups]))

    def of_types(text: str) -> Bools:
        names = _listed(text)
        return np.array([not names or g.gpu_type in names for g in groups])

    filters = (
        (log.partition_column, serving, machine.partitions), ("constraint", having, machine.features),
        ("gpu_type", of_types, machine.gpu_types),
    )  # fmt: skip
    return [(column, matching) for column, matching, named in filters if named]


def _texts(log: JobLog, column: str) -> tuple[Ints, list[str | None]]:
    """Return the number of each job's text in a column, and the texts; None stands for an unknown one."""
    names = log.names(column)
    codes, number = np.unique(np.where(log.known(column), log.filled(column), -1), return_inverse=True)
    texts = [None if code < 0 else names[code] if code < len(names) else str(code) for code in codes.tolist()]
    return number.reshape(-1).astype(np.int64), texts


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _note_ignored(report: ReportBuilder, log: JobLog, machine: Machine, pieces: Ints) -> None:
    """Report what of constraints and types of GPUs goes into no node set; `pieces` are those of each job."""

    def note(rule: str, column: str, holds: Callable[[str], bool], among: Bools | None = None) -> None:
        number, texts = _texts(log, column)
        rows = np.array([text is not None and holds(text) for text in texts], dtype=np.bool_)[number]
        rows = rows if among is None else rows & among
        if rows.any():
            report.add(rule, log.values["job_id"][rows], column, texts[int(number[rows][0])] or "")

    if machine.features:
        none = Constraint()
        note("constraint-unread", "constraint", lambda text: read_constraint(text) is None)
        note("feature-counts", "constraint", lambda text: (read_constraint(text) or none).count > 0)
        note("matching-or", "constraint", lambda text: (read_constraint(text) or none).is_matching, pieces > 1)
    else:
        note("constraint", "constraint", lambda _: True)
    if machine.gpu_types:
        note("gpu-types", "gpu_type", lambda text: len(_listed(text)) > 1)
    else:
        note("gpu-type", "gpu_type", lambda _: True)


def _without_nodes(log: JobLog, machine: Machine, row: int) -> str:
    """Return why no node may run a job, in words that follow what it asks for."""
    about = {
        log.partition_column: ("in the partition {0!r}, which no node of {1} serves ({2})", machine.partitions),
        "constraint": ("with the constraint {0!r}, but no node of {1} has the feature {3!r} ({2})", machine.features),
        "gpu_type": ("with GPUs of the type {0!r}, which no node of {1} has ({2})", machine.gpu_types),
    }
    told = []
    for column, matching in _filters(log, machine):
        number, texts = _texts(log, column)
        text = texts[int(number[row])]
        if text is None:
            continue
        words, known = about[column]
        asked = read_constraint(text) if column == "constraint" else None
        lacking = [name for name in asked.names if name not in known] if asked is not None else [text]
        if lacking and not matching(text).any():
            return words.format(text, machine.source, ", ".join(known), lacking[0])
        told.append(words.partition(",")[0].format(text))
    return f"{' '.join(told)}, and no node of {machine.source} has all of that"


def _no_place(log: JobLog, machine: Machine, demands: Demands, row: int, count: int) -> JobcastError:
    """Return the error for a job without a place even on the idle machine."""
    shape = int(demands.shape_of[row])
    asked, serving = demands.shapes[shape], int(demands.serves[demands.shapes[shape].node_set].sum())
    more = f" ({counted(count - 1, 'more job')} likewise)" if count > 1 else ""
    which = f"{log.name}: job {log.values['job_id'][row]} asks for {demands.words(row)}{more}"
    ways = "give the nodes that it needs, or --drop-wide to leave such jobs out."
    if asked.gpus > 0 and machine.gpus == 0:
        return JobcastError(f"{which}, but {machine.source} has no GPU: set gpus of a [[nodes]]; {ways}")
    if serving == 0:
        return JobcastError(f"{which} {_without_nodes(log, machine, row)}; {ways}")
    room = counted(int(demands.room[shape]), "piece") if asked.pieces > 1 else "none"
    of_them = "" if asked.pieces == 1 else f" of its {int(asked.pieces):,}"
    return JobcastError(
        f"{which}; the {counted(serving, 'node')} of {machine.source} that it may use have room for {room}{of_them}, "
        f"even when no other job runs; {ways}"
    )
