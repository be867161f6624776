"""Vectors of jobs, such as embeddings of their names, as signatures of 104 signs.

A signature holds on which side of 104 fixed random planes a vector lies. Two vectors at the angle a differ in a/pi of
the signs on average, so that signatures are compared in the place of cosines (Charikar, Similarity Estimation
Techniques from Rounding Algorithms, STOC 2002, doi 10.1145/509907.509965). The planes are the same for all logs of as
many numbers a vector; the standard deviation of an angle estimated so is at most 0.16 rad.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.hash_random import normal
from predictors.core.jit import compiled
from predictors.data.formats.columns import MISSING
from predictors.data.formats.records import Draft
from predictors.data.joblog import SIGNATURE_BITS

MOST_NUMBERS: Final = 1 << 16  # numbers of a vector at most
_PLANES: Final = 2 * SIGNATURE_BITS
_BLOCK: Final = 8192
_MOST_AT_ONCE: Final = 1 << 23
_SEED: Final = 104
_MARKS: Final = "[]() \t\"'"
_BETWEEN: Final = str.maketrans(",;\t\n", "    ")


def sign_vectors(
    # lists of numbers; or texts such as `[0.1, -0.2]`, with commas, semicolons or blanks between the numbers
    column: Any,
    name: str,
    draft: Draft,  # gets the columns `signature` and `signature_2`
) -> None:
    """Fill in the signatures of a column of vectors: lists of numbers, or their texts.

    A vector with another number of numbers than most that are finite, with one that is not, or of noughts alone is
    unknown, and counted; so is one of more than `MOST_NUMBERS`.
    """
    values, bounds = _numbers(column)
    sizes = np.diff(bounds)
    given = sizes > 0
    words = np.full((len(sizes), 2), MISSING, dtype=np.int64)
    good = np.zeros(len(sizes), dtype=np.bool_)
    if given.any():
        good[given] = np.logical_and.reduceat(np.isfinite(values), bounds[:-1][given])
        good &= sizes <= MOST_NUMBERS
    if good.any():
        size = int(np.bincount(sizes[good]).argmax())
        good &= sizes == size
        rows = np.flatnonzero(good)
        planes = np.empty((size, _PLANES))
        _draw(planes)
        step = max(1, min(_BLOCK, _MOST_AT_ONCE // size))
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            block = values[bounds[some][:, None] + np.arange(size)].astype(np.float64)
            good[some] = fine = (block != 0).any(axis=1)
            words[some[fine]] = signatures(block[fine], planes)
        draft.ledger.note("columns", f"of each vector of {size} numbers in {name} 104 signs are kept, not the numbers")
    bad = given & ~good
    draft.report("not-a-vector", bad, name, f"{int(sizes[np.argmax(bad)])} numbers" if bad.any() else "")
    draft.numbers["signature"], draft.numbers["signature_2"] = words[:, 0].copy(), words[:, 1].copy()


def signatures(vectors: Floats, planes: Floats | None = None) -> Ints:
    """Return the signatures of vectors of shape (n, size), int64 of shape (n, 2); each word has its bit 52 set.

    >>> east, also, west = signatures(np.array([[1.0, 0.0, 0.1], [2.0, 0.0, 0.3], [-1.0, 0.0, 0.1]]))[:, 0].tolist()
    >>> (east ^ also).bit_count() < (east ^ west).bit_count()
    True
    """
    if planes is None:
        planes = np.empty((vectors.shape[1], _PLANES))
        _draw(planes)
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    sides = (vectors / np.where(largest > 0, largest, 1.0)) @ planes > 0  # of large numbers the sums would overflow
    weights = np.int64(1) << np.arange(SIGNATURE_BITS, dtype=np.int64)
    words = [sides[:, first : first + SIGNATURE_BITS] @ weights for first in (0, SIGNATURE_BITS)]
    return np.stack(words, axis=1) | np.int64(1 << SIGNATURE_BITS)


def _numbers(column: Any) -> tuple[npt.NDArray[Any], Ints]:
    """Return the numbers of all vectors in a row, and where each vector begins and ends; NaN is no number."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _of_texts(column)
    single = pa.types.is_float32(column.type.value_type)  # half the memory, where a month has gigabytes of them
    # whole numbers beyond 2^53 lose their last digits, which turn no vector
    lists = pc.fill_null(column.cast(pa.large_list(pa.float32() if single else pa.float64()), safe=False), [])
    flat = lists.flatten()
    flat = pc.fill_null(flat, np.nan) if flat.null_count else flat
    values = np.frombuffer(flat.buffers()[1] or b"", np.float32 if single else np.float64)[flat.offset :][: len(flat)]
    offsets = np.frombuffer(lists.buffers()[1] or b"", np.int64)[lists.offset :][: len(lists) + 1]
    return values, offsets - offsets[0] if len(offsets) else np.zeros(1, dtype=np.int64)


def _of_texts(column: Any) -> tuple[Floats, Ints]:
    coded = column.dictionary_encode()
    read = [vector_of(text) for text in coded.dictionary.to_pylist()]
    parts = [read[code] for code in coded.indices.to_pylist()]
    bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return np.concatenate(parts) if parts else np.empty(0), bounds


def vector_of(text: str) -> npt.NDArray[np.float64]:
    """Return the numbers of a vector's text; one NaN, if it is none.

    >>> vector_of("[0.5, -1;2]").tolist(), vector_of("relax").tolist(), vector_of("").tolist()
    ([0.5, -1.0, 2.0], [nan], [])
    """
    try:
        return np.array(text.strip(_MARKS).translate(_BETWEEN).split(), dtype=np.float64)
    except ValueError:
        return np.array([np.nan])


@compiled
def _draw(planes: Floats) -> None:
    """Write the directions of the planes, shape (size, 104): the same wherever they are drawn."""
    for i in range(planes.shape[0]):
        for k in range(planes.shape[1]):
            planes[i, k] = normal(_SEED, i, k)
