"""How does a service that was stopped, or killed, come to stand where it stood? A snapshot and the events after it.

The state is a function of the events and of the models, so it can always be made again from the first event. A snapshot
saves that, if every model's learning can be kept as arrays (`predictors.service.learnt`); else all of it is learnt
again. Either way it equals, to the last bit, the state of a service that never stopped.
"""

from collections.abc import Iterable, Iterator
from threading import Event as Flag
from typing import NamedTuple

from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, STARTED, SUBMITTED
from predictors.data.joblog import Ints
from predictors.service.beginning import history_of
from predictors.service.events import Event
from predictors.service.facts import Arrays, Facts, packed, part, unpacked
from predictors.service.learner import Learner
from predictors.service.model import Model
from predictors.service.store import Store

_SLICE = 2000


class Rebuilt(NamedTuple):
    """What it took."""

    events: int
    """Events taken in."""
    snapshot: int
    """The event behind which the newest snapshot stands; 0 if there is none that can be used."""


def snapshot_of(sequence: int, facts: Arrays, models: Iterable[Model]) -> tuple[int, bytes]:
    """Return the event and the bytes of facts and of all models that can be kept, which stand behind it."""
    arrays = dict(facts)
    for model in models:
        for name, array in (model.state() or {}).items():
            arrays[f"model{model.number}_{name}"] = array
    return sequence, packed(arrays)


def rebuild(store: Store, facts: Facts, learner: Learner, stopping: Flag) -> Rebuilt:
    """Bring facts and models to where the store's newest event is.

    Raises
    ------
    StorageError
        If the database cannot be read.
    JobcastError
        If the service is stopped meanwhile.
    """
    begun = _from_snapshot(store, facts, learner)
    if not begun and (first := store.beginning()) is not None:
        facts.begin(history_of(facts.history, unpacked(first)))
    kept = {role: store.newest_prediction(role) for role in learner.models}
    n_events, cuts = 0, sorted({model.since for model in learner.models.values()})
    for table in _slices(store, facts.sequence, cuts):
        if stopping.is_set():
            raise JobcastError("the service stops.")
        last = int(table[-1, -1])
        happened = facts.take_table(table, tell=any(last > model.since for model in learner.models.values()))
        n_events += len(table)
        for role, model in learner.models.items():
            if facts.sequence > model.since:
                told = model.follow(happened, facts.sequence)
                learner.keep([model.record(one, said) for one, said in told if one.sequence > kept[role]])
    learner.sequence = facts.sequence
    return Rebuilt(n_events, begun)


def warm_up(models: Iterable[Model]) -> None:
    """Load what is compiled, before the first client waits for it."""
    scratch = Facts()
    for first, n in ((0, 2), (2, 40)):
        jobs = range(first, first + n)
        scratch.take([Event(job, kind, 0, sequence=1) for job in jobs for kind in (SUBMITTED, STARTED, ENDED)])
    rows, _ = scratch.rows([[1, 60, 1, -1, -1, -1, -1]] * 8, 0)
    for model in models:
        model.published.answer(rows[0])
        model.published.answers(rows)


def _from_snapshot(store: Store, facts: Facts, learner: Learner) -> int:
    """Restore the newest snapshot if it has all that is needed, and nothing if not; return its event, else 0."""
    found = store.snapshot()
    if found is None:
        return 0
    sequence, stored = found
    models = learner.models
    try:
        arrays = unpacked(stored)
        states = {role: part(arrays, f"model{model.number}_") for role, model in models.items()}
        if not all(states[role] or model.since >= sequence for role, model in models.items()):
            return 0
        resumed = {role: model.resumed(states[role], sequence) for role, model in models.items() if states[role]}
        facts.restore(sequence, arrays)
    except (JobcastError, KeyError, ValueError):  # of another version, or damaged: the events tell everything anyway
        return 0
    learner.models = models | resumed
    return sequence


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
