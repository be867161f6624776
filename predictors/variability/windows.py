"""Windows: minimum, maximum and mean of counters in the five minutes before a start.

A window holds every sample with start - 300 s <= time < start of the nodes asked for: all of the machine, or the job's
own. Samples are pooled over nodes and times; a value that is not known is left out, never taken as 0 (Nichols et al.,
IPDPS 2022, Section III-D).

A mean is a sum over the number of values. The sum is taken in float64 over the nodes of an instant, ascending, and then
over the instants, ascending. The ring, which keeps the sums of its instants, adds in the same order: windows from files
and from the live ring agree to the last bit.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.data.report import ReadingReport
from predictors.data.telemetry.counters import COUNTER_NAMES
from predictors.data.telemetry.read import Scan
from predictors.data.telemetry.samples import Samples, Telemetry

Rates = npt.NDArray[np.float32]


@compiled
def clear(low: Floats, high: Floats, total: Floats, count: Ints) -> None:
    low[:] = np.inf
    high[:] = -np.inf
    total[:] = 0.0
    count[:] = 0


@compiled
def add_row(row: Rates, low: Floats, high: Floats, part: Floats, count: Ints) -> bool:
    """Take one node's rates in; return whether any was known."""
    known = 0
    for j in range(row.size):
        x = np.float64(row[j])
        fine = x == x
        low[j] = x if fine and x < low[j] else low[j]
        high[j] = x if fine and x > high[j] else high[j]
        part[j] += x if fine else 0.0
        count[j] += 1 if fine else 0
        known += 1 if fine else 0
    return known > 0


@compiled
def pool_rows(
    time: Floats, place: Ints, rates: Rates, first: int, last: int, member: Bools,
    low: Floats, high: Floats, total: Floats, count: Ints, seen: Bools,
) -> None:  # fmt: skip
    """Pool rows `first` to `last` (excluded) of those nodes that are members.

    Written: `low` (inf where nothing is known), `high` (-inf), `total`, `count`, each of shape (m,), and `seen`, true
    for every node of which something is known.
    """
    m = rates.shape[1]
    clear(low, high, total, count)
    part = np.zeros(m)
    now = np.nan
    for r in range(first, last):
        if not member[place[r]]:
            continue
        if time[r] != now:
            for j in range(m):
                total[j] += part[j]
                part[j] = 0.0
            now = time[r]
        if add_row(rates[r], low, high, part, count):
            seen[place[r]] = True
    for j in range(m):
        total[j] += part[j]


@compiled
def pool_instant(rates: Rates, low: Floats, high: Floats, total: Floats, count: Ints, known: Bools) -> None:
    """Pool one instant over all nodes, rates being of shape (k, m); `known`, shape (k,), marks nodes with any value."""
    clear(low, high, total, count)
    for i in range(rates.shape[0]):
        known[i] = add_row(rates[i], low, high, total, count)


@compiled
def pool_instants(
    order: Ints, lows: Floats, highs: Floats, totals: Floats, counts: Ints,
    low: Floats, high: Floats, total: Floats, count: Ints,
) -> None:  # fmt: skip
    """Pool instants that were pooled over all nodes, in the given order."""
    clear(low, high, total, count)
    for i in order:
        for j in range(low.size):
            low[j] = min(low[j], lows[i, j])
            high[j] = max(high[j], highs[i, j])
            total[j] += totals[i, j]
            count[j] += counts[i, j]


@compiled
def pool_chosen(
    order: Ints, rates: Rates, chosen: Ints,
    low: Floats, high: Floats, total: Floats, count: Ints, seen: Bools,
) -> None:  # fmt: skip
    """Pool instants, in the given order, over the chosen nodes; rates are of shape (instants, k, m)."""
    m = low.size
    clear(low, high, total, count)
    part = np.zeros(m)
    for i in order:
        part[:] = 0.0
        for c in range(chosen.size):
            if add_row(rates[i, chosen[c]], low, high, part, count):
                seen[c] = True
        for j in range(m):
            total[j] += part[j]


WINDOW: Final = 300.0  # length of the window before a start [s]

WINDOW_FEATURES: Final[tuple[str, ...]] = tuple(
    f"{extreme}_{name}" for name in COUNTER_NAMES for extreme in ("min", "max", "mean")
)
"""The 270 features of a window: minimum, maximum and mean of the first counter, then of the second, …"""

_POSITION: Final = {name: k for k, name in enumerate(WINDOW_FEATURES)}

N_COUNTERS: Final = len(COUNTER_NAMES)


class EmptyWindow(JobcastError):
    """There is no sample in a window, or none of a counter or node that is needed."""


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of several starts."""

    start: Floats  # shape (n,); the starts [s]
    values: Floats  # shape (n, 270); in the order of `WINDOW_FEATURES`; NaN where no value of that counter is known
    counts: Ints  # shape (n, 90); how many values of each counter were pooled
    silent: Ints  # shape (n,); how many of the nodes asked for gave no value at all

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.start)

    @property
    def empty(self) -> npt.NDArray[np.bool_]:
        """Which windows hold no value at all, shape (n,)."""
        return np.asarray((self.counts == 0).all(axis=1))

    def complete(self, features: Sequence[str] = WINDOW_FEATURES) -> npt.NDArray[np.bool_]:
        """Return which windows have all these features and a value from every node, shape (n,)."""
        known = ~np.isnan(self.values[:, [_POSITION[name] for name in features]])
        return np.asarray(known.all(axis=1) & (self.silent == 0) & ~self.empty)

    def require(self, row: int, features: Sequence[str] = WINDOW_FEATURES) -> None:
        """Raise `EmptyWindow` if one window lacks one of these features, or a node."""
        require(self.start[row], self.values[row], self.counts[row], int(self.silent[row]), features)


def require(start: float, values: Floats, counts: Ints, silent: int, features: Sequence[str] = WINDOW_FEATURES) -> None:
    """Raise an `EmptyWindow` if the window before `start` lacks one of these features, or a node."""
    if not counts.any():
        raise EmptyWindow(f"No sample in the window before {start:.10g} s; is the telemetry of that time there?")
    lacking = [name for name in features if np.isnan(values[_POSITION[name]])]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise EmptyWindow(
            f"The window before {start:.10g} s has no value of {', '.join(lacking[:3])}{more}; use a model that does "
            "not need them, or telemetry that has them."
        )
    if silent:
        raise EmptyWindow(f"In the window before {start:.10g} s {silent} of the nodes asked for gave no sample.")


def aggregates(low: Floats, high: Floats, total: Floats, count: Ints) -> Floats:
    """Return the features, float64 of shape (3 m,), of what was pooled; NaN where nothing was."""
    known = count > 0
    out = np.full((len(count), 3), np.nan)
    out[known, 0], out[known, 1] = low[known], high[known]
    out[known, 2] = total[known] / count[known]
    return out.ravel()


def windows(
    # a block, or rows in parts; the parts of one counter must follow one another in time, as
    # `predictors.data.telemetry.read.Scan` yields them. Only the rows that a window still needs are kept.
    telemetry: Telemetry | Iterable[Samples],
    starts: npt.ArrayLike,  # shape (n,); starts [s], in any order
    nodes: Sequence[Sequence[int] | Ints] | None = None,  # the job's nodes, one set a start; absent: all nodes
    window: float = WINDOW,  # length of the windows [s]
) -> Windows:
    """Compute the windows before many starts.

    They are in the order of `starts`. A window without samples is all NaN: see `Windows.empty` and `Windows.require`.
    It refuses `nodes` that do not fit the starts, and parts that do not follow one another.

    >>> block = Telemetry(np.arange(6) * 60.0, np.array([3, 7]), np.ones((6, 2, 90), dtype=np.float32))
    >>> found = windows(block, [300.0, 2000.0], [[3], [7]])
    >>> found.counts[:, 0].tolist(), found.values[0, :3].tolist(), found.empty.tolist()
    ([5, 0], [1.0, 1.0, 1.0], [False, True])
    """
    start = np.asarray(starts, dtype=np.float64).reshape(-1)
    if not np.isfinite(start).all() or not window > 0:
        raise JobcastError("Windows: starts must be finite and the window longer than 0 s.")
    if nodes is not None and len(nodes) != len(start):
        raise JobcastError(f"Windows: {len(start)} starts need as many sets of nodes; got {len(nodes)}.")
    scopes = None if nodes is None else [np.unique(np.asarray(one, dtype=np.int64)) for one in nodes]
    if scopes is not None and any(len(one) == 0 for one in scopes):
        raise JobcastError("Windows: a set of nodes is empty; leave `nodes` out to have all nodes.")
    tracks: dict[tuple[int, ...], _Track] = {}
    for part in [telemetry.samples()] if isinstance(telemetry, Telemetry) else telemetry:
        key = tuple(part.counters.tolist())
        tracks.setdefault(key, _Track(part.counters, start, scopes, window)).take(part)
    found = Windows(
        start,
        np.full((len(start), 3 * N_COUNTERS), np.nan),
        np.zeros((len(start), N_COUNTERS), dtype=np.int64),
        np.array([0 if scopes is None else len(scopes[i]) for i in range(len(start))], dtype=np.int64),
    )
    for track in tracks.values():
        track.finish(found)
    everywhere = telemetry.nodes if isinstance(telemetry, Telemetry) else None
    _count_silent(found, list(tracks.values()), everywhere)
    return found


def file_windows(
    folder: str | os.PathLike[str],
    starts: npt.ArrayLike,
    nodes: Sequence[Sequence[int] | Ints] | None = None,
    window: float = WINDOW,
    **reading: Any,
) -> tuple[Windows, ReadingReport]:
    """Compute the windows before many starts from telemetry files, reading only what they need.

    `folder` is of LDMS's CSV files or of Parquet files; files with names that rule out a window in them are not read.
    `reading` are `mapping`, the nodes' ids as `producers`, `how` and `strict` of `predictors.data.telemetry.read.Scan`;
    the rest is as of `windows`. The report says what was dropped, changed or noted on the way.
    """
    start = np.asarray(starts, dtype=np.float64).reshape(-1)
    producers = reading.pop("producers", None)
    parts = Scan(folder, nodes=producers, between=np.column_stack((start - window, start)), **reading)
    return windows(parts, start, nodes, window), parts.account()


class _Track:
    """The windows over the rows of one set of counters, worked off as the rows come in."""

    def __init__(self, counters: Ints, start: Floats, scopes: list[Ints] | None, window: float) -> None:
        self.counters, self.window, self.scopes = counters, window, scopes
        self.order = np.argsort(start, kind="stable")
        self.start = start
        self.next = 0
        m, n = len(counters), len(start)
        self.values, self.counts = np.full((n, 3 * m), np.nan), np.zeros((n, m), dtype=np.int64)
        self.seen: list[Ints] = [np.empty(0, dtype=np.int64)] * n
        self.time, self.node = np.empty(0), np.empty(0, dtype=np.int64)
        self.rates = np.empty((0, m), dtype=np.float32)
        self.until = -np.inf

    def take(self, part: Samples) -> None:
        if not len(part):
            return
        if part.time[0] < self.until:
            raise JobcastError(f"Windows: parts must follow one another; {part.time[0]:.10g} s is before the last.")
        self.work(float(part.time[0]))
        keep = slice(0, 0)
        if self.next < len(self.order):
            opens = self.start[self.order[self.next]] - self.window
            keep = slice(int(np.searchsorted(self.time, opens)), None)
            fresh = slice(int(np.searchsorted(part.time, opens)), None)
            self.time = np.concatenate((self.time[keep], part.time[fresh]))
            self.node = np.concatenate((self.node[keep], part.node[fresh]))
            self.rates = np.concatenate((self.rates[keep], part.rates[fresh]))
        self.until = float(part.time[-1])
        self.work(self.until)

    def work(self, until: float) -> None:
        """Work off the windows that end at `until` or before: no row of theirs is still to come."""
        end = int(np.searchsorted(self.start[self.order], until, side="right"))
        if end <= self.next:
            return
        m = len(self.counters)
        low, high, total = np.empty(m), np.empty(m), np.empty(m)
        count = np.empty(m, dtype=np.int64)
        known, place = np.unique(self.node, return_inverse=True)
        place = place.astype(np.int64)
        for row in self.order[self.next : end]:
            first, last = np.searchsorted(self.time, (self.start[row] - self.window, self.start[row]))
            member = np.ones(len(known), dtype=np.bool_) if self.scopes is None else np.isin(known, self.scopes[row])
            seen = np.zeros(len(known), dtype=np.bool_)
            pool_rows(self.time, place, self.rates, first, last, member, low, high, total, count, seen)
            self.values[row] = aggregates(low, high, total, count)
            self.counts[row] = count
            self.seen[row] = known[seen]
        self.next = end

    def finish(self, found: Windows) -> None:
        """Work off the windows that end after the last row, and hand all over."""
        self.work(np.inf)
        columns = (3 * self.counters[:, None] + np.arange(3)).ravel()
        found.values[:, columns] = self.values
        found.counts[:, self.counters] = self.counts


def _count_silent(found: Windows, tracks: list[_Track], everywhere: Ints | None) -> None:
    """Count the nodes asked for that lack in one of the tracks."""
    for row in range(len(found)):
        scopes = tracks[0].scopes if tracks else None
        wanted = everywhere if scopes is None else scopes[row]
        if tracks and wanted is not None:
            found.silent[row] = max(int((~np.isin(wanted, track.seen[row])).sum()) for track in tracks)
