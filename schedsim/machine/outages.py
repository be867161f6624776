"""Outages as declared: reservations, maintenance, failures, repairs.

A **reservation** takes processors, or named nodes, for a span: for maintenance, or for one user. The scheduler knows it
from the beginning: a job starts only if by its requested time it does not overlap it, so the machine drains before.

A **change** takes nodes away when they fail, or gives them back when they are repaired. The scheduler does not know it
before: a job on a failed node stops, and waits again with its rank (`requeue`), or is gone (`drop`); plans use the
nodes that are left, as if the failed ones were never repaired. Where nodes are only counted, a hash draws those that
fail from all that are up, so that a job's risk grows with its width.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Self

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole

Pieces = tuple[tuple[int, int], ...]  # nodes as pieces (first, last + 1)

Interrupted = Literal["requeue", "drop"]
RULES: Final[tuple[Interrupted, ...]] = ("requeue", "drop")


@dataclass(frozen=True)
class Reservation:
    """A span in which processors are closed to jobs."""

    # start, end: from second `start` to before second `end`, on the workload's clock
    start: int
    end: int
    procs: int | None = None  # how many processors; without them and `nodes`, the whole machine
    nodes: Pieces | None = None  # which nodes, as pieces (first, last + 1); with an allocator or a machine file
    at: str = field(default="", compare=False)  # where it was read, for messages

    def __post_init__(self) -> None:
        for name, second in (("start", self.start), ("end", self.end)):
            check_whole(second, f"{where(self)}a reservation's {name}")
        if self.end <= self.start:
            raise JobcastError(f"{where(self)}a reservation from {self.start} to {self.end} s ends before it begins.")
        _check_amount(self, self.procs, self.nodes)


@dataclass(frozen=True)
class Change:
    """Nodes fail, or are repaired."""

    time: int  # second on the workload's clock
    kind: Literal["fail", "repair"]  # what happens
    # how many nodes: failures are drawn from nodes that are up, repairs take those that failed first
    procs: int | None = None
    nodes: Pieces | None = None  # which nodes instead, as pieces (first, last + 1); with an allocator or a machine file
    at: str = field(default="", compare=False)  # where it was read, for messages

    def __post_init__(self) -> None:
        check_whole(self.time, f"{where(self)}the time of a change")
        if self.kind not in ("fail", "repair"):
            raise JobcastError(f"{where(self)}nodes 'fail' or are under 'repair'; got {self.kind!r}.")
        if self.procs is None and self.nodes is None:
            raise JobcastError(f"{where(self)}a {self.kind} needs a number of nodes, or names them.")
        _check_amount(self, self.procs, self.nodes)


Part = Reservation | Change


def _are_pieces(nodes: object) -> bool:
    if not isinstance(nodes, tuple | list) or not nodes:
        return False
    whole = (isinstance(p, tuple | list) and len(p) == 2 and all(isinstance(n, int) for n in p) for p in nodes)
    return all(whole) and all(0 <= first < end for first, end in nodes)


def where(part: Part) -> str:
    """Return the place of a part in its file, as the beginning of a message."""
    return f"{part.at}: " if part.at else ""


def _check_amount(part: Part, procs: int | None, nodes: Pieces | None) -> None:
    if procs is not None and nodes is not None:
        raise JobcastError(f"{where(part)}give a number of nodes or name them, not both.")
    if procs is not None:
        check_whole(procs, f"{where(part)}the number of nodes", 1)
    if nodes is not None and not _are_pieces(nodes):
        raise JobcastError(f"{where(part)}nodes are numbered from 0, each piece ascending; got {nodes}.")


@dataclass(frozen=True)
class Outages:
    """The reservations of a machine, and the failures of its nodes.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2], submit=[0, 0], procs=[4, 4], requested=[30, 10], run_time=[30, 10],
    ...                           machine_procs=4)
    >>> maintenance = Outages([Reservation(20, 50)])
    >>> simulate(w, make_policy("easy"), outages=maintenance).start.tolist()
    [50, 0]
    """

    reservations: tuple[Reservation, ...] = ()  # in any order; they may overlap
    changes: tuple[Change, ...] = ()  # in any order; within a second repairs come first
    # {"requeue", "drop"}: what happens to a job on a node that fails: it waits again, with no work done and its old
    # submission; or it is gone
    interrupted: Interrupted = "requeue"
    seed: int = 0  # hash(seed, number of the failure) draws the nodes that fail

    def __post_init__(self) -> None:
        if self.interrupted not in RULES:
            raise JobcastError(f"A job on a failed node is under 'requeue' or 'drop'; got {self.interrupted!r}.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 62:
            raise JobcastError(f"A seed is a whole number from 0 to 2**62; got {self.seed!r}.")
        for name, kind in (("reservations", Reservation), ("changes", Change)):
            if not isinstance(getattr(self, name), tuple | list):
                raise JobcastError(f"Of outages, {name} are a list of {kind.__name__}s; got {getattr(self, name)!r}.")
            parts = tuple(getattr(self, name))
            for part in parts:
                if not isinstance(part, kind):
                    raise JobcastError(f"Of outages, {name} are {kind.__name__}s; got {part!r}.")
            object.__setattr__(self, name, parts)
        object.__setattr__(self, "reservations", tuple(sorted(self.reservations, key=lambda r: (r.start, r.end))))
        object.__setattr__(self, "changes", tuple(sorted(self.changes, key=lambda c: (c.time, c.kind == "fail"))))

    @property
    def parts(self) -> list[Part]:
        """Reservations and changes."""
        return [*self.reservations, *self.changes]

    @property
    def by_name(self) -> Part | None:
        """Some part that names nodes, or None."""
        return next((part for part in self.parts if part.nodes is not None), None)

    @property
    def draws(self) -> bool:
        """Whether chance decides which nodes fail: a failure gives only their number."""
        return any(change.kind == "fail" and change.nodes is None for change in self.changes)

    def with_reservations(self, more: Iterable[Reservation]) -> Self:
        """Return them with more reservations."""
        return replace(self, reservations=(*self.reservations, *more))

    def check_machine(self, nodes: int) -> None:
        """Refuse outages that do not fit a machine of this many nodes."""
        for part in self.parts:
            beyond = max((end - 1 for _, end in part.nodes), default=-1) if part.nodes else -1
            if beyond >= nodes:
                raise JobcastError(f"{where(part)}node {beyond} is unknown: the machine's are 0 to {nodes - 1}.")
            if part.procs is not None and part.procs > nodes:
                raise JobcastError(f"{where(part)}{part.procs} nodes are more than the machine's {nodes}.")
        down = 0
        for change in self.changes:
            count = size_of(change.nodes) if change.nodes else change.procs or 0
            down += count if change.kind == "fail" else -count
            if down < 0:
                raise JobcastError(
                    f"{where(change)}{count} nodes are repaired at {change.time} s, but not so many failed."
                )
            if down > nodes:
                raise JobcastError(f"{where(change)}at {change.time} s {down} nodes are down; the machine has {nodes}.")

    @cached_property
    def seconds(self) -> Ints:
        """Seconds at which nodes fail or are repaired, ascending."""
        return np.unique(np.array([change.time for change in self.changes], dtype=np.int64))

    @cached_property
    def changes_at(self) -> dict[int, list[Change]]:
        """The changes by second."""
        found: dict[int, list[Change]] = {}
        for change in self.changes:
            found.setdefault(change.time, []).append(change)
        return found

    def reserved(self, nodes: int) -> tuple[Ints, Ints]:
        """Return when the number of reserved processors changes, ascending, and to how many.

        Numbers of overlapping reservations add up, to the whole machine at most.
        """
        ends = [(r.start, r) for r in self.reservations] + [(r.end, r) for r in self.reservations]
        seconds = np.unique(np.array([second for second, _ in ends], dtype=np.int64))
        levels = np.zeros(len(seconds), dtype=np.int64)
        for r in self.reservations:
            count = nodes if r.procs is None and r.nodes is None else r.procs or size_of(r.nodes or ())
            levels[(seconds >= r.start) & (seconds < r.end)] += count
        return seconds, np.minimum(levels, nodes)


def size_of(pieces: Pieces) -> int:
    """Return how many nodes these are.

    >>> size_of(((0, 4), (2, 6)))
    6
    """
    return len({node for first, end in pieces for node in range(first, end)})


def mask_of(pieces: Pieces, nodes: int) -> Bools:
    """Return whether a node is among these."""
    mask = np.zeros(nodes, dtype=np.bool_)
    for first, end in pieces:
        mask[first:end] = True
    return mask
