"""What Slurm's commands print, read with fields that are the same from 22.05 to 26.05.

Names of jobs may hold bars, line breaks and anything else, so a text that no one can guess, drawn for each call,
separates the fields, and the name stands last. Rows that cannot be read are counted, never guessed at.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from predictors.core.errors import JobcastError, printable
from predictors.data.formats.columns import span
from predictors.data.formats.slurm import state_of
from predictors.data.slurm.hosts import hostnames
from predictors.schedulers.soft_limit import QueuedJob, Reservation

SQUEUE_FIELDS: Final = (  # fields of `squeue -O`
    "JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "UserName", "Account", "Partition", "QOS", "State",
    "SubmitTime", "EligibleTime", "StartTime", "EndTime", "TimeLimit", "MinTime", "NumCPUs", "NumNodes", "Deadline",
    "Reservation", "RestartCnt", "admin_comment", "Comment", "Name",
)  # fmt: skip
SACCT_FIELDS: Final = (  # fields of `sacct --format`
    "JobIDRaw", "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End",
    "TimelimitRaw", "ReqCPUS", "NNodes", "Restarts", "JobName",
)  # fmt: skip
OPTION: Final = "time_min_as_soft_limit"  # without it in SchedulerParameters a soft limit shortens the hard one
LEAST_VERSION: Final = (23, 11)  # the first version that has the option
GOOD_VERSION: Final = (25, 5, 4)  # the first one that plans running jobs by it, too, and has none of its earlier faults

_NOTHING: Final = frozenset(("", "N/A", "(null)", "None", "Unknown", "NONE"))
_NO_LIMIT: Final = frozenset(("UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit", "N/A", ""))


@dataclass(frozen=True)
class Rows:
    """Jobs that were read, and how many rows were not, by reason, with an example each."""

    jobs: tuple[QueuedJob, ...]
    bad: Mapping[str, int] = field(default_factory=dict)

    @property
    def problems(self) -> str:
        """The reasons in one line; empty if every row was read."""
        return ", ".join(f"{n} x {why}" for why, n in self.bad.items())


def squeue_format(separator: str) -> str:
    """Return the argument of `squeue -O`, with a text behind each field.

    >>> squeue_format("|a1|")[:36]
    'JobID:|a1|,ArrayJobID:|a1|,ArrayTask'
    """
    return ",".join(f"{name}:{separator}" for name in SQUEUE_FIELDS)


def parse_squeue(text: str, separator: str) -> Rows:
    r"""Return the jobs that `squeue -O` printed with a separator behind each field; a text that is cut off is refused.

    >>> values = ["7", "7", "N/A", "N/A", "eve", "(null)", "p", "q", "PENDING", "100", "N/A", "N/A", "N/A", "1:00:00",
    ...     "0:00", "8", "1", "N/A", "(null)", "0", "(null)", "(null)", "a|b\nc"]
    >>> job = parse_squeue("".join(value + "|x|" for value in values) + "\n", "|x|").jobs[0]
    >>> job.limit, job.soft, job.name, job.account, job.deadline
    (3600, None, 'a|b\nc', '', None)
    """
    return _read(text, separator, "squeue", SQUEUE_FIELDS, _queued)


def parse_sacct(text: str, separator: str) -> Rows:
    """Return the jobs in what `sacct --parsable --delimiter` printed."""
    return _read(text, separator, "sacct", SACCT_FIELDS, _accounted)


def _read(
    text: str, separator: str, command: str, fields: tuple[str, ...], made: Callable[[dict[str, str]], QueuedJob]
) -> Rows:
    pieces = text.split(separator)
    if pieces.pop().strip("\n"):
        raise JobcastError(f"{command}: what it printed ends within a row; it was ended early, or lacks a field.")
    if len(pieces) % len(fields):
        raise JobcastError(
            f"{command}: printed {len(pieces)} fields, which is no multiple of the {len(fields)} asked for."
        )
    jobs, bad = list[QueuedJob](), dict[str, int]()
    for at in range(0, len(pieces), len(fields)):
        values = dict(zip(fields, pieces[at : at + len(fields)], strict=True))
        first = fields[0]
        if at:
            values[first] = values[first].removeprefix("\n")
        try:
            jobs.append(made(values))
        except ValueError as error:
            why = printable(str(error))[:80]
            bad[why] = bad.get(why, 0) + 1
    return Rows(tuple(jobs), bad)


def _queued(row: dict[str, str]) -> QueuedJob:
    number = _number(row, "JobID")
    task = _or_empty(row["ArrayTaskID"])
    limit, least = row["TimeLimit"].strip(), row["MinTime"].strip()
    return QueuedJob(
        job_id=number, state=state_of(row["State"]), limit=None if limit in _NO_LIMIT else _span(row, "TimeLimit"),
        soft=None if least in _NO_LIMIT else _span(row, "MinTime") or None,
        array_id=_number(row, "ArrayJobID") if task else number, task=task,
        is_het=_or_empty(row["HetJobID"]) not in ("", "0"), user=_or_empty(row["UserName"]),
        account=_or_empty(row["Account"]), partition=_or_empty(row["Partition"]), qos=_or_empty(row["QOS"]),
        submit=_time(row, "SubmitTime"), eligible=_time(row, "EligibleTime"), start=_time(row, "StartTime"),
        end=_time(row, "EndTime"), procs=_number(row, "NumCPUs"), nodes=_nodes(row["NumNodes"]),
        deadline=_time(row, "Deadline"), reservation=_or_empty(row["Reservation"]), restarts=_number(row, "RestartCnt"),
        mark=_or_empty(row["admin_comment"]), comment=_or_empty(row["Comment"]), name=row["Name"],
    )  # fmt: skip


def _accounted(row: dict[str, str]) -> QueuedJob:
    number, word = _number(row, "JobIDRaw"), row["JobID"]
    found = re.fullmatch(r"([0-9]+)(?:_([0-9]+|\[.*\])|\+([0-9]+))?", word)
    if found is None:
        raise ValueError(f"JobID {word!r} is no id of a job")
    task = (found[2] or "").strip("[]")
    start, end = _time(row, "Start"), _time(row, "End")
    limit = row["TimelimitRaw"].strip()
    return QueuedJob(
        job_id=number, state=state_of(row["State"]),
        limit=None if limit in _NO_LIMIT else 60 * _number(row, "TimelimitRaw"),
        array_id=int(found[1]) if task else number, task=task, is_het=found[3] is not None, user=_or_empty(row["User"]),
        account=_or_empty(row["Account"]), partition=_or_empty(row["Partition"]), qos=_or_empty(row["QOS"]),
        submit=_time(row, "Submit"), eligible=_time(row, "Eligible"), start=start, end=end,
        procs=_number(row, "ReqCPUS"), nodes=_nodes(row["NNodes"]),
        restarts=int(row["Restarts"]) if row["Restarts"].isdecimal() else 0, name=row["JobName"],
    )  # fmt: skip


def _or_empty(text: str) -> str:
    return "" if text.strip() in _NOTHING else text.strip()


def _number(row: dict[str, str], name: str) -> int:
    text = row[name].strip()
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise ValueError(f"{name} is no whole number: {text[:20]!r}")
    return int(text)


def _nodes(text: str) -> int:
    """Return a number of nodes, the least where a range such as 2-4 was asked for."""
    found = re.match(r"\s*([0-9]{1,9})", text)
    return int(found[1]) if found else 1


def _span(row: dict[str, str], name: str) -> int:
    seconds = span(row[name])
    if seconds is None or row[name].strip().isdecimal():  # squeue writes minutes and seconds, 10:00, at least
        raise ValueError(f"{name} is no span of time: {row[name][:20]!r}")
    return seconds


def _time(row: dict[str, str], name: str) -> int | None:
    text = row[name].strip()
    if text in _NOTHING or text == "0":
        return None
    return _number(row, name)


@dataclass(frozen=True)
class Config:
    """What `scontrol show config` says that matters here."""

    now: int  # the clock of slurmctld, in Unix time
    version: tuple[int, ...]  # such as (25, 5, 4)
    cluster: str
    parameters: frozenset[str]  # SchedulerParameters, without their values
    scheduler: str
    min_job_age: int = 300  # how long an ended job stays in the queue's list [s]
    private: str = ""

    @property
    def refusal(self) -> str:
        """Why no soft limit may be written here; empty if it may."""
        if self.version < LEAST_VERSION:
            return f"Slurm {self.shown} has no {OPTION}: a soft limit would shorten the hard one; it needs 23.11"
        if OPTION not in self.parameters:
            return f"SchedulerParameters lacks {OPTION}: a soft limit would shorten the hard one"
        return ""

    @property
    def warning(self) -> str:
        """What the version does not do well; empty if nothing."""
        if LEAST_VERSION <= self.version < GOOD_VERSION:
            return f"Slurm {self.shown} plans running jobs by their hard limits; 25.05.4 is the first that does not"
        return ""

    @property
    def shown(self) -> str:
        """The version as text."""
        return ".".join(f"{part:02d}" if at == 1 else str(part) for at, part in enumerate(self.version))


def parse_config(text: str) -> Config:
    r"""Return what `scontrol show config` printed with SLURM_TIME_FORMAT=%s.

    >>> lines = ["Configuration data as of 1700000000", "SLURM_VERSION           = 26.05.5",
    ...     "SchedulerParameters     = bf_interval=30,time_min_as_soft_limit", "ClusterName             = big"]
    >>> found = parse_config("\n".join(lines))
    >>> found.shown, found.refusal, found.cluster, found.now
    ('26.05.5', '', 'big', 1700000000)
    """
    head = re.search(r"^Configuration data as of (\d{1,11})$", text, re.MULTILINE)
    values = dict(re.findall(r"^(\w+)\s*= (.*)$", text, re.MULTILINE))
    version = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", values.get("SLURM_VERSION", ""))
    if head is None or version is None:
        lacks = "the time" if head is None else "SLURM_VERSION"
        raise JobcastError(f"scontrol show config: printed no {lacks.removeprefix('the ')}; is slurmctld up?")
    parameters = _or_empty(values.get("SchedulerParameters", "")).split(",")
    age = re.match(r"\d{1,9}", values.get("MinJobAge", ""))
    return Config(
        now=int(head[1]),
        version=tuple(int(part) for part in version.groups() if part is not None),
        cluster=_or_empty(values.get("ClusterName", "")),
        parameters=frozenset(name.strip().partition("=")[0].lower() for name in parameters if name.strip()),
        scheduler=_or_empty(values.get("SchedulerType", "")),
        min_job_age=int(age[0]) if age else 300,
        private=_or_empty(values.get("PrivateData", "")),
    )


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """Return the reservations that scontrol printed with SLURM_TIME_FORMAT=%s; refuse unreadable times.

    >>> line = "ReservationName=maint StartTime=100 EndTime=200 Nodes=n[1-2] Flags=MAINT,SPEC_NODES State=INACTIVE"
    >>> found = parse_reservations(line)[0]
    >>> found.name, found.start, sorted(found.nodes), sorted(found.flags)
    ('maint', 100, ['n1', 'n2'], ['MAINT', 'SPEC_NODES'])
    >>> parse_reservations("No reservations in the system")
    ()
    """
    found = []
    for line in text.splitlines():
        values = dict(re.findall(r"(\w+)=(\S*)", line))
        if "ReservationName" not in values:
            continue
        start, end = values.get("StartTime", ""), values.get("EndTime", "")
        if not (start.isdecimal() and end.isdecimal()):
            raise JobcastError(f"scontrol show reservation: {printable(line)[:80]!r} has no times that can be read.")
        nodes = _or_empty(values.get("Nodes", ""))
        found.append(
            Reservation(
                name=values["ReservationName"], start=int(start), end=int(end),
                nodes=None if nodes in ("", "ALL") else frozenset(hostnames(nodes)),
                flags=frozenset(_or_empty(values.get("Flags", "")).split(",")) - {""},
            )
        )  # fmt: skip
    return tuple(found)


def parse_partitions(text: str) -> Mapping[str, frozenset[str]]:
    r"""Return the nodes of each partition, as `sinfo -h -N -o '%R %N'` printed them.

    >>> sorted(parse_partitions("p n1\np n2\nbig n2")["p"])
    ['n1', 'n2']
    """
    nodes: dict[str, set[str]] = {}
    for line in text.splitlines():
        partition, _, node = line.strip().partition(" ")
        if node:
            nodes.setdefault(partition, set()).add(node)
    return MappingProxyType({name: frozenset(those) for name, those in nodes.items()})


def parse_refusals(text: str) -> Mapping[str, str]:
    r"""Return what scontrol said on stderr of each job that it did not change, by id, or by array and task.

    >>> dict(parse_refusals("Invalid job id specified for job 99\n"))
    {'99': 'Invalid job id specified'}
    >>> dict(parse_refusals("5_3: Job is no longer pending execution\n5_4: No error\n"))
    {'5_3': 'Job is no longer pending execution'}
    """
    found = re.findall(r"^(?:.*?error: )?(.+?) for job (\d+(?:_\S+)?)\s*$", text, re.MULTILINE)
    found += [(why, job) for job, why in re.findall(r"^(\d+(?:_[^\s:]+)?): (.+)$", text, re.MULTILINE)]
    return MappingProxyType({job: printable(why.strip())[:160] for why, job in found if why.strip() != "No error"})
