"""Job logs as Parquet."""

import json
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.parquet import parquet_table, write_parquet_table
from predictors.core.validation import LATEST, check_whole, known_zone
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport

_KEY: Final = b"jobcast"
_VERSION: Final = 1
_ABOUT: Final = ("origin", "epoch", "time_zone", "max_procs", "max_nodes", "max_gpus", "name")


def write_parquet(log: JobLog, path: str | os.PathLike[str]) -> ReadingReport:
    """Write a log as Parquet, whole or not at all: a column of int64 each, the rest as metadata. All is kept."""
    import pyarrow as pa

    columns = {name: pa.array(log.filled(name), mask=~log.known(name)) for name in log.values}
    about = {field: getattr(log, field) for field in _ABOUT}
    about |= {"version": _VERSION, "header": log.header, "categories": dict(log.categories)}
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about)})
    with whole_file(path) as part:
        write_parquet_table(table, part)
    return ReadingReport(os.fspath(path))


def read_parquet(path: str | os.PathLike[str], strict: bool = False) -> tuple[JobLog, ReadingReport]:
    """Read a file that `write_parquet` wrote; there is nothing to drop in it, so the account is empty."""
    return parse_parquet(read_bytes(path), os.fspath(path), strict)


def is_own(data: bytes) -> bool:
    """Return whether the end of a Parquet file says that jobcast wrote it; nothing is parsed."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[max(len(data) - 8 - length, 0) : -8]
    return _KEY in footer and b'{"origin": ' in footer


def parse_parquet(data: bytes, source: str, strict: bool = False) -> tuple[JobLog, ReadingReport]:
    """Return the log in the bytes of such a file, and an empty account."""
    table = parquet_table(data, source)
    about = (table.schema.metadata or {}).get(_KEY)
    if about is None:
        raise JobcastError(
            f"{source}: is a Parquet file, but not one that jobcast wrote (columns {', '.join(table.column_names[:5])}"
            "…); read it by a map: jobcast log import FILE --propose."
        )
    try:
        return _job_log(table, json.loads(about)), ReadingReport(source)
    except JobcastError as error:
        raise JobcastError(f"{source}: is damaged: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise JobcastError(
            f"{source}: is damaged: its metadata cannot be used ({error}); convert the log again."
        ) from error


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
        field: None if about.get(field) is None else int(about[field])
        for field in ("epoch", "max_procs", "max_nodes", "max_gpus")
    }
    origin = int(about["origin"])
    for field, second in (("origin", origin), ("epoch", sizes["epoch"] or 0)):
        check_whole(second, f"the {field} in its metadata", -LATEST, LATEST)
    if about["time_zone"]:
        known_zone(str(about["time_zone"]))
    return JobLog(
        values, unknown, origin=origin, time_zone=None if about["time_zone"] is None else str(about["time_zone"]),
        header=tuple((str(label), str(text)) for label, text in about["header"]),
        categories={name: tuple(map(str, names)) for name, names in about["categories"].items()},
        name=str(about["name"]), **sizes,
    )  # fmt: skip


def text_array(texts: Sequence[str]) -> Any:
    """Return an arrow array of strings.

    >>> text_array(["a", "", "ö"]).to_pylist()
    ['a', '', 'ö']
    """
    import pyarrow as pa

    encoded = [text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.LargeStringArray.from_buffers(len(encoded), *buffers[1:]).cast(pa.string())


def flag_array(mask: Bools) -> Any:
    """Return an arrow array of booleans."""
    import pyarrow as pa

    bits = np.packbits(mask, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def row_array(rows: Ints) -> Any:
    """Return an arrow array of int64."""
    import pyarrow as pa

    whole = np.ascontiguousarray(rows, dtype=np.int64)
    return pa.Int64Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def plain_array(column: Any) -> npt.NDArray[Any]:
    """Return an arrow column of numbers, without nulls, as a numpy array."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    kind = {"int64": np.int64, "int8": np.int8, "double": np.float64, "int32": np.int32}[str(whole.type)]
    return np.frombuffer(whole.buffers()[1] or b"", kind)[whole.offset :][: len(whole)].copy()
