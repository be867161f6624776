"""The service as a whole: start, predict, take in events, stop."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, BinaryIO, Final

import numpy as np

from predictors.core.errors import JobcastError
from predictors.core.events import FORGOTTEN
from predictors.service.event import Event
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state import recovery
from predictors.service.state.answer import Published
from predictors.service.state.health import Health
from predictors.service.state.jobs import JobState, LiveJob
from predictors.service.state.learner import Learner
from predictors.service.state.model import CHAMPION, Identity, Load, Model, Predicted, load, version_now
from predictors.service.state.roles import Roles, first_models
from predictors.service.state.writer import Busy, Writer, outcome
from predictors.service.storage.database import StorageError, is_new_file, shown
from predictors.service.storage.store import Store

MOST: Final = 50_000  # newest predictions of record that are kept
_FORGET_AT_ONCE: Final = 1000
_SILENCE_EVERY: Final = 60.0
_SNAPSHOT_SECONDS: Final = 3600.0


class Recent:
    """The newest predictions of record, by role and job; any thread may ask."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, records: Sequence[Mapping[str, Any]], models: Iterable[Model]) -> None:
        """Add predictions, each with its model's identity; the oldest are dropped for them."""
        about = {
            model.number: {"name": identity.name, "version": identity.version, "predictor": identity.predictor}
            for model in models
            for identity in (model.identity,)
        }
        with self._lock:
            for row in records:
                self._rows[row["role"], row["job"]] = {**row, **about[row["model"]]}
            while len(self._rows) > MOST:
                self._rows.popitem(last=False)

    def of(self, jobs: Sequence[int], role: str) -> dict[int, dict[str, Any]]:
        """Return the predictions of a role's model, by job, as far as they are kept."""
        with self._lock:
            return {job: self._rows[role, job] for job in jobs if (role, job) in self._rows}

    def seconds(self, role: str) -> dict[int, float]:
        """Return all predictions of a role's model that are kept [s], by job."""
        with self._lock:
            return {job: row["seconds"] for (its, job), row in self._rows.items() if its == role}


log = logging.getLogger("jobcast.service")


class Service:
    """One prediction service. `start` returns at once; `ready` is true when the state has been rebuilt.

    `loader` brings models; `versions` returns which version an address means now.
    """

    def __init__(
        self,
        settings: Settings,
        loader: Load = load,
        versions: Callable[[str], int | None] = version_now,
        key: Pseudonymiser = Pseudonymiser(),  # noqa: B008 - a value
    ) -> None:
        self.settings: Final = settings
        self.key: Final = key
        is_new = is_new_file(settings.db)  # refused before anything is made
        models = first_models(settings, loader, key)
        champion = models[CHAMPION]
        if settings.warm and is_new:
            recovery.usable_history(champion.identity, champion.predictor)
        self.store = Store(settings.db)
        try:
            recovery.check_settings(self.store, settings, key)
            self.began: Final = recovery.warm_start(self.store, champion, settings, key)
        except StorageError as error:
            self.store.close()
            raise JobcastError(f"{shown(settings.db)}: cannot be read or written now ({error}).") from error
        except BaseException:
            self.store.close()
            raise
        for model in models.values():
            model.forget_log()
        self.job_state = JobState.of(settings)
        self.learner = Learner(self._keep, self._crashed)
        self.writer = Writer(self.store, self.job_state, self.learner, settings.most_pending, self._crashed)
        self.learner.models = models
        self.failed: str | None = None  # why the state could not be rebuilt, or may not go on: the process must restart
        self.on_failure: Callable[[], None] = lambda: None  # called when `failed` is set
        self.on_ready: Callable[[], None] = lambda: None  # called when the state has been rebuilt
        self.on_change: Callable[[str, str, int | None, str], None] = lambda *_: None
        """Called with role, name, version and reason when a model has taken a role."""
        self.warm_ups: list[Callable[[], object]] = []  # called before the service is ready: loads what is compiled
        self.rebuilt_events = 0
        self.rebuild_seconds = 0.0
        self.oldest_silence = 0.0  # how long the live job heard of longest ago has been silent [s], as last looked
        self._recent = Recent()
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self.roles: Final = Roles(
            settings, loader, versions, key, self.writer, self.learner, self.store, self.job_state, self._stopping
        )
        self.health: Final = Health(self.writer, self.roles, lambda: self.failed)
        self._looking: threading.Thread | None = None
        self._snapshot_at = self._snapshot_kept = 0
        self.snapshot_sequence = 0  # event behind which the newest snapshot stands that is known to be stored
        self.snapshot_time: float | None = None  # when that snapshot was stored (Unix time); None if there is none
        self._watch = threading.Thread(target=self._run, name="watch", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether events and questions are answered."""
        return self._ready.is_set()

    @property
    def identity(self) -> Identity:
        """The model that gives the answers."""
        return self.learner.champion.identity

    def start(self) -> None:
        """Rebuild the state, then begin; in threads."""
        self._watch.start()

    def wait(self, seconds: float = 600.0) -> None:
        """Wait until the state has been rebuilt."""
        if not self._ready.wait(seconds) or self.failed:
            raise JobcastError(self.failed or f"The state was not rebuilt within {seconds:g} s.")

    def stop(self) -> None:
        """Finish what was acknowledged, keep a snapshot, give the database back."""
        self._stopping.set()
        if self._watch.is_alive():
            self._watch.join()
        if self._looking is not None:
            self._looking.join(2.0)  # one that hangs ends with the process
        was_ready = self._ready.is_set() and not self.failed
        self._ready.clear()
        if was_ready:
            self.writer.stop()
            self.learner.stop()
            self.writer.flush()
            if self.job_state.sequence > self._snapshot_kept:  # or the stop came before that one's end
                models = self.learner.models.values()
                self._store_snapshot(*recovery.snapshot_of(*self.job_state.streamed_snapshot(), models, self.store))
        self.store.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def as_at(self, sequence: int, now: int | None) -> "Future[Published]":
        """Return the champion to come as it would predict at a second, when an event has been learnt."""
        found: Future[Published] = Future()

        def in_learner() -> None:
            model = self.learner.champion
            found.set_result(model.published if now is None else model.as_at(now))

        self.learner.when(sequence, lambda: self.learner.do(in_learner))
        return found

    def predict(self, jobs: Sequence[Sequence[int]], now: int | None, published: Published | None = None) -> Predicted:
        """Return the champion's predictions of jobs (see `JobState.rows`) if they were submitted now."""
        model = self.learner.champion
        published = published or model.published
        rows, sequence = self.job_state.rows(jobs, now)
        return Predicted(published.answers(rows), model.identity, published, sequence)

    def recorded(self, jobs: Sequence[int], role: str) -> dict[int, dict[str, Any]]:
        """Return the predictions of a role's model at the submission of jobs, by job; jobs without one are left out."""
        found = self._recent.of(jobs, role)
        missing = [job for job in jobs if job not in found]
        if missing:
            found |= {row["job"]: row for row in self.store.predictions_of(missing) if row["role"] == role}
        return found

    def live_jobs(self) -> tuple[list[LiveJob], int]:
        """Return the jobs that wait and run, and the second of the newest event."""
        return self.job_state.live_jobs(self._recent.seconds(CHAMPION))

    def silent_jobs(self, seconds: float) -> tuple[list[int], int]:
        """Return the live jobs unheard of for so long, by the earlier clock, longest first; and the newest event."""
        jobs, since, newest = self.job_state.silent()
        now = min(newest, int(time.time())) if self.settings.clock == "unix" else newest
        self.oldest_silence = float(max(now - int(since.min(initial=now)), 0))
        old = np.flatnonzero(since < now - seconds)
        return jobs[old[np.argsort(since[old], kind="stable")]].tolist(), newest

    def forget(self, seconds: float) -> int:
        """Give up the live jobs of which nothing has been heard for so long, by an event each; return how many.

        The events are durable when this returns; no other thread of the service may wait for it. It raises Busy or
        StorageError if not all could be stored; those that were are given up.
        """
        jobs, now = self.silent_jobs(seconds)
        for i in range(0, len(jobs), _FORGET_AT_ONCE):
            events = [Event(job, FORGOTTEN, now) for job in jobs[i : i + _FORGET_AT_ONCE]]
            outcome(self.writer.put(events), self._stopping)
        if jobs:
            log.warning("%d jobs were given up: nothing was heard of them for %g s", len(jobs), seconds)
        return len(jobs)

    def reload(self) -> list[dict[str, Any]]:
        """Look at the registry now; return what changed, by role. See `Roles.reload`."""
        changed = self.roles.reload()
        for one in changed:
            self.on_change(one["role"], one["name"], one["version"], "the registry was read")
        return changed

    # --- small steps --------------------------------------------------------------------------------------------------

    def _keep(self, records: Sequence[dict[str, Any]]) -> None:
        self.writer.keep(records)
        self._recent.keep(records, self.learner.models.values())

    def _run(self) -> None:
        begin = time.perf_counter()
        try:
            self._snapshot_at = self._snapshot_kept = self._begin()
        except Exception as error:
            if not self._stopping.is_set():
                self._crashed(error)
            return
        self.rebuild_seconds = time.perf_counter() - begin
        self.writer.start()
        self.learner.start()
        self.on_ready()
        self._ready.set()
        looked = kept = time.monotonic()
        looked_for_silence, worse = 0.0, set[int]()
        while not self._stopping.wait(0.25):
            if self.settings.poll and time.monotonic() - looked >= self.settings.poll:
                looked = time.monotonic()
                self._look_at_registry()
            worse = self._say_who_is_worse(worse)
            self.health.tell_changes()
            self.health.event_rate.sample(time.monotonic(), self.job_state.sequence)
            if time.monotonic() - looked_for_silence >= _SILENCE_EVERY:
                looked_for_silence = time.monotonic()
                self._look_for_silence()
            new = self.job_state.sequence - self._snapshot_at
            if new >= self.settings.snapshot_every or (new and time.monotonic() - kept >= _SNAPSHOT_SECONDS):
                self._snapshot_at, kept = self.job_state.sequence, time.monotonic()
                self.writer.do(self._take_snapshot)

    def _look_at_registry(self) -> None:
        """Look in a thread: a registry that hangs must hold up nothing else."""
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=self.reload, name="registry", daemon=True)
            self._looking.start()

    def _look_for_silence(self) -> None:
        try:
            if self.settings.forget_after is not None:
                self.forget(self.settings.forget_after)
            self.silent_jobs(np.inf)
        except (Busy, JobcastError, StorageError) as error:  # the next look may succeed
            log.warning("jobs could not be given up: %s", error)

    def _say_who_is_worse(self, before: set[int]) -> set[int]:
        """Log each model that has become worse than last-two, or better again; return the numbers of those worse."""
        models, epoch = list(self.learner.models.values()), 0 if self.settings.clock == "unix" else None
        for model in models:
            name = f"{model.role} {model.identity.name}"
            if model.drift.stands and model.number not in before:
                log.warning("%s %s", model.drift.sentence(name, epoch), model.advice())
            elif not model.drift.stands and model.number in before:
                log.warning("%s is no longer worse than last-two.", name)
        return {model.number for model in models if model.drift.stands}

    def _crashed(self, error: Exception) -> None:
        known = isinstance(error, JobcastError | StorageError)
        what = str(error) if known else f"{type(error).__name__}: {error}"
        log.critical("%s", what, exc_info=None if known else error)
        self.failed = f"{shown(self.settings.db)}: the state cannot be kept: {what}"
        self._ready.set()
        self.on_failure()

    def _begin(self) -> int:
        """Number the models, then rebuild; return the event behind which the newest snapshot stands."""
        self.roles.number()
        recovery.judge_older(self.store)
        recovery.warm_up(self.learner.models.values())
        for warm in self.warm_ups:
            with suppress(JobcastError):  # whoever asks receives it
                warm()
        self.snapshot_sequence, self.snapshot_time = self.store.newest_snapshot()
        found = recovery.rebuild(self.store, self.job_state, self.learner, self._stopping)
        self.rebuilt_events = found.events
        return found.snapshot

    def _take_snapshot(self) -> None:
        """Begin a snapshot between two commits; the learner completes it when it stands behind the same event."""
        sequence, arrays = self.job_state.streamed_snapshot()

        def complete() -> None:
            found = recovery.snapshot_of(sequence, arrays, self.learner.models.values(), self.store)
            self.writer.do(lambda: self._store_snapshot(*found))

        self.learner.do(complete)

    def _store_snapshot(self, sequence: int, written: BinaryIO | None) -> None:
        """Keep a snapshot; where that fails the events are safe, and the next start takes longer."""
        if written is None:
            return
        with written:
            try:
                self.store.keep_snapshot(sequence, written)
                self.snapshot_sequence, self.snapshot_time = sequence, time.time()
                self._snapshot_kept = sequence
            except StorageError as error:
                self.writer.trouble = str(error)
