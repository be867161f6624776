"""`jobcast probes …`: keep control jobs going, and see what the probes of the network found last."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from experiments.cli.options import Json, ListAccount
from experiments.console import say

if TYPE_CHECKING:
    from predictors.probes.campaign import Campaign
    from predictors.probes.campaign_file import Control

app = typer.Typer(
    name="probes",
    no_args_is_help=True,
    help="Keep control jobs going, with probes of the network; the probes themselves: python -m predictors.probes.",
)

Toml = Annotated[Path, typer.Argument(help="Which jobs, how often, by which scheduler: a TOML file.", metavar="TOML")]


@app.command()
def control(
    toml: Toml,
    once: Annotated[bool, typer.Option("--once", help="Run each application now, wait, and leave.")] = False,
    application: Annotated[list[str] | None, typer.Option(help="With --once: only this one; repeatable.")] = None,
    days: Annotated[float, typer.Option(help="Stop after so many days.")] = float("inf"),
    as_json: Json = False,
) -> None:
    """Submit control jobs two to three times a day and add a row to the table of runs for each that ends.

    Ctrl-C loses nothing: jobs at Slurm or LSF go on, and the next call collects them.
    """
    from predictors.core.errors import JobcastError
    from predictors.probes.campaign_file import read_control

    wanted = read_control(toml)
    if application and not once:
        raise JobcastError("--application goes with --once; without it the file says what is run.")
    if once and days != float("inf"):
        raise JobcastError("--days is for how long it is kept up; --once leaves after one run of each.")
    if not days >= 0:
        raise JobcastError(f"--days must not be below 0; got {days}.")
    names = [wanted.named(name).name for name in application or ()] or [one.name for one in wanted.applications]
    with _running(wanted) as campaign:
        if once:
            campaign.keep(0, names, by_schedule=False, wait=True)
        else:
            campaign.keep(time.time() + days * 86_400)
    _report(campaign, as_json)


@app.command()
def collect(toml: Toml, as_json: Json = False) -> None:
    """Add the rows of control jobs that have ended since, and submit none."""
    from predictors.probes.campaign_file import read_control

    with _running(read_control(toml)) as campaign:
        campaign.collect()
    _report(campaign, as_json)


@app.command()
def times(
    toml: Toml,
    days: Annotated[int, typer.Option(help="How many days from now.", min=1, max=366)] = 1,
    as_json: Json = False,
) -> None:
    """Show when which application will be run; the times depend on the file's seed alone."""
    from experiments.console import print_json
    from predictors.probes.campaign_file import DAY, due, read_control

    wanted, now = read_control(toml), time.time()
    names = [one.name for one in wanted.applications]
    coming = due(wanted.seed, names, now, now + days * DAY, wanted.runs_per_day)
    if as_json:
        print_json({"times": [{"time": second, "application": name} for second, name in coming]})
    for second, name in () if as_json else coming:
        typer.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(second))}  {name}")


@app.command()
def last(
    rows: Annotated[Path, typer.Argument(help="Rows of probes: a .csv table or one .json.", metavar="ROWS")],
    as_of: Annotated[float | None, typer.Option(help="Unix seconds; now if absent.")] = None,
    oldest: Annotated[float, typer.Option(help="Largest age in seconds.")] = float("inf"),
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Show what the probes found last before an instant, and how old that is."""
    from experiments.console import print_account, print_json, print_table
    from predictors.data.runs import PROBES
    from predictors.probes.measurements import ProbeHistory, read_probes

    found, account = read_probes(rows)
    instant = time.time() if as_of is None else as_of
    waits, age = ProbeHistory.of_rows(found).last_known([instant], oldest)
    if as_json:
        values = dict(zip(PROBES, waits[0], strict=True))
        print_json({"as_of": instant, "age_s": float(age[0]), **values, "account": account.to_dict()})
        return
    shown = [("age", float(age[0])), *zip(PROBES, waits[0].tolist(), strict=True)]
    print_table(f"The last of {len(found):,}", ("", "s"), shown)
    print_account(account, listed=list_account)


@contextmanager
def _running(control: "Control") -> Iterator["Campaign"]:
    """Keep runs going; SIGTERM ends them as Ctrl-C does."""
    from predictors.probes.campaign import Campaign

    def end(signum: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        with Campaign(control, lambda line: print(line, file=sys.stderr, flush=True)) as campaign:
            yield campaign
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(campaign: "Campaign", as_json: bool) -> None:
    from experiments.console import print_json
    from predictors.core.errors import JobcastError, counted

    result, table = campaign.result, campaign.control.runs
    if as_json:
        print_json(
            {
                "runs": str(table),
                "submitted": result.submitted,
                "added": result.added,
                "failed": [{"run": run, "problem": problem} for run, problem in result.failed],
                "skipped": [{"application": name, "problem": why} for name, why in result.skipped],
            }
        )
    else:
        say(f"{table}: {counted(len(result.added), 'run')} added, {len(result.failed)} failed")
    if result.failed:
        name, problem = result.failed[0]
        raise JobcastError(f"{counted(len(result.failed), 'run')} failed, first {name}: {problem}")
