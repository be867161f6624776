"""The 282 inputs of classifiers, by name, with checks.

Table I of the paper on RUSH (Nichols et al., IPDPS 2022): 22 counters of sysclassib, 34 of opa_info and 34 of
lustre2_client, each as minimum, maximum and mean over the five minutes before the start, 66 + 102 + 102 inputs;
minimum, maximum and mean of the waits in Send, Recv and AllReduce, 9; and whether the application is one that computes,
communicates or reads and writes, 3.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Union

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.runs import PROBES, WORKLOADS
from predictors.variability.windows import WINDOW_FEATURES

if TYPE_CHECKING:
    import pandas as pd


Table = Union["pd.DataFrame", Floats]

IS_WORKLOAD: Final = ("is_compute", "is_network", "is_io")  # one-hot inputs, in the order of `WORKLOADS`


def named(table: Table, features: Sequence[str] | None) -> tuple[tuple[str, ...], Floats]:
    """Return the inputs' names and the rows, shape (n, n_inputs)."""
    if isinstance(table, np.ndarray):
        if features is None:
            raise JobcastError("An array of inputs needs their names as well: fit(rows, classes, features=names).")
        names, rows = tuple(features), np.asarray(table, dtype=np.float64)
    else:
        names = tuple(str(name) for name in (table.columns if features is None else features))
        for name in names:
            if name not in table:
                raise JobcastError(f"The table lacks the input {name!r}.")
        rows = table[list(names)].to_numpy(dtype=np.float64, na_value=np.nan)
    if rows.ndim != 2 or rows.shape[1] != len(names) or not names or len(set(names)) < len(names):
        raise JobcastError(f"Inputs need {len(names)} different names for as many columns; got shape {rows.shape}.")
    return names, rows


def chosen(model: str, table: Table, features: Sequence[str] | None, wanted: tuple[str, ...]) -> Floats:
    """Return the inputs that `model` learnt from, shape (n, n_wanted), by name."""
    if not isinstance(table, np.ndarray):
        places(model, tuple(str(name) for name in table.columns), wanted)
        return np.asarray(table[list(wanted)].to_numpy(dtype=np.float64, na_value=np.nan))
    names = wanted if features is None else tuple(features)
    columns = places(model, names, wanted)
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise JobcastError(f"{model} takes rows of {len(names)} inputs; got shape {rows.shape}.")
    return rows if names == wanted else rows[:, columns]


@lru_cache(maxsize=64)  # asked before every start of a job
def places(model: str, names: tuple[str, ...], wanted: tuple[str, ...]) -> Ints:
    """Return where each of the wanted inputs stands among `names`."""
    at = {name: place for place, name in enumerate(names)}
    for name in wanted:
        if name not in at:
            raise JobcastError(
                f"{model}: the model learnt from {name!r}, which is not among the {len(names)} inputs given; give the "
                "same inputs, or train it on these."
            )
    return np.array([at[name] for name in wanted], dtype=np.int64)


@lru_cache(maxsize=64)
def kinds(names: tuple[str, ...]) -> tuple[Bools, Bools]:
    """Return which inputs describe the workload, and which the window of counters, each of shape (n_inputs,)."""
    given = np.array(names, dtype=np.str_)
    of_workload = np.isin(given, IS_WORKLOAD)
    return of_workload, ~of_workload & ~np.isin(given, PROBES)


def check_classes(name: str, classes: Ints, n_rows: int, names: tuple[str, ...]) -> None:
    """Raise unless there is one class a run, each of those in `names`, and at least two of them."""
    if classes.shape != (n_rows,) or not n_rows:
        raise JobcastError(
            f"{name} needs at least one run, and one class a run; got {n_rows} runs and {classes.shape}."
        )
    if not ((classes >= 0) & (classes < len(names))).all():
        raise JobcastError(
            f"{name}: classes must be 0 … {len(names) - 1} ({', '.join(names)}); got {classes.min()} … "
            f"{classes.max()}. Leave runs without a label out."
        )
    if len(found := np.unique(classes)) < 2:
        raise JobcastError(
            f"{name}: all {n_rows} runs are of class {found[0]} ({names[found[0]]}), and one class teaches nothing; "
            "give runs of at least two."
        )


FEATURES: Final = (*WINDOW_FEATURES, *PROBES, *IS_WORKLOAD)  # all inputs, in order

SCOPES: Final = {"all": "all nodes of the machine", "job": "the nodes of the job"}  # nodes of which counters are pooled


def one_hot(workload: npt.ArrayLike) -> Floats:
    """Return the three workload inputs, shape (n, 3); NaN where the workload is not known.

    >>> one_hot(["io", "compute", ""]).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [nan, nan, nan]]
    """
    words = np.asarray(workload, dtype=np.str_)
    hot = np.asarray(words[:, None] == np.array(WORKLOADS), dtype=np.float64)
    hot[~hot.any(axis=1)] = np.nan
    return hot


def feature_rows(
    windows: Floats,  # shape (n, 270); in the order of `WINDOW_FEATURES`, NaN = no sample
    probes: Floats,  # shape (n, 9); in the order of `PROBES` [s], NaN = absent
    workload: npt.ArrayLike,  # shape (n,); from `WORKLOADS`, or empty
) -> Floats:
    """Join the parts of many rows: 282 columns in the order of `FEATURES`."""
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
    if scope not in SCOPES:
        raise unknown_name("node scope", scope, SCOPES)
