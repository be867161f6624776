"""`jobcast slurm …`: soft limits on a real Slurm, watched first, shadowed next, written last."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import Json, Log, grouped
from experiments.console import say
from predictors.core.errors import JobcastError

if TYPE_CHECKING:
    from predictors.schedulers.adapter import Adapter, Cycle
    from predictors.schedulers.forecaster import Forecaster
    from predictors.schedulers.judge import Judge
    from predictors.schedulers.soft_limit import SiteRules
    from predictors.schedulers.submission import StartSource

app = typer.Typer(
    name="slurm",
    no_args_is_help=True,
    help="Soft limits (TimeMin) on a real Slurm: check the site, watch, shadow, write, clear.",
)

JournalFolder = Annotated[
    Path, typer.Option("--journal", help="Folder of the journal; it has one owner.", file_okay=False)
]
RulesFile = Annotated[
    Path | None, typer.Option("--rules", help="TOML file with the site's rules, its table soft_limits.")
]
JOURNAL: Final = Path("jobcast-slurm")


@dataclass(frozen=True)
class ForecasterOptions:
    """Options on where predictions come from."""

    url: Annotated[str | None, typer.Option(help="A service that answers, and receives events.")] = None
    token: Annotated[str | None, typer.Option(help="Bearer token.", envvar="JOBCAST_TOKEN")] = None
    model: Annotated[
        str | None, typer.Option(help="Without a service: a MODEL as of `jobcast serve`, in this process.")
    ] = None
    db: Annotated[str, typer.Option(help="Database of --model: sqlite:///FILE or postgresql+psycopg://….")] = (
        "sqlite:///jobcast-slurm.db"
    )
    warm: Annotated[bool, typer.Option("--warm", help="--model begins with the history that it was saved with.")] = (
        False
    )
    name_key: Annotated[Path | None, typer.Option(help="Secret key for --model's hashes of names.")] = None

    def built(self) -> "Forecaster":
        """Return the client of a service, or a service in this process.

        Raises
        ------
        JobcastError
            If not one of them is named, or it cannot be used.
        """
        import os

        from experiments.console import working
        from predictors.service.client import Client

        if (self.url is None) == (self.model is None):
            raise JobcastError("Give --url of a service, or --model for one in this process; not both.")
        if self.url is not None:
            return Client(self.url, self.token, timeout=30.0)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        from predictors.schedulers.embedded import Embedded
        from predictors.service.pseudonyms import Pseudonymiser
        from predictors.service.settings import Settings

        key = Pseudonymiser() if self.name_key is None else Pseudonymiser.read(self.name_key)
        with working(f"Loading {self.model}"):
            return Embedded(Settings(model=str(self.model), db=self.db, warm=self.warm), key)


@dataclass(frozen=True)
class LookOptions:
    """Options on what is kept of each look at the queue, and how often one is taken."""

    journal: JournalFolder = JOURNAL
    rules: RulesFile = None
    table: Annotated[
        Path | None, typer.Option(help="Table for submission to write each time; see deploy/slurm.", writable=True)
    ] = None
    starts: Annotated[
        Path | None,
        typer.Option(
            help="Into --table, too: when a job submitted now would start. Run times are drawn from the ended jobs of "
            "LOG (sacct, …), then from those that end here.",
            metavar="LOG",
        ),
    ] = None
    every: Annotated[float, typer.Option(help="Seconds from one look to the next.", min=1)] = 60.0
    metrics: Annotated[
        Path | None,
        typer.Option(help="File of metrics to write each time, for Prometheus' textfile collector.", writable=True),
    ] = None
    cycles: Annotated[int | None, typer.Option(help="Stop after so many cycles; default: never.", min=1)] = None

    def site_rules(self) -> "SiteRules":
        """Return the site's rules."""
        return _site_rules(self.rules)

    @contextmanager
    def adapter(
        self,
        mode: str,
        rules: "SiteRules",
        who: ForecasterOptions,
        judge: "Judge | None" = None,
        mark: str = "none",
        **options: Any,
    ) -> Iterator["Adapter"]:
        """Make an adapter; its journal is claimed first, so that a second one ends before it loads a model."""
        from predictors.schedulers.adapter import Adapter
        from predictors.schedulers.hold import HoldRules
        from predictors.schedulers.journal import Journal
        from predictors.schedulers.rules import read_hold_rules
        from predictors.schedulers.shadowed_holds import ShadowedHolds
        from predictors.schedulers.slurm import Slurm
        from predictors.schedulers.submission import TablePlan

        if self.starts is not None and self.table is None:
            raise JobcastError(f"--starts {self.starts} goes into the table for submission; name it by --table.")
        told = None if self.starts is None else _expected_starts(self.starts)
        plan = None if self.table is None else TablePlan(self.table, starts=told)
        hold = HoldRules() if self.rules is None else read_hold_rules(self.rules)
        with Journal(self.journal) as journal:
            forecaster = who.built()
            if judge is not None:
                options["holds"] = ShadowedHolds(judge, hold, rules, journal, forecaster)
            try:
                yield Adapter(Slurm(mark=mark), forecaster, journal, rules, mode, table=plan, **options)
            finally:
                forecaster.close()


@dataclass(frozen=True)
class HoldOptions:
    """Options on holds by a classifier of variability, which are shadowed."""

    variability: Annotated[
        str | None,
        typer.Option(
            help="Note, too, which starts a classifier of variability would delay: a CLASSIFIER as of `jobcast serve "
            "--classifier`, or `service` for that of --url."
        ),
    ] = None
    telemetry: Annotated[
        Path | None, typer.Option(help="Folder into which the counters for that CLASSIFIER come.", metavar="FOLDER")
    ] = None

    def judge(self, who: ForecasterOptions) -> "Judge | None":
        """Return who says whether now is a bad moment; None if no one is to be asked.

        Raises
        ------
        JobcastError
            If the options do not go together, or the classifier cannot be used.
        """
        from predictors.schedulers.judge import LocalJudge, ServiceJudge
        from predictors.service.client import Client
        from predictors.tracking.client import load_classifier

        if self.variability is None:
            if self.telemetry is not None:
                raise JobcastError("--telemetry has the counters for a classifier; name it by --variability.")
            return None
        if self.variability == "service":
            if who.url is None or self.telemetry is not None:
                raise JobcastError("--variability service asks the service at --url, which has the counters itself.")
            return ServiceJudge(Client(who.url, who.token, timeout=30.0))
        if self.telemetry is None:
            raise JobcastError(f"--variability {self.variability} needs --telemetry, the folder of its counters.")
        return LocalJudge(load_classifier(self.variability), self.telemetry)


NoFeed = Annotated[bool, typer.Option("--no-feed", help="Another program tells the service of events.")]


@app.command()
@grouped
def watch(who: ForecasterOptions, look: LookOptions, as_json: Json = False) -> None:
    """Tell a service, or a model in this process, what happens in the queue; decide nothing."""
    with look.adapter("watch", look.site_rules(), who) as adapter:
        _go_on(adapter, look, as_json)


@app.command()
@grouped
def shadow(
    who: ForecasterOptions, look: LookOptions, holds: HoldOptions, no_feed: NoFeed = False, as_json: Json = False
) -> None:
    """Decide on the soft limit of each pending job, and keep that in the journal alone: nothing is changed.

    A table for submission that is written meanwhile is for advice only.
    """
    with look.adapter("shadow", look.site_rules(), who, holds.judge(who), feeds=not no_feed) as adapter:
        _go_on(adapter, look, as_json)


@app.command()
@grouped
def write(
    who: ForecasterOptions,
    look: LookOptions,
    whitelist: Annotated[
        Path | None, typer.Option(help="File of users, one a line: only their jobs are changed.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="All users' jobs may be changed.")] = False,
    most_changes: Annotated[
        int, typer.Option(help="Beyond so many changes of one look nothing is set; clearing goes on.", min=1)
    ] = 2000,
    mark: Annotated[
        str,
        typer.Option(
            help="Where a job with a soft limit of ours is marked, so that a lost journal orphans none: admin-comment, "
            "which needs an Administrator; comment, where the user wrote none; or none."
        ),
    ] = "admin-comment",
    variability: Annotated[
        str | None, typer.Option(help="Refused: starts are delayed in shadow alone; see shadow --variability.")
    ] = None,
    no_feed: NoFeed = False,
    as_json: Json = False,
) -> None:
    """Set, raise, lower and clear the soft limits of pending jobs, and keep a journal of it.

    It never touches heterogeneous jobs, jobs with a deadline, a --time-min or a reservation of their own, and jobs with
    a limit that reaches a coming reservation: it clears what it had set there. It refuses to begin without
    SchedulerParameters=time_min_as_soft_limit and Slurm 23.11.
    """
    from predictors.schedulers.rules import read_whitelist
    from predictors.schedulers.slurm import Slurm

    if variability is not None:
        raise JobcastError(
            "--variability delays no job: what a classifier would hold is only noted. Take it out, and run `jobcast "
            "slurm shadow --variability` as well, with a --journal of its own."
        )
    if everybody == (whitelist is not None):
        raise JobcastError("Give --whitelist FILE, the users to include, or --all; not both.")
    rules = look.site_rules()
    if whitelist is not None:
        rules = replace(rules, users=read_whitelist(whitelist))
    with look.adapter("write", rules, who, mark=mark, feeds=not no_feed, most_changes=most_changes) as adapter:
        config = Slurm().config()
        if config.warning:
            typer.echo(f"jobcast: {config.warning}.", err=True)
        if config.refusal:
            adapter.cycle()  # clears what an earlier one may have set
            raise JobcastError(f"{config.refusal}. Nothing is set; see `jobcast slurm check`.")
        _go_on(adapter, look, as_json)


@app.command()
def clear(
    journal: Annotated[
        Path, typer.Option("--journal", help="Folder of the journal of the adapter that set them.", file_okay=False)
    ],
    as_json: Json = False,
) -> None:
    """Clear the soft limits of all waiting jobs that the journal has set, or that are marked: TimeMin=0, and read back.

    The status is 1 as long as one is left, or a job runs with one: then leave time_min_as_soft_limit in
    SchedulerParameters, and clear again later. Without it, a job that starts with a soft limit is ended there. Before:
    stop the adapter, and remove the table that job_submit.lua reads. docs/how-to/slurm.md has the whole order.
    """
    from experiments.console import print_json
    from predictors.core.errors import counted
    from predictors.schedulers.journal import Journal
    from predictors.schedulers.operation import clear_all
    from predictors.schedulers.slurm import Slurm

    scheduler = Slurm()
    if next(journal.glob("journal-*.jsonl"), None) is None and not any(job.marked for job in scheduler.queue().jobs):
        raise JobcastError(
            f"{journal}: has no journal-YYYY-MM.jsonl, and no job is marked, so it is not known which soft limits are "
            "ours, and nothing was cleared; give the --journal of the adapter that set them."
        )
    with Journal(journal) as kept:
        done = clear_all(scheduler, kept)
    if as_json:
        print_json(asdict(done))
    else:
        say(f"{counted(done.cleared, 'soft limit')} cleared, {len(done.left)} left.")
        for job, why in list(done.left.items())[:20]:
            say(f"  job {job}: {why}")
        if done.running:
            say(
                f"{counted(len(done.running), 'job')} that have not ended keep theirs, and a requeue would bring it "
                "back: leave the option until these have ended, then clear again."
            )
            for job, state in list(done.running.items())[:20]:
                say(f"  job {job}: {state}")
        if done.others:
            say(
                f"{counted(done.others, 'waiting job')} with a TimeMin that this journal did not set, by their users "
                "or by another adapter, are as they were."
            )
        if not done.left and not done.running:
            say("Now take time_min_as_soft_limit out of SchedulerParameters, if it shall go, and scontrol reconfigure.")
        for trouble in done.troubles:
            typer.echo(f"jobcast: {trouble}", err=True)
    if done.left or done.running:
        raise typer.Exit(1)


@app.command()
@grouped
def table(
    log: Log,
    who: ForecasterOptions,
    out: Annotated[Path, typer.Option(help="The table to write.", writable=True)],
    cluster: Annotated[str, typer.Option(help="The cluster's name; plug-ins take the table of no other.")],
    rules: RulesFile = None,
    hours: Annotated[float, typer.Option(help="How long the table holds.", min=0.1, max=8784)] = 26.0,
    sets: Annotated[bool, typer.Option("--set", help="Plug-ins may set soft limits by it; else it is for advice.")] = (
        False
    ),
    reservation: Annotated[
        int | None, typer.Option(help="When the first coming reservation begins, in Unix time.", min=0)
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the table for submission from a log of jobs that have ended: for PBS, or where no adapter runs.

    Such a table is as old as the log. Write it again each day, before it expires, and with the next reservation.
    """
    import time

    from experiments.console import print_json, working
    from predictors.core.errors import counted
    from predictors.data.formats.detect import read_log
    from predictors.schedulers.soft_limit import Reservation
    from predictors.schedulers.submission import classes_of, submission_table, write_table

    if not cluster or cluster.split() != [cluster]:
        raise JobcastError(f"--cluster must be a name without blanks; got {cluster!r}.")
    own = _site_rules(rules)
    with working(f"Reading {log}"):
        classes = classes_of(read_log(log)[0])
    if not classes:
        raise JobcastError(f"{log}: has no job with a user's name and a limit, so a table would be empty.")
    now = int(time.time())
    ahead = [] if reservation is None else [Reservation("the next one", reservation, reservation)]
    forecaster = who.built()
    try:
        made = submission_table(classes, forecaster, cluster, now, ahead, own, lasts=int(hours * 3600), sets=sets)
    finally:
        forecaster.close()
    write_table(made, out)
    if as_json:
        print_json({"table": str(out), "rows": len(made.rows), "classes": len(classes), "expires": made.expires})
    else:
        say(
            f"{out}: {counted(len(made.rows), 'row')}, from {len(classes):,} classes of jobs; it holds for {hours:g} h."
        )


@app.command()
def check(
    journal: JournalFolder = JOURNAL,
    written: Annotated[Path | None, typer.Option("--table", help="The table for submission.")] = None,
    as_json: Json = False,
) -> None:
    """Check whether a site is ready, a line each: ok, warn or fail. Nothing is changed; a fail is status 1."""
    from experiments.console import print_json
    from predictors.schedulers.operation import FAIL, check_site
    from predictors.schedulers.slurm import Slurm

    found = list(check_site(Slurm(), journal, written))
    if as_json:
        print_json({"findings": [asdict(one) for one in found]})
    else:
        for one in found:
            say(f"{one.status:<5} {one.what:<13} {one.found}")
    if any(one.status == FAIL for one in found):
        raise typer.Exit(1)


def _expected_starts(log: Path) -> "StartSource":
    from experiments.console import working
    from experiments.site.live.expected import Aside, ExpectedStarts
    from experiments.site.live.starts import Past
    from predictors.data.formats.detect import read_log

    with working(f"Reading {log}"):
        return Aside(ExpectedStarts(Past(read_log(log)[0])))


def _site_rules(path: Path | None) -> "SiteRules":
    from predictors.schedulers.rules import read_rules
    from predictors.schedulers.soft_limit import SiteRules

    return SiteRules() if path is None else read_rules(path)


_TROUBLES = 5
"""Lines about what a look could not do, at most."""


def _go_on(adapter: "Adapter", look: LookOptions, as_json: bool) -> None:
    """Look again and again. A look that fails changes nothing, and the next one may succeed."""
    import math
    import sys
    import time

    from predictors.core.errors import printable
    from predictors.schedulers.metrics import CycleMetrics
    from predictors.service.operation.systemd import ALIVE, READY, notify, watchdog_seconds

    metrics = None if look.metrics is None else CycleMetrics(look.metrics)
    nap, n = (watchdog_seconds() or math.inf) / 3, 0
    notify(READY)
    while True:
        begin, n = time.monotonic(), n + 1
        try:
            done = None
            try:
                done = adapter.cycle()
                _tell(done, as_json)
            finally:
                if metrics is not None:
                    metrics.add(done)
        except JobcastError as error:
            if look.cycles is not None and n >= look.cycles:
                raise
            typer.echo(f"jobcast: {printable(str(error))}", err=True)
        sys.stdout.flush()
        notify(ALIVE)
        if look.cycles is not None and n >= look.cycles:
            return
        while (left := look.every - (time.monotonic() - begin)) > 0:
            time.sleep(min(left, nap))
            notify(ALIVE)


def _tell(done: "Cycle", as_json: bool) -> None:
    import json
    import sys

    from predictors.core.errors import counted, printable

    if as_json:
        sys.stdout.write(json.dumps(asdict(done)) + "\n")
        return

    def listed(counts: dict[str, int]) -> str:
        return ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))

    parts = [f"{counted(done.jobs, 'job')}, {done.pending:,} pending", f"{counted(done.events, 'event')} sent"]
    parts += [listed(done.changed) or "nothing to change"]
    parts += [f"reasons: {listed(done.decisions)}"] if done.decisions else []
    parts += [f"{done.capped:,} with P90 above the limit"] if done.capped else []
    say("; ".join([*parts, f"{done.seconds:.2f} s"]))
    for trouble in done.troubles[:_TROUBLES]:
        typer.echo(f"jobcast: {printable(trouble)}", err=True)
    if (more := len(done.troubles) - _TROUBLES) > 0:
        typer.echo(f"jobcast: and {counted(more, 'trouble')} more; --json has all", err=True)
