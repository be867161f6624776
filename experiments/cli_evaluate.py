"""`jobcast evaluate`: by how much does a learned run-time prediction beat the user's last two jobs on a log."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from predictors.evaluation import Evaluation, Score

Log = Annotated[Path, typer.Argument(help="A job log in any known format, told by its content.", metavar="LOG")]
Names = Annotated[str, typer.Option("--predictors", help="Names, separated by commas; last-two is always beside them.")]
Train = Annotated[
    float | None,
    typer.Option(help="Share of the jobs, the earliest, to learn from (0.8 if absent); the others are predicted."),
]
Prequential = Annotated[bool, typer.Option("--prequential", help="Predict every job, learn from it when it ends.")]
ProtocolName = Annotated[str, typer.Option("--protocol", help="strict, or reis: the rules of that paper.")]
Partition = Annotated[int | None, typer.Option(help="Keep only the jobs of this partition.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of what is drawn by chance.")]
Budget = Annotated[
    float | None, typer.Option(help="Share of jobs that may run longer than predicted, such as 0.05: predict no less.")
]
Details = Annotated[bool, typer.Option("--details", help="Also slices by run time, cold and warm users, and month.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

DEFAULT: Final = "requested,tsafrir,user-mean,forest"
SHARE: Final = 0.8
COLUMNS: Final = (
    "predictor",
    "error / last-two",
    "95 % over users",
    "MAE [s]",
    "median [s]",
    "R²",
    "accuracy",
    "too short",
    "fit [s]",
    "µs/job",
)
_NOTE: Final = (
    "error / last-two: sum of squared errors over that of the mean of the user's last two ended jobs, less is better; "
    "too short: share of jobs that ran longer than predicted."
)


def evaluate(
    log: Log,
    predictors: Names = DEFAULT,
    train: Train = None,
    prequential: Prequential = False,
    protocol: ProtocolName = "strict",
    partition: Partition = None,
    seed: Seed = 0,
    budget: Budget = None,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Score run-time predictors on a log, beside the mean of the user's last two jobs."""
    from experiments.output import after_reading, print_account, print_json, working
    from predictors import evaluate as how
    from predictors.data.detect import read_log
    from predictors.data.errors import JobcastError

    if prequential and train is not None:
        raise JobcastError(
            "--train is the share to learn from at first; --prequential learns from each job as it ends."
        )
    names, share = names_of(predictors), None if prequential else SHARE if train is None else train
    how.check(names, share, protocol)
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account), working(f"Evaluating {', '.join(names)} on {len(jobs):,} jobs"):
        found = how.evaluate(
            jobs,
            names,
            train=share,
            protocol=protocol,
            partition=partition,
            seed=seed,
            budget=budget,
        )
    if as_json:
        print_json(found.to_json(details) | {"account": account.to_dict()})
    else:
        print_evaluation(found, details)
        print_account(account)


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas.

    Examples
    --------
    >>> names_of("last-two, forest,")
    ('last-two', 'forest')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def print_evaluation(found: "Evaluation", details: bool = False) -> None:
    """Print the scores as a table, and with `details` one more for each kind of slice."""
    from experiments.output import print_table
    from predictors.data.errors import counted

    partition = "" if found.partition is None else f", partition {found.partition}"
    learnt = "predicted at submission, learnt at the end" if not found.n_train else f"learnt from {found.n_train:,}"
    how = f"{counted(found.n_test, 'job')} predicted, {learnt}; {found.split}, protocol {found.protocol}"
    title = f"{found.log}{partition}: {how}"
    print_table(title, COLUMNS, [row(score) for score in found.scores], note=_NOTE)
    if details:
        for by in ("run time", "user", "month"):
            print_table(f"Error / last-two, by {by}", *_slice_table(found, by))


def row(score: "Score") -> tuple[Any, ...]:
    """Return a score as a row under `COLUMNS`."""
    one, (low, high) = score.figures, score.interval
    return (
        score.name,
        one.sse_ratio_to_last_two,
        f"{low:.3f} to {high:.3f}",
        one.mae_s,
        one.median_ae_s,
        one.r2,
        one.mean_accuracy,
        one.underestimation_rate,
        score.fit_seconds,
        score.predict_us_per_job,
    )


def _slice_table(found: "Evaluation", by: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    parts = [part for part in found.scores[0].slices if part.by == by]
    of = {(score.name, part.by, part.label): part.figures for score in found.scores for part in score.slices}
    columns = (by, "jobs", *(score.name for score in found.scores))
    rows = [
        (part.label, part.figures.n_test, *(of[s.name, by, part.label].sse_ratio_to_last_two for s in found.scores))
        for part in parts
    ]
    return columns, rows
