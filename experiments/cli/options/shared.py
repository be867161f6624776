"""Options that several commands have, and dataclasses as groups of options."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, cast, dataclass_transform

from typer import Argument, Option

from predictors.core.errors import JobcastError
from predictors.schedulers.soft_limit import LOOKS_EVERY


def names_in(module: str, registry: str) -> Callable[[str], list[str]]:
    """Return what completes a name of a registry, also the last one of several; the registry is loaded for that alone.

    >>> names_in("experiments.registry", "EXPERIMENTS")("reis,cei")
    ['reis,ceil']
    """

    def complete(incomplete: str) -> list[str]:
        head, comma, last = incomplete.rpartition(",")
        names = getattr(import_module(module), registry)
        return [f"{head}{comma}{name}" for name in names if name.startswith(last)]

    return complete


POLICIES: Final = names_in("schedsim.policies.policy", "POLICIES")
PREDICTORS: Final = names_in("predictors.registry", "PREDICTORS")
CORRECTIONS: Final = names_in("schedsim.kernels.corrections", "CORRECTIONS")
CLASSIFIERS: Final = names_in("predictors.variability.classifiers.registry", "CLASSIFIERS")

Log = Annotated[Path, Argument(help="A job log in any known format, recognised by its content.", metavar="LOG")]
LogOrSite = Annotated[
    Path,
    Argument(
        help="A job log in any known format, recognised by its content; without one that of --site.", metavar="LOG"
    ),
]
NO_LOG: Final = cast("Any", None)  # the log of --site stands in its place before a command begins
Site = Annotated[
    Path | None,
    Option(
        help="A site's file, by jobcast site import. It gives what is not named here: the log, Slurm's own order as "
        "the policy, nodes and what jobs ask of them.",
        metavar="SITE",
    ),
]
Ungraded = Annotated[
    bool, Option("--ungraded", help="Show figures though the site's grade is below B, or there is none.")
]
MOST_SEED: Final = 2**32 - 1  # the largest seed that every library takes
Seed = Annotated[int, Option(min=0, max=MOST_SEED, help="Seed of what is drawn by chance.")]
Alias = Annotated[str | None, Option(help="champion, challenger or shadow: taken from its holder.")]
EvenIfWorse = Annotated[
    bool, Option("--even-if-worse", help="Give the alias also to a model that does not beat last-two.")
]
Intervals = Annotated[bool, Option("--intervals", help="Also P10, P50 and P90 of each prediction.")]
Kill = Annotated[bool, Option("--kill", help="The site ends jobs at their request: P90 stays within it.")]
StopAtRequest = Annotated[
    bool, Option("--kill/--no-kill", help="Stop jobs at their requested time, or let them run on.")
]
Strict = Annotated[bool, Option("--strict", help="Refuse the first row that is not as it should be.")]
Model = Annotated[
    str, Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a folder.", metavar="MODEL")
]
Register = Annotated[str, Option(help="Name under which the model is kept.")]
Url = Annotated[str, Option("--url", help="The service's address.")]
SERVICE: Final = "http://127.0.0.1:8571"
DATABASE: Final = "sqlite:///jobcast-service.db"
BearerToken = Annotated[str | None, Option("--token", help="Bearer token of the service.", envvar="JOBCAST_TOKEN")]
KeyFile = Annotated[Path | None, Option(help="File with a secret key for the hashes of names.")]
Budget = Annotated[
    float | None, Option(help="Move predictions until this share of the jobs runs longer, such as 0.05.")
]
Reports = Annotated[
    Path, Option(help="Folder of reports; the command makes its own in it.", writable=True, file_okay=False)
]
REPORTS: Final = Path("reports")
Procs = Annotated[int | None, Option(help="Processors of the machine; by default as the log tells.")]
DropWide = Annotated[bool, Option("--drop-wide", help="Leave out jobs wider than the machine.")]
Partition = Annotated[
    str | None, Option(help="Only the jobs of this partition: its name, or its number in the log.", metavar="NAME")
]
MachineFile = Annotated[
    Path | None,
    Option(
        help="A TOML file with the machine's nodes: processors, GPUs and memory of each group, which jobs take "
        "together.",
        metavar="FILE",
    ),
]
RequestsFrom = Annotated[
    str | None,
    Option(
        help="Requested time of jobs of a log without any: the site's default (seconds, or 24:00:00), or run-time*2.",
        metavar="RULE",
    ),
]
SoftLimits = Annotated[
    str | None,
    Option(
        help="Soft limits as jobcast slurm sets them, by P90 of the estimates' predictor: slurm, slurm-23.11 (before "
        "25.05.4: running jobs by hard limits) or pbs; an expired one as that scheduler corrects it.",
        metavar="SCHEDULER",
    ),
]
RulesFile = Annotated[Path | None, Option("--rules", help="TOML file with the site's rules, its table soft_limits.")]


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """What every command takes; options of one command are a subclass, which is a dataclass as well."""

    quiet: Annotated[bool, Option("--quiet", "-q", help="Print results and errors alone.")] = False
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Say on standard error what is done, and how long it took.")
    ] = False

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        dataclass(frozen=True, kw_only=True)(cls)


class Printed(Options):
    """Options of commands that print tables or sentences for people, and one document for programs."""

    as_json: Annotated[bool, Option("--json", help="Print one JSON document.")] = False


class Accounted(Printed):
    """Options of commands that print what reading or cleaning dropped or changed."""

    list_account: Annotated[
        bool, Option("--account", help="List by rule what was dropped or changed; else one line tells how much.")
    ] = False


@dataclass(frozen=True)
class JobsOptions:
    """Options on which jobs of a log count, for a machine of which size."""

    procs: Procs = None
    partition: Partition = None
    drop_wide: DropWide = False
    requests_from: RequestsFrom = None


@dataclass(frozen=True)
class LooksOptions:
    """Options on the adapter that sets soft limits."""

    rules: RulesFile = None
    every: Annotated[
        int, Option(help="Seconds from one look of the adapter that sets soft limits to the next.", min=1)
    ] = LOOKS_EVERY


@dataclass(frozen=True)
class PoolOptions:
    """Options on workers."""

    workers: Annotated[
        int, Option(help="Worker processes or batch jobs. Results do not depend on the number.", min=1)
    ] = 1
    scheduler: Annotated[str | None, Option(help="Address of a running Dask scheduler: its workers do it.")] = None
    queue: Annotated[str | None, Option(help="Batch system that runs the workers: slurm or pbs.", metavar="SYSTEM")] = (
        None
    )
    memory: Annotated[str | None, Option(help="Most memory of a worker, such as 4GB.")] = None
    walltime: Annotated[str | None, Option(help="Requested time of a worker's job: 02:00:00.")] = None


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas.

    >>> names_of("last-two, forest,")
    ('last-two', 'forest')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, what: str) -> int:
    """Return a length of time such as 90d, 12h or 3600 in seconds.

    >>> seconds_of("30d", "--older-than"), seconds_of("3600", "--older-than")
    (2592000, 3600)
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if found is None:
        raise JobcastError(f"{what} is a length of time such as 30d, 12h or 3600 (seconds); got {text!r}.")
    return int(found[1]) * _UNITS[found[2] or "s"]
