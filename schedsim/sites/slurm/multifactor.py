"""Slurm's multifactor priority: age, association, fair-share, size, partition, QOS, TRES, the site's own, and nice.

A job's priority is the sum of weights times factors, cut to a whole number; the greatest comes first, equal ones by
submission, and a partition of a higher tier comes before all of lower ones. Ages and fair-share change at the ticks of
`calc_period` from the first submission on; until its first tick a job has the age 0. See slurm.conf(5) and the
multifactor page of Slurm's documentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from schedsim.kernels.records import Records
from schedsim.policies.orders import ORDERS, Order
from schedsim.policies.policy import Policy
from schedsim.sites.slurm.fair_share import FairShare
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.priorities import write_priorities
from schedsim.sites.slurm.records import PARTS, RANKING, Parts, Ranking
from schedsim.workload.workload import Workload


@dataclass(frozen=True)
class Multifactor:
    """Weights and rules of the priority."""

    # age, size, partition, qos, fair_share, association: weights of the factors
    age: int = 0
    size: int = 0
    partition: int = 0
    max_age: int = 604_800  # wait at which the age factor is 1 [s]
    calc_period: int = 300  # time between two ticks [s]
    favour_small: bool = False  # whether the size factor falls with the size
    # whether the size is divided by the requested time, in minutes (SMALL_RELATIVE_TO_TIME)
    relative_to_time: bool = False
    qos: int = 0
    fair_share: int = 0
    association: int = 0
    only_grows: bool = False  # whether no priority ever falls (INCR_ONLY)
    # whether the age of a preempted job begins at once, not when it may start again (ACCRUE_ALWAYS)
    ages_in_pause: bool = False

    def __post_init__(self) -> None:
        for name in ("max_age", "calc_period"):
            if getattr(self, name) < 1:
                raise JobcastError(f"A multifactor priority's {name} is 1 s or more; got {getattr(self, name)!r}.")

    def sizes(self, procs: Ints, nodes: Ints, requested: Ints, of_procs: int, of_nodes: int) -> Floats:
        """Return the size factors of jobs on a machine, shape (n_jobs,).

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

    def order(
        self,
        workload: Workload,
        parts: Records[Parts],  # shape (n_jobs,); what stays the same of each job's priority, see `parts`
        # the users of the jobs and what these cost; by default all have the factor 0
        fair_share: FairShare | None = None,
    ) -> Order:
        if fair_share is not None and fair_share.calc_period != self.calc_period:
            raise JobcastError(
                f"Fair-share and priorities have one calc_period; got {fair_share.calc_period} and {self.calc_period}."
            )
        return Order.by_ranking(Priorities(self, workload.submit, parts, fair_share), "multifactor")


def parts_of(n_jobs: int, **weighted: Floats | Ints) -> Records[Parts]:
    """Return the parts of priorities that stay the same, weights included; those that are not given are 0.

    >>> parts_of(2, size=np.array([250.0, 500.0]), tier=np.array([1, 2]))["size"].tolist()
    [250.0, 500.0]
    """
    parts: Any = np.zeros(n_jobs, PARTS)
    for name, values in weighted.items():
        parts[name] = values
    return parts  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Priorities:
    """The priorities of a workload's jobs."""

    rule: Multifactor
    submit: Ints  # when each was submitted [s], shape (n_jobs,)
    parts: Records[Parts]  # what stays the same of each, shape (n_jobs,)
    fair_share: FairShare | None = None  # None: fair-share does not count

    __repr__ = short_repr

    @property
    def ranking(self) -> Records[Ranking]:
        """The rule as the kernels take it, before the first second."""
        rule, one = self.rule, np.zeros(1, RANKING)
        one["ranks"], one["only_grows"], one["ranked_at"] = True, rule.only_grows, -1
        one["ages_in_pause"] = rule.ages_in_pause
        one["calc_period"], one["max_age"], one["age"] = rule.calc_period, rule.max_age, rule.age
        one["follows"] = self.fair_share is not None
        one["fair_share"] = rule.fair_share if self.fair_share is not None else 0
        found: Any = one
        return found  # type: ignore[no-any-return]

    @property
    def parts_now(self) -> Records[Parts]:
        """The parts as the kernels take them, before the first second."""
        found = self.parts.copy()
        found["submitted"] = found["aged_from"] = self.submit
        return found

    def at(self, now: int, share: Floats | None = None) -> Ints:
        """Return the priorities of all jobs at a second, by their fair-share factors; shape (n_jobs,).

        >>> parts = parts_of(3, size=np.array([0.0, 400.0, -9.0]))
        >>> Priorities(Multifactor(age=1000, max_age=1000), np.array([0, 300, 601]), parts).at(899).tolist()
        [600, 700, 1]
        """
        n = len(self.submit)
        found, tick = np.empty(n, dtype=np.int64), now - now % self.rule.calc_period
        write_priorities(self.ranking, self.parts_now, tick, np.zeros(n) if share is None else share.copy(), found)
        return found


def slurm_policy(order: Order | None, loops: Loops) -> Policy:
    """Return Slurm's policy from its order (None: first come, first served) and its loops.

    >>> slurm_policy(None, Loops(tested=100)).depth
    100
    """
    return Policy(ORDERS["fcfs"] if order is None else order, loops)
