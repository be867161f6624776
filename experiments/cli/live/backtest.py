"""`jobcast backtest`: what soft limits would have done, had they been on."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from experiments.cli.options import (
    JobsOptions,
    Json,
    ListAccount,
    PoolOptions,
    grouped,
    resumable,
)
from experiments.compare.result import LEAST
from experiments.console import say

SEEDS = 10


@grouped
def backtest(
    log: Annotated[Path, typer.Argument(help="The site's job log: sacct, PBS accounting, SWF, …", metavar="LOG")],
    predictor: Annotated[
        str, typer.Option(help="What gives the soft limits: cesnet, metastack, last-two, any predictor's name.")
    ] = "cesnet",
    budget: Annotated[
        float | None, typer.Option(help="Move them until this share of the jobs runs longer: 0.05.")
    ] = None,
    soft_limits: Annotated[
        str, typer.Option(help="Which scheduler holds them: slurm, slurm-23.11 (before 25.05.4) or pbs.")
    ] = "slurm",
    policy: Annotated[
        str,
        typer.Option(
            help="The machine's policy: easy, conservative, any policy's name; slurm:FILE is a slurm.conf's own, with "
            "files of sacctmgr behind commas."
        ),
    ] = "easy",
    seeds: Annotated[
        int, typer.Option(help=f"Shaken copies of the log, at least {LEAST}; more make surer.", min=1)
    ] = SEEDS,
    *,
    jobs_of: JobsOptions,
    pool: PoolOptions,
    out: Annotated[
        Path, typer.Option(help="Folder of reports; the page makes its own in it.", writable=True, file_okay=False)
    ] = Path("reports"),
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Say month by month what soft limits would have done, had they been on: one page for a site's board.

    Each limit is learnt from earlier jobs alone. Stopped and started again, it goes on where it was.
    """
    from experiments.console import after_reading, print_account, print_json, print_lacks, print_table, working
    from experiments.reports.figures import report_folder
    from experiments.reports.manifest import slug
    from experiments.reports.page import files_of, write_report
    from experiments.site.backtest.backtest import Backtest
    from experiments.site.backtest.report import report_on
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import prepare

    begin, workers = perf_counter(), pool.built()
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        prepared = prepare(jobs, reading=account, **vars(jobs_of))
        asked = Backtest(prepared.used, predictor, budget, soft_limits, policy, seeds)
        folder = report_folder(out, f"backtest-{slug(prepared.used.name)}")
        with resumable():
            found = asked.run(folder, workers)
    with working("Drawing"):
        report = report_on(asked, found, folder, begin)
        page = write_report(folder, report)
    total, lacks = account + prepared.account + asked.of_policy, prepared.lacks()
    if as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in lacks], "account": total.to_dict()}
        print_json(report.to_json() | more | {"page": str(page), "files": files_of(folder)})
        return
    print_lacks(lacks)
    table = report.tables["month by month"]
    print_table("Month by month", list(table.columns), table.itertuples(index=False))
    for sentence in (*report.verdict, *report.details):
        say(f"{sentence}\n")
    print_account(total, listed=list_account)
    say(f"One page to read: {page} ({report.seconds:.0f} s)")
