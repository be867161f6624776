"""The tables of a live history, which give slots to jobs and users and take them back."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors import _history as step
from predictors import _history_layout as at
from predictors._history_layout import NONE
from predictors._history_records import Floats
from predictors._history_tables import Tables, new_users
from predictors.data.joblog import Ints


class LiveTables:
    """Arrays that grow with the jobs queued and running, and with the users, up to a capacity.

    Parameters
    ----------
    clock : int64 array
        A new clock.
    n_features : int
        Width of a row.
    capacity : int
        Users to remember, as `JobHistory` explains.
    """

    def __init__(self, clock: Ints, n_features: int, capacity: int) -> None:
        self.capacity: Final = capacity
        self.clock = clock
        self.jobs: Ints = np.empty((0, at.JOB_COLUMNS), dtype=np.int64)
        self.rows: Floats = np.empty((0, n_features))
        self.issued: Floats = np.empty(0)
        self.users = new_users([])
        self.slot_of_user: dict[int, int] = {}
        self._event = np.empty((1, 3), dtype=np.int64)

    def take_in(self, now: int, kind: int, slot: int) -> None:
        """Take the compiled step for one event, which must be possible."""
        self._event[0] = now, kind, slot
        step.consume(self._event, self.rows, self.jobs, self.users, self.clock)

    def settled(self, now: int) -> Tables:
        """Return jobs, users and clock with the deferred ends before `now` counted: copies if there are any."""
        first = self.clock[at.DEFERRED_FIRST]
        if first == NONE or self.jobs[first, at.END] >= now:
            return self.jobs, self.users, self.clock
        copies = self.jobs.copy(), self.users.copy(), self.clock.copy()
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
        self.jobs = snapshot["jobs"].reshape(-1, at.JOB_COLUMNS).copy()
        self.users = snapshot["users"].reshape(-1, at.USER_COLUMNS).copy()
        self.rows, self.issued = snapshot["rows"].copy(), snapshot["issued"].copy()
        self.slot_of_user = {user: slot for slot, user in enumerate(self.users[:, at.CODE].tolist())}

    def free_slot(self) -> int:
        """Return a slot for a new job."""
        slot = int(self.clock[at.FREE])
        if slot == NONE:
            slot = len(self.jobs)
            more = max(slot, 64)
            self.jobs = np.concatenate([self.jobs, np.full((more, at.JOB_COLUMNS), NONE)])
            self.rows = np.concatenate([self.rows, np.full((more, self.rows.shape[1]), np.nan)])
            self.issued = np.concatenate([self.issued, np.full(more, np.nan)])
            self.jobs[slot:-1, at.NEXT] = np.arange(slot + 1, slot + more)
        self.clock[at.FREE] = self.jobs[slot, at.NEXT]
        return slot

    def user_slot(self, user: int) -> int:
        """Return a user's row: the own one, a new one, or that of a user who is forgotten for it."""
        slot = self.slot_of_user.get(user, NONE)
        if slot != NONE or user == NONE:
            return slot
        slot = self._forget_one() if len(self.slot_of_user) >= self.capacity else NONE
        if slot == NONE:
            slot = len(self.slot_of_user)
        if slot == len(self.users):
            self.users = np.concatenate([self.users, new_users(np.full(max(slot, 64), NONE))])
        self.users[slot] = new_users([user])[0]
        self.slot_of_user[user] = slot
        return slot

    def _forget_one(self) -> int:
        """Forget the user without live jobs whose last event is oldest; return the row, `NONE` if there is none."""
        users = self.users[: len(self.slot_of_user)]
        idle = (users[:, at.PENDING_COUNT] == 0) & (users[:, at.RUNNING_COUNT] == 0)
        if not idle.any():
            return NONE
        slot = int(np.argmin(np.where(idle, users[:, at.LAST_EVENT], np.iinfo(np.int64).max)))
        del self.slot_of_user[int(users[slot, at.CODE])]
        return slot
