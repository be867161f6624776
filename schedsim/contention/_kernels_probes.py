"""Kernel of `schedsim.contention.probes`: waits in the calls of a ring and an all-reduce, node by node."""

import math

import numpy as np
import numpy.typing as npt

import schedsim.contention._kernels_loads as to
from predictors.data.compiled import compiled
from schedsim._kernels_draws import normal
from schedsim._kernels_orders import mixed

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
            worst = 1.0  # several leaves: what goes from one to another passes the uplinks
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
