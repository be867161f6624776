"""The web API, version 1: the handler of each route, and the OpenAPI document."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from predictors.service.api.context import Context
from predictors.service.api.errors import REFUSALS, refused
from predictors.service.api.events import EventRoutes
from predictors.service.api.lifecycle import Lifecycle
from predictors.service.api.predictions import RuntimeRoutes, VariabilityRoutes
from predictors.service.api.schema import (
    ErrorOut,
    EventIn,
    EventsIn,
    EventsOut,
    RuntimeIn,
    RuntimeOut,
    TelemetryIn,
    VariabilityIn,
    VariabilityOut,
)
from predictors.service.api.status import StateRoutes
from predictors.service.page.routes import PageRoutes
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.state.jobs import StartTimes
from predictors.service.state.service import Service
from predictors.service.state.variability import VariabilityState

_SAID: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": ErrorOut} for code in (400, 401, 403, 404, 408, 409, 413, 422, 429, 503)
}
_SENT: Final = (EventIn, EventsIn, RuntimeIn, TelemetryIn, VariabilityIn)


class Api:
    """Routes of one service.

    Parameters
    ----------
    service : Service
        Started by the application, and stopped with it.
    key : Pseudonymiser
        Of the hash that stands for names.
    starts : StartTimes or None
        Forecasts starts of waiting jobs; None: there are no forecasts.
    variability_state : VariabilityState or None
        Judges whether now is a bad moment for a start; None: there is no classifier.
    """

    def __init__(
        self,
        service: Service,
        key: Pseudonymiser,
        starts: StartTimes | None = None,
        variability_state: VariabilityState | None = None,
    ) -> None:
        self.service = service
        context = Context(service, key)
        self.metrics: Final = context.metrics
        self.events: Final = EventRoutes(context)
        self.runtime: Final = RuntimeRoutes(context)
        self.variability: Final = VariabilityRoutes(context, variability_state)
        self.state: Final = StateRoutes(context, starts)
        self.page: Final = PageRoutes(service, starts)
        self.lifecycle: Lifecycle | None = None
        """What begins and ends with the server; None where an application is made without one."""


def make_app(api: Api) -> FastAPI:
    """Return the application of an API; it starts the service, and stops it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        api.service.start()
        if api.lifecycle is not None:
            api.lifecycle.start()
        yield
        if api.lifecycle is not None:
            await api.lifecycle.stop()
        await asyncio.to_thread(api.service.stop)
        if api.lifecycle is not None:
            await asyncio.to_thread(api.lifecycle.close)

    app = FastAPI(
        title="jobcast",
        version="1",
        description="Run times of HPC jobs, predicted from the stream of their events.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_routes(app, api)
    for kind in REFUSALS:
        app.add_exception_handler(kind, _answered)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _add_routes(app: FastAPI, api: Api) -> None:
    post, get, state = app.post, app.get, api.state
    post("/v1/events", responses=_answers(EventsOut), openapi_extra=_takes(EventIn, EventsIn))(api.events.events)
    post("/v1/predictions/runtime", responses=_answers(RuntimeOut), openapi_extra=_takes(RuntimeIn))(
        api.runtime.runtime
    )
    post("/v1/predictions/variability", responses=_answers(VariabilityOut), openapi_extra=_takes(VariabilityIn))(
        api.variability.variability
    )
    post("/v1/telemetry", responses=_SAID, openapi_extra=_takes(TelemetryIn))(api.variability.telemetry)
    get("/v1/jobs/{job_id}", responses=_SAID)(state.job)
    get("/v1/start-time/{job_id}", responses=_SAID)(state.start_time)
    get("/v1/models", responses=_SAID)(state.models)
    post("/v1/models/reload", responses=_SAID)(state.reload)
    get("/healthz")(state.health)
    get("/readyz", responses={503: {"description": "Not ready"}})(state.readiness)
    get("/metrics", responses=_SAID)(state.metrics_page)
    get("/", include_in_schema=False)(api.page.page)
    get("/status/events", include_in_schema=False)(api.page.events)
    get("/status/{name}", include_in_schema=False)(api.page.file)


def _answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return _SAID | {200: {"model": model}}


def _takes(*models: type[BaseModel]) -> dict[str, Any]:
    schemas = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def _answered(_: Request, error: Exception) -> Response:
    return refused(error)


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        template = "#/components/schemas/{model}"
        _, more = models_json_schema([(model, "validation") for model in _SENT], ref_template=template)
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(more["$defs"])
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
