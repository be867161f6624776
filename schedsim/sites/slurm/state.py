"""Slurm's two loops at one moment of a simulation: their clock, and the use of each limit."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from schedsim.policies.policy import Policy
from schedsim.sites.slurm.limits import Limits
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.records import PACE, SlurmArrays


@dataclass(frozen=True, eq=False)
class LoopsNow:
    """The loops of a simulation."""

    arrays: SlurmArrays
    limits: Limits

    @classmethod
    def of(cls, policy: Policy, n_jobs: int) -> "LoopsNow | None":
        """Return the loops before the first second; None where the policy has none."""
        loops = policy.backfill
        if not isinstance(loops, Loops):
            return None
        limits = Limits.none(n_jobs) if loops.limits is None else loops.limits
        limits.check_jobs(n_jobs)
        pace: Any = np.zeros(1, PACE)
        for name in ("backfills", "interval", "resolution", "window", "tested", "calc_period"):
            pace[name] = getattr(loops, name)
        unreserved = np.zeros(n_jobs, dtype=np.bool_) if limits.unreserved is None else limits.unreserved
        held_by = np.full(n_jobs, -1, dtype=np.int64)
        arrays = SlurmArrays(pace, limits.table(), limits.records, limits.first_claim, unreserved, held_by)
        return cls(arrays, limits)

    def fork(self) -> Self:
        """Return an independent copy."""
        own: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in ("pace", "limits", "held_by")}
        return type(self)(self.arrays._replace(**own), self.limits)

    def limit_on(self, row: int) -> str | None:
        """Return the limit that held a job at the last check, or None."""
        number = int(self.arrays.held_by[row])
        return None if number < 0 else self.limits.names[number]
