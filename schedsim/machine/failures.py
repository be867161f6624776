"""Failures and reservations at one moment of a simulation."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.core.hash_random import mixed
from schedsim.machine.allocators import Allocator
from schedsim.machine.outages import Change, Outages, Reservation, mask_of, size_of, where
from schedsim.machine.partitions import allocated

AS_JOB: Final = 1 << 40  # job ids of reservations begin here: they are placed like jobs

BEFORE_ALL: Final = -(1 << 62)  # before every second

DRAWN: Final = 83  # purpose of these draws in the hash of a seed


@dataclass(frozen=True, eq=False)
class Site:
    """The spans and nodes of the reservations of a machine with numbered nodes."""

    outages: Outages
    usable: Bools
    spans: tuple[tuple[int, int, Bools], ...]

    @classmethod
    def of(cls, outages: Outages, allocator: Allocator) -> Self:
        """Place each reservation like a job of its size, on nodes that no overlapping reservation has."""
        usable = allocator.topology.usable
        spans: list[tuple[int, int, Bools]] = []
        for number, r in enumerate(outages.reservations):
            spans.append((r.start, r.end, cls._nodes_of(r, number, allocator, usable, spans)))
        return cls(outages, usable, tuple(spans))

    @staticmethod
    def _nodes_of(
        r: Reservation, number: int, allocator: Allocator, usable: Bools, spans: list[tuple[int, int, Bools]]
    ) -> Bools:
        if r.nodes is not None:
            return mask_of(r.nodes, len(usable))
        if r.procs is None:
            return np.ones(len(usable), dtype=np.bool_)
        free = usable.copy()
        for start, end, nodes in spans:
            if start < r.end and r.start < end:
                free &= ~nodes
        count = int(allocated(allocator, np.array([r.procs]))[0])
        chosen = allocator.place(free, count, AS_JOB + number)
        if chosen is None:
            raise JobcastError(
                f"{where(r)}{type(allocator).__name__} has no place for a reservation of {count} nodes from {r.start} "
                f"to {r.end} s next to the others."
            )
        mask = np.zeros(len(usable), dtype=np.bool_)
        mask[chosen] = True
        return mask

    def reserved(self, when: int, until: int) -> Bools:
        """Return which nodes are reserved at some time within a span, excluding its end."""
        mask = np.zeros(len(self.usable), dtype=np.bool_)
        for start, end, nodes in self.spans:
            if start < until and when < end:
                mask |= nodes
        return mask

    @cached_property
    def seconds(self) -> Ints:
        """Seconds at which anything changes, ascending."""
        ends = [second for start, end, _ in self.spans for second in (start, end)]
        return np.unique(np.concatenate([np.array(ends, dtype=np.int64), self.outages.seconds]))

    @cached_property
    def ends(self) -> Ints:
        """Seconds at which a reservation ends, ascending."""
        return np.unique(np.array([end for _, end, _ in self.spans], dtype=np.int64))


@dataclass(eq=False)
class FailureProcess:
    """Which nodes are down, and what happened to the jobs on them."""

    outages: Outages
    nodes: int  # nodes for jobs
    site: Site | None = None  # where nodes have numbers
    # nodes that are down, in the order of failures; where nodes are only counted, only its length has a meaning
    down: list[int] = field(default_factory=list)
    drawn: int = 0  # failures drawn so far
    until: int = BEFORE_ALL  # all events up to this second are taken in
    dropped: list[int] = field(default_factory=list)  # rows of the jobs that failures stopped and dropped
    stopped: list[tuple[int, int, int]] = field(default_factory=list)  # runs that failures stopped: (row, start, end)

    @classmethod
    def of_nodes(cls, outages: Outages, n_nodes: int) -> Self:
        """Return the process for a machine file's nodes, before the first second, without reservations."""
        return cls(outages, n_nodes, Site(outages, np.ones(n_nodes, dtype=np.bool_), ()))

    def due(self, now: int) -> list[Change]:
        """Return the changes since the last call, up to now, each once."""
        seconds = self.outages.seconds
        first, last = np.searchsorted(seconds, [self.until + 1, now + 1])
        self.until = max(self.until, now)
        return [change for second in seconds[first:last].tolist() for change in self.outages.changes_at[second]]

    def close(self) -> None:
        """Stop further failures and repairs; reservations stay."""
        self.outages = replace(self.outages, changes=())

    def wakes(self, second: int) -> bool:
        """Return whether jobs may start at a second because nodes fail, are repaired, or are reserved no more."""
        ends = np.empty(0, dtype=np.int64) if self.site is None else self.site.ends
        places = ((seconds, np.searchsorted(seconds, second)) for seconds in (self.outages.seconds, ends))
        return any(place < len(seconds) and seconds[place] == second for seconds, place in places)

    def draw(self, n_up: int) -> int:
        """Return which of the nodes that are up fails next."""
        self.drawn += 1
        return mixed(self.outages.seed, self.drawn, DRAWN) % n_up

    def apply(self, change: Change) -> list[int]:
        """Apply a change of numbered nodes; return those that fail."""
        assert self.site is not None
        if change.nodes is not None:
            named = np.flatnonzero(mask_of(change.nodes, len(self.site.usable))).tolist()
            for node in named:
                if (node in self.down) == (change.kind == "fail"):
                    raise JobcastError(
                        f"{where(change)}node {node} is to {change.kind} at {change.time} s, but it is "
                        f"{'down already' if change.kind == 'fail' else 'not down'}."
                    )
        elif change.kind == "repair":
            named = self.down[: change.procs]
        else:
            named = []
            up = self.site.usable.copy()
            up[self.down] = False
            for _ in range(change.procs or 0):
                left = np.flatnonzero(up)
                named.append(int(left[self.draw(len(left))]))
                up[named[-1]] = False
        if change.kind == "fail":
            self.down += named
            return named
        gone = set(named)
        self.down = [node for node in self.down if node not in gone]
        return []

    def advance(self, now: int) -> list[int]:
        """Apply all changes up to now to numbered nodes; return the nodes that failed and stay down."""
        failed = [node for change in self.due(now) for node in self.apply(change)]
        return [node for node in failed if node in self.down]

    @property
    def is_down(self) -> Bools:
        """Which of the numbered nodes are down."""
        assert self.site is not None
        mask = np.zeros(len(self.site.usable), dtype=np.bool_)
        mask[self.down] = True
        return mask

    def closed(self, when: int, until: int) -> Bools:
        """Return the nodes closed to a job that is to run within a span: those down now, and those reserved then."""
        assert self.site is not None
        return self.site.reserved(when, until) | self.is_down

    def fork(self) -> Self:
        down, dropped, stopped = list(self.down), list(self.dropped), list(self.stopped)
        return replace(self, down=down, dropped=dropped, stopped=stopped)


def count_of(change: Change) -> int:
    return size_of(change.nodes) if change.nodes is not None else change.procs or 0
