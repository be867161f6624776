"""What does a service know before its first event? Nothing, or the history that its model was saved with.

The history is brought to the service's clock and codes: of a name its keyed hash stands there. Jobs that were queued or
running when it ended are not in it, since nobody told it their ends. It is written down before the first event, and
stays as it is, whatever model comes later: the state is a function of it and of the events.
"""

import json
from typing import Any, Final

import numpy as np

from predictors import _history_layout as at
from predictors._history_records import Floats
from predictors._history_tables import keys_of_users, new_clock
from predictors.base import Predictor
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.data.naming import Codes
from predictors.history import JobHistory
from predictors.remembering import is_whole
from predictors.service.codes import NameKey
from predictors.service.database import shown
from predictors.service.facts import EVERY_FEATURE, Arrays, packed, unpacked
from predictors.service.model import Identity, Model
from predictors.service.settings import Settings
from predictors.service.store import Store

_COLUMNS: Final = {at.USER: "user", at.GROUP: "group", at.EXECUTABLE: "executable", at.QUEUE: "queue"}
_PLACES: Final = (at.CODE, at.CODE_2, at.CODE_3)


def began(store: Store, model: Model, settings: Settings, key: NameKey) -> dict[str, Any] | None:
    """Write down a model's history, if that is asked for and none was before; return whose the service began with.

    Raises
    ------
    JobcastError
        If the model has none that can be used, the database has events already and began with nothing, or it began with
        one and the clock is another now.
    """
    stored = store.beginning()
    if stored is None and settings.warm:
        if store.last:
            raise JobcastError(
                f"{shown(str(store.engine.url))}: has {store.last} events already and began with no history, which has "
                "to come before the first event; serve it without --warm, or give an empty --db."
            )
        stored = packed(beginning(model.identity, model.predictor, key))
        store.keep_snapshot(0, stored)
    if stored is None:
        return None
    if settings.clock != "unix":
        raise JobcastError(
            f"{shown(str(store.engine.url))}: began with a history in Unix time; serve it with --clock unix."
        )
    found: dict[str, Any] = json.loads(str(unpacked(stored)["about"]))
    return found


def beginning(identity: Identity, predictor: Predictor, key: NameKey) -> Arrays:
    """Return what a model's own history says, as arrays without objects, times as Unix time.

    Raises
    ------
    JobcastError
        If it has none, or one that does not tell its date or that not every feature can go on with.
    """
    history: JobHistory | None = getattr(predictor, "history_", None)
    if history is None or history.now is None:
        raise JobcastError(f"{identity.uri}: carries no history to begin with; serve it without --warm.")
    if not is_whole(history):
        raise JobcastError(
            f"{identity.uri}: keeps the history of its own features only; train it again with `jobcast train`, or "
            "serve it without --warm."
        )
    if history.epoch is None:
        raise JobcastError(f"{identity.uri}: its log told no date, so that its history cannot be gone on with.")
    clock = new_clock(EVERY_FEATURE, history.as_of, 0, None)
    keys = np.empty((0, 4), dtype=np.int64)
    users, recent, events = history.ended_records(keys, history.now + 1, -history.epoch, clock)
    users, recent = _in_hashes(users, recent, predictor.codes_, key)
    newest = history.now + history.epoch
    about = {"uri": identity.uri, "name": identity.name, "version": identity.version, "sha256": identity.sha256}
    return {
        "users": users,
        "recent": recent,
        "newest": np.array([newest, events], dtype=np.int64),
        "about": np.array(json.dumps(about | {"until": newest})),
    }


def history_of(empty: JobHistory, arrays: Arrays) -> JobHistory:
    """Return a history that goes on from a beginning; `empty` is one without any event that tells how it is to be.

    Raises
    ------
    JobcastError
        If it was written by a version with another layout.
    """
    newest, events = arrays["newest"].tolist()
    snapshot = {**empty.snapshot(), "users": arrays["users"], "recent": arrays["recent"]}
    snapshot["clock"][at.NOW], snapshot["clock"][at.EVENTS] = newest, events
    return JobHistory.restore(snapshot)


def _in_hashes(users: Ints, recent: Floats, codes: dict[str, Codes], key: NameKey) -> tuple[Ints, Floats]:
    """Return records of groups with the service's codes; those of a name that was forgotten are left out."""
    tables = {column: _table(codes[name], key) for column, name in _COLUMNS.items() if codes[name].names}
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
    users[has_runs, at.RECENT] = np.arange(len(recent))
    return users, recent


def _table(codes: Codes, key: NameKey) -> Ints:
    """Return the service's code of each code that has a name, and of those below.

    One without a name is a number, unless names were forgotten: then it is nobody's.
    """
    table = np.full(codes.free, at.NONE) if codes.forgot else np.arange(max(codes.names.values()) + 1)
    table[list(codes.names.values())] = [key.code(name) for name in codes.names]
    return table


def _looked_up(table: Ints, codes: Ints) -> Ints:
    inside = (codes >= 0) & (codes < len(table))
    return np.where(inside, table[np.where(inside, codes, 0)], codes)
