"""Records of a scheduler as a job log: the rules that all formats share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError, counted
from predictors.core.validation import known_zone
from predictors.data.formats.columns import (
    MISSING,
    Names,
    Timestamps,
    at_clock_changes,
    by_name,
    check_one_clock,
    timestamps,
    unix_time,
)
from predictors.data.joblog import COLUMNS, SIGNED, JobLog
from predictors.data.report import Effect, ReadingReport, ReportBuilder

COMPLETED: Final = 1
FAILED: Final = 0
CANCELLED: Final = 5

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(  # the rules of the reports on schedulers' records
    {
        "too-few-fields": ("dropped", "the row has fewer fields than the first line names"),
        "surplus-fields": ("dropped", "the row has more fields than the first line names"),
        "no-job-id": ("dropped", "a job has an id"),
        "no-submission": ("dropped", "a job has a submission time"),
        "repeated-row": ("dropped", "an equal row stands elsewhere in the file"),
        "earlier-attempt": ("dropped", "a run after which the job went back into the queue; its last run is kept"),
        "not-a-record": ("dropped", "the line is no record of this format"),
        "no-clock": ("dropped", "the record has local time, and no record has the offset from UTC"),
        "not-a-number": ("changed", "read as unknown"),
        "not-finite": ("changed", "read as unknown"),
        "negative": ("changed", "read as unknown"),
        "too-large": ("changed", "beyond what the column can hold; read as unknown"),
        "not-a-time": ("changed", "read as unknown"),
        "not-a-memory": ("changed", "read as unknown"),
        "not-a-vector": ("changed", "of another length than most, not finite, or noughts alone; read as unknown"),
        "start-before-submission": ("changed", "the wait is read as unknown"),
        "end-before-start": ("changed", "the run time is read as unknown"),
        "delimiter-in-text": ("changed", "the end of a field is not certain; fields in doubt are read as unknown"),
        "repeated-key": ("changed", "the job's name contains it; the name is cut there"),
        "rejoined": ("noted", "a delimiter or a line break within a field; its parts are joined"),
        "fraction": ("noted", "rounded to a whole number, halves up"),
        "step": ("noted", "a step of a job, not a job"),
        "component": (
            "noted",
            "a component of a heterogeneous job: they start together; here each is a job of its own",
        ),
        "array-itself": ("noted", "stands for a whole job array; its members are the jobs"),
        "no-limit": ("noted", "no time limit of its own; the requested time is read as unknown"),
        "truncated-name": ("noted", "ends in +: cut by the program that wrote it; two users may have one name"),
        "run-time-differs": ("noted", "end - start is not the record's run time; the run time counts"),
        "clock-change": ("noted", "end - start differs from the run time by an hour: the clock was changed"),
        "never-started": ("noted", "cancelled while it waited; run time 0, and it waited until then"),
        "unfinished": ("noted", "not ended when the log was written; the run time is unknown"),
        "local-time": ("noted", ""),
        "control-character": ("changed", "a name holds a NUL; it is written as \ufffd"),
        "hour-comes-twice": (
            "noted",
            "a local time in an hour that comes twice; taken as the first, perhaps an hour off",
        ),
        "hour-skipped": ("noted", "a local time in the hour that the clock skipped; taken by the offset before it"),
        "ids": ("noted", ""),
        "columns": ("noted", ""),
        "unused": ("noted", ""),
        "text": ("noted", ""),
    }
)


@dataclass
class Draft:
    """Records that become a job log."""

    source: str  # the file
    ids: list[str]  # the scheduler's id of each job; "" where it has none
    places: Callable[[Ints], npt.ArrayLike]  # from rows to line numbers of the file
    ledger: ReportBuilder  # the report
    # columns of the job log that are plain numbers; in addition `submit`, `start`, `end` [s], and `run_time` where the
    # record gives it. `MISSING` where unknown.
    numbers: dict[str, Ints] = field(default_factory=dict)
    names: dict[str, Names] = field(default_factory=dict)  # columns that are names
    put_back: Bools | None = None  # records of runs after which the job went back into the queue
    # whether `put_back` marks every run before a requeue, so that any other run that ended was the last of its job
    tells_requeues: bool = False
    waiting: Bools | None = None  # records of jobs that had ended without having started

    def number(self, column: str) -> Ints:
        """Return a column, all `MISSING` if the records have no such column."""
        values = self.numbers.get(column)
        return np.full(len(self.ids), MISSING, dtype=np.int64) if values is None else values

    def report(self, rule: str, rows: npt.ArrayLike, column: str = "", example: object = "") -> None:
        """Report that some rows, given by mask or number, meet a rule."""
        where = np.asarray(rows)
        where = np.flatnonzero(where) if where.dtype == np.bool_ else where
        if len(where):
            self.ledger.add(rule, self.places(where), column, str(example)[:60])


def finish(
    draft: Draft, name: str, strict: bool, epoch_known: bool = True, **about: object
) -> tuple[JobLog, ReadingReport]:
    """Return the job log of the records, and the account.

    Of several records with one id and one submission, and of records of a job that was put back into the queue, the
    last run is the job; but runs that overlap in time are different jobs. Other records with one id are different jobs,
    too: then all jobs get new numbers.
    """
    kept = _keep(draft)
    columns = _columns(draft, kept)
    _without_nuls(draft, kept)
    account = draft.ledger.close()
    if strict:
        account.require_clean()
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise JobcastError(
            f"{draft.source}: none of its {counted(len(kept), 'record')} is a job. {account}".split("\n")[0]
        )
    job_id, label = _job_ids(draft, rows, columns["submit"])
    categories = {}
    if label is not None:
        columns["label"], categories["label"] = np.arange(len(rows)), label
    for column, (codes, names) in draft.names.items():
        columns[column], categories[column] = _used(codes[rows], names)
    masks = {column: values == MISSING for column, values in columns.items()}
    columns = {c: v for c, v in columns.items() if c in COLUMNS or not masks[c].all()}
    log = JobLog.from_columns(
        {"job_id": job_id, **columns}, {column: masks[column] for column in columns},
        categories={column: names for column, names in categories.items() if column in columns}, name=name, **about,
    )  # fmt: skip
    return (replace(log, epoch=log.origin) if epoch_known else log), draft.ledger.close()


def _without_nuls(draft: Draft, kept: Bools) -> None:
    for column, (codes, names) in draft.names.items():
        if not any("\0" in name for name in names):
            continue
        held = by_name((codes, names), lambda name: "\0" in name, unknown=False) & kept
        draft.report("control-character", held, column, names[codes[held][0]] if held.any() else "")
        draft.names[column] = codes, tuple(name.replace("\0", "\ufffd") for name in names)


def _keep(draft: Draft) -> Bools:
    kept = np.ones(len(draft.ids), dtype=np.bool_)

    def drop(rule: str, bad: Bools, column: str = "") -> None:
        draft.report(rule, bad & kept, column)
        kept[bad] = False

    if "" in draft.ids:
        drop("no-job-id", np.array([not text for text in draft.ids], dtype=np.bool_))
    drop("no-submission", draft.number("submit") == MISSING, "submit")
    rows = np.flatnonzero(kept)
    for rule, again in _attempts(draft, rows).items():
        drop(rule, again)
    return kept


def _attempts(draft: Draft, rows: Ints) -> dict[str, Bools]:
    """Return which records are not the last of their job, by rule.

    Records of one id and one submission are runs of one job, except where two of them overlap in time, or one follows
    a run that was the last of its job: then they are tasks of an array, written without their numbers. The last is one
    that completed; where the format tells each requeue, any that ended without one. Equal records are one job written
    again, except among such tasks; but tasks that all stand there equally often are a file that holds them again.
    """
    repeated, earlier = np.zeros(len(draft.ids), np.bool_), np.zeros(len(draft.ids), np.bool_)
    ids = draft.ids if len(rows) == len(draft.ids) else [draft.ids[row] for row in rows.tolist()]
    if len(set(ids)) == len(rows):
        return {}
    numbered = {text: number for number, text in enumerate(dict.fromkeys(ids))}
    job = np.array([numbered[text] for text in ids], dtype=np.int64)
    several = np.bincount(job)[job] > 1
    rows, job = rows[several], job[several]
    submit, start, end, status = (draft.number(column)[rows] for column in ("submit", "start", "end", "status"))
    end = np.where(end != MISSING, end, _end_by_run_time(start, draft.number("run_time")[rows]))
    put_back = np.zeros(len(rows), np.bool_) if draft.put_back is None else draft.put_back[rows]
    final = (end != MISSING) & ~put_back
    if not draft.tells_requeues:
        final &= (status == COMPLETED) & (draft.put_back is None)
    # Oldest first; of one submission, what did not end comes last: it still runs.
    content = _content(draft, rows)
    order = np.lexsort((rows, content, np.where(end == MISSING, np.iinfo(np.int64).max, end), ~put_back, submit, job))
    rows, job, submit, start, end, content = (values[order] for values in (rows, job, submit, start, end, content))
    put_back, final = put_back[order], final[order]
    same_job = job[:-1] == job[1:]
    same_submit = same_job & (submit[:-1] == submit[1:])
    alike = same_submit & (content[:-1] == content[1:]) & (put_back[:-1] == put_back[1:])
    group = np.concatenate([[0], np.cumsum(~same_submit)])
    before = (start[1:] == MISSING) | (end[:-1] <= start[1:])
    followed = same_submit & ~alike & final[:-1] & (end[1:] != MISSING)
    tasks = _overlapping(group, start, end, np.append(alike, False)) | np.isin(group, group[:-1][followed])
    begins = np.flatnonzero(np.diff(job, prepend=-1))
    ran_later = end <= np.repeat(np.maximum.reduceat(start, begins), np.diff(begins, append=len(job)))
    again = np.where(tasks[:-1], put_back[:-1] & (before | ran_later[:-1]), same_submit | (put_back[:-1] & before))
    alike &= ~tasks[:-1] | _equally_often(group, alike)[:-1]
    repeated[rows[:-1][alike]] = True
    earlier[rows[:-1][same_job & ~alike & again]] = True
    return {"repeated-row": repeated, "earlier-attempt": earlier}


def _end_by_run_time(start: Ints, run_time: Ints) -> Ints:
    known = (start != MISSING) & (run_time != MISSING)
    return np.where(known, start + np.where(known, run_time, 0), MISSING)


def _content(draft: Draft, rows: Ints) -> Ints:
    """Return a number for each record; records that are equal in every column have the same."""
    columns = [*draft.numbers.values(), *(codes for codes, _ in draft.names.values())]
    table = np.stack([values[rows] for values in columns], axis=1)
    _, first, places = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first[places.reshape(-1)]


def _overlapping(group: Ints, start: Ints, end: Ints, again: Bools) -> Bools:
    """Return which records belong to a group in which two runs overlap; `again` marks records that are repeated.

    A run that had not ended shows an overlap only where it began within another one: it may have ended since.
    """
    ran = np.flatnonzero((start != MISSING) & ((end > start) | (end == MISSING)) & ~again)
    order = ran[np.lexsort((np.where(end[ran] == MISSING, -1, end[ran]), start[ran], group[ran]))]
    here, following = order[:-1], order[1:]
    meet = (group[here] == group[following]) & (start[following] < end[here])
    return np.isin(group, group[here[meet]])


def _equally_often(group: Ints, alike: Bools) -> Bools:
    """Return which records belong to a group in which all distinct records stand equally often."""
    distinct = np.concatenate([[0], np.cumsum(~alike)])
    times = np.bincount(distinct)[distinct]
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    equal: Bools = np.minimum.reduceat(times, begins) == np.maximum.reduceat(times, begins)
    return equal[group]


def _columns(draft: Draft, kept: Bools) -> dict[str, Ints]:
    columns = {c: v.copy() for c, v in draft.numbers.items() if c not in ("start", "end", "run_time")}
    submit, start, end, recorded = (draft.number(column) for column in ("submit", "start", "end", "run_time"))
    for column, values in columns.items():
        if column not in ("exit_code", "submit", "status", *SIGNED):
            bad = kept & (values < 0) & (values != MISSING)
            draft.report("negative", bad, column, values[bad][:1].tolist())
            values[bad] = MISSING
    wait = _difference(start, submit)
    bad = kept & (wait < 0) & (wait != MISSING)
    draft.report("start-before-submission", bad, "wait", wait[bad][:1].tolist())
    wait[bad] = MISSING
    columns["wait"], columns["run_time"] = wait, _run_time(draft, kept, start, end, recorded)
    if draft.waiting is not None:
        never = draft.waiting & kept & (end != MISSING)
        draft.report("never-started", never)
        columns["run_time"][draft.waiting] = 0
        columns["wait"][draft.waiting] = np.maximum(_difference(end, submit)[draft.waiting], MISSING)
    draft.report("unfinished", kept & (end == MISSING) & (recorded == MISSING))
    return {column: values[kept] for column, values in columns.items()}


def _run_time(draft: Draft, kept: Bools, start: Ints, end: Ints, recorded: Ints) -> Ints:
    between = _difference(end, start)
    negative = kept & (recorded < 0) & (recorded != MISSING)
    draft.report("negative", negative, "run_time", recorded[negative][:1].tolist())
    recorded = np.where(recorded < 0, MISSING, recorded)
    off = np.abs(between - recorded) * (kept & (between != MISSING) & (recorded != MISSING))
    draft.report("clock-change", np.abs(off - 3600) <= 1, "run_time")
    draft.report("run-time-differs", (off > 1) & (np.abs(off - 3600) > 1), "run_time")
    bad = kept & (between < 0) & (between != MISSING) & (recorded == MISSING)
    draft.report("end-before-start", bad, "run_time", between[bad][:1].tolist())
    return np.where(recorded != MISSING, recorded, np.where(between < 0, MISSING, between))


def _difference(later: Ints, earlier: Ints) -> Ints:
    return np.where(
        (later == MISSING) | (earlier == MISSING), MISSING, later - np.where(earlier == MISSING, 0, earlier)
    )


def _job_ids(draft: Draft, rows: Ints, submit: Ints) -> tuple[Ints, tuple[str, ...] | None]:
    """Return the numbers of the jobs; and their ids as text, where these are not the numbers themselves."""
    texts = draft.ids if len(rows) == len(draft.ids) else [draft.ids[row] for row in rows.tolist()]
    joined = "".join(texts)
    plain = joined.isascii() and joined.isdigit() and len(max(texts, key=len)) < 19
    starts = texts if plain else [_leading_digits(text) for text in texts]
    if all(starts):
        numbers = np.array(starts).astype(np.int64)
        if (np.diff(np.sort(numbers)) > 0).all():
            return numbers, None if plain else tuple(texts)
    draft.ledger.note("ids", "ids are no numbers or come again for other jobs; jobs are numbered by submission")
    numbers = np.empty(len(rows), dtype=np.int64)
    numbers[np.lexsort((rows, submit))] = np.arange(1, len(rows) + 1)
    return numbers, tuple(texts)


def _leading_digits(text: str) -> str:
    length = len(text) - len(text.lstrip("0123456789"))
    return text[:length] if 0 < length < 19 else ""


def _used(codes: Ints, names: tuple[str, ...]) -> tuple[Ints, tuple[str, ...]]:
    """Return codes and names without the names that no row has."""
    known = codes != MISSING
    has = np.zeros(len(names), dtype=np.bool_)
    has[codes[known]] = True
    if has.all():
        return codes, names
    used = np.flatnonzero(has)
    places = np.zeros(len(names), dtype=np.int64)
    places[used] = np.arange(len(used))
    return np.where(known, places[np.where(known, codes, 0)] if len(names) else MISSING, MISSING), tuple(
        names[code] for code in used.tolist()
    )


_NOTE: Final = (
    "times have no zone and are taken as UTC, so that hours and days are those of the clock that wrote them; "
    "give its zone to have Unix time"
)


def clocked(
    columns: Mapping[str, Any],  # by the draft's column
    draft: Draft,  # its report gets texts that are no times, and local times that are taken as UTC
    time_zone: str | None,  # IANA name of the zone that local times are in
    # the log's other columns of Unix time [s], which must be on the same clock
    unix: Mapping[str, Ints] = MappingProxyType({}),
) -> dict[str, Ints]:
    """Return columns of text as Unix time [s], `MISSING` where unknown; refuse a mix with and without offsets."""
    if time_zone is not None:
        known_zone(time_zone)
    read = {name: timestamps(column) for name, column in columns.items()}
    for name, found in read.items():
        draft.report("not-a-time", found.bad, name, columns[name][int(found.bad[0])].as_py() if len(found.bad) else "")

    def place(name: str, row: int) -> str:
        line = int(np.asarray(draft.places(np.array([row])))[0])
        text = columns[name][row].as_py() if name in columns else str(unix[name][row])
        return f"{draft.source}:{line}: {name} {text!r}"

    none = np.empty(0, dtype=np.int64)
    others = {name: Timestamps(seconds, np.ones(len(seconds), np.bool_), none) for name, seconds in unix.items()}
    fixed = check_one_clock({**read, **others}, place)
    if fixed or not any((found.seconds != MISSING).any() for found in read.values()):
        return {name: found.seconds for name, found in read.items()}
    if time_zone is None:
        draft.ledger.note("local-time", _NOTE)
        return {name: found.seconds for name, found in read.items()}
    for name, found in read.items():
        changes = at_clock_changes(found.seconds, time_zone)
        for rule, rows in zip(("hour-comes-twice", "hour-skipped"), changes, strict=True):
            draft.report(rule, rows, name, columns[name][int(np.argmax(rows))].as_py() if rows.any() else "")
    return {name: unix_time(found.seconds, time_zone) for name, found in read.items()}
