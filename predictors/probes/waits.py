"""How long did blocking calls wait? The waits of every rank and iteration, made the nine inputs of a classifier."""

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from predictors.data.runs import Floats


def nine(send: npt.ArrayLike, recv: npt.ArrayLike, allreduce: npt.ArrayLike) -> Floats:
    """Return minimum, maximum and mean of each call's waits, in the order of `predictors.data.runs.PROBES`.

    Parameters
    ----------
    send, recv, allreduce : array-like of shape (n_ranks, n_iterations)
        Time spent in each call [s]; every wait counts alike.

    Returns
    -------
    float64 array of shape (9,)
        [s].

    Raises
    ------
    JobcastError
        If a call was never made, or a wait is no finite time.

    Examples
    --------
    >>> nine([[1, 3]], [[2, 2]], [[0.5], [1.5]]).tolist()
    [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 0.5, 1.5, 1.0]
    """
    found: list[float] = []
    for name, given in (("Send", send), ("Recv", recv), ("AllReduce", allreduce)):
        waits = np.asarray(given, dtype=np.float64)
        if not waits.size or not np.isfinite(waits).all() or (waits < 0).any():
            raise JobcastError(f"Probes: the waits in {name} must be finite times, at least one; got {given!r}.")
        found += [float(waits.min()), float(waits.max()), float(waits.mean())]
    return np.array(found)
