"""The audit log: which token, from which address, did what, when. JSON lines in a file that is only appended to.

What is written: events taken in (how many, their sequence numbers, what became of them), models reloaded, models that
took a role, refusals (401, 403, 429 and others, each address and status at most once in ten seconds with a count),
starts, stops and reloads of the service. Names and values of events are not.

A thread writes, so that a slow disk holds up no answer. Lines that it cannot write are kept until it can, 100,000 at
most; beyond, they are counted as dropped.
"""

import json
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError
from predictors.service.operation.logs import Throttle, log, request_id, utc

MOST_KEPT: Final = 100_000
"""Lines that wait to be written."""
_AGAIN: Final = 1.0  # seconds before a write that failed is tried again
_log: Final = logging.getLogger("jobcast.audit")


class AuditLog:
    """A file that says who did what.

    Parameters
    ----------
    path : Path or None
        The file; None: nothing is written.

    Raises
    ------
    JobcastError
        If the file cannot be written.

    Attributes
    ----------
    dropped : int
        Lines that could not be kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.dropped = 0
        self._path: Final = path
        self._lines: deque[str] = deque()
        self._condition: Final = threading.Condition()
        self._throttle: Final = Throttle()
        self._stopping = self._reopen = False
        self._handle = -1
        if path is not None:
            self._handle = _opened(path)
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    def write(self, action: str, token: str = "", address: str = "", **about: object) -> None:
        """Add a line; from any thread, without waiting for the disk."""
        if self._path is None:
            return
        document: dict[str, object] = {"time": utc(time.time()), "action": action}
        if token:
            document["token"] = token
        if address:
            document["address"] = address
        if found := request_id.get():
            document["request_id"] = found
        line = json.dumps(document | about, ensure_ascii=False, default=str) + "\n"
        with self._condition:
            if len(self._lines) >= MOST_KEPT:
                self.dropped += 1
                return
            self._lines.append(line)
            self._condition.notify()

    def refused(self, status: int, reason: str, token: str, address: str, route: str) -> None:
        """Add a line on a request that was refused, unless this address was refused so within ten seconds."""
        if self._path is None:
            return
        left_out = self._throttle.held_back((address, status), time.monotonic())
        if left_out is None:
            return
        more = {"left_out_before": left_out} if left_out else {}
        self.write("refused", token, address, route=route, status=status, reason=reason, **more)

    def reopen(self) -> None:
        """Open the file anew by its name, after a rotation."""
        with self._condition:
            self._reopen = True
            self._condition.notify()

    def close(self) -> None:
        """Write what is left, as far as that can be done at once."""
        if self._path is None or self._stopping:
            return
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._lines or self._reopen or self._stopping):
                    self._condition.wait()
                reopen, self._reopen = self._reopen, False
                part = [self._lines.popleft() for _ in range(min(len(self._lines), 1000))]
                stopping = self._stopping
            left = self._written("".join(part).encode(), reopen)
            if left:
                with self._condition:
                    self._lines.extendleft(reversed(left.decode().splitlines(keepends=True)))
                    self._reopen = True
                    self._condition.wait(_AGAIN)
            if stopping and (left or not self._lines):
                if self._handle >= 0:
                    os.close(self._handle)
                    self._handle = -1
                return

    def _written(self, data: bytes, reopen: bool) -> bytes:
        """Write; return what could not be."""
        assert self._path is not None
        try:
            if reopen or self._handle < 0:
                if self._handle >= 0:
                    os.close(self._handle)
                    self._handle = -1
                self._handle = _opened(self._path)
            while data:
                data = data[os.write(self._handle, data) :]
        except (OSError, JobcastError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            log(_log, logging.ERROR, "The audit log cannot be written: %s", why, file=str(self._path))
        return data


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JobcastError(f"{path}: the audit log cannot be written ({error.strerror}); give another file.") from error
