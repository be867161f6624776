"""Names for the types of NumPy arrays; how values that hold arrays are shown."""

import hashlib
from dataclasses import fields
from reprlib import Repr
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]


def jobs_in(count: int, seconds: Ints) -> str:
    """Return how many jobs there are, and in which span of time.

    >>> jobs_in(1000, np.array([0, 43_200]))
    '1,000 jobs in 0.5 days'
    """
    days = np.ptp(seconds) / 86_400 if len(seconds) else 0.0
    return f"{count:,} {'job' if count == 1 else 'jobs'} in {days:,.1f} days"


class _Short(Repr):
    """Sizes in place of what is large; the digest tells apart two arrays of one size."""

    def repr_ndarray(self, array: npt.NDArray[Any], level: int) -> str:
        content = array.astype(str) if array.dtype.hasobject else array
        digest = hashlib.sha256(content.tobytes()).hexdigest()[:8]
        return f"<{array.dtype.name}{list(array.shape)} {digest}>"

    def repr_DataFrame(self, table: Any, level: int) -> str:
        return f"<table of {len(table):,} rows, {len(table.columns)} columns>"

    def repr_mappingproxy(self, mapping: Any, level: int) -> str:
        return self.repr_dict(mapping, level)


_short = _Short()
_short.maxother = _short.maxstring = 500


def short_repr(value: "DataclassInstance") -> str:
    """Return the `repr` of a dataclass in one line: arrays, tables and long collections by their sizes.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Jobs:
    ...     procs: Ints
    ...     __repr__ = short_repr
    >>> Jobs(np.arange(1000))
    Jobs(procs=<int64[1000] 70274682>)
    """
    shown = (f"{one.name}={_short.repr(getattr(value, one.name))}" for one in fields(value) if one.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"
