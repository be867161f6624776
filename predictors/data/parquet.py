"""Job logs as Parquet files that keep all that a `JobLog` knows, for fast reading and for other programs."""

import json
import os
from typing import Any, Final

import numpy as np

from predictors.data.account import Account
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.joblog import JobLog
from predictors.data.sources import read_bytes

MAGIC: Final = b"PAR1"
_KEY: Final = b"jobcast"
_VERSION: Final = 1
_ABOUT: Final = ("origin", "epoch", "time_zone", "max_procs", "max_nodes", "name")


def write_parquet(log: JobLog, path: str | os.PathLike[str]) -> Account:
    """Write a log as Parquet: one nullable int64 column a job log column, whatever else the log knows as metadata.

    Times are seconds since the first submission, as in memory. The file appears whole or not at all. The account that
    is returned is empty: all that a log knows has its place.

    Raises
    ------
    JobcastError
        If the file cannot be made.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: pa.array(log.filled(name), mask=~log.known(name)) for name in log.values}
    about = {field: getattr(log, field) for field in _ABOUT}
    about |= {"version": _VERSION, "header": log.header, "categories": dict(log.categories)}
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about)})
    with whole_file(path) as part:
        parquet.write_table(table, part, compression="zstd", write_page_checksum=True)
    return Account(os.fspath(path))


def read_parquet(path: str | os.PathLike[str], strict: bool = False) -> tuple[JobLog, Account]:
    """Read a file that `write_parquet` wrote; there is nothing to drop in it, so the account is empty.

    Raises
    ------
    JobcastError
        If the file cannot be read, is damaged, or was written by another program.
    """
    return parse_parquet(read_bytes(path), os.fspath(path), strict)


def parse_parquet(data: bytes, source: str, strict: bool = False) -> tuple[JobLog, Account]:
    """Return the log that the bytes of such a file hold, and an empty account."""
    table = _table(data, source)
    about = (table.schema.metadata or {}).get(_KEY)
    if about is None:
        raise JobcastError(
            f"{source}: is a Parquet file, but not one that jobcast wrote (columns {', '.join(table.column_names[:5])}"
            "…); give the log in its own format."
        )
    try:
        return _job_log(table, json.loads(about)), Account(source)
    except JobcastError as error:
        raise JobcastError(f"{source}: is damaged: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise JobcastError(
            f"{source}: is damaged: its metadata cannot be used ({error}); convert the log anew."
        ) from error


def _table(data: bytes, source: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(f"{source}: is a damaged Parquet file ({reason}); copy or convert it again.") from error


def _job_log(table: Any, about: dict[str, Any]) -> JobLog:
    if about["version"] != _VERSION:
        raise JobcastError(f"version {about['version']!r} of the format is not known, only {_VERSION}; update jobcast.")
    values, unknown = {}, {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if str(column.type) != "int64":
            raise JobcastError(f"column {name!r} is of type {column.type}, not int64.")
        # Arrow's own `to_numpy` and `fill_null` would import pandas; what lies under a null is masked by the job log.
        unknown[name] = np.from_dlpack(column.is_null().cast("int8")).astype(np.bool_)
        values[name] = np.frombuffer(column.buffers()[1] or b"", np.int64)[column.offset :][: len(column)]
    sizes = {
        field: None if about[field] is None else int(about[field]) for field in ("epoch", "max_procs", "max_nodes")
    }
    return JobLog(
        values,
        unknown,
        origin=int(about["origin"]),
        time_zone=None if about["time_zone"] is None else str(about["time_zone"]),
        header=tuple((str(label), str(text)) for label, text in about["header"]),
        categories={name: tuple(map(str, names)) for name, names in about["categories"].items()},
        name=str(about["name"]),
        **sizes,
    )
