"""Event of a job as the service stores it: twelve whole numbers, -1 where one is unknown."""

from typing import Final, NamedTuple

from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.history.history import Job

KINDS: Final = {"submitted": SUBMITTED, "started": STARTED, "ended": ENDED, "cancelled": CANCELLED}
"""Kinds that clients send."""
KIND_NAMES: Final = {number: name for name, number in KINDS.items()} | {FORGOTTEN: "forgotten"}
APPLIED: Final = "applied"
HELD: Final = "held"
REFUSED: Final = "refused"
DROPPED: Final = "dropped"
WITHDRAWN: Final = "withdrawn"
EFFECTS: Final = (APPLIED, HELD, REFUSED, DROPPED, WITHDRAWN)
"""What became of an event; the database holds its place here. Only the first two take the place of (job, kind)."""
UNKNOWN: Final = -1


class Event(NamedTuple):
    """One event about one job; a column of the database each.

    >>> Event(5, STARTED, 60).described_as(Event(5, STARTED, 60, sequence=9))
    True
    """

    job: int
    kind: int
    time: int  # seconds on the service's clock
    status: int = UNKNOWN  # of an end: 0 failed, 1 completed, 2 to 4 partial, 5 cancelled
    procs: int = UNKNOWN
    requested_time: int = UNKNOWN
    user: int = UNKNOWN
    group: int = UNKNOWN
    executable: int = UNKNOWN
    queue: int = UNKNOWN
    partition: int = UNKNOWN
    sequence: int = UNKNOWN  # its place among all events, from 1; given when it is stored

    @property
    def submission(self) -> Job:
        return Job.coded(self.job, self.time, self[4:11])

    def described_as(self, other: "Event") -> bool:
        """Return whether another event holds the same, whenever it arrived."""
        return self[:-1] == other[:-1]


FIELDS: Final = Event._fields
