"""The readers of a service, as their owner sees them: started, begun anew when they end, counted in, stopped."""

import asyncio
import json
import logging
import multiprocessing
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.service.api.auth import App, Token
from predictors.service.api.buckets import Buckets
from predictors.service.api.prometheus import Metrics
from predictors.service.api.server import Listening
from predictors.service.operation.logs import log
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.readers.forward import listening
from predictors.service.readers.process import BUCKETS, SOCKET, Plan, run
from predictors.service.settings import Settings
from predictors.service.state.model import Load

MOST: Final = 64
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
        folder = Path(tempfile.mkdtemp(prefix="jobcast-"))  # nobody else may enter it
        self._plan = Plan(
            settings=settings, listening=replace(listening, early=None, tracing=None), loader=loader, key=key,
            folder=folder, log_format=log_format, log_level=log_level,
        )  # fmt: skip
        self.buckets = Buckets(folder / BUCKETS)
        self._stopping: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._processes: dict[int, tuple[BaseProcess, Connection[Any, Any]]] = {}
        self._connections: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._keep, args=(k,), daemon=True) for k in range(n)]

    def beside(self, app: App, port: int, metrics: Metrics) -> None:
        """Know the application that answers what they hand on, the port, and the metrics that count them in."""
        self._app, self._metrics = app, metrics
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
        while not self._stopping.is_set():
            mine, its = start.Pipe()
            with self._lock:
                process = start.Process(
                    target=run, args=(self._plan, its), name=f"jobcast reader {number}", daemon=True
                )
                process.start()
                self._processes[number] = process, mine
            its.close()
            self._listen_to(number, mine)
            process.join()
            if self._stopping.is_set():
                return
            if process.exitcode:  # else another model is champion
                log(_log, logging.ERROR, "A reader has ended by %d, another begins.", process.exitcode)
                self._stopping.wait(_PAUSE)

    def _listen_to(self, number: int, line: "Connection[Any, Any]") -> None:
        """Count in what a reader tells, until it has ended."""
        try:
            while True:
                told = json.loads(line.recv_bytes())
                for request in told["requests"]:
                    self._metrics.request(*request)
                for predictions in told["predictions"]:
                    self._metrics.predictions(*predictions)
                self._connections[number] = told["connections"]
        except (EOFError, OSError):
            self._connections.pop(number, None)
            line.close()
