"""Pieces of telemetry files as rows of readings."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.data.report import N_PLACES, Effect, Finding, ReadingReport
from predictors.data.telemetry._kernels import RAGGED, WHOLE, scan_lines
from predictors.data.telemetry.layout import Layout

if TYPE_CHECKING:
    import polars as pl

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "columns": ("dropped", "the line has not as many columns as the header"),
        "unfinished": ("dropped", "the file's last line does not end; it is still being written, or was cut short"),
        "no-time": ("dropped", "the time is missing or cannot be read"),
        "no-node": ("dropped", "the producer's name ends in no number and there is no component_id; give `nodes`"),
        "other-node": ("dropped", "the producer is not among the `nodes` given"),
        "clock": ("dropped", "the time is more than an hour off those of the lines around it"),
        "twice": ("dropped", "a second reading of the same device at the same time; the first stands"),
        "late": (
            "dropped",
            "older than readings that were worked on, by more than what is put in order; are files of the same time?",
        ),
        "no-number": ("changed", "not a number, below 0 or too large; the value is unknown"),
        "gap": ("changed", "readings before it are lost: no rate across so long a time"),
        "reset": ("changed", "the counter went back: it began anew and gives no rate"),
        "restart": ("changed", "half of a device's counters went back: it began anew and gives no rates"),
        "saturated": ("changed", "the counter stands at its largest value: its rate is unknown"),
        "flagged": ("changed", "LDMS flagged the value as not valid; it is unknown"),
        "device-missing": ("changed", "not all devices of the node were read; their sum is unknown"),
        "wrap": ("noted", "the counter began again at 0 after its largest value; its rate is known"),
        "empty": ("noted", "the cell is empty; the value is unknown"),
        "first": ("noted", "a device's first reading; there is none before it to take a rate from"),
        "header": ("noted", "a header within the file; what follows is read by it"),
        "other-column": ("noted", "a column that holds none of the counters"),
        "no-counter": ("noted", "counters that no column holds; they are unknown"),
        "other-file": ("noted", "a file that is no telemetry, or of another sampler; not read"),
        "empty-file": ("noted", "a file without rows"),
    }
)


def table() -> str:
    """Return the rules as Markdown, which docs/telemetry.md holds."""
    rows = [f"| {rule} | {effect} | {text} |" for rule, (effect, text) in RULES.items()]
    return "\n".join(["| rule | effect | what it says |", "|---|---|---|", *rows]) + "\n"


class Losses:
    """Where the reader writes down what it met, over all files of a folder.

    Findings of a rule are counted over all files; the places are lines of the file in which it was met first.

    Parameters
    ----------
    source : str
        The folder.
    strict : bool
        Raise at the first thing that is dropped or changed.
    """

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source, self._strict = source, strict
        self._counts: dict[tuple[str, str], int] = {}
        self._firsts: dict[tuple[str, str], tuple[str, tuple[int, ...], str]] = {}

    def add(
        self, rule: str, file: str, lines: npt.ArrayLike = (), column: str = "", example: str = "", n: int = 0
    ) -> None:
        """Write down that `rule` was met in `lines` of a file, or `n` times where there are no lines."""
        where = np.sort(np.atleast_1d(np.asarray(lines, dtype=np.int64)))
        number = n or len(where)
        if not number:
            return
        effect, text = RULES[rule]
        if self._strict and effect != "noted":
            at = f":{where[0]}" if len(where) else ""
            raise JobcastError(
                f"{file}{at}: {rule}{f' {column}' if column else ''}{f', found {example!r}' if example else ''} "
                f"({text}). Mend it, or read without strict to have it handled so."
            )
        key = rule, column
        self._counts[key] = self._counts.get(key, 0) + number
        self._firsts.setdefault(key, (file, tuple(where[:N_PLACES].tolist()), example))

    def account(self) -> ReadingReport:
        """Return all that was met."""
        findings = []
        for (rule, column), count in self._counts.items():
            file, places, example = self._firsts[rule, column]
            effect, text = RULES[rule]
            where = f"{text}; first in {file}" if file else text
            findings.append(Finding(rule, effect, where, count, places, column=column, example=example))
        return ReadingReport(self._source, tuple(findings))


Texts: TypeAlias = "Callable[[int], pl.Series]"
"""Gives a column as it stands in the file, as text, null where it is empty."""
_MICROSECONDS: Final[Mapping[str, float]] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_END: Final = 2**62
"""A time beyond this many microseconds cannot be meant."""


class Piece(NamedTuple):
    """Rows as they stand in a file: a frame, the lines, what the columns are, and the cells as text."""

    frame: "pl.DataFrame"
    lines: Ints
    layout: Layout
    texts: Texts


@dataclass
class Rows:
    """Readings of some layout, in the file's order.

    `time` in microseconds, `slot` the device's number, `line` and `file` where it stood, `values` and `known` of shape
    (n, cumulative columns), `rates` of shape (n, rate columns), NaN where not known.
    """

    time: Ints
    slot: Ints
    line: Ints
    file: Ints
    values: npt.NDArray[np.uint64]
    known: Bools
    rates: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)

    def select(self, rows: Any) -> Self:
        """Return some of the rows."""
        return type(self)(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def join(self, other: Self) -> Self:
        """Return these rows and the others after them."""
        both = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return type(self)(*(np.concatenate(pair) for pair in both))


@dataclass
class Devices:
    """The devices met so far: each is one slot, and belongs to a node.

    Parameters
    ----------
    nodes : mapping of str to int, optional
        Producer's name to node id; absent: the number that ends the name, or component_id where there is none.
    """

    nodes: Mapping[str, int] | None = None
    slots: dict[tuple[str, ...], int] = field(default_factory=dict)
    node: list[int] = field(default_factory=list)
    owner: dict[int, str] = field(default_factory=dict)

    def slot(self, producer: str, component: int | None, device: tuple[str, ...], source: str) -> int:
        """Return the slot of a device; -1 if its node has no id, -2 if it is not among those given."""
        key = producer, *device
        if key in self.slots:
            return self.slots[key]
        node = self._node(producer, component)
        if node < 0:
            self.slots[key] = node
            return node
        if self.owner.setdefault(node, producer) != producer:
            raise JobcastError(
                f"{source}: producers {self.owner[node]!r} and {producer!r} would both be node {node}; give `nodes`, "
                "which says the id of each."
            )
        self.node.append(node)
        self.slots[key] = len(self.node) - 1
        return self.slots[key]

    def _node(self, producer: str, component: int | None) -> int:
        if self.nodes is not None:
            return self.nodes.get(producer, -2)
        digits = producer[len(producer.rstrip("0123456789")) :]
        if digits and len(digits) < 16:
            return int(digits)
        return component if component else -1


def csv_frames(piece: bytes, layout: Layout, line: int, source: str, losses: Losses) -> Iterator[Piece]:
    """Yield the whole lines of a piece, without its headers: the frame, its line numbers, and its cells as text.

    Columns are named by their position. A line with another number of columns is dropped.
    """
    if b'"' in piece:
        piece = piece.replace(b'"', b"")
    data = np.frombuffer(piece, dtype=np.uint8)
    number = piece.count(b"\n")
    starts, kinds = np.empty(number, dtype=np.int64), np.empty(number, dtype=np.uint8)
    scan_lines(data, len(layout.names) - 1, starts, kinds)
    ragged = np.flatnonzero(kinds == RAGGED)
    ends = np.append(starts[1:], len(data))
    if len(ragged):
        text = piece[starts[ragged[0]] : ends[ragged[0]]].decode("utf-8", "replace").strip()[:60]
        losses.add("columns", source, line + ragged, example=text)
    whole = np.flatnonzero(kinds == WHOLE)
    if len(whole):
        if len(whole) < number:
            piece = data[np.repeat(kinds == WHOLE, ends - starts)].tobytes()
        lines = piece
        yield Piece(_csv_frame(piece, layout), line + whole, layout, lambda column: _csv_text(lines, layout, column))


def header_lines(piece: bytes) -> list[int]:
    """Return where headers begin in a piece of whole lines."""
    found = []
    at = piece.find(b"#")  # none, nearly always, and that is found fast
    while at >= 0:
        if at == 0 or piece[at - 1 : at] == b"\n":
            found.append(at)
        at = piece.find(b"#", at + 1)
    return found


def _csv_frame(piece: bytes, layout: Layout) -> "pl.DataFrame":
    import polars as pl

    kinds: dict[int, Any] = dict.fromkeys((layout.node, *layout.devices), pl.String)
    kinds |= dict.fromkeys(layout.time, pl.Int64)
    if layout.clock in ("s", "datetime"):
        kinds[layout.time[0]] = pl.Float64 if layout.clock == "s" else pl.String
    if layout.component >= 0:
        kinds[layout.component] = pl.Int64
    for metric in layout.metrics:
        kinds[metric.column] = pl.UInt64 if metric.kind == "cumulative" else pl.Float64
        if metric.flag >= 0:
            kinds[metric.flag] = pl.Int64
    schema = {str(k): kinds.get(k, pl.String) for k in range(len(layout.names))}
    return pl.read_csv(
        piece, has_header=False, schema=schema, columns=sorted(kinds), quote_char=None,
        ignore_errors=True, glob=False, encoding="utf8-lossy",
    )  # fmt: skip


def _csv_text(piece: bytes, layout: Layout, column: int) -> "pl.Series":
    """Return a column as it stands in the file, null where it is empty."""
    import polars as pl

    schema = {str(k): pl.String for k in range(len(layout.names))}
    frame = pl.read_csv(
        piece,
        has_header=False,
        schema=schema,
        columns=[column],
        quote_char=None,
        glob=False,
        encoding="utf8-lossy",
    )
    return frame[str(column)]


def rows_of(
    frame: "pl.DataFrame",
    layout: Layout,
    lines: Ints,
    file: tuple[int, str],
    devices: Devices,
    losses: Losses,
    text: "Texts",
) -> Rows:
    """Turn a frame into rows, accounting for what cannot be used.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns named by their position; what could not be read is null.
    text : callable
        Gives a column as it stands in the file, as text, null where it is empty.
    """
    number, source = file
    time = _microseconds(frame, layout)
    good = time >= 0
    if not good.all():
        bad = np.flatnonzero(~good)
        losses.add("no-time", source, lines[bad], layout.names[layout.time[0]], str(text(layout.time[0])[int(bad[0])]))
    slot = _slots(frame, layout, devices, source)
    for rule, code in (("no-node", -1), ("other-node", -2)):
        bad = np.flatnonzero(good & (slot == code))
        if len(bad):
            losses.add(rule, source, lines[bad], example=str(text(layout.node)[int(bad[0])] or ""))
    good &= slot >= 0
    cumulative = [metric for metric in layout.metrics if metric.kind == "cumulative"]
    measured = [metric for metric in layout.metrics if metric.kind == "rate"]
    n = len(frame)
    values, known = np.zeros((n, len(cumulative)), dtype=np.uint64), np.zeros((n, len(cumulative)), dtype=np.bool_)
    rates = np.full((n, len(measured)), np.nan)
    for k, metric in enumerate(cumulative):
        column = frame[str(metric.column)]
        known[:, k] = True
        if column.null_count():
            known[:, k] = column.is_not_null().to_numpy()
            column = column.fill_null(0)
        values[:, k] = column.to_numpy()
        _say_unknown(known[:, k], good, metric.column, layout, lines, source, losses, text)
        _drop_flagged(frame, metric.flag, known[:, k], layout.names[metric.column], lines, source, losses)
    for k, metric in enumerate(measured):
        numbers = frame[str(metric.column)].fill_null(np.nan).to_numpy().copy()
        fine = np.isfinite(numbers) & (numbers >= 0)
        numbers[~fine] = np.nan
        _say_unknown(fine, good, metric.column, layout, lines, source, losses, text)
        _drop_flagged(frame, metric.flag, fine, layout.names[metric.column], lines, source, losses)
        rates[:, k] = np.where(fine, numbers, np.nan) * metric.scale
    rows = Rows(time, slot, lines.astype(np.int64), np.full(n, number), values, known, rates)
    return rows if good.all() else rows.select(good)


def _say_unknown(
    fine: Bools,
    good: Bools,
    column: int,
    layout: Layout,
    lines: Ints,
    source: str,
    losses: Losses,
    text: "Texts",
) -> None:
    """Account for values that could not be read: empty cells, and cells that hold something else."""
    if fine.all():
        return
    written = text(column)
    held = written.is_not_null().to_numpy() & (written != "").fill_null(value=False).to_numpy()
    wrong = np.flatnonzero(~fine & good & held)
    name = layout.names[column]
    if len(wrong):
        losses.add("no-number", source, lines[wrong], name, str(written[int(wrong[0])])[:40])
    losses.add("empty", source, lines[~fine & good & ~held], name)


def _drop_flagged(
    frame: "pl.DataFrame", flag: int, fine: Bools, name: str, lines: Ints, source: str, losses: Losses
) -> None:
    """Make values unknown that LDMS flagged."""
    if flag < 0:
        return
    flagged = frame[str(flag)].fill_null(1).to_numpy() != 0
    losses.add("flagged", source, lines[flagged & fine], name)
    fine &= ~flagged


def _microseconds(frame: "pl.DataFrame", layout: Layout) -> Ints:
    """Return the times, -1 where there is none."""
    import polars as pl

    column = frame[str(layout.time[0])]
    if layout.clock == "datetime":
        if column.dtype == pl.String:
            column = column.str.to_datetime(time_unit="us", strict=False, time_zone="UTC")
        return np.asarray(column.dt.epoch("us").fill_null(-1).to_numpy(), dtype=np.int64)
    if layout.clock == "ms+us":
        whole, parts = column.fill_null(-1).to_numpy(), frame[str(layout.time[1])].fill_null(-1).to_numpy()
        fine = (whole >= 0) & (parts >= 0) & (whole < _END // 1000)
        return np.where(fine, np.where(fine, whole, 0) * 1000 + parts, -1).astype(np.int64)
    numbers = column.cast(pl.Float64, strict=False).fill_null(-1.0).to_numpy() * _MICROSECONDS[layout.clock]
    fine = (numbers >= 0) & (numbers < _END)
    return np.where(fine, np.rint(np.where(fine, numbers, 0)), -1).astype(np.int64)


def _slots(frame: "pl.DataFrame", layout: Layout, devices: Devices, source: str) -> Ints:
    """Return each row's slot, or why it has none."""
    import polars as pl

    columns = [str(k) for k in dict.fromkeys((layout.node, *layout.devices))]
    names = frame.select(pl.col(name).cast(pl.String).fill_null("").str.strip_chars() for name in columns)
    key = names.select(pl.concat_str(columns, separator="\x1f").alias("key"))["key"]
    first = pl.DataFrame({"key": key}).with_row_index("row").unique("key", keep="first", maintain_order=True)
    components = frame[str(layout.component)] if layout.component >= 0 else None
    slots = [
        devices.slot(
            parts[0], None if components is None else components[row], tuple(parts[1:]), source
        ) if parts[0] else -1
        for row, parts in ((row, key.split("\x1f")) for row, key in first.iter_rows())
    ]  # fmt: skip
    codes = key.cast(pl.Enum(first["key"])).to_physical().to_numpy()
    return np.array(slots, dtype=np.int64)[codes] if len(slots) else np.empty(0, dtype=np.int64)
