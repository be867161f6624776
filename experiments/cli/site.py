"""`jobcast site …`: the folder of a site under Slurm as one file."""

from pathlib import Path

from experiments.cli.options import site as options
from experiments.cli.reading import read
from experiments.console import print_account, print_json, print_table, say
from experiments.site.inventory.inventory import Inventory
from predictors.core.errors import counted
from predictors.core.files import refuse_unwritable
from predictors.data.slurm.folder import read_folder


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
        f"{accounts['users']:,} users in {counted(accounts['accounts'], 'account')}; {len(accounts['qos'])} "
        f"QOS{names}; {counted(len(reservations), 'reservation')}."
    )
    for one in reservations:
        say(f"  {one['reservation']}: {one['from']} to {one['until']} on {one['nodes'] or 'no node'}")
    if jobs is not None:
        dates = (
            f"from {jobs['from']} to {jobs['until']}" if jobs["from"] else f"in {jobs['days']:.1f} days without a date"
        )
        say(
            f"{counted(jobs['jobs'], 'job')} of {jobs['users']:,} users {dates}; {jobs['with_waits']:,} have waits, "
            f"{jobs['ask_for_gpus']:,} ask for GPUs, {jobs['ask_for_features']:,} for features, {jobs['exclusive']:,} "
            "for nodes of their own."
        )
