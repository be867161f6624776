"""Many events into a live history at once: the same compiled step, one call for all of them.

What `JobHistory` does for one event is done here for a slice: jobs and groups get their slots, then the step runs. It
differs in cost alone: one event costs some 20 µs by itself, in a slice of a thousand a tenth of it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from predictors import _history as step
from predictors import _history_layout as at
from predictors._history_live import LiveTables
from predictors._history_records import Floats
from predictors._history_tables import groups_of_jobs, new_users, set_slots
from predictors.data.errors import JobcastError
from predictors.data.events import CANCELLED, ENDED, SUBMITTED
from predictors.data.joblog import Ints
from predictors.history import JobHistory

DESCRIBED: Final = (at.SUBMIT, at.PROCS, at.REQUESTED, at.USER, at.GROUP, at.EXECUTABLE, at.QUEUE, at.PARTITION)
"""Columns of a submission."""


def take_in_many(
    history: JobHistory, time: Ints, kind: Ints, job: Sequence[int], described: Ints, status: Ints
) -> tuple[Floats, Ints]:
    """Take in events in order; each must be able to follow from those before.

    Parameters
    ----------
    history : JobHistory
        One that keeps no ended jobs.
    time, kind : int64 arrays of shape (n_events,)
        Seconds, and what happened (`predictors.data.events`).
    job : sequence of int
        Job ids.
    described : int64 array of shape (n_events, 8)
        Of submissions: time, processors, requested time, user, group, executable, queue, partition; -1 is unknown.
    status : int64 array of shape (n_events,)
        Of ends; -1 is unknown.

    Returns
    -------
    tuple of (float64 array of shape (n_told, n_features), int64 array of shape (n_told,))
        Of the submissions and ends, in their order: the job's row as of its submission; run times of the ended [s].

    Raises
    ------
    JobcastError
        If an event cannot follow (the history is of no use any more then), or history cannot take in so many (`fits`).
    """
    tables, slot_of_job = history.tables, history.slot_of_job
    asked = np.flatnonzero(kind == SUBMITTED)
    if history.keep_ended or not fits(history, len(asked)):
        raise JobcastError("Many events at once need a history that keeps no ended jobs and has room for new groups.")
    records = _records(tables, described[asked])
    slots = np.empty(len(kind), dtype=np.int64)
    opened = iter(asked.tolist())
    kinds = kind.tolist()
    for i, (what, job_id) in enumerate(zip(kinds, job, strict=True)):
        if what == SUBMITTED:
            if job_id in slot_of_job:
                raise JobcastError(f"Job {job_id} is submitted a second time before it has ended.")
            slots[next(opened)] = slot_of_job[job_id] = tables.free_slot()
        else:
            slot = slot_of_job.get(job_id)
            if slot is None:
                raise JobcastError(f"Job {job_id} is neither queued nor running.")
            slots[i] = slot
            if what in (ENDED, CANCELLED):
                del slot_of_job[job_id]
    tables.jobs[slots[asked]] = records
    tables.issued[slots[asked]] = np.nan
    ends = kind == ENDED
    tables.jobs[slots[ends], at.STATUS] = status[ends]
    bad = step.consume(np.stack([time, kind, slots], axis=1), tables.rows, *tables.arrays)
    if bad >= 0:
        raise JobcastError(f"Job {job[bad]}: event {kinds[bad]} at {time[bad]} s cannot follow from those before.")
    told = slots[(kind == SUBMITTED) | ends]
    return tables.rows[told], tables.jobs[told, at.END] - tables.jobs[told, at.START]


def _records(tables: LiveTables, described: Ints) -> Ints:
    """Return the records of new jobs, with the slots of their groups; new groups get one."""
    records = np.full((len(described), tables.jobs.shape[1]), at.NONE, dtype=np.int64)
    records[:, DESCRIBED] = described
    records[:, at.STATE] = at.NEW
    if not len(described):
        return records
    keys, groups = groups_of_jobs(records, 1 + tables.jobs.shape[1] - at.JOB_COLUMNS)
    set_slots(records, np.append(_slots(tables, keys), at.NONE)[groups])
    return records


def rows_of_many(history: JobHistory, described: Ints, now: int) -> Floats:
    """Return what `JobHistory.rows` does, for jobs described as in `take_in_many`."""
    tables = history.tables
    rows = np.empty((len(described), len(history.features)))
    asked = np.full((len(described), tables.jobs.shape[1]), at.NONE, dtype=np.int64)
    asked[:, DESCRIBED] = described
    keys, groups = groups_of_jobs(asked, 1 + tables.jobs.shape[1] - at.JOB_COLUMNS)
    slots = [tables.slot_of.get((k, a, b, c), at.NONE) for k, a, b, c in keys.tolist()]
    set_slots(asked, np.array([*slots, at.NONE], dtype=np.int64)[groups])
    step.rows_at(now, asked, rows, *tables.settled(now))
    return rows


def _slots(tables: LiveTables, keys: Ints) -> Ints:
    """Return the slots of groups by their keys; new ones get those that follow."""
    names = [(k, a, b, c) for k, a, b, c in keys.tolist()]
    slots = np.array([tables.slot_of.get(name, at.NONE) for name in names], dtype=np.int64)
    new = np.flatnonzero(slots == at.NONE)
    first = len(tables.slot_of)
    slots[new] = np.arange(first, first + len(new))
    tables.slot_of.update((names[i], first + place) for place, i in enumerate(new.tolist()))
    for kind, n in enumerate(np.bincount(keys[new, 0], minlength=len(tables.count)).tolist()):
        tables.count[kind] += n
    records = new_users(keys[new], tables.users.shape[1])
    if first + len(new) > len(tables.users):
        spare = new_users(np.full((max(first, 64), keys.shape[1]), at.NONE), tables.users.shape[1])
        tables.users = np.concatenate([tables.users[:first], records, spare])
    else:
        tables.users[slots[new]] = records
    for slot in slots[new].tolist():
        tables.give_runs(slot)
    return slots


def fits(history: JobHistory, n_new: int) -> bool:
    """Return whether so many submissions can be taken in at once: no group may have to be forgotten for them."""
    return max(history.tables.count) + n_new <= history.capacity
