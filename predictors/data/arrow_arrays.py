"""Arrow arrays from lists and numpy arrays without `pyarrow.array`, which imports pandas, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from predictors.data.joblog import Bools, Ints


def text_array(texts: Sequence[str]) -> Any:
    """Return an arrow array of strings.

    Examples
    --------
    >>> text_array(["a", "", "ö"]).to_pylist()
    ['a', '', 'ö']
    """
    import pyarrow as pa

    encoded = [text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.LargeStringArray.from_buffers(len(encoded), *buffers[1:]).cast(pa.string())


def flag_array(mask: Bools) -> Any:
    """Return an arrow array of booleans."""
    import pyarrow as pa

    bits = np.packbits(mask, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def row_array(rows: Ints) -> Any:
    """Return an arrow array of int64."""
    import pyarrow as pa

    whole = np.ascontiguousarray(rows, dtype=np.int64)
    return pa.Int64Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def plain_array(column: Any) -> npt.NDArray[Any]:
    """Return an arrow column of numbers, without nulls, as a numpy array."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    kind = {"int64": np.int64, "int8": np.int8, "double": np.float64, "int32": np.int32}[str(whole.type)]
    return np.frombuffer(whole.buffers()[1] or b"", kind)[whole.offset :][: len(whole)].copy()
