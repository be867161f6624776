"""Replay of a log in bulk: its events in order, and its history."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import CANCELLED, ENDED, JOB, KIND, RETURNED, STARTED, SUBMITTED, TIME
from predictors.core.jit import compiled
from predictors.data.joblog import JobLog
from predictors.history import _layout as at
from predictors.history import _step as step
from predictors.history._tables import (
    Tables,
    groups_of_jobs,
    kinds_of,
    new_clock,
    new_recent,
    new_users,
    packed,
    run_columns,
    set_slots,
    widths,
)
from predictors.history.features import REIS_FEATURES, REQUESTED_TIME
from predictors.history.history import JobHistory
from predictors.history.names import called_in, with_procs
from predictors.history.records import AsOfRule, Outcomes, as_of_rule


@compiled
def merge(
    # shape (4,); how many submissions, starts and ends have been given, and the zero-length job with a due end (-1:
    # none)
    cursors: Ints,
    submit: Ints,  # submit, start, end: shape (n_jobs,); times of each job [s]; `submit` must not fall
    start: Ints,
    end: Ints,
    # by_start, by_end: rows of the jobs that start, and of those that end later than they start, in order of their
    # events
    by_start: Ints,
    by_end: Ints,
    events: Ints,
) -> int:
    """Write the next events into `events`, as many as fit, and return their number."""
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


_SLICE: Final = 1 << 16  # events held at once while a whole log is replayed
_KINDS: Final = {
    SUBMITTED: "is submitted",
    STARTED: "starts",
    ENDED: "ends",
    CANCELLED: "is cancelled",
    RETURNED: "is to run again",
}


class LogEvents:
    """The events of a log by its own submit, wait and run times, in order, slice by slice.

    Within a second: ends (by start, job id), submissions (by job id), starts (by job id); a zero-length job's end
    follows its start. An unknown wait counts as 0. A job with an unknown run time never ends; if its wait is unknown,
    too, it never starts: it may have left the queue unseen. Waits and run times must not be negative.
    """

    def __init__(self, log: JobLog) -> None:
        wait, run_time = log.filled("wait"), log.filled("run_time")
        has_wait, has_run = log.known("wait"), log.known("run_time")
        for column, values, is_known in (("wait", wait, has_wait), ("run_time", run_time, has_run)):
            if (bad := np.flatnonzero(is_known & (values < 0))).size:
                job = log.filled("job_id")[bad[0]]
                raise JobcastError(f"{log.name}: {column} of job {job} must not be negative; got {values[bad[0]]} s.")
        self.n_jobs: Final = len(log)
        self._submit = log.filled("submit")
        self._start = self._submit + np.where(has_wait, wait, 0)
        self._end = self._start + np.where(has_run, run_time, 1)
        job_id = log.filled("job_id")
        by_id = np.arange(len(log)) if (np.diff(job_id) > 0).all() else np.argsort(job_id, kind="stable")
        starts = by_id[(has_wait | has_run)[by_id]]
        self._by_start = starts[np.argsort(self._start[starts], kind="stable")]
        ends = self._by_start[(has_run & (run_time > 0))[self._by_start]]
        self._by_end = ends[np.argsort(self._end[ends], kind="stable")]
        self._cursors = np.array([0, 0, 0, at.NONE], dtype=np.int64)

    def read(self, events: Ints) -> int:
        """Write the next events into an int64 array of shape (n, 3); return how many, 0 after the last."""
        return merge(self._cursors, self._submit, self._start, self._end, self._by_start, self._by_end, events)


def log_events(log: JobLog) -> Ints:
    """Return all events of a log by its own times, int64 of shape (n_events, 3); see `LogEvents` for their order.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "wait": [0, 1], "run_time": [5, 0]}, {})
    >>> log_events(log).tolist()  # (time, kind, row): 0 submitted, 1 started, 2 ended
    [[0, 0, 0], [0, 1, 0], [5, 2, 0], [5, 0, 1], [6, 1, 1], [6, 2, 1]]
    """
    events = np.empty((3 * len(log), 3), dtype=np.int64)
    return events[: LogEvents(log).read(events)]


class LogHistory:
    """The history of one log's jobs, driven by events about its rows: those of a replay, or of a simulation.

    It holds no formula: `consume` is the step that `JobHistory` takes for one event, taken for a slice of them. `after`
    must end before the log begins, by their epochs, and have kept groups if the features need them.
    """

    def __init__(
        self,
        # the events name its rows. Waits and run times are not read, statuses when a job's end is taken in.
        log: JobLog,
        # columns of a row, from `predictors.history.features.FEATURES`; default: the sixteen of Reis
        features: Sequence[str] = REIS_FEATURES,
        as_of: str | AsOfRule = "strict",  # {"strict", "reis"}: what counts as ended at a submission
        # what was known before the log began; default: nothing. Its users' ended jobs are kept, its jobs still queued
        # or running are not, since the log does not have their ends. Its user codes must mean the log's users.
        after: JobHistory | None = None,
    ) -> None:
        self.log: Final = log
        self.features: Final = tuple(features)
        self.as_of: Final = as_of_rule(as_of)
        clock = new_clock(self.features, self.as_of, log.epoch, log.time_zone, log.max_procs)
        job_width, user_width = widths(clock)
        jobs = _job_records(log, job_width)
        keys, slots = groups_of_jobs(jobs, kinds_of(job_width))
        set_slots(jobs, slots)
        users = new_users(keys, user_width)
        if after is None:
            recent = new_recent(users, run_columns(clock))
        else:
            users, recent, clock[at.EVENTS] = after.ended_history(keys, log, clock)
        # (jobs, users, clock, recent) for compiled callers: `predictors.history._step.consume(events, rows, *arrays)`
        self.arrays: Final[Tables] = (jobs, users, clock, recent)

    @property
    def now(self) -> int:
        """Second of the newest event."""
        return int(self.arrays[2][at.NOW])

    def consume(
        self,
        events: Ints,  # shape (n_events, 3); (time [s], kind, row of the log), as in `predictors.core.events`
        rows: Floats,  # shape (n_jobs, n_features); changed at the rows of submitted jobs
    ) -> None:
        """Take in events in order, in one compiled call; write `rows[job]` as of each submission among them."""
        bad = step.consume(events, rows, *self.arrays)
        if bad != at.NONE:
            raise self._refusal(bad, *events[bad].tolist())

    def replayed(self) -> Floats:
        """Take in the log's own events; return the features of each job, shape (n_jobs, n_features)."""
        rows = np.full((len(self.log), len(self.features)), np.nan)
        events = LogEvents(self.log)
        buffer = np.empty((min(_SLICE, 3 * len(self.log)), 3), dtype=np.int64)
        while n := events.read(buffer):
            self.consume(buffer[:n], rows)
        return rows

    def _refusal(self, place: int, time: int, kind: int, job: int) -> JobcastError:
        if kind not in _KINDS or not 0 <= job < len(self.log):
            return JobcastError(
                f"Event {place} is ({time}, {kind}, {job}); an event of {self.log.name} is (time, kind 0 to 4, "
                f"row 0 to {len(self.log) - 1})."
            )
        return JobcastError(
            f"Event {place}: job {self.log.filled('job_id')[job]} of {self.log.name} {_KINDS[kind]} at {time} s, which "
            "cannot follow from its events before: a job is submitted, starts and ends once, in this order."
        )

    def training_set(
        self,
        rows: Floats,  # shape (n_jobs, n_features); what `consume` has written
        now: int,  # present second; the history must not be ahead of it
        issued: Floats | None = None,  # shape (n_jobs,); predictions given [s]
    ) -> Outcomes:
        """Return the outcomes known at `now`: ended jobs by end, then running ones by start, censored."""
        jobs = self.arrays[0]
        start, end = jobs[:, at.START], jobs[:, at.END]
        is_running = (start != at.NONE) & (end == at.NONE)
        ended, running = np.flatnonzero(end != at.NONE), np.flatnonzero(is_running)
        ended = ended[np.lexsort((start[ended], end[ended]))]
        chosen = np.concatenate([ended, running[np.argsort(start[running], kind="stable")]])
        time = np.where(is_running, now, end)[chosen]
        return Outcomes(
            rows[chosen],
            np.full(len(chosen), np.nan) if issued is None else issued[chosen],
            (time - start[chosen]).astype(np.float64),
            ~is_running[chosen],
            time,
        )

    def live(self, rows: Floats, capacity: int = 100_000, keep_ended: int = 0) -> JobHistory:
        """Return the history that goes on, event by event, where this one stands; `rows` is what `consume` has written.

        `capacity` and `keep_ended` are those of `JobHistory`. Its clock is the log's.
        """
        jobs = self.arrays[0]
        slots = np.flatnonzero((jobs[:, at.STATE] == at.PENDING) | (jobs[:, at.STATE] == at.RUNNING))
        has_ended = jobs[slots, at.END] != at.NONE
        known = self.training_set(rows, self.now)
        newest = np.flatnonzero(known.observed)[-keep_ended:] if keep_ended else np.empty(0, dtype=np.int64)
        return JobHistory.restore(
            {
                **packed(self.arrays, slots, rows[slots], np.full(len(jobs), np.nan), capacity),
                "job_ids": np.where(has_ended, at.NONE, self.log.filled("job_id")[slots]),
                "features": np.array(self.features),
                "time_zone": np.array(self.log.time_zone or ""),
                "limits": np.array([capacity, keep_ended], dtype=np.int64),
                **known.select(newest).arrays("ended_"),
            }
        )


def _job_records(log: JobLog, width: int) -> Ints:
    """Return the records of a log's jobs before their submission, without slots."""
    jobs = np.full((len(log), width), at.NONE, dtype=np.int64)
    for column, name in _RECORD.items():
        jobs[:, column] = log.filled(name)
    jobs[:, at.PROCS] = log.procs
    jobs[:, at.STATE] = at.NEW
    if width == at.WIDE_JOB_COLUMNS:
        jobs[:, at.STEMS : at.SIGNATURE_2 + 1] = called_in(log)
        jobs[:, at.STEMS] = with_procs(jobs[:, at.STEMS], jobs[:, at.PROCS])
        jobs[:, at.SOFT] = log.filled("soft_walltime")
    return jobs


_RECORD: Final = {
    at.SUBMIT: "submit",
    at.REQUESTED: "requested_time",
    at.USER: "user",
    at.GROUP: "group",
    at.EXECUTABLE: "executable",
    at.QUEUE: "queue",
    at.PARTITION: "partition",
    at.STATUS: "status",
}


def replay(
    log: JobLog,
    features: Sequence[str] = REIS_FEATURES,
    as_of: str | AsOfRule = "strict",
    after: JobHistory | None = None,
) -> Floats:
    """Return the features of every job of a log as of its submission, float64 of shape (n_jobs, n_features).

    The log's own starts and ends drive a `LogHistory`, which explains the parameters.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9], "wait": [0, 0], "run_time": [5, 8],
    ...                            "user": [3, 3]}, {})
    >>> replay(log, ["last_two_mean", "think_time"]).tolist()
    [[nan, nan], [5.0, 4.0]]
    """
    return LogHistory(log, features, as_of, after).replayed()


def running_at(
    log: JobLog,  # log; its own submissions and waits give the starts
    rows: Floats,  # shape (n_jobs, n_features); features as of each job's submission
    among: npt.NDArray[np.bool_],  # shape (n_jobs,); jobs of which the caller knows that they have not ended
    now: int,
) -> Outcomes:
    """Return those `among` the jobs of a log that have started by `now`, censored then; their ends are not read."""
    start = log.filled("submit") + log.filled("wait", 0)
    runs = np.flatnonzero(among & (start <= now))
    elapsed, unknown = (now - start[runs]).astype(np.float64), np.full(len(runs), np.nan)
    return Outcomes(rows[runs], unknown, elapsed, np.zeros(len(runs), dtype=np.bool_), np.full(len(runs), now))


def still_running(
    history: LogHistory,  # after all events of the log
    rows: Floats,  # shape (n_jobs, n_features); what it has written; one feature is the requested time
) -> Outcomes | None:
    """Return the jobs of a replayed log that started and have no end in it, censored at its newest event.

    One that would have outrun its request by then (or, without a request, all ended jobs) was lost, and is left out.
    """
    run_time = history.log.filled("run_time")
    if history.log.known("run_time").all() or not (run_time > 0).any():
        return None
    known = history.training_set(rows, history.now)
    asked = known.rows[:, history.features.index(REQUESTED_TIME)]
    there = ~known.observed & (known.seconds <= np.where(asked > 0, asked, run_time.max()))
    return known.select(np.flatnonzero(there))
