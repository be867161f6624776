"""What starts control jobs: Slurm, or the commands of another scheduler in a TOML file."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import model_validator

from predictors.core.declarations import Declaration, Text, Texts, declared, read_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.probes.commands import run


@dataclass(frozen=True)
class Request:
    """A job to be started."""

    script: Path  # a bash script; its folder takes what the job prints
    name: str  # its name in the queue
    # nodes, seconds: number of nodes; walltime [s]
    nodes: int
    seconds: int
    options: Sequence[str] = ()  # the site's own
    nodes_option: Sequence[str] = ()  # the options for the number of nodes; empty: the scheduler's usual ones


class Scheduler(Declaration):
    """The commands of a scheduler, each a list of words."""

    title: Text  # what messages call it
    # starts a job: `{name}`, `{minutes}`, `{nodes}`, `{output}` and `{script}` are filled in. Of the words `options`
    # and `nodes` the former stands for the site's options, the latter for those of the number of nodes.
    submit: Texts
    nodes: Texts  # the usual options for the number of nodes
    job: Text  # a regular expression with one group, the job's id in what `submit` prints
    state: Texts  # prints the state of `{job}`, or its states, the first word of each line
    ended: Texts  # states of jobs that have ended
    gone: str = ""  # a regular expression for the message that there is no such job
    message: Texts = ()  # prints what the scheduler says of a job that has ended
    launcher: Text  # what usually starts one rank a node within a job; `{ranks}` is filled in
    hosts: str = ""  # a line of shell that prints the hosts of a job, one a line; empty if only the probes know them

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("job", "gone"):
            try:
                groups = re.compile(getattr(self, name)).groups
            except re.error as error:
                raise JobcastError(f"{name}: is no regular expression ({error}).") from error
            if name == "job" and groups != 1:
                raise JobcastError(f"job: must have one group, the job's id; it has {groups}.")
        try:
            self.submit_line(Request(Path("job.sh"), "", 1, 60))
            _filled(self.state, job="1"), _filled(self.message, job="1"), self.launcher.format(nodes=1, ranks=2)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            raise JobcastError(f"a command holds {error} in braces, which is not filled in.") from error
        if not self.submit or not self.state:
            raise JobcastError("submit and state must be commands, lists of words.")
        return self

    def check(self) -> None:
        for command in (self.submit[0], self.state[0]):
            if shutil.which(command) is None:
                raise JobcastError(
                    f"{command}: no such command; run this where the scheduler's commands are on the PATH."
                )

    def submit_line(self, request: Request) -> list[str]:
        more = {"options": request.options, "nodes": request.nodes_option or self.nodes}
        words = [word for part in self.submit for word in more.get(part, (part,))]
        output, minutes = request.script.parent / "job.out", -(-request.seconds // 60)
        return _filled(
            words, name=request.name, minutes=minutes, nodes=request.nodes, output=output, script=request.script
        )

    def start(self, request: Request) -> str:
        """Start a job and return its id; raise `JobcastError` with the scheduler's message if it refuses."""
        command = self.submit_line(request)
        code, out, problem = run(command)
        if code != 0:
            message = " ".join((problem.strip() or out.strip() or "nothing").split())[:400]
            raise JobcastError(f"{command[0]}: refused with status {code}: {message}.")
        job = re.search(self.job, out)
        if job is None:
            raise JobcastError(f"{command[0]}: printed no job id but {out.strip()[:200]!r}.")
        return job[1]

    def queued(self, job: str) -> bool | None:
        """Return whether a job waits or runs; None if the scheduler does not answer."""
        code, out, problem = run(_filled(self.state, job=job))
        if self.gone and re.search(self.gone, out + problem):
            return False
        return (
            None if code != 0 else bool({line.split()[0] for line in out.splitlines() if line.strip()} - {*self.ended})
        )

    def last_message(self, job: str) -> str:
        """Return the scheduler's message on a job that has ended, or an empty text."""
        if not self.message:
            return ""
        code, out, _ = run(_filled(self.message, job=job))
        return f"{self.title} says {' '.join(out.split())}" if code == 0 and out.strip() else ""


def _filled(words: Sequence[str], **values: object) -> list[str]:
    return [word.format(**values) for word in words]


SLURM: Final = Scheduler(
    title="Slurm",
    submit=("sbatch", "--parsable", "--job-name={name}", "--time={minutes}", "--output={output}",
            "nodes", "options", "{script}"),
    nodes=("--nodes={nodes}",),
    job=r"(?m)^(\d+)(?:;\S*)?\s*\Z",
    state=("squeue", "--noheader", "--jobs={job}", "--format=%T"),
    ended=("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
           "TIMEOUT"),
    gone="(?i)invalid job id",  # squeue forgets a job some minutes after its end
    message=("sacct", "--noheader", "--parsable2", "--allocations", "--jobs={job}", "--format=State,ExitCode"),
    launcher="srun --ntasks={ranks} --distribution=cyclic",
    hosts='scontrol show hostnames "$SLURM_JOB_NODELIST"',
)  # fmt: skip


def scheduler_of(name: str, folder: Path) -> Scheduler:
    """Return the scheduler of a control file: `slurm`, or the one that a TOML file next to it describes."""
    if name == "slurm":
        return SLURM
    if not name.endswith(".toml"):
        raise JobcastError(
            f"{unknown_name('scheduler', name, ('slurm', 'FILE.toml'))} docs/examples has files for LSF, lsf.toml, and "
            "for a machine without a scheduler, this-machine.toml: copy one next to the control file."
        )
    return declared(Scheduler, read_toml(folder / name, "a TOML file of a scheduler's commands"), str(folder / name))
