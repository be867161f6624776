"""A ring of the newest counters: windows before a start, live.

Every sample is pooled over all nodes as it comes in, so that a window over the machine only joins some thirty rows;
a window over a job's nodes goes back to the rates themselves. Both equal `predictors.variability.windows.windows`.
"""

from collections.abc import Sequence
from copy import copy
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTERS, Counter
from predictors.variability.windows import (
    WINDOW,
    Windows,
    aggregates,
    pool_chosen,
    pool_instant,
    pool_instants,
    require,
)

_SPARE: Final = 2


class CounterRing:
    """The counters' samples of the last `window` seconds.

    >>> ring = CounterRing([3, 7])
    >>> for k in range(4):
    ...     ring.push(10.0 * k, np.full((2, 90), float(k)))
    >>> ring.window(30.0)[:3].tolist()  # the sample at 30 s itself is not before 30 s
    [0.0, 2.0, 1.0]
    """

    def __init__(
        self,
        nodes: npt.ArrayLike,  # shape (k,); ids of the nodes, ascending
        # the counters of the rates that are pushed; for the names of a window these must be `COUNTERS`
        counters: Sequence[Counter] = COUNTERS,
        window: float = WINDOW,  # how far back a window reaches [s]
        # how often samples come [s]: the room that is made. If they come more often, more is made
        period: float = 10.0,
        late: float = 0.0,  # windows may be asked for that end so long before the newest sample [s]
    ) -> None:
        self.nodes: Ints = np.array(nodes, dtype=np.int64).reshape(-1)
        if not len(self.nodes) or (np.diff(self.nodes) <= 0).any():
            raise JobcastError("CounterRing: needs at least one node, ids ascending, each once.")
        if not window > 0 or not period > 0:
            raise JobcastError(f"CounterRing: window and period must be above 0 s; got {window} and {period}.")
        if not 0 <= late < np.inf:
            raise JobcastError(f"CounterRing: late must be 0 s or more; got {late}.")
        self.window_length, self._m = float(window), len(counters)
        self._kept = float(window + late)
        self._first, self._size = 0, 0
        self._gone = -np.inf
        self._make_room(int(np.ceil(self._kept / period)) + _SPARE)

    def _make_room(self, room: int) -> None:
        k, m = len(self.nodes), self._m
        old = self._order() if self._size else np.empty(0, dtype=np.int64)
        for name, kind, shape in (
            ("_time", np.float64, (room,)),
            ("_rates", np.float32, (room, k, m)),
            ("_low", np.float64, (room, m)),
            ("_high", np.float64, (room, m)),
            ("_total", np.float64, (room, m)),
            ("_count", np.int64, (room, m)),
            ("_known", np.bool_, (room, k)),
        ):
            fresh = np.zeros(shape, dtype=kind)
            fresh[: len(old)] = getattr(self, name)[old] if len(old) else 0
            setattr(self, name, fresh)
        self._first = 0

    _time: Floats
    _rates: npt.NDArray[np.float32]
    _low: Floats
    _high: Floats
    _total: Floats
    _count: Ints
    _known: npt.NDArray[np.bool_]

    def _order(self) -> Ints:
        """Return where the samples lie, oldest first."""
        return (self._first + np.arange(self._size)) % len(self._time)

    def __len__(self) -> int:
        return self._size

    @property
    def newest(self) -> float:
        """Time of the newest sample [s], minus infinity before the first."""
        return float(self._time[(self._first + self._size - 1) % len(self._time)]) if self._size else -np.inf

    def push(
        self,
        time: float,  # when [s]; after the sample before
        rates: npt.ArrayLike,  # shape (k, m); rates per second, NaN where not known
    ) -> None:
        """Take in one sample of all nodes."""
        fresh = np.asarray(rates)
        if fresh.shape != self._rates.shape[1:]:
            raise JobcastError(f"CounterRing: rates have shape {fresh.shape}; they must have {self._rates.shape[1:]}.")
        if not self.newest < time < np.inf:
            raise JobcastError(f"CounterRing: a sample at {time} s cannot follow one at {self.newest} s.")
        while self._size and self._time[self._first] < time - self._kept:
            self._gone = float(self._time[self._first])
            self._first, self._size = (self._first + 1) % len(self._time), self._size - 1
        if self._size == len(self._time):
            self._make_room(2 * self._size)
        at = (self._first + self._size) % len(self._time)
        self._rates[at] = fresh
        pool_instant(self._rates[at], self._low[at], self._high[at], self._total[at], self._count[at], self._known[at])
        if (self._low[at] < 0).any() or (self._high[at] == np.inf).any():
            raise JobcastError(f"CounterRing: at {time} s a rate is negative or infinite; give NaN if it is unknown.")
        self._time[at] = time
        self._size += 1

    def window(
        self,
        now: float,  # the start [s]; samples with now - window <= time < now count
        nodes: npt.ArrayLike | None = None,  # ids of the job's nodes; absent: all
    ) -> Floats:
        """Return the features of the window before `now`, in the order of `WINDOW_FEATURES`; NaN where none is known.

        `EmptyWindow` says that there is no value at all. Samples that are gone from the ring raise JobcastError.
        """
        found = self.windows(now, nodes)
        if not found.counts.any():
            require(now, found.values[0], found.counts[0], 0)
        return np.asarray(found.values[0])

    def windows(self, now: float, nodes: npt.ArrayLike | None = None) -> Windows:
        """Return the same as `Windows` of one start, which tells what is missing; never raises an `EmptyWindow`."""
        opens = now - self.window_length
        if opens <= self._gone:
            raise JobcastError(
                f"CounterRing: the window before {now} s needs samples that are gone: the newest is of {self.newest} s."
            )
        order = self._order()
        time = self._time[order]
        order = order[np.searchsorted(time, opens) : np.searchsorted(time, now)]
        m = self._m
        low, high, total, count = np.empty(m), np.empty(m), np.empty(m), np.empty(m, dtype=np.int64)
        if nodes is None:
            pool_instants(order, self._low, self._high, self._total, self._count, low, high, total, count)
            seen = self._known[order].any(axis=0)
        else:
            chosen = self._places(nodes)
            seen = np.zeros(len(chosen), dtype=np.bool_)
            pool_chosen(order, self._rates, chosen, low, high, total, count, seen)
        values = aggregates(low, high, total, count)
        return Windows(np.array([now]), values[None], count[None], np.array([int((~seen).sum())]))

    def fork(self) -> Self:
        new = copy(self)
        for name in ("_time", "_rates", "_low", "_high", "_total", "_count", "_known"):
            setattr(new, name, getattr(self, name).copy())
        return new

    def _places(self, nodes: npt.ArrayLike) -> Ints:
        wanted = np.unique(np.asarray(nodes, dtype=np.int64))
        places = np.searchsorted(self.nodes, wanted)
        known = self.nodes[np.minimum(places, len(self.nodes) - 1)] == wanted
        if not len(wanted) or not known.all():
            raise JobcastError(f"CounterRing: node {wanted[~known].tolist()[:3] or 'set is empty'} is not kept here.")
        return places
