"""Runs of a sweep, from the start or where it stopped; `simulate_many`, `evaluate_many`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from experiments.console import progress
from experiments.runs.checkpoints import kept_in, run_directory
from experiments.runs.clusters import Pool
from experiments.runs.pool import BASE_BYTES, HERE, JOB_BYTES, each
from experiments.sweeps.plan import Plan, batches, plan
from experiments.sweeps.results import GROUPS, LEADING, Results, SweepFolder, read_results, write_results
from experiments.sweeps.sweep import Case, Cell, Learner, LogFile, Sweep, first_seeds
from experiments.sweeps.work import Batch, Done, do, key_of
from predictors.core.errors import JobcastError, counted
from predictors.data.cleaning import clean
from predictors.data.formats.parquet import write_parquet
from predictors.data.joblog import JobLog
from predictors.data.synthetic.generate import generate_log
from schedsim.machine.node_groups import Machine, NodeGroup

WARM: Final = "warm"
OPTIONS: Final = ("kill", "by", "train", "protocol")
DOING: Final = {"simulate": "Simulating", "evaluate": "Evaluating", "train": "Training"}


def run_sweep(
    sweep: Sweep,
    logs: Sequence[JobLog] = (),
    *,
    pool: Pool = HERE,
    folder: Path | None = None,
    machine: Machine | None = None,
) -> Results:
    """Run a sweep, or the part that is not done yet, and return its table.

    Parameters
    ----------
    logs : sequence of JobLog
        The logs, if the sweep names no files.
    pool : Pool
        The workers; the table does not depend on them, except for times.
    folder : Path, optional
        Where runs are kept as they are done, and the table in the end; started again with the same folder a sweep goes
        on where it stopped. Without one nothing is kept but what is returned.
    machine : Machine, optional
        The nodes with the processors, GPUs and memory that the jobs of these logs take; a log that is read names its
        own.

    Raises
    ------
    JobcastError
        If a log cannot be used, the folder is another sweep's, workers fail, or some runs cannot be done: the others
        are done first, and kept.
    """
    return run_plan(plan(sweep, logs, machine), pool, folder)


def run_plan(planned: Plan, pool: Pool = HERE, folder: Path | None = None) -> Results:
    """Run a sweep with logs that are read; parameters and errors as of `run_sweep`."""
    with nullcontext() if folder is None else run_directory(folder, "sweep", planned.identity(), planned.about()):
        place = None if folder is None else SweepFolder(folder, planned)
        if place is not None and place.finished:
            found = read_results(place.path)
            place.parts.drop()  # if it was killed before it could
            return found
        done = Done() if place is None else place.kept()
        before = set(map(key_of, done.rows))
        missing = [cell for cell in planned.cells if cell.key not in before]
        begin = perf_counter()
        failures = _run(planned, missing, pool, done, place)
        if failures:
            raise _failed(failures, planned, place)
        found = _results(planned, done, perf_counter() - begin)
        if place is not None:
            write_results(place.path, found)
            place.parts.drop()
        return found


def _run(
    planned: Plan, missing: Sequence[Cell], pool: Pool, done: Done, place: SweepFolder | None
) -> list[tuple[str, str]]:
    """Do what is missing, add it to what is done, and return what failed."""
    failures: list[tuple[str, str]] = []
    tasks = [(batch.key, batch) for batch in _batches(planned, missing, pool)]
    kind = planned.sweep.kind
    try:
        with _shared(planned, pool) as shared, progress(DOING[kind], len(planned.cells)) as advance:
            advance(len(planned.cells) - len(missing))
            needs = BASE_BYTES + JOB_BYTES * max(len(log.jobs) for log in planned.logs.values())
            for number, found in each(do, shared, tasks, pool, warm=_warm(planned), needs=needs):
                if place is not None:
                    place.keep(found)
                done.rows.extend(found.rows)
                done.groups.extend(found.groups)
                done.models.update(found.models if place is None else {})
                failures += found.failures
                advance(len(tasks[number][1].cells))
    except JobcastError as error:
        raise type(error)(f"{error} {_kept(len(done.rows), planned, place)}".rstrip()) from error
    return failures


def _failed(failures: Sequence[tuple[str, str]], planned: Plan, place: SweepFolder | None) -> JobcastError:
    which, why = failures[0]
    done = len(planned.cells) - len(failures)
    return JobcastError(
        f"{counted(len(failures), 'run')} of {len(planned.cells):,} could not be done. {which}: {why} "
        f"{_kept(done, planned, place)}".rstrip()
    )


def _kept(done: int, planned: Plan, place: SweepFolder | None) -> str:
    return kept_in(place.path, done, len(planned.cells)) if place is not None and done else ""


def _batches(planned: Plan, missing: Sequence[Cell], pool: Pool) -> Iterator[Batch]:
    options = _options(planned)
    for cells in batches(planned, missing, pool.workers):
        log = planned.logs[cells[0].log]
        yield Batch(planned.sweep.kind, log.key, log.digests, cells, options, log.machine)


def _warm(planned: Plan) -> list[tuple[str, Batch]]:
    """Return a batch that makes a worker compile what the sweep needs: a run of each kind on a few jobs."""
    cases: dict[object, Case | Learner] = {}
    for case in planned.sweep.all_cases:
        which: object = case.name
        if isinstance(case, Case):
            rule = case.passes
            which = (rule.kind, rule.agent is None, rule.order.code, str(case.estimates))
        cases.setdefault(which, case)
    options = _options(planned)
    cells = tuple(Cell(WARM, case, 1) for case in cases.values())
    kind = "evaluate" if planned.sweep.kind == "train" else planned.sweep.kind
    one_node = Machine((NodeGroup(WARM, 1, int(_warm_log().max_procs or 1)),))
    machines = dict.fromkeys(None if log.machine is None else one_node for log in planned.logs.values())
    return [(WARM, Batch(kind, WARM, ("", ""), cells, options, machine)) for machine in machines]


def _warm_log() -> JobLog:
    return clean(generate_log(200, seed=0))[0]


def _options(planned: Plan) -> dict[str, Any]:
    return {name: getattr(planned.sweep, name) for name in OPTIONS}


@contextmanager
def _shared(planned: Plan, pool: Pool) -> Iterator[dict[str, bytes | JobLog]]:
    """Yield the logs: as they are for this process, as the bytes of Parquet files for others."""
    logs = {log.key: log.jobs for log in planned.logs.values()}
    if pool.alone:
        yield dict(logs)
        return
    logs[WARM] = _warm_log()
    with TemporaryDirectory(prefix="jobcast-") as scratch:
        file = Path(scratch, "log.parquet")
        packed: dict[str, bytes | JobLog] = {}
        for key, jobs in logs.items():
            write_parquet(jobs, file)
            packed[key] = file.read_bytes()
        yield packed


def _results(planned: Plan, done: Done, wall: float) -> Results:
    import pandas as pd

    rank = {cell.key: number for number, cell in enumerate(planned.cells)}
    rows = sorted(done.rows, key=lambda row: rank[key_of(row)])
    groups = sorted(done.groups, key=lambda row: rank[key_of(row)])
    first = LEADING[planned.sweep.kind]
    runs = pd.DataFrame(rows)
    runs = runs[[*first, *(name for name in runs.columns if name not in first)]].astype({"budget": "float64"})
    about = planned.about() | {
        "seconds": float(runs["seconds"].sum()),
        "wall_seconds": wall,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Results(runs, pd.DataFrame(groups, columns=None if groups else list(GROUPS)), about, done.models)


Logs = Sequence[JobLog | str | PathLike[str]]


def simulate_many(
    logs: Logs,
    policies: Sequence[str] = ("easy",),
    estimates: Sequence[str] = ("requested",),
    corrections: Sequence[str] = ("requested",),
    seeds: int | Sequence[int] = 10,
    *,
    pool: Pool = HERE,
    folder: str | PathLike[str] | None = None,
    **options: Any,
) -> Results:
    """Simulate every combination of policy, estimates and correction on every log, as it is and shaken by every seed.

    Parameters
    ----------
    logs : sequence of JobLog or path
        All in memory or all in files.
    policies, estimates, corrections : sequence of str
        Names as of `jobcast simulate`.
    seeds : int or sequence of int
        So many shakes, or these.
    pool : Pool
        Who works, see `experiments.runs.clusters`; by default this process. A script that asks for more than one worker
        must do so under `if __name__ == "__main__":`, since workers import it.
    folder : path, optional
        Where runs are kept as they are done; the same call goes on there after a kill.
    **options
        Other fields of `experiments.sweeps.sweep.Sweep`: cases, as_logged, kill, drop_wide, budget, by.

    Examples
    --------
    >>> from predictors.data.synthetic.generate import generate_log
    >>> found = simulate_many([generate_log(200, seed=1)], ["easy", "easy-sjbf"], seeds=2)
    >>> found.runs[["case", "seed", "n_jobs"]].to_numpy().tolist()
    [['easy', 1, 200], ['easy-sjbf', 1, 200], ['easy', 2, 200], ['easy-sjbf', 2, 200], ['easy', -1, 200],
     ['easy-sjbf', -1, 200]]
    """
    names = {"policies": policies, "estimates": estimates, "corrections": corrections}
    if options.get("cases"):
        names = {}
    return _run_many("simulate", logs, seeds, pool, folder, names | options)


def evaluate_many(
    logs: Logs,
    predictors: Sequence[str],
    seeds: int | Sequence[int] = (0,),
    *,
    pool: Pool = HERE,
    folder: str | PathLike[str] | None = None,
    **options: Any,
) -> Results:
    """Score every predictor on every log with every seed; the parameters are those of `simulate_many`.

    Further options: train, protocol, budget.
    """
    return _run_many("evaluate", logs, seeds, pool, folder, {"predictors": predictors, **options})


def _run_many(
    kind: Any, logs: Logs, seeds: int | Sequence[int], pool: Pool, folder: str | PathLike[str] | None, more: Any
) -> Results:
    in_memory = [log for log in logs if isinstance(log, JobLog)]
    files = tuple(LogFile(str(log)) for log in logs if not isinstance(log, JobLog))
    drawn = ((seeds,) if seeds < 0 else first_seeds(seeds)) if isinstance(seeds, int) else tuple(seeds)
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in more.items()}
    sweep = Sweep(kind=kind, logs=files, seeds=drawn, **given)
    return run_sweep(sweep, in_memory, pool=pool, folder=None if folder is None else Path(folder))
