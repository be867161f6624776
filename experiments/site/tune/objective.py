"""What an agent is tuned for: five figures relative to EASY's on the same jobs, and objectives of their ratios."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, unknown_name
from schedsim.results.metrics import bounded_slowdown, widest
from schedsim.results.schedule import Schedule

FIVE: Final = ("mean_wait_s", "mean_bounded_slowdown", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s")
"""Figures of a schedule, in this order: who gains, and in the last three who pays."""
TOLERANCE: Final = 0.05  # how much longer the last three may become without a penalty
POWER: Final = 4.0
"""Exponent of the mean of all five: a figure that is halved weighs a sixteenth of one that stays as it is."""
PENALTY: Final = 5.0  # what 1 % beyond the tolerance costs, in per cent of the mean of the first two


def five(schedule: Schedule) -> Floats:
    """Return the logarithms of the five figures, shape (5,); below 1 (s) they count as 1, as in comparisons.

    Examples
    --------
    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([0, 1], submit=[0, 0], procs=[1, 1], requested=[10, 10], run_time=[10, 10],
    ...                           machine_procs=1)
    >>> np.exp(five(simulate(w, make_policy("easy")))).round(2).tolist()
    [5.0, 1.5, 9.9, 10.0, 1.0]
    """
    wait = schedule.wait
    figures = (
        wait.mean(),
        bounded_slowdown(wait, schedule.run_time).mean(),
        np.percentile(wait, 99),
        wait.max(),
        wait[widest(schedule.workload.procs)].mean(),
    )
    return np.log(np.maximum(np.array(figures, dtype=np.float64), 1.0))


def _gained(ratios: Floats) -> float:
    """Return the mean of wait and slowdown."""
    return float(ratios[:2].mean())


def _beyond(ratios: Floats, limit: float) -> float:
    """Return what p99, longest wait and the widest jobs' wait cost beyond the limit."""
    return float(PENALTY * np.maximum(0.0, ratios[2:] - limit).sum())


_OBJECTIVES: Final[Mapping[str, Callable[[Floats, float], float]]] = MappingProxyType(
    {
        "constrained": lambda ratios, limit: _gained(ratios) + _beyond(ratios, limit),
        "five": lambda ratios, limit: float(np.log(np.mean(np.exp(POWER * ratios))) / POWER),
        "slowdown": lambda ratios, limit: float(ratios[1]),
        "wait": lambda ratios, limit: float(ratios[0]),
    }
)
OBJECTIVES: Final = tuple(_OBJECTIVES)
"""What is to be small, of ratios to EASY.

`constrained`: the geometric mean of wait and slowdown, while p99, longest wait and the widest 5 % stay within the
tolerance. `five`: the power mean of all five, so that the worst of them counts most. `slowdown`, `wait`: that figure
alone, which lets others pay without a limit, see `docs/tune.md`."""
ONE_SIDED: Final = ("slowdown", "wait")  # objectives that do not see who pays


@dataclass(frozen=True)
class Objective:
    """What is to be small.

    Examples
    --------
    >>> round(Objective("constrained").of(np.log([0.5, 0.5, 1.0, 1.05, 1.05])), 3)
    -0.693
    >>> round(Objective("constrained").of(np.log([0.5, 0.5, 1.0, 1.05 * 1.1, 1.05])), 3)
    -0.217
    """

    name: str = "constrained"  # one of `OBJECTIVES`
    # of the constrained one: 0.05 lets p99, longest wait and the widest jobs' wait become 5 % longer at no cost
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES:
            raise unknown_name("objective", self.name, OBJECTIVES)
        if not 0 <= self.tolerance <= 10:  # nor is NaN
            raise JobcastError(f"The tolerance is a share from 0 to 10, such as 0.05; got {self.tolerance}.")

    def of(self, ratios: Floats) -> float:
        """Return the objective of the logarithms of the five ratios to EASY."""
        return _OBJECTIVES[self.name](ratios, float(np.log1p(self.tolerance)))

    def gain(self, ratios: Floats) -> float:
        """Return the objective without what broken limits cost.

        Examples
        --------
        >>> round(Objective("constrained").gain(np.log([0.5, 0.5, 1.0, 9.0, 1.05])), 3)
        -0.693
        """
        return _gained(ratios) if self.name == "constrained" else self.of(ratios)

    def broken(self, ratios: Floats) -> tuple[str, ...]:
        """Return the figures that grew beyond the tolerance, where the objective limits them.

        Examples
        --------
        >>> Objective("constrained").broken(np.log([0.5, 0.5, 1.0, 9.0, 1.05]))
        ('max_wait_s',)
        """
        if self.name != "constrained":
            return ()
        limit = np.log1p(self.tolerance) + 1e-12
        return tuple(name for name, ratio in zip(FIVE[2:], ratios[2:], strict=True) if ratio > limit)
