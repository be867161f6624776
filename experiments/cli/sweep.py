"""`jobcast sweep`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from experiments.cli.options import sweep as options
from experiments.cli.options.shared import names_of
from experiments.compare.measures import heading
from experiments.compare.sentences import document
from experiments.console import print_json, print_table, resumable, say, working
from experiments.reports.page import PAGE, files_of, write_report
from experiments.runs.clusters import Pool
from experiments.sweeps.plan import plan
from experiments.sweeps.report import caution, changes, compared, report_of
from experiments.sweeps.run import run_plan
from experiments.sweeps.sweep import LogFile, Sweep, first_seeds
from experiments.sweeps.tracking import track_sweep
from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError
from schedsim.sites.slurm.files import names_of_policies

LISTS: Final = ("policies", "estimates", "corrections", "predictors", "by")
OWN: Final = ("kind", "seeds", "procs", "machine", "drop_wide", "requests_from", "budget", "soft_limits", "train")
DECLARED: Final = (*LISTS, *OWN)


def sweep(args: options.Sweep) -> None:
    given = {name: value for name, value in vars(args).items() if name in DECLARED}
    workers = Pool(**vars(args.pool))
    declared = _declared(args.files, given, args.beside, args.measure)
    with working("Reading the logs"):
        planned = plan(declared)
    folder = args.out or Path("reports") / f"{_stem(args.files)}-{planned.identity()[:8]}"
    with resumable():
        found = run_plan(planned, workers, folder)
    with working("Judging"):
        comparisons, choice = judged = compared(found, declared.beside, declared.measure)
        report = write_report(folder, report_of(found, folder, judged))
    tracked = None
    if args.track or (args.track is None and found.kind == "train"):
        with working("Writing it down in MLflow"):
            tracked = track_sweep(found, planned, folder)
    if args.as_json:
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


def _declared(files: list[Path], given: dict[str, Any], beside: str | None, measure: str | None) -> Sweep:
    """Return the sweep that a TOML file declares, or that logs and options do."""
    wanted: dict[str, Any] = {name: v for name, v in (("beside", beside), ("measure", measure)) if v is not None}
    set_ones = {name: v for name, v in given.items() if v is not None and v is not False}
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
    for name in LISTS:
        if name in declared and not declared[name]:
            raise JobcastError(f"--{name} names nothing; name some behind commas, or leave it out.")
    drawn = first_seeds(usual if seeds is None else seeds, first)
    logs = tuple(LogFile(str(path), procs, requests_from=rule, machine=nodes) for path in files)
    return Sweep(logs=logs, seeds=drawn, **declared, **wanted)


def _stem(files: list[Path]) -> str:
    return files[0].stem if files[0].suffix == ".toml" else "sweep"


def _print(tables: Any, verdict: tuple[str, ...]) -> None:
    table = tables["by case and log"]
    columns = [heading(name) for name in table.columns]
    print_table("Medians over the seeds", columns, table.itertuples(index=False))
    for sentence in verdict:
        say(sentence)
