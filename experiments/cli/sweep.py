"""`jobcast sweep`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import (
    DropWide,
    Json,
    MachineFile,
    PoolOptions,
    Procs,
    RequestsFrom,
    SoftLimits,
    grouped,
    resumable,
)
from experiments.compare.measures import heading
from experiments.console import say

if TYPE_CHECKING:
    from experiments.sweeps.sweep import Sweep

Names = Annotated[str, typer.Option(help="Names, separated by commas.")]
LISTS: Final = ("policies", "estimates", "corrections", "predictors", "by")
OWN: Final = ("kind", "seeds", "procs", "machine", "drop_wide", "requests_from", "budget", "soft_limits", "train")
DECLARED: Final = (*LISTS, *OWN)


@grouped
def sweep(
    files: Annotated[list[Path], typer.Argument(help="FILE.toml that declares it, or job logs.", metavar="FILE…")],
    policies: Annotated[
        str,
        typer.Option(
            help="Names, separated by commas; slurm:FILE,FILE stands last, as all that follows it are its files."
        ),
    ] = "",
    estimates: Names = "",
    corrections: Names = "",
    predictors: Annotated[str, typer.Option(help="To evaluate or train; names, separated by commas.")] = "",
    kind: Annotated[str | None, typer.Option(help="simulate (default), evaluate or train.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Shakes of each log (default 10), or seeds of predictors.", min=0)
    ] = None,
    procs: Procs = None,
    machine: MachineFile = None,
    drop_wide: DropWide = False,
    requests_from: RequestsFrom = None,
    budget: Annotated[float | None, typer.Option(help="Share of jobs that may run longer than estimated.")] = None,
    soft_limits: SoftLimits = None,
    train: Annotated[float | None, typer.Option(help="Share of the jobs, the earliest, to learn from.")] = None,
    by: Annotated[str, typer.Option(help="Also figures by size, user, run-time or start.")] = "",
    beside: Annotated[str | None, typer.Option(help="Case that the others are compared with; else the first.")] = None,
    measure: Annotated[str | None, typer.Option(help="Figure that decides: mean_bounded_slowdown, sse_s2, …")] = None,
    *,
    pool: PoolOptions,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of results; the same sweep goes on in it.", writable=True, file_okay=False),
    ] = None,
    track: Annotated[
        bool | None, typer.Option("--track/--no-track", help="Write it down in MLflow; by default trainings alone.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run logs x cases x seeds, and judge which case is certainly better, and who pays.

    What is done is kept in the folder of results: after a kill, the same command goes on there.
    """
    from experiments.compare.sentences import document
    from experiments.console import print_json, working
    from experiments.reports.page import PAGE, files_of, write_report
    from experiments.sweeps.plan import plan
    from experiments.sweeps.report import caution, changes, compared, report_of
    from experiments.sweeps.run import run_plan

    given = {name: value for name, value in locals().items() if name in DECLARED}
    workers = pool.built()
    declared = _declared(files, given, beside, measure)
    with working("Reading the logs"):
        planned = plan(declared)
    folder = out or Path("reports") / f"{_stem(files)}-{planned.identity()[:8]}"
    with resumable():
        found = run_plan(planned, workers, folder)
    with working("Judging"):
        comparisons, choice = judged = compared(found, declared.beside, declared.measure)
        report = report_of(found, folder, judged)
        write_report(folder, report)
    tracked = None
    if track or (track is None and found.kind == "train"):
        from experiments.sweeps.tracking import track_sweep

        with working("Writing it down in MLflow"):
            tracked = track_sweep(found, planned, folder)
    if as_json:
        print_json(
            {
                "cautions": caution(found),
                "kind": found.kind,
                "folder": str(folder),
                "runs": len(found.runs),
                "judgements": [document(comparison) for comparison in comparisons],
                "choice": document(choice) if choice else None,
                "tables": {name: table.to_dict(orient="records") for name, table in report.tables.items()},
                "files": files_of(folder),
                "mlflow_run": tracked,
                "about": found.about,
            }
        )
        return
    cautions = caution(found)
    for sentence in cautions:
        say(sentence)
    _print(report.tables, report.verdict[len(cautions) :])
    for log in found.about["logs"]:
        say(changes(log))
    say(f"Wrote {len(found.runs):,} runs to {folder}; read {folder / PAGE}")
    if tracked:
        say(f"Written down in MLflow as run {tracked}")


def _declared(files: list[Path], given: dict[str, Any], beside: str | None, measure: str | None) -> "Sweep":
    """Return the sweep that a TOML file declares, or that logs and options do."""
    from dataclasses import replace

    from experiments.cli.evaluate import names_of
    from experiments.sweeps.sweep import LogFile, Sweep, first_seeds
    from predictors.core.compressed import read_text
    from predictors.core.errors import JobcastError
    from schedsim.sites.slurm.files import names_of_policies

    wanted: dict[str, Any] = {name: v for name, v in (("beside", beside), ("measure", measure)) if v is not None}
    set_ones = {name: v for name, v in given.items() if v is not None and v is not False and v != ""}
    if files[0].suffix == ".toml":
        if len(files) > 1 or set_ones:
            odd = f"--{next(iter(set_ones)).replace('_', '-')}" if set_ones else str(files[1])
            raise JobcastError(f"{files[0]}: declares the whole sweep; leave out {odd}, or put it into the file.")
        text = read_text(files[0], "a sweep, a TOML file")
        return replace(Sweep.from_toml(text, str(files[0]), files[0].parent), **wanted)
    procs, seeds, rule, machine = (set_ones.pop(name, None) for name in ("procs", "seeds", "requests_from", "machine"))
    nodes = None if machine is None else str(machine)
    declared: dict[str, Any] = {name: names_of(v) if name in LISTS else v for name, v in set_ones.items()}
    if "policies" in set_ones:
        declared["policies"] = names_of_policies(set_ones["policies"])
    first, usual = (1, 10) if declared.get("kind", "simulate") == "simulate" else (0, 1)
    drawn = first_seeds(usual if seeds is None else seeds, first)
    logs = tuple(LogFile(str(path), procs, requests_from=rule, machine=nodes) for path in files)
    return Sweep(logs=logs, seeds=drawn, **declared, **wanted)


def _stem(files: list[Path]) -> str:
    return files[0].stem if files[0].suffix == ".toml" else "sweep"


def _print(tables: Any, verdict: tuple[str, ...]) -> None:
    from experiments.console import print_table

    table = tables["by case and log"]
    columns = [heading(name) for name in table.columns]
    print_table("Medians over the seeds", columns, table.itertuples(index=False))
    for sentence in verdict:
        say(sentence)
