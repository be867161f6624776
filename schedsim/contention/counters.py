"""Rates of the nodes' counters, and the probes, from the loads of one moment."""

import math
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

import schedsim.contention._loads as to
from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.hash_random import mixed, normal
from predictors.core.jit import compiled, lean
from predictors.data.telemetry.counters import COUNTERS, DRIVERS

Rates = npt.NDArray[np.float32]

# drivers, in the order of `DRIVERS` in `predictors.data.telemetry.counters`
SENT: Final = 0
RECEIVED: Final = 1
STALL: Final = 2
READ: Final = 3
WRITTEN: Final = 4
CALLS: Final = 5
RANDOM: Final = 6
N_DRIVERS: Final = 8

IDLE: Final = -1
NOISE: Final = -2

# the load of a node's own system, as long as nothing makes it wait
OWN_TRAFFIC: Final = 1e6  # bytes/s
OWN_DATA: Final = 2e4  # bytes/s
OWN_CALLS: Final = 2.0  # 1/s
READS: Final = 0.4  # share of the data that a job reads; it writes the rest
UNEVEN: Final = 0.05  # standard deviation of a driver between nodes and samples


@lean
def _next(state: np.uint64) -> np.uint64:
    """Return the next state of a xorshift generator."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@compiled
def sample(
    owner: Ints, spread: Ints, width: Ints, about: Floats, speed: Floats, load: Floats, noise: float, machine: Floats,
    driver: Ints, scale: Floats, seed: int, index: int, lost: float, out: Rates,
) -> None:  # fmt: skip
    """Write the rates of sample `index`; a node's sample is lost, all NaN, with probability `lost`."""
    n_leaves, n_nodes, most = len(load) - 2, len(owner), machine[to.MOST]
    per_leaf = n_nodes // n_leaves
    own = mixed(seed, index, 31)
    served_data = OWN_DATA / (1.0 + to.penalty(load[n_leaves], most))
    served_calls = OWN_CALLS / (1.0 + to.penalty(load[n_leaves + 1], most))
    drive = np.zeros(N_DRIVERS)
    for node in range(n_nodes):
        leaf, j = node // per_leaf, owner[node]
        waits = min(load[leaf], most)  # g / (1 + g); data that crosses the uplink waits g times as long as it takes
        sends, crosses = OWN_TRAFFIC * (1.0 - waits), OWN_TRAFFIC * (1.0 - waits)
        moves, calls = 0.0, 0.0
        if j >= 0:
            there = spread[j, leaf] / width[j]
            moves, calls = speed[j] * about[j, to.MOVES], speed[j] * about[j, to.CALLS]
            sends += speed[j] * about[j, to.SENDS]
            crosses += speed[j] * about[j, to.SENDS] * about[j, to.SPREAD] * (1.0 - there) + moves
        elif j == NOISE:
            sends += noise
            crosses += noise
        uneven = 1.0 + UNEVEN * normal(own, node, 32)
        drive[READ], drive[WRITTEN] = READS * moves + served_data, (1.0 - READS) * moves + served_data
        drive[SENT] = max(0.0, sends * uneven) + drive[WRITTEN]
        drive[RECEIVED] = max(0.0, sends * (1.0 + UNEVEN * normal(own, node, 33))) + drive[READ]
        drive[STALL] = min(1.0, crosses * abs(uneven) / machine[to.INJECTION] * waits / (1.0 - waits))
        drive[CALLS] = calls + served_calls
        state = np.uint64(mixed(own, node, 34)) | np.uint64(1)
        if lost > 0.0 and (mixed(own, node, 35) >> 10) / 9007199254740992.0 < lost:
            out[node] = math.nan
            continue
        for c in range(len(driver)):
            if scale[c] == 0.0:
                out[node, c] = 0.0
                continue
            state = _next(state)
            u = (state >> np.uint64(40)) * (1.0 / 16777216.0)
            if driver[c] == RANDOM:
                out[node, c] = scale[c] * 2.0 * u
            else:
                out[node, c] = scale[c] * drive[driver[c]] * (0.98 + 0.04 * u)


@compiled
def pool(rates: Rates, nodes: Ints, out: Floats) -> None:
    """Write minimum, maximum and mean of each counter over all samples of these nodes; NaN without samples."""
    for c in range(rates.shape[2]):
        out[3 * c], out[3 * c + 1], out[3 * c + 2] = math.inf, -math.inf, 0.0
    known = np.zeros(rates.shape[2])
    for t in range(rates.shape[0]):
        for node in nodes:
            for c in range(rates.shape[2]):
                x = float(rates[t, node, c])
                if not math.isnan(x):
                    out[3 * c] = min(out[3 * c], x)
                    out[3 * c + 1] = max(out[3 * c + 1], x)
                    out[3 * c + 2] += x
                    known[c] += 1.0
    for c in range(rates.shape[2]):
        if known[c] > 0.0:
            out[3 * c + 2] /= known[c]
        else:
            out[3 * c : 3 * c + 3] = math.nan


_DRIVER: Final = np.array([list(DRIVERS).index(counter.driver) for counter in COUNTERS], dtype=np.int64)
_SCALE: Final = np.array([counter.scale for counter in COUNTERS], dtype=np.float64)


class Sink(Protocol):
    """Receives the counters' rates sample by sample, such as a ring that keeps the last five minutes."""

    def push(self, time: float, rates: Rates) -> None:
        """Take a sample: time [s], and rates per second of shape (nodes, 90), NaN where lost; do not keep the array."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The constant loads from one second (excluded) to another."""

    # seconds of the model's clock
    since: int
    until: int
    owner: Ints  # the place of each node's job in the arrays below, or `IDLE` or `NOISE`, shape (nodes,)
    spread: Ints  # nodes of each job on each leaf, shape (m, leaves)
    width: Ints  # nodes of each job, shape (m,)
    about: Floats  # its application, see `App.vector`, shape (m, 7)
    speed: Floats  # its speed; 1 on a machine without contention, shape (m,)
    load: Floats  # utilisation of the uplinks, the file system, the metadata server, shape (leaves + 2,)
    noise: float  # what each node of the noise job sends [bytes/s]

    def copy(self) -> Self:
        arrays: dict[str, Any] = {k: v.copy() for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return replace(self, **arrays)

    def rates(self, machine: Floats, seed: int, index: int, lost: float, out: Rates) -> None:
        """Write the rates of sample number `index`, which lies in this frame, into `out` of shape (nodes, 90)."""
        sample(
            self.owner, self.spread, self.width, self.about, self.speed, self.load, self.noise, machine,
            _DRIVER, _SCALE, seed, index, lost, out,
        )  # fmt: skip


@compiled
def measure(
    seed: int, job_id: int, nodes: Ints, per_leaf: int, load: Floats, most: float, idle: Floats, weight: float,
    jitter: float, out: Floats,
) -> None:  # fmt: skip
    """Write minimum, maximum and mean over the nodes of the waits in Send, Recv and AllReduce."""
    n, own = len(nodes), mixed(seed, job_id, 51)
    worst = 0.0
    for i in range(n):
        if nodes[i] // per_leaf != nodes[0] // per_leaf:
            worst = 1.0  # several leaves: data between them passes the uplinks
    across, slowest = worst > 0.0, 0.0
    if across:
        for i in range(n):
            slowest = max(slowest, to.penalty(load[nodes[i] // per_leaf], most))
    for call in range(3):
        low, high, total = math.inf, 0.0, 0.0
        for i in range(n):
            felt = 0.0
            if call == 2:
                felt = slowest
            elif across:
                there = nodes[i] if call == 0 else nodes[(i + n - 1) % n]
                felt = to.penalty(load[there // per_leaf], most)
            wait = idle[call] * (1.0 + weight * felt) * math.exp(jitter * normal(own, 3 * nodes[i] + call, 52))
            low, high, total = min(low, wait), max(high, wait), total + wait
        out[3 * call], out[3 * call + 1], out[3 * call + 2] = low, high, total / n


@dataclass(frozen=True)
class Probes:
    """Waits of `t0 (1 + weight g)` with some jitter, where g is the queueing penalty of the call.

    A node's Send meets the penalty of its own leaf's uplink, its Recv that of its predecessor's, an AllReduce the worst
    of all; within one leaf all are undisturbed.
    """

    # send, receive, reduce: t0: waits on an idle machine, over 10, 10 and 5 rounds [s]
    send: float = 0.08
    receive: float = 0.08
    reduce: float = 0.10
    weight: float = 0.5  # share of the penalty that counts
    jitter: float = 0.05  # standard deviation of the logarithm of each node's wait

    def __post_init__(self) -> None:
        for name in ("send", "receive", "reduce", "weight", "jitter"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise JobcastError(f"A probe's {name} must be 0 or more; got {value}.")

    def measure(self, seed: int, job_id: int, nodes: Ints, per_leaf: int, load: Floats, most: float) -> Floats:
        """Return the nine figures in the order of `predictors.data.runs.PROBES` [s]."""
        out, idle = np.empty(9), np.array([self.send, self.receive, self.reduce])
        measure(seed, job_id, nodes, per_leaf, load, most, idle, self.weight, self.jitter, out)
        return out
