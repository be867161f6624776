"""Roles of models: champion and challenger.

A model takes its role between two commits of the writer and between two slices of the learner.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.jobs import JobState
from predictors.service.state.learner import Learner
from predictors.service.state.model import CHALLENGER, CHAMPION, Load, Model, made_model
from predictors.service.state.writer import Writer, outcome
from predictors.service.storage.database import StorageError
from predictors.service.storage.store import Store


def first_models(settings: Settings, load: Load, key: Pseudonymiser) -> dict[str, Model]:
    """Return the models that are asked for, by role; a challenger that is the champion is left out."""
    models = {CHAMPION: made_model(load(settings.model), settings, key)}
    if settings.challenger is not None:
        challenger = made_model(load(settings.challenger), settings, key, CHALLENGER)
        if challenger.identity.same_as != models[CHAMPION].identity.same_as:
            models[CHALLENGER] = challenger
    return models


class Roles:
    """The roles of one service."""

    def __init__(
        self,
        settings: Settings,
        load: Load,  # load, version_now: loads a model; returns which version an address means now
        version_now: Callable[[str], int | None],
        key: Pseudonymiser,
        writer: Writer,  # writer, learner, store, job_state: of the service
        learner: Learner,
        store: Store,
        job_state: JobState,
        stopping: threading.Event,  # set when it stops
    ) -> None:
        self.trouble: dict[str, str] = {}  # why a role's newest model is not in use, by role
        self._settings, self._load, self._version_now, self._key = settings, load, version_now, key
        self._writer, self._learner, self._store, self._job_state = writer, learner, store, job_state
        self._stopping: Final = stopping
        self._reloading: Final = threading.Lock()

    def number(self) -> None:
        """Give every model its number in the history of models, and the event from which on it learns."""
        newest = {row["role"]: row for row in self._store.models()}
        last = self._store.newest()
        for role, model in self._learner.models.items():
            row = newest.get(role)
            identity = model.identity
            if row is not None and (row["name"], row["version"], row["predictor"], row["sha256"]) == identity.same_as:
                model.number = int(row["id"])
                model.begin(int(row["learns_since"]))
            else:
                model.number = self._store.record_model(
                    _row(model, role, "the service was started with it", last, last)
                )
                model.begin(last)

    def reload(self) -> list[dict[str, Any]]:
        """Look at the registry; return what changed, by role. What cannot be loaded changes `trouble` alone."""
        changed = []
        asked = {CHAMPION: self._settings.model, CHALLENGER: self._settings.challenger}
        with self._reloading:
            for role, uri in asked.items():
                if uri is None:
                    continue
                try:
                    found = self._reload(role, uri)
                except (JobcastError, StorageError) as error:
                    self.trouble[role] = str(error)
                    continue
                self.trouble.pop(role, None)
                if found is not None:
                    changed.append({"role": role, "name": found.identity.name, "version": found.identity.version})
        return changed

    def _reload(self, role: str, uri: str) -> Model | None:
        version = self._version_now(uri)
        if version is None or self._is(version, role) or (role == CHALLENGER and self._is(version, CHAMPION)):
            return None
        if role == CHAMPION and self._is(version, CHALLENGER):
            return self._assign(self._learner.models[CHALLENGER], role, "the challenger was promoted")
        model = made_model(self._load(uri), self._settings, self._key, role)
        model.forget_log()
        return self._assign(model, role, f"{uri} moved to version {version}")

    def _is(self, version: int, role: str) -> bool:
        in_role = self._learner.models.get(role)
        name = self._learner.champion.identity.name
        return in_role is not None and in_role.identity.name == name and in_role.identity.version == version

    def _assign(self, model: Model, role: str, why: str) -> Model:
        """Write down that a model takes a role, between two commits; then let it, between two slices of the learner."""
        done: Future[Model] = Future()

        def in_writer() -> None:
            since = self._job_state.sequence
            keeps_learning = model.number > 0
            learns_since = model.since if keeps_learning else since
            try:
                number = self._store.record_model(_row(model, role, why, since, learns_since))
            except StorageError as error:
                done.set_exception(error)
                return

            def in_learner() -> None:
                if not keeps_learning:
                    model.begin(since)
                model.number, model.role = number, role
                self._learner.assign(model)
                done.set_result(model)

            self._learner.do(in_learner)

        self._writer.do(in_writer)
        return outcome(done, self._stopping)


def _row(model: Model, role: str, why: str, since: int, learns_since: int) -> dict[str, Any]:
    identity = model.identity
    about = {name: getattr(identity, name) for name in ("uri", "name", "version", "predictor", "sha256")}
    return {"role": role, "why": why, "since": since, "learns_since": learns_since, **about}
