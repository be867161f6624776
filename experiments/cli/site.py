"""`jobcast site …`: the folder of a site under Slurm as one file, its twin's grade, and what it says of changes."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from experiments.cli.live.start import in_words, queue_now
from experiments.cli.options import site as options
from experiments.cli.options.shared import seconds_of
from experiments.cli.reading import read
from experiments.console import after_reading, print_account, print_json, print_table, resumable, say, working
from experiments.reports.figures import refuse_report_folder, report_folder
from experiments.reports.manifest import slug
from experiments.reports.page import PAGE, files_of, write_report
from experiments.reports.report import Report
from experiments.runs.clusters import Pool
from experiments.runs.simulate import ready_for
from experiments.site.advise.sentences import span
from experiments.site.grade.grade import Grading
from experiments.site.grade.kept import caution_of, keep_grade, place_of
from experiments.site.grade.report import CONDITIONS, report_on
from experiments.site.grade.sides import Side, from_eligible
from experiments.site.inventory.gaps import has_partition, lacking_partitions
from experiments.site.inventory.inventory import inventory_of, what_helps
from experiments.site.live.shapes import Answer, Places, Shape, answer
from experiments.site.live.starts import Past, obstacle
from experiments.site.whatif.changes import ASKED, changed, conf_of, kind_named
from experiments.site.whatif.report import FIRST, SEARCH
from experiments.site.whatif.report import report_on as report_on_change
from experiments.site.whatif.whatif import Compared, Question, Target
from predictors.core.errors import JobcastError, counted
from predictors.core.files import refuse_unwritable
from predictors.data.report import Finding, ReadingReport
from predictors.data.slurm.folder import read_folder
from predictors.data.slurm.site import log_of, read_site
from predictors.data.summary import UNREAD
from predictors.schedulers.soft_limit import PENDING
from schedsim.machine.slurm_nodes import machine_of


def grade(args: options.Grade) -> None:
    begin, workers = perf_counter(), Pool(**vars(args.pool))
    refuse_unwritable(place_of(args.path))
    site = read_site(args.path)
    jobs, account = read(log_of(args.path, site))
    with after_reading(account):
        from_eligible(jobs)  # a log without waits is refused at once
        side = Side.of(site, str(args.path))
        side = side if args.procs is None else replace(side, nodes=None)
        here = has_partition(site, jobs)
        if not here.all():
            text = "ran in partitions that the slurm.conf does not have any more"
            gone = Finding("removed-partition", "dropped", text, int((~here).sum()))
            account += ReadingReport(account.source, (gone,))
        own = jobs.select(here)
        ready = ready_for(side.nodes, own, args.procs, drop_wide=True, reading=account, sites=(side.files,))
        lost = sum(account.count(rule) for rule in UNREAD)
        asked = Grading(ready, side, lacking_partitions(site), lost, jobs)
        page_of = f"grade-{slug(site.name)}"
        refuse_report_folder(args.out, page_of)
        with resumable():
            found = asked.run(args.out / page_of, workers)
        folder = report_folder(args.out, page_of)
    helps = what_helps(site)
    with working("Drawing"):
        report = write_report(folder, report_on(found, helps), begin)
    if args.procs is None:
        worst = found.figures.worst
        keep_grade(args.path, found.grade, "" if worst is None else worst.name, helps, folder / PAGE)
    _tell(args, report, folder, account + ready.account, (CONDITIONS, "by group"), grade=found.grade)


def _tell(
    args: options.Grade | options.Whatif, report: Report, folder: Path, account: ReadingReport, tables: Iterable[str],
    **about: str,
) -> None:  # fmt: skip
    """Print a report's verdict and some of its tables, or all as JSON with what else there is about it."""
    page = folder / PAGE
    if args.as_json:
        files = {"page": str(page), "files": files_of(folder), "account": account.to_dict()}
        print_json(report.to_json() | about | files)
        return
    for sentence in report.verdict:
        say(f"{sentence}\n")
    for name in tables:
        table = report.tables.get(name)
        if table is not None and len(table):
            print_table(name.capitalize(), list(table.columns), table.itertuples(index=False))
    print_account(account, listed=args.list_account)
    say(f"Every number: {page} ({report.seconds:.0f} s)")


def whatif(args: options.Whatif) -> None:
    begin, path = perf_counter(), str(args.path)
    target = _target(args)
    changes = [*(args.sets or ()), *(f"nodes {one}" for one in args.nodes or ())]
    changes += [f"a drain of {one}" for one in args.drain or ()]
    others = {"policy": args.policy, "estimates": args.estimates, "soft limits": args.soft_limits}
    changes += [f"{what} {name}" for what, name in others.items() if name is not None]
    if not changes:
        raise JobcastError("Name a change: --set, --nodes, --drain, --policy, --estimates or --soft-limits.")
    site, caution = read_site(args.path), caution_of(args.path, args.ungraded)
    conf_of(site)  # without one there is nothing to change
    before = Side.of(site, path)

    def side(number: int = 1) -> Side:
        nodes = [one.replace(ASKED, str(number)) for one in args.nodes or ()]
        made = changed(site, path, args.sets or (), nodes, args.drain or ())
        return Side.of(made, path).under(args.policy, args.estimates, args.soft_limits)

    after = side()
    jobs, account = read(log_of(args.path, site))
    with after_reading(account):
        ready = ready_for(before.nodes, jobs, args.procs, drop_wide=True, reading=account, sites=(before.files,))
        page_of = f"whatif-{slug(site.name)}"
        refuse_report_folder(args.out, page_of)
        asked = Question(ready.used, before, args.shakes, args.out / page_of, Pool(**vars(args.pool)))
        asked.check(after)
        found: dict[int, Compared] = {}

        def shaken(number: int) -> list[float]:
            found[number] = asked.compared(side(number), f"With {number}")
            return found[number].shaken(figure)

        with resumable():
            if target is None:
                compared = asked.compared(after)
            else:
                figure, kind = target.figure, next(one for one in args.nodes or () if ASKED in one)
                target.search(shaken, 4 * len(kind_named(site, path, kind.removesuffix(f"+{ASKED}"))))
                number = max(target.tried) if target.smallest is None else target.smallest
                compared, changes = found[number], [one.replace(ASKED, str(number)) for one in changes]
        folder = report_folder(args.out, page_of)
    with working("Drawing"):
        report = write_report(folder, report_on_change(compared, ", ".join(changes), caution, target), begin)
    _tell(args, report, folder, account + ready.account, (SEARCH, FIRST), caution=caution)


def _target(args: options.Whatif) -> Target | None:
    """Return the target that a number of nodes is searched for, if one is."""
    asked = [one for one in args.nodes or () if ASKED in one]
    if len(asked) != (args.target is not None) or not all(one.endswith(f"+{ASKED}") for one in asked):
        raise JobcastError(
            f"--target goes with one number of nodes that is searched, --nodes 'n+{ASKED}' --target mean_wait=2h."
        )
    if args.target is None:
        return None
    figure, _, most = args.target.partition("=")
    return Target(figure, seconds_of(most, "--target"))


def start(args: options.Start) -> None:
    if not args.jobs and args.shape is None:
        raise JobcastError(
            'Name a JOB that waits, or a shape: --if "2 nodes, 4 GPUs each, 3 h"; see jobcast start, too.'
        )
    site = read_site(args.path)
    shape = None if args.shape is None else Shape.of(args.shape, args.user)
    conf, made = conf_of(site), machine_of(site, str(args.path))
    queue = queue_now(args.queue)
    past = Past(None if site.log is None else read(log_of(args.path, site))[0])
    places = Places(conf, None if made is None else made.machine, queue, past)
    named = [queue.job(name) for name in args.jobs or ()]
    for one in named:
        why = f"it is {one.state}" if one.state != PENDING else obstacle(one, queue.now)
        if why:
            raise JobcastError(f"No start can be forecast for job {one.key}: {why}.")
    with working("Forecasting"):
        found = [] if shape is None else [answer(places, args.shape or "", shape)]
        found += [answer(places, f"job {one.key}", Shape.of_job(one), one) for one in named]
    if args.as_json:
        print_json({"now": queue.now, "answers": [one.to_dict() for one in found]})
        return
    for each in found:
        _print_starts(each, queue.now)
    say(
        "Processors of a partition are planned: nodes, GPUs and memory are checked, not placed; later jobs and "
        f"priorities are not foreseen. Run times as of {len(past.end):,} ended jobs."
    )


def _print_starts(found: Answer, now: int) -> None:
    rows = [(name, *(in_words(at - now) for at in (one.p10, one.p50, one.p90, one.by_requests)), one.ahead)
            for name, one in found.starts.items()]  # fmt: skip
    if rows:
        print_table(f"{found.job}: starts in", ("partition", "P10", "P50", "P90", "by requests", "ahead"), rows)
        say(f"Best: partition {rows[0][0]}, {rows[0][2]} (P50).")
    else:
        say(f"{found.job}: no partition takes it.")
    for limit, name, one in found.less:
        say(f"If it asks for {span(limit)}: partition {name}, {in_words(one.p50 - now)}.")
    for name, why in found.refused.items():
        say(f"Not in {name}: {why}.")


def import_folder(args: options.Import) -> None:
    out = Path(f"{args.folder.resolve().name or 'site'}.site") if args.out is None else args.out
    refuse_unwritable(out)
    imported = read_folder(args.folder, out, read)
    found = inventory_of(imported, out)
    imported.site.write(out)
    if args.as_json:
        account = {} if imported.account is None else {"account": imported.account.to_dict()}
        print_json({"site": str(out), **found, **account})
        return
    for name in ("files", "nodes", "partitions", "reservations", "not_simulated"):
        _print_rows(name.capitalize().replace("_", " "), found[name])
    people = ", ".join(counted(found[one], one.removesuffix("s")) for one in ("users", "accounts"))
    say(f"{people}; QOS: {', '.join(found['qos']) or 'none'}.")
    if found["jobs"] is not None:
        _print_rows("Jobs", [found["jobs"]])
    if not found["not_simulated"]:
        say("Not simulated: nothing of these files changes schedules and is left out.")
    for one in found["missing"]:
        say(f"Missing: {one['what']}. Get it: {one['command']}")
    if imported.account is not None:
        print_account(imported.account, listed=args.list_account)
    say(f"Wrote {out}. Next: jobcast simulate --site {out}")


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table, if there are any; what is not told is a dash."""
    cells = ([", ".join(v) if isinstance(v, list) else v for v in row.values()] for row in rows)
    if rows:
        heads = [key.replace("_", " ") for key in rows[0]]
        print_table(title, heads, (["-" if v in (None, "") else v for v in row] for row in cells))
