"""Records of Slurm's two loops: their pace, the limits, and what each job counts against them.

These arrays are in addition to those of `schedsim.kernels.records`; simulations of other policies do not have them.
"""

from typing import Final, NamedTuple

from predictors.core.arrays import Bools, Ints
from schedsim.kernels.records import Records, record_type


class Pace:
    """When the backfill loop runs and how far it plans; times in seconds."""

    backfills: bool
    interval: int  # between two runs of the backfill loop; its clock begins with the first submission
    resolution: int  # reservations begin and end on multiples of it
    window: int  # a job that would start later than this far ahead holds no reservation
    tested: int  # jobs that a run of the backfill loop tests
    calc_period: int  # priorities change at multiples of it; 0: they do not
    is_changed: bool  # something has happened since the last run of the backfill loop
    timer: int  # the next one that is set


class Limit:
    """How much may be in use at a time of one thing, by the running jobs that count against it."""

    most: int
    used: int


class Claim:
    """What a job counts against a limit."""

    limit: int  # its number
    amount: int
    holds: bool  # the limit may hold the job; else the job only counts


class SlurmArrays(NamedTuple):
    """All arrays of the two loops, as the kernels pass them on."""

    pace: Records[Pace]  # one
    limits: Records[Limit]
    claims: Records[Claim]  # those of the job in row i are `claims[first_claim[i]:first_claim[i + 1]]`; read-only
    first_claim: Ints  # read-only
    unreserved: Bools  # whether a job gets no reservation, by row; read-only
    held_by: Ints  # number of the limit that held a job last, by row, or -1


PACE: Final = record_type(Pace)
LIMIT: Final = record_type(Limit)
CLAIM: Final = record_type(Claim)
