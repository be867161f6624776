"""Parts of telemetry: those of several sets of files brought into step, and the hours that are asked for."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from predictors.data.telemetry import Floats, Samples


def in_step(streams: Sequence[Iterable[Samples]], source: str) -> Iterator[Samples]:
    """Yield the rows of several streams of the same counters as one, in order of time.

    Raises
    ------
    JobcastError
        If two streams hold the same node at the same time.
    """
    if len(streams) == 1:
        yield from streams[0]
        return
    rest = [(part for part in stream if len(part)) for stream in streams]
    heads = [(head, stream) for stream in rest if (head := next(stream, None)) is not None]
    while heads:
        until = min(head.time[-1] for head, _ in heads)
        ready, waiting = [], []
        for head, stream in heads:
            end = int(np.searchsorted(head.time, until, side="right"))
            ready.append(_slice(head, 0, end))
            left = _slice(head, end, len(head)) if end < len(head) else next(stream, None)
            if left is not None:
                waiting.append((left, stream))
        yield _sorted(ready, source)
        heads = waiting


def _slice(part: Samples, first: int, last: int) -> Samples:
    return Samples(part.time[first:last], part.node[first:last], part.rates[first:last], part.counters)


def _sorted(parts: Sequence[Samples], source: str) -> Samples:
    time = np.concatenate([part.time for part in parts])
    node = np.concatenate([part.node for part in parts])
    order = np.lexsort((node, time))
    time, node = time[order], node[order]
    twice = np.flatnonzero((np.diff(time) == 0) & (np.diff(node) == 0))
    if len(twice):
        raise JobcastError(
            f"{source}: two sets of files hold node {node[twice[0]]} at {time[twice[0]]:.6f} s; give one of them."
        )
    return Samples(time, node, np.concatenate([part.rates for part in parts])[order], parts[0].counters)


def joined_intervals(intervals: npt.ArrayLike) -> Floats:
    """Return the union of intervals (from, to), ascending, of shape (n, 2).

    Examples
    --------
    >>> joined_intervals([[5, 8], [0, 2], [7, 9]]).tolist()
    [[0.0, 2.0], [5.0, 9.0]]
    """
    given = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    if np.isnan(given).any() or (given[:, 0] > given[:, 1]).any():
        raise JobcastError("Intervals must be pairs (from, to), the first not above the second.")
    union: list[list[float]] = []
    for low, high in given[np.argsort(given[:, 0], kind="stable")].tolist():
        if union and low <= union[-1][1]:
            union[-1][1] = max(union[-1][1], high)
        else:
            union.append([low, high])
    return np.array(union, dtype=np.float64).reshape(-1, 2)
