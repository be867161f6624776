"""Which columns does a classifier get? Inputs by name, from tables or arrays, checked."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Union

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from predictors.data.runs import PROBES, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

Bools = npt.NDArray[np.bool_]
Table = Union["pd.DataFrame", Floats]

IS_WORKLOAD: Final = ("is_compute", "is_network", "is_io")
"""The three one-hot inputs, in the order of `predictors.data.runs.WORKLOADS`."""


def named(table: Table, features: Sequence[str] | None) -> tuple[tuple[str, ...], Floats]:
    """Return the inputs' names and the rows, shape (n, n_inputs)."""
    if isinstance(table, np.ndarray):
        if features is None:
            raise JobcastError("An array of inputs needs their names beside it: fit(rows, classes, features=names).")
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
    """Return the inputs that `model` learnt from, shape (n, n_wanted), by name.

    Raises
    ------
    JobcastError
        If one of them is not there, or an array is not as wide as its names are many.
    """
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
    """Return where each of the wanted inputs stands among `names`.

    Raises
    ------
    JobcastError
        Naming the first that is not there.
    """
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
    """Return which inputs tell of the workload, and which of the window of counters, each of shape (n_inputs,)."""
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


def is_number(value: object) -> bool:
    """Return whether a value is a number, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number, at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
