"""Results of comparisons: better or worse, by how much, on how many logs, and who pays."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Outcome = Literal["better", "worse", "open", "at others' cost"]

COST: Final = "at others' cost"
LEVEL: Final = 0.95  # of the intervals
TOLERATED: Final = 1.05  # a wait that is certainly longer by no more than this ratio is no price
LEAST: Final = 5  # seeds (users, logs) from which on anything is called sure

MEASURE: Final[Mapping[str, str]] = MappingProxyType(  # what decides, by kind of sweep, where nothing else is asked for
    {"simulate": "mean_bounded_slowdown", "evaluate": "sse_s2", "train": "sse_s2"}
)
RESPONSE_BY_AREA: Final = "area_weighted_mean_response_s"
_OF_PREDICTIONS: Final = ("mae_s", "underestimation_rate")
PRICES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # where it may be paid for, by kind of sweep
    {
        "simulate": ("mean_wait_s", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s", RESPONSE_BY_AREA),
        "evaluate": _OF_PREDICTIONS,
        "train": _OF_PREDICTIONS,
    }
)


def of_each(level: float, several: int) -> float:
    """Return the level of each of several intervals that shall all hold together at a level (Bonferroni).

    >>> of_each(0.95, 1), of_each(0.95, 5)
    (0.95, 0.99)
    """
    return 1 - (1 - level) / several


@dataclass(frozen=True)
class Ratio:
    """Ours / theirs, 1 meaning alike, and the ends of its interval; NaN where they are unknown."""

    value: float
    low: float
    high: float

    @property
    def below(self) -> bool:
        return self.high < 1.0

    def above(self, limit: float = 1.0) -> bool:
        return self.low > limit

    @property
    def outcome(self) -> Outcome:
        """The outcome for a figure of which less is better."""
        return "better" if self.below else "worse" if self.above() else "open"


@dataclass(frozen=True)
class LogResult:
    """How two ways compare on one log: over so many seeds, or users where these were resampled."""

    log: str
    ratio: Ratio
    samples: int
    outcome: Outcome


@dataclass(frozen=True)
class Price:
    """What becomes of a figure that the comparison is not about."""

    measure: str
    ratio: Ratio  # ours / theirs over all logs
    paid: bool  # whether it is certainly worse than tolerated: over all logs, or on half of them
    on: tuple[str, ...] = ()  # the logs on which it is


@dataclass(frozen=True)
class WorseOff:
    """The share of users who are worse off, see `schedsim.results.metrics.share_worse_off`."""

    share: float  # median over the seeds, of several logs of the mean over them
    # ends of the median's interval; NaN of few seeds
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """One case of a sweep compared with another."""

    # ours and theirs
    case: str
    beside: str
    measure: str
    ratio: Ratio  # ours / theirs over all logs
    logs: tuple[LogResult, ...]
    prices: tuple[Price, ...]  # who pays
    # `open`: inside the noise, or too little to tell. `at others' cost`: better, but a price is paid
    outcome: Outcome
    level: float = LEVEL  # of the ratio's interval; higher where several intervals must hold together
    tolerated: float = TOLERATED  # the ratio above which a price is paid
    # of the users; None where figures by user were not asked for, or no user is known
    worse_off: WorseOff | None = None

    @property
    def paid(self) -> tuple[Price, ...]:
        return tuple(price for price in self.prices if price.paid)

    def on(self, outcome: Outcome) -> int:
        return sum(log.outcome == outcome for log in self.logs)


@dataclass(frozen=True)
class Choice:
    """Which of several cases is best."""

    case: str | None  # the winner; None where none can be named
    first: str  # who has the lowest figure, winner or not
    # `first` compared with each other case, by ratios with intervals so much wider that all of them hold together
    against: tuple[Comparison, ...]
