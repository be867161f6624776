"""Options of the commands for the service and its models."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from experiments.cli.options import shared


class Serve(shared.Options):
    """Serve run-time predictions: job events in, predictions out; nothing acknowledged is ever lost."""

    context: Context
    model: Annotated[
        str,
        Argument(
            help="models:/NAME@champion (followed when it moves), models:/NAME/VERSION, runs:/RUN_ID, a folder; or a "
            "predictor's name, to begin untrained.",
            metavar="MODEL",
        ),
    ]
    db: Annotated[str, Option(help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.", envvar="JOBCAST_DB")] = (
        shared.DATABASE
    )
    host: Annotated[str, Option(help="Address to listen on; without tokens, this machine's own.")] = "127.0.0.1"
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8571
    token_file: Annotated[Path | None, Option(help="Hashes of bearer tokens, see `jobcast token`.")] = None
    challenger: Annotated[
        str | None, Option(help="A second MODEL; its predictions are kept to be compared, never given.")
    ] = None
    classifier: Annotated[
        str | None, Option(help="A classifier of variability, models:/NAME@ALIAS or a folder, for starts.")
    ] = None
    warm: Annotated[
        bool, Option("--warm", help="Begin with the history that MODEL was saved with; the database is new.")
    ] = False
    learn: Annotated[bool, Option(help="Whether models learn from the jobs that end.")] = True
    clock: Annotated[str, Option(help="unix, or log: times count from an unknown moment.")] = "unix"
    time_zone: Annotated[str | None, Option(help="IANA name of the machine's time zone; default UTC.")] = None
    as_of: Annotated[str, Option(help="What counts as ended at a submission: strict or reis.")] = "strict"
    model_copies: Annotated[
        Path | None,
        Option(
            help="Folder of copies of the models in use, for starts while the registry is gone. Default: next to "
            "SQLite's file."
        ),
    ] = None
    poll: Annotated[float, Option(min=0, help="Seconds between looks at the registry; 0: only on request.")] = 30
    machine_procs: Annotated[
        int | None, Option(min=1, help="Processors of the machine; starts of waiting jobs are forecast, too.")
    ] = None
    policy: Annotated[
        str | None,
        Option(
            autocompletion=shared.POLICIES,
            help="The machine's scheduling policy, for forecasts of starts; easy if absent.",
        ),
    ] = None
    kill: Annotated[
        bool | None,
        Option(
            "--kill/--no-kill",
            help="Whether the site ends jobs at their request: P90 stays within it. Default: as MODEL was trained.",
        ),
    ] = None
    drift_alarms: Annotated[
        float, Option(help="False alarms a year, at most, that a model is worse than last-two; to 12.")
    ] = 0.05
    name_key: shared.KeyFile = None
    forget_after: Annotated[
        str | None, Option(help="Drop live jobs that had no events for so long, such as 30d.", metavar="TIME")
    ] = None
    rate: Annotated[
        float, Option(min=0, help="Requests a second of one client, ten seconds' worth at once; 0: any.")
    ] = 0
    most_bytes: Annotated[int, Option(min=1024, help="Largest body: telemetry; others end at 4 MiB.")] = 16 * 2**20
    tls_certificate: Annotated[Path | None, Option(help="Certificate for TLS, PEM.")] = None
    tls_key: Annotated[Path | None, Option(help="Its key, PEM.")] = None
    log_format: Annotated[str, Option(help="Lines of the log on standard error: text or json.")] = "text"
    log_level: Annotated[str, Option(help="Least level: debug, info, warning or error.")] = "info"
    audit_log: Annotated[
        Path | None, Option(help="File to append who sent events, reloaded models, was refused; JSON lines.")
    ] = None


class Token(shared.Options):
    """Make a bearer token: it is printed once, and only its hash is kept."""

    name: Annotated[str, Argument(help="Name of the client, such as slurmctld; letters, digits and . _ -.")]
    file: Annotated[Path, Option(help="File of tokens; the new one's hash is added.")]
    role: Annotated[str, Option(help="read: asks; write: also sends events and reloads models.")] = "read"


class Replay(shared.Accounted):
    """Drive a log through a service as fast as it can, asking for each job's prediction as of its submission.

    Jobs of which the log knows no run time above 0 are left out, as by `evaluate`. The database must be empty.
    """

    log: shared.Log
    url: shared.Url = shared.SERVICE
    token: shared.BearerToken = None
    batch: Annotated[
        int, Option(min=1, max=10_000, help="1: ask before every submission. More: events at a time; ask after.")
    ] = 1
    check: Annotated[
        str | None,
        Option(
            help="A predictor's name: compare with `evaluate --prequential`, job for job. A MODEL: with `predict`, "
            "warm if the service began so."
        ),
    ] = None
    out: Annotated[Path | None, Option(help="CSV file to write, one line a job.", writable=True)] = None


class Promote(shared.Printed):
    """Give a registered version an alias, and write down when and why; services that follow the alias take it up.

    A predictor with a squared error not below that of last-two in training is refused, unless --even-if-worse says so.
    """

    model: Annotated[str, Argument(help="models:/NAME/VERSION or models:/NAME@ALIAS.", metavar="MODEL")]
    why: Annotated[str, Option(help="Why; kept with the version, the time and the user.")]
    alias: Annotated[str, Option(help="champion, challenger or shadow.")] = "champion"
    even_if_worse: shared.EvenIfWorse = False


class Ui(shared.Options):
    """Open MLflow's pages on the runs and models that are kept here; Ctrl-C ends them.

    The store is that of MLFLOW_TRACKING_URI, else mlruns in JOBCAST_HOME, else mlruns in the current folder.
    """

    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 5000
    host: Annotated[str, Option(help="Address to listen on; by default this machine's own.")] = "127.0.0.1"


class Forget(shared.Printed):
    """Make a service drop live jobs with lost ends: nothing is learnt from them.

    Silence counts from a waiting job's submission, and from a running job's requested end.
    """

    older_than: Annotated[str, Option(help="Give up jobs after so long a silence, such as 30d.", metavar="TIME")]
    url: shared.Url = shared.SERVICE
    token: shared.BearerToken = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only count them.")] = False


class Correct(shared.Printed):
    """Withdraw wrong events, erase a user, or let old events go, in the database of a stopped service.

    The next start learns again from the events that are left; of events that were let go, the state stays. Send the
    right event after the start. Copies and backups of the database hold what was removed.
    """

    why: Annotated[str, Option(help="Why; kept in the database with the time.")]
    db: Annotated[str, Option(help="Database of a stopped service.", envvar="JOBCAST_DB")] = shared.DATABASE
    withdraw: Annotated[
        list[int] | None, Option(help="Number of an event that was wrong; may be repeated.", min=1, metavar="N")
    ] = None
    erase_user: Annotated[str | None, Option(help="User to erase from the events; digits are a number and a name.")] = (
        None
    )
    let_go_before: Annotated[
        str | None, Option(help="Delete events of jobs that were over before a date, such as 2024-12-31.")
    ] = None
    name_key: shared.KeyFile = None
