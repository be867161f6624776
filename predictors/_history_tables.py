"""The arrays of a history: made empty, and packed into a snapshot."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors._history_calendar import utc_offsets
from predictors._history_layout import NONE
from predictors._history_records import AsOfRule, Floats, Job
from predictors.data.joblog import Ints
from predictors.features import families_of, feature_plan

Tables = tuple[Ints, Ints, Ints]
"""Jobs, users and clock."""
Snapshot = dict[str, npt.NDArray[Any]]


def new_clock(features: Sequence[str], as_of: AsOfRule, epoch: int | None, time_zone: str | None) -> Ints:
    """Return the clock of a history before its first event."""
    fields = np.zeros(at.CLOCK_FIELDS, dtype=np.int64)
    plan, calendar = feature_plan(features), utc_offsets(time_zone).ravel()
    clock = np.concatenate([fields, plan, calendar])
    clock[at.NOW] = np.iinfo(np.int64).min
    clock[at.EPOCH], clock[at.HAS_EPOCH] = epoch or 0, epoch is not None
    clock[at.SAME_SECOND], clock[at.LEAST_ENDED] = as_of.same_second, as_of.least_ended
    clock[at.FAMILIES] = families_of(features)
    clock[at.CALENDAR] = len(fields) + len(plan)
    clock[[at.DEFERRED_FIRST, at.DEFERRED_LAST, at.FREE]] = NONE
    return clock


def new_users(codes: npt.ArrayLike) -> Ints:
    """Return records of users without history."""
    codes = np.asarray(codes, dtype=np.int64)
    users = np.zeros((len(codes), at.USER_COLUMNS), dtype=np.int64)
    users[:, at.CODE] = codes
    users[:, [at.OLDEST, at.NEWEST]] = NONE
    return users


def code(value: int | None) -> int:
    """Return a value as records hold it: unknown ones are `NONE`."""
    return NONE if value is None or value < 0 else value


def job_record(job: Job, user_slot: int) -> tuple[int, ...]:
    """Return the record of a job that is about to be submitted."""
    return (
        job.submit,
        code(job.procs),
        code(job.requested_time),
        code(job.user),
        code(job.group),
        code(job.executable),
        code(job.queue),
        code(job.partition),
        user_slot,
        NONE,
        at.NEW,
        NONE,
        NONE,
        NONE,
        NONE,
        NONE,
    )


def packed(tables: Tables, live: Ints, rows: Floats, issued: Floats, capacity: int | None = None) -> Snapshot:
    """Return copies of the tables that hold live jobs and remembered users only.

    Parameters
    ----------
    tables : tuple of int64 arrays
        Jobs, users and clock.
    live : int64 array of shape (n_live,)
        Slots of the jobs that are queued, running or about to count as ended.
    rows, issued : float64 arrays
        Feature row and issued prediction of each slot.
    capacity : int, optional
        Most users to keep: those without a live job are left out, the oldest events first, till no more are left.
    """
    jobs, users, clock = tables
    kept = np.flatnonzero(users[:, at.LAST_EVENT])
    kept = kept[np.argsort(users[kept, at.LAST_EVENT])]
    if capacity is not None:
        idle = (users[kept, at.PENDING_COUNT] == 0) & (users[kept, at.RUNNING_COUNT] == 0)
        kept = np.delete(kept, np.flatnonzero(idle)[: max(len(kept) - capacity, 0)])
    job_slot, user_slot = _renumbered(len(jobs), live), _renumbered(len(users), kept)
    jobs, users, clock = jobs[live], users[kept], clock.copy()
    for column in (at.OLDER, at.NEWER, at.NEXT):
        jobs[:, column] = job_slot[jobs[:, column]]
    jobs[:, at.USER_SLOT] = user_slot[jobs[:, at.USER_SLOT]]
    for column in (at.OLDEST, at.NEWEST):
        users[:, column] = job_slot[users[:, column]]
    for field in (at.DEFERRED_FIRST, at.DEFERRED_LAST):
        clock[field] = job_slot[clock[field]]
    clock[at.FREE] = NONE
    return {"jobs": jobs, "users": users, "clock": clock, "rows": rows[live], "issued": issued[live]}


def _renumbered(n_slots: int, kept: Ints) -> Ints:
    """Return the new slot of each old one; `NONE`, the last entry, stays itself."""
    new = np.full(n_slots + 1, NONE, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return new
