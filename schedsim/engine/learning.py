"""A learner during a simulation: it gets what the policy's network picked, and may change the network's weights.

The compiled pass keeps each pick of a `Dras` agent: what the network saw, the place of the job picked, what it earned.
After so many scheduling instants it stops, the learner reads the picks and they are cleared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints, Singles, short_repr
from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole
from schedsim.engine.state import State
from schedsim.kernels.agents.scoring import INSTANT, OF, PLACE, REWARD, VALUE
from schedsim.kernels.records import AgentState

EQUATIONS: Final[Mapping[str, int]] = MappingProxyType(
    {"none": at.NO_REWARD, "capability": at.EQUATION_1, "capacity": at.EQUATION_2, "short": at.SHORT_JOBS}
)
"""What a pick earns, by name."""


@dataclass(frozen=True)
class Reward:
    """What a pick earns."""

    # {"capability", "capacity", "short", "none"}: "capability" is equation 1 of DRAS: the wait of the job picked by the
    # longest wait in the queue, its processors by the machine's, and the processors in use by the machine's, weighted
    # and summed. "capacity" is equation 2: the mean of -1 / estimate [1/h] over the queue; a job that starts counts as
    # in use, and as out of the queue; the second is a mean, so a longer queue of longer jobs scores better. "short"
    # is minus the estimate of the job picked [h]: no equation of the paper, but it points at waits
    equation: str = "capability"
    shares: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)  # weights of the three parts of equation 1
    # floor of the longest wait in the queue [s]; without one, nothing is earned for waits as long as no job waits
    least_wait: int = 0
    # whether a learner exchanges each reward for that of some earlier pick: a control that can learn nothing from them
    shuffled: bool = False

    def __post_init__(self) -> None:
        if self.equation not in EQUATIONS:
            raise JobcastError(f"A reward is one of {', '.join(EQUATIONS)}; got {self.equation!r}.")
        if len(self.shares) != 3 or not all(abs(share) < np.inf for share in self.shares):
            raise JobcastError(f"Equation 1 has three finite weights; got {self.shares!r}.")
        check_whole(self.least_wait, "the floor of the longest wait", 0)


@dataclass(frozen=True, eq=False)
class Picks:
    """The picks since the last update, in their order; the arrays are overwritten once the learner returns."""

    seen: Singles  # shape (n, rows, 2); what the network saw; for the kind "dql" of the job picked alone
    # place, of: shape (n,); place of the job picked, and jobs in the window
    place: Ints
    of: Ints
    reward: Floats  # shape (n,); what each pick earned
    value: Floats  # shape (n,); the greatest of the network's scores
    instant: Ints  # shape (n,); number of the scheduling instant, the same for picks made at once

    __repr__ = short_repr

    @classmethod
    def of_state(cls, state: State) -> "Picks":
        """Return those that a simulation keeps."""
        n = int(state.picking.n_choices)
        kept = state.picker.choices[:n]
        place, of, instant = (kept[:, column].astype(np.int64) for column in (PLACE, OF, INSTANT))
        return cls(state.picker.seen[:n], place, of, kept[:, REWARD].copy(), kept[:, VALUE].copy(), instant)


class Learner(Protocol):
    """What learns from picks."""

    instants: int
    reward: Reward
    weights: Singles
    explore: float

    def update(self, picks: Picks) -> None:
        """Learn; `weights`, an array that is not writeable, and `explore` hold from then on."""


def write_reward(picking: AgentState, reward: Reward) -> None:
    picking.pick_reward = EQUATIONS[reward.equation]
    picking.wait_share, picking.procs_share, picking.used_share = reward.shares
    picking.least_wait = reward.least_wait


def begin(state: State, learner: Learner) -> None:
    """Keep picks for a learner from now on."""
    picking = state.picking
    check_whole(learner.instants, "the scheduling instants between two updates", 1)
    write_reward(picking, learner.reward)
    picking.instants, picking.n_choices = learner.instants, 0
    picking.next_update = state.record.clock.n_passes + learner.instants
    picking.explore = learner.explore
    state.with_net(learner.weights)


def tell(state: State, learner: Learner) -> None:
    """Tell the learner the picks so far, and go on with what it has learnt."""
    picking = state.picking
    learner.update(Picks.of_state(state))
    picking.n_choices = 0
    picking.next_update = state.record.clock.n_passes + picking.instants
    picking.explore = learner.explore
    state.with_net(learner.weights)


def end(state: State) -> None:
    """Keep no picks any more; the weights of now stay, whatever the learner does to its own."""
    picking = state.picking
    picking.instants, picking.n_choices = 0, 0
    net = state.picker.net.copy()
    net.flags.writeable = False
    state.with_net(net)
    state.with_choices(1)


def make_room(state: State) -> None:
    """Make room for the picks of a pass: one a waiting job, and one for the job reserved."""
    picking = state.picking
    state.with_choices(max(2 * len(state.picker.choices), int(picking.n_choices + state.record.queue.n_queued) + 1))
