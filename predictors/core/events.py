"""The one stream of job events: what happened, when, to which job.

An event is a row (time, kind, job) of an int64 array of shape (n_events, 3): time in seconds since the log's first
submission, kind one of the constants below, job the row of the job in its `JobLog`. Within one second the order is
ends, submissions, starts; a zero-length job ends right after its start.
"""

from typing import Final, Protocol, runtime_checkable

from predictors.core.arrays import Floats, Ints

SUBMITTED: Final = 0
STARTED: Final = 1
ENDED: Final = 2
CANCELLED: Final = 3
RETURNED: Final = 4
"""A running job was stopped by a failure, or for another job, and is to run again; an event of simulations alone."""
FORGOTTEN: Final = 5  # the service dropped a live job because its end will never be known; only it has this event

TIME: Final = 0
KIND: Final = 1
JOB: Final = 2


@runtime_checkable
class Forecast(Protocol):
    """Estimates for the jobs of one log while its events, real or simulated, go by."""

    def advance(
        self,
        # shape (n_events, 3); (time [s], kind, row of the log), in order; all ends of an instant precede its
        # submissions
        events: Ints,
        # shape (n_jobs,); estimates by row of the log. Each depends only on events before its job's submission
        seconds: Floats,
    ) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        ...


@runtime_checkable
class Forkable(Forecast, Protocol):
    """A forecast that can be copied, with the simulation that it serves."""

    def fork(self) -> "Forkable":
        """Return a copy that goes on by itself."""
        ...
