"""The arrays of a history: made empty, and packed into a snapshot."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors._history_calendar import utc_offsets
from predictors._history_layout import NONE
from predictors._history_records import AsOfRule, Floats, Job
from predictors.data.joblog import Ints
from predictors.features import families_of, feature_plan

Tables = tuple[Ints, Ints, Ints, Floats]
"""Jobs, users, clock and recent runs."""
Snapshot = dict[str, npt.NDArray[Any]]
Key = tuple[int, int, int, int]
"""Kind of a group, and up to three codes."""
KEY_LENGTH: Final = 4


def new_clock(
    features: Sequence[str],
    as_of: AsOfRule,
    epoch: int | None,
    time_zone: str | None,
    machine_procs: int | None = None,
) -> Ints:
    """Return the clock of a history before its first event."""
    fields = np.zeros(at.CLOCK_FIELDS, dtype=np.int64)
    plan, calendar = feature_plan(features), utc_offsets(time_zone).ravel()
    clock = np.concatenate([fields, plan, calendar])
    clock[at.NOW] = np.iinfo(np.int64).min
    clock[at.EPOCH], clock[at.HAS_EPOCH] = epoch or 0, epoch is not None
    clock[at.SAME_SECOND], clock[at.LEAST_ENDED] = as_of.same_second, as_of.least_ended
    clock[at.FAMILIES] = families_of(features)
    clock[at.MACHINE_PROCS] = machine_procs or 0
    clock[at.CALENDAR] = len(fields) + len(plan)
    clock[[at.DEFERRED_FIRST, at.DEFERRED_LAST, at.FREE]] = NONE
    return clock


def widths(clock: Ints) -> tuple[int, int]:
    """Return the columns of a job's record and of a user's, by the features that the clock was made for."""
    if clock[at.FAMILIES] & at.GROUP_FAMILIES:
        return at.JOB_AND_GROUP_COLUMNS, at.GROUP_COLUMNS
    return at.JOB_COLUMNS, at.USER_COLUMNS


def new_users(keys: npt.ArrayLike, width: int = at.USER_COLUMNS) -> Ints:
    """Return records without history of users, or with a greater `width` of any groups, for keys as of `key_of`."""
    keys = np.asarray(keys, dtype=np.int64).reshape(-1, KEY_LENGTH)
    users = np.zeros((len(keys), width), dtype=np.int64)
    users[:, [at.KIND, at.CODE]] = keys[:, :2]
    if width > at.USER_COLUMNS:
        users[:, [at.CODE_2, at.CODE_3]] = keys[:, 2:]
        users[:, at.RECENT] = NONE
    users[:, [at.OLDEST, at.NEWEST]] = NONE
    return users


def keeps_runs(clock: Ints) -> bool:
    """Return whether the newest runs of each user are kept, by the features that the clock was made for."""
    return bool(clock[at.FAMILIES] & at.KERNEL_FAMILY)


def new_recent(users: Ints, kept: bool) -> Floats:
    """Return room for the newest runs of the users among some records, who are told their rows; if not `kept`, none."""
    rows = np.flatnonzero(users[:, at.KIND] == 0) if kept else np.empty(0, dtype=np.int64)
    if kept:
        users[rows, at.RECENT] = np.arange(len(rows))
    return np.zeros((len(rows), at.RECENT_COLUMNS))


def keys_of_users(users: Ints) -> Ints:
    """Return the key of each record, int64 of shape (n_users, 4)."""
    keys = np.full((len(users), KEY_LENGTH), NONE, dtype=np.int64)
    keys[:, :2] = users[:, [at.KIND, at.CODE]]
    if users.shape[1] > at.USER_COLUMNS:
        keys[:, 2:] = users[:, [at.CODE_2, at.CODE_3]]
    return keys


def key_of(record: Sequence[int], kind: int) -> Key | None:
    """Return (kind, codes …, NONE …) of a job's group of one kind; None if the job is in no such group.

    Examples
    --------
    >>> record = job_record(Job(1, 0, procs=4, user=7), ())
    >>> key_of(record, 0), key_of(record, 1), key_of(record, 2)
    ((0, 7, -1, -1), (1, 7, 4, -1), None)
    """
    codes = [record[column] for column in at.KEYS[kind]]
    if min(codes) < 0:
        return None
    first, second, third = (*codes, NONE, NONE)[:3]
    return kind, first, second, third


def groups_of_jobs(jobs: Ints, n_kinds: int) -> tuple[Ints, Ints]:
    """Number the groups of many jobs.

    Parameters
    ----------
    jobs : int64 array of shape (n_jobs, at least JOB_COLUMNS)
        Records.
    n_kinds : int
        Kinds of groups to number, the first of KEYS.

    Returns
    -------
    tuple of (int64 array of shape (n_groups, 4), int64 array of shape (n_jobs, n_kinds))
        Keys, and for each job the number of its group of each kind.
    """
    slots = np.full((len(jobs), n_kinds), NONE, dtype=np.int64)
    parts, base = [np.empty((0, KEY_LENGTH), dtype=np.int64)], 0
    for kind, columns in enumerate(at.KEYS[:n_kinds]):
        rows = np.flatnonzero((jobs[:, columns] >= 0).all(axis=1))
        number = np.zeros(len(rows), dtype=np.int64)
        for column in columns:
            _, code_number = np.unique(jobs[rows, column], return_inverse=True)
            _, number = np.unique(number * (len(rows) + 1) + code_number, return_inverse=True)
        first = np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
        first[number] = rows
        keys = np.full((len(first), KEY_LENGTH), NONE, dtype=np.int64)
        keys[:, 0] = kind
        keys[:, 1 : 1 + len(columns)] = jobs[first][:, columns]
        parts.append(keys)
        slots[rows, kind] = base + number
        base += len(first)
    return np.concatenate(parts), slots


def set_slots(jobs: Ints, slots: Ints) -> None:
    """Write the numbers of `groups_of_jobs` into the jobs' records."""
    jobs[:, at.USER_SLOT] = slots[:, 0]
    jobs[:, at.JOB_COLUMNS :] = slots[:, 1:]


def code(value: int | None) -> int:
    """Return a value as records hold it: unknown ones are `NONE`."""
    return NONE if value is None or value < 0 else value


def job_record(job: Job, slots: Sequence[int]) -> tuple[int, ...]:
    """Return the record of a job that is about to be submitted; `slots` of its user and further groups."""
    user_slot = slots[0] if slots else NONE
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
        *slots[1:],
    )


def packed(tables: Tables, live: Ints, rows: Floats, issued: Floats, capacity: int | None = None) -> Snapshot:
    """Return copies of the tables that hold live jobs and remembered users only.

    Parameters
    ----------
    tables : tuple of arrays
        Jobs, users, clock and recent runs.
    live : int64 array of shape (n_live,)
        Slots of the jobs that are queued, running or about to count as ended.
    rows, issued : float64 arrays
        Feature row and issued prediction of each slot.
    capacity : int, optional
        Most groups of each kind to keep: those without a live job are left out, the oldest events first, till no more
        are left.
    """
    jobs, users, clock, recent = tables
    kept = np.flatnonzero(users[:, at.LAST_EVENT])
    kept = kept[np.lexsort((users[kept, at.KIND], users[kept, at.LAST_EVENT]))]
    if capacity is not None:
        idle = (users[kept, at.PENDING_COUNT] == 0) & (users[kept, at.RUNNING_COUNT] == 0)
        forgotten = [
            np.flatnonzero(idle & of_kind)[: max(int(of_kind.sum()) - capacity, 0)]
            for of_kind in (users[kept, at.KIND] == kind for kind in range(at.N_KINDS))
        ]
        kept = np.delete(kept, np.concatenate(forgotten))
    job_slot, user_slot = _renumbered(len(jobs), live), _renumbered(len(users), kept)
    jobs, users, clock = jobs[live], users[kept], clock.copy()
    for column in (at.OLDER, at.NEWER, at.NEXT):
        jobs[:, column] = job_slot[jobs[:, column]]
    for column in (at.USER_SLOT, *range(at.JOB_COLUMNS, jobs.shape[1])):
        jobs[:, column] = user_slot[jobs[:, column]]
    for column in (at.OLDEST, at.NEWEST):
        users[:, column] = job_slot[users[:, column]]
    for field in (at.DEFERRED_FIRST, at.DEFERRED_LAST):
        clock[field] = job_slot[clock[field]]
    clock[at.FREE] = NONE
    if keeps_runs(clock):
        with_runs = users[:, at.RECENT] != NONE
        recent = recent[users[with_runs, at.RECENT]]
        users[with_runs, at.RECENT] = np.arange(len(recent))
    about = {"rows": rows[live], "issued": issued[live]}
    return {"jobs": jobs, "users": users, "clock": clock, "recent": recent.copy(), **about}


def _renumbered(n_slots: int, kept: Ints) -> Ints:
    """Return the new slot of each old one; `NONE`, the last entry, stays itself."""
    new = np.full(n_slots + 1, NONE, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return new
