"""Each request with an id, a line in the log where it was refused or failed, one in the audit log, a span (ASGI)."""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from predictors.service.api.admission import App, Message, Receive, Scope, Send
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import log, new_request_id, request_id
from predictors.service.operation.tracing import Tracing

ID_HEADER: Final = b"x-request-id"
_log: Final = logging.getLogger("jobcast.access")
_REFUSALS: Final = (401, 403, 408, 413, 429, 503)  # statuses that are logged; others are a client's own mistakes


class RequestLog:
    """ASGI middleware around all others.

    A handler, or a middleware within, leaves in the scope what is to be logged: `client_name` (the token's), `audit`
    (action and fields of what was changed), `audit_later` (a function; it calls the one that it is given with these
    when the change has been made after the answer), `status` (where the client left and no answer was sent). `record`
    is called with (route, status, seconds) of every request.
    """

    def __init__(
        self, app: App, audit: AuditLog, tracing: Tracing | None, record: Callable[[str, int, float], None]
    ) -> None:
        self._app, self._audit, self._tracing, self._record = app, audit, tracing, record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, begin = dict(scope["headers"]), time.perf_counter()
        found, status = new_request_id(headers.get(ID_HEADER)), 500
        id_of_answer, reason = (ID_HEADER, found.encode()), ""

        async def watched(message: Message) -> None:
            nonlocal status, reason
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), id_of_answer]
            elif status in _REFUSALS and not reason:
                reason = _reason(message.get("body", b""))
            await send(message)

        span = None if self._tracing is None else self._tracing.begin(scope["method"], headers)
        mark = request_id.set(found)
        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # a fault of ours: uvicorn answers 500, and the log says which request it was
            _log.error("A request failed: %s", type(error).__name__, exc_info=error)
            raise
        finally:
            status = int(scope.get("status", status))
            route = str(getattr(scope.get("route"), "path_format", "other"))
            self._record(route, status, time.perf_counter() - begin)
            self._tell(scope, route, status, reason)
            if span is not None and self._tracing is not None:
                self._tracing.end(span, scope["method"], route, status, found)
            request_id.reset(mark)

    def _tell(self, scope: Scope, route: str, status: int, reason: str) -> None:
        token, address = str(scope.get("client_name", "")), str((scope.get("client") or ("local",))[0])
        done: dict[str, Any] | None = scope.get("audit")
        if done is not None and status < 400:
            self._audit.write(token=token, address=address, **done)
        if (later := scope.get("audit_later")) is not None:
            later(lambda done: self._audit.write(token=token, address=address, answered=status, **done))
        if status not in _REFUSALS and status < 500:
            return
        if route == "/readyz":  # no refusal, but the answer to whether it is ready; the trouble itself is in the log
            return
        what = f"{scope['method']} {route}"
        log(
            _log, logging.WARNING, "Refused with %d: %s", status, reason, same=f"{status} {reason} {address}",
            request=what, token=token, address=address,
        )  # fmt: skip
        self._audit.refused(status, reason, token, address, what)


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
