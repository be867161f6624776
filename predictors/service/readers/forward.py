"""Forwarding: a reader hands to the owner what is not its to answer, over a socket that only this service can open.

The owner judges a request that was handed on by its own rules: token, rate, size. Only the client's address comes with
it, and whether the reader has taken it from the client's rate already.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from predictors.service.api.auth import App, Message, Receive, Scope, Send
from predictors.service.api.errors import Refusal, refused

CLIENT: Final = b"x-jobcast-client"
COUNTED: Final = b"x-jobcast-counted"
PATIENCE: Final = 20.0
"""Longest wait for the owner to begin an answer; its own waits end earlier [s]."""
_OWN: Final = (b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"expect", CLIENT, COUNTED)
"""Headers of one connection, and ours: they are not handed on as they came."""
_LINGER: Final = 5.0  # for the rest of a body that was refused [s]
_PIECE: Final = 64 * 1024


class Owner:
    """ASGI application that lets the owner answer.

    Parameters
    ----------
    path : Path
        The owner's socket.
    """

    def __init__(self, path: Path) -> None:
        self._path: Final = str(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, body: bytes | None = None) -> None:
        """Hand a request on, and its answer back; `body` where it was read, and counted, already."""
        answer = _Answer(send, scope["method"] == "HEAD")
        try:
            async with asyncio.timeout(PATIENCE) as patience:
                reader, writer = await asyncio.open_unix_connection(self._path)
                asking = asyncio.create_task(_asked(writer, scope, receive, body, sent := asyncio.Event()))
                try:
                    while not answer.whole:
                        data = await reader.read(_PIECE)
                        if not data and asking.done():  # the client has left
                            return
                        if not data:
                            raise ConnectionResetError("the owner hung up")
                        await answer.feed(data)
                        if answer.begun:
                            patience.reschedule(None)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LINGER):
                            await sent.wait()
                    await send({"type": "http.response.body", "body": b""})
                finally:
                    asking.cancel()
                    writer.close()
        except (OSError, TimeoutError, httptools.HttpParserError):
            if answer.begun:
                raise
            await refused(Refusal(503, "the service begins anew; ask again", 1))(scope, receive, send)


async def _asked(
    writer: asyncio.StreamWriter, scope: Scope, receive: Receive, body: bytes | None, sent: asyncio.Event
) -> None:
    """Write a request; then wait until its client leaves, and end the connection."""
    target = scope.get("raw_path") or quote(scope["path"]).encode()
    if scope.get("query_string"):
        target += b"?" + scope["query_string"]
    client = str((scope.get("client") or ("local",))[0]).encode()
    headers = [(name, value) for name, value in scope["headers"] if name not in _OWN]
    headers += [(CLIENT, client), (b"connection", b"close")]
    # of any method: a body whose length is not told would be the next request, with headers that its client chose
    chunked = body is None and any(name == b"transfer-encoding" for name, _ in scope["headers"])
    if body is not None:
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        headers += [(b"content-length", b"%d" % len(body)), (COUNTED, b"1")]
    headers += [(b"transfer-encoding", b"chunked")] * chunked
    head = b"".join(b"%b: %b\r\n" % one for one in headers)
    with suppress(OSError):
        writer.write(b"%b %b HTTP/1.1\r\n%b\r\n" % (scope["method"].encode(), target, head) + (body or b""))
    more = body is None
    while more:  # to its end, though the owner may have refused it: the client would see a reset, and no answer
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        piece, more = message.get("body", b""), message.get("more_body", False)
        with suppress(OSError):
            writer.write((b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"") if chunked else piece)
            writer.write(b"0\r\n\r\n" if chunked and not more else b"")
            await writer.drain()
    sent.set()
    while (await receive())["type"] != "http.disconnect":
        pass
    writer.transport.abort()


class _Answer:
    """The owner's answer, passed on as it comes."""

    def __init__(self, send: Send, is_head: bool) -> None:
        self._send, self._is_head = send, is_head
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._messages: list[Message] = []
        self.begun = self.whole = False

    async def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)
        messages, self._messages = self._messages, []
        for message in messages:
            self.begun = True
            await self._send(message)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in _OWN:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in (408, 413):  # the rest of the body is not waited for
            self._headers.append((b"connection", b"close"))
        self._messages.append({"type": "http.response.start", "status": status, "headers": self._headers})
        if self._is_head:
            self.on_message_complete()

    def on_body(self, data: bytes) -> None:
        self._messages.append({"type": "http.response.body", "body": data, "more_body": True})

    def on_message_complete(self) -> None:
        self.whole = True


def _handed(app: App) -> App:
    """Return an application for what readers hand on: the client's address is the one that they tell."""

    async def handed(scope: Scope, receive: Receive, send: Send) -> None:
        told = dict(scope["headers"])
        scope["client"] = (told.get(CLIENT, b"local").decode("latin-1"), 0)
        scope["counted"] = COUNTED in told
        scope["headers"] = [one for one in scope["headers"] if one[0] not in (CLIENT, COUNTED)]
        await app(scope, receive, send)

    return handed


async def listening(app: App, path: Path) -> asyncio.Server:
    """Return a server, on a socket that only this user can open, for what readers hand on."""
    config = uvicorn.Config(
        _handed(app), lifespan="off", log_config=None, access_log=False, server_header=False, date_header=False,
        proxy_headers=False,
    )  # fmt: skip
    config.load()
    state = ServerState()

    def made() -> HttpToolsProtocol:
        return HttpToolsProtocol(config=config, server_state=state, app_state={})

    return await asyncio.get_running_loop().create_unix_server(made, path)
