"""A campaign of control jobs as a TOML file.

    [control]
    runs = "runs.csv"               # the table that gets one row a run
    folder = "control"              # where each run has its folder
    scheduler = "slurm"             # slurm, lsf or plain
    options = ["--partition=pbatch"]
    seed = 1

    [probes]                        # may be left out; the paper's sizes are the defaults
    ring_iterations = 10

    [[application]]
    name = "AMG"
    command = "srun --ntasks=512 amg -problem 2"
    nodes = 16
    workload = "network"            # compute, network or io
    region = 'Solve time: ([0-9.eE+-]+)'

    [nodes]                         # may be left out: then the number that ends a host's name is its id
    login-a = 900

Paths are relative to the file.

The times of a day hang on (seed, application, day) alone: a program that is started again goes on with the same ones,
and an application that is added moves no other's.
"""

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import Field, model_validator

from predictors.core.declarations import Declaration, Texts, declared, known_keys, read_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.runs import WORKLOADS
from predictors.probes.measurements import Settings
from predictors.probes.schedulers import SCHEDULERS

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TOP: Final = ("control", "probes", "application", "nodes")


class Application(Declaration):
    """A job that is run again and again.

    Parameters
    ----------
    name : str
        Letters, digits and `. _ + -`.
    command : str
        A line of shell, run in `directory`; what it prints is searched for the region's time.
    nodes : int
        At least 1.
    workload : {"compute", "network", "io"}
        What its run time mostly hangs on.
    region : str
        A regular expression whose one group is the time in the main compute region [s]; the last match counts. Empty:
        the time that the command took.
    walltime : int
        The run is ended after so long [s].
    directory : str
        Where the command runs; not given: beside the TOML file.
    options : tuple of str
        For the scheduler, after those for all applications.
    """

    name: str
    command: str
    nodes: int = Field(ge=1)
    workload: str
    region: str = ""
    walltime: int = Field(3600, ge=1)
    directory: str = ""
    options: Texts = ()

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
        """Return the last time [s] that in the output, or None if there is none that can be one."""
        found = re.findall(self.region, output, re.MULTILINE)
        try:
            seconds = float(found[-1]) if found else -1.0
        except ValueError:
            return None
        return seconds if 0 <= seconds < float("inf") else None


class Control(Declaration):
    """A control file.

    Parameters
    ----------
    runs, folder : Path
        The table of runs, CSV or Parquet by its name; where the folders of runs lie.
    scheduler : {"slurm", "lsf", "plain"}
        What starts a job: `sbatch`, `bsub`, or this machine itself.
    applications : tuple of Application
        At least one, each name once.
    launcher : str
        What starts one rank a node on the nodes of a job, `{nodes}` and `{ranks}` (at least 2) filled in; empty: the
        scheduler's usual one.
    options : tuple of str
        For the scheduler; `{nodes}` is filled in.
    nodes_option : tuple of str
        How the number of nodes is passed to the scheduler; empty: as usual.
    python : str
        The Python that has jobcast and mpi4py on the nodes; empty: this one.
    seed : int
        Of the times of day.
    runs_per_day : tuple of two int
        Least and most runs of an application a day.
    most_queued : int
        An application that has so many runs not yet ended gets no other.
    poll, grace : float
        How often the scheduler is asked [s]; how long after a job has left the queue its result may take to appear.
    limit : int
        The probes are ended after so long [s].
    probes : Settings
        What the probes send.
    node_ids : mapping of str to int
        Hosts' node ids; empty: the number that ends a host's name.
    """

    runs: Path
    folder: Path
    scheduler: str
    applications: Annotated[tuple[Application, ...], Field(strict=False)]
    launcher: str = ""
    options: Texts = ()
    nodes_option: Texts = ()
    python: str = ""
    seed: int = Field(0, ge=0)
    runs_per_day: Annotated[tuple[int, int], Field(strict=False)] = (2, 3)
    most_queued: int = Field(1, ge=1)
    poll: float = Field(30.0, gt=0)
    grace: float = Field(60.0, ge=0)
    limit: int = Field(600, ge=1)
    probes: Settings = Settings()
    node_ids: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.scheduler not in SCHEDULERS:
            raise unknown_name("scheduler", self.scheduler, SCHEDULERS)
        names = [application.name for application in self.applications]
        if not names or len(set(names)) < len(names):
            raise JobcastError("at least one [[application]] is needed, each name once.")
        if not 0 <= self.runs_per_day[0] <= self.runs_per_day[1] <= 1440:
            raise JobcastError(f"runs_per_day must be [least, most], 0 to 1440; got {self.runs_per_day}.")
        try:
            self.launch_line(1)
            [option.format(nodes=1) for option in (*self.options, *self.nodes_option)]
        except (KeyError, IndexError, ValueError) as error:
            raise JobcastError(
                f"launcher may hold {{nodes}} and {{ranks}}, options {{nodes}}; found {error}."
            ) from error
        return self

    def launch_line(self, nodes: int) -> str:
        """Return what starts one rank a node; two where there is one node, since a ring of one is none."""
        return (self.launcher or SCHEDULERS[self.scheduler].launcher).format(nodes=nodes, ranks=max(2, nodes))

    def named(self, name: str) -> Application:
        """Return an application by its name."""
        for application in self.applications:
            if application.name == name:
                return application
        raise unknown_name("application", name, [application.name for application in self.applications])


def read_control(path: str | os.PathLike[str]) -> Control:
    """Read a control file.

    Raises
    ------
    JobcastError
        If it cannot be read, is no TOML, or has a key that is not known, is missing, or cannot be as it is.
    """
    source = Path(path)
    document = read_toml(path, "a TOML file of control jobs")
    try:
        return control_of(document, source.resolve().parent)
    except JobcastError as error:
        raise JobcastError(f"{source}: {error}") from error


def control_of(document: Mapping[str, Any], beside: Path) -> Control:
    """Return the control that such a document, as plain values, describes; paths are relative to `beside`."""
    for name in document:
        if name not in _TOP:
            raise unknown_name("table", name, _TOP)
    tables = document.get("application", [])
    if not isinstance(tables, list):
        raise JobcastError(f"applications are tables [[application]]; got {tables!r}.")
    nodes = document.get("nodes", {})
    if not isinstance(nodes, dict) or not all(type(node) is int and node >= 0 for node in nodes.values()):
        raise JobcastError("[nodes] must give an id, 0 or more, for each host.")
    probes = known_keys(document.get("probes", {}), tuple(field.name for field in fields(Settings)), "[probes]")
    applications = [
        declared(Application, _in_folder(table, beside), f"[[application]] {k}")
        for k, table in enumerate(tables, start=1)
    ]
    given = document.get("control", {})
    if isinstance(given, dict):
        paths = {name: given[name] for name in ("runs", "folder") if isinstance(given.get(name), str)}
        given = {key: value for key, value in given.items() if key not in paths}
        given |= {name: beside / text for name, text in paths.items() if text}
    parts = {"applications": applications, "probes": Settings(**probes), "node_ids": nodes}
    return declared(Control, given, "[control]", hidden=parts)


def _in_folder(table: Any, beside: Path) -> Any:
    """Return the table of an application, its directory resolved; what is no table or no text is left to the checks."""
    if not isinstance(table, dict) or not isinstance(table.get("directory", ""), str):
        return table
    return {**table, "directory": str(beside / table.get("directory", ""))}


DAY: Final = 86_400
"""Days begin at midnight UTC [s]."""


def start_times(seed: int, application: str, day: int, per_day: Sequence[int] = (2, 3)) -> list[int]:
    """Return the random start times of an application's control jobs on a day.

    Parameters
    ----------
    seed : int
        At least 0.
    application : str
        Its name.
    day : int
        Days since 1 January 1970, UTC.
    per_day : two int
        Least and most runs a day; the number is drawn as well.

    Returns
    -------
    list of int
        Unix seconds, ascending, each once.

    Examples
    --------
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
    found = [
        (second, name) for day in days for name in applications for second in start_times(seed, name, day, per_day)
    ]
    return sorted(one for one in found if after < one[0] <= until)
