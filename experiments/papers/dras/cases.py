"""The methods that are compared, apart from what is trained: the paper's baselines, its frame at random, good rules."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from experiments.runs.simulate import estimates_by_name
from predictors.data.joblog import JobLog
from schedsim.engine.simulation import simulate
from schedsim.policies.agents import OLDEST_FIRST, RandomPicks, Reserve
from schedsim.policies.backfilling import Easy, Knapsack
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import Policy, make_policy
from schedsim.results.schedule import Schedule
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate, clairvoyant, requested
from schedsim.workload.workload import Workload

FCFS: Final = "FCFS"
BINPACKING: Final = "BinPacking"
RANDOM: Final = "Random"
OPTIMIZATION: Final = "Optimization"
DECIMA: Final = "Decima-PG"
PG: Final = "DRAS-PG"
DQL: Final = "DRAS-DQL"
PAPER: Final = (FCFS, BINPACKING, RANDOM, OPTIMIZATION, DECIMA, PG, DQL)  # the paper's methods, under its names

KEPT: Final = "random picks, kept"
OLDEST: Final = "random picks, oldest"
AGAIN: Final = "random picks, again"
FRAMES: Final[MappingProxyType[str, Reserve]] = MappingProxyType({KEPT: "kept", OLDEST: "oldest", AGAIN: "again"})
"""A random agent in the paper's frame, by which job holds the reservation."""

FIRST: Final = "oldest first in the frame"
ORACLE: Final = "oracle order"
AHEAD: Final = "look-ahead"  # at each pass the best of five orders, found by draining the queue; its frame is *again*
CQSIM: Final = ", cqsim estimates"  # what the names of methods with CQSim's estimates end in

WINDOW: Final = 50


def _oracle(workload: Workload) -> Separate:
    """Return requested times for planning, and for the order the true run times, which no one knows."""
    return Separate(requested(workload), requested(workload), clairvoyant(workload))


@dataclass(frozen=True)
class Case:
    """A method without training."""

    name: str
    policy: Callable[[int], Policy]  # returns the policy of a seed: random picks differ by it
    estimates: str = "requested"  # what it plans by: `requested`, `cqsim`, `careful`, or `oracle order`

    def run(self, log: JobLog, workload: Workload, seed: int) -> Schedule:
        return simulate(workload, self.policy(seed), planned_by(self.estimates, log, workload))


def planned_by(name: str, log: JobLog, workload: Workload) -> Estimates | Separate | RevisedEstimates:
    """Return estimates by their name."""
    return _oracle(workload) if name == ORACLE else estimates_by_name(name, log, workload)


def _always(policy: Policy | str) -> Callable[[int], Policy]:
    made = make_policy(policy) if isinstance(policy, str) else policy
    return lambda seed: made


def _random(reserve: Reserve) -> Callable[[int], Policy]:
    return lambda seed: Policy(backfill=Easy(), agent=RandomPicks(seed), reserve=reserve, window=WINDOW)


_BASELINES: Final = (
    Case(FCFS, _always("easy")),
    Case(BINPACKING, _always("binpacking")),
    Case(RANDOM, _always("random")),
    Case(OPTIMIZATION, _always(Policy(backfill=Knapsack("capability"), window=WINDOW))),
)
_RULES: Final = ("easy-sjbf", "sjf-easy", "saf-easy", "f1-easy", "f2-easy", "f3-easy", "f4-easy", "wfp3-easy",
                 "unicep-easy", "conservative-replan", "conservative-compress")  # fmt: skip

UNTRAINED: Final = (  # every method without training; the first is what the others are compared with
    *_BASELINES,
    Case("Optimization, means", _always(Policy(backfill=Knapsack("capability-mean"), window=WINDOW))),
    *(Case(name, _random(reserve)) for name, reserve in FRAMES.items()),
    Case(FIRST, _always(Policy(backfill=Easy(), agent=OLDEST_FIRST, reserve="kept", window=WINDOW))),
    *(Case(name, _always(name)) for name in _RULES),
    Case("careful", _always("careful"), "careful"),
    Case(AHEAD, _always("look-ahead")),
    Case(ORACLE, _always(Policy(ORDERS.built_in["saf"], Easy())), ORACLE),
    Case(FCFS + CQSIM, _always("easy"), "cqsim"),
    Case(KEPT + CQSIM, _random("kept"), "cqsim"),
    Case(OLDEST + CQSIM, _random("oldest"), "cqsim"),
)

FROZEN: Final = ", frozen"  # ending of the names of trained agents with a network that no longer learns during the test
CONTROLS: Final = ("untrained", "shuffled rewards", "zero reward", "permuted features", "raw inputs")
"""Agents that must not be better than random picks."""
TRUE_TIMES: Final = "true run times"  # DRAS-PG that sees true run times: an upper bound that no site can have
FULL_RETURNS: Final = "returns to the end"  # DRAS-PG with returns up to the end of the job set
COPIED: Final = ", copied test months"  # agents that learnt from their test jobs, to show what leakage does
LINEAR: Final = "linear agent"
"""Twelve weights, tuned on the training months in the same frame as DRAS and the random picks, *kept*."""
LINEAR_TRUE: Final = f"{LINEAR}, {TRUE_TIMES}"  # the linear agent that sees and plans by true run times: an upper bound
CAPACITY: Final = "DRAS-PG, reward (2)"

# variants of DRAS-PG, trained on the same job sets with the same seeds
BY_WAIT: Final = "DRAS-PG, state chosen by wait"  # the same training; the state with least mean wait is tested
BY_INSTANT: Final = "DRAS-PG, reward by instant"  # equation 1 as means over the jobs selected at an instant
PUBLIC: Final = "DRAS-PG, public code's update"  # discount .6, returns relative to mean and deviation of the update
NORMALISED: Final = "DRAS-PG, normalised"  # the same, but discount 0 and a tenth of the rate
SHORT: Final = "DRAS-PG, reward for short jobs"  # the same; it earns minus the estimate of the job picked
VARIANTS: Final = (BY_WAIT, BY_INSTANT, PUBLIC, NORMALISED, SHORT)

LINEARS: Final = (LINEAR, LINEAR + COPIED, LINEAR_TRUE)
PARTS: Final = MappingProxyType(
    {"headline": (PG, DQL, *VARIANTS, LINEAR), "paper": (PG, DQL, DECIMA), "linear": LINEARS}
)
"""Agents that can be asked for alone."""
