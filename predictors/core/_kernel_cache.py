"""Where compiled kernels are kept on disk.

numba's own cache looks at a kernel's file alone and would go on with the old code of other modules; it lets all
processes that meet a kernel at the same time compile it; and two processes that keep different specialisations of one
function at the same time may overwrite each other's. This cache is invalid once any module that a kernel needs
has been edited; it lets one process compile while the others wait for the result, and lets them write in turn.
"""

import fcntl
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from numba.core.caching import FunctionCache

HOMES: Final = ("predictors", "schedsim")
"""Packages with kernels."""
LOCKS: Final = "kernels.lock"
"""A file in each folder of compiled code; each kernel's lock is one byte of it, far behind its end."""


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba is not typed
    """The compiled code of one function, a file for each specialisation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        file: Any = self._cache_file
        file._source_stamp = (file._source_stamp, *_stamps(function.__module__))
        self._held: list[int] = []

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code kept for a signature; None if there is none, then this process is the one to compile it.

        It stays so until `release`. Where another process is compiling it, wait for that one's code.
        """
        found = super().load_overload(sig, target_context)
        if found is None:
            self._held.append(self._lock(str(sig), "waiting for another process that compiles %s.%s"))
            found = super().load_overload(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature."""
        writing = self._lock("", "waiting for another process that keeps %s.%s")
        try:
            super().save_overload(sig, data)
        finally:
            self._unlock(writing)

    def release(self) -> None:
        """Let other processes compile what this one could not, or load what it kept."""
        held, self._held = self._held, []
        for place in held:
            self._unlock(place)

    def _lock(self, part: str, told: str) -> int:
        """Wait for the lock of a part of this function's code; go on without where files can't be locked."""
        place = int.from_bytes(hashlib.sha256(f"{self._cache_file._index_name} {part}".encode()).digest()[:7])
        with suppress(OSError):
            self._impl.locator.ensure_cache_path()
            locks = _opened(self._cache_path)
            try:
                fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except BlockingIOError:
                name = self._py_func.__module__.rpartition(".")[2], self._py_func.__name__
                logging.getLogger("predictors.core.jit").info(told, *name)
                fcntl.lockf(locks, fcntl.LOCK_EX, 1, place)
        return place

    def _unlock(self, place: int) -> None:
        with suppress(OSError):
            fcntl.lockf(_opened(self._cache_path), fcntl.LOCK_UN, 1, place)


@cache
def _opened(folder: str) -> int:
    """Return the open file of locks of a folder: it stays open, since closing it would let go of all of them."""
    return os.open(Path(folder) / LOCKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


@cache
def _stamps(module: str) -> tuple[tuple[str, int, int], ...]:
    """Return the name, time and size of the modules that a module's kernels need, itself and `jit` too, sorted."""
    waiting, found = [module, "predictors.core.jit"], dict[str, tuple[str, int, int]]()
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name in found or file is None or not Path(file).is_file():
            continue
        about = Path(file).stat()
        found[name] = (name, about.st_mtime_ns, about.st_size)
        waiting += _kernels_within(sys.modules[name])
    return tuple(sorted(found.values()))


def _kernels_within(module: ModuleType) -> Iterator[str]:
    """Yield the modules that a module's kernels need: those it holds, and those that define functions it holds."""
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            name = value.__name__
        elif hasattr(value, "py_func"):  # compiled
            name = value.__module__
        else:
            continue
        if name.startswith(HOMES):
            yield name
