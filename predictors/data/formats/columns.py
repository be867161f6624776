"""Text columns as numbers, timestamps, spans, codes."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.data.formats._swf_scan import parse_value
from predictors.data.formats.parquet import flag_array, plain_array, row_array, text_array

MISSING: Final = int(np.iinfo(np.int64).min)  # the value of a cell that is empty or cannot be read
NO_VALUE: Final = ("", "Unknown", "None", "N/A", "NULL", "null", "NaN", "nan", "NA", "\\N", "None assigned", "(null)")
"""The texts of logs for an unknown value."""

_NAIVE: Final = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?$"
_OFFSET: Final = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)? ?([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)$"
_UNIX: Final = r"^\d{1,11}(\.\d+)?$"
_SPAN: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d+)?")
_HALF_HOUR: Final = 1800
_AMERICAN: Final = "%m/%d/%Y %H:%M:%S"

_BARE_RETURN: Final = re.compile(rb"\r+(?=[^\r\n])")
RETURNS: Final = "lines that end in CR alone; convert them: tr '\\r' '\\n' < IN > OUT"


def mostly_returns(data: bytes) -> bool:
    r"""Return whether more lines of a text end in CR alone than in a newline.

    >>> mostly_returns(b"1\r2\r3\n"), mostly_returns(b"1\r\n2 a\rb\r\n")
    (True, False)
    """
    return b"\r" in data and sum(1 for _ in _BARE_RETURN.finditer(data)) > data.count(b"\n")


def refuse_returns(data: bytes, source: str) -> None:
    """Refuse a text with a CR inside a line: two lines would be read as one."""
    if b"\r" in data and (found := _BARE_RETURN.search(data)) is not None:
        line = data.count(b"\n", 0, found.start()) + 1
        raise JobcastError(f"{source}:{line}: has {RETURNS}.")


@dataclass(frozen=True)
class Timestamps:
    """A column of points in time."""

    seconds: Ints  # Unix time where `fixed`, else seconds since 1970 by the log's local clock; `MISSING` where unknown
    fixed: Bools  # whether the text has an offset from UTC, or is Unix time
    bad: Ints  # rows with a text that is no point in time


def timestamps(column: Any) -> Timestamps:
    """Return the points in time of an arrow column of text.

    The formats are `YYYY-MM-DD HH:MM:SS` with blank or `T`, a fraction (cut), an offset (`Z`, `+0100`, `+01:00`), Unix
    time, and `MM/DD/YYYY HH:MM:SS`.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    n = len(column)
    seconds, fixed = np.full(n, MISSING, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    left = np.ones(n, dtype=np.bool_)
    kinds: tuple[tuple[str, bool, Callable[[Any], Ints]], ...] = (
        (_NAIVE, False, lambda text: _seconds(pc.cast(text, pa.timestamp("us")))),
        (_OFFSET, True, lambda text: _seconds(pc.cast(_plain_offset(text), pa.timestamp("us", "UTC")))),
        (_UNIX, True, lambda text: np.floor(plain_array(pc.cast(text, pa.float64()))).astype(np.int64)),
    )
    for pattern, is_fixed, parse in kinds:
        if not left.any():
            break
        rows = np.flatnonzero(left & matches(column, pattern))
        if not len(rows):
            continue
        try:
            seconds[rows] = parse(column if len(rows) == n else column.take(row_array(rows)))
        except pa.ArrowInvalid:
            continue  # 31 February and the like: one by one
        fixed[rows] = is_fixed
        left[rows] = False
    if left.any():
        left &= known_texts(column)
    bad = []
    for row in np.flatnonzero(left).tolist():
        time = _one_timestamp(column[row].as_py())
        if time is None:
            bad.append(row)
        else:
            seconds[row], fixed[row] = time
    return Timestamps(seconds, fixed, np.array(bad, dtype=np.int64))


def _seconds(stamps: Any) -> Ints:
    seconds: Ints = plain_array(stamps.cast("int64")) // 1_000_000
    return seconds


def _plain_offset(text: Any) -> Any:
    """Return texts with offsets as arrow reads them: `Z`, or `+01` with no blank before it."""
    from pyarrow import compute as pc

    universal = pc.replace_substring_regex(text, r" ?(UTC|GMT|z|Z)$", "Z")
    return pc.replace_substring_regex(universal, r" ([+-]\d\d(:?\d\d)?)$", r"\1")


def _one_timestamp(text: str) -> tuple[int, bool] | None:
    for parse in (datetime.fromisoformat, lambda t: datetime.strptime(t, _AMERICAN)):
        try:
            time = parse(text.strip())
        except (ValueError, OverflowError):
            continue
        fixed = time.tzinfo is not None
        return int((time if fixed else time.replace(tzinfo=UTC)).timestamp() // 1), fixed
    return None


def unix_time(local: Ints, time_zone: str) -> Ints:
    """Return the Unix time [s] of seconds on the local clock of a time zone; in an hour that comes twice, the first.

    >>> noon = np.array([1_700_000_000, 1_690_000_000])
    >>> (noon - unix_time(noon, "Europe/Paris")).tolist()
    [3600, 7200]
    """
    return np.where(local != MISSING, local - _offsets(local, time_zone), MISSING)


def at_clock_changes(local: Ints, time_zone: str) -> tuple[Bools, Bools]:
    """Return which seconds on a local clock lie in an hour that comes twice, and which in one that the clock skipped.

    >>> times = np.array(["2021-03-28T02:30", "2021-10-31T02:30", "2021-10-31T03:30"], dtype="datetime64[s]")
    >>> twice, skipped = at_clock_changes(times.astype(np.int64), "Europe/Paris")
    >>> twice.tolist(), skipped.tolist()
    ([False, True, False], [True, False, False])
    """
    before, after = _offsets(local, time_zone), _offsets(local, time_zone, fold=1)
    return before > after, before < after


def _offsets(local: Ints, time_zone: str, fold: int = 0) -> Ints:
    """Return the offset from UTC [s] of each second on a local clock, 0 where it is unknown."""
    zone, known = ZoneInfo(time_zone), local != MISSING
    halves, place = np.unique(local[known] // _HALF_HOUR, return_inverse=True)
    offsets = np.array([_offset(int(half) * _HALF_HOUR, zone, fold) for half in halves.tolist()], dtype=np.int64)
    result = np.zeros(len(local), dtype=np.int64)
    result[known] = offsets[place]
    return result


def _offset(local: int, zone: ZoneInfo, fold: int) -> int:
    offset = datetime.fromtimestamp(local, UTC).replace(tzinfo=zone, fold=fold).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def span(text: str) -> int | None:
    """Return the seconds of a span of time: `[days-]hh:mm:ss[.us]`, `mm:ss`, `days-hh`, or plain seconds.

    >>> [span(text) for text in ("1-02:03:04", "02:03:04.5", "03:04", "2-01", "90", "soon")]
    [93784, 7384, 184, 176400, 90, None]
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = match.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is not None:  # days-hh[:mm[:ss]]
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 1:
        hours, minutes, seconds = 0, 0, parts[0]
    else:  # [hh:]mm:ss
        hours, minutes, seconds = (0, *parts)[-3:]
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds


def known_texts(column: Any) -> Bools:
    """Return where an arrow column of text holds a value, shape (n_rows,)."""
    from pyarrow import compute as pc

    return ~_flags(pc.is_in(column, value_set=text_array(NO_VALUE)))


def ids(column: Any) -> list[str]:
    """Return a column of job ids as texts, "" where there is none."""
    known, texts = known_texts(column), column.to_pylist()
    return texts if known.all() else [text if is_known else "" for text, is_known in zip(texts, known, strict=True)]


def matches(column: Any, pattern: str) -> Bools:
    """Return where an arrow column of text, without nulls, matches a regular expression."""
    from pyarrow import compute as pc

    return _flags(pc.match_substring_regex(column, pattern))


def _flags(column: Any) -> Bools:
    return plain_array(column.cast("int8")).astype(np.bool_)


def check_one_clock(columns: dict[str, Timestamps], place: Callable[[str, int], str]) -> bool:
    """Return whether all times have an offset; refuse a mix of both, since their clocks may differ."""
    first: dict[bool, tuple[str, int]] = {}
    for name, times in columns.items():
        known = times.seconds != MISSING
        for fixed in (False, True):
            rows = np.flatnonzero(known & (times.fixed == fixed))
            if len(rows):
                first.setdefault(fixed, (name, int(rows[0])))
    if len(first) == 2:
        raise JobcastError(
            f"{place(*first[False])} has no time zone, but {place(*first[True])} has one, and their clocks may differ. "
            "Export the log with offsets or as Unix time throughout."
        )
    return first.get(True) is not None


Names = tuple[Ints, tuple[str, ...]]  # codes, `MISSING` where unknown, and the names behind them


def by_name(coded: Names, value: Callable[[str], Any], unknown: Any) -> Any:
    """Return the value of each row's name, an array; `unknown` where there is no name.

    >>> by_name((np.array([1, 0, MISSING]), ("a", "bcd")), len, 0).tolist()
    [3, 1, 0]
    """
    codes, texts = coded
    values = np.array([*map(value, texts), unknown])
    return values[np.where(codes == MISSING, len(texts), codes)]


Report = Callable[..., None]  # takes rule, rows, column and example: `Draft.report`

_PLAIN: Final = r"^-?\d{1,15}$"
_SECONDS: Final = r"^\d{1,12}\.\d{0,9}$"
_FRACTION: Final = r"^-?\d{1,12}\.\d{0,9}$"


def numbers(column: Any, name: str, report: Report) -> Ints:
    """Return a column of text as whole numbers, `MISSING` where there is none; other texts are reported."""
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
    by_rule: dict[str, list[tuple[int, str]]] = {}
    for row in np.flatnonzero(known & ~taken).tolist():
        text = column[row].as_py().strip()
        value, rule = (MISSING, "") if not text else parse_value(text.encode(), name)
        result[row] = MISSING if rule not in ("", "fraction") else value
        if rule:
            by_rule.setdefault(rule, []).append((row, text))
    for rule, places in by_rule.items():
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

    The words in `endless` mean that there is no limit: unknown, and reported as such.
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
    seconds = span(text)
    return MISSING if seconds is None else seconds


def names(column: Any) -> Names:
    """Return a column of text as codes, in the order of first use, and the names."""
    encoded = column.dictionary_encode()
    encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
    codes, texts = plain_array(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()
    known = np.array([text not in NO_VALUE for text in texts], dtype=np.bool_)
    if known.all():
        return codes, tuple(texts)
    place = np.where(known, np.cumsum(known) - 1, MISSING)
    return place[codes], tuple(text for text in texts if text not in NO_VALUE)
