"""The smallest number with which a site's waits keep to a target: doubled until they do, then halved between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from experiments.site.whatif.whatif import HOLDS
from predictors.core.errors import unknown_name

FIGURES: Final[Mapping[str, str]] = {"mean_wait": "mean wait", "p95_wait": "95th percentile of the wait"}


@dataclass(frozen=True)
class Target:
    """A figure of all jobs, what it may be at most [s], and what was tried for it."""

    figure: str
    most: int
    tried: dict[int, Sequence[float]] = field(default_factory=dict)  # the figure of each shake, by number [s]

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise unknown_name("target", self.figure, FIGURES)

    def is_met(self, number: int) -> bool:
        """Return whether nine of ten shakes keep to it with a number that was tried."""
        return float(np.mean(np.asarray(self.tried[number]) <= self.most)) >= HOLDS

    @property
    def smallest(self) -> int | None:
        """The smallest number that was tried and meets it; None if none does."""
        return min(filter(self.is_met, self.tried), default=None)

    def search(self, shaken: Callable[[int], Sequence[float]], most: int) -> None:
        """Try numbers up to `most`; `shaken` gives the figure of each shake for one.

        >>> target = Target("mean_wait", 60)
        >>> target.search(lambda number: [600.0 / (1 + number)] * 10, 64)
        >>> target.smallest, sorted(target.tried)
        (9, [0, 1, 2, 4, 8, 9, 10, 12, 16])
        """

        def meets(number: int) -> bool:
            if number not in self.tried:
                self.tried[number] = shaken(number)
            return self.is_met(number)

        low, high = -1, 0
        while not meets(high) and high < most:
            low, high = high, min(max(1, 2 * high), most)
        while meets(high) and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if meets(middle) else (middle, high)
