"""Topology: leaf switches and their nodes, some of them set apart from jobs, and the tree of switches."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from pydantic import Field

from predictors.core.arrays import Bools, Ints
from predictors.core.declarations import STRICT
from predictors.core.errors import JobcastError, counted
from predictors.data.slurm.hosts import host_count, hostnames

MOST_NODES: Final = 10_000_000
MOST_SWITCHES: Final = 65_534  # as many as Slurm has numbers for
_LONG_NUMBER: Final = re.compile(r"\d{10}")


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


@dataclass(frozen=True)
class Switch:
    """A switch of a tree, or several with the same one above them."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: Annotated[str, Field(min_length=1)]  # `leaf[1-8]` are eight, as Slurm lists hosts
    parent: Annotated[str, Field(min_length=1)] | None = None  # the switch above

    @property
    def words(self) -> str:
        """Its keys, as in a machine file."""
        return f"switch {self.name}" + ("" if self.parent is None else f", parent {self.parent}")


class Tree(NamedTuple):
    """A tree of switches, numbered as declared, else as nodes name them; the nodes are on its leaves."""

    leaf_of: Ints  # the switch of each node, shape (n_nodes,)
    parent_of: Ints  # the switch above each switch, -1 for the top one, shape (n_switches,)


def tree_of(groups: Sequence[tuple[str, int, str | None]], switches: Sequence[Switch], source: str) -> Tree | None:
    """Return the tree of the switches of groups of nodes, given as (name, nodes, switch); None if they name none.

    >>> groups = [("thin", 4, "leaf[1-2]"), ("gpu", 1, "leaf3")]
    >>> leaf_of, parent_of = tree_of(groups, (), "machine.toml")
    >>> leaf_of.tolist(), parent_of.tolist()
    ([0, 0, 1, 1, 2], [3, 3, 3, -1])
    >>> tree = [Switch("leaf[1-2]", "a"), Switch("leaf3", "b"), Switch("b", "a"), Switch("a")]
    >>> tree_of(groups, tree, "machine.toml").parent_of.tolist()
    [4, 4, 3, 4, -1]
    """
    parents = _declared(switches, source)
    if all(switch is None for *_, switch in groups):
        if switches:
            raise JobcastError(f"{source}: no [[nodes]] names one of the [[switches]]; give each its switch.")
        return None
    leaves, nodes = list[str](), list[int]()  # switches with nodes, and how many nodes in turn
    for name, count, switch in groups:
        if switch is None:
            raise JobcastError(f"{source}: nodes {name!r} have no switch, and others have; give each its switch.")
        own = _names(switch, f"{source}: nodes {name!r}: switch")
        if count % len(own):
            raise JobcastError(
                f"{source}: nodes {name!r}: {counted(count, 'node')} cannot lie in equal parts on the "
                f"{len(own)} switches {switch!r}; make a group of each."
            )
        for one in own:
            if switches and one not in parents:
                raise JobcastError(f"{source}: nodes {name!r}: switch {one!r} is none of the [[switches]]; add it.")
            parents.setdefault(one, None)
        leaves += own
        nodes += [count // len(own)] * len(own)
    below = {parent: name for name, parent in reversed(parents.items())}
    for one in leaves:
        if one in below:
            raise JobcastError(
                f"{source}: switch {one!r} has nodes, and {below[one]!r} below it; put the nodes on a switch of their "
                "own."
            )
    number = {name: i for i, name in enumerate(parents)}
    parent_of = [-1 if parent is None else number[parent] for parent in parents.values()]
    if parent_of.count(-1) > 1:
        parent_of = [*(len(parent_of) if parent < 0 else parent for parent in parent_of), -1]
    return Tree(np.repeat([number[one] for one in leaves], nodes), np.array(parent_of))


def _declared(switches: Sequence[Switch], source: str) -> dict[str, str | None]:
    """Return the name of the switch above each switch."""
    parents: dict[str, str | None] = {}
    for switch in switches:
        for name in _names(switch.name, f"{source}: switch"):
            if name in parents:
                raise JobcastError(f"{source}: 2 switches are called {name!r}; rename one, or leave it out.")
            parents[name] = switch.parent
    reach_top: set[str] = set()
    for name in parents:
        way, above = dict[str, None](), name
        while above not in reach_top:
            way[above] = None
            parent = parents[above]
            if parent is None:
                break
            if parent not in parents:
                raise JobcastError(
                    f"{source}: switch {above!r}: parent {parent!r} is none of the [[switches]]; add it, or leave "
                    "parent out."
                )
            if parent in way:
                raise JobcastError(f"{source}: switch {parent!r} is above itself, by {above!r}; change a parent.")
            above = parent
        reach_top |= way.keys()
    return parents


def _names(text: str, where: str) -> list[str]:
    """Return the names in a list of switches."""
    if _LONG_NUMBER.search(text) or host_count(text) > MOST_SWITCHES:
        raise JobcastError(f"{where} {text[:80]!r} is too long a list: a tree has at most {MOST_SWITCHES:,} switches.")
    names = hostnames(text)
    if not names:
        raise JobcastError(f"{where} {text[:80]!r} names none; write a name, or a list such as leaf[1-4].")
    return names
