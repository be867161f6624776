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
    policy: Annotated[str, typer.Option(help="Who goes first and who may pass: fcfs, easy, easy-sjbf, …")] = "easy",
    estimates: Annotated[
        str, typer.Option(help="requested, clairvoyant, a predictor's name, or a model's address.")
    ] = "requested",
    correction: Annotated[
        str, typer.Option(help="What replaces an expired estimate: requested, incremental or doubling.")
    ] = "requested",
    procs: Annotated[int | None, typer.Option(help="Processors of the machine; by default as the log tells.")] = None,
    drop_wide: Annotated[bool, typer.Option("--drop-wide", help="Leave out jobs wider than the machine.")] = False,
    kill: Annotated[bool, typer.Option(help="Stop jobs at their requested time.")] = True,
    schedule: Annotated[Path | None, typer.Option(help="Write the schedule there as CSV, one line a job.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a log's submissions under a scheduling policy and measure waits, slowdown and who pays."""
    from experiments.output import print_account, print_json, working
    from experiments.simulation import run_by_name
    from predictors.data.detect import read_log

    with working(f"Reading {log}"):
        jobs, account = read_log(log)
        cleaned, cleaning = jobs.for_simulation(procs, drop_wide)
    with working(f"Simulating {len(cleaned):,} jobs"):
        result, figures = run_by_name(cleaned, policy, estimates, correction, kill=kill)
    if schedule is not None:
        result.write_csv(schedule)
    total = account + cleaning
    if as_json:
        print_json(figures | {"account": total.to_dict()})
    else:
        _print(figures, schedule)
        print_account(total)


def _print(figures: dict[str, Any], schedule: Path | None) -> None:
    from experiments.output import print_table

    title = (
        f"{figures['log']}: {figures['policy']}, estimates {figures['estimates']}, correction {figures['correction']}"
    )
    note = (
        f"{figures['n_jobs']:,} jobs on {figures['procs']:,} processors, "
        f"simulated in {figures['engine_seconds']:.2f} s ({figures['jobs_per_second']:,.0f} jobs/s)"
    )
    print_table(title, ("", "value", "unit"), [(name, figures[key], unit) for name, key, unit in ROWS], note=note)
    if schedule is not None:
        typer.echo(f"Wrote the schedule to {schedule}")
