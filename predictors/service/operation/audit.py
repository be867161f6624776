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
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from predictors.core.errors import JobcastError
from predictors.service.operation.logs import Throttle, log, request_id, utc

MOST_KEPT: Final = 100_000  # lines that wait to be written
_AGAIN: Final = 1.0  # seconds before a write that failed is tried again
_log: Final = logging.getLogger("jobcast.audit")


class AuditLog:
    """A file that says who did what."""

    def __init__(
        self,
        path: Path | None,  # the file; None: nothing is written
    ) -> None:
        self.dropped = 0  # lines that could not be kept
        self._path: Final = path
        self._lines: Final[SimpleQueue[bytes | None]] = SimpleQueue()
        self._throttle: Final = Throttle()
        self._stopping: Final = threading.Event()
        if path is not None:
            self._handle = _opened(path)
            self._thread = threading.Thread(target=self._run, args=(path,), name="audit", daemon=True)
            self._thread.start()

    def write(self, action: str, token: str = "", address: str = "", **about: object) -> None:
        """Add a line; from any thread, without waiting for the disk."""
        if self._path is None:
            return
        told = {"token": token, "address": address, "request_id": request_id.get()}
        document = {"time": utc(time.time()), "action": action} | {name: one for name, one in told.items() if one}
        if self._lines.qsize() >= MOST_KEPT:
            self.dropped += 1
            return
        line = json.dumps(document | about, ensure_ascii=False, default=str) + "\n"
        self._lines.put(line.encode(errors="backslashreplace"))

    def refused(self, status: int, reason: str, token: str, address: str, route: str) -> None:
        """Add a line on a request that was refused, unless this address was refused so within ten seconds."""
        left_out = self._throttle.held_back((address, status), time.monotonic())
        if left_out is not None:
            more = {"left_out_before": left_out} if left_out else {}
            self.write("refused", token, address, route=route, status=status, reason=reason, **more)

    def reopen(self) -> None:
        """Open the file again by its name, after a rotation."""
        if self._path is not None:
            self._lines.put(b"")

    def close(self) -> None:
        """Write what is left, as far as that can be done at once."""
        if self._path is not None and not self._stopping.is_set():
            self._stopping.set()
            self._lines.put(None)
            self._thread.join(5)

    def _run(self, path: Path) -> None:
        for line in iter(self._lines.get, None):
            left, stopping = line, self._stopping.is_set()
            while (left := self._written(left, path)) and not stopping:
                stopping = self._stopping.wait(_AGAIN)  # then it is tried once more
            if left:
                break
        self._hang_up()

    def _written(self, line: bytes, path: Path) -> bytes:
        """Write a line, or open the file again where it is empty; return what could not be written."""
        try:
            if not line or self._handle < 0:
                self._hang_up()
                self._handle = _opened(path)
            while line:
                line = line[os.write(self._handle, line) :]
        except (OSError, JobcastError) as error:
            self._hang_up()
            why = error.strerror if isinstance(error, OSError) else str(error)
            log(_log, logging.ERROR, "The audit log cannot be written: %s", why, file=str(path))
        return line

    def _hang_up(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with suppress(OSError):
                os.close(handle)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JobcastError(f"{path}: the audit log cannot be written ({error.strerror}); give another file.") from error
