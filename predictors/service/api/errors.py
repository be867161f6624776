"""JSON in and out, and the HTTP status of each exception."""

from typing import Any, Final, TypeVar

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException

from predictors.core.errors import JobcastError
from predictors.service.api.schema import described
from predictors.service.state.writer import Busy
from predictors.service.storage.database import StorageError

M = TypeVar("M", bound=BaseModel)


class Refusal(Exception):
    """A request that cannot be answered: status, and why in a few words."""

    def __init__(self, status: int, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.wait = status, reason, wait


def parsed(body: bytes) -> Any:
    """Return a body's JSON.

    Raises
    ------
    Refusal
        If it is none.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refusal(400, "the body is no JSON") from None


def valid(model: type[M], document: Any) -> M:
    """Return a document as what it must be.

    Raises
    ------
    Refusal
        With the place and the rule, if it is not.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise Refusal(422, described(error)) from None


def reply(document: Any, status: int = 200) -> Response:
    """Return an answer of JSON; what is no number is null.

    Examples
    --------
    >>> reply({"seconds": 60.5, "lower": float("nan")}).body
    b'{"seconds":60.5,"lower":null}'
    """
    return Response(to_json(document, inf_nan_mode="null"), status, media_type="application/json")


def refused(error: Exception) -> Response:
    """Return the answer that an exception stands for; one of another kind than `REFUSALS` is raised."""
    if isinstance(error, Refusal):
        return _refusal(error.status, error.reason, error.wait)
    if isinstance(error, Busy):
        return _refusal(503, str(error), 1)
    if isinstance(error, StorageError):
        return _refusal(503, "the database cannot be used now; nothing was stored", 1)
    if isinstance(error, JobcastError):
        return _refusal(422, "this cannot be answered from what is known")
    if isinstance(error, RequestValidationError):
        return _refusal(422, "a part of the address cannot be used")
    if isinstance(error, HTTPException):
        return _refusal(error.status_code, str(error.detail).lower())
    raise error


REFUSALS: Final = (Refusal, Busy, StorageError, JobcastError, RequestValidationError, HTTPException)
"""Exceptions that are answers."""


def _refusal(status: int, reason: str, wait: int = 0) -> Response:
    response = reply({"error": reason}, status)
    if wait:
        response.headers["Retry-After"] = str(wait)
    return response
