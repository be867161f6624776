"""The service without its web: state, threads, models; started, asked, stopped."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from predictors.data.errors import JobcastError
from predictors.history import AS_OF_RULES
from predictors.service.answers import Answer, Published
from predictors.service.database import StorageError, shown
from predictors.service.events import Event
from predictors.service.facts import Facts
from predictors.service.learner import Learner
from predictors.service.loading import Load, load, version_now
from predictors.service.model import CHALLENGER, CHAMPION, Identity, Model, checked_for
from predictors.service.rebuild import rebuild, snapshot_of, warm_up
from predictors.service.start_time import LiveJob
from predictors.service.store import Store
from predictors.service.writer import Done, Failed, Writer

log = logging.getLogger("jobcast.service")

MOST_RECENT: Final = 50_000
"""Newest predictions of record to answer without asking the database."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a service is to be.

    Parameters
    ----------
    model : str
        See `predictors.service.loading.load`.
    challenger : str or None
        A second one, whose predictions are stored and compared but never given.
    db : str
        URL of the database.
    learn : bool
        Whether models learn from the jobs that end.
    clock : {"unix", "log"}
        Whether times of events are Unix time, or count from an unknown moment (then no weekday is known).
    time_zone : str or None
        IANA name of the machine's.
    as_of : {"strict", "reis"}
        What counts as ended at a submission.
    poll : float
        Seconds between looks at the registry; 0: only when asked.
    snapshot_every : int
        Events between snapshots.
    most_pending : int
        Events that may wait; see `Writer`.
    capacity : int
        Users, and groups of each kind, to remember.
    machine_procs : int or None
        Processors of the machine; None if unknown.
    """

    model: str
    db: str
    challenger: str | None = None
    learn: bool = True
    clock: str = "unix"
    time_zone: str | None = None
    as_of: str = "strict"
    poll: float = 30.0
    snapshot_every: int = 500_000
    most_pending: int = 100_000
    capacity: int = 100_000
    machine_procs: int | None = None

    def __post_init__(self) -> None:
        if self.clock not in ("unix", "log"):
            raise JobcastError(f"A service's clock is 'unix' or 'log'; got {self.clock!r}.")
        if self.as_of not in AS_OF_RULES:
            raise JobcastError(f"A service's as-of rule is one of {', '.join(AS_OF_RULES)}; got {self.as_of!r}.")
        for name in ("snapshot_every", "most_pending", "capacity"):
            if getattr(self, name) < 1:
                raise JobcastError(f"A service's {name} must be at least 1; got {getattr(self, name)}.")
        if not self.poll >= 0:
            raise JobcastError(f"A service's poll must be 0 s or more; got {self.poll}.")


@dataclass(frozen=True, slots=True)
class Told:
    """Answers, and what stands behind them."""

    answers: list[Answer]
    identity: Identity
    published: Published
    sequence: int
    """The event that the facts stood behind."""


class Service:
    """One prediction service. `start` returns at once; `ready` tells when the state has been rebuilt.

    Parameters
    ----------
    settings : Settings
        How it is to be.
    loader : callable
        Brings models.
    prepare : callable, optional
        Called with each new connection to the database.
    versions : callable
        Tells which version an address means now.

    Raises
    ------
    JobcastError
        If the database or the model cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        loader: Load = load,
        prepare: Any = None,
        versions: Callable[[str], int | None] = version_now,
    ) -> None:
        self.settings: Final = settings
        self._version_now = versions
        self._load = loader
        models = [self._loaded(settings.model, CHAMPION)]
        if settings.challenger is not None:
            rival = self._loaded(settings.challenger, CHALLENGER)
            models += [rival] if rival.identity.same_as != models[0].identity.same_as else []
        self.store = Store(settings.db, prepare)
        self.facts = Facts(
            epoch=0 if settings.clock == "unix" else None,
            time_zone=settings.time_zone,
            as_of=settings.as_of,
            capacity=settings.capacity,
            machine_procs=settings.machine_procs,
        )
        self.learner = Learner(self._keep, self._crashed)
        self.writer = Writer(self.store, self.facts, self.learner, settings.most_pending, self._crashed)
        self.learner.models = {model.role: model for model in models}
        self.model_trouble: dict[str, str] = {}
        """Why a role's newest model is not in use, by role."""
        self.failed: str | None = None
        """Why the state could not be rebuilt, or may not go on: the process must begin anew."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called when `failed` is set."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when the state has been rebuilt."""
        self.rebuilt_events = 0
        self.rebuild_seconds = 0.0
        self._recent: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()
        self._recent_lock = threading.Lock()
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._snapshot_at = 0
        self._watch = threading.Thread(target=self._run, name="watch", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether events and questions are answered."""
        return self._ready.is_set()

    @property
    def identity(self) -> Identity:
        """Who answers."""
        return self.learner.champion.identity

    def start(self) -> None:
        """Rebuild the state, then begin; in threads."""
        self._watch.start()

    def wait(self, seconds: float = 600.0) -> None:
        """Wait until the state has been rebuilt.

        Raises
        ------
        JobcastError
            If that failed, or took longer.
        """
        if not self._ready.wait(seconds) or self.failed:
            raise JobcastError(self.failed or f"The state was not rebuilt within {seconds:g} s.")

    def stop(self) -> None:
        """Finish what was acknowledged, keep a snapshot, give the database back."""
        self._stopping.set()
        if self._watch.is_alive():
            self._watch.join()
        was_ready = self._ready.is_set() and not self.failed
        self._ready.clear()
        if was_ready:
            self.writer.stop()
            self.learner.stop()
            self.writer.flush()
            if self.facts.sequence > self._snapshot_at:
                self._store_snapshot(*snapshot_of(*self.facts.snapshot(), self.learner.models.values()))
        self.store.close()

    # --- asked --------------------------------------------------------------------------------------------------------

    def take(self, events: Sequence[Event], done: Done, failed: Failed) -> None:
        """Take in events; see `Writer.put`."""
        self.writer.put(events, done, failed)

    def as_at(self, now: int | None, tell: Callable[[Published], None]) -> None:
        """Call a function with the champion as it would predict at a second, after all that was handed over before."""

        def in_learner() -> None:
            model = self.learner.champion
            tell(model.published if now is None else model.as_at(now))

        self.learner.do(in_learner)

    def predict(self, jobs: Sequence[Sequence[int]], now: int | None, published: Published | None = None) -> Told:
        """Return what the champion says of jobs (see `Facts.rows`) if they were submitted now."""
        model = self.learner.champion
        published = published or model.published
        rows, sequence = self.facts.rows(jobs, now)
        return Told(published.answers(rows), model.identity, published, sequence)

    def recorded(self, jobs: Sequence[int], role: str) -> dict[int, dict[str, Any]]:
        """Return what a role's model said of jobs at their submission, by job; those that nobody spoke of are left out.

        Raises
        ------
        StorageError
            If the database cannot be read.
        """
        with self._recent_lock:
            found = {job: self._recent[role, job] for job in jobs if (role, job) in self._recent}
        missing = [job for job in jobs if job not in found]
        if missing:
            found |= {row["job"]: row for row in self.store.predictions_of(missing) if row["role"] == role}
        return found

    def live_jobs(self) -> tuple[list[LiveJob], int]:
        """Return the jobs that wait and run, and the second of the newest event."""
        with self._recent_lock:
            said = {job: row["seconds"] for (role, job), row in self._recent.items() if role == CHAMPION}
        return self.facts.live_jobs(said)

    def reload(self) -> list[dict[str, Any]]:
        """Look at the registry now; return what changed, by role.

        A model that cannot be loaded leaves the old one in place: `model_trouble` tells.
        """
        changed = []
        asked = {CHAMPION: self.settings.model, CHALLENGER: self.settings.challenger}
        for role, uri in asked.items():
            if uri is None:
                continue
            try:
                found = self._reload(role, uri)
            except (JobcastError, StorageError) as error:
                self.model_trouble[role] = str(error)
                continue
            self.model_trouble.pop(role, None)
            if found is not None:
                changed.append({"role": role, "name": found.identity.name, "version": found.identity.version})
        return changed

    # --- small steps --------------------------------------------------------------------------------------------------

    def _keep(self, records: Sequence[dict[str, Any]]) -> None:
        self.writer.keep(records)
        names = {model.number: model.identity for model in self.learner.models.values()}
        with self._recent_lock:
            for row in records:
                who = names[row["model"]]
                about = {"name": who.name, "version": who.version, "predictor": who.predictor}
                self._recent[row["role"], row["job"]] = row | about
            while len(self._recent) > MOST_RECENT:
                self._recent.popitem(last=False)

    def _loaded(self, uri: str, role: str) -> Model:
        identity, predictor = self._load(uri)
        return checked_for(Model(identity, predictor, role, learns=self.settings.learn), self.settings.as_of)

    def _reload(self, role: str, uri: str) -> Model | None:
        version = self._version_now(uri)
        if version is None or self._is(version, role) or (role == CHALLENGER and self._is(version, CHAMPION)):
            return None
        if role == CHAMPION and self._is(version, CHALLENGER):
            return self._seat(self.learner.models[CHALLENGER], role, "the challenger was promoted")
        return self._seat(self._loaded(uri, role), role, f"{uri} moved to version {version}")

    def _is(self, version: int, role: str) -> bool:
        """Return whether that version of the champion's model is in a role."""
        seated = self.learner.models.get(role)
        name = self.identity.name
        return seated is not None and seated.identity.name == name and seated.identity.version == version

    def _seat(self, model: Model, role: str, why: str) -> Model:
        """Write down that a model takes a role, between two commits; then let it, between two lessons."""
        done, trouble = threading.Event(), []

        def in_writer() -> None:
            since = self.facts.sequence
            keeps_learning = model.number > 0
            learns_since = model.since if keeps_learning else since
            try:
                number = self.store.record_model(_row(model, role, why, since, learns_since))
            except StorageError as error:
                trouble.append(error)
                done.set()
                return

            def in_learner() -> None:
                if not keeps_learning:
                    model.begin(since)
                model.number, model.role = number, role
                self.learner.seat(model)
                done.set()

            self.learner.do(in_learner)

        self.writer.do(in_writer)
        while not done.wait(0.5):
            if self._stopping.is_set():
                raise JobcastError("The service stops.")
        if trouble:
            raise trouble[0]
        return model

    def _run(self) -> None:
        begin = time.perf_counter()
        try:
            self._snapshot_at = self._begin()
        except Exception as error:
            if not self._stopping.is_set():
                self._crashed(error)
            return
        self.rebuild_seconds = time.perf_counter() - begin
        self.writer.start()
        self.learner.start()
        self.on_ready()
        self._ready.set()
        looked = time.monotonic()
        while not self._stopping.wait(0.25):
            if self.settings.poll and time.monotonic() - looked >= self.settings.poll:
                looked = time.monotonic()
                self.reload()
            if self.facts.sequence - self._snapshot_at >= self.settings.snapshot_every:
                self._snapshot_at = self.facts.sequence
                self.writer.do(self._take_snapshot)

    def _crashed(self, error: Exception) -> None:
        known = isinstance(error, JobcastError | StorageError)
        what = str(error) if known else f"{type(error).__name__}: {error}"
        log.critical("%s", what, exc_info=None if known else error)
        self.failed = f"{shown(self.settings.db)}: the state cannot be kept: {what}"
        self._ready.set()
        self.on_failure()

    def _begin(self) -> int:
        """Number the models, then rebuild; return the event behind which the newest snapshot stands."""
        newest = {row["role"]: row for row in self.store.models()}
        last = self.store.newest()
        for role, model in self.learner.models.items():
            row = newest.get(role)
            who = model.identity
            if row is not None and (row["name"], row["version"], row["predictor"], row["sha256"]) == who.same_as:
                model.number = int(row["id"])
                model.begin(int(row["learns_since"]))
            else:
                model.number = self.store.record_model(_row(model, role, "the service was started with it", last, last))
                model.begin(last)
        warm_up(self.learner.models.values())
        found = rebuild(self.store, self.facts, self.learner, self._stopping)
        self.rebuilt_events = found.events
        return found.snapshot

    def _take_snapshot(self) -> None:
        """Begin a snapshot between two commits; the learner completes it when it stands behind the same event."""
        sequence, arrays = self.facts.snapshot()

        def complete() -> None:
            found = snapshot_of(sequence, arrays, self.learner.models.values())
            self.writer.do(lambda: self._store_snapshot(*found))

        self.learner.do(complete)

    def _store_snapshot(self, sequence: int, stored: bytes) -> None:
        try:
            self.store.keep_snapshot(sequence, stored)
        except StorageError as error:  # the events are safe; the next start takes longer
            self.writer.trouble = str(error)


def _row(model: Model, role: str, why: str, since: int, learns_since: int) -> dict[str, Any]:
    who = model.identity
    about = {name: getattr(who, name) for name in ("uri", "name", "version", "predictor", "sha256")}
    return {"role": role, "why": why, "since": since, "learns_since": learns_since, **about}
