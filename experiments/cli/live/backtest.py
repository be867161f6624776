"""`jobcast backtest`: what soft limits would have done, had they been on."""

from dataclasses import replace
from time import perf_counter
from typing import Any

from experiments import console
from experiments.cli.options import live as options
from experiments.cli.reading import caution_for, read
from experiments.cli.set_up import looks_of
from experiments.reports.figures import refuse_report_folder, report_folder
from experiments.reports.manifest import slug
from experiments.reports.page import PAGE, files_of, write_report
from experiments.runs.clusters import Pool
from experiments.site.backtest.backtest import Backtest
from experiments.site.backtest.report import report_on
from predictors.data.summary import Lack, prepare


def backtest(args: options.Backtest) -> None:
    begin, workers = perf_counter(), Pool(**vars(args.pool))
    caution = caution_for(args.site, args.ungraded)
    jobs, account = read(args.log, args.jobs_of.requests_from)
    with console.after_reading(account):
        looks = looks_of(args.looks, args.soft_limits)
        prepared = prepare(jobs, reading=account, **vars(args.jobs_of))
        asked = Backtest(
            prepared.used, args.predictor, args.budget, args.soft_limits, args.policy, args.seeds, looks, jobs
        )
        page_of = f"backtest-{slug(prepared.used.name)}"
        refuse_report_folder(args.out, page_of)
        with console.resumable():
            found = asked.run(args.out / page_of, workers)
        folder = report_folder(args.out, page_of)
    with console.working("Drawing"):
        made = report_on(asked, found)
        if caution and made.first is not None:
            made = replace(made, first=replace(made.first, remedy=caution))
        report, page = write_report(folder, made, begin), folder / PAGE
    total, lacks = account + prepared.account + asked.of_policy, prepared.lacks()
    lacks = (Lack("ungraded", caution, ""), *lacks) if caution else lacks
    if args.as_json:
        more: dict[str, Any] = {"lacks": [lack.to_dict() for lack in lacks], "account": total.to_dict()}
        console.print_json(report.to_json() | more | {"page": str(page), "files": files_of(folder)})
        return
    console.print_lacks(lacks)
    table = report.tables["month by month"]
    console.print_table("Month by month", list(table.columns), table.itertuples(index=False))
    for sentence in (*report.verdict, *report.details):
        console.say(f"{sentence}\n")
    console.print_account(total, listed=args.list_account)
    console.say(f"One page to read: {page} ({report.seconds:.0f} s)")
