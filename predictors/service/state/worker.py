"""A thread with a queue, worked off in order until the thread is stopped or fails."""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
Command = Callable[[], None]


class Worker(ABC, Generic[T]):
    """A thread and its queue of work, with commands in between.

    Parameters
    ----------
    name : str
        The thread's.
    crashed : callable
        Called with a failure that ends the thread: the process must begin anew from what is stored.
    """

    def __init__(self, name: str, crashed: Callable[[Exception], None]) -> None:
        self._queue: Final[deque[T | Command]] = deque()
        self._condition: Final = threading.Condition()
        self._stopping = False
        self._crashed: Final = crashed
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do what was handed over, then end."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def do(self, command: Command) -> None:
        """Call a function after all that was handed over before."""
        with self._condition:
            self._queue.append(command)
            self._condition.notify_all()

    @abstractmethod
    def _work(self) -> None:
        """Work until stopped, and nothing is left."""

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # whatever it is: what is half done must not go on
            self._crashed(error)
