"""Work of one worker on a batch of runs.

Rows depend on the cells alone, not on the worker.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from experiments.compare.measures import AS_LOGGED
from experiments.runs.policies import demands_by
from experiments.runs.simulate import loaded, run_by_name, table_by
from experiments.runs.train import figures_of, fitted
from experiments.sweeps.sweep import Case, Cell, Learner
from predictors.core.errors import JobcastError
from predictors.data.formats.parquet import parse_parquet
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import evaluate
from predictors.models.similar_jobs import REVISED_ESTIMATES, SimilarRuns
from predictors.tracking.describe import LoadedModel
from predictors.tracking.model_folder import Origin, save_model
from schedsim.machine.node_groups import Machine
from schedsim.results.metrics import estimate_errors, past_request
from schedsim.results.resource_metrics import flat
from schedsim.sites.slurm.files import SlurmFiles
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

if TYPE_CHECKING:
    from predictors.evaluation.results import Evaluation

Row = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """Runs on one log, and what they have in common."""

    kind: str
    key: str  # tells the log from all others
    digests: tuple[str, str]  # of the log, as used and as read
    cells: tuple[Cell, ...]
    # the fields of the sweep that runs look at (kill, by, train, protocol); its agents, and Slurm's files, by the
    # policy's name
    options: dict[str, Any]
    # the nodes with the processors, GPUs and memory that the jobs take; None: processors count alone
    machine: Machine | None = None


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a batch: rows of the table, rows by group, files of trained models, and what failed, all by cell."""

    rows: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)


def key_of(row: Row) -> tuple[str, str, int]:
    """Return the identity of a row's run, as `Cell.key`."""
    return row["log"], row["case"], row["seed"]


def do(log: bytes | JobLog, batch: Batch) -> Done:
    """Run a batch on a log or its Parquet file; a run that fails is noted, the others go on."""
    jobs, done = _opened(log, batch.key), Done()
    for cell in batch.cells:
        begin = perf_counter()
        try:
            row, groups, model = _WORK[batch.kind](jobs, cell, batch)
        except JobcastError as error:
            done.failures.append((f"{cell.case.name} on {jobs.name}, seed {cell.seed}", str(error)))
            continue
        leading = {"log": jobs.name, "log_sha256": batch.digests[0], **cell.case.to_row(), "seed": cell.seed}
        done.rows.append(leading | row | {"seconds": perf_counter() - begin})
        names = {key: leading[key] for key in ("log", "case", "seed")}
        done.groups.extend(names | group for group in groups)
        if model:
            done.models[model_folder(cell)] = model
    return done


def model_folder(cell: Cell) -> str:
    """Return the name of the folder that a trained model is kept in until it is written down."""
    log = sha256(cell.log.encode()).hexdigest()[:16]
    return f"{log}-{cell.case.name}-{cell.seed}".replace("/", "_")


_MOST_LOGS: Final = 4
_logs: dict[str, JobLog] = {}  # what this process has opened, by key
_shakes: dict[tuple[str, int, bool, Machine | None, str | None], tuple[JobLog, Workload]] = {}


def _opened(log: bytes | JobLog, key: str) -> JobLog:
    """Return a log, opened once in each process."""
    if isinstance(log, JobLog):
        return log
    if key not in _logs:
        while len(_logs) >= _MOST_LOGS:
            del _logs[next(iter(_logs))]
        _logs[key] = parse_parquet(log, "log")[0]
    return _logs[key]


def _jobs_of(log: JobLog, batch: Batch, seed: int, files: SlurmFiles | None) -> tuple[JobLog, Workload]:
    """Return the jobs of a run; those of the last seed are kept, since all its cases need them.

    By the files of a site jobs may ask of nodes what the log does not tell.
    """
    kill, machine = batch.options["kill"], batch.machine
    files = machine.asks if files is None and machine is not None else files
    which = batch.key, seed, kill, machine, None if machine is None or files is None else files.digest
    if which not in _shakes:
        _shakes.clear()
        jobs = log if seed == AS_LOGGED else shaken(log, seed, kill)
        demands = None if machine is None else demands_by(files, jobs, machine)[1]
        _shakes[which] = jobs, Workload.from_log(jobs, demands)
    return _shakes[which]


_loaded = lru_cache(maxsize=8)(loaded)


def _simulated(log: JobLog, cell: Cell, batch: Batch) -> tuple[Row, list[Row], None]:
    case = cell.case
    assert isinstance(case, Case)
    jobs, workload = _jobs_of(log, batch, cell.seed, case.named.files)
    given = _loaded(case.estimates) if isinstance(case.estimates, str) else case.estimates
    schedule, found = run_by_name(
        jobs, case.named, case.estimates if case.budget is not None else given, case.correction,
        kill=batch.options["kill"], budget=case.budget, workload=workload,
        rule=case.rule, soft_limits=case.soft_limits,
    )  # fmt: skip
    timed = ("log", "policy", "estimates", "correction", "budget", "soft_limits", "engine_seconds",
             "jobs_per_second")  # fmt: skip
    row = {key: value for key, value in flat(found).items() if key not in timed}
    if not (isinstance(given, SimilarRuns) or given in REVISED_ESTIMATES):  # these have no single estimate of a job
        row |= estimate_errors(schedule.estimate, schedule.run_time)
    row["past_request"] = past_request(schedule)
    row["look_ahead"] = isinstance(given, LoadedModel) and given.origin.log_sha256 in batch.digests
    groups = [
        {"by": by, "group": group, **figures}
        for by in batch.options["by"]
        for group, figures in table_by(schedule, by).items()
    ]
    return row, groups, None


def _evaluated(log: JobLog, cell: Cell, batch: Batch) -> tuple[Row, list[Row], None]:
    found = _evaluation(log, cell, batch)
    return _scored(found), list(_by_user(found)), None


def _trained(log: JobLog, cell: Cell, batch: Batch) -> tuple[Row, list[Row], Mapping[str, bytes]]:
    assert isinstance(cell.case, Learner)
    found = _evaluation(log, cell, batch)
    model, until = fitted(log, cell.case.predictor, cell.seed)
    with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
        folder = Path(scratch, "model")
        folder.mkdir()
        digest = save_model(model, folder, Origin.of(model.name, log, until))
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return {"model_sha256": digest, **_scored(found)}, list(_by_user(found)), files


def _evaluation(log: JobLog, cell: Cell, batch: Batch) -> "Evaluation":
    assert isinstance(cell.case, Learner)
    options = {name: batch.options[name] for name in ("train", "protocol")}
    return evaluate(log, [cell.case.predictor], seed=cell.seed, budget=cell.case.budget, **options)


def _scored(found: "Evaluation") -> Row:
    score = found.scores[-1]
    return {"protocol": found.protocol, "split": found.split, **figures_of(score, found.n_train)}


def _by_user(found: "Evaluation") -> Iterator[Row]:
    error = found.scores[-1].predicted - found.run_time
    users, which = np.unique(found.user, return_inverse=True)
    sums = {
        "n_jobs": np.bincount(which),
        "sse_s2": np.bincount(which, weights=error**2),
        "error_s": np.bincount(which, weights=np.abs(error)),
        "underestimated": np.bincount(which, weights=error < 0),
    }
    for row, user in enumerate(users.tolist()):
        yield {"by": "user", "group": str(user), **{name: column[row].item() for name, column in sums.items()}}


_WORK: Final[dict[str, Callable[..., Any]]] = {"simulate": _simulated, "evaluate": _evaluated, "train": _trained}
