"""Slurm's multifactor priority, as far as it follows from the jobs alone: age, size, partition.

A job's priority is the sum of weights times factors from 0 to 1, cut to a whole number; the greatest comes first, equal
ones by submission, and a partition of a higher tier comes before all of lower ones. Ages are brought up to date at the
ticks of `calc_period` from the first submission on; until its first tick a job has the age 0. See slurm.conf(5) and the
multifactor page of Slurm's documentation. Not here: fair-share, QOS, associations, TRES, nice and site factors.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from schedsim.policies.backfilling import Easy, NoBackfilling
from schedsim.policies.orders import ORDERS, Order, Waiting
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload

TIER: Final = float(1 << 33)
"""What a tier counts: more than any priority."""


@dataclass(frozen=True)
class Multifactor:
    """Weights and rules of the priority.

    Parameters
    ----------
    age, size, partition : int
        Weights of the factors.
    max_age : int
        Wait at which the age factor is 1 [s].
    calc_period : int
        Time between two ticks [s].
    favour_small : bool
        Whether the size factor falls with the size.
    relative_to_time : bool
        Whether the size is divided by the requested time, in minutes (SMALL_RELATIVE_TO_TIME).

    Raises
    ------
    JobcastError
        If a time is not above 0.
    """

    age: int = 0
    size: int = 0
    partition: int = 0
    max_age: int = 604_800
    calc_period: int = 300
    favour_small: bool = False
    relative_to_time: bool = False

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

    def order(self, workload: Workload, nodes: Ints, of_nodes: int, partition: Floats, tier: Ints) -> Order:
        """Return the order of a workload's jobs.

        Parameters
        ----------
        workload : Workload
            The jobs.
        nodes : int64 array of shape (n_jobs,)
            Nodes of each, of `of_nodes`.
        of_nodes : int
            Nodes of the machine.
        partition : float64 array of shape (n_jobs,)
            Factor of each job's partition, 0 to 1.
        tier : int64 array of shape (n_jobs,)
            PriorityTier of each job's partition.
        """
        submit = workload.submit
        size = self.sizes(workload.procs, nodes, workload.requested, workload.machine_procs, of_nodes)
        fixed = self.size * size + self.partition * partition

        def keys(waiting: Waiting) -> Floats:
            row = waiting.row
            priority = np.floor(self.age * self.ages(waiting.now, submit[row]) + fixed[row])
            key: Floats = -(np.clip(priority, 1.0, float((1 << 32) - 1)) + TIER * tier[row])
            return key

        return Order.by(keys, "multifactor")


def slurm_policy(order: Order | None, reservations: int | None) -> Policy:
    """Return the policy of a Slurm: its order (None: first come, first served), and how many jobs backfilling plans.

    Without backfilling (`reservations` None) no job passes the first that does not fit.

    Examples
    --------
    >>> slurm_policy(None, 500).depth
    500
    """
    return Policy(
        ORDERS["fcfs"] if order is None else order,
        NoBackfilling() if reservations is None else Easy(depth=reservations, replan=True),
    )
