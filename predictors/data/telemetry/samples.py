"""Rates of counters: rows of samples, dense blocks, and Parquet files of them.

A rate belongs to the time at which its counter was read. It is the change of the counter since the reading before,
divided by the time between. What is not known is NaN, never 0.

Parquet columns: `Time` (seconds), `node`, and `<metric>.rate` for each counter, named as LDMS names it.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.telemetry.counters import COUNTERS

Rates = npt.NDArray[np.float32]

TOLERANCE: Final = 1.0  # readings within less than this [s] belong to one instant of a dense block


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of rates, one for each node and time: a part of telemetry that does not fit into memory."""

    time: Floats  # shape (n,); when the counters were read [s], ascending
    node: Ints  # shape (n,); the nodes, ascending within a time
    rates: Rates  # shape (n, m); rates per second, NaN where not known
    counters: Ints  # shape (m,); the counters: positions in `COUNTERS`, ascending

    __repr__ = short_repr

    def __post_init__(self) -> None:
        n, m = len(self.time), len(self.counters)
        _fix(self, "time", np.float64, (n,))
        _fix(self, "node", np.int64, (n,))
        _fix(self, "rates", np.float32, (n, m))
        _fix(self, "counters", np.int64, (m,))
        late = np.diff(self.time)
        if not np.isfinite(self.time).all() or ((late < 0) | ((late == 0) & (np.diff(self.node) <= 0))).any():
            raise JobcastError("Samples: must be sorted by time and node, each pair once.")
        if m and (self.counters[0] < 0 or self.counters[-1] >= len(COUNTERS) or (np.diff(self.counters) <= 0).any()):
            raise JobcastError(f"Samples: counters must ascend within 0 to {len(COUNTERS) - 1}.")

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, eq=False)
class Telemetry:
    """A dense block: the rates of every counter of every node at every instant.

    >>> block = Telemetry(np.array([0.0, 10.0]), np.array([3, 7]), np.zeros((2, 2, 90), dtype=np.float32))
    >>> len(block), block.samples().node.tolist()
    (2, [3, 7, 3, 7])
    """

    time: Floats  # shape (t,); the instants [s], ascending
    nodes: Ints  # shape (k,); the nodes, ascending
    rates: Rates  # shape (t, k, 90); rates per second in the order of `COUNTERS`, NaN where not known

    __repr__ = short_repr

    def __post_init__(self) -> None:
        t, k = len(self.time), len(self.nodes)
        _fix(self, "time", np.float64, (t,))
        _fix(self, "nodes", np.int64, (k,))
        _fix(self, "rates", np.float32, (t, k, len(COUNTERS)))
        if not np.isfinite(self.time).all() or (np.diff(self.time) <= 0).any() or (np.diff(self.nodes) <= 0).any():
            raise JobcastError("Telemetry: instants and nodes must ascend, each once.")

    def __len__(self) -> int:
        return len(self.time)

    def samples(self) -> Samples:
        """Return the block as rows."""
        t, k, m = self.rates.shape
        time, node = np.repeat(self.time, k), np.tile(self.nodes, t)
        return Samples(time, node, self.rates.reshape(t * k, m), np.arange(m, dtype=np.int64))

    @classmethod
    def of_samples(cls, parts: Sequence[Samples], tolerance: float = TOLERANCE) -> Self:
        """Join rows, of several samplers or of several stretches of time, into a block.

        Readings within less than `tolerance` [s] of an instant's first reading belong to it, and it has that reading's
        time. So clocks may differ a little, and samplers may run one after the other. If a node has two readings of a
        counter in an instant, the later known one counts.
        """
        rows = [part for part in parts if len(part)]
        if not rows:
            raise JobcastError("Telemetry: there is no sample.")
        times = np.unique(np.concatenate([part.time for part in rows]))
        firsts = _firsts(times, tolerance)
        nodes = np.unique(np.concatenate([part.node for part in rows]))
        rates = np.full((len(firsts), len(nodes), len(COUNTERS)), np.nan, dtype=np.float32)
        for part in rows:
            instant = np.searchsorted(firsts, part.time, side="right") - 1
            place = np.searchsorted(nodes, part.node)
            for k, counter in enumerate(part.counters):
                known = ~np.isnan(part.rates[:, k])
                rates[instant[known], place[known], counter] = part.rates[known, k]
        return cls(firsts, nodes, rates)


def _firsts(times: Floats, tolerance: float) -> Floats:
    if (np.diff(times) >= tolerance).all():
        return times
    firsts: list[float] = []
    for time in times.tolist():
        if not firsts or time - firsts[-1] >= tolerance:
            firsts.append(time)
    return np.array(firsts)


def _fix(owner: Any, name: str, kind: Any, shape: tuple[int, ...]) -> None:
    array = np.asarray(getattr(owner, name), dtype=kind).view()
    if array.shape != shape:
        raise JobcastError(f"{type(owner).__name__}: {name} has shape {array.shape}; it must have {shape}.")
    array.flags.writeable = False
    object.__setattr__(owner, name, array)


def write_rates(telemetry: Telemetry | Iterable[Samples], folder: str | os.PathLike[str]) -> int:
    """Write rates to `FOLDER/SAMPLER.parquet`, each file whole or not at all; return the number of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    target, rows = Path(folder), 0
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobcastError(f"{folder}: cannot be made ({error.strerror}); choose another place.") from error
    with ExitStack() as stack:
        writers: dict[str, Any] = {}
        for part in [telemetry.samples()] if isinstance(telemetry, Telemetry) else telemetry:
            tables: dict[str, dict[str, Any]] = {}
            for k, counter in enumerate(COUNTERS[c] for c in part.counters):
                columns = tables.setdefault(counter.sampler, {"Time": part.time, "node": part.node})
                columns[f"{counter.column}.rate"] = part.rates[:, k]
            for sampler, columns in tables.items() if len(part) else ():
                table = pa.table(columns)
                if sampler not in writers:
                    part_path = stack.enter_context(whole_file(target / f"{sampler}.parquet"))
                    file = stack.enter_context(part_path.open("wb"))  # Arrow refuses paths that are not UTF-8
                    writers[sampler] = stack.enter_context(
                        parquet.ParquetWriter(file, table.schema, compression="zstd", write_page_checksum=True)
                    )
                if not table.schema.equals(writers[sampler].schema):
                    raise JobcastError(
                        f"{folder}: the parts of {sampler} hold different counters; write each into another folder."
                    )
                writers[sampler].write_table(table)
                rows += len(part)
    if not rows:
        raise JobcastError(f"{folder}: there is no rate to write.")
    return rows
