"""What did the probes find, and when? One row a measurement, in files and as the last known value before a start."""

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.runs import PROBES
from predictors.probes.settings import Settings

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
        told = {"time": self.time, "seconds": self.seconds, "job": self.job, "ranks": self.ranks}
        waits = dict(zip(PROBES, self.waits, strict=True))
        return {**told, "hosts": list(self.hosts), **asdict(self.settings), **waits}

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
    """Return the node ids of hosts, ascending: as told, else the number that ends the name before its first dot.

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
