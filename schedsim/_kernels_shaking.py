"""Kernel of `schedsim.shaking`: one number from 0 to 1 for each job, by its id alone."""

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled
from schedsim._kernels_orders import mixed

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def uniform(seed: int, job_id: Ints, purpose: int, out: Floats) -> None:
    """Write a number in [0, 1) for each job id."""
    for i in range(len(job_id)):
        out[i] = (mixed(seed, job_id[i], purpose) >> 10) / 9007199254740992.0  # 53 bits
