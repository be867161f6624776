"""`jobcast simulate`: what a policy would have done with a log, and who would have paid for it."""

from typing import Any, Final

from experiments.cli.options import simulate as options
from experiments.cli.reading import read
from experiments.cli.set_up import (
    check_ceil,
    fallback_note,
    ignored_note,
    looks_of,
    nodes_of,
    outages_note,
    preemption_note,
    print_resources,
    print_users,
    set_up,
    soft_limits_note,
    submissions_note,
    user_waits,
    widths_note,
)
from experiments.compare.measures import heading, titled
from experiments.console import after_reading, print_account, print_json, print_lacks, print_table, say, working
from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import (
    NamedSimulation,
    check_names,
    check_table,
    learnt_from,
    loaded,
    processors,
    refuse_unknown_job,
    table_by,
    usual_correction,
    without_no_queue,
)
from predictors.core.errors import counted
from predictors.data.cleaning import overran
from predictors.data.joblog import JobLog
from predictors.data.summary import date_of, lacks_for_schedules, prepare
from schedsim.explain.explain import Explanation
from schedsim.explain.sentences import in_words
from schedsim.results.exports import schedule_writer
from schedsim.results.metrics import figures_as_logged, past_request
from schedsim.workload.shaking import shaken

SHOWN: Final = (
    "mean_wait_s", "mean_bounded_slowdown", "median_bounded_slowdown", "p99_wait_s", "max_wait_s",
    "widest5_mean_wait_s", "makespan_s", "utilisation", "killed", "past_request",
)  # fmt: skip
"""Figures of a schedule that are printed."""

LOOK_AHEAD = (
    "The model learnt from this very log, its future included: this schedule says nothing about how good it is."
)


def simulate(args: options.Simulate) -> None:
    if args.figures is not None:
        import matplotlib  # noqa: F401  # where it is missing, that is said before the log is read

    write = schedule_writer(args.schedule) if args.schedule is not None else None
    policy = NamedPolicy.of(args.policy)
    estimates = policy.estimates if args.estimates is None else args.estimates
    correction = usual_correction(args.soft_limits) if args.correction is None else args.correction
    check_ceil(args.ceil)
    if args.by is not None:
        check_table(args.by, queues=True)
    jobs, account = read(args.log, args.jobs_of.requests_from)
    with after_reading(account):
        nodes = nodes_of(args.machine)
        size = {"procs": processors(args.jobs_of.procs, nodes)}
        prepared = prepare(jobs, reading=account, **vars(args.jobs_of) | size)
        cleaned = prepared.used
        if args.shake is not None:
            cleaned = shaken(cleaned, args.shake, args.kill)
        setting, left_out = set_up(
            cleaned, policy, args.kill, args.machine, args.ceil, args.at_site, nodes, args.jobs_of.drop_wide
        )
        cleaned = setting["log"]
        lacks = lacks_for_schedules(prepared.log, cleaned, prepared.cleaning + left_out, setting["kill"])
        lacks = (*prepared.unread, *without_no_queue(lacks, nodes))
        account = (account + prepared.account + left_out).using(len(cleaned))
        if args.by is not None:
            check_table(args.by, queues=setting["rules"] is not None)
        if args.explain is not None:
            refuse_unknown_job(cleaned, args.explain)
        given = estimates if args.budget is not None else loaded(estimates)
        check_names(policy, estimates, correction, args.budget, args.soft_limits)
        named = NamedSimulation(
            policy=policy,
            estimates=given,
            correction=correction,
            budget=args.budget,
            soft_limits=args.soft_limits,
            looks=looks_of(args.looks, args.soft_limits),
            **setting,
        )
        with working(f"Simulating {len(cleaned):,} jobs"):
            result, found = named.run()
    found |= {"past_request": past_request(result)} | user_waits(args.ceil, result, setting["rule"])
    reason, checked = None, None
    if args.paranoid:
        with working("Checking the schedule"):
            checked = named.check(result)
    if args.explain is not None:
        with working(f"Explaining job {args.explain}"):
            reason = named.explain(result, args.explain)
    written = [args.schedule] if args.schedule is not None else []
    if write is not None and args.schedule is not None:
        write(result, cleaned, args.schedule)
    if args.figures is not None:  # pandas and Matplotlib take longer to load than a schedule to make
        from experiments.reports.figures import report_folder
        from experiments.reports.schedules import draw_schedule

        with working("Drawing"):
            written += draw_schedule(report_folder(args.figures, "."), result)
    found |= {"partition": args.jobs_of.partition, "shake": args.shake, "requests_from": args.jobs_of.requests_from}
    logged = figures_as_logged(prepared.used)
    if logged is not None:
        logged["past_request"] = int(overran(prepared.used).sum())
    found["as_logged"] = logged
    found["learnt_from_this_log"] = learnt_from(given, jobs, cleaned) or policy.tuned_on(jobs, prepared.used)
    groups = {} if args.by is None else table_by(result, args.by, named.rules, cleaned)
    if args.as_json:
        more: dict[str, Any] = {"by": groups} if args.by else {}
        more |= {"explanation": reason.to_dict()} if reason is not None else {}
        more |= {"paranoid": checked} if checked is not None else {}
        print_json({"lacks": [lack.to_dict() for lack in lacks]} | found | more | {"account": account.to_dict()})
        return
    print_lacks(lacks)
    _print(found)
    _print_notes(found, widths_note(cleaned, result.workload.procs))
    if args.by is not None:
        _print_groups(args.by, groups)
    if reason is not None:
        _print_reason(reason, cleaned)
    if checked is not None:
        _print_checked(checked)
    print_account(account, listed=args.list_account)
    for path in written:
        say(f"Wrote {path}")
    if found["learnt_from_this_log"]:
        say(LOOK_AHEAD)


def _print_notes(found: dict[str, Any], widths: str | None) -> None:
    """Print what options add to the figures: users' waits, jobs that were widened, outages, commands that came late."""
    print_resources(found)
    if "users" in found:
        print_users(found["users"])
    notes = outages_note, preemption_note, submissions_note, ignored_note, fallback_note, soft_limits_note
    for note in (widths, *(note(found) for note in notes)):
        if note is not None:
            say(note)


def _print_reason(reason: Explanation, log: JobLog) -> None:
    def clock(second: int) -> str:
        date = date_of(log, second - log.origin)
        return f"t={second}" if date is None else date[:19].replace("T", " ")

    say("\n".join(in_words(reason, clock=None if log.epoch is None else clock)))


def _print(found: dict[str, Any]) -> None:
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
    columns = list(next(iter(groups.values())))
    rows = [(name, *figures.values()) for name, figures in groups.items()]
    print_table(f"By {by}", (by, *map(heading, columns)), rows)
