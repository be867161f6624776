"""Corrections by an operator, on the database of a stopped service: withdraw events, erase a user, let old events go.

The state stays a function of the log: what is withdrawn or renamed is so from the first event on, and the next start
learns from the log as it then is, to the state of a service that never had it otherwise. Events that are let go leave a
base behind, the state as it was with them. Predictions that were given stay as they were given. Each correction is
written down (`corrections`), in the transaction that makes it.
"""

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, delete, func, insert, or_, select, update

from predictors.core.errors import JobcastError
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN
from predictors.core.model_files import part
from predictors.history import _layout as at
from predictors.service.event import APPLIED, EFFECTS, UNKNOWN, WITHDRAWN, Event
from predictors.service.pseudonyms import FIRST_NAME, Pseudonymiser, is_number
from predictors.service.state.recovery import drop_snapshots, judge_again
from predictors.service.storage.database import CORRECTIONS, EVENTS, PREDICTIONS, SNAPSHOTS, shown
from predictors.service.storage.snapshots import Arrays, packed, unpacked
from predictors.service.storage.store import Store, parts

_ENDS: Final = (ENDED, CANCELLED, FORGOTTEN)
_OF_JOBS: Final = re.compile(  # arrays of a snapshot with ids of jobs, in the first column where there are several
    "history_job_ids|ledger_(live|held|over)|model[0-9]+_(monitor_jobs|lessons_(jobs|running|overrun|told))"
)


def withdraw(store: Store, sequences: Sequence[int], why: str) -> list[Event]:
    """Let events never have happened; return them. What was refused because of them may take effect.

    An event behind the base (see `let_go`) can no longer be withdrawn.
    """
    withdrawn, base = EFFECTS.index(WITHDRAWN), store.base()
    known = [sequence for sequence in sequences if sequence <= store.last]  # others no database may be able to look up
    with store.correcting() as connection:
        found = connection.execute(select(EVENTS).where(EVENTS.c.sequence.in_(known))).mappings().all()
        events = [Event(**{name: row[name] for name in Event._fields}) for row in found if row["effect"] != withdrawn]
        missing = sorted(set(sequences) - {one.sequence for one in events})
        if missing:
            raise JobcastError(f"{_name(store)}: has no event {missing[0]}, or it was withdrawn before.")
        if min(sequences) <= base:
            raise JobcastError(
                f"{_name(store)}: event {min(sequences)} stands behind the base, event {base}, from which older events "
                "were let go; it cannot be withdrawn any more."
            )
        connection.execute(update(EVENTS).where(EVENTS.c.sequence.in_(sequences)).values(effect=withdrawn))
        judge_again(store, connection)
        drop_snapshots(connection)
        _write_down(connection, "withdrawn: events " + ", ".join(map(str, sorted(sequences)[:20])), why, len(events))
    return events


def erase_user(
    store: Store,  # of a stopped service
    key: Pseudonymiser,
    user: str | int,  # as clients sent it; digits may have come as a number or as a name, and both are erased
    why: str,
) -> tuple[int, int]:
    """Replace a user, the programs, and the ids of the ended jobs by unused codes; return events and live jobs.

    All that is known stays true of someone, so that no other user's predictions change; but a model that finds the
    weights of users by a hash (`online-linear`) may find the new codes where others' weights are. No event leads back
    to the user, whatever the key. In what was kept of a history, or of events that were let go, programs that others
    run, too, keep their codes. Jobs that still wait or run keep their ids: erase again when they are over. It raises
    JobcastError if the key is another than the service's, or there is no event of the user; or if the user is a number,
    and something was kept in which a number cannot be distinguished from others.
    """
    if store.about().get("key", key.fingerprint) != key.fingerprint:
        raise JobcastError(f"{_name(store)}: was begun with another name key; give the --name-key of the service.")
    codes = sorted({key.code(user)} | ({int(user)} if isinstance(user, str) and is_number(user) else set()))
    with store.correcting() as connection:
        of_user = EVENTS.c.user.in_(codes)
        jobs, users = (_values(connection, column, of_user) for column in (EVENTS.c.job, EVENTS.c.user))
        query = select(SNAPSHOTS.c.sequence, SNAPSHOTS.c.arrays).where(_kept())
        kept = {int(row[0]): unpacked(bytes(row[1])) for row in connection.execute(query)}
        in_kept = [code for code in codes if any(_knows(arrays, code) for arrays in kept.values())]
        if kept and min(users or in_kept or codes) < FIRST_NAME:
            raise JobcastError(
                f"{_name(store)}: began with a history, or let events go, and users are numbers there: a number "
                "cannot be distinguished from other numbers in what was kept."
            )
        if not jobs and not in_kept:
            raise JobcastError(f"{_name(store)}: has no event of that user; with names, the --name-key must be given.")
        over = [job for some in parts(jobs) for job in _over_among(connection, some)]
        own, others = (set(_values(connection, EVENTS.c.executable, which)) for which in (of_user, ~of_user))
        for arrays in kept.values():
            for programs, more in zip((own, others), _programs(arrays, codes), strict=True):
                programs |= more
        own.discard(UNKNOWN)
        fresh = {code: _fresh() for code in (*codes, *sorted(own))}
        for program in own:
            which = (of_user, EVENTS.c.executable == program)
            connection.execute(update(EVENTS).where(*which).values(executable=fresh[program]))
        n_events = 0
        for code in codes:
            this = EVENTS.c.user == code
            n_events += connection.execute(update(EVENTS).where(this).values(user=fresh[code])).rowcount
        # in the same order as before: jobs that end at one second are learnt from in the order of their ids
        ids = dict(zip(sorted(over), sorted(_fresh() for _ in over), strict=True))
        for job, new in ids.items():
            for table in (EVENTS, PREDICTIONS):
                connection.execute(update(table).where(table.c.job == job).values(job=new))
        nobody = {code: new for code, new in fresh.items() if code >= FIRST_NAME and code not in others}
        for sequence, arrays in kept.items():
            renamed = packed(_renamed(_replaced(arrays, nobody), ids))
            connection.execute(update(SNAPSHOTS).where(SNAPSHOTS.c.sequence == sequence).values(arrays=renamed))
        drop_snapshots(connection)
        _write_down(connection, "erased: a user", why, n_events)
    store.vacuum()
    return n_events, len(jobs) - len(over)


def let_go(store: Store, before: int, why: str) -> int:
    """Delete the events and predictions of jobs that were over before a second; return how many events.

    The newest snapshot becomes the base, from which a restart goes on: the state does not change. It raises
    JobcastError if the newest snapshot does not stand behind the newest event, is damaged, or lacks a model's learning.
    """
    with closing(store.snapshots()) as kept:
        base, stored = next(kept, (0, None))
        arrays = {} if stored is None or base != store.last else unpacked(stored, "model")
    if not base or base != store.last:
        raise JobcastError(
            f"{_name(store)}: the newest snapshot does not stand behind the newest event, {store.last}; start the "
            "service and stop it, then try again."
        )
    models = {row["role"]: row for row in store.models()}
    for row in models.values():
        if row["learns_since"] < base and not part(arrays, f"model{row['id']}_"):
            raise JobcastError(
                f"{_name(store)}: {row['predictor']} can only learn again from all events, so none can be let go; "
                "serve another model."
            )
    with store.correcting() as connection:
        last = func.max(EVENTS.c.time)
        ended = func.max(EVENTS.c.kind).in_(_ENDS)
        applied = EVENTS.c.effect == EFFECTS.index(APPLIED)
        old = select(EVENTS.c.job).where(applied).group_by(EVENTS.c.job).having(last < before, ended)
        jobs = [int(row[0]) for row in connection.execute(old)]
        n_events = 0
        for some in parts(jobs):
            gone = (EVENTS.c.job.in_(some), EVENTS.c.sequence <= base)
            n_events += connection.execute(delete(EVENTS).where(*gone)).rowcount
            connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.job.in_(some)))
        connection.execute(update(SNAPSHOTS).where(SNAPSHOTS.c.sequence > 0).values(base=SNAPSHOTS.c.sequence == base))
        drop_snapshots(connection)
        _write_down(connection, f"let go: jobs over before {before}", why, n_events)
    store.vacuum()
    return n_events


def _values(connection: Connection, column: Any, which: Any) -> list[int]:
    return [int(row[0]) for row in connection.execute(select(column).where(which).distinct())]


def _programs(arrays: Arrays, codes: Sequence[int]) -> tuple[set[int], set[int]]:
    """Return the codes of named programs in what was kept, of some users and of all others."""
    users = arrays["history_users" if "history_users" in arrays else "users"]
    jobs = arrays.get("history_jobs", np.empty((0, at.JOB_COLUMNS), dtype=np.int64))
    in_groups, of_users = (
        users[users[:, at.KIND] == at.KEYS.index(key)] for key in ((at.USER, at.EXECUTABLE), (at.USER,))
    )
    pairs = np.concatenate([
        in_groups[:, [at.CODE, at.CODE_2]],
        of_users[:, [at.CODE, at.LAST_EXECUTABLE]],
        jobs[:, [at.USER, at.EXECUTABLE]],
    ])  # fmt: skip
    pairs = pairs[pairs[:, 1] >= FIRST_NAME]
    theirs = np.isin(pairs[:, 0], codes)
    return set(pairs[theirs, 1].tolist()), set(pairs[~theirs, 1].tolist())


def _over_among(connection: Connection, jobs: Sequence[int]) -> list[int]:
    ends = (EVENTS.c.job.in_(jobs), EVENTS.c.kind.in_(_ENDS), EVENTS.c.effect == EFFECTS.index(APPLIED))
    return [int(row[0]) for row in connection.execute(select(EVENTS.c.job).where(*ends).distinct())]


def _kept() -> Any:
    return or_(SNAPSHOTS.c.sequence == 0, SNAPSHOTS.c.base.is_(True))


def _write_down(connection: Connection, what: str, why: str, n_events: int) -> None:
    number = (connection.execute(select(func.max(CORRECTIONS.c.id))).scalar() or 0) + 1
    row = {"id": number, "at": time.time(), "what": what[:200], "why": why[:200], "n_events": n_events}
    connection.execute(insert(CORRECTIONS), row)


def _knows(arrays: Arrays, code: int) -> bool:
    return code >= FIRST_NAME and any(bool((array == code).any()) for array in arrays.values() if _is_number(array))


def _is_number(array: Any) -> bool:
    return array.dtype in (np.int64, np.float64)


def _replaced(arrays: Mapping[str, Any], fresh: Mapping[int, int]) -> Arrays:
    """Return arrays with other codes in the place of those of names, which are no numbers of anything else."""
    names = np.array(sorted(fresh), dtype=np.int64)
    news = np.array([fresh[code] for code in names.tolist()], dtype=np.int64)

    def changed(array: Any) -> Any:
        if not _is_number(array):
            return array
        place = np.searchsorted(names.astype(array.dtype), array).clip(max=len(names) - 1)
        return np.where(names[place] == array, news[place].astype(array.dtype), array)

    return {name: changed(array) if len(names) else array for name, array in arrays.items()}


def _renamed(arrays: Arrays, fresh: Mapping[int, int]) -> Arrays:
    """Return the arrays of a base with other ids of jobs: one that was live in it must meet its own end behind it."""
    renamed = dict(arrays)
    for name in filter(_OF_JOBS.fullmatch, arrays):
        rows = arrays[name].copy()
        jobs = rows if rows.ndim == 1 else rows[:, 0]
        jobs[:] = [fresh.get(job, job) for job in jobs.tolist()]
        renamed[name] = rows
    return renamed


def _fresh() -> int:
    return FIRST_NAME | secrets.randbits(52)


def _name(store: Store) -> str:
    return shown(str(store.engine.url))
