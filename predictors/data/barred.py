"""Text with bars between fields and no quotes, such as sacct's, in which users' own words may hold bars too."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from predictors.data.account import Ledger
from predictors.data.arrow_arrays import text_array
from predictors.data.joblog import Ints
from predictors.data.tables import LARGEST_BLOCK, Table, header_names, in_utf8, picked_names

_MOST_SURPLUS: Final = 64


def barred_table(
    data: bytes, source: str, wanted: Sequence[str], free: Sequence[str], typed: Mapping[str, str], ledger: Ledger
) -> Table:
    """Return the records of a text with bars and no quotes, such as sacct's.

    Fields named in `free` hold what users typed, bars and line breaks included. A line that has too many or too few
    fields is put together again where the fields of a known kind (`typed`: regular expressions by name) leave one way.
    """
    text, names = in_utf8(data, ledger), header_names(data, "|")
    columns = picked_names(names, wanted, source)
    text = text.rstrip(b"\r\n") + b"\n"
    bytes_ = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    bars = np.searchsorted(np.flatnonzero(bytes_ == ord("|")), np.concatenate([[0], ends]))
    n_bars, blank = np.diff(bars), (ends - starts) <= (bytes_[np.maximum(ends - 1, 0)] == ord("\r"))
    first = int(np.flatnonzero(~blank)[0]) if (~blank).any() else 0
    sound = (n_bars == len(names) - 1) & ~blank & ~_has_break(bytes_, ends)
    sound[: first + 1] = False
    odd = np.flatnonzero(~sound & ~blank & (np.arange(len(ends)) > first))
    mended = _mended(text, starts, ends, odd, _Pattern(names, free, typed), ledger)
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
    """Return which lines have a carriage return that does not end them: for arrow, another line would begin there."""
    returns = np.flatnonzero(bytes_ == ord("\r"))
    inner = returns[bytes_[np.minimum(returns + 1, len(bytes_) - 1)] != ord("\n")]
    found = np.zeros(len(ends), dtype=np.bool_)
    found[np.searchsorted(ends, inner)] = True
    return found


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
    """Return the lines that are sound."""
    return b"".join(text[starts[line] : ends[line] + 1] for line in np.flatnonzero(sound).tolist())


class _Pattern:
    """Tells how a line with surplus bars or a line break falls into fields."""

    def __init__(self, names: tuple[str, ...], free: Sequence[str], typed: Mapping[str, str]) -> None:
        self._free = [name.lower() in free for name in names]
        self._kinds = [re.compile(typed.get(name.lower(), r"[^|\n]*")) for name in names]
        self.begins = re.compile(f"(?:{typed.get(names[0].lower(), '[^|]*')})" + r"\|" if len(names) > 1 else "")
        self.n_bars = len(names) - 1

    def may_begin(self, line: str) -> bool:
        """Return whether a record may begin with this line: it has the whole first field, unless that is free."""
        return self._free[0] or self.begins.match(line) is not None

    def split(self, line: str) -> tuple[list[str], bool] | None:
        """Return the fields, and whether all of them are certain; None if there is no way."""
        parts = line.split("|")
        surplus = len(parts) - 1 - self.n_bars
        if not 0 <= surplus <= _MOST_SURPLUS:
            return None
        ways = self._ways(parts, surplus)
        if not ways[0][0]:
            return None
        fields, others = (self._fields(parts, ways, choose) for choose in (min, max))
        # One way ends the first free field as early as can be, the other as late: if they agree, so do all.
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
    text: bytes, starts: Any, ends: Any, odd: Ints, pattern: _Pattern, ledger: Ledger
) -> list[tuple[int, list[str]]]:
    """Return line number, from 0, and fields of each record that was put together from lines that are not sound."""
    found: list[tuple[int, list[str]]] = []
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
            ledger.add("too-few-fields" if few else "surplus-fields", [number + 1], example=lines[at][:40])
            at += 1
            continue
        ledger.add("rejoined" if split[1] else "delimiter-in-text", [number + 1], example=lines[at][:40])
        found.append((number, split[0]))
        at = upto
    return found
