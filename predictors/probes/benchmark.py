"""The probes: a ring and an all-reduce over MPI, each blocking call timed on each rank.

After the two benchmarks of the paper on RUSH, section III.C: a 100 MB token passed around a ring for ten iterations,
and an all-reduce of 100 MB of random data for five. Connections are made and ranks are brought together before the
clock runs, so that neither counts as congestion; within a benchmark only the calls themselves keep ranks together.
"""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.probes.measurements import ProbeRow, Settings, nine

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK: int = 1 << 20


def measure(comm: Any, settings: Settings, job: str = "") -> ProbeRow | None:
    """Run both probes on every rank, at least two; rank 0 gets the row, the others None."""
    if comm.Get_size() < 2:
        raise JobcastError("Probes need at least two ranks, best one a node; start them as `mpirun -n 2 …`.")
    began = time.time()
    _connect(comm)
    send, recv = ring(comm, settings)
    waits = comm.gather((send, recv, allreduce(comm, settings)), root=0)
    hosts = comm.gather(_host(), root=0)
    if comm.Get_rank() != 0:
        return None
    figures = nine(*(np.array([of_rank[call] for of_rank in waits]) for call in range(3)))
    now = time.time()
    return ProbeRow(
        time=now, seconds=max(0.0, now - began), job=job, hosts=tuple(dict.fromkeys(hosts)), ranks=comm.Get_size(),
        settings=settings, waits=tuple(figures.tolist()),
    )  # fmt: skip


def ring(comm: Any, settings: Settings) -> tuple[Floats, Floats]:
    """Send to the right and receive from the left, again and again; return this rank's waits in Send and Recv [s]."""
    rank, size, once = comm.Get_rank(), comm.Get_size(), settings.ring == "token"
    left, right = (rank - 1) % size, (rank + 1) % size
    sends_first = rank == 0 if once else rank % 2 == 0
    held = _message(0 if once and rank == 0 else rank, settings.ring_bytes)
    arriving = held if once else np.zeros_like(held)
    send, recv = np.empty(settings.ring_iterations), np.empty(settings.ring_iterations)
    comm.Barrier()
    for turn in range(settings.ring_iterations):
        if sends_first:
            send[turn] = _seconds(comm.Send, held, right)
            recv[turn] = _seconds(comm.Recv, arriving, left)
        else:
            recv[turn] = _seconds(comm.Recv, arriving, left)
            send[turn] = _seconds(comm.Send, held, right)
        held, arriving = arriving, held
    origin = 0 if once else (rank - settings.ring_iterations) % size
    if not np.array_equal(held, _message(origin, settings.ring_bytes)):
        raise JobcastError(f"Probes: the message that reached rank {rank} is not the one that rank {origin} sent.")
    return send, recv


def allreduce(comm: Any, settings: Settings) -> Floats:
    """Add up random numbers of all ranks, again and again; return this rank's waits [s]."""
    mine = np.random.default_rng(comm.Get_rank()).random(settings.allreduce_bytes // 8)
    total = np.zeros_like(mine)
    waits = np.empty(settings.allreduce_iterations)
    comm.Barrier()
    for turn in range(settings.allreduce_iterations):
        waits[turn] = _seconds(comm.Allreduce, mine, total)
    if not np.isclose(total[-1], comm.allreduce(float(mine[-1])), rtol=1e-9):
        raise JobcastError(f"Probes: the all-reduce gave rank {comm.Get_rank()} a wrong sum.")
    return waits


def _connect(comm: Any) -> None:
    """Send one message between neighbours and one to all: the first message of a pair opens a connection."""
    rank, size = comm.Get_rank(), comm.Get_size()
    comm.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
    comm.allreduce(rank)


def _message(origin: int, n_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the first message of a rank; no two ranks' are the same."""
    block = np.frombuffer(np.random.default_rng(origin).bytes(min(n_bytes, _BLOCK)), dtype=np.uint8)
    return np.resize(block, n_bytes)


def _seconds(call: "Callable[..., Any]", *given: Any) -> float:
    start = time.perf_counter()
    call(*given)
    return time.perf_counter() - start


def _host() -> str:
    import socket

    return socket.gethostname()
