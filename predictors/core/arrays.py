"""Names for the types of NumPy arrays."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]
