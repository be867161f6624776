"""Kernel of `schedsim.contention.rates`: the rates of all counters of all nodes, from the loads."""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

import schedsim.contention._kernels_loads as to
from predictors.data.compiled import compiled, lean
from schedsim._kernels_draws import normal
from schedsim._kernels_orders import mixed

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rates = npt.NDArray[np.float32]

# drivers, in the order of `predictors.data.counters.DRIVERS`
SENT: Final = 0
RECEIVED: Final = 1
STALL: Final = 2
READ: Final = 3
WRITTEN: Final = 4
CALLS: Final = 5
RANDOM: Final = 6
DRIVERS: Final = 8

IDLE: Final = -1
NOISE: Final = -2

# what every node's system does by itself, as long as nothing makes it wait
OWN_TRAFFIC: Final = 1e6  # bytes/s
OWN_DATA: Final = 2e4  # bytes/s
OWN_CALLS: Final = 2.0  # 1/s
READS: Final = 0.4  # of the data that a job moves, the rest is written
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
    drive = np.zeros(DRIVERS)
    for node in range(n_nodes):
        leaf, j = node // per_leaf, owner[node]
        waits = min(load[leaf], most)  # g / (1 + g); whatever crosses the uplink waits g times as long as it takes
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
    """Write minimum, maximum and mean of each counter over all samples of these nodes; NaN where none is known."""
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
