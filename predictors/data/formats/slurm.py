"""Slurm's records as `sacct --parsable2` writes them, with or without a header.

The fields are those of sacct(1); `jobcast` reads those of `ALIASES` by name, in any order. Best exported with
`SLURM_TIME_FORMAT=%s`, so that times are Unix time.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError
from predictors.data.formats._delimited import Table, bar_delimited_table, header_names
from predictors.data.formats.columns import MISSING, Names, by_name, matches, names, numbers, spans_of
from predictors.data.formats.parquet import row_array, text_array
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, clocked, finish
from predictors.data.joblog import NODES_OF_USER, OWN_NODES, JobLog
from predictors.data.report import ReadingReport, ReportBuilder

STATES: Final[Mapping[str, int]] = MappingProxyType(  # SWF's status of each state; `MISSING` where a job has not ended
    {
        "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "FAILED": FAILED, "TIMEOUT": FAILED, "OUT_OF_MEMORY": FAILED,
        "NODE_FAIL": FAILED, "BOOT_FAIL": FAILED, "LAUNCH_FAILED": FAILED, "DEADLINE": FAILED, "PREEMPTED": FAILED,
        "REVOKED": CANCELLED, "REQUEUED": MISSING, "REQUEUE_HOLD": MISSING, "REQUEUED_HOLD": MISSING,
        "RESV_DEL_HOLD": MISSING, "REQUEUE_FED": MISSING, "RESIZING": MISSING, "PENDING": MISSING,
        "CONFIGURING": MISSING, "RUNNING": MISSING, "COMPLETING": MISSING, "STAGE_OUT": MISSING, "SIGNALING": MISSING,
        "SUSPENDED": MISSING, "STOPPED": MISSING, "SPECIAL_EXIT": FAILED,
    }
)  # fmt: skip

PUT_BACK: Final = frozenset(  # states in which a job may go back into the queue, and did if a later record follows
    ("REQUEUED", "REQUEUE_HOLD", "REQUEUED_HOLD", "REQUEUE_FED", "RESIZING", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")
)

_SHORT: Final = MappingProxyType(
    {"CA": "CANCELLED", "CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT", "OOM": "OUT_OF_MEMORY"}
)
_JOB: Final = re.compile(r"([0-9]{1,18})(?:_([0-9]+|\[[^\]]*\].*)|\+([0-9]+))?(?:\.(.+))?")
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?([cn]?)", re.IGNORECASE)
_KILOBYTES: Final = MappingProxyType(
    {"": 1024.0, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}
)
_OF_A_PROCESSOR: Final = 2.0**31 * 1024
_EXIT: Final = re.compile(r"([0-9]{1,9})(?::([0-9]{0,9}))?")
_SIGNAL: Final = 128


def state_of(text: str) -> str:
    """Return the bare state of a job.

    >>> [state_of(text) for text in ("CANCELLED by 1004", "COMPLETED", "CANCELLED+", "TO")]
    ['CANCELLED', 'COMPLETED', 'CANCELLED', 'TIMEOUT']
    """
    word = text.split(" ")[0].rstrip("+").upper()
    if word in STATES:
        return word
    begun = [state for state in STATES if len(word) > 3 and state.startswith(word)]
    return begun[0] if len(begun) == 1 else _SHORT.get(word, word)


def without_user(text: str) -> str:
    """Return the text of a state without who cancelled the job; a text that is no state of Slurm's as it is.

    >>> without_user("CANCELLED by 1004"), without_user("Cancelled by ana"), without_user("Stopped by hand")
    ('CANCELLED', 'Cancelled', 'Stopped by hand')
    """
    word, by, _ = text.partition(" by ")
    return word if by and state_of(word) == "CANCELLED" else text


def array_of(job: str) -> int:
    """Return the number of the array that a job id such as `12_3` belongs to, `MISSING` if none."""
    match = _JOB.fullmatch(job)
    return int(match[1]) if match and match[2] is not None else MISSING


def members(job: str) -> int:
    """Return how many jobs a record stands for: several for an array with members that still wait, `12_[1-50%10]`.

    >>> [members(job) for job in ("12", "12_3", "12_[1-50%10]", "12_[1,3,7-9]", "12_[0-10:5]")]
    [1, 1, 50, 5, 3]
    """
    match = _JOB.fullmatch(job)
    if not match or not match[2] or not match[2].startswith("["):
        return 1
    total = 0
    for part in match[2][1:].split("]")[0].split("%")[0].split(","):
        found = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?", part)
        if found:
            first, last = int(found[1]), int(found[2] or found[1])
            total += max(last - first, 0) // max(int(found[3] or 1), 1) + 1
    return max(total, 1)


def job_keys(ids: list[str], words: list[str]) -> list[str]:
    """Return what identifies each job: its id; where tasks of an array share one, the array's id and the task.

    >>> job_keys(["12", "12", "14", "14"], ["12_1", "12_2", "12_3", "12_3"])
    ['12_1', '12_2', '14', '14']
    """
    if len(set(ids)) == len(ids):
        return ids
    tasks: dict[str, set[str]] = {}
    for own, word in zip(ids, words, strict=True):
        if _is_task(word):
            tasks.setdefault(own, set()).add(word)
    return [
        word if len(tasks.get(own, ())) > 1 and _is_task(word) else own for own, word in zip(ids, words, strict=True)
    ]


def _is_task(word: str) -> bool:
    return "_" in word and "[" not in word


def exit_code(text: str) -> int:
    """Return the exit code in sacct's `code:signal`; 128 + signal where a signal ended the job.

    >>> exit_code("3:0"), exit_code("0:11")
    (3, 139)
    """
    match = _EXIT.fullmatch(text)
    if match is None:
        return MISSING
    code, signal = int(match[1]), int(match[2] or 0)
    return _SIGNAL + signal if signal else code


def memory(text: str) -> tuple[float, str] | None:
    """Return the memory [KB] in sacct's `ReqMem`, and what it is for; None if it cannot be read.

    `c` at the end means each processor, `n` each node; no letter, as from Slurm 21.08 on, means the whole job. A number
    without K, M, G, T or P counts megabytes. Some releases write memory of a processor with the flag that marks it in
    their database: 2^31 megabytes more, and an `n`.

    >>> [memory(text) for text in ("2Gc", "16000Mn", "512K", "7", "?", "2147486448Mn")]
    [(2097152.0, 'c'), (16384000.0, 'n'), (512.0, ''), (7168.0, ''), None, (2867200.0, 'c')]
    """
    match = _MEMORY.fullmatch(text.removesuffix("?"))
    if match is None:
        return None
    kilobytes = float(match[1]) * _KILOBYTES[match[2].upper()]
    if match[3].lower() == "n" and kilobytes >= _OF_A_PROCESSOR:
        return kilobytes - _OF_A_PROCESSOR, "c"
    return kilobytes, match[3].lower()


_TRES: Final = re.compile(r"([a-z_]+(?:/[^=,:]+)?)(?::([^=,]+))?=(\d+(?:\.\d+)?)([KMGTP]?)", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"(?:\d+=\d+(?:,|$))+")


def gpus_of(text: str) -> int:
    """Return the GPUs in Slurm's list of trackable resources; `MISSING` if the text is no such list.

    A job with a list that names no GPU has none. The sum over all types counts, else the types are added up. In the
    numbers of Slurm's database GPUs are 1001 or, where each type has its number, 1002.

    >>> gpus_of("billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=32G,node=1"), gpus_of("cpu=8,gres/gpu:h100=4")
    (2, 4)
    >>> gpus_of("1=8,2=32000,4=1,1001=2"), gpus_of("cpu=8,mem=32G"), gpus_of("")
    (2, 0, -9223372036854775808)
    """
    if numbered := _numbered(text):
        return numbered.get("1001", numbered.get("1002", 0))
    found = [(kind.lower(), sort, int(float(count))) for kind, sort, count, _ in _TRES.findall(text)]
    if not found:
        return MISSING
    whole = [count for kind, sort, count in found if kind == "gres/gpu" and not sort]
    return whole[0] if whole else sum(count for kind, _, count in found if kind == "gres/gpu")


_GPUS: Final = re.compile(r"(?:^|,)\s*(?:gres[/:])?gpu:([^\s,:=(]+)([:=]?)")
_COUNTED: Final = re.compile(r"\d+[KMGTP]?", re.IGNORECASE)


def gpu_type_of(text: str) -> str:
    """Return the types of GPUs in Slurm's list of trackable resources, or of `--gres`, with commas between them.

    >>> gpu_type_of("cpu=8,gres/gpu:h100=2,gres/gpu=3,gres/gpu:a100=1"), gpu_type_of("cpu=8,gres/gpu=2")
    ('a100,h100', '')
    >>> [gpu_type_of(text) for text in ("gpu:a100:2,shard:1", "gpu:2", "gpu:1080:2", "gres/gpu:1g.5gb:2(S:0)")]
    ['a100', '', '1080', '1g.5gb']
    """
    return ",".join(sorted({kind for kind, more in _GPUS.findall(text) if more or not _COUNTED.fullmatch(kind)}))


def _numbered(text: str) -> dict[str, int]:
    """Return a list of resources in the numbers of Slurm's database; {} if the text is none."""
    bare = text.strip("\"' ")
    if _NUMBERED.fullmatch(bare) is None or len(bare) > 400:
        return {}
    return {number: int(count) for number, _, count in (one.partition("=") for one in bare.strip(",").split(","))}


def memory_of(text: str) -> int:
    """Return the memory of the whole job [KB] in Slurm's list of trackable resources, `MISSING` if it names none.

    >>> memory_of("billing=8,cpu=8,mem=32G,node=1"), memory_of("1=8,2=32000,4=1"), memory_of("cpu=8")
    (33554432, 32768000, -9223372036854775808)
    """
    if numbered := _numbered(text):
        return numbered["2"] * 1024 if "2" in numbered else MISSING
    for kind, _, count, suffix in _TRES.findall(text):
        if kind.lower() == "mem":
            return int(min(float(count) * _KILOBYTES[suffix.upper() or "M"], 2.0**53))
    return MISSING


ALONE: Final = frozenset(  # long options of sbatch, salloc and srun without a value of their own in the next word
    (
        "bell", "contiguous", "disable-status", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "immediate",
        "kill-on-bad-exit", "label", "multi-prog", "nice", "no-allocate", "no-bell", "no-kill", "no-requeue",
        "no-shell", "oversubscribe", "overcommit", "parsable", "preserve-env", "propagate", "pty", "quiet", "reboot",
        "requeue", "spread-job", "test-only", "unbuffered", "usage", "use-min-nodes", "verbose", "version", "wait",
        "x11",
    )
)  # fmt: skip
ALONE_SHORT: Final = frozenset("EHIkKlOQRsuvVWXZ")
_BUNDLED: Final = "EHlOQsuvX"  # letters that never have a value, so that others may follow in one word
_WANTED: Final = MappingProxyType(
    {
        **{name: name for name in ("dependency", "exclusive", "constraint", "licenses", "reservation")},
        "d": "dependency",
        "C": "constraint",
        "L": "licenses",
        **dict.fromkeys(("gres", "tres-per-task"), "gres"),
        **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "G"), "gpus"),
    }
)


def submit_options(line: str) -> dict[str, str]:
    """Return what a submit line asks for by dependency, exclusive, constraint, licenses, reservation, gres and gpus.

    Only options before the script count: those after it are the script's own. Directives within the script are not in
    a submit line.

    >>> submit_options("sbatch -N 2 --exclusive -d afterok:12:13 -C h100 job.sh --exclusive=no")
    {'exclusive': '', 'dependency': 'afterok:12:13', 'constraint': 'h100'}
    """
    options, _ = split_options(words_of(line)[1:])
    return {_WANTED[name]: value.strip("\"'") for name, value in options if name in _WANTED}


def split_options(
    words: Sequence[str],  # the line's words after the command's own name
    alone: Set[str] = ALONE,  # alone, short: long names and letters without a value in the next word
    short: Set[str] = ALONE_SHORT,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options of sbatch, salloc or srun with their values, and the words from the script or program on.

    >>> split_options(["-N2", "--mem", "4G", "--exclusive", "job.sh", "-x"])
    ([('N', '2'), ('mem', '4G'), ('exclusive', '')], ['job.sh', '-x'])
    """
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        if word.startswith("--"):
            name, joined, value = word[2:].partition("=")
            single = bool(joined) or name in alone
        else:
            letters = word[1:].lstrip(_BUNDLED) or word[-1]
            name, value = letters[:1], letters[1:].removeprefix("=")
            single = bool(value) or name in short
        if not single and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
            value = words[at]
        found.append((name, value))
        at += 1
    return found, list(words[at:])


def words_of(line: str) -> list[str]:
    """Return the words of a line as a shell splits them; at blanks alone where a quote has no end."""
    if "'" in line or '"' in line or "\\" in line:
        try:
            return shlex.split(line)
        except ValueError:
            pass
    return line.split()


def dependency_of(text: str) -> tuple[str, str]:
    """Return the kinds of a dependency, and the ids of the jobs that it names; "" where there are none.

    >>> dependency_of("afterok:12:13,afterany:14_3"), dependency_of("after:20+5"), dependency_of("singleton")
    (('afterany,afterok', '12:13:14_3'), ('after', '20'), ('singleton', ''))
    """
    kinds, parents = set[str](), dict[str, None]()
    for part in re.split(r"[,?]", text):
        kind, *ids = part.strip().split(":")
        if kind.isalpha():
            kinds.add(kind.lower())
            if kind.lower() == "on":  # PBS: so many others will name this job
                continue
            parents |= dict.fromkeys(one for own in ids if (one := re.split(r"[+(.@]", own)[0]))
    return ",".join(sorted(kinds)), ":".join(parents)


def unknown_states(states: Iterable[str]) -> list[str]:
    """Return the states that this table does not know."""
    return sorted({state for state in states if state and state not in STATES})


ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # sacct's names for a log's columns, the better first
    {
        "id": ("JobIDRaw", "JobID"),
        "word": ("JobID", "JobIDRaw"),
        "submit": ("Submit",),
        "eligible": ("Eligible",),
        "start": ("Start",),
        "end": ("End",),
        "run_time": ("ElapsedRaw", "Elapsed"),
        "requested_time": ("TimelimitRaw", "Timelimit"),
        "requested_procs": ("ReqCPUS",),
        "allocated_procs": ("AllocCPUS", "NCPUS"),
        "requested_nodes": ("ReqNodes",),
        "nodes": ("AllocNodes", "NNodes"),
        "memory": ("ReqMem",),
        "cpu_time": ("TotalCPU",),
        "state": ("State",),
        "exit_code": ("ExitCode",),
        "user": ("User",),
        "group": ("Group", "Account"),
        "project": ("Account",),
        "queue": ("Partition",),
        "qos": ("QOS",),
        "executable": ("JobName",),
        "directory": ("WorkDir",),
        "command": ("SubmitLine",),
        "location": ("NodeList",),
        "restarts": ("Restarts",),
        "requested_tres": ("ReqTRES",),
        "allocated_tres": ("AllocTRES",),
        "constraint": ("Constraints",),
        "reservation": ("Reservation",),
        "licenses": ("Licenses",),
        "dependency": ("Dependency",),
    }
)

_FREE: Final = ("jobname", "submitline", "comment", "admincomment", "systemcomment", "reason", "extra")
_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{9,11}|Unknown|None|"
_SPAN: Final = r"[\d:.-]*|UNLIMITED|Partition_Limit|INVALID"
_TYPED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("jobid", "jobidraw"), r"\d[^|\n]*"),
        **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
        **dict.fromkeys(("elapsed", "elapsedraw", "timelimit", "timelimitraw", "totalcpu", "cputimeraw"), _SPAN),
        **dict.fromkeys(("reqnodes", "allocnodes", "nnodes", "reqcpus", "alloccpus", "ncpus"), r"\d*[KMG]?"),
        "workdir": r"/[^|\n]*|",
        "state": r"[A-Z_]+\+?(?: by \d+)?",
        "exitcode": r"\d*(?::\d*)?",
    }
)
XDMOD: Final = (  # the fields of the files that sites keep for XDMoD, which have no header
    "jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid", "submit", "eligible",
    "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus", "reqmem", "reqtres", "alloctres",
    "timelimit", "nodelist", "jobname",
)  # fmt: skip
NO_LIMIT: Final = frozenset(("UNLIMITED", "Partition_Limit", "INVALID"))  # words for a job without a time limit
_MARKS: Final = frozenset(
    ("submit", "start", "end", "state", "elapsed", "elapsedraw", "user", "timelimit", "timelimitraw")
)
_BARE: Final = re.compile(
    r"\|".join("(?:.*)" if name in _FREE else f"(?:{_TYPED.get(name, '[^|]*')})" for name in XDMOD)
)
_SUFFIXED: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?[KMG]")
_SUFFIXES: Final = MappingProxyType({"K": 1_000, "M": 1_000_000, "G": 1_000_000_000})


def is_sacct(data: bytes) -> bool:
    """Return whether a text begins with names of sacct's between bars."""
    header = {name.lower() for name in header_names(data[:20_000], "|")}
    return bool(header & {"jobid", "jobidraw"}) and bool(header & _MARKS)


def is_bare_sacct(data: bytes) -> bool:
    """Return whether the first lines of a text hold the fields of `XDMOD` and no header."""
    lines = [line.rstrip("\r") for line in data[:20_000].decode("utf-8", "replace").removeprefix("\ufeff").split("\n")]
    lines = [line for line in lines[:-1] or lines if line][:20]
    fitting = [_BARE.fullmatch(line) is not None for line in lines]
    return bool(lines) and fitting[0] and sum(fitting) > len(lines) / 2


def parse_sacct(
    data: bytes, source: str, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return the job log that sacct's text holds, and the account.

    Parameters
    ----------
    time_zone : str, optional
        IANA name of the zone of the clock that wrote local times; without it they are taken as UTC.
    """
    ledger = ReportBuilder(source, RULES)
    bare = XDMOD if is_bare_sacct(data) else ()
    if not bare and header_names(data, "|")[-1] == "":  # --parsable ends every line in a bar
        raise JobcastError(f"{source}: its lines end in a bar; export it with sacct --parsable2, not --parsable.")
    if bare:
        ledger.note("columns", f"no header; the {len(bare)} fields are those that XDMoD keeps")
    table = bar_delimited_table(
        data, source, [a for aliases in ALIASES.values() for a in aliases], _FREE, _TYPED, ledger, bare
    )
    need = {"id": "JobID", "submit": "Submit", "start": "Start", "end": "End", "state": "State"}
    missing = [name for key, name in need.items() if table.first(ALIASES[key]) is None]
    if missing:
        raise JobcastError(
            f"{source}: lacks the column {', '.join(missing)} (it has {', '.join(table.names[:8])}); export it with "
            "sacct --parsable2 --format=JobIDRaw,JobID,User,Account,Partition,AllocCPUS,ReqCPUS,TimelimitRaw,Submit,"
            "Eligible,Start,End,ElapsedRaw,State,ExitCode,…"
        )
    draft = _draft(table, source, ledger, time_zone)
    ledger.note_unused(table.names, [name for aliases in ALIASES.values() if (name := table.first(aliases))])
    return finish(draft, log_name(source), strict, time_zone=time_zone)


def _draft(table: Table, source: str, ledger: ReportBuilder, time_zone: str | None) -> Draft:
    column = table.columns[table.first(ALIASES["word"]) or ""]
    words = column.to_pylist()
    jobs = ~matches(column, r"\.")
    ledger.add("step", table.places(np.flatnonzero(~jobs)))
    rows = np.flatnonzero(jobs)
    if not jobs.all():
        kept = row_array(rows)
        table = Table(table.names, {c: v.take(kept) for c, v in table.columns.items()}, _moved(table, rows))
        words = [word for word, is_job in zip(words, jobs.tolist(), strict=True) if is_job]
    raw = table.columns[table.first(ALIASES["id"]) or ""]
    same = raw.equals(table.columns[table.first(ALIASES["word"]) or ""])
    ids = words if same else job_keys(raw.to_pylist(), words)
    draft = Draft(source, ids, table.places, ledger)
    fill(draft, table, words, time_zone)
    return draft


def _moved(table: Table, rows: Ints) -> Callable[[Ints], Ints]:
    places = table.places
    return lambda picked: places(rows[picked])


def fill(draft: Draft, table: Table, words: list[str], time_zone: str | None) -> None:
    column = {key: table.columns[found] for key, aliases in ALIASES.items() if (found := table.first(aliases))}
    states = names(column["state"])
    odd = unknown_states(map(state_of, states[1]))
    if odd:
        draft.ledger.note("columns", f"states that Slurm's manual does not name: {', '.join(odd)[:80]}")
    draft.numbers["status"] = by_name(states, lambda text: STATES.get(state_of(text), MISSING), MISSING)
    times: dict[str, Any] = {key: column[key] for key in ("submit", "eligible", "start", "end") if key in column}
    clock = clocked(times, draft, time_zone)
    draft.numbers |= {key: clock[key] for key in ("submit", "start", "end")}
    ended = draft.numbers["end"] != MISSING
    draft.put_back = by_name(states, lambda text: state_of(text) in PUT_BACK, unknown=False)
    draft.tells_requeues = True
    never = (draft.numbers["start"] == MISSING) | (draft.numbers["start"] == 0)
    draft.waiting = ended & never & (draft.numbers["status"] == CANCELLED)
    _quantities(draft, column, ended)
    if "eligible" in clock:
        draft.numbers["eligible_wait"] = eligible_wait(clock["eligible"], draft.numbers["start"])
    in_array = [row for row, word in enumerate(words) if "_" in word]
    draft.numbers["array"] = np.full(len(words), MISSING, dtype=np.int64)
    draft.numbers["array"][in_array] = [array_of(words[row]) for row in in_array]
    components = [row for row, word in enumerate(words) if "+" in word]
    draft.report("component", np.array(components, dtype=np.int64), "", words[components[0]] if components else "")
    waiting = [row for row in in_array if members(words[row]) > 1]
    draft.report("array-itself", np.array(waiting, dtype=np.int64), "array", words[waiting[0]] if waiting else "")
    for key in ("user", "group", "project", "queue", "qos", "executable", "directory", "command", "location",
                "constraint", "reservation", "licenses"):  # fmt: skip
        if key in column:
            draft.names[key] = names(column[key])
    _asked_for(draft, column)
    distinct = tuple(dict.fromkeys(map(state_of, states[1])))  # without the user who cancelled
    draft.names["state"] = by_name(states, lambda text: distinct.index(state_of(text)), MISSING), distinct
    if "user" in draft.names:
        cut = by_name(draft.names["user"], lambda name: name.endswith("+"), unknown=False)
        draft.report("truncated-name", cut, "user")


def _asked_for(draft: Draft, column: Mapping[str, Any]) -> None:
    """Fill in dependencies, whole nodes and, where no column tells them, constraint, licences, reservation, GPU types.

    A submit line says what it asks for; what it does not say may stand in the script, and is unknown.
    """
    if "dependency" in column:
        draft.names |= dependencies(names(column["dependency"]))
    if "command" not in draft.names:
        return
    lines, texts = draft.names["command"]
    asked = [submit_options(text) for text in texts]
    kinds = {None: MISSING, "user": NODES_OF_USER}
    keeps = [kinds.get(one["exclusive"].lower() if "exclusive" in one else None, OWN_NODES) for one in asked]
    draft.numbers["exclusive"] = np.array([*keeps, MISSING], dtype=np.int64)[np.where(lines == MISSING, -1, lines)]
    for key, found in dependencies((lines, tuple(one.get("dependency", "") for one in asked))).items():
        draft.names.setdefault(key, found)
    for key in ("constraint", "licenses", "reservation"):
        own = tuple(one.get(key, "") for one in asked)
        draft.names.setdefault(key, named_by((lines, own), str))
    types = [gpu_type_of(",".join((one.get("gres", ""), *_as_gres(one.get("gpus", ""))))) for one in asked]
    told = draft.names.get("gpu_type", (np.full(len(lines), MISSING, dtype=np.int64), ()))
    draft.names["gpu_type"] = _first_told(told, named_by((lines, tuple(types)), str))


def _as_gres(gpus: str) -> list[str]:
    """Return what `--gpus` and its like ask for as `--gres` has it."""
    return [f"gpu:{one.strip()}" for one in gpus.split(",")]


def _first_told(one: Names, other: Names) -> Names:
    """Return the name of each row in the first column, else in the second."""
    codes = np.where(other[0] == MISSING, MISSING, other[0] + len(one[1]))
    return named_by((np.where(one[0] == MISSING, codes, one[0]), (*one[1], *other[1])), str)


def named_by(coded: Names, text_of: Callable[[str], str]) -> Names:
    """Return the codes of what a function makes of each name; "" is unknown."""
    texts = [text_of(text) for text in coded[1]]
    places = {text: place for place, text in enumerate(dict.fromkeys(text for text in texts if text))}
    table = np.array([*(places.get(text, MISSING) for text in texts), MISSING], dtype=np.int64)
    return table[np.where(coded[0] == MISSING, len(texts), coded[0])], tuple(places)


def dependencies(coded: Names) -> dict[str, Names]:
    """Return the columns `dependency` and `parents` of texts such as `afterok:12`."""
    return {
        "dependency": named_by(coded, lambda text: dependency_of(text)[0]),
        "parents": named_by(coded, lambda text: dependency_of(text)[1]),
    }


def eligible_wait(eligible: Ints, start: Ints) -> Ints:
    """Return how long jobs waited since they were eligible [s]; `MISSING` where either time is, or they contradict."""
    known = (eligible != MISSING) & (start != MISSING) & (eligible <= start)
    return np.where(known, start - np.where(known, eligible, 0), MISSING)


def _quantities(draft: Draft, column: Mapping[str, Any], ended: Bools) -> None:
    for key in ("requested_procs", "allocated_procs", "requested_nodes", "nodes"):
        if key in column:
            draft.numbers[key] = _counts(column[key], key, draft)
    if "restarts" in column:
        draft.numbers["restarts"] = numbers(column["restarts"], "restarts", draft.report)
    if "run_time" in column:
        elapsed = spans_of(column["run_time"], "run_time", draft.report)
        draft.numbers["run_time"] = np.where(ended, elapsed, MISSING)
    if "requested_time" in column:
        draft.numbers["requested_time"] = spans_of(
            column["requested_time"], "requested_time", draft.report, 60, NO_LIMIT
        )
    for key in ("allocated_procs", "nodes"):  # sacct shows the request where nothing was given
        if key in draft.numbers:
            draft.numbers[key][draft.numbers["start"] == MISSING] = MISSING
    procs = np.maximum(draft.number("allocated_procs"), draft.number("requested_procs"))
    if "cpu_time" in column:
        total = spans_of(column["cpu_time"], "cpu_time", draft.report)
        draft.numbers["cpu_time"] = np.where((total > 0) & (procs > 0), total // np.maximum(procs, 1), MISSING)
    if "memory" in column:
        sizes = np.maximum(procs, 1), np.maximum(draft.number("nodes"), 1)
        whole = memory_of_jobs(column["memory"], *sizes, draft, "requested_memory")
        draft.numbers["requested_memory"] = np.where(whole == MISSING, MISSING, whole // sizes[0])
        draft.numbers["requested_job_memory"] = whole
    if "requested_tres" in column:
        asked = names(column["requested_tres"])
        draft.numbers["requested_gpus"] = by_name(asked, gpus_of, MISSING)
        draft.names["gpu_type"] = named_by(asked, gpu_type_of)
        whole, listed = draft.number("requested_job_memory"), by_name(asked, memory_of, MISSING)
        draft.numbers["requested_job_memory"] = np.where(whole == MISSING, listed, whole)
    if "allocated_tres" in column:
        given = by_name(names(column["allocated_tres"]), gpus_of, MISSING)
        draft.numbers["allocated_gpus"] = np.where(draft.numbers["start"] == MISSING, MISSING, given)
    if "exit_code" in column:
        draft.numbers["exit_code"] = np.where(ended, by_name(names(column["exit_code"]), exit_code, MISSING), MISSING)


def _counts(column: Any, key: str, draft: Draft) -> Ints:
    coded = names(column)
    if any(map(_SUFFIXED.fullmatch, coded[1])):
        column = text_array(by_name(coded, _without_suffix, "").tolist())
    return numbers(column, key, draft.report)


def _without_suffix(text: str) -> str:
    return str(int(float(text[:-1]) * _SUFFIXES[text[-1]])) if _SUFFIXED.fullmatch(text) else text


def memory_of_jobs(
    column: Any,  # such as `4Gn`, see `memory`
    procs: Ints,  # procs, nodes: of each job, at least 1
    nodes: Ints,
    draft: Draft,  # its report gets texts that cannot be read
    target: str,  # the column of the job log
    per: str = "",  # {"", "n", "c"}: what a text without a letter at its end is for: the job, a node or a processor
) -> Ints:
    """Return a column of sacct's `ReqMem` as the memory of the whole job [KB], `MISSING` where there is none."""
    codes, texts = coded = names(column)
    read = {text: memory(text) for text in texts}
    total = by_name(coded, lambda text: (read[text] or (0.0, ""))[0], 0.0)
    each = by_name(coded, lambda text: (read[text] or (0.0, ""))[1] or per, "")
    unread = by_name(coded, lambda text: read[text] is None, unknown=True)
    bad = unread & (codes != MISSING)
    draft.report("not-a-memory", bad, target, texts[codes[bad][0]] if bad.any() else "")
    whole = np.minimum(total * np.select([each == "c", each == "n"], [procs, nodes], 1), 2.0**53).astype(np.int64)
    return np.where(unread, MISSING, whole)
