"""How does a log survive an overload? The same warning once in a while, with how many there were."""

import logging
import time
from typing import Final

EVERY: Final = 10.0
"""Seconds between two lines of the same warning."""


class Sparing(logging.Filter):
    """Lets a message through if it was not let through lately; it then tells how many were left out since.

    For loggers with few messages: each is remembered for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written."""
        now, what = time.monotonic(), str(record.msg)
        if now - self._told.get(what, -EVERY) < EVERY:
            self._left_out[what] = self._left_out.get(what, 0) + 1
            return False
        self._told[what] = now
        if left_out := self._left_out.pop(what, 0):
            record.msg, record.args = f"{record.getMessage()} ({left_out:,} more times since the last line)", None
        return True
