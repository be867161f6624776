"""Options of `jobcast sweep`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared

NAMES = "Names, separated by commas."


class Sweep(shared.Printed):
    """Run logs x cases x seeds, and judge which case is certainly better, and who pays.

    What is done is kept in the folder of results: after a kill, the same command goes on there.
    """

    files: Annotated[
        list[Path], Argument(help="FILE.toml that declares it, or job logs; none: that of --site.", metavar="FILE…")
    ] = shared.NO_LOG
    site: shared.Site = None
    policies: Annotated[
        str | None,
        Option(
            autocompletion=shared.POLICIES,
            help="Names, separated by commas; slurm:FILE,FILE stands last, as all that follows it are its files.",
        ),
    ] = None
    estimates: Annotated[str | None, Option(autocompletion=shared.PREDICTORS, help=NAMES)] = None
    corrections: Annotated[str | None, Option(autocompletion=shared.CORRECTIONS, help=NAMES)] = None
    predictors: Annotated[
        str | None, Option(autocompletion=shared.PREDICTORS, help="To evaluate or train; names, separated by commas.")
    ] = None
    kind: Annotated[str | None, Option(help="simulate (default), evaluate or train.")] = None
    seeds: Annotated[int | None, Option(help="Shakes of each log (default 10), or seeds of predictors.", min=0)] = None
    procs: shared.Procs = None
    machine: shared.MachineFile = None
    drop_wide: shared.DropWide = False
    requests_from: shared.RequestsFrom = None
    budget: shared.Budget = None
    soft_limits: shared.SoftLimits = None
    train: Annotated[float | None, Option(help="Share of the jobs, the earliest, to learn from.")] = None
    by: Annotated[str | None, Option(help="Also figures by size, user, run-time or start.")] = None
    beside: Annotated[str | None, Option(help="Case that the others are compared with; else the first.")] = None
    measure: Annotated[str | None, Option(help="Figure that decides: mean_bounded_slowdown, sse_s2, …")] = None
    pool: shared.PoolOptions
    out: Annotated[
        Path | None, Option(help="Folder of results; the same sweep goes on in it.", writable=True, file_okay=False)
    ] = None
    track: Annotated[
        bool | None, Option("--track/--no-track", help="Write it down in MLflow; by default trainings alone.")
    ] = None
