"""Routes of the page: the page itself, its style and script, its updates as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from predictors.service.page.overview import Collector
from predictors.service.page.render import Renderer, State
from predictors.service.state.jobs import StartTimes
from predictors.service.state.service import Service

MOST_WATCHING: Final = 16  # pages that receive changes at once; others are loaded again every minute
EVERY: Final = 2.0  # seconds between two looks at what has changed
_HEARTBEAT: Final = 15.0  # a proxy hangs up on a connection that says nothing
_LEAVES: Final = 0.25  # how soon a connection ends when the server does

HEADERS: Final = {  # of every answer of the page: nothing is loaded from elsewhere, no script or style is inline
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#3f51b5"/>'
    '<path d="M3 11h3V7h3V5h4" fill="none" stroke="#fff" stroke-width="1.8"/></svg>'
)
FILES: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


class _Watched(StreamingResponse):
    """A stream that tells when it has ended, even if it never began."""

    def __init__(self, content: AsyncIterator[str], left: Callable[[], None], **about: Any) -> None:
        super().__init__(content, **about)
        self._left: Final = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


class PageRoutes:
    """Handlers of the page."""

    def __init__(self, service: Service, starts: StartTimes | None) -> None:
        self._collector: Final = Collector(service, starts)
        self._renderer: Final = Renderer()
        self._rendering: Final = asyncio.Lock()
        self._watching = 0
        # returns whether the server ends: then pages receive no more changes
        self.stopping: Callable[[], bool] = lambda: False
        folder = Path(__file__).parent
        self._files: Final = {
            name: _ICON.encode() if name == "icon.svg" else (folder / name).read_bytes() for name in FILES
        }

    async def page(self, _: Request) -> Response:
        """Show what the service does now, for people; where there are tokens, one is the password."""
        state = await self._state()
        async with self._rendering:
            text = await asyncio.to_thread(self._renderer.page, state)
        return Response(text, media_type="text/html", headers=HEADERS)

    async def file(self, request: Request) -> Response:
        """Return the style or the script of the page."""
        name = request.path_params["name"]
        if name not in FILES:
            return Response(b'{"error":"not found"}', 404, media_type="application/json", headers=HEADERS)
        return Response(self._files[name], media_type=FILES[name], headers=HEADERS)

    async def events(self, request: Request) -> Response:
        """Tell a page what changes on it, as server-sent events."""
        if self._watching >= MOST_WATCHING:
            return Response(b'{"error":"too many pages are watching"}', 503, media_type="application/json",
                            headers={**HEADERS, "Retry-After": "60"})  # fmt: skip
        given = request.headers.get("last-event-id") or request.query_params.get("from", "")
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 12 else 0
        self._watching += 1  # now: the stream itself begins later
        return _Watched(
            self._changes(self._renderer.kept(number)), self._left, media_type="text/event-stream",
            headers={**HEADERS, "X-Accel-Buffering": "no"},
        )  # fmt: skip

    def _left(self) -> None:
        self._watching -= 1

    async def _state(self) -> State:
        overview = await asyncio.to_thread(self._collector.overview)
        async with self._rendering:
            return await asyncio.to_thread(self._renderer.state, overview)

    async def _changes(self, before: State | None) -> AsyncIterator[str]:
        yield "retry: 5000\n\n"
        spoken = time.monotonic()
        while not self.stopping():
            state = await self._state()
            change = state.since(before)
            before = state
            if change is not None:
                yield f"id: {state.number}\nevent: update\ndata: {json.dumps(change)}\n\n"
                spoken = time.monotonic()
            elif time.monotonic() - spoken > _HEARTBEAT:
                yield ": still here\n\n"
                spoken = time.monotonic()
            end = time.monotonic() + EVERY
            while time.monotonic() < end and not self.stopping():
                await asyncio.sleep(_LEAVES)
