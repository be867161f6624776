"""Schedulers that start control jobs: Slurm, LSF, this machine."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from predictors.core.errors import JobcastError
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


class Scheduler(Protocol):
    """What starts jobs."""

    launcher: str  # what usually starts one rank a node within a job
    hosts: str  # a line of shell that prints the hosts of a job, one a line; empty if only the probes know them
    outlives: bool  # whether its jobs continue when the program that submitted them ends

    def check(self) -> None:
        """Raise unless the scheduler's commands are there."""

    def submit(self, request: Request) -> str:
        """Start a job and return its id; raise `JobcastError` with the scheduler's message if it refuses."""

    def queued(self, job: str, folder: Path) -> bool | None:
        """Return whether a job waits or runs; None if the scheduler does not answer."""

    def last_message(self, job: str) -> str:
        """Return the scheduler's message on a job that has ended, or an empty text."""

    def cancel(self, job: str, folder: Path) -> None:
        """End a job."""


class Slurm:
    """`sbatch`, `squeue`, `sacct`."""

    launcher: str = "srun --ntasks={ranks} --distribution=cyclic"
    hosts: str = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    outlives: bool = True

    def check(self) -> None:
        """Raise unless the commands are there."""
        _need("sbatch", "squeue")

    def submit(self, request: Request) -> str:
        """Submit; the id is what `sbatch --parsable` prints before a semicolon."""
        nodes = request.nodes_option or ("--nodes={nodes}",)
        limit = f"--time={-(-request.seconds // 60)}"
        printed = f"--output={request.script.parent / 'job.out'}"
        output = _output(
            ["sbatch", "--parsable", f"--job-name={request.name}", limit, printed]
            + [option.format(nodes=request.nodes) for option in (*nodes, *request.options)]
            + [str(request.script)]
        )
        lines = output.splitlines()
        job = lines[-1].split(";")[0].strip() if lines else ""
        if not job.isdecimal():
            raise JobcastError(f"sbatch: printed no job id but {output.strip()[:200]!r}.")
        return job

    def queued(self, job: str, folder: Path) -> bool | None:
        """Ask `squeue`, which forgets a job some minutes after its end."""
        code, out, problem = run(["squeue", "--noheader", f"--jobs={job}", "--format=%T"])
        if code != 0:
            return False if "invalid job id" in problem.lower() else None
        return bool(set(out.split()) - _SLURM_ENDED)

    def last_message(self, job: str) -> str:
        """Ask `sacct`, if the site keeps accounts."""
        code, out, _ = run(["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}",
                             "--format=State,ExitCode"])  # fmt: skip
        return f"Slurm says {' '.join(out.split())}" if code == 0 and out.strip() else ""

    def cancel(self, job: str, folder: Path) -> None:
        """Ask `scancel`."""
        run(["scancel", job])


class Lsf:
    """`bsub`, `bjobs`."""

    launcher: str = "mpirun -n {ranks}"
    hosts: str = 'sort -u "$LSB_DJOB_HOSTFILE"'
    outlives: bool = True

    def check(self) -> None:
        """Raise unless the commands are there."""
        _need("bsub", "bjobs")

    def submit(self, request: Request) -> str:
        """Submit; the id is in `Job <123> is submitted to …`."""
        nodes = request.nodes_option or ("-nnodes", "{nodes}")
        output = _output(
            ["bsub", "-J", request.name, "-W", str(-(-request.seconds // 60))]
            + ["-o", str(request.script.parent / "job.out")]
            + [option.format(nodes=request.nodes) for option in (*nodes, *request.options)]
            + ["bash", str(request.script)]
        )
        job = re.search(r"Job <(\d+)> is submitted", output)
        if job is None:
            raise JobcastError(f"bsub: printed no job id but {output.strip()[:200]!r}.")
        return job[1]

    def queued(self, job: str, folder: Path) -> bool | None:
        """Ask `bjobs`."""
        code, out, problem = run(["bjobs", "-noheader", "-o", "stat", job])
        if "is not found" in out + problem:
            return False
        return None if code != 0 or not out.strip() else out.split()[0] not in _LSF_ENDED

    def last_message(self, job: str) -> str:
        """Ask `bjobs` for the exit code."""
        code, out, _ = run(["bjobs", "-noheader", "-o", "stat exit_code", job])
        return f"LSF says {' '.join(out.split())}" if code == 0 and out.strip() else ""

    def cancel(self, job: str, folder: Path) -> None:
        """Ask `bkill`."""
        run(["bkill", job])


@dataclass
class Plain:
    """The machine itself, by bash; a job is a process group that holds a lock on its folder's `alive`.

    The lock shows whether a job still runs, whichever program started it. A process id does not: the system may reuse
    it.
    """

    launcher: str = "mpirun -n {ranks}"
    hosts: str = ""
    outlives: bool = False
    _children: dict[Path, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def check(self) -> None:
        """Raise unless bash is there."""
        _need("bash")

    def submit(self, request: Request) -> str:
        """Start the job now; the id is its process group."""
        import fcntl

        folder = request.script.parent
        with (folder / "alive").open("w") as alive, (folder / "job.out").open("wb") as out:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._children[folder] = child = subprocess.Popen(
                ["bash", str(request.script)], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, pass_fds=(alive.fileno(),),
            )  # fmt: skip
        threading.Thread(target=child.wait, daemon=True).start()  # else it stays in the table of processes once ended
        return f"process {child.pid}"

    def queued(self, job: str, folder: Path) -> bool | None:
        """Return whether the lock is held."""
        import fcntl

        try:
            with (folder / "alive").open("r+") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def last_message(self, job: str) -> str:
        """Return an empty text: there is no scheduler."""
        return ""

    def cancel(self, job: str, folder: Path) -> None:
        """End the job with its probes and its application, by force after 15 s."""
        child = self._children.pop(folder, None)
        pid = child.pid if child is not None else _process(job, folder)
        for how in (signal.SIGTERM, signal.SIGKILL) if pid else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, how)
            if child is None:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)
                return


SCHEDULERS: Final[Mapping[str, type[Any]]] = MappingProxyType({"slurm": Slurm, "lsf": Lsf, "plain": Plain})
"""By the name in a control file."""

_SLURM_ENDED: Final = frozenset(
    ["BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"]
)
_LSF_ENDED: Final = frozenset({"DONE", "EXIT", "ZOMBI"})


def _process(job: str, folder: Path) -> int:
    """Return the process id of a job that another program started here, 0 if it has ended."""
    number = job.removeprefix("process ")
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return 0
    return int(number) if str(folder / "job.sh").encode() in command.split(b"\0") else 0


def _need(*commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            raise JobcastError(f"{command}: no such command; run this where the scheduler's commands are on the PATH.")


def _output(command: Sequence[str]) -> str:
    code, out, problem = run(command)
    if code != 0:
        message = " ".join((problem.strip() or out.strip() or "nothing").split())[:400]
        raise JobcastError(f"{command[0]}: refused with status {code}: {message}.")
    return out
