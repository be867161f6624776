"""Results of a sweep as tables, and the parts that are done.

Columns of `results.parquet`, whatever was run: `LEADING`, then the figures under the names that `jobcast simulate
--json` and `jobcast evaluate --json` give cluster, then `seconds`. Two machines agree on all but `TIMES`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from experiments.runs.checkpoints import Parts
from experiments.sweeps.plan import Plan
from experiments.sweeps.work import Done, key_of
from predictors.core.arrays import short_repr
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.parquet import parquet_table, write_parquet_table

LEADING: Final = {
    "simulate": ("log", "log_sha256", "case", "policy", "estimates", "correction", "budget", "seed"),
    "evaluate": ("log", "log_sha256", "case", "predictor", "budget", "seed"),
    "train": ("log", "log_sha256", "case", "predictor", "budget", "seed", "model_sha256"),
}
"""First columns by kind of sweep; (log, case, seed) tells the runs apart. `log_sha256` is of the log as it was used:
cleaned for simulations, as read else."""
TIMES: Final = ("fit_seconds", "predict_us_per_job", "seconds")  # columns that tell how long something took
GROUPS: Final = ("log", "case", "seed", "by", "group")
"""First columns of `groups.parquet`: one row a run and group, `by` saying what groups are.

Simulations, where asked for: `size`, `user`, `run-time` or `start`, then what `jobcast simulate --by` shows.
Evaluations, always: `user`, then n_jobs and the sums sse_s2, error_s (absolute) and underestimated (jobs)."""

TABLE: Final = "results.parquet"
GROUP_TABLE: Final = "groups.parquet"
_KEY: Final = b"jobcast.sweep"
_N_GROUPS: Final = b"jobcast.groups"
"""In the metadata of `results.parquet`: how many rows `groups.parquet` has; without any there is no such file."""


@dataclass(frozen=True, eq=False)
class Results:
    """The table of a sweep."""

    runs: pd.DataFrame  # one row a run, in the order of the sweep: log, seed, case
    groups: pd.DataFrame  # figures by group, if any were asked for; else empty
    # provenance: `sweep` (the declaration, as a dictionary), `kind`, `logs` (name, path, sha256, jobs, account),
    # `versions`, `code` (SHA-256 of jobcast's source), `git_commit`, `seeds`, `seconds` (all workers together),
    # `wall_seconds`, `finished` (UTC)
    about: dict[str, Any]
    # files of trained models, if the sweep was not given a folder to keep them in
    models: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def kind(self) -> str:
        """What was run: simulate, evaluate or train."""
        return str(self.about["kind"])


def write_results(folder: Path, found: Results) -> list[Path]:
    """Write the tables into a folder, each whole or not at all; the provenance is in each of them.

    The runs come last: a folder that has them is finished, so what is killed before that goes on from its parts.
    """
    groups = [_write(found.groups, folder / GROUP_TABLE, found.about)] if len(found.groups) else []
    return [*groups, _write(found.runs, folder / TABLE, found.about, {_N_GROUPS: str(len(found.groups))})]


def read_results(folder: Path) -> Results:
    """Return what a sweep left in a folder."""
    path = folder / TABLE
    if not path.is_file():
        raise JobcastError(f"{folder}: holds no {TABLE}; let `jobcast sweep --out {folder}` finish first.")
    runs, about, n_groups = _read(path)
    if (folder / GROUP_TABLE).is_file():
        groups, *_ = _read(folder / GROUP_TABLE)
    elif n_groups:
        raise _damaged(folder / GROUP_TABLE, "it is not there")
    else:
        groups = pd.DataFrame(columns=list(GROUPS))
    return Results(runs, groups, about)


def _write(table: pd.DataFrame, path: Path, about: dict[str, Any], besides: Mapping[bytes, str] | None = None) -> Path:
    import pyarrow as pa

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _KEY: json.dumps(about), **(besides or {})})
    with whole_file(path) as part:
        write_parquet_table(arrow, part)
    return path


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, Any], int]:
    """Return a table, what is written about it, and how many rows the table of groups must have."""
    arrow = parquet_table(path.read_bytes(), path, _cure(path))
    said = arrow.schema.metadata or {}
    try:
        about = json.loads(said[_KEY])
        missing = {*(LEADING[about["kind"]] if path.name == TABLE else GROUPS)} - {*arrow.column_names}
        n_groups = int(said.get(_N_GROUPS, 0))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if missing:
        raise _damaged(path, f"no column {min(missing)}")
    return arrow.to_pandas(), about, n_groups


def _damaged(path: Path, reason: str) -> JobcastError:
    return JobcastError(f"{path}: is no table of a sweep, or a damaged one ({reason}); {_cure(path)}.")


def _cure(path: Path) -> str:
    return f"delete {path.with_name(TABLE)} and run the same command again"


MODELS: Final = "models"


class SweepFolder:
    """A folder that keeps a sweep's runs while it goes on."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.parts = Parts(path)
        self.cells = {cell.key for cell in plan.cells}

    @property
    def finished(self) -> bool:
        return (self.path / TABLE).is_file()

    def kept(self) -> Done:
        """Return what is done already, models left out: they lie in their folders."""
        found, seen = Done(), set[tuple[Any, ...]]()
        for path, table in self.parts.all():
            rows, groups = (json.loads(table[name].item()) for name in ("rows", "groups"))
            keys = set(map(key_of, rows))
            if keys - self.cells or keys & seen:
                raise JobcastError(f"{path}: holds runs of another sweep, or runs twice; take it out of this folder.")
            seen |= keys
            found.rows.extend(rows)
            found.groups.extend(groups)
        return found

    def keep(self, done: Done) -> None:
        """Write down what came back, the models first."""
        for name, files in done.models.items():
            for file, content in files.items():
                target = self.model(name) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(target) as part:
                    part.write_bytes(content)
        if done.rows:  # as texts, since rows of a batch need not have the same figures
            table = pd.DataFrame({"rows": [json.dumps(done.rows)], "groups": [json.dumps(done.groups)]})
            self.parts.keep(table, self.parts.path(*map(key_of, done.rows)))

    def model(self, name: str) -> Path:
        return self.path / MODELS / name
