"""What replaces a running job's estimate once it has expired: the corrections by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from predictors.core.errors import unknown_name
from schedsim.kernels.instant import DOUBLING, INCREMENTAL, REQUESTED_TIME

CORRECTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "requested": REQUESTED_TIME,  # the requested time
        "incremental": INCREMENTAL,  # the first estimate + 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h
        "doubling": DOUBLING,  # twice as long, again and again
    }
)
"""Corrections by name, as the kernels' codes. Applied at scheduling instants until the estimate lies in the future."""


def correction_code(name: str) -> int:
    """Return the kernels' code of a correction.

    Examples
    --------
    >>> correction_code("incremental")
    1
    """
    if name not in CORRECTIONS:
        raise unknown_name("correction", name, CORRECTIONS)
    return CORRECTIONS[name]
