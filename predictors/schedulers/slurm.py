"""Slurm through its commands: squeue, sacct, sinfo and scontrol. Nothing is changed but by `write`."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from predictors.core.errors import JobcastError, printable, unknown_name
from predictors.probes.commands import Done, run
from predictors.schedulers import slurm_text
from predictors.schedulers.soft_limit import PENDING, QueuedJob, Reservation

_ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
WAITING: Final = frozenset((PENDING, "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"))
"""States of jobs that wait, or are held, for Slurm: it takes changes of their soft limits."""
FILTERS: Final = ("SQUEUE_", "SACCT_", "SINFO_", "SCONTROL_", "SLURM_CLUSTERS")
"""Beginnings of variables that add options to Slurm's commands, and so hide jobs: no command gets them."""


ADMIN_COMMENT: Final = "admin-comment"
MARKS: Final = (ADMIN_COMMENT, "comment", "none")
"""Where jobs are marked: in AdminComment, which Administrators may write, in the user's Comment, or nowhere."""


class Scheduler(Protocol):
    """What the adapter asks of a scheduler."""

    def config(self) -> slurm_text.Config:
        """Return clock, version and options."""

    def queue(self) -> slurm_text.Rows:
        """Return all jobs that the scheduler has in memory, those that ended a moment ago, too."""

    def ended_since(self, second: int) -> slurm_text.Rows | None:
        """Return the jobs that ended since; None if no accounts are kept."""

    def reservations(self) -> tuple[Reservation, ...]:
        """Return the reservations."""

    def partitions(self) -> Mapping[str, frozenset[str]]:
        """Return the nodes of each partition."""

    def mark(self, jobs: Sequence[QueuedJob], minutes: int) -> str:
        """Return what marks jobs with this soft limit [min] as ours, or takes their marks away (0); empty: nothing."""

    def write(self, minutes: Mapping[str, int], marks: Mapping[str, str]) -> Mapping[str, str]:
        """Set soft limits [min], 0 to clear, by what scontrol calls the jobs: 7, all of an array, or 7_1,7_3.

        Those of `marks` are marked first. Returns what was refused, by the id that was refused. No refusal is no proof.
        """


class Slurm:
    """The cluster that the commands on the PATH speak to."""

    def __init__(
        self,
        patience: float = 60.0,  # longest time of a command [s]
        mark: str = ADMIN_COMMENT,  # where a job with a soft limit of ours is marked, one of `MARKS`
    ) -> None:
        if mark not in MARKS:
            raise unknown_name("mark", mark, MARKS)
        self._patience, self._mark = patience, mark

    def config(self) -> slurm_text.Config:
        """Return clock, version and options."""
        return slurm_text.parse_config(self._output("scontrol", "show", "config"))

    def queue(self) -> slurm_text.Rows:
        """Return all jobs that slurmctld has in memory; of an array each task, as each may have its own soft limit."""
        separator = _separator()
        fields = slurm_text.squeue_format(separator)
        return slurm_text.parse_squeue(self._output("squeue", "-h", "-a", "-r", "-t", "all", "-O", fields), separator)

    def ended_since(self, second: int) -> slurm_text.Rows | None:
        """Return the jobs that ended since a second, by sacct; None where no accounts are kept.

        Runs before a requeue count as jobs of their own. Jobs that were cancelled before they could ever start are
        among them: sacct tells these only where it is asked by state.
        """
        separator = _separator()
        command = ["sacct", "--noheader", "--allusers", "--allocations", "--duplicates", "--parsable"]
        command += [f"--delimiter={separator}", f"--format={','.join(slurm_text.SACCT_FIELDS)}"]
        command += [f"--starttime={_local(second)}", "--endtime=now"]
        command += ["--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"]
        done = self._run(*command)
        if done.code != 0 and "accounting storage is disabled" in done.problem.lower():
            return None
        return slurm_text.parse_sacct(_good(done, "sacct"), separator)

    def reservations(self) -> tuple[Reservation, ...]:
        return slurm_text.parse_reservations(self._output("scontrol", "-a", "-o", "show", "reservation"))

    def partitions(self) -> Mapping[str, frozenset[str]]:
        return slurm_text.parse_partitions(self._output("sinfo", "-h", "-a", "-N", "-o", "%R %N"))

    def mark(self, jobs: Sequence[QueuedJob], minutes: int) -> str:
        """Return the words that mark jobs with this soft limit [min] as ours, or take their marks away (0).

        They are empty where there is nothing to be done, and where somebody else's comment stands already.

        >>> Slurm().mark([QueuedJob(7)], 25), Slurm().mark([QueuedJob(7, mark="see ticket 9")], 25)
        ('AdminComment=jobcast:soft=25m', '')
        >>> Slurm(mark="none").mark([QueuedJob(7, comment="jobcast:soft=25m")], 0)
        'Comment='
        """
        texts = {"AdminComment": [job.mark for job in jobs], "Comment": [job.comment for job in jobs]}
        ours = {name: [bool(QueuedJob(0, mark=text).marked) for text in of] for name, of in texts.items()}
        if not minutes:
            return " ".join(f"{name}=" for name, of in ours.items() if of and all(of))
        name = {ADMIN_COMMENT: "AdminComment", "comment": "Comment"}.get(self._mark, "")
        free = name and all(not text or own for text, own in zip(texts[name], ours[name], strict=True))
        return f"{name}=jobcast:soft={minutes}m" if free else ""

    def write(self, minutes: Mapping[str, int], marks: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
        """Set soft limits by one scontrol; return why a job was not changed, by id or by array and task.

        A job that is missing there may still be unchanged: scontrol has status 0 for a running job, and changes
        nothing. Read the queue again. It raises JobcastError if scontrol fails without a word on any job.
        """
        if not minutes:
            return {}
        lines = [f"update JobId={job} TimeMin={value}" for job, value in minutes.items()]
        words = {job: f"update JobId={job} {text}" for job, text in marks.items() if text}
        # a mark without a soft limit does no harm: it is made before, and taken away after
        lines = [line for job, line in words.items() if minutes[job]] + lines
        lines += [line for job, line in words.items() if not minutes[job]]
        done = run(
            ["scontrol"], stdin="\n".join([*lines, "quit", ""]), environment=_ENVIRONMENT, without=FILTERS,
            patience=self._patience,
        )  # fmt: skip
        refused = slurm_text.parse_refusals(done.problem)
        if done.code != 0 and not refused:
            _good(done, "scontrol")
        return refused

    def _run(self, *command: str) -> Done:
        return run(command, environment=_ENVIRONMENT, without=FILTERS, patience=self._patience)

    def _output(self, *command: str) -> str:
        return _good(self._run(*command), command[0])


def called(target: int, jobs: Sequence[QueuedJob], *, whole: bool) -> str:
    """Return what scontrol calls jobs with one id: the id alone, or each task where others of the array must stay.

    >>> tasks = [QueuedJob(9, array_id=5, task="1"), QueuedJob(5, array_id=5, task="3")]
    >>> called(5, tasks, whole=True), called(5, tasks, whole=False)
    ('5', '5_1,5_3')
    """
    return str(target) if whole else ",".join(job.key for job in jobs)


def _separator() -> str:
    """Return what stands behind each field: it begins with no digit, which would be a width."""
    return f"|x{secrets.token_hex(6)}|"


def _good(done: Done, name: str) -> str:
    if done.code != 0:
        message = " ".join((done.problem.strip() or done.out.strip() or "no message").split())[:300]
        raise JobcastError(f"{name}: failed with status {done.code}: {printable(message)}.")
    return done.out


def _local(second: int) -> str:
    """Return a second as sacct takes it: the local time of this machine."""
    return datetime.fromtimestamp(second).strftime("%Y-%m-%dT%H:%M:%S")
