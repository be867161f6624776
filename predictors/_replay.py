"""Merging a log's submissions, starts and ends into one stream of events."""

from predictors.data.compiled import compiled
from predictors.data.events import ENDED, JOB, KIND, STARTED, SUBMITTED, TIME
from predictors.data.joblog import Ints


@compiled
def merge(cursors: Ints, submit: Ints, start: Ints, end: Ints, by_start: Ints, by_end: Ints, events: Ints) -> int:
    """Write the next events into `events`, as many as fit, and return their number.

    Parameters
    ----------
    cursors : int64 array of shape (4,)
        How many submissions, starts and ends have been given, and the zero-length job whose end is due (-1: none).
    submit, start, end : int64 arrays of shape (n_jobs,)
        Times of each job [s]; `submit` must not fall.
    by_start, by_end : int64 arrays
        Rows of the jobs that start, and of those that end later than they start, in order of their events.
    """
    n = 0
    while n < len(events):
        s, b, e, zero = cursors[0], cursors[1], cursors[2], cursors[3]
        if zero >= 0:
            time, kind, job = end[zero], ENDED, zero
            cursors[3] = -1
        elif (
            e < len(by_end)
            and (s == len(submit) or end[by_end[e]] <= submit[s])
            and (b == len(by_start) or end[by_end[e]] <= start[by_start[b]])
        ):
            time, kind, job = end[by_end[e]], ENDED, by_end[e]
            cursors[2] += 1
        elif s < len(submit) and (b == len(by_start) or submit[s] <= start[by_start[b]]):
            time, kind, job = submit[s], SUBMITTED, s
            cursors[0] += 1
        elif b < len(by_start):
            time, kind, job = start[by_start[b]], STARTED, by_start[b]
            cursors[1] += 1
            if end[job] == time:
                cursors[3] = job
        else:
            break
        events[n, TIME], events[n, KIND], events[n, JOB] = time, kind, job
        n += 1
    return n
