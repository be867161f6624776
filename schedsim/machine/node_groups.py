"""Machines of nodes that differ: groups of nodes with processors, GPUs and memory, from a TOML file.

```toml
[[nodes]]
name = "thin"
count = 100
processors = 64            # of each node
memory_gb = 256            # left out: memory does not count on these nodes
partitions = ["batch"]     # left out: the nodes serve every partition
[[nodes]]
name = "gpu"
count = 20
processors = 64
gpus = 4
memory_gb = 512
partitions = ["gpu", "batch"]
one_job = true             # a node serves one job at a time
weight = 20                # Slurm's loops take nodes of the lowest weight first; left out: 1
```

Nodes are numbered in the order of the file, and jobs placed in that order by first fit. A job asks for equal pieces:

* where the log has its nodes (asked for, else given), a piece for each, on separate nodes;
* else a piece for each GPU; without GPUs a piece for each processor. As many pieces lie on a node as fit.

Each piece takes its share of the job's processors, GPUs and memory, rounded up. Without GPUs, memory or exclusivity in
the log, a job asks for none. A job may use the nodes that serve its partition (its queue, where the log has no
partition); one of unknown partition may use all.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import Field

import schedsim.kernels.places.records as of
from predictors.core.arrays import Bools, Ints
from predictors.core.declarations import STRICT, check_fields, declared, known_keys, read_toml
from predictors.core.errors import JobcastError, counted
from predictors.core.validation import LATEST
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder
from schedsim.kernels.records import NEVER
from schedsim.machine.failures import FailureProcess
from schedsim.machine.outages import Outages, Pieces, Reservation, where
from schedsim.machine.topology import MOST_NODES
from schedsim.workload.demands import KB_OF_GB, Demands
from schedsim.workload.workload import MOST_PROCS

RULES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "no-place": ("dropped", "it fits on no node of the machine, even when no other job runs"),
        "constraint": ("noted", "features that its nodes must have are ignored: the machine file has none"),
        "unknown-memory": ("noted", "memory asked for unknown; it takes none of the nodes' memory"),
        "unknown-partition": ("noted", "partition unknown; it may use every node"),
    }
)
MOST_IN_A_NODE: Final = 1_000_000
MOST_WEIGHT: Final = 1 << 32
MOST_RESERVED: Final = 1 << 27  # most reservations times kinds of nodes that they distinguish
MOST_MEMORY: Final = 1 << 62  # larger requests count as this [KB]: no machine has it


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes.

    Parameters
    ----------
    name : str
        Its name in messages.
    processors, gpus : int
        Of each node.
    memory_gb : float, optional
        Of each node, 1 GB being 2**20 KB; without it memory does not count on these nodes.
    partitions : tuple of str
        The partitions that they serve; empty: every one.
    one_job : bool
        Whether a node serves one job at a time.
    weight : int
        Slurm's loops take nodes of the lowest weight first.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    name: Annotated[str, Field(min_length=1)]
    count: Annotated[int, Field(ge=1, le=MOST_NODES)]
    processors: Annotated[int, Field(ge=1, le=MOST_IN_A_NODE)]
    gpus: Annotated[int, Field(ge=0, le=MOST_IN_A_NODE)] = 0
    memory_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    partitions: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    one_job: bool = False
    weight: Annotated[int, Field(ge=1, le=MOST_WEIGHT)] = 1

    @property
    def words(self) -> str:
        """Its name and its keys, as in a machine file."""
        words = f"{self.name}: count {self.count}, processors {self.processors}"
        words += f", gpus {self.gpus}" if self.gpus else ""
        words += "" if self.memory_gb is None else f", memory_gb {self.memory_gb!r}"
        words += f", partitions {' '.join(self.partitions)}" if self.partitions else ""
        words += f", weight {self.weight}" if self.weight != 1 else ""
        return words + (", one_job" if self.one_job else "")

    @property
    def memory(self) -> int:
        """Memory of each node [KB]."""
        return int(of.UNLIMITED) if self.memory_gb is None else int(self.memory_gb * KB_OF_GB)


@dataclass(frozen=True)
class Machine:
    """A machine of groups of nodes, numbered from 0 in their order.

    Parameters
    ----------
    source : str
        Where it was read, for messages.

    Examples
    --------
    >>> machine = Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 1, 8, gpus=4, memory_gb=64)))
    >>> machine.procs, machine.gpus, machine.n_nodes
    (24, 4, 3)
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    nodes: tuple[NodeGroup, ...]
    source: str = "the machine"

    def __post_init__(self) -> None:
        if not self.nodes:
            raise JobcastError(f"{self.source}: needs a [[nodes]] for each group of nodes.")
        for group in self.nodes:
            check_fields(group, f"{self.source}: nodes")
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
    def words(self) -> str:
        """Everything that schedules depend on.

        Examples
        --------
        >>> Machine((NodeGroup("thin", 2, 8), NodeGroup("gpu", 1, 8, gpus=4, memory_gb=64, one_job=True))).words
        'thin: count 2, processors 8; gpu: count 1, processors 8, gpus 4, memory_gb 64, one_job'
        """
        return "; ".join(group.words for group in self.nodes)

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that its groups name."""
        return tuple(dict.fromkeys(name for group in self.nodes for name in group.partitions))

    def table(self) -> Any:
        """Return a record of each node when no job runs, see `schedsim.kernels.places.records.Node`."""
        table = np.zeros(self.n_nodes, of.NODE)
        counts = [group.count for group in self.nodes]
        for field, values in (
            ("procs", [group.processors for group in self.nodes]),
            ("gpus", [group.gpus for group in self.nodes]),
            ("memory", [group.memory for group in self.nodes]),
            ("one_job", [group.one_job for group in self.nodes]),
            ("reserved_from", [NEVER] * len(counts)),
        ):
            table[field] = np.repeat(values, counts)
        table.flags.writeable = False
        return table

    def serving(self, names: tuple[str, ...]) -> Bools:
        """Return which nodes serve one of these partitions, shape (n_nodes,); without names, all do."""
        served = [
            not names or not group.partitions or not set(names).isdisjoint(group.partitions) for group in self.nodes
        ]
        return np.repeat(served, [group.count for group in self.nodes])


def read_machine(path: str | os.PathLike[str]) -> Machine:
    """Return the machine that a TOML file declares."""
    table = known_keys(read_toml(path, "a machine, a TOML file"), ("nodes",), os.fspath(path))
    made = declared(Machine, table, os.fspath(path))
    for number, (group, keys) in enumerate(zip(made.nodes, table["nodes"], strict=True), 1):
        if "partitions" in keys and not group.partitions:
            raise JobcastError(
                f"{path}: nodes {number} ({group.name!r}): partitions names none; leave it out: then they serve all."
            )
    return Machine(made.nodes, os.fspath(path))


def demands_of(log: JobLog, machine: Machine, drop: bool = False) -> tuple[JobLog, Demands, ReadingReport]:
    """Return what the jobs of a cleaned log ask of a machine's nodes.

    Parameters
    ----------
    log : JobLog
        Cleaned by `predictors.data.cleaning.clean` for as many processors as the machine has.
    drop : bool
        Leave out jobs that fit on no node instead of refusing the log.

    Returns
    -------
    log : JobLog
        The jobs that have a place.
    demands : Demands
        Of these jobs.
    account : ReadingReport
        What was left out or is unknown, by job id.

    Raises
    ------
    JobcastError
        If a job has no place even on the idle machine, or no job is left. The message names the first one.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "requested_procs": [12, 4],
    ...                            "requested_gpus": [0, 2], "requested_nodes": [2, 1]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("gpu", 2, 8, gpus=4),)))
    >>> demands.words(0), demands.words(1)
    ('2 nodes with 6 processors each', '1 node with 4 processors and 2 GPUs')
    """
    report = ReportBuilder(log.name, RULES, place="job")
    found = _demands(log, machine)
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
    report.add("constraint", job_id[log.known("constraint")], "constraint")
    if (found.nodes["memory"] < of.UNLIMITED).any():
        report.add("unknown-memory", job_id[_memory(log) <= 0], "requested_memory")
    if machine.partitions:
        column = log.partition_column
        report.add("unknown-partition", job_id[~log.known(column)], column)
    return log, found, report.close()


def reserving(demands: Demands, outages: Outages) -> Demands:
    """Return demands on nodes with reservations for maintenance or for others.

    Raises
    ------
    JobcastError
        If a reservation gives a number of processors instead of nodes, or nodes that the machine lacks.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0], "requested_procs": [2]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("thin", 2, 4),)))
    >>> reserving(demands, Outages([Reservation(5, 9, nodes=((1, 2),))])).closed.tolist()
    [[False, True]]
    """
    n_nodes = len(demands.nodes)
    for one in outages.reservations:
        if one.procs is not None:
            raise JobcastError(
                f"{where(one)}nodes of a machine file differ: name the reserved ones, such as 0-{n_nodes - 1}, "
                f"in place of their number {one.procs}."
            )
    outages.check_machine(n_nodes)
    windows = np.array([(one.start, one.end) for one in outages.reservations], dtype=np.int64).reshape(-1, 2)
    whole = ((0, n_nodes),)
    return demands.reserving(
        windows, *_kinds([whole if one.nodes is None else one.nodes for one in outages.reservations], n_nodes)
    )


def _kinds(reserved: Sequence[Pieces], n_nodes: int) -> tuple[Bools, Ints]:
    """Return which kinds of nodes are reserved each time, shape (n, n_kinds), and the kind of each node.

    Examples
    --------
    >>> closed, kind_of = _kinds([((0, 2), (3, 4)), ((2, 3),)], 5)
    >>> closed.tolist(), kind_of.tolist()
    ([[False, False, True], [False, True, False]], [2, 2, 1, 2, 0])
    """
    edges = np.unique([0, n_nodes, *(edge for pieces in reserved for piece in pieces for edge in piece)])
    if len(reserved) * len(edges) > MOST_RESERVED:
        raise JobcastError(
            f"{len(reserved):,} reservations of {len(edges) - 1:,} different groups of nodes are too many; "
            "leave the small ones out."
        )
    taken = np.zeros((len(reserved), len(edges) - 1), dtype=np.bool_)
    for row, pieces in zip(taken, reserved, strict=True):
        for first, end in np.searchsorted(edges, np.array(pieces).reshape(-1, 2)).tolist():
            row[first:end] = True
    if not len(taken):
        return np.empty((0, 1), dtype=np.bool_), np.zeros(n_nodes, dtype=np.int64)
    closed, kind = np.unique(taken, axis=1, return_inverse=True)
    return closed, np.repeat(kind.reshape(-1), np.diff(edges))


def in_processors(demands: Demands, outages: Outages) -> Outages:
    """Return reserved and failed nodes as numbers of reserved processors, in spans that do not overlap.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0], "requested_procs": [2]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("thin", 2, 4),)))
    >>> both = Outages([Reservation(5, 9, nodes=((1, 2),)), Reservation(7, 20)])
    >>> [(one.start, one.end, one.procs) for one in in_processors(demands, both).reservations]
    [(5, 7, 4), (7, 9, 8), (9, 20, 8)]
    """
    procs, n_nodes = demands.nodes["procs"], len(demands.nodes)
    closing, opening = defaultdict[int, list[Pieces]](list), defaultdict[int, list[Pieces]](list)
    for one in outages.reservations:
        pieces = ((0, n_nodes),) if one.nodes is None else one.nodes
        closing[one.start].append(pieces)
        opening[one.end].append(pieces)
    failing, times = FailureProcess.of_nodes(outages, n_nodes), np.zeros(n_nodes, dtype=np.int64)  # each is reserved
    spans: list[tuple[int, int, int]] = []
    since, level = -LATEST, 0
    for second in sorted({*closing, *opening, *outages.seconds.tolist(), LATEST}):
        if level:
            spans.append((since, second, level))
        for sign, changes in ((1, closing), (-1, opening)):
            for first, end in (piece for pieces in changes.pop(second, ()) for piece in pieces):
                times[first:end] += sign
        failing.advance(second)
        since, level = second, int(procs[(times > 0) | failing.is_down].sum())
    return Outages(tuple(Reservation(*span) for span in spans))


def _demands(log: JobLog, machine: Machine) -> Demands:
    """Return what the jobs of a log ask for, including those that fit nowhere."""
    nodes, procs = machine.table(), log.procs
    gpus = _first_known(log, "requested_gpus", "allocated_gpus")
    memory = _memory(log) if (nodes["memory"] < of.UNLIMITED).any() else np.zeros_like(procs)
    n_nodes = _first_known(log, "requested_nodes", "nodes")
    pieces = np.where(n_nodes > 0, n_nodes, np.where(gpus > 0, gpus, procs))
    node_set, sets = _node_sets(log, machine)
    table = np.stack(
        [
            pieces,
            np.maximum(1, -(-procs // pieces)),
            -(-gpus // pieces),
            -(-memory // pieces),
            n_nodes > 0,
            log.filled("exclusive") == 1,
            node_set,
        ],
        axis=1,
    )
    unique, shape_of = np.unique(table, axis=0, return_inverse=True)
    shapes = np.zeros(len(unique), of.DEMAND)
    names = ("pieces", "procs", "gpus", "memory", "spread", "exclusive", "node_set")
    for place, name in enumerate(names):
        shapes[name] = unique[:, place]
    ends = np.cumsum(sets.sum(axis=1))
    shapes["end_member"] = ends[shapes["node_set"]]
    shapes["first_member"] = shapes["end_member"] - sets.sum(axis=1)[shapes["node_set"]]
    members, shape_of = np.nonzero(sets)[1].astype(np.int64), shape_of.reshape(-1).astype(np.int64)
    for array in (members, sets, shapes, shape_of):
        array.flags.writeable = False
    weights = [group.weight for group in machine.nodes]
    weight_of = None if set(weights) == {1} else np.repeat(weights, [group.count for group in machine.nodes])
    return Demands(nodes, members, sets, shapes, shape_of, weight_of=weight_of)  # type: ignore[arg-type]


def _first_known(log: JobLog, *columns: str) -> Ints:
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


def _node_sets(log: JobLog, machine: Machine) -> tuple[Ints, Bools]:
    """Return the number of each job's node set, and which nodes are in each set, shape (n_sets, n_nodes)."""
    if not machine.partitions:
        return np.zeros(len(log), dtype=np.int64), machine.serving(())[None, :]
    column = log.partition_column
    codes, number = np.unique(np.where(log.known(column), log.filled(column), -1), return_inverse=True)
    names = log.names(column)
    sets = []
    for code in codes.tolist():
        text = "" if code < 0 else names[code] if code < len(names) else str(code)
        sets.append(machine.serving(tuple(one.strip() for one in text.split(",") if one.strip())))
    return number.reshape(-1).astype(np.int64), np.stack(sets)


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
        names, code = log.names(log.partition_column), int(log.filled(log.partition_column)[row])
        name = names[code] if code < len(names) else str(code)
        known = ", ".join(machine.partitions)
        return JobcastError(
            f"{which} in the partition {name!r}, which no node of {machine.source} serves ({known}); {ways}"
        )
    room = counted(int(demands.room[shape]), "piece") if asked.pieces > 1 else "none"
    of_them = "" if asked.pieces == 1 else f" of its {int(asked.pieces):,}"
    return JobcastError(
        f"{which}; the {counted(serving, 'node')} of {machine.source} that it may use have room for {room}{of_them}, "
        f"even when no other job runs; {ways}"
    )
