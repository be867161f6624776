"""`jobcast evaluate`, `train` and `predict`."""

import tempfile
import time
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import typer

from experiments.cli.options import evaluate as options
from experiments.cli.options.shared import names_of
from experiments.cli.reading import read
from experiments.compare.measures import titled
from experiments.console import (
    about_model,
    after_reading,
    cell,
    print_account,
    print_json,
    print_lacks,
    print_table,
    progress,
    say,
    working,
)
from experiments.runs.train import (
    CHAMPION,
    DriftThere,
    check_beaten,
    drift_at,
    figures_of,
    files_of_run,
    fitted,
    learnt_until,
)
from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, counted, percent, require
from predictors.core.files import whole_file
from predictors.data.formats.combine import read_logs
from predictors.data.joblog import JobLog
from predictors.data.names import new_names
from predictors.data.report import ReadingReport
from predictors.data.summary import lacks_for_predictions, lacks_of_reading
from predictors.evaluation.evaluate import check
from predictors.evaluation.evaluate import evaluate as evaluate_log
from predictors.evaluation.monitoring import last_two_of, monitored, refit_with, refuse_worse
from predictors.evaluation.results import Evaluation, Score
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo
from predictors.models.conformal import keep_quantiles, quantiles_of
from predictors.models.prediction import REQUESTED
from predictors.tracking import client as tracking
from predictors.tracking.client import load_model
from predictors.tracking.describe import LoadedModel
from predictors.tracking.uri import checked_alias, checked_name

SHARE: Final = 0.8
COLUMNS: Final = (
    "predictor", "error / last-two", "95 % interval", "MAE [s]", "median [s]", "too short", "fit [CPU s]", "µs/job",
)  # fmt: skip
_NOTE: Final = (
    "error / last-two: sum of squared errors over that of the mean of the user's last two ended jobs, less is better"
    "{}; too short: share of jobs that ran longer than predicted. --json has R², mean accuracy and more."
)


def evaluate(args: options.Evaluate) -> None:
    if args.prequential and args.train is not None:
        raise JobcastError(
            "--train is the share to learn from at first; --prequential learns from each job as it ends."
        )
    _check_kill(args.intervals, args.kill)
    names, share = names_of(args.predictors), None if args.prequential else SHARE if args.train is None else args.train
    check(names, share, args.protocol, args.budget)
    jobs, account = read(args.log, args.requests_from)
    unread = lacks_of_reading(jobs, account)
    n_predictors = len({"last-two", *names})
    with after_reading(account), progress(f"Evaluating predictors on {len(jobs):,} jobs", n_predictors) as done:
        found = evaluate_log(
            jobs, names, train=share, protocol=args.protocol, partition=args.partition, seed=args.seed,
            budget=args.budget, kill=args.kill, requests_from=args.requests_from, intervals=args.intervals, done=done,
        )  # fmt: skip
    account += found.account
    with working("Comparing the predictors"):
        recommended = found.recommendations(seed=args.seed)
    if args.as_json:
        advice = {"recommendations": [one.to_json() for one in recommended]}
        more = {"lacks": [lack.to_dict() for lack in (*unread, *found.lacks)], "account": account.to_dict()}
        print_json(found.to_json(args.details) | advice | more)
    else:
        print_lacks((*unread, *found.lacks))
        print_evaluation(found, args.details)
        for one in recommended:
            say(one.sentence)
        print_account(account, listed=args.list_account)


def print_evaluation(found: Evaluation, details: bool = False) -> None:
    """Print the scores as a table, and with `details` one more for each kind of slice."""
    partition = "" if found.partition is None else f", partition {found.partition}"
    learnt = "predicted at submission, learnt at the end" if not found.n_train else f"learnt from {found.n_train:,}"
    how = f"{counted(found.n_test, 'job')} predicted, {learnt}; {found.split}, protocol {found.protocol}"
    title = f"{found.log}{partition}: {how}"
    over = f", with its interval over {found.resampled.split()[-1]}" if found.resampled else ""
    print_table(title, COLUMNS, [row(score, found.no_interval) for score in found.scores], note=_NOTE.format(over))
    without = [f"{score.name} {score.n_fallback:,}" for score in found.scores if score.n_fallback]
    if found.n_overran:
        say(f"{counted(found.n_overran, 'job')} predicted here ran past the requested time; {_capped(found)}.")
    if without:
        say(f"Jobs answered by their request, since there was no estimate: {', '.join(without)}.")
    for line in interval_lines(found):
        say(line)
    if details:
        for by in ("run time", "user", "month"):
            print_table(f"Error / last-two, by {by}", *_slice_table(found, by))


def _capped(found: Evaluation) -> str:
    within = "no prediction lies beyond it; with --no-kill they may"
    return within if found.capped else "predictions may lie beyond it"


def interval_lines(found: Evaluation) -> list[str]:
    """Return one line a predictor on how its P10 to P90 held, where they were asked for."""
    return [
        f"P10 to P90 of {score.name} holds {percent(score.followed.covered, 1)} of the jobs (80 % are wanted); "
        f"P90 is typically {score.followed.typical_width:.1f} times P10."
        if isfinite(score.followed.covered)
        else f"{score.name} has no P10 to P90 here: too few jobs ended before others were submitted."
        for score in found.scores
        if score.followed is not None
    ]


def _check_kill(intervals: bool, kill: bool | None) -> None:
    """Raise if `--kill` is given and there are no quantiles that it could bound."""
    if kill and not intervals:
        raise JobcastError("--kill says where P90 ends; leave --no-intervals out, or --kill.")


def row(score: Score, none: str) -> tuple[Any, ...]:
    """Return a score as a row under `COLUMNS`; `none` says why it has no interval, if so."""
    one = score.figures
    return (
        score.name,
        one.sse_ratio_to_last_two,
        spread(score, none),
        one.mae_s,
        one.median_ae_s,
        one.underestimation_rate,
        score.fit_seconds,
        score.predict_us_per_job,
    )


def spread(score: Score, none: str) -> str:
    """Return the interval of a score's ratio to last-two, or `none`: why there is none."""
    low = score.interval[0]
    if score.name == "last-two":
        return "the measure"
    if low != low:
        return none
    ends = [f"{end:.3f}" if end < 1000 else cell(end) for end in score.interval]
    return " to ".join(ends) if ends[0] != ends[1] else "all alike"


def _slice_table(found: Evaluation, by: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    parts = [part for part in found.scores[0].slices if part.by == by]
    of = {(score.name, part.by, part.label): part.figures for score in found.scores for part in score.slices}
    columns = (by, "jobs", *(score.name for score in found.scores))
    rows = [
        (part.label, part.figures.n_test, *(of[s.name, by, part.label].sse_ratio_to_last_two for s in found.scores))
        for part in parts
    ]
    return columns, rows


SHOWN: Final = ("sse_ratio_to_last_two", "mae_s", "median_ae_s", "r2", "mean_accuracy", "underestimation_rate")
"""Figures of a training that are printed."""


def train(args: options.Train) -> None:
    require("mlflow")
    _check_kill(args.intervals, args.kill)
    check([args.predictor], args.share, "strict")
    checked_name(args.register)
    if args.alias is not None:
        checked_alias(args.alias)
    there: DriftThere | None = None
    if args.if_drift is not None:
        if args.alias != CHAMPION:
            raise JobcastError("--if-drift trains the next champion: give --alias champion, too.")
        there = drift_at(args.if_drift, args.token, args.register)
        if not there.drift.stands:
            if args.as_json:
                print_json({"trained": False, "drift": there.drift.to_json()})
            else:
                say(f"{there.sentence} Nothing was trained.")
            return
        typer.echo(there.sentence, err=True)
    begin, began = time.perf_counter(), time.time()
    with working(f"Reading {', '.join(map(str, args.logs))}"):
        jobs, account = read_logs(args.logs)
    unread = lacks_of_reading(jobs, account)
    with working("Opening the model store"):
        store = tracking.open_store()
    with after_reading(account), working(f"Evaluating {args.predictor} on {len(jobs):,} jobs"):
        evaluation = evaluate_log(
            jobs, [args.predictor], train=args.share, seed=args.seed, intervals=args.intervals, kill=args.kill or None
        )
        account += evaluation.account
        score = evaluation[args.predictor]
        if args.alias is not None and not args.even_if_worse and args.predictor != LastTwo.name:
            what = f"{args.predictor} on the last {percent(1 - args.share)} of {jobs.name} ({evaluation.n_test:,} jobs)"
            refuse_worse(what, score.figures.sse_ratio_to_last_two, args.alias)
        beside_champion = None
        if there is not None and not args.even_if_worse:
            beside_champion = check_beaten(evaluation, args.predictor, jobs, there)
    with working(f"Training {args.predictor} on {len(jobs):,} jobs"):
        model, until = fitted(jobs, args.predictor, args.seed)
        keep_quantiles(model, None if score.followed is None else score.followed.layer)
    n_learnt = learnt_until(jobs)[1]
    split = (
        f"{evaluation.split}, protocol {evaluation.protocol}: {evaluation.n_train} jobs learnt from, "
        f"{evaluation.n_test} predicted; then the model learnt from all {n_learnt} jobs that ran"
    )
    shown = figures_of(score, evaluation.n_train)
    with working("Writing the run and the model"), tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
        run = tracking.log_run(
            model, jobs, shown, split=split, seed=args.seed, trained_until=until, begin=began,
            files=files_of_run(evaluation, args.predictor, Path(scratch)),
            source=str(args.logs[0].absolute()) if len(args.logs) == 1 else None,
        )  # fmt: skip
        kept = tracking.register(run, args.register, args.alias if there is None else None)
        if there is not None:  # written down on the version, with the reason
            kept = tracking.promote(kept.uri, CHAMPION, there.sentence, even_if_worse=args.even_if_worse)
    lacks = (*unread, *evaluation.lacks)
    document = {
        "lacks": [lack.to_dict() for lack in lacks],
        "log": jobs.name,
        "predictor": args.predictor,
        "evaluation": {"split": evaluation.split, "protocol": evaluation.protocol, "n_train": evaluation.n_train}
        | score.to_json(),
        "model": about_model(kept, run) | {"n_jobs": n_learnt, "trained_until_s": until},
        "store": str(store),
        **({} if there is None else {"trained": True, "drift": there.drift.to_json()}),
        **({} if beside_champion is None else {"squared_error_ratio_to_champion": beside_champion}),
        "account": account.to_dict(),
        "seconds": time.perf_counter() - begin,
    }
    if args.as_json:
        print_json(document)
    else:
        print_lacks(lacks)
        _print_training(document)
        print_account(account, listed=args.list_account)


def predict(args: options.Predict) -> None:
    with working(f"Loading {args.model}"):
        loaded = load_model(args.model)
    jobs, account = read(args.log)
    with after_reading(account), whole_file(args.out) as part, working(f"Predicting {len(jobs):,} jobs"):
        seconds, who = predictions(loaded.predictor, jobs, args.warm)
        fallback = who == REQUESTED
        baseline = last_two_of(loaded.predictor, jobs, warm=args.warm)
        rule, layer = loaded.predictor.as_of, quantiles_of(loaded.predictor)
        found = monitored(jobs, seconds, baseline, as_of=rule, layer=layer)
        write_predictions(part, jobs, seconds, who, found.quantiles)
    unread = lacks_of_reading(jobs, account)
    account = account.using(len(jobs))
    lacks = lacks_for_predictions(jobs, ReadingReport(jobs.name), scored=False) if len(jobs) else ()
    lacks = (*unread, *lacks)
    document = {
        "lacks": [lack.to_dict() for lack in lacks],
        "model": loaded.about(),
        "log": jobs.name,
        "out": str(args.out),
        "n_jobs": len(jobs),
        "n_fallback": int(np.sum(fallback)),
        "history": history_used(loaded, args.warm),
        "names": names_known(loaded.predictor, jobs),
        "learnt_from_this_log": loaded.origin.log_sha256 == jobs.digest(),
        "beside_last_two": None if found.standing is None else found.standing.to_json(),
        "beside_last_two_newest": None if found.newest is None else found.newest.to_json(),
        "drift": found.drift.to_json(),
        "covered_share": found.covered,
        "account": account.to_dict(),
    }
    if args.as_json:
        print_json(document)
    else:
        print_lacks(lacks)
        _print_prediction(document)
        for line in found.sentences(args.model, jobs.epoch):
            say(line)
        if found.worse:
            say(refit_with(loaded.predictor.name, loaded.name, loaded.alias))
        print_account(account, listed=args.list_account)


def predictions(predictor: Predictor, log: JobLog, warm: bool) -> tuple[Floats, Any]:
    """Return predicted run times [s], and the source of each (`Prediction.answered_by`): both of shape (n_jobs,)."""
    rows = predictor.rows(log, warm=warm)
    return predictor.predict_rows(rows), predictor.answered_by(rows)


def names_known(predictor: Predictor, log: JobLog) -> dict[str, dict[str, int]]:
    """Return how many of a log's users, groups, … the model knows by name, and how many are new to it."""
    found = new_names(log, getattr(predictor, "codes_", {}))
    return {column: {"known": known, "new": new} for column, (known, new) in found.items()}


def write_predictions(path: Path, log: JobLog, seconds: Floats, who: Any, quantiles: Floats) -> None:
    """Write job_id, predicted_seconds, fallback (by the request), requested_time, answered_by, p10, p50, p90."""
    table = {
        "job_id": log.filled("job_id"),
        "predicted_seconds": seconds,
        "fallback": (who == REQUESTED).astype(int),
        "requested_time": log.to_frame()["requested_time"],
        "answered_by": who,
        **dict(zip(("p10", "p50", "p90"), quantiles.T, strict=True)),
    }
    pd.DataFrame(table).to_csv(path, index=False)


def history_used(model: LoadedModel, warm: bool) -> str:
    """Say what was known of the users before the log began."""
    if warm:
        return f"goes on from the model's own, of {model.origin.log}"
    carries = hasattr(model.predictor, "history_")
    return "starts cold" + ("; --warm goes on from the model's own, if this log comes later" if carries else "")


def _print_training(document: dict[str, Any]) -> None:
    found, model = document["evaluation"], document["model"]
    title = (
        f"{document['predictor']} on {document['log']}: {counted(found['n_test'], 'job')} predicted, {found['split']}"
    )
    print_table(title, ("", "value", "unit"), titled(found, SHOWN))
    if "covered_share" in found and found["covered_share"] != found["covered_share"]:
        say("There are no P10 to P90 yet: too few jobs ended before others were submitted.")
    elif "covered_share" in found:
        say(f"P10 to P90 held {percent(found['covered_share'], 1)} of these jobs (80 % are wanted).")
    say(f"The model then learnt from all {counted(model['n_jobs'], 'job')} that ran, to the end of the log.")
    say(f"Kept as {model['uri']}, version {model['version']}; run {model['run_id']} in {document['store']}")


def _print_prediction(document: dict[str, Any]) -> None:
    model = document["model"]
    say(
        f"{document['out']}: {counted(document['n_jobs'], 'job')} predicted by {model['predictor']} ({model['uri']}), "
        f"{document['n_fallback']:,} by their request since nothing was known; history {document['history']}."
    )
    if users := document["names"].get("user"):
        say(f"Of its {counted(sum(users.values()), 'user')} the model knows {users['known']:,} by name.")
    if document["learnt_from_this_log"]:
        say("The model learnt from this very log: these predictions say nothing about how good it is.")
