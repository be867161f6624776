"""Options of `jobcast site …`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared


class Grade(shared.Accounted):
    """Grade the twin of a site by the waits of its log.

    A: its figures may be used; B: differences may be used; C: directions alone; or it is refused, and why. Stopped and
    started again, it goes on where it was.
    """

    path: Annotated[Path, Argument(help="A site's file, by jobcast site import.", metavar="SITE")]
    procs: shared.Procs = None
    pool: shared.PoolOptions
    out: shared.Reports = shared.REPORTS


class Import(shared.Accounted):
    """Read the folder of a site under Slurm, and write it as one file for --site.

    It says what it understood, what is not simulated, and what is missing. Files are recognised by what they hold:
    slurm.conf with what it includes, gres.conf, topology.conf, sacctmgr's dump, tables and commands, `scontrol show
    node` and `show res`, and a job log.
    """

    folder: Annotated[Path, Argument(help="Folder with the site's files.", metavar="FOLDER")]
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="The file to write; default: the folder's name with .site.",
            writable=True,
            metavar="SITE",
        ),
    ] = None
