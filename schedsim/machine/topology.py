"""Topology: leaf switches and their nodes, some of them set apart from jobs."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError

MOST_NODES: Final = 10_000_000


@dataclass(frozen=True)
class Topology:
    """A two-level tree: leaf switches with the same number of nodes each, numbered leaf by leaf from 0.

    A workload's processor is one node here.

    >>> machine = Topology(leaves=16, per_leaf=32).with_apart(1 / 16)
    >>> machine.nodes, machine.for_jobs, machine.apart[:4]
    (512, 480, (0, 16, 32, 48))
    """

    leaves: int  # leaf switches
    per_leaf: int  # nodes of each
    apart: tuple[int, ...] = ()  # nodes that no job may have, ascending: those of a noise job, or of services

    def __post_init__(self) -> None:
        whole = all(isinstance(n, int | np.integer) for n in (self.leaves, self.per_leaf))
        if not whole or self.leaves < 1 or self.per_leaf < 1 or self.nodes > MOST_NODES:
            raise JobcastError(
                f"A machine has 1 to {MOST_NODES:,} nodes; got {self.leaves} leaf switches of {self.per_leaf}."
            )
        if self.apart and (self.apart[0] < 0 or self.apart[-1] >= self.nodes):
            raise JobcastError(f"Nodes set apart must be among 0 to {self.nodes - 1}; got {self.apart}.")
        if any(later <= node for node, later in zip(self.apart, self.apart[1:], strict=False)):
            raise JobcastError("Nodes set apart must be listed in ascending order, each once.")
        if self.for_jobs < 1:
            raise JobcastError(f"All {self.nodes} nodes are set apart; leave some for jobs.")

    @classmethod
    def flat(cls, nodes: int) -> Self:
        """Return a machine of one switch."""
        return cls(1, nodes)

    def with_apart(self, share: float) -> Self:
        """Return this machine with a share of its nodes set apart, spread evenly."""
        if not 0 <= share < 1:
            raise JobcastError(f"The share of nodes set apart is from 0 to less than 1; got {share}.")
        count = round(share * self.nodes)
        return replace(self, apart=tuple(i * self.nodes // count for i in range(count)))

    @property
    def nodes(self) -> int:
        """All nodes."""
        return self.leaves * self.per_leaf

    @property
    def for_jobs(self) -> int:
        """Nodes that jobs may have."""
        return self.nodes - len(self.apart)

    @cached_property
    def usable(self) -> Bools:
        """Whether jobs may have a node, shape (nodes,), read-only."""
        usable = np.ones(self.nodes, dtype=np.bool_)
        usable[list(self.apart)] = False
        usable.flags.writeable = False
        return usable

    def leaf_of(self, nodes: Ints) -> Ints:
        """Return the leaf switch of each node."""
        return nodes // self.per_leaf

    def spread(self, nodes: Ints) -> Ints:
        """Return how many of these nodes each leaf has, shape (leaves,)."""
        return np.bincount(nodes // self.per_leaf, minlength=self.leaves)
