"""Options of `jobcast check`."""

from typing import Annotated

from typer import Argument

from experiments.cli.options import shared


class Check(shared.Printed):
    """Check the predictors, policies and orders that an installed package adds.

    They must pass what jobcast's own pass: the contract, the laws of a schedule, and that nothing looks ahead. If a
    check fails, the table shows its first counterexample, and the status is 1.
    """

    package: Annotated[str, Argument(help="An installed package, by the name that pip lists.", metavar="PACKAGE")]
