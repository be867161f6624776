"""`jobcast replay`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from experiments.cli.options import service as options
from experiments.cli.reading import read
from experiments.console import after_reading, print_account, print_json, print_lacks, say, working
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.joblog import JobLog
from predictors.data.summary import lacks_for_predictions, lacks_of_reading
from predictors.evaluation.drift import Drift
from predictors.evaluation.evaluate import evaluate, jobs_that_count
from predictors.registry import make_predictor
from predictors.service.client import Client, ServiceError
from predictors.service.replay_check import drive
from predictors.tracking.client import load_model


def replay(args: options.Replay) -> None:
    if args.check is not None:
        _refuse_unknown(args.check)
    with Client(args.url, args.token, timeout=10.0, retries=0) as client:
        try:
            client.ask("GET", "/healthz")
        except ServiceError as error:
            raise JobcastError(f"{error}: no service is there; start it with `jobcast serve`, or give --url.") from None
    jobs, account = read(args.log)
    ran, left_out = jobs_that_count(jobs)
    with after_reading(account):
        if not len(ran):
            raise JobcastError(f"{jobs.name}: no job has a run time above 0, so there is nothing to replay.")
    lacks = (*lacks_of_reading(jobs, account), *lacks_for_predictions(ran, left_out))
    account = (account + left_out).using(len(ran))
    begin = time.perf_counter()
    with Client(args.url, args.token, timeout=300.0, retries=1000) as client, working(f"Replaying {len(ran):,} jobs"):
        warm = client.models()["began"] is not None
        found = drive(client, ran, args.batch)
        models = client.models()
    beside, drift = ({one["role"]: one[key] for one in models["models"]} for key in ("beside_last_two", "drift"))
    seconds = time.perf_counter() - begin
    document: dict[str, Any] = {
        "lacks": [lack.to_dict() for lack in lacks],
        "log": ran.name,
        "n_jobs": len(ran),
        "n_events": found.last - found.first + 1,
        "seconds": seconds,
        "jobs_per_second": len(ran) / seconds,
        "answered_by": {who: found.answered_by.count(who) for who in sorted(set(found.answered_by))},
        "beside_last_two": beside,
        "drift": drift,
    }
    if args.check is not None:
        with working(f"Evaluating {args.check} on {len(ran):,} jobs"):
            document["check"] = _compared(ran, args.check, warm, found.seconds)
    if args.out is not None:
        _write(args.out, ran, found.seconds, found.answered_by)
    if args.as_json:
        print_json(document | {"account": account.to_dict()})
        return
    print_lacks(lacks)
    say(
        f"{ran.name}: {len(ran):,} jobs, {document['n_events']:,} events in {seconds:.1f} s "
        f"({document['jobs_per_second']:,.0f} jobs/s)."
    )
    for line in _beside_lines(beside):
        say(line)
    for role, one in drift.items():
        if one["stands"]:
            say(Drift.from_json(one).sentence(f"The {role}", 0 if models["clock"] == "unix" else None))
    if args.check is not None:
        same = document["check"]
        say(
            f"{same['equal']:,} of {same['n_jobs']:,} predictions equal those of {same['with']}, {args.check}, to the "
            f"last bit; greatest difference {same['greatest_difference_s']:g} s."
        )
    print_account(account, listed=args.list_account)
    if args.check is not None and document["check"]["equal"] < len(ran):
        raise typer.Exit(1)


def _refuse_unknown(name: str) -> None:
    if "/" in name:
        load_model(name)
    else:
        make_predictor(name)


def _compared(jobs: JobLog, name: str, warm: bool, seconds: Any) -> dict[str, Any]:
    if "/" in name:
        there, how = load_model(name).predictor.predict(jobs, warm=warm), f"`predict{' --warm' * warm}`"
    else:
        there, how = evaluate(jobs, [name], train=None)[name].predicted, "`evaluate --prequential`"
    return {
        "predictor": name,
        "with": how,
        "n_jobs": len(jobs),
        "equal": int((there == seconds).sum()),
        "greatest_difference_s": float(np.nanmax(np.abs(there - seconds), initial=0.0)),
    }


def _beside_lines(beside: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return how each role's model compares with last-two, and what to do where it is worse."""
    found = []
    for role, one in beside.items():
        if one is not None:
            ratios = (one[f"{name}_error_ratio_to_last_two"] for name in ("squared", "absolute"))
            told = (*ratios, *one["squared_error_ratio_interval"])
            squared, absolute, low, high = ("no number" if value is None else f"{value:.2f}" for value in told)
            found.append(
                f"The {role} compared with last-two on the newest {one['n_jobs']:,} ended jobs: squared error x "
                f"{squared} ({low} to {high}), absolute error x {absolute}."
                + (f" It is worse than last-two. {one['advice']}" if one["worse_than_last_two"] else "")
            )
    return found


def _write(out: Path, jobs: JobLog, seconds: Any, answered_by: tuple[str, ...]) -> None:
    with whole_file(out) as part:
        columns = {"job_id": jobs.filled("job_id"), "predicted_seconds": seconds, "answered_by": answered_by}
        pd.DataFrame(columns).to_csv(part, index=False)
