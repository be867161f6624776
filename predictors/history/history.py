"""JobHistory: the as-of features of live jobs, event by event or many events at once.

Facts only, no model: `submitted`, `started`, `ended` and `cancelled` take in events, `row` answers what is known now.
The step that does so is compiled once (`predictors.history._step`) and shared with the replay of logs
(`predictors.history.replay`), so a row computed from an old log, in a simulation and in a live service is the same to
the last bit.

What `JobHistory` does for one event is done here for a slice: jobs and groups get their slots, then the step runs. It
differs in cost alone: one event costs some 20 µs by itself, in a slice of a thousand a tenth of it.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.data.joblog import JobLog
from predictors.history import _layout as at
from predictors.history import _step as step
from predictors.history._tables import (
    LateEventWarning,
    LiveTables,
    Snapshot,
    code,
    groups_of_jobs,
    keys_of_users,
    kinds_of,
    new_clock,
    new_recent,
    new_users,
    packed,
    run_columns,
    set_slots,
    widths,
)
from predictors.history.features import REIS_FEATURES
from predictors.history.keyed_rows import KeyedRows
from predictors.history.records import AS_OF_RULES, AsOfRule, Job, Outcome, Outcomes, as_of_rule

__all__ = ["AS_OF_RULES", "AsOfRule", "Job", "JobHistory", "LateEventWarning", "Outcome", "Outcomes", "as_of_rule"]


class JobHistory:
    """As-of features of a stream of job events.

    Events are taken in in the order of their arrival. One that arrives late (its `now` lies before the newest event's)
    counts from its arrival on, with its own time; the first is warned of. Questions are answered as of the newest event
    at the earliest. An event that cannot follow from those before, such as the start of a job that is not queued, is
    refused.

    Parameters
    ----------
    features : sequence of str
        Columns of a row, from `predictors.history.features.FEATURES`; default: the sixteen of Reis.
    as_of : {"strict", "reis"} or AsOfRule
        What counts as ended at a submission.
    epoch : int or None
        Unix time [s] of the history's second 0: 0 if its clock is Unix time, None if unknown (no weekday then).
    time_zone : str or None
        IANA name of the machine's time zone; None is UTC.
    capacity : int
        Users to keep, and other groups of each kind. Beyond it the history forgets the one that has been without events
        for longest, but never one with a job queued or running: while all have, the history grows.
    keep_ended : int
        Outcomes of newest ended jobs to keep for `training_set`.
    machine_procs : int or None
        Processors of the machine; None if unknown (no free processors then).

    Examples
    --------
    >>> history = JobHistory(["requested_time", "last_two_mean", "running_count"])
    >>> history.submitted(Job(1, 0, procs=4, requested_time=600, user=7), now=0).tolist()
    [600.0, nan, 0.0]
    >>> history.started(1, now=10)
    >>> outcome = history.ended(1, now=70, status=1)
    >>> outcome.seconds, history.row(Job(2, 80, procs=4, requested_time=600, user=7), now=80).tolist()
    (60.0, [600.0, 60.0, 0.0])
    """

    def __init__(
        self,
        features: Sequence[str] = REIS_FEATURES,
        *,
        as_of: str | AsOfRule = "strict",
        epoch: int | None = None,
        time_zone: str | None = None,
        capacity: int = 100_000,
        keep_ended: int = 0,
        machine_procs: int | None = None,
    ) -> None:
        if capacity < 1 or keep_ended < 0:
            raise JobcastError(f"JobHistory needs capacity ≥ 1 and keep_ended ≥ 0; got {capacity} and {keep_ended}.")
        self.features: Final = tuple(features)
        self.as_of: Final = as_of_rule(as_of)
        self.epoch: Final = epoch
        self.time_zone: Final = time_zone
        self.capacity: Final = capacity
        self.keep_ended: Final = keep_ended
        self.machine_procs: Final = machine_procs
        clock = new_clock(self.features, self.as_of, epoch, time_zone, machine_procs)
        self.tables: Final = LiveTables(clock, len(self.features), capacity)
        """For those that take in or ask for many jobs at once; see `predictors.history.history`."""
        self.slot_of_job: KeyedRows[int] = KeyedRows(1, np.int64)
        """Of each queued or running job its row in `tables.jobs`."""
        self._ended: deque[Outcome] = deque(maxlen=keep_ended)

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """Second of the newest event; None before the first."""
        return int(self.tables.clock[at.NOW]) if self.tables.clock[at.EVENTS] else None

    @property
    def late_events(self) -> int:
        """Number of events that arrived after a newer one."""
        return int(self.tables.clock[at.LATE_EVENTS])

    @property
    def n_users(self) -> int:
        """Number of users kept."""
        return self.tables.count[0]

    def __len__(self) -> int:
        """Return the number of jobs in the queue and running."""
        return len(self.slot_of_job)

    def row(self, job: Job, now: int) -> Floats:
        """Return the features of `job` if it were submitted at `now`, shape (n_features,); nothing changes."""
        row: Floats = self.rows([job], now)[0]
        return row

    def rows(self, jobs: Sequence[Job], now: int) -> Floats:
        """Return the features of jobs if each were the next one submitted at `now`, shape (n_jobs, n_features)."""
        rows = np.empty((len(jobs), len(self.features)))
        if jobs:
            asked = np.array([self.tables.record(job) for job in jobs], dtype=np.int64)
            step.rows_at(now, asked, rows, *self.tables.settled(now))
        return rows

    def training_set(self, now: int) -> Outcomes:
        """Return the kept outcomes of ended jobs, oldest first, then the running jobs by start, censored at `now`."""
        jobs, moment = self.tables.jobs, max(now, int(self.tables.clock[at.NOW]))
        slots = self.slot_of_job.rows()[:, 0]
        running = slots[jobs[slots, at.STATE] == at.RUNNING]
        running = running[np.argsort(jobs[running, at.START], kind="stable")].tolist()
        return Outcomes.stack([*self._ended, *(self._outcome(slot, moment, False) for slot in running)], self.features)

    # --- events -------------------------------------------------------------------------------------------------------

    def submitted(self, job: Job, now: int, issued: float = math.nan) -> Floats:
        """Put a job in the queue; return its features as of just before, shape (n_features,).

        `issued` is the prediction given for it [s], kept with the row for its outcome; see also `issue`.
        """
        if job.job_id in self.slot_of_job:
            raise JobcastError(f"Job {job.job_id} is submitted a second time, at {now} s, before it has ended.")
        tables = self.tables
        slot = tables.free_slot()
        self.slot_of_job.put(job.job_id, (slot,))
        tables.jobs[slot] = tables.new_record(job)
        tables.issued[slot] = issued
        tables.take_in(now, SUBMITTED, slot)
        row: Floats = tables.rows.of([slot])[0]
        return row

    def issue(self, job_id: int, seconds: float) -> None:
        """Keep the prediction [s] that was given for a queued or running job."""
        self.tables.issued[self._slot(job_id, "gets a prediction")] = seconds

    def started(self, job_id: int, now: int) -> None:
        """Take in that a queued job started."""
        slot = self._slot(job_id, f"starts at {now} s")
        if self.tables.jobs[slot, at.STATE] != at.PENDING:
            raise JobcastError(f"Job {job_id} starts at {now} s, but runs since {self.tables.jobs[slot, at.START]} s.")
        self.tables.take_in(now, STARTED, slot)

    def ended(self, job_id: int, now: int, status: int | None = None) -> Outcome:
        """Take in that a running job ended, with its status; return what became of it."""
        slot = self._slot(job_id, f"ends at {now} s")
        if self.tables.jobs[slot, at.STATE] != at.RUNNING:
            raise JobcastError(
                f"Job {job_id} ends at {now} s, but has not started: call started() first, "
                "or cancelled() if it never ran."
            )
        if now < self.tables.jobs[slot, at.START]:
            raise JobcastError(
                f"Job {job_id} ends at {now} s, before its start at {self.tables.jobs[slot, at.START]} s."
            )
        outcome = self._outcome(slot, now, True)
        self.tables.jobs[slot, at.STATUS] = code(status)
        self.slot_of_job.pop(job_id)
        self.tables.take_in(now, ENDED, slot)
        self._ended.append(outcome)
        return outcome

    def cancelled(self, job_id: int, now: int) -> None:
        """Take in that a queued job left the queue without running."""
        slot = self._slot(job_id, f"is cancelled at {now} s")
        if self.tables.jobs[slot, at.STATE] != at.PENDING:
            raise JobcastError(f"Job {job_id} is cancelled at {now} s while it runs: call ended() with its status.")
        self.slot_of_job.pop(job_id)
        self.tables.take_in(now, CANCELLED, slot)

    def forgotten(self, job_id: int, now: int) -> None:
        """Take in that a queued or running job is given up: nothing is learnt from it."""
        slot = self._slot(job_id, f"is given up at {now} s")
        self.slot_of_job.pop(job_id)
        self.tables.take_in(now, FORGOTTEN, slot)

    # --- going on -----------------------------------------------------------------------------------------------------

    def ended_history(
        self,
        # shape (n_groups, 4); groups to list first, with or without history; see `predictors.history._tables.key_of`
        keys: Ints,
        log: JobLog,  # log that starts no earlier than this history's newest event
        clock: Ints,  # the clock of the history to be, made for its features
    ) -> tuple[Ints, Floats, int]:
        """Return the groups' records as the log of a later time begins, without queued and running jobs, for its clock.

        Returns
        -------
        tuple of (int64 array, float64 array, int)
            Records of the groups, then of all others that the history knows, the newest runs of the users among them,
            and the number of events until now.
        """
        _, width = widths(clock)
        if self.now is None:
            users = new_users(keys, width)
            return users, new_recent(users, run_columns(clock)), 0
        if self.epoch is None or log.epoch is None:
            raise JobcastError(
                f"{log.name} cannot continue a history: the epoch of one is not known; begin without it."
            )
        begin = log.epoch - self.epoch
        if self.now > begin:
            raise JobcastError(
                f"{log.name} begins {self.now - begin} s before the newest event of the history that it continues: "
                "predictions would look ahead; begin without that history, or take a later log (`jobcast log convert` "
                "cuts one with --from, and with --until what is learnt from)."
            )
        for what, own, other in (
            ("number of processors", self.machine_procs, log.max_procs),
            ("time zone", self.time_zone, log.time_zone),
        ):
            if own is not None and other is not None and own != other:
                raise JobcastError(
                    f"{log.name} is of a machine with a {what} of {other}, the history before it of one with "
                    f"{own}: begin without that history, or learn from a log of the same machine."
                )
        if self.tables.users.shape[1] < width:
            raise JobcastError(f"{log.name} cannot continue a history that kept users only: begin without it.")
        wanted, kept = run_columns(clock), run_columns(self.tables.clock)
        if kept < wanted:
            what = "codes of single runs" if kept else "single runs"
            raise JobcastError(
                f"{log.name} cannot continue a history that kept no {what}: train the model again, or begin without it."
            )
        if widths(clock)[0] > self.tables.jobs.shape[1]:
            raise JobcastError(f"{log.name} cannot continue a history that read no names: begin without it.")
        return self.ended_records(keys, begin, begin, clock)

    def ended_records(self, keys: Ints, now: int, begin: int, clock: Ints) -> tuple[Ints, Floats, int]:
        """Return what `ended_history` does as of the second `now` of a clock that starts at this one's `begin`."""
        _, width = widths(clock)
        users = new_users(keys, width)
        _, own, _, own_recent = self.tables.settled(now)
        own = own[: len(self.tables.slot_of)]
        own = own if width > at.USER_COLUMNS else own[own[:, at.KIND] == 0, :width]
        place = {(k, a, b, c): i for i, (k, a, b, c) in enumerate(keys.tolist())}
        own_keys = keys_of_users(own)
        rows = np.array(
            [place.setdefault((k, a, b, c), len(place)) for k, a, b, c in own_keys.tolist()], dtype=np.int64
        )
        users = np.concatenate([users, new_users(own_keys[rows >= len(keys)], width)])
        for column in (*at.OF_ENDED_JOBS, *range(at.USER_COLUMNS, width)):
            users[rows, column] = own[:, column]
        recent = new_recent(users, run_columns(clock))
        if len(recent):
            with_runs = own[:, at.RECENT] != at.NONE
            runs = own_recent[own[with_runs, at.RECENT]]
            runs[:, at.R_END : at.R_END + at.MEMORY] -= begin
            shared = min(runs.shape[1], recent.shape[1])
            recent[users[rows[with_runs], at.RECENT], :shared] = runs[:, :shared]
        users[rows, at.LAST_END] -= begin
        if width > at.USER_COLUMNS:
            users[rows, at.LAST_SUBMIT] -= begin
        return users, recent, int(self.tables.clock[at.EVENTS])

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return everything as plain arrays (numbers and text, no objects), to be stored as the caller likes."""
        arrays = self.streamed_snapshot()
        return {**arrays, "rows": arrays["rows"].whole()}

    def streamed_snapshot(self) -> dict[str, Any]:
        """Return what `snapshot` does, with the rows as `Rows`, since copies of a million take 1.2 GB."""
        tables = self.tables
        deferred = tables.deferred()  # ended, but not to be known before the second is over: no id names them
        slots = np.concatenate([self.slot_of_job.rows()[:, 0], np.array(deferred, dtype=np.int64)])
        ended = Outcomes.stack(list(self._ended), self.features)
        return {
            **packed(tables.arrays, slots, tables.rows.picked(slots.tolist()), tables.issued),
            "job_ids": np.concatenate([self.slot_of_job.keys(), np.full(len(deferred), at.NONE)]),
            "features": np.array(self.features),
            "time_zone": np.array(self.time_zone or ""),
            "limits": np.array([self.capacity, self.keep_ended], dtype=np.int64),
            **ended.arrays("ended_"),
        }

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> Self:
        """Return a history that goes on exactly where the one of the snapshot stood; its rows may be `Rows`.

        It refuses a snapshot that a version with another layout made.
        """
        try:
            clock, (capacity, keep_ended) = snapshot["clock"], snapshot["limits"].tolist()
            history = cls(
                [str(name) for name in snapshot["features"]],
                as_of=AsOfRule(bool(clock[at.SAME_SECOND]), int(clock[at.LEAST_ENDED])),
                epoch=int(clock[at.EPOCH]) if clock[at.HAS_EPOCH] else None,
                time_zone=str(snapshot["time_zone"]) or None,
                capacity=capacity,
                keep_ended=keep_ended,
                machine_procs=int(clock[at.MACHINE_PROCS]) or None,
            )
            history.tables.fill(snapshot)
            slots = np.flatnonzero(snapshot["job_ids"] != at.NONE)
            history.slot_of_job.put_many(snapshot["job_ids"][slots], slots)
            history._ended.extend(Outcomes.from_arrays(snapshot, "ended_"))
        except (KeyError, ValueError, IndexError) as error:
            raise JobcastError(f"This history snapshot cannot be used ({error}); train the model again.") from error
        return history

    # --- small steps -----------------------------------------------------------------------------------------------

    def _outcome(self, slot: int, time: int, observed: bool) -> Outcome:
        tables = self.tables
        seconds = float(time - tables.jobs[slot, at.START])
        return Outcome(tables.rows.of([slot])[0], float(tables.issued[slot]), seconds, observed, time)

    def _slot(self, job_id: int, event: str) -> int:
        slot = self.slot_of_job.first(job_id)
        if slot is None:
            raise JobcastError(f"Job {job_id} {event}, but is neither queued nor running: call submitted() first.")
        return slot


DESCRIBED: Final = (at.SUBMIT, at.PROCS, at.REQUESTED, at.USER, at.GROUP, at.EXECUTABLE, at.QUEUE, at.PARTITION)
"""Columns of a submission."""


def take_in_many(
    history: JobHistory,  # one that keeps no ended jobs
    time: Ints,  # time, kind: shape (n_events,); seconds, and what happened (`predictors.core.events`)
    kind: Ints,
    job: Sequence[int],
    # shape (n_events, 8); of submissions: time, processors, requested time, user, group, executable, queue, partition;
    # -1 is unknown
    described: Ints,
    status: Ints,  # shape (n_events,); of ends; -1 is unknown
) -> tuple[Floats, Ints]:
    """Take in events in order; each must be able to follow from those before, else the history is of no more use.

    Returned are, of submissions and ends in their order, the job's row as of its submission; run times of the ended.
    """
    tables, slot_of_job = history.tables, history.slot_of_job
    asked = np.flatnonzero(kind == SUBMITTED)
    if history.keep_ended or not fits(history, len(asked)):
        raise JobcastError("Many events at once need a history that keeps no ended jobs and has room for new groups.")
    records = _records(tables, described[asked])
    slots = np.empty(len(kind), dtype=np.int64)
    now_at = dict(zip(job, slot_of_job.first_of(job, at.NONE), strict=True))
    opened, gone = dict[int, int](), list[int]()
    kinds = kind.tolist()
    for i, (what, job_id) in enumerate(zip(kinds, job, strict=True)):
        slot = now_at[job_id]
        if what == SUBMITTED:
            if slot != at.NONE:
                raise JobcastError(f"Job {job_id} is submitted a second time before it has ended.")
            slot = now_at[job_id] = opened[job_id] = tables.free_slot()
        elif slot == at.NONE:
            raise JobcastError(f"Job {job_id} is neither queued nor running.")
        elif what in (ENDED, CANCELLED, FORGOTTEN):
            now_at[job_id] = at.NONE
            if opened.pop(job_id, at.NONE) == at.NONE:
                gone.append(job_id)
        slots[i] = slot
    slot_of_job.remove_many(gone)
    slot_of_job.put_many(list(opened), list(opened.values()))
    tables.jobs[slots[asked]] = records
    tables.issued[slots[asked]] = np.nan
    ends = kind == ENDED
    tables.jobs[slots[ends], at.STATUS] = status[ends]
    rows = np.empty((len(kind), len(history.features)))
    bad = step.consume_live(np.stack([time, kind, slots], axis=1), rows, *tables.arrays)
    if bad >= 0:
        raise JobcastError(f"Job {job[bad]}: event {kinds[bad]} at {time[bad]} s cannot follow from those before.")
    tables.rows.put(slots[asked].tolist(), rows[asked])
    told = np.flatnonzero((kind == SUBMITTED) | ends)
    ended, records = slots[ends], tables.jobs[slots[told]]
    rows[ends] = tables.rows.of(ended.tolist())
    return rows[told], records[:, at.END] - records[:, at.START]


def _records(tables: LiveTables, described: Ints) -> Ints:
    """Return the records of new jobs, with the slots of their groups; new groups get one."""
    records = np.full((len(described), tables.jobs.shape[1]), at.NONE, dtype=np.int64)
    records[:, DESCRIBED] = described
    records[:, at.STATE] = at.NEW
    if not len(described):
        return records
    keys, groups = groups_of_jobs(records, kinds_of(tables.jobs.shape[1]))
    set_slots(records, np.append(_slots(tables, keys), at.NONE)[groups])
    return records


def rows_of_many(history: JobHistory, described: Ints, now: int) -> Floats:
    """Return what `JobHistory.rows` does, for jobs described as in `take_in_many`."""
    tables = history.tables
    rows = np.empty((len(described), len(history.features)))
    asked = np.full((len(described), tables.jobs.shape[1]), at.NONE, dtype=np.int64)
    asked[:, DESCRIBED] = described
    keys, groups = groups_of_jobs(asked, kinds_of(tables.jobs.shape[1]))
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
