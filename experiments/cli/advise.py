"""`jobcast advise`: what another policy or a predictor would gain on a site's log, and who would wait longer."""

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from experiments.cli.options import (
    DropWide,
    Json,
    ListAccount,
    Partition,
    PoolOptions,
    Procs,
    RequestsFrom,
    grouped,
    resumable,
)
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
    agent: Annotated[
        str | None, typer.Option(help="Try an agent file too, made by jobcast tune on earlier months.", metavar="FILE")
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
    requests_from: RequestsFrom = None,
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
    from experiments.console import after_reading, print_account, print_json, print_lacks, working
    from experiments.reports.figures import report_folder
    from experiments.reports.manifest import slug
    from experiments.reports.page import files_of, write_report
    from experiments.runs.simulate import learnt_from, loaded, tuned_on
    from predictors.core.errors import JobcastError
    from predictors.data.cleaning import RequestsFrom
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import prepare

    begin, workers = perf_counter(), pool.built()
    if requests_from is not None:
        RequestsFrom(requests_from)
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        prepared = prepare(jobs, procs, drop_wide, partition, requests_from, account)
        cleaned, lacks = prepared.used, prepared.lacks()
        question = Question(cleaned, current, seeds, measure, predictor, agent, lacks)
        if predictor and learnt_from(loaded(predictor), jobs, cleaned):
            raise JobcastError(
                f"{predictor} learnt from this very log, its future included: nothing can be advised from that. Name "
                "the predictor instead, which starts knowing nothing and learns as jobs end."
            )
        for policy in (question.cases[0].policy, "" if agent is None else f"agent:{agent.removeprefix('agent:')}"):
            if tuned_on(policy, jobs, cleaned):
                raise JobcastError(
                    f"{policy} was tuned on a part of this very log: nothing can be advised from that. Advise on the "
                    "months that follow; the page of jobcast tune tells what it gains on the rest of this log."
                )
        folder = report_folder(out, f"advise-{slug(cleaned.name)}")
        with resumable():
            found = question.run(folder, workers)
    with working("Drawing"):
        advice, source = question.advice(found), _source(log, procs, partition, drop_wide, requests_from)
        report = report_on(advice, found, cleaned, folder, source, begin)
        page = write_report(folder, report)
    total = account + prepared.account
    if as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in lacks]}
        more |= {"advice": advice.to_json(), "account": total.to_dict(), "page": str(page), "files": files_of(folder)}
        print_json(report.to_json() | more)
        return
    print_lacks(() if advice.forbidden else lacks)
    for sentence in (*report.verdict, *report.details):
        say(f"{sentence}\n")
    print_account(total, listed=list_account)
    say(f"Every number, with its command: {page} ({report.seconds:.0f} s)")


def _source(log: Path, procs: int | None, partition: int | None, drop_wide: bool, requests_from: str | None) -> str:
    """Return the log and the options by which it is read, as `jobcast simulate` takes them."""
    parts = [str(log)]
    parts += ["--procs", str(procs)] if procs is not None else []
    parts += ["--partition", str(partition)] if partition is not None else []
    parts += ["--drop-wide"] if drop_wide else []
    parts += ["--requests-from", requests_from] if requests_from is not None else []
    return shlex.join(parts)
