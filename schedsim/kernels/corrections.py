"""Corrections by name: what replaces a running job's estimate once it has expired.

A rule is a formula here, a line in `corrected` that calls it, and a row in `CORRECTIONS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from predictors.core.errors import unknown_name
from predictors.core.jit import lean, step

REQUESTED_TIME: Final = 0
INCREMENTAL: Final = 1
DOUBLING: Final = 2
HALF_OF_REST: Final = 3
MULTIPLES: Final = 4
PLUS_HOUR: Final = 5
HOUR: Final = 3600  # seconds
# Tsafrir, Etsion, Feitelson (IEEE TPDS 18(6), 2007, doi:10.1109/TPDS.2007.70606), seconds
INCREMENTS: Final = (60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)


class Correction(NamedTuple):
    """A correction: the kernels' code, and the new estimate in words."""

    code: int
    help: str


CORRECTIONS: Final[Mapping[str, Correction]] = MappingProxyType(
    {
        "requested": Correction(REQUESTED_TIME, "the requested time"),
        "incremental": Correction(
            INCREMENTAL,
            "the first estimate + 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h, at most the requested time",
        ),
        "doubling": Correction(DOUBLING, "twice as long each time, at most the requested time"),
        "slurm": Correction(HALF_OF_REST, "now + half of what is left, again at every instant"),
        "pbs": Correction(MULTIPLES, "the first estimate once more each time, at most the requested time"),
        "plus-hour": Correction(PLUS_HOUR, "one hour more each time, at most the requested time"),
    }
)
"""Corrections by name. They apply at scheduling instants until the estimate lies in the future.

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
    return CORRECTIONS[name].code


@lean
def corrected(code: int, estimate: int, first: int, limit: int, elapsed: int) -> int:
    """Return the first correction of `estimate` that lies beyond `elapsed`; all in seconds.

    `first` is the estimate at submission, `limit` the requested time: no correction exceeds it while it lies beyond
    `elapsed` itself. The estimate of a job that outruns its request (without a kill) doubles.
    """
    if limit <= elapsed:
        return _doubled(max(estimate, limit), elapsed)
    if code == INCREMENTAL:
        return min(_incremented(first, limit, elapsed), limit)
    if code == DOUBLING:
        return min(_doubled(estimate, elapsed), limit)
    if code == HALF_OF_REST:
        return elapsed + max(1, (limit - elapsed) // 2)
    if code == MULTIPLES:
        return min(first * (elapsed // first + 1), limit)
    if code == PLUS_HOUR:
        return min(estimate + HOUR * ((elapsed - estimate) // HOUR + 1), limit)
    return limit


@step
def _incremented(first: int, limit: int, elapsed: int) -> int:
    for more in INCREMENTS:
        if first + more > elapsed:
            return first + more
    return limit


@step
def _doubled(estimate: int, elapsed: int) -> int:
    while estimate <= elapsed:
        estimate *= 2
    return estimate


@step
def asks_again(code: int) -> bool:
    """Return whether a correction changes at every instant, not only when it has expired."""
    return code == HALF_OF_REST
