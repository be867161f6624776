"""Datasets as Parquet: one column a field of the runs, one an input, and where it came from as metadata."""

import json
import os
from typing import Any, Final

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.runs import PROBES, TRUTH, Runs, expand
from predictors.data.sources import read_bytes
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES

_KEY: Final = b"jobcast.variability"
_VERSION: Final = 1


def write_dataset(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset as Parquet; the file appears whole or not at all.

    Raises
    ------
    JobcastError
        If the file cannot be made.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    frame = dataset.runs.to_frame().drop(columns=list(PROBES))
    table = pa.Table.from_pandas(pd.concat([frame, dataset.to_frame()], axis=1), preserve_index=False)
    about = {"version": _VERSION, "scope": dataset.scope, "about": dict(dataset.about)}
    table = table.replace_schema_metadata({_KEY: json.dumps(about)})
    with whole_file(path) as part:
        parquet.write_table(table, part, compression="zstd", write_page_checksum=True)


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a file that `write_dataset` wrote.

    Raises
    ------
    JobcastError
        If the file cannot be read, is damaged, was written by another program, or has other inputs than this jobcast.
    """
    import pyarrow as pa
    from pyarrow import parquet

    source = os.fspath(path)
    try:
        file = parquet.ParquetFile(pa.BufferReader(read_bytes(path)), page_checksum_verification=True)
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, JobcastError):
            raise
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(
            f"{source}: is no Parquet file that can be read ({reason}); make the dataset again."
        ) from error
    about = (table.schema.metadata or {}).get(_KEY)
    if about is None:
        raise JobcastError(
            f"{source}: is Parquet, but no dataset of `jobcast variability dataset` (columns "
            f"{', '.join(table.column_names[:4])}…)."
        )
    absent = [name for name in FEATURES if name not in table.column_names]
    if absent:
        raise JobcastError(f"{source}: lacks the input {absent[0]!r}, and {len(absent) - 1} others; make it again.")
    try:
        return _dataset(table, json.loads(about))
    except JobcastError as error:
        raise JobcastError(f"{source}: is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JobcastError(f"{source}: is damaged ({error}); make the dataset again.") from error


def _dataset(table: Any, about: dict[str, Any]) -> Dataset:
    if about["version"] != _VERSION:
        raise JobcastError(f"version {about['version']!r} of the format is not known, only {_VERSION}; update jobcast.")
    frame = table.to_pandas()
    columns = {name: frame[name].to_numpy() for name in frame}
    rows = np.column_stack([columns[name].astype(np.float64) for name in FEATURES])
    nodes = [expand(text) for text in columns["nodes"]]
    runs = Runs.of(
        job_id=columns["job_id"],
        application=columns["application"],
        nodes=nodes,
        node_count=columns["node_count"],
        start=columns["start"],
        end=columns["end"],
        workload=columns["workload"],
        region_time=columns["region_time"],
        probes=np.column_stack([columns[name] for name in PROBES]),
        truth={name: column for name, column in columns.items() if name.startswith(TRUTH)},
    )
    return Dataset(runs, rows, str(about["scope"]), about["about"])
