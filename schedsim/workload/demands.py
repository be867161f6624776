"""Demands: what jobs ask of nodes with processors, GPUs and memory, and the nodes themselves.

A workload with demands is scheduled on nodes: its jobs take processors, GPUs and memory of single nodes (see
`schedsim.kernels.nodes`); one without is scheduled by numbers of processors alone. `schedsim.machine.node_groups` makes
them from a job log and a machine file.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Self

import numpy as np

import schedsim.kernels.places.records as of
import schedsim.kernels.records as at
from predictors.core.arrays import Bools, Ints, short_repr
from predictors.core.errors import JobcastError, counted
from schedsim.kernels.places.placement import rooms_when_empty
from schedsim.kernels.places.records import Demand, Node, NodeArrays
from schedsim.kernels.records import Records

LEAST_SPOTS: Final = 1024
RESOURCES: Final = ("processors", "gpus", "memory_kb")  # what nodes have, as figures name it
FIELDS: Final = ("procs", "gpus", "memory")  # the fields of the records of nodes and demands, in the same order
KB_OF_GB: Final = 1 << 20
_BITS: Final = 62  # of a whole number that is not negative
FIRST_SECOND: Final = -(1 << 62)  # before every second
_NO_WINDOWS: Final = np.empty((0, 2), dtype=np.int64)
_NO_WINDOWS.flags.writeable = False


def count_users(shapes: Records[Demand], keeper: Ints, most: int) -> Ints | None:
    """Write into demands what a job adds to the jobs of a node, of which at most so many run there; return `users`.

    `keeper` numbers the users that keep nodes to their own jobs, from 1 on; it is 0 for jobs of others, and for those
    that share nodes with none. What a job adds counts it, its keeper, the square of that, and whether it keeps others
    off, in bits of their own. All jobs of a node are of one keeper just if the squares in it are as great as they were
    then: if the keepers are not equal, their mean square is above the square of their mean.
    """
    n = int(keeper.max(initial=0))
    widths = [(most * n**power).bit_length() for power in range(3)]
    first, second, third = accumulate(widths)
    if third + first > _BITS:
        raise JobcastError(
            f"{n:,} users keep nodes to their own jobs, on nodes that run {most:,} jobs at most: these are more "
            "than the simulation can tell apart. Count cores or sockets in place of processors, or leave out what "
            "keeps the nodes: exclusive = 2 in the log, ExclusiveUser in slurm.conf."
        )
    alike = 1 + (keeper << first) + (keeper**2 << second)
    shapes["joins"] = alike + (shapes["exclusive"].astype(np.int64) << third)
    shapes["alike"] = np.where(keeper > 0, alike, 0)
    shapes["guards"] = ((1 << first) - 1) << third
    return np.array([(1 << first) - 1]) if n else None


@dataclass(frozen=True, eq=False)
class Demands:
    """What each job asks of which nodes; rows as in the workload."""

    nodes: Records[Node]  # what each node has when no job runs, shape (n_nodes,)
    members: Ints  # the nodes of each node set, set after set, ascending within a set
    serves: Bools  # the same as a table, shape (n_sets, n_nodes)
    shapes: Records[Demand]  # what jobs of each shape ask for, shape (n_shapes,)
    shape_of: Ints  # the number of each job's shape, shape (n_jobs,)
    users: Ints | None = None  # the bits that count jobs, see `count_users`; None: no job keeps nodes to its user
    # first second and the second after the last in which nodes are reserved and no job may have them; sorted by end,
    # shape (n_windows, 2)
    windows: Ints | None = None
    closed: Bools | None = None  # which kinds of nodes, shape (n_windows, n_kinds)
    kind_of: Ints | None = None  # the kind of each node: those of one kind are reserved together, shape (n_nodes,)
    weight_of: Ints | None = None  # of each node: Slurm takes the lightest first, shape (n_nodes,); None: all are equal
    leaf_of: Ints | None = None  # the leaf switch of each node, shape (n_nodes,); None: no switch counts
    parent_of: Ints | None = None  # the switch above each switch, -1 for the top one, shape (n_switches,)

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.shape_of)

    def of_rows(self, rows: Ints) -> Self:
        """Return the demands of some of the jobs, on the same nodes."""
        return replace(self, shape_of=self.shape_of[rows])

    def reserving(self, windows: Ints, closed: Bools, kind_of: Ints) -> Self:
        """Return the same demands on nodes with reservations; windows in any order."""
        by_end = np.argsort(windows[:, 1], kind="stable")
        windows, closed = windows[by_end], closed[by_end]
        for array in (windows, closed, kind_of):
            array.flags.writeable = False
        return replace(self, windows=windows, closed=closed, kind_of=kind_of)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the nodes, the demands and what is reserved."""
        sha = hashlib.sha256()
        reserved = [part for part in (self.windows, self.closed, self.kind_of) if part is not None and len(part)]
        of_nodes = [part for part in (self.weight_of, self.leaf_of, self.parent_of) if part is not None]
        for part in (self.nodes, self.members, self.shapes, self.shape_of, *reserved, *of_nodes):
            sha.update(np.ascontiguousarray(part).tobytes())
        return sha.hexdigest()

    @property
    def weights(self) -> Ints:
        """The weight of each node, shape (n_nodes,)."""
        return np.zeros(len(self.nodes), dtype=np.int64) if self.weight_of is None else self.weight_of

    def total(self, field: str) -> int | None:
        """Return the machine's total of one of `FIELDS`; None if it counts on no node."""
        amounts = self.nodes[field]
        counted_on = amounts[amounts < of.UNLIMITED]
        return int(counted_on.sum()) if len(counted_on) == len(amounts) else None

    def held(self, field: str) -> Ints:
        """Return how much of one of `FIELDS` each job takes, in whole pieces, shape (n_jobs,)."""
        return np.asarray((self.shapes["pieces"] * self.shapes[field])[self.shape_of])

    def arrays(self) -> NodeArrays:
        """Return the arrays of the nodes before the first second, see `schedsim.kernels.places.records`."""
        tried, one, n_nodes = np.full(len(self.shapes), -1, of.TRIED), np.zeros(1, of.PLACES), len(self.nodes)
        one[0].spare_part = one[0].released_at_scan = one[0].occupied_at_scan = one[0].head_at_scan = -1
        members = self.shapes["end_member"] - self.shapes["first_member"]
        one[0].most_parts = int(np.minimum(self.shapes["pieces"], members).max(initial=0))
        one[0].dated_until = FIRST_SECOND if self.windows is not None and len(self.windows) else at.NEVER
        windows, closed, kind_of = self.windows, self.closed, self.kind_of
        if windows is None or closed is None or kind_of is None:
            windows, closed, kind_of = _NO_WINDOWS, np.empty((0, 1), np.bool_), np.zeros(n_nodes, dtype=np.int64)
        opens = np.full((len(windows) + 1, closed.shape[1]), at.NEVER, dtype=np.int64)
        np.copyto(opens[:-1], windows[:, :1], where=closed)
        for k in range(len(windows) - 1, 0, -1):  # in place: it is the largest array of all
            np.minimum(opens[k - 1], opens[k], out=opens[k - 1])
        for array in (opens, kind_of):
            array.flags.writeable = False
        parts: Any = np.empty(int(self.nodes["procs"].sum()), of.PART)  # each takes a processor at least
        return NodeArrays(
            self.nodes.copy(),
            self.nodes.copy(),
            np.zeros(n_nodes, dtype=np.int64),
            self.nodes.copy(),
            np.zeros(n_nodes, dtype=np.int64),
            self.nodes,
            self.shapes,
            self.shape_of,
            self.users,
            self.members,
            self.serves,
            windows,
            opens,
            kind_of,
            tried,  # type: ignore[arg-type]
            np.empty(of.REMEMBERED, dtype=np.int64),
            parts,
            np.full(len(self), -1),
            np.zeros(n_nodes, of.NODE_LEVEL),  # type: ignore[arg-type]
            np.empty(n_nodes, dtype=np.int64),
            np.empty(n_nodes, dtype=np.int64),
            np.empty(n_nodes, dtype=np.int64),
            np.empty((LEAST_SPOTS, 3), dtype=np.int64),
            one,  # type: ignore[arg-type]
        )

    @cached_property
    def room(self) -> Ints:
        """How many pieces of each shape fit on the idle machine, shape (n_shapes,)."""
        rooms = np.empty(len(self.shapes), dtype=np.int64)
        rooms_when_empty(self.arrays(), rooms)
        return rooms

    @property
    def fits(self) -> Bools:
        """Whether each job has a place when no other runs, shape (n_jobs,)."""
        return np.asarray((self.room >= self.shapes["pieces"])[self.shape_of])

    def words(self, row: int) -> str:
        """Return what a job asks for in words, such as `2 nodes with 16 processors and 4 GPUs each`."""
        shape = self.shapes[int(self.shape_of[row])]
        parts = [counted(int(shape.procs), "processor")]
        parts += [counted(int(shape.gpus), "GPU")] if shape.gpus else []
        parts += [f"{shape.memory / KB_OF_GB:,.4g} GB"] if shape.memory else []
        text = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
        alone = ", shared with jobs of its user alone" if shape.alike else ", shared with no other job"
        alone = alone if shape.exclusive else ""
        if shape.spread:
            return f"{counted(int(shape.pieces), 'node')} with {text}{' each' if shape.pieces > 1 else ''}{alone}"
        if shape.pieces == 1 or len(parts) == 1:
            return f"{counted(int(shape.pieces * shape.procs), 'processor') if len(parts) == 1 else text}{alone}"
        return f"{counted(int(shape.pieces), 'piece')} of {text}{alone}"
