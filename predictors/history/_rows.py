"""Feature rows of live jobs by slot."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Floats

_AT_ONCE: Final = 256


class Rows:
    """Rows by slot, each as the bytes of its float64 values, so that a copy of the table shares them.

    >>> rows = Rows(2)
    >>> rows.put([0, 1], np.array([[np.nan, 600.0], [3.0, 0.1]]))
    >>> kept = rows.picked([1])
    >>> rows.put([1], np.array([[5.0, 6.0]]))
    >>> kept.shape, kept.whole().tolist(), rows.of([1]).tolist()
    ((1, 2), [[3.0, 0.1]], [[5.0, 6.0]])
    """

    def __init__(self, width: int, rows: Iterable[bytes] = ()) -> None:
        self.width: Final = width
        self._rows = list(rows)

    def put(self, slots: Sequence[int], rows: Floats) -> None:
        """Keep rows, shape (n_slots, width), in the place of what the slots had."""
        self._rows.extend([b""] * (max(slots, default=-1) + 1 - len(self._rows)))
        for slot, row in zip(slots, np.asarray(rows, dtype=np.float64), strict=True):
            self._rows[slot] = row.tobytes()

    def of(self, slots: Sequence[int]) -> Floats:
        """Return the rows of slots, shape (n_slots, width)."""
        joined = bytearray().join([self._rows[slot] for slot in slots])
        return np.frombuffer(joined, dtype=np.float64).reshape(len(slots), self.width)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of slots, and values a row."""
        return len(self._rows), self.width

    def picked(self, slots: Sequence[int]) -> Self:
        """Return the rows of slots, renumbered from 0, as they are now."""
        return type(self)(self.width, [self._rows[slot] for slot in slots])

    def whole(self) -> Floats:
        return self.of(range(len(self._rows)))

    def pieces(self) -> Iterator[Floats]:
        """Yield all rows in order, some hundred at a time."""
        for first in range(0, len(self._rows), _AT_ONCE):
            yield self.of(range(first, min(first + _AT_ONCE, len(self._rows))))
