"""`jobcast probes …`: keep control jobs going, and see what the probes of the network found last."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from experiments.cli.options import probes as options
from experiments.console import print_account, print_json, print_table, say
from predictors.core.errors import JobcastError, counted
from predictors.data.runs import PROBES
from predictors.probes.campaign import Campaign
from predictors.probes.campaign_file import Control, read_control
from predictors.probes.measurements import ProbeHistory, read_probes


def control(args: options.Control) -> None:
    wanted = read_control(args.toml)
    if args.application and not args.once:
        raise JobcastError("--application goes with --once; without it the file says what is run.")
    if args.once and args.days != float("inf"):
        raise JobcastError("--days is for how long it is kept up; --once leaves after one run of each.")
    if not args.days >= 0:
        raise JobcastError(f"--days must not be below 0; got {args.days}.")
    names = [wanted.named(name).name for name in args.application or ()] or [one.name for one in wanted.applications]
    with _running(wanted) as campaign:
        if args.once:
            campaign.keep(0, names, by_schedule=False, wait=True)
        else:
            campaign.keep(time.time() + args.days * 86_400)
    _report(campaign, args.as_json)


def collect(args: options.Collect) -> None:
    with _running(read_control(args.toml)) as campaign:
        campaign.collect()
    _report(campaign, args.as_json)


def last(args: options.Last) -> None:
    found, account = read_probes(args.rows)
    instant = time.time() if args.as_of is None else args.as_of
    waits, age = ProbeHistory.of_rows(found).last_known([instant], args.oldest)
    if args.as_json:
        values = dict(zip(PROBES, waits[0], strict=True))
        print_json({"as_of": instant, "age_s": float(age[0]), **values, "account": account.to_dict()})
        return
    shown = [("age", float(age[0])), *zip(PROBES, waits[0].tolist(), strict=True)]
    print_table(f"The last of {len(found):,}", ("", "s"), shown)
    print_account(account, listed=args.list_account)


@contextmanager
def _running(control: Control) -> Iterator[Campaign]:
    """Keep runs going; SIGTERM ends them as Ctrl-C does."""

    def end(signum: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        with Campaign(control, lambda line: print(line, file=sys.stderr, flush=True)) as campaign:
            yield campaign
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(campaign: Campaign, as_json: bool) -> None:
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
