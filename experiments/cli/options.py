"""Options that several commands share, and dataclasses as groups of options."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

if TYPE_CHECKING:
    from experiments.runs.clusters import Pool
    from predictors.tracking.describe import LoggedRun, Registered


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which each parameter that is a dataclass stands for its fields as options.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = 1
    >>> list(signature(grouped(lambda name, size: None)).parameters)
    ['name', 'size']
    >>> def draw(name: str, size: Size) -> None: ...
    >>> list(signature(grouped(draw)).parameters)
    ['name', 'width']
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and isinstance(kind, type)}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            of = get_type_hints(groups[name], include_extras=True)
            parameters += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=of[field.name])
                for field in fields(groups[name])
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def spread(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    spread.__name__, spread.__doc__, spread.__module__ = command.__name__, command.__doc__, command.__module__
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    spread.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return spread


Log = Annotated[Path, typer.Argument(help="A job log in any known format, recognised by its content.", metavar="LOG")]
MOST_SEED: Final = 2**32 - 1
"""The largest seed that every library takes."""
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of what is drawn by chance.")]
Alias = Annotated[str | None, typer.Option(help="champion, challenger or shadow: taken from its holder.")]
EvenIfWorse = Annotated[
    bool, typer.Option("--even-if-worse", help="Give the alias also to a model that does not beat last-two.")
]
Intervals = Annotated[bool, typer.Option("--intervals", help="Also P10, P50 and P90 of each prediction.")]
Kill = Annotated[bool, typer.Option("--kill", help="The site ends jobs at their request: P90 stays within it.")]
StopAtRequest = Annotated[
    bool, typer.Option("--kill/--no-kill", help="Stop jobs at their requested time, or let them run on.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ListAccount = Annotated[
    bool, typer.Option("--account", help="List by rule what was dropped or changed; else one line tells how much.")
]
Procs = Annotated[int | None, typer.Option(help="Processors of the machine; by default as the log tells.")]
DropWide = Annotated[bool, typer.Option("--drop-wide", help="Leave out jobs wider than the machine.")]
Partition = Annotated[
    str | None,
    typer.Option(help="Only the jobs of this partition: its name, or its number in the log.", metavar="NAME"),
]
MachineFile = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with the machine's nodes: processors, GPUs and memory of each group, which jobs take "
        "together.",
        metavar="FILE",
    ),
]
RequestsFrom = Annotated[
    str | None,
    typer.Option(
        help="Requested time of jobs of a log without any: the site's default (seconds, or 24:00:00), or run-time*2.",
        metavar="RULE",
    ),
]
SoftLimits = Annotated[
    str | None,
    typer.Option(
        help="Hold the estimates as a scheduler's soft limits: slurm (whole minutes), slurm-23.11 (before 25.05.4: "
        "running jobs by hard limits) or pbs; an expired one as that scheduler corrects it.",
        metavar="SCHEDULER",
    ),
]


@dataclass(frozen=True)
class JobsOptions:
    """Options on which jobs of a log count, for a machine of which size."""

    procs: Procs = None
    partition: Partition = None
    drop_wide: DropWide = False
    requests_from: RequestsFrom = None

    def __post_init__(self) -> None:
        """Refuse a rule for requested times that is none, before the log is read."""
        if self.requests_from is not None:
            from predictors.data.cleaning import RequestsFrom

            RequestsFrom(self.requests_from)


@dataclass(frozen=True)
class PoolOptions:
    """Options on workers."""

    workers: Annotated[
        int, typer.Option(help="Worker processes or batch jobs. Results do not depend on the number.", min=1)
    ] = 1
    scheduler: Annotated[str | None, typer.Option(help="Address of a running Dask scheduler: its workers do it.")] = (
        None
    )
    queue: Annotated[
        str | None, typer.Option(help="Batch system that runs the workers: slurm or pbs.", metavar="SYSTEM")
    ] = None
    memory: Annotated[str | None, typer.Option(help="Most memory of a worker, such as 4GB.")] = None
    walltime: Annotated[str | None, typer.Option(help="Requested time of a worker's job: 02:00:00.")] = None

    def built(self) -> "Pool":
        """Return the pool.

        Raises
        ------
        JobcastError
            If the options do not go together.
        """
        from experiments.runs.clusters import Pool

        return Pool(**vars(self))


@contextmanager
def resumable() -> Iterator[None]:
    """Say at Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("jobcast: stopped; the same command goes on where it was.", err=True)
        raise


def about_model(kept: "Registered", run: "LoggedRun") -> dict[str, Any]:
    """Return the part of `--json` on a model that was just kept."""
    names = {name: getattr(kept, name) for name in ("uri", "name", "version", "alias")}
    return names | {"run_id": run.run_id, "sha256": run.sha256}
