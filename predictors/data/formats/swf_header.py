"""The `;` lines of an SWF file: machine and clock, reading and writing.

Format: Feitelson et al., The Standard Workload Format, version 2.2 (Parallel Workloads Archive); Chapin et al.,
Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, JSSPP 1999, doi 10.1007/3-540-47954-6_4.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from zoneinfo import ZoneInfo

from predictors.data.joblog import JobLog

Header = tuple[tuple[str, str], ...]

_LABELS: Final = frozenset((
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs",
    "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime",
    "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory", "AllowOveruse", "MaxQueues", "Queues",
    "Queue", "MaxPartitions", "Partitions", "Partition", "Note",
))  # fmt: skip
_EXTENT: Final = ("MaxJobs", "MaxRecords", "EndTime")
_LABELLED: Final = re.compile(r"([ \t]*)([A-Za-z]\w*):(?!//)[ \t]*(.*)", re.DOTALL)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,15}(?![0-9.])")
_NAMED: Final = re.compile(r"([0-9]{1,4})[ \t]+(.+)", re.DOTALL)
_BLANKS: Final = " \t\r"

NAME_LABELS: Final[Mapping[str, str]] = {"queue": "Queue", "partition": "Partition"}
"""Columns with codes that SWF can name, and the label of the names."""

SMALLEST_UNIX_TIME: Final = 100_000_000  # in 1973: with `UnixStartTime: 0`, later times are Unix times


@dataclass(frozen=True)
class HeaderFacts:
    """The contents of a header."""

    unix_start: int | None = None  # Unix time of the file's second 0 [s]; 0 means that the file's times are Unix times
    time_zone: str | None = None  # IANA name of the machine's time zone
    # max_procs, max_nodes: size of the machine
    max_procs: int | None = None
    max_nodes: int | None = None
    # names of the codes of `queue` and `partition`, where given; a code without a name has ""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # lines that are taken as unknown, and why


def parse_header(lines: Iterable[bytes]) -> Header:
    r"""Return label and text of each comment line, "" without a label; text that is not UTF-8 is taken as Latin-1.

    >>> parse_header([b"; MaxProcs:  100", b";  see http://www.pdc.kth.se/", b"; Acknowledge: Andr\xe9"])
    (('MaxProcs', '100'), ('', '  see http://www.pdc.kth.se/'), ('Acknowledge', 'André'))
    """
    return tuple(_entry(line) for line in lines)


def _entry(line: bytes) -> tuple[str, str]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    text = text.lstrip(_BLANKS).removeprefix(";").rstrip(_BLANKS)
    match = _LABELLED.fullmatch(text)
    if match and (match[1] in ("", " ") or match[2] in _LABELS):
        return match[2], match[3]
    return "", text


def header_facts(header: Header) -> HeaderFacts:
    """Return the contents of a header; of two lines with one label the first that can be understood counts."""
    notes: list[str] = []
    unix_start = _whole_number(header, "UnixStartTime", notes, least=0)
    max_procs = _whole_number(header, "MaxProcs", notes, least=1)
    max_nodes = _whole_number(header, "MaxNodes", notes, least=1)
    time_zone = _time_zone(header, notes)
    names = {column: names for column, label in NAME_LABELS.items() if (names := _names(header, label))}
    return HeaderFacts(unix_start, time_zone, max_procs, max_nodes, names, tuple(notes))


def _texts(header: Header, label: str) -> list[str]:
    return [text for own, text in header if own == label]


def _whole_number(header: Header, label: str, notes: list[str], least: int) -> int | None:
    for text in _texts(header, label):
        match = _WHOLE.match(text)
        if match and int(match[0]) >= least:
            return int(match[0])
        if not (match and int(match[0]) == -1):
            notes.append(f"{label}: {text[:40]!r} is no whole number from {least} to 10^15 - 1; taken as unknown")
    return None


def _time_zone(header: Header, notes: list[str]) -> str | None:
    for text in _texts(header, "TimeZoneString"):
        try:
            ZoneInfo(text)
        except (KeyError, ValueError, OSError):
            notes.append(f"TimeZoneString: {text[:40]!r} is not a time zone that the system knows; taken as unknown")
        else:
            return text
    for text in _texts(header, "TimeZone"):
        match = _WHOLE.fullmatch(text)
        hours, rest = divmod(int(match[0]), 3600) if match else (0, 1)
        if rest == 0 and -14 <= hours <= 12:
            # POSIX signs: Etc/GMT-1 is one hour ahead of Greenwich.
            return "Etc/UTC" if hours == 0 else f"Etc/GMT{-hours:+d}"
    return None


def _names(header: Header, label: str) -> tuple[str, ...]:
    names: dict[int, str] = {}
    for text in _texts(header, label):
        match = _NAMED.fullmatch(text)
        if match:
            names.setdefault(int(match[1]), match[2].strip(_BLANKS))
    return tuple(names.get(code, "") for code in range(max(names, default=-1) + 1))


def header_of(log: JobLog) -> Header:
    """Return the header to write for a log: its own, brought in line with its clock, machine and names.

    >>> log = JobLog.from_columns({"job_id": [1], "submit": [50]}, {}, epoch=1_000_000_050, max_procs=64)
    >>> header_of(log)
    (('Version', '2.2'), ('UnixStartTime', '1000000000'), ('MaxProcs', '64'))
    """
    header = tuple((label, _one_line(text)) for label, text in log.header)
    facts = header_facts(header)
    unix_start = None if log.epoch is None or log.epoch < log.origin else log.epoch - log.origin
    if unix_start is None and log.origin >= SMALLEST_UNIX_TIME:
        unix_start = -1  # unknown: without the line such times would be taken as Unix times
    wanted = {
        "UnixStartTime": (facts.unix_start, unix_start),
        "TimeZoneString": (facts.time_zone, log.time_zone),
        "MaxNodes": (facts.max_nodes, log.max_nodes),
        "MaxProcs": (facts.max_procs, log.max_procs),
    }
    if "Version" not in dict(header):
        header = (("Version", "2.2"), *header)
    for label, (stated, value) in wanted.items():
        if value is not None and stated != value:
            header = _with_label(header, label, str(value))
    for column, label in NAME_LABELS.items():
        names = tuple(_one_line(name).strip(_BLANKS) for name in log.categories.get(column, ()))
        if _stripped(names) != facts.names.get(column, ()) and _stripped(names):
            kept = tuple(entry for entry in header if entry[0] != label)
            header = kept + tuple((label, f"{code} {name}") for code, name in enumerate(names) if name)
    return header


def without_extent(header: Header) -> Header:
    """Return a header without the number of jobs and the end: these hold for the whole log alone.

    >>> without_extent((("Computer", "iPSC/860"), ("MaxJobs", "42264")))
    (('Computer', 'iPSC/860'),)
    """
    return tuple(entry for entry in header if entry[0] not in _EXTENT)


def header_lines(header: Header) -> list[str]:
    return [f"; {label}: {text}".rstrip(_BLANKS) if label else f";{text}" for label, text in header]


def _with_label(header: Header, label: str, text: str) -> Header:
    """Return the header with the first line of that label replaced and its others gone, or with one more line."""
    places = [k for k, (own, _) in enumerate(header) if own == label]
    if not places:
        return (*header, (label, text))
    return tuple((label, text) if k == places[0] else entry for k, entry in enumerate(header) if k not in places[1:])


def _stripped(names: tuple[str, ...]) -> tuple[str, ...]:
    last = max((code for code, name in enumerate(names) if name), default=-1)
    return names[: last + 1]


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").rstrip(_BLANKS)
