"""`jobcast variability predict`: whether now is a bad moment for a job, asked of a kept model and telemetry files."""

import math
import time
from pathlib import Path
from typing import Annotated, Any

import typer

Telemetry = Annotated[
    Path, typer.Option(help="Folder that LDMS's CSV store writes to, or one file of it.", metavar="DIR")
]
Mapping = Annotated[
    Path | None, typer.Option(help="Mapping file for telemetry of another schema than LDMS's.", metavar="FILE")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def predict(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a folder.", metavar="MODEL")
    ],
    telemetry: Telemetry,
    job: Annotated[str, typer.Option(help="The application that is to be started.", metavar="APPLICATION")],
    nodes: Annotated[str, typer.Option(help="Nodes that it would get, such as '0-7 12'.")] = "",
    workload: Annotated[str, typer.Option(help="What it hangs on: compute, network or io.")] = "",
    now: Annotated[
        str, typer.Option(help="When it would start: clock, newest (just after the last sample) or seconds.")
    ] = "clock",
    probes: Annotated[str, typer.Option(help="Last known waits of the nine probes [s], separated by commas.")] = "",
    mapping: Mapping = None,
    as_json: Json = False,
) -> None:
    """Say whether a job would vary if it started now: what a scheduler asks before a start.

    The answer is a class, the probability of variation, or an abstention (class 0) and its reason.
    """
    from experiments.output import print_account, print_json, working
    from predictors.data.errors import JobcastError
    from predictors.data.runs import compact, expand
    from predictors.tracking import load_classifier
    from predictors.variability.ask import Question, ask
    from predictors.variability.windows import file_windows

    try:
        wanted = expand(nodes)
    except ValueError as error:
        raise JobcastError(f"--nodes {nodes!r}: {error}; write ids and ranges such as '0-7 12'.") from error
    waits = _waits(probes)
    with working(f"Loading {model}"):
        loaded = load_classifier(model)
    of_job = loaded.origin.scope == "job"
    if of_job and not wanted:
        raise JobcastError("This model looks at the job's nodes: say which it would get, --nodes '0-7 12'.")
    instant = _instant(now, telemetry, mapping)
    with working(f"Reading {telemetry}"):
        own = [wanted] if of_job else None
        seen, account = file_windows(telemetry, [instant], own, loaded.origin.window, mapping=mapping)
    silent = int(seen.silent[0])
    question = Question(seen.values[0], workload, job, waits, silent / len(wanted) if of_job else 0.0)
    said = ask(loaded.classifier, question, "" if loaded.version is None else str(loaded.version))
    document = {
        "model": loaded.about(),
        "job": {"application": job, "nodes": compact(wanted), "n_nodes": len(wanted), "workload": workload or None},
        "now": instant,
        "window_s": loaded.origin.window,
        "n_samples": int(seen.counts[0].max()),
        "silent_nodes": silent,
        "class": said.class_,
        "label": said.label,
        "probability": said.probability,
        "abstained": said.abstained,
        "why": said.why or None,
        "reason": said.reason or None,
        "inputs_filled": said.filled,
        "account": account.to_dict(),
    }
    if as_json:
        print_json(document)
        return
    by = f"{said.model} ({model}{f', version {said.version}' if said.version else ''})"
    if said.abstained:
        typer.echo(f"{job}: class {said.class_}, abstained: {said.reason}; {by}.")
    else:
        typer.echo(
            f"{job}: {said.label}, probability of variation {said.probability:.2f}; {by}, {said.filled} inputs filled."
        )
    if account.dropped or account.changed:
        print_account(account)


def _waits(text: str) -> Any:
    import numpy as np

    from predictors.data.errors import JobcastError
    from predictors.data.runs import PROBES

    if not text.strip():
        return None
    try:
        waits = np.array([float(part) for part in text.split(",")])
        if waits.shape != (len(PROBES),) or not (np.isnan(waits) | ((waits >= 0) & (waits < np.inf))).all():
            raise ValueError
    except ValueError as error:
        raise JobcastError(
            f"--probes {text!r}: give nine waits in seconds, separated by commas, nan where unknown: "
            f"{', '.join(PROBES)}."
        ) from error
    return waits


def _instant(now: str, telemetry: Path, mapping: Path | None) -> float:
    """Return the second that is meant [s, in the telemetry's clock]."""
    from predictors.data.errors import JobcastError
    from predictors.data.telemetry_files import Scan

    if now == "clock":
        return time.time()
    if now == "newest":
        last = max((float(part.time[-1]) for part in Scan(telemetry, mapping) if len(part)), default=math.nan)
        if math.isnan(last):
            raise JobcastError(f"{telemetry}: gives no rate at all, so nothing is the newest; give --now in seconds.")
        return math.nextafter(last, math.inf)
    try:
        instant = float(now)
    except ValueError:
        instant = math.nan
    if not math.isfinite(instant):
        raise JobcastError(f"--now {now!r}: give clock, newest or a number of seconds in the telemetry's clock.")
    return instant
