"""`jobcast simulate`: what a policy would have done with a log, and who would have paid for it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_ceil import (
    Ceiling,
    CeilOptions,
    DilationBy,
    DilationSeed,
    Postponable,
    PostponeSeed,
    QueueOnly,
    ReleaseBelow,
    print_users,
)
from experiments.cli_machine import (
    AllocatorName,
    BigRuns,
    InterruptedRule,
    MachineOptions,
    OutageFile,
    PartitionFile,
    PerLeaf,
    Seed,
    outages_note,
    widths_note,
    with_big_runs,
)
from experiments.cli_site import CommandFile, SiteName, SiteOptions, ignored_note, placed

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

LOOK_AHEAD = (
    "The model learnt from this very log, its future included: this schedule says nothing about how good it is."
)


def simulate(
    log: Annotated[Path, typer.Argument(help="A job log in any known format.", metavar="LOG")],
    policy: Annotated[
        str, typer.Option(help="Who goes first, who may pass: fcfs, easy, easy-sjbf, default, ceil, cobalt, …")
    ] = "easy",
    estimates: Annotated[
        str, typer.Option(help="requested, clairvoyant, default, bold, a predictor's name, or a model's address.")
    ] = "requested",
    correction: Annotated[
        str,
        typer.Option(
            help="What replaces an expired estimate: requested, incremental or doubling; requests never expire."
        ),
    ] = "requested",
    budget: Annotated[
        float | None, typer.Option(help="Move a predictor's estimates until this share of the jobs runs longer: 0.05.")
    ] = None,
    procs: Annotated[int | None, typer.Option(help="Processors of the machine; by default as the log tells.")] = None,
    drop_wide: Annotated[bool, typer.Option("--drop-wide", help="Leave out jobs wider than the machine.")] = False,
    partition: Annotated[int | None, typer.Option(help="Only the jobs of this partition.")] = None,
    shake: Annotated[
        int | None,
        typer.Option(
            help="Move submissions by up to 60 s and run times by up to 3 %, by this seed: how sure is a figure?", min=0
        ),
    ] = None,
    kill: Annotated[bool, typer.Option(help="Stop jobs at their requested time.")] = True,
    allocator: AllocatorName = None,
    per_leaf: PerLeaf = None,
    partitions: PartitionFile = None,
    machine_seed: Seed = None,
    outages: OutageFile = None,
    interrupted: InterruptedRule = None,
    big_runs: BigRuns = False,
    ceiling: Ceiling = None,
    release_below: ReleaseBelow = None,
    queue_only: QueueOnly = False,
    postponable: Postponable = None,
    postpone_seed: PostponeSeed = None,
    dilation: DilationBy = None,
    dilation_seed: DilationSeed = None,
    site: SiteName = None,
    commands: CommandFile = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Write the schedule: .csv, .jobs.csv (Batsim's), .parquet, .swf or .swf.gz.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Draw the schedule into this folder.")] = None,
    by: Annotated[str | None, typer.Option(help="One more table: user, size, run-time, start or queue.")] = None,
    explain: Annotated[
        int | None, typer.Option(help="Tell why this job started when it did and not earlier.", metavar="JOB")
    ] = None,
    paranoid: Annotated[
        bool, typer.Option("--paranoid", help="Check the laws of the schedule again, without the engine.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a log's submissions under a scheduling policy and measure waits, slowdown and who pays."""
    from experiments.output import after_reading, print_account, print_json, working
    from experiments.second_look import check_by_name, explain_by_name, refuse_unknown_job
    from experiments.simulation import learnt_from, loaded, of_partition, run_by_name, table_by
    from predictors.data.detect import read_log
    from predictors.data.files import refuse_same
    from schedsim.exports import schedule_writer
    from schedsim.shaking import shaken

    full = CeilOptions(ceiling, release_below, queue_only, postponable, postpone_seed, dilation, dilation_seed)
    write = schedule_writer(schedule) if schedule is not None else None
    if schedule is not None:
        refuse_same(schedule, log)
    if figures is not None:
        from experiments.figures import report_folder

        report_folder(figures, ".")
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        cleaned, cleaning = of_partition(jobs, partition).for_simulation(procs, drop_wide)
        if shake is not None:
            cleaned = shaken(cleaned, shake)
        house, cleaned, unused = SiteOptions(site, commands).built(cleaned, policy)
        cleaning = cleaning + unused
        if explain is not None:
            refuse_unknown_job(cleaned, explain)
        machine = MachineOptions(allocator, per_leaf, partitions, machine_seed, outages, interrupted).built(cleaned)
        if house is not None and machine["allocator"] is not None:
            machine["allocator"] = placed(machine["allocator"], house, cleaned)
        rules = full.built(cleaned, policy, kill) | {"rules": house}
        kill, deadline = rules.pop("kill"), rules.pop("deadline")
        cleaning = cleaning + full.account(cleaned, deadline)
        if big_runs:
            size = int(cleaned.max_procs or 0)
            rules["rule"], house = with_big_runs(policy, rules["rule"], house, machine["outages"], size)
            rules["rules"] = house
        given = estimates if budget is not None else loaded(estimates)
        with working(f"Simulating {len(cleaned):,} jobs"):
            result, found = run_by_name(
                cleaned, policy, given, correction, kill=kill, budget=budget, deadline=deadline, **machine, **rules
            )
    found |= full.figures(result, rules["rule"])
    reason, checked = None, None
    if paranoid:
        with working("Checking the schedule"):
            checked = check_by_name(
                cleaned, result, policy, given, kill=kill, budget=budget, rule=rules["rule"], rules=house
            )
    if explain is not None:
        with working(f"Explaining job {explain}"):
            reason = explain_by_name(
                cleaned, result, explain, policy, given, correction, kill=kill, budget=budget, **machine, **rules
            )
    written = [schedule] if schedule is not None else []
    if write is not None and schedule is not None:
        write(result, cleaned, schedule)
    if figures is not None:
        from experiments.schedule_figures import draw_schedule

        with working("Drawing"):
            written += draw_schedule(figures, result)
    groups = {} if by is None else table_by(result, by, house)
    total = account + cleaning
    found |= {"partition": partition, "shake": shake}
    found["learnt_from_this_log"] = learnt_from(given, jobs, cleaned)
    if as_json:
        more: dict[str, Any] = {"by": groups} if by else {}
        more |= {"explanation": reason.to_dict()} if reason is not None else {}
        more |= {"paranoid": checked} if checked is not None else {}
        print_json(found | more | {"account": total.to_dict()})
        return
    _print(found)
    if "users" in found:
        print_users(found["users"])
    if (widths := widths_note(cleaned, result.workload.procs)) is not None:
        typer.echo(widths)
    if (lost := outages_note(found)) is not None:
        typer.echo(lost)
    if (late := ignored_note(found)) is not None:
        typer.echo(late)
    if by is not None:
        _print_groups(by, groups)
    if reason is not None:
        from schedsim.words import in_words

        typer.echo("\n".join(in_words(reason)))
    if checked is not None:
        _print_checked(checked)
    print_account(total)
    for path in written:
        typer.echo(f"Wrote {path}")
    if found["learnt_from_this_log"]:
        typer.echo(LOOK_AHEAD)


def _print(found: dict[str, Any]) -> None:
    from experiments.output import print_table
    from predictors.data.errors import counted

    within = "" if found["budget"] is None else f" within a budget of {found['budget']:g}"
    title = (
        f"{found['log']}: {found['policy']}, estimates {found['estimates']}{within}, correction {found['correction']}"
    )
    note = (
        f"{counted(found['n_jobs'], 'job')} on {counted(found['procs'], 'processor')}, "
        f"simulated in {found['engine_seconds']:.2f} s ({found['jobs_per_second']:,.0f} jobs/s)"
    )
    print_table(title, ("", "value", "unit"), [(name, found[key], unit) for name, key, unit in ROWS], note=note)


def _print_checked(checked: dict[str, Any]) -> None:
    typer.echo("Checked again, without the engine:")
    for law in checked["kept"]:
        typer.echo(f"  holds: {law}")
    for law, excuse in checked["left_out"].items():
        typer.echo(f"  not checked, since {excuse}: {law}")


def _print_groups(by: str, groups: dict[str, dict[str, Any]]) -> None:
    from experiments.output import print_table

    columns = list(next(iter(groups.values())))
    rows = [(name, *figures.values()) for name, figures in groups.items()]
    print_table(f"By {by}", (by, *(column.replace("_", " ") for column in columns)), rows)
