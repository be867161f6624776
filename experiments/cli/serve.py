"""`jobcast serve`, `replay`, `promote` and `token`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.options import Json, Log

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from predictors.service.state.start_times import StartTimes
    from predictors.service.state.variability import VariabilityState


Model = Annotated[
    str,
    typer.Argument(
        help="models:/NAME@champion (followed when it moves), models:/NAME/VERSION, runs:/RUN_ID, a folder; or a "
        "predictor's name, to begin untrained.",
        metavar="MODEL",
    ),
]
Url = Annotated[str, typer.Option("--url", help="The service's address.")]
TokenOption = Annotated[str | None, typer.Option("--token", help="Bearer token.", envvar="JOBCAST_TOKEN")]

DATABASE = "sqlite:///jobcast-service.db"


def serve(
    model: Model,
    db: Annotated[str, typer.Option(help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.")] = DATABASE,
    host: Annotated[str, typer.Option(help="Address to listen on; without tokens, this machine's own.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8571,
    token_file: Annotated[Path | None, typer.Option(help="Hashes of bearer tokens, see `jobcast token`.")] = None,
    challenger: Annotated[
        str | None, typer.Option(help="A second MODEL, whose predictions are kept to be compared, never given.")
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(help="A classifier of variability, models:/NAME@ALIAS or a folder, for starts.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Begin with the history that MODEL was saved with; the database is new.")
    ] = False,
    learn: Annotated[bool, typer.Option(help="Whether models learn from the jobs that end.")] = True,
    clock: Annotated[str, typer.Option(help="unix, or log: times count from an unknown moment.")] = "unix",
    time_zone: Annotated[str | None, typer.Option(help="IANA name of the machine's time zone; default UTC.")] = None,
    as_of: Annotated[str, typer.Option(help="What counts as ended at a submission: strict or reis.")] = "strict",
    poll: Annotated[float, typer.Option(min=0, help="Seconds between looks at the registry; 0: only when told.")] = 30,
    machine_procs: Annotated[
        int | None, typer.Option(min=1, help="Processors of the machine; starts of waiting jobs are forecast, too.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The machine's scheduling policy, for forecasts of starts; easy if absent.")
    ] = None,
    name_key: Annotated[Path | None, typer.Option(help="File with a secret key for the hashes of names.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Requests a second of one client, in the long run; 0: any.")] = 0,
    most_bytes: Annotated[int, typer.Option(min=1024, help="Largest body of a request.")] = 16 * 2**20,
    tls_certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
) -> None:
    """Serve run-time predictions: job events in, predictions out; nothing acknowledged is ever lost."""
    import os

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries would take turns with answers
    from experiments.console import working
    from predictors.core.errors import JobcastError
    from predictors.service.api.auth import Limits, read_tokens
    from predictors.service.api.server import Listening
    from predictors.service.pseudonyms import Pseudonymiser

    listening = Listening(
        host=host,
        port=port,
        tokens=() if token_file is None else read_tokens(token_file),
        limits=Limits(body_bytes=most_bytes, rate=rate),
        certificate=tls_certificate,
        key=tls_key,
    )
    key = Pseudonymiser() if name_key is None else Pseudonymiser.read(name_key)
    if policy is not None and machine_procs is None:
        raise JobcastError("--policy is for forecasts of starts, which need the machine's size: --machine-procs N.")
    starts = None if machine_procs is None else _starts(policy or "easy", machine_procs)
    from predictors.service.api.app import Api
    from predictors.service.api.server import serve as listen
    from predictors.service.settings import Settings
    from predictors.service.state.service import Service

    settings = Settings(
        model=model,
        db=db,
        warm=warm,
        challenger=challenger,
        learn=learn,
        clock=clock,
        time_zone=time_zone,
        as_of=as_of,
        poll=poll,
        machine_procs=machine_procs,
    )
    with working(f"Loading {model}"):
        variability_state = None if classifier is None else _variability_state(classifier)
        service = Service(settings, key=key)
    listen(Api(service, key, starts, variability_state), listening)


def replay(
    log: Log,
    url: Url = "http://127.0.0.1:8571",
    token: TokenOption = None,
    batch: Annotated[
        int, typer.Option(min=1, max=10_000, help="1: ask before every submission. More: events at a time; ask after.")
    ] = 1,
    check: Annotated[
        str | None,
        typer.Option(
            help="A predictor's name: compare with `evaluate --prequential`, job for job. A MODEL: with `predict`, "
            "warm if the service began so."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write, one line a job.", writable=True)] = None,
    as_json: Json = False,
) -> None:
    """Drive a log through a service as fast as it can, asking for each job's prediction as of its submission.

    Jobs of which the log knows no run time above 0 are left out, as by `evaluate`. The database must be empty.
    """
    import time

    from experiments.console import print_account, print_json, working
    from predictors.data.formats.detect import read_log
    from predictors.service.client import Client
    from predictors.service.replay_check import drive

    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    ran = jobs.select(jobs.known("run_time") & (jobs.filled("run_time") > 0))
    begin = time.perf_counter()
    with Client(url, token, timeout=60.0, retries=8) as client, working(f"Replaying {len(ran):,} jobs"):
        warm = client.models()["began"] is not None
        found = drive(client, ran, batch)
    seconds = time.perf_counter() - begin
    document: dict[str, Any] = {
        "log": ran.name,
        "n_jobs": len(ran),
        "n_events": found.last - found.first + 1,
        "seconds": seconds,
        "jobs_per_second": len(ran) / seconds,
        "answered_by": {who: found.answered_by.count(who) for who in sorted(set(found.answered_by))},
    }
    if check is not None:
        with working(f"Evaluating {check} on {len(ran):,} jobs"):
            document["check"] = _compared(ran, check, warm, found.seconds)
    if out is not None:
        _write(out, ran, found.seconds, found.answered_by)
    if as_json:
        print_json(document | {"account": account.to_dict()})
        return
    typer.echo(
        f"{ran.name}: {len(ran):,} jobs, {document['n_events']:,} events in {seconds:.1f} s "
        f"({document['jobs_per_second']:,.0f} jobs/s)."
    )
    if check is not None:
        same = document["check"]
        typer.echo(
            f"{same['equal']:,} of {same['n_jobs']:,} predictions equal those of {same['with']}, {check}, to the last "
            f"bit; greatest difference {same['greatest_difference_s']:g} s."
        )
    print_account(account)
    if check is not None and document["check"]["equal"] < len(ran):
        raise typer.Exit(1)


def promote(
    model: Annotated[str, typer.Argument(help="models:/NAME/VERSION or models:/NAME@ALIAS.", metavar="MODEL")],
    why: Annotated[str, typer.Option(help="Why; kept with the version, beside the time and the user.")],
    alias: Annotated[str, typer.Option(help="champion, challenger or shadow.")] = "champion",
    as_json: Json = False,
) -> None:
    """Give a registered version an alias, and write down when and why; services that follow the alias take it up."""
    import getpass

    from experiments.console import print_json, working
    from predictors.tracking.client import promote as give

    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = "unknown"
    with working(f"Promoting {model}"):
        found = give(model, alias, f"{why} ({who})")
    if as_json:
        print_json({"name": found.name, "version": found.version, "alias": found.alias, "why": why, "by": who})
    else:
        typer.echo(f"{found.uri} is now version {found.version}: {why} ({who})")


def token(
    name: Annotated[str, typer.Argument(help="Whose it is, such as slurmctld; letters, digits and . _ -.")],
    file: Annotated[Path, typer.Option(help="File of tokens; the new one's hash is added.")],
    role: Annotated[str, typer.Option(help="read: asks; write: also sends events and reloads models.")] = "read",
) -> None:
    """Make a bearer token: it is printed once, and only its hash is kept."""
    from predictors.service.api.auth import add_token

    typer.echo(add_token(file, role, name))


def _starts(policy: str, procs: int) -> "StartTimes":
    from experiments.runs.live_starts import LiveStarts

    return LiveStarts(policy, procs)


def _variability_state(uri: str) -> "VariabilityState":
    from predictors.service.state.variability import VariabilityState
    from predictors.tracking.client import load_classifier

    return VariabilityState(load_classifier(uri))


def _compared(jobs: "JobLog", name: str, warm: bool, seconds: Any) -> dict[str, Any]:
    import numpy as np

    from predictors.evaluation.evaluate import evaluate
    from predictors.tracking.client import load_model

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


def _write(out: Path, jobs: "JobLog", seconds: Any, answered_by: tuple[str, ...]) -> None:
    import pandas as pd

    from predictors.core.files import whole_file

    with whole_file(out) as part:
        columns = {"job_id": jobs.filled("job_id"), "predicted_seconds": seconds, "answered_by": answered_by}
        pd.DataFrame(columns).to_csv(part, index=False)
