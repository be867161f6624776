"""From a table of runs and a folder of telemetry to a dataset, months of samples read once, part by part."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from predictors.data.account import Account
from predictors.data.errors import JobcastError
from predictors.data.runs import Runs
from predictors.data.telemetry import Samples, Telemetry
from predictors.variability.dataset import Dataset
from predictors.variability.features import check_scope
from predictors.variability.windows import N_COUNTERS, WINDOW, Windows, windows


def assemble(
    runs: Runs,
    telemetry: Telemetry | Iterable[Samples],
    scope: str,
    *,
    window: float = WINDOW,
    about: Mapping[str, Any] | None = None,
) -> tuple[Dataset, Account]:
    """Compute the window before each run and join them; return the dataset, and an account of runs without a row.

    Parameters
    ----------
    runs : Runs
        In the telemetry's clock.
    telemetry : Telemetry or iterable of Samples
        A block, or a `predictors.data.telemetry_files.Scan`.
    scope : {"all", "job"}
        Whose counters are pooled. With `job`, a run whose nodes are not known has no row.
    window : float
        Length of the windows [s].
    about : mapping, optional
        Where runs and telemetry come from.

    Raises
    ------
    JobcastError
        If no run has a row: the telemetry may be of another time, or of other nodes.
    """
    check_scope(scope)
    asked = np.ones(len(runs), dtype=np.bool_) if scope == "all" else np.diff(runs.offsets) > 0
    if not asked.any():
        raise JobcastError(f"Not one of {len(runs)} runs tells its nodes; give them, or use the scope all.")
    rows = np.flatnonzero(asked)
    nodes = None if scope == "all" else [runs.nodes(int(row)) for row in rows]
    part = windows(telemetry, runs.start[rows], nodes, window)
    whole = Windows(
        runs.start,
        np.full((len(runs), 3 * N_COUNTERS), np.nan),
        np.zeros((len(runs), N_COUNTERS), dtype=np.int64),
        np.zeros(len(runs), dtype=np.int64),
    )
    whole.values[rows], whole.counts[rows], whole.silent[rows] = part.values, part.counts, part.silent
    return Dataset.build(runs, whole, scope, {**(about or {}), "window_s": window})
