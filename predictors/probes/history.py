"""What was the last known value of the probes as of a start, and how old was it? As a scheduler could have known it."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.data.account import Account, Finding
from predictors.data.errors import JobcastError, unknown_name
from predictors.data.runs import PROBES, Floats, Runs
from predictors.data.sources import read_text
from predictors.probes.rows import ProbeRow, one_row

if TYPE_CHECKING:
    from predictors.probes.settings import Settings

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
) -> tuple[list[ProbeRow], Account]:
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
    account = Account(source, tuple(findings))
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
