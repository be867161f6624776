"""What replaces a running job's estimate once it has expired: the corrections by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from predictors.core.errors import unknown_name
from schedsim.kernels.instant import DOUBLING, HALF_OF_REST, INCREMENTAL, MULTIPLES, PLUS_HOUR, REQUESTED_TIME

CORRECTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "requested": REQUESTED_TIME,  # the requested time
        "incremental": INCREMENTAL,  # the first estimate + 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h
        "doubling": DOUBLING,  # twice as long, again and again
        "slurm": HALF_OF_REST,  # now + half of what is left to the request, anew at every instant
        "pbs": MULTIPLES,  # the first estimate twice, three times, …
        "plus-hour": PLUS_HOUR,  # an hour more, again and again
    }
)
"""Corrections by name, as the kernels' codes. Applied at scheduling instants until the estimate lies in the future.

The last three are those of schedulers in production: Slurm with `time_min_as_soft_limit` (its `_soft_job_end`), PBS
with soft walltimes (its `extend_soft_walltime`), METASTACK. None exceeds the requested time."""


def correction_code(name: str) -> int:
    """Return the kernels' code of a correction.

    Examples
    --------
    >>> correction_code("incremental")
    1
    >>> correction_code(lambda estimate: 2 * estimate)
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: A correction is given by its name, a text; got an object of type function. ...
    """
    if not isinstance(name, str) or name not in CORRECTIONS:
        raise unknown_name("correction", name, CORRECTIONS)
    return CORRECTIONS[name]
