"""The smallest number with which a site's waits keep to a target: doubled until they do, then halved between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from experiments.site.advise.sentences import span
from experiments.site.whatif.whatif import HOLDS
from predictors.core.errors import unknown_name

FIGURES: Final[Mapping[str, str]] = {"mean_wait": "mean wait", "p95_wait": "95th percentile of the wait"}


@dataclass(frozen=True)
class Target:
    """A figure of all jobs, and what it may be at most [s]."""

    figure: str
    most: int

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise unknown_name("target", self.figure, FIGURES)

    def is_met(self, shaken: Sequence[float]) -> bool:
        """Return whether nine of ten shakes keep to it.

        >>> Target("mean_wait", 60).is_met([50.0] * 9 + [70.0]), Target("mean_wait", 60).is_met([50.0, 70.0])
        (True, False)
        """
        return float(np.mean(np.asarray(shaken) <= self.most)) >= HOLDS

    @property
    def words(self) -> str:
        """The target in words."""
        return f"{FIGURES[self.figure]} at most {span(self.most)}"


@dataclass(frozen=True)
class Found:
    """What a search tried, and the smallest number that meets the target."""

    target: Target
    tried: dict[int, list[float]] = field(default_factory=dict)  # the figure of each shake, by number [s]

    @property
    def smallest(self) -> int | None:
        """The smallest number that was tried and meets it; None if none does."""
        return min((one for one, shaken in self.tried.items() if self.target.is_met(shaken)), default=None)

    @property
    def rises(self) -> list[tuple[int, int]]:
        """Neighbours that were tried where the figure is higher with more, in nine of ten shakes.

        >>> Found(Target("mean_wait", 60), {1: [90.0], 2: [95.0], 4: [50.0]}).rises
        [(1, 2)]
        """
        return [
            (one, more)
            for one, more in pairwise(sorted(self.tried))
            if float(np.mean(np.asarray(self.tried[more]) > np.asarray(self.tried[one]))) >= HOLDS
        ]


def search(target: Target, shaken: Callable[[int], Sequence[float]], first: int, most: int) -> Found:
    """Return what a search from `first` up to `most` finds; `shaken` gives the figure of each shake for a number.

    >>> found = search(Target("mean_wait", 60), lambda number: [600.0 / (1 + number)] * 10, 0, 64)
    >>> found.smallest, sorted(found.tried)
    (9, [0, 1, 2, 4, 8, 9, 10, 12, 16])
    """
    found = Found(target)

    def meets(number: int) -> bool:
        if number not in found.tried:
            found.tried[number] = list(shaken(number))
        return target.is_met(found.tried[number])

    low, high = first - 1, first
    while not meets(high) and high < most:
        low, high = high, min(max(1, 2 * high), most)
    if target.is_met(found.tried[high]):
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if meets(middle) else (middle, high)
    return found
