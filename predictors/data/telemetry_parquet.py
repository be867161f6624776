"""Rates as Parquet files, one a sampler: read once from CSV, many times from here, and only the hours asked for.

Columns: `Time` (seconds), `node`, and `<metric>.rate` for each counter, named as LDMS names it.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from predictors.data.counters import COUNTERS
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.telemetry import Samples, Telemetry


def write_rates(telemetry: Telemetry | Iterable[Samples], folder: str | os.PathLike[str]) -> int:
    """Write rates to `FOLDER/SAMPLER.parquet`, part by part, and return the number of rows.

    Every file appears whole or not at all. `predictors.data.telemetry_files.Scan` reads such a folder like any other.

    Raises
    ------
    JobcastError
        If there is nothing to write, or a file cannot be made.
    """
    import pyarrow as pa
    from pyarrow import parquet

    target, rows = Path(folder), 0
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobcastError(f"{folder}: cannot be made ({error.strerror}); choose another place.") from error
    with ExitStack() as stack:
        writers: dict[str, Any] = {}
        for part in _by_sampler(telemetry):
            sampler = COUNTERS[part.counters[0]].sampler
            columns: dict[str, Any] = {"Time": part.time, "node": part.node}
            columns |= {f"{COUNTERS[c].column}.rate": part.rates[:, k] for k, c in enumerate(part.counters)}
            table = pa.table(columns)
            if sampler not in writers:
                path = stack.enter_context(whole_file(target / f"{sampler}.parquet"))
                writers[sampler] = stack.enter_context(
                    parquet.ParquetWriter(path, table.schema, compression="zstd", write_page_checksum=True)
                )
            if not table.schema.equals(writers[sampler].schema):
                raise JobcastError(f"{folder}: the parts of {sampler} hold different counters; write them apart.")
            writers[sampler].write_table(table)
            rows += len(part)
    if not rows:
        raise JobcastError(f"{folder}: there is no rate to write.")
    return rows


def _by_sampler(telemetry: Telemetry | Iterable[Samples]) -> Iterable[Samples]:
    """Yield parts that hold one sampler's counters only, and at least one row."""
    for part in [telemetry.samples()] if isinstance(telemetry, Telemetry) else telemetry:
        samplers = [COUNTERS[counter].sampler for counter in part.counters]
        for sampler in dict.fromkeys(samplers):
            mine = [k for k, name in enumerate(samplers) if name == sampler]
            if len(part):
                yield Samples(part.time, part.node, part.rates[:, mine], part.counters[mine])
