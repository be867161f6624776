"""Slurm's two loops as the backfilling of a policy."""

from dataclasses import dataclass

import numpy as np

from predictors.core.errors import JobcastError
from schedsim.policies.backfilling import MOST_SLACK, OwnPass, Pass
from schedsim.sites.slurm.limits import Limits, Quota
from schedsim.sites.slurm.preemption.rule import Preemption


@dataclass(frozen=True)
class Loops(OwnPass):
    """Slurm's two loops: the main loop at each event, the backfill loop by its own clock; see `passes`.

    >>> Loops(interval=60).kind
    'loops'
    """

    tested: int = 500  # jobs that a run of the backfill loop tests; each of them holds a reservation until the next run
    interval: int = 30  # time between two runs of the backfill loop [s]
    resolution: int = 60  # reservations begin and end on multiples of it [s]
    window: int = 86_400  # a job that would start later than this far ahead holds no reservation [s]
    calc_period: int = 0  # priorities change at its multiples [s]; 0: they do not
    backfills: bool = True  # whether there is a backfill loop
    limits: Limits | None = None  # limits on the jobs of one workload
    quotas: tuple[Quota, ...] = ()  # how many jobs of each user or partition of that workload a run of a loop tests
    preemption: Preemption | None = None  # which jobs of that workload may stop which others
    # what a test of the backfill loop takes [us]; 0: its runs lie at multiples of `interval`. Else a run begins
    # `interval` after the last one has ended, or later, when something has changed and no job ends in that second
    test_time: int = 0
    queue_depth: int = 0  # jobs that a run of the main loop tests; 0: all
    sched_interval: int = 60  # at its multiples the main loop tests all jobs [s]
    min_interval: int = 0  # time between two runs of the main loop, at least [s]

    def __post_init__(self) -> None:
        least = dict.fromkeys(("tested", "interval", "resolution", "window", "sched_interval"), 1)
        least |= dict.fromkeys(("calc_period", "test_time", "queue_depth", "min_interval"), 0)
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not lowest <= value <= MOST_SLACK:
                raise JobcastError(f"The {name} of Slurm's loops is {lowest} to {MOST_SLACK:,}; got {value!r}.")

    @property
    def kind(self) -> Pass:
        return "loops"

    @property
    def depth(self) -> int | None:
        return self.tested if self.backfills else 0

    @property
    def preempts(self) -> bool:
        return self.preemption is not None
