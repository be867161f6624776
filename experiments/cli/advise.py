"""`jobcast advise`: what another policy or a predictor would gain on a site's log, and who would wait longer."""

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from experiments.cli.options import DropWide, Json, ListAccount, Partition, PoolOptions, Procs, grouped, resumable
from experiments.compare.result import LEAST
from experiments.console import say

SEEDS = 20


@grouped
def advise(
    log: Annotated[Path, typer.Argument(help="The site's job log in any known format.", metavar="LOG")],
    current: Annotated[
        str, typer.Option(help="What the site runs today: easy, conservative, wfp, fcfs, any policy's name.")
    ] = "easy",
    predictor: Annotated[
        str | None,
        typer.Option(help="Try EASY-SJBF by this predictor too: a name, or a model's address, models:/NAME@ALIAS."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help=f"Shaken copies of the log to simulate, at least {LEAST}; more make surer.", min=1)
    ] = SEEDS,
    measure: Annotated[
        str, typer.Option(help="What decides: mean_bounded_slowdown, mean_wait_s, p99_wait_s, …")
    ] = "mean_bounded_slowdown",
    procs: Procs = None,
    partition: Partition = None,
    drop_wide: DropWide = False,
    *,
    pool: PoolOptions,
    out: Annotated[
        Path, typer.Option(help="Folder of reports; the advice makes its own in it.", writable=True, file_okay=False)
    ] = Path("reports"),
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Say in plain words what another policy or a predictor would gain on a log, and who would wait longer.

    Stopped and started again, it goes on where it was.
    """
    from experiments.advise.advise import Question
    from experiments.advise.report import report_on
    from experiments.console import after_reading, print_account, print_json, working
    from experiments.reports.figures import report_folder
    from experiments.reports.manifest import slug
    from experiments.reports.page import files_of, write_report
    from experiments.runs.simulate import learnt_from, loaded, of_partition
    from predictors.core.errors import JobcastError
    from predictors.data.cleaning import clean
    from predictors.data.formats.detect import read_log

    begin, workers = perf_counter(), pool.built()
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        cleaned, cleaning = clean(of_partition(jobs, partition), procs, drop_wide)
        question = Question(cleaned, current, seeds, measure, predictor)
        if predictor and learnt_from(loaded(predictor), jobs, cleaned):
            raise JobcastError(
                f"{predictor} learnt from this very log, its future included: nothing can be advised from that. Name "
                "the predictor instead, which starts knowing nothing and learns as jobs end."
            )
        folder = report_folder(out, f"advise-{slug(cleaned.name)}")
        with resumable():
            found = question.run(folder, workers)
    with working("Drawing"):
        advice, source = question.advice(found), _source(log, procs, partition, drop_wide)
        report = report_on(advice, found, cleaned, folder, source, begin)
        page = write_report(folder, report)
    total = account + cleaning
    if as_json:
        more = {"advice": advice.to_json(), "account": total.to_dict(), "page": str(page), "files": files_of(folder)}
        print_json(report.to_json() | more)
        return
    for sentence in (*report.verdict, *report.details):
        say(f"{sentence}\n")
    print_account(total, listed=list_account)
    say(f"Every number, with its command: {page} ({report.seconds:.0f} s)")


def _source(log: Path, procs: int | None, partition: int | None, drop_wide: bool) -> str:
    """Return the log and the options by which it is read, as `jobcast simulate` takes them."""
    parts = [str(log)]
    parts += ["--procs", str(procs)] if procs is not None else []
    parts += ["--partition", str(partition)] if partition is not None else []
    parts += ["--drop-wide"] if drop_wide else []
    return shlex.join(parts)
