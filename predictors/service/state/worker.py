"""A thread that calls what it is handed, in order, until it is stopped or fails."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

Command = Callable[[], None]


class Worker:
    """A thread and its queue of commands; `crashed` gets a failure that ends it: the process must then restart."""

    idle_seconds: float | None = None
    """Calls `idle` each time that nothing was handed over for so long [s]; None: never."""

    def __init__(self, name: str, crashed: Callable[[Exception], None]) -> None:
        self._queue: Final[SimpleQueue[Command | None]] = SimpleQueue()
        self._crashed: Final = crashed
        self._lock: Final = threading.Lock()
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Drain the queue and stop."""
        self._queue.put(None)
        self._thread.join()

    def do(self, command: Command) -> None:
        """Call a function after all that was handed over before."""
        self._queue.put(command)

    def idle(self) -> None:
        """Do what has time; for the thread."""

    def _run(self) -> None:
        try:
            while True:
                try:
                    command = self._queue.get(timeout=self.idle_seconds)
                except Empty:
                    command = self.idle
                if command is None:
                    return
                command()
        except Exception as error:  # whatever it is: what is half done must not go on
            self._crashed(error)
