"""The one stream of job events: what happened, when, to which job.

An event is a row (time, kind, job) of an int64 array of shape (n_events, 3): time in seconds since the log's first
submission, kind one of the constants below, job the row of the job in its `JobLog`. Within one second the order is
ends, submissions, starts; a zero-length job ends right after its start.
"""

from typing import Final

SUBMITTED: Final = 0
STARTED: Final = 1
ENDED: Final = 2
CANCELLED: Final = 3
RETURNED: Final = 4
"""A running job was stopped by a failure and waits again; simulations alone know it, and tell no predictor of it."""

TIME: Final = 0
KIND: Final = 1
JOB: Final = 2
