"""`jobcast site …`: the folder of a site under Slurm as one file, and how near its twin comes to its log."""

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

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
from experiments.site.inventory.gaps import has_partition, lacking_partitions
from experiments.site.inventory.inventory import inventory_of, what_helps
from predictors.core.errors import counted
from predictors.core.files import refuse_unwritable
from predictors.data.report import Finding, ReadingReport
from predictors.data.slurm.folder import read_folder
from predictors.data.slurm.site import log_of, read_site
from predictors.data.summary import UNREAD
from schedsim.machine.outage_files import read_outages
from schedsim.machine.slurm_nodes import machine_of
from schedsim.sites.slurm.files import SlurmFiles

NODES: Final = {
    "nodes": "nodes", "count": "number", "processors": "processors", "gpus": "GPUs", "memory_gb": "memory [GB]",
    "weight": "weight", "gpu_type": "GPU type", "features": "features", "partitions": "partitions",
}  # fmt: skip
PARTITIONS: Final = {
    "partition": "partition", "nodes": "nodes", "processors": "processors", "longest_run": "longest run",
    "tier": "tier", "factor": "factor", "qos": "QOS",
}  # fmt: skip


def grade(args: options.Grade) -> None:
    begin, workers = perf_counter(), Pool(**vars(args.pool))
    site = read_site(args.path)
    jobs, account = read(log_of(args.path, site))
    with after_reading(account):
        from_eligible(jobs)  # a log without waits is refused at once
        files = None if site.conf is None else SlurmFiles.of_site(site, args.path)
        has_nodes = args.procs is None and machine_of(site, str(args.path)) is not None
        nodes = machine_at(args.path) if has_nodes else None
        here = has_partition(site, jobs)
        if not here.all():
            text = "ran in partitions that the slurm.conf does not have any more"
            gone = Finding("removed-partition", "dropped", text, int((~here).sum()))
            account += ReadingReport(account.source, (gone,))
        ready = ready_for(nodes, jobs.select(here), args.procs, drop_wide=True, reading=account, sites=(files,))
        outages = read_outages(args.path, 0, ready.used.epoch) if has_nodes and site.reservations else None
        lost = sum(account.count(rule) for rule in UNREAD)
        asked = Grading(ready, files, str(args.path), outages, lacking_partitions(site), lost, jobs)
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
    found = inventory_of(imported, out)
    imported.site.write(out)
    if args.as_json:
        account = {} if imported.account is None else {"account": imported.account.to_dict()}
        print_json({"site": str(out), **found, **account})
        return
    _print_rows(found, "files", f"Files of {args.folder}", {"file": "file", "is": "what it is"})
    _print_rows(found, "nodes", "Nodes by kind", NODES)
    _print_rows(found, "partitions", "Partitions", PARTITIONS)
    _print_people(found)
    _print_rows(found, "not_simulated", "Not simulated",
                {"setting": "setting", "text": "what it does", "place": "where"})  # fmt: skip
    if not found["not_simulated"]:
        say("Not simulated: nothing of these files changes schedules and is left out.")
    for one in found["missing"]:
        say(f"Missing: {one['what']}. Get it: {one['command']}")
    if imported.account is not None:
        print_account(imported.account, listed=args.list_account)
    say(f"Wrote {out}. Next: jobcast simulate --site {out}")


def _print_rows(found: Mapping[str, Any], key: str, title: str, heads: Mapping[str, str]) -> None:
    """Print rows as a table, if there are any; what is not told is a dash."""
    cells = ([", ".join(v) if isinstance(v, list) else v for v in map(row.__getitem__, heads)] for row in found[key])
    if found[key]:
        print_table(title, list(heads.values()), (["-" if v in (None, "") else v for v in row] for row in cells))


def _print_people(found: Mapping[str, Any]) -> None:
    jobs, qos, reservations = found["jobs"], found["qos"], found["reservations"]
    names = f" ({', '.join(qos)})" if qos else ""
    say(
        f"{counted(found['users'], 'user')} in {counted(found['accounts'], 'account')}; {len(qos)} QOS{names}; "
        f"{counted(len(reservations), 'reservation')}."
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
