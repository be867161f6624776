"""Rewards by name: what an environment pays for a pick.

A reward may know how long jobs ran, which an observation never does: it is paid while an agent learns, and not
read when the agent is used. Those that are sums over the jobs add up, from an episode's first pick on, to the measure
itself; jobs that wait when it begins count in the waits.

.. [1] Fan, Li, Singh, Taylor, Allcock, Lan. Deep reinforcement agent for scheduling in HPC. IPDPS 2021, equations 1
   and 2. doi:10.1109/IPDPS49936.2021.00090
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import unknown_name
from schedsim.engine.learning import Reward as Pick
from schedsim.gym import batch
from schedsim.results.metrics import BOUND
from schedsim.workload.workload import Workload


def _alike(workload: Workload) -> Floats:
    return np.ones(len(workload))


def _nothing(workload: Workload) -> Floats:
    return np.zeros(len(workload))


def _by_width(workload: Workload) -> Floats:
    return workload.procs / workload.machine_procs


def _by_length(workload: Workload) -> Floats:
    run_time = np.minimum(workload.run_time, workload.requested)
    return np.asarray(batch.HOUR / np.maximum(run_time, BOUND))


@dataclass(frozen=True)
class Reward:
    """A reward: its code in the compiled call, what a job that waits an hour weighs, and what a pick earns."""

    code: int
    weigh: Callable[[Workload], Floats]
    meaning: str
    pick: Pick = Pick("none")  # noqa: RUF009 - frozen

    @property
    def needs_easy(self) -> bool:
        """Whether it compares with the base policy on the same jobs."""
        return self.code == batch.VERSUS_EASY


REWARDS: Final[Mapping[str, Reward]] = MappingProxyType(
    {
        "wait": Reward(batch.WAIT, _alike, "minus the hours that jobs have waited since the last pick"),
        "wait-by-width": Reward(batch.WAIT, _by_width, "the same, a job by its share of the machine"),
        "slowdown": Reward(batch.WAIT, _by_length, "the same, a job by 1 / max(run time, 10 s)"),
        "slowdown-at-start": Reward(
            batch.SLOWDOWN_AT_START, _alike, "minus the bounded slowdowns of the jobs started since the last pick"
        ),
        "versus-easy": Reward(
            batch.VERSUS_EASY, _alike,
            "at the end alone: minus the mean of ln(mean wait + 1 s) and ln(mean bounded slowdown) relative to the "
            "base policy's on the same jobs",
        ),
        "dras-capability": Reward(
            batch.BY_PICK, _alike,
            "equation 1 of DRAS: a third each of wait / longest wait, processors / machine, and the share in use with "
            "the job, if it starts",
            Pick("capability"),
        ),
        "dras-capacity": Reward(
            batch.BY_PICK, _alike,
            "equation 2 of DRAS: minus the mean of 1 / estimate [1 / h] of the jobs that wait after the pick",
            Pick("capacity"),
        ),
        "zero": Reward(batch.WAIT, _nothing, "nothing: the control of what is learnt"),
    }
)  # fmt: skip
"""Rewards by name."""


def reward_named(name: str) -> Reward:
    """Return a reward by its name.

    >>> reward_named("slowdwn")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: No reward 'slowdwn'; did you mean 'slowdown'? Known: wait, ...
    """
    if not isinstance(name, str) or name not in REWARDS:
        raise unknown_name("reward", str(name), REWARDS)
    return REWARDS[name]
