"""One-hot encoding: categories (user, group, weekday, exit statuses) as 0/1 columns that a tree can split on.

Learnt on the training part alone. All categories of an attribute get a column, as in the paper of Reis, or only the
most frequent ones: the rest then share the row of zeros, where the user's own history speaks for them. Means of run
times by category, frequencies and plain codes were measured as well, and are worse on real logs: the first two overfit
the users who dominate a log, and the sets of users change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors._encoding import encode
from predictors.data.errors import JobcastError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

BELOW_ALL: Final = -1.0
"""What a missing number reads as in sparse rows: sparse trees take no NaN, and every known number is >= 0."""
_STEP: Final = 10_000  # dense rows held at once on the way to sparse ones


@dataclass(frozen=True, eq=False)
class Encoding:
    """A fitted map from feature rows to encoded rows (float32); immutable, safe to call from threads.

    Attributes
    ----------
    places : int64 array of shape (n_features,)
        First encoded column of each feature.
    starts : int64 array of shape (n_features + 1,)
        Where each feature's codes begin; a number has none.
    codes : float64 array
        Category codes, sorted within each feature.
    n_columns : int
        Width of an encoded row.
    missing : float
        What a missing number becomes: NaN where the trees can take it, else `BELOW_ALL`.
    """

    places: Ints
    starts: Ints
    codes: Floats
    n_columns: int
    missing: float

    def transform(self, rows: npt.ArrayLike) -> Singles:
        """Return encoded rows, float32 of shape (n_rows, n_columns), for feature rows (n_rows, n_features)."""
        given = np.ascontiguousarray(rows, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.places):
            raise JobcastError(f"Rows must have {len(self.places)} features; got shape {given.shape}.")
        out = np.zeros((len(given), self.n_columns), dtype=np.float32)
        encode(given, self.places, self.starts, self.codes, self.missing, out)
        return out

    def for_fit(self, rows: Floats) -> "Singles | csr_matrix":
        """Return `transform(rows)`, sparse where missing numbers are no NaN: training then skips the zeros."""
        if np.isnan(self.missing):
            return self.transform(rows)
        from scipy.sparse import csr_matrix, vstack

        parts = [csr_matrix(self.transform(rows[i : i + _STEP])) for i in range(0, len(rows), _STEP)]
        return vstack(parts, format="csr")

    def sources(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return which feature each encoded column comes from: importances are summed by it."""
        widths = np.diff(self.places, append=self.n_columns)
        return tuple(name for name, width in zip(features, widths, strict=True) for _ in range(width))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays by name, to be saved."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the encoding that `arrays()` described.

        Raises
        ------
        JobcastError
            If an array is missing or its tables do not fit together: nothing is looked up before this is checked.
        """
        try:
            starts = np.asarray(arrays["starts"], dtype=np.int64)
            places, codes = np.asarray(arrays["places"], dtype=np.int64), np.asarray(arrays["codes"], dtype=np.float64)
            n_columns, missing = int(arrays["n_columns"]), float(arrays["missing"])
        except (KeyError, TypeError, ValueError) as error:
            raise JobcastError(f"The model's encoding cannot be read ({error}); train it again.") from error
        sound = starts.ndim == 1 and len(starts) > 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
        sound = sound and codes.shape == (starts[-1],)
        if not sound or not np.array_equal(places, _places(starts)) or n_columns != _widths(starts).sum():
            raise JobcastError("The model's encoding points outside its tables; the file is damaged: train it again.")
        return cls(places, starts, codes, n_columns, missing)


def fit_encoding(rows: Floats, categorical: Sequence[bool], most: int | None = None) -> Encoding:
    """Learn which categories get a column.

    Parameters
    ----------
    rows : float64 array of shape (n_rows, n_features)
        Feature rows of the training part, NaN = missing.
    categorical : sequence of bool, n_features long
        Which features are categories.
    most : int or None
        Columns an attribute may have, for its most frequent categories (ties: the smaller code); None: all categories.

    Examples
    --------
    >>> rows = np.array([[4.0, 7.0], [4.0, 9.0], [8.0, 9.0]])
    >>> fit_encoding(rows, [False, True]).transform([[4.0, 9.0], [4.0, 5.0]]).tolist()
    [[4.0, 0.0, 1.0], [4.0, 0.0, 0.0]]
    >>> fit_encoding(rows, [False, True], most=1).transform([[4.0, 9.0], [4.0, 7.0]]).tolist()
    [[4.0, 1.0], [4.0, 0.0]]
    """
    tables = [_frequent(rows[:, c], most) if is_category else np.empty(0) for c, is_category in enumerate(categorical)]
    # A category without any known code keeps one column that is never marked: no feature ever vanishes.
    tables = [np.array([np.inf]) if c and not len(t) else t for t, c in zip(tables, categorical, strict=True)]
    starts = np.cumsum([0, *(len(table) for table in tables)])
    missing = BELOW_ALL if most is None else np.nan
    return Encoding(_places(starts), starts, np.concatenate(tables), int(_widths(starts).sum()), missing)


def _frequent(column: Floats, most: int | None) -> Floats:
    codes, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return np.sort(codes[np.argsort(-counts, kind="stable")[:most]])


def _widths(starts: Ints) -> Ints:
    return np.maximum(np.diff(starts), 1)


def _places(starts: Ints) -> Ints:
    widths = _widths(starts)
    return np.cumsum(widths) - widths
