"""Who may look while the state changes? Any number of readers at once, or one writer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class Turns:
    """A lock of readers and writers: readers do not wait for one another, so a long question holds up no short one.

    A writer waits for the readers that are there, and for those that come meanwhile; they are brief.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns.reading(), turns.reading():
    ...     pass
    >>> with turns.writing():
    ...     pass
    """

    def __init__(self) -> None:
        self._door: Final = threading.Lock()
        self._state: Final = threading.Lock()
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let others read meanwhile, and nobody write."""
        with self._door:
            self._readers += 1
            if self._readers == 1:
                self._state.acquire()
        try:
            yield
        finally:
            with self._door:
                self._readers -= 1
                if not self._readers:
                    self._state.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let nobody else in."""
        with self._state:
            yield
