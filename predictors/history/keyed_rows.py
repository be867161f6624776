"""Rows of numbers by a whole-number key, in columns: what a dictionary of tuples holds, in a tenth of its memory.

A table of open addressing with linear probing [1]_: keys, the order in which they came, and values lie in arrays, so
that a key takes 16 bytes and its values, at a load of 0.58 to 0.75, and nothing of it is visited by the collector of
garbage. Like a dictionary it goes through its keys in the order in which they came.

References
----------
.. [1] D. E. Knuth. The Art of Computer Programming, volume 3, second edition. Addison-Wesley, 1998: section 6.4,
   algorithms L and R.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.jit import compiled

_LEAST: Final = 64
_LOAD: Final = 0.75
_GROWTH: Final = 1.3
_ABSENT: Final = -1
_FREE: Final = 0  # as a place in the order
V = TypeVar("V", int, float)


class KeyedRows(Generic[V]):
    """Rows of numbers by a whole-number key.

    Examples
    --------
    >>> table = KeyedRows(2, np.float64)
    >>> table.put(7, (1.0, 2.0))
    >>> table.put(3, (3.0, 4.0))
    >>> table.pop(7), table.pop(7), len(table), table.keys().tolist()
    ((1.0, 2.0), None, 1, [3])
    """

    def __init__(self, width: int, dtype: type[np.float64] | type[np.int64]) -> None:
        self._width, self._dtype = width, dtype
        self._n = self._came = 0
        self._allocate(_LEAST)

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._n

    def __contains__(self, key: int) -> bool:
        """Return whether a key is there."""
        return _place(key, self._keys, self._order) != _ABSENT

    def get(self, key: int) -> tuple[V, ...] | None:
        """Return the row of a key; None if there is none."""
        place = _place(key, self._keys, self._order)
        return None if place == _ABSENT else tuple(self._values[place].tolist())

    def first(self, key: int) -> V | None:
        """Return the first number of a key's row; None if there is none."""
        place = _place(key, self._keys, self._order)
        return None if place == _ABSENT else self._values.item(place, 0)

    def put(self, key: int, row: Sequence[V] | npt.NDArray[Any]) -> None:
        """Set the row of a key, which keeps its place in the order if it was there."""
        self._make_room(1)
        self._values[self._claimed(key)] = row

    def pop(self, key: int) -> tuple[V, ...] | None:
        """Take out the row of a key; None if there is none."""
        place = _place(key, self._keys, self._order)
        if place == _ABSENT:
            return None
        row = tuple(self._values[place].tolist())
        _remove(place, self._keys, self._order, self._values)
        self._n -= 1
        return row

    # --- many at once -------------------------------------------------------------------------------------------------

    def first_of(self, keys: Sequence[int] | Ints, absent: V) -> list[V]:
        """Return the first number of each key's row, and `absent` for one that is not there."""
        places = _places(np.asarray(keys, dtype=np.int64), self._keys, self._order)
        found: list[V] = np.where(places == _ABSENT, absent, self._values[places, 0]).tolist()
        return found

    def put_many(self, keys: Sequence[int] | Ints, rows: Sequence[Any] | npt.NDArray[Any]) -> None:
        """Set the rows of keys, in this order."""
        self._make_room(len(keys))
        values = np.asarray(rows, dtype=self._dtype).reshape(len(keys), self._width)
        self._n, self._came = _put(
            np.asarray(keys, dtype=np.int64), values, self._keys, self._order, self._values, self._n, self._came
        )

    def remove_many(self, keys: Sequence[int] | Ints) -> None:
        """Take out keys; those that are not there are passed over."""
        for key in keys:
            self.pop(int(key))

    def keys(self) -> Ints:
        """Return all keys in the order in which they came."""
        found: Ints = self._keys[self._in_order()]
        return found

    def rows(self) -> npt.NDArray[Any]:
        """Return the rows of all keys in the order in which these came, shape (n_keys, width)."""
        found: npt.NDArray[Any] = self._values[self._in_order()]
        return found

    # --- small steps --------------------------------------------------------------------------------------------------

    def _in_order(self) -> Ints:
        there = np.flatnonzero(self._order != _FREE)
        return there[np.argsort(self._order[there])]

    def _allocate(self, room: int) -> None:
        self._keys: Ints = np.zeros(room, dtype=np.int64)
        self._order: Ints = np.full(room, _FREE, dtype=np.int64)
        self._values: npt.NDArray[Any] = np.zeros((room, self._width), dtype=self._dtype)

    def _make_room(self, more: int) -> None:
        if self._n + more <= _LOAD * len(self._keys):
            return
        keys, order, values = self._keys, self._order, self._values
        self._allocate(int(max(_GROWTH * len(keys), (self._n + more) / _LOAD)) + 1)
        _move(keys, order, values, self._keys, self._order, self._values)

    def _claimed(self, key: int) -> int:
        """Return the place of a key, a new one if it is not there; there is room."""
        place = _place(key, self._keys, self._order)
        if place == _ABSENT:
            self._n, self._came = self._n + 1, self._came + 1
            place = _claim(key, self._came, self._keys, self._order)
        return place


_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


@compiled
def _home(key: int, room: int) -> int:
    """Return where a key lies if nothing is in its way."""
    return int(np.int64(((np.uint64(key) * _FACTOR >> _HALF) * np.uint64(room)) >> _HALF))


@compiled
def _place(key: int, keys: Ints, order: Ints) -> int:
    """Return where a key lies; -1 if it is not there."""
    place = _home(key, len(keys))
    while order[place] != _FREE:
        if keys[place] == key:
            return place
        place = place + 1 if place + 1 < len(keys) else 0
    return _ABSENT


@compiled
def _claim(key: int, came: int, keys: Ints, order: Ints) -> int:
    """Give a key that is not there a place, and return it."""
    place = _home(key, len(keys))
    while order[place] != _FREE:
        place = place + 1 if place + 1 < len(keys) else 0
    keys[place], order[place] = key, came
    return place


@compiled
def _remove(place: int, keys: Ints, order: Ints, values: npt.NDArray[Any]) -> None:
    """Free a place; those behind it that it was in the way of move up."""
    room, last = len(keys), place
    while True:
        last = last + 1 if last + 1 < room else 0
        if order[last] == _FREE:
            break
        home = _home(keys[last], room)
        stays = place < home <= last if place <= last else (place < home or home <= last)
        if not stays:
            keys[place], order[place] = keys[last], order[last]
            for k in range(values.shape[1]):  # by number: what numba makes of a row takes seconds to compile
                values[place, k] = values[last, k]
            place = last
    order[place] = _FREE


@compiled
def _places(wanted: Ints, keys: Ints, order: Ints) -> Ints:
    found = np.empty(len(wanted), dtype=np.int64)
    for i in range(len(wanted)):
        found[i] = _place(wanted[i], keys, order)
    return found


@compiled
def _put(
    new: Ints, rows: npt.NDArray[Any], keys: Ints, order: Ints, values: npt.NDArray[Any], n: int, came: int
) -> tuple[int, int]:
    for i in range(len(new)):
        place = _place(new[i], keys, order)
        if place == _ABSENT:
            n, came = n + 1, came + 1
            place = _claim(new[i], came, keys, order)
        for k in range(values.shape[1]):
            values[place, k] = rows[i, k]
    return n, came


@compiled
def _move(
    keys: Ints, order: Ints, values: npt.NDArray[Any], to_keys: Ints, to_order: Ints, to_values: npt.NDArray[Any]
) -> None:
    for i in range(len(keys)):
        if order[i] != _FREE:
            place = _claim(keys[i], order[i], to_keys, to_order)
            for k in range(values.shape[1]):
                to_values[place, k] = values[i, k]
