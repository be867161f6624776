"""Cobalt's utility function, its constants and its closed form."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.declarations import STRICT
from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole
from schedsim.kernels.keys import squares

MINUTE: Final = 60


@dataclass(frozen=True)
class Score:
    """The gain of a waiting job at every tick: eligible² / walltime³ x size / machine x project weight, in minutes.

    .. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at
       Argonne. JSSPP 2017. doi:10.1007/978-3-319-77398-8_1
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    tick: int = 15  # seconds between two ticks; ticks lie at its multiples
    # floor, ceiling: bounds to which requested times are cut [s]
    floor: int = 60 * MINUTE
    ceiling: int = 720 * MINUTE
    # a child starts with this share of its parent's score at the parent's start, if that is more than its own
    heirs_share: float = 0.5

    def __post_init__(self) -> None:
        for what in ("tick", "floor", "ceiling"):
            check_whole(getattr(self, what), f"the score's {what}")
        if self.tick < 1:
            raise JobcastError(f"A score's tick is 1 s or more; got a tick of {self.tick} s.")
        if not 0 < self.floor <= self.ceiling:
            raise JobcastError(
                f"The score's walltimes need 0 < floor <= ceiling; got {self.floor} and {self.ceiling} s."
            )
        if not 0 <= self.heirs_share <= 1:
            raise JobcastError(f"A child inherits 0 to 1 of its parent's score; got {self.heirs_share}.")

    def growth(self, procs: Ints, requested: Ints, machine_procs: int, weight: Floats | float = 1.0) -> Floats:
        """Return the gain of jobs at a tick per squared second of eligible time."""
        minutes = np.clip(requested, self.floor, self.ceiling) / MINUTE
        share = procs / machine_procs
        return np.asarray(share * weight / (minutes * minutes * minutes * (MINUTE * MINUTE)), dtype=np.float64)

    def gained(
        self, eligible: int, procs: int, requested: int, machine_procs: int, weight: float = 1.0, begin: int = 0
    ) -> float:
        """Return the gain of a job, eligible since second `begin`, after this many seconds.

        >>> round(Score().gained(3600, 49_152, 3600, 49_152), 5)
        1.34168
        >>> Score().gained(9000, 512, 300, 49_152) == Score().gained(9000, 512, 3600, 49_152)
        True
        """
        growth = self.growth(np.array(procs), np.array(requested), machine_procs, weight)
        return float(growth) * squares(self.tick, begin, begin, begin + eligible)
