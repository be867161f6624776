"""Many runs in one call: simulations, evaluations or trainings over logs, cases and seeds, as a table."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from experiments.crew import HERE
from experiments.hiring import Crew
from experiments.sweep import LogFile, Sweep, first_seeds
from experiments.sweep_results import Results
from experiments.sweep_run import run_sweep
from predictors.data.joblog import JobLog

Logs = Sequence[JobLog | str | PathLike[str]]


def simulate_many(
    logs: Logs,
    policies: Sequence[str] = ("easy",),
    estimates: Sequence[str] = ("requested",),
    corrections: Sequence[str] = ("requested",),
    seeds: int | Sequence[int] = 10,
    *,
    crew: Crew = HERE,
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
    crew : Crew
        Who works, see `experiments.hiring`; by default this process. A script that asks for more than one worker must
        do so under `if __name__ == "__main__":`, since workers import it.
    folder : path, optional
        Where runs are kept as they are done; the same call goes on there after a kill.
    **options
        Other fields of `experiments.sweep.Sweep`: cases, as_logged, kill, drop_wide, budget, by.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> found = simulate_many([generate_log(200, seed=1)], ["easy", "easy-sjbf"], seeds=2)
    >>> found.runs[["case", "seed", "n_jobs"]].to_numpy().tolist()
    [['easy', 1, 200], ['easy-sjbf', 1, 200], ['easy', 2, 200], ['easy-sjbf', 2, 200], ['easy', -1, 200],
     ['easy-sjbf', -1, 200]]
    """
    names = {"policies": policies, "estimates": estimates, "corrections": corrections}
    if options.get("cases"):
        names = {}
    return _run("simulate", logs, seeds, crew, folder, names | options)


def evaluate_many(
    logs: Logs,
    predictors: Sequence[str],
    seeds: int | Sequence[int] = (0,),
    *,
    crew: Crew = HERE,
    folder: str | PathLike[str] | None = None,
    **options: Any,
) -> Results:
    """Score every predictor on every log, drawing by every seed; parameters as of `simulate_many`.

    Further options: train, protocol, budget.
    """
    return _run("evaluate", logs, seeds, crew, folder, {"predictors": predictors, **options})


def train_many(
    logs: Logs,
    predictors: Sequence[str],
    seeds: int | Sequence[int] = (0,),
    *,
    crew: Crew = HERE,
    folder: str | PathLike[str] | None = None,
    **options: Any,
) -> Results:
    """Score every predictor as `evaluate_many` does, then let it learn from the whole log; models are kept by folder.

    Without a folder their files are in `Results.models`.
    """
    return _run("train", logs, seeds, crew, folder, {"predictors": predictors, **options})


def _run(
    kind: Any, logs: Logs, seeds: int | Sequence[int], crew: Crew, folder: str | PathLike[str] | None, more: Any
) -> Results:
    in_memory = [log for log in logs if isinstance(log, JobLog)]
    files = tuple(LogFile(str(log)) for log in logs if not isinstance(log, JobLog))
    drawn = ((seeds,) if seeds < 0 else first_seeds(seeds)) if isinstance(seeds, int) else tuple(seeds)
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in more.items()}
    sweep = Sweep(kind=kind, logs=files, seeds=drawn, **given)
    return run_sweep(sweep, in_memory, crew=crew, folder=None if folder is None else Path(folder))
