"""The server: uvicorn in one process, with connection limits."""

import gc
import logging
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn

from predictors.core.errors import JobcastError
from predictors.service.api.admission import App, AuthMiddleware
from predictors.service.api.app import Api, make_app
from predictors.service.api.connections import Connections, PatientLoop, limited
from predictors.service.api.lifecycle import Lifecycle, Listening
from predictors.service.api.request_log import RequestLog
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import throttle
from predictors.service.operation.tracing import configured_tracing
from predictors.service.storage.database import shown

CONNECTIONS: Final = 4  # connections for each request in work at once; beyond, idle ones make room
_SWITCH: Final = 0.0005  # Python's threads switch this often, so that learning does not hold up answers [s]
_GARBAGE: Final = (2_000, 20, 100)  # young, middle, old: a look at the young takes 2 ms; little of it is in cycles


def serve(api: Api, listening: Listening) -> None:
    """Serve until a signal stops it; then finish what was acknowledged. Errors are those of `made_server`."""
    quicken()
    api.service.on_ready = freeze_long_lived
    server, opened = made_server(api, listening)
    host, port = opened.getsockname()[:2]
    scheme = "https" if listening.certificate else "http"
    logging.getLogger("jobcast.service").info(
        "jobcast serves on %s://%s:%s, database %s", scheme, host, port, shown(str(api.service.settings.db))
    )
    server.run(sockets=[opened])
    if api.service.failed is not None:
        raise JobcastError(api.service.failed)


def quicken() -> None:
    """Let threads switch often."""
    sys.setswitchinterval(_SWITCH)


def made_server(api: Api, listening: Listening) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that has not begun, and the socket that it is to listen on."""
    audit, tracing = AuditLog(listening.audit_log), configured_tracing()
    opened = bound(listening.host, listening.port)
    auth = AuthMiddleware(make_app(api), listening.tokens, listening.limits)
    app = RequestLog(auth, audit, tracing, api.metrics.request)
    config = configuration(app, listening, lambda: api.metrics.request("other", 503, 0.0))
    throttle("uvicorn.error", "jobcast.access", "jobcast.audit")
    server = uvicorn.Server(config)
    api.service.on_failure = lambda: setattr(server, "should_exit", True)
    api.page.stopping = lambda: server.should_exit
    api.metrics.connections = lambda: len(server.server_state.connections)
    api.metrics.audit_dropped = lambda: audit.dropped
    api.lifecycle = Lifecycle(api.service, server, listening, auth, audit, tracing)
    return server, opened


def configuration(app: App, listening: Listening, refused: Callable[[], None]) -> uvicorn.Config:
    """Return the configuration of a server; `refused` is called for each connection that finds no room."""
    most = CONNECTIONS * listening.limits.at_once
    return uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        loop=f"{PatientLoop.__module__}:{PatientLoop.__name__}",
        http=limited(Connections(most, refused)),
        ws="none",
        lifespan="on",
        log_config=None,  # the service's own handlers stay
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=10,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.socket(family)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
    except OSError as error:
        raise JobcastError(f"{host}:{port}: cannot be listened on ({error.strerror}); is it taken?") from None
    return opened


def freeze_long_lived() -> None:
    """Exclude long-lived objects from garbage collection: looking through all of them takes a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
