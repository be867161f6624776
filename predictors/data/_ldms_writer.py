"""Compiled: counters that count up, and lines of numbers as text."""

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled

Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@compiled
def count_up(rates: npt.NDArray[np.float32], seconds: float, counters: Words, rest: Floats, known: Bools) -> bool:
    """Let the counters run at `rates` for so many seconds; tell whether all rates are in order.

    `rest` keeps the fractions, so that nothing is lost to rounding. A rate that is NaN moves nothing and makes the
    reading unknown. Where a rate is negative or infinite nothing is done.
    """
    for i in range(rates.shape[0]):
        for j in range(rates.shape[1]):
            if rates[i, j] < 0 or rates[i, j] == np.inf:
                return False
    for i in range(rates.shape[0]):
        for j in range(rates.shape[1]):
            rate = np.float64(rates[i, j])
            known[i, j] = rate == rate
            if known[i, j]:
                moved = rate * seconds + rest[i, j]
                whole = np.floor(moved)
                counters[i, j] += np.uint64(whole)
                rest[i, j] = moved - whole
    return True


@compiled
def _put(number: np.uint64, out: Bytes, at: int) -> int:
    """Write a number in decimals; return where it ends."""
    end = at + 1
    left = number // np.uint64(10)
    while left > 0:
        left //= np.uint64(10)
        end += 1
    left = number
    for k in range(end - 1, at - 1, -1):
        out[k] = np.uint8(48 + left % np.uint64(10))
        left //= np.uint64(10)
    return end


@compiled
def write_rows(
    times: Ints,
    names: Bytes,
    name_ends: Ints,
    jobs: Ints,
    devices: Bytes,
    counters: Words,
    known: Bools,
    first: int,
    last: int,
    masks: Words,
    lost: Bools,
    milliseconds: bool,
    out: Bytes,
) -> int:
    """Write one line a node that is not lost, with counters `first` to `last` (excluded); return the length.

    `times` are microseconds, `names` what stands between the times and the job, `devices` what stands after it.
    """
    at = 0
    million, thousand = np.uint64(1_000_000), np.uint64(1000)
    for i in range(times.size):
        if lost[i]:
            continue
        time = np.uint64(times[i])
        if milliseconds:
            at = _put(time // thousand, out, at)
            out[at] = 44
            at = _put(time % thousand, out, at + 1)
        else:
            at = _put(time // million, out, at)
            out[at] = 46
            part = time % million
            for k in range(6, 0, -1):
                out[at + k] = np.uint8(48 + part % np.uint64(10))
                part //= np.uint64(10)
            at += 7
            out[at] = 44
            at = _put(time % million, out, at + 1)
        begin = name_ends[i - 1] if i else 0
        for k in range(begin, name_ends[i]):
            out[at] = names[k]
            at += 1
        at = _put(np.uint64(jobs[i]), out, at)
        for k in range(devices.size):
            out[at] = devices[k]
            at += 1
        for j in range(first, last):
            out[at] = 44
            at += 1
            if known[i, j]:
                at = _put(counters[i, j] & masks[j], out, at)
        out[at] = 10
        at += 1
    return at
