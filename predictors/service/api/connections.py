"""Limits of connections: how many there are, of one address and in all, and how long each may take.

A TLS handshake, a head, a body and the reading of an answer have an end each. Connections that ask nothing make room
for new ones, so that no number of them keeps out a client that asks, or a load balancer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HANDSHAKE_SECONDS: Final = 10.0
"""Longest that a TLS handshake may take [s]."""
HEAD_SECONDS: Final = 10.0
"""Longest that the head of a request may take, from its first byte, or from the connection for the first one [s]."""
HEAD_BYTES: Final = 64 * 1024
"""Largest head of a request that arrives in more than one piece; the first piece is a quarter of a MiB at most."""
READ_SECONDS: Final = 30.0
"""Longest that a client may leave an answer lie before it reads on [s]."""

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


class _Host:
    """The connections of one address: those that never asked, those that rest between requests, those at work."""

    def __init__(self) -> None:
        self.silent: dict[LimitedConnection, None] = {}
        self.resting: dict[LimitedConnection, None] = {}
        self.working: dict[LimitedConnection, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.resting) + len(self.working)

    def remove(self, one: "LimitedConnection") -> bool:
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

    def admit(self, one: "LimitedConnection", address: str) -> bool:
        """Let a connection in, or not."""
        host = self._hosts.get(address, _Host())
        full = host if 2 * len(host) >= self._most else None
        if full is None and self._n >= self._most:
            full = max(self._hosts.values(), key=len)
        if full is not None:
            oldest = next(iter(full.silent or full.resting), None)
            if oldest is None:
                self._refused()
                return False
            self.leave(oldest, oldest.address)
            oldest.hang_up()
        self._hosts.setdefault(address, _Host()).silent[one] = None
        self._n += 1
        return True

    def at_work(self, one: "LimitedConnection", working: bool) -> None:
        """Note that a connection has asked, or has its answer."""
        host = self._hosts.get(one.address)
        if host is not None and host.remove(one):
            (host.working if working else host.resting)[one] = None

    def leave(self, one: "LimitedConnection", address: str) -> None:
        """Forget a connection that has ended."""
        host = self._hosts.get(address)
        if host is not None and host.remove(one):
            self._n -= 1
        if host is not None and not len(host):
            del self._hosts[address]


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on clients that send a head too slowly, or too large, or do not read."""

    among: Connections
    _heads = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        self._later = asyncio.get_running_loop().call_later
        self._unread: asyncio.TimerHandle | None = None
        self.address = str((transport.get_extra_info("peername") or ("local",))[0])
        super().connection_made(_Corked(transport))  # type: ignore[arg-type]
        self._begin_head()
        if not self.among.admit(self, self.address):
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
        self.among.leave(self, self.address)
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


class PatientLoop(uvloop.Loop):
    """The event loop of a server; a TLS handshake that is never finished ends."""

    async def create_server(self, *about: Any, **options: Any) -> Any:
        """Listen; see `asyncio.loop.create_server`."""
        if options.get("ssl") is not None:
            options.setdefault("ssl_handshake_timeout", HANDSHAKE_SECONDS)
        return await super().create_server(*about, **options)
