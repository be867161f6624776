"""Text with a line of names and then one record a line: its columns as text, and where each record stands."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predictors.data.account import Ledger
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints

LARGEST_BLOCK: Final = 2**31 - 1


@dataclass(frozen=True)
class Table:
    """Records as text.

    Parameters
    ----------
    names : tuple of str
        As the first line has them.
    columns : mapping of str to arrow array
        By lower-case name, those that were asked for.
    places : callable
        From rows to line numbers.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Any]
    places: Callable[[Ints], Ints]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def first(self, aliases: Sequence[str]) -> str | None:
        """Return the first of some names that the table has, whatever their case."""
        return next((alias.lower() for alias in aliases if alias.lower() in self.columns), None)


def header_names(data: bytes, delimiter: str) -> tuple[str, ...]:
    """Return the names that the first line of a text holds."""
    begin = 0
    while data[begin : begin + 1] in (b"\r", b"\n"):
        begin += 1
    end = data.find(b"\n", begin)
    first = data[begin : end if end >= 0 else len(data)].decode("utf-8", "replace").strip("\r")
    return tuple(name.strip().strip('"') for name in first.split(delimiter))


def quoted_table(data: bytes, source: str, wanted: Sequence[str], ledger: Ledger) -> Table:
    """Return the records of a text with commas, where a field may stand in quotes and hold commas and line breaks."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    text, names = in_utf8(data, ledger), header_names(data, ",")
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
            arrow.ParseOptions(newlines_in_values=breaks, invalid_row_handler=skip),
            arrow.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise JobcastError(f"{source}: is no table with commas ({str(error).splitlines()[0][:120]}).") from error
    place = _Lines(text, len(names), bool(torn))
    for number, few in torn:
        ledger.add("too-few-fields" if few else "surplus-fields", [place.of_record(number)])
    return Table(names, {column.lower(): table.column(column).combine_chunks() for column in columns}, place)


class _Lines:
    """Line numbers of the records of a text with quotes, looked up only where there is something to say."""

    def __init__(self, text: bytes, n_fields: int, torn: bool) -> None:
        self._text, self._n_fields, self._torn = text, n_fields, torn
        self._records: Ints | None = None
        self._sound: Ints | None = None

    def _look(self) -> None:
        if b'"' not in self._text and not self._torn:
            self._look_at_lines()
            return
        lines, sound, above = [], [], 0
        reader = csv.reader(io.StringIO(self._text.decode("utf-8", "replace"), newline=""))
        csv.field_size_limit(max(csv.field_size_limit(), len(self._text) + 1))
        try:
            for fields in reader:
                if fields:
                    lines.append(above + 1)
                    sound.append(len(fields) == self._n_fields)
                above = reader.line_num
        except csv.Error:
            pass  # from there on lines are not told apart: places are those of the last line before
        self._records = np.array(lines, dtype=np.int64)
        self._sound = np.append(self._records[1:][np.array(sound[1:], dtype=np.bool_)], above + 1)

    def _look_at_lines(self) -> None:
        """Where nothing stands in quotes and no row is torn, a record is a line that is not blank."""
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


def in_utf8(data: bytes, ledger: Ledger) -> bytes:
    """Return a text as UTF-8; one that is not is taken as Latin-1, and noted."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        ledger.note("text", f"line {line} is not UTF-8; the whole text is taken as Latin-1")
        return data.decode("latin-1").encode()
    return data


def picked_names(names: tuple[str, ...], wanted: Sequence[str], source: str) -> list[str]:
    """Return those of a table's names that are wanted, whatever their case; raise JobcastError if one comes twice."""
    lower = [name.lower() for name in names]
    times = Counter(lower)
    twice = sorted({name for name in names if name and times[name.lower()] > 1})
    if twice:
        raise JobcastError(f"{source}: its first line names {', '.join(twice[:5])} twice; which one counts?")
    asked = {alias.lower() for alias in wanted}
    return [name for name, low in zip(names, lower, strict=True) if low in asked]
