"""Preemption as a part of Slurm's loops: which jobs of a workload may stop which others, and what happens to these."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Ints, short_repr
from predictors.core.errors import JobcastError
from schedsim.sites.slurm.records import PREEMPTING, PreemptionArrays

CRED_EXPIRE: Final = 120  # seconds that a job's credential is valid by default: so long a stopped job waits at least
_LEAST_STOPS: Final = 64  # stopped runs for which there is room at first
_MOST_HALVES: Final = 64  # halves of halves of a queue of any length


@dataclass(frozen=True, eq=False)
class Preemption:
    """Which jobs of one workload may stop which running ones, and how.

    >>> classes, zeros = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    >>> by_qos = Preemption(classes, np.array([[False, False], [True, False]]), zeros, zeros + 1, zeros, zeros > 0)
    >>> by_qos.delay
    121
    """

    class_of: Ints  # shape (n_jobs,); the class of each job, from 0 on: its QOS and its partition
    preempts: Bools  # shape (n_classes, n_classes); whether jobs of one class may stop those of another
    # rank, nodes: shape (n_jobs,); of several running jobs those of the lowest rank are stopped first, then those on
    # the fewest nodes. A machine file says itself on how many nodes they lie
    rank: Ints
    nodes: Ints
    exempt: Ints  # shape (n_jobs,); how long each job runs at least before it may be stopped [s]
    # shape (n_jobs,); whether a job that is stopped is gone; else it starts again from the beginning
    is_cancelled: Bools
    delay: int = CRED_EXPIRE + 1  # a stopped job may start again after so long [s]
    reorders: int = 1  # how often the jobs to stop are chosen again, see `schedsim.sites.slurm.preemption.victims`
    # strict, youngest: Slurm's `strict_order` and `youngest_first`
    strict: bool = False
    youngest: bool = False
    # shape as of `preempts`; whether waiting jobs of one class come before those of another; None: as `preempts`
    precedes: Bools | None = None

    __repr__ = short_repr

    def arrays(self, n_jobs: int, machine_procs: int) -> PreemptionArrays:
        if len(self.class_of) != n_jobs:
            raise JobcastError(
                f"This preemption is for {len(self.class_of):,} jobs, the workload has {n_jobs:,}: make it for these."
            )
        one: Any = np.zeros(1, PREEMPTING)
        for name in ("delay", "reorders", "strict", "youngest"):
            one[name] = getattr(self, name)
        running = min(n_jobs, machine_procs)
        slots, keys, ties = (np.empty(running, dtype=np.int64) for _ in range(3))
        stops = np.empty((_LEAST_STOPS, 4), dtype=np.int64)
        halves, half = np.empty((_MOST_HALVES, 3), dtype=np.int64), np.empty(n_jobs, dtype=np.int64)
        precedes = self.preempts if self.precedes is None else self.precedes
        return PreemptionArrays(
            one, self.class_of, self.preempts, self.rank, self.nodes, self.exempt, self.is_cancelled,
            slots, keys, ties, precedes, halves, half, stops,
        )  # fmt: skip
