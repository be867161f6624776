"""What the page shows, gathered from a service at one moment: health, jobs, models, weeks."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from predictors.core.errors import JobcastError
from predictors.evaluation.weekly import Week
from predictors.service.pseudonyms import FIRST_NAME
from predictors.service.state.jobs import LiveJob, StartTimes
from predictors.service.state.model import Model
from predictors.service.state.service import Service
from predictors.service.storage.database import StorageError

MOST_FORECAST: Final = 20  # waiting jobs, in order of submission, with starts that are forecast for the page
FORECAST_EVERY: Final = 30.0  # seconds between two rounds of forecasts
STALE: Final = 3600.0  # age of the newest event from which on the page calls itself stale, as the alert does [s]
FORECAST_SECONDS: Final = 5.0  # longest that a round goes on to another job [s]


class JobRow(NamedTuple):
    """A live job as the page shows it; times in seconds of the service's clock."""

    job: str
    submitted: int
    procs: int | None
    requested: int | None
    user: str
    predicted: float | None
    started: int | None
    start_forecast: tuple[int, int, int] | None = None

    @property
    def expected_end(self) -> float | None:
        """When a running job will end by its prediction."""
        return None if self.started is None or self.predicted is None else self.started + self.predicted


@dataclass(frozen=True)
class ModelView:
    """A model as the page shows it."""

    role: str
    name: str
    version: int | None
    predictor: str
    uri: str
    trained_until: str | None
    learns: bool
    figures: dict[str, float]
    failures: int
    trouble: str | None
    verdict: str  # how it compares with last-two, in a sentence; empty before enough jobs ended
    advice: str  # what to do where it is worse; empty where it is not
    weeks: tuple[Week, ...]


@dataclass(frozen=True)
class Overview:
    """What the page shows, as of one moment."""

    at: float
    unix: bool
    now: int
    ready: bool
    troubles: dict[str, str]
    sequence: int
    learnt: int
    waiting_events: int
    newest_event: int | None
    last_commit: float | None
    snapshot_time: float | None
    late: int
    refused: int
    held: int
    per_minute: tuple[int, ...]
    running: tuple[JobRow, ...]
    waiting: tuple[JobRow, ...]
    models: tuple[ModelView, ...]
    history: tuple[dict[str, Any], ...]
    forecasts: bool
    forecast_at: float | None
    forecast_trouble: str
    alarms: tuple[str, ...] = field(default=())

    @property
    def age(self) -> float | None:
        """How old the newest event is, in whole minutes [s]; None before the first, and by a clock without a date."""
        if self.newest_event is None or not self.unix:
            return None
        return max(self.at - self.newest_event, 0.0) // 60 * 60

    @property
    def stale(self) -> bool:
        """Whether the newest event is so old that jobs and predictions are not those of today."""
        return self.age is not None and self.age >= STALE

    @property
    def state(self) -> str:
        return f"{'ready' if self.ready else 'not ready'}{', but stale' if self.stale else ''}"


def shown_code(code: int | None) -> str:
    """Return a number, or the hash that stands for a name, as text.

    >>> shown_code(4711), shown_code(FIRST_NAME + 255), shown_code(None)
    ('4711', '~100000000000ff', '–')
    """
    if code is None or code < 0:
        return "–"
    return str(code) if code < FIRST_NAME else f"~{code:014x}"


class Forecasts:
    """Starts of the first waiting jobs, forecast in a thread, one round at a time."""

    def __init__(self, service: Service, starts: StartTimes | None) -> None:
        self._service, self._starts = service, starts
        self._busy = threading.Lock()
        self._last = float("-inf")
        self.found: dict[int, tuple[int, int, int]] = {}
        self.at: float | None = None
        self.trouble = ""

    @property
    def wanted(self) -> bool:
        return self._starts is not None

    def refresh(self) -> None:
        """Begin another round in a thread, unless one is at work or the last one is new."""
        if self._starts is None or time.monotonic() - self._last < FORECAST_EVERY:
            return
        if self._busy.acquire(blocking=False):
            self._last = time.monotonic()
            threading.Thread(target=self._round, name="forecasts", daemon=True).start()

    def _round(self) -> None:
        try:
            live, now = self._service.live_jobs()
            if self._service.settings.clock == "unix":
                now = max(now, int(time.time()))
            self.found, self.trouble = self._forecast(live, now), ""
            self.at = time.time()
        except JobcastError as error:
            self.found, self.trouble = {}, str(error)
        finally:
            self._busy.release()

    def _forecast(self, live: Sequence[LiveJob], now: int) -> dict[int, tuple[int, int, int]]:
        assert self._starts is not None
        waiting = sorted((one for one in live if one.start is None), key=lambda one: (one.submit, one.job_id))
        found, end = {}, time.monotonic() + FORECAST_SECONDS
        for job in [one for one in waiting if one.procs and one.requested_time][:MOST_FORECAST]:
            found[job.job_id] = self._starts.forecast(live, now, job)
            if time.monotonic() > end:
                break
        return found


class Collector:
    """Gathers what the page shows; one view is shared by all who look within a second."""

    def __init__(self, service: Service, starts: StartTimes | None) -> None:
        self._service = service
        self._forecasts = Forecasts(service, starts)
        self._lock = threading.Lock()
        self._newest: Overview | None = None
        self._newest_at = float("-inf")
        self._history: tuple[dict[str, Any], ...] = ()

    def overview(self) -> Overview:
        """Return a view that is at most a second old; in a thread, since it may wait for the database."""
        with self._lock:
            if self._newest is None or time.monotonic() - self._newest_at > 1.0:
                self._newest = self._gathered()
                self._newest_at = time.monotonic()
            return self._newest

    def _gathered(self) -> Overview:
        service, forecasts = self._service, self._forecasts
        if service.ready and not service.failed:
            forecasts.refresh()
            with suppress(StorageError):  # shows what was read before; the trouble itself stands above it
                self._history = tuple(reversed(service.store.models()[-20:]))
        state, unix = service.job_state, service.settings.clock == "unix"
        live, newest = service.live_jobs()
        now = max(newest, int(time.time())) if unix else newest
        rows = [_row(one, forecasts.found.get(one.job_id)) for one in live]
        roles, epoch = service.learner.models.values(), 0 if unix else None
        models = tuple(_model(one, service.roles.trouble.get(one.role), epoch) for one in roles)
        alarms = [f"{one.role}: {one.verdict} {one.advice}".strip() for one in models if one.advice]
        alarms += [f"{one.role}: {one.trouble}" for one in models if one.trouble]
        return Overview(
            at=time.time(), unix=unix, now=now, ready=service.ready and service.health.answers,
            troubles=service.health.troubles(), sequence=state.sequence, learnt=service.learner.sequence,
            waiting_events=service.writer.pending + service.learner.pending, newest_event=state.history.now,
            last_commit=service.writer.last_commit, snapshot_time=service.snapshot_time, late=state.history.late_events,
            refused=state.event_order.refused, held=state.event_order.held,
            per_minute=service.health.event_rate.per_minute(),
            running=tuple(sorted((r for r in rows if r.started is not None), key=lambda r: (r.started or 0, r.job))),
            waiting=tuple(sorted((r for r in rows if r.started is None), key=lambda r: (r.submitted, r.job))),
            models=models, history=self._history, forecasts=forecasts.wanted, forecast_at=forecasts.at,
            forecast_trouble=forecasts.trouble, alarms=tuple(alarms),
        )  # fmt: skip


def _row(job: LiveJob, forecast: tuple[int, int, int] | None) -> JobRow:
    return JobRow(
        shown_code(job.job_id), job.submit, job.procs, job.requested_time, shown_code(job.user), job.predicted,
        job.start, forecast if job.start is None else None,
    )  # fmt: skip


def _model(model: Model, trouble: str | None, epoch: int | None) -> ModelView:
    identity, standing = model.identity, model.monitor.standing
    verdicts = [] if standing is None else [standing.sentence("the newest", identity.name)]
    if model.drift.stands:
        verdicts.append(model.drift.sentence(identity.name, epoch))
    return ModelView(
        role=model.role, name=identity.name, version=identity.version, predictor=identity.predictor, uri=identity.uri,
        trained_until=identity.trained_until, learns=model.learns, figures=dict(model.figures),
        failures=sum(model.failures.values()), trouble=trouble, verdict=" ".join(verdicts),
        advice=model.advice() if model.drift.stands else "", weeks=tuple(reversed(tuple(model.monitor.weeks))),
    )  # fmt: skip
