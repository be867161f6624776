"""Measurements of probes: settings, waits, rows, and the last known value before a start."""

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.files import whole_file
from predictors.data.report import Finding, ReadingReport
from predictors.data.runs import PROBES, Runs

RINGS: Final = MappingProxyType(
    {
        "token": "one message goes round: rank 0 sends first, every other rank hands on what it has received",
        "exchange": "all ranks send at once: even ranks send first, odd ranks receive first",
    }
)
"""The patterns of the ring; neither can deadlock, however large the message."""

LARGEST: Final = 2**31 - 8
"""Bytes of a message: MPI counts in 32 bits."""


@dataclass(frozen=True)
class Settings:
    """What the two probes do; the defaults are the paper's.

    Parameters
    ----------
    ring : {"token", "exchange"}
        See `RINGS`; the paper passes a token around.
    ring_bytes, allreduce_bytes : int
        Size of a message [bytes], at least 8; of the all-reduce a multiple of 8, since it adds up float64.
    ring_iterations, allreduce_iterations : int
        At least 1.

    References
    ----------
    .. [1] D. Nichols, A. Marathe, K. Shoga, T. Gamblin, A. Bhatele. Resource utilization aware job scheduling to
       mitigate performance variability. IPDPS 2022 (section III.C).

    Examples
    --------
    >>> Settings().ring_bytes, Settings().allreduce_iterations
    (100000000, 5)
    """

    ring: str = "token"
    ring_bytes: int = 100_000_000
    ring_iterations: int = 10
    allreduce_bytes: int = 100_000_000
    allreduce_iterations: int = 5

    def __post_init__(self) -> None:
        if self.ring not in RINGS:
            raise unknown_name("ring", str(self.ring), RINGS)
        for name in ("ring_bytes", "allreduce_bytes"):
            value = getattr(self, name)
            if type(value) is not int or not 8 <= value <= LARGEST:
                raise JobcastError(f"Probes: {name} must be a whole number from 8 to {LARGEST}; got {value!r}.")
        if self.allreduce_bytes % 8:
            raise JobcastError(f"Probes: allreduce_bytes must be a multiple of 8; got {self.allreduce_bytes}.")
        for name in ("ring_iterations", "allreduce_iterations"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise JobcastError(f"Probes: {name} must be a whole number, at least 1; got {value!r}.")


_SETTINGS: Final = tuple(f.name for f in fields(Settings))
COLUMNS: Final = ("time", "seconds", "job", "ranks", "hosts", *_SETTINGS, *PROBES)
"""The columns of a file of rows, in order."""


@dataclass(frozen=True)
class ProbeRow:
    """One measurement.

    Parameters
    ----------
    time : float
        When it had been measured [Unix s]: from then on the row is known.
    waits : tuple of 9 float
        In the order of `predictors.data.runs.PROBES` [s].
    hosts : tuple of str
        The hosts of the ranks, each once, in the order of the ranks.
    ranks : int
        At least 2.
    settings : Settings
        What was sent.
    seconds : float
        How long the measurement took, start of MPI apart.
    job : str
        The scheduler's id of the job that it was part of, or empty.
    """

    time: float
    waits: tuple[float, ...]
    hosts: tuple[str, ...]
    ranks: int
    settings: Settings = field(default_factory=Settings)
    seconds: float = 0.0
    job: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise JobcastError(f"Row of probes: time must be finite; got {self.time}.")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise JobcastError(f"Row of probes: seconds must not be below 0; got {self.seconds}.")
        if len(self.waits) != len(PROBES) or not all(math.isfinite(wait) and wait >= 0 for wait in self.waits):
            raise JobcastError(f"Row of probes: needs {len(PROBES)} waits, none below 0; got {self.waits}.")
        if self.ranks < 2 or not self.hosts or len(self.hosts) > self.ranks:
            raise JobcastError(
                f"Row of probes: needs at least 2 ranks, and hosts; got {self.ranks} on {len(self.hosts)}."
            )
        if any(not host or len(host.split()) != 1 for host in self.hosts):
            raise JobcastError(f"Row of probes: hosts must be names without blanks; got {self.hosts}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, in the order of `COLUMNS`."""
        head = {"time": self.time, "seconds": self.seconds, "job": self.job, "ranks": self.ranks}
        waits = dict(zip(PROBES, self.waits, strict=True))
        return {**head, "hosts": list(self.hosts), **asdict(self.settings), **waits}

    @classmethod
    def of(cls, cells: Mapping[str, Any]) -> "ProbeRow":
        """Return the row that such plain values, or the words of a file, describe.

        Raises
        ------
        JobcastError
            If a column is missing or not known, or a value cannot be one.
        """
        for name in COLUMNS:
            if cells.get(name) is None:
                raise JobcastError(f"Row of probes: {name!r} is missing.")
        for name in cells:
            if name not in COLUMNS:
                raise JobcastError(f"Row of probes: {name!r} is not known; known are {', '.join(COLUMNS)}.")
        hosts = cells["hosts"]
        try:
            return cls(
                time=float(cells["time"]),
                waits=tuple(float(cells[name]) for name in PROBES),
                hosts=tuple(hosts.split() if isinstance(hosts, str) else map(str, hosts)),
                ranks=int(cells["ranks"]),
                settings=Settings(
                    str(cells["ring"]), **{name: int(cells[name]) for name in _SETTINGS if name != "ring"}
                ),
                seconds=float(cells["seconds"]),
                job=str(cells["job"]),
            )
        except (ValueError, TypeError) as error:
            if isinstance(error, JobcastError):
                raise
            raise JobcastError(f"Row of probes: a value is no number ({error}).") from error


def row_text(row: ProbeRow) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row.to_dict(), allow_nan=False) + "\n"


def write_row(row: ProbeRow, path: str | os.PathLike[str]) -> None:
    """Write a row, whole or not at all: add it to a table if the name ends in `.csv`, else write one JSON document.

    Two that add to one table at a time wait for each other.

    Raises
    ------
    JobcastError
        If the file cannot be written, or is a table of other columns; it then stays as it was.
    """
    if Path(path).suffix != ".csv":
        with whole_file(path) as part:
            part.write_text(row_text(row), encoding="utf-8")
        return
    import filelock

    target = Path(path)
    try:
        with filelock.FileLock(target.with_name(f".{target.name}.lock")):
            _add_line(row, target)
    except (OSError, NotImplementedError) as error:
        raise JobcastError(f"{path}: cannot be written ({error}); choose another place, or FILE.json.") from error


def _add_line(row: ProbeRow, target: Path) -> None:
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    if old and old.splitlines()[0] != ",".join(COLUMNS):
        raise JobcastError(f"{target}: is no table of probes; its first line must be {','.join(COLUMNS)}.")
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    if not old:
        lines.writeheader()
    lines.writerow({**row.to_dict(), "hosts": " ".join(row.hosts)})
    with whole_file(target) as part:
        part.write_text(old + "\n" * (bool(old) and not old.endswith("\n")) + text.getvalue(), encoding="utf-8")


def one_row(path: str | os.PathLike[str]) -> ProbeRow:
    """Return the row of a JSON file.

    Raises
    ------
    JobcastError
        If the file cannot be read or holds no row.
    """
    try:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(cells, dict):
            raise JobcastError("Row of probes: must be one JSON object.")
        return ProbeRow.of(cells)
    except OSError as error:
        raise JobcastError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise JobcastError(f"{path}: {error}") from error


def hosts_to_nodes(hosts: Sequence[str], known: Mapping[str, int] | None = None) -> list[int]:
    """Return the node ids of hosts, ascending: as known, else the number that ends the name before its first dot.

    Nothing is returned if a host has no id or two hosts have the same one, for then the nodes are not known.

    Examples
    --------
    >>> hosts_to_nodes(["quartz12.llnl.gov", "quartz7"]), hosts_to_nodes(["quartz12", "login-a"])
    ([7, 12], [])
    >>> hosts_to_nodes(["quartz12", "login-a"], {"quartz12": 12, "login-a": 900})
    [12, 900]
    """
    found = []
    for host in hosts:
        name = host.split(".")[0]
        digits = name[len(name.rstrip("0123456789")) :]
        node = (known or {}).get(host, (known or {}).get(name, int(digits) if digits and not known else -1))
        found.append(node)
    return sorted(found) if min(found, default=-1) >= 0 and len(set(found)) == len(found) else []


ProbeUse = Literal["live", "last-known", "absent"]
PROBE_USES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "live": "run just before the job on its own nodes",
        "last-known": "the last that were known before its start",
        "absent": "not measured",
    }
)


@dataclass(frozen=True, eq=False)
class ProbeHistory:
    """Measurements in the order of time.

    Parameters
    ----------
    time : float64 array of shape (n,)
        From when on each was known [s], ascending.
    waits : float64 array of shape (n, 9)
        In the order of `predictors.data.runs.PROBES` [s].

    Examples
    --------
    >>> known = ProbeHistory(np.array([100.0, 400.0]), np.array([[0.1] * 9, [0.4] * 9]))
    >>> waits, age = known.last_known([50, 400, 460])
    >>> waits[:, 0].tolist(), age.tolist()
    ([nan, 0.1, 0.4], [nan, 300.0, 60.0])
    """

    time: Floats
    waits: Floats

    def __post_init__(self) -> None:
        time, waits = np.array(self.time, dtype=np.float64), np.array(self.waits, dtype=np.float64)
        if time.ndim != 1 or waits.shape != (len(time), len(PROBES)):
            raise JobcastError(f"Probes: {len(time)} measurements need {len(PROBES)} waits each; got {waits.shape}.")
        if not np.isfinite(time).all() or (np.diff(time) < 0).any():
            raise JobcastError("Probes: the times of measurements must be finite and ascend.")
        time.flags.writeable = waits.flags.writeable = False
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "waits", waits)

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of_rows(cls, rows: Sequence[ProbeRow]) -> "ProbeHistory":
        """Return the history that rows make, in any order."""
        rows = sorted(rows, key=lambda row: row.time)
        waits = np.array([row.waits for row in rows], dtype=np.float64).reshape(len(rows), len(PROBES))
        return cls(np.array([row.time for row in rows], dtype=np.float64), waits)

    @classmethod
    def of_runs(cls, runs: Runs) -> "ProbeHistory":
        """Return the history of the probes of runs, each known just after its run's start; runs without hand on none.

        A run's own probes are run as it starts, so they are not known as of that start.
        """
        runs = runs.select(np.flatnonzero(~np.isnan(runs.probe_waits).all(axis=1))).sorted_by_start()
        return cls(runs.start, runs.probe_waits)

    def last_known(self, start: npt.ArrayLike, oldest: float = np.inf) -> tuple[Floats, Floats]:
        """Return what was known last before each start, and its age; NaN where nothing was, or only what is too old.

        Parameters
        ----------
        start : array-like of shape (n,)
            As of when [s], in the clock of `time`; a measurement of that very instant is not known yet.
        oldest : float
            Largest age [s].

        Returns
        -------
        waits : float64 array of shape (n, 9)
            [s].
        age : float64 array of shape (n,)
            [s].
        """
        if not oldest >= 0:
            raise JobcastError(f"Probes: the largest age must not be below 0; got {oldest}.")
        start = np.asarray(start, dtype=np.float64)
        last = np.searchsorted(self.time, start, side="left") - 1
        age = np.full(len(start), np.nan)
        waits = np.full((len(start), len(PROBES)), np.nan)
        known = last >= 0
        age[known] = start[known] - self.time[last[known]]
        known &= ~(age > oldest)
        age[~known] = np.nan
        waits[known] = self.waits[last[known]]
        return waits, age


def probes_as_used(
    runs: Runs, use: ProbeUse, measured: ProbeHistory | None = None, oldest: float = np.inf
) -> tuple[Floats, Floats]:
    """Return the nine inputs of each run as they would be used, and how old they are.

    Parameters
    ----------
    runs : Runs
        Whose inputs.
    use : {"live", "last-known", "absent"}
        Each run's own probes; those that were known last before its start; none.
    measured : ProbeHistory, optional
        What was measured; absent: the probes of the runs themselves.
    oldest : float
        Largest age of the last known [s].

    Returns
    -------
    waits : float64 array of shape (n, 9)
        In the order of `predictors.data.runs.PROBES` [s], NaN where not known.
    age : float64 array of shape (n,)
        [s]; 0 for live ones, NaN where not known.
    """
    if use not in PROBE_USES:
        raise unknown_name("use of probes", str(use), PROBE_USES)
    if use == "last-known":
        return (ProbeHistory.of_runs(runs) if measured is None else measured).last_known(runs.start, oldest)
    waits = runs.probe_waits if use == "live" else np.full_like(runs.probe_waits, np.nan)
    return waits, np.where(np.isnan(waits).all(axis=1), np.nan, 0.0)


def read_probes(
    path: str | os.PathLike[str], settings: "Settings | None" = None, strict: bool = False
) -> tuple[list[ProbeRow], ReadingReport]:
    """Read the rows of a table (`.csv`) or of one measurement (any other name), in the order of time.

    A row that cannot be read is dropped and counted; so is one of other sizes, iterations or pattern, since its waits
    compare with none of the others.

    Parameters
    ----------
    path : path-like
        What `write_row` wrote.
    settings : Settings, optional
        The ones to keep; absent: those of the first row that can be read.
    strict : bool
        Raise at the first row that would be dropped.

    Raises
    ------
    JobcastError
        If the file cannot be read or has no usable row.
    """
    source = os.fspath(path)
    cells, bad = _table(path, source) if Path(path).suffix == ".csv" else ([(1, one_row(path))], [])
    wanted = settings or (cells[0][1].settings if cells else None)
    kept = [row for _, row in cells if row.settings == wanted]
    other = tuple(line for line, row in cells if row.settings != wanted)
    findings = []
    if bad:
        lines = tuple(line for line, _ in bad)
        findings.append(Finding("unreadable", "dropped", "the row cannot be read", len(bad), lines, example=bad[0][1]))
    if other:
        findings.append(Finding("other-settings", "dropped", "measured with other sizes", len(other), other))
    account = ReadingReport(source, tuple(findings))
    if strict:
        account.require_clean()
    if not kept:
        raise JobcastError(f"{source}: holds no row of probes that can be used ({account.summary()}).")
    return sorted(kept, key=lambda row: row.time), account


def _table(path: str | os.PathLike[str], source: str) -> tuple[list[tuple[int, ProbeRow]], list[tuple[int, str]]]:
    rows: list[tuple[int, ProbeRow]] = []
    bad: list[tuple[int, str]] = []
    try:
        for number, cells in enumerate(csv.DictReader(io.StringIO(read_text(path, "probes, a CSV table"))), start=2):
            try:
                rows.append((number, ProbeRow.of({str(name): cell for name, cell in cells.items()})))
            except JobcastError as error:
                bad.append((number, str(error)))
    except csv.Error as error:
        raise JobcastError(f"{source}: is no table of probes ({error}).") from error
    return rows, bad


def nine(send: npt.ArrayLike, recv: npt.ArrayLike, allreduce: npt.ArrayLike) -> Floats:
    """Return minimum, maximum and mean of each call's waits, in the order of `predictors.data.runs.PROBES`.

    Parameters
    ----------
    send, recv, allreduce : array-like of shape (n_ranks, n_iterations)
        Time spent in each call [s]; every wait counts alike.

    Returns
    -------
    float64 array of shape (9,)
        [s].

    Raises
    ------
    JobcastError
        If a call was never made, or a wait is no finite time.

    Examples
    --------
    >>> nine([[1, 3]], [[2, 2]], [[0.5], [1.5]]).tolist()
    [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 0.5, 1.5, 1.0]
    """
    found: list[float] = []
    for name, given in (("Send", send), ("Recv", recv), ("AllReduce", allreduce)):
        waits = np.asarray(given, dtype=np.float64)
        if not waits.size or not np.isfinite(waits).all() or (waits < 0).any():
            raise JobcastError(f"Probes: the waits in {name} must be finite times, at least one; got {given!r}.")
        found += [float(waits.min()), float(waits.max()), float(waits.mean())]
    return np.array(found)
