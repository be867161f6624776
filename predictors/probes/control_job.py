"""One control run: its folder, the script that the scheduler starts, and its row in the table of runs.

A run's folder holds `run.json` (the application), `job.sh`, the application's output (`application.out`), the row of
probes and, written last and at once, `result`. The folder is in `queued`, and moves to `done` or `failed` when the run
has ended. It holds all that the row needs, so a run outlives the program that submitted it.
"""

import json
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.runs import Runs
from predictors.probes.campaign_file import Application, Control
from predictors.probes.measurements import ProbeRow, hosts_to_nodes, one_row

QUEUED: Final = "queued"
DONE: Final = "done"
FAILED: Final = "failed"

_SCRIPT: Final = """\
#!/bin/bash
# One control run of {name}, written by jobcast: the probes, then the application.
cd {folder} || exit 90
running=
trap 'trap "" TERM; [ -n "$running" ] && kill "$running" && wait "$running"; exit 143' TERM INT
timed() {{ timeout --kill-after=10 "$@" & running=$!; wait "$running"; status=$?; running=; return "$status"; }}
began=$(date +%s.%N)
{hosts}
timed {limit} {probes} > probes.out 2>&1
application=$(date +%s.%N)
timed {walltime} bash -c {command} > application.out 2>&1
ended=$(date +%s.%N)
printf '%s\\n' "$began" "$application" "$ended" "$status" > result.part && mv result.part result
exit "$status"
"""


@dataclass(frozen=True)
class ControlRun:
    """A run that was submitted."""

    folder: Path  # the run's folder
    application: Application  # as it was when the run was submitted
    job: str  # the scheduler's id; empty if submitting was cut short
    submitted: float  # when [Unix s]

    @classmethod
    def made(cls, control: Control, application: Application, now: float) -> "ControlRun":
        """Make the folder of a run that is about to be submitted."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        queue = control.folder / QUEUED
        try:
            queue.mkdir(parents=True, exist_ok=True)
            name = f"{application.name}-{stamp}"
            taken = {one.name for state in (QUEUED, DONE, FAILED) for one in (control.folder / state).glob(f"{name}*")}
            names = (name if k == 0 else f"{name}-{k}" for k in range(len(taken) + 1))
            folder = queue / next(one for one in names if one not in taken)
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=queue))  # it gets its name once it is whole
            (new / "job.sh").write_text(
                script(control, application, folder), encoding="utf-8", errors="surrogateescape"
            )
            cls(new, application, "", now).keep()
            new.chmod(0o755)
            new.rename(folder)
        except OSError as error:
            raise JobcastError(f"{queue}: no folder for a run can be made ({error.strerror}).") from error
        return cls(folder, application, "", now)

    @classmethod
    def read(cls, folder: Path) -> "ControlRun":
        try:
            stored = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            application = {**stored["application"], "options": tuple(stored["application"]["options"])}
            return cls(folder, Application(**application), str(stored["job"]), float(stored["submitted"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JobcastError(f"{folder}: is no folder of a run ({error}); move it away.") from error

    def keep(self) -> None:
        about = {"job": self.job, "submitted": self.submitted, "application": self.application.model_dump()}
        with whole_file(self.folder / "run.json") as part:
            part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @property
    def ended(self) -> bool:
        return (self.folder / "result").exists()

    def moved(self, state: str, problem: str = "") -> Path:
        """Move the folder to a state, write the problem into it if there is one, and return its new place."""
        if problem:
            (self.folder / "problem").write_text(problem + "\n", encoding="utf-8")
        target = self.folder.parent.parent / state
        target.mkdir(exist_ok=True)
        return self.folder.rename(target / self.folder.name)

    def row(self, node_ids: Mapping[str, int]) -> tuple[Runs, str]:
        """Return the row of a run that has ended, and the problem of its probes, empty if there is none.

        The run starts when the job gets its nodes, before the probes: the counters before it are free of the probes'
        traffic. The region's time is the one that the application printed or, without a region, the time of its
        command; so no run time holds the probes.
        """
        began, ready, ended, status = self._result()
        application = self.application
        if status == 124:
            raise JobcastError(f"{application.name} did not end within its walltime of {application.walltime} s.")
        if status != 0:
            last = _last_line(self.folder / "application.out")
            raise JobcastError(f"{application.name} ended with status {status}; its last line: {last}")
        region = ended - ready
        if application.region:
            seconds = application.region_time((self.folder / "application.out").read_text("utf-8", errors="replace"))
            if seconds is None:
                raise JobcastError(
                    f"{application.name} ended well, but no time in its output matches {application.region!r}."
                )
            region = seconds
        probes, problem = self._probes()
        nodes = self._nodes(probes, node_ids)
        return Runs.of(
            job_id=[int(self.job) if self.job.isdecimal() else 1], application=[application.name],
            node_count=[application.nodes], nodes=[nodes if len(nodes) == application.nodes else []], start=[began],
            end=[ended], workload=[application.workload], region_time=[region],
            probes=None if probes is None else [probes.waits],
        ), problem  # fmt: skip

    def _result(self) -> tuple[float, float, float, int]:
        try:
            began, application, ended, status = (self.folder / "result").read_text(encoding="ascii").split()
            return float(began), float(application), float(ended), int(status)
        except ValueError as error:
            raise JobcastError(f"the result is damaged ({error}).") from error

    def _probes(self) -> tuple[ProbeRow | None, str]:
        try:
            return one_row(self.folder / "probes.json"), ""
        except JobcastError:
            return None, f"the probes failed: {_last_line(self.folder / 'probes.out')}"

    def _nodes(self, probes: ProbeRow | None, node_ids: Mapping[str, int]) -> list[int]:
        listed = self.folder / "hosts"
        hosts = listed.read_text(encoding="utf-8").split() if listed.exists() else []
        return hosts_to_nodes(hosts or (probes.hosts if probes is not None else ()), node_ids)


def script(control: Control, application: Application, folder: Path) -> str:
    """Return the script of a run: it runs the probes, then the application, and writes the times of both."""
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in control.probes.model_dump().items()]
    program = [control.python or sys.executable, "-m", "predictors.probes", "--out", str(folder / "probes.json")]
    hosts = control.scheduler.hosts
    command = f"cd {shlex.quote(application.directory or '.')} || exit 91\n{application.command}"
    return _SCRIPT.format(
        name=application.name,
        folder=shlex.quote(str(folder)),
        hosts=f"{hosts} > hosts" if hosts else ": # the row of probes has the hosts",
        limit=control.limit,
        probes=f"{control.launch_line(application.nodes)} {shlex.join([*program, *settings])}",
        walltime=application.walltime,
        command=shlex.quote(command),
    )


def _last_line(path: Path) -> str:
    try:
        lines: list[Any] = path.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return "it printed nothing"
    return next((" ".join(line.split())[:300] for line in reversed(lines) if line.strip(" -=\r")), "it printed nothing")
