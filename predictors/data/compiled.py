"""The typed door to numba: `@compiled` turns a function of arrays and numbers into machine code, cached on disk."""

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")

HOMES: Final = ("predictors", "schedsim")
"""Packages with kernels: modules whose names begin with an underscore."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; later processes load it from the cache.

    The cache lies beside the module, or in the user's cache folder where the package is read-only. Where neither can be
    written every process compiles anew, and says so. The function may only take arrays and numbers, and call other
    compiled functions.
    """
    return _cached(function)


def lean(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `compiled`, but without counting references to its arrays, which costs as much.

    For the steps of a hot loop that call one another: they may neither make an array nor return one.
    """
    return _cached(function, _nrt=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into each of its callers: for the large parts of a hot loop, called from one place.

    That makes them faster, and what they call is not compiled over and over with each of its callers.
    """
    return _cached(function, inline="always")


def step(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `lean`, to be called by compiled functions only, which saves compiling its door."""
    return _cached(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Let numba compile `function`, cached wherever a folder for it can be written."""
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        done: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        warnings.warn("Compiled code cannot be kept: set NUMBA_CACHE_DIR to a folder of yours.", stacklevel=4)
        done = numba.njit(**options)(function)
    _watch_callees(done, function.__module__)
    return done


def _watch_callees(done: Any, module: str) -> None:
    """Let the cache of a compiled function hold only as long as no module that it calls into is edited.

    numba looks at the function's own file alone, and would go on with the old code of the others. This needs a part of
    it that is not public; where that is missing, the cache is as numba has it.
    """
    file: Any = getattr(getattr(done, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, *_stamps(module))


@cache
def _stamps(module: str) -> tuple[tuple[str, int, int], ...]:
    """Return the name, time and size of the kernels' modules that a module imports, itself included, sorted."""
    waiting, found = [module], dict[str, tuple[str, int, int]]()
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
    """Yield the modules of kernels of which a module holds names."""
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.startswith(HOMES) and name.rpartition(".")[2].startswith("_"):
            yield name
