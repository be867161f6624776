"""Columns of text as numbers, seconds and codes, whole columns at once; what cannot be read is reported."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from predictors.data.arrow_arrays import flag_array, plain_array
from predictors.data.joblog import Bools, Ints
from predictors.data.moments import MISSING, NO_VALUE, known_texts, matches, span
from predictors.data.swf_value import parse_value

Names = tuple[Ints, tuple[str, ...]]
"""Codes, `MISSING` where unknown, and the names behind them."""
Report = Callable[..., None]
"""Takes rule, rows, column and example: `Draft.report`."""

_PLAIN: Final = r"^-?\d{1,15}$"
_SECONDS: Final = r"^\d{1,12}\.\d{0,9}$"
_FRACTION: Final = r"^-?\d{1,12}\.\d{0,9}$"


def numbers(column: Any, name: str, report: Report) -> Ints:
    """Return a column of text as whole numbers, `MISSING` where there is none; what is odd is reported."""
    import pyarrow as pa
    from pyarrow import compute as pc

    result = np.full(len(column), MISSING, dtype=np.int64)
    everything = np.ones(len(column), dtype=np.bool_)
    taken = _plain_numbers(column, everything, _PLAIN, result, lambda text: plain_array(pc.cast(text, pa.int64())))
    if taken.all():
        return result
    known = known_texts(column)
    left = known & ~taken
    if left.any():
        fractions = np.zeros(len(column), dtype=np.bool_)
        halves_up = _plain_numbers(column, left, _FRACTION, result, lambda text: np.floor(_floats(text) + 0.5))
        if halves_up.any():
            fractions[halves_up] = matches(column, r"\.\d*[1-9]")[halves_up]
            report("fraction", fractions, name, column[int(np.argmax(fractions))].as_py())
        taken |= halves_up
    found: dict[str, list[tuple[int, str]]] = {}
    for row in np.flatnonzero(known & ~taken).tolist():
        text = column[row].as_py().strip()
        value, rule = (MISSING, "") if not text else parse_value(text.encode(), name)
        result[row] = MISSING if rule not in ("", "fraction") else value
        if rule:
            found.setdefault(rule, []).append((row, text))
    for rule, places in found.items():
        report(rule, np.array([row for row, _ in places]), name, places[0][1])
    return result


def _plain_numbers(column: Any, among: Bools, pattern: str, result: Ints, parse: Callable[[Any], Any]) -> Bools:
    """Write the numbers of the rows that match a pattern; return which rows these are."""
    taken = among & matches(column, pattern)
    result[taken] = parse(column if taken.all() else column.filter(flag_array(taken)))
    return taken


def _floats(text: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute as pc

    return plain_array(pc.cast(text, pa.float64()))


def spans_of(column: Any, name: str, report: Report, unit: int = 1, endless: frozenset[str] = frozenset()) -> Ints:
    """Return a column of text as seconds: plain numbers of `unit` seconds, or `[days-]hh:mm:ss`.

    The words in `endless` say that there is no limit: unknown, and reported as such.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    values = np.full(len(column), MISSING, dtype=np.int64)
    everything = np.ones(len(column), dtype=np.bool_)
    whole = _plain_numbers(column, everything, r"^\d{1,12}$", values, lambda t: plain_array(pc.cast(t, pa.int64())))
    values[whole] *= unit
    left = ~whole
    if left.any():
        left &= known_texts(column)
        seconds = _plain_numbers(column, left, _SECONDS, values, lambda text: np.floor(_floats(text) * unit + 0.5))
        cut = seconds & matches(column, r"\.\d*[1-9]")
        report("fraction", cut, name, column[int(np.argmax(cut))].as_py())
        left &= ~seconds
    if not left.any():
        return values
    codes, texts = names(column.filter(flag_array(left)))
    without = np.array([text in endless for text in texts], dtype=np.bool_)
    table = [MISSING if text in endless else _span(text) for text in texts]
    values[left] = np.array(table, dtype=np.int64)[codes]
    rows = np.flatnonzero(left)
    for rule, places in (("no-limit", without[codes]), ("not-a-time", (values[left] == MISSING) & ~without[codes])):
        report(rule, rows[places], name, texts[codes[places][0]] if places.any() else "")
    return values


def _span(text: str) -> int:
    found = span(text)
    return MISSING if found is None else found


def names(column: Any) -> Names:
    """Return a column of text as codes, in the order in which the names come first, and the names."""
    encoded = column.dictionary_encode()
    encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
    codes, texts = plain_array(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()
    known = np.array([text not in NO_VALUE for text in texts], dtype=np.bool_)
    if known.all():
        return codes, tuple(texts)
    place = np.where(known, np.cumsum(known) - 1, MISSING)
    return place[codes], tuple(text for text in texts if text not in NO_VALUE)
