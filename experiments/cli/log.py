"""`jobcast log …`: look at job logs, convert, make and download them."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from experiments.cli.options import log as options
from experiments.cli.reading import read
from experiments.console import print_account, print_json, print_lacks, print_table, say, working
from predictors.core.compressed import read_bytes, read_text
from predictors.core.declarations import parse_toml
from predictors.core.errors import JobcastError, counted, percent
from predictors.data.cleaning import of_partition, on_machine, with_requests
from predictors.data.formats.archive import ARCHIVE, BASE_URL, Progress, fetch_log
from predictors.data.formats.combine import between, read_logs
from predictors.data.formats.detect import FORMATS, read_log, writer_for
from predictors.data.formats.tables.propose import propose as proposed
from predictors.data.formats.tables.read import parse_table
from predictors.data.formats.tables.table_map import header_of, read_map
from predictors.data.report import ReadingReport
from predictors.data.summary import QUANTILES, lacks_of, lacks_of_reading, next_command, summarise
from predictors.data.synthetic.generate import generate_log
from predictors.service.pseudonyms import Pseudonymiser, anonymous, pseudonymous


def info(args: options.Info) -> None:
    with working(f"Reading {args.log}"):
        jobs, account = read_log(args.log, args.strict, args.time_zone)
        figures, account = summarise(jobs), account.using(len(jobs))
        lacks = (*lacks_of_reading(jobs, account), *lacks_of(jobs))
        then = next_command(jobs, shlex.quote(str(args.log)), lacks)
    if args.as_json:
        more = {"lacks": [lack.to_dict() for lack in lacks], "next": then}
        print_json({"log": str(args.log), **figures, **more, "account": account.to_dict()})
    else:
        print_lacks(lacks)
        _print_figures(figures)
        print_account(account, listed=True)
        typer.echo(f"Next: {then}")  # in one line, however long: it is to be copied into a shell


def convert(args: options.Convert) -> None:
    write = writer_for(args.out)
    key = None if args.name_key is None else Pseudonymiser.read(args.name_key)
    jobs, account = read(args.log, args.jobs_of.requests_from, strict=args.strict, time_zone=args.time_zone)
    with working(f"Converting {args.log}"):
        jobs, cut = between(jobs, args.begin or None, args.until or None)
        account += cut
        jobs, others = of_partition(jobs, args.jobs_of.partition)
        jobs, made = with_requests(jobs, args.jobs_of.requests_from)
        account += others + made
        if args.jobs_of.procs is not None or args.jobs_of.drop_wide:
            jobs, wide = on_machine(jobs, args.jobs_of.procs, args.jobs_of.drop_wide)
            account += wide
        if key is not None:
            jobs, hashed = pseudonymous(jobs, key)
            account += hashed
        lost = write(jobs, args.out)
    _print_written(args.out, len(jobs), account + lost, args.as_json, args.list_account)


def import_table(args: options.Import) -> None:
    if args.propose == (args.table_map is not None):
        raise JobcastError("Give one of --propose, for a map of the table, and --map MAP.toml, to read it by one.")
    data = read_bytes(args.file)
    if args.table_map is None:
        if args.out is not None:
            raise JobcastError(f"--propose prints a map and writes no log; leave {args.out} out.")
        known = next((form.title for name, form in FORMATS.items() if name != "parquet" and form.recognises(data)), "")
        if known:
            raise JobcastError(
                f"{args.file}: is a job log ({known}), which needs no map: jobcast log info {args.file}."
            )
        typer.echo(proposed(data, str(args.file)), nl=False)
        return
    write = None if args.out is None else writer_for(args.out)
    text = read_text(args.table_map, "a map of columns")
    about = read_map(parse_toml(text, str(args.table_map)), str(args.table_map))
    with working(f"Reading {args.file}"):
        jobs, account = parse_table(data, str(args.file), about, args.strict, args.time_zone, header_of(text))
        if write is not None and args.out is not None:
            account += write(jobs, args.out)
    _print_written(args.out or args.file, len(jobs), account, args.as_json, args.list_account or args.out is None)


def anonymise(args: options.Anonymise) -> None:
    write = writer_for(args.out)
    key = Pseudonymiser.read(args.name_key)
    with working(f"Anonymising {args.log}"):
        jobs, account = read_log(args.log, args.strict, args.time_zone)
        hidden, done = anonymous(jobs, key)
        lost = write(hidden, args.out)
    _print_written(args.out, len(hidden), account + done + lost, args.as_json, args.list_account)


def join(args: options.Join) -> None:
    write = writer_for(args.out)
    with working(f"Joining {len(args.logs)} logs"):
        jobs, account = read_logs(args.logs, args.strict, args.time_zone)
        lost = write(jobs, args.out)
    _print_written(args.out, len(jobs), account + lost, args.as_json, args.list_account)


def generate(args: options.Generate) -> None:
    write = writer_for(args.out)
    with working(f"Making {args.jobs:,} jobs"):
        log = generate_log(args.jobs, seed=args.seed, procs=args.procs, load=args.load, users=args.users)
        lost = write(log, args.out)
    _print_written(args.out, len(log), lost, args.as_json, args.list_account)


def fetch(args: options.Fetch) -> None:
    if not args.name:
        if args.base_url:
            raise JobcastError("--base-url says where to download from; name the log too.")
        if args.as_json:
            print_json({"names": list(ARCHIVE)})
        else:
            say("\n".join(ARCHIVE))
        return
    with _download_bar(args.name) as progress:
        got = fetch_log(args.name, args.base_url or BASE_URL, progress=progress)
    if args.as_json:
        print_json({"name": got.name, "url": got.url, "path": str(got.path), "sha256": got.sha256})
    else:
        typer.echo(got.path)


@contextmanager
def _download_bar(name: str) -> Iterator[Progress | None]:
    """Show on a terminal's stderr how far a download is; say nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.DownloadColumn())
    with progress.Progress(*columns, progress.TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda here, whole: bar.update(task, completed=here, total=whole)


def _print_written(out: Path, jobs: int, account: ReadingReport, as_json: bool, listed: bool) -> None:
    account = account.using(jobs)
    if as_json:
        print_json({"out": str(out), "jobs": jobs, "account": account.to_dict()})
        return
    say(f"{out}: {counted(jobs, 'job')}")
    print_account(account, listed=listed)


def _print_figures(figures: dict[str, Any]) -> None:
    span = figures["span_s"]
    distinct, known = figures["distinct"], figures["known_share"]
    facts = [
        ("jobs", figures["jobs"]),
        ("span", None if span is None else f"{span / 86_400:,.1f} days"),
        ("first submission", figures["first_submission"]),
        ("last submission", figures["last_submission"]),
        ("processors", figures["max_procs"]),
        ("nodes", figures["max_nodes"]),
        *(
            (title, figures[key])
            for title, key in (
                ("GPUs", "max_gpus"),
                ("jobs that ask for GPUs", "jobs_with_gpus"),
                ("jobs that ask for memory", "jobs_with_memory"),
            )
            if figures[key] is not None
        ),
        ("time zone", figures["time_zone"]),
        *((f"{column}s", distinct[column]) for column in distinct),
        ("utilisation", None if figures["utilisation"] is None else percent(figures["utilisation"], 1)),
    ]
    print_table(figures["name"], ("", "value"), facts)
    spread = [
        (name.replace("_s", " (s)").replace("_", " "), *(quantiles or {}).values())
        for name, quantiles in figures["quantiles"].items()
        if quantiles
    ]
    print_table("How jobs are spread", ("", *QUANTILES), spread)
    partly = [
        (column, percent(share, 2) if share else "none")
        for column, share in known.items()
        if share is not None and share < 1
    ]
    print_table("Known for less than all jobs", ("column", "known"), partly)
