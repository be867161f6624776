"""Options of `jobcast log …`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared

Out = Annotated[
    Path, Argument(help="File to write; its name ends in .swf, .swf.gz or .parquet.", metavar="OUT", writable=True)
]


class Reading(shared.Printed):
    """Options of commands that read the rows of a log."""

    strict: shared.Strict = False
    time_zone: Annotated[
        str | None, Option(help="Zone of the local times that the log writes, such as America/Chicago.", metavar="ZONE")
    ] = None


class Info(Reading):
    """Show what is in a job log, and what of it could not be used."""

    log: shared.Log


class Convert(Reading, shared.Accounted):
    """Write a job log in another format: SWF (.swf, .swf.gz) or Parquet (.parquet), by the name of OUT."""

    log: shared.Log
    out: Out
    begin: Annotated[
        str, Option("--from", help="Only jobs submitted from then on; a date, or Unix time.", metavar="WHEN")
    ] = ""
    until: Annotated[
        str, Option(help="The log as it stood then: later submissions, starts and ends left out.", metavar="WHEN")
    ] = ""
    name_key: Annotated[
        Path | None, Option(help="File with a secret key: keyed hashes stand for the names of people and programs.")
    ] = None
    jobs_of: shared.JobsOptions


class Import(Reading, shared.Accounted):
    """Read a table of jobs in any columns by a map, and write it as a job log; --propose makes the map.

    Units that contradict one another are refused, with the unit that would fit. The map travels in the log's header.
    """

    file: Annotated[Path, Argument(help="Table of jobs: CSV with any delimiter, or Parquet.", metavar="FILE")]
    out: Annotated[
        Path | None,
        Argument(
            help="File to write, .parquet, .swf or .swf.gz; without it the table is read and nothing written.",
            metavar="[OUT]",
            writable=True,
        ),
    ] = None
    table_map: Annotated[
        Path | None, Option("--map", help="TOML that says which column is what.", metavar="MAP.toml")
    ] = None
    propose: Annotated[bool, Option("--propose", help="Print a map made by looking at the table, to be confirmed.")] = (
        False
    )


class Anonymise(Reading, shared.Accounted):
    """Write a job log without names: keyed hashes for names, shifted dates, new numbers.

    Hashes of stems stay, so similar names can still be recognised; the documentation says what else can be inferred.
    """

    log: shared.Log
    out: Out
    name_key: Annotated[Path, Option(help="File with a secret key of 16 to 64 bytes, for you alone.")]


class Join(Reading, shared.Accounted):
    """Write one log from several of the same machine: joined by name, no job counted twice."""

    out: Out
    logs: Annotated[list[Path], Argument(help="Job logs of one machine, such as months.", metavar="LOG...")]


class Generate(shared.Accounted):
    """Make a seeded synthetic job log after Lublin & Feitelson (2003), with users who repeat themselves."""

    out: Out
    jobs: Annotated[int, Option(help="Number of jobs.")] = 5000
    seed: shared.Seed = 0
    procs: Annotated[int, Option(help="Processors of the machine.")] = 256
    load: Annotated[float, Option(help="Offered load, a share of the machine.")] = 0.85
    users: Annotated[int, Option(help="Number of users.")] = 64


class Fetch(shared.Printed):
    """Download a log of the Parallel Workloads Archive; without NAME, list the names.

    The file is kept in JOBCAST_HOME/logs, or in the user's cache folder, and checked against its first download.
    """

    name: Annotated[
        str,
        Argument(
            help="Name of the log, or enough of its beginning.",
            metavar="[NAME]",
            autocompletion=shared.names_in("predictors.data.formats.archive", "ARCHIVE"),
        ),
    ] = ""
    base_url: Annotated[str, Option(help="The archive or a mirror of it.", metavar="URL")] = ""
