"""Rows of telemetry files as readings, and the report of what could not be used."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from textwrap import fill
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.data.report import N_PLACES, Effect, Finding, ReadingReport
from predictors.data.telemetry._kernels import RAGGED, WHOLE, scan_lines
from predictors.data.telemetry.layout import Layout, Metric

if TYPE_CHECKING:
    import polars as pl

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "columns": ("dropped", "the line has another number of columns than the header"),
        "unfinished": ("dropped", "the file's last line does not end; it is still being written, or was cut short"),
        "no-time": ("dropped", "the time is missing or cannot be read"),
        "no-node": ("dropped", "the producer's name ends in no number and there is no component_id; give `nodes`"),
        "other-node": ("dropped", "the producer is not among the `nodes` given"),
        "clock": ("dropped", "the time differs by more than an hour from those of the lines around it"),
        "twice": ("dropped", "a second reading of the same device at the same time; the first counts"),
        "late": (
            "dropped",
            "more than `late` seconds after newer rows; files of one time need `parallel` in a mapping",
        ),
        "no-number": ("changed", "not a number, below 0 or too large; the value is unknown"),
        "gap": ("changed", "readings before it are missing; there is no rate across so long a time"),
        "reset": ("changed", "the counter went back: it was reset and has no rate"),
        "restart": ("changed", "half of a device's counters went back: it restarted and has no rates"),
        "saturated": ("changed", "the counter stays at its largest value; its rate is unknown"),
        "flagged": ("changed", "LDMS flagged the value as not valid; it is unknown"),
        "device-missing": ("changed", "not all devices of the node were read; their sum is unknown"),
        "wrap": ("noted", "the counter began again at 0 after its largest value; its rate is known"),
        "empty": ("noted", "the cell is empty; the value is unknown"),
        "first": ("noted", "a device's first reading; a rate needs one before it"),
        "header": ("noted", "a header within the file; the lines after it are read by it"),
        "other-column": ("noted", "a column without a counter"),
        "no-counter": ("noted", "counters without a column; they are unknown"),
        "other-file": ("noted", "a file that is no telemetry, or of another sampler; not read"),
        "empty-file": ("noted", "a file without rows"),
    }
)


def table() -> str:
    """Return the names of the rules by effect, as Markdown; docs/telemetry.md holds them."""
    by_effect: dict[str, list[str]] = {}
    for rule, (effect, _) in RULES.items():
        by_effect.setdefault(effect, []).append(f"`{rule}`")
    lines = (f"* {effect}: {', '.join(names)}" for effect, names in by_effect.items())
    return "\n".join(fill(line, 120, subsequent_indent="  ") for line in lines) + "\n"


class Losses:
    """What the reader dropped, changed or noted, over all files of a folder.

    A rule is counted over all files; the places are lines of the file in which it is met first.
    """

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source, self._strict = source, strict
        self._findings: dict[tuple[str, str], Finding] = {}

    def add(
        self, rule: str, file: str, lines: npt.ArrayLike = (), column: str = "", example: str = "", n: int = 0
    ) -> None:
        """Count `rule` for `lines` of a file, or `n` times where there are no lines."""
        places = np.sort(np.atleast_1d(np.asarray(lines, dtype=np.int64)))
        number = n or len(places)
        if not number:
            return
        effect, text = RULES[rule]
        if self._strict and effect != "noted":
            at = f":{places[0]}" if len(places) else ""
            raise JobcastError(
                f"{file}{at}: {rule}{f' {column}' if column else ''}{f', found {example!r}' if example else ''} "
                f"({text}). Mend it, or read without strict to have it handled so."
            )
        before = self._findings.get((rule, column))
        if before is None:
            text = f"{text}; first in {file}" if file else text
            first = tuple(places[:N_PLACES].tolist())
            self._findings[rule, column] = Finding(rule, effect, text, number, first, column=column, example=example)
        else:
            self._findings[rule, column] = replace(before, count=before.count + number)

    def account(self) -> ReadingReport:
        return ReadingReport(self._source, tuple(self._findings.values()))


Texts: TypeAlias = "Callable[[int], pl.Series]"  # returns a column as the file has it, as text, null where it is empty
_MICROSECONDS: Final[Mapping[str, float]] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_END: Final = 2**62  # no time is later [µs]
NO_NODE: Final = -1
OTHER_NODE: Final = -2


class Piece(NamedTuple):
    """Rows as a file has them: a frame with columns named by position, line numbers, layout, and the cells as text."""

    frame: "pl.DataFrame"
    lines: Ints
    layout: Layout
    texts: Texts


@dataclass
class Rows:
    """Readings of one layout, in the file's order.

    `time` is in microseconds, `slot` is the device's number, `line` and `file` are the place. `values` and `known` have
    shape (n, cumulative columns), `rates` has shape (n, rate columns) and is NaN where not known.
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
        return type(self)(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def join(self, other: Self) -> Self:
        both = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return type(self)(*(np.concatenate(pair) for pair in both))


@dataclass
class Devices:
    """The devices met so far. Each has a slot, its number, and belongs to a node."""

    # producer's name to node id; absent: the number that ends the name, or component_id where there is none
    nodes: Mapping[str, int] | None = None
    slots: dict[tuple[str, ...], int] = field(default_factory=dict)
    node: list[int] = field(default_factory=list)
    owner: dict[int, str] = field(default_factory=dict)

    def slot(self, producer: str, *device: str, component: int | None, source: str) -> int:
        """Return the slot of a device; `NO_NODE` if its node has no id, `OTHER_NODE` if it is not in `nodes`."""
        key = producer, *device
        if key not in self.slots:
            node = self._node(producer, component)
            if node >= 0 and self.owner.setdefault(node, producer) != producer:
                raise JobcastError(
                    f"{source}: producers {self.owner[node]!r} and {producer!r} would both be node {node}; give "
                    "`nodes`, which says the id of each."
                )
            if node >= 0:
                self.node.append(node)
            self.slots[key] = len(self.node) - 1 if node >= 0 else node
        return self.slots[key]

    def _node(self, producer: str, component: int | None) -> int:
        if not producer:
            return NO_NODE
        if self.nodes is not None:
            return self.nodes.get(producer, OTHER_NODE)
        digits = producer[len(producer.rstrip("0123456789")) :]
        return int(digits) if 0 < len(digits) < 16 else max(component or NO_NODE, NO_NODE)


def csv_frames(piece: bytes, layout: Layout, line: int, source: str, losses: Losses) -> Iterator[Piece]:
    """Yield the rows of whole lines, columns by position, without headers, blank lines and torn rows."""
    import polars as pl

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
        rows = piece if len(whole) == number else data[np.repeat(kinds == WHOLE, ends - starts)].tobytes()
        frame = _csv(rows, layout, _column_types(layout))
        yield Piece(frame, line + whole, layout, lambda column: _csv(rows, layout, {column: pl.String})[str(column)])


def _column_types(layout: Layout) -> dict[int, Any]:
    import polars as pl

    types: dict[int, Any] = dict.fromkeys((layout.node, *layout.devices), pl.String)
    types |= dict.fromkeys(layout.time, pl.Int64)
    if layout.clock in ("s", "datetime"):
        types[layout.time[0]] = pl.Float64 if layout.clock == "s" else pl.String
    if layout.component >= 0:
        types[layout.component] = pl.Int64
    return types | metric_types(layout)


def metric_types(layout: Layout) -> dict[int, Any]:
    import polars as pl

    flags = {metric.flag: pl.Int64 for metric in layout.metrics if metric.flag >= 0}
    return {m.column: pl.UInt64 if m.kind == "cumulative" else pl.Float64 for m in layout.metrics} | flags


def _csv(rows: bytes, layout: Layout, types: Mapping[int, Any]) -> "pl.DataFrame":
    """Return some columns; a cell that is empty or does not fit the type is null."""
    import polars as pl

    schema = {str(k): types.get(k, pl.String) for k in range(len(layout.names))}
    return pl.read_csv(
        rows, has_header=False, schema=schema, columns=sorted(types), quote_char=None,
        ignore_errors=True, glob=False, encoding="utf8-lossy",
    )  # fmt: skip


def rows_of(piece: Piece, file: tuple[int, str], devices: Devices, losses: Losses) -> Rows:
    """Return the rows of a piece of `file`, a number and a name; what cannot be used goes to `losses`."""
    frame, lines, layout, texts = piece
    number, source = file

    def account(rule: str, where: Bools, column: int, name: str = "") -> None:
        if where.any():
            example = texts(column)[int(np.argmax(where))] or ""
            losses.add(rule, source, lines[where], name, example[:40])

    def account_unknown(metric: Metric, fine: Bools) -> None:
        """Account for cells without a number and for those that LDMS flagged; the latter are no longer `fine`."""
        name = layout.names[metric.column]
        if not fine.all():
            blank = (texts(metric.column).fill_null("") == "").to_numpy()
            account("no-number", ~fine & good & ~blank, metric.column, name)
            losses.add("empty", source, lines[~fine & good & blank], name)
        if metric.flag >= 0:
            flagged = frame[str(metric.flag)].fill_null(1).to_numpy() != 0
            losses.add("flagged", source, lines[flagged & fine], name)
            fine &= ~flagged

    time, slot = _microseconds(frame, layout), _slots(frame, layout, devices, source)
    good = time >= 0
    account("no-time", ~good, layout.time[0], layout.names[layout.time[0]])
    account("no-node", good & (slot == NO_NODE), layout.node)
    account("other-node", good & (slot == OTHER_NODE), layout.node)
    good &= slot >= 0
    cumulative = [metric for metric in layout.metrics if metric.kind == "cumulative"]
    measured = [metric for metric in layout.metrics if metric.kind == "rate"]
    values = np.empty((len(frame), len(cumulative)), dtype=np.uint64)
    known, rates = np.empty(values.shape, dtype=np.bool_), np.empty((len(frame), len(measured)))
    for k, metric in enumerate(cumulative):
        column = frame[str(metric.column)]
        known[:, k] = True
        if column.null_count():
            known[:, k], column = column.is_not_null().to_numpy(), column.fill_null(0)
        values[:, k] = column.to_numpy()
        account_unknown(metric, known[:, k])
    for k, metric in enumerate(measured):
        numbers = frame[str(metric.column)].fill_null(np.nan).to_numpy()
        fine = np.isfinite(numbers) & (numbers >= 0)
        account_unknown(metric, fine)
        rates[:, k] = np.where(fine, numbers, np.nan) * metric.scale
    rows = Rows(time, slot, lines.astype(np.int64), np.full(len(frame), number), values, known, rates)
    return rows if good.all() else rows.select(good)


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
    """Return the slot of each row's device, or the code of why it has none."""
    import polars as pl

    columns = [str(k) for k in dict.fromkeys((layout.node, *layout.devices))]
    names = [pl.col(name).cast(pl.String).fill_null("").str.strip_chars() for name in columns]
    key = frame.select(pl.concat_str(names, separator="\x1f").alias("key"))["key"]
    first = pl.DataFrame({"key": key}).with_row_index("row").unique("key", keep="first", maintain_order=True)
    components = frame[str(layout.component)] if layout.component >= 0 else None
    slots = [
        devices.slot(*one.split("\x1f"), component=None if components is None else components[row], source=source)
        for row, one in first.iter_rows()
    ]
    codes = key.cast(pl.Enum(first["key"])).to_physical().to_numpy()
    slot_of_row: Ints = np.array(slots, dtype=np.int64)[codes]
    return slot_of_row
