"""`jobcast slurm …`: soft limits on a real Slurm, watched first, shadowed next, written last."""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from experiments.cli.options import live as options
from experiments.console import print_json, say, working
from experiments.site.live.expected import Aside, ExpectedStarts
from experiments.site.live.starts import Past
from predictors.core.errors import JobcastError, counted, printable
from predictors.data.formats.detect import read_log
from predictors.schedulers.adapter import Adapter, Cycle
from predictors.schedulers.forecaster import Forecaster
from predictors.schedulers.hold import HoldRules
from predictors.schedulers.journal import Journal
from predictors.schedulers.judge import Judge, LocalJudge, ServiceJudge
from predictors.schedulers.metrics import CycleMetrics
from predictors.schedulers.operation import FAIL, check_site, clear_all
from predictors.schedulers.rules import read_hold_rules, read_rules, read_whitelist
from predictors.schedulers.shadowed_holds import ShadowedHolds
from predictors.schedulers.slurm import Slurm
from predictors.schedulers.soft_limit import Outlived, Reservation, SiteRules
from predictors.schedulers.submission import StartSource, TablePlan, classes_of, submission_table, write_table
from predictors.service.client import Client
from predictors.service.operation.systemd import ALIVE, READY, notify, watchdog_seconds
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.tracking.client import load_classifier


def _forecaster(who: options.ForecasterOptions) -> Forecaster:
    """Return the client of a service, or a service in this process."""
    if (who.url is None) == (who.model is None):
        raise JobcastError("Give --url of a service, or --model for one in this process; not both.")
    if who.url is not None:
        return Client(who.url, who.token, timeout=30.0)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from predictors.schedulers.embedded import Embedded

    key = Pseudonymiser() if who.name_key is None else Pseudonymiser.read(who.name_key)
    with working(f"Loading {who.model}"):
        return Embedded(Settings(model=str(who.model), db=who.db, warm=who.warm), key)


@contextmanager
def _adapter(
    look: options.LookOptions,
    mode: str,
    rules: SiteRules,
    who: options.ForecasterOptions,
    judge: Judge | None = None,
    mark: str = "none",
    **more: Any,
) -> Iterator[Adapter]:
    """Make an adapter; its journal is claimed first, so that a second one ends before it loads a model."""
    if look.starts is not None and look.table is None:
        raise JobcastError(f"--starts {look.starts} goes into the table for submission; name it by --table.")
    told = None if look.starts is None else _expected_starts(look.starts)
    plan = None if look.table is None else TablePlan(look.table, starts=told)
    hold = HoldRules() if look.rules is None else read_hold_rules(look.rules)
    with Journal(look.journal) as journal:
        forecaster = _forecaster(who)
        if judge is not None:
            more["holds"] = ShadowedHolds(judge, hold, rules, journal, forecaster)
        try:
            yield Adapter(Slurm(mark=mark), forecaster, journal, rules, mode, table=plan, **more)
        finally:
            forecaster.close()


def _judge(holds: options.HoldOptions, who: options.ForecasterOptions) -> Judge | None:
    """Return who says whether now is a bad moment; None if no one is to be asked."""
    if holds.variability is None:
        if holds.telemetry is not None:
            raise JobcastError("--telemetry has the counters for a classifier; name it by --variability.")
        return None
    if holds.variability == "service":
        if who.url is None or holds.telemetry is not None:
            raise JobcastError("--variability service asks the service at --url, which has the counters itself.")
        return ServiceJudge(Client(who.url, who.token, timeout=30.0))
    if holds.telemetry is None:
        raise JobcastError(f"--variability {holds.variability} needs --telemetry, the folder of its counters.")
    return LocalJudge(load_classifier(holds.variability), holds.telemetry)


def watch(args: options.Watch) -> None:
    with _adapter(args.look, "watch", _site_rules(args.look.rules), args.who) as adapter:
        _go_on(adapter, args.look, args.as_json)


def shadow(args: options.Shadow) -> None:
    with _adapter(
        args.look,
        "shadow",
        _site_rules(args.look.rules),
        args.who,
        _judge(args.holds, args.who),
        feeds=not args.no_feed,
    ) as adapter:
        _go_on(adapter, args.look, args.as_json)


def write(args: options.Write) -> None:
    if args.variability is not None:
        raise JobcastError(
            "--variability delays no job: what a classifier would hold is only noted. Take it out, and run `jobcast "
            "slurm shadow --variability` as well, with a --journal of its own."
        )
    if args.everybody == (args.whitelist is not None):
        raise JobcastError("Give --whitelist FILE, the users to include, or --all; not both.")
    rules = _site_rules(args.look.rules)
    if args.whitelist is not None:
        rules = replace(rules, users=read_whitelist(args.whitelist))
    with _adapter(
        args.look, "write", rules, args.who, mark=args.mark, feeds=not args.no_feed, most_changes=args.most_changes
    ) as adapter:
        config = Slurm().config()
        if config.warning:
            typer.echo(f"jobcast: {config.warning}.", err=True)
        if config.refusal:
            adapter.cycle()  # clears what an earlier one may have set
            raise JobcastError(f"{config.refusal}. Nothing is set; see `jobcast slurm check`.")
        _go_on(adapter, args.look, args.as_json)


def clear(args: options.Clear) -> None:
    scheduler = Slurm()
    if next(args.journal.glob("journal-*.jsonl"), None) is None and not any(
        job.marked for job in scheduler.queue().jobs
    ):
        raise JobcastError(
            f"{args.journal}: has no journal-YYYY-MM.jsonl, and no job is marked, so it is not known which soft limits "
            "are ours, and nothing was cleared; give the --journal of the adapter that set them."
        )
    with Journal(args.journal) as kept:
        done = clear_all(scheduler, kept)
    if args.as_json:
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


def table(args: options.Table) -> None:
    if not args.cluster or args.cluster.split() != [args.cluster]:
        raise JobcastError(f"--cluster must be a name without blanks; got {args.cluster!r}.")
    own = _site_rules(args.rules)
    with working(f"Reading {args.log}"):
        classes = classes_of(read_log(args.log)[0])
    if not classes:
        raise JobcastError(f"{args.log}: has no job with a user's name and a limit, so a table would be empty.")
    now = int(time.time())
    ahead = [] if args.reservation is None else [Reservation("the next one", args.reservation, args.reservation)]
    forecaster = _forecaster(args.who)
    try:
        made = submission_table(
            classes, forecaster, args.cluster, now, ahead, Outlived(own), lasts=int(args.hours * 3600), sets=args.sets
        )
    finally:
        forecaster.close()
    write_table(made, args.out)
    if args.as_json:
        print_json({"table": str(args.out), "rows": len(made.rows), "classes": len(classes), "expires": made.expires})
    else:
        say(
            f"{args.out}: {counted(len(made.rows), 'row')}, from {len(classes):,} classes of jobs; "
            f"it holds for {args.hours:g} h."
        )


def check(args: options.Check) -> None:
    found = list(check_site(Slurm(), args.journal, args.written))
    if args.as_json:
        print_json({"findings": [asdict(one) for one in found]})
    else:
        for one in found:
            say(f"{one.status:<5} {one.what:<13} {one.found}")
    if any(one.status == FAIL for one in found):
        raise typer.Exit(1)


def _expected_starts(log: Path) -> StartSource:
    with working(f"Reading {log}"):
        return Aside(ExpectedStarts(Past(read_log(log)[0])))


def _site_rules(path: Path | None) -> SiteRules:
    return SiteRules() if path is None else read_rules(path)


_TROUBLES = 5  # lines about what a look could not do, at most


def _go_on(adapter: Adapter, look: options.LookOptions, as_json: bool) -> None:
    """Look again and again. A look that fails changes nothing, and the next one may succeed."""
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


def _tell(done: Cycle, as_json: bool) -> None:
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
