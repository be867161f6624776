"""The typed door to numba: `@compiled` turns a function of arrays and numbers into machine code, cached on disk."""

import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


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
    return done
