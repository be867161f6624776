"""Compiled kernels of telemetry: scan lines, find wrong clocks, turn counters into rates, add up devices."""

from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.jit import compiled

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Marks = npt.NDArray[np.uint8]

_NEWLINE, _COMMA, _HASH, _RETURN, _SPACE = 10, 44, 35, 13, 32

WHOLE: Final = 0
BLANK: Final = 1
HEADER: Final = 2
RAGGED: Final = 3

USED: Final = 0
FIRST: Final = 1
TWICE: Final = 2
LATE: Final = 3
GAP: Final = 4
RESTARTED: Final = 5

WRAPS: Final = 0
RESETS: Final = 1
SATURATED: Final = 2


@compiled
def scan_lines(data: Bytes, commas: int, starts: Ints, kinds: Marks) -> int:
    """Mark every line of `data`, which ends in a newline, as WHOLE (so many commas), BLANK, HEADER or RAGGED.

    Written: where each line begins, and its kind. Returns the number of lines.
    """
    line, begin, separators, empty = 0, 0, 0, True
    for i in range(data.size):
        c = data[i]
        if c == _COMMA:
            separators += 1
        elif c == _NEWLINE:
            starts[line] = begin
            if empty and separators == 0:
                kinds[line] = BLANK
            elif data[begin] == _HASH:
                kinds[line] = HEADER
            else:
                kinds[line] = WHOLE if separators == commas else RAGGED
            line += 1
            begin, separators, empty = i + 1, 0, True
        elif c not in (_SPACE, _RETURN):
            empty = False
    return line


@compiled
def off_clock(time: Ints, first: int, last: int, reach: int, slack: int, off: Bools) -> None:
    """Mark the rows from `first` to `last` with a time that agrees within `slack` with under a third of the neighbours.

    A row's neighbours are `reach` rows on either side, fewer near an end of `time` but as many on both sides. So a jump
    of all clocks, as after a pause, is accepted; a few clocks that jump or are always wrong are not.
    """
    for i in range(first, last):
        half = min(reach, i, time.size - 1 - i)
        agree = 0
        for k in range(i - half, i + half + 1):
            agree += 1 if k != i and abs(time[k] - time[i]) <= slack else 0
        off[i] = 3 * agree < 2 * half


@compiled
def to_rates(
    order: Ints,
    time: Ints,  # shape (n,); microseconds
    slot: Ints,  # shape (n,); which device the reading is of
    values: Words,  # values, known: shape (n, m); the counters, and where one was read
    known: Bools,
    widest: Words,  # shape (m,); the largest value that each counter can have: 2**bits - 1
    gap: int,  # the longest time that a rate may span [µs]
    last_time: Ints,  # last_time, last, have: the last reading of every slot, time -1 if there is none; updated
    last: Words,
    have: Bools,
    rates: Floats,  # shape (n, m); written: NaN where there is no rate
    # shape (n,); written: USED, FIRST of its slot, TWICE at the same time, LATE, after a GAP, or RESTARTED
    verdict: Marks,
    events: Marks,  # shape (n,); written: bit WRAPS, RESETS or SATURATED is set in a row with such a counter
) -> None:
    """Turn readings, taken in `order` (by slot, then time), into rates per second."""
    m = values.shape[1]
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    for r in order:
        s = slot[r]
        for j in range(m):
            rates[r, j] = np.nan
        events[r] = 0
        step = time[r] - last_time[s]
        if last_time[s] < 0:
            verdict[r] = FIRST
        elif step == 0:
            verdict[r] = TWICE
            continue
        elif step < 0:
            verdict[r] = LATE
            continue
        elif step > gap:
            verdict[r] = GAP
        else:
            verdict[r] = USED
            moved, back = 0, 0
            for j in range(m):
                if known[r, j] and have[s, j]:
                    old, new = last[s, j], values[r, j]
                    moved += 1 if old > 0 else 0
                    wide = widest[j] if old <= widest[j] and new <= widest[j] else full
                    eighth = wide // np.uint64(8) + np.uint64(1)
                    if new >= old:
                        if new == widest[j] and old == new and wide != full:
                            events[r] |= np.uint8(1 << SATURATED)
                        else:
                            rates[r, j] = np.float64(new - old) * 1e6 / step
                    elif old > wide - eighth and new < eighth:
                        rates[r, j] = np.float64((new - old) & wide) * 1e6 / step
                        events[r] |= np.uint8(1 << WRAPS)
                    else:
                        back += 1
                        events[r] |= np.uint8(1 << RESETS)
            if back > 0 and 2 * back >= moved:
                verdict[r] = RESTARTED
                for j in range(m):
                    rates[r, j] = np.nan
        last_time[s] = time[r]
        for j in range(m):
            if known[r, j]:
                last[s, j] = values[r, j]
                have[s, j] = True
            else:
                have[s, j] = False  # else the rate after it would span two periods


@compiled
def sum_devices(
    time: Ints, node: Ints, slot: Ints, rates: Floats, expected: Ints, tolerance: int, keep: Bools, short: Bools
) -> None:
    """Add up the rows of a node's devices that were read at about the same time.

    Rows are sorted by node and time. The first row of such a group gets the sum, which is NaN where one is NaN and
    everywhere if there are fewer rows than the node has devices (`expected`, by node row); it is marked in `keep`,
    and in `short` in the latter case.
    """
    n, m = rates.shape
    r = 0
    while r < n:
        last = r + 1
        while last < n and node[last] == node[r] and time[last] - time[r] < tolerance:
            fresh = True
            for i in range(r, last):
                fresh &= slot[i] != slot[last]
            if not fresh:
                break
            last += 1
        for i in range(r + 1, last):
            for j in range(m):
                rates[r, j] += rates[i, j]
        keep[r] = True
        if last - r < expected[r]:
            short[r] = True
            for j in range(m):
                rates[r, j] = np.nan
        r = last


@compiled
def to_counters(
    order: Ints,
    moved: Floats,
    measured: Floats,
    is_moved: Bools,
    column: Ints,
    target: Ints,
    scale: Floats,
    rates: Floats,
    known: Bools,
) -> None:
    """Add up each counter's devices, rows taken in `order`.

    The k-th metric is a `column` of `moved` or of `measured`, times `scale`, and goes to column `target[k]` of `rates`,
    float64 of shape (n, counters); a counter without a metric is NaN. `known` marks the rows with any rate.
    """
    rates[:] = np.nan
    for i in range(order.size):
        r = order[i]
        for k in range(column.size):
            value = (moved[r, column[k]] if is_moved[k] else measured[r, column[k]]) * scale[k]
            first = k == 0 or target[k] != target[k - 1]
            rates[i, target[k]] = value if first else rates[i, target[k]] + value
        known[i] = False
        for j in range(rates.shape[1]):
            known[i] |= rates[i, j] == rates[i, j]
