"""Agents: values that pick the next job in place of an order, and the rule for the job that holds the reservation.

An agent picks from a window at the front of the queue until the job picked does not fit: that job gets a reservation
(see `RESERVES`), and the agent picks from those that may be backfilled next to it, as in DRAS. The compiled pass
scores `Linear`, `RandomPicks` and the networks of `schedsim.policies.networks`; for any other object the engine pauses
and calls its method `choose` with what the pass has encoded (see `Observation`), or `pick` with the rows of the jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, Protocol, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Bools, Floats, Ints, Singles, short_repr
from predictors.core.errors import JobcastError
from schedsim.kernels.agents.observation import N_CONTEXT, N_FEATURES
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.networks import NO_NET, Dras, Shared

Reserve = Literal["kept", "oldest", "again"]

RESERVES: Final[Mapping[Reserve, int]] = MappingProxyType(
    {"kept": at.PICKED, "oldest": at.OLDEST, "again": at.PICKED_AGAIN}
)
"""Which job holds the reservation once the job picked does not fit: that one until it starts; the first in the queue
until it starts; or that one until the next instant, when the agent picks again, which protects no job."""


MOST_IN_WINDOW: Final = 56  # most jobs that an agent or the knapsack sees

MOST_WEIGHT: Final = 1e9  # with larger weights sums of features could not tell jobs apart


@dataclass(frozen=True, eq=False)
class Choice:
    """What an agent chooses from."""

    # now, free: time [s], processors free
    now: int
    free: int
    # shape (n,); rows of the jobs in its window, in the order of the queue; at level 1 the front of the queue: the job
    # picked starts, or a job is reserved if it does not fit; at level 2 those that may be backfilled
    rows: Ints
    level: int  # 1 or 2

    __repr__ = short_repr


class Agent(Protocol):
    """Picks jobs, one after the other, until it declines or none is left."""

    def pick(self, choice: Choice) -> int | None:
        """Return the place of the job in `choice.rows`, or None to end the pass."""


@dataclass(frozen=True, eq=False)
class Observation:
    """What an agent sees at a pick, see `schedsim.kernels.agents.observation`: no run time of a job."""

    # shape (window, 12); the features of each job of the window, see `FEATURES`; zero behind the last job
    jobs: at.Observed
    context: at.Observed  # shape (n_context,); see `schedsim.kernels.agents.observation.CONTEXT`
    n: int  # how many jobs are in the window: the places 0 to n - 1 may be picked
    now: int  # time [s]
    level: int  # 1 at the front of the queue, 2 among the candidates for backfills

    __repr__ = short_repr

    @classmethod
    def of(cls, numbers: at.Observed, window: int, n: int, now: int, level: int) -> Self:
        """Return views of what the pass has written."""
        split = window * N_FEATURES
        return cls(numbers[:split].reshape(window, N_FEATURES), numbers[split:], n, now, level)

    @property
    def mask(self) -> Bools:
        """Which places may be picked, shape (window,)."""
        return np.arange(len(self.jobs)) < self.n


class ObservingAgent(Protocol):
    """Picks the next job by what the pass has encoded, such as a network of any library."""

    def choose(self, observation: Observation) -> int:
        """Return the place of the job in the window."""


@dataclass(frozen=True)
class Linear:
    """Picks the job with the greatest weighted sum of features; of equal ones the first in the queue.

    Longest waiting first is first come, first served:

    >>> OLDEST_FIRST.weights[FEATURES.index("wait")]
    1.0
    """

    weights: tuple[float, ...]  # one for each of `FEATURES`, within -1e9 and 1e9

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Sequence | np.ndarray) or len(self.weights) != len(FEATURES):
            raise JobcastError(
                f"A linear agent has {len(FEATURES)} weights, one for each of {', '.join(FEATURES)}; got "
                f"{self.weights!r}."
            )
        try:
            numbers = tuple(float(weight) for weight in self.weights)
        except (TypeError, ValueError) as error:
            raise JobcastError(f"A linear agent's weights are numbers; got {self.weights!r}.") from error
        for feature, weight in zip(FEATURES, numbers, strict=True):
            if not abs(weight) <= MOST_WEIGHT:  # nor is NaN
                raise JobcastError(
                    f"A linear agent's weights lie within -{MOST_WEIGHT:.0e} and {MOST_WEIGHT:.0e}; that of "
                    f"{feature!r} is {weight}."
                )
        object.__setattr__(self, "weights", numbers)

    @property
    def array(self) -> Floats:
        """The weights as the kernels take them, shape (12,), not writeable."""
        weights = np.array(self.weights)
        weights.flags.writeable = False
        return weights


@dataclass(frozen=True)
class RandomPicks:
    """Picks any job of the window with equal chances: the control for learnt agents.

    A draw depends on the seed (0 to 2**63 - 1), the job and the number of the pick alone.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or not 0 <= self.seed < 1 << 63:
            raise JobcastError(f"The seed of random picks is a whole number from 0 to 2**63 - 1; got {self.seed!r}.")


OLDEST_FIRST: Final = Linear((1.0, *(0.0,) * (len(FEATURES) - 1)))  # longest waiting first: EASY, job for job

NO_WEIGHTS: Final = np.zeros(len(FEATURES))
NO_WEIGHTS.flags.writeable = False  # as the others are, or the kernels would be compiled again


Scored = Linear | RandomPicks | Shared | Dras  # agents that the compiled pass scores


def picks(agent: object) -> bool:
    """Return whether something is an agent."""
    if isinstance(agent, type):
        return False
    methods = (getattr(agent, name, None) for name in ("choose", "pick"))
    return isinstance(agent, Scored) or any(callable(method) for method in methods)


def observation_size(agent: object, window: int) -> int:
    """Return how many numbers the pass encodes at a pick; 0 where the agent does not use them.

    >>> observation_size(OLDEST_FIRST, 50)
    0
    """
    return window * N_FEATURES + N_CONTEXT if _observes(agent) else 0


def _observes(agent: object) -> bool:
    return not isinstance(agent, Scored) and callable(getattr(agent, "choose", None))


def code_of(agent: Agent | ObservingAgent | Scored) -> int:
    """Return the kernels' code of an agent."""
    codes = {Linear: at.LINEAR, RandomPicks: at.RANDOM_PICK, Shared: at.SHARED, Dras: at.DRAS}
    asked = at.ENCODED if _observes(agent) else at.ASKED
    return next((code for kind, code in codes.items() if isinstance(agent, kind)), asked)


@dataclass(frozen=True, eq=False)
class AgentArrays:
    """What the kernels need of an agent that they score."""

    # of features, or of a shared network; not writeable, shape (n,)
    weights: Floats = field(default_factory=lambda: NO_WEIGHTS)
    net: Singles = field(default_factory=lambda: NO_NET)  # of a network of DRAS; not writeable, shape (n,)
    layers: tuple[int, ...] = ()  # neurons of each layer of a network
    nodes: int = 0  # how many a network sees
    observation: int = 0  # how many numbers an agent outside the kernels sees

    __repr__ = short_repr

    @classmethod
    def of(cls, agent: Agent | ObservingAgent | Scored | None, window: int) -> Self:
        """Return the arrays of an agent and its window."""
        if isinstance(agent, Linear):
            return cls(agent.array)
        if isinstance(agent, Shared):
            return cls(agent.weights, layers=agent.layers)
        if isinstance(agent, Dras):
            return cls(net=agent.weights, layers=agent.shape.layers, nodes=agent.shape.nodes)
        return cls(observation=observation_size(agent, window))

    @property
    def hidden(self) -> int:
        """Numbers for the features and the layers of a shared network."""
        return len(FEATURES) + sum(self.layers[1:]) if self.nodes == 0 else len(FEATURES)

    @property
    def neurons(self) -> int:
        """Numbers for sums, layers, outputs and scores of a network of DRAS, see `schedsim.kernels.agents.scoring`."""
        if self.nodes == 0:
            return 0
        _, first, second, outputs = self.layers
        return 6 * first + second + outputs + MOST_IN_WINDOW

    @property
    def rows(self) -> int:
        """Rows that a network of DRAS sees."""
        return self.layers[0] if self.nodes else 0
