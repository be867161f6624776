"""Rates of cumulative counters, in order of time, from rows of readings part by part.

Readings that come up to `late` seconds late are sorted in. The last reading of every device is kept, so that rates
continue across pieces and files.
"""

from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.data.telemetry import _kernels as kernel
from predictors.data.telemetry.layout import Layout
from predictors.data.telemetry.parse import Devices, Losses, Rows
from predictors.data.telemetry.samples import TOLERANCE, Samples

HOUR: Final = 3_600_000_000  # microseconds by which a time may differ from those around it
REACH: Final = 50  # rows on either side with which a time is compared
_ENOUGH: Final = 2000  # readings needed to find the period

_BY_VERDICT: Final = ((kernel.FIRST, "first"), (kernel.TWICE, "twice"), (kernel.LATE, "late"), (kernel.GAP, "gap"),
                      (kernel.RESTARTED, "restart"))  # fmt: skip
_BY_EVENT: Final = ((kernel.WRAPS, "wrap"), (kernel.RESETS, "reset"), (kernel.SATURATED, "saturated"))


@dataclass(frozen=True)
class Reading:
    """How rates are taken from readings."""

    # how often counters are read [s]; absent: the median time between a device's readings in the first piece
    period: float | None = None
    gap: float = 3.0  # no rate across more than this many periods
    late: float = 60.0  # readings that come up to this late [s] are sorted in
    tolerance: float = TOLERANCE  # devices of one node are added up if they are read within less than this [s]
    # width of all cumulative counters; absent: what `COUNTERS` or the mapping file says of each
    bits: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None and not self.period > 0:
            raise JobcastError(f"Reading: the period must be above 0 s; got {self.period}.")
        if not self.gap >= 1 or not self.late >= 0 or not self.tolerance > 0:
            raise JobcastError(
                "Reading: gap must be 1 period or more, late 0 s or more, tolerance above 0 s; got "
                f"{self.gap}, {self.late}, {self.tolerance}."
            )
        if self.bits not in (None, 32, 64):
            raise JobcastError(f"Reading: counters have 32 or 64 bits; got {self.bits}.")


class Stream:
    """The rates of one set of files, part by part, of `counters`: positions in `COUNTERS`, ascending."""

    def __init__(self, counters: tuple[int, ...], devices: Devices, how: Reading, losses: Losses) -> None:
        self.counters = np.array(counters, dtype=np.int64)
        self.devices, self.how, self.losses = devices, how, losses
        self.files: list[str] = []
        self._gap = 0 if how.period is None else round(how.gap * how.period * 1e6)
        self._last_time = np.empty(0, dtype=np.int64)
        self._before = np.empty(0, dtype=np.int64)
        self._until = -1
        self._begin(Layout((), "s", (0,), 0))
        self._last = np.empty((0, 0), dtype=np.uint64)
        self._have = np.empty((0, 0), dtype=np.bool_)

    def _begin(self, layout: Layout) -> None:
        self.layout = layout
        self._cumulative = [metric for metric in layout.metrics if metric.kind == "cumulative"]
        self._columns = len(self._cumulative)
        bits = [self.how.bits or metric.bits for metric in self._cumulative]
        self._widest = np.array([2**width - 1 for width in bits], dtype=np.uint64)
        places = {"cumulative": count(), "rate": count()}
        metrics = sorted(
            (int(np.searchsorted(self.counters, m.counter)), next(places[m.kind]), m.kind == "cumulative", m.scale)
            for m in layout.metrics
        )
        target, column, is_moved, scale = (np.array([one[k] for one in metrics]) for k in range(4))
        self._metrics = is_moved, column, target, np.where(is_moved, scale, 1.0).astype(np.float64)
        none = np.empty(0, dtype=np.int64)
        measured = len(layout.metrics) - self._columns
        empty = Rows(
            none, none, none, none, np.empty((0, self._columns), dtype=np.uint64),
            np.empty((0, self._columns), dtype=np.bool_), np.empty((0, measured)),
        )  # fmt: skip
        self._undecided, self._held = empty, empty

    def change(self, layout: Layout) -> Samples:
        """Continue with another layout; return the remaining rates of the old one."""
        out = self.finish()
        old = {self.layout.names[metric.column]: k for k, metric in enumerate(self._cumulative)}
        last, have = self._last, self._have
        self._begin(layout)
        self._last = np.zeros((len(last), self._columns), dtype=np.uint64)
        self._have = np.zeros((len(last), self._columns), dtype=np.bool_)
        for k, metric in enumerate(self._cumulative):
            before = old.get(layout.names[metric.column])
            if before is not None:
                self._last[:, k], self._have[:, k] = last[:, before], have[:, before]
        return out

    def forget(self) -> Samples:
        """Forget the last readings, since files or pieces are skipped here; return the remaining rates."""
        out = self.finish()
        self._last_time[:] = -1
        return out

    def take(self, rows: Rows) -> Samples:
        """Take readings in; return the rates that no later reading can change."""
        self._decide(self._undecided.join(rows), keep=REACH)
        return self._emit(final=False)

    def finish(self) -> Samples:
        self._decide(self._undecided, keep=0)
        return self._emit(final=True)

    def _decide(self, rows: Rows, keep: int) -> None:
        """Hold the rows with a plausible time; the last `keep` rows wait, since the rows after them decide."""
        number = max(0, len(rows) - keep)
        times = np.concatenate((self._before, rows.time))
        first, last = len(self._before), len(self._before) + number
        ready = rows.select(slice(0, number))
        if (np.abs(np.diff(times)) > HOUR).any():
            off = np.zeros(len(times), dtype=np.bool_)
            kernel.off_clock(times, first, last, REACH, HOUR, off)
            off = off[first:last]
            self._account("clock", ready, off)
            ready = ready.select(~off)
        late = ready.time < self._until
        self._account("late", ready, late)
        ready = ready.select(~late) if late.any() else ready
        self._before = times[max(0, last - REACH) : last]
        self._undecided = rows.select(slice(number, None))
        self._held = self._held.join(ready)

    def _emit(self, final: bool) -> Samples:
        rows = self._held
        if not len(rows):
            return self._nothing()
        if final:
            ready, self._held = rows, rows.select(slice(0, 0))
            self._until = int(rows.time.max()) + 1
        else:
            if not self._gap and len(rows) < _ENOUGH:
                return self._nothing()  # too few to find the period
            self._until = self._cut(rows.time)
            early = rows.time < self._until
            ready, self._held = rows.select(early), rows.select(~early)
        return self._rates(ready)

    def _cut(self, time: Ints) -> int:
        """Return the time up to which rates are final, within a pause between readings if there is one."""
        times = np.unique(time)
        end = int(np.searchsorted(times, times[-1] - round(self.how.late * 1e6), side="right"))
        pauses = np.flatnonzero(np.diff(times[: end + 1]) >= self.how.tolerance * 1e6)
        return int(times[pauses[-1] + 1] if len(pauses) else times[min(end, len(times) - 1)])

    def _rates(self, rows: Rows) -> Samples:
        order = np.lexsort((np.arange(len(rows)), rows.time, rows.slot))
        if not self._gap:
            step = np.diff(rows.time[order])
            steps = step[(np.diff(rows.slot[order]) == 0) & (step > 0)]
            self._gap = round(self.how.gap * float(np.median(steps))) if len(steps) else 0
        self._grow(len(self.devices.node))
        moved = np.empty((len(rows), self._columns))
        verdict, events = np.empty(len(rows), dtype=np.uint8), np.empty(len(rows), dtype=np.uint8)
        kernel.to_rates(
            order, rows.time, rows.slot, rows.values, rows.known, self._widest, self._gap or 2**62, self._last_time,
            self._last, self._have, moved, verdict, events,
        )  # fmt: skip
        if self._columns:
            for code, rule in _BY_VERDICT:
                self._account(rule, rows, verdict == code)
            for bit, rule in _BY_EVENT:
                self._account(rule, rows, ((events >> bit) & 1 == 1) & (verdict == kernel.USED))
        else:
            for code, rule in _BY_VERDICT[1:3]:
                self._account(rule, rows, verdict == code)
        used = (verdict != kernel.TWICE) & (verdict != kernel.LATE)
        return self._per_node(rows.select(used), moved[used])

    def _grow(self, slots: int) -> None:
        more = slots - len(self._last_time)
        if more > 0:
            self._last_time = np.concatenate((self._last_time, np.full(more, -1, dtype=np.int64)))
            self._last = np.concatenate((self._last, np.zeros((more, self._columns), dtype=np.uint64)))
            self._have = np.concatenate((self._have, np.zeros((more, self._columns), dtype=np.bool_)))

    def _per_node(self, rows: Rows, moved: Floats) -> Samples:
        owner = np.array(self.devices.node, dtype=np.int64)
        node, time = owner[rows.slot], rows.time
        several = len(np.unique(owner)) < len(owner)
        order = np.lexsort((time, node) if several else (node, time))
        rates, known = np.empty((len(rows), len(self.counters))), np.empty(len(rows), dtype=np.bool_)
        kernel.to_counters(order, moved, rows.rates, *self._metrics, rates, known)
        time, node = time[order], node[order]
        if several:
            rows = rows.select(order)
            devices = dict(zip(*np.unique(owner, return_counts=True), strict=True))
            keep, short = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
            expected = np.array([devices[one] for one in node.tolist()], dtype=np.int64)
            kernel.sum_devices(time, node, rows.slot, rates, expected, round(self.how.tolerance * 1e6), keep, short)
            self._account("device-missing", rows, short)
            chosen = np.flatnonzero(keep & ~np.isnan(rates).all(axis=1))
            chosen = chosen[np.lexsort((node[chosen], time[chosen]))]
            time, node, rates = time[chosen], node[chosen], rates[chosen]
        elif not known.all():
            time, node, rates = time[known], node[known], rates[known]
        return Samples(time / 1e6, node, rates.astype(np.float32), self.counters)

    def _nothing(self) -> Samples:
        none = np.empty(0, dtype=np.int64)
        return Samples(none / 1e6, none, np.empty((0, len(self.counters)), dtype=np.float32), self.counters)

    def _account(self, rule: str, rows: Rows, where: npt.NDArray[np.bool_]) -> None:
        if where.any():
            for file in np.unique(rows.file[where]).tolist():
                self.losses.add(rule, self.files[file], rows.line[where & (rows.file == file)])
