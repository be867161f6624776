"""The typed door to numba: `@compiled` turns a function of arrays and numbers into machine code, cached on disk.

The logger `predictors.core.jit` names, at level INFO, each function that is compiled because the cache lacks it.
"""

import fcntl
import hashlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

import numba
import numba.extending
from llvmlite import ir
from numba.core import event, types
from numba.core.caching import FunctionCache

STEP: dict[str, type] = {}
RARE: dict[str, type] = {}
KERNEL: dict[str, type] = {}
with suppress(ImportError):  # parts of numba that are not public
    from predictors.core import _numba_linking as _linking

    STEP, KERNEL = {"pipeline_class": _linking.StepCompiler}, {"pipeline_class": _linking.KernelCompiler}
    RARE = {"pipeline_class": _linking.RareCompiler}

P = ParamSpec("P")
R = TypeVar("R")

HOMES: Final = ("predictors", "schedsim")  # packages with kernels
LOCKS: Final = "kernels.lock"
"""A file in each folder of compiled code; each kernel's lock is one byte of it, far behind its end."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; later processes load it from the cache.

    The cache lies next to the module, or in the user's cache folder where the package is read-only. If neither can be
    written, every process compiles again, and says so. The function may only take arrays and numbers, and call other
    compiled functions.
    """
    return _cached(function)


def lean(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `compiled`, but without counting references to its arrays, which costs as much.

    Such functions may neither make an array nor return one.
    """
    return _cached(function, _nrt=False)


def step(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `lean`, as a part of the compiled functions that call it; Python can't.

    Steps are optimised together with those that call them (see `_numba_linking`): cut them as reads best. What is given
    as a literal in a call (`True`, -1) makes a step of its own.
    """
    return _njit(function, STEP, _nrt=False, no_cpython_wrapper=True)


def rare(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `step`, for what most runs never reach, or seldom: it is not put into those that call it.

    These stay short: what they do each time needs fewer registers, and nothing is made ready for what does not come.
    """
    return _njit(function, RARE, _nrt=False, no_cpython_wrapper=True)


def door(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that Python calls, of a step."""
    return lean(function.py_func)  # type: ignore[attr-defined]  # of numba's functions


@numba.extending.intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]  # numba
def move(_typing: Any, numbers: Any, target: Any, source: Any, n: Any) -> Any:
    """Move `n` numbers of an array within it, all at once, in a few instructions.

    For steps alone; `n` is a constant of the module that calls. Neither place is checked: both must leave room for
    `n` numbers.
    """
    if not isinstance(n, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        row = ir.VectorType(ir.IntType(64), n.literal_value).as_pointer()
        there, here = (builder.bitcast(builder.gep(array.data, [place]), row) for place in arguments[1:3])
        builder.store(builder.load(here, align=8), there, align=8)
        return context.get_dummy_value()

    return types.void(numbers, types.int64, types.int64, n), generate


@numba.extending.intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]  # numba
def below(_typing: Any, numbers: Any, limit: Any, n: Any) -> Any:
    """Return which of the first `n` numbers of an array are smaller than a limit: bit k is that of the k-th.

    All are compared at once, in a few instructions and without a guess. For steps alone; `n` is a constant of the
    module that calls, below 64, and the array has so many places.
    """
    if not isinstance(n, types.IntegerLiteral):
        return None
    lanes, word = n.literal_value, ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        row, index = ir.VectorType(word, lanes), ir.IntType(32)
        values = builder.load(builder.bitcast(array.data, row.as_pointer()), align=8)
        one = builder.insert_element(row(ir.Undefined), arguments[1], index(0))
        each = builder.shuffle_vector(one, row(ir.Undefined), ir.VectorType(index, lanes)([0] * lanes))
        return builder.zext(builder.bitcast(builder.icmp_signed("<", values, each), ir.IntType(lanes)), word)

    return types.int64(numbers, types.int64, n), generate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]  # numba
def lowest_bit(_typing: Any, bits: Any) -> Any:
    """Return the place of the lowest bit that is set in a number; 64 if none is."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.int64), generate


def machine_code(function: Callable[P, R]) -> Callable[P, R]:
    """Return the code of a compiled function that was called once already; the arguments' types are checked no more.

    A call then costs 0.2 microseconds instead of 3. All arguments must be of the types of that call. Of a function that
    was called with several, the function itself.
    """
    compiled = list(function.overloads.values())  # type: ignore[attr-defined]  # of numba's functions
    return compiled[0].entry_point if len(compiled) == 1 else function


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Let numba compile `function`, cached wherever a folder for it can be written."""
    done = _njit(function, KERNEL, **options)
    try:
        done._cache = KernelCache(function)  # type: ignore[attr-defined]  # of numba's functions
        done.compile = _releasing(done)  # type: ignore[attr-defined]
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        warnings.warn("Compiled code cannot be kept: set NUMBA_CACHE_DIR to a folder of yours.", stacklevel=4)
    return done


def _releasing(kernel: Any) -> Callable[[Any], Any]:
    """Return a kernel's `compile`, after which its cache lets other processes go on, whatever comes of it."""
    compile_it, release = kernel.compile, kernel._cache.release

    def compile_and_release(signature: Any) -> Any:
        try:
            return compile_it(signature)
        finally:
            release()

    return compile_and_release


def _njit(function: Callable[P, R], compiler: dict[str, type], **options: Any) -> Callable[P, R]:
    options |= compiler | {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    done: Callable[P, R] = numba.njit(**options)(function)
    return done


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba is not typed
    """The compiled code of one function on disk, a file for each specialisation.

    numba's own cache looks at the function's file alone and would go on with the old code of other modules; it lets all
    processes that meet a kernel at the same time compile it; and two processes that write different specialisations at
    the same time may overwrite each other's. This one is out of date when any module that the kernel needs is edited,
    lets one process compile while the others wait for its code, and lets them write in turn.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        file: Any = self._cache_file
        # code of another state is not even read: it may name modules that are gone
        file._version = (file._version, *_stamps(function.__module__))
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
                logging.getLogger(__name__).info(told, *name)
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
    """Return the name, time and size of the modules that a module's kernels need, itself and this one too, sorted."""
    waiting, found = [module, __name__], dict[str, tuple[str, int, int]]()
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
    """Yield the modules that a module's kernels need: those it holds, and those whose compiled functions it holds."""
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            name = value.__name__
        elif hasattr(value, "py_func"):  # compiled
            name = value.__module__
        else:
            continue
        if name.startswith(HOMES):
            yield name


class _Teller(event.Listener):  # type: ignore[misc]  # numba is not typed
    """Tells the logger which kernel or step is being compiled, and when all that it needs is done."""

    def __init__(self) -> None:
        self._begun = 0  # of our functions, one inside the other
        self._log = logging.getLogger(__name__)

    def on_start(self, begun: Any) -> None:
        function = begun.data["dispatcher"].py_func
        if function.__module__.startswith(HOMES):
            self._begun += 1
            self._log.info("compiling %s.%s", function.__module__.rpartition(".")[2], function.__name__)

    def on_end(self, ended: Any) -> None:
        """Tell that it is done, if nothing else waits for it."""
        if ended.data["dispatcher"].py_func.__module__.startswith(HOMES):
            self._begun -= 1
            if self._begun == 0:
                self._log.info("compiled")


event.register("numba:compile", _Teller())
