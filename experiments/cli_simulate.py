"""`jobcast simulate`: what a policy would have done with a log, and who would have paid for it."""

from pathlib import Path
from typing import Annotated, Any

import typer

ROWS = (
    ("mean wait", "mean_wait_s", "s"),
    ("mean bounded slowdown", "mean_bounded_slowdown", ""),
    ("median bounded slowdown", "median_bounded_slowdown", ""),
    ("99th percentile of wait", "p99_wait_s", "s"),
    ("longest wait", "max_wait_s", "s"),
    ("mean wait of the widest 5 %", "widest5_mean_wait_s", "s"),
    ("makespan", "makespan_s", "s"),
    ("utilisation", "utilisation", ""),
    ("killed at the requested time", "killed", "jobs"),
)


def simulate(
    log: Annotated[Path, typer.Argument(help="A job log in any known format.", metavar="LOG")],
    policy: Annotated[
        str, typer.Option(help="Who goes first, who may pass: fcfs, easy, easy-sjbf, default, …")
    ] = "easy",
    estimates: Annotated[
        str, typer.Option(help="requested, clairvoyant, default, bold, a predictor's name, or a model's address.")
    ] = "requested",
    correction: Annotated[
        str, typer.Option(help="What replaces an expired estimate: requested, incremental or doubling.")
    ] = "requested",
    procs: Annotated[int | None, typer.Option(help="Processors of the machine; by default as the log tells.")] = None,
    drop_wide: Annotated[bool, typer.Option("--drop-wide", help="Leave out jobs wider than the machine.")] = False,
    kill: Annotated[bool, typer.Option(help="Stop jobs at their requested time.")] = True,
    schedule: Annotated[
        Path | None, typer.Option(help="Write the schedule: .csv, .jobs.csv (Batsim's), .parquet, .swf or .swf.gz.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Draw the schedule into this folder.")] = None,
    by: Annotated[str | None, typer.Option(help="One more table: user, size or start.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a log's submissions under a scheduling policy and measure waits, slowdown and who pays."""
    from experiments.output import print_account, print_json, working
    from experiments.simulation import run_by_name, table_by
    from predictors.data.detect import read_log
    from schedsim.exports import schedule_writer

    write = schedule_writer(schedule) if schedule is not None else None
    if figures is not None:
        from experiments.figures import report_folder

        report_folder(figures, ".")
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
        cleaned, cleaning = jobs.for_simulation(procs, drop_wide)
    with working(f"Simulating {len(cleaned):,} jobs"):
        result, found = run_by_name(cleaned, policy, estimates, correction, kill=kill)
    written = [schedule] if schedule is not None else []
    if write is not None and schedule is not None:
        write(result, cleaned, schedule)
    if figures is not None:
        from experiments.schedule_figures import draw_schedule

        with working("Drawing"):
            written += draw_schedule(figures, result)
    groups = {} if by is None else table_by(result, by)
    total = account + cleaning
    if as_json:
        print_json(found | ({"by": groups} if by else {}) | {"account": total.to_dict()})
        return
    _print(found)
    if by is not None:
        _print_groups(by, groups)
    print_account(total)
    for path in written:
        typer.echo(f"Wrote {path}")


def _print(found: dict[str, Any]) -> None:
    from experiments.output import print_table

    title = f"{found['log']}: {found['policy']}, estimates {found['estimates']}, correction {found['correction']}"
    note = (
        f"{found['n_jobs']:,} jobs on {found['procs']:,} processors, "
        f"simulated in {found['engine_seconds']:.2f} s ({found['jobs_per_second']:,.0f} jobs/s)"
    )
    print_table(title, ("", "value", "unit"), [(name, found[key], unit) for name, key, unit in ROWS], note=note)


def _print_groups(by: str, groups: dict[str, dict[str, Any]]) -> None:
    from experiments.output import print_table

    columns = list(next(iter(groups.values())))
    rows = [(name, *figures.values()) for name, figures in groups.items()]
    print_table(f"By {by}", (by, *(column.replace("_", " ") for column in columns)), rows)
