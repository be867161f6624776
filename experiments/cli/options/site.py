"""Options of `jobcast site …`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import live, shared


class Grade(shared.Accounted):
    """Grade the twin of a site by the waits of its log.

    A: its figures may be used; B: differences may be used; C: directions alone; or it is refused, and why. Stopped and
    started again, it goes on where it was.
    """

    path: Annotated[Path, Argument(help="A site's file, by jobcast site import.", metavar="SITE")]
    procs: shared.Procs = None
    pool: shared.PoolOptions
    out: shared.Reports = shared.REPORTS


class Whatif(shared.Accounted):
    """Say who would wait shorter or longer if a site's settings, nodes or policy were others.

    The log is simulated as the site is and changed, over the same shakes; a difference is shown where the twin can tell
    it from chance. With --target, `?` in --nodes stands for the smallest number that meets it.
    """

    path: Annotated[Path, Argument(help="A site's file, by jobcast site import.", metavar="SITE")]
    sets: Annotated[
        list[str] | None,
        Option(
            "--set",
            help="A setting: a parameter of slurm.conf or option of SchedulerParameters (bf_interval=60, yes or no for "
            "flags), PARTITION.Key=…, or QOS:NAME.key=…, ACCOUNT:… and USER:….",
            metavar="NAME=VALUE",
        ),
    ] = None
    nodes: Annotated[
        list[str] | None,
        Option(help="More or fewer nodes: +8, KIND+8, KIND-4; KIND is one of them.", metavar="KIND+N"),
    ] = None
    drain: Annotated[
        list[str] | None,
        Option(help='Maintenance: "n[01-04] 2027-01-10..12" (whole days, UTC).', metavar='"HOSTS FROM..UNTIL"'),
    ] = None
    policy: Annotated[
        str | None, Option(autocompletion=shared.POLICIES, help="Another policy in the place of Slurm's own order.")
    ] = None
    estimates: Annotated[str | None, Option(help="What is planned by: requested, or a predictor's name.")] = None
    soft_limits: shared.SoftLimits = None
    target: Annotated[
        str | None,
        Option(help="Search the smallest number that meets it: mean_wait=2h or p95_wait=4h.", metavar="FIGURE=TIME"),
    ] = None
    shakes: Annotated[int, Option(help="Shakes of the submissions and of the backfill clock.", min=5, max=1000)] = 10
    ungraded: shared.Ungraded = False
    procs: shared.Procs = None
    pool: shared.PoolOptions
    out: shared.Reports = shared.REPORTS


class Start(shared.Printed):
    """Forecast when jobs start on a site now: in each partition that they may use, and if they asked for less time.

    Processors of a partition are planned, as jobcast start does: nodes, GPUs and memory are checked, not placed, and
    priorities and later jobs are not foreseen.
    """

    path: Annotated[Path, Argument(help="A site's file, by jobcast site import.", metavar="SITE")]
    jobs: Annotated[list[str] | None, Argument(help="Jobs that wait, 123 or 123_4.", metavar="JOB")] = None
    shape: Annotated[
        str | None,
        Option("--if", help='A job that is not submitted: "2 nodes, 4 GPUs each, 3 h".', metavar="SHAPE"),
    ] = None
    user: Annotated[str, Option(help="Whose job --if is: run times are drawn from what its user needed.")] = ""
    queue: live.Queue = None


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
