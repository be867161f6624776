"""JobHistory: what is known at each submission, kept up to date by the stream of job events.

Facts only, no model: `submitted`, `started`, `ended` and `cancelled` take in events, `row` answers what is known now.
The step that does so is compiled once (`predictors._history`) and shared with the replay of logs
(`predictors.replay`), so a row computed from an old log, in a simulation and in a live service is the same to the last
bit.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from predictors import _history as step
from predictors import _history_layout as at
from predictors._history_calendar import utc_offsets
from predictors.data.errors import JobcastError, unknown_name
from predictors.data.events import CANCELLED, ENDED, STARTED, SUBMITTED
from predictors.data.joblog import Ints
from predictors.features import REIS_FEATURES, families_of, feature_plan

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AsOfRule:
    """What counts as ended at a submission.

    Parameters
    ----------
    same_second : bool
        Whether a job that ends in the very second of a submission is known to it. If not, it still counts as running.
    least_ended : {1, 2}
        Ended jobs of the user that `last_two_mean` needs; of a single one the mean is its own run time.
    """

    same_second: bool = True
    least_ended: int = 1

    def __post_init__(self) -> None:
        if self.least_ended not in (1, 2):
            raise JobcastError(f"AsOfRule.least_ended must be 1 or 2; got {self.least_ended!r}.")


AS_OF_RULES: Final[dict[str, AsOfRule]] = {
    "strict": AsOfRule(),
    "reis": AsOfRule(same_second=False, least_ended=2),
}
"""The rules by protocol: `strict` (ends come before submissions), `reis` (V. Reis, "Learning to predict run times")."""


def as_of_rule(rule: str | AsOfRule) -> AsOfRule:
    """Return a rule by its name in `AS_OF_RULES`, or the rule itself."""
    if isinstance(rule, AsOfRule):
        return rule
    if rule not in AS_OF_RULES:
        raise unknown_name("as-of rule", rule, AS_OF_RULES)
    return AS_OF_RULES[rule]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its submission describes it; None stands for unknown. An unknown user is nobody and has no history.

    Parameters
    ----------
    job_id : int
        Unique among the jobs that have not ended.
    submit : int
        Submission [s on the history's clock].
    procs : int or None
        Processors asked for.
    requested_time : int or None
        Walltime asked for [s].
    user, group, executable, queue, partition : int or None
        Codes, not below 0.
    """

    job_id: int
    submit: int
    procs: int | None = None
    requested_time: int | None = None
    user: int | None = None
    group: int | None = None
    executable: int | None = None
    queue: int | None = None
    partition: int | None = None


class Outcome(NamedTuple):
    """What became of one job: its row and prediction at submission, and how long it ran, or has run so far."""

    row: Floats
    """Features at the submission, shape (n_features,)."""
    issued: float
    """The prediction that was given for it [s]; missing (NaN) if none was."""
    seconds: float
    """Run time, or elapsed time of a job that still runs [s]."""
    observed: bool
    """Whether the job has ended: otherwise its run time is censored at `seconds`."""
    time: int
    """When this was so: the job's end, or now [s]."""


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of many jobs as columns of equal length; see `Outcome`."""

    rows: Floats
    issued: Floats
    seconds: Floats
    observed: npt.NDArray[np.bool_]
    time: Ints

    def __len__(self) -> int:
        return len(self.seconds)

    @classmethod
    def stack(cls, outcomes: Sequence[Outcome], n_features: int) -> Self:
        """Return single outcomes as columns."""
        rows, issued, seconds, observed, time = zip(*outcomes, strict=True) if outcomes else ((),) * 5
        return cls(
            np.array(rows, dtype=np.float64).reshape(len(outcomes), n_features),
            np.array(issued, dtype=np.float64),
            np.array(seconds, dtype=np.float64),
            np.array(observed, dtype=np.bool_),
            np.array(time, dtype=np.int64),
        )


class JobHistory:
    """As-of features of a stream of job events.

    Events are taken in in the order of their arrival. One that arrives late (its `now` lies before the newest event's)
    counts from its arrival on, with its own time. Questions are answered as of the newest event at the earliest.

    Parameters
    ----------
    features : sequence of str
        Columns of a row, from `predictors.features.FEATURES`; default: the sixteen of Reis.
    as_of : {"strict", "reis"} or AsOfRule
        What counts as ended at a submission.
    epoch : int or None
        Unix time [s] of the history's second 0: 0 if its clock is Unix time, None if unknown (no weekday then).
    time_zone : str or None
        IANA name of the machine's time zone; None is UTC.
    capacity : int
        Users to remember. Beyond it the one whose jobs have been without any event for longest is forgotten, but never
        one with a job queued or running: while all have, the history grows.
    keep_ended : int
        Newest ended jobs whose outcomes are kept for `training_set`.

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
    ) -> None:
        if capacity < 1 or keep_ended < 0:
            raise JobcastError(f"JobHistory needs capacity ≥ 1 and keep_ended ≥ 0; got {capacity} and {keep_ended}.")
        self.features: Final = tuple(features)
        self.as_of: Final = as_of_rule(as_of)
        self.epoch: Final = epoch
        self.time_zone: Final = time_zone
        self.capacity: Final = capacity
        self._plan = feature_plan(self.features)
        self._calendar = utc_offsets(time_zone).copy()
        self._clock = new_clock(self.features, self.as_of, epoch)
        self._jobs = np.empty((0, at.JOB_COLUMNS), dtype=np.int64)
        self._rows = np.empty((0, len(self.features)))
        self._issued = np.empty(0)
        self._users = np.empty((0, at.USER_COLUMNS), dtype=np.int64)
        self._slot_of_job: dict[int, int] = {}
        self._slot_of_user: OrderedDict[int, int] = OrderedDict()
        self._ended: deque[Outcome] = deque(maxlen=keep_ended)
        self._event = np.empty((1, 3), dtype=np.int64)

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Second of the newest event; 0 before the first."""
        return max(int(self._clock[at.NOW]), 0)

    @property
    def late_events(self) -> int:
        """Number of events that arrived after a newer one."""
        return int(self._clock[at.LATE_EVENTS])

    def __len__(self) -> int:
        """Return the number of jobs in the queue and running."""
        return len(self._slot_of_job)

    def row(self, job: Job, now: int) -> Floats:
        """Return the features of `job` if it were submitted at `now`, shape (n_features,); nothing changes."""
        row: Floats = self.rows([job], now)[0]
        return row

    def rows(self, jobs: Sequence[Job], now: int) -> Floats:
        """Return the features of jobs if each were the next one submitted at `now`, shape (n_jobs, n_features)."""
        asked = np.array([self._record(job, self._slot_of_user.get(_code(job.user), at.NONE)) for job in jobs])
        rows = np.empty((len(jobs), len(self.features)))
        if len(jobs):
            step.rows_at(now, asked, rows, *self._settled(now), self._calendar, self._plan)
        return rows

    def training_set(self, now: int) -> Outcomes:
        """Return the kept outcomes of ended jobs, oldest first, then the running jobs by start, censored at `now`."""
        moment = max(now, self.now)
        jobs = self._settled(moment)[0]
        running = [slot for slot in self._slot_of_job.values() if jobs[slot, at.STATE] == at.RUNNING]
        running.sort(key=lambda slot: int(jobs[slot, at.START]))
        censored = [
            Outcome(self._rows[s].copy(), float(self._issued[s]), float(moment - jobs[s, at.START]), False, moment)
            for s in running
        ]
        return Outcomes.stack([*self._ended, *censored], len(self.features))

    # --- events -------------------------------------------------------------------------------------------------------

    def submitted(self, job: Job, now: int, issued: float = math.nan) -> Floats:
        """Put a job in the queue; return its features as of just before, shape (n_features,).

        `issued` is the prediction given for it [s], kept with the row for its outcome; see also `issue`.

        Raises
        ------
        JobcastError
            If a job of this id is queued or running.
        """
        if job.job_id in self._slot_of_job:
            raise JobcastError(f"Job {job.job_id} is submitted a second time at {now} s before it has ended.")
        record = self._record(job, self._user_slot(_code(job.user)))
        slot = self._free_slot()
        self._jobs[slot] = record
        self._issued[slot] = issued
        self._take_in(now, SUBMITTED, slot)
        self._slot_of_job[job.job_id] = slot
        row: Floats = self._rows[slot].copy()
        return row

    def issue(self, job_id: int, seconds: float) -> None:
        """Keep the prediction [s] that was given for a queued or running job."""
        self._issued[self._slot(job_id, "gets a prediction")] = seconds

    def started(self, job_id: int, now: int) -> None:
        """Take in that a queued job started.

        Raises
        ------
        JobcastError
            If the job is not in the queue.
        """
        slot = self._slot(job_id, f"starts at {now} s")
        if self._jobs[slot, at.STATE] != at.PENDING:
            raise JobcastError(f"Job {job_id} starts at {now} s, but runs since {self._jobs[slot, at.START]} s.")
        self._touch(slot)
        self._take_in(now, STARTED, slot)

    def ended(self, job_id: int, now: int, status: int | None = None) -> Outcome:
        """Take in that a running job ended, with its status; return what became of it.

        Raises
        ------
        JobcastError
            If the job does not run, or would have ended before its start.
        """
        slot = self._slot(job_id, f"ends at {now} s")
        start = int(self._jobs[slot, at.START])
        if self._jobs[slot, at.STATE] != at.RUNNING:
            raise JobcastError(
                f"Job {job_id} ends at {now} s, but has not started: call started() first, "
                "or cancelled() if it never ran."
            )
        if now < start:
            raise JobcastError(f"Job {job_id} ends at {now} s, before its start at {start} s.")
        outcome = Outcome(self._rows[slot].copy(), float(self._issued[slot]), float(now - start), True, now)
        self._jobs[slot, at.STATUS] = at.NONE if status is None else status
        self._touch(slot)
        del self._slot_of_job[job_id]
        self._take_in(now, ENDED, slot)
        self._ended.append(outcome)
        return outcome

    def cancelled(self, job_id: int, now: int) -> None:
        """Take in that a queued job left the queue without running.

        Raises
        ------
        JobcastError
            If the job is not in the queue.
        """
        slot = self._slot(job_id, f"is cancelled at {now} s")
        if self._jobs[slot, at.STATE] != at.PENDING:
            raise JobcastError(f"Job {job_id} is cancelled at {now} s while it runs: call ended() with its status.")
        self._touch(slot)
        del self._slot_of_job[job_id]
        self._take_in(now, CANCELLED, slot)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays (numbers and text, no objects), to be stored as the caller likes."""
        ended = Outcomes.stack(list(self._ended), len(self.features))
        return {
            "features": np.array(self.features),
            "time_zone": np.array(self.time_zone or ""),
            "limits": np.array([self.capacity, self._ended.maxlen or 0], dtype=np.int64),
            "clock": self._clock.copy(),
            "jobs": self._jobs.copy(),
            "rows": self._rows.copy(),
            "issued": self._issued.copy(),
            "users": self._users.copy(),
            "job_slots": np.array(list(self._slot_of_job.items()), dtype=np.int64).reshape(-1, 2),
            "user_slots": np.array(list(self._slot_of_user.items()), dtype=np.int64).reshape(-1, 2),
            "ended_rows": ended.rows,
            "ended_about": np.column_stack([ended.issued, ended.seconds, ended.time.astype(np.float64)]),
        }

    @classmethod
    def restore(cls, snapshot: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a history that goes on exactly where the one of the snapshot stood.

        Raises
        ------
        JobcastError
            If the snapshot lacks an array, or was made by a version with another layout.
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
            )
            for name, columns in (("jobs", at.JOB_COLUMNS), ("users", at.USER_COLUMNS)):
                if snapshot[name].shape[1:] != (columns,):
                    raise JobcastError(f"History snapshot: {name!r} needs {columns} columns; train the model again.")
            history._clock[:] = clock
            history._jobs, history._users = snapshot["jobs"].copy(), snapshot["users"].copy()
            history._rows, history._issued = snapshot["rows"].copy(), snapshot["issued"].copy()
            history._slot_of_job.update((int(job), int(slot)) for job, slot in snapshot["job_slots"])
            history._slot_of_user.update((int(user), int(slot)) for user, slot in snapshot["user_slots"])
            for row, (issued, seconds, time) in zip(snapshot["ended_rows"], snapshot["ended_about"], strict=True):
                history._ended.append(Outcome(row.copy(), float(issued), float(seconds), True, int(time)))
        except (KeyError, ValueError) as error:
            if isinstance(error, JobcastError):
                raise
            raise JobcastError(f"History snapshot cannot be used ({error}); train the model again.") from error
        return history

    # --- slots --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _record(job: Job, user_slot: int) -> Ints:
        none = at.NONE
        return np.array(
            (
                job.submit,
                _code(job.procs),
                _code(job.requested_time),
                _code(job.user),
                _code(job.group),
                _code(job.executable),
                _code(job.queue),
                _code(job.partition),
                user_slot,
                none,
                at.NEW,
                none,
                none,
                none,
                none,
                none,
            ),
            dtype=np.int64,
        )

    def _take_in(self, now: int, kind: int, slot: int) -> None:
        self._event[0] = now, kind, slot
        step.consume(self._event, self._rows, self._jobs, self._users, self._clock, self._calendar, self._plan)

    def _settled(self, now: int) -> tuple[Ints, Ints, Ints]:
        """Return jobs, users and clock with the deferred ends before `now` counted: copies if there are any."""
        first = self._clock[at.DEFERRED_FIRST]
        if first == at.NONE or self._jobs[first, at.END] >= now:
            return self._jobs, self._users, self._clock
        copies = self._jobs.copy(), self._users.copy(), self._clock.copy()
        step.settle(now, *copies)
        return copies

    def _slot(self, job_id: int, event: str) -> int:
        slot = self._slot_of_job.get(job_id)
        if slot is None:
            raise JobcastError(f"Job {job_id} {event}, but is neither queued nor running: call submitted() first.")
        return slot

    def _free_slot(self) -> int:
        slot = int(self._clock[at.FREE])
        if slot == at.NONE:
            slot = len(self._jobs)
            more = max(slot, 64)
            self._jobs = np.concatenate([self._jobs, np.full((more, at.JOB_COLUMNS), at.NONE)])
            self._rows = np.concatenate([self._rows, np.full((more, len(self.features)), np.nan)])
            self._issued = np.concatenate([self._issued, np.full(more, np.nan)])
            self._jobs[slot:-1, at.NEXT] = np.arange(slot + 1, slot + more)
        self._clock[at.FREE] = self._jobs[slot, at.NEXT]
        return slot

    def _touch(self, slot: int) -> None:
        user = int(self._jobs[slot, at.USER])
        if user >= 0:
            self._slot_of_user.move_to_end(user)

    def _user_slot(self, user: int) -> int:
        """Return the row of a user in `users`, a new or a forgotten one's if there is none yet."""
        if user < 0:
            return at.NONE
        if user in self._slot_of_user:
            self._slot_of_user.move_to_end(user)
            return self._slot_of_user[user]
        slot = len(self._slot_of_user)
        if slot >= self.capacity:
            slot = self._forget_one(slot)
        if slot >= len(self._users):
            more = new_users(max(len(self._users), 64))
            self._users = np.concatenate([self._users, more])
        self._users[slot] = new_users(1)[0]
        self._slot_of_user[user] = slot
        return slot

    def _forget_one(self, otherwise: int) -> int:
        for user, slot in self._slot_of_user.items():
            if not self._users[slot, at.PENDING_COUNT] and not self._users[slot, at.RUNNING_COUNT]:
                del self._slot_of_user[user]
                return slot
        return otherwise


def _code(value: int | None) -> int:
    return at.NONE if value is None or value < 0 else value


def new_clock(features: Sequence[str], as_of: AsOfRule, epoch: int | None) -> Ints:
    """Return the clock of a history before its first event."""
    clock = np.zeros(at.CLOCK_FIELDS, dtype=np.int64)
    clock[at.NOW] = np.iinfo(np.int64).min
    clock[at.EPOCH], clock[at.HAS_EPOCH] = epoch or 0, epoch is not None
    clock[at.SAME_SECOND], clock[at.LEAST_ENDED] = as_of.same_second, as_of.least_ended
    clock[at.FAMILIES] = families_of(features)
    clock[[at.DEFERRED_FIRST, at.DEFERRED_LAST, at.FREE]] = at.NONE
    return clock


def new_users(n_users: int) -> Ints:
    """Return records of users without history."""
    users = np.zeros((n_users, at.USER_COLUMNS), dtype=np.int64)
    users[:, [at.OLDEST, at.NEWEST]] = at.NONE
    return users
