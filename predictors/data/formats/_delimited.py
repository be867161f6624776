"""Delimited text tables, quoted or with bars in free text."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.data.formats.parquet import text_array
from predictors.data.report import ReportBuilder

LARGEST_BLOCK: Final = 2**31 - 1
_DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Table:
    """Records as text."""

    names: tuple[str, ...]  # as the first line has them
    columns: Mapping[str, Any]  # the wanted columns, arrow arrays by lower-case name
    places: Callable[[Ints], Ints]  # from rows to line numbers

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def first(self, aliases: Sequence[str]) -> str | None:
        """Return the first of some names that the table has, whatever their case."""
        return next((alias.lower() for alias in aliases if alias.lower() in self.columns), None)


def header_names(data: bytes, delimiter: str) -> tuple[str, ...]:
    r"""Return the names that the first line of a text holds; a name in quotes may hold the delimiter.

    >>> header_names(b'Id,"Wait, s"\r\n', ",")
    ('Id', 'Wait, s')
    """
    begin = 0
    while data[begin : begin + 1] in (b"\r", b"\n"):
        begin += 1
    end = data.find(b"\n", begin)
    first = data[begin : end if end >= 0 else len(data)].decode("utf-8", "replace").strip("\r")
    if '"' in first:
        try:
            names = next(csv.reader([first], delimiter=delimiter), [])
        except csv.Error:  # far too long
            names = first.split(delimiter)
        return tuple(name.strip().strip('"') for name in names)
    return tuple(name.strip() for name in first.split(delimiter))


def quoted_table(data: bytes, source: str, wanted: Sequence[str], report: ReportBuilder, delimiter: str = ",") -> Table:
    """Return the records of a text with delimiters, where fields in quotes may hold these and line breaks."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    text = in_utf8(data, report)
    names = header_names(text, delimiter)
    columns = picked_names(names, wanted, source)
    torn: list[tuple[int, bool]] = []  # number of the row, whether it has too few fields

    def skip(row: Any) -> str:
        torn.append((int(row.number), row.actual_columns < row.expected_columns))
        return "skip"

    breaks = b'"' in text and b"\n" in text
    try:
        table = arrow.read_csv(
            io.BytesIO(text),
            arrow.ReadOptions(
                use_threads=False, block_size=min(max(1 << 24, len(text) + 1 if breaks else 0), LARGEST_BLOCK)
            ),
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values=breaks, invalid_row_handler=skip),
            arrow.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        what = _DELIMITERS.get(delimiter, repr(delimiter))
        raise JobcastError(
            f"{source}: is no table with {what}: the first line must name the columns, and each quote must close."
        ) from error
    place = _Lines(text, len(names), bool(torn), delimiter)
    for number, few in torn:
        report.add("too-few-fields" if few else "surplus-fields", [place.of_record(number)])
    return Table(names, {column.lower(): table.column(column).combine_chunks() for column in columns}, place)


class _Lines:
    """Line numbers of the records of a text with quotes, computed only when a finding needs them."""

    def __init__(self, text: bytes, n_fields: int, torn: bool, delimiter: str) -> None:
        self._text, self._n_fields, self._torn, self._delimiter = text, n_fields, torn, delimiter
        self._records: Ints | None = None
        self._sound: Ints | None = None

    def _look(self) -> None:
        if b'"' not in self._text and not self._torn:
            self._look_at_lines()
            return
        lines, sound, above = [], [], 0
        reader = csv.reader(io.StringIO(self._text.decode("utf-8", "replace"), newline=""), delimiter=self._delimiter)
        csv.field_size_limit(max(csv.field_size_limit(), len(self._text) + 1))
        try:
            for fields in reader:
                if fields:
                    lines.append(above + 1)
                    sound.append(len(fields) == self._n_fields)
                above = reader.line_num
        except csv.Error:
            pass  # the lines after it are not known: their places are that of the last line before
        self._records = np.array(lines, dtype=np.int64)
        self._sound = np.append(self._records[1:][np.array(sound[1:], dtype=np.bool_)], above + 1)

    def _look_at_lines(self) -> None:
        """Without quotes and torn rows, a record is a line that is not blank."""
        text = np.frombuffer(self._text if self._text.endswith(b"\n") else self._text + b"\n", dtype=np.uint8)
        ends = np.flatnonzero(text == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        filled = ends - starts > (text[np.maximum(ends - 1, 0)] == ord("\r"))
        self._records = np.flatnonzero(filled) + 1
        self._sound = np.append(self._records[1:], len(ends) + 1)

    def __call__(self, rows: Ints) -> Ints:
        if self._sound is None:
            self._look()
        assert self._sound is not None
        return self._sound[np.minimum(rows, len(self._sound) - 1)]

    def of_record(self, number: int) -> int:
        """Return the line of a record, counted from 1 with the line of names."""
        if self._records is None:
            self._look()
        assert self._records is not None
        return int(self._records[min(number, len(self._records)) - 1])


_UTF_16: Final = re.compile(rb"(?:\xff\xfe|\xfe\xff)|(?:[\t\n\r -~]\0){4}|(?:\0[\t\n\r -~]){4}", re.DOTALL)


def without_utf16(data: bytes, source: str) -> bytes:
    """Return a text in UTF-16, with or without its mark, as UTF-8; any other as it is."""
    if _UTF_16.match(data) is None:
        return data
    coding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    try:
        return data.decode(coding).encode()
    except UnicodeDecodeError as error:
        raise JobcastError(
            f"{source}: begins as UTF-16 but is not valid UTF-16 ({error.reason}); save it as UTF-8."
        ) from error


def in_utf8(data: bytes, report: ReportBuilder) -> bytes:
    """Return a text as UTF-8; one that is not is taken as Latin-1, and noted."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        report.note("text", f"line {line} is not UTF-8; the whole text is taken as Latin-1")
        return data.decode("latin-1").encode()
    return data


def picked_names(names: tuple[str, ...], wanted: Sequence[str], source: str) -> list[str]:
    """Return those of a table's names that are wanted, whatever their case; raise JobcastError if one comes twice."""
    lower = [name.lower() for name in names]
    times = Counter(lower)
    twice = sorted({name for name in names if name and times[name.lower()] > 1})
    if twice:
        raise JobcastError(f"{source}: its first line has {', '.join(twice[:5])} twice; keep one of each.")
    aliases = {alias.lower() for alias in wanted}
    return [name for name, low in zip(names, lower, strict=True) if low in aliases]


_MOST_SURPLUS: Final = 64


def bar_delimited_table(
    data: bytes,
    source: str,
    wanted: Sequence[str],
    free: Sequence[str],
    typed: Mapping[str, str],
    report: ReportBuilder,
    names: tuple[str, ...] = (),
) -> Table:
    """Return the records of a text with bars and no quotes, such as sacct's.

    Fields named in `free` hold text by users, which may have bars and line breaks. The parts of a line with too many or
    too few fields are joined if the fields of a known kind (`typed`: regular expressions by name) leave one way. A text
    without a line of names has these `names`.
    """
    text, bare, names = in_utf8(data, report), bool(names), names or header_names(data, "|")
    columns = picked_names(names, wanted, source)
    text = text.rstrip(b"\r\n") + b"\n"
    bytes_ = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    bars = np.searchsorted(np.flatnonzero(bytes_ == ord("|")), np.concatenate([[0], ends]))
    n_bars, blank = np.diff(bars), (ends - starts) <= (bytes_[np.maximum(ends - 1, 0)] == ord("\r"))
    first = -1 if bare else int(np.flatnonzero(~blank)[0]) if (~blank).any() else 0
    sound = (n_bars == len(names) - 1) & ~blank & ~_has_break(bytes_, ends)
    sound[: first + 1] = False
    odd = np.flatnonzero(~sound & ~blank & (np.arange(len(ends)) > first))
    mended = _mended(text, starts, ends, odd, _Pattern(names, free, typed), report)
    picked = _fields(
        text if sound[first + 1 :].all() else _only(text, starts, ends, sound), names, columns, sound, first
    )
    if mended:
        import pyarrow as pa

        places = [names.index(column) for column in columns]
        more = {c: text_array([row[k] for _, row in mended]) for c, k in zip(columns, places, strict=True)}
        picked = {column: pa.concat_arrays([picked[column], more[column]]) for column in columns}
    lines = np.concatenate([np.flatnonzero(sound), [line for line, _ in mended]]).astype(np.int64) + 1
    return Table(names, {column.lower(): picked[column] for column in columns}, lambda rows: lines[rows])


def _has_break(bytes_: Any, ends: Any) -> Any:
    """Return which lines have a carriage return that does not end them; Arrow would begin another line there."""
    returns = np.flatnonzero(bytes_ == ord("\r"))
    inner = returns[bytes_[np.minimum(returns + 1, len(bytes_) - 1)] != ord("\n")]
    broken = np.zeros(len(ends), dtype=np.bool_)
    broken[np.searchsorted(ends, inner)] = True
    return broken


def _fields(text: bytes, names: tuple[str, ...], columns: list[str], sound: Any, first: int) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    if not sound.any():
        return {column: text_array([]) for column in columns}
    whole = len(sound) == first + 1 + sound.sum()
    table = arrow.read_csv(
        io.BytesIO(text),
        arrow.ReadOptions(
            column_names=list(names),
            skip_rows=first + 1 if whole else 0,
            block_size=min(max(1 << 24, len(text) + 1), LARGEST_BLOCK),
        ),
        arrow.ParseOptions(delimiter="|", quote_char=False, double_quote=False, newlines_in_values=False),
        arrow.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), include_columns=columns),
    )
    return {column: table.column(column).combine_chunks() for column in columns}


def _only(text: bytes, starts: Any, ends: Any, sound: Any) -> bytes:
    return b"".join(text[starts[line] : ends[line] + 1] for line in np.flatnonzero(sound).tolist())


class _Pattern:
    """The ways to split a line with surplus bars or a line break into fields."""

    def __init__(self, names: tuple[str, ...], free: Sequence[str], typed: Mapping[str, str]) -> None:
        self._free = [name.lower() in free for name in names]
        self._kinds = [re.compile(typed.get(name.lower(), r"[^|\n]*")) for name in names]
        self.begins = re.compile(f"(?:{typed.get(names[0].lower(), '[^|]*')})" + r"\|" if len(names) > 1 else "")
        self.n_bars = len(names) - 1

    def may_begin(self, line: str) -> bool:
        """Return whether a record may begin with this line: it has the whole first field, unless that is free."""
        return self._free[0] or self.begins.match(line) is not None

    def split(self, line: str) -> tuple[list[str], bool] | None:
        """Return the fields, and whether all of them are certain; None if there is no way to split the line."""
        parts = line.split("|")
        surplus = len(parts) - 1 - self.n_bars
        if not 0 <= surplus <= _MOST_SURPLUS:
            return None
        ways = self._ways(parts, surplus)
        if not ways[0][0]:
            return None
        fields, others = (self._fields(parts, ways, choose) for choose in (min, max))
        # One way ends the first free field as early as possible, the other as late: if they agree, all ways agree.
        doubt = next((k for k, field in enumerate(fields) if field != others[k]), None)
        if doubt is not None:
            last = max(k for k, is_free in enumerate(self._free) if is_free)
            fields[doubt : last + 1] = [""] * (last + 1 - doubt)
        return fields, doubt is None

    def _ways(self, parts: list[str], surplus: int) -> list[list[bool]]:
        """Return for each field, and each number of surplus bars before it, whether the rest can follow."""
        ways = [[False] * surplus + [True]]  # behind the last field all bars are used up
        for k in range(self.n_bars, -1, -1):
            after = ways[-1]
            if self._free[k]:
                latest = max((used for used, can in enumerate(after) if can), default=-1)
                ways.append([used <= latest for used in range(surplus + 1)])
            else:
                kind = self._kinds[k]
                ways.append([can and kind.fullmatch(parts[k + used]) is not None for used, can in enumerate(after)])
        return ways[::-1]

    def _fields(self, parts: list[str], ways: list[list[bool]], choose: Callable[[Iterable[int]], int]) -> list[str]:
        """Return the fields, each free one ended by the choice among the ways that are left."""
        fields, used = list[str](), 0
        for k, is_free in enumerate(self._free):
            then = choose(n for n in range(used, len(ways[k + 1])) if ways[k + 1][n]) if is_free else used
            fields.append("|".join(parts[k + used : k + then + 1]))
            used = then
        return fields


def _mended(
    text: bytes, starts: Any, ends: Any, odd: Ints, pattern: _Pattern, report: ReportBuilder
) -> list[tuple[int, list[str]]]:
    """Return line number, from 0, and fields of each record that was joined from lines that are not sound."""
    records: list[tuple[int, list[str]]] = []
    lines = [text[starts[k] : ends[k]].decode("utf-8", "replace").rstrip("\r") for k in odd.tolist()]
    at = 0
    while at < len(lines):
        line, upto = lines[at], at + 1
        split = pattern.split(line)
        begins = pattern.may_begin(line)
        while (
            split is None
            and begins
            and upto < len(lines)
            and odd[upto] == odd[upto - 1] + 1
            and upto - at < _MOST_SURPLUS
        ):
            if pattern.begins.match(lines[upto]) and line.count("|") >= pattern.n_bars:
                break
            line, upto = f"{line}\n{lines[upto]}", upto + 1
            split = pattern.split(line)
        number = int(odd[at])
        if split is None:
            few = lines[at].count("|") < pattern.n_bars
            report.add("too-few-fields" if few else "surplus-fields", [number + 1], example=lines[at][:40])
            at += 1
            continue
        report.add("rejoined" if split[1] else "delimiter-in-text", [number + 1], example=lines[at][:40])
        records.append((number, split[0]))
        at = upto
    return records
