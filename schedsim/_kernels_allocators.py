"""Kernel of `schedsim.allocators`: numbers that look random, one for each free node, by (seed, job id, node) alone."""

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled
from schedsim._kernels_orders import mixed

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@compiled
def draw(seed: int, job_id: int, free: Bools, nodes: Ints, keys: Ints) -> int:
    """Write the free nodes and a key for each; return how many there are."""
    n = 0
    own = mixed(seed, job_id, 1)
    for node in range(len(free)):
        if free[node]:
            nodes[n] = node
            keys[n] = mixed(own, node, 2)
            n += 1
    return n
