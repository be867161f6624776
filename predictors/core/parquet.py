"""Parquet files: how they begin, and one line for a damaged one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from predictors.core.errors import JobcastError

MAGIC: Final = b"PAR1"
"""The first bytes of a Parquet file."""


@contextmanager
def damage_named(source: object) -> Iterator[None]:
    """Turn Arrow's errors within the block into one that names the file.

    Raises
    ------
    JobcastError
        If the file is damaged.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(f"{source}: is a damaged Parquet file ({reason}); copy or convert it again.") from error


def parquet_table(data: bytes, source: object) -> Any:
    """Return the Arrow table that the bytes of a Parquet file hold.

    Raises
    ------
    JobcastError
        If the file is damaged.
    """
    import pyarrow as pa
    from pyarrow import parquet

    with damage_named(source):
        return parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
