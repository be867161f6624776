"""Options of `jobcast probes …`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared

Toml = Annotated[Path, Argument(help="Which jobs, how often, by which scheduler: a TOML file.", metavar="TOML")]


class Control(shared.Printed):
    """Submit control jobs two to three times a day and add a row to the table of runs for each that ends.

    Ctrl-C loses nothing: jobs at Slurm or LSF go on, and the next call collects them.
    """

    toml: Toml
    once: Annotated[bool, Option("--once", help="Run each application now, wait, and leave.")] = False
    application: Annotated[list[str] | None, Option(help="With --once: only this one; repeatable.")] = None
    days: Annotated[float, Option(help="Stop after so many days.")] = float("inf")


class Collect(shared.Printed):
    """Add the rows of control jobs that have ended since, and submit none."""

    toml: Toml


class Last(shared.Accounted):
    """Show what the probes found last before an instant, and how old that is."""

    rows: Annotated[Path, Argument(help="Rows of probes: a .csv table or one .json.", metavar="ROWS")]
    as_of: Annotated[float | None, Option(help="Unix seconds; now if absent.")] = None
    oldest: Annotated[float, Option(help="Largest age in seconds.")] = float("inf")
