"""Kernel that turns feature rows into what a forest reads: numbers copied, categories marked in their column."""

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@compiled
def encode(rows: Floats, places: Ints, starts: Ints, codes: Floats, missing: float, out: Singles) -> None:
    """Write encoded rows into `out`, which must be all 0.

    A feature without a table is a number: copied to its place, `missing` standing for NaN. One with a table
    codes[starts[c]:starts[c + 1]], sorted, is a category: a 1 marks its code's column; other codes and NaN mark none.
    """
    for i in range(len(rows)):
        for c in range(len(places)):
            x = rows[i, c]
            low, high = starts[c], starts[c + 1]
            if low == high:
                out[i, places[c]] = missing if np.isnan(x) else x
                continue
            k = low + np.searchsorted(codes[low:high], x)
            if k < high and codes[k] == x:
                out[i, places[c] + k - low] = 1.0
