"""Search for the weights of a linear agent by CMA-ES, and what is searched for: five figures relative to EASY's.

Each generation meets another variant of the training jobs: shaken (`schedsim.workload.shaking`), and arriving up to a
tenth faster or slower. All agents of a generation meet the same one, and so does EASY. So no agent can fit the chance
of one schedule, and what is returned is the middle of the last generation, not the best that was ever drawn.

.. [1] Hansen, Ostermeier. Completely derandomized self-adaptation in evolution strategies. Evolutionary Computation
   2001. doi:10.1162/106365601750190398
.. [2] Mania, Guy, Recht. Simple random search of static linear policies is competitive for reinforcement learning.
   NeurIPS 2018. arXiv:1803.07055
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from experiments.runs.simulate import estimates_by_name
from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, missing, unknown_name
from predictors.core.hash_random import unit
from predictors.data.joblog import JobLog
from schedsim.engine.simulation import Simulation
from schedsim.policies.agents import MOST_WEIGHT, OLDEST_FIRST, RESERVES, Linear, Reserve
from schedsim.policies.policy import Policy, make_policy
from schedsim.policies.pooled import Pooled
from schedsim.results.metrics import bounded_slowdown, widest
from schedsim.results.schedule import Schedule
from schedsim.workload.shaking import resubmitted, shaken
from schedsim.workload.workload import Workload

FIVE: Final = ("mean_wait_s", "mean_bounded_slowdown", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s")
"""Figures of a schedule, in this order: who gains, and in the last three who pays."""
TOLERANCE: Final = 0.05  # how much longer the last three may become without a penalty
POWER: Final = 4.0  # exponent of the mean of all five: a halved figure weighs a sixteenth of one that stays
PENALTY: Final = 5.0  # what 1 % beyond the tolerance costs, in per cent of the mean of the first two


def five(schedule: Schedule) -> Floats:
    """Return the logarithms of the five figures, shape (5,); below 1 (s) they count as 1, as in comparisons.

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
    return float(ratios[:2].mean())


def _beyond(ratios: Floats, limit: float) -> float:
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

        >>> round(Objective("constrained").gain(np.log([0.5, 0.5, 1.0, 9.0, 1.05])), 3)
        -0.693
        """
        return _gained(ratios) if self.name == "constrained" else self.of(ratios)

    def broken(self, ratios: Floats) -> tuple[str, ...]:
        """Return the figures that grew beyond the tolerance, where the objective limits them.

        >>> Objective("constrained").broken(np.log([0.5, 0.5, 1.0, 9.0, 1.05]))
        ('max_wait_s',)
        """
        if self.name != "constrained":
            return ()
        limit = np.log1p(self.tolerance) + 1e-12
        return tuple(name for name, ratio in zip(FIVE[2:], ratios[2:], strict=True) if ratio > limit)


BASE: Final = "easy"  # the policy in which the agent picks, and that it is compared with
POPULATION: Final = 12  # agents of a generation
SIGMA: Final = 1.0  # first standard deviation of each weight: features move by about 1 between jobs
PACE: Final = 0.1  # variants arrive up to so much faster or slower
_SHAKE: Final = 81  # purposes of draws
_PACE: Final = 82
_SEED: Final = 83


@dataclass(frozen=True)
class Frame:
    """What an agent is searched in."""

    objective: Objective
    window: int = 50  # how many jobs at the front of the queue it sees
    estimates: str = "requested"  # name of the estimates that the policy plans by and the features are made of
    seed: int = 0  # of variants and draws


@dataclass(frozen=True)
class Search:
    """One search: in which frame, under which reservation rule, over how many generations."""

    frame: Frame
    reserve: Reserve
    generations: int


def variant(log: JobLog, seed: int, number: int) -> JobLog:
    """Return a variant of a cleaned log: shaken, and with arrivals up to a tenth faster or slower.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(100, seed=1)
    >>> one, same, other = variant(log, 0, 1), variant(log, 0, 1), variant(log, 0, 2)
    >>> one.digest() == same.digest() != other.digest()
    True
    """
    found = shaken(log, int(unit(seed, number, _SHAKE) * 2**31))
    pace = 1 + PACE * (2 * unit(seed, number, _PACE) - 1)
    return resubmitted(found, np.rint(found.values["submit"] * pace).astype(np.int64))


class Contest:
    """Schedules one variant of jobs under agents, and gives their figures relative to EASY's by requested times."""

    def __init__(self, log: JobLog, frame: Frame) -> None:
        self._log, self._workload, self._frame = log, Workload.from_log(log), frame
        self._easy = self._five(make_policy(BASE), "requested")

    def ratios(self, policy: Policy) -> Floats:
        """Return the logarithms of a policy's five figures relative to EASY's."""
        return self._five(policy, self._frame.estimates) - self._easy

    def _five(self, policy: Policy, estimates: str) -> Floats:
        # forecasts learn in the loop, so that each run needs fresh ones
        simulation = Simulation(self._workload, policy, estimates_by_name(estimates, self._log, self._workload))
        simulation.run()
        return five(simulation.schedule())


def policy_of(found: Floats | tuple[float, ...] | Pooled, reserve: Reserve, window: int) -> Policy:
    """Return the policy of what a search has found: a linear agent's weights, or a network."""
    agent = found if isinstance(found, Pooled) else Linear(tuple(np.clip(found, -MOST_WEIGHT, MOST_WEIGHT).tolist()))
    return replace(make_policy(BASE), agent=agent, reserve=reserve, window=window)


def found_by(log: JobLog, search: Search, advance: Callable[[int], None] = lambda done: None) -> tuple[float, ...]:
    """Return the weights that a search from longest waiting first ends with; `advance(1)` counts generations."""
    frame, reserve = search.frame, search.reserve
    seed = int(unit(frame.seed, RESERVES[reserve], _SEED) * 2**31)
    strategy = _strategy(np.array(OLDEST_FIRST.weights), np.random.RandomState(seed))
    for generation in range(search.generations):
        contest = Contest(variant(log, frame.seed, generation), frame)
        drawn = strategy.ask()
        told = [frame.objective.of(contest.ratios(policy_of(one, reserve, frame.window))) for one in drawn]
        strategy.tell(drawn, told)
        advance(1)
    return tuple(float(weight) for weight in strategy.result.xfavorite)


def check_cma() -> None:
    """Raise JobcastError, naming the way out, unless the package cma is there."""
    try:
        import cma  # noqa: F401
    except ImportError as error:
        raise JobcastError(missing(error)) from error


def _strategy(start: Floats, random: np.random.RandomState) -> Any:
    """Return CMA-ES that draws from a generator of its own, and writes nothing."""
    check_cma()
    import cma

    options = {"popsize": POPULATION, "seed": np.nan, "randn": random.randn, "verbose": -9, "verb_log": 0}
    return cma.CMAEvolutionStrategy(start, SIGMA, options)
