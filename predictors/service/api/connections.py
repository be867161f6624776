"""Limits of connections: how many there are, of one address and in all, how long each may take, what it may send.

A TLS handshake, a head, a body and the reading of an answer have an end each. Idle connections are closed first, so
they cannot starve active clients.
"""

import asyncio
import json
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import uvloop
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from predictors.service.operation.logs import log

HANDSHAKE_SECONDS: Final = 10.0  # longest that a TLS handshake may take [s]
HEAD_SECONDS: Final = 10.0  # longest for the head of a request, from its first byte or the first connection [s]
READ_SECONDS: Final = 30.0  # longest that a client may leave an answer lie before it reads on [s]
HEAD_BYTES: Final = 64 * 1024  # largest head of a request
MOST_HEADERS: Final = 100  # headers of a request
LARGE_HEAD: Final = 431, f"a head has at most {HEAD_BYTES} bytes and {MOST_HEADERS} headers"
"""Status and reason of the answer to a head that is too large."""
MOST_PARTS: Final = 1000  # headers, trailers and chunks of a request that are read; 64 bytes of body add one
MOST_WAITING: Final = 100  # requests of a connection that may wait for the answers before them
FRAMING_BYTES: Final = 256 * 1024  # most beyond the body: head, chunk sizes, trailers; plus an eighth of it

_SILENT, _RESTING, _WORKING = range(3)  # never asked, asked before, at work: the order in which they make room
_AT_ONCE: Final = 10  # connections that are accepted before other work goes on: 2 ms
_log: Final = logging.getLogger("jobcast.access")


def _last_answer(status: int, reason: str, *headers: str) -> bytes:
    """Return an answer after which the connection ends; no request of the application stands behind it."""
    body = json.dumps({"error": reason})
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "connection: close", "content-type: application/json",
        f"content-length: {len(body)}", *headers, "", body,
    )  # fmt: skip
    return "\r\n".join(lines).encode()


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
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Flow(FlowControl):
    """Reads no further while requests of the connection wait for their turn."""

    def __init__(self, transport: Any, waiting: deque[Any]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class Connections:
    """The open connections of a server, half of them of one address at most.

    A new one is let in at the cost of the one of its address (or of the address that has most) that has asked nothing
    for longest; those that never asked go first. It is refused only where all of that address are at work.
    """

    def __init__(
        self,
        most: int,  # connections at once
        refused: Callable[[], None],  # called for each connection that is refused
    ) -> None:
        self._most, self._refused = most, refused
        self._hosts: dict[str, dict[LimitedConnection, int]] = {}  # what each does, the last to change at the end
        self._n = 0

    def admit(self, one: "LimitedConnection") -> bool:
        host = self._hosts.get(one.address, {})
        full = host if 2 * len(host) >= self._most else None
        if (full is not None or self._n >= self._most) and not self.make_room(full):
            self._refused()
            return False
        self._hosts.setdefault(one.address, {})[one] = _SILENT
        self._n += 1
        return True

    def make_room(self, host: "dict[LimitedConnection, int] | None" = None) -> bool:
        """Close the connection that is idle for longest, of one address or of the one that has most; return whether."""
        if host is None:
            host = max(self._hosts.values(), key=len, default={})
        oldest = min((one for one, does in host.items() if does != _WORKING), key=host.__getitem__, default=None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.hang_up()
        return True

    def at_work(self, one: "LimitedConnection", working: bool) -> None:
        """Note that a connection has asked, or has its answer."""
        host = self._hosts.get(one.address, {})
        if host.pop(one, None) is not None:
            host[one] = _WORKING if working else _RESTING

    def leave(self, one: "LimitedConnection") -> None:
        """Forget a connection that has ended."""
        host = self._hosts.get(one.address, {})
        if host.pop(one, None) is not None:
            self._n -= 1
            if not host:
                del self._hosts[one.address]


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on clients that send too slowly, too much before an answer, or do not read."""

    among: Connections
    address = "local"
    url = b""
    accepted: "asyncio.Task[Any]"  # ends when the connection is made

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head, unless another took its place since it was accepted."""
        if self.accepted.cancelling():
            transport.abort()
            return
        self._later = asyncio.get_running_loop().call_later
        self._unread: asyncio.TimerHandle | None = None
        super().connection_made(_Corked(transport))  # type: ignore[arg-type]
        self.flow = _Flow(self.transport, self.pipeline)
        self._patience = self._later(HEAD_SECONDS, self.hang_up)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Count what is no body; what came before a head began in this piece does not count."""
        if self.timeout_keep_alive_task is not None and not self.cycle.more_body:  # the rest ends, if by a blank line
            self._wait_for_head()
        self._framing += len(data)
        super().data_received(data)
        if self._framing > FRAMING_BYTES:
            self._refuse("a request is too large, its body apart")

    def on_message_begin(self) -> None:
        """Wait for the head of the next request."""
        self._begin_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer could stand in for one, so none is kept."""
        self._count(1)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer; the body is limited by the middleware."""
        self._in_head = False
        self._patience.cancel()
        self.among.at_work(self, True)
        super().on_headers_complete()
        if len(self.pipeline) > MOST_WAITING:
            self._refuse("too many requests wait for the answers before them")
            raise ConnectionAbortedError  # the rest of the piece is not read

    def on_body(self, body: bytes) -> None:
        """Take a chunk, or a piece of a body without chunks."""
        self._framing -= len(body) + len(body) // 8
        self._count(1 - len(body) / 64)
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Rest until the next request, unless it came already; the body of the answered one may have to end first."""
        self.among.at_work(self, bool(self.pipeline))
        super().on_response_complete()
        if not self.pipeline and self.cycle.more_body:
            self._wait_for_head()

    def send_400_response(self, _: str) -> None:
        """Refuse what the parser cannot read."""
        large = len(self.url) >= HEAD_BYTES - 1  # it reads no longer address
        self.transport.write(
            _last_answer(*(LARGE_HEAD if large else (400, "this is no request of HTTP/1.0 or HTTP/1.1")))
        )
        self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked in full by a client that has closed its side, and hang up then."""
        under_way = self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)
        if under_way:
            self.cycle.keep_alive = False
        return under_way and self.scheme == "http"  # TLS knows no half of a connection

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
        if self.transport is None:
            return
        self._patience.cancel()
        if self._unread is not None:
            self._unread.cancel()
        self.among.leave(self)
        super().connection_lost(exc)

    def _count(self, parts: float) -> None:
        self._parts += parts
        if self._parts > MOST_PARTS:
            self._refuse("a request has too many headers or chunks")
            raise ConnectionAbortedError

    def _begin_head(self) -> None:
        self._in_head, self._framing, self._parts = True, 0, 0.0
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._patience.cancel()
        self._patience = self._later(HEAD_SECONDS, self.hang_up)

    def _refuse(self, why: str) -> None:
        log(_log, logging.WARNING, "A connection was closed: %s", why, same=why, address=self.address)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection; an answer that the client has not read by then is not sent."""
        if self.transport is None:
            self.accepted.cancel()
        elif self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()


def limited(among: Connections) -> type[LimitedConnection]:
    """Return the protocol of a server with these connections."""
    return type("LimitedConnectionOfServer", (LimitedConnection,), {"among": among})


class _Listener:
    """Accepts connections; each counts in the limits from then on, while its TLS handshake is under way, too.

    An event loop's own server knows a connection only from the end of its handshake on, and says nothing when file
    descriptors run out.
    """

    def __init__(
        self,
        loop: uvloop.Loop,
        made_protocol: Callable[[], LimitedConnection],
        opened: socket.socket,
        context: ssl.SSLContext | None,
        backlog: int,
    ) -> None:
        self._loop, self._made_protocol, self._socket = loop, made_protocol, opened
        self._options: dict[str, Any] = {"ssl": context}
        if context is not None:
            self._options["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        self._under_way: set[asyncio.Task[Any]] = set()
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
        for task in self._under_way:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the handshakes have ended."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            protocol = self._made_protocol()
            try:
                connection, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors left, say
                log(_log, logging.ERROR, "No connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(self._socket)
                wait = 0.01 if protocol.among.make_room() else 1.0
                self._again = self._loop.call_later(wait, self._loop.add_reader, self._socket, self._accept)
                return
            protocol.address = str(peer[0])
            self._take(connection, protocol)

    def _take(self, connection: socket.socket, protocol: LimitedConnection) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if protocol.among.admit(protocol):
            made = self._loop.connect_accepted_socket(lambda: protocol, connection, **self._options)
            protocol.accepted = self._loop.create_task(made)
            self._under_way.add(protocol.accepted)
            protocol.accepted.add_done_callback(partial(self._made, protocol, connection))
        else:
            with suppress(OSError):
                if self._options["ssl"] is None:
                    connection.send(_last_answer(503, "too many connections", "retry-after: 1"))
            connection.close()

    def _made(self, protocol: LimitedConnection, connection: socket.socket, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        if task.cancelled() or task.exception() is not None:  # another has taken its place; or the client failed
            protocol.among.leave(protocol)
            connection.close()


class PatientLoop(uvloop.Loop):
    """The event loop of a server, which counts connections from the moment that it accepts them."""

    async def create_server(self, *about: Any, **options: Any) -> Any:
        """Listen; see `asyncio.loop.create_server`."""
        return _Listener(self, about[0], options["sock"], options.get("ssl"), options.get("backlog", 100))
