"""Limits of connections: how many there are, of one address and in all, and how long each may take.

A TLS handshake, a head, a body and the reading of an answer have an end each. Connections that ask nothing make room
for new ones, so that no number of them keeps out a client that asks, or a load balancer.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from predictors.service.operation.logs import log

HANDSHAKE_SECONDS: Final = 10.0
"""Longest that a TLS handshake may take [s]."""
HEAD_SECONDS: Final = 10.0
"""Longest that the head of a request may take, from its first byte, or from the connection for the first one [s]."""
HEAD_BYTES: Final = 64 * 1024
"""Largest head of a request that arrives in more than one piece; the first piece is a quarter of a MiB at most."""
READ_SECONDS: Final = 30.0
"""Longest that a client may leave an answer lie before it reads on [s]."""

_AT_ONCE: Final = 100  # connections that are accepted before other work goes on
_log: Final = logging.getLogger("jobcast.access")
_NO_ROOM: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/json\r\n"
    b'content-length: 33\r\n\r\n{"error":"too many connections"}\n'
)


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


Counted: TypeAlias = "LimitedConnection | _Handshake"
"""A connection that the limits count."""


class _Host:
    """The connections of one address: those that never asked, those that rest between requests, those at work."""

    def __init__(self) -> None:
        self.silent: dict[Counted, None] = {}
        self.resting: dict[Counted, None] = {}
        self.working: dict[Counted, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.resting) + len(self.working)

    def remove(self, one: Counted) -> bool:
        """Forget a connection; return whether it was there."""
        found = [place.pop(one, one) is None for place in (self.silent, self.resting, self.working)]
        return any(found)


class Connections:
    """The open connections of a server, half of them of one address at most.

    A new one is let in at the cost of the one of its address (or of the address that has most) that has asked nothing
    for longest; those that never asked go first. It is refused only where all are at work.

    Parameters
    ----------
    most : int
        Connections at once.
    refused : callable
        Called for each connection that is refused.
    """

    def __init__(self, most: int, refused: Callable[[], None]) -> None:
        self._most, self._refused = most, refused
        self._hosts: dict[str, _Host] = {}
        self._n = 0

    def admit(self, one: Counted) -> bool:
        """Let a connection in, or not."""
        host = self._hosts.get(one.address, _Host())
        full = host if 2 * len(host) >= self._most else None
        if full is None and self._n >= self._most:
            full = max(self._hosts.values(), key=len)
        if full is not None:
            oldest = next(iter(full.silent or full.resting), None)
            if oldest is None:
                self._refused()
                return False
            self.leave(oldest)
            oldest.hang_up()
        self._hosts.setdefault(one.address, _Host()).silent[one] = None
        self._n += 1
        return True

    def at_work(self, one: Counted, working: bool) -> None:
        """Note that a connection has asked, or has its answer."""
        host = self._hosts.get(one.address)
        if host is not None and host.remove(one):
            (host.working if working else host.resting)[one] = None

    def leave(self, one: Counted) -> None:
        """Forget a connection that has ended."""
        host = self._hosts.get(one.address)
        if host is not None and host.remove(one):
            self._n -= 1
        if host is not None and not len(host):
            del self._hosts[one.address]


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on clients that send a head too slowly, or too large, or do not read."""

    among: Connections
    handshake: "_Handshake | None" = None
    _heads = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        self._later = asyncio.get_running_loop().call_later
        self._unread: asyncio.TimerHandle | None = None
        self.address = str((transport.get_extra_info("peername") or ("local",))[0])
        if self.handshake is not None:
            self.among.leave(self.handshake)
        super().connection_made(_Corked(transport))  # type: ignore[arg-type]
        self._begin_head()
        if not self.among.admit(self):
            self.transport.write(_NO_ROOM)
            self.hang_up()

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is whole."""
        begun = self._heads
        super().data_received(data)
        if self._in_head and begun == self._heads:  # else it began within this piece, after whole requests
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.hang_up()

    def on_message_begin(self) -> None:
        """Wait for the head of the next request."""
        self._patience.cancel()
        self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the timer; the body is limited by the middleware."""
        self._in_head = False
        self._patience.cancel()
        self.among.at_work(self, True)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Rest until the next request, unless it came already."""
        self.among.at_work(self, bool(self.pipeline))
        super().on_response_complete()

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
        self.among.leave(self)
        super().connection_lost(exc)

    def _begin_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._heads += 1
        self._patience = self._later(HEAD_SECONDS, self.hang_up)

    def hang_up(self) -> None:
        """Close the connection, unless that is under way."""
        if not self.transport.is_closing():
            self.transport.close()


def limited(among: Connections) -> type[LimitedConnection]:
    """Return the protocol of a server with these connections."""
    return type("LimitedConnectionOfServer", (LimitedConnection,), {"among": among})


class _Handshake:
    """A connection whose TLS handshake is under way."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.task: asyncio.Task[Any] | None = None

    def hang_up(self) -> None:
        if self.task is not None:
            self.task.cancel()


class TlsListener:
    """Accepts connections and shakes hands with them; one that has not done so counts in the limits like any other.

    An event loop's own server knows a connection only from the end of its handshake on, so that it could neither count
    those before, nor make room.

    Parameters
    ----------
    loop : uvloop.Loop
        Of the server.
    made_protocol : callable
        Makes the protocol of one connection.
    opened : socket
        Bound to the address; the listener closes it.
    context : ssl.SSLContext
        Of the server.
    backlog : int
        Connections that wait to be accepted.
    """

    def __init__(
        self,
        loop: uvloop.Loop,
        made_protocol: Callable[[], LimitedConnection],
        opened: socket.socket,
        context: ssl.SSLContext,
        backlog: int,
    ) -> None:
        self._loop, self._made_protocol, self._socket, self._context = loop, made_protocol, opened, context
        self._handshakes: set[_Handshake] = set()
        self._again: asyncio.TimerHandle | None = None
        opened.setblocking(False)
        opened.listen(backlog)
        loop.add_reader(opened, self._accept)

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way."""
        self._loop.remove_reader(self._socket)
        if self._again is not None:
            self._again.cancel()
        self._socket.close()
        for one in self._handshakes:
            one.hang_up()

    async def wait_closed(self) -> None:
        """Wait until the handshakes have ended."""
        await asyncio.gather(*(one.task for one in self._handshakes if one.task), return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors left, say
                log(_log, logging.ERROR, "No connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(self._socket)
                self._again = self._loop.call_later(1.0, self._loop.add_reader, self._socket, self._accept)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = self._made_protocol()
            protocol.handshake = one = _Handshake(str(peer[0]))
            if protocol.among.admit(one):
                self._handshakes.add(one)
                shaking = self._loop.connect_accepted_socket(
                    partial(_itself, protocol), connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
                one.task = self._loop.create_task(shaking)
                one.task.add_done_callback(partial(self._shaken, one, protocol.among, connection))
            else:
                connection.close()

    def _shaken(
        self, one: _Handshake, among: Connections, connection: socket.socket, task: "asyncio.Task[Any]"
    ) -> None:
        if task.cancelled() or task.exception() is not None:  # another has taken its place; or the client failed
            connection.close()
        among.leave(one)
        self._handshakes.discard(one)


def _itself(protocol: LimitedConnection) -> LimitedConnection:
    return protocol


class PatientLoop(uvloop.Loop):
    """The event loop of a server; TLS handshakes are counted, and one that is never finished ends."""

    async def create_server(self, *about: Any, **options: Any) -> Any:
        """Listen; see `asyncio.loop.create_server`."""
        if options.get("ssl") is None:
            return await super().create_server(*about, **options)
        return TlsListener(self, about[0], options["sock"], options["ssl"], options.get("backlog", 100))
