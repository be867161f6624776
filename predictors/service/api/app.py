"""The web API, version 1: its routes, and the OpenAPI document that describes them."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from predictors.service.api import schema
from predictors.service.api.context import Context
from predictors.service.api.errors import HANDLERS, Refusal, reply
from predictors.service.api.events import EventRoutes
from predictors.service.api.lifecycle import Lifecycle
from predictors.service.api.predictions import RuntimeRoutes, VariabilityRoutes
from predictors.service.api.status import StateRoutes
from predictors.service.page.routes import PageRoutes
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.state.jobs import LiveJob, StartTimes
from predictors.service.state.service import Service
from predictors.service.state.variability import VariabilityState

_REFUSALS: Final = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 431, 503)
_JOB: Final = "{job_id:path}"  # ids may have slashes
Handle: TypeAlias = Callable[[Request], Awaitable[Response]]

_EXAMPLE: Final = (LiveJob(1, 0, 1, 100, None, 0, 80.0), LiveJob(2, 5, 1, 50, None, None, 50.0))


class Operation(NamedTuple):
    """A route: how it is asked, who answers, what it takes and gives."""

    method: str
    path: str
    handle: Handle
    gives: type | None  # None: text
    takes: tuple[type, ...] = ()


class Api:
    """Routes of one service."""

    def __init__(
        self,
        service: Service,
        key: Pseudonymiser,
        starts: StartTimes | None = None,  # forecasts starts of waiting jobs; None: there are no forecasts
        # judges whether now is a bad moment for a start; None: there is no classifier
        variability_state: VariabilityState | None = None,
    ) -> None:
        self.service = service
        if starts is not None:
            service.warm_ups.append(partial(starts.forecast, _EXAMPLE, 10, _EXAMPLE[1]))
        context = Context(service, key)
        self.metrics: Final = context.metrics
        events, runtime = EventRoutes(context), RuntimeRoutes(context)
        variability, state = VariabilityRoutes(context, variability_state), StateRoutes(context, starts)
        self.operations: Final = (  # the busiest first: a route is looked for in this order
            Operation("POST", "/v1/predictions/runtime", runtime.runtime, schema.RuntimeOut, (schema.RuntimeIn,)),
            Operation("POST", "/v1/events", events.events, schema.EventsOut, (schema.EventIn, schema.EventsIn)),
            Operation(
                "POST", "/v1/predictions/variability", variability.variability, schema.VariabilityOut,
                (schema.VariabilityIn,),
            ),
            Operation("POST", "/v1/telemetry", variability.telemetry, schema.TelemetryOut, (schema.TelemetryIn,)),
            Operation("GET", f"/v1/jobs/{_JOB}", state.job, schema.JobOut),
            Operation("GET", f"/v1/start-time/{_JOB}", state.start_time, schema.StartTimeOut),
            Operation("POST", "/v1/jobs/forget", events.forget, schema.ForgetOut, (schema.ForgetIn,)),
            Operation("GET", "/v1/models", state.models, schema.ModelsOut),
            Operation("POST", "/v1/models/reload", state.reload, schema.ReloadOut),
            Operation("GET", "/healthz", state.health, schema.HealthOut),
            Operation("GET", "/readyz", state.readiness, schema.ReadyOut),
            Operation("GET", "/metrics", state.metrics_page, None),
        )  # fmt: skip
        self.page: Final = PageRoutes(service, starts)
        self.lifecycle: Lifecycle  # what begins and ends with the server, which sets it


def make_app(api: Api) -> Starlette:
    """Return the application of an API; its lifecycle starts the service, and stops it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await api.lifecycle.start()
        yield
        await api.lifecycle.stop()

    async def openapi(_: Request) -> Response:
        return reply(document(api))

    routes = [
        Route(one.path, one.handle if one.method == "GET" else _json_only(one.handle), methods=[one.method])
        for one in api.operations
    ]
    pages = (
        Route("/", api.page.page),
        Route("/status/events", api.page.events),
        Route("/status/{name}", api.page.file),
    )
    app = Starlette(
        routes=[*routes, Route("/openapi.json", openapi), *pages], lifespan=lifespan, exception_handlers=HANDLERS
    )
    app.router.redirect_slashes = False
    return app


def _json_only(handle: Handle) -> Handle:
    """Return a handler that takes from a client without a token only what a page of another site cannot send."""

    async def handled(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if "client_name" not in request.scope and kind != "application/json":
            raise Refusal(415, "the Content-Type must be application/json")
        return await handle(request)

    return handled


def document(api: Api) -> dict[str, Any]:
    """Return the OpenAPI document of an API."""
    kinds: list[Any] = [schema.ErrorOut]
    for one in api.operations:
        kinds += [kind for kind in (*one.takes, one.gives) if kind is not None and kind not in kinds]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for name, examples in schema.EXAMPLES.items():
        components[name]["examples"] = examples
    paths: dict[str, Any] = {}
    for one in api.operations:
        path = one.path.replace(_JOB, "{job_id}")
        paths.setdefault(path, {})[one.method.lower()] = _described(one, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jobcast",
            "version": "1",
            "description": "Run times of HPC jobs, predicted from the stream of their events.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(one: Operation, path: str) -> dict[str, Any]:
    name = one.handle.__name__
    gives: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if one.gives is not None:
        gives = {"application/json": {"schema": _reference(one.gives)}}
    refusal = {"description": "Refused", "content": {"application/json": {"schema": _reference(schema.ErrorOut)}}}
    found: dict[str, Any] = {
        "summary": name.replace("_", " ").capitalize(),
        "description": inspect.getdoc(one.handle),
        "operationId": f"{name}_{one.method.lower()}",
        "responses": {"200": {"description": "Answered", "content": gives}}
        | {str(status): refusal for status in _REFUSALS},
    }
    if path == "/readyz":
        found["responses"]["503"] = {"description": "Not ready", "content": gives}
    if "{job_id}" in path:
        seconds = {"type": "integer", "minimum": 0, "exclusiveMaximum": schema.MOST_SECONDS}
        text = {"type": "string", "minLength": 1, "maxLength": 256}
        found["parameters"] = [
            {"name": "job_id", "in": "path", "required": True, "schema": text},
            {"name": "cluster", "in": "query", "required": False, "schema": text},
            {"name": "submission", "in": "query", "required": False, "schema": seconds},
        ]
    if one.takes:
        taken = [_reference(kind) for kind in one.takes]
        body = taken[0] if len(taken) == 1 else {"anyOf": taken}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
