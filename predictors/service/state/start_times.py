"""Protocol of forecasts of start times; the implementation is passed in, since the service knows no scheduler."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LiveJob(NamedTuple):
    """A job that waits or runs."""

    job_id: int
    submit: int
    procs: int | None
    requested_time: int | None
    user: int | None
    start: int | None
    """None: it waits."""
    predicted: float | None
    """The prediction at its submission [s]."""


class StartTimes(Protocol):
    """Forecasts starts from the jobs that wait and run."""

    def forecast(self, live: Sequence[LiveJob], now: int, job: LiveJob) -> tuple[int, int, int]:
        """Return the seconds by which the job has started with a chance of 10, 50 and 90 %."""
        ...
