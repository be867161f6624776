"""`jobcast experiment`: a paper's tables and figures, made from a job log into a folder of reports."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.options import (
    MOST_SEED,
    Json,
    ListAccount,
    MachineFile,
    Partition,
    PoolOptions,
    RequestsFrom,
    grouped,
    resumable,
)
from experiments.compare.measures import heading
from experiments.console import say

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from predictors.data.report import ReadingReport
    from predictors.data.summary import Lack

DEFAULT_JOBS = 10_000


@grouped
def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="Which one: reis, runtime, backfilling, stress, start-times, live, logstudy, rush, rush-dose, "
            "repeated-runs, ceil, cobalt, dras.",
            metavar="NAME",
        ),
    ],
    log: Annotated[Path | None, typer.Option(help="A job log; by default the seeded synthetic one.")] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder of reports; the experiment makes its own in it.", writable=True, file_okay=False),
    ] = Path("reports"),
    partition: Partition = None,
    procs: Annotated[int | None, typer.Option(help="Processors of the machine to simulate.")] = None,
    machine: MachineFile = None,
    requests_from: RequestsFrom = None,
    predictors: Annotated[
        str,
        typer.Option(
            help="runtime: study these alone, names separated by commas; its open questions stay aside. rush: ask the "
            "classifier at this address, models:/NAME@ALIAS or a folder."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of everything drawn by chance.", min=0, max=MOST_SEED)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller models: the whole in a minute or two.")] = False,
    *,
    pool: PoolOptions,
    train: Annotated[str, typer.Option(help="dras: how long to train on, from the log's begin: 2mo, 6w, 45d.")] = "",
    test: Annotated[
        str, typer.Option(help="dras: how long to test on, after a validation half as long: rest, 9mo.")
    ] = "",
    seeds: Annotated[int | None, typer.Option(help="dras, stress: how many seeds.", min=1, max=1000)] = None,
    orders: Annotated[int | None, typer.Option(help="dras: how many orders of job sets, 1 to 3.", min=1, max=3)] = None,
    job_sets: Annotated[
        int | None,
        typer.Option(help="dras: how many job sets to train on; by default the paper's 100.", min=3, max=1000),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="dras: tenth of the machine, or full: the paper's networks, DRAS-PG and DRAS-DQL alone, hours each."
        ),
    ] = "",
    runs: Annotated[
        Path | None,
        typer.Option(help="repeated-runs: a table of runs, CSV or Parquet, see docs/how-to/repeated-runs.md."),
    ] = None,
    experiments: Annotated[
        str,
        typer.Option(
            help="rush: run these rows of Table II alone, as ADAA,SS. rush-dose: run these parts alone: tau, "
            "placement, source, episodes."
        ),
    ] = "",
    ask_seconds: Annotated[
        int | None, typer.Option(help="rush: how long an ask takes, in the rows where it costs [s]; default 2.")
    ] = None,
    probe_seconds: Annotated[
        int | None, typer.Option(help="rush: how long the probes take, in the rows where they cost [s]; default 20.")
    ] = None,
    counter_lag: Annotated[
        int | None, typer.Option(help="rush: counters come so late, in the rows where asks cost [s]; default 60.")
    ] = None,
    thresholds: Annotated[
        str, typer.Option(help="rush: skip thresholds of the rows on what asking costs; default 10,100.")
    ] = "",
    failures: Annotated[Path | None, typer.Option(help="logstudy: a CSV of failures for the log (RAS).")] = None,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Make a paper's tables and figures from a job log, PNG, SVG and CSV each.

    All but reis, start-times and logstudy can be shared by workers; after a kill, the same command goes on with them.
    """
    from contextlib import nullcontext

    from experiments.cli.evaluate import names_of
    from experiments.console import after_reading, print_account, print_json, print_lacks, print_table, working
    from experiments.registry import MANY, check_options, check_shared, experiment_by_name, perform
    from experiments.reports.figures import report_folder
    from experiments.reports.page import PAGE, files_of
    from experiments.runs.setting import WITHOUT_LOG, Setting
    from predictors.core.compressed import read_bytes
    from predictors.core.errors import JobcastError
    from predictors.data.cleaning import RequestsFrom, of_partition
    from predictors.data.report import ReadingReport
    from predictors.data.summary import lacks_of_requests
    from schedsim.machine.node_groups import read_machine

    experiment_by_name(name)  # an unknown name is refused before a log is read
    own = {"train": train, "test": test, "seeds": seeds, "orders": orders, "job_sets": job_sets, "scale": scale}
    about = {"partition": partition, "procs": procs, "predictors": predictors, "failures": failures}
    asking = {
        "runs": runs,
        "experiments": names_of(experiments),
        "ask_seconds": ask_seconds,
        "probe_seconds": probe_seconds,
        "counter_lag": counter_lag,
        "thresholds": _whole_numbers(thresholds),
    }
    check_options(name, {**about, **own, **asking, "requests_from": requests_from, "machine": machine})
    rule = None if requests_from is None else RequestsFrom(requests_from)
    if name in WITHOUT_LOG and log is not None:
        raise JobcastError(f"{name} looks at no log; leave --log out.")
    workers = pool.built()
    check_shared(name, workers)
    with working("Reading the log"):
        jobs, account = _log(name, log, seed)
    lacks: tuple[Lack, ...] = ()
    if rule is not None:
        part = of_partition(jobs, partition)[0]
        made = rule.apply(part)[1]
        jobs, account, lacks = rule.apply(jobs)[0], account + made, lacks_of_requests(len(part), made)
    if failures is not None:
        read_bytes(failures)  # refused before anything is written
    nodes = None if machine is None else read_machine(machine)
    folder = report_folder(out, name)
    what = f"Running {name}" + ("" if name in WITHOUT_LOG else f" on {len(jobs):,} jobs")
    setting = Setting(
        jobs,
        folder,
        seed,
        quick,
        partition,
        procs,
        names_of(predictors),
        workers,
        failures,
        train,
        test,
        seeds,
        orders,
        job_sets,
        scale,
        requests_from,
        machine=nodes,
        **asking,  # type: ignore[arg-type]
    )
    with after_reading(account), resumable() if name in MANY else nullcontext(), working(what):
        report = perform(name, setting)
    if name not in WITHOUT_LOG:
        part, others = of_partition(jobs, partition)
        account += others + (report.account or ReadingReport(jobs.name).using(len(part)))
    if as_json:
        told = {} if rule is None else {"lacks": [lack.to_dict() for lack in lacks]}
        print_json(report.to_json() | told | {"files": files_of(folder), "account": account.to_dict()})
        return
    print_lacks(lacks)
    for title, table in report.tables.items():
        print_table(f"{title} ({report.log})", [heading(str(c)) for c in table.columns], table.itertuples(index=False))
    if name not in WITHOUT_LOG:
        print_account(account, listed=list_account)
    for sentence in (*report.notes, *report.verdict):
        say(sentence)
    say(f"Wrote {len(files_of(folder))} files to {folder} in {report.seconds:.0f} s; read {folder / PAGE}")


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `--thresholds`."""
    from predictors.core.errors import JobcastError

    parts = [part.strip() for part in text.split(",")] if text else []
    for part in parts:
        if not (part.isascii() and part.isdigit() and len(part) < 10):
            raise JobcastError(f"--thresholds must be whole numbers separated by commas, as 10,100; got {part!r}.")
    return tuple(map(int, parts))


def report(
    folder: Annotated[Path, typer.Argument(help="What an experiment or a sweep wrote.", metavar="DIR")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the document that the page is made from.")] = False,
) -> None:
    """Make one HTML page, DIR/report.html, from an experiment's or a sweep's folder; it needs no network."""
    from experiments.console import print_json
    from experiments.reports.manifest import read_manifest
    from experiments.reports.page import write_page

    page = write_page(folder)
    if as_json:
        print_json(read_manifest(folder) | {"page": str(page)})
        return
    say(f"Wrote {page} ({page.stat().st_size / 1000:,.0f} kB)")


def _log(name: str, path: Path | None, seed: int) -> "tuple[JobLog, ReadingReport]":
    from experiments.registry import OWN_LOGS
    from predictors.data.formats.detect import read_log
    from predictors.data.report import ReadingReport
    from predictors.data.synthetic.generate import generate_log

    if path is not None:
        return read_log(path)
    if name in OWN_LOGS:
        made: tuple[JobLog, ReadingReport] = import_module(OWN_LOGS[name]).default_log(seed)
        return made
    return generate_log(DEFAULT_JOBS, seed=seed), ReadingReport("synthetic log")
