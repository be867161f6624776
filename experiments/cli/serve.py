"""`jobcast serve`, `replay`, `promote`, `ui`, `token`, `forget` and `correct`."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import EvenIfWorse, Json, ListAccount, Log
from experiments.console import say
from predictors.core.errors import JobcastError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from predictors.data.joblog import JobLog


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
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, what: str) -> int:
    """Return a length of time such as 90d, 12h or 3600 in seconds.

    Examples
    --------
    >>> seconds_of("30d", "--older-than"), seconds_of("3600", "--older-than")
    (2592000, 3600)
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if found is None:
        raise JobcastError(f"{what} is a length of time such as 30d, 12h or 3600 (seconds); got {text!r}.")
    return int(found[1]) * _UNITS[found[2] or "s"]


def serve(
    context: typer.Context,
    model: Model,
    db: Annotated[
        str, typer.Option(help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.", envvar="JOBCAST_DB")
    ] = DATABASE,
    host: Annotated[str, typer.Option(help="Address to listen on; without tokens, this machine's own.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8571,
    token_file: Annotated[Path | None, typer.Option(help="Hashes of bearer tokens, see `jobcast token`.")] = None,
    challenger: Annotated[
        str | None, typer.Option(help="A second MODEL; its predictions are kept to be compared, never given.")
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
    readers: Annotated[
        int | None, typer.Option(help="Ignored: one process answers all questions.", hidden=True)
    ] = None,
    model_copies: Annotated[
        Path | None,
        typer.Option(
            help="Folder of copies of the models in use, for starts while the registry is gone. Default: next to "
            "SQLite's file."
        ),
    ] = None,
    poll: Annotated[float, typer.Option(min=0, help="Seconds between looks at the registry; 0: only on request.")] = 30,
    machine_procs: Annotated[
        int | None, typer.Option(min=1, help="Processors of the machine; starts of waiting jobs are forecast, too.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The machine's scheduling policy, for forecasts of starts; easy if absent.")
    ] = None,
    kill: Annotated[
        bool | None,
        typer.Option(
            "--kill/--no-kill",
            help="Whether the site ends jobs at their request: P90 stays within it. Default: as MODEL was trained.",
        ),
    ] = None,
    drift_alarms: Annotated[
        float, typer.Option(help="False alarms a year, at most, that a model is worse than last-two; to 12.")
    ] = 0.05,
    name_key: Annotated[Path | None, typer.Option(help="File with a secret key for the hashes of names.")] = None,
    forget_after: Annotated[
        str | None,
        typer.Option(help="Drop live jobs that had no events for so long, such as 30d.", metavar="TIME"),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(min=0, help="Requests a second of one client, ten seconds' worth at once; 0: any."),
    ] = 0,
    most_bytes: Annotated[int, typer.Option(min=1024, help="Largest body: telemetry; others end at 4 MiB.")] = 16
    * 2**20,
    tls_certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    log_format: Annotated[str, typer.Option(help="Lines of the log on standard error: text or json.")] = "text",
    log_level: Annotated[str, typer.Option(help="Least level: debug, info, warning or error.")] = "info",
    audit_log: Annotated[
        Path | None, typer.Option(help="File to append who sent events, reloaded models, was refused; JSON lines.")
    ] = None,
) -> None:
    """Serve run-time predictions: job events in, predictions out; nothing acknowledged is ever lost."""
    import logging
    import os

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries would take turns with answers
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")  # a registry that hangs must not keep the service
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    from experiments.console import working
    from predictors.service.api.auth import Limits, read_tokens
    from predictors.service.api.lifecycle import EarlyHangUps, Listening
    from predictors.service.operation.logs import set_up_logs
    from predictors.service.pseudonyms import Pseudonymiser

    early = EarlyHangUps()
    context.call_on_close(set_up_logs(log_format, log_level))
    listening = Listening(
        host=host,
        port=port,
        tokens=() if token_file is None else read_tokens(token_file),
        limits=Limits(body_bytes=most_bytes, rate=rate),
        certificate=tls_certificate,
        key=tls_key,
        token_file=token_file,
        audit_log=audit_log,
        early=early,
    )
    key = Pseudonymiser() if name_key is None else Pseudonymiser.read(name_key)
    if policy is not None and machine_procs is None:
        raise JobcastError("--policy is for forecasts of starts, which need the machine's size: --machine-procs N.")
    starts = None
    if machine_procs is not None:
        from experiments.runs.live_starts import LiveStarts

        starts = LiveStarts(policy or "easy", machine_procs)
    from predictors.service.api.app import Api
    from predictors.service.api.server import serve as listen
    from predictors.service.settings import Settings
    from predictors.service.state.model import load
    from predictors.service.state.model_copies import ModelCopies, folder_beside
    from predictors.service.state.service import Service
    from predictors.service.state.variability import VariabilityState
    from predictors.tracking.client import load_classifier

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
        kills=kill,
        drift_alarms=drift_alarms,
        forget_after=None if forget_after is None else seconds_of(forget_after, "--forget-after"),
    )
    copies = model_copies or folder_beside(db)
    loader = load if copies is None else ModelCopies(copies).load
    with working(f"Loading {model}"):
        variability_state = None if classifier is None else VariabilityState(load_classifier(classifier))
        service = Service(settings, loader=loader, key=key)
    if name_key is None:
        logging.getLogger("jobcast.service").warning(
            "names are hashed without a key: whoever has the database can try likely names; give --name-key"
        )
    if readers is not None:
        logging.getLogger("jobcast.service").warning(
            "--readers is ignored: there are no readers any more, one process answers thousands of questions a second; "
            "remove the option, the next version refuses it"
        )
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
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Drive a log through a service as fast as it can, asking for each job's prediction as of its submission.

    Jobs of which the log knows no run time above 0 are left out, as by `evaluate`. The database must be empty.
    """
    import time

    from experiments.console import after_reading, print_account, print_json, print_lacks, working
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import lacks_for_predictions, lacks_of_reading
    from predictors.evaluation.drift import Drift
    from predictors.evaluation.evaluate import jobs_that_count
    from predictors.service.client import Client, ServiceError
    from predictors.service.replay_check import drive

    if check is not None:
        _refuse_unknown(check)
    with Client(url, token, timeout=10.0, retries=0) as client:
        try:
            client.ask("GET", "/healthz")
        except ServiceError as error:
            raise JobcastError(f"{error}: no service is there; start it with `jobcast serve`, or give --url.") from None
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    ran, left_out = jobs_that_count(jobs)
    with after_reading(account):
        if not len(ran):
            raise JobcastError(f"{jobs.name}: no job has a run time above 0, so there is nothing to replay.")
    lacks = (*lacks_of_reading(jobs, account), *lacks_for_predictions(ran, left_out))
    account = (account + left_out).using(len(ran))
    begin = time.perf_counter()
    with Client(url, token, timeout=300.0, retries=1000) as client, working(f"Replaying {len(ran):,} jobs"):
        warm = client.models()["began"] is not None
        found = drive(client, ran, batch)
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
    if check is not None:
        with working(f"Evaluating {check} on {len(ran):,} jobs"):
            document["check"] = _compared(ran, check, warm, found.seconds)
    if out is not None:
        _write(out, ran, found.seconds, found.answered_by)
    if as_json:
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
    if check is not None:
        same = document["check"]
        say(
            f"{same['equal']:,} of {same['n_jobs']:,} predictions equal those of {same['with']}, {check}, to the last "
            f"bit; greatest difference {same['greatest_difference_s']:g} s."
        )
    print_account(account, listed=list_account)
    if check is not None and document["check"]["equal"] < len(ran):
        raise typer.Exit(1)


def promote(
    model: Annotated[str, typer.Argument(help="models:/NAME/VERSION or models:/NAME@ALIAS.", metavar="MODEL")],
    why: Annotated[str, typer.Option(help="Why; kept with the version, the time and the user.")],
    alias: Annotated[str, typer.Option(help="champion, challenger or shadow.")] = "champion",
    even_if_worse: EvenIfWorse = False,
    as_json: Json = False,
) -> None:
    """Give a registered version an alias, and write down when and why; services that follow the alias take it up.

    A predictor with a squared error not below that of last-two in training is refused, unless --even-if-worse says so.
    """
    import getpass

    from experiments.console import print_json, working
    from predictors.tracking.client import promote as give

    if not why.strip():
        raise JobcastError("--why is empty; say in a few words why this version gets the alias.")
    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = "unknown"
    with working(f"Promoting {model}"):
        found = give(model, alias, f"{why} ({who})", even_if_worse=even_if_worse)
    if as_json:
        print_json({"name": found.name, "version": found.version, "alias": found.alias, "why": why, "by": who})
    else:
        say(f"{found.uri} is now version {found.version}: {why} ({who})")


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 5000,
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine's own.")] = "127.0.0.1",
) -> None:
    """Open MLflow's pages on the runs and models that are kept here; Ctrl-C ends them.

    The store is that of MLFLOW_TRACKING_URI, else mlruns in JOBCAST_HOME, else mlruns in the current folder.
    """
    import sys

    from predictors.tracking.store import Store, serve_pages

    def ready(address: str) -> None:
        say(f"{store}: open {address} in a browser; Ctrl-C ends it.")
        sys.stdout.flush()

    store = Store.current()
    typer.echo(f"Starting MLflow's pages on {store}.", err=True)  # it takes a while
    serve_pages(store, host, port, ready)
    say("Ended.")


def token(
    name: Annotated[str, typer.Argument(help="Name of the client, such as slurmctld; letters, digits and . _ -.")],
    file: Annotated[Path, typer.Option(help="File of tokens; the new one's hash is added.")],
    role: Annotated[str, typer.Option(help="read: asks; write: also sends events and reloads models.")] = "read",
) -> None:
    """Make a bearer token: it is printed once, and only its hash is kept."""
    from predictors.service.api.auth import add_token

    say(add_token(file, role, name))


def forget(
    older_than: Annotated[str, typer.Option(help="Give up jobs after so long a silence, such as 30d.", metavar="TIME")],
    url: Url = "http://127.0.0.1:8571",
    token: TokenOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    as_json: Json = False,
) -> None:
    """Make a service drop live jobs with lost ends: nothing is learnt from them.

    Silence counts from a waiting job's submission, and from a running job's requested end.
    """
    from experiments.console import print_json
    from predictors.service.client import Client

    seconds = seconds_of(older_than, "--older-than")
    with Client(url, token, timeout=120.0) as client:
        found = client.forget(seconds, dry_run=dry_run)
    if as_json:
        print_json(found)
    else:
        done = "were given up" if found["forgotten"] else "would be given up"
        say(f"{found['jobs']:,} of {found['live']:,} live jobs {done}: nothing was heard of them for {older_than}.")


def correct(
    why: Annotated[str, typer.Option(help="Why; kept in the database with the time.")],
    db: Annotated[str, typer.Option(help="Database of a stopped service.", envvar="JOBCAST_DB")] = DATABASE,
    withdraw: Annotated[
        list[int] | None, typer.Option(help="Number of an event that was wrong; may be repeated.", min=1, metavar="N")
    ] = None,
    erase_user: Annotated[
        str | None, typer.Option(help="User to erase from the events; digits are a number and a name.")
    ] = None,
    let_go_before: Annotated[
        str | None, typer.Option(help="Delete events of jobs that were over before a date, such as 2024-12-31.")
    ] = None,
    name_key: Annotated[Path | None, typer.Option(help="The service's key for the hashes of names.")] = None,
    as_json: Json = False,
) -> None:
    """Withdraw wrong events, erase a user, or let old events go, in the database of a stopped service.

    The next start learns again from the events that are left; of events that were let go, the state stays. Send the
    right event after the start. Copies and backups of the database hold what was removed.
    """
    from experiments.console import print_json
    from predictors.service.pseudonyms import Pseudonymiser
    from predictors.service.state import corrections
    from predictors.service.storage.database import StorageError, is_new_file, shown
    from predictors.service.storage.store import Store

    if sum(one is not None for one in (withdraw, erase_user, let_go_before)) != 1:
        raise JobcastError("A correction is one of --withdraw N, --erase-user NAME and --let-go-before DATE.")
    if not why.strip():
        raise JobcastError("--why is empty; say in a few words why this is corrected.")
    before = None if let_go_before is None else _second_of(let_go_before)
    key = Pseudonymiser() if name_key is None else Pseudonymiser.read(name_key)
    if is_new_file(db):
        raise JobcastError(f"{shown(db)}: is not there; give the --db of the service.")
    store = Store(db)
    live = 0
    try:
        if withdraw is not None:
            events, done = len(corrections.withdraw(store, sorted(set(withdraw)), why)), "withdrawn"
        elif erase_user is not None:
            (events, live), done = corrections.erase_user(store, key, erase_user, why), "made anonymous"
        else:
            assert before is not None
            events, done = corrections.let_go(store, before, why), "let go"
    except StorageError as error:
        raise JobcastError(f"{shown(db)}: cannot be read or written now ({error}); nothing was changed.") from error
    finally:
        store.close()
    if as_json:
        print_json({"events": events, "live_jobs": live, "done": done})
        return
    say(
        f"{events:,} events were {done}." + (f" {live:,} jobs are not over: erase again when they are." if live else "")
    )


def _refuse_unknown(name: str) -> None:
    """Raise JobcastError if there is no such predictor or model."""
    from predictors.registry import make_predictor
    from predictors.tracking.client import load_model

    if "/" in name:
        load_model(name)
    else:
        make_predictor(name)


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


def _beside_lines(beside: "Mapping[str, Mapping[str, Any] | None]") -> list[str]:
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


def _write(out: Path, jobs: "JobLog", seconds: Any, answered_by: tuple[str, ...]) -> None:
    import pandas as pd

    from predictors.core.files import whole_file

    with whole_file(out) as part:
        columns = {"job_id": jobs.filled("job_id"), "predicted_seconds": seconds, "answered_by": answered_by}
        pd.DataFrame(columns).to_csv(part, index=False)


def _second_of(date: str) -> int:
    """Return the first second of a date (UTC, if it tells no other offset), or a number of seconds itself.

    Eight digits are a date without its dashes.

    Examples
    --------
    >>> _second_of("1970-01-02"), _second_of("1970-01-02T00:00+02:00"), _second_of("86400")
    (86400, 79200, 86400)
    >>> _second_of("19700102")
    86400
    """
    if date.isascii() and date.isdigit() and len(date) < 13 and len(date) != 8:
        return int(date)
    try:
        found = datetime.fromisoformat(date)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except ValueError:
        raise JobcastError(f"--let-go-before is a date such as 2024-12-31, or a second; got {date!r}.") from None
