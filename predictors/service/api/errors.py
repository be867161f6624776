"""JSON in and out, and the HTTP status of each exception."""

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from predictors.core.errors import JobcastError
from predictors.service.api.schema import MOST_AT_ONCE, Strict, described
from predictors.service.state.writer import Busy
from predictors.service.storage.database import StorageError

M = TypeVar("M")
MOST_VALUES: Final = 16 * MOST_AT_ONCE  # commas in a body, at most: a good event or job has fewer than sixteen values


class Refusal(Exception):
    """A request that cannot be answered: status, and why in a few words."""

    def __init__(self, status: int, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.wait = status, reason, wait


def valid(kind: type[M], body: bytes, most_values: int = MOST_VALUES) -> M:
    """Return a body of JSON as what it must be; a `Refusal` names field, rule and value, or a key that stands twice.

    >>> from predictors.service.api.schema import ForgetIn
    >>> valid(ForgetIn, b'{"older_than": 3600}')
    ForgetIn(older_than=3600, dry_run=False)
    """
    if len(body) > most_values and (commas := body.count(b",")) > most_values:
        raise Refusal(422, f"a body holds at most {most_values} values; got {commas + 1}")
    decode, quotes = _decoder(kind)  # type: ignore[arg-type]
    try:
        try:
            found: M = decode(body)
        except msgspec.ValidationError as error:
            raise Refusal(422, described(error, body)) from None
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Refusal(400, "the body is no JSON") from None
    if issubclass(kind, Strict) and body.count(b'"') > quotes:
        json.loads(body, object_pairs_hook=_each_once)
    return found


@cache
def _decoder(kind: Any) -> tuple[Callable[[bytes], Any], int]:
    """Return what decodes a type, and the quotes of a body that has no more than the keys that it must have."""
    return msgspec.json.Decoder(kind).decode, 2 * sum(field.required for field in msgspec.structs.fields(kind))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key, n = Counter(key for key, _ in pairs).most_common(1)[0]
        raise Refusal(422, f"{key}: an object has each key once; got it {n} times")
    return found


def reply(document: Any, status: int = 200) -> Response:
    """Return an answer of JSON; what is no number is null.

    >>> reply({"seconds": 60.5, "lower": float("nan")}).body
    b'{"seconds":60.5,"lower":null}'
    """
    return Response(_encode(document), status, media_type="application/json")


_encode: Final = msgspec.json.Encoder().encode


async def _answered(_: Request, error: Exception) -> Response:
    """Return the answer that an exception stands for; one of another kind than those of `HANDLERS` is raised."""
    if isinstance(error, Refusal):
        return _refusal(error.status, error.reason, error.wait)
    if isinstance(error, Busy):
        return _refusal(503, str(error), 1)
    if isinstance(error, StorageError):
        return _refusal(503, "the database cannot be used now; nothing was stored", 1)
    if isinstance(error, JobcastError):
        return _refusal(422, "this cannot be answered from what is known")
    if isinstance(error, HTTPException):
        response = _refusal(error.status_code, str(error.detail).lower())
        response.headers.update(error.headers or {})
        return response
    raise error


HANDLERS: Final = dict.fromkeys((Refusal, Busy, StorageError, JobcastError, HTTPException), _answered)
"""Of the exceptions that are answers."""


def _refusal(status: int, reason: str, wait: int = 0) -> Response:
    response = reply({"error": reason}, status)
    if wait:
        response.headers["Retry-After"] = str(wait)
    return response
