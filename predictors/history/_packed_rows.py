"""Feature rows of live jobs, packed without loss: unknown values take no room, small whole numbers two or four bytes.

Most of a row is unknown, a count or a time in whole seconds, so that a row of every feature takes a third to a half of
its eight bytes a value. Two bits say of each value how it is kept; every bit of it comes back.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled

_AT_ONCE: Final = 256
Bytes = npt.NDArray[np.uint8]
_NAN: Final = np.float64(np.nan).view(np.int64)
_NOTHING, _TWO, _FOUR, _EIGHT = range(4)
_SIZES: Final = np.array([0, 2, 4, 8])
_LIMITS: Final = (float(1 << 16), float(1 << 32))


class PackedRows:
    """Rows by slot.

    Examples
    --------
    >>> rows = PackedRows(3)
    >>> rows.put([1], np.array([[np.nan, 600.0, 0.1]]))
    >>> rows.of([1]).tolist()
    [[nan, 600.0, 0.1]]
    """

    def __init__(self, width: int) -> None:
        self.width: Final = width
        self._codes: list[bytes] = []

    def put(self, slots: Sequence[int], rows: Floats) -> None:
        """Keep rows, shape (n_slots, width), in the place of what the slots had."""
        codes = self._codes
        for first in range(0, len(slots), _AT_ONCE):
            some = slots[first : first + _AT_ONCE]
            buffer = np.empty(len(some) * ((self.width + 3) // 4 + 8 * self.width), dtype=np.uint8)
            ends = np.empty(len(some), dtype=np.int64)
            pack(rows[first : first + _AT_ONCE], buffer, ends)
            packed, begin = buffer[: ends[-1]].tobytes(), 0
            for slot, end in zip(some, ends.tolist(), strict=True):
                if slot >= len(codes):
                    codes.extend([b""] * (slot + 1 - len(codes)))
                codes[slot], begin = packed[begin:end], end

    def of(self, slots: Sequence[int]) -> Floats:
        """Return the rows of slots, shape (n_slots, width)."""
        rows = np.empty((len(slots), self.width))
        for first in range(0, len(slots), _AT_ONCE):
            codes = [self._codes[slot] for slot in slots[first : first + _AT_ONCE]]
            ends = np.cumsum(np.fromiter(map(len, codes), dtype=np.int64, count=len(codes)))
            unpack(np.frombuffer(bytearray().join(codes), dtype=np.uint8), ends, rows[first : first + _AT_ONCE])
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        """Number of slots, and values a row."""
        return len(self._codes), self.width

    def picked(self, slots: Sequence[int]) -> Self:
        """Return the rows of slots, renumbered from 0, as they are now; they stay packed, so that it costs little.

        Examples
        --------
        >>> rows = PackedRows(2)
        >>> rows.put([0, 1], np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> kept = rows.picked([1])
        >>> rows.put([1], np.array([[5.0, 6.0]]))
        >>> kept.shape, [piece.tolist() for piece in kept.pieces()]
        ((1, 2), [[[3.0, 4.0]]])
        """
        found = type(self)(self.width)
        found._codes = [self._codes[slot] for slot in slots]
        return found

    def whole(self) -> Floats:
        """Return all rows in order."""
        return self.of(range(len(self._codes)))

    def pieces(self) -> Iterator[Floats]:
        """Yield all rows in order, some hundred at a time."""
        for first in range(0, len(self._codes), _AT_ONCE):
            yield self.of(range(first, min(first + _AT_ONCE, len(self._codes))))


class NarrowTable:
    """Whole numbers in columns, each as narrow as its values allow: a copy of a table in a third of its memory.

    Examples
    --------
    >>> table = NarrowTable([np.array([1, 2, 3]), np.array([-1, 70000, 1 << 52])])
    >>> table.shape, table.nbytes, table.of(slice(1, 3)).tolist()
    ((3, 2), 27, [[2, 70000], [3, 4503599627370496]])
    """

    def __init__(self, columns: Iterable[Ints]) -> None:
        self._columns: Final = [_narrow(column) for column in columns]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns."""
        return len(self._columns[0]), len(self._columns)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return sum(column.nbytes for column in self._columns)

    def of(self, rows: slice) -> Ints:
        """Return rows, int64 of shape (n_rows, n_columns)."""
        return np.stack([column[rows].astype(np.int64) for column in self._columns], axis=1)

    def whole(self) -> Ints:
        """Return all rows in order."""
        return self.of(slice(None))

    def pieces(self) -> Iterator[Ints]:
        """Yield all rows in order, some thousand at a time."""
        for first in range(0, self.shape[0], 16 * _AT_ONCE):
            yield self.of(slice(first, first + 16 * _AT_ONCE))


def _narrow(column: Ints) -> npt.NDArray[Any]:
    least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return column.astype(kind)
    return column.astype(np.int64)


@compiled
def pack(rows: Floats, out: Bytes, ends: Ints) -> None:
    """Write rows into `out`, one behind the other, and where each ends."""
    n, at = rows.shape[1], 0
    bits = rows.view(np.int64)
    for k in range(len(rows)):
        begin, at = at, at + (n + 3) // 4
        out[begin:at] = 0
        for i in range(n):
            value, number = rows[k, i], bits[k, i]
            if number == _NAN:
                continue
            kind = _EIGHT
            if 0.0 <= value < _LIMITS[1] and (value != 0.0 or number == 0) and value == np.floor(value):
                number = np.int64(value)
                kind = _TWO if value < _LIMITS[0] else _FOUR
            out[begin + i // 4] |= np.uint8(kind << (2 * (i % 4)))
            for _ in range(_SIZES[kind]):
                out[at] = number & 255
                number >>= 8
                at += 1
        ends[k] = at


@compiled
def unpack(codes: Bytes, ends: Ints, rows: Floats) -> None:
    """Write the rows of which each is packed up to its end."""
    n, begin = rows.shape[1], 0
    bits = rows.view(np.int64)
    for k in range(len(rows)):
        at = begin + (n + 3) // 4
        for i in range(n):
            kind = (codes[begin + i // 4] >> (2 * (i % 4))) & 3
            number = np.int64(0)
            for place in range(_SIZES[kind]):
                number |= np.int64(codes[at + place]) << (8 * place)
            at += _SIZES[kind]
            if kind == _NOTHING:
                bits[k, i] = _NAN
            elif kind == _EIGHT:
                bits[k, i] = number
            else:
                rows[k, i] = number
        begin = ends[k]
