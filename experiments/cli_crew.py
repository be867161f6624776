"""Who works, on the command line: the options of all commands that do many runs, and what they say when stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

Workers = Annotated[
    int, typer.Option(help="Processes, or jobs of a batch system; what comes out does not depend on it.", min=1)
]
Scheduler = Annotated[str | None, typer.Option(help="Address of a running Dask scheduler: its workers do it.")]
Queue = Annotated[str | None, typer.Option(help="Ask this batch system for the workers: slurm or pbs.")]
Memory = Annotated[str | None, typer.Option(help="Most memory of a worker, such as 4GB.")]
Walltime = Annotated[str | None, typer.Option(help="Requested time of a worker's job: 02:00:00.")]


@contextmanager
def resumable() -> Iterator[None]:
    """Tell who stops the block by Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("jobcast: stopped; the same command goes on where it was.", err=True)
        raise
