"""`jobcast evaluate`, `train` and `predict`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import Alias, Json, Log, Seed, about_model
from experiments.compare.measures import titled

if TYPE_CHECKING:
    from predictors.core.arrays import Floats
    from predictors.data.joblog import JobLog
    from predictors.evaluation.results import Evaluation, Score
    from predictors.models.base import Predictor
    from predictors.tracking.describe import LoadedModel


Names = Annotated[str, typer.Option("--predictors", help="Names, separated by commas; last-two is always beside them.")]
Train = Annotated[
    float | None,
    typer.Option(help="Share of the jobs, the earliest, to learn from (0.8 if absent); the others are predicted."),
]
Prequential = Annotated[bool, typer.Option("--prequential", help="Predict every job, learn from it when it ends.")]
ProtocolName = Annotated[str, typer.Option("--protocol", help="strict, or reis: the rules of that paper.")]
Partition = Annotated[int | None, typer.Option(help="Keep only the jobs of this partition.")]
Budget = Annotated[
    float | None, typer.Option(help="Share of jobs that may run longer than predicted, such as 0.05: predict no less.")
]
Details = Annotated[bool, typer.Option("--details", help="Also slices by run time, cold and warm users, and month.")]

DEFAULT: Final = "stack,average,boosted,forest,similar-mean,similar,requested"
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
    from experiments.console import after_reading, print_account, print_json, progress, working
    from predictors.core.errors import JobcastError
    from predictors.data.formats.detect import read_log
    from predictors.evaluation import evaluate as how

    if prequential and train is not None:
        raise JobcastError(
            "--train is the share to learn from at first; --prequential learns from each job as it ends."
        )
    names, share = names_of(predictors), None if prequential else SHARE if train is None else train
    how.check(names, share, protocol)
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    n_predictors = len({"last-two", *names})
    with after_reading(account), progress(f"Evaluating predictors on {len(jobs):,} jobs", n_predictors) as done:
        found = how.evaluate(
            jobs,
            names,
            train=share,
            protocol=protocol,
            partition=partition,
            seed=seed,
            budget=budget,
            done=done,
        )
    with working("Comparing the predictors"):
        recommended = found.recommendations(seed=seed)
    if as_json:
        advice = {"recommendations": [one.to_json() for one in recommended]}
        print_json(found.to_json(details) | advice | {"account": account.to_dict()})
    else:
        print_evaluation(found, details)
        for one in recommended:
            typer.echo(one.sentence)
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
    from experiments.console import print_table
    from predictors.core.errors import counted

    partition = "" if found.partition is None else f", partition {found.partition}"
    learnt = "predicted at submission, learnt at the end" if not found.n_train else f"learnt from {found.n_train:,}"
    how = f"{counted(found.n_test, 'job')} predicted, {learnt}; {found.split}, protocol {found.protocol}"
    title = f"{found.log}{partition}: {how}"
    print_table(title, COLUMNS, [row(score) for score in found.scores], note=_NOTE)
    without = [f"{score.name} {score.n_fallback:,}" for score in found.scores if score.n_fallback]
    if without:
        typer.echo(f"Jobs answered by their request, since there was no estimate: {', '.join(without)}.")
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


Model = Annotated[
    str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a folder.", metavar="MODEL")
]

SHOWN: Final = ("sse_ratio_to_last_two", "mae_s", "median_ae_s", "r2", "mean_accuracy", "underestimation_rate")
"""Figures of a training that are printed."""


def train(
    logs: Annotated[
        list[Path], typer.Argument(help="A job log, or several of one machine, such as months.", metavar="LOG...")
    ],
    predictor: Annotated[str, typer.Option(help="What shall learn: forest, last-two, …")] = "forest",
    register: Annotated[str, typer.Option(help="Name under which the model is kept.")] = "runtime",
    alias: Alias = None,
    share: Annotated[
        float, typer.Option("--train", help="Share of the jobs, the earliest, to learn from for the figures.")
    ] = 0.8,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn from a log and keep the model. Several logs are joined, as by `jobcast log join`.

    Its figures are made first: learnt from the earliest jobs (--train), scored on the others. The model that is kept
    then learns from all jobs of the log.
    """
    from experiments.console import after_reading, print_account, print_json, working
    from experiments.runs.train import figures_of, fitted, learnt_until
    from predictors.data.formats.combine import read_logs
    from predictors.evaluation.evaluate import check, evaluate
    from predictors.tracking import client as tracking
    from predictors.tracking.uri import checked_alias, checked_name

    check([predictor], share, "strict")
    checked_name(register)
    if alias is not None:
        checked_alias(alias)
    begin = time.perf_counter()
    with working(f"Reading {', '.join(map(str, logs))}"):
        jobs, account = read_logs(logs)
    with working("Opening the model store"):
        store = tracking.open_store()
    with after_reading(account), working(f"Evaluating {predictor} on {len(jobs):,} jobs"):
        evaluation = evaluate(jobs, [predictor], train=share, seed=seed)
    with working(f"Training {predictor} on {len(jobs):,} jobs"):
        model, until = fitted(jobs, predictor, seed)
    n_learnt = learnt_until(jobs)[1]
    score = evaluation[predictor]
    split = (
        f"{evaluation.split}, protocol {evaluation.protocol}: {evaluation.n_train} jobs learnt from, "
        f"{evaluation.n_test} predicted; then the model learnt from all {n_learnt} jobs that ran"
    )
    shown = figures_of(score, evaluation.n_train)
    with working("Writing the run and the model"):
        run = tracking.log_run(model, jobs, shown, split=split, seed=seed, trained_until=until)
        kept = tracking.register(run, register, alias)
    document = {
        "log": jobs.name,
        "predictor": predictor,
        "evaluation": {"split": evaluation.split, "protocol": evaluation.protocol, "n_train": evaluation.n_train}
        | score.to_json(),
        "model": about_model(kept, run) | {"n_jobs": n_learnt, "trained_until_s": until},
        "store": str(store),
        "account": account.to_dict(),
        "seconds": time.perf_counter() - begin,
    }
    if as_json:
        print_json(document)
    else:
        _print_training(document)
        print_account(account)


def predict(
    model: Model,
    log: Log,
    out: Annotated[Path, typer.Option(help="CSV file to write, one line a job.", writable=True)],
    warm: Annotated[
        bool, typer.Option("--warm", help="Go on from the model's history; LOG must come later on the same machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the run time of each job of a log, as of its submission, with a model that is kept.

    By default the model knows no user's history before LOG begins; it follows the log's own starts and ends.
    """
    import numpy as np

    from experiments.console import after_reading, print_account, print_json, working
    from predictors.core.files import whole_file
    from predictors.data.formats.detect import read_log
    from predictors.models.range import REQUESTED
    from predictors.tracking.client import load_model

    with working(f"Loading {model}"):
        loaded = load_model(model)
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account), whole_file(out) as part, working(f"Predicting {len(jobs):,} jobs"):
        seconds, who = predictions(loaded.predictor, jobs, warm)
        fallback = who == REQUESTED
        write_predictions(part, jobs, seconds, who)
    document = {
        "model": loaded.about(),
        "log": jobs.name,
        "out": str(out),
        "n_jobs": len(jobs),
        "n_fallback": int(np.sum(fallback)),
        "history": history_used(loaded, warm),
        "names": names_known(loaded.predictor, jobs),
        "learnt_from_this_log": loaded.origin.log_sha256 == jobs.digest(),
        "account": account.to_dict(),
    }
    if as_json:
        print_json(document)
    else:
        _print_prediction(document)
        print_account(account)


def predictions(predictor: "Predictor", log: "JobLog", warm: bool) -> "tuple[Floats, Any]":
    """Return predicted run times [s], and the source of each (`Prediction.answered_by`): both of shape (n_jobs,)."""
    rows = predictor.rows(log, warm=warm)
    return predictor.predict_rows(rows), predictor.answered_by(rows)


def names_known(predictor: "Predictor", log: "JobLog") -> dict[str, dict[str, int]]:
    """Return how many of a log's users, groups, … the model knows by name, and how many are new to it."""
    from predictors.data.names import new_names

    found = new_names(log, getattr(predictor, "codes_", {}))
    return {column: {"known": known, "new": new} for column, (known, new) in found.items()}


def write_predictions(path: Path, log: "JobLog", seconds: "Floats", who: Any) -> None:
    """Write job_id, predicted_seconds, fallback, requested_time (or nothing), answered_by.

    A fallback (1) has nothing learnt behind it: it is answered by the request.
    """
    import pandas as pd

    from predictors.models.range import REQUESTED

    table = {
        "job_id": log.filled("job_id"),
        "predicted_seconds": seconds,
        "fallback": (who == REQUESTED).astype(int),
        "requested_time": log.to_frame()["requested_time"],
        "answered_by": who,
    }
    pd.DataFrame(table).to_csv(path, index=False)


def history_used(model: "LoadedModel", warm: bool) -> str:
    """Say what was known of the users before the log began."""
    if warm:
        return f"goes on from the model's own, of {model.origin.log}"
    carries = hasattr(model.predictor, "history_")
    return "starts cold" + ("; --warm goes on from the model's own, if this log comes later" if carries else "")


def _print_training(document: dict[str, Any]) -> None:
    from experiments.console import print_table
    from predictors.core.errors import counted

    found, model = document["evaluation"], document["model"]
    title = (
        f"{document['predictor']} on {document['log']}: {counted(found['n_test'], 'job')} predicted, {found['split']}"
    )
    print_table(title, ("", "value", "unit"), titled(found, SHOWN))
    typer.echo(f"The model then learnt from all {counted(model['n_jobs'], 'job')} that ran, to the end of the log.")
    typer.echo(f"Kept as {model['uri']}, version {model['version']}; run {model['run_id']} in {document['store']}")


def _print_prediction(document: dict[str, Any]) -> None:
    from predictors.core.errors import counted

    model = document["model"]
    typer.echo(
        f"{document['out']}: {counted(document['n_jobs'], 'job')} predicted by {model['predictor']} ({model['uri']}), "
        f"{document['n_fallback']:,} by their request since nothing was known; history {document['history']}."
    )
    if users := document["names"].get("user"):
        typer.echo(f"Of its {counted(sum(users.values()), 'user')} the model knows {users['known']:,} by name.")
    if document["learnt_from_this_log"]:
        typer.echo("The model learnt from this very log: these predictions say nothing about how good it is.")
