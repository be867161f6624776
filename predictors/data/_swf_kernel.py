"""The fast path of the SWF reader: from bytes to integers, and which lines it does not understand to the letter."""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled
from predictors.data.swf_rows import BLANK, COMMENT, FIELDS, JOB, ODD

N_FIELDS: Final = len(FIELDS)
_DIGITS: Final = 15
_TAB, _NEWLINE, _RETURN, _SPACE, _MINUS, _DOT, _ZERO, _NINE, _SEMICOLON = 9, 10, 13, 32, 45, 46, 48, 57, 59


@compiled
def scan_lines(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    values: npt.NDArray[np.int64],
    fractions: npt.NDArray[np.int64],
) -> int:
    """Parse every line; return the number of lines.

    A line is a JOB if it has 18 fields, each `-1` or up to 15 digits, perhaps with a fraction, which is rounded half
    up. Whatever else is not blank or a comment is ODD and left to the careful parser.

    Parameters
    ----------
    data : uint8 array
        The file, ending in a newline.
    starts, kinds : arrays of shape (n_lines,)
        Written: where each line begins, what it is.
    values : int64 array of shape (n_lines, 18)
        Written: the fields of the k-th line that is a JOB or ODD in row k; nothing useful for an ODD one.
    fractions : int64 array of shape (n_lines,)
        Written, same rows: bit c is set where field c had a fraction other than 0.
    """
    n = data.size
    line = 0
    row = 0
    i = 0
    while i < n:
        starts[line] = i
        kind = BLANK
        field = 0
        rounded = 0
        while True:
            c = data[i]
            while c in (_SPACE, _TAB, _RETURN):
                i += 1
                c = data[i]
            if c == _NEWLINE:
                break
            if field == 0 and c == _SEMICOLON:
                kind = COMMENT
                break
            kind = JOB
            if field == N_FIELDS:
                kind = ODD
                break
            negative = c == _MINUS
            if negative:
                i += 1
                c = data[i]
            first = i
            value = np.int64(0)
            while c >= _ZERO and c <= _NINE:
                value = value * 10 + np.int64(c) - _ZERO
                i += 1
                c = data[i]
            digits = i - first
            if c == _DOT and digits > 0 and not negative:
                i += 1
                c = data[i]
                if c >= _ZERO + 5 and c <= _NINE:
                    value += 1
                while c >= _ZERO and c <= _NINE:
                    if c != _ZERO:
                        rounded |= 1 << field
                    i += 1
                    c = data[i]
            ended = c in (_SPACE, _NEWLINE, _TAB, _RETURN)
            if digits == 0 or digits > _DIGITS or not ended or (negative and value != 1):
                kind = ODD
                break
            values[row, field] = -1 if negative else value
            field += 1
        while data[i] != _NEWLINE:
            i += 1
        i += 1
        if kind == JOB and field != N_FIELDS:
            kind = ODD
        kinds[line] = kind
        if kind >= JOB:
            fractions[row] = rounded if kind == JOB else 0
            row += 1
        line += 1
    return line
