"""A server's life apart from its requests: it notifies systemd, feeds the watchdog, and reads files again at SIGHUP.

SIGHUP reads the file of tokens, the certificate and its key again, and opens the audit log again by its name. What
cannot be used stays as it was, and the log says why. In the foreground of a terminal SIGHUP means that the terminal is
gone: then the server ends as by SIGTERM.
"""

import asyncio
import logging
import signal
import ssl
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvicorn

from predictors.core.errors import JobcastError
from predictors.service.api.admission import AuthMiddleware, Limits, Token, is_loopback, read_tokens
from predictors.service.operation import systemd
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import log
from predictors.service.operation.tracing import Tracing
from predictors.service.state.service import Service

MOST_STUCK: Final = 60.0  # how long an event may wait until the watchdog starves and systemd restarts all [s]
_STARTING: Final = 60.0  # more seconds that systemd is asked for at each sign of life before the service is ready
_log: Final = logging.getLogger("jobcast.service")


class EarlyHangUps:
    """Keeps a SIGHUP that comes before the event loop runs and would end the process; files are read again later.

    In the foreground of a terminal it stays as it is: the terminal is gone.
    """

    def __init__(self) -> None:
        self.came = False
        if not _on_terminal() and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, *_: object) -> None:
        self.came = True


def _on_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def read_certificate(context: ssl.SSLContext | None, certificate: Path | None, key: Path | None) -> None:
    """Let a context, if there is one, show what a certificate's file holds now; what cannot be used changes nothing."""
    if context is None or certificate is None:
        return
    # first in another context: one that fails half-way would hold a certificate without its key
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    context.load_cert_chain(certificate, key)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Address, tokens, limits and TLS of a server; without tokens it listens to this machine alone."""

    # host, port: address; port 0 takes a free one
    host: str = "127.0.0.1"
    port: int = 8571
    tokens: tuple[Token, ...] = ()  # roles of clients; empty: every client may do everything, on loopback only
    limits: Limits = field(default_factory=Limits)  # how much a client may ask
    # certificate, key: for TLS
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None  # where the tokens were read, to be read again at SIGHUP
    audit_log: Path | None = None  # file that says who did what
    early: EarlyHangUps | None = None  # what keeps a SIGHUP until the server runs

    def __post_init__(self) -> None:
        if not self.tokens and not is_loopback(self.host):
            raise JobcastError(
                f"{self.host} can be reached from elsewhere: give --token-file (see `jobcast token`), or listen on "
                "127.0.0.1."
            )
        if (self.certificate is None) != (self.key is None):
            raise JobcastError("TLS needs both --tls-certificate and --tls-key.")


class Lifecycle:
    """What begins and ends with a server's event loop."""

    def __init__(
        self,
        service: Service,
        server: uvicorn.Server,
        listening: Listening,
        auth: AuthMiddleware,
        audit: AuditLog,
        tracing: Tracing | None,
    ) -> None:
        self._service, self._server, self._listening = service, server, listening
        self._auth, self._audit, self._tracing = auth, audit, tracing
        self._watching: asyncio.Task[None] | None = None
        self._on_terminal: Final = _on_terminal()

    async def start(self) -> None:
        """Begin, and the service with it, within the event loop."""
        self._service.start()
        self._audit.write("service started", model=self._service.identity.uri)
        self._service.on_change = self._model_changed
        self._watching = asyncio.create_task(self._watch())
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        if self._listening.early is not None and self._listening.early.came:
            self.reload()

    async def stop(self) -> None:
        """End, and the service with it; then write what is left."""
        systemd.notify(systemd.STOPPING)
        if threading.current_thread() is threading.main_thread():
            # one that comes while the service stops must not cut that short
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.to_thread(self._service.stop)
        self._audit.write("service stopped")
        await asyncio.to_thread(self._audit.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def reload(self) -> list[str]:
        """Read tokens and certificate again, open the audit log again; return what could not be used."""
        systemd.notify_reloading()
        failed = []
        for what, read in (("tokens", self._read_tokens), ("certificate", self._read_certificate)):
            try:
                read()
            except (JobcastError, OSError, ssl.SSLError) as error:
                failed.append(f"{what}: {error}")
                log(_log, logging.ERROR, "Not reloaded, what was read before stays: %s", error, file=what)
        self._audit.reopen()
        self._audit.write("files read again", failed=failed)
        if not failed:
            log(_log, logging.INFO, "Tokens, certificate and audit log were read again.")
        if self._service.ready:
            systemd.notify(systemd.READY)
        return failed

    def _hang_up(self) -> None:
        if self._on_terminal:
            self._server.should_exit = True
        else:
            self.reload()

    def _read_tokens(self) -> None:
        if self._listening.token_file is not None:
            self._auth.tokens = read_tokens(self._listening.token_file)

    def _read_certificate(self) -> None:
        read_certificate(self._server.config.ssl, self._listening.certificate, self._listening.key)

    def _model_changed(self, role: str, name: str, version: int | None, why: str) -> None:
        log(_log, logging.INFO, "%s version %s is now %s: %s", name, version, role, why)
        self._audit.write("model took a role", role=role, name=name, version=version, why=why)

    async def _watch(self) -> None:
        """Tell systemd when the service is ready, what troubles it, and that it lives."""
        within = systemd.watchdog_seconds()
        every = min(5.0, within / 3) if within else 5.0
        told_ready, status = False, ""
        while True:
            service = self._service
            if service.ready and not service.failed:
                now = "; ".join(service.health.troubles().values()) or "Serving predictions."
                if not told_ready or now != status:
                    systemd.notify(systemd.READY, f"STATUS={now}")
                    told_ready, status = True, now
            elif not service.failed:
                systemd.notify_starting("Rebuilding the state.", _STARTING)
            if within and service.writer.oldest_wait < MOST_STUCK:
                systemd.notify(systemd.ALIVE)
            await asyncio.sleep(every if told_ready else min(every, 0.25))
