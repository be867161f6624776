"""The public job logs of the Argonne Leadership Computing Facility: CSV files of Mira, Theta, Polaris and others.

Columns are found by name, in any order and case. Their jobs have whole nodes, so that a processor of the job log is a
node; `cores` keeps the cores. What the columns mean: Allcock et al., Experience and Practice of Batch Scheduling on
Leadership Supercomputers at Argonne, JSSPP 2017, doi 10.1007/978-3-319-77398-8_1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.data.account import Account, Ledger
from predictors.data.cells import names, numbers, spans_of
from predictors.data.clocks import clocked
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.moments import MISSING, known_texts
from predictors.data.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, finish
from predictors.data.sources import log_name
from predictors.data.tables import Table, header_names, quoted_table

ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "id": ("COBALT_JOBID", "JOBID", "JOB_ID", "JOB_NAME"),
        "submit": ("QUEUED_TIMESTAMP", "SUBMIT_TIMESTAMP", "QUEUED_TIME", "SUBMIT_TIME"),
        "start": ("START_TIMESTAMP", "START_TIME"),
        "end": ("END_TIMESTAMP", "END_TIME"),
        "run_time": ("RUNTIME_SECONDS",),
        "requested_time": ("WALLTIME_SECONDS", "REQUESTED_WALLTIME_SECONDS"),
        "requested_nodes": ("NODES_REQUESTED", "REQUESTED_NODES"),
        "nodes": ("NODES_USED", "USED_NODES"),
        "cores": ("CORES_USED", "USED_CORES"),
        "eligible_wait": ("ELIGIBLE_WAIT_SECONDS",),
        "exit_code": ("EXIT_STATUS", "EXIT_CODE"),
        "overburn": ("IS_OVERBURN",),
        "user": ("USERNAME_GENID", "COBALT_USER_NAME_GENID", "USER_NAME_GENID", "USER_GENID"),
        "project": ("PROJECT_NAME_GENID", "COBALT_PROJECT_NAME_GENID", "PROJECT_GENID"),
        "queue": ("QUEUE_NAME", "QUEUE_GENID", "QUEUE"),
        "partition": ("MACHINE_PARTITION",),
        "location": ("LOCATION", "MACHINE_PARTITION"),
        "mode": ("MODE",),
        "machine": ("MACHINE_NAME",),
        "deleted": ("DELETED_BY_GENID",),
    }
)
"""The names under which these files tell what a job log knows, the better one first."""

_NAMED: Final = ("user", "project", "queue", "partition", "location", "mode")
_NUMBERS: Final = ("requested_nodes", "nodes", "cores", "exit_code", "overburn")
_MARKS: Final = frozenset(("queued_timestamp", "nodes_used", "used_nodes", "nodes_requested", "walltime_seconds"))


def is_alcf(data: bytes) -> bool:
    """Tell whether a text begins with at least two names of these files between commas."""
    return len({name.lower() for name in header_names(data[:50_000], ",")} & _MARKS) >= 2


def parse_alcf(data: bytes, source: str, strict: bool = False, time_zone: str | None = None) -> tuple[JobLog, Account]:
    """Return the job log that such a file holds, and the account.

    Parameters
    ----------
    time_zone : str, optional
        IANA name of the zone of the file's clock; without it times are taken as they stand, as UTC.

    Raises
    ------
    JobcastError
        If a needed column is missing, the file mixes ways of writing times, or no row is a job; with `strict`, at the
        first row dropped or changed.
    """
    ledger = Ledger(source, RULES)
    table = quoted_table(data, source, [a for aliases in ALIASES.values() for a in aliases], ledger)
    found = {key: name for key, aliases in ALIASES.items() if (name := table.first(aliases))}
    _require(found, table, source)
    _tell_missing(found, ledger)
    draft = Draft(source, _ids(table, ledger), table.places, ledger)
    column = {key: table.columns[name] for key, name in found.items()}
    draft.numbers |= clocked(
        {key: column[key] for key in ("submit", "start", "end") if key in column}, draft, time_zone
    )
    for key in _NUMBERS:
        if key in column:
            draft.numbers[key] = numbers(column[key], key, draft.report)
    for key in ("run_time", "requested_time", "eligible_wait"):
        if key in column:
            draft.numbers[key] = spans_of(column[key], key, draft.report)
    draft.numbers["requested_procs"] = draft.number("requested_nodes")
    draft.numbers["allocated_procs"] = draft.number("nodes")
    for key in _NAMED:
        if key in column:
            draft.names[key] = names(column[key])
    if "project" in draft.names:
        draft.names["group"] = draft.names["project"]
    _status(draft, column)
    machines = names(column["machine"])[1] if "machine" in column else ()
    if len(machines) > 1:
        ledger.note("columns", f"jobs of several machines: {', '.join(machines)[:80]}")
    header = (("Computer", ", ".join(machines)[:200]),) if machines else ()
    return finish(draft, log_name(source), strict, time_zone=time_zone, header=header)


def _require(found: Mapping[str, str], table: Table, source: str) -> None:
    ends = "end" if "start" in found else "start"
    needed = ["submit", "start", *([] if "run_time" in found else [ends])]
    lacking = [ALIASES[key][0] for key in needed if key not in found]
    if not {"nodes", "requested_nodes"} & set(found):
        lacking.append(ALIASES["nodes"][0])
    if lacking:
        raise JobcastError(
            f"{source}: lacks the column {', '.join(lacking)} (it has {', '.join(table.names[:8])}, …); such a file is "
            "read by the names in its first line."
        )


def _tell_missing(found: Mapping[str, str], ledger: Ledger) -> None:
    for key in ("id", "requested_time", "user", "project", "queue", "exit_code", "run_time"):
        if key not in found:
            ledger.note(
                "columns", f"no column {ALIASES[key][0]}; {'job ids are' if key == 'id' else key + ' is'} not told"
            )


def _ids(table: Table, ledger: Ledger) -> list[str]:
    """Return the jobs' ids from the column that tells most jobs apart: in some files one is the same throughout."""
    texts = {alias.lower(): table.columns[alias.lower()] for alias in ALIASES["id"] if alias.lower() in table.columns}
    if not texts:
        return [str(number) for number in range(1, len(table) + 1)]
    distinct, ids = dict[str, int](), dict[str, list[str]]()
    for name, column in texts.items():
        ids[name] = column.to_pylist()
        distinct[name] = len(set(ids[name]))
        if distinct[name] == len(table):
            break
    best = max(distinct, key=lambda name: distinct[name])
    if best != next(iter(texts)):
        ledger.note("columns", f"ids are taken from {best.upper()}: it tells {distinct[best]:,} jobs apart")
    known = known_texts(texts[best])
    return ids[best] if known.all() else [t if told else "" for t, told in zip(ids[best], known.tolist(), strict=True)]


def _status(draft: Draft, column: Mapping[str, object]) -> None:
    """Completed with exit code 0, cancelled where somebody deleted the job, failed otherwise."""
    code = draft.number("exit_code")
    ended = (draft.number("end") != MISSING) | (draft.number("run_time") != MISSING)
    status = np.where(code == 0, COMPLETED, FAILED)
    if "deleted" in column:
        deleted = known_texts(column["deleted"])
        status[deleted] = CANCELLED
        draft.waiting = deleted & (draft.number("start") == MISSING) & (draft.number("end") != MISSING)
        code = np.where(deleted & (code == MISSING), CANCELLED, code)
    draft.numbers["status"] = np.where(ended & (code != MISSING), status, MISSING)
