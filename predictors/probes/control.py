"""Which jobs are run again and again, with what, and how often? A small TOML file, checked whole before any is run.

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
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from predictors.data.errors import JobcastError, unknown_name
from predictors.data.runs import WORKLOADS
from predictors.data.sources import read_text
from predictors.probes.schedulers import SCHEDULERS
from predictors.probes.settings import Settings

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TOP: Final = ("control", "probes", "application", "nodes")


@dataclass(frozen=True)
class Application:
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
        Where the command runs; empty: beside the TOML file.
    options : tuple of str
        For the scheduler, after those for all applications.
    """

    name: str
    command: str
    nodes: int
    workload: str
    region: str = ""
    walltime: int = 3600
    directory: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_types(self, f"application {self.name!r}")
        if not _NAME.fullmatch(self.name):
            raise JobcastError(f"application {self.name!r}: a name is made of letters, digits and . _ + - .")
        if not self.command.strip():
            raise JobcastError(f"application {self.name!r}: command is empty.")
        if self.nodes < 1 or self.walltime < 1:
            raise JobcastError(
                f"application {self.name!r}: nodes and walltime must be at least 1; got {self.nodes} and "
                f"{self.walltime}."
            )
        if self.workload not in WORKLOADS:
            raise unknown_name("workload", self.workload, WORKLOADS)
        try:
            groups = re.compile(self.region).groups
        except re.error as error:
            raise JobcastError(f"application {self.name!r}: region is no regular expression ({error}).") from error
        if self.region and groups != 1:
            raise JobcastError(f"application {self.name!r}: region must have one group, the seconds; it has {groups}.")

    def region_time(self, output: str) -> float | None:
        """Return the last time [s] that the output tells, or None if it tells none that can be one."""
        found = re.findall(self.region, output, re.MULTILINE)
        try:
            seconds = float(found[-1]) if found else -1.0
        except ValueError:
            return None
        return seconds if 0 <= seconds < float("inf") else None


@dataclass(frozen=True)
class Control:
    """A control file.

    Parameters
    ----------
    runs, folder : Path
        The table of runs, CSV or Parquet by its name; where the folders of runs lie.
    scheduler : {"slurm", "lsf", "plain"}
        Who starts a job: `sbatch`, `bsub`, or this machine itself.
    applications : tuple of Application
        At least one, each name once.
    launcher : str
        What starts one rank a node on the nodes of a job, `{nodes}` and `{ranks}` (at least 2) filled in; empty: the
        scheduler's usual one.
    options : tuple of str
        For the scheduler; `{nodes}` is filled in.
    nodes_option : tuple of str
        How the scheduler is told the number of nodes; empty: as usual.
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
    applications: tuple[Application, ...]
    launcher: str = ""
    options: tuple[str, ...] = ()
    nodes_option: tuple[str, ...] = ()
    python: str = ""
    seed: int = 0
    runs_per_day: tuple[int, ...] = (2, 3)
    most_queued: int = 1
    poll: float = 30.0
    grace: float = 60.0
    limit: int = 600
    probes: Settings = field(default_factory=Settings)
    node_ids: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "[control]")
        if self.scheduler not in SCHEDULERS:
            raise unknown_name("scheduler", self.scheduler, SCHEDULERS)
        names = [application.name for application in self.applications]
        if not names or len(set(names)) < len(names):
            raise JobcastError("Control needs at least one [[application]], each name once.")
        if len(self.runs_per_day) != 2 or not 0 <= self.runs_per_day[0] <= self.runs_per_day[1] <= 1440:
            raise JobcastError(f"[control]: runs_per_day must be [least, most], 0 to 1440; got {self.runs_per_day}.")
        if self.most_queued < 1 or self.limit < 1 or not (self.poll > 0 and self.grace >= 0) or self.seed < 0:
            raise JobcastError("[control]: most_queued and limit must be at least 1, poll above 0, seed and grace 0.")
        try:
            self.launch_line(1)
            [option.format(nodes=1) for option in (*self.options, *self.nodes_option)]
        except (KeyError, IndexError, ValueError) as error:
            raise JobcastError(
                f"[control]: launcher may hold {{nodes}} and {{ranks}}, options {{nodes}}; found {error}."
            ) from error

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
    try:
        document = tomllib.loads(read_text(path, "a TOML file of control jobs"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{source}: is no TOML file ({error}).") from error
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
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise JobcastError("applications are tables [[application]].")
    nodes = document.get("nodes", {})
    if not isinstance(nodes, dict) or not all(type(node) is int and node >= 0 for node in nodes.values()):
        raise JobcastError("[nodes] must give an id, 0 or more, for each host.")
    settings = _made(Settings, document.get("probes", {}), "[probes]")
    applications = tuple(
        _made(Application, {**table, "directory": str(beside / _text(table, "directory"))}, f"[[application]] {k}")
        for k, table in enumerate(tables, start=1)
    )
    given = document.get("control", {})
    if not isinstance(given, dict):
        raise JobcastError("[control] must be a table.")
    for name in ("applications", "probes", "node_ids"):
        if name in given:
            raise unknown_name("key", name, _keys(Control))
    paths = {name: beside / _text(given, name) for name in ("runs", "folder") if _text(given, name)}
    control: Control = _made(
        Control,
        {**given, **paths, "applications": applications, "probes": settings, "node_ids": nodes},
        "[control]",
    )
    return control


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise JobcastError(f"{key} must be a text; got {value!r}.")
    return value


def _keys(kind: type) -> list[str]:
    return [f.name for f in fields(kind) if f.name not in ("applications", "probes", "node_ids")]


def _made(kind: Any, table: Any, where: str) -> Any:
    """Return a dataclass from a table of the file; a key that is not known or missing fails, with the nearest one."""
    if not isinstance(table, dict):
        raise JobcastError(f"{where} must be a table.")
    known = [f.name for f in fields(kind)]
    for name in table:
        if name not in known:
            raise JobcastError(f"{where}: {unknown_name('key', name, _keys(kind))}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise JobcastError(f"{where}: {str(error).removeprefix(f'{kind.__name__}.__init__() ')}.") from error


def _check_types(made: Any, where: str) -> None:
    """Raise unless every value is of the kind that its field says."""
    for one in fields(made):
        value = getattr(made, one.name)
        wanted = _TYPES.get(str(one.type))
        if wanted is not None and (not isinstance(value, wanted[0]) or isinstance(value, bool)):
            raise JobcastError(f"{where}: {one.name} must be {wanted[1]}; got {value!r}.")
        member = _MEMBERS.get(str(one.type))
        if member is not None and not (isinstance(value, tuple) and all(type(entry) is member for entry in value)):
            raise JobcastError(f"{where}: {one.name} must be a list of {member.__name__}; got {value!r}.")


_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "<class 'str'>": (str, "a text"),
    "<class 'int'>": (int, "a whole number"),
    "<class 'float'>": ((int, float), "a number"),
}
_MEMBERS: Final[Mapping[str, type]] = {"tuple[str, ...]": str, "tuple[int, ...]": int}
