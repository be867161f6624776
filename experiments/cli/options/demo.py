"""Options of `jobcast demo`."""

from typing import Annotated

from typer import Option

from experiments.cli.options import shared


class Demo(shared.Options):
    """Make a log, compare predictors, train and register one, simulate what a scheduler gains; needs no network."""

    out: shared.Reports = shared.REPORTS
    jobs: Annotated[int, Option(help="Jobs in the synthetic log.", min=100, max=20_000_000)] = 10_000
    seed: shared.Seed = 0
