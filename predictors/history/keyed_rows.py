"""Rows of numbers by a whole-number key."""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints

V = TypeVar("V", int, float)


class KeyedRows(Generic[V]):
    """Rows of numbers by a whole-number key, which go to and from arrays at once.

    >>> table = KeyedRows(2, np.float64)
    >>> table.put(7, (1.0, 2.0))
    >>> table.put_many([3, 7, 4], [(3.0, 4.0), (5.0, 6.0), (7.0, 8.0)])
    >>> table.pop(3), table.pop(3), len(table), table.keys().tolist(), table.first_of([4, 3], np.nan)
    ((3.0, 4.0), None, 2, [7, 4], [7.0, nan])
    """

    def __init__(self, width: int, dtype: type[np.float64] | type[np.int64]) -> None:
        self._width: Final = width
        self._dtype: Final = dtype
        self._number: Final[Any] = int if dtype is np.int64 else float
        self._rows: dict[int, tuple[V, ...]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def first(self, key: int) -> V | None:
        """Return the first number of a key's row; None if there is none."""
        row = self._rows.get(key)
        return None if row is None else row[0]

    def put(self, key: int, row: Sequence[V]) -> None:
        """Set the row of a key, which keeps its place in the order if it was there."""
        self._rows[key] = tuple(map(self._number, row))

    def pop(self, key: int) -> tuple[V, ...] | None:
        """Take out the row of a key; None if there is none."""
        return self._rows.pop(key, None)

    def first_of(self, keys: Sequence[int], absent: V) -> list[V]:
        """Return the first number of each key's row, and `absent` for one that is not there."""
        without = (absent,)
        return [self._rows.get(key, without)[0] for key in keys]

    def put_many(self, keys: Sequence[int] | Ints, rows: Sequence[Any] | npt.NDArray[Any]) -> None:
        """Set the rows of keys, in this order."""
        values: Any = np.asarray(rows, dtype=self._dtype).reshape(len(keys), self._width).tolist()
        names = np.asarray(keys, dtype=np.int64).tolist()
        self._rows.update((key, tuple(row)) for key, row in zip(names, values, strict=True))

    def remove_many(self, keys: Sequence[int]) -> None:
        """Take out keys; those that are not there are passed over."""
        for key in keys:
            self._rows.pop(key, None)

    def keys(self) -> Ints:
        """Return all keys in the order in which they came."""
        return np.fromiter(self._rows, dtype=np.int64, count=len(self._rows))

    def rows(self) -> npt.NDArray[Any]:
        """Return the rows of all keys in the order in which these came, shape (n_keys, width)."""
        return np.array(list(self._rows.values()), dtype=self._dtype).reshape(len(self._rows), self._width)
