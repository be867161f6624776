"""The 282 inputs of a classifier, in their order: 270 of counters, 9 of probes, 3 of the workload.

The paper's Table I: 22 counters of sysclassib, 34 of opa_info and 34 of lustre2_client, each as minimum, maximum and
mean over the five minutes before the start, 66 + 102 + 102 inputs; minimum, maximum and mean of the waits in Send, Recv
and AllReduce, 9; and whether the application is one that computes, communicates or reads and writes, 3.

References
----------
.. [1] D. Nichols, A. Marathe, K. Shoga, T. Gamblin, A. Bhatele. Resource utilization aware job scheduling to mitigate
   performance variability. IPDPS 2022.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError, unknown_name
from predictors.data.runs import PROBES, WORKLOADS, Floats
from predictors.variability.inputs import IS_WORKLOAD
from predictors.variability.windows import WINDOW_FEATURES

FEATURES: Final = (*WINDOW_FEATURES, *PROBES, *IS_WORKLOAD)
"""All inputs, in order."""

SCOPES: Final = {"all": "all nodes of the machine", "job": "the nodes of the job"}
"""Whose counters are pooled."""


def one_hot(workload: npt.ArrayLike) -> Floats:
    """Return the three workload inputs, shape (n, 3); NaN where the workload is not known.

    Examples
    --------
    >>> one_hot(["io", "compute", ""]).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [nan, nan, nan]]
    """
    words = np.asarray(workload, dtype=np.str_)
    hot = np.asarray(words[:, None] == np.array(WORKLOADS), dtype=np.float64)
    hot[~hot.any(axis=1)] = np.nan
    return hot


def feature_rows(windows: Floats, probes: Floats, workload: npt.ArrayLike) -> Floats:
    """Join the parts of many rows.

    Parameters
    ----------
    windows : float64 array of shape (n, 270)
        In the order of `WINDOW_FEATURES`, NaN = no sample.
    probes : float64 array of shape (n, 9)
        In the order of `PROBES` [s], NaN = absent.
    workload : array-like of str, shape (n,)
        From `WORKLOADS`, or empty.

    Returns
    -------
    float64 array of shape (n, 282)
        In the order of `FEATURES`.
    """
    parts = (np.asarray(windows, dtype=np.float64), np.asarray(probes, dtype=np.float64), one_hot(workload))
    for part, width in zip(parts, (len(WINDOW_FEATURES), len(PROBES), len(WORKLOADS)), strict=True):
        if part.shape != (len(parts[2]), width):
            raise JobcastError(f"Rows of inputs need parts of shape ({len(parts[2])}, {width}); got {part.shape}.")
    return np.concatenate(parts, axis=1)


def feature_row(window: Floats, probes: Floats | None, workload: str) -> Floats:
    """Join the parts of one row, as of now, shape (282,): a window (270,), probes (9,) or none, the workload."""
    if workload not in (*WORKLOADS, ""):
        raise unknown_name("workload", workload, WORKLOADS)
    absent = np.full(len(PROBES), np.nan)
    row: Floats = feature_rows(window[None], (absent if probes is None else probes)[None], [workload])[0]
    return row


def check_scope(scope: str) -> None:
    """Raise unless the scope is one of `SCOPES`."""
    if scope not in SCOPES:
        raise unknown_name("node scope", scope, SCOPES)
