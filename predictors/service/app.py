"""The web API: routes over a service, version 1."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import numpy as np
from fastapi import FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from predictors.data.errors import JobcastError
from predictors.data.events import CANCELLED, ENDED, STARTED, SUBMITTED
from predictors.service.answers import Answer, Published
from predictors.service.codes import NameKey
from predictors.service.database import StorageError
from predictors.service.events import KIND_NAMES, UNKNOWN, Event
from predictors.service.metrics import Metrics
from predictors.service.model import CHAMPION, Identity
from predictors.service.schema import (
    ErrorOut,
    EventIn,
    EventsIn,
    EventsOut,
    RuntimeIn,
    RuntimeOut,
    TelemetryIn,
    VariabilityIn,
    VariabilityOut,
    told,
)
from predictors.service.service import Service
from predictors.service.start_time import LiveJob, StartTimes
from predictors.service.store import Receipt
from predictors.service.variability import Desk, Start
from predictors.service.writer import Busy
from predictors.variability.verdict import Verdict

log = logging.getLogger("jobcast.service")

T = TypeVar("T")
LARGE: Final = 32 * 1024
"""Bodies from so many bytes on are worked on beside the event loop, so that small ones do not wait."""
PATIENCE: Final = 10.0
"""Longest wait for a commit, or for a lesson [s]."""
MOST_AHEAD: Final = 3600
"""An event may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""
MOST_AHEAD_SAMPLE: Final = 60
"""As MOST_AHEAD, of a sample of counters [s]."""
_LARGE_AT_ONCE: Final = 8
_SAID: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": ErrorOut} for code in (400, 401, 403, 404, 408, 409, 413, 422, 429, 503)
}


class Refusal(Exception):
    """A request that cannot be answered: status, and why in a few words."""

    def __init__(self, status: int, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.wait = status, reason, wait


class Api:
    """Handlers of one service.

    Parameters
    ----------
    service : Service
        Started by the application, and stopped with it.
    key : NameKey
        Of the hash that stands for names.
    starts : StartTimes or None
        Who forecasts starts of waiting jobs, if anyone.
    desk : Desk or None
        Who tells whether now is a bad moment for a start, if anyone.
    """

    def __init__(
        self, service: Service, key: NameKey, starts: StartTimes | None = None, desk: Desk | None = None
    ) -> None:
        self.service, self.key, self.starts, self.desk = service, key, starts, desk
        self.metrics = Metrics(service)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="large")
        self._large = 0

    # --- events -------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Take in events: durable when the answer comes."""
        self._must_be_ready()
        body = await request.body()
        events = await self._beside(len(body), lambda: self._events_of(body))
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[tuple[list[Receipt], list[str]]] = loop.create_future()
        self.service.take(
            events,
            lambda receipts, what: _tell(loop, stored, (receipts, what)),
            lambda error: _tell(loop, stored, error),
        )
        try:
            receipts, what = await asyncio.wait_for(stored, PATIENCE)
        except TimeoutError:
            raise Refusal(503, "not durable in time; send it again", 1) from None
        for event, effect in zip(events, what, strict=True):
            self.metrics.event(KIND_NAMES[event.kind], effect)
        told_of = [{"sequence": r.sequence, "status": effect} for r, effect in zip(receipts, what, strict=True)]
        return _json({"sequence": max(receipt.sequence for receipt in receipts), "events": told_of})

    def _events_of(self, body: bytes) -> list[Event]:
        document = _parsed(body)
        if isinstance(document, dict) and "events" in document:
            asked = _valid(EventsIn, document).events
        else:
            asked = [_valid(EventIn, document)]
        if self.service.settings.clock == "unix":
            latest = time.time() + MOST_AHEAD
            if any(one.time > latest for one in asked):
                raise Refusal(422, "time: lies ahead of the service's clock")
        return [one.event(self.key) for one in asked]

    # --- predictions --------------------------------------------------------------------------------------------------

    async def runtime(self, request: Request) -> Response:
        """Predict run times."""
        self._must_be_ready()
        body = await request.body()
        if len(body) < LARGE:
            asked = _valid(RuntimeIn, _parsed(body))
            published = await self._learnt(asked.as_of, asked.now)
            if asked.job_ids is None:
                return self._predicted(asked, published)
            return await asyncio.to_thread(self._recorded, asked)
        asked = await self._beside(len(body), lambda: _valid(RuntimeIn, _parsed(body)))
        published = await self._learnt(asked.as_of, asked.now)
        if asked.job_ids is None:
            return await self._beside(len(body), lambda: self._predicted(asked, published))
        return await self._beside(len(body), lambda: self._recorded(asked))

    def _predicted(self, asked: RuntimeIn, published: Published | None) -> Response:
        now = asked.now
        if now is None and self.service.settings.clock == "unix":
            now = int(time.time())
        jobs = [job.codes(self.key) for job in asked.jobs or ()]
        found = self.service.predict(jobs, now, published)
        for (who, falls_back), n in Counter((one.answered_by, one.why is not None) for one in found.answers).items():
            self.metrics.predictions(who, falls_back, n)
        return _json(
            {
                "sequence": found.sequence,
                "model": _about(found.identity, found.published.sequence),
                "predictions": [_answer(answer) for answer in found.answers],
            }
        )

    def _recorded(self, asked: RuntimeIn) -> Response:
        jobs = [self.key.code(name) for name in asked.job_ids or ()]
        found = self.service.recorded(jobs, CHAMPION)
        sequence = self.service.learner.sequence
        return _json(
            {
                "sequence": sequence,
                "model": _about(self.service.identity, sequence),
                "predictions": [_record(found.get(job)) for job in jobs],
            }
        )

    async def _learnt(self, as_of: int | None, now: int | None) -> Published | None:
        """Wait until an event has been learnt; return the champion with all that may be known at a second."""
        if as_of is None:
            return None
        if as_of > self.service.facts.sequence:
            raise Refusal(409, "as_of: there is no such event yet")
        loop = asyncio.get_running_loop()
        learnt: asyncio.Future[Published] = loop.create_future()
        service = self.service
        service.learner.when(as_of, lambda: service.as_at(now, lambda found: _tell(loop, learnt, found)))
        try:
            return await asyncio.wait_for(learnt, PATIENCE)
        except TimeoutError:
            raise Refusal(503, "not learnt in time; ask again", 1) from None

    # --- variability --------------------------------------------------------------------------------------------------

    async def telemetry(self, request: Request) -> Response:
        """Take in a sample of the nodes' counters, in memory only."""
        desk = self._desk()
        body = await request.body()

        def work() -> Response:
            asked = _valid(TelemetryIn, _parsed(body))
            if self.service.settings.clock == "unix" and asked.time > time.time() + MOST_AHEAD_SAMPLE:
                raise Refusal(422, "time: lies ahead of the service's clock")
            rates = [[float("nan") if rate is None else rate for rate in row] for row in asked.rates]
            if len(rates) != len(asked.nodes):
                raise Refusal(422, "rates: as many rows as nodes are needed")
            try:
                desk.push(asked.time, asked.nodes, rates)
            except JobcastError as error:
                raise Refusal(409, str(error)) from None
            return _json({"newest_sample": desk.newest})

        return await self._beside(len(body), work)

    async def variability(self, request: Request) -> Response:
        """Tell whether now is a bad moment for starts."""
        desk = self._desk()
        body = await request.body()

        def work() -> Response:
            asked = _valid(VariabilityIn, _parsed(body))
            now = asked.now if asked.now is not None else (desk.newest or 0.0) + 0.001
            starts = [
                Start(
                    one.application,
                    one.workload,
                    None if one.nodes is None else tuple(one.nodes),
                    None if one.probes is None else np.array([_nan(wait) for wait in one.probes]),
                )
                for one in asked.starts
            ]
            try:
                verdicts = desk.judge(starts, now)
            except JobcastError as error:
                raise Refusal(422, str(error)) from None
            return _json(
                {
                    "classifier": desk.loaded.name or desk.loaded.classifier.name,
                    "version": desk.loaded.version,
                    "newest_sample": desk.newest,
                    "predictions": [_verdict(one) for one in verdicts],
                }
            )

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _desk(self) -> Desk:
        if self.desk is None:
            raise Refusal(404, "this service has no classifier: it was started without --classifier")
        return self.desk

    # --- what there is ------------------------------------------------------------------------------------------------

    async def job(self, job_id: str = Path(min_length=1, max_length=256)) -> Response:
        """Tell what was predicted for a job, by which model, and what came true."""
        self._must_be_ready()
        job = self._job_of(job_id)
        return _json(await asyncio.to_thread(self._job, job))

    def _job(self, job: int) -> dict[str, Any]:
        events = {event.kind: event for event in self.service.store.events_of(job)}
        if not events:
            raise Refusal(404, "no such job")
        times = {name: events[kind].time if kind in events else None for kind, name in enumerate(KIND_NAMES)}
        start, end = events.get(STARTED), events.get(ENDED)
        ran = end.time - start.time if start is not None and end is not None and end.time >= start.time else None
        said = [self.service.recorded([job], role).get(job) for role in ("champion", "challenger")]
        return {
            "sequences": {KIND_NAMES[kind]: event.sequence for kind, event in sorted(events.items())},
            "state": _state(events),
            **times,
            "run_time": ran,
            "status": None if end is None else _known(end.status),
            "requested_time": _known(events[SUBMITTED].requested_time) if SUBMITTED in events else None,
            "predictions": [
                {"role": one["role"], "name": one["name"], "version": one["version"], **_record(one)}
                for one in said
                if one is not None
            ],
        }

    async def models(self) -> Response:
        """Tell who is in which role, how they do, and the history of roles."""
        self._must_be_ready()
        learner = self.service.learner
        history = await asyncio.to_thread(self.service.store.models)
        roles = [
            {
                "role": model.role,
                **_about(model.identity, learner.sequence),
                "uri": model.identity.uri,
                "learns": model.learns,
                "recent": dict(model.figures),
                "failures": dict(model.failures),
                "trouble": self.service.model_trouble.get(model.role),
            }
            for model in learner.models.values()
        ]
        clock: dict[str, Any] = {"clock": self.service.settings.clock, "time_zone": self.service.settings.time_zone}
        clock |= {"as_of": self.service.settings.as_of, "machine_procs": self.service.settings.machine_procs}
        return _json({"models": roles, "history": history, **clock, "sequence": self.service.facts.sequence})

    async def reload(self) -> Response:
        """Look at the registry now."""
        self._must_be_ready()
        changed = await asyncio.to_thread(self.service.reload)
        return _json({"changed": changed, "trouble": dict(self.service.model_trouble)})

    async def start_time(self, job_id: str = Path(min_length=1, max_length=256)) -> Response:
        """Forecast when a waiting job will start: P10, P50, P90."""
        self._must_be_ready()
        if self.starts is None:
            raise Refusal(404, "this service forecasts no starts: it was not told the size of the machine")
        job = self._job_of(job_id)
        live, now = self.service.live_jobs()
        if self.service.settings.clock == "unix":
            now = max(now, int(time.time()))
        found = next((one for one in live if one.job_id == job), None)
        if found is None:
            raise Refusal(404, "this job neither waits nor runs")
        starts = self.starts
        return _json(await self._beside(LARGE, lambda: _forecast(starts, live, now, found)))

    async def health(self) -> Response:
        """Tell that the process answers."""
        return _json({"alive": True})

    async def readiness(self) -> Response:
        """Tell whether events and questions are answered, and what troubles the service."""
        service = self.service
        trouble = {"storage": service.writer.trouble, "rebuild": service.failed}
        named = {name: bool(what) for name, what in trouble.items()} | {"model": bool(service.model_trouble)}
        ready = service.ready and not service.failed
        document = {"ready": ready, "trouble": [name for name, there in named.items() if there]}
        return _json(document, 200 if ready and service.writer.trouble is None else 503)

    async def metrics_page(self) -> Response:
        """Return the page that Prometheus reads."""
        page = await asyncio.to_thread(self.metrics.page)
        return Response(page, media_type="text/plain; version=0.0.4")

    # --- small steps --------------------------------------------------------------------------------------------------

    def _must_be_ready(self) -> None:
        if not self.service.ready or self.service.failed:
            raise Refusal(503, "the state is being rebuilt", 1)

    def _job_of(self, text: str) -> int:
        return self.key.code(int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text)

    async def _beside(self, size: int, work: Callable[[], T]) -> T:
        """Do work at once if it is small, else in a thread."""
        if size < LARGE:
            return work()
        if self._large >= _LARGE_AT_ONCE:
            raise Refusal(503, "too many large requests at once", 1)
        self._large += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._large -= 1


def make_app(api: Api) -> FastAPI:
    """Return the application of an API; it starts the service, and stops it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        api.service.start()
        yield
        await asyncio.to_thread(api.service.stop)

    app = FastAPI(
        title="jobcast",
        version="1",
        description="Run times of HPC jobs, predicted from the stream of their events.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    every = _SAID
    post, get = app.post, app.get
    post("/v1/events", responses=every | {200: {"model": EventsOut}}, openapi_extra=_takes(EventIn, EventsIn))(
        api.events
    )
    post("/v1/predictions/runtime", responses=every | {200: {"model": RuntimeOut}}, openapi_extra=_takes(RuntimeIn))(
        api.runtime
    )
    post(
        "/v1/predictions/variability",
        responses=every | {200: {"model": VariabilityOut}},
        openapi_extra=_takes(VariabilityIn),
    )(api.variability)
    post("/v1/telemetry", responses=every, openapi_extra=_takes(TelemetryIn))(api.telemetry)
    get("/v1/jobs/{job_id}", responses=every)(api.job)
    get("/v1/start-time/{job_id}", responses=every)(api.start_time)
    get("/v1/models", responses=every)(api.models)
    post("/v1/models/reload", responses=every)(api.reload)
    get("/healthz")(api.health)
    get("/readyz", responses={503: {"description": "Not ready"}})(api.readiness)
    get("/metrics", responses=every)(api.metrics_page)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _, more = models_json_schema(
                [(model, "validation") for model in (EventIn, EventsIn, RuntimeIn, TelemetryIn, VariabilityIn)],
                ref_template="#/components/schemas/{model}",
            )
            components = document.setdefault("components", {})
            components.setdefault("schemas", {}).update(more["$defs"])
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    _handle_errors(app)
    return app


def _takes(*models: type[BaseModel]) -> dict[str, Any]:
    schemas = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _handle_errors(app: FastAPI) -> None:
    def answers(kind: type[Exception]) -> Callable[[Callable[[Any], Response]], None]:
        def register(make: Callable[[Any], Response]) -> None:
            async def handle(_: Request, error: Exception) -> Response:
                return make(error)

            app.add_exception_handler(kind, handle)

        return register

    answers(Refusal)(lambda error: _error(error.status, error.reason, error.wait))
    answers(JobcastError)(lambda _: _error(422, "this cannot be answered from what is known"))
    answers(Busy)(lambda error: _error(503, str(error), 1))
    answers(StorageError)(lambda _: _error(503, "the database cannot be used now; nothing was stored", 1))
    answers(RequestValidationError)(lambda _: _error(422, "a part of the address cannot be used"))
    answers(HTTPException)(lambda error: _error(error.status_code, str(error.detail).lower()))


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refusal(400, "the body is no JSON") from None


M = TypeVar("M", bound=BaseModel)


def _valid(model: type[M], document: Any) -> M:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise Refusal(422, told(error)) from None


def _tell(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", what: Any) -> None:
    def settle() -> None:
        if not future.done():
            if isinstance(what, Exception):
                future.set_exception(what)
            else:
                future.set_result(what)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop has ended: nobody waits any more
        return


def _json(document: Any, status: int = 200) -> Response:
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def _error(status: int, reason: str, wait: int = 0) -> Response:
    response = _json({"error": reason}, status)
    if wait:
        response.headers["Retry-After"] = str(wait)
    return response


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _about(who: Identity, sequence: int | None) -> dict[str, Any]:
    return {
        "name": who.name,
        "version": who.version,
        "alias": CHAMPION,
        "predictor": who.predictor,
        "trained_until": who.trained_until,
        "learnt_sequence": sequence,
    }


def _answer(one: Answer) -> dict[str, Any]:
    quantiles = None if one.quantiles is None else dict(zip(("p10", "p50", "p90"), one.quantiles, strict=True))
    return {
        "seconds": one.seconds,
        "lower": one.lower,
        "upper": one.upper,
        "quantiles": quantiles,
        "answered_by": one.answered_by,
        "fallback": one.why is not None,
        "why": one.why,
    }


def _record(one: dict[str, Any] | None) -> dict[str, Any]:
    if one is None:
        return _answer(Answer(0.0, "", "no such submission")) | {"seconds": None, "answered_by": None}
    names = ("seconds", "lower", "upper", "answered_by", "fallback")
    return {"quantiles": None, "why": None} | {name: one[name] for name in names}


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "label": one.label,
        "probability": None if one.probability != one.probability else one.probability,
        "abstained": one.abstained,
        "why": one.reason or None,
        "filled": one.filled,
    }


def _state(events: dict[int, Event]) -> str:
    if ENDED in events or (CANCELLED in events and STARTED in events):
        return "over"
    if CANCELLED in events:
        return "cancelled"
    return "running" if STARTED in events else "queued"


def _forecast(starts: StartTimes, live: Sequence[LiveJob], now: int, job: LiveJob) -> dict[str, Any]:
    found = starts.forecast(live, now, job)
    return {"now": now, "p10": found[0], "p50": found[1], "p90": found[2]}
