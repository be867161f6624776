"""`jobcast site …`: the folder of a site under Slurm as one file, and how near its twin comes to its log."""

from pathlib import Path
from time import perf_counter
from typing import Any

from experiments.cli.options import site as options
from experiments.cli.reading import read
from experiments.console import after_reading, print_account, print_json, print_table, resumable, say, working
from experiments.reports.figures import refuse_report_folder, report_folder
from experiments.reports.manifest import slug
from experiments.reports.page import PAGE, files_of, write_report
from experiments.runs.clusters import Pool
from experiments.runs.policies import machine_at
from experiments.runs.simulate import ready_for
from experiments.site.grade.grade import Grading, from_eligible
from experiments.site.grade.report import CONDITIONS, report_on
from experiments.site.inventory.gaps import lacking_partitions
from experiments.site.inventory.inventory import Inventory, what_helps
from predictors.core.errors import counted
from predictors.core.files import refuse_unwritable
from predictors.data.slurm.folder import read_folder
from predictors.data.slurm.site import log_of, read_site
from predictors.data.summary import UNREAD
from schedsim.machine.outage_files import read_outages
from schedsim.machine.slurm_nodes import machine_of
from schedsim.sites.slurm.files import SlurmFiles


def grade(args: options.Grade) -> None:
    begin, workers = perf_counter(), Pool(**vars(args.pool))
    site = read_site(args.path)
    jobs, account = read(log_of(args.path, site))
    with after_reading(account):
        from_eligible(jobs)  # a log without waits is refused at once
        files = None if site.conf is None else SlurmFiles.of_site(site, args.path)
        has_nodes = args.procs is None and machine_of(site, str(args.path)) is not None
        nodes = machine_at(args.path) if has_nodes else None
        ready = ready_for(nodes, jobs, args.procs, drop_wide=True, reading=account, sites=(files,))
        outages = read_outages(args.path, 0, ready.used.epoch) if has_nodes and site.reservations else None
        lost = sum(account.count(rule) for rule in UNREAD)
        asked = Grading(ready, files, str(args.path), outages, lacking_partitions(site), lost)
        page_of = f"grade-{slug(site.name)}"
        refuse_report_folder(args.out, page_of)
        with resumable():
            found = asked.run(args.out / page_of, workers)
        folder = report_folder(args.out, page_of)
    with working("Drawing"):
        report = write_report(folder, report_on(found, what_helps(site)), begin)
    total, page = account + ready.account, folder / PAGE
    if args.as_json:
        more: dict[str, Any] = {"grade": found.grade, "page": str(page), "files": files_of(folder)}
        print_json(report.to_json() | more | {"account": total.to_dict()})
        return
    for sentence in report.verdict:
        say(f"{sentence}\n")
    for name in (CONDITIONS, "by group"):
        table = report.tables[name]
        if len(table):
            print_table(name[0].upper() + name[1:], list(table.columns), table.itertuples(index=False))
    print_account(total, listed=args.list_account)
    say(f"Every number: {page} ({report.seconds:.0f} s)")


def import_folder(args: options.Import) -> None:
    out = Path(f"{args.folder.resolve().name or 'site'}.site") if args.out is None else args.out
    refuse_unwritable(out)
    imported = read_folder(args.folder, out, read)
    found = Inventory.of(imported, out)
    imported.site.write(out)
    if args.as_json:
        account = {} if imported.account is None else {"account": imported.account.to_dict()}
        print_json({"site": str(out), **found.to_dict(), **account})
        return
    print_table(f"Files of {args.folder}", ("file", "what it is"), found.files())
    _print_machine(found)
    _print_people(found)
    if found.gaps:
        rows = [(one.setting, one.text, one.place) for one in found.gaps]
        print_table("Not simulated", ("setting", "what it does", "where"), rows)
    else:
        say("Not simulated: nothing of these files changes schedules and is left out.")
    for what, command in found.missing:
        say(f"Missing: {what}. Get it: {command}")
    if imported.account is not None:
        print_account(imported.account, listed=args.list_account)
    say(f"Wrote {out}. Next: jobcast simulate --site {out}")


def _print_machine(found: Inventory) -> None:
    nodes, partitions = found.nodes(), found.partitions()
    if nodes:
        rows = [
            (row["nodes"], row["count"], row["processors"], row["gpus"], row["memory_gb"], row["weight"],
             row["gpu_type"] or "-", ", ".join(row["features"]) or "-", ", ".join(row["partitions"]) or "all")
            for row in nodes
        ]  # fmt: skip
        columns = (
            "nodes",
            "number",
            "processors",
            "GPUs",
            "memory [GB]",
            "weight",
            "GPU type",
            "features",
            "partitions",
        )
        print_table("Nodes by kind", columns, rows)
    if partitions:
        heads = ("partition", "nodes", "processors", "longest run", "tier", "factor", "QOS")
        print_table("Partitions", heads, (tuple("-" if v is None else v for v in row.values()) for row in partitions))


def _print_people(found: Inventory) -> None:
    accounts, jobs, reservations = found.accounts(), found.jobs(), found.reservations()
    names = f" ({', '.join(accounts['qos'])})" if accounts["qos"] else ""
    say(
        f"{counted(accounts['users'], 'user')} in {counted(accounts['accounts'], 'account')}; {len(accounts['qos'])} "
        f"QOS{names}; {counted(len(reservations), 'reservation')}."
    )
    for one in reservations:
        say(f"  {one['reservation']}: {one['from']} to {one['until']} on {one['nodes'] or 'no node'}")
    if jobs is not None:
        dates = (
            f"from {jobs['from']} to {jobs['until']}" if jobs["from"] else f"in {jobs['days']:.1f} days without a date"
        )
        say(
            f"{counted(jobs['jobs'], 'job')} of {counted(jobs['users'], 'user')} {dates}; {jobs['with_waits']:,} have "
            f"waits, {jobs['ask_for_gpus']:,} ask for GPUs, {jobs['ask_for_features']:,} for features, "
            f"{jobs['exclusive']:,} for nodes of their own."
        )
