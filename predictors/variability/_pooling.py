"""Compiled: pool the samples of a window over nodes and times into minimum, maximum, sum and number.

The sum is taken in float64 over the nodes of an instant, ascending, and then over the instants, ascending: the same
order here, over rows of a file, as in the ring, which keeps the sums of its instants.
"""

import numpy as np
import numpy.typing as npt

from predictors.data.compiled import compiled

Floats = npt.NDArray[np.float64]
Rates = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@compiled
def add_row(row: Rates, low: Floats, high: Floats, part: Floats, count: Ints) -> bool:
    """Take one node's rates in; tell whether any was known."""
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
    time: Floats,
    place: Ints,
    rates: Rates,
    first: int,
    last: int,
    member: Bools,
    low: Floats,
    high: Floats,
    total: Floats,
    count: Ints,
    seen: Bools,
) -> None:
    """Pool rows `first` to `last` (excluded) of those nodes that are members.

    Written: `low` (inf where nothing is known), `high` (-inf), `total`, `count`, each of shape (m,), and `seen`, true
    for every node of which something is known.
    """
    m = rates.shape[1]
    low[:] = np.inf
    high[:] = -np.inf
    total[:] = 0.0
    count[:] = 0
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
    """Pool one instant over all nodes, rates being of shape (k, m); `known` of shape (k,) says who gave any value."""
    low[:] = np.inf
    high[:] = -np.inf
    total[:] = 0.0
    count[:] = 0
    for i in range(rates.shape[0]):
        known[i] = add_row(rates[i], low, high, total, count)


@compiled
def pool_instants(
    order: Ints,
    lows: Floats,
    highs: Floats,
    totals: Floats,
    counts: Ints,
    low: Floats,
    high: Floats,
    total: Floats,
    count: Ints,
) -> None:
    """Pool instants that were pooled over all nodes, in the given order."""
    low[:] = np.inf
    high[:] = -np.inf
    total[:] = 0.0
    count[:] = 0
    for i in order:
        for j in range(low.size):
            low[j] = min(low[j], lows[i, j])
            high[j] = max(high[j], highs[i, j])
            total[j] += totals[i, j]
            count[j] += counts[i, j]


@compiled
def pool_chosen(
    order: Ints,
    rates: npt.NDArray[np.float32],
    chosen: Ints,
    low: Floats,
    high: Floats,
    total: Floats,
    count: Ints,
    seen: Bools,
) -> None:
    """Pool instants, in the given order, over the chosen nodes; rates are of shape (instants, k, m)."""
    m = low.size
    low[:] = np.inf
    high[:] = -np.inf
    total[:] = 0.0
    count[:] = 0
    part = np.zeros(m)
    for i in order:
        part[:] = 0.0
        for c in range(chosen.size):
            if add_row(rates[i, chosen[c]], low, high, part, count):
                seen[c] = True
        for j in range(m):
            total[j] += part[j]
