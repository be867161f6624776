"""`jobcast simulate`: what a policy would have done with a log, and who would have paid for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import JobsOptions, Json, ListAccount, SoftLimits, StopAtRequest, grouped
from experiments.cli.simulate_options import (
    CeilOptions,
    MachineOptions,
    SiteOptions,
    fallback_note,
    ignored_note,
    outages_note,
    print_resources,
    print_users,
    set_up,
    soft_limits_note,
    widths_note,
)
from experiments.compare.measures import heading, titled
from experiments.console import say

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from schedsim.explain.explain import Explanation

SHOWN: Final = (
    "mean_wait_s", "mean_bounded_slowdown", "median_bounded_slowdown", "p99_wait_s", "max_wait_s",
    "widest5_mean_wait_s", "makespan_s", "utilisation", "killed", "past_request",
)  # fmt: skip
"""Figures of a schedule that are printed."""

LOOK_AHEAD = (
    "The model learnt from this very log, its future included: this schedule says nothing about how good it is."
)


@grouped
def simulate(
    log: Annotated[Path, typer.Argument(help="A job log in any known format.", metavar="LOG")],
    policy: Annotated[
        str,
        typer.Option(
            help="Queue order and backfilling: fcfs, easy, easy-sjbf, careful, ceil, cobalt, … Most sites run easy; "
            "the first alternative to try is careful, with --estimates careful; balanced bounds every wait by a due "
            "date. agent:FILE is one that jobcast tune made; slurm:FILE is a slurm.conf's own order, with files of "
            "sacctmgr behind commas."
        ),
    ] = "easy",
    estimates: Annotated[
        str | None,
        typer.Option(
            help="What the policy plans by: requested; careful or balanced (nothing to train; for the policies of "
            "these names); bold (as careful, but short jobs gain more and wide ones wait longer); clairvoyant (the "
            "true run times); a predictor's name; a model's address; or by role, order=NAME+candidates=NAME.",
            show_default="requested; an agent's as its file names",
        ),
    ] = None,
    correction: Annotated[
        str | None,
        typer.Option(
            help="What replaces an expired estimate: requested, incremental, doubling, slurm, pbs or plus-hour; "
            "requests never expire.",
            show_default="requested; that of --soft-limits",
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Move a predictor's estimates until this share of the jobs runs longer: 0.05.")
    ] = None,
    soft_limits: SoftLimits = None,
    shake: Annotated[
        int | None,
        typer.Option(
            help="Move submissions by up to 60 s and run times by up to 3 %, by this seed: how sure is a figure?", min=0
        ),
    ] = None,
    kill: StopAtRequest = True,
    *,
    jobs_of: JobsOptions,
    machine: MachineOptions,
    ceil: CeilOptions,
    at_site: SiteOptions,
    schedule: Annotated[
        Path | None,
        typer.Option(help="Write the schedule: .csv, .jobs.csv (Batsim's), .parquet, .swf or .swf.gz.", writable=True),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw the schedule into this folder.", writable=True, file_okay=False)
    ] = None,
    by: Annotated[str | None, typer.Option(help="One more table: user, size, run-time, start or queue.")] = None,
    explain: Annotated[
        int | None, typer.Option(help="Tell why this job started when it did and not earlier.", metavar="JOB")
    ] = None,
    paranoid: Annotated[
        bool, typer.Option("--paranoid", help="Check the laws of the schedule again, without the engine.")
    ] = False,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Replay a log's submissions under a scheduling policy and measure waits, slowdown and who pays."""
    from experiments.console import after_reading, print_account, print_json, print_lacks, working
    from experiments.runs.on_nodes import processors, without_no_queue
    from experiments.runs.simulate import (
        NamedSimulation,
        check_names,
        check_table,
        learnt_from,
        loaded,
        refuse_unknown_job,
        table_by,
        tuned_on,
        usual_correction,
        usual_estimates,
    )
    from predictors.data.cleaning import overran
    from predictors.data.formats.detect import read_log
    from predictors.data.summary import lacks_for_schedules, prepare
    from schedsim.results.exports import schedule_writer
    from schedsim.results.metrics import figures_as_logged, past_request
    from schedsim.workload.shaking import shaken

    write = schedule_writer(schedule) if schedule is not None else None
    estimates = usual_estimates(policy) if estimates is None else estimates
    correction = usual_correction(soft_limits) if correction is None else correction
    if by is not None:
        check_table(by, queues=True)
    with working(f"Reading {log}"):
        jobs, account = read_log(log)
    with after_reading(account):
        nodes = machine.declared()
        size = {"procs": processors(jobs_of.procs, nodes)}
        prepared = prepare(jobs, reading=account, **vars(jobs_of) | size)
        cleaned = prepared.used
        if shake is not None:
            cleaned = shaken(cleaned, shake, kill)
        options, left_out = set_up(cleaned, policy, kill, machine, ceil, at_site, nodes, jobs_of.drop_wide)
        cleaned = options["log"]
        lacks = lacks_for_schedules(prepared.log, cleaned, prepared.cleaning + left_out, options["kill"])
        lacks = (*prepared.unread, *without_no_queue(lacks, nodes))
        account = (account + prepared.account + left_out).using(len(cleaned))
        if by is not None:
            check_table(by, queues=options["rules"] is not None)
        if explain is not None:
            refuse_unknown_job(cleaned, explain)
        given = estimates if budget is not None else loaded(estimates)
        check_names(policy, estimates, correction, budget, soft_limits)
        named = NamedSimulation(
            policy=policy, estimates=given, correction=correction, budget=budget, soft_limits=soft_limits, **options
        )
        with working(f"Simulating {len(cleaned):,} jobs"):
            result, found = named.run()
    found |= {"past_request": past_request(result)} | ceil.figures(result, options["rule"])
    reason, checked = None, None
    if paranoid:
        with working("Checking the schedule"):
            checked = named.check(result)
    if explain is not None:
        with working(f"Explaining job {explain}"):
            reason = named.explain(result, explain)
    written = [schedule] if schedule is not None else []
    if write is not None and schedule is not None:
        write(result, cleaned, schedule)
    if figures is not None:
        from experiments.reports.figures import report_folder
        from experiments.reports.schedules import draw_schedule

        with working("Drawing"):
            written += draw_schedule(report_folder(figures, "."), result)
    found |= {"partition": jobs_of.partition, "shake": shake, "requests_from": jobs_of.requests_from}
    logged = figures_as_logged(prepared.used)
    if logged is not None:
        logged["past_request"] = int(overran(prepared.used).sum())
    found["as_logged"] = logged
    found["learnt_from_this_log"] = learnt_from(given, jobs, cleaned) or tuned_on(policy, jobs, prepared.used)
    groups = {} if by is None else table_by(result, by, named.rules, cleaned)
    if as_json:
        more: dict[str, Any] = {"by": groups} if by else {}
        more |= {"explanation": reason.to_dict()} if reason is not None else {}
        more |= {"paranoid": checked} if checked is not None else {}
        print_json({"lacks": [lack.to_dict() for lack in lacks]} | found | more | {"account": account.to_dict()})
        return
    print_lacks(lacks)
    _print(found)
    _print_notes(found, widths_note(cleaned, result.workload.procs))
    if by is not None:
        _print_groups(by, groups)
    if reason is not None:
        _print_reason(reason, cleaned)
    if checked is not None:
        _print_checked(checked)
    print_account(account, listed=list_account)
    for path in written:
        say(f"Wrote {path}")
    if found["learnt_from_this_log"]:
        say(LOOK_AHEAD)


def _print_notes(found: dict[str, Any], widths: str | None) -> None:
    """Print what options add to the figures: users' waits, jobs that were widened, outages, commands that came late."""
    print_resources(found)
    if "users" in found:
        print_users(found["users"])
    for note in (widths, outages_note(found), ignored_note(found), fallback_note(found), soft_limits_note(found)):
        if note is not None:
            say(note)


def _print_reason(reason: "Explanation", log: "JobLog") -> None:
    from predictors.data.summary import date_of
    from schedsim.explain.sentences import in_words

    def clock(second: int) -> str:
        date = date_of(log, second)
        return f"t={second}" if date is None else date[:19].replace("T", " ")

    say("\n".join(in_words(reason, clock=None if log.epoch is None else clock)))


def _print(found: dict[str, Any]) -> None:
    from experiments.console import print_table
    from predictors.core.errors import counted

    within = "" if found["budget"] is None else f" within a budget of {found['budget']:g}"
    soft = "" if found.get("soft_limits") is None else f" as soft limits of {found['soft_limits']}"
    title = (
        f"{found['log']}: {found['policy']}, estimates {found['estimates']}{within}{soft}, correction "
        f"{found['correction']}"
    )
    note = (
        f"{counted(found['n_jobs'], 'job')} on {counted(found['procs'], 'processor')}, "
        f"simulated in {found['engine_seconds']:.2f} s ({found['jobs_per_second']:,.0f} jobs/s)"
    )
    rows, logged = titled(found, SHOWN), found["as_logged"]
    if logged is None:
        print_table(title, ("", "value", "unit"), rows, note=note)
        return
    beside = [(title, value, logged.get(name), unit) for (title, value, unit), name in zip(rows, SHOWN, strict=True)]
    print_table(title, ("", "simulated", "in the log", "unit"), beside, note=note)


def _print_checked(checked: dict[str, Any]) -> None:
    say("Checked again, without the engine:")
    for law in checked["kept"]:
        say(f"  holds: {law}")
    for law, excuse in checked["left_out"].items():
        say(f"  not checked, since {excuse}: {law}")


def _print_groups(by: str, groups: dict[str, dict[str, Any]]) -> None:
    from experiments.console import print_table

    columns = list(next(iter(groups.values())))
    rows = [(name, *figures.values()) for name, figures in groups.items()]
    print_table(f"By {by}", (by, *map(heading, columns)), rows)
