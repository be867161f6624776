"""`jobcast check`."""

from typing import Annotated

import typer

from experiments.cli.options import Json
from experiments.console import print_json, print_table


def check(
    package: Annotated[
        str, typer.Argument(help="An installed package, by the name that pip lists.", metavar="PACKAGE")
    ],
    as_json: Json = False,
) -> None:
    """Check the predictors, policies and orders that an installed package adds.

    They must pass what jobcast's own pass: the contract, the laws of a schedule, and that nothing looks ahead. If a
    check fails, the table shows its first counterexample, and the status is 1.
    """
    from experiments.package_checks import check_package

    rows = list(check_package(package))
    if as_json:
        print_json({"package": package, "checks": [row._asdict() for row in rows]})
    else:
        found = [(name, what, "passed" if bad is None else f"failed: {bad}") for name, what, bad in rows]
        print_table(f"Checks of {package}", ("name", "check", "result"), found)
    if any(bad is not None for _, _, bad in rows):
        raise typer.Exit(1)
