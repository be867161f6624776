"""`jobcast train` and `jobcast predict`: a model from a log into the store, its predictions for a log into a file."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from predictors.base import Floats, Predictor
    from predictors.data.joblog import JobLog
    from predictors.saved.records import LoadedModel

Log = Annotated[Path, typer.Argument(help="A job log in any known format, told by its content.", metavar="LOG")]
Model = Annotated[
    str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a folder.", metavar="MODEL")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

SHOWN: Final = (
    ("error / last-two", "sse_ratio_to_last_two", ""),
    ("mean absolute error", "mae_s", "s"),
    ("median absolute error", "median_ae_s", "s"),
    ("R²", "r2", ""),
    ("mean accuracy", "mean_accuracy", ""),
    ("ran longer than predicted", "underestimation_rate", "of jobs"),
)
"""What is printed of the figures: label, name, unit."""


def train(
    logs: Annotated[
        list[Path], typer.Argument(help="A job log, or several of one machine, such as months.", metavar="LOG...")
    ],
    predictor: Annotated[str, typer.Option(help="What shall learn: forest, last-two, …")] = "forest",
    register: Annotated[str, typer.Option(help="Name under which the model is kept.")] = "runtime",
    alias: Annotated[str | None, typer.Option(help="champion, challenger or shadow: taken from its holder.")] = None,
    share: Annotated[
        float, typer.Option("--train", help="Share of the jobs, the earliest, to learn from for the figures.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn by chance.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn from a log and keep the model. Several logs are joined, as by `jobcast log join`.

    Its figures are made first: learnt from the earliest jobs (--train), scored on the others. The model that is kept
    then learns from all jobs of the log.
    """
    from experiments.output import after_reading, print_account, print_json, working
    from experiments.training import figures_of, fitted, learnt_until
    from predictors import tracking
    from predictors.data.joining import read_logs
    from predictors.evaluate import check, evaluate
    from predictors.saved.uri import checked_alias, checked_name

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
        "model": {
            "uri": kept.uri,
            "name": kept.name,
            "version": kept.version,
            "alias": kept.alias,
            "run_id": run.run_id,
            "sha256": run.sha256,
            "n_jobs": n_learnt,
            "trained_until_s": until,
        },
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
    out: Annotated[Path, typer.Option(help="CSV file to write, one line a job.")],
    warm: Annotated[
        bool, typer.Option("--warm", help="Go on from the model's history; LOG must come later on the same machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the run time of each job of a log, as of its submission, with a model that is kept.

    By default the model knows no user's history before LOG begins; it follows the log's own starts and ends.
    """
    import numpy as np

    from experiments.output import after_reading, print_account, print_json, working
    from predictors.answers import REQUESTED
    from predictors.data.detect import read_log
    from predictors.data.files import refuse_same, whole_file
    from predictors.tracking import load_model

    refuse_same(out, log)
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
    """Return predicted run times [s], and who tells each (`Prediction.answered_by`): both of shape (n_jobs,)."""
    rows = predictor.rows(log, warm=warm)
    return predictor.predict_rows(rows), predictor.answered_by(rows)


def names_known(predictor: "Predictor", log: "JobLog") -> dict[str, dict[str, int]]:
    """Return how many of a log's users, groups, … the model knows by name, and how many are new to it."""
    from predictors.data.naming import new_names

    found = new_names(log, getattr(predictor, "codes_", {}))
    return {column: {"known": known, "new": new} for column, (known, new) in found.items()}


def write_predictions(path: Path, log: "JobLog", seconds: "Floats", who: Any) -> None:
    """Write job_id, predicted_seconds, fallback, requested_time (or nothing), answered_by.

    A fallback (1) has nothing learnt behind it: it is answered by the request.
    """
    import pandas as pd

    from predictors.answers import REQUESTED

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
    from experiments.output import print_table
    from predictors.data.errors import counted

    found, model = document["evaluation"], document["model"]
    title = (
        f"{document['predictor']} on {document['log']}: {counted(found['n_test'], 'job')} predicted, {found['split']}"
    )
    print_table(title, ("", "value", "unit"), [(label, found[name], unit) for label, name, unit in SHOWN])
    typer.echo(f"The model then learnt from all {counted(model['n_jobs'], 'job')} that ran, to the end of the log.")
    typer.echo(f"Kept as {model['uri']}, version {model['version']}; run {model['run_id']} in {document['store']}")


def _print_prediction(document: dict[str, Any]) -> None:
    from predictors.data.errors import counted

    model = document["model"]
    typer.echo(
        f"{document['out']}: {counted(document['n_jobs'], 'job')} predicted by {model['predictor']} ({model['uri']}), "
        f"{document['n_fallback']:,} by their request since nothing was known; history {document['history']}."
    )
    if users := document["names"].get("user"):
        typer.echo(f"Of its {counted(sum(users.values()), 'user')} the model knows {users['known']:,} by name.")
    if document["learnt_from_this_log"]:
        typer.echo("The model learnt from this very log: these predictions say nothing about how good it is.")
