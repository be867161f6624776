"""Queues with shares of the machine, and the router by size and requested time; Mira's as data."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.declarations import STRICT
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.validation import check_whole
from schedsim.machine.partitions import MIRA_NODES, Hierarchy

HOUR: Final = 3600
CAPABILITY_SHARE: Final = 0.2
"""Smallest share of the machine of a capability job (Allcock et al.). On Mira that is more than 4,096 nodes, which get
a partition of 8 K, a sixth."""


@dataclass(frozen=True)
class Queue:
    """A queue: which jobs are routed to it, and how much of the machine they may use."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str
    # least_procs, most_procs: widths routed to it, both included
    least_procs: int = 1
    most_procs: int | None = None
    # longer_than, up_to: requested times routed to it [s], the first excluded
    longer_than: int = 0
    up_to: int | None = None
    # processors that its jobs may use at once; None: all; with an allocator these are certain nodes, see
    # `schedsim.machine.partitions.Within`
    share: int | None = None
    capability: bool = False  # whether accounts may overburn in it
    # served behind all other queues, whatever the scores, and never routed to: for jobs of spent accounts
    behind: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise JobcastError(f"A queue needs a name, a text; got {self.name!r}.")
        for what in ("least_procs", "most_procs", "longer_than", "up_to", "share"):
            if getattr(self, what) is not None:
                check_whole(getattr(self, what), f"queue {self.name!r}: {what}")
        for what in ("capability", "behind"):
            if not isinstance(getattr(self, what), bool):
                raise JobcastError(f"Queue {self.name!r}: {what} is true or false; got {getattr(self, what)!r}.")
        widest, longest = self.most_procs, self.up_to
        if self.least_procs < 1 or (widest is not None and widest < self.least_procs):
            raise JobcastError(
                f"Queue {self.name!r}: takes {self.least_procs} to {widest} processors, which is no range."
            )
        if self.longer_than < 0 or (longest is not None and longest <= self.longer_than):
            raise JobcastError(
                f"Queue {self.name!r}: takes requests over {self.longer_than} s up to {longest} s, which is no range."
            )
        if self.share is not None and self.share < (self.most_procs or self.least_procs):
            raise JobcastError(
                f"Queue {self.name!r}: a job of {self.most_procs or self.least_procs} processors would never fit its "
                f"share of {self.share}; raise the share, or take narrower jobs."
            )

    def takes(self, procs: Ints, requested: Ints) -> npt.NDArray[np.bool_]:
        """Return whether jobs of these widths and requested times [s] are routed here."""
        wide = procs > (np.iinfo(np.int64).max if self.most_procs is None else self.most_procs)
        long = requested > (np.iinfo(np.int64).max if self.up_to is None else self.up_to)
        return ~wide & ~long & (procs >= self.least_procs) & (requested > self.longer_than) & (not self.behind)

    def overlaps(self, other: "Queue") -> bool:
        """Return whether some job would be routed to both."""
        if self.behind or other.behind:
            return False
        return (
            self.least_procs <= (other.most_procs or self.least_procs)
            and other.least_procs <= (self.most_procs or other.least_procs)
            and self.longer_than < (other.up_to or self.longer_than + 1)
            and other.longer_than < (self.up_to or other.longer_than + 1)
        )


@dataclass(frozen=True)
class Router:
    """Queues that share a machine; a job goes to the one that takes it.

    >>> router = mira_router()
    >>> [router.queues[i].name for i in router.route(np.array([4096, 4096, 4097]), np.array([21_600, 21_601, 60]))]
    ['prod-short', 'prod-long', 'prod-capability']
    """

    queues: tuple[Queue, ...]  # no two may take the same job; at most one is `behind`
    partitions: tuple[int, ...] = ()  # sizes of partitions, if there are any: the smallest that holds a job routes it

    def __post_init__(self) -> None:
        if not self.queues:
            raise JobcastError("A router needs a queue.")
        if not isinstance(self.queues, tuple | list) or not all(isinstance(queue, Queue) for queue in self.queues):
            raise JobcastError(f"A router has a tuple of Queues; got {self.queues!r}.")
        for size in self.partitions:
            check_whole(size, "the size of a partition that jobs are routed by")
        for i, queue in enumerate(self.queues):
            for other in self.queues[:i]:
                if queue.name == other.name:
                    raise JobcastError(f"Two queues are called {queue.name!r}.")
                if queue.overlaps(other):
                    raise JobcastError(
                        f"Queues {other.name!r} and {queue.name!r} overlap: some jobs would be routed to both. "
                        "Give them sizes or requested times that exclude each other."
                    )
        if sum(queue.behind for queue in self.queues) > 1:
            raise JobcastError("Only one queue may stand behind all others.")
        if any(size < 1 for size in self.partitions):
            raise JobcastError(f"Partitions have 1 node at least; got {min(self.partitions)}.")

    def route(self, procs: Ints, requested: Ints) -> Ints:
        """Return the number of each job's queue; -1 where none takes it."""
        found = np.full(len(procs), -1, dtype=np.int64)
        given = self.given(procs)
        for number, queue in enumerate(self.queues):
            found[queue.takes(given, requested)] = number
        return found

    def given(self, procs: Ints) -> Ints:
        """Return the nodes that jobs of these widths get."""
        if not self.partitions:
            return procs
        sizes = np.array(sorted(self.partitions))
        place = np.minimum(np.searchsorted(sizes, procs), len(sizes) - 1)
        return np.asarray(np.maximum(sizes[place], procs), dtype=np.int64)

    def number(self, name: str) -> int:
        """Return the number of a queue."""
        names = [queue.name for queue in self.queues]
        if name not in names:
            raise unknown_name("queue", name, names)
        return names.index(name)

    @property
    def behind(self) -> int:
        """The number of the queue behind all others, or -1."""
        return next((number for number, queue in enumerate(self.queues) if queue.behind), -1)

    def without_shares(self) -> "Router":
        """Return the same queues without shares."""
        return replace(self, queues=tuple(replace(queue, share=None) for queue in self.queues))


def least_capability(machine_procs: int, share: float = CAPABILITY_SHARE) -> int:
    """Return the smallest width of a capability job.

    >>> least_capability(MIRA_NODES), least_capability(4360), least_capability(4360, share=1 / 12)
    (4097, 872, 364)
    """
    if machine_procs == MIRA_NODES and share == CAPABILITY_SHARE:
        return MIRA_NODES // 12 + 1
    return math.ceil(share * machine_procs - 1e-9)  # .07 x 100 is not 8


def mira_router(machine_procs: int = MIRA_NODES, capability: float = CAPABILITY_SHARE) -> Router:
    """Return the queues of Mira (Allcock et al., JSSPP 2017, doi:10.1007/978-3-319-77398-8_1), or scaled to a machine.

    Jobs of `capability` of the machine or more (on Mira, of more than 4,096 nodes) go to prod-capability, up to 24 h;
    else up to 6 h to prod-short, longer to prod-long, which may use a third of the nodes, so that two thirds, a 32 K
    partition, stay free of it. The queue backfill is behind all.
    """
    if machine_procs < 12:
        raise JobcastError(f"Mira's queues need a machine of 12 processors or more; this one has {machine_procs}.")
    if isinstance(capability, bool) or not isinstance(capability, int | float) or not 0 < capability <= 1 / 3:
        raise JobcastError(
            f"The share of a capability job lies above 0 and is at most a third, prod-long's share; got {capability!r}."
        )
    small = least_capability(machine_procs, capability) - 1
    if small < 1:
        raise JobcastError(
            f"A share of {capability:g} of {machine_procs} processors leaves no job to the queues besides "
            "prod-capability; raise it."
        )
    return Router(
        (
            Queue("prod-capability", least_procs=small + 1, up_to=24 * HOUR, capability=True),
            Queue("prod-short", most_procs=small, up_to=6 * HOUR),
            Queue("prod-long", most_procs=small, longer_than=6 * HOUR, share=machine_procs // 3),
            Queue("backfill", behind=True),
        ),
        Hierarchy.mira().sizes if machine_procs == MIRA_NODES else (),
    )
