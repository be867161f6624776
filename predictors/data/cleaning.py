"""Cleaning: the jobs of a log that can be simulated, and what is made where a log lacks it.

The cleaning of Gaussier, Glesser, Reis & Trystram, Improving Backfilling by Using Machine Learning to Predict Running
Times, SC 2015, doi 10.1145/2807591.2807646.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Bools
from predictors.core.errors import JobcastError, counted
from predictors.core.validation import LATEST
from predictors.data.joblog import JobLog
from predictors.data.report import Effect, ReadingReport, ReportBuilder

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "no-run-time": ("dropped", "the run time is 0 or unknown"),
        "no-processors": ("dropped", "neither requested nor allocated processors are known"),
        "no-request": ("dropped", "the requested time is 0 or unknown"),
        "too-wide": ("dropped", "wider than the machine"),
        "overrun": ("noted", "ran past the requested time; a simulation that kills stops it there"),
        "allocated": ("noted", "requested processors unknown; the allocated ones are used"),
        "other-partition": ("dropped", "not in the partition asked for"),
        "made-request": ("changed", "no requested time in the log; one is made"),
    }
)


def clean(log: JobLog, procs: int | None = None, drop_wide: bool = False) -> tuple[JobLog, ReadingReport]:
    """Return the jobs of a log that can be simulated, and the account.

    Jobs without a run time, processors or a requested time are dropped. Run times stay as logged, those beyond the
    requested time too: a simulation stops such a job there, or lets it run on. `within_requests` cuts them.

    Parameters
    ----------
    log : JobLog
        Any log.
    procs : int, optional
        Processors of the machine; by default those of the log: its processors, else its nodes.
    drop_wide : bool
        Drop jobs wider than the machine instead of refusing the log.

    Returns
    -------
    log : JobLog
        `max_procs` is the machine's size and `requested_procs` what each job occupies; job ids and clock (`origin`,
        `epoch`) are the log's own.
    account : ReadingReport
        By job id.
    """
    run_time, requested = log.values["run_time"], log.values["requested_time"]
    report = ReportBuilder(log.name, RULES, place="job")
    kept = np.ones(len(log), dtype=np.bool_)
    machine = machine_size(log, procs)
    for rule, bad in (
        ("no-run-time", run_time <= 0),
        ("no-processors", log.procs <= 0),
        ("no-request", requested <= 0),
    ):
        report.add(rule, log.values["job_id"][bad & kept])
        kept &= ~bad
    cleaned, wide = on_machine(log.select(kept), machine, drop_wide)
    if not len(cleaned):
        account = report.close() + wide
        way_out = _REQUESTS if account.count("no-request") else ""
        raise JobcastError(f"{log.name}: no jobs left to simulate. {_reasons(len(log), account)}{way_out}")
    report.add("overrun", cleaned.values["job_id"][overran(cleaned)], "run_time")
    report.add("allocated", cleaned.values["job_id"][cleaned.values["requested_procs"] <= 0], "requested_procs")
    return cleaned.replaced({"requested_procs": cleaned.procs}), report.close() + wide


def of_partition(log: JobLog, partition: str | int | None) -> tuple[JobLog, ReadingReport]:
    """Return the jobs of one partition, by name or number, or of all; and an account of the others."""
    report = ReportBuilder(log.name, RULES, place="job")
    if partition is None:
        return log, report.close()
    asked, column = str(partition), log.partition_column
    names = log.names(column)
    number = names.index(asked) if asked in names else int(asked) if asked.isdecimal() and len(asked) < 19 else None
    if asked not in names:
        column = "partition"
    in_it = log.known(column) & (log.filled(column) == number)
    if not in_it.any():
        there = np.unique(log.filled("partition")[log.known("partition")]).tolist()
        known = ", ".join([name for name in names if name] or map(str, there))
        partitions = f"its partitions are {known}" if known else "the log names no partition"
        raise JobcastError(f"{log.name}: has no job in partition {asked}; {partitions}.")
    report.add("other-partition", log.values["job_id"][~in_it])
    return log.select(in_it), report.close()


def on_machine(log: JobLog, procs: int | None, drop_wide: bool) -> tuple[JobLog, ReadingReport]:
    """Return a log with the size of its machine, and without wider jobs if these are to be dropped."""
    machine = machine_size(log, procs)
    wide = log.procs > machine
    if not drop_wide:
        _refuse_wide(log, machine, wide)
    report = ReportBuilder(log.name, RULES, place="job")
    report.add("too-wide", log.values["job_id"][wide])
    return replace(log, max_procs=machine).select(~wide), report.close()


_FACTOR: Final = re.compile(r"run-time\s*\*\s*(\d{1,6}(?:\.\d{1,6})?)", re.ASCII)


@dataclass(frozen=True)
class RequestsFrom:
    """Where requested times come from, for jobs of a log without them: a rule, as users write it.

    >>> RequestsFrom("run-time*2").factor, RequestsFrom("1-12:00:00").seconds, RequestsFrom("3600").seconds
    (2.0, 129600, 3600)
    """

    # `run-time*F`: the job's own run time by a factor of 1 or more; that is knowledge of the future, which no scheduler
    # has. Or the site's default: seconds, `HH:MM:SS` or `D-HH:MM:SS`; what runs longer has overrun it.
    rule: str

    def __post_init__(self) -> None:
        if (self.factor or 0) < 1 and (self.seconds or 0) < 1:
            raise JobcastError(
                f"Requested times come from run-time*F with F of 1 or more (run-time*2), or from the site's default, "
                f"in seconds or as HH:MM:SS (24:00:00); got {self.rule!r}."
            )

    @property
    def factor(self) -> float | None:
        """The factor of the run time, if that is the rule."""
        found = _FACTOR.fullmatch(self.rule.strip())
        return float(found[1]) if found else None

    @property
    def seconds(self) -> int | None:
        """The site's default [s], if that is the rule."""
        text = self.rule.strip()
        days, dash, clock = text.partition("-")
        parts = (clock if dash else text).split(":")
        numbers = [days, *parts] if dash else parts
        whole = all(one.isascii() and one.isdecimal() and len(one) <= 9 for one in numbers)
        if not whole or len(parts) not in ((3,) if dash else (1, 3)) or any(int(part) > 59 for part in parts[1:]):
            return None
        seconds = 0
        for part in parts:
            seconds = 60 * seconds + int(part)
        return seconds + 86_400 * int(days) if dash else seconds

    def apply(self, log: JobLog) -> tuple[JobLog, ReadingReport]:
        """Return the log with a requested time for each job that has none but ran, and an account of those made."""
        run_time, requested = log.values["run_time"], log.values["requested_time"]
        lacking = ~(log.known("requested_time") & (requested > 0)) & log.known("run_time") & (run_time > 0)
        if self.factor is not None:
            made = np.minimum(np.ceil(run_time * self.factor), LATEST).astype(np.int64)
        else:
            made = np.full(len(log), self.seconds, dtype=np.int64)
        unknown = {**log.unknown, "requested_time": log.unknown["requested_time"] & ~lacking}
        values = {**log.values, "requested_time": np.where(lacking, made, requested)}
        report = ReportBuilder(log.name, RULES, place="job")
        report.add("made-request", log.values["job_id"][lacking], "requested_time", self.rule)
        return replace(log, values=values, unknown=unknown), report.close()


def with_requests(log: JobLog, rule: str | None) -> tuple[JobLog, ReadingReport]:
    """Return the log with requested times made by a rule of `RequestsFrom`, and the account; as it is without one."""
    return (log, ReadingReport(log.name)) if rule is None else RequestsFrom(rule).apply(log)


def within_requests(log: JobLog) -> JobLog:
    """Return a log as a scheduler that stops jobs at their requested time would have seen it: run times end there.

    Jobs without a known requested time keep their run time.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "run_time": [90, 20],
    ...                            "requested_time": [60, 60]}, {})
    >>> within_requests(log)["run_time"].tolist()
    [60, 20]
    """
    run_time, requested = log.values["run_time"], log.values["requested_time"]
    cut = np.where(overran(log), requested, run_time)
    return replace(log, values={**log.values, "run_time": cut})


def overran(log: JobLog) -> Bools:
    """Return which jobs ran past their requested time, by the log, shape (n_jobs,)."""
    run_time, requested = log.values["run_time"], log.values["requested_time"]
    return log.known("run_time") & log.known("requested_time") & (requested > 0) & (run_time > requested)


def machine_size(log: JobLog, procs: int | None = None) -> int:
    """Return the processors of the machine to simulate: `procs`, else the log's processors, else its nodes."""
    if procs is not None and procs < 1:
        raise JobcastError(f"A machine needs at least 1 processor; got {procs}.")
    if procs is not None and procs > LATEST:
        raise JobcastError(f"A machine has at most {LATEST:,} processors; got {procs:,}.")
    for size in (procs, log.max_procs, log.max_nodes):
        if size is not None:
            return size
    raise JobcastError(f"{log.name}: the size of its machine is not known; give it with --procs.")


_REQUESTS: Final = (
    " Requested times can be made: --requests-from 24:00:00, the site's default, or --requests-from 'run-time*2'."
)


def _refuse_wide(log: JobLog, machine: int, wide: Bools) -> None:
    if not wide.any():
        return
    count = int(wide.sum())
    jobs = f"{counted(count, 'job')} {'is' if count == 1 else 'are'}"
    raise JobcastError(
        f"{log.name}: {jobs} wider than the machine of {counted(machine, 'processor')} (the widest has "
        f"{int(log.procs[wide].max()):,}); give a larger --procs or --machine, or --drop-wide to leave them out."
    )


def _reasons(n_jobs: int, account: ReadingReport) -> str:
    """Return why each of a log's jobs was dropped, as one sentence.

    >>> _reasons(0, ReadingReport("a.swf"))
    'The log holds none.'
    """
    if not n_jobs:
        return "The log holds none."
    return "Dropped: " + "; ".join(f"{f.count:,}, {f.text}" for f in account.findings) + "."
