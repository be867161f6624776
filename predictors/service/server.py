"""How does the service listen? uvicorn on uvloop and httptools, one process, with the guard in front."""

import gc
import logging
import socket
import sys
import warnings
from typing import Final

import uvicorn

from predictors.data.errors import JobcastError
from predictors.history import LateEventWarning
from predictors.service.app import Api, make_app
from predictors.service.guard import Guard
from predictors.service.lines import Prompt
from predictors.service.listening import Listening
from predictors.service.shortcut import Shortcut
from predictors.service.sparing import Sparing

CONNECTIONS: Final = 4
"""Connections for each request that may be in work at once; more are answered 503 and hung up on."""
_SWITCH: Final = 0.0005  # Python's threads take turns this often, so that lessons do not hold up answers [s]
_GARBAGE: Final = (2_000, 20, 100)  # young, middle, old: a look at the young takes 2 ms; little of it is in cycles


def serve(api: Api, listening: Listening) -> None:
    """Serve until told to stop by a signal; then finish what was acknowledged.

    Raises
    ------
    JobcastError
        If the address cannot be used.
    """
    sys.setswitchinterval(_SWITCH)
    warnings.simplefilter("ignore", LateEventWarning)  # a metric counts them
    api.service.on_ready = _spare_the_living
    server, opened = made_server(api, listening)
    host, port = opened.getsockname()[:2]
    scheme = "https" if listening.certificate else "http"
    sys.stderr.write(f"jobcast serves on {scheme}://{host}:{port}, database {api.service.store.engine.url!r}\n")
    sys.stderr.flush()
    server.run(sockets=[opened])
    if api.service.failed is not None:
        raise JobcastError(api.service.failed)


def made_server(api: Api, listening: Listening) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that has not begun, and the socket that it is to listen on.

    Raises
    ------
    JobcastError
        If the address cannot be used.
    """
    busy = {("POST", "/v1/predictions/runtime"): api.runtime.runtime, ("POST", "/v1/events"): api.events.events}
    guard = Guard(Shortcut(make_app(api), busy), listening.tokens, listening.limits, api.metrics.request)
    config = uvicorn.Config(
        guard,
        host=listening.host,
        port=listening.port,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=Prompt,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=10,
        limit_concurrency=CONNECTIONS * listening.limits.at_once,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    logging.getLogger("uvicorn.error").addFilter(Sparing())
    server = uvicorn.Server(config)
    api.service.on_failure = lambda: setattr(server, "should_exit", True)
    try:
        return server, config.bind_socket()
    except SystemExit:
        raise JobcastError(f"{listening.host}:{listening.port}: cannot be listened on; is it taken?") from None


def _spare_the_living() -> None:
    """Let the garbage collector forget what has come to stay: looking through all of it takes a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
