"""Recovery: snapshots, rebuilding the state from events, and the warm start from a model's own history.

The state is a function of the events and of the models, so it can always be made again from the first event. A snapshot
saves that, if every model's learning can be kept as arrays (`Predictor.get_state`); else all of it is
learnt again. Either way it equals, to the last bit, the state of a service that never stopped.

The history is brought to the service's clock and codes: of a name its keyed hash stands there. Jobs that were queued or
running when it ended are not in it, since their ends are not known. It is stored before the first event, and
stays as it is, whatever model comes later: the state is a function of it and of the events.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from threading import Event as Flag
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, select

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.core.model_files import part
from predictors.data.names import Codes
from predictors.history import _layout as at
from predictors.history._tables import keys_of_users, new_clock
from predictors.history.history import JobHistory
from predictors.models.base import Predictor
from predictors.models.stream import has_full_history
from predictors.service.event import APPLIED, EFFECTS, REFUSED, WITHDRAWN, Event
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.jobs import EVERY_FEATURE, ROWS, JobState
from predictors.service.state.learner import Learner
from predictors.service.state.model import Identity, Model
from predictors.service.state.ordering import EventOrder
from predictors.service.storage.database import EVENTS, SNAPSHOTS, StorageError, shown
from predictors.service.storage.snapshots import Arrays, Streamed, packed, unpacked, write
from predictors.service.storage.store import Store, write_effects

log = logging.getLogger("jobcast.service")
_COLUMNS: Final = {
    at.USER: "user", at.GROUP: "group", at.EXECUTABLE: "executable", at.QUEUE: "queue", at.PARTITION: "partition",
}  # fmt: skip
_PLACES: Final = (at.CODE, at.CODE_2, at.CODE_3)


def warm_start(store: Store, model: Model, settings: Settings, key: Pseudonymiser) -> dict[str, Any] | None:
    """Store a model's history if a warm start is asked for and none is stored; return the stored one's model."""
    stored = store.first_history()
    if stored is None and settings.warm:
        if store.last:
            raise JobcastError(
                f"{shown(str(store.engine.url))}: has {store.last} events already and began with no history, which has "
                "to come before the first event; serve it without --warm, or give an empty --db."
            )
        stored = packed(model_history(model.identity, model.predictor, key))
        store.keep_snapshot(0, stored)
    found: dict[str, Any] | None = None if stored is None else json.loads(str(unpacked(stored)["about"]))
    return found


def model_history(identity: Identity, predictor: Predictor, key: Pseudonymiser) -> Arrays:
    """Return a model's history as arrays without objects, times as Unix time; refuse one without a date."""
    history, now, epoch = usable_history(identity, predictor)
    clock = new_clock(EVERY_FEATURE, history.as_of, 0, None)
    keys = np.empty((0, 4), dtype=np.int64)
    users, recent, events = history.ended_records(keys, now + 1, -epoch, clock)
    users, recent = _in_hashes(users, recent, predictor.codes_, key)
    newest = now + epoch
    about = {"uri": identity.uri, "name": identity.name, "version": identity.version, "sha256": identity.sha256}
    return {
        "users": users,
        "recent": recent,
        "newest": np.array([newest, events], dtype=np.int64),
        "about": np.array(json.dumps(about | {"until": newest})),
    }


def usable_history(identity: Identity, predictor: Predictor) -> tuple[JobHistory, int, int]:
    """Return the history that a model was saved with, its newest second and its epoch, if a service can use it."""
    history: JobHistory | None = getattr(predictor, "history_", None)
    if history is None or history.now is None:
        raise JobcastError(f"{identity.uri}: carries no history to begin with; serve it without --warm.")
    if not has_full_history(history):
        raise JobcastError(
            f"{identity.uri}: keeps the history of its own features only; train it again with `jobcast train`, or "
            "serve it without --warm."
        )
    if history.epoch is None:
        raise JobcastError(f"{identity.uri}: its log has no date, so its history cannot be continued.")
    return history, history.now, history.epoch


def history_of(empty: JobHistory, arrays: Arrays) -> JobHistory:
    """Return a history that goes on from a model's; `empty` is one without events, with the service's settings."""
    newest, events = arrays["newest"].tolist()
    snapshot = {**empty.snapshot(), "users": arrays["users"], "recent": arrays["recent"]}
    snapshot["clock"][at.NOW], snapshot["clock"][at.EVENTS] = newest, events
    return JobHistory.restore(snapshot)


def _in_hashes(users: Ints, recent: Floats, codes: dict[str, Codes], key: Pseudonymiser) -> tuple[Ints, Floats]:
    """Return records of groups with the service's codes; those of a name that was forgotten are left out."""
    tables = {
        column: _table(codes[name], key) for column, name in _COLUMNS.items() if name in codes and codes[name].names
    }
    kept, users = np.ones(len(users), dtype=np.bool_), users.copy()
    for kind, columns in enumerate(at.KEYS):
        rows = np.flatnonzero(users[:, at.KIND] == kind)
        for place, column in zip(_PLACES, columns, strict=False):
            if column in tables:
                users[rows, place] = _looked_up(tables[column], users[rows, place])
                kept[rows[users[rows, place] == at.NONE]] = False
    if at.EXECUTABLE in tables:
        users[:, at.LAST_EXECUTABLE] = _looked_up(tables[at.EXECUTABLE], users[:, at.LAST_EXECUTABLE])
    _, first = np.unique(keys_of_users(users), axis=0, return_index=True)
    kept &= np.isin(np.arange(len(users)), first)  # two names of one hash: one of them is forgotten
    users = users[kept]
    has_runs = users[:, at.RECENT] != at.NONE
    recent = recent[users[has_runs, at.RECENT]]
    for column, begin in ((at.QUEUE, at.R_QUEUE), (at.PARTITION, at.R_PARTITION)):
        if column in tables:
            block = slice(begin, begin + at.MEMORY)
            own = recent[:, block]  # 0: none, 1: unknown, else the code + 2
            own = np.where(own < 2, own, np.maximum(_looked_up(tables[column], own.astype(np.int64) - 2) + 2, 1))
            recent[:, block] = own
    users[has_runs, at.RECENT] = np.arange(len(recent))
    return users, recent


def _table(codes: Codes, key: Pseudonymiser) -> Ints:
    """Return the service's code of each code that has a name, and of those below.

    One without a name is a number, unless names were forgotten: then it has no user.
    """
    table = np.full(codes.free, at.NONE) if codes.forgot else np.arange(max(codes.names.values()) + 1)
    table[list(codes.names.values())] = [key.code(name) for name in codes.names]
    return table


def _looked_up(table: Ints, codes: Ints) -> Ints:
    inside = (codes >= 0) & (codes < len(table))
    return np.where(inside, table[np.where(inside, codes, 0)], codes)


_SLICE = 2000
_RULES: Final = "2"  # of the order of events; a database says by which its events were judged


class Rebuilt(NamedTuple):
    """The result of rebuilding."""

    events: int  # events taken in
    snapshot: int  # the event behind which the newest snapshot stands; 0 if there is none that can be used


def snapshot_of(
    sequence: int, job_state: Streamed, models: Iterable[Model], store: Store
) -> tuple[int, BinaryIO | None]:
    """Return an event, and a file with the job state and all models that can be stored as they stand behind it.

    The arrays are taken out of `job_state` as they are written. Where the file cannot be written that is logged, and
    there is none: the events tell everything anyway.
    """
    for model in models:
        for name, array in (model.state() or {}).items():
            job_state[f"model{model.number}_{name}"] = array
    try:
        with ExitStack() as open_files:
            file = open_files.enter_context(store.scratch())
            write(job_state, file)
            open_files.pop_all()
    except OSError as error:
        log.warning("the snapshot behind event %d cannot be written: %s", sequence, error.strerror or error)
        return sequence, None
    return sequence, file


def rebuild(store: Store, job_state: JobState, learner: Learner, stopping: Flag) -> Rebuilt:
    """Bring the job state and the models to the store's newest event."""
    begun = _from_snapshot(store, job_state, learner)
    if begun < (base := store.base()):
        raise JobcastError(
            f"{shown(str(store.engine.url))}: older events were let go, and the state cannot go on from the base "
            f"behind event {base}: it is damaged, or of other settings or another model; serve what it was kept with."
        )
    if not begun and (first := store.first_history()) is not None:
        job_state.begin(history_of(job_state.history, unpacked(first)))
    kept = {role: store.newest_prediction(role) for role in learner.models}
    n_events, cuts = 0, sorted({model.since for model in learner.models.values()})
    for table in _slices(store, job_state.sequence, cuts):
        if stopping.is_set():
            raise JobcastError("the service stops.")
        last = int(table[-1, -1])
        happened = job_state.take_table(table, wanted=any(last > model.since for model in learner.models.values()))
        n_events += len(table)
        for role, model in learner.models.items():
            if job_state.sequence > model.since:
                answers = model.follow(happened, job_state.sequence)
                learner.keep([model.record(one, answer) for one, answer in answers if one.sequence > kept[role]])
    learner.sequence = job_state.sequence
    return Rebuilt(n_events, begun)


def warm_up(models: Iterable[Model]) -> None:
    """Load what is compiled, before the first client waits for it."""
    scratch = JobState()
    for first, n in ((0, 2), (2, 40)):
        jobs = range(first, first + n)
        scratch.take([Event(job, kind, 0, sequence=1) for job in jobs for kind in (SUBMITTED, STARTED, ENDED)])
    rows, _ = scratch.rows([[1, 60, 1, -1, -1, -1, -1]] * 8, 0)
    for model in models:
        model.published.answer(rows[0])
        model.published.answers(rows)


def _from_snapshot(store: Store, job_state: JobState, learner: Learner) -> int:
    """Restore the newest snapshot that has all that is needed, and nothing if none has; return its event, else 0.

    It raises StorageError if the database does not answer: what could not be read is not damaged.
    """
    models = learner.models
    for sequence, stored in store.snapshots():
        try:
            arrays = unpacked(stored, as_rows=(ROWS,))
            states = {role: part(arrays, f"model{model.number}_") for role, model in models.items()}
            if not all(states[role] or model.since >= sequence for role, model in models.items()):
                continue
            resumed = {role: model.resumed(states[role], sequence) for role, model in models.items() if states[role]}
            job_state.restore(sequence, arrays, is_base=sequence == store.base())
        except StorageError:
            raise
        except Exception as error:  # of another version it fails in many ways; the events tell everything
            why = str(error) if isinstance(error, JobcastError) else f"{type(error).__name__}: {error}"
            log.warning("the snapshot behind event %d is passed over: %s", sequence, why)
            continue
        learner.models = models | resumed
        return sequence
    return 0


def judge_older(store: Store) -> None:
    """Judge the events of a database that an older version wrote: once, by the order of events as it is now."""
    if store.about().get("judged") == _RULES:
        return
    with store.correcting() as connection:
        n = judge_again(store, connection)
        drop_snapshots(connection)  # of jobs that wait they do not know the submission
        if n:
            log.warning("%d events are judged otherwise than by the version before; the state is built again", n)
    store.note("judged", _RULES)


def judge_again(store: Store, connection: Connection) -> int:
    """Note what becomes of all events behind the base by the order of events; return how many effects have changed."""
    base = store.base()
    order = first_order(store)
    effects: dict[int, str] = {}
    for table in store.events_after(base, connection):
        effects.update(order.judge(table))
    there = (EVENTS.c.sequence > base, EVENTS.c.effect.not_in([EFFECTS.index(APPLIED), EFFECTS.index(WITHDRAWN)]))
    before = dict(connection.execute(select(EVENTS.c.sequence, EVENTS.c.effect).where(*there)).all())
    changed = {
        sequence: effects.get(sequence, APPLIED)
        for sequence in {*effects, *before}
        if before.get(sequence, 0) != EFFECTS.index(effects.get(sequence, APPLIED))
    }
    write_effects(connection, dict.fromkeys(changed, REFUSED))  # none takes a place that another gives up
    write_effects(connection, changed)
    return len(changed)


def drop_snapshots(connection: Connection) -> None:
    connection.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.sequence > 0, SNAPSHOTS.c.base.is_(False)))


def first_order(store: Store) -> EventOrder:
    """Return the order of events as it stands before the first event that is there."""
    for sequence, stored in store.snapshots():
        if sequence == store.base():
            return EventOrder.restore(part(unpacked(stored, "ledger_"), "ledger_"))
    first = store.first_history()
    return EventOrder() if first is None else EventOrder(begin=int(unpacked(first)["newest"][0]))


def check_settings(store: Store, settings: Settings, key: Pseudonymiser) -> None:
    """Refuse a key, clock or time zone other than at the first start: names or times would mean another thing."""
    warm = store.first_history() is not None
    there, empty = ({"clock": "unix"} if warm else {}) | store.about(), not store.last and not warm
    for name, option, value in (
        ("key", "--name-key", key.fingerprint),
        ("clock", "--clock", settings.clock),
        ("time_zone", "--time-zone", settings.time_zone or ""),
    ):
        if empty or name not in there:
            if there.get(name) != value:
                store.note(name, value)
        elif there[name] != value:
            told = "another" if name == "key" else f"{there[name] or 'none'}, not {value or 'none'}"
            raise JobcastError(
                f"{shown(str(store.engine.url))}: was begun with {told} {option.strip('-').replace('-', ' ')}; give "
                f"the {option} that it was begun with, or an empty --db."
            )


def _slices(store: Store, sequence: int, cuts: list[int]) -> Iterator[Ints]:
    """Yield the events after one, in slices of which none reaches across an event of `cuts`."""
    for table in store.events_after(sequence):
        begin = 0
        while begin < len(table):
            end = min(begin + _SLICE, len(table))
            for cut in cuts:
                if table[begin, -1] <= cut < table[end - 1, -1]:
                    end = begin + int((table[begin:end, -1] <= cut).sum())
            yield table[begin:end]
            begin = end
