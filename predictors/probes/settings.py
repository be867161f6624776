"""What is sent, how often, and in which pattern: rows of probes compare only where these agree."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from predictors.data.errors import JobcastError, unknown_name

RINGS: Final = MappingProxyType(
    {
        "token": "one message goes round: rank 0 sends first, every other rank hands on what it has received",
        "exchange": "all ranks send at once: even ranks send first, odd ranks receive first",
    }
)
"""The patterns of the ring; neither can deadlock, however large the message."""

LARGEST: Final = 2**31 - 8
"""Bytes of a message: MPI counts in 32 bits."""


@dataclass(frozen=True)
class Settings:
    """What the two probes do; the defaults are the paper's.

    Parameters
    ----------
    ring : {"token", "exchange"}
        See `RINGS`; the paper passes a token around.
    ring_bytes, allreduce_bytes : int
        Size of a message [bytes], at least 8; of the all-reduce a multiple of 8, since it adds up float64.
    ring_iterations, allreduce_iterations : int
        At least 1.

    References
    ----------
    .. [1] D. Nichols, A. Marathe, K. Shoga, T. Gamblin, A. Bhatele. Resource utilization aware job scheduling to
       mitigate performance variability. IPDPS 2022 (section III.C).

    Examples
    --------
    >>> Settings().ring_bytes, Settings().allreduce_iterations
    (100000000, 5)
    """

    ring: str = "token"
    ring_bytes: int = 100_000_000
    ring_iterations: int = 10
    allreduce_bytes: int = 100_000_000
    allreduce_iterations: int = 5

    def __post_init__(self) -> None:
        if self.ring not in RINGS:
            raise unknown_name("ring", str(self.ring), RINGS)
        for name in ("ring_bytes", "allreduce_bytes"):
            value = getattr(self, name)
            if type(value) is not int or not 8 <= value <= LARGEST:
                raise JobcastError(f"Probes: {name} must be a whole number from 8 to {LARGEST}; got {value!r}.")
        if self.allreduce_bytes % 8:
            raise JobcastError(f"Probes: allreduce_bytes must be a multiple of 8; got {self.allreduce_bytes}.")
        for name in ("ring_iterations", "allreduce_iterations"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise JobcastError(f"Probes: {name} must be a whole number, at least 1; got {value!r}.")
