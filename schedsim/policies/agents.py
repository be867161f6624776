"""Agents: values that pick the next job in place of an order, and the rule for the job that holds the reservation.

An agent picks from a window at the front of the queue until the job picked does not fit: that one is reserved (see
`RESERVES`), and then it picks from those that may be backfilled beside it, as in DRAS [1]_. `Linear`, `RandomPicks` and
the networks of `schedsim.policies.networks` are scored inside the compiled pass; any other object with a method `pick`
is asked by a pause of the engine.

References
----------
.. [1] Fan, Li, Singh, Taylor, Allcock, Lan. Deep reinforcement agent for scheduling in HPC. IPDPS 2021.
   doi:10.1109/IPDPS49936.2021.00090
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, Protocol, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.errors import JobcastError
from schedsim.kernels.agents import FEATURES
from schedsim.policies.networks import NO_NET, Dras, Shared

Reserve = Literal["kept", "oldest", "again"]

RESERVES: Final[Mapping[Reserve, int]] = MappingProxyType(
    {"kept": at.PICKED, "oldest": at.OLDEST, "again": at.PICKED_AGAIN}
)
"""Which job holds the reservation once the job picked does not fit: that one until it starts; the first in the queue
until it starts; or that one until the next instant, when the agent picks again, which protects nobody."""


MOST_IN_WINDOW: Final = 56
"""Jobs that an agent, or the knapsack, may look at."""

MOST_WEIGHT: Final = 1e9
"""Beyond it sums of features would lose what tells jobs apart."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What an agent chooses from.

    Parameters
    ----------
    now, free : int
        Time [s], processors free.
    rows : int64 array of shape (n,)
        Rows of the jobs in its window, in the order of the queue. At level 1 the front of the queue: the job picked
        starts, or a job is reserved if it does not fit. At level 2 those that may be backfilled.
    level : int
        1 or 2.
    """

    now: int
    free: int
    rows: Ints
    level: int


class Agent(Protocol):
    """Something that picks the next job, one after the other, until it declines or nothing is left."""

    def pick(self, choice: Choice) -> int | None:
        """Return the place of the job in `choice.rows`, or None to end the pass."""


@dataclass(frozen=True)
class Linear:
    """Picks the job with the greatest weighted sum of features; of equal ones the first in the queue.

    Parameters
    ----------
    weights : tuple of float
        One for each of `FEATURES`, within -1e9 and 1e9.

    Raises
    ------
    JobcastError
        If they are not so many such numbers.

    Examples
    --------
    Longest waiting first is first come, first served:

    >>> OLDEST_FIRST.weights[FEATURES.index("wait")]
    1.0
    """

    weights: tuple[float, ...]

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
    """Picks any job of the window with equal chances: the control of every learnt agent.

    Parameters
    ----------
    seed : int
        Of the draws, which depend on the job and the number of the pick alone: 0 to 2**63 - 1.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or not 0 <= self.seed < 1 << 63:
            raise JobcastError(f"The seed of random picks is a whole number from 0 to 2**63 - 1; got {self.seed!r}.")


OLDEST_FIRST: Final = Linear((1.0, *(0.0,) * (len(FEATURES) - 1)))
"""Longest waiting first: EASY, job for job."""

NO_WEIGHTS: Final = np.zeros(len(FEATURES))
NO_WEIGHTS.flags.writeable = False  # as the others are: else the kernels are compiled once more


Scored = Linear | RandomPicks | Shared | Dras
"""Agents that the compiled pass scores by itself."""


def code_of(agent: Agent | Scored | None) -> int:
    """Return the kernels' code of who picks."""
    if agent is None:
        return at.NO_AGENT
    codes = {Linear: at.LINEAR, RandomPicks: at.RANDOM_PICK, Shared: at.SHARED, Dras: at.DRAS}
    return next((code for kind, code in codes.items() if isinstance(agent, kind)), at.ASKED)


@dataclass(frozen=True, eq=False)
class AgentArrays:
    """What the kernels need of an agent that they score by themselves.

    Parameters
    ----------
    weights : float64 array of shape (n,)
        Of features, or of a shared network; not writeable.
    net : float32 array of shape (n,)
        Of a network of DRAS; not writeable.
    layers : tuple of int
        Neurons of each layer of a network.
    nodes : int
        How many a network sees.
    """

    weights: Floats = field(default_factory=lambda: NO_WEIGHTS)
    net: Singles = field(default_factory=lambda: NO_NET)
    layers: tuple[int, ...] = ()
    nodes: int = 0

    @classmethod
    def of(cls, agent: Agent | Scored | None) -> Self:
        """Return those of an agent."""
        if isinstance(agent, Linear):
            return cls(agent.array)
        if isinstance(agent, Shared):
            return cls(agent.weights, layers=agent.layers)
        if isinstance(agent, Dras):
            return cls(net=agent.weights, layers=agent.shape.layers, nodes=agent.shape.nodes)
        return cls()

    @property
    def hidden(self) -> int:
        """Numbers for the features and the layers of a shared network."""
        return len(FEATURES) + sum(self.layers[1:]) if self.nodes == 0 else len(FEATURES)

    @property
    def neurons(self) -> int:
        """Numbers for the sums, layers, outputs and scores of a network of DRAS, see `schedsim.kernels.networks`."""
        if self.nodes == 0:
            return 0
        _, first, second, outputs = self.layers
        return 6 * first + second + outputs + MOST_IN_WINDOW

    @property
    def rows(self) -> int:
        """Rows that a network of DRAS sees."""
        return self.layers[0] if self.nodes else 0
