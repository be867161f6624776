"""Tables of a history: slots, growth, eviction, calendar, snapshots."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.events import SUBMITTED
from predictors.core.validation import known_zone
from predictors.history import _layout as at
from predictors.history import _step as step
from predictors.history._layout import NONE
from predictors.history._rows import Rows
from predictors.history.features import families_of, feature_plan
from predictors.history.names import with_procs
from predictors.history.records import AsOfRule, Job

_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(2100, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
_WEEK = 7 * 86400  # no zone has ever changed its clocks forth and back within a week


@cache
def utc_offsets(
    # IANA name, such as Europe/Paris; None is UTC. Changes are known from 1970 to 2100; later seconds keep the last.
    time_zone: str | None,
) -> Ints:
    """Return the offsets of a zone's local time from UTC, as (from Unix time [s], offset [s]) of shape (n, 2).

    >>> utc_offsets("Europe/Paris")[1:3].tolist()  # summer time was introduced on 28 March 1976, at 01:00
    [[196819200, 7200], [212540400, 3600]]
    """
    if time_zone is None:
        return _frozen([(0, 0)])
    zone = known_zone(time_zone)

    def offset(unix: int) -> int:
        shift = datetime.fromtimestamp(unix, zone).utcoffset() or timedelta(0)
        return int(shift.total_seconds())

    table = [(0, offset(0))]
    for later in range(int(_FIRST.timestamp()) + _WEEK, int(_LAST.timestamp()), _WEEK):
        if offset(later) != table[-1][1]:
            before, after = later - _WEEK, later
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset(middle) == table[-1][1] else (before, middle)
            table.append((after, offset(after)))
    return _frozen(table)


def _frozen(table: list[tuple[int, int]]) -> Ints:
    array = np.array(table, dtype=np.int64)
    array.flags.writeable = False
    return array


Tables = tuple[Ints, Ints, Ints, Floats]  # jobs, users, clock and recent runs
Snapshot = dict[str, npt.NDArray[Any]]
Key = tuple[int, int, int, int]  # kind of a group, and up to three codes
KEY_LENGTH: Final = 4


def new_clock(
    features: Sequence[str], as_of: AsOfRule, epoch: int | None, time_zone: str | None, machine_procs: int | None = None
) -> Ints:
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
    if clock[at.FAMILIES] & at.WIDE_FAMILIES:
        return at.WIDE_JOB_COLUMNS, at.GROUP_COLUMNS
    if clock[at.FAMILIES] & at.GROUP_FAMILIES:
        return at.JOB_AND_GROUP_COLUMNS, at.GROUP_COLUMNS
    return at.JOB_COLUMNS, at.USER_COLUMNS


def kinds_of(job_width: int) -> int:
    """Return how many kinds of groups, the first of KEYS, jobs of records that wide are in.

    >>> [kinds_of(width) for width in (at.JOB_COLUMNS, at.JOB_AND_GROUP_COLUMNS, at.WIDE_JOB_COLUMNS)]
    [1, 8, 10]
    """
    return 1 + min(job_width, at.SLOTS_END) - at.JOB_COLUMNS


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


def run_columns(clock: Ints) -> int:
    """Return the columns in which a user's newest runs are kept, by the features of the clock; 0: they are not kept."""
    families = clock[at.FAMILIES]
    if families & at.TEXT_FAMILY:
        return at.SIGNED_RUN_COLUMNS
    if families & at.PRODUCTION_FAMILY:
        return at.CODED_RUN_COLUMNS
    return at.RECENT_COLUMNS if families & at.KERNEL_FAMILY else 0


def new_recent(users: Ints, columns: int) -> Floats:
    """Return a table for the newest runs of the users among some records, with their rows set; empty for 0 columns."""
    rows = np.flatnonzero(users[:, at.KIND] == 0) if columns else np.empty(0, dtype=np.int64)
    if columns:
        users[rows, at.RECENT] = np.arange(len(rows))
    return np.zeros((len(rows), columns or at.RECENT_COLUMNS))


def keys_of_users(users: Ints) -> Ints:
    """Return the key of each record, int64 of shape (n_users, 4)."""
    keys = np.full((len(users), KEY_LENGTH), NONE, dtype=np.int64)
    keys[:, :2] = users[:, [at.KIND, at.CODE]]
    if users.shape[1] > at.USER_COLUMNS:
        keys[:, 2:] = users[:, [at.CODE_2, at.CODE_3]]
    return keys


def key_of(record: Sequence[int], kind: int) -> Key | None:
    """Return (kind, codes …, NONE …) of a job's group of one kind; None if the job is in no such group.

    >>> record = job_record(Job(1, 0, procs=4, user=7), ())
    >>> key_of(record, 0), key_of(record, 1), key_of(record, 2)
    ((0, 7, -1, -1), (1, 7, 4, -1), None)
    """
    codes = [record[column] for column in at.KEYS[kind]]
    if min(codes) < 0:
        return None
    first, second, third = (*codes, NONE, NONE)[:3]
    return kind, first, second, third


def groups_of_jobs(
    jobs: Ints,  # shape (n_jobs, at least JOB_COLUMNS); records
    n_kinds: int,  # kinds of groups to number, the first of KEYS
) -> tuple[Ints, Ints]:
    """Number the groups of jobs: keys, shape (n_groups, 4), and each job's groups, shape (n_jobs, n_kinds)."""
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
    jobs[:, at.JOB_COLUMNS : at.JOB_COLUMNS + slots.shape[1] - 1] = slots[:, 1:]


def code(value: int | None) -> int:
    """Return a value as records hold it: unknown ones are `NONE`."""
    return NONE if value is None or value < 0 else value


def job_record(job: Job, slots: Sequence[int], wide: bool = False) -> tuple[int, ...]:
    """Return the record of a job about to be submitted, by its groups' `slots`; a `wide` one goes on with its names."""
    user_slot = slots[0] if slots else NONE
    groups = slots[1:] if slots or not wide else (NONE,) * (at.SLOTS_END - at.JOB_COLUMNS)
    further: tuple[int, ...] = ()
    if wide:
        stems = int(with_procs(np.array([job.called.stems]), np.array([code(job.procs)]))[0])
        further = (stems, *(code(one) for one in job.called[1:]), code(job.soft_walltime))
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
        *groups,
        *further,
    )


def packed(
    tables: Tables,  # jobs, users, clock and recent runs
    live: Ints,  # shape (n_live,); slots of the jobs that are queued, running or about to count as ended
    rows: Floats | Rows,  # shape (n_live, n_features); their feature rows, which are passed on as they are
    issued: Floats,  # the prediction issued for each slot
    # most groups of each kind to keep: those without a live job are left out, the oldest events first, till no more are
    # left
    capacity: int | None = None,
) -> dict[str, Any]:
    """Return copies of the tables that hold live jobs and kept users only."""
    jobs, users, clock, recent = tables
    kept = np.flatnonzero(users[:, at.LAST_EVENT])
    kept = kept[np.lexsort((users[kept, at.KIND], users[kept, at.LAST_EVENT]))]
    if capacity is not None:
        idle = (users[kept, at.PENDING_COUNT] == 0) & (users[kept, at.RUNNING_COUNT] == 0)
        forgotten = [
            np.flatnonzero(idle & of_kind)[: max(int(of_kind.sum()) - capacity, 0)]
            for of_kind in (users[kept, at.KIND] == kind for kind in range(len(at.KEYS)))
        ]
        kept = np.delete(kept, np.concatenate(forgotten))
    job_slot, user_slot = _renumbered(len(jobs), live), _renumbered(len(users), kept)
    clock = clock.copy()
    for field in (at.DEFERRED_FIRST, at.DEFERRED_LAST):
        clock[field] = job_slot[clock[field]]
    clock[at.FREE] = NONE
    user_columns = {at.OLDEST: job_slot, at.NEWEST: job_slot}
    if run_columns(clock):
        runs = users[kept, at.RECENT]
        runs = runs[runs != NONE]
        recent, user_columns[at.RECENT] = recent[runs], _renumbered(len(recent), runs)
    else:
        recent = recent.copy()
    slots = (at.USER_SLOT, *range(at.JOB_COLUMNS, min(jobs.shape[1], at.SLOTS_END)))
    job_columns = dict.fromkeys((at.OLDER, at.NEWER, at.NEXT), job_slot) | dict.fromkeys(slots, user_slot)
    return {
        "jobs": _picked(jobs, live, job_columns), "users": _picked(users, kept, user_columns), "clock": clock,
        "recent": recent, "rows": rows, "issued": issued[live],
    }  # fmt: skip


def _picked(table: Ints, rows: Ints, new_slots: Mapping[int, Ints]) -> Ints:
    """Return rows of a table, with the new slots in the columns that hold slots."""
    picked: Ints = table[rows]
    for column, slots in new_slots.items():
        picked[:, column] = slots[picked[:, column]]
    return picked


def _renumbered(n_slots: int, kept: Ints) -> Ints:
    """Return the new slot of each old one; `NONE`, the last entry, stays itself."""
    new = np.full(n_slots + 1, NONE, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return new


class LateEventWarning(UserWarning):
    """An event arrived after a newer one; shown once per history, which counts them all (`JobHistory.late_events`)."""


class LiveTables:
    """Arrays that grow with the jobs queued and running, and with the groups of jobs, users first, up to a capacity."""

    def __init__(
        self,
        clock: Ints,  # a new clock
        n_features: int,  # width of a row
        capacity: int,  # groups of each kind to keep, as `JobHistory` explains
    ) -> None:
        self.capacity: Final = capacity
        self.clock = clock
        job_width, self._user_width = widths(clock)
        self._n_kinds: Final = kinds_of(job_width)
        self._wide: Final = job_width == at.WIDE_JOB_COLUMNS
        self.jobs: Ints = np.empty((0, job_width), dtype=np.int64)
        self.rows = Rows(n_features)  # row of each job as of its submission, by slot, until that has another
        self.issued: Floats = np.empty(0)
        self.users = new_users([], self._user_width)
        self._run_columns: Final = run_columns(clock)
        self.recent = new_recent(self.users, self._run_columns)
        self.warns = True  # whether the first late event is worth a warning; a service shows their number instead
        self._runs_given = 0
        self.slot_of: dict[Key, int] = {}
        self.count = [0] * self._n_kinds
        self._next_to_forget: list[list[tuple[int, int]]] = [[] for _ in self.count]
        self._event = np.empty((1, 3), dtype=np.int64)
        self._row = np.empty((1, n_features))

    @property
    def arrays(self) -> Tables:
        """Jobs, users, clock and recent runs, as the compiled step takes them."""
        return self.jobs, self.users, self.clock, self.recent

    def take_in(self, now: int, kind: int, slot: int) -> None:
        """Take the compiled step for one event, which must be possible."""
        behind = int(self.clock[at.NOW]) - now
        if behind > 0 and self.warns and not self.clock[at.LATE_EVENTS]:
            warnings.warn(
                f"An event arrived {behind} s late: it counts from now on, with its own time, and features stay as of "
                "the newest event. Further late events are counted in silence.",
                LateEventWarning,
                stacklevel=3,
            )
        self._event[0] = now, kind, slot
        step.consume_live(self._event, self._row, *self.arrays)
        if kind == SUBMITTED:
            self.rows.put([slot], self._row)

    def settled(self, now: int) -> Tables:
        """Return the tables with the deferred ends before `now` counted: copies if there are any."""
        first = self.clock[at.DEFERRED_FIRST]
        if first == NONE or self.jobs[first, at.END] >= now:
            return self.arrays
        copies = self.jobs.copy(), self.users.copy(), self.clock.copy(), self.recent.copy()
        step.settle(now, *copies)
        return copies

    def deferred(self) -> list[int]:
        """Return the slots of jobs with ends that do not count yet."""
        slots, slot = [], int(self.clock[at.DEFERRED_FIRST])
        while slot != NONE:
            slots.append(slot)
            slot = int(self.jobs[slot, at.NEXT])
        return slots

    def fill(self, snapshot: Mapping[str, Any]) -> None:
        """Take over the arrays of a snapshot, but for the calendar: this machine's may be newer."""
        fields = np.delete(np.arange(at.CLOCK_FIELDS), at.CALENDAR)
        self.clock[fields] = snapshot["clock"][fields]
        self.jobs = _as_wide(snapshot["jobs"], self.jobs.shape[1])
        self.users = _as_wide(snapshot["users"], self._user_width)
        self.recent = _with_codes(snapshot["recent"], self._run_columns or at.RECENT_COLUMNS)
        self._runs_given = len(self.recent)
        rows, self.issued = _wide(snapshot["rows"], self.rows.width), snapshot["issued"].copy()
        if isinstance(rows, Rows):
            self.rows = rows.picked(range(len(self.jobs)))
        else:
            self.rows = Rows(self.rows.width)
            self.rows.put(range(len(self.jobs)), rows)
        self.slot_of = {(k, a, b, c): slot for slot, (k, a, b, c) in enumerate(keys_of_users(self.users).tolist())}
        self.count = np.bincount(self.users[:, at.KIND], minlength=self._n_kinds).tolist()
        self._next_to_forget = [[] for _ in self.count]

    def free_slot(self) -> int:
        slot = int(self.clock[at.FREE])
        if slot == NONE:
            slot, width = self.jobs.shape
            more = max(slot // 8, 64)
            try:  # in place, as long as nothing else refers to it: a copy would take twice the memory
                self.jobs.resize((slot + more, width))
            except ValueError:
                self.jobs = np.concatenate([self.jobs, np.empty((more, width), dtype=np.int64)])
            self.jobs[slot:] = NONE
            self.issued = np.concatenate([self.issued, np.full(more, np.nan)])
            self.jobs[slot:-1, at.NEXT] = np.arange(slot + 1, slot + more)
        self.clock[at.FREE] = self.jobs[slot, at.NEXT]
        return slot

    def record(self, job: Job) -> tuple[int, ...]:
        """Return a job's record for a question: groups without history have no slot."""
        record = job_record(job, (), self._wide)
        keys = [key_of(record, kind) for kind in range(self._n_kinds)]
        slots = [NONE if key is None else self.slot_of.get(key, NONE) for key in keys]
        return job_record(job, slots, self._wide)

    def new_record(self, job: Job) -> tuple[int, ...]:
        """Return a job's record for its submission: new groups get a slot, maybe that of one forgotten for it."""
        record = job_record(job, (), self._wide)
        keys = [key_of(record, kind) for kind in range(self._n_kinds)]
        return job_record(job, [NONE if key is None else self._slot(key) for key in keys], self._wide)

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
        elif self._run_columns:
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
        if not self._run_columns or self.users[slot, at.KIND] != 0:
            return
        if row == NONE:
            row, self._runs_given = self._runs_given, self._runs_given + 1
        if row == len(self.recent):
            self.recent = np.concatenate([self.recent, np.zeros((max(row, 64), self._run_columns))])
        self.recent[row] = 0.0
        self.users[slot, at.RECENT] = row

    def _forget_one(self, kind: int) -> int:
        """Forget the group of a kind without live jobs that is idle for longest; return its slot, or `NONE`."""
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


def _with_codes(recent: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Return a copy of a snapshot's newest runs; those of an earlier version have no codes, and are alike to no job."""
    if recent.ndim == 2 and recent.shape[1] == at.RECENT_COLUMNS < width:
        return np.pad(recent, ((0, 0), (0, width - at.RECENT_COLUMNS)))
    return _as_wide(recent, width)


def _as_wide(array: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Return a copy of a snapshot's table, which must have as many columns as this version's."""
    copy: npt.NDArray[Any] = _wide(array, width).copy()
    return copy


def _wide(array: Any, width: int) -> Any:
    if len(array.shape) != 2 or array.shape[1] != width:
        raise ValueError(f"a table of shape {array.shape} has not {width} columns")
    return array
