"""Where workers come from: this machine, a Dask scheduler, Slurm or PBS.

Who can reach a Dask scheduler can run code as its owner. So the schedulers that are started here speak TLS with keys
made for the moment, which only their workers get.
"""

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

from predictors.core.errors import JobcastError, counted, missing, require, unknown_name

if TYPE_CHECKING:
    from distributed import Client

QUEUES: Final[Mapping[str, tuple[str, str]]] = {"slurm": ("SLURMCluster", "sbatch"), "pbs": ("PBSCluster", "qsub")}
"""Batch systems: dask-jobqueue's class for each, and the command that it needs."""
PATIENCE: Final = 30.0  # how long to wait for a scheduler's answer [s]
ON_THE_WAY: Final = 120.0  # how long to wait for a worker: a machine under load takes its time to start a process [s]
MOST_PER_CORE: Final = 8
"""Processes of this machine for each of its cores; more would only take memory from one another."""
IN_QUEUE: Final = 86_400.0  # how long to wait for the first worker of a batch system [s]
_SIZE: Final = re.compile(r"(?=.*[1-9])\d+(\.\d+)?\s*([kMGT]i?)?B?")
_ADDRESS: Final = re.compile(r"((tcp|tls)://)?[^\s/]+:\d+")
_KEPT_FREE: Final = {"MALLOC_TRIM_THRESHOLD_": 128 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}
"""How much freed memory a worker keeps for its next run [bytes]: Dask's own setting gives all back at once, and getting
it again took a quarter of the time of a run."""
_SETTINGS: Final = {
    "distributed.comm.timeouts.connect": f"{PATIENCE:.0f}s",
    "distributed.scheduler.allowed-failures": 2,  # three workers in all
    "distributed.admin.large-graph-warning-threshold": "1GB",  # logs go with the graph, so that none is lost
    "distributed.worker.profile.enabled": False,  # a hundred looks a second at what a worker does
    "distributed.admin.tick.interval": "200ms",
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in _KEPT_FREE.items()},
    "distributed.scheduler.http.routes": ["distributed.http.health"],  # tells nothing to passers-by
    "distributed.worker.http.routes": ["distributed.http.health"],
}


class PoolError(JobcastError):
    """There are no workers, or they fail; the tasks themselves are not at fault."""


@dataclass(frozen=True)
class Pool:
    """Workers that do tasks: this process, processes of this machine, or a Dask cluster.

    Parameters
    ----------
    workers : int
        Processes; 1 on this machine: this process. A running scheduler has its own.
    scheduler : str, optional
        Address of a running Dask scheduler, such as `tcp://node1:8786`. Its workers need this version of jobcast.
    queue : {"slurm", "pbs"}, optional
        Ask that batch system for the workers, one a job, by dask-jobqueue and its settings files.
    memory : str, optional
        Most memory of a worker, such as `4GB`; on this machine by default an equal share.
    walltime : str, optional
        Requested time of a worker's job in a batch system, such as `02:00:00`.
    """

    workers: int = 1
    scheduler: str | None = None
    queue: str | None = None
    memory: str | None = None
    walltime: str | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise JobcastError(f"There must be at least one worker; got {self.workers}.")
        if self.queue is not None and self.queue not in QUEUES:
            raise unknown_name("batch system", self.queue, QUEUES)
        if self.queue is not None and self.scheduler is not None:
            raise JobcastError("Give a scheduler's address or a batch system to ask for workers, not both.")
        if self.scheduler is not None and (
            not _ADDRESS.fullmatch(self.scheduler) or self.scheduler.count("[") != self.scheduler.count("]")
        ):
            raise JobcastError(f"{self.scheduler!r} is no address of a scheduler; give one such as tcp://node1:8786.")
        if self.memory is not None and not _SIZE.fullmatch(self.memory):
            raise JobcastError(f"Memory of a worker must be a size such as 4GB; got {self.memory!r}.")
        if self.queue is not None and self.memory is None:
            raise JobcastError(f"Jobs of {self.queue} must say how much memory they need: --memory 4GB.")
        if self.walltime is not None and self.queue is None:
            raise JobcastError("A walltime is for workers of a batch system: --queue slurm or pbs.")
        if not self.alone:
            require("distributed", *(() if self.queue is None else ("dask_jobqueue",)))

    @property
    def alone(self) -> bool:
        """Whether everything is done in this process."""
        return self.workers == 1 and self.scheduler is None and self.queue is None

    @property
    def patience(self) -> float:
        """How long to wait for a worker [s]."""
        return ON_THE_WAY if self.queue is None else IN_QUEUE

    @property
    def place(self) -> str:
        """What to call the scheduler."""
        return f"The scheduler at {self.scheduler}" if self.scheduler else "The scheduler that was started for this"


@dataclass(frozen=True)
class Cluster:
    """Workers that are there or on their way: the scheduler's client; why a batch system refused jobs, if any."""

    client: "Client"
    refused: list[str]


@contextmanager
def cluster_of(pool: Pool, most: int) -> Iterator[Cluster]:
    """Yield a client of at most `most` workers of a pool, silent; workers started here leave when the block ends."""
    import dask
    from distributed import Client

    refused: list[str] = []
    with _silence(), dask.config.set(_SETTINGS), HeldBack() as held, ExitStack() as stack:
        stack.callback(held.begin)  # done last but one: before the workers leave
        try:
            where = _workplace(pool, min(pool.workers, most), refused, stack)
            stack.callback(held.begin)
            held.end()
            if pool.scheduler is not None:
                _greet(pool.scheduler)
            elif pool.queue is None:
                _wait_until_hired(where)
                held.begin()
            client = stack.enter_context(Client(where, timeout=PATIENCE, set_as_default=False))
            stack.callback(held.begin)
            held.end()
        except JobcastError:
            raise
        except Exception as error:  # what else listens there can answer anything
            reason = str(error).partition("\n")[0]
            raise PoolError(f"{pool.place} does not answer ({reason}); see that it runs.") from error
        yield Cluster(client, refused)


class HeldBack:
    """Signals that would end the command, held back while workers are hired or dismissed.

    An exception in the middle of that would leave Dask with workers that neither work nor leave, of which it complains
    when the process ends. Workers that are started meanwhile never hear Ctrl-C, which a terminal sends to them too: it
    is this process that ends them.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came: int | None = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self) -> None:
        """Hold back signals from now on."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return  # only the main thread hears of signals
        resource_tracker.ensure_running()  # here, since it unblocks these signals in the thread that first needs it
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                self._before[number] = signal.signal(number, self._note)

    def end(self) -> None:
        """Hold them back no longer; what has come meanwhile takes effect now."""
        if not self._before:
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before, came, self._came = {}, self._came, None
        if came is not None:
            signal.raise_signal(came)

    def _note(self, number: int, frame: Any) -> None:
        self._came = number


def _wait_until_hired(cluster: Any) -> None:
    """Wait until the workers of this machine are there; an interruption ends the waiting, not the hiring."""

    async def hired() -> None:
        await cluster

    asyncio.run_coroutine_threadsafe(hired(), cluster.loop.asyncio_loop).result()


def _greet(address: str) -> None:
    """Raise an error unless a Dask scheduler answers: a client would wait without end for any other server."""
    from distributed.core import connect
    from distributed.utils import LoopRunner

    async def greeted() -> Any:
        there = await connect(address, timeout=PATIENCE)
        try:
            await there.write({"op": "identity", "reply": True})
            return await there.read()
        finally:
            there.abort()

    runner = LoopRunner(asynchronous=False)
    runner.start()
    try:
        answer = runner.run_sync(greeted, callback_timeout=PATIENCE + 1)
    finally:
        runner.stop()
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError("that is no Dask scheduler")


def _workplace(pool: Pool, workers: int, refused: list[str], stack: ExitStack) -> Any:
    if pool.scheduler is not None:
        return pool.scheduler
    from dask.system import CPU_COUNT
    from distributed import LocalCluster, Security

    if pool.queue is not None:
        cluster = _queued(pool, refused, stack)
        cluster.adapt(minimum_jobs=workers, maximum_jobs=workers)  # also asks again when a job's time is over
        return cluster
    if workers > MOST_PER_CORE * CPU_COUNT:
        raise PoolError(
            f"{pool.workers:,} workers are too many for the {counted(CPU_COUNT, 'core')} of this machine; take "
            f"{MOST_PER_CORE * CPU_COUNT} or fewer, best as many as there are cores."
        )
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited: workers share the cores
    local = stack.enter_context(
        LocalCluster(
            n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            memory_limit=pool.memory or "auto", security=Security.temporary(), silence_logs=logging.CRITICAL,
        )
    )  # fmt: skip
    local.scale(workers)  # in the background
    return local


def _queued(pool: Pool, refused: list[str], stack: ExitStack) -> Any:
    import dask
    from distributed import Security, Status

    name, command = QUEUES[str(pool.queue)]
    if which(command) is None:
        raise PoolError(f"{pool.queue} cannot be asked for workers: there is no command {command} on this machine.")
    cluster = getattr(_jobqueue(), name)

    class ReportingJob(cluster.job_cls):  # type: ignore[misc, name-defined]
        async def start(self) -> None:
            try:
                await super().start()
            except Exception as error:
                refused.append(" ".join(str(error).rpartition("stderr:")[2].split()))
                self.status = Status.failed
                raise

    settings: dict[str, Any] = {"cores": 1, "processes": 1, "memory": pool.memory, "silence_logs": logging.CRITICAL}
    settings |= {"scheduler_options": {"dashboard_address": ":0"}}
    settings |= {} if pool.walltime is None else {"walltime": pool.walltime}
    before = dask.config.get(f"jobqueue.{pool.queue}.job-script-prologue", [])
    settings["job_script_prologue"] = [*before, *(f"export {name}={value}" for name, value in _KEPT_FREE.items())]
    # Jobs begin in this folder, too: the workers' keys lie in it while they are needed.
    keys = stack.enter_context(TemporaryDirectory(prefix=".jobcast-", dir=Path.cwd()))
    try:
        made = cluster(**settings, job_cls=ReportingJob, security=_written(Security.temporary(), Path(keys)))
    except (ValueError, RuntimeError) as error:
        raise PoolError(f"{pool.queue} cannot be asked for workers: {error}") from error
    return stack.enter_context(made)


def _jobqueue() -> Any:
    """Return dask-jobqueue; its plain import would make Ctrl-C a success."""
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise PoolError(missing(error)) from error
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue


def _written(keys: Any, folder: Path) -> Any:
    """Return the same keys as files that only their owner can read; they go with the folder, whatever ends the work."""
    from distributed import Security

    files = {}
    for name in ("tls_ca_file", "tls_client_cert", "tls_client_key", "tls_scheduler_cert", "tls_scheduler_key",
                 "tls_worker_cert", "tls_worker_key"):  # fmt: skip
        path = folder / name
        path.touch(0o600)
        path.write_text(getattr(keys, name), encoding="ascii")
        files[name] = str(path)
    return Security(require_encryption=True, **files)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the remarks of distributed off the user's screen; failures are raised once."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.nanny", "distributed.scheduler")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
