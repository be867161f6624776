"""How does the service listen? uvicorn on uvloop and httptools, one process, with the guard in front."""

import asyncio
import ipaddress
import socket
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from predictors.data.errors import JobcastError
from predictors.history import LateEventWarning
from predictors.service.app import Api, make_app
from predictors.service.guard import Guard, Limits
from predictors.service.tokens import Token

HEADER_SECONDS: Final = 10.0
"""Longest that a connection may take to begin its first request [s]."""
_SWITCH: Final = 0.0005  # Python's threads take turns this often, so that lessons do not hold up answers [s]


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where, and for whom.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one.
    tokens : tuple of Token
        Who may do what; empty: everyone everything, on loopback only.
    limits : Limits
        How much a client may ask.
    certificate, key : Path or None
        For TLS.

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


class _Prompt(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on those that connect and then say nothing, or say it too slowly."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._patience = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if self.transport is not None and self.cycle is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)


def serve(api: Api, listening: Listening) -> None:
    """Serve until told to stop by a signal; then finish what was acknowledged.

    Raises
    ------
    JobcastError
        If the address cannot be used.
    """
    sys.setswitchinterval(_SWITCH)
    warnings.simplefilter("ignore", LateEventWarning)  # a metric counts them
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
    config = uvicorn.Config(
        Guard(make_app(api), listening.tokens, listening.limits, api.metrics.request),
        host=listening.host,
        port=listening.port,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=_Prompt,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=10,
        limit_concurrency=4 * listening.limits.at_once,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    server = uvicorn.Server(config)
    api.service.on_failure = lambda: setattr(server, "should_exit", True)
    try:
        return server, config.bind_socket()
    except SystemExit:
        raise JobcastError(f"{listening.host}:{listening.port}: cannot be listened on; is it taken?") from None
