"""A proposal of a map, made by looking at a table: names and values decide, and every guess is shown with examples."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, printable
from predictors.core.parquet import MAGIC
from predictors.data.formats import slurm
from predictors.data.formats._delimited import Table, header_names, in_utf8, quoted_table, without_utf16
from predictors.data.formats.columns import MISSING, span
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES
from predictors.data.formats.swf_header import SMALLEST_UNIX_TIME
from predictors.data.formats.tables.known import LUMOS_WORDS
from predictors.data.formats.tables.read import parquet_names, parquet_texts
from predictors.data.formats.tables.table_map import SECONDS, TARGETS, UNUSED
from predictors.data.formats.tables.vectors import vector_of
from predictors.data.report import ReportBuilder

LOOKED_AT: Final = 10_000  # rows from the top of a table on which guesses rest
_SHOWN: Final = 3

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "job_id": ("jobid", "jobidraw", "idjob", "jid", "jobnumber", "job", "id", "jobno", "jobuniqueid"),
        "submit": (
            "submit", "submittime", "timesubmit", "submittedtime", "submission", "submissiontime", "submitted", "adt",
            "arrival", "arrivaltime", "queuedtimestamp", "qtime", "ctime", "createtime", "queuedat", "submittimestamp",
            "creationtime", "created", "createdat",
        ),
        "eligible": ("eligible", "eligibletime", "timeeligible", "etime"),
        "start": (
            "start", "starttime", "timestart", "started", "begin", "begintime", "sdt", "starttimestamp", "startedat",
            "began", "launched", "scheduledtime", "scheduledat",
        ),
        "end": (
            "end", "endtime", "timeend", "ended", "finish", "finishtime", "finished", "edt", "endtimestamp", "endedat",
            "completed", "completiontime", "stop", "stoptime", "deletiontime", "deleted", "deletedat",
        ),
        "wait": ("wait", "waittime", "waitingtime", "queuetime", "waitseconds", "waitsec"),
        "run_time": (
            "runtime", "elapsed", "elapsedraw", "elapsedtime", "duration", "runtimeseconds", "walltimeused", "usedtime",
            "usedwalltime", "runseconds", "runtimesec", "runminutes", "runhours",
        ),
        "requested_time": (
            "timelimit", "timelimitraw", "requestedtime", "reqtime", "walltime", "wallclockreq", "reqwalltime",
            "requestedwalltime", "walltimereq", "walltimeseconds", "wallclocklimit", "limit", "elpl", "maxminutes",
            "timelimitmin", "walltimelimit", "requestedseconds", "wallclock", "timereq", "walllimit",
        ),
        "soft_walltime": ("softwalltime", "predictedruntime", "predictedtime", "predictedwalltime"),
        "requested_procs": (
            "reqcpus", "requestedprocs", "cpusreq", "processorsreq", "numcoresreq", "cnumr", "cpunum", "ncpusreq",
            "requestedcpus", "requestedcores", "corereq", "coresreq", "reqcores", "ncpus", "cpus", "cores", "procs",
            "slots", "numcpus", "numcores", "ntasks", "cpu",
        ),
        "allocated_procs": (
            "alloccpus", "cpusalloc", "allocatedprocs", "numcoresalloc", "cnumat", "allocatedcpus", "allocatedcores",
            "coresalloc", "cpusused", "coresused",
        ),
        "requested_nodes": (
            "reqnodes", "requestednodes", "nodesreq", "nodesrequested", "numnodesreq", "nnumr", "nodect", "nodenum",
            "nnodes", "nodecount", "numnodes",
        ),
        "nodes": (
            "allocnodes", "nodesalloc", "allocatednodes", "numnodesalloc", "nnuma", "nodesused", "usednodes", "nodes",
        ),
        "requested_gpus": (
            "gpusreq", "reqgpus", "requestedgpus", "gpusrequested", "numgpusreq", "gpunum", "ngpus", "gpus", "gpucount",
            "gpureq", "numgpu",
        ),
        "gpu_type": ("gputype", "gputypereq", "reqgputype"),
        "allocated_gpus": ("gpusalloc", "allocgpus", "allocatedgpus", "numgpusalloc", "gpusused", "usedgpus"),
        "requested_job_memory": ("memreq", "reqmem", "requestedmemory", "memory", "mem", "memoryreq", "mszl"),
        "used_job_memory": ("maxrss", "usedmemory", "memused", "memoryused", "mmszu", "peakmemory"),
        "exit_code": ("exitcode", "exitstatus", "ec", "returncode", "rc"),
        "restarts": ("restarts", "restartcnt", "requeues"),
        "state": (
            "state", "jobstate", "status", "newstatus", "exitstate", "jobstatus", "finalstate", "outcome", "podphase",
        ),
        "user": ("user", "userid", "username", "usr", "iduser", "owner", "uid", "login", "usergenid", "userhash"),
        "group": ("group", "groupid", "groupname", "idgroup", "gid", "unixgroup"),
        "project": (
            "account", "accountid", "project", "projectid", "accountname", "projectname", "vc", "accounthash",
            "allocation",
        ),
        "queue": ("queue", "queuename", "partition", "partitionname", "class"),
        "partition": ("cluster", "machine", "partitionid"),
        "qos": ("qos", "idqos", "qualityofservice"),
        "nice": ("nice", "nicevalue"),
        "site_factor": ("sitefactor",),
        "executable": ("jobname", "name", "jnam", "executable", "application", "app", "program", "title"),
        "directory": ("workdir", "directory", "workingdirectory", "cwd"),
        "command": ("submitline", "command", "commandline", "cmd", "script"),
        "location": ("nodelist", "nodes", "hosts", "hostlist", "exechost", "location", "allocatednodelist"),
        "constraint": ("constraint", "constraints", "features"),
        "exclusive": ("exclusive",),
        "reservation": ("reservation", "resvname", "reservationname"),
        "licenses": ("licenses", "licences"),
        "dependency": ("dependency", "dependencies", "depend"),
        "requested_tres": ("reqtres", "tresreq"),
        "allocated_tres": ("alloctres", "tresalloc"),
        "vector": ("embedding", "embeddings", "vector", "embeddingvector"),
    }
)  # fmt: skip
"""Names that a column has in tables of schedulers, small letters and digits alone, the most certain first."""

_UNIT_WORDS: Final = {
    "s": ("s", "sec", "secs", "seconds"), "min": ("min", "mins", "minutes"), "h": ("h", "hr", "hrs", "hours"),
    "d": ("d", "days"), "ms": ("ms", "msec", "millis", "milliseconds"), "us": ("us", "usec", "micros", "microseconds"),
}  # fmt: skip
_MEMORY_IN_NAME: Final = re.compile(r"(?:_|\W|^)(B|bytes|KB|KiB|MB|MiB|GB|GiB|TB)\W*$", re.IGNORECASE)
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?! *[AP]M)", re.IGNORECASE | re.ASCII)
_PATTERNS: Final = (
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M", "%Y%m%dT%H%M%S", "%Y%m%d%H%M%S", "%Y-%m-%d %H:%M", "%m/%d/%Y %H:%M",
    "%Y-%m-%d %I:%M %p", "%Y-%m-%d %I:%M:%S %p", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p",
)  # fmt: skip
_NEEDED: Final = {"submit": (), "start": ("wait",), "end": ("run_time",)}
STATE_WORDS: Final = {  # words of other programs for how a job ended, in small letters
    **LUMOS_WORDS,
    "succeeded": "completed",
    "success": "completed",
    "error": "failed",
    "canceled": "cancelled",
}
_UNSETTLED: Final = frozenset(("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING", "CONFIGURING", "RESIZING"))


@dataclass(frozen=True)
class Proposal:
    """What a column may be."""

    name: str  # the column of the table
    column: str  # what it is called in the map
    unit: str = ""  # the unit guessed; "" where values tell it, or there is none
    why: str = ""  # what the guess rests on
    examples: tuple[str, ...] = ()  # a few of its values


def propose(data: bytes, source: str) -> str:
    r"""Return the TOML of a map for a table, to be read and confirmed by a person.

    >>> print(propose(b"JobID;User;Submit;Start;End;Timelimit_min\n"
    ...               b"7;ana;1616835600;1616835660;1616839260;90\n", "jobs.csv"))  # doctest: +ELLIPSIS
    # Proposed from the first rows of jobs.csv. Confirm each line, its unit above all; then
    #     jobcast log import jobs.csv OUT.parquet --map MAP.toml
    delimiter = ";"
    # Zone of times without an offset, such as "Europe/Paris".
    time_zone = ""
    <BLANKLINE>
    [columns]
    "JobID" = "job_id"                                              # 7
    "User" = "user"                                                 # ana
    "Submit" = { column = "submit", unit = "s" }                    # 1616835600: 2021-03-27 09:00 UTC
    ...
    "Timelimit_min" = { column = "requested_time", unit = "min" }   # 90: its name says min
    <BLANKLINE>
    """
    delimiter = ","
    if not data.startswith(MAGIC):
        data = without_utf16(data, source)
        delimiter = guess_delimiter(data, source)
        _refuse_bare(data, source, delimiter)
    table = _top(data, source, delimiter)
    found = proposals(table)
    status = _status_of(table, found)
    return _toml(source, delimiter, _decimal(table, found, delimiter), found, status)


def guess_delimiter(data: bytes, source: str) -> str:
    r"""Return the letter between the fields of a text: the one that gives the same number of fields in most lines.

    >>> guess_delimiter(b"a;b,c;d\n1;2,5;3\n", "a.csv")
    ';'
    """
    lines = data[:65_536].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()[:200]
    lines = [line for line in lines[:-1] or lines if line.strip()]
    best, most = "", 0.0
    for letter in (",", ";", "\t", "|"):
        counts = [len(fields) for fields in csv.reader(io.StringIO("\n".join(lines)), delimiter=letter)]
        if counts and counts[0] > 1:
            same = sum(count == counts[0] for count in counts) / len(counts)
            if same * min(counts[0], 4) > most:
                best, most = letter, same * min(counts[0], 4)
    if not best:
        raise JobcastError(
            f"{source}: no line of names with commas, semicolons, tabs or bars between them begins this text; a table "
            "needs one."
        )
    return best


def _refuse_bare(data: bytes, source: str, delimiter: str) -> None:
    """Refuse a text in which the first line holds values in the place of names."""
    names = header_names(data.removeprefix(b"\xef\xbb\xbf"), delimiter)
    value = next((name for name in names if _is_number(name) or _DATE.match(name)), None)
    if value is not None:
        raise JobcastError(
            f"{source}:1: the first line holds values such as {printable(value)[:40]!r}; a table begins with a line of "
            "names: write one above it, or export it with its header."
        )


def _top(data: bytes, source: str, delimiter: str) -> Table:
    report = ReportBuilder(source, RULES)
    if data.startswith(MAGIC):
        table = parquet_texts(data, source, parquet_names(data))
        if not table.names:
            raise JobcastError(f"{source}: is a Parquet file without columns; a table of jobs has some.")
        return table
    text, end = data, 0
    for _ in range(LOOKED_AT + 1):
        end = text.find(b"\n", end) + 1
        if not end:
            end = len(text)
            break
    text = text[:end]
    text = in_utf8(text, report)
    return quoted_table(text, source, header_names(text.removeprefix(b"\xef\xbb\xbf"), delimiter), report, delimiter)


def proposals(table: Table) -> list[Proposal]:
    """Return what each column of a table may be, in the table's order."""
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in table.names}
    chosen: dict[str, str] = {}
    for target, synonyms in SYNONYMS.items():
        ranked = sorted(
            (rank, place, name)
            for place, name in enumerate(table.names)
            if name not in chosen and (rank := _rank(name, plain[name], synonyms)) < len(synonyms)
        )
        for _, _, name in ranked:
            if _may_be(_known(table, name), target):
                chosen[name] = target
                break
    by_values = _by_values(table, chosen)
    seconds = _seconds(table, chosen | by_values)
    by_values |= _by_run_times(table, chosen | by_values, seconds)
    return [
        _proposal(table, name, (chosen | by_values).get(name, UNUSED), seconds, name in by_values)
        for name in table.names
        if name
    ]


def _by_values(table: Table, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what columns of unknown names are by their values: states, points in time by their order, ids."""
    found: dict[str, str] = {}
    taken = set(chosen.values())
    free = {name: texts for name in table.names if name and name not in chosen and (texts := _known(table, name))}
    for name, texts in free.items():
        if "state" not in taken and sum(_is_state(text) for text in texts[:500]) >= 0.9 * len(texts[:500]):
            found[name] = "state"
            taken.add("state")
    times = [name for name, texts in free.items() if name not in found and _is_time(texts)]
    times = [name for name in times if not _is_number(free[name][0])] or times  # numbers only where there are no dates
    lacking = [target for target in ("submit", "start", "end") if target not in taken]
    if 0 < len(lacking) == len(times) or (len(lacking) == 3 and len(times) == 4):
        order = _in_order(table, times)
        targets = lacking if len(times) == len(lacking) else ["submit", "eligible", "start", "end"]
        known = {target: name for name, target in chosen.items()} | dict(zip(targets, order, strict=False))
        in_time = [known[target] for target in ("submit", "eligible", "start", "end") if target in known]
        if order and _in_order(table, in_time) == in_time:
            found |= dict(zip(order, targets, strict=True))
    if "job_id" not in taken:
        others = [name for name in table.names if name and chosen.get(name, "executable") == "executable"]
        for name in others:
            texts = _known(table, name)
            distinct = len(set(texts)) == len(texts) == min(len(table), LOOKED_AT) > 1
            if distinct and name not in found and not _is_time(texts) and not any("." in text for text in texts[:100]):
                found[name] = "job_id"
                break
    return found


def _is_state(text: str) -> bool:
    return slurm.state_of(text) in slurm.STATES or text.strip().lower() in STATE_WORDS


def _is_time(texts: Sequence[str]) -> bool:
    if all(_is_number(text) for text in texts[:200]):
        parts = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[_time_unit(texts)]
        return bool(SMALLEST_UNIX_TIME <= float(np.median(_floats(texts[:200]))) / parts < 1e10)
    return bool(_DATE.match(texts[0])) or bool(_pattern(texts[:20]))


def _in_order(table: Table, names: Sequence[str]) -> list[str]:
    """Return columns of points in time from the earliest to the latest, if 99 of 100 rows agree; else none."""
    seconds = {name: _instants(table.columns[name.lower()].slice(0, LOOKED_AT).to_pylist()) for name in names}
    known = [values[np.isfinite(values)] for values in seconds.values()]
    if not known or not all(map(len, known)):
        return []
    order = sorted(names, key=lambda name: float(np.nanmean(seconds[name])))
    for one, then in pairwise(order):
        with np.errstate(invalid="ignore"):
            between = seconds[then] - seconds[one]
        between = between[np.isfinite(between)]
        if not len(between) or (between < 0).mean() > 0.01:
            return []
    return order


def _by_run_times(table: Table, chosen: Mapping[str, str], seconds: Floats) -> dict[str, str]:
    """Return which column of an unknown name holds run times: end - start, in one unit, in 9 of 10 rows."""
    if "run_time" in chosen.values() or not len(seconds):
        return {}
    by = {target: name for name, target in chosen.items()}
    start, end = (_instants(table.columns[by[t].lower()].slice(0, LOOKED_AT).to_pylist()) for t in ("start", "end"))
    with np.errstate(invalid="ignore"):
        run = end - start
    for name in table.names:
        texts = table.columns[name.lower()].slice(0, LOOKED_AT).to_pylist() if name and name not in chosen else []
        values = np.array([float(t.replace(",", ".")) if _is_number(t) else np.nan for t in texts])
        if not np.isfinite(values).any():
            continue
        for unit in SECONDS.values():
            off = np.abs(values * unit - run)[(run > 0) & np.isfinite(values)]
            if len(off) and (off <= 1 + unit / 2).mean() >= 0.9 and unit / 2 < np.median(run[run > 0]):
                return {name: "run_time"}
    return {}


def _rank(name: str, plain: str, synonyms: Sequence[str]) -> int:
    bare = re.sub(
        r"(seconds|secs|sec|minutes|mins|min|hours|hrs|millis|milli|ms|us|bytes|kb|mb|gb|kib|mib|gib|unix|epoch|utc)$",
        "",
        plain,
    )
    return next((rank for rank, word in enumerate(synonyms) if word in (plain, bare)), len(synonyms))


def _known(table: Table, name: str) -> list[str]:
    values = table.columns[name.lower()].slice(0, LOOKED_AT).to_pylist()
    return [text for text in values if text and text not in ("Unknown", "None", "NULL", "nan", "N/A", "-1")]


def _may_be(texts: list[str], target: str) -> bool:
    """Return whether most values can be those of a column of the job log."""
    kind = TARGETS[target]
    if not texts:
        return kind in ("name", "list")
    sample = texts[:500]
    if kind == "time":
        fitting = sum(bool(_DATE.match(text)) or _is_number(text) or bool(_pattern([text])) for text in sample)
    elif kind in ("span", "count", "number"):
        fitting = sum(_is_number(text) or (kind == "span" and _is_clock(text)) for text in sample)
    elif kind == "memory":
        fitting = sum(_is_number(text) or slurm.memory(text) is not None for text in sample)
    elif target == "location":  # names of nodes, not how many
        fitting = sum(not _is_number(text) for text in sample)
    elif kind == "list":
        fitting = sum("=" in text for text in sample)
    elif kind == "vector":
        fitting = sum(len(vector_of(text)) > 1 for text in sample)
    else:
        return True
    return fitting >= 0.5 * len(sample)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+([.,]\d*)?([eE][+-]?\d+)?\s*", text) is not None


def _is_clock(text: str) -> bool:
    return span(text) is not None or text in slurm.NO_LIMIT


def _floats(texts: Sequence[str]) -> Floats:
    return np.array([float(text.replace(",", ".")) for text in texts if _is_number(text)], dtype=np.float64)


def _pattern(texts: Sequence[str]) -> str:
    """Return the pattern that all of some texts follow, "" if there is none."""
    return next((pattern for pattern in _PATTERNS if None not in _by_pattern(list(texts), pattern)), "")


def _time_unit(texts: Sequence[str]) -> str:
    if all(_is_number(text) for text in texts[:200]) and len(texts):
        typical = float(np.median(_floats(texts[:200])))
        return next((unit for unit, least in (("ns", 1e17), ("us", 1e14), ("ms", 1e11)) if typical >= least), "s")
    if texts and not _DATE.match(texts[0]):
        return _pattern(texts[:20])
    return ""


def _seconds(table: Table, chosen: Mapping[str, str]) -> Floats:
    """Return run times [s] by start and end where both are numbers or dates; empty if not."""
    by = {target: name for name, target in chosen.items()}
    found = []
    for target in ("start", "end"):
        if target not in by:
            return np.empty(0)
        column = table.columns[by[target].lower()].slice(0, LOOKED_AT).to_pylist()
        found.append(_instants(column))
    with np.errstate(invalid="ignore"):  # numbers beyond all floats
        between = found[1] - found[0]
    return between[np.isfinite(between) & (between > 0)]


def _instants(texts: list[str]) -> Floats:
    """Return points in time as seconds on one clock, NaN where unknown."""
    unit = _time_unit([text for text in texts if text][:200])
    if "%" in unit:
        read = _by_pattern(texts, unit)
        return np.array([np.nan if second is None else float(second) for second in read])
    parts = {"ns": 1e9, "us": 1e6, "ms": 1e3}.get(unit, 1.0)
    return np.array([_instant(text, parts) for text in texts])


def _by_pattern(texts: list[str], pattern: str) -> list[int | None]:
    import pyarrow as pa
    from pyarrow import compute as pc

    stamps = pc.strptime(pa.array(texts), format=pattern, unit="s", error_is_null=True)
    seconds: list[int | None] = stamps.cast(pa.int64()).to_pylist()
    return seconds


def _instant(text: str, parts: float) -> float:
    if _is_number(text):
        return float(text.replace(",", ".")) / parts
    if found := _DATE.match(text):
        try:
            return float(np.datetime64(f"{found[1]}T{found[2]}", "s").astype(np.int64))
        except ValueError:  # a month 13
            return float("nan")
    return float("nan")


def _proposal(table: Table, name: str, column: str, seconds: Floats, by_values: bool) -> Proposal:
    texts = _known(table, name)
    examples = tuple(dict.fromkeys(texts[:200]))[:_SHOWN]
    kind = TARGETS[column]
    unit, why = "", ""
    if kind == "time":
        unit = _time_unit(texts)
        if unit in ("s", "ms", "us", "ns"):
            parts = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
            typical = _floats(texts[:1])[0] / parts
            why = "no dates"
            if SMALLEST_UNIX_TIME <= typical < 1e11:
                why = f"{np.datetime64(int(typical), 's')!s}"[:16].replace("T", " ") + " UTC"
    elif kind == "span" and texts and not any(":" in text for text in texts[:200]):
        unit, why = _span_unit(name, column, _floats(texts), seconds)
    elif kind == "memory" and texts:
        unit, why = _memory_unit(name, texts)
    elif kind == "count" and name.lower().endswith("milli"):
        unit, why = "milli", "its name says milli"
    elif kind == "unused":
        why = "looks like a time" if texts and (_DATE.match(texts[0]) or _pattern(texts[:5])) else ""
    if by_values:
        why = "by its values" + (f"; {why}" if why else "")
    return Proposal(name, column, unit, why, examples)


def _span_unit(name: str, column: str, values: Floats, seconds: Floats) -> tuple[str, str]:
    words = [word.lower() for word in re.split(r"[_\W]+|(?<=[a-z])(?=[A-Z])", name) if word]
    for unit, known in _UNIT_WORDS.items():
        if len(words) > 1 and words[-1] in known:
            return unit, f"its name says {unit}"
    if not len(values) or not len(seconds):
        return ("min", "as Slurm's") if "timelimitraw" in name.lower().replace("_", "") else ("s", "a guess")
    typical, run = float(np.median(values[values > 0])) if (values > 0).any() else 1.0, float(np.median(seconds))
    for unit in ("s", "min", "h", "d", "ms", "us"):
        if column == "run_time" and 0.5 < typical * SECONDS[unit] / run < 2:
            return unit, "agrees with end - start"
        if column != "run_time" and unit in ("s", "min", "h", "d"):
            low = float(np.quantile(seconds, 0.9)) <= 1.1 * float(np.quantile(values, 0.99)) * SECONDS[unit]
            if low and run <= 1.1 * typical * SECONDS[unit] + 60:
                return unit, "the smallest unit that holds the run times"
    return "s", "a guess"


def _memory_unit(name: str, texts: list[str]) -> tuple[str, str]:
    if not all(_is_number(text) for text in texts[:200]):
        return "slurm", "with K, M, G or T"
    if found := _MEMORY_IN_NAME.search(name):
        unit = found[1].upper().replace("IB", "B").replace("BYTES", "B")
        return unit, f"its name says {unit}"
    typical = float(np.median(_floats(texts)))
    unit = next((u for u, least in (("B", 5e8), ("KB", 5e5), ("MB", 300.0)) if typical >= least), "GB")
    return unit, "guessed from its size"


def _decimal(table: Table, found: Sequence[Proposal], delimiter: str) -> str:
    numeric = [one.name for one in found if TARGETS[one.column] in ("memory", "span", "time")]
    texts = [text for name in numeric for text in _known(table, name)[:200]]
    return "," if delimiter != "," and any(re.fullmatch(r"\d+,\d+", text) for text in texts) else "."


def _status_of(table: Table, found: Sequence[Proposal]) -> dict[str, str]:
    """Return how jobs ended by the words of the state."""
    name = next((one.name for one in found if one.column == "state"), None)
    if name is None:
        return {}
    words = dict.fromkeys(text.strip() for text in _known(table, name))
    meaning = {COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled"}
    status = dict[str, str]()
    for word in list(words)[:50]:
        word = slurm.without_user(word)
        bare = slurm.state_of(word)
        if bare in _UNSETTLED:
            status[word] = "unended"
        elif how := meaning.get(slurm.STATES.get(bare, MISSING), STATE_WORDS.get(word.lower())):
            status[word] = how
    return status


def _toml(source: str, delimiter: str, decimal: str, found: Sequence[Proposal], status: Mapping[str, str]) -> str:
    lines = [
        f"# Proposed from the first rows of {printable(source)}. Confirm each line, its unit above all; then",
        f"#     jobcast log import {printable(source)} OUT.parquet --map MAP.toml",
        f"delimiter = {json.dumps(delimiter)}",
    ]
    lines += [f'decimal = "{decimal}"'] if decimal != "." else []
    lines += ['# Zone of times without an offset, such as "Europe/Paris".', 'time_zone = ""', "", "[columns]"]
    left = [_entry(one) for one in found]
    width = min(max(map(len, left), default=0), 70)
    for one, entry in zip(found, left, strict=True):
        shown = ", ".join(printable(text)[:30] for text in one.examples) or "no values"
        shown = shown.split(", ")[0] if one.unit and one.why else shown
        lines.append(f"{entry:<{width}}   # {shown}{': ' + one.why if one.why else ''}")
    named = {one.column for one in found}
    lacking = [word for word, others in _NEEDED.items() if not named & {word, *others}]
    if lacking:
        lines += ["", f"# No column was recognised as {', '.join(lacking)}: a log needs it. Name one above."]
    if status:
        lines += ["", "[status]", *(f"{_text(word)} = {_text(what)}" for word, what in status.items())]
    return "\n".join(lines) + "\n"


def _entry(one: Proposal) -> str:
    what = f'{{ column = "{one.column}", unit = "{one.unit}" }}' if one.unit else f'"{one.column}"'
    return f"{_text(one.name)} = {what}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
