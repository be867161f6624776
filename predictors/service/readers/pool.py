"""The readers of a service, as their owner sees them: started, begun anew when they end, counted in, stopped."""

import asyncio
import atexit
import fcntl
import json
import logging
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.service.api.auth import App, Token
from predictors.service.api.buckets import Buckets
from predictors.service.api.lifecycle import Listening
from predictors.service.api.prometheus import Metrics
from predictors.service.operation.logs import log
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.readers import MOST
from predictors.service.readers.entry import begin, packed
from predictors.service.readers.forward import listening
from predictors.service.readers.process import BUCKETS, SOCKET, Plan, run
from predictors.service.settings import Settings
from predictors.service.state.model import Load

_PREFIX: Final = "jobcast-readers-"
_MOST_PATH: Final = 100  # of a socket; the system takes some bytes more
_SILENCE: Final = 60.0  # of a reader that hangs; one that works tells something every second [s]
_PAUSE: Final = 5.0  # after a reader that failed [s]
_PATIENCE: Final = 15.0  # for readers that are to end [s]
_log: Final = logging.getLogger("jobcast.service")


class Readers:
    """Processes that answer questions beside the owner.

    Parameters
    ----------
    n : int
        How many.
    settings, listening, loader, key
        The owner's.
    log_format, log_level : str
        Of what they log.

    Raises
    ------
    JobcastError
        If that number cannot be started.
    """

    def __init__(
        self,
        n: int,
        settings: Settings,
        listening: Listening,
        loader: Load,
        key: Pseudonymiser,
        log_format: str = "text",
        log_level: str = "info",
    ) -> None:
        if not 1 <= n <= MOST:
            raise JobcastError(f"A service has 1 to {MOST} readers; got {n}.")
        folder, self._held = _made_folder()
        self._plan = Plan(
            settings=settings, listening=replace(listening, early=None), loader=loader, key=key,
            folder=folder, log_format=log_format, log_level=log_level,
        )  # fmt: skip
        try:
            self.buckets = Buckets(folder / BUCKETS)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(self._held)
            raise JobcastError(f"{folder}: cannot be used ({error.strerror}); set TMPDIR to another folder.") from None
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # also where the address is taken
        self._stopping: Final = threading.Event()
        self._leaving: Callable[[], bool] = self._stopping.is_set
        self._lock: Final = threading.Lock()
        self._processes: dict[int, tuple[BaseProcess, Connection[Any, Any]]] = {}
        self._connections: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._keep, args=(k,), daemon=True) for k in range(n)]

    def beside(self, app: App, port: int, metrics: Metrics, leaving: Callable[[], bool]) -> None:
        """Know what answers what they hand on, the port, the metrics that count them in, and whether the owner ends."""
        self._app, self._metrics, self._leaving = app, metrics, leaving
        self._plan = replace(self._plan, listening=replace(self._plan.listening, port=port))
        metrics.readers = lambda: (len(self._connections), sum(list(self._connections.values())))

    async def listen(self) -> None:
        """Listen to what they will hand on."""
        self._server = await listening(self._app, self._plan.folder / SOCKET)

    def begin(self) -> None:
        """Start them: the state is there."""
        for thread in self._threads:
            thread.start()

    def reload(self, tokens: tuple[Token, ...]) -> None:
        """Tell them the tokens that hold from now on; they read the certificate and open the audit log anew."""
        with self._lock:
            self._plan = replace(self._plan, listening=replace(self._plan.listening, tokens=tokens))
            for _, line in self._processes.values():
                with suppress(OSError):  # it has ended; the next begins with them
                    line.send_bytes(json.dumps([asdict(one) for one in tokens]).encode())

    async def stop(self) -> None:
        """Let them answer what they were asked, and end."""
        self._stopping.set()
        with self._lock:
            for process, _ in self._processes.values():
                process.terminate()
        await asyncio.to_thread(self._join)
        self._server.close()
        shutil.rmtree(self._plan.folder, ignore_errors=True)
        os.close(self._held)

    def _join(self) -> None:
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(until - time.monotonic(), 0.0))
        with self._lock:
            for process, _ in self._processes.values():
                process.kill()

    def _keep(self, number: int) -> None:
        """Start a reader, and another when it has ended, until the service stops."""
        start = multiprocessing.get_context("spawn")
        while True:
            mine, its = start.Pipe()
            with self._lock:
                if self._stopping.is_set() or self._leaving():  # a signal to all processes of the service, say
                    return
                process = start.Process(
                    target=begin, args=(packed(partial(run, self._plan)), its), name=f"jobcast reader {number}",
                    daemon=True,
                )  # fmt: skip
                try:
                    process.start()
                except OSError as error:
                    log(_log, logging.ERROR, "No reader can be started: %s", error)
                else:
                    self._processes[number] = process, mine
            its.close()
            if process.pid is None:
                self._stopping.wait(_PAUSE)
                continue
            self._listen_to(number, mine, process)
            process.join()
            if process.exitcode and not self._leaving():  # else another model is champion
                log(_log, logging.ERROR, "A reader has ended by %d, another begins.", process.exitcode)
                self._stopping.wait(_PAUSE)

    def _listen_to(self, number: int, line: "Connection[Any, Any]", process: BaseProcess) -> None:
        """Count in what a reader tells, until it has ended; end one that falls silent: its clients would hang."""
        patience = None  # building the state may take long
        try:
            while line.poll(patience):
                patience = _SILENCE
                told = json.loads(line.recv_bytes())
                for request in told["requests"]:
                    self._metrics.request(*request)
                for predictions in told["predictions"]:
                    self._metrics.predictions(*predictions)
                self._connections[number] = told["connections"]
            log(_log, logging.ERROR, "A reader that told nothing for %g s is ended.", _SILENCE)
            process.kill()
        except (EOFError, OSError):
            pass
        self._connections.pop(number, None)
        line.close()


def _made_folder() -> tuple[Path, int]:
    """Return a new folder that nobody else may enter, and a lock on it, which ends with the process.

    Folders that a killed process left are removed: nobody holds a lock on them. What tidies up old temporary files
    leaves a locked folder alone, too.
    """
    try:
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):  # it is held, or another user's
                held = _locked(left, fcntl.LOCK_EX)
                shutil.rmtree(left, ignore_errors=True)
                os.close(held)
        while True:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            with suppress(BlockingIOError, FileNotFoundError):  # another that begins just now has taken it for left
                held = _locked(folder, fcntl.LOCK_SH)
                if folder.exists():
                    break
                os.close(held)
    except OSError as error:
        raise JobcastError(f"No folder for readers can be made ({error.strerror}); set TMPDIR to one.") from None
    if len(os.fsencode(folder / SOCKET)) > _MOST_PATH:
        folder.rmdir()
        os.close(held)
        raise JobcastError(f"{folder.parent}: is too long a path for a socket; set TMPDIR to a shorter one.")
    return folder, held


def _locked(folder: Path, how: int) -> int:
    """Return a lock on a folder of this user."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(held).st_uid != os.geteuid():
            raise PermissionError
        fcntl.flock(held, how | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held
