"""The tables of a live history, which give slots to jobs, users and other groups of jobs, and take them back."""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors import _history as step
from predictors import _history_layout as at
from predictors._history_layout import NONE
from predictors._history_records import Floats, Job
from predictors._history_tables import (
    Key,
    Tables,
    job_record,
    keeps_runs,
    key_of,
    keys_of_users,
    new_recent,
    new_users,
    widths,
)
from predictors.data.joblog import Ints


class LateEventWarning(UserWarning):
    """An event arrived after a newer one; told once a history, which counts them all (`JobHistory.late_events`)."""


class LiveTables:
    """Arrays that grow with the jobs queued and running, and with the groups of jobs, users first, up to a capacity.

    Parameters
    ----------
    clock : int64 array
        A new clock.
    n_features : int
        Width of a row.
    capacity : int
        Groups of each kind to remember, as `JobHistory` explains.
    """

    def __init__(self, clock: Ints, n_features: int, capacity: int) -> None:
        self.capacity: Final = capacity
        self.clock = clock
        job_width, self._user_width = widths(clock)
        self._n_kinds: Final = 1 + job_width - at.JOB_COLUMNS
        self.jobs: Ints = np.empty((0, job_width), dtype=np.int64)
        self.rows: Floats = np.empty((0, n_features))
        self.issued: Floats = np.empty(0)
        self.users = new_users([], self._user_width)
        self._keeps_runs: Final = keeps_runs(clock)
        self.recent = new_recent(self.users, self._keeps_runs)
        self._runs_given = 0
        self.slot_of: dict[Key, int] = {}
        self.count = [0] * self._n_kinds
        self._next_to_forget: list[list[tuple[int, int]]] = [[] for _ in self.count]
        self._event = np.empty((1, 3), dtype=np.int64)

    @property
    def arrays(self) -> Tables:
        """Jobs, users, clock and recent runs, as the compiled step takes them."""
        return self.jobs, self.users, self.clock, self.recent

    def take_in(self, now: int, kind: int, slot: int) -> None:
        """Take the compiled step for one event, which must be possible."""
        behind = int(self.clock[at.NOW]) - now
        if behind > 0 and not self.clock[at.LATE_EVENTS]:
            warnings.warn(
                f"An event arrived {behind} s late: it counts from now on, with its own time, and features stay as of "
                "the newest event. Further late events are counted in silence.",
                LateEventWarning,
                stacklevel=3,
            )
        self._event[0] = now, kind, slot
        step.consume(self._event, self.rows, *self.arrays)

    def settled(self, now: int) -> Tables:
        """Return the tables with the deferred ends before `now` counted: copies if there are any."""
        first = self.clock[at.DEFERRED_FIRST]
        if first == NONE or self.jobs[first, at.END] >= now:
            return self.arrays
        copies = self.jobs.copy(), self.users.copy(), self.clock.copy(), self.recent.copy()
        step.settle(now, *copies)
        return copies

    def deferred(self) -> list[int]:
        """Return the slots of jobs whose ends do not count yet."""
        slots, slot = [], int(self.clock[at.DEFERRED_FIRST])
        while slot != NONE:
            slots.append(slot)
            slot = int(self.jobs[slot, at.NEXT])
        return slots

    def fill(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the arrays of a snapshot, but for the calendar: this machine's may be newer."""
        fields = np.delete(np.arange(at.CLOCK_FIELDS), at.CALENDAR)
        self.clock[fields] = snapshot["clock"][fields]
        self.jobs = _as_wide(snapshot["jobs"], self.jobs.shape[1])
        self.users = _as_wide(snapshot["users"], self._user_width)
        self.recent = _as_wide(snapshot["recent"], at.RECENT_COLUMNS)
        self._runs_given = len(self.recent)
        self.rows, self.issued = snapshot["rows"].copy(), snapshot["issued"].copy()
        self.slot_of = {(k, a, b, c): slot for slot, (k, a, b, c) in enumerate(keys_of_users(self.users).tolist())}
        self.count = np.bincount(self.users[:, at.KIND], minlength=self._n_kinds).tolist()
        self._next_to_forget = [[] for _ in self.count]

    def free_slot(self) -> int:
        """Return a slot for a new job."""
        slot = int(self.clock[at.FREE])
        if slot == NONE:
            slot = len(self.jobs)
            more = max(slot, 64)
            self.jobs = np.concatenate([self.jobs, np.full((more, self.jobs.shape[1]), NONE)])
            self.rows = np.concatenate([self.rows, np.full((more, self.rows.shape[1]), np.nan)])
            self.issued = np.concatenate([self.issued, np.full(more, np.nan)])
            self.jobs[slot:-1, at.NEXT] = np.arange(slot + 1, slot + more)
        self.clock[at.FREE] = self.jobs[slot, at.NEXT]
        return slot

    def record(self, job: Job) -> tuple[int, ...]:
        """Return a job's record for a question: groups without history have no slot."""
        record = job_record(job, ())
        keys = [key_of(record, kind) for kind in range(self._n_kinds)]
        return job_record(job, [NONE if key is None else self.slot_of.get(key, NONE) for key in keys])

    def new_record(self, job: Job) -> tuple[int, ...]:
        """Return a job's record for its submission: new groups get a slot, maybe that of one forgotten for it."""
        record = job_record(job, ())
        keys = [key_of(record, kind) for kind in range(self._n_kinds)]
        return job_record(job, [NONE if key is None else self._slot(key) for key in keys])

    def _slot(self, key: Key) -> int:
        slot = self.slot_of.get(key, NONE)
        return self._new_slot(key) if slot == NONE else slot

    def _new_slot(self, key: Key) -> int:
        """Return a slot for a group that has none: a new one, or that of a group that is forgotten for it."""
        kind = key[0]
        slot = self._forget_one(kind) if self.count[kind] >= self.capacity else NONE
        row = NONE
        if slot == NONE:
            slot = len(self.slot_of)
        elif self._keeps_runs:
            row = int(self.users[slot, at.RECENT])
        if slot == len(self.users):
            more = np.full((max(slot, 64), len(key)), NONE)
            self.users = np.concatenate([self.users, new_users(more, self._user_width)])
        self.users[slot] = new_users([key], self._user_width)[0]
        self.give_runs(slot, row)
        self.slot_of[key] = slot
        self.count[kind] += 1
        return slot

    def give_runs(self, slot: int, row: int = NONE) -> None:
        """Give a new group an empty row for its newest runs, if it is a user and any are kept: `row`, or the next."""
        if not self._keeps_runs or self.users[slot, at.KIND] != 0:
            return
        if row == NONE:
            row, self._runs_given = self._runs_given, self._runs_given + 1
        if row == len(self.recent):
            self.recent = np.concatenate([self.recent, np.zeros((max(row, 64), at.RECENT_COLUMNS))])
        self.recent[row] = 0.0
        self.users[slot, at.RECENT] = row

    def _forget_one(self, kind: int) -> int:
        """Forget the group of a kind without live jobs whose last event is oldest; its slot, `NONE` if there is none.

        The oldest ones are looked up many at a time; one that had an event since then is passed over.
        """
        users, queue = self.users[: len(self.slot_of)], self._next_to_forget[kind]
        for _ in range(2):
            while queue:
                event, slot = queue.pop()
                if users[slot, at.LAST_EVENT] == event and users[slot, at.KIND] == kind:
                    key = keys_of_users(users[slot : slot + 1])[0].tolist()
                    del self.slot_of[key[0], key[1], key[2], key[3]]
                    self.count[kind] -= 1
                    return slot
            idle = (users[:, at.PENDING_COUNT] == 0) & (users[:, at.RUNNING_COUNT] == 0) & (users[:, at.KIND] == kind)
            slots = np.flatnonzero(idle)
            slots = slots[np.argsort(users[slots, at.LAST_EVENT], kind="stable")][: 1 + self.capacity // 16]
            queue.extend(zip(users[slots, at.LAST_EVENT].tolist()[::-1], slots.tolist()[::-1], strict=True))
        return NONE


def _as_wide(array: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Return a copy of a snapshot's table, which must have as many columns as this version's."""
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"a table of shape {array.shape} has not {width} columns")
    return array.copy()
