"""`jobcast log …`: look at job logs, convert, make and download them."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.options import MOST_SEED, JobsOptions, Json, ListAccount, Log, grouped
from experiments.console import say

if TYPE_CHECKING:
    from predictors.data.formats.archive import Progress
    from predictors.data.report import ReadingReport

app = typer.Typer(name="log", no_args_is_help=True, help="Look at job logs, convert, make and download them.")

Out = Annotated[
    Path,
    typer.Argument(help="File to write; its name ends in .swf, .swf.gz or .parquet.", metavar="OUT", writable=True),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse the log at the first row that is not as it should be.")]
Zone = Annotated[
    str | None,
    typer.Option(help="Zone of the local times that the log writes, such as America/Chicago.", metavar="ZONE"),
]


@app.command()
def info(log: Log, as_json: Json = False, strict: Strict = False, time_zone: Zone = None) -> None:
    """Show what is in a job log, and what of it could not be used."""
    from experiments.console import print_account, print_json, print_lacks, working
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import lacks_of, lacks_of_reading, next_command, summarise

    with working(f"Reading {log}"):
        jobs, account = read_log(log, strict, time_zone)
        figures, account = summarise(jobs), account.using(len(jobs))
        lacks = (*lacks_of_reading(jobs, account), *lacks_of(jobs))
        then = next_command(jobs, shlex.quote(str(log)), lacks)
    if as_json:
        more = {"lacks": [lack.to_dict() for lack in lacks], "next": then}
        print_json({"log": str(log), **figures, **more, "account": account.to_dict()})
    else:
        print_lacks(lacks)
        _print_figures(figures)
        print_account(account, listed=True)
        typer.echo(f"Next: {then}")  # in one line, however long: it is to be copied into a shell


@app.command()
@grouped
def convert(
    log: Log,
    out: Out,
    begin: Annotated[
        str, typer.Option("--from", help="Only jobs submitted from then on; a date, or Unix time.", metavar="WHEN")
    ] = "",
    until: Annotated[
        str, typer.Option(help="The log as it stood then: later submissions, starts and ends left out.", metavar="WHEN")
    ] = "",
    name_key: Annotated[
        Path | None,
        typer.Option(help="File with a secret key: keyed hashes stand for the names of people and programs."),
    ] = None,
    *,
    jobs_of: JobsOptions,
    list_account: ListAccount = False,
    as_json: Json = False,
    strict: Strict = False,
    time_zone: Zone = None,
) -> None:
    """Write a job log in another format: SWF (.swf, .swf.gz) or Parquet (.parquet), by the name of OUT."""
    from experiments.console import working
    from predictors.data.cleaning import of_partition, on_machine, with_requests
    from predictors.data.formats.combine import between
    from predictors.data.formats.detect import read_log, writer_for
    from predictors.service.pseudonyms import Pseudonymiser, pseudonymous

    write = writer_for(out)
    key = None if name_key is None else Pseudonymiser.read(name_key)
    with working(f"Converting {log}"):
        jobs, account = read_log(log, strict, time_zone)
        jobs, cut = between(jobs, begin or None, until or None)
        account += cut
        jobs, others = of_partition(jobs, jobs_of.partition)
        jobs, made = with_requests(jobs, jobs_of.requests_from)
        account += others + made
        if jobs_of.procs is not None or jobs_of.drop_wide:
            jobs, wide = on_machine(jobs, jobs_of.procs, jobs_of.drop_wide)
            account += wide
        if key is not None:
            jobs, hashed = pseudonymous(jobs, key)
            account += hashed
        lost = write(jobs, out)
    _print_written(out, len(jobs), account + lost, as_json, list_account)


@app.command(name="import")
def import_table(
    file: Annotated[Path, typer.Argument(help="Table of jobs: CSV with any delimiter, or Parquet.", metavar="FILE")],
    out: Annotated[
        Path | None,
        typer.Argument(
            help="File to write, .parquet, .swf or .swf.gz; without it the table is read and nothing written.",
            metavar="[OUT]",
            writable=True,
        ),
    ] = None,
    table_map: Annotated[
        Path | None, typer.Option("--map", help="TOML that says which column is what.", metavar="MAP.toml")
    ] = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Print a map made by looking at the table, to be confirmed.")
    ] = False,
    list_account: ListAccount = False,
    as_json: Json = False,
    strict: Strict = False,
    time_zone: Zone = None,
) -> None:
    """Read a table of jobs in any columns by a map, and write it as a job log; --propose makes the map.

    Units that contradict one another are refused, with the unit that would fit. The map travels in the log's header.
    """
    from experiments.console import working
    from predictors.core.compressed import read_bytes, read_text
    from predictors.core.declarations import parse_toml
    from predictors.core.errors import JobcastError
    from predictors.data.formats.detect import FORMATS, writer_for
    from predictors.data.formats.tables.propose import propose as proposed
    from predictors.data.formats.tables.read import parse_table
    from predictors.data.formats.tables.table_map import header_of, read_map

    if propose == (table_map is not None):
        raise JobcastError("Give one of --propose, for a map of the table, and --map MAP.toml, to read it by one.")
    data = read_bytes(file)
    if table_map is None:
        if out is not None:
            raise JobcastError(f"--propose prints a map and writes no log; leave {out} out.")
        known = next((form.title for name, form in FORMATS.items() if name != "parquet" and form.recognises(data)), "")
        if known:
            raise JobcastError(f"{file}: is a job log ({known}), which needs no map: jobcast log info {file}.")
        typer.echo(proposed(data, str(file)), nl=False)
        return
    write = None if out is None else writer_for(out)
    text = read_text(table_map, "a map of columns")
    about = read_map(parse_toml(text, str(table_map)), str(table_map))
    with working(f"Reading {file}"):
        jobs, account = parse_table(data, str(file), about, strict, time_zone, header_of(text))
        if write is not None and out is not None:
            account += write(jobs, out)
    _print_written(out or file, len(jobs), account, as_json, list_account or out is None)


@app.command()
def anonymise(
    log: Log,
    out: Out,
    name_key: Annotated[Path, typer.Option(help="File with a secret key of 16 to 64 bytes, for you alone.")],
    list_account: ListAccount = False,
    as_json: Json = False,
    strict: Strict = False,
    time_zone: Zone = None,
) -> None:
    """Write a job log without names: keyed hashes for names, shifted dates, new numbers.

    Hashes of stems stay, so similar names can still be recognised; the documentation says what else can be inferred.
    """
    from experiments.console import working
    from predictors.data.formats.detect import read_log, writer_for
    from predictors.service.pseudonyms import Pseudonymiser, anonymous

    write = writer_for(out)
    key = Pseudonymiser.read(name_key)
    with working(f"Anonymising {log}"):
        jobs, account = read_log(log, strict, time_zone)
        hidden, done = anonymous(jobs, key)
        lost = write(hidden, out)
    _print_written(out, len(hidden), account + done + lost, as_json, list_account)


@app.command()
def join(
    out: Out,
    logs: Annotated[list[Path], typer.Argument(help="Job logs of one machine, such as months.", metavar="LOG...")],
    list_account: ListAccount = False,
    as_json: Json = False,
    strict: Strict = False,
    time_zone: Zone = None,
) -> None:
    """Write one log from several of the same machine: joined by name, no job counted twice."""
    from experiments.console import working
    from predictors.data.formats.combine import read_logs
    from predictors.data.formats.detect import writer_for

    write = writer_for(out)
    with working(f"Joining {len(logs)} logs"):
        jobs, account = read_logs(logs, strict, time_zone)
        lost = write(jobs, out)
    _print_written(out, len(jobs), account + lost, as_json, list_account)


@app.command()
def generate(
    out: Out,
    jobs: Annotated[int, typer.Option(help="Number of jobs.")] = 5000,
    seed: Annotated[int, typer.Option(help="Equal seeds, equal logs.", min=0, max=MOST_SEED)] = 0,
    procs: Annotated[int, typer.Option(help="Processors of the machine.")] = 256,
    load: Annotated[float, typer.Option(help="Offered load, a share of the machine.")] = 0.85,
    users: Annotated[int, typer.Option(help="Number of users.")] = 64,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Make a seeded synthetic job log after Lublin & Feitelson (2003), with users who repeat themselves."""
    from experiments.console import working
    from predictors.data.formats.detect import writer_for
    from predictors.data.synthetic.generate import generate_log

    write = writer_for(out)
    with working(f"Making {jobs:,} jobs"):
        log = generate_log(jobs, seed=seed, procs=procs, load=load, users=users)
        lost = write(log, out)
    _print_written(out, len(log), lost, as_json, list_account)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the log, or enough of its beginning.", metavar="[NAME]")] = "",
    base_url: Annotated[str, typer.Option(help="The archive or a mirror of it.", metavar="URL")] = "",
    as_json: Json = False,
) -> None:
    """Download a log of the Parallel Workloads Archive; without NAME, list the names.

    The file is kept in JOBCAST_HOME/logs, or in the user's cache folder, and checked against its first download.
    """
    from experiments.console import print_json
    from predictors.core.errors import JobcastError
    from predictors.data.formats.archive import ARCHIVE, BASE_URL, fetch_log

    if not name:
        if base_url:
            raise JobcastError("--base-url says where to download from; name the log too.")
        if as_json:
            print_json({"names": list(ARCHIVE)})
        else:
            say("\n".join(ARCHIVE))
        return
    with _download_bar(name) as progress:
        got = fetch_log(name, base_url or BASE_URL, progress=progress)
    if as_json:
        print_json({"name": got.name, "url": got.url, "path": str(got.path), "sha256": got.sha256})
    else:
        typer.echo(got.path)


@contextmanager
def _download_bar(name: str) -> Iterator["Progress | None"]:
    """Show on a terminal's stderr how far a download is; say nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda here, whole: bar.update(task, completed=here, total=whole)


def _print_written(out: Path, jobs: int, account: "ReadingReport", as_json: bool, listed: bool) -> None:
    from experiments.console import print_account, print_json
    from predictors.core.errors import counted

    account = account.using(jobs)
    if as_json:
        print_json({"out": str(out), "jobs": jobs, "account": account.to_dict()})
        return
    say(f"{out}: {counted(jobs, 'job')}")
    print_account(account, listed=listed)


def _print_figures(figures: dict[str, Any]) -> None:
    from experiments.console import print_table
    from predictors.core.errors import percent
    from predictors.data.summary import QUANTILES

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
