"""Options of the commands for a running cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared
from experiments.compare.result import LEAST
from predictors.schedulers.soft_limit import LOOKS_EVERY

JournalFolder = Annotated[Path, Option("--journal", help="Folder of the journal; it has one owner.", file_okay=False)]
JOURNAL = Path("jobcast-slurm")
NoFeed = Annotated[bool, Option("--no-feed", help="Another program tells the service of events.")]


@dataclass(frozen=True)
class ForecasterOptions:
    """Options on where predictions come from."""

    url: Annotated[str | None, Option(help="A service that answers, and receives events.")] = None
    token: shared.BearerToken = None
    model: Annotated[str | None, Option(help="Without a service: a MODEL as of `jobcast serve`, in this process.")] = (
        None
    )
    db: Annotated[str, Option(help="Database of --model: sqlite:///FILE or postgresql+psycopg://….")] = (
        "sqlite:///jobcast-slurm.db"
    )
    warm: Annotated[bool, Option("--warm", help="--model begins with the history that it was saved with.")] = False
    name_key: Annotated[Path | None, Option(help="Secret key for --model's hashes of names.")] = None


@dataclass(frozen=True)
class LookOptions:
    """Options on what is kept of each look at the queue, and how often one is taken."""

    journal: JournalFolder = JOURNAL
    rules: shared.RulesFile = None
    table: Annotated[
        Path | None, Option(help="Table for submission to write each time; see deploy/slurm.", writable=True)
    ] = None
    starts: Annotated[
        Path | None,
        Option(
            help="Into --table, too: when a job submitted now would start. Run times are drawn from the ended jobs of "
            "LOG (sacct, …), then from those that end here.",
            metavar="LOG",
        ),
    ] = None
    every: Annotated[float, Option(help="Seconds from one look to the next.", min=1)] = float(LOOKS_EVERY)
    metrics: Annotated[
        Path | None,
        Option(help="File of metrics to write each time, for Prometheus' textfile collector.", writable=True),
    ] = None
    cycles: Annotated[int | None, Option(help="Stop after so many cycles; default: never.", min=1)] = None


@dataclass(frozen=True)
class HoldOptions:
    """Options on holds by a classifier of variability, which are shadowed."""

    variability: Annotated[
        str | None,
        Option(
            help="Note, too, which starts a classifier of variability would delay: a CLASSIFIER as of `jobcast serve "
            "--classifier`, or `service` for that of --url."
        ),
    ] = None
    telemetry: Annotated[
        Path | None, Option(help="Folder into which the counters for that CLASSIFIER come.", metavar="FOLDER")
    ] = None


class Watch(shared.Printed):
    """Tell a service, or a model in this process, what happens in the queue; decide nothing."""

    who: ForecasterOptions
    look: LookOptions


class Shadow(shared.Printed):
    """Decide on the soft limit of each pending job, and keep that in the journal alone: nothing is changed.

    A table for submission that is written meanwhile is for advice only.
    """

    who: ForecasterOptions
    look: LookOptions
    holds: HoldOptions
    no_feed: NoFeed = False


class Write(shared.Printed):
    """Set, raise, lower and clear the soft limits of pending jobs, and keep a journal of it.

    It never touches heterogeneous jobs, jobs with a deadline, a --time-min or a reservation of their own, and jobs with
    a limit that reaches a coming reservation: it clears what it had set there. It refuses to begin without
    SchedulerParameters=time_min_as_soft_limit and Slurm 23.11.
    """

    who: ForecasterOptions
    look: LookOptions
    whitelist: Annotated[Path | None, Option(help="File of users, one a line: only their jobs are changed.")] = None
    everybody: Annotated[bool, Option("--all", help="All users' jobs may be changed.")] = False
    most_changes: Annotated[
        int, Option(help="Beyond so many changes of one look nothing is set; clearing goes on.", min=1)
    ] = 2000
    mark: Annotated[
        str,
        Option(
            help="Where a job with a soft limit of ours is marked, so that a lost journal orphans none: admin-comment, "
            "which needs an Administrator; comment, where the user wrote none; or none."
        ),
    ] = "admin-comment"
    variability: Annotated[
        str | None, Option(help="Refused: starts are delayed in shadow alone; see shadow --variability.")
    ] = None
    no_feed: NoFeed = False


class Clear(shared.Printed):
    """Clear the soft limits of all waiting jobs that the journal has set, or that are marked: TimeMin=0, and read back.

    The status is 1 as long as one is left, or a job runs with one: then leave time_min_as_soft_limit in
    SchedulerParameters, and clear again later. Without it, a job that starts with a soft limit is ended there. Before:
    stop the adapter, and remove the table that job_submit.lua reads. docs/how-to/slurm.md has the whole order.
    """

    journal: Annotated[
        Path, Option("--journal", help="Folder of the journal of the adapter that set them.", file_okay=False)
    ]


class Table(shared.Printed):
    """Write the table for submission from a log of jobs that have ended: for PBS, or where no adapter runs.

    Such a table is as old as the log. Write it again each day, before it expires, and with the next reservation.
    P90 alone makes it: a log does not tell which jobs outlived a soft limit, so the rule most_outlived does not count.
    """

    log: shared.Log
    who: ForecasterOptions
    out: Annotated[Path, Option(help="The table to write.", writable=True)]
    cluster: Annotated[str, Option(help="The cluster's name; plug-ins take the table of no other.")]
    rules: shared.RulesFile = None
    hours: Annotated[float, Option(help="How long the table holds.", min=0.1, max=8784)] = 26.0
    sets: Annotated[bool, Option("--set", help="Plug-ins may set soft limits by it; else it is for advice.")] = False
    reservation: Annotated[
        int | None, Option(help="When the first coming reservation begins, in Unix time.", min=0)
    ] = None


class Check(shared.Printed):
    """Check whether a site is ready, a line each: ok, warn or fail. Nothing is changed; a fail is status 1."""

    journal: JournalFolder = JOURNAL
    written: Annotated[Path | None, Option("--table", help="The table for submission.")] = None


Queue = Annotated[
    Path | None,
    Option("--queue", help="File of the waiting jobs, written by --save; else Slurm is asked.", metavar="FILE"),
]
PastLog = Annotated[
    Path | None, Option("--past", help="A job log (sacct, …) to learn from how much of their requests users need.")
]


class Start(shared.Printed):
    """Forecast when waiting jobs start, P10, P50 and P90, from the live queue and what users' jobs really ran.

    The scheduler's own expectation stands next to each. Only jobs that ended before the queue was read are learnt from.
    """

    job: Annotated[str | None, Argument(help="Its id, 123 or 123_4; none: all that wait.", metavar="JOB")] = None
    queue: Queue = None
    past: PastLog = None
    site: shared.Site = None
    draws: Annotated[int, Option(help="Draws of the run times.", min=1, max=10_000)] = 100
    seed: shared.Seed = 0
    save: Annotated[Path | None, Option(help="Write the queue as it is now, for later questions.", writable=True)] = (
        None
    )
    score: Annotated[
        Path | None, Option(help="A later job log with the true starts: say how well forecasts held.", metavar="LOG")
    ] = None


class Why(shared.Printed):
    """Say why a job waits now, and what keeps it next by all that was asked for."""

    job: Annotated[str, Argument(help="Its id, 123 or 123_4.", metavar="JOB")]
    queue: Queue = None
    past: PastLog = None


class Backtest(shared.Accounted):
    """Say month by month what the adapter's soft limits would have done: one page for a site's board.

    Each limit is set at a look at the queue, as `jobcast slurm` does, and learnt from earlier jobs alone.
    Stopped and started again, it goes on where it was.
    """

    log: shared.LogOrSite = shared.NO_LOG
    site: shared.Site = None
    ungraded: shared.Ungraded = False
    predictor: Annotated[
        str,
        Option(
            autocompletion=shared.PREDICTORS,
            help="The adapter's model: cesnet, metastack, last-two, any predictor's name.",
        ),
    ] = "cesnet"
    budget: shared.Budget = None
    soft_limits: Annotated[
        str, Option(help="Which scheduler holds them: slurm, slurm-23.11 (before 25.05.4) or pbs.")
    ] = "slurm"
    looks: shared.LooksOptions
    policy: Annotated[
        str,
        Option(
            autocompletion=shared.POLICIES,
            help="The machine's policy: easy, conservative, any policy's name; slurm:FILE is a slurm.conf's own, with "
            "files of sacctmgr behind commas.",
        ),
    ] = "easy"
    seeds: Annotated[int, Option(help=f"Shaken copies of the log, at least {LEAST}; more make surer.", min=1)] = 10
    jobs_of: shared.JobsOptions
    pool: shared.PoolOptions
    out: shared.Reports = shared.REPORTS
