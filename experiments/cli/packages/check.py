"""`jobcast check`."""

import typer

from experiments.cli.options import packages as options
from experiments.console import print_json, print_table
from experiments.package_checks import check_package


def check(args: options.Check) -> None:
    rows = list(check_package(args.package))
    if args.as_json:
        print_json({"package": args.package, "checks": [row._asdict() for row in rows]})
    else:
        found = [(name, what, "passed" if bad is None else f"failed: {bad}") for name, what, bad in rows]
        print_table(f"Checks of {args.package}", ("name", "check", "result"), found)
    if any(bad is not None for _, _, bad in rows):
        raise typer.Exit(1)
