"""The campaign: submits control jobs when they are due, and adds a row to the table for each that has ended."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from predictors.core.errors import JobcastError
from predictors.data.runs import Runs, read_runs, write_runs
from predictors.probes.campaign_file import Control, due
from predictors.probes.control_job import DONE, FAILED, QUEUED, ControlRun
from predictors.probes.schedulers import Request

if TYPE_CHECKING:
    from filelock import FileLock

SPARE: Final = 120  # seconds that a job asks for beyond the limits of its probes and its application


@dataclass
class CampaignResult:
    """Runs by what happened to them, in the order of events."""

    submitted: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


class Campaign:
    """A campaign of control jobs, one at a time over a folder; used in a `with` block.

    Killed at any time, it loses nothing: the table is always whole, a run that continues at the scheduler is collected
    by the next call, and a run never gets a second row.
    """

    def __init__(
        self,
        control: Control,
        say: Callable[[str], None] = lambda line: None,  # called with each event, in one line
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.control = control
        self.result = CampaignResult()
        self._say, self._clock, self._sleep = say, clock, sleep
        self._scheduler = control.scheduler
        self._gone: dict[Path, float] = {}
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        from filelock import FileLock, Timeout

        self._scheduler.check()
        folder = self.control.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / ".lock", timeout=0)
            self._lock.acquire()
        except Timeout as error:
            raise JobcastError(f"{folder}: another jobcast keeps these runs; end it first.") from error
        except (OSError, NotImplementedError) as error:
            raise JobcastError(f"{folder}: cannot be written or locked ({error}); choose another folder.") from error
        try:
            if self.control.runs.exists():
                read_runs(self.control.runs, strict=True)
        except JobcastError:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        try:
            if left := self.queued():
                self._say(f"{len(left)} still at the scheduler; the next call collects them")
        finally:
            self._lock.release()

    def queued(self) -> list[ControlRun]:
        """Return the runs that have not been collected, oldest first."""
        folder = self.control.folder / QUEUED
        runs = [ControlRun.read(one) for one in folder.glob("[!.]*")]
        return sorted(runs, key=lambda run: (run.submitted, run.folder.name))

    def keep(
        self,
        until: float,  # when to stop submitting by schedule [Unix s]
        wanted: Sequence[str] = (),  # names of applications
        *,
        by_schedule: bool = True,  # whether runs that come due are submitted
        wait: bool = False,  # whether to stay until all runs have ended
    ) -> CampaignResult:
        """Run `wanted` applications now and, by schedule, each when due, never later; return what happened."""
        control = self.control
        names = [application.name for application in control.applications]
        todo, last = [control.named(name).name for name in wanted], self._clock()
        while True:
            now = self._clock()
            self.collect()
            if by_schedule:
                coming = due(control.seed, names, last, min(now, until), control.runs_per_day)
                todo += [name for name in dict.fromkeys(name for _, name in coming) if name not in todo]
            last = now
            while todo:
                name = todo.pop(0)
                running = sum(run.application.name == name for run in self.queued())
                if running >= control.most_queued:
                    self._skip(name, f"{running} not yet ended")
                else:
                    self.submit(name)
            if now >= until and not (wait and self.queued()):
                return self.result
            self._sleep(control.poll)

    def submit(self, name: str) -> None:
        """Submit one run; a refusal is noted, and the queued runs continue."""
        control, application = self.control, self.control.named(name)
        run = ControlRun.made(control, application, self._clock())
        request = Request(
            script=run.folder / "job.sh", name=f"jobcast-{name}", nodes=application.nodes,
            seconds=application.walltime + control.limit + SPARE, options=(*control.options, *application.options),
            nodes_option=control.nodes_option,
        )  # fmt: skip
        try:
            run = replace(run, job=self._scheduler.start(request))
        except JobcastError as error:
            self._fail(run, str(error))
            return
        run.keep()
        self.result.submitted.append(run.folder.name)
        self._say(f"{run.folder.name}: submitted as {run.job}")

    def collect(self) -> None:
        """Add a row to the table for each run that has ended well, and note those that failed."""
        for run in self.queued():
            if run.ended:
                self._add(run)
            elif not run.job:
                self._fail(run, "its submission was cut short; its script ends at once if it is still started")
            elif self._scheduler.queued(run.job) is False:
                self._lost(run)

    def _lost(self, run: ControlRun) -> None:
        """Note a run that left the queue without a result, after the time that a slow file system needs to show one."""
        now = self._clock()
        since = now - self._gone.setdefault(run.folder, now)
        if run.ended:
            self._add(run)
        elif since >= self.control.grace:
            self._fail(run, f"job {run.job} ended without a result. {self._scheduler.last_message(run.job)}".strip())

    def _add(self, run: ControlRun) -> None:
        try:
            row, problem = run.row(self.control.node_ids)
        except JobcastError as error:
            self._fail(run, str(error))
            return
        add_run(self.control.runs, row)
        run.moved(DONE, problem)
        self.result.added.append(run.folder.name)
        self._say(f"{run.folder.name}: {row.run_time[0]:.1f} s{f'; {problem}' if problem else ''}")

    def _fail(self, run: ControlRun, problem: str) -> None:
        run.moved(FAILED, problem)
        self.result.failed.append((run.folder.name, problem))
        self._say(f"{run.folder.name}: failed: {problem}")

    def _skip(self, name: str, why: str) -> None:
        self.result.skipped.append((name, why))
        self._say(f"{name}: skipped, {why}")


def add_run(path: Path, row: Runs) -> bool:
    """Add a run to a table, under the next free id if its own is taken; return whether it was not there yet."""
    if not path.exists():
        write_runs(row, path)
        return True
    table, _ = read_runs(path, strict=True)
    if ((table.application == row.application[0]) & (table.start == row.start[0])).any():
        return False
    if row.job_id[0] in table.job_id:
        row = replace(row, job_id=np.array([int(table.job_id.max()) + 1]))
    write_runs(Runs.joined([table, row]), path)
    return True
