"""read_log and write_log: the format is recognised by the content when reading, by the name when writing."""

import gzip
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError
from predictors.core.parquet import MAGIC
from predictors.data.formats._delimited import without_utf16
from predictors.data.formats.alcf import is_alcf, parse_alcf
from predictors.data.formats.columns import RETURNS, mostly_returns
from predictors.data.formats.events import is_events, parse_events
from predictors.data.formats.parquet import parse_parquet, write_parquet
from predictors.data.formats.pbs import is_pbs, parse_pbs
from predictors.data.formats.sacct_json import is_sacct_json, parse_sacct_json
from predictors.data.formats.slurm import is_bare_sacct, is_sacct, parse_sacct
from predictors.data.formats.swf import parse_swf, write_swf
from predictors.data.formats.tables.known import KNOWN
from predictors.data.formats.tables.philly import is_philly, parse_philly
from predictors.data.formats.tables.softwall import is_softwall, parse_softwall
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport

_HEAD: Final = 65_536
_SWF_ROW: Final = re.compile(rb"[ \t]*[+-]?[0-9][^\s,;|]*(?:[ \t]+[^\s,;|]+){17,}[ \t]*\r?")

_BARE_ROW: Final = re.compile(rb"\d[^|\n]*\|(?:[^|\n]*\|)*(?:COMPLETED|FAILED|TIMEOUT|CANCELLED)[^|\n]*(?:\||\r?\n)")


class Format(NamedTuple):
    """A format that can be read; where it may have local times, `parse` takes their zone as well."""

    title: str
    recognises: Callable[[bytes], bool]
    parse: Callable[..., tuple[JobLog, ReadingReport]]
    local_times: bool = False


def _is_parquet(data: bytes) -> bool:
    return data.startswith(MAGIC)


def _is_swf(data: bytes) -> bool:
    """Return whether a file begins with a `;` line, or has a row of 18 fields, the first a number, near its top."""
    head = data[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b";") or any(_SWF_ROW.fullmatch(line) for line in head.split(b"\n", 200)[:200])


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(  # the formats by name, in the order in which they are tried
    {
        **{name: Format(one.title, one.recognises, one.parse, local_times=True) for name, one in KNOWN.items()},
        "philly": Format("JSON of the Philly clusters", is_philly, parse_philly, local_times=True),
        "softwall": Format("JSSPP's logs with soft walltimes", is_softwall, parse_softwall),
        "parquet": Format("Parquet written by jobcast", _is_parquet, parse_parquet),
        "swf": Format("Standard Workload Format", _is_swf, parse_swf),
        "alcf": Format("ALCF's public job logs (CSV)", is_alcf, parse_alcf, local_times=True),
        "sacct": Format("Slurm's sacct --parsable2", is_sacct, parse_sacct, local_times=True),
        "sacct-bare": Format(
            "Slurm's sacct --noheader, as XDMoD keeps it", is_bare_sacct, parse_sacct, local_times=True
        ),
        "sacct-json": Format("Slurm's sacct --json", is_sacct_json, parse_sacct_json, local_times=True),
        "pbs": Format("PBS or TORQUE accounting", is_pbs, parse_pbs, local_times=True),
        "events": Format("events of slurm_sim_tools", is_events, parse_events),
    }
)

WRITERS: Final[Mapping[str, Callable[[JobLog, Path], ReadingReport]]] = MappingProxyType(
    {".swf": write_swf, ".swf.gz": write_swf, ".parquet": write_parquet}
)
"""The writers of logs by the end of the file's name."""

_NOT_IN_LINES: Final = ("parquet", "sacct-json", "philly")
_FOREIGN: Final[Mapping[bytes, str]] = MappingProxyType(
    {
        b"BZh": "packed by bzip2; unpack it first",
        b"\xfd7zXZ": "packed by xz; unpack it first",
        b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
        b"PK\x03\x04": "a zip archive; unpack it first",
        b"SQLite format 3": "a database",
    }
)


def detect(data: bytes, source: str) -> str:
    """Return the name of the format that a file's bytes are in; lines that end in CR alone are refused.

    >>> detect(b"; Version: 2.2", "a.log")
    'swf'
    """
    for name, form in FORMATS.items():
        if form.recognises(data):
            if name not in _NOT_IN_LINES and not data.startswith(MAGIC) and mostly_returns(data):
                raise JobcastError(f"{source}: has {RETURNS}.")
            return name
    known = "; ".join(form.title for form in FORMATS.values())
    raise JobcastError(
        f"{source}: is no job log that jobcast can read, but {_kind(data)}. It reads: {known}; plain or packed by gzip."
        " A table in other columns is read by a map: jobcast log import FILE --propose."
    )


def _kind(data: bytes) -> str:
    for magic, kind in _FOREIGN.items():
        if data.startswith(magic):
            return kind
    if b"\0" in data[:_HEAD]:
        return "a binary file"
    if _BARE_ROW.match(data[:2000]):
        return "lines of sacct without a header, in other fields than XDMoD's; export it without --noheader"
    if re.match(rb"\s*JobID\w*[ \t]+\w+[^\n|]*\n[- \t]+\r?\n", data[:2000]):
        return "sacct's table for people, which cuts what is long; export it with sacct --parsable2"
    if mostly_returns(data):
        return f"text with {RETURNS}"
    first = data.lstrip()[:40].split(b"\n")[0].decode("ascii", "backslashreplace").strip()
    return f"text that begins {first!r}"


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as Parquet, plain or packed by gzip."""
    with Path(path).open("rb") as file:
        if not file.peek(2).startswith(b"\x1f\x8b"):
            return _is_parquet(file.read(len(MAGIC)))
        with gzip.GzipFile(fileobj=file) as packed:
            return _is_parquet(packed.read(len(MAGIC)))


def read_log(
    path: str | os.PathLike[str], strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Read a job log in any known format, recognised by its content.

    Parameters
    ----------
    path : path-like
        The file.
    strict : bool
        Raise at the first row that would be dropped or changed.
    time_zone : str, optional
        IANA name of the zone of the file's local times, where they have no offset.

    Returns
    -------
    log : JobLog
        Sorted by (submit, job id).
    account : ReadingReport
        What was dropped or changed.
    """
    source = os.fspath(path)
    data = without_utf16(read_bytes(path), source)
    form = FORMATS[detect(data, source)]
    if time_zone is None:
        return form.parse(data, source, strict)
    if not form.local_times:
        raise JobcastError(f"{source}: is in a format without local times ({form.title}); leave the time zone out.")
    return form.parse(data, source, strict, time_zone)


def write_log(log: JobLog, path: str | os.PathLike[str]) -> ReadingReport:
    """Write a job log in the format that the file's name ends in: `.swf`, `.swf.gz` or `.parquet`.

    Returns
    -------
    ReadingReport
        What the format cannot hold.
    """
    return writer_for(path)(log, Path(path))


def writer_for(path: str | os.PathLike[str]) -> Callable[[JobLog, Path], ReadingReport]:
    """Return the writer for a file of that name, or raise a JobcastError."""
    name = Path(path).name.lower()
    for ending, write in WRITERS.items():
        if name.endswith(ending):
            return write
    raise JobcastError(f"{path}: the name tells no format; end it in {', '.join(WRITERS)}.")
