"""The form of a snapshot: arrays without objects, compressed (zstd), behind their SHA-256.

They are an npz file that is written and read member by member, so that neither the whole file nor a copy of the rows of
all live jobs ever stands in memory: a million of them take 1.2 GB.
"""

import hashlib
import io
import math
import struct
import zipfile
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow

from predictors.core.errors import JobcastError
from predictors.history._rows import Rows
from predictors.service.storage.database import StorageError

Arrays = dict[str, npt.NDArray[Any]]
Streamed = dict[str, npt.NDArray[Any] | Rows]  # arrays, and rows that are copied piece by piece as they are written

PIECE: Final = 1 << 20  # bytes that are moved at once
_ROWS_AT_ONCE: Final = 256
_MAGIC: Final = b"jobcast-snapshot-1\n"
_BEGIN: Final = len(_MAGIC) + hashlib.sha256().digest_size
_LOCAL: Final = struct.Struct("<4sHHHIIIIHH")  # the head of a member of a zip file (APPNOTE.TXT, 4.3.7)
_LEFT_OUT: Final = 1 << 3  # among its flags: the sizes follow behind the data


class _Hashed(io.RawIOBase):
    """A file that is written to from where it stands, and the hash of what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self._file.write(data)
        return len(data)


def write(arrays: Streamed | Arrays, file: BinaryIO) -> None:
    """Write arrays to an empty file; each is taken out of `arrays` once written; objects raise ValueError."""
    file.write(_MAGIC + bytes(hashlib.sha256().digest_size))
    sink = _Hashed(file)
    with (
        pyarrow.CompressedOutputStream(pyarrow.PythonFile(sink, "w"), "zstd") as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        for name in list(arrays):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_member(member, arrays.pop(name))
    file.seek(len(_MAGIC))
    file.write(sink.hash.digest())


def packed(arrays: Streamed | Arrays) -> bytes:
    """Return what `write` writes.

    >>> unpacked(packed({"run_times": np.array([60, 70])}))
    {'run_times': array([60, 70])}
    """
    file = io.BytesIO()
    write(arrays, file)
    return file.getvalue()


def _write_member(member: Any, array: npt.NDArray[Any] | Rows) -> None:
    if isinstance(array, Rows):
        about = {"descr": "<f8", "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(member, about)
        for piece in array.pieces():
            member.write(piece.data)
    else:
        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def unpacked(
    stored: bytes | BinaryIO,  # the file is read from its beginning, twice
    begins: str = "",  # how the names of those begin that are wanted
    as_rows: Collection[str] = (),  # names of arrays that come as `Rows`; those of an older version stay arrays
) -> dict[str, Any]:
    """Return the arrays of a snapshot, or of an older version's: an npz file. A damaged one raises JobcastError."""
    file = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    try:
        file.seek(0)
        head, found = file.read(_BEGIN), hashlib.sha256()
        if not head.startswith(_MAGIC):
            with np.load(io.BytesIO(head + file.read()), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files if name.startswith(begins)}
        while piece := file.read(PIECE):
            found.update(piece)
        if found.digest() != head[len(_MAGIC) :]:
            raise JobcastError("A snapshot is damaged: its checksum is another.")
        file.seek(_BEGIN)
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd") as stream:
            return dict(_members(stream, begins, as_rows))
    except (JobcastError, StorageError):
        raise
    except Exception as error:  # zipfile and zlib fail in many ways on what is damaged
        raise JobcastError(f"A snapshot cannot be read ({error}).") from error


def _members(stream: Any, begins: str, as_rows: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of an npz file that is not compressed itself, one after the other: nothing is looked up."""
    while len(head := stream.read(_LOCAL.size)) == _LOCAL.size:
        signature, _, flags, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack(head)
        if signature != b"PK\3\4":  # the list of members, at the end
            return
        name = stream.read(name_size).decode().removesuffix(".npy")
        is_long = bool(stream.read(extra_size))
        if not name.startswith(begins):
            _skip(stream)
        elif name in as_rows:
            yield name, _rows(stream)
        else:
            yield name, np.lib.format.read_array(stream, allow_pickle=False)
        if flags & _LEFT_OUT:
            stream.read(24 if is_long else 16)


def _about(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array that follows, whether it lies by columns, and the type of its values."""
    read_magic, read_header = np.lib.format.read_magic, np.lib.format.read_array_header_1_0
    if read_magic(stream) != (1, 0):
        raise ValueError("it is of another version of npy")
    return read_header(stream)


def _skip(stream: Any) -> None:
    shape, _, kind = _about(stream)
    left = math.prod(shape) * kind.itemsize
    while left and (piece := stream.read(min(left, PIECE))):
        left -= len(piece)


def _rows(stream: Any) -> Rows:
    (n_rows, width), by_column, kind = _about(stream)
    if kind != np.float64:
        raise ValueError("rows are no numbers")
    rows = Rows(width)
    if by_column:  # as they are where columns were picked
        whole = np.frombuffer(bytearray(stream.read(kind.itemsize * n_rows * width))).reshape(width, n_rows)
        rows.put(range(n_rows), np.ascontiguousarray(whole.T))
        return rows
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        piece = np.empty((min(_ROWS_AT_ONCE, n_rows - first), width))
        if stream.readinto(piece.data.cast("B")) != piece.nbytes:
            raise ValueError("it ends too early")
        rows.put(range(first, first + len(piece)), piece)
    return rows
