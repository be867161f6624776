"""The typed door to numba: `@compiled` turns a function of arrays and numbers into machine code, cached on disk."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; later processes load it from the cache.

    The cache lies beside the module, or in the user's cache folder where the package is read-only.
    The function may only take arrays and numbers, and call other compiled functions.
    """
    decorate: Callable[[Callable[P, R]], Callable[P, R]] = numba.njit(cache=True, nogil=True, error_model="numpy")
    return decorate(function)


def lean(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `compiled`, but without counting references to its arrays, which costs as much.

    For the steps of a hot loop that call one another: they may neither make an array nor return one.
    """
    decorate: Callable[[Callable[P, R]], Callable[P, R]] = numba.njit(
        cache=True, nogil=True, error_model="numpy", _nrt=False
    )
    return decorate(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into each of its callers: for the large parts of a hot loop, called from one place.

    That makes them faster, and what they call is not compiled over and over with each of its callers.
    """
    decorate: Callable[[Callable[P, R]], Callable[P, R]] = numba.njit(
        cache=True, nogil=True, error_model="numpy", inline="always"
    )
    return decorate(function)


def step(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `lean`, to be called by compiled functions only, which saves compiling its door."""
    decorate: Callable[[Callable[P, R]], Callable[P, R]] = numba.njit(
        cache=True, nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return decorate(function)
