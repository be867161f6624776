"""The score that waiting jobs gain at every tick, in closed form, and the next tick at which it matters.

At each tick a job gains `gain * e**2`, e the seconds since when it is eligible. The squares of whole seconds sum up to
a whole number, so that the closed form between two ticks equals ticking to the last bit, as long as that number fits
(e below 46 days with ticks of 15 s, below 18 with ticks of 1 s).
Scores never fall, which is all that the search for the next tick needs.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean, step
from schedsim._kernels_lookup import first_key
from schedsim._kernels_orders import sortable

Ints = npt.NDArray[np.int64]

EXACT: Final = 4.5e18
"""Ticks times the square of the eligible time [s] up to which all parts of the sum are whole numbers that fit."""
SECOND_TIER: Final = 0x7FF0000000000001
"""Added to a key: behind every key of the first tier, since no score is negative."""
CLEARLY: Final = 1e-9
"""Part of a score that no rounding reaches."""


@step
def number(bits: int) -> float:
    """Return the float of these bits."""
    return float(np.int64(bits).view(np.float64))


@step
def bits_of(x: float) -> int:
    """Return the bits of a float."""
    return int(np.float64(x).view(np.int64))


@lean
def squares(tick: int, since: int, begin: int, now: int) -> float:
    """Return the sum of (t - since)**2 over the ticks t, multiples of `tick`, from `begin` to `now`; begin >= since."""
    first = -(-begin // tick)
    n = now // tick - first + 1
    if n <= 0:
        return 0.0
    a = first * tick - since
    if float(n) * float(now - since) * float(now - since) <= EXACT:
        return float(n * a * a + tick * a * n * (n - 1) + tick * tick * (n * (n - 1) * (2 * n - 1) // 6))
    x, y, z = float(n), float(a), float(tick)
    return x * y * y + z * y * x * (x - 1.0) + z * z * (x * (x - 1.0) * (2.0 * x - 1.0) / 6.0)


@lean
def score_at(live: Ints, clock: Ints, slot: int, now: int) -> float:
    """Return the score of a job in the queue, the ticks up to `now` included."""
    begin = live[slot, at.FROM]
    if begin > now:
        return number(live[slot, at.SCORE])
    gained = squares(clock[at.TICK], live[slot, at.SINCE], begin, now)
    return number(live[slot, at.SCORE]) + number(live[slot, at.GAIN]) * gained


@step
def score_key(live: Ints, clock: Ints, slot: int) -> int:
    """Return the key now of a job in the queue: highest score first, the second tier behind the first."""
    key = sortable(-score_at(live, clock, slot, clock[at.NOW]))
    return int(key + SECOND_TIER if live[slot, at.TIER] > 0 else key)


@step
def _passes(live: Ints, clock: Ints, b: int, a: int, now: int) -> bool:
    """Return whether job b comes before job a at `now`, both of one tier."""
    x, y = score_at(live, clock, b, now), score_at(live, clock, a, now)
    return bool(x > y or (x == y and live[b, at.ROW] < live[a, at.ROW]))


@step
def _falls_back(live: Ints, a: int, b: int, begin: int, end: int) -> bool:
    """Return whether b gains no more than a at any tick from `begin` to `end` [s]."""
    x, y = np.sqrt(number(live[a, at.GAIN])), np.sqrt(number(live[b, at.GAIN]))
    return bool(
        y * (begin - live[b, at.SINCE]) <= x * (begin - live[a, at.SINCE])
        and y * (end - live[b, at.SINCE]) <= x * (end - live[a, at.SINCE])
    )


@step
def _first_passing(live: Ints, clock: Ints, a: int, b: int, low: int, high: int) -> int:
    """Return the first tick after `low`, up to `high`, at which b comes before a; high + 1 if it never does.

    Within a stretch of ticks b stays behind if even its last score is below the first of a, or if it is clearly behind
    and gains less all the while; else the stretch is halved, down to single ticks.
    """
    if live[b, at.TIER] != live[a, at.TIER] or live[b, at.GAIN] == live[a, at.GAIN]:
        behind = live[b, at.SCORE] == live[a, at.SCORE] and live[a, at.FROM] <= live[b, at.FROM]
        behind &= live[a, at.SINCE] <= live[b, at.SINCE] and live[a, at.ROW] < live[b, at.ROW]
        if behind or live[b, at.TIER] != live[a, at.TIER]:
            return high + 1
    tick, span = clock[at.TICK], high - low
    while low < high:
        end = min(low + span, high)
        if end == low + 1:
            if _passes(live, clock, b, a, end * tick):
                return int(end)
            low, span = end, 2
            continue
        last, now, first = (low + 1) * tick, low * tick, score_at(live, clock, a, (low + 1) * tick)
        most = score_at(live, clock, b, end * tick)
        ahead = score_at(live, clock, a, now) - score_at(live, clock, b, now)
        if most < first or (
            ahead > CLEARLY * score_at(live, clock, a, end * tick) and _falls_back(live, a, b, last, end * tick)
        ):
            low, span = end, 2 * span
        else:
            span = (end - low) // 2
    return int(high + 1)


@step
def next_tick(live: Ints, blocks: Ints, clock: Ints, time: int) -> int:
    """Return the first tick after now and before `time` at which a pass might start something, else `time`.

    Nothing frees a processor between two instants, so such a pass must find another head (or another order, where more
    than the head counts), a planned end that has passed and is corrected, or a shadow time that the last pass made old
    (jobs that it started count for the next one by another estimate).
    """
    tick, now = clock[at.TICK], clock[at.NOW]
    low, found = now // tick, (time - 1) // tick + 1
    if low + 1 >= found:
        return time
    if clock[at.TICKING] == at.AT_EVERY_TICK or (clock[at.STALE] == 1 and clock[at.HEAD] >= 0):
        return int((low + 1) * tick)
    for which in (at.RUNNING, at.REVIEWS):
        if clock[at.NODES + which] > 0:
            found = min(found, max(low + 1, -(-first_key(blocks, which) // tick)))
    head, any_order = clock[at.HEAD], clock[at.TICKING] == at.AT_NEW_ORDERS or clock[at.SETS_WAIT] == 1
    if head >= 0 or any_order:
        before = -1 if any_order else head
        for i in range(clock[at.NODES + at.QUEUE]):
            node = blocks[i, at.NODE + at.QUEUE]
            for j in range(blocks[node, at.COUNT]):
                leaf = blocks[node, at.LEAF + j]
                for k in range(blocks[leaf, at.COUNT]):
                    slot = blocks[leaf, at.E_SLOT + k]
                    if before >= 0 and slot != before:
                        found = _first_passing(live, clock, before, slot, low, found - 1)
                    if any_order:
                        before = slot
    return int(min(found * tick, time))
