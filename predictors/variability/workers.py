"""Many small tasks over the same data, in one process or several: the results are the same, and in the same order."""

import multiprocessing
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from predictors.data.errors import JobcastError

Task = TypeVar("Task")
Result = TypeVar("Result")

_shared: Any = None  # of a worker process


def work(function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task], workers: int = 1) -> list[Result]:
    """Return `function(shared, task)` for each task, in order.

    Parameters
    ----------
    function : callable
        Of a module's top level; draws nothing by chance but by seeds in its task.
    shared : object
        Sent to each worker once.
    tasks : sequence
        Small.
    workers : int
        Processes; 1: this one.

    Raises
    ------
    JobcastError
        If there is no worker, or a task raised one.
    """
    if workers < 1:
        raise JobcastError(f"There must be at least one worker; got {workers}.")
    if workers == 1 or len(tasks) < 2:
        return [function(shared, task) for task in tasks]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(tasks)), context, _share, (shared,)) as pool:
        return list(pool.map(_call, [function] * len(tasks), tasks))


def seed_of(seed: int, *names: object) -> int:
    """Return a seed for what these names say, the same in every process.

    Examples
    --------
    >>> seed_of(0, "adaboost", 3) == seed_of(0, "adaboost", 3) != seed_of(1, "adaboost", 3)
    True
    """
    return zlib.crc32("/".join(map(str, (seed, *names))).encode())


def _share(shared: Any) -> None:
    global _shared
    _shared = shared


def _call(function: Callable[[Any, Task], Result], task: Task) -> Result:
    return function(_shared, task)
