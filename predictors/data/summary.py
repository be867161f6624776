"""A summary of a job log: jobs, span, machine, users, known columns, quantiles; and what the log lacks for an answer.

A log that lacks something gives an answer that misleads. `lacks_for_schedules` and `lacks_for_predictions` are the one
place where that is decided; every command that answers from a log asks them, and says it first.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError, counted, percent
from predictors.data.cleaning import clean, of_partition, with_requests, within_requests
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport

QUANTILES: Final = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
CODES: Final = ("user", "group", "executable", "queue", "partition")
FURTHER_CODES: Final = ("project", "mode", "state", "location")


def summarise(log: JobLog) -> dict[str, Any]:
    """Return the figures of a log as plain values for JSON; what the log does not have is None.

    `span_s` runs from the first submission to the last; `utilisation` is sum(run time * processors) over (machine *
    time from the first submission to the last end), an unknown wait counted as 0.

    >>> log = JobLog.from_columns(
    ...     {"job_id": [1, 2], "submit": [0, 50], "run_time": [100, 50], "requested_procs": [2, 4]}, {}, max_procs=4
    ... )
    >>> figures = summarise(log)
    >>> figures["jobs"], figures["span_s"], figures["utilisation"], figures["known_share"]["user"]
    (2, 50, 1.0, 0.0)
    """
    submit = log.values["submit"]
    return {
        "name": log.name,
        "jobs": len(log),
        "span_s": int(submit[-1]) if len(log) else None,
        "first_submission": date_of(log, 0),
        "last_submission": date_of(log, int(submit[-1])) if len(log) else None,
        "max_procs": log.max_procs,
        "max_nodes": log.max_nodes,
        "max_gpus": log.max_gpus,
        "jobs_with_gpus": _asking(log, "requested_gpus", "allocated_gpus"),
        "jobs_with_memory": _asking(log, "requested_job_memory", "requested_memory"),
        "time_zone": log.time_zone,
        "distinct": {column: _distinct(log, column) for column in (*CODES, *FURTHER_CODES) if column in log.values},
        "utilisation": utilisation(log),
        "known_share": {column: float(log.known(column).mean()) if len(log) else None for column in log.values},
        "quantiles": {
            "procs": _quantiles(log.procs[log.procs > 0]),
            "requested_time_s": _quantiles(_known(log, "requested_time")),
            "run_time_s": _quantiles(_known(log, "run_time")),
            "run_over_requested": _quantiles(_accuracy(log)),
            "wait_s": _quantiles(_known(log, "wait")),
        },
        "sha256": log.digest(),
    }


def _asking(log: JobLog, *columns: str) -> int | None:
    """Return how many jobs have a number above 0 in one of some columns; None where these are unknown for every job."""
    if not any(log.known(column).any() for column in columns):
        return None
    return int(np.any([log.filled(column) > 0 for column in columns], axis=0).sum())


def utilisation(log: JobLog, size: int | None = None) -> float | None:
    """Return the share of the machine, as named by the log or else `size`, that the log's jobs filled."""
    procs, run_time = log.procs, log.values["run_time"].astype(np.float64)
    ran, size = (procs > 0) & (run_time > 0), log.max_procs or size
    if size is None or not ran.any():
        return None
    ends = log.values["submit"] + log.filled("wait", 0) + run_time
    return _work(log) / float(size * ends[ran].max())


def _work(log: JobLog) -> float:
    procs, run_time = log.procs, log.values["run_time"].astype(np.float64)
    return float((run_time * procs)[(procs > 0) & (run_time > 0)].sum())


MOST_DROPPED: Final = 0.2  # share of the jobs that may be left out; with more, the rest is another workload
FEWEST_LOST: Final = 10
LEAST_LOST: Final = 0.01  # rows dropped in reading, and their share, below which nothing is said beyond the account
MOST_MOVED: Final = 0.1  # change of the utilisation that is borne
LEAST_WAITS: Final = 0.5  # least share of jobs with a recorded wait
DEFAULT_REQUEST: Final = "--requests-from 24:00:00"  # how requested times are made, in an example


@dataclass(frozen=True)
class Lack:
    """Something that a log lacks, so that an answer from it may mislead."""

    # short: `unread`, `dropped-rows`, `components`, `no-waits`, `dropped`, `utilisation`, `no-queue`, `made-requests`,
    # `no-requests`, `no-users`, `one-user`
    name: str
    text: str  # what is so, with the figure, and what it does to the answer
    remedy: str  # what to do
    forbids_verdict: bool = False  # whether the log carries no verdict on policies

    def sentence(self) -> str:
        """Return what a command prints first."""
        return f"Caution: {self.text} {self.remedy}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A log made ready for simulations."""

    log: JobLog  # the jobs of the partition asked for
    used: JobLog  # those that can be simulated, cleaned
    others: ReadingReport  # the jobs of other partitions
    cleaning: ReadingReport  # what was made and dropped of the partition's jobs
    unread: tuple[Lack, ...] = ()  # what the log lacks since rows of its file could not be read

    @property
    def account(self) -> ReadingReport:
        return (self.others + self.cleaning).using(len(self.used))

    def lacks(self, kill: bool = True) -> tuple[Lack, ...]:
        return (*self.unread, *lacks_for_schedules(self.log, self.used, self.cleaning, kill))


def prepare(
    log: JobLog,
    procs: int | None = None,  # procs, drop_wide: as of `predictors.data.cleaning.clean`
    drop_wide: bool = False,
    # keep the jobs of one partition alone, see `predictors.data.cleaning.of_partition`
    partition: str | int | None = None,
    # where requested times come from that the log lacks, see `predictors.data.cleaning.RequestsFrom`
    requests_from: str | None = None,
    reading: ReadingReport | None = None,  # what became of the rows of the log's file
) -> Prepared:
    """Return a log's jobs that can be simulated, and what became of the others."""
    part, others = of_partition(log, partition)
    asked, made = with_requests(part, requests_from)
    used, cleaning = clean(asked, procs, drop_wide)
    unread = () if reading is None else lacks_of_reading(log, reading)
    return Prepared(part, used, others, made + cleaning, unread)


UNREAD: Final = (  # rules by which a reader drops rows that were jobs of their own, not further records of one
    "too-few-fields", "surplus-fields", "no-job-id", "no-submission", "not-a-record", "no-clock", "repeated-id",
)  # fmt: skip
SUMMED_UP: Final = ("partial-execution",)  # rules by which a reader drops rows that another row of the file sums up


def lacks_of_reading(log: JobLog, reading: ReadingReport) -> tuple[Lack, ...]:
    """Return what a log lacks since rows of its file could not be read, were dropped, or are parts of a job.

    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0]}, {})
    >>> from predictors.data.report import Finding
    >>> found = lacks_of_reading(log, ReadingReport("a.swf", (Finding("too-few-fields", "dropped", "18 fields", 39),)))
    >>> found[0].text
    '39 of 40 rows (98 %) could not be read, most by the rule too-few-fields: 18 fields. The answer is that of ...'
    """
    dropped = [f for f in reading.findings if f.effect == "dropped" and f.rule not in SUMMED_UP]
    unread = [f for f in dropped if f.rule in UNREAD]
    lost, n_rows = sum(f.count for f in unread), len(log) + sum(f.count for f in dropped)
    found = _components(log, reading)
    if lost >= FEWEST_LOST and lost > MOST_DROPPED * (len(log) + lost):
        most = max(unread, key=lambda f: f.count)
        text = (
            f"{lost:,} of {n_rows:,} rows ({percent(lost / n_rows)}) could not be read, most by the rule {most.rule}: "
            f"{most.text}. The answer is that of another workload."
        )
        return (Lack("unread", text, "Export the log again; `jobcast log info` shows the lines.", True), *found)
    lost = n_rows - len(log)
    if lost >= FEWEST_LOST or lost > LEAST_LOST * n_rows:
        rules = "; ".join(f"{f.count:,} by the rule {f.rule}: {f.text}" for f in dropped)
        text = f"{lost:,} of {n_rows:,} rows ({percent(lost / n_rows, 1)}) were dropped in reading: {rules}."
        found = (Lack("dropped-rows", text, "`jobcast log info` shows the lines; see that they are no jobs."), *found)
    return found


def _components(log: JobLog, reading: ReadingReport) -> tuple[Lack, ...]:
    count = reading.count("component")
    if not count:
        return ()
    text = (
        f"{count:,} of {counted(len(log), 'job')} are components of heterogeneous jobs, which start together; here "
        "each is a job of its own."
    )
    return (Lack("components", text, "Compare the waits of the other jobs."),)


def lacks_for_schedules(
    log: JobLog,  # as read, or one partition of it
    used: JobLog,  # its jobs that are simulated, cleaned
    cleaning: ReadingReport,  # what was dropped and made in between
    kill: bool = True,
) -> tuple[Lack, ...]:
    """Return what a log lacks for simulations, what weighs most first.

    >>> columns = {"submit": [0, 50], "wait": [0, 0], "run_time": [20, 50], "requested_time": [60, 60], "user": [3, 3]}
    >>> log = JobLog.from_columns({"job_id": [1, 2], "requested_procs": [2, 4], **columns}, {}, max_procs=4)
    >>> [lack.name for lack in lacks_for_schedules(log, *clean(log))]
    ['no-queue', 'one-user']
    """
    lost = _dropped(len(log), cleaning)
    found = [*lost, *_moved(log, used, kill, bool(lost)), *lacks_of_requests(len(log), cleaning)]
    if _nobody_waits(used, kill):
        text = (
            f"no job has to wait on {used.max_procs or 0:,} processors, since at each moment all jobs that are there "
            "fit. All policies give the same schedule."
        )
        remedy = SIZE if not found else FOLLOWS
        found.append(Lack("no-queue", text, remedy, True))
    if log.known("wait").mean() < LEAST_WAITS:
        text = f"{_without_waits(log)} Its submissions may be the starts, and then simulated waits are too short."
        remedy = "Take a log with the times of submission and of start, such as Slurm's sacct with Submit and Start."
        found.append(Lack("no-waits", text, remedy, True))
    return (*found, *_users(used, "Who waits longer cannot be reported by user."))


def lacks_for_predictions(
    jobs: JobLog,  # the jobs that are learnt from or predicted
    account: ReadingReport,  # which jobs of the log were left out
    *,
    scored: bool = True,  # whether predictors are scored on the jobs; else it is a matter of predictions alone
) -> tuple[Lack, ...]:
    """Return what a log lacks for learning, predicting and scoring, what weighs most first."""
    n_jobs = len(jobs) + account.dropped - account.count("other-partition")
    found = [*_dropped(n_jobs, account), *lacks_of_requests(len(jobs), account)]
    if jobs.known("wait").mean() < LEAST_WAITS:
        text = f"{_without_waits(jobs)} Each counts as started at its submission: its end is learnt from too early."
        so = "these scores are too good" if scored else "these predictions use ends that were not known yet"
        remedy = f"Take a log with the times of submission and of start; {so}."
        found.append(Lack("no-waits", text, remedy))
    if not (jobs.values["requested_time"] > 0).any():
        text = "no job has a requested time. Predictions have no upper limit, and none stands in for a missing one."
        remedy = f"Export them too; to evaluate or simulate, the site's default can stand in: {DEFAULT_REQUEST}."
        found.append(Lack("no-requests", text, remedy))
    return (*found, *_users(jobs, "Predictors that follow users cannot be judged by this log."))


def lacks_of(log: JobLog) -> tuple[Lack, ...]:
    """Return all that a log lacks, for simulations and for predictions, before anything is asked of it."""
    ran = log.select(log.known("run_time") & (log.values["run_time"] > 0))
    if not len(ran):
        return (Lack("no-run-times", "no job has a run time.", "Take a log of jobs that have ended.", True),)
    found: tuple[Lack, ...] = ()
    try:
        used, cleaning = clean(log, drop_wide=True)
    except JobcastError as error:
        found = (Lack("no-simulation", f"it cannot be simulated as it is. {error}", "", True),)
    else:
        found = lacks_for_schedules(log, used, cleaning)
    known = {lack.name for lack in found}
    return (*found, *(one for one in lacks_for_predictions(ran, ReadingReport(log.name)) if one.name not in known))


def next_command(log: JobLog, path: str, lacks: tuple[Lack, ...]) -> str:
    """Return the command to type next: for advice, or where options do not help for an evaluation of predictors."""
    names = {lack.name: lack for lack in lacks}
    if "no-run-times" in names:
        return "jobcast log fetch"
    no_queue = "no-queue" in names and names["no-queue"].remedy != FOLLOWS  # else the options below may bring one
    if no_queue or "no-waits" in names:
        return f"jobcast evaluate {path}"
    if "utilisation" in names and names["utilisation"].remedy == OVERRAN:
        return f"jobcast simulate {path} --no-kill"
    options = [] if log.max_procs or log.max_nodes else ["--procs N"]
    machine = log.max_procs or log.max_nodes
    wide = float((log.procs > machine).mean()) if machine else 0.0
    if wide:
        options.append("--drop-wide" if wide <= MOST_DROPPED else "--procs N")
    if (log.values["requested_time"] > 0).mean() < 1 - MOST_DROPPED:
        options.append(DEFAULT_REQUEST)
    return " ".join(["jobcast advise", path, *options])


WAYS_OUT: Final = {  # what to do about the jobs that a rule drops
    "no-request": f"Have them made: {DEFAULT_REQUEST}, the site's default, or --requests-from 'run-time*2'.",
    "too-wide": "Give the machine's true size: --procs N.",
    "no-processors": "Export the processors of each job too.",
    "no-run-time": "Take a log of jobs that have ended.",
    "ran-for-0-s": "Export the run times in seconds, not in minutes or hours.",
}


SIZE: Final = "Give the machine's true size, --procs N, or one partition of it, --partition P."
FOLLOWS: Final = "This follows from what is said before."
OVERRAN: Final = (
    "Jobs are stopped at their requested time here, and the site let them run on. Let them: jobcast simulate --no-kill."
)


def _dropped(n_jobs: int, account: ReadingReport) -> list[Lack]:
    findings = [f for f in account.findings if f.effect == "dropped" and f.rule != "other-partition"]
    lost = sum(f.count for f in findings)
    if lost <= MOST_DROPPED * n_jobs:
        return []
    most = max(findings, key=lambda f: f.count)
    text = (
        f"{lost:,} of {n_jobs:,} jobs ({percent(lost / n_jobs)}) are left out, most by the rule {most.rule}: "
        f"{most.text}. The answer is that of another workload."
    )
    remedy = WAYS_OUT.get(most.rule, "Give rules or a machine that take these jobs.")
    return [Lack("dropped", text, remedy, True)]


def _moved(log: JobLog, used: JobLog, kill: bool, lost: bool) -> list[Lack]:
    """Compare over the span of the whole log: jobs that are left out must not move it."""
    size = log.max_procs or used.max_procs
    before = utilisation(log, size)
    if before is None or not used.max_procs or not size:
        return []
    if before > 1 and log.known("wait").mean() > 1 - LEAST_LOST and used.max_procs <= size:
        text = (
            f"the jobs of the log filled {percent(before)} of {size:,} processors, more than there are: the machine "
            "was larger. The queue is another one than the site's."
        )
        return [Lack("utilisation", text, SIZE, True)]
    kept = _work(within_requests(used) if kill else used) / _work(log)
    after = before * kept * size / used.max_procs
    if abs(after - before) <= MOST_MOVED:
        return []
    text = (
        f"the jobs simulated fill {percent(after)} of {used.max_procs:,} processors, those of the log filled "
        f"{percent(before)} of {size:,}. The queue is another one than the site's."
    )
    let_run = before * _work(used) / _work(log) * size / used.max_procs
    remedy = FOLLOWS if lost else OVERRAN if abs(let_run - before) <= MOST_MOVED else SIZE
    return [Lack("utilisation", text, remedy, True)]


def lacks_of_requests(n_jobs: int, account: ReadingReport) -> tuple[Lack, ...]:
    """Return what a log of so many jobs lacks since many of its requested times are made."""
    made = [f for f in account.findings if f.rule == "made-request"]
    if not made or made[0].count <= MOST_DROPPED * n_jobs:
        return ()
    knows = "run-time" in made[0].example
    share = percent(made[0].count / n_jobs)
    text = f"{made[0].count:,} of {n_jobs:,} requested times ({share}) are made: {made[0].example}."
    if knows:
        text += " They tell the run times, which no scheduler knows: whoever plans by them looks too good."
    remedy = f"Take the site's default: {DEFAULT_REQUEST}." if knows else "The answer holds for this default alone."
    return (Lack("made-requests", text, remedy, knows),)


def _without_waits(log: JobLog) -> str:
    share = float(log.known("wait").mean())
    return (
        "the log records no waits." if not share else f"the log records the wait of {percent(share)} of the jobs alone."
    )


def _users(log: JobLog, effect: str) -> list[Lack]:
    n_users = _distinct(log, "user")
    if n_users is None:
        return [Lack("no-users", f"the log names no user. {effect}", "Export the users, or keyed hashes of them.")]
    if n_users == 1:
        return [Lack("one-user", f"all jobs are of one user. {effect}", "Take the log of a machine that many share.")]
    return []


def _nobody_waits(used: JobLog, kill: bool) -> bool:
    """Return whether all jobs fit on the machine if each starts at its submission: then none waits, by any policy."""
    submit, procs = used.values["submit"], used.procs
    ends = submit + (within_requests(used) if kill else used).values["run_time"]
    times, change = np.concatenate([submit, ends]), np.concatenate([procs, -procs])
    busy = np.cumsum(change[np.lexsort((change, times))])  # in a second ends come first
    return bool(busy.max() <= (used.max_procs or 0))


def _known(log: JobLog, column: str) -> npt.NDArray[np.int64]:
    return log.values[column][log.known(column)]


def _accuracy(log: JobLog) -> npt.NDArray[np.float64]:
    usable = log.known("run_time") & (log.values["requested_time"] > 0)
    return log.values["run_time"][usable] / log.values["requested_time"][usable]


def _quantiles(values: npt.NDArray[Any]) -> dict[str, float] | None:
    """Return quantiles as they occur in the values: the lower of two neighbours, never between them."""
    if not len(values):
        return None
    figures = np.quantile(values, list(QUANTILES.values()), method="lower").tolist()
    return dict(zip(QUANTILES, figures, strict=True))


def _distinct(log: JobLog, column: str) -> int | None:
    known = _known(log, column)
    return len(np.unique(known)) if len(known) else None


def date_of(log: JobLog, second: int) -> str | None:
    """Return the date and time of a second of a log, in the machine's time zone; None where its epoch is unknown.

    >>> date_of(JobLog.from_columns({"job_id": [1], "submit": [0]}, {}, epoch=1_706_659_200), 60)
    '2024-01-31T00:01:00+00:00'
    """
    if log.epoch is None:
        return None
    zone = ZoneInfo(log.time_zone) if log.time_zone else UTC
    try:
        return datetime.fromtimestamp(log.epoch + second, zone).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
