"""Routes that look up: jobs, models, forecasts of start times, health, metrics."""

import asyncio
import time
from collections.abc import Container, Sequence
from typing import Any

from msgspec.structs import astuple
from starlette.requests import Request
from starlette.responses import Response

from predictors.core.errors import JobcastError
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.service.api import schema
from predictors.service.api.context import LARGE, Context
from predictors.service.api.errors import Refusal, reply
from predictors.service.api.predictions import identified, recorded
from predictors.service.event import APPLIED, HELD, KIND_NAMES, KINDS, UNKNOWN
from predictors.service.state.jobs import LiveJob, StartTimes
from predictors.service.state.model import ROLES, Model


class StateRoutes:
    """Handlers that look up; without `starts` no start is forecast."""

    def __init__(self, context: Context, starts: StartTimes | None) -> None:
        self._context, self._service, self._starts = context, context.service, starts

    async def job(self, request: Request) -> Response:
        """Tell what was predicted for a job, by which model, and what came true."""
        self._context.must_be_ready()
        return reply(await asyncio.to_thread(self._job, self._context.jobs_of(request)))

    def _job(self, jobs: Sequence[int]) -> schema.JobOut:
        found = ((job, self._service.store.events_of(job)) for job in jobs)
        job, stored = next(((job, there) for job, there in found if there), (0, []))
        if not stored:
            raise Refusal(404, "no such job")
        events = {one.event.kind: one for one in stored if one.effect in (APPLIED, HELD)}
        happened = {kind: one.event for kind, one in events.items() if one.effect == APPLIED}
        start, end = happened.get(STARTED), happened.get(ENDED) or happened.get(CANCELLED)
        predictions = [self._service.recorded([job], role).get(job) for role in ROLES]
        return schema.JobOut(
            sequences={KIND_NAMES[kind]: one.event.sequence for kind, one in sorted(events.items())},
            state=_state(happened),
            run_time=None if start is None or end is None else end.time - start.time,
            status=None if ENDED not in happened else _known(happened[ENDED].status),
            requested_time=_known(happened[SUBMITTED].requested_time) if SUBMITTED in happened else None,
            refused=sum(one.effect not in (APPLIED, HELD) for one in stored),
            predictions=[
                schema.RecordOut(*astuple(recorded(one)), role=one["role"], name=one["name"], version=one["version"])
                for one in predictions
                if one is not None
            ],
            **{name: events[kind].event.time if kind in events else None for name, kind in KINDS.items()},
        )

    async def models(self, _: Request) -> Response:
        """Tell who is in which role, how they do, and the history of roles."""
        self._context.must_be_ready()
        learner, settings = self._service.learner, self._service.settings
        history = await asyncio.to_thread(self._service.store.models)
        trouble = self._service.roles.trouble
        for row in history:
            row.pop("uri")  # it may name a folder, which does not concern clients
        roles = [
            schema.RoleOut(
                *astuple(identified(model.identity, learner.sequence)), role=model.role, learns=model.learns,
                codes=model.goes_by, recent=dict(model.figures), beside_last_two=beside_last_two(model),
                drift=model.drift.to_json(), failures=dict(model.failures),
                trouble="its newest version is not in use; the log tells why" if model.role in trouble else None,
            )
            for model in learner.models.values()
        ]  # fmt: skip
        clock = {name: getattr(settings, name) for name in ("clock", "time_zone", "as_of", "machine_procs")}
        sequence = self._service.job_state.sequence
        return reply(
            schema.ModelsOut(models=roles, history=history, began=self._service.began, sequence=sequence, **clock)
        )

    async def reload(self, request: Request) -> Response:
        """Look at the registry now."""
        self._context.must_be_ready()
        changed = await asyncio.to_thread(self._service.reload)
        request.scope["audit"] = {"action": "models reloaded", "changed": changed}
        return reply(schema.ReloadOut(changed, self._service.roles.trouble))

    async def start_time(self, request: Request) -> Response:
        """Forecast when a waiting job will start: P10, P50, P90."""
        self._context.must_be_ready()
        if self._starts is None:
            raise Refusal(404, "this service forecasts no starts: it does not know the size of the machine")
        jobs = self._context.jobs_of(request)
        live, now = self._service.live_jobs()
        if self._service.settings.clock == "unix":
            now = max(now, int(time.time()))
        found = next((one for one in live if one.job_id in jobs), None)
        if found is None:
            raise Refusal(404, "this job neither waits nor runs")
        starts = self._starts
        return reply(await self._context.run_in_thread(LARGE, lambda: _forecast(starts, live, now, found)))

    async def health(self, _: Request) -> Response:
        """Tell that the process answers."""
        return reply(schema.HealthOut(True))

    async def readiness(self, _: Request) -> Response:
        """Tell whether events and questions are answered, and what troubles the service."""
        service = self._service
        worse = [model.role for model in service.learner.models.values() if model.drift.stands]
        ready = service.ready and service.health.answers
        return reply(schema.ReadyOut(ready, list(service.health.troubles()), worse), 200 if ready else 503)

    async def metrics_page(self, _: Request) -> Response:
        """Return the page that Prometheus reads."""
        page = await asyncio.to_thread(self._context.metrics.page)
        return Response(page, media_type="text/plain; version=0.0.4")


def beside_last_two(model: Model) -> dict[str, Any] | None:
    """Return how a model compares with last-two, and what to do where it is worse; None before enough jobs ended."""
    standing = model.monitor.standing
    if standing is None:
        return None
    return standing.to_json() | {"advice": model.advice() if standing.worse or model.drift.stands else None}


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _state(happened: Container[int]) -> schema.JobPhase:
    if SUBMITTED not in happened:
        return "held"
    if FORGOTTEN in happened:
        return "forgotten"
    if ENDED in happened or (CANCELLED in happened and STARTED in happened):
        return "over"
    if CANCELLED in happened:
        return "cancelled"
    return "running" if STARTED in happened else "queued"


def _forecast(starts: StartTimes, live: Sequence[LiveJob], now: int, job: LiveJob) -> schema.StartTimeOut:
    try:
        return schema.StartTimeOut(now, *starts.forecast(live, now, job))
    except JobcastError as error:
        raise Refusal(422, str(error)) from None
