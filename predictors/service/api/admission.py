"""Who is let in, and with what: tokens, hosts, rates, sizes of bodies (ASGI middleware)."""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import ClientDisconnect

from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError
from predictors.service.api.connections import HEAD_BYTES, LARGE_HEAD, MOST_HEADERS

WRITE: Final = "write"
ROLES: Final = ("read", WRITE)  # `read` asks; `write` also sends events and reloads models
_BYTES: Final = 32


@dataclass(frozen=True)
class Token:
    """A line of the file of tokens: role, SHA-256 of the token (256 random bits, so a plain hash will do), name."""

    role: str
    digest: str
    name: str


def new_token(role: str, name: str) -> tuple[str, str]:
    """Return a fresh token, to be shown once, and its line for the file.

    >>> token, line = new_token("read", "dashboard")
    >>> line.split()[0], line.split()[2], token in line
    ('read', 'dashboard', False)
    """
    if role not in ROLES or not re.fullmatch(r"[\w.-]{1,40}", name):
        raise JobcastError(f"A token has a role ({' or '.join(ROLES)}) and a name of letters, digits and . _ -.")
    token = secrets.token_urlsafe(_BYTES)
    return token, f"{role} {_digest(token.encode())} {name}"


def read_tokens(path: Path) -> "tuple[Token, ...]":
    """Return the tokens of a file, comments left out; refuse one that others than its owner may write."""
    found = _tokens(read_text(path, "a file of tokens"), path)
    if not found:
        raise JobcastError(f"{path}: holds no token; make one with `jobcast token`.")
    return found


def add_token(path: Path, role: str, name: str) -> str:
    """Return a fresh token and add its line to a file of tokens, made if it is missing."""
    token, line = new_token(role, name)
    old = ""
    if path.exists():
        old = read_text(path, "a file of tokens")
        _tokens(old, path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as opened:
        opened.write("\n" * (old[-1:] not in ("", "\n")) + line + "\n")
    return token


def _tokens(text: str, path: Path) -> "tuple[Token, ...]":
    if path.stat().st_mode & 0o022:
        raise JobcastError(f"{path}: others may write to this file of tokens; chmod go-w it.")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(rf"({'|'.join(ROLES)})\s+([0-9a-f]{{64}})\s+([\w.-]{{1,40}})\s*", line)
        if match is None:
            raise JobcastError(f"{path}:{number}: not ROLE SHA256 NAME; make tokens with `jobcast token`.")
        found.append(Token(match[1], match[2], match[3]))
    return tuple(found)


def matching_token(tokens: tuple[Token, ...], presented: bytes) -> Token | None:
    """Return the token that was presented; every one is compared, each in constant time."""
    digest, found = _digest(presented), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN: Final = ("/healthz", "/readyz")  # for load balancers and systemd: without a token they answer yes or no
_ASKING: Final = ("/v1/predictions/",)  # POST that changes nothing
ROUTE_BYTES: Final = (("/v1/telemetry", 16 * 2**20), ("/v1/models/", 2**16), ("/v1/", 4 * 2**20))
"""Largest body by the beginning of a route: ten thousand events, or jobs, take two MiB."""
MOST_CLIENTS: Final = 16_384  # clients with a remembered rate; beyond, the idlest begins with a full bucket
_LINGER_BYTES: Final = 64 * 2**20
_LINGER_SECONDS: Final = 5.0
_LEFT: Final = 499  # what others count for a client that left before it had asked


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "head-node")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Rate limits of a client."""

    body_bytes: int = 16 * 2**20  # largest body of any route; see `ROUTE_BYTES` for less
    bytes_at_once: int = 256 * 2**20  # bodies in work at once, together; more are turned away
    body_seconds: float = 10.0  # longest that a body may take to arrive
    rate: float = 0.0  # requests a second of one token, or address, in the long run; 0: no limit
    burst: float | None = None  # requests that may come at once; None: those of ten seconds
    at_once: int = 256  # requests in work at once; more are turned away

    def most_bytes(self, path: str) -> int:
        """Return the largest body of a route."""
        least = (most for begin, most in ROUTE_BYTES if path.startswith(begin))
        return min(self.body_bytes, next(least, 2**16))


class Buckets:
    """How many requests of its rate each client has left: a bucket each, filled at the rate.

    >>> buckets = Buckets()
    >>> [buckets.take("alice", rate=2.0, burst=2.0, now=now) for now in (10.0, 10.0, 10.0, 10.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, rate: float, burst: float, now: float) -> float:
        """Take a request out of a client's bucket; return 0, or the seconds until there is one if it is empty."""
        left, then = self._buckets.pop(client, (burst, now))
        left = min(burst, left + (now - then) * rate)
        self._buckets[client] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / rate


class AuthMiddleware:
    """ASGI middleware that lets through what tokens and limits allow; without tokens (on loopback only) all."""

    def __init__(self, app: App, tokens: tuple[Token, ...], limits: Limits) -> None:
        self._app, self.tokens, self._limits = app, tokens, limits
        self._buckets = Buckets()
        self._at_once = self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        if (refusal := self._refusal(scope)) is not None:
            await _refuse(receive, send, *refusal, page=_is_page(scope["path"]))
            return
        self._at_once += 1
        try:
            await self._served(scope, receive, send)
        except ClientDisconnect:
            scope["status"] = _LEFT
        finally:
            self._at_once -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str, float] | None:
        """Return status, reason and seconds to wait if a request is refused at once."""
        if (refusal := _malformed(scope)) is not None:
            return refusal
        headers = dict(scope["headers"])
        if scope["path"] in OPEN:
            return None
        if self._at_once >= self._limits.at_once:
            return 503, "too many requests at once", 1.0
        client = str((scope.get("client") or ("local",))[0])
        if self.tokens:
            presented = _presented(headers.get(b"authorization", b""), scope["path"])
            token = None if presented is None else matching_token(self.tokens, presented)
            if token is None:
                return self._slowed(client) or (401, "a bearer token is needed", 0.0)
            client = scope["client_name"] = token.name
            asks = scope["method"] in ("GET", "HEAD") or scope["path"].startswith(_ASKING)
            if token.role != WRITE and not asks:
                return 403, "this token may not do that", 0.0
        if (length := headers.get(b"content-length")) is not None:
            if not length.isdigit() or len(length) > 18:
                return 400, "the length of the body is no number", 0.0
            if int(length) > (most := self._limits.most_bytes(scope["path"])):
                return 413, f"a body has at most {most} bytes here", 0.0
        return self._slowed(client) or (None if self.tokens else _foreign(headers))

    def _slowed(self, client: str) -> tuple[int, str, float] | None:
        """Take a request out of the client's bucket; if it is empty, say so."""
        rate, burst = self._limits.rate, self._limits.burst
        if not rate:
            return None
        burst = max(10 * rate, 1.0) if burst is None else burst
        wait = self._buckets.take(client, rate, burst, time.monotonic())
        return (429, "too many requests", wait) if wait else None

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        most, limits = self._limits.most_bytes(scope["path"]), self._limits
        until = asyncio.get_running_loop().time() + limits.body_seconds
        size, whole, refusal = 0, False, _Refused()

        async def counted() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()  # waits for the client to leave
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise refusal.of(408, "the body took too long") from None
            came = len(message.get("body", b""))
            size, self._bytes = size + came, self._bytes + came
            if self._bytes > limits.bytes_at_once:
                raise refusal.of(503, "too many bytes of bodies at once")
            if size > most:
                raise refusal.of(413, f"a body has at most {most} bytes here")
            whole = not message.get("more_body", False)
            return message

        async def unless_refused(message: Message) -> None:
            if not refusal.status:  # else this is what the application makes of the exception
                await send(message)

        try:
            with suppress(_Refused):
                await self._app(scope, counted, unless_refused)
        finally:
            self._bytes -= size
        if refusal.status:
            await _refuse(receive, send, refusal.status, refusal.reason)


class _Refused(Exception):
    status, reason = 0, ""

    def of(self, status: int, reason: str) -> "_Refused":
        self.status, self.reason = status, reason
        return self


def _malformed(scope: Scope) -> tuple[int, str, float] | None:
    """Refuse a head that proxies could read in another way, or that is too large."""
    headers = scope["headers"]
    if scope["http_version"] not in ("1.0", "1.1"):
        return 400, "the version of HTTP must be 1.0 or 1.1", 0.0
    target = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    size = target + sum(len(name) + len(value) + 4 for name, value in headers)  # with ": " and the end of the line
    if size > HEAD_BYTES or len(headers) > MOST_HEADERS:
        return *LARGE_HEAD, 0.0
    hosts = [name for name, _ in headers].count(b"host")
    if hosts > 1 or (not hosts and scope["http_version"] == "1.1"):
        return 400, "a request has one Host", 0.0
    return None


def _foreign(headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
    """Refuse what a page in a browser on this machine could send unasked, where no token is needed.

    That is a request by another name than this machine's own (DNS rebinding), or one that a page of another place
    sends. The routes refuse a body without the content type that a page may not send.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if not is_loopback(_without_port(host)):
        return 403, "without tokens the Host must be localhost or its address", 0.0
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2].decode("latin-1") != host:
        return 403, "without tokens no other site's page may ask", 0.0
    return None


def _without_port(host: str) -> str:
    """Return the name or address in a Host header.

    >>> [_without_port(host) for host in ("localhost:8571", "[::1]:80", "127.0.0.1")]
    ['localhost', '::1', '127.0.0.1']
    """
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_page(path: str) -> bool:
    """Return whether people look at a path in a browser, which asks for a password."""
    return path == "/" or path.startswith("/status/")


def _presented(authorization: bytes, path: str) -> bytes | None:
    """Return the token of a request: a bearer's, or on the page the password of a browser; None if there is none."""
    kind, _, told = authorization.partition(b" ")
    if kind.lower() == b"bearer":
        return told.strip()
    if kind.lower() == b"basic" and _is_page(path):
        with suppress(ValueError):
            return base64.b64decode(told.strip(), validate=True).partition(b":")[2]
    return None


async def _refuse(
    receive: Receive, send: Send, status: int, reason: str, wait: float = 0.0, page: bool = False
) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status in (400, 408, 413, 431):
        headers.append((b"connection", b"close"))
    if status == 401:
        how = b'Basic realm="jobcast: a token is the password", charset="UTF-8"' if page else b"Bearer"
        headers.append((b"www-authenticate", how))
    if wait:
        headers.append((b"retry-after", str(max(1, round(wait))).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": status == 413})
    if status == 413:
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    """Read on for a while what is not wanted: a client that still sends would see a reset, and not the answer."""
    left = _LINGER_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
