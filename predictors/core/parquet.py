"""Parquet files: how they begin, how they are written, and one line for a damaged one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError

MAGIC: Final = b"PAR1"  # the first bytes of a Parquet file
CURE: Final = "copy or convert it again"


@contextmanager
def damage_named(source: object, cure: str = CURE) -> Iterator[None]:
    """Turn Arrow's errors within the block into one that names the file and, in `cure`, the way out."""
    import pyarrow as pa

    try:
        yield
    except JobcastError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).strip().split("\n")[0]
        raise JobcastError(f"{source}: is a damaged Parquet file ({reason}); {cure}.") from error


def write_parquet_table(table: Any, path: Path) -> None:
    """Write an Arrow table as Parquet with checksums; Arrow itself refuses paths that are not UTF-8."""
    from pyarrow import parquet

    with path.open("wb") as file:
        parquet.write_table(table, file, compression="zstd", write_page_checksum=True)


def parquet_table(data: bytes, source: object, cure: str = CURE, columns: Sequence[str] | None = None) -> Any:
    """Return the Arrow table that the bytes of a Parquet file hold: all columns, or those of `columns` that it has."""
    import pyarrow as pa
    from pyarrow import parquet

    if not data.startswith(MAGIC):
        raise JobcastError(f"{source}: is no Parquet file; {cure}.")
    with damage_named(source, cure):
        file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        return file.read(
            columns=None if columns is None else [name for name in file.schema_arrow.names if name in columns]
        )
