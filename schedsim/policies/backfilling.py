"""Backfilling: which waiting jobs may start ahead of a blocked head, and which reservations protect the others.

Each is a value. `order` ranks the jobs behind the blocked head, both as candidates and for further reservations; by
default it is the order of the queue.

.. [1] Mu'alem & Feitelson. Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM
   SP2 with backfilling. IEEE TPDS 12(6), 2001. doi:10.1109/71.932708
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Literal

import numpy as np

import schedsim.kernels.records as at
from predictors.core.errors import JobcastError
from schedsim.policies.orders import Order

Pass = Literal["counts", "profile", "compress", "greedy", "knapsack", "loops"]
"""Which compiled pass plans: by counts of processors, in an availability profile, without reservations, as a set, in
Slurm's two loops."""

Reward = Literal["capability", "capacity", "capability-mean", "capacity-mean"]

REWARDS: Final[Mapping[Reward, int]] = MappingProxyType(
    {
        "capability": at.CAPABILITY,
        "capacity": at.CAPACITY,
        "capability-mean": at.CAPABILITY_MEAN,
        "capacity-mean": at.CAPACITY_MEAN,
    }
)
"""Rewards of `Knapsack`, by the kernels' codes."""
MOST_SLACK: Final = 10**12  # longest slack of a promise [s]: longer than any log


@dataclass(frozen=True)
class NoBackfilling:
    """No job passes a blocked head."""

    kind: ClassVar[Pass] = "counts"  # the pass that does it
    depth: ClassVar[int | None] = 0  # how many blocked jobs hold reservations; None stands for all

    order: Order | None = None


@dataclass(frozen=True)
class Easy:
    """EASY backfilling [1]_: the head holds a reservation, and a job that does not delay it may start.

    Parameters
    ----------
    order : Order, optional
        Ranks the jobs behind the blocked head.
    depth : int
        How many blocked jobs hold reservations; more than one is a hybrid between EASY and conservative backfilling.
    replan : bool
        Whether each pass plans the reservations again in an availability profile; with several it always does.

    Examples
    --------
    >>> Easy().kind, Easy(depth=3).kind
    ('counts', 'profile')
    """

    order: Order | None = None
    depth: int = 1
    replan: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.depth, bool) or not isinstance(self.depth, int | np.integer) or self.depth < 1:
            raise JobcastError(
                f"EASY and hybrid backfilling hold at least 1 reservation; got depth={self.depth!r}. For none take "
                "NoBackfilling(), for all Conservative()."
            )

    @property
    def kind(self) -> Pass:
        """The pass that does it."""
        return "profile" if self.replan or self.depth > 1 else "counts"


@dataclass(frozen=True)
class Conservative:
    """Conservative backfilling [1]_: every waiting job holds a reservation, and no job may delay another."""

    depth: ClassVar[int | None] = None

    order: Order | None = None  # ranks the jobs behind the blocked head
    keep: bool = False  # whether a reservation, once given, only moves forward; else each pass plans all of them again

    @property
    def kind(self) -> Pass:
        """The pass that does it."""
        return "compress" if self.keep else "profile"


@dataclass(frozen=True)
class Greedy:
    """Each job that fits starts; there are no reservations."""

    kind: ClassVar[Pass] = "greedy"
    depth: ClassVar[int | None] = 0

    order: Order | None = None


@dataclass(frozen=True)
class Knapsack:
    """The most valuable set of the first jobs of the queue starts, without reservations.

    .. [1] Fan, Li, Singh, Taylor, Allcock, Lan. Deep reinforcement agent for scheduling in HPC. IPDPS 2021.
       doi:10.1109/IPDPS49936.2021.00090
    """

    kind: ClassVar[Pass] = "knapsack"
    depth: ClassVar[int | None] = 0
    order: ClassVar[None] = None  # the value of a set decides

    # the value of a set: a sum over its jobs, or the rewards of [1]_ as printed, with means; then `capability-mean` is
    # the mean wait over the longest one, plus the mean share of the machine, plus the share in use; `capacity-mean` is
    # minus the mean of 1 / estimate over the jobs of the window that are left
    reward: Reward = "capability"

    def __post_init__(self) -> None:
        if self.reward not in REWARDS:
            raise JobcastError(f"A knapsack's reward is one of {', '.join(REWARDS)}; got {self.reward!r}.")

    def sums(self, procs: int, window: int) -> int:
        """Return how many best sets its dynamic programme keeps: per number of processors and, for means, of jobs."""
        return (procs + 1) * (window + 1 if REWARDS[self.reward] >= at.CAPABILITY_MEAN else 1)


class OwnPass(ABC):
    """What a site's scheduler does in a pass of its own, such as `schedsim.sites.slurm.loops.Loops`."""

    @property
    def order(self) -> None:
        """The queue's order ranks all jobs."""
        return

    @property
    def preempts(self) -> bool:
        """Whether running jobs may be stopped for others."""
        return False

    @property
    @abstractmethod
    def kind(self) -> Pass:
        """The pass that does it."""

    @property
    @abstractmethod
    def depth(self) -> int | None:
        """How many blocked jobs hold reservations."""


Backfilling = NoBackfilling | Easy | Conservative | Greedy | Knapsack | OwnPass


@dataclass(frozen=True)
class Promise:
    """A guaranteed start for the head of the queue.

    A job that first heads the queue blocked keeps its shadow time by *requested* times, and no backfill may break it by
    requested times, however good or bad the estimates are.

    >>> Promise(slack=3600, growth=0.1, most=7200).slack_after(waited=20_000)
    5600
    >>> Promise(slack=3600, growth=-0.1, least=900).slack_after(waited=20_000)
    1600
    """

    slack: int = 0  # how much later than that shadow time the guaranteed start lies [s]
    # further slack for each second that the head had waited by then [s]; with a negative value, a job that waited long
    # gets a firmer promise
    growth: float = 0.0
    # least, most: bounds of the slack [s]; `slack` lies between them
    least: int = 0
    most: int = MOST_SLACK
    # whether the head also keeps its place until it starts, where the order would let another job come first
    kept: bool = False

    def __post_init__(self) -> None:
        for name in ("slack", "least", "most"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= MOST_SLACK:
                raise JobcastError(
                    f"A promise's {name} is a whole number of seconds from 0 to {MOST_SLACK:,}; got {value!r}."
                )
        if not self.least <= self.slack <= self.most:
            raise JobcastError(
                f"A promise's slack lies between its least and its most; got least={self.least}, slack={self.slack}, "
                f"most={self.most}."
            )
        if isinstance(self.growth, bool) or not isinstance(self.growth, int | float) or not -1e6 <= self.growth <= 1e6:
            raise JobcastError(f"A promise's growth is a number from -1,000,000 to 1,000,000; got {self.growth!r}.")

    def slack_after(self, waited: int) -> int:
        """Return the slack of a head that had waited this long [s]."""
        return max(self.least, min(self.most, self.slack + int(self.growth * waited)))
