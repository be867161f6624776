"""A campaign of control jobs as a TOML file; docs/probes.md describes it. Paths are relative to the file.

The start times of a day depend on (seed, application, day) alone: a program that is started again uses the same ones,
and a further application does not change those of the others.
"""

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import Field, model_validator

from predictors.core.declarations import Declaration, Texts, declared, read_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.runs import WORKLOADS
from predictors.data.telemetry.layout import node_ids
from predictors.probes.measurements import Settings
from predictors.probes.schedulers import SLURM, Scheduler, scheduler_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TOP: Final = ("control", "probes", "application", "nodes")


class Application(Declaration):
    """A job that is run regularly."""

    name: str  # letters, digits and `. _ + -`
    command: str  # a line of shell, run in `directory`; its output is searched for the region's time
    nodes: int = Field(ge=1)  # at least 1
    workload: str  # {"compute", "network", "io"}: what its run time depends on most
    # a regular expression with one group, the time in the main compute region [s]; the last match counts. Empty: the
    # run time of the command.
    region: str = ""
    walltime: int = Field(3600, ge=1)  # the run is ended after this time [s]
    directory: str = ""  # where the command runs; by default the folder of the TOML file
    options: Texts = ()  # for the scheduler, after those for all applications

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not _NAME.fullmatch(self.name):
            raise JobcastError(f"name: is made of letters, digits and . _ + -; got {self.name!r}.")
        if not self.command.strip():
            raise JobcastError("command: is empty.")
        if self.workload not in WORKLOADS:
            raise unknown_name("workload", self.workload, WORKLOADS)
        try:
            groups = re.compile(self.region).groups
        except re.error as error:
            raise JobcastError(f"region: is no regular expression ({error}).") from error
        if self.region and groups != 1:
            raise JobcastError(f"region: must have one group, the seconds; it has {groups}.")
        return self

    def region_time(self, output: str) -> float | None:
        """Return the last time in the output [s], None without a match that is a time."""
        times = re.findall(self.region, output, re.MULTILINE)
        try:
            seconds = float(times[-1]) if times else -1.0
        except ValueError:
            return None
        return seconds if 0 <= seconds < float("inf") else None


class Control(Declaration):
    """A control file."""

    # runs, folder: the table of runs, CSV or Parquet by its name; the folder of the runs' folders
    runs: Path
    folder: Path
    applications: Annotated[tuple[Application, ...], Field(strict=False)]  # at least one, each name once
    # the command that starts one rank a node within a job; `{nodes}` and `{ranks}` (at least 2) are filled in; empty:
    # the scheduler's usual one
    launcher: str = ""
    options: Texts = ()  # for the scheduler; `{nodes}` is filled in
    nodes_option: Texts = ()  # the scheduler's options for the number of nodes; empty: the usual ones
    python: str = ""  # the Python that has jobcast and mpi4py on the nodes; empty: this one
    seed: int = Field(0, ge=0)  # of the start times
    # least and most runs of an application a day
    runs_per_day: Annotated[tuple[int, int], Field(strict=False)] = (2, 3)
    most_queued: int = Field(1, ge=1)  # an application with this many unfinished runs gets no further one
    # poll, grace: time between two queries of the scheduler [s]; time after which a job that has left the queue without
    # a result has failed [s]
    poll: float = Field(30.0, gt=0)
    grace: float = Field(60.0, ge=0)
    limit: int = Field(600, ge=1)  # the probes are ended after this time [s]
    probes: Settings = Settings()  # pattern, sizes and iterations of the probes
    scheduler: Scheduler = SLURM  # a file of commands stands for another one
    # hosts' node ids; empty: the number that ends a host's name
    node_ids: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [application.name for application in self.applications]
        if not names or len(set(names)) < len(names):
            raise JobcastError("at least one [[application]] is needed, each name once.")
        if not 0 <= self.runs_per_day[0] <= self.runs_per_day[1] <= 1440:
            raise JobcastError(f"runs_per_day must be [least, most], 0 to 1440; got {self.runs_per_day}.")
        try:
            self.launch_line(1)
            [option.format(nodes=1) for option in (*self.options, *self.nodes_option)]
        except (KeyError, IndexError, ValueError) as error:
            raise JobcastError(f"launcher may hold {{nodes}} and {{ranks}}, options {{nodes}}; got {error}.") from error
        return self

    def launch_line(self, nodes: int) -> str:
        """Return the command that starts one rank a node; two ranks on a single node, since a ring needs two."""
        return (self.launcher or self.scheduler.launcher).format(nodes=nodes, ranks=max(2, nodes))

    def named(self, name: str) -> Application:
        for application in self.applications:
            if application.name == name:
                return application
        raise unknown_name("application", name, [application.name for application in self.applications])


def read_control(path: str | os.PathLike[str]) -> Control:
    source = Path(path)
    document = read_toml(path, "a TOML file of control jobs")
    try:
        return control_of(document, source.resolve().parent)
    except JobcastError as error:
        raise JobcastError(f"{source}: {error}") from error


def control_of(document: Mapping[str, Any], folder: Path) -> Control:
    """Return the control that such a document, as plain values, describes; paths are relative to `folder`."""
    for name in document:
        if name not in _TOP:
            raise unknown_name("table", name, _TOP)
    tables = document.get("application", [])
    if not isinstance(tables, list):
        raise JobcastError(f"applications are tables [[application]]; got {tables!r}.")
    nodes = node_ids(document.get("nodes", {}))
    probes = declared(Settings, document.get("probes", {}), "[probes]")
    applications = [
        declared(Application, _in_folder(table, folder), f"[[application]] {k}")
        for k, table in enumerate(tables, start=1)
    ]
    given = document.get("control", {})
    scheduler: Any = SLURM
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if name not in ("runs", "folder") or value != ""}
        scheduler = given.pop("scheduler", "slurm")
        if not isinstance(scheduler, str):
            raise JobcastError(f"[control]: scheduler must be a text; got {scheduler!r}.")
        scheduler = scheduler_of(scheduler, folder)
        texts = [name for name in ("runs", "folder") if isinstance(given.get(name), str)]
        given |= {name: folder / given[name] for name in texts}
    parts = {"applications": applications, "probes": probes, "node_ids": nodes, "scheduler": scheduler}
    return declared(Control, given, "[control]", hidden=parts)


def _in_folder(table: Any, folder: Path) -> Any:
    """Return the table of an application with its directory relative to `folder`."""
    if not isinstance(table, dict) or not isinstance(table.get("directory", ""), str):
        return table
    return table | {"directory": str(folder / table.get("directory", ""))}


DAY: Final = 86_400  # days begin at midnight UTC [s]


def start_times(
    seed: int,
    application: str,
    day: int,  # days since 1 January 1970, UTC
    per_day: Sequence[int] = (2, 3),  # least and most runs a day; the number is drawn as well
) -> list[int]:
    """Return the random start times of an application's control jobs on a day: Unix seconds, ascending, each once.

    >>> [second % DAY // 3600 for second in start_times(1, "AMG", 20_000)]
    [0, 15]
    """
    draw = np.random.default_rng([seed, zlib.crc32(application.encode()), day])
    number = int(draw.integers(per_day[0], per_day[1] + 1))
    return [day * DAY + int(second) for second in np.sort(draw.choice(DAY, number, replace=False))]


def due(
    seed: int, applications: Sequence[str], after: float, until: float, per_day: Sequence[int] = (2, 3)
) -> list[tuple[int, str]]:
    """Return (Unix second, application) of all runs with after < second <= until, in the order of time."""
    days = range(int(after // DAY), int(until // DAY) + 1)
    times = [
        (second, name) for day in days for name in applications for second in start_times(seed, name, day, per_day)
    ]
    return sorted(one for one in times if after < one[0] <= until)
