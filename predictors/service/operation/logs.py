"""Logs of the service: one line of text or JSON a record, with the id of the request, repeated lines throttled.

A record of JSON has `time` (UTC), `level`, `logger`, `message`, `request_id` where a request caused it, and the fields
that the record was given (`fields=`). A text line holds the same. Neither holds a name, a value of an event, a token or
a password.
"""

import json
import logging
import math
import re
import secrets
import sys
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TextIO

from predictors.core.errors import JobcastError

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
EVERY: Final = 10.0  # seconds between two lines of the same warning
MOST_REMEMBERED: Final = 1000  # lines with a remembered last time; beyond, the one written longest ago is forgotten

request_id: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""Id of the request that is being answered; empty outside of one."""

_GIVEN: Final = re.compile(rb"[\w.:-]{1,64}")
_PREFIX: Final = secrets.token_hex(4)
_next: Final = count(1).__next__


def new_request_id(given: bytes | None = None) -> str:
    """Return the id of a request: the client's own where it is a short word, else a new one.

    >>> new_request_id(b"slurmctld-7"), new_request_id(b"two words") == "two words"
    ('slurmctld-7', False)
    """
    if given is not None and _GIVEN.fullmatch(given):
        return given.decode("ascii", "replace")
    return f"{_PREFIX}-{_next():x}"


def utc(seconds: float) -> str:
    """Return a Unix time as UTC with milliseconds.

    >>> utc(1700000000.25)
    '2023-11-14T22:13:20.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON.

    >>> record = logging.makeLogRecord({"msg": "%d events", "args": (3,), "name": "jobcast", "levelname": "INFO"})
    >>> json.loads(JsonFormatter().format(record))["message"]
    '3 events'
    """

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        document |= _fields(record)
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """A record as one line of text: time, level, logger, message, and its fields as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        told = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items())
        message = record.getMessage().replace("\n", " ")
        line = f"{utc(record.created)} {record.levelname.lower()} {record.name}: {message}{told}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = request_id.get()
    return ({"request_id": found} if found else {}) | getattr(record, "fields", {})


def _plain(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[\w./:@+-]+", text) else json.dumps(text, ensure_ascii=False)


class Throttle:
    """Lets the same thing through once in ten seconds, and counts what it held back.

    >>> throttle = Throttle()
    >>> [throttle.held_back("x", now) for now in (0.0, 1.0, 2.0, 11.0, 22.0)]
    [0, None, None, 2, 0]
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def held_back(self, what: Hashable, now: float) -> int | None:
        """Return how often a thing was held back since it was let through; None if it is held back now."""
        if now - self._last.get(what, -math.inf) < EVERY:
            self._left_out[what] = self._left_out.get(what, 0) + 1
            return None
        self._last.pop(what, None)
        self._last[what] = now  # at the end: the first is the one let through longest ago
        if len(self._last) > MOST_REMEMBERED:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._left_out.pop(oldest, None)
        return self._left_out.pop(what, 0)


class ThrottledFilter(logging.Filter):
    """Logging filter that repeats a message at most every ten seconds, with the number of those left out since.

    Messages are the same by their text before values are put in, and by the field `same` of the record where it has
    one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._throttle = Throttle()

    def filter(self, record: logging.LogRecord) -> bool:
        left_out = self._throttle.held_back((str(record.msg), str(getattr(record, "same", ""))), time.monotonic())
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out:,} more times since the last line)", None
        return left_out is not None


def throttle(*loggers: str) -> None:
    """Throttle repeated messages of loggers, from a fresh start."""
    for name in loggers:
        logger = logging.getLogger(name)
        for old in [one for one in logger.filters if isinstance(one, ThrottledFilter)]:
            logger.removeFilter(old)
        logger.addFilter(ThrottledFilter())


_OURS: Final = ("jobcast", "predictors.core.jit", "uvicorn.error", "alembic", "mlflow")  # loggers of the service's log


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to standard error as it is now; a log that cannot be written never harms the service."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        return


def set_up_logs(how: str = "text", level: str = "info") -> Callable[[], None]:
    """Write the service's log to standard error; return a function that undoes that."""
    if how not in FORMATS:
        raise JobcastError(f"A log's format is one of {', '.join(FORMATS)}; got {how!r}.")
    if level not in LEVELS:
        raise JobcastError(f"A log's level is one of {', '.join(LEVELS)}; got {level!r}.")
    handler = _Handler()
    handler.setFormatter(JsonFormatter() if how == "json" else TextFormatter())
    before = []
    for name in _OURS:
        logger = logging.getLogger(name)
        before.append((logger, logger.level, logger.propagate, list(logger.handlers)))
        logger.handlers = [handler]
        logger.propagate = False
        least = getattr(logging, level.upper())
        logger.setLevel(least if name in _OURS[:2] else max(logging.WARNING, least))

    def undo() -> None:
        for logger, old, propagate, handlers in before:
            logger.setLevel(old)
            logger.propagate, logger.handlers = propagate, handlers

    return undo


def log(logger: logging.Logger, level: int, message: str, *values: object, same: str = "", **fields: object) -> None:
    """Log a message with fields; `same` tells apart messages of one text for the filter of repeated ones."""
    logger.log(level, message, *values, extra={"fields": fields, "same": same})
