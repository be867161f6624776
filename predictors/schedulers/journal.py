"""Journal of an adapter: what was done to which job, why, by which model, and what became of it.

The JSON-lines files are authoritative: one a month, one line a record, each appended by one write and made durable
before the scheduler receives anything. An intention is a record of its own, so after a kill at any moment the journal
says which soft limits may be ours. The SQLite file next to them is an index by job, built from them, and built again if
it is gone.

One adapter owns a journal, by a lock that the system takes back however the process ends. Names of users are in
the base, in the classes of jobs that a table for submission is made from, and in the text's records `judged`.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.schedulers.soft_limit import MINUTE, QueuedJob

WOULD_SET: Final = "would-set"
WOULD_CLEAR: Final = "would-clear"
INTENDED: Final = "intended"
WAS_SET: Final = "set"
CLEARED: Final = "cleared"
NOT_DONE: Final = "not-done"
OUTCOME: Final = "outcome"
JUDGED: Final = "judged"  # a job that P90 alone would have given a soft limit has ended
WOULD_START: Final = "would-start"
WOULD_HOLD: Final = "would-hold"
WOULD_HAVE_STARTED: Final = "would-have-started"
HOLD_OUTCOME: Final = "hold-outcome"
ABOUT_STARTS: Final = frozenset((WOULD_START, WOULD_HOLD, WOULD_HAVE_STARTED, HOLD_OUTCOME))
ABOUT_JOBS: Final = frozenset((WOULD_SET, WOULD_CLEAR, INTENDED, WAS_SET, CLEARED, NOT_DONE))

LOST: Final = "lost"

Record = Mapping[str, Any]  # what a line holds: `at` [Unix time of the scheduler], `what`, and what belongs to that

_SECRET: Final = 0o600
_LARGEST: Final = 1 << 53
FORGOTTEN_AFTER: Final = 60 * 86_400  # what is not known to be over after so long [s] is not asked about any more
_DAY: Final = 86_400
_KEPT: Final = ("limit", "quantile", "model", "version", "why", "procs", "wait", "code", "probability", "expected",
                "delay", "ran", "state")  # fmt: skip
"""What goes into the base as it stands in the text."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS soft_limits (
    job INTEGER NOT NULL, submission INTEGER NOT NULL, what TEXT NOT NULL, at INTEGER NOT NULL, minutes INTEGER,
    ours TEXT NOT NULL, limit_minutes INTEGER, quantile REAL, model TEXT, version INTEGER, why TEXT,
    PRIMARY KEY (job, submission));
CREATE TABLE IF NOT EXISTS outcomes (
    job TEXT NOT NULL, submission INTEGER NOT NULL, at INTEGER NOT NULL, target INTEGER NOT NULL,
    shadow INTEGER NOT NULL, minutes INTEGER NOT NULL, ran INTEGER NOT NULL, too_short INTEGER NOT NULL,
    state TEXT NOT NULL, procs INTEGER, wait INTEGER, PRIMARY KEY (job, submission));
CREATE INDEX IF NOT EXISTS outcomes_by_target ON outcomes (target, submission);
CREATE TABLE IF NOT EXISTS starts (
    job TEXT NOT NULL, submission INTEGER NOT NULL, start INTEGER NOT NULL, held INTEGER NOT NULL, code TEXT,
    probability REAL, expected REAL, delay INTEGER, ran INTEGER, state TEXT, at INTEGER NOT NULL,
    PRIMARY KEY (job, submission));
CREATE TABLE IF NOT EXISTS read_until (file TEXT PRIMARY KEY, bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ended (job TEXT NOT NULL, submission INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (job, submission));
CREATE TABLE IF NOT EXISTS classes (
    user TEXT, account TEXT, part TEXT, procs INTEGER, asked INTEGER, name TEXT, ended INTEGER NOT NULL,
    newest INTEGER NOT NULL, PRIMARY KEY (user, account, part, procs, asked, name));
"""


class BaseBehindError(JobcastError):
    """The index (SQLite) cannot be written; the text has the records, and the index follows later."""


@dataclass(frozen=True)
class SoftLimit:
    """What the journal knows of a job's soft limit."""

    # job, submission: the id that changes name, and when the job was submitted
    job: int
    submission: int
    what: str  # the newest record's kind
    ours: frozenset[int]  # every value that we have set, or were about to [min]
    minutes: int | None  # the one that counts


@dataclass(frozen=True)
class JobClass:
    """Jobs that are alike at submission, and how many of them have been seen to end."""

    user: str
    account: str
    partition: str
    procs: int
    limit: int
    name: str
    ended: int


class Journal:
    """The journal in a folder, made if missing, readable for its owner alone, and refused to a second process."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _SECRET)
        except OSError as error:
            raise JobcastError(
                f"{folder}: no journal can be there ({error.strerror}); give another --journal."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise JobcastError(
                f"{folder}: another adapter writes this journal; stop it (for another cluster, give another --journal)."
            ) from error
        try:
            self._mend()
            self._limits: dict[int, SoftLimit] = {}
            self._looked_over, self._is_behind = 0, False
            self.trouble = ""
            self._base = self._followed(folder / "journal.db")
        except BaseException:
            os.close(self._lock)
            raise

    def _followed(self, path: Path) -> sqlite3.Connection:
        """Return the base, brought up to the text; where it cannot be written, one in memory, made of the text alone.

        What is ours must be known to clear it, on a full disk, too.
        """
        try:
            self._base = _opened(path)
            self._follow()
        except sqlite3.Error as error:
            with contextlib.suppress(AttributeError):
                self._base.close()
            self.trouble = f"{path}: cannot be written ({error}); the text next to it holds everything and continues"
            self._base = sqlite3.connect(":memory:")
            self._base.executescript(_TABLES)
            self._follow()
        return self._base

    def close(self) -> None:
        self._base.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what it knows ------------------------------------------------------------------------------------------------

    def limit_of(self, job: QueuedJob) -> SoftLimit | None:
        """Return what is known of a job's soft limit; None of a job that never had one from us.

        A requeued job has a new submission, and keeps its soft limit; an id that Slurm uses again is another job.
        """
        known = self._limits.get(job.target)
        if known is None or (known.submission != (job.submit or 0) and not job.restarts and not job.task):
            return None
        return known

    def ours(self, job: QueuedJob) -> frozenset[int]:
        """Return the soft limits of a job that are ours [min]: by the journal, or by its mark."""
        known = self.limit_of(job)
        return (known.ours if known else frozenset()) | job.marked

    def is_users(self, job: QueuedJob) -> bool:
        """Return whether a job has a soft limit that is its user's own."""
        return bool(job.soft) and not self.is_ours(job)

    def is_ours(self, job: QueuedJob) -> bool:
        return bool(job.soft) and not (job.soft or 0) % MINUTE and (job.soft or 0) // MINUTE in self.ours(job)

    def open_jobs(self) -> frozenset[int]:
        """Return the ids of jobs that have, or may have, a soft limit of ours by the journal."""
        return frozenset(job for job, known in self._limits.items() if known.ours)

    def classes(self, since: int, most: int) -> list[JobClass]:
        """Return the classes of jobs of which one ended since, the newest first."""
        found = self._base.execute(
            "SELECT user, account, part, procs, asked, name, ended FROM classes WHERE newest >= ? "
            "ORDER BY newest DESC, name LIMIT ?",
            (since, most),
        )
        return [JobClass(*row) for row in found]

    def open_starts(self) -> list[tuple[str, int, int, int, float | None, int | None]]:
        """Return the judged starts of the last two months with jobs that are not known to have ended.

        Each is its job's key, submission, start, whether it would have been held, the run time expected, and the delay.
        """
        with self._named_troubles():
            return self._base.execute(
                "SELECT job, submission, start, held, expected, delay FROM starts WHERE ran IS NULL "
                "AND at >= (SELECT max(at) FROM starts) - ? ORDER BY at, rowid",
                (FORGOTTEN_AFTER,),
            ).fetchall()

    # --- what it records ----------------------------------------------------------------------------------------------

    def add(self, records: Sequence[Record]) -> None:
        """Add records: durable when this returns, in one piece or not at all.

        It raises JobcastError if they cannot be written; then nothing may be changed at the scheduler. It raises
        BaseBehindError if the text has them, and the base does not.
        """
        if not records:
            return
        data = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records).encode()
        path = self.folder / _file_of(max(int(one["at"]) for one in records))
        try:
            end = _append(path, data)
        except OSError as error:
            raise JobcastError(f"{path}: cannot be written ({error.strerror}), so nothing is changed.") from error
        with self._named_troubles():
            if self._is_behind:  # the base could not be written before
                self._follow()
            else:
                self._project(records)
                self._remember(path.name, end)
            self._is_behind = False
            newest = int(records[-1]["at"])
            if newest - self._looked_over > _DAY:  # so that memory does not grow without limit
                self._limits, self._looked_over = self._stored(), newest

    def catch_up(self) -> None:
        """Bring a base that could not be written before up to the text."""
        if self._is_behind:
            with self._named_troubles():
                self._follow()
                self._is_behind = False

    def not_counted(self, jobs: Iterable[QueuedJob]) -> list[QueuedJob]:
        """Return those of ended jobs that `add_ended` has not counted yet, once each."""
        with self._named_troubles():
            return [
                job
                for job in {(job.key, job.submit or 0): job for job in jobs}.values()
                if self._base.execute(
                    "SELECT 1 FROM ended WHERE job = ? AND submission = ?", (job.key, job.submit or 0)
                ).fetchone()
                is None
            ]

    def has_outcome(self, job: QueuedJob) -> bool:
        """Return whether the outcome of a job is kept."""
        with self._named_troubles():
            found = self._base.execute(
                "SELECT 1 FROM outcomes WHERE job = ? AND submission = ?", (job.key, job.submit or 0)
            ).fetchone()
        return found is not None

    def add_ended(self, jobs: Iterable[QueuedJob]) -> None:
        """Count jobs that ended in their classes, once each."""
        new = []
        with self._named_troubles(), self._base:
            for job in jobs:
                seen = self._base.execute(
                    "INSERT OR IGNORE INTO ended VALUES (?, ?, ?)", (job.key, job.submit or 0, job.end or 0)
                )
                if not seen.rowcount:
                    continue
                new.append(job)
                if job.limit is None or job.start is None or not job.user:
                    continue
                about = (job.user, job.account, job.partition, job.procs, job.limit // MINUTE, job.name[:256])
                self._base.execute(
                    "INSERT INTO classes VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO UPDATE SET "
                    "ended = ended + 1, newest = max(newest, excluded.newest)",
                    (*about, job.end or 0),
                )
            newest = max((job.end or 0 for job in new), default=0)
            self._base.execute("DELETE FROM ended WHERE at < ?", (newest - 7 * 86_400,))

    # --- small steps --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _named_troubles(self) -> Iterator[None]:
        """Report an index that cannot be written; the text stands, and the next start builds the index again."""
        try:
            yield
        except sqlite3.Error as error:
            self._is_behind = True
            raise BaseBehindError(f"{self.folder / 'journal.db'}: cannot be written ({error}).") from error

    def _mend(self) -> None:
        """Drop the piece of a line that a write has left which the system did not finish."""
        for path in self._files():
            with path.open("r+b") as file:
                file.seek(0, os.SEEK_END)
                end = file.tell()
                if end == 0:
                    continue
                file.seek(max(end - 2**20, 0))
                tail = file.read()
                if not tail.endswith(b"\n"):
                    file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("journal-????-??.jsonl"))

    def _follow(self) -> None:
        """Bring the base up to the text, and take from it what is known of each job."""
        known = dict(self._base.execute("SELECT file, bytes FROM read_until"))
        for path in self._files():
            if known.get(path.name, 0) > path.stat().st_size:  # the text is another one
                known = {}
                for name in ("soft_limits", "outcomes", "starts", "read_until"):
                    self._base.execute(f"DELETE FROM {name}")
                break
        self._limits = self._stored()
        trouble: sqlite3.Error | None = None
        for path in self._files():
            with path.open("rb") as file:
                file.seek(known.get(path.name, 0))
                lines = file.read().splitlines()
                end = file.tell()
            records = [_parsed(line, path) for line in lines]
            if trouble is not None:  # what later months tell of each job is known, though the base be locked
                self._rows_of(records)
            elif records:
                try:
                    self._project(records)
                    self._remember(path.name, end)
                except sqlite3.Error as error:
                    trouble = error
        if trouble is not None:
            raise trouble

    def _stored(self) -> dict[int, SoftLimit]:
        """Return the soft limits that may still matter: not those of jobs that ended two months ago.

        An array's stays: that one of its tasks has ended says nothing of the others.
        """
        rows = self._base.execute(
            "SELECT job, submission, what, ours, minutes FROM soft_limits AS one WHERE NOT EXISTS "
            "(SELECT 1 FROM outcomes WHERE target = one.job AND submission = one.submission "
            "AND job = CAST(one.job AS TEXT) AND at < (SELECT max(at) FROM soft_limits) - ?) ORDER BY at, rowid",
            (FORGOTTEN_AFTER,),
        )
        return {row[0]: SoftLimit(row[0], row[1], row[2], frozenset(json.loads(row[3])), row[4]) for row in rows}

    def _project(self, records: Iterable[Record]) -> None:
        records = list(records)
        limits = self._rows_of(records)  # known, though the base be locked
        with self._base:
            self._base.executemany(
                "INSERT OR REPLACE INTO soft_limits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", limits
            )
            for one in records:
                if one["what"] == OUTCOME:
                    columns = ("job", "submission", "at", "target", "shadow", "minutes", "ran", "too_short", "state")
                    self._base.execute(
                        "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        [*(one[name] for name in columns), one.get("procs"), one.get("wait")],
                    )
                elif one["what"] in ABOUT_STARTS:
                    self._project_start(one)

    def _project_start(self, one: Record) -> None:
        """Take a record on a judged start into the base; what it does not tell stays."""
        delay = 0 if one["what"] == WOULD_START else one.get("delay")
        told = {"code": one.get("code"), "probability": one.get("probability"), "expected": one.get("expected"),
                "delay": delay, "ran": one.get("ran"), "state": one.get("state")}  # fmt: skip
        if one["what"] == WOULD_HAVE_STARTED:
            told["code"] = None  # why it would have been held is what counts
        columns = ", ".join(told)
        kept = ", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in told)
        self._base.execute(
            f"INSERT INTO starts (job, submission, start, held, at, {columns}) "
            f"VALUES ({', '.join('?' * (5 + len(told)))}) ON CONFLICT DO UPDATE SET {kept}",
            (one["job"], one["submission"], one["start"], one["held"], one["at"], *told.values()),
        )

    def _rows_of(self, records: Iterable[Record]) -> list[tuple[Any, ...]]:
        return [self._row_of(one) for one in records if one["what"] in ABOUT_JOBS]

    def _row_of(self, one: Record) -> tuple[Any, ...]:
        """Take a record into what is known of its job, and return the base's row on it."""
        job, submission, what = one["job"], one["submission"], one["what"]
        before = self._limits.get(job)
        if before is not None and before.submission != submission and not one.get("requeued"):
            before = None
        ours = before.ours if before else frozenset()
        if what == INTENDED and one["minutes"]:
            ours |= {one["minutes"]}
        elif what == WAS_SET:
            ours = (ours if one.get("array") else frozenset()) | {one["minutes"]}
        elif what == CLEARED and not one.get("array"):  # a task that runs keeps its own, and may be requeued
            ours = frozenset()
        minutes = one["minutes"] if what in (WAS_SET, WOULD_SET) else (before.minutes if before else None)
        if what in (CLEARED, WOULD_CLEAR):
            minutes = None
        self._limits[job] = SoftLimit(job, submission, what, ours, minutes)
        return (
            job, submission, what, one["at"], minutes, json.dumps(sorted(ours)), one.get("limit"),
            one.get("quantile"), one.get("model"), one.get("version"), one.get("why"),
        )  # fmt: skip

    def _remember(self, name: str, end: int) -> None:
        with self._base:
            self._base.execute("INSERT OR REPLACE INTO read_until VALUES (?, ?)", (name, end))


def read_journal(folder: Path) -> Iterator[Record]:
    """Yield the records of a journal, in order; this needs no ownership."""
    for path in sorted(folder.glob("journal-????-??.jsonl")):
        with path.open("rb") as file:
            yield from (_parsed(line, path) for line in file if line.endswith(b"\n"))


def _parsed(line: bytes, path: Path) -> Record:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and _is_record(found):
            return found
    raise JobcastError(f"{path}: has a line that is no record of a journal: {line[:60]!r}; move the file away.")


def _is_record(found: dict[str, Any]) -> bool:
    """Return whether a line has what its kind needs, in numbers that the base can hold."""
    what = found.get("what")
    numbers = ["at"]
    if what in ABOUT_JOBS:
        numbers += ["job", "submission", *(["minutes"] if found.get("minutes", 0) is not None else [])]
    elif what in ABOUT_STARTS:
        numbers += ["submission", "start", "held", *(["delay"] if what == WOULD_HAVE_STARTED else [])]
        numbers += ["ran"] if what == HOLD_OUTCOME else []
        if not isinstance(found.get("job"), str):
            return False
    elif what == OUTCOME:
        numbers += ["submission", "target", "shadow", "minutes", "ran", "too_short"]
        if not (isinstance(found.get("job"), str) and isinstance(found.get("state"), str)):
            return False
    elif what == JUDGED:
        numbers += ["limit", "ran"]
        by_count = found.get("by_count")
        if not (isinstance(by_count, list) and all(type(n) is int for n in by_count)):
            return False
        if not (isinstance(found.get("user", ""), str) and found.get("limit")):
            return False
    if not isinstance(what, str) or not all(isinstance(found.get(name), int) for name in numbers):
        return False
    kept = [*(found[name] for name in numbers), *(found.get(name) for name in _KEPT)]
    return all(
        one is None or isinstance(one, str) or (isinstance(one, int | float) and abs(one) < _LARGEST) for one in kept
    )


def _append(path: Path, data: bytes) -> int:
    """Add bytes to a file, durable, all or none; return where it ends then."""
    is_new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _SECRET)
    try:
        begin = os.fstat(file).st_size
        try:
            if os.write(file, data) != len(data):
                raise OSError(28, "no space left on device")
            os.fsync(file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, begin)
            raise
    finally:
        os.close(file)
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return begin + len(data)


def _file_of(second: int) -> str:
    return f"journal-{datetime.fromtimestamp(second, UTC):%Y-%m}.jsonl"


def _opened(path: Path) -> sqlite3.Connection:
    for again in (False, True):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _SECRET))
        except OSError as error:
            raise sqlite3.OperationalError(error.strerror) from error
        base = sqlite3.connect(path, timeout=1.0)  # clearing does not wait long for it
        try:
            base.execute("PRAGMA journal_mode=WAL")
            base.executescript(_TABLES)
        except sqlite3.OperationalError:  # a full disk, or somebody who holds it: it is sound
            base.close()
            raise
        except sqlite3.DatabaseError as error:
            base.close()
            if again:
                raise JobcastError(f"{path}: cannot be used ({error}); move it away: it is made again.") from error
            for old in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))):
                old.unlink(missing_ok=True)
        else:
            return base
    raise AssertionError
