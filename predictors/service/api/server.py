"""The server: uvicorn in one process, with connection limits."""

import asyncio
import gc
import ipaddress
import logging
import socket
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from predictors.core.errors import JobcastError
from predictors.history.history import LateEventWarning
from predictors.service.api.access import RequestLog
from predictors.service.api.app import Api, make_app
from predictors.service.api.auth import AuthMiddleware, Limits, Token
from predictors.service.api.lifecycle import Lifecycle
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import throttle
from predictors.service.operation.tracing import Tracing, configured_tracing
from predictors.service.storage.database import shown


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Address, tokens, limits and TLS of a server.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one.
    tokens : tuple of Token
        Roles of clients; empty: every client may do everything, on loopback only.
    limits : Limits
        How much a client may ask.
    certificate, key : Path or None
        For TLS.
    token_file : Path or None
        Where the tokens were read, to be read anew at SIGHUP.
    audit_log : Path or None
        File that says who did what.
    tracing : Tracing or None
        Spans of requests; None: as the environment asks for.

    Raises
    ------
    JobcastError
        If there are no tokens though others than this machine can connect, or a key is missing.
    """

    host: str = "127.0.0.1"
    port: int = 8571
    tokens: tuple[Token, ...] = ()
    limits: Limits = field(default_factory=Limits)
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    audit_log: Path | None = None
    tracing: Tracing | None = None

    def __post_init__(self) -> None:
        if not self.tokens and not is_loopback(self.host):
            raise JobcastError(
                f"{self.host} can be reached from elsewhere: give --token-file (see `jobcast token`), or listen on "
                "127.0.0.1."
            )
        if (self.certificate is None) != (self.key is None):
            raise JobcastError("TLS needs both --tls-certificate and --tls-key.")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "head-node")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


HEAD_SECONDS: Final = 10.0
"""Longest that the head of a request may take, from its first byte, or from the connection for the first one [s]."""
HEAD_BYTES: Final = 64 * 1024
"""Largest head of a request that arrives in more than one piece; the first piece is a quarter of a MiB at most."""
READ_SECONDS: Final = 30.0
"""Longest that a client may leave an answer lie before it reads on [s]."""


class _Corked:
    """A transport that sends in one piece what is written in one turn of the event loop: head and body of an answer."""

    def __init__(self, transport: Any) -> None:
        self._transport: Final = transport
        self._parts: list[bytes] = []
        self._soon: Final = asyncio.get_running_loop().call_soon

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on clients that send a head too slowly, or too large, or do not read."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        self._later = asyncio.get_running_loop().call_later
        self._unread: asyncio.TimerHandle | None = None
        super().connection_made(_Corked(transport))  # type: ignore[arg-type]
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is whole."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._hang_up()

    def on_message_begin(self) -> None:
        """Wait for the head of the next request."""
        self._patience.cancel()
        self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the timer; the body is limited by the middleware."""
        self._in_head = False
        self._patience.cancel()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._unread = self._later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Wait no more."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._patience.cancel()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def _begin_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._patience = self._later(HEAD_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


CONNECTIONS: Final = 4
"""Connections for each request that may be in work at once; more are answered 503 and hung up on."""
_SWITCH: Final = 0.0005  # Python's threads switch this often, so that learning does not hold up answers [s]
_GARBAGE: Final = (2_000, 20, 100)  # young, middle, old: a look at the young takes 2 ms; little of it is in cycles


def serve(api: Api, listening: Listening) -> None:
    """Serve until a signal stops it; then finish what was acknowledged.

    Raises
    ------
    JobcastError
        If the address cannot be used.
    """
    sys.setswitchinterval(_SWITCH)
    warnings.simplefilter("ignore", LateEventWarning)  # a metric counts them
    api.service.on_ready = _freeze_long_lived
    server, opened = made_server(api, listening)
    host, port = opened.getsockname()[:2]
    scheme = "https" if listening.certificate else "http"
    logging.getLogger("jobcast.service").info(
        "jobcast serves on %s://%s:%s, database %s", scheme, host, port, shown(str(api.service.settings.db))
    )
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
    audit, tracing = AuditLog(listening.audit_log), listening.tracing or configured_tracing()
    auth = AuthMiddleware(make_app(api), listening.tokens, listening.limits, api.metrics.request)
    app = RequestLog(auth, audit, tracing)
    config = uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=LimitedConnection,
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
    throttle("uvicorn.error", "jobcast.access", "jobcast.audit")
    server = uvicorn.Server(config)
    api.service.on_failure = lambda: setattr(server, "should_exit", True)
    api.page.stopping = lambda: server.should_exit
    api.metrics.connections = lambda: len(server.server_state.connections)
    api.metrics.audit_dropped = lambda: audit.dropped
    api.lifecycle = Lifecycle(
        api.service,
        auth,
        audit,
        tracing,
        token_file=listening.token_file,
        certificate=listening.certificate,
        key=listening.key,
        context=lambda: config.ssl,
        leave=api.service.on_failure,
    )
    try:
        return server, config.bind_socket()
    except SystemExit:
        raise JobcastError(f"{listening.host}:{listening.port}: cannot be listened on; is it taken?") from None


def _freeze_long_lived() -> None:
    """Exclude long-lived objects from garbage collection: looking through all of them takes a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
