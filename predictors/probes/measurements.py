"""Measurements of probes: settings, rows, files, and the last known waits before a start."""

import csv
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from predictors.core.arrays import Floats, short_repr
from predictors.core.compressed import read_text
from predictors.core.declarations import Declaration, declared, known_keys
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.files import whole_file
from predictors.data.report import Finding, ReadingReport
from predictors.data.runs import PROBES, Runs

RINGS: Final = MappingProxyType(  # the patterns of the ring; neither can deadlock, however large the message
    {
        "token": "one message goes round: rank 0 sends first, every other rank passes it on",
        "exchange": "all ranks send at once: even ranks send first, odd ranks receive first",
    }
)

LARGEST: Final = 2**31 - 8  # bytes of a message: MPI counts in 32 bits


class Settings(Declaration):
    """Pattern, sizes and iterations of the two probes; the defaults are those of RUSH's paper.

    >>> Settings().ring_bytes, Settings().allreduce_iterations
    (100000000, 5)
    """

    ring: Literal["token", "exchange"] = "token"  # see `RINGS`; the paper passes a token around
    # ring_bytes, allreduce_bytes: size of a message [bytes], at least 8; of the all-reduce a multiple of 8, since it
    # adds up float64
    ring_bytes: Annotated[int, Field(ge=8, le=LARGEST)] = 100_000_000
    # ring_iterations, allreduce_iterations: at least 1
    ring_iterations: Annotated[int, Field(ge=1)] = 10
    allreduce_bytes: Annotated[int, Field(ge=8, le=LARGEST, multiple_of=8)] = 100_000_000
    allreduce_iterations: Annotated[int, Field(ge=1)] = 5


COLUMNS: Final = ("time", "seconds", "job", "ranks", "hosts", *Settings.model_fields, *PROBES)
"""The columns of a file of rows, in order."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ProbeRow(Declaration):
    """One measurement."""

    # the end of the measurement [Unix s]: from then on the row is known
    time: Annotated[float, Field(allow_inf_nan=False)]
    # in the order of `predictors.data.runs.PROBES` [s]
    waits: Annotated[tuple[Seconds, ...], Field(min_length=len(PROBES), max_length=len(PROBES))]
    # the hosts of the ranks, each once, in the order of the ranks; names without blanks
    hosts: Annotated[tuple[str, ...], Field(min_length=1)]
    ranks: Annotated[int, Field(ge=2)]  # at least 2, and at least one for each host
    settings: Settings = Settings()  # pattern, sizes and iterations
    seconds: Seconds = 0.0  # duration of the measurement, without the start of MPI
    job: str = ""  # the scheduler's id of the job that it was part of, or empty

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if any(len(host.split()) != 1 for host in self.hosts):
            raise JobcastError(f"hosts must be names without blanks; got {self.hosts}.")
        if len(self.hosts) > self.ranks:
            raise JobcastError(f"ranks must be at least one for each of the {len(self.hosts)} hosts; got {self.ranks}.")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, in the order of `COLUMNS`."""
        cells = self.model_dump()
        cells |= cells.pop("settings") | dict(zip(PROBES, cells.pop("waits"), strict=True))
        return {name: cells[name] for name in COLUMNS}

    @classmethod
    def of(cls, cells: Mapping[str, Any]) -> "ProbeRow":
        """Return the row that such plain values, or the words of a file, describe."""
        known_keys(cells, COLUMNS, "Row of probes")
        missing = [name for name in COLUMNS if cells.get(name) is None]
        if missing:
            raise JobcastError(f"Row of probes: {missing[0]!r} is missing.")
        hosts, settings = cells["hosts"], {name: cells[name] for name in Settings.model_fields}
        given = {
            **{name: cells[name] for name in ("time", "seconds", "ranks")},
            "job": str(cells["job"]),
            "hosts": hosts.split() if isinstance(hosts, str) else hosts,
            "settings": declared(Settings, settings, "Row of probes", strict=False),
            "waits": [cells[name] for name in PROBES],
        }
        try:
            return declared(cls, given, "Row of probes", strict=False)
        except JobcastError as error:  # of a wait: by the name of its column
            named = re.sub(r"waits (\d)\b", lambda place: PROBES[int(place[1]) - 1], str(error))
            raise JobcastError(named) from error


def row_text(row: ProbeRow) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row.to_dict(), allow_nan=False) + "\n"


def write_row(row: ProbeRow, path: str | os.PathLike[str]) -> None:
    """Write a row, whole or not at all: add it to a table if the name ends in `.csv`, else write one JSON document.

    Programs that add to one table at the same time wait for each other. A table with other columns is refused and stays
    unchanged.
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
    """Return the row of a JSON file."""
    text = read_text(path, "a row of probes")
    try:
        return ProbeRow.of(json.loads(text))
    except ValueError as error:
        raise JobcastError(f"{path}: {error}") from error


def hosts_to_nodes(hosts: Sequence[str], known: Mapping[str, int] | None = None) -> list[int]:
    """Return the node ids of hosts, ascending: as in `known`, else the number that ends the name before its first dot.

    The list is empty if a host has no id or two hosts have the same one: the nodes are then not known.

    >>> hosts_to_nodes(["quartz12.llnl.gov", "quartz7"]), hosts_to_nodes(["quartz12", "login-a"])
    ([7, 12], [])
    >>> hosts_to_nodes(["quartz12", "login-a"], {"quartz12": 12, "login-a": 900})
    [12, 900]
    """
    nodes = []
    for host in hosts:
        name = host.split(".")[0]
        digits = name[len(name.rstrip("0123456789")) :]
        nodes.append((known or {}).get(host, (known or {}).get(name, int(digits) if digits and not known else -1)))
    return sorted(nodes) if min(nodes, default=-1) >= 0 and len(set(nodes)) == len(nodes) else []


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

    >>> known = ProbeHistory(np.array([100.0, 400.0]), np.array([[0.1] * 9, [0.4] * 9]))
    >>> waits, age = known.last_known([50, 400, 460])
    >>> waits[:, 0].tolist(), age.tolist()
    ([nan, 0.1, 0.4], [nan, 300.0, 60.0])
    """

    time: Floats  # shape (n,); since when each is known [s], ascending
    waits: Floats  # shape (n, 9); in the order of `predictors.data.runs.PROBES` [s]

    __repr__ = short_repr

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
    def of_rows(cls, rows: Sequence[ProbeRow]) -> Self:
        """Return the history of rows, given in any order."""
        rows = sorted(rows, key=lambda row: row.time)
        waits = np.array([row.waits for row in rows], dtype=np.float64).reshape(len(rows), len(PROBES))
        return cls(np.array([row.time for row in rows], dtype=np.float64), waits)

    @classmethod
    def of_runs(cls, runs: Runs) -> Self:
        """Return the history of the probes that runs have; each is known after its run's start, not as of it."""
        runs = runs.select(np.flatnonzero(~np.isnan(runs.probe_waits).all(axis=1))).sorted_by_start()
        return cls(runs.start, runs.probe_waits)

    def last_known(
        self,
        # shape (n,); as of when [s], in the clock of `time`; a measurement of that same second is not known yet
        start: npt.ArrayLike,
        oldest: float = np.inf,  # largest age [s]
    ) -> tuple[Floats, Floats]:
        """Return the last known waits before each start, shape (n, 9), and their age [s]; NaN if none or too old."""
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
    runs: Runs,  # the runs
    use: ProbeUse,  # {"live", "last-known", "absent"}: each run's own probes; the last known before its start; none
    measured: ProbeHistory | None = None,  # the measurements; absent: the probes of the runs themselves
    oldest: float = np.inf,  # largest age of the last known [s]
) -> tuple[Floats, Floats]:
    """Return the nine inputs of each run by a use of probes, and their age.

    Waits, shape (n, 9), are in the order of `predictors.data.runs.PROBES` [s], NaN where not known; ages, shape (n,)
    [s], are 0 for live ones, NaN where not known.
    """
    if use not in PROBE_USES:
        raise unknown_name("use of probes", str(use), PROBE_USES)
    if use == "last-known":
        return (ProbeHistory.of_runs(runs) if measured is None else measured).last_known(runs.start, oldest)
    waits = runs.probe_waits if use == "live" else np.full_like(runs.probe_waits, np.nan)
    return waits, np.where(np.isnan(waits).all(axis=1), np.nan, 0.0)


def read_probes(
    path: str | os.PathLike[str],  # a file by `write_row`
    settings: Settings | None = None,  # the settings to keep; absent: those of the first row that can be read
    strict: bool = False,  # raise at the first row that would be dropped
) -> tuple[list[ProbeRow], ReadingReport]:
    """Read the rows of a table (`.csv`) or of one measurement (any other name), in the order of time.

    A row that cannot be read is dropped and counted; so is one with another pattern, other sizes or iterations, since
    its waits do not compare.
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
    """Return least, largest and mean of each call's waits [s], shape (n_ranks, n_iterations), as in `PROBES`.

    >>> nine([[1, 3]], [[2, 2]], [[0.5], [1.5]]).tolist()
    [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 0.5, 1.5, 1.0]
    """
    figures: list[float] = []
    for name, call in (("Send", send), ("Recv", recv), ("AllReduce", allreduce)):
        waits = np.asarray(call, dtype=np.float64)
        if not waits.size or not np.isfinite(waits).all() or (waits < 0).any():
            raise JobcastError(f"Probes: the waits in {name} must be finite times, at least one; got {call!r}.")
        figures += [waits.min(), waits.max(), waits.mean()]
    return np.array(figures)
