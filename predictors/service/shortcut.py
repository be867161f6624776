"""Which routes are asked so often that they go past the framework? Two; FastAPI has the rest.

The framework documents them all the same: what it would do for these routes is to call the handler.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from predictors.service.replies import REFUSALS, refused

Handler = Callable[[Request], Awaitable[Response]]


class _Route(NamedTuple):
    path: str


class Shortcut:
    """An ASGI application that calls a few handlers itself.

    Parameters
    ----------
    app : ASGI application
        What answers everything else.
    handlers : mapping
        By method and path.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self._app: Final = app
        self._handlers: Final = dict(handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        handle = self._handlers.get((scope.get("method", ""), scope.get("path", "")))
        if handle is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _Route(scope["path"])
        try:
            response = await handle(Request(scope, receive))
        except REFUSALS as error:
            response = refused(error)
        await response(scope, receive, send)
