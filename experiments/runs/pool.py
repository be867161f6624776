"""Many tasks, one pool of workers: this process, local processes, a Dask scheduler's workers, a batch system's.

`each` gives the same results for any workers: tasks depend on their arguments alone. The task of a killed worker is
done again by another; a task that ends three workers is given up.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from experiments.console import working
from experiments.reports.provenance import code_digest, versions
from experiments.runs.clusters import Cluster, Pool, PoolError, cluster_of

if TYPE_CHECKING:
    from distributed import Client

Task = TypeVar("Task")
Result = TypeVar("Result")

HERE: Final = Pool()  # this process
COMPILER: Final = logging.getLogger("predictors.core.jit")  # hears of each kernel that is compiled, and that it is done
DONE: Final = "compiled"
GLIMPSE: Final = 0.1
"""How often results are collected [s]; workers do not wait for that, the scheduler has their next tasks."""
GLANCE: Final = 2.0  # after how long without a result the workers are checked [s]


def each(
    # of a module's top level; draws nothing by chance but by seeds in its task
    function: Callable[[Any, Task], Result],
    shared: Mapping[str, Any],  # what tasks have in common; it goes to each worker once, when the worker needs it
    tasks: Sequence[tuple[str, Task]],  # small; begun in this order
    pool: Pool = HERE,  # the workers
    # tasks to be done once by one worker of each machine before the others begin, so that what has to be compiled is
    # compiled once; what they return is forgotten
    warm: Sequence[tuple[str, Task]] = (),
    needs: float = 0.0,  # memory without which a worker cannot do them [bytes]
) -> Iterator[tuple[int, Result]]:
    """Yield (number of the task, `function(shared[name], task)`) for each task (name, task), as they are done."""
    if not tasks:
        return
    if pool.alone:
        yield from ((number, function(shared[name], task)) for number, (name, task) in enumerate(tasks))
        return
    with cluster_of(pool, len(tasks)) as cluster:
        client = cluster.client
        _wait_for_workers(cluster, pool, needs)
        token = uuid4().hex  # a scheduler may know tasks of others, or of a run before this
        # Each shared value is the result of a task of its own, so that the scheduler can make it again if it is lost.
        heard = f"compiling-{token}"
        client.subscribe_topic(heard, _tell)
        told = partial(_telling, function, heard)
        kept = {
            name: client.submit(_itself, value, key=f"shared-{number}-{token}", pure=False)
            for number, (name, value) in enumerate(shared.items())
        }
        _warm(cluster, pool, told, kept, warm, token)
        futures = {
            client.submit(told, kept[name], task, key=f"task-{number}-{token}", pure=False): number
            for number, (name, task) in enumerate(tasks)
        }
        yield from _collected(cluster, pool, futures)


def mapped(pool: Pool, function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task]) -> list[Result]:
    """Return `function(shared, task)` for each task, in order; see `each`."""
    named = [("shared", task) for task in tasks]
    by_number = dict(each(function, {"shared": shared}, named, pool))
    return [by_number[number] for number in range(len(tasks))]


def _itself(value: Any) -> Any:
    return value


class _Messenger(logging.Handler):
    """Sends what a worker says of the code that it compiles to the process that hired it."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic

    def emit(self, record: logging.LogRecord) -> None:
        """Send it; a worker that is just leaving has no one to send it to."""
        from distributed import get_worker

        with suppress(Exception):
            get_worker().log_event(self.topic, record.getMessage())


def _telling(function: Callable[[Any, Task], Result], topic: str, shared: Any, task: Task) -> Result:
    """Return `function(shared, task)`, on a worker; a topic receives what has to be compiled for that."""
    logger, level, messenger = COMPILER, COMPILER.level, _Messenger(topic)
    logger.addHandler(messenger)
    logger.setLevel(logging.INFO)
    try:
        return function(shared, task)
    finally:
        logger.removeHandler(messenger)
        logger.setLevel(level)


def _tell(event: tuple[float, str]) -> None:
    """Say here what a worker compiles, as if this process did."""
    COMPILER.info(*("%s", event[1]) if event[1] != DONE else (DONE,))


def _collected(cluster: Cluster, pool: Pool, futures: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    from distributed import as_completed

    client = cluster.client
    waiting, since = as_completed(futures, loop=client.loop), monotonic()
    while futures:
        if not waiting.has_ready():
            sleep(GLIMPSE)
            since = _idle_since(cluster, pool, since)
            continue
        future, since = next(waiting), monotonic()
        number = futures.pop(future)
        yield number, _result(client, pool, future)
        future.release()


def _result(client: "Client", pool: Pool, future: Any) -> Any:
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    try:
        return future.result()
    except KilledWorker as error:
        why = "ran out of memory" if pool.queue is None else "ran out of memory or time"
        raise PoolError(
            f"A task ended three workers, the last at {error.last_worker.address}; most likely they {why}: "
            f"{_more(client, pool)}."
        ) from error
    except MemoryError as error:
        raise PoolError(f"A worker ran out of memory: {_more(client, pool)}.") from error
    except FutureCancelledError as error:
        raise _gone(pool) from error


def _gone(pool: Pool) -> PoolError:
    return PoolError(f"{pool.place} is gone.")


def _refused(cluster: Cluster, pool: Pool) -> PoolError:
    return PoolError(
        f"{pool.queue} refuses to start workers: {cluster.refused[0]}; see --memory, --walltime and its settings in "
        "~/.config/dask/jobqueue.yaml."
    )


def _more(client: "Client", pool: Pool) -> str:
    if pool.queue is None:
        return f"take fewer workers or give each more (--memory; now {_memory(client, pool)})"
    walltime = pool.walltime or "as its settings say"
    return f"give each job more (--memory, now {_memory(client, pool)}; --walltime, now {walltime})"


def _memory(client: "Client", pool: Pool) -> str:
    from dask.utils import format_bytes

    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    return str(format_bytes(min(limits))) if limits else pool.memory or "an equal share of this machine's"


def _idle_since(cluster: Cluster, pool: Pool, since: float) -> float:
    """Return since when no worker has been able to work; raise PoolError if that is too long ago."""
    if monotonic() - since < GLANCE:
        return since
    client = cluster.client
    if client.status != "running":
        raise _gone(pool)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if any(worker["status"] == "running" for worker in workers):
        cluster.refused.clear()  # of one job, while others work
        return monotonic()
    if cluster.refused and not workers:
        raise _refused(cluster, pool)
    if monotonic() - since < pool.patience:
        return since
    if workers:
        raise PoolError(f"No worker has memory left to go on with: {_more(client, pool)}.")
    raise PoolError(f"No worker has been there for {pool.patience:.0f} s: all have died or were taken away.")


def _wait_for_workers(cluster: Cluster, pool: Pool, needs: float) -> None:
    client, begin = cluster.client, monotonic()
    with working(f"Waiting for {'a worker' if pool.queue is None else f'a job of {pool.queue} to begin'}"):
        while not client.scheduler_info(n_workers=-1)["workers"]:
            if cluster.refused:
                raise _refused(cluster, pool)
            if client.status != "running":
                raise _gone(pool)
            if monotonic() - begin > pool.patience:
                start = "start some" if pool.scheduler else "each may need more memory (--memory)"
                raise PoolError(f"{pool.place} has had no worker for {pool.patience:.0f} s; {start}.")
            sleep(0.05)
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    if limits and 0 < min(limits) < needs:
        raise PoolError(
            f"A worker has {_memory(client, pool)} of memory, and these runs need about {needs / 2**30:.1f} GiB: take "
            "fewer workers or give each more (--memory)."
        )
    if pool.scheduler is not None or pool.queue is not None:
        _refuse_other_versions(client)


def build() -> dict[str, str]:
    """Return the versions that are at work in this process, of jobcast's own code a digest of its source."""
    return versions() | {"jobcast's source": code_digest()[:12]}


def _refuse_other_versions(client: "Client") -> None:
    ours = build()
    for address, theirs in _versions_there(client).items():
        for name in ours:
            if theirs.get(name) != ours[name]:
                raise PoolError(
                    f"Worker {address} has {name} {theirs.get(name, 'not at all')}, here it is {ours[name]}: results "
                    "could differ; install the same on both sides."
                )


def _versions_there(client: "Client") -> dict[str, dict[str, str]]:
    try:
        theirs: dict[str, dict[str, str]] = client.run(build)
    except Exception as error:  # whatever a worker without jobcast raises
        raise PoolError(f"The workers cannot import jobcast ({error}); install this version there.") from error
    return theirs


def _warm(
    cluster: Cluster, pool: Pool, function: Callable[..., Any], kept: Mapping[str, Any], warm: Sequence[Any], token: str
) -> None:
    """Let one machine do the warming tasks, then one worker of each other machine at once."""
    client, hosts = cluster.client, dict[str, str]()
    for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
        hosts.setdefault(worker["host"], address)
    addresses = list(hosts.values())
    for some in (addresses[:1], addresses[1:]):
        futures = {
            client.submit(
                function, kept[name], task, workers=[address], allow_other_workers=True, pure=False,
                key=f"warm-{number}-{address}-{token}",
            ): number
            for address in some
            for number, (name, task) in enumerate(warm)
        }  # fmt: skip
        for _ in _collected(cluster, pool, futures):
            pass


BASE_BYTES: Final = 400e6  # what a worker needs
JOB_BYTES: Final = 1200.0  # what a worker needs in addition for each job of the longest log
