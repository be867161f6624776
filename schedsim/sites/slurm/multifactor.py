"""Slurm's multifactor priority: age, size, partition, QOS and fair-share.

A job's priority is the sum of weights times factors from 0 to 1, cut to a whole number; the greatest comes first, equal
ones by submission, and a partition of a higher tier comes before all of lower ones. Ages and fair-share change at the
ticks of `calc_period` from the first submission on; until its first tick a job has the age 0. See
slurm.conf(5) and the multifactor page of Slurm's documentation. Not here: associations' own priorities, TRES, nice and
site factors.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, RETURNED, STARTED
from schedsim.policies.orders import ORDERS, Order, Waiting
from schedsim.policies.policy import Policy
from schedsim.sites.slurm.fair_share import FairShare, Usage
from schedsim.sites.slurm.loops import Loops
from schedsim.workload.workload import Workload

TIER: Final = float(1 << 33)  # value of a tier: more than any priority
MOST: Final = float((1 << 32) - 1)  # the highest priority


@dataclass(frozen=True)
class Multifactor:
    """Weights and rules of the priority.

    Parameters
    ----------
    age, size, partition : int
        Weights of the factors.
    qos, fair_share : int
        Weights of the QOS factor and the fair-share factor.
    max_age : int
        Wait at which the age factor is 1 [s].
    calc_period : int
        Time between two ticks [s].
    favour_small : bool
        Whether the size factor falls with the size.
    relative_to_time : bool
        Whether the size is divided by the requested time, in minutes (SMALL_RELATIVE_TO_TIME).
    """

    age: int = 0
    size: int = 0
    partition: int = 0
    max_age: int = 604_800
    calc_period: int = 300
    favour_small: bool = False
    relative_to_time: bool = False
    qos: int = 0
    fair_share: int = 0

    def __post_init__(self) -> None:
        for name in ("max_age", "calc_period"):
            if getattr(self, name) < 1:
                raise JobcastError(f"A multifactor priority's {name} is 1 s or more; got {getattr(self, name)!r}.")

    def sizes(self, procs: Ints, nodes: Ints, requested: Ints, of_procs: int, of_nodes: int) -> Floats:
        """Return the size factors of jobs on a machine, shape (n_jobs,).

        Examples
        --------
        >>> jobs = np.array([8, 32]), np.array([1, 4]), np.array([600, 600]), 32, 4
        >>> Multifactor(size=1).sizes(*jobs).tolist(), Multifactor(size=1, favour_small=True).sizes(*jobs).tolist()
        ([0.25, 1.0], [0.75, 0.0])
        """
        share, share_of_nodes = procs / of_procs, nodes / of_nodes
        if self.relative_to_time:
            factor = np.maximum(share_of_nodes, share) / np.maximum(1, -(-requested // 60))
            factor = 1.0 - factor if self.favour_small else factor
        elif self.favour_small:
            factor = (np.maximum(0.0, 1.0 - share_of_nodes) + (1.0 - share)) / 2
        else:
            factor = (share_of_nodes + share) / 2
        return np.clip(factor, 0.0, 1.0)

    def ages(self, now: int, submit: Ints) -> Floats:
        """Return the age factors at the last tick up to `now`.

        Examples
        --------
        >>> Multifactor(max_age=1000).ages(899, np.array([0, 300, 601])).tolist()
        [0.6, 0.3, 0.0]
        """
        tick = now - now % self.calc_period
        return np.minimum(1.0, np.maximum(0, tick - submit) / self.max_age)

    def order(
        self,
        workload: Workload,
        nodes: Ints,
        of_nodes: int,
        partition: Floats,
        tier: Ints,
        qos: Floats | None = None,
        fair_share: FairShare | None = None,
    ) -> Order:
        """Return the order of a workload's jobs.

        Parameters
        ----------
        nodes : int64 array of shape (n_jobs,)
            Nodes of each job, out of `of_nodes`.
        of_nodes : int
            Nodes of the machine.
        partition : float64 array of shape (n_jobs,)
            Factor of each job's partition, 0 to 1.
        tier : int64 array of shape (n_jobs,)
            PriorityTier of each job's partition.
        qos : float64 array of shape (n_jobs,), optional
            Factor of each job's QOS, 0 to 1; by default 0.
        fair_share : FairShare, optional
            The users of the jobs and what these cost; by default all have the factor 0.
        """
        size = self.sizes(workload.procs, nodes, workload.requested, workload.machine_procs, of_nodes)
        fixed = self.size * size + self.partition * partition
        if qos is not None:
            fixed = fixed + self.qos * qos
        found = Priorities(self, workload.submit, fixed, tier, fair_share if self.fair_share else None)
        if found.fair_share is None:
            return Order.by(found.keys, "multifactor")
        return Order.by_following(found, "multifactor")


@dataclass(frozen=True, eq=False)
class Priorities:
    """The priorities of a workload's jobs."""

    rule: Multifactor
    submit: Ints  # when each was submitted [s], shape (n_jobs,)
    fixed: Floats  # the part of each priority that does not change with time, shape (n_jobs,)
    tier: Ints  # PriorityTier of each job's partition, shape (n_jobs,)
    fair_share: FairShare | None = None  # None: fair-share does not count

    __repr__ = short_repr

    def begun(self) -> "PrioritiesNow":
        """Return the priorities before the first second."""
        assert self.fair_share is not None
        return PrioritiesNow(self, self.fair_share.begun())

    def keys(self, waiting: Waiting) -> Floats:
        """Return keys that sort waiting jobs, without fair-share."""
        return self.sorting(waiting.row, self.of_jobs(waiting.now, waiting.row))

    def of_jobs(self, now: int, rows: Ints, share: Floats | float = 0.0) -> Floats:
        """Return the priorities of some jobs at a second, whole numbers from 1 to 2^32 - 1."""
        rule = self.rule
        priority = np.floor(rule.age * rule.ages(now, self.submit[rows]) + self.fixed[rows] + rule.fair_share * share)
        return np.clip(priority, 1.0, MOST)

    def sorting(self, rows: Ints, priority: Floats) -> Floats:
        """Return keys, the smallest first."""
        return -(priority + TIER * self.tier[rows])


@dataclass(frozen=True, eq=False)
class PrioritiesNow:
    """The priorities at one moment of a simulation."""

    priorities: Priorities
    usage: Usage

    def advance(self, events: Ints) -> None:
        """Take in which jobs have started and ended."""
        for time, kind, row in events.tolist():
            if kind == STARTED:
                self.usage.started(row, time)
            elif kind in (ENDED, RETURNED):
                self.usage.ended(row, time)

    def of_jobs(self, now: int, rows: Ints) -> Floats:
        """Return the priorities of some jobs at a second."""
        self.usage.to(now)
        return self.priorities.of_jobs(now, rows, self.usage.of_jobs(rows))

    def keys(self, waiting: Waiting) -> Floats:
        """Return keys that sort waiting jobs."""
        return self.priorities.sorting(waiting.row, self.of_jobs(waiting.now, waiting.row))

    def fork(self) -> "PrioritiesNow":
        """Return an independent copy."""
        return PrioritiesNow(self.priorities, self.usage.fork())


def slurm_policy(order: Order | None, loops: Loops) -> Policy:
    """Return Slurm's policy from its order (None: first come, first served) and its loops.

    Examples
    --------
    >>> slurm_policy(None, Loops(tested=100)).depth
    100
    """
    return Policy(ORDERS["fcfs"] if order is None else order, loops)
