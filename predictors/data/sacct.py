"""Slurm's accounting as text: `sacct --parsable2` with its line of names.

The fields are those of sacct(1); `jobcast` reads those of `ALIASES` by name, in any order. Best exported with
`SLURM_TIME_FORMAT=%s`, which leaves no doubt about the clock.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.data import slurm
from predictors.data.account import Account, Ledger
from predictors.data.arrow_arrays import row_array, text_array
from predictors.data.barred import barred_table
from predictors.data.cells import names, numbers, spans_of
from predictors.data.clocks import clocked
from predictors.data.errors import JobcastError
from predictors.data.joblog import Bools, Ints, JobLog
from predictors.data.moments import MISSING, matches
from predictors.data.records import CANCELLED, RULES, Draft, finish
from predictors.data.sources import log_name
from predictors.data.tables import Table, header_names

ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
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
    }
)
"""The names under which sacct gives what a job log knows, the better one first."""

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
_NO_LIMIT: Final = frozenset(("UNLIMITED", "Partition_Limit", "INVALID"))
_MARKS: Final = frozenset(
    ("submit", "start", "end", "state", "elapsed", "elapsedraw", "user", "timelimit", "timelimitraw")
)
_SUFFIXED: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?[KMG]")
_SUFFIXES: Final = MappingProxyType({"K": 1_000, "M": 1_000_000, "G": 1_000_000_000})


def is_sacct(data: bytes) -> bool:
    """Tell whether a text begins with names of sacct's between bars."""
    found = {name.lower() for name in header_names(data[:20_000], "|")}
    return bool(found & {"jobid", "jobidraw"}) and bool(found & _MARKS)


def parse_sacct(data: bytes, source: str, strict: bool = False, time_zone: str | None = None) -> tuple[JobLog, Account]:
    """Return the job log that sacct's text holds, and the account.

    Parameters
    ----------
    time_zone : str, optional
        IANA name of the zone of the clock that wrote local times; without it they are taken as they stand, as UTC.

    Raises
    ------
    JobcastError
        If a needed column is missing, the file mixes ways of writing times, or no record is a job; with `strict`, at
        the first row dropped or changed.
    """
    ledger = Ledger(source, RULES)
    if header_names(data, "|")[-1] == "":  # --parsable ends every line in a bar
        raise JobcastError(f"{source}: its lines end in a bar; export it with sacct --parsable2, not --parsable.")
    table = barred_table(data, source, [a for aliases in ALIASES.values() for a in aliases], _FREE, _TYPED, ledger)
    need = {"id": "JobID", "submit": "Submit", "start": "Start", "end": "End", "state": "State"}
    missing = [name for key, name in need.items() if table.first(ALIASES[key]) is None]
    if missing:
        raise JobcastError(
            f"{source}: lacks the column {', '.join(missing)} (it has {', '.join(table.names[:8])}); export it with "
            "sacct --parsable2 --format=JobIDRaw,JobID,User,Account,Partition,AllocCPUS,ReqCPUS,TimelimitRaw,Submit,"
            "Eligible,Start,End,ElapsedRaw,State,ExitCode,…"
        )
    draft = _draft(table, source, ledger, time_zone)
    return finish(draft, log_name(source), strict, time_zone=time_zone)


def _draft(table: Table, source: str, ledger: Ledger, time_zone: str | None) -> Draft:
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
    ids = words if raw.equals(table.columns[table.first(ALIASES["word"]) or ""]) else raw.to_pylist()
    draft = Draft(source, ids, table.places, ledger)
    fill(draft, table, words, time_zone)
    return draft


def _moved(table: Table, rows: Ints) -> Callable[[Ints], Ints]:
    places = table.places
    return lambda picked: places(rows[picked])


def fill(draft: Draft, table: Table, words: list[str], time_zone: str | None) -> None:
    """Fill a draft with what the columns of a table say."""
    column = {key: table.columns[found] for key, aliases in ALIASES.items() if (found := table.first(aliases))}
    states, state_names = names(column["state"])
    bare = [slurm.state_of(name) for name in state_names]
    odd = slurm.unknown_states(bare)
    if odd:
        draft.ledger.note("columns", f"states that Slurm's manual does not name: {', '.join(odd)[:80]}")
    state = np.array([*bare, ""])[np.where(states == MISSING, len(bare), states)]
    status = np.array([slurm.STATES.get(name, MISSING) for name in bare] + [MISSING], dtype=np.int64)
    draft.numbers["status"] = status[np.where(states == MISSING, len(bare), states)]
    times: dict[str, Any] = {key: column[key] for key in ("submit", "eligible", "start", "end") if key in column}
    clock = clocked(times, draft, time_zone)
    draft.numbers |= {key: clock[key] for key in ("submit", "start", "end")}
    ended = draft.numbers["end"] != MISSING
    draft.put_back = np.isin(state, list(slurm.PUT_BACK))
    never = (draft.numbers["start"] == MISSING) | (draft.numbers["start"] == 0)
    draft.waiting = ended & never & (draft.numbers["status"] == CANCELLED)
    _quantities(draft, column, ended)
    if "eligible" in clock:
        draft.numbers["eligible_wait"] = _eligible_wait(clock["eligible"], draft.numbers["start"])
    in_array = [row for row, word in enumerate(words) if "_" in word]
    draft.numbers["array"] = np.full(len(words), MISSING, dtype=np.int64)
    draft.numbers["array"][in_array] = [slurm.array_of(words[row]) for row in in_array]
    waiting = [row for row in in_array if slurm.members(words[row]) > 1]
    draft.report("array-itself", np.array(waiting, dtype=np.int64), "array", words[waiting[0]] if waiting else "")
    for key in ("user", "group", "project", "queue", "qos", "executable", "directory", "command", "location"):
        if key in column:
            draft.names[key] = names(column[key])
    draft.names["state"] = _states(states, bare)
    if "user" in draft.names:
        codes, people = draft.names["user"]
        cut = np.array([name.endswith("+") for name in people] + [False], dtype=np.bool_)
        draft.report("truncated-name", cut[np.where(codes == MISSING, len(people), codes)], "user")


def _eligible_wait(eligible: Ints, start: Ints) -> Ints:
    known = (eligible != MISSING) & (start != MISSING) & (eligible <= start)
    return np.where(known, start - np.where(known, eligible, 0), MISSING)


def _states(codes: Ints, bare: list[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return states without who cancelled: one code a state."""
    distinct = tuple(dict.fromkeys(bare))
    place = np.array([distinct.index(name) for name in bare] + [MISSING], dtype=np.int64)
    return place[np.where(codes == MISSING, len(bare), codes)], distinct


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
            column["requested_time"], "requested_time", draft.report, 60, _NO_LIMIT
        )
    for key in ("allocated_procs", "nodes"):  # sacct shows what was asked for where nothing was given
        if key in draft.numbers:
            draft.numbers[key][draft.numbers["start"] == MISSING] = MISSING
    procs = np.maximum(draft.number("allocated_procs"), draft.number("requested_procs"))
    if "cpu_time" in column:
        total = spans_of(column["cpu_time"], "cpu_time", draft.report)
        draft.numbers["cpu_time"] = np.where((total > 0) & (procs > 0), total // np.maximum(procs, 1), MISSING)
    if "memory" in column:
        draft.numbers["requested_memory"] = _memory(column["memory"], procs, draft)
    if "exit_code" in column:
        codes, texts = names(column["exit_code"])
        table = np.array([slurm.exit_code(text) for text in texts] + [MISSING], dtype=np.int64)
        draft.numbers["exit_code"] = np.where(ended, table[np.where(codes == MISSING, len(texts), codes)], MISSING)


def _counts(column: Any, key: str, draft: Draft) -> Ints:
    """Return a count, perhaps written with K, M or G."""
    codes, texts = names(column)
    if not any(map(_SUFFIXED.fullmatch, texts)):
        return numbers(column, key, draft.report)
    plain = [str(int(float(text[:-1]) * _SUFFIXES[text[-1]])) if _SUFFIXED.fullmatch(text) else text for text in texts]
    places = np.where(codes == MISSING, len(texts), codes)
    return numbers(text_array([*plain, ""]).take(row_array(places)), key, draft.report)


def _memory(column: Any, procs: Ints, draft: Draft) -> Ints:
    codes, texts = names(column)
    read = [slurm.memory(text) for text in texts] + [None]
    place = np.where(codes == MISSING, len(texts), codes)
    total = np.array([0.0 if one is None else one[0] for one in read])[place]
    whose = np.array(["" if one is None else one[1] for one in read])[place]
    share = np.select(
        [whose == "c", whose == "n"], [1.0, np.maximum(draft.number("nodes"), 1) / np.maximum(procs, 1)], 0
    )
    share = np.where(share == 0, 1.0 / np.maximum(procs, 1), share)
    unread = np.array([one is None for one in read])[place]
    bad = unread & (codes != MISSING)
    draft.report("not-a-memory", bad, "requested_memory", texts[codes[bad][0]] if bad.any() else "")
    memory = np.minimum(total * share, 2.0**53).astype(np.int64)
    return np.where(unread, MISSING, memory)
