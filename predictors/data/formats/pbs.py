"""Accounting logs of PBS and TORQUE.

A job is its E record (ended); without one, its Q, S and D records (queued, started, deleted). R (rerun) begins another
run of the same job. The times within an E record are Unix time; the time before the first semicolon is the server's
local time; the E records give its zone. Format: the administrators' guides of PBS Professional and TORQUE, chapters on
accounting.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError
from predictors.core.validation import known_zone
from predictors.data.formats import slurm
from predictors.data.formats._swf_scan import LARGEST_QUANTITY
from predictors.data.formats.columns import MISSING, Names, refuse_returns, span, unix_time
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, finish
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

_KEYS: Final = (
    "user|group|account|project|jobname|queue|ctime|qtime|etime|start|owner|exec_host|exec_vnode|hostlist|session|"
    "alt_id|end|Exit_status|run_count|runcount|requestor|array_indices|total_execution_slots|unique_node_count|"
    r"accounting_id|login_node|resvname|resvID|eligible_time|depend|estimated\.\w+|Resource_List\.\w+|resources_used\.\w+"
)
_PAIR: Final = re.compile(rf"(?:^| )({_KEYS})=")
_BEFORE_NAME: Final = ("user", "group", "account", "project")
_SIGNAL: Final = 256
_SIZE_KEYS: Final = (
    *(f"Resource_List.{key}" for key in ("ncpus", "nodect", "select", "nodes")),
    "total_execution_slots",
)
_MANY: Final = 1 << 16


def pairs_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Return values by key, and the keys that come twice; a value runs to the next key that PBS knows.

    Of a key that PBS writes before the job's name the first counts, of the others the last: the text between belongs to
    the name, which a user wrote.

    >>> pairs_of('user=ana jobname="my job" x=1 queue=fast')
    ({'user': 'ana', 'jobname': 'my job" x=1', 'queue': 'fast'}, [])
    """
    parts = _PAIR.split(text)
    keys, texts = parts[1::2], parts[2::2]
    pairs = dict(zip(keys, [value.strip('"') if value[:1] == '"' else value for value in texts], strict=True))
    if len(pairs) == len(keys):
        return pairs, []
    twice = [key for key in pairs if keys.count(key) > 1]
    pairs |= {key: texts[keys.index(key)] for key in twice if key in _BEFORE_NAME}
    return pairs, twice


def requested(pairs: Mapping[str, str]) -> tuple[int, int]:
    """Return processors and nodes asked for.

    >>> requested({"Resource_List.select": "2:ncpus=8:mpiprocs=8+1:ncpus=4", "Resource_List.nodect": "3"})
    (20, 3)
    >>> requested({"Resource_List.nodes": "2:ppn=12+n7:ppn=4"})
    (28, 3)
    """
    return _requested(*(pairs.get(key, "") for key in _SIZE_KEYS))


@lru_cache(_MANY)
def _requested(ncpus: str, nodect: str, select: str, listed: str, slots: str) -> tuple[int, int]:
    procs, nodes = whole(ncpus), whole(nodect)
    for text, share in ((select, "ncpus"), (listed, "ppn")):
        if text:
            chunks = [_chunk(chunk, share) for chunk in text.split("+")]
            found = sum(count * each for count, each in chunks)
            # TORQUE writes ncpus=1 together with nodes=2:ppn=12.
            procs = found if share == "ppn" else max(procs, found)
            nodes = nodes if nodes > 0 else sum(count for count, _ in chunks)
    procs = whole(slots) if whole(slots) > 0 else procs
    return (procs if procs > 0 else MISSING), (nodes if nodes > 0 else MISSING)


def _chunk(text: str, share: str) -> tuple[int, int]:
    parts = text.split(":")
    each = next((int(p.split("=")[1]) for p in parts if re.fullmatch(rf"{share}=\d{{1,9}}", p)), 1)
    return max(whole(parts[0][:9]), 1), each


def given(pairs: Mapping[str, str]) -> int:
    """Return the processors given, as `exec_vnode` or `exec_host` list them.

    >>> given({"exec_vnode": "(n1:ncpus=8:mem=4gb)+(n2:ncpus=4)"}), given({"exec_host": "n1/0*8+n2/0*4"})
    (12, 12)
    >>> given({"exec_host": "n1/0-11"}), given({"exec_host": "n1/1+n1/0+n2/0"})
    (12, 3)
    """
    vnodes = re.findall(r"ncpus=(\d{1,9})", pairs.get("exec_vnode", ""))
    if vnodes:
        return sum(map(int, vnodes))
    hosts = pairs.get("exec_host", "")
    if "/" not in hosts:
        return MISSING
    total = 0
    for host in hosts.split("+"):
        slots = host.partition("/")[2]
        starred = slots.partition("*")[2]
        if starred:
            total += max(whole(starred[:9]), 1)
        else:
            total += sum(_slots(part) for part in slots.split(","))
    return total if total > 0 else MISSING


def _slots(text: str) -> int:
    """Return the number of a host's slots in `0-11` or `3`."""
    first, dash, last = text.partition("-")
    return max(whole(last) - whole(first), 0) + 1 if dash and min(whole(first), whole(last)) >= 0 else 1


def exit_code(text: str) -> int:
    """Return the exit code; 128 + n for a job that signal n ended, which PBS writes as 256 + n.

    >>> [exit_code(text) for text in ("0", "3", "271", "-11")]
    [0, 3, 143, -11]
    """
    value = whole(text)
    return value - _SIGNAL + 128 if _SIGNAL < value < _SIGNAL + 128 else value


def whole(text: str) -> int:
    """Return a whole number, `MISSING` if the text is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else MISSING


@lru_cache(_MANY)
def seconds(text: str) -> int:
    """Return a span of time [s], `MISSING` if the text is none."""
    found = span(text) if text else None
    return MISSING if found is None else found


@lru_cache(_MANY)
def memory(text: str, procs: int) -> int:
    """Return memory a processor [KB]; a number without a suffix counts bytes.

    >>> [memory(text, 4) for text in ("8gb", "4096kb", "1048576b", "")]
    [2097152, 1024, 256, -9223372036854775808]
    """
    found = re.fullmatch(r"(\d{1,15})([kmgtp]?)(b|w)?", text, re.IGNORECASE)
    if not found:
        return MISSING
    if not found[2]:
        return int(found[1]) * (8 if found[3] == "w" else 1) // 1024 // procs
    job = slurm.memory(f"{found[1]}{found[2].upper()}")
    return MISSING if job is None else int(min(job[0], 2.0**53)) // procs


_LINE: Final = re.compile(rb"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Za-z]);([^;\s]*);(.*)")
_HEAD: Final = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z]{1,2};[^;\n]*;")
_ID: Final = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))?(?:\..*)?")
_QUARTER: Final = 900

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "user": ("user",),
        "group": ("group",),
        "project": ("account", "project"),
        "queue": ("queue",),
        "executable": ("jobname",),
        "location": ("exec_host", "exec_vnode"),
        "reservation": ("resvname", "resvID"),
    }
)
_READ: Final = frozenset(  # keys from which something is taken
    (
        *(key for keys in _TEXTS.values() for key in keys),
        *_SIZE_KEYS,
        *(f"Resource_List.{key}" for key in ("walltime", "soft_walltime", "mem", "ngpus", "place")),
        *(f"resources_used.{key}" for key in ("walltime", "cput", "mem")),
        *("ctime", "qtime", "etime", "start", "end", "Exit_status", "run_count", "runcount", "depend"),
    )
)


@dataclass
class _Job:
    """One run of a job, from the records read so far."""

    line: int
    word: str
    pairs: dict[str, str] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)  # seconds since 1970 by the server's clock, by type of record
    again: bool = False  # it went back into the queue


def is_pbs(data: bytes) -> bool:
    return any(_HEAD.match(line) for line in data[:20_000].split(b"\n")[:20])


def parse_pbs(
    data: bytes,
    source: str,
    strict: bool = False,
    # IANA name of the server's zone; by default the offset from UTC is taken from the E records, of which each gives
    # its own end both ways
    time_zone: str | None = None,
) -> tuple[JobLog, ReadingReport]:
    """Return the job log that accounting records hold, and the account."""
    refuse_returns(data, source)
    ledger = ReportBuilder(source, RULES)
    jobs, arrays = _jobs(data, ledger)
    ledger.add("array-itself", arrays)
    if not jobs:
        raise JobcastError(f"{source}: holds no record of a job.")
    shift = _Shift(jobs, time_zone)
    if time_zone is not None:
        known_zone(time_zone)
    elif not shift.known and any(not job.pairs.get("end") for job in jobs):
        ledger.note("local-time", "no E record has the offset of the server's clock; local times are taken as UTC")
    lines = np.array([job.line for job in jobs], dtype=np.int64)
    draft = Draft(source, [job.word for job in jobs], lambda rows: lines[rows], ledger)
    _times(draft, jobs, shift)
    _sizes(draft, jobs)
    _ends(draft, jobs)
    for column, keys in _TEXTS.items():
        draft.names[column] = _named([next((job.pairs[k] for k in keys if job.pairs.get(k)), "") for job in jobs])
    draft.names |= slurm.dependencies(_named([job.pairs.get("depend", "") for job in jobs]))
    ledger.note_unused(sorted({key for job in jobs for key in job.pairs}), _READ)
    return finish(draft, log_name(source), strict, time_zone=time_zone)


def _jobs(data: bytes, ledger: ReportBuilder) -> tuple[list[_Job], list[int]]:
    """Return the runs of jobs in the order in which they come first, and the lines of whole arrays' records."""
    runs: dict[str, _Job] = {}
    closed: list[_Job] = []
    torn, arrays, twice = list[int](), list[int](), dict[str, list[int]]()
    example = ""
    for number, (second, kind, word, text) in _records(data):
        if kind == "":
            example = example or text
            torn.append(number)
            continue
        match = _ID.fullmatch(word)
        if kind not in "QSEDRAC" or match is None:
            continue  # licences, reservations, checkpoints: not about one job
        if match[2] == "":
            arrays.append(number)
            continue
        job = runs.get(word)
        if job is not None and "E" in job.local and kind in "RDAC":
            continue  # it had ended before
        if job is None or "E" in job.local or (kind == "S" and job.again):
            if job is not None:
                job.again |= kind == "S"
                closed.append(job)
            job = runs[word] = _Job(number, word)
            if kind == "S" and closed and closed[-1].word == word:
                job.pairs |= {k: v for k, v in closed[-1].pairs.items() if k in ("ctime", "qtime", "etime")}
        job.again |= kind == "R"
        job.local.setdefault(kind, second)
        if kind == "E":
            job.line = number
        pairs, forged = pairs_of(text)
        job.pairs |= pairs
        for key in forged:
            twice.setdefault(key, []).append(number)
    ledger.add("not-a-record", torn, example=example[:40])
    for key, places in twice.items():
        ledger.add("repeated-key", places, key)
    return [*closed, *runs.values()], arrays


def _records(data: bytes) -> Iterator[tuple[int, tuple[int, str, str, str]]]:
    """Yield line number and (local time, type, job, text) of each record; type "" for a line that is no record."""
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.rstrip(b"\r")
        match = _LINE.fullmatch(line)
        second = _local(match[1].decode()) if match else None
        if match and second is not None:
            kind, word, text = (match[k].decode("utf-8", "replace") for k in (2, 3, 4))
            yield number, (second, kind, word, text)
        elif line.strip():
            yield number, (0, "", "", line[:60].decode("ascii", "backslashreplace"))


@lru_cache(4096)
def _midnight(day: str) -> int | None:
    try:
        return int(datetime(int(day[6:]), int(day[:2]), int(day[3:5]), tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _local(text: str) -> int | None:
    """Return the seconds since 1970 of `MM/DD/YYYY HH:MM:SS` on the server's clock, None if there is no such time."""
    midnight = _midnight(text[:10])
    hours, minutes, seconds = int(text[11:13]), int(text[14:16]), int(text[17:])
    if midnight is None or hours > 23 or minutes > 59 or seconds > 60:
        return None
    return midnight + hours * 3600 + minutes * 60 + seconds


class _Shift:
    """Local time of the server's clock as Unix time."""

    def __init__(self, jobs: list[_Job], time_zone: str | None) -> None:
        self._zone = time_zone
        seen: dict[int, int] = {}  # local time of the end: offset
        for job in jobs:
            end = whole(job.pairs.get("end", ""))
            if "E" in job.local and end > 0:
                seen[job.local["E"]] = round((job.local["E"] - end) / _QUARTER) * _QUARTER
        self.known = bool(seen)
        self._at = np.array(sorted(seen), dtype=np.int64)
        self._offset = np.array([seen[at] for at in self._at.tolist()], dtype=np.int64)

    def unix(self, local: int) -> int:
        """Return Unix time: by the zone where it is given, else by the offset of the nearest E record."""
        if self._zone is not None:
            return int(unix_time(np.array([local], dtype=np.int64), self._zone)[0])
        if not len(self._at):
            return local
        k = int(np.searchsorted(self._at, local))
        near = [j for j in (k - 1, k) if 0 <= j < len(self._at)]
        return local - int(self._offset[min(near, key=lambda j: abs(int(self._at[j]) - local))])


def _times(draft: Draft, jobs: list[_Job], shift: _Shift) -> None:
    def time_of(job: _Job, keys: tuple[str, ...], kinds: tuple[str, ...]) -> int:
        for key in keys:
            if (value := whole(job.pairs.get(key, ""))) > 0:
                return value
        for kind in kinds:
            if kind in job.local:
                return shift.unix(job.local[kind])
        return MISSING

    submit = [time_of(job, ("ctime", "qtime"), ("Q",)) for job in jobs]
    start = [time_of(job, ("start",), ("S",)) for job in jobs]
    end = [time_of(job, ("end",), ("E", "R", "D", "A")) for job in jobs]
    draft.numbers |= {k: np.array(v, dtype=np.int64) for k, v in (("submit", submit), ("start", start), ("end", end))}
    walltimes = [seconds(job.pairs.get("resources_used.walltime", "")) for job in jobs]
    # A walltime of 0 and an end later than the start: the job was killed before PBS read its usage.
    between = draft.numbers["end"] - draft.numbers["start"]
    run_time = np.array(walltimes, dtype=np.int64)
    draft.numbers["run_time"] = np.where(
        (run_time == 0) & (between > 60) & (draft.numbers["start"] != MISSING), MISSING, run_time
    )
    eligible = np.array([whole(job.pairs.get("etime", "")) for job in jobs], dtype=np.int64)
    known = (eligible > 0) & (draft.numbers["start"] >= eligible)
    draft.numbers["eligible_wait"] = np.where(known, draft.numbers["start"] - np.where(known, eligible, 0), MISSING)
    draft.put_back = np.array([job.again for job in jobs], dtype=np.bool_)


def _sizes(draft: Draft, jobs: list[_Job]) -> None:
    rows = [_sizes_of(job.pairs) for job in jobs]
    columns = ("requested_procs", "allocated_procs", "requested_nodes", "requested_time", "cpu_time",
               "requested_memory", "used_memory", "requested_job_memory", "used_job_memory", "requested_gpus",
               "allocated_gpus", "soft_walltime", "exclusive")  # fmt: skip
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        large = np.array([value > LARGEST_QUANTITY for value in values], dtype=np.bool_)
        draft.report("too-large", large, column, max(values))
        draft.numbers[column] = np.array([MISSING if value > LARGEST_QUANTITY else value for value in values], np.int64)
        if column == "requested_nodes":
            draft.report("too-large", large & (draft.numbers["start"] != MISSING), "nodes", max(values))
    draft.numbers["nodes"] = np.where(draft.numbers["start"] == MISSING, MISSING, draft.numbers["requested_nodes"])
    limited = np.array([job.pairs.get("Resource_List.walltime", "") != "" for job in jobs], dtype=np.bool_)
    draft.report("not-a-time", limited & (draft.numbers["requested_time"] == MISSING), "requested_time")


def _sizes_of(pairs: Mapping[str, str]) -> tuple[int, ...]:
    """Return processors, nodes, walltime, processor time and memory of a job, asked for and given."""
    procs_requested, nodes_requested = requested(pairs)
    procs_given = given(pairs)
    procs, used = max(procs_given, procs_requested, 1), seconds(pairs.get("resources_used.cput", ""))
    return (
        procs_requested,
        procs_given,
        nodes_requested,
        seconds(pairs.get("Resource_List.walltime", "")),
        used // procs if used != MISSING else MISSING,
        memory(pairs.get("Resource_List.mem", ""), procs),
        memory(pairs.get("resources_used.mem", ""), procs),
        memory(pairs.get("Resource_List.mem", ""), 1),
        memory(pairs.get("resources_used.mem", ""), 1),
        gpus_requested(pairs),
        gpus_given(pairs),
        seconds(pairs.get("Resource_List.soft_walltime", "")),
        _exclusive(pairs.get("Resource_List.place", "")),
    )


def gpus_requested(pairs: Mapping[str, str]) -> int:
    """Return the GPUs asked for, 0 where a job that lists its resources asks for none.

    >>> gpus_requested({"Resource_List.select": "2:ncpus=8:ngpus=2+1:ncpus=4"})
    4
    >>> gpus_requested({"Resource_List.nodes": "2:ppn=12:gpus=1"}), gpus_requested({"Resource_List.ngpus": "3"})
    (2, 3)
    """
    if (listed := whole(pairs.get("Resource_List.ngpus", ""))) >= 0:
        return listed
    for key, word in (("Resource_List.select", "ngpus"), ("Resource_List.nodes", "gpus")):
        if key in pairs:
            chunks = [(chunk, re.search(rf":{word}=(\d{{1,6}})", chunk)) for chunk in pairs[key].split("+")]
            return sum(max(whole(chunk.split(":")[0][:9]), 1) * int(found[1]) for chunk, found in chunks if found)
    return MISSING


def gpus_given(pairs: Mapping[str, str]) -> int:
    """Return the GPUs given as `exec_vnode` lists them; `MISSING` without it.

    >>> gpus_given({"exec_vnode": "(n1:ncpus=8:ngpus=2)+(n2:ncpus=4)"}), gpus_given({"exec_vnode": "(n1:ncpus=8)"})
    (2, 0)
    """
    if "exec_vnode" not in pairs:
        return MISSING
    return sum(map(int, re.findall(r"ngpus=(\d{1,6})", pairs["exec_vnode"])))


def _exclusive(place: str) -> int:
    return MISSING if not place else int(any(part in ("excl", "exclhost") for part in place.split(":")))


def _ends(draft: Draft, jobs: list[_Job]) -> None:
    codes = [exit_code(job.pairs.get("Exit_status", "")) for job in jobs]
    deleted = np.array([bool({"D", "A"} & set(job.local)) for job in jobs], dtype=np.bool_)
    ended = np.array(["E" in job.local for job in jobs], dtype=np.bool_)
    code = np.array(codes, dtype=np.int64)
    status = np.where(code == 0, COMPLETED, FAILED)
    status[deleted & (code != 0)] = CANCELLED
    draft.numbers["exit_code"] = code
    draft.numbers["status"] = np.where((ended & (code != MISSING)) | deleted, status, MISSING)
    draft.waiting = deleted & (draft.numbers["start"] == MISSING)
    matches = [_ID.fullmatch(job.word) for job in jobs]
    arrays = [int(m[1]) if m and (m[2] or m[3]) else MISSING for m in matches]
    draft.numbers["array"] = np.array(arrays, dtype=np.int64)
    runs = [whole(job.pairs.get("run_count", "") or job.pairs.get("runcount", "")) for job in jobs]
    draft.numbers["restarts"] = np.array([max(n - 1, 0) if n > 0 else MISSING for n in runs], dtype=np.int64)


def _named(texts: list[Any]) -> Names:
    places = {text: k for k, text in enumerate(dict.fromkeys(text for text in texts if text))}
    return np.array([places.get(text, MISSING) for text in texts], dtype=np.int64), tuple(places)
