"""Traces of requests by OpenTelemetry, where its packages and an endpoint are configured; otherwise none.

The endpoint is OpenTelemetry's own variable `OTEL_EXPORTER_OTLP_ENDPOINT` (or `…_TRACES_ENDPOINT`), for OTLP over HTTP.
A span names method, route, status and request id; never a token, a user, a job or a body.
"""

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from predictors.core.errors import JobcastError, missing

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """Spans of requests, which a thread gives OpenTelemetry's exporter in batches."""

    def __init__(self, exporter: Any) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        about = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "jobcast"), "service.version": version("jobcast")}
        self._provider: Any = TracerProvider(resource=Resource.create(about))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Any = self._provider.get_tracer("jobcast.service")
        self._propagator: Any = TraceContextTextMapPropagator()
        self._server: Any = SpanKind.SERVER
        self._error: Any = Status(StatusCode.ERROR)

    def begin(self, method: str, headers: Mapping[bytes, bytes]) -> Any:
        """Return a span that has begun, a child of the client's where `traceparent` names one."""
        carrier = {name: headers[name.encode()].decode("latin-1") for name in _PARENT if name.encode() in headers}
        return self._tracer.start_span(method, context=self._propagator.extract(carrier), kind=self._server)

    def end(self, span: Any, method: str, route: str, status: int, request: str) -> None:
        span.update_name(f"{method} {route}")
        about = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        span.set_attributes(about | {"jobcast.request_id": request})
        if status >= 500:
            span.set_status(self._error)
        span.end()

    def close(self) -> None:
        self._provider.shutdown()


_PARENT: Final = ("traceparent", "tracestate")


def configured_tracing() -> Tracing | None:
    """Return the traces that the environment asks for; None if it names no endpoint."""
    endpoint = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise JobcastError(f"{endpoint} is set, but tracing is not installed: {missing(error)}") from error
    return Tracing(OTLPSpanExporter())
