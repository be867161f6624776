"""Datasets: runs with the windows of counters before them.

Rows that cannot be built are left out and counted by reason, never filled in; within a row an input that was not
measured is NaN. Columns that only a simulation can know travel along (`Runs.truth`), but are no inputs.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError, percent
from predictors.core.files import whole_file
from predictors.core.parquet import parquet_table, write_parquet_table
from predictors.data.report import Finding, ReadingReport
from predictors.data.runs import PROBES, Runs, remade
from predictors.data.telemetry.samples import Samples, Telemetry
from predictors.probes.measurements import ProbeUse, probes_as_used
from predictors.variability.features import FEATURES, check_scope, feature_rows
from predictors.variability.labels import DDOF, LEAST_RUNS, Labels, Scheme, label
from predictors.variability.windows import N_COUNTERS, WINDOW, WINDOW_FEATURES, Windows, windows

if TYPE_CHECKING:
    import pandas as pd


MOST_SILENT: Final = 0.1  # share of a job's nodes that may give no sample in the window; the others then stand for all

DROPPED: Final = MappingProxyType(  # reasons for which a run has no row, by rule
    {
        "unknown-nodes": "the job's nodes are not known",
        "empty-window": "no telemetry in the window before the start",
        "silent-nodes": f"more than {percent(MOST_SILENT)} of the job's nodes gave no sample in the window",
        "unknown-workload": "the workload is not known",
    }
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of inputs and the runs that they stand for, sorted by (start, job id)."""

    runs: Runs  # one a row
    # shape (n, 282); in the order of `predictors.variability.features.FEATURES`, NaN = not measured. Read-only.
    rows: Floats
    scope: str  # {"all", "job"}: which nodes' counters were pooled: all nodes', or the job's
    about: Mapping[str, Any] = field(default_factory=dict)  # where it came from, as plain values

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_scope(self.scope)
        rows = np.array(self.rows, dtype=np.float64)
        if rows.shape != (len(self.runs), len(FEATURES)):
            raise JobcastError(f"A dataset needs rows of shape ({len(self.runs)}, {len(FEATURES)}); got {rows.shape}.")
        if np.isinf(rows).any():
            raise JobcastError("A dataset's inputs must be finite, or NaN where not measured.")
        step, ids = np.diff(self.runs.start), np.diff(self.runs.job_id)
        if ((step < 0) | ((step == 0) & (ids < 0))).any():
            raise JobcastError("A dataset must be sorted by (start, job id).")
        rows.flags.writeable = False
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "about", MappingProxyType(dict(self.about)))

    def __len__(self) -> int:
        return len(self.runs)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle and copy by the fields: a read-only mapping cannot be pickled."""
        about = {"runs": self.runs, "rows": self.rows, "scope": self.scope, "about": dict(self.about)}
        return remade, (type(self), about)

    @property
    def window(self) -> float:
        """Length of the window before a start [s]."""
        return float(self.about.get("window_s", WINDOW))

    @classmethod
    def build(
        cls,
        runs: Runs,  # in any order
        # shape (n, 270); of each run, in the order of `WINDOW_FEATURES`; a row of NaN where the window is empty
        windows: Windows | Floats,
        scope: str,  # {"all", "job"}: which nodes' counters were pooled
        # where runs and windows come from; `window_s` if the windows are not 300 s long
        about: Mapping[str, Any] | None = None,
    ) -> tuple[Self, ReadingReport]:
        """Join runs and windows; return the dataset, and an account of the runs that have no row in it."""
        check_scope(scope)
        silent = windows.silent if isinstance(windows, Windows) else np.zeros(len(runs), dtype=np.int64)
        values = windows.values if isinstance(windows, Windows) else np.asarray(windows, dtype=np.float64)
        if values.shape != (len(runs), len(WINDOW_FEATURES)):
            shape = (len(runs), len(WINDOW_FEATURES))
            raise JobcastError(f"Windows must be of shape {shape}, one row a run; got {values.shape}.")
        of_job = scope == "job"
        rules = {
            "unknown-nodes": (np.diff(runs.offsets) == 0) & of_job,
            "empty-window": np.isnan(values).all(axis=1),
            "silent-nodes": (silent > MOST_SILENT * runs.node_count) & of_job,
            "unknown-workload": runs.workload == "",
        }
        left, findings = np.ones(len(runs), dtype=np.bool_), []
        for rule, bad in rules.items():
            if (found := left & bad).any():
                places = tuple(runs.job_id[found].tolist())
                findings.append(Finding(rule, "dropped", DROPPED[rule], len(places), places, "job"))
            left &= ~bad
        account = ReadingReport("dataset", tuple(findings))
        if not left.any():
            why = "; ".join(f"{finding.text} ({finding.count})" for finding in account.findings)
            raise JobcastError(f"Not one of {len(runs)} runs has a row: {why}.")
        order = np.flatnonzero(left)
        order = order[np.lexsort((runs.job_id[order], runs.start[order]))]
        kept = runs.select(order)
        origin = {
            "window_s": WINDOW,
            **(about or {}),
            "scope": scope,
            "n_runs": len(runs),
            "dropped": {f.rule: f.count for f in account.findings},
        }
        return cls(kept, feature_rows(values[order], kept.probe_waits, kept.workload), scope, origin), account

    def select(self, rows: npt.NDArray[np.bool_] | Ints | slice) -> Self:
        """Return the dataset of some rows, which must stay in order."""
        return type(self)(self.runs.select(rows), self.rows[rows], self.scope, self.about)

    def with_probes(self, use: ProbeUse) -> Self:
        """Return the dataset as it would be if probes were live, those known last before each start, or absent.

        At a start a scheduler cannot have run the probes of that very job: live is what the paper trains on, the last
        known is what a scheduler has. See `predictors.probes.measurements.probes_as_used`.
        """
        if use == "live":
            return self
        probes, _ = probes_as_used(self.runs, use)
        rows = self.rows.copy()
        rows[:, len(WINDOW_FEATURES) : len(WINDOW_FEATURES) + len(PROBES)] = probes
        return replace(self, runs=replace(self.runs, probes=probes), rows=rows, about={**self.about, "probes": use})

    def labels(
        self,
        train: npt.ArrayLike | None = None,
        *,
        scheme: Scheme = "binary",
        ddof: int = DDOF,
        least: int = LEAST_RUNS,
    ) -> Labels:
        """Return labels `as_of` the rows marked in `train`, or `whole` if it is absent; see `label`."""
        runs = self.runs
        return label(runs.application, runs.node_count, runs.run_time, train, scheme=scheme, ddof=ddof, least=least)

    def to_frame(self) -> "pd.DataFrame":
        """Return the inputs as a table, one column an input."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(FEATURES))

    def digest(self) -> str:
        """Return the SHA-256 of all that is learnt from or labelled by: ids, applications, times, nodes, inputs."""
        found = hashlib.sha256(self.scope.encode())
        runs = self.runs
        for array in (runs.job_id, runs.node_count, runs.start, runs.end, runs.run_time, self.rows):
            found.update(np.ascontiguousarray(array).tobytes())
        found.update("\n".join(runs.application.tolist()).encode())
        return found.hexdigest()


_KEY: Final = b"jobcast.variability"
_VERSION: Final = 1


def write_dataset(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset as Parquet; the file appears whole or not at all."""
    import pandas as pd
    import pyarrow as pa

    frame = dataset.runs.to_frame().drop(columns=list(PROBES))
    table = pa.Table.from_pandas(pd.concat([frame, dataset.to_frame()], axis=1), preserve_index=False)
    about = {"version": _VERSION, "scope": dataset.scope, "about": dict(dataset.about)}
    table = table.replace_schema_metadata({_KEY: json.dumps(about)})
    with whole_file(path) as part:
        write_parquet_table(table, part)


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    source = os.fspath(path)
    table = parquet_table(read_bytes(path), source, "make the dataset again")
    about = (table.schema.metadata or {}).get(_KEY)
    if about is None:
        raise JobcastError(
            f"{source}: is Parquet, but no dataset of `jobcast variability dataset` (columns "
            f"{', '.join(table.column_names[:4])}…)."
        )
    absent = [name for name in FEATURES if name not in table.column_names]
    if absent:
        raise JobcastError(f"{source}: lacks the input {absent[0]!r}, and {len(absent) - 1} others; make it again.")
    try:
        return _dataset(table, json.loads(about))
    except JobcastError as error:
        raise JobcastError(f"{source}: is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JobcastError(f"{source}: is damaged ({error}); make the dataset again.") from error


def _dataset(table: Any, about: dict[str, Any]) -> Dataset:
    if about["version"] != _VERSION:
        raise JobcastError(f"version {about['version']!r} of the format is not known, only {_VERSION}; update jobcast.")
    frame = table.to_pandas()
    rows = np.column_stack([frame[name].to_numpy().astype(np.float64) for name in FEATURES])
    return Dataset(Runs.from_frame(frame), rows, str(about["scope"]), about["about"])


def assemble(
    runs: Runs,  # in the telemetry's clock
    telemetry: Telemetry | Iterable[Samples],  # a block, or a `predictors.data.telemetry.read.Scan`
    scope: str,  # {"all", "job"}: which nodes' counters are pooled. With `job`, a run without known nodes has no row.
    *,
    window: float = WINDOW,  # length of the windows [s]
    about: Mapping[str, Any] | None = None,  # where runs and telemetry come from
) -> tuple[Dataset, ReadingReport]:
    """Compute the window before each run and join them; return the dataset, and an account of runs without a row."""
    check_scope(scope)
    asked = np.ones(len(runs), dtype=np.bool_) if scope == "all" else np.diff(runs.offsets) > 0
    if not asked.any():
        raise JobcastError(f"Not one of {len(runs)} runs has known nodes; give them, or use the scope all.")
    rows = np.flatnonzero(asked)
    nodes = None if scope == "all" else [runs.nodes(int(row)) for row in rows]
    part = windows(telemetry, runs.start[rows], nodes, window)
    whole = Windows(
        runs.start,
        np.full((len(runs), 3 * N_COUNTERS), np.nan),
        np.zeros((len(runs), N_COUNTERS), dtype=np.int64),
        np.zeros(len(runs), dtype=np.int64),
    )
    whole.values[rows], whole.counts[rows], whole.silent[rows] = part.values, part.counts, part.silent
    return Dataset.build(runs, whole, scope, {**(about or {}), "window_s": window})
