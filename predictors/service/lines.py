"""How is a connection treated? Answers leave in one piece; those that dawdle are hung up on."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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


class Prompt(HttpToolsProtocol):
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
        """Wait no more; the body is the guard's matter."""
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
