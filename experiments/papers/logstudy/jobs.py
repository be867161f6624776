"""A job log as one frame for the studies of logs, with what stands in for the columns that it lacks."""

from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.data.cleaning import machine_size
from predictors.data.joblog import JobLog
from schedsim.results.timelines import in_use
from schedsim.sites.cobalt.queues import CAPABILITY_SHARE, least_capability

SHORT_S: Final = 6 * 3600  # requested time up to which a smaller job goes to the short queue (section 4)
CAPABILITY, SHORT, LONG = "prod-capability", "prod-short", "prod-long"
LEAST_SHARE: Final = 0.01  # share of the jobs that a log's own queue must have to count as one
_CODED: Final = (
    "queue", "partition", "user", "project", "mode", "location", "executable", "command", "directory", "group",
)  # fmt: skip


@dataclass(frozen=True)
class StudyJobs:
    """The jobs of a log that started and ended, and what the study must know about them."""

    # one row a job: `time` (submission on the wall clock), `wait`, `run_time`, `requested_time` [s], `procs`, `nodes`,
    # `core_hours`, `requested_core_hours`, `start`, `end` [s since the first submission], `row` in the log, and names
    # or codes of `queue`, `user`, `project`, `mode`, `location`, `exit_code`, `overburn`; a column that the log lacks
    # is missing
    table: pd.DataFrame
    machine: int  # processors of the machine
    known: frozenset[str]  # columns that the log itself has
    notes: tuple[str, ...]  # what stands in for what the log lacks
    unit: str  # what is multiplied with the run time in `core_hours`: cores or processors

    def has(self, *columns: str) -> bool:
        return all(column in self.known for column in columns)

    def lacks(self, *columns: str) -> str:
        """Return what the log lacks of these columns, as text."""
        return ", ".join(column.replace("_", " ") for column in columns if column not in self.known)


def study_jobs(log: JobLog, procs: int | None = None) -> StudyJobs:
    """Return the frame of a log's jobs that started and have processors and a run time; a note counts the others."""
    notes: list[str] = []
    run_time, wait, width = log.filled("run_time"), log.filled("wait", 0), _given(log)
    ran = (run_time > 0) & (width > 0)
    if not ran.any():
        raise JobcastError(f"{log.name}: no job has both a run time and processors; there is nothing to study.")
    if not ran.all():
        notes.append(f"{int((~ran).sum()):,} of {len(log):,} jobs never ran, or tell no processors: left out")
    known = {c for c in (*log.values, "exit_code") if log.known(c)[ran].any()}
    if "wait" not in known:
        notes.append("waits are unknown: jobs count as started at submission")
    if len(np.unique(log.filled("status")[ran])) == 1 and (known := known - {"status"}) is not None:
        notes.append("the status is the same for all jobs, which tells nothing")
    machine, note = _machine(log, procs, ran, width)
    if note:
        notes.append(note)
    start = log.filled("submit") + np.maximum(wait, 0)
    cores = log.filled("cores")
    unit = "cores" if "cores" in known else "processors"
    each = np.where(cores > 0, cores, width) if unit == "cores" else width
    asked = log.filled("requested_procs")
    asked = np.where(asked > 0, asked, width)
    requested = np.where(log.known("requested_time"), log.filled("requested_time"), 0).astype(np.float64)
    requested[requested <= 0] = np.nan
    table = pd.DataFrame(
        {
            "row": np.arange(len(log)), "time": wall_clock(log), "start": start, "end": start + run_time,
            "wait": np.where(log.known("wait"), wait, np.nan), "run_time": run_time, "requested_time": requested,
            "procs": width, "nodes": _nodes(log, width, known, notes), "core_hours": each * run_time / 3600,
            "requested_core_hours": each / width * asked * requested / 3600,
        }
    )  # fmt: skip
    for column in _CODED:
        if column in known:
            table[column] = named(log, column)
    for column in ("exit_code", "overburn", "status"):
        if column in known:
            table[column] = np.where(log.known(column), log.filled(column), np.nan)
    table = table[ran].reset_index(drop=True)
    notes += _stand_ins(table, known, machine)
    return StudyJobs(table, machine, frozenset(known), tuple(notes), unit)


def _given(log: JobLog) -> Ints:
    """Return processors given, else asked for: what the machine was filled with."""
    given = log.filled("allocated_procs")
    return np.where(given > 0, given, log.filled("requested_procs"))


def _machine(log: JobLog, procs: int | None, ran: Bools, width: Ints) -> tuple[int, str]:
    if procs is not None or log.max_procs or log.max_nodes:
        return machine_size(log, procs), ""
    start = (log.filled("submit") + log.filled("wait", 0))[ran]
    _, busy = in_use(start, start + log.filled("run_time")[ran], width[ran])
    most = int(busy.max())
    return most, f"the size of the machine is unknown: the most that was in use, {most:,} processors, stands in"


def _nodes(log: JobLog, width: Ints, known: set[str], notes: list[str]) -> Ints:
    """Return the nodes of each job; where the log has none, processors over the processors of a node, else these."""
    if "nodes" in known:
        return np.where(log.filled("nodes") > 0, log.filled("nodes"), width)
    each = (log.max_procs or 1) // (log.max_nodes or log.max_procs or 1)
    if each <= 1:
        notes.append("nodes are unknown: a processor counts as a node")
        return width
    notes.append(f"nodes are unknown: {each} processors count as one")
    return -(-width // each)


def wall_clock(log: JobLog) -> npt.NDArray[np.datetime64]:
    """Return when each job was submitted by the clock on the machine's wall; without an epoch, days from 1970."""
    unix = log.filled("submit") + (log.epoch or 0)
    if log.time_zone:
        zone = ZoneInfo(log.time_zone)
        return pd.to_datetime(unix, unit="s", utc=True).tz_convert(zone).tz_localize(None).to_numpy()
    return unix.astype("datetime64[s]")


def named(log: JobLog, column: str) -> npt.NDArray[np.object_]:
    """Return a column of codes as names, or as the codes in words where it has none; None where unknown."""
    names = log.names(column)
    codes = log.filled(column)
    known = log.known(column)
    used = np.unique(codes[known])
    words = {code: (names[code] if 0 <= code < len(names) and names[code] else str(code)) for code in used.tolist()}
    table = np.array([*words.values(), None], dtype=object)
    return np.asarray(table[np.where(known, np.searchsorted(used, codes), len(used))], dtype=object)


def _stand_ins(table: pd.DataFrame, known: set[str], machine: int) -> list[str]:
    """Add the columns that something can stand in for; return what was done, in words."""
    notes = []
    table["wide"] = table["procs"] >= least_capability(machine)
    limit = table["requested_time"].fillna(table["run_time"])
    table["routed"] = np.select([table["wide"], limit <= SHORT_S], [CAPABILITY, SHORT], LONG)
    for column in ("queue", "partition"):
        if column in known and (table[column].value_counts(normalize=True) >= LEAST_SHARE).sum() >= 2:
            if column == "partition":
                notes.append("queues are unknown: partitions stand in")
            table["queue"] = table[column].fillna("none")
            break
    else:
        known.discard("queue")
        table["queue"] = table["routed"]
        notes.append(
            "queues are unknown: jobs are put where Allcock et al.'s router would put them, from "
            f"{CAPABILITY_SHARE:.0%} of the machine {CAPABILITY}, else up to 6 h {SHORT}, else {LONG}; "
            "their waits were not made under those rules"
        )
    if "exit_code" not in known:
        if "status" in known:
            table["exit_code"] = np.select(
                [table["status"] == 1, table["status"] == 5], ["completed", "cancelled"], "failed"
            )
            notes.append("exit codes are unknown: the status stands in")
        elif table["requested_time"].notna().any():
            killed = table["run_time"] >= table["requested_time"]
            table["exit_code"] = np.where(killed, "ran to its limit", "ended before its limit")
            notes.append("neither exit codes nor a status are known: whether a job ended before its limit stands in")
    if "project" not in known and "group" in known:
        table["project"] = table["group"]
        notes.append("projects are unknown: groups stand in")
    return notes
