"""Buckets of requests: how much of its rate each client has left, one table for all processes of a service."""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

MOST_CLIENTS: Final = 16_384
"""Clients that are remembered; beyond, one that asked long ago begins with a full bucket."""
_PLACES: Final = 8  # in which a client may stand
_BUCKET: Final = Struct("<Qdd")  # client, requests left, when that was so


class Buckets:
    """A bucket for each client, filled at its rate.

    Parameters
    ----------
    path : Path or None
        File by which several processes share the table; None: it is this process's own.

    Examples
    --------
    >>> buckets = Buckets()
    >>> [buckets.take("alice", rate=2.0, burst=2.0, now=now) for now in (10.0, 10.0, 10.0, 10.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, path: Path | None = None) -> None:
        size = MOST_CLIENTS * _BUCKET.size
        self._file = -1
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.posix_fallocate(self._file, 0, size)  # a page that found no room later would end the process
        self._table: Final = mmap.mmap(self._file, size)

    def take(self, client: str, rate: float, burst: float, now: float) -> float:
        """Take a request out of a client's bucket; return 0, or the seconds until there is one if it is empty.

        `now` is of a clock that all processes share (`time.monotonic`).
        """
        number = int.from_bytes(blake2b(client.encode(), digest_size=8).digest(), "little") | 1
        with self._locked():
            place, left, then = self._place(number, burst, now)
            left = min(burst, left + max(now - then, 0.0) * rate)
            _BUCKET.pack_into(self._table, place, number, left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / rate

    def _place(self, number: int, burst: float, now: float) -> tuple[int, float, float]:
        """Return where a client's bucket stands, what is left in it, and since when; else the place not used longest.

        One that was never used is from the second 0.
        """
        places = [(number + k) % MOST_CLIENTS * _BUCKET.size for k in range(_PLACES)]
        oldest = (float("inf"), places[0])
        for place in places:
            who, left, then = _BUCKET.unpack_from(self._table, place)
            if who == number:
                return place, left, then
            oldest = min(oldest, (then, place))
        return oldest[1], burst, now

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file < 0:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
