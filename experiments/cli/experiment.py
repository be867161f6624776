"""`jobcast experiment NAME`: a paper's tables and figures, made from a job log into a folder of reports."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import fields
from importlib import import_module
from typing import Any, Final

from experiments.cli.options import experiment as options
from experiments.cli.options.shared import names_of
from experiments.compare.measures import heading
from experiments.console import (
    after_reading,
    print_account,
    print_json,
    print_lacks,
    print_table,
    resumable,
    say,
    working,
)
from experiments.registry import MANY, NEEDED, OWN_LOGS, experiment_by_name, perform
from experiments.reports.figures import report_folder
from experiments.reports.manifest import read_manifest
from experiments.reports.page import PAGE, files_of, write_page
from experiments.runs.clusters import Pool
from experiments.runs.policies import machine_at
from experiments.runs.setting import Setting
from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError, require
from predictors.data.cleaning import RequestsFrom, of_partition
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack, lacks_of_requests
from predictors.data.synthetic.generate import generate_log

DEFAULT_JOBS: Final = 10_000


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")] if text else []
    for part in parts:
        if not (part.isascii() and part.isdigit() and len(part) < 10):
            raise JobcastError(f"--thresholds must be whole numbers separated by commas, as 10,100; got {part!r}.")
    return tuple(map(int, parts))


MADE: Final[Mapping[str, Callable[[Any], Any]]] = {  # parts of a setting that are made from an option
    "pool": lambda pool: Pool(**vars(pool)),
    "machine": machine_at,
    "predictors": names_of,
    "experiments": names_of,
    "thresholds": _whole_numbers,
}
PARTS: Final = {field.name for field in fields(Setting)} - {"log"}


def experiment(args: options.Experiment) -> None:
    given = {name: value for name, value in vars(args).items() if name in PARTS and value is not None}
    given |= {name: make(given[name]) for name, make in MADE.items() if name in given}
    require(*NEEDED.get(args.name, ()))
    experiment_by_name(args.name)  # what it imports is there
    on_log = isinstance(args, options.FromLog)
    rule = RequestsFrom(given["requests_from"]) if "requests_from" in given else None
    with working("Reading the log"):
        jobs, account = _log(args)
    lacks: tuple[Lack, ...] = ()
    if rule is not None:
        part = of_partition(jobs, given.get("partition"))[0]
        made = rule.apply(part)[1]
        jobs, account, lacks = rule.apply(jobs)[0], account + made, lacks_of_requests(len(part), made)
    if "failures" in given:
        read_bytes(given["failures"])  # refused before anything is written
    folder = report_folder(args.out, args.name)
    what = f"Running {args.name}" + (f" on {len(jobs):,} jobs" if on_log else "")
    with after_reading(account), resumable() if args.name in MANY else nullcontext(), working(what):
        report = perform(args.name, Setting(jobs, folder, **given))
    if on_log:
        part, others = of_partition(jobs, given.get("partition"))
        account += others + (report.account or ReadingReport(jobs.name).using(len(part)))
    if args.as_json:
        told = {} if rule is None else {"lacks": [lack.to_dict() for lack in lacks]}
        print_json(report.to_json() | told | {"files": files_of(folder), "account": account.to_dict()})
        return
    print_lacks(lacks)
    for title, table in report.tables.items():
        print_table(f"{title} ({report.log})", [heading(str(c)) for c in table.columns], table.itertuples(index=False))
    if isinstance(args, options.FromLog):
        print_account(account, listed=args.list_account)
    for sentence in (*report.notes, *report.verdict):
        say(sentence)
    say(f"Wrote {len(files_of(folder))} files to {folder} in {report.seconds:.0f} s; read {folder / PAGE}")


def report(args: options.Report) -> None:
    page = write_page(args.folder)
    if args.as_json:
        print_json(read_manifest(args.folder) | {"page": str(page)})
        return
    say(f"Wrote {page} ({page.stat().st_size / 1000:,.0f} kB)")


def _log(args: options.Experiment) -> tuple[JobLog, ReadingReport]:
    if isinstance(args, options.FromLog) and args.log is not None:
        return read_log(args.log)
    if args.name in OWN_LOGS:
        made: tuple[JobLog, ReadingReport] = import_module(OWN_LOGS[args.name]).default_log(args.seed)
        return made
    return generate_log(DEFAULT_JOBS, seed=args.seed), ReadingReport("synthetic log")
